//! What the kernel counts for each task, read at both ends of a recording while events are written.
//!
//! The counters tell whether the recorded switches are complete (`schedlab trace check`). Only tasks that ran are kept.

use super::groups::Groups;
use super::queued::Queued;
use super::spool::Seen;
use schedlab_model::{AtStart, Counted, Nanos, Pid};
use schedlab_sys::taskstats::{Stats, Taskstats};
use schedlab_sys::{clock, process};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read as _;

/// A reading of a task's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Read {
    at: Nanos,
    ran: Nanos,
    waited: Nanos,
    arrivals: u64,
}

/// The counters of all tasks, and of groups with a quota, at the beginning.
#[derive(Default)]
pub(crate) struct Counters {
    tasks: BTreeMap<Pid, Read>,
    limited: Option<Groups>,
    groups: Vec<Seen>,
    at_start: AtStart,
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "counters of {} tasks", self.tasks.len())
    }
}

/// What the kernel counted while events were written.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Grown {
    pub(crate) tasks: Vec<Counted>,
    /// Counters of groups with a quota, at the beginning and at the end.
    pub(crate) groups: Vec<Seen>,
    /// Who waited when events began to be written.
    pub(crate) at_start: AtStart,
}

impl Counters {
    /// Once events are written, with what was queued before; nothing without that.
    pub(crate) fn at_begin(queued: Option<&Queued>) -> Self {
        queued
            .map_or_else(Self::default, |queued| Self { at_start: queued.still(), ..Self::read() })
    }

    /// Of all tasks now.
    fn read() -> Self {
        let mut limited = Groups::here();
        let groups = limited.as_mut().map(Groups::count_limited).unwrap_or_default();
        Self { tasks: tasks(), limited, groups, at_start: AtStart::default() }
    }

    /// What grew since; empty where nothing was read.
    pub(crate) fn growth(mut self) -> Grown {
        if self.tasks.is_empty() {
            return Grown::default();
        }
        let mut groups = self.groups;
        groups.extend(self.limited.as_mut().map(Groups::count_limited).unwrap_or_default());
        let grown = |(pid, end)| grown(pid, self.tasks.get(&pid), end);
        Grown {
            tasks: tasks().into_iter().filter_map(grown).collect(),
            groups,
            at_start: self.at_start,
        }
    }
}

/// The counters of all tasks now.
fn tasks() -> BTreeMap<Pid, Read> {
    let pids = process::tasks();
    let mut found = BTreeMap::new();
    let told = Taskstats::open().and_then(|mut all| {
        all.of(&pids, &mut |pid, Stats { ran, waited, arrivals, .. }| {
            found.insert(pid, Read { at: clock::monotonic(), ran, waited, arrivals });
        })
    });
    match told {
        Ok(()) => found,
        Err(_) => pids.into_iter().filter_map(|pid| Some((pid, of(pid)?))).collect(),
    }
}

/// What a task's counters grew by; `None` if it did not run. A smaller number is another task's.
fn grown(pid: Pid, begin: Option<&Read>, end: Read) -> Option<Counted> {
    let begin = begin.filter(|begin| begin.arrivals <= end.arrivals && begin.ran <= end.ran);
    let from = begin.map(|begin| begin.at);
    let (ran, waited, arrivals) =
        begin.map_or((Nanos::ZERO, Nanos::ZERO, 0), |it| (it.ran, it.waited, it.arrivals));
    let grown = Counted {
        pid,
        from,
        to: end.at,
        ran: end.ran - ran,
        waited: end.waited - waited,
        arrivals: end.arrivals - arrivals,
    };
    (grown.ran > Nanos::ZERO || grown.arrivals > 0).then_some(grown)
}

fn of(pid: Pid) -> Option<Read> {
    let mut text = [0; 96];
    let mut file = std::fs::File::open(format!("/proc/{pid}/schedstat")).ok()?;
    let length = file.read(&mut text).ok()?;
    parsed(std::str::from_utf8(&text[..length]).ok()?)
}

/// Time on the CPU, time in which it waited for one, and how often it came to run.
fn parsed(text: &str) -> Option<Read> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let ran = Nanos(next()?);
    let waited = Nanos(next()?);
    let arrivals = next()?;
    Some(Read { at: clock::monotonic(), ran, waited, arrivals })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_and_those_of_a_new_task_began_at_zero() {
        let read = |at, ran, waited, arrivals| Read {
            at: Nanos(at),
            ran: Nanos(ran),
            waited: Nanos(waited),
            arrivals,
        };
        let end = read(90, 50, 7, 4);
        let all = grown(Pid(1), Some(&read(10, 20, 3, 1)), end).unwrap();
        let told = (all.from, all.to, all.ran, all.waited, all.arrivals);
        assert_eq!(told, (Some(Nanos(10)), Nanos(90), Nanos(30), Nanos(4), 3));
        let new = grown(Pid(1), None, end).unwrap();
        assert_eq!((new.from, new.ran, new.arrivals), (None, Nanos(50), 4));
        let reused = grown(Pid(1), Some(&read(10, 60, 3, 9)), end).unwrap();
        assert_eq!((reused.from, reused.ran), (None, Nanos(50)));
        assert_eq!(grown(Pid(1), Some(&end), end), None, "it slept");
        assert_eq!(parsed("1 2\n"), None);
    }

    #[test]
    fn the_counters_of_a_task_that_ran_are_kept() {
        let begin = Counters::read();
        let until = clock::monotonic() + Nanos::from_millis(20);
        while clock::monotonic() < until {
            std::hint::spin_loop();
        }
        let own = schedlab_sys::process::thread_id();
        let found = begin.growth().tasks.into_iter().find(|one| one.pid == own);
        let found = found.expect("this thread ran");
        assert!(found.from.is_some() && found.ran > Nanos::ZERO, "{found:?}");
    }
}
