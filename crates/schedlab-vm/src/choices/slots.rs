//! The names of the load's tasks.

use super::Slot;
use schedlab_model::{Event, Pid, What};
use std::collections::BTreeMap;

/// The names of the load's tasks.
pub(super) struct Slots {
    pub(super) names: BTreeMap<Pid, Slot>,
    /// Index of the first event after the last slot was forked.
    pub(super) complete: usize,
}

impl Slots {
    pub(super) fn of(events: &[Event]) -> Self {
        let forks = events.iter().enumerate().filter_map(|(index, event)| match event.what {
            What::Fork { child } => Some((index, event.by, child)),
            _ => None,
        });
        let forks: Vec<(usize, Pid, Pid)> = forks.collect();
        let mut counts: BTreeMap<Pid, usize> = BTreeMap::new();
        forks.iter().for_each(|(_, parent, _)| *counts.entry(*parent).or_default() += 1);
        // Process 2 forks kernel threads. Who forks most of the rest is the load; the first of equals.
        let most = counts.iter().filter(|(pid, _)| pid.0 != 2).map(|(_, count)| *count).max();
        let is_load = |parent: &Pid| parent.0 != 2 && counts.get(parent).copied() == most;
        let load = forks.iter().map(|(_, parent, _)| *parent).find(is_load);
        let mut names: BTreeMap<Pid, Slot> =
            load.map(|pid| (pid, "load".into())).into_iter().collect();
        let mut children: BTreeMap<Pid, usize> = BTreeMap::new();
        let mut complete = 0;
        for (index, parent, child) in forks {
            let Some(above) = names.get(&parent) else { continue };
            let number = children.entry(parent).or_default();
            let name = match Some(parent) == load {
                true => number.to_string(),
                false => format!("{above}.{number}"),
            };
            *number += 1;
            if Some(parent) == load {
                complete = index + 1;
            }
            names.insert(child, name);
        }
        Self { names, complete }
    }
}
