//! What held on a machine while a trace was recorded and what its events do not say: knobs, tick, preemption, and how each
//! task was scheduled.

use crate::{Nanos, Pid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What held when a recording began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Scheduler knobs by the names of [`crate::Knob`], in the kernel's numbers; those that could be read.
    pub knobs: BTreeMap<String, String>,
    /// The number of ticks in a second; `None` if it could not be found out.
    pub hz: Option<u64>,
    /// The preemption model in force: `none`, `voluntary`, `full` or `lazy`.
    pub preempt: Option<String>,
    /// How tasks were scheduled, ascending by pid then time.
    pub tasks: Vec<Scheduled>,
}

/// How a task was scheduled from a time on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Scheduled {
    /// The task that this is about.
    pub pid: Pid,
    /// When this was read; zero if it held before the first look.
    pub at: Nanos,
    /// Its policy: `normal`, `batch`, `idle`, `ext`, `fifo:N`, `rr:N` or `deadline`.
    pub policy: String,
    /// Its nice value; 0 for tasks of other classes.
    pub nice: i32,
    /// Its slice, as `sched_getattr` tells it (since Linux 6.12); `None` if the kernel has no such thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Nanos>,
    /// The group that autogroup gives to its session; `None` if the kernel has no autogroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autogroup: Option<u64>,
    /// Its session; `None` if that could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Pid>,
}

impl Scheduled {
    /// A task whose policy is `SCHED_IDLE`, of which nothing else is known.
    #[must_use]
    pub fn idle(pid: Pid) -> Self {
        let policy = "idle".to_owned();
        Self { pid, at: Nanos::ZERO, policy, nice: 0, slice: None, autogroup: None, session: None }
    }
}

impl Conditions {
    /// What was read of a task last before or at a time; what was read first if that was later.
    #[must_use]
    pub fn of(&self, pid: Pid, at: Nanos) -> Option<&Scheduled> {
        let first = self.tasks.partition_point(|one| one.pid < pid);
        let own = self.tasks[first..].iter().take_while(|one| one.pid == pid);
        let mut found = None;
        for one in own {
            if found.is_none() || one.at <= at {
                found = Some(one);
            }
        }
        found
    }

    /// The slice of tasks that ask for none: the knob, or else the one that most tasks have.
    #[must_use]
    pub fn base_slice(&self) -> Option<Nanos> {
        if let Some(knob) = self.knobs.get("base_slice").and_then(|text| text.parse().ok()) {
            return Some(Nanos(knob));
        }
        let mut counts = BTreeMap::<Nanos, u64>::new();
        for slice in self.tasks.iter().filter_map(|one| one.slice) {
            *counts.entry(slice).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(slice, count)| (*count, *slice)).map(|(slice, _)| slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(pid: i32, at: u64, nice: i32, slice: Option<u64>) -> Scheduled {
        let autogroup = None;
        let session = None;
        let slice = slice.map(Nanos);
        Scheduled {
            pid: Pid(pid),
            at: Nanos(at),
            policy: "normal".to_owned(),
            nice,
            slice,
            autogroup,
            session,
        }
    }

    #[test]
    fn a_task_has_what_was_read_of_it_last() {
        let tasks = vec![task(3, 0, 0, None), task(5, 10, 1, None), task(5, 20, 2, None)];
        let all = Conditions { tasks, ..Conditions::default() };
        let nice = |pid, at| all.of(Pid(pid), Nanos(at)).map(|one| one.nice);
        assert_eq!([nice(5, 5), nice(5, 10), nice(5, 19), nice(5, 99)], [1, 1, 1, 2].map(Some));
        assert_eq!(nice(4, 99), None);
    }

    #[test]
    fn the_base_slice_is_the_knob_or_that_of_most_tasks() {
        let tasks = vec![task(1, 0, 0, Some(7)), task(2, 0, 0, Some(3)), task(3, 0, 0, Some(3))];
        let mut all = Conditions { tasks, ..Conditions::default() };
        assert_eq!(all.base_slice(), Some(Nanos(3)));
        all.knobs.insert("base_slice".to_owned(), "9".to_owned());
        assert_eq!(all.base_slice(), Some(Nanos(9)));
        assert_eq!(Conditions::default().base_slice(), None);
    }
}
