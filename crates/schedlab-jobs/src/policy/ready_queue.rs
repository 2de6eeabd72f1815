//! Where jobs wait for their turn: compulsory ones in a line of their own, which goes first.

use super::ordered_queue::Ordered;
use super::record::{Criticality, JobId, Records};
use super::{Nanos, Order, Policy};

/// Jobs by start, and those that are due by the rule. Under [`Order::Start`] the first holds all.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) future: Ordered,
    pub(super) ready: Ordered,
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.future.len() + self.ready.len()
    }

    /// Moves what has become due to where the rule orders it.
    pub(super) fn ripen<J>(&mut self, policy: &Policy, records: &Records<J>, now: Nanos) {
        while self.future.head().is_some_and(|(start, _)| start <= now) {
            let Some((_, id)) = self.future.pop() else { break };
            if let Some(record) = records.get(id) {
                self.ready.push(record.key(policy.order), id);
            }
        }
    }

    /// Start of the earliest job. One that is due and sorted by another rule counts as due now.
    pub(super) fn head(&self, now: Nanos) -> Option<Nanos> {
        let future = self.future.head().map(|(start, _)| start);
        if self.ready.len() > 0 { Some(future.map_or(now, |start| start.min(now))) } else { future }
    }

    /// Takes the first that is due.
    pub(super) fn pop(&mut self, order: Order, now: Nanos) -> Option<JobId> {
        if order == Order::Start {
            self.future.head().filter(|&(start, _)| start <= now)?;
            return self.future.pop().map(|(_, id)| id);
        }
        self.ready.pop().map(|(_, id)| id)
    }

    /// How many are due, or more.
    pub(super) fn due(&self, order: Order) -> usize {
        if order == Order::Start { self.future.len() } else { self.ready.len() }
    }
}

/// The two lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) compulsory: Line,
    pub(super) others: Line,
}

impl Lines {
    pub(super) fn of(&mut self, criticality: Criticality) -> &mut Line {
        match criticality {
            Criticality::Compulsory => &mut self.compulsory,
            Criticality::Normal | Criticality::Optional => &mut self.others,
        }
    }
}
