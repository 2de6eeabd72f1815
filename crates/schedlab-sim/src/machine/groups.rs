//! Which control groups a load's tasks are in, and what the groups may use.

use super::name::Model;
use crate::policy::{Group, Limit};
use schedlab_workload::plan::Plan;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Grouping {
    pub(super) groups: Vec<Group>,
    /// By task of the plan.
    pub(super) of: Vec<Option<usize>>,
    /// That of the task that starts the others.
    pub(super) starter: Option<usize>,
}

/// What settings say about the load's own group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnGroup {
    /// The weight of the group (`cgroup_weight`).
    pub(super) weight: Option<u32>,
    /// `cgroup_max`: the quota of each 100 ms.
    pub(super) quota: Option<u64>,
    /// The burst of the group in microseconds (`cgroup_burst`).
    pub(super) burst: u64,
}

/// The period of limits.
const PERIOD: u64 = 100_000_000;

/// Shares of a weight (`sched_weight_from_cgroup`).
fn shares(weight: u32) -> u64 {
    (u64::from(weight) * 1_024 + 50) / 100
}

impl Grouping {
    /// Of a plan whose load has a group of its own, if settings say something about it.
    pub(super) fn of(plan: &Plan, own: &OwnGroup, model: &Model) -> Self {
        let mut all = Self::default();
        let limit = |quota| Limit { quota, period: PERIOD, burst: own.burst, phase: 0 };
        let limit = own.quota.map(limit);
        let load = (limit.is_some() || own.weight.is_some())
            .then(|| all.add("load", None, own.weight.map_or(1_024, shares), limit));
        let session = model.autogroup.then(|| all.add("autogroup", None, 1_024, None));
        all.starter = load.or(session);
        for task in &plan.tasks {
            let place = &task.placement;
            let group = match &place.cgroup {
                Some(path) => Some(all.path(path, load, place.weight)),
                None => load.or(session),
            };
            all.of.push(group);
        }
        all
    }

    fn add(
        &mut self,
        name: &str,
        parent: Option<usize>,
        shares: u64,
        limit: Option<Limit>,
    ) -> usize {
        self.groups.push(Group { name: name.to_owned(), parent, shares, limit });
        self.groups.len() - 1
    }

    /// The group of a path; those that are not there yet are made with the usual weight. `@NAME` is in the load's group.
    fn path(&mut self, path: &str, load: Option<usize>, weight: Option<u32>) -> usize {
        let (mut parent, parts) = match path.strip_prefix('@') {
            Some(_) => (load, path),
            None => (None, path.trim_matches('/')),
        };
        let mut name = parent.map_or(String::new(), |at| self.groups[at].name.clone());
        for part in parts.split('/') {
            name = if name.is_empty() { part.to_owned() } else { format!("{name}/{part}") };
            let known = self.groups.iter().position(|group| group.name == name);
            parent = Some(known.unwrap_or_else(|| self.add(&name, parent, 1_024, None)));
        }
        let last = parent.unwrap_or(0);
        if let Some(weight) = weight {
            self.groups[last].shares = shares(weight);
        }
        last
    }
}
