//! The first decision that two traces of one load do not share.
//!
//! Switches are compared CPU by CPU, wakeups and moves task by task, and times not at all: two CPUs that decide at nearly
//! the same time may do so in either order.

use schedlab_model::{Cpu, Event, Left, Nanos, Pid, What};
use std::collections::BTreeMap;

/// What a scheduler decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A CPU switches from one task to another.
    Switch {
        /// The task that ran.
        prev: Pid,
        /// Why it left the CPU.
        left: Left,
        /// The task that runs from now on.
        next: Pid,
    },
    /// A woken task is put on a CPU.
    Wakeup {
        /// The woken task.
        pid: Pid,
    },
    /// A task is moved to another CPU.
    Move {
        /// The task that is moved.
        pid: Pid,
        /// The CPU that it comes from.
        from: Cpu,
    },
}

/// A decision in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decided {
    /// When.
    pub at: Nanos,
    /// The CPU that switches, or on which the task is put.
    pub cpu: Cpu,
    /// A switch, a wakeup or a move, without its time and CPU.
    pub decision: Decision,
    /// The task that ran on that CPU; `None` before its first switch.
    pub current: Option<Pid>,
}

impl Decided {
    fn is_same(&self, other: &Self) -> bool {
        (self.cpu, self.decision) == (other.cpu, other.decision)
    }
}

/// The first step that differs: that of each side, `None` where a side has no more there. Both are `None` if all are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FirstDifference<S = Decided> {
    /// How many steps of the first side come before the difference.
    pub equal: usize,
    /// What the first side did.
    pub before: Option<S>,
    /// What the second side did.
    pub after: Option<S>,
}

impl<S: Copy> FirstDifference<S> {
    /// Compares the steps of two runs line by line, such as those of each CPU. Of the first differences of all lines the
    /// earliest counts, and at one time that of the first line.
    pub fn of<L: Ord + Copy>(
        [before, after]: [&[(L, S)]; 2],
        is_same: impl Fn(&S, &S) -> bool,
        at: impl Fn(&S) -> Nanos,
    ) -> Self {
        let mut lines: BTreeMap<L, [Vec<S>; 2]> = BTreeMap::new();
        for (side, all) in [before, after].into_iter().enumerate() {
            all.iter().for_each(|(line, one)| lines.entry(*line).or_default()[side].push(*one));
        }
        let when = |found: &Self| found.before.iter().chain(&found.after).map(&at).min();
        let of_line = |[one, other]: &[Vec<S>; 2]| {
            let same = one.iter().zip(other).take_while(|(a, b)| is_same(a, b)).count();
            let before = one.get(same).copied();
            let after = other.get(same).copied();
            Self { equal: 0, before, after }
        };
        let differ = lines.values().map(of_line).filter(|found| when(found).is_some());
        let first = differ.min_by_key(when);
        let first = first.unwrap_or(Self { equal: 0, before: None, after: None });
        let is_before = |one: &S| when(&first).is_none_or(|time| at(one) < time);
        let equal = before.iter().filter(|(_, one)| is_before(one)).count();
        Self { equal, ..first }
    }
}

/// Decisions that follow each other on both sides: what happens to a task, or the switches of a CPU. Of two at one time,
/// where a task goes is the cause of the switch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Task(Pid),
    Cpu(Cpu),
}

/// All decisions of a trace, in order.
fn decisions(events: &[Event]) -> Vec<(Line, Decided)> {
    let mut running: BTreeMap<Cpu, Pid> = BTreeMap::new();
    let mut all = Vec::new();
    for event in events {
        let (line, cpu, decision) = match event.what {
            What::Switch { prev, left, next, .. } => {
                (Line::Cpu(event.cpu), event.cpu, Decision::Switch { prev, left, next })
            }
            What::Wakeup { pid, cpu, .. } => (Line::Task(pid), cpu, Decision::Wakeup { pid }),
            What::Migrate { pid, from, to } => (Line::Task(pid), to, Decision::Move { pid, from }),
            _ => continue,
        };
        let current = running.get(&cpu).copied();
        all.push((line, Decided { at: event.time, cpu, decision, current }));
        if let Decision::Switch { next, .. } = decision {
            running.insert(cpu, next);
        }
    }
    all
}

/// The first decision that two traces do not share.
#[must_use]
pub fn first_difference(before: &[Event], after: &[Event]) -> FirstDifference {
    let [before, after] = [before, after].map(decisions);
    FirstDifference::of([&before, &after], Decided::is_same, |decided| decided.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notation;

    fn events(text: &str) -> Vec<Event> {
        notation::parse(text).unwrap().events
    }

    #[test]
    fn traces_with_other_times_and_the_same_decisions_are_equal() {
        // CPU 1 decides before CPU 0 on one side, and after it on the other.
        let before = events("0 | .AABB....\n1 | .CCC.CC..");
        let after = events("0 | .AAABBB..\n1 | .CC...CC.");
        let found = first_difference(&before, &after);
        assert_eq!((found.before, found.after), (None, None));
    }

    #[test]
    fn the_first_switch_that_differs_is_found_with_who_ran() {
        let before = events("0 | .AAAABB..\n  |    bb\n1 | ...CCCC..");
        let after = events("0 | .AABBAA..\n  |    aa\n1 | ...CCCC..");
        let found = first_difference(&before, &after);
        let [first, second] = [found.before.unwrap(), found.after.unwrap()];
        assert_eq!((first.at, second.at), (Nanos(5_000), Nanos(3_000)));
        assert_eq!((first.current, second.current), (Some(Pid(1)), Some(Pid(1))));
        let switch = |left| Decision::Switch { prev: Pid(1), left, next: Pid(2) };
        assert_eq!(first.decision, switch(Left::Slept));
        assert_eq!(second.decision, switch(Left::Preempted));
        // What CPU 1 does at the same time may come before or after.
        assert!(found.equal <= 4, "{}", found.equal);
    }

    #[test]
    fn a_task_that_goes_to_another_cpu_differs() {
        let before = events("0 | .AA..AA..\n1 | .CCCC....");
        let after = events("0 | .AA......\n1 | .CCCCAA..");
        let found = first_difference(&before, &after);
        let [first, second] = [found.before.unwrap(), found.after.unwrap()];
        assert_eq!((first.cpu, second.cpu), (Cpu(0), Cpu(1)));
        assert_eq!(first.decision, Decision::Wakeup { pid: Pid(1) });
        assert_eq!(first_difference(&before, &before[..1]).after, None);
    }
}
