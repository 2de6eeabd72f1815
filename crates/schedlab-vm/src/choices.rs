//! What the scheduler chose, without times: so that two kernels can be compared choice by choice.
//!
//! Tasks are named by their slot in the load's plan, which is the order in which the load forked them.
//! Tasks that are not the load's are left out. Choices begin when the last slot has been forked. At each
//! choice a [`Situation`] says what the scheduler had: the CPU, who ran there, who waited and why it was
//! asked. Two kernels that chose differently in one situation decided differently; where situations
//! differ, what came before does.

mod compared;

pub use compared::{first_difference, unlike};

use schedlab_model::{Cpu, Event, EventSource, Nanos, Pid, What};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// A wakeup that preempts does so at the end of the system call or interrupt: 2.1 to 3.7 µs later in 92 preemptions of
/// hackbench on 6.12, where ticks preempted 1 ms and more after the last wakeup.
const PREEMPTS_WITHIN: Nanos = Nanos::from_micros(100);

/// A task of the load: its slot, the load itself being `load`; children of slots are `3.0`.
pub type Slot = String;

/// Why the scheduler had to choose.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// A task was woken: does it preempt the current one?
    Woken {
        /// The task that was asked about.
        task: Slot,
        /// Who woke it; `None`: an interrupt, or a task that is not the load's.
        by: Option<Slot>,
    },
    /// The current task slept or ended: who is next?
    Left,
    /// The current task gave way, but not to a task that was woken just before: who is next?
    Preempted,
}

/// Kinds of choices: what a scheduler decides by rules of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A task was woken: whether it preempts the current one.
    Wakeup,
    /// The current task slept or ended: who is next.
    Next,
    /// The current task gave way to no wakeup: who is next.
    Preemption,
}

impl Kind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 3] = [Self::Wakeup, Self::Next, Self::Preemption];
}

/// What the scheduler had when it chose.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Situation {
    /// The CPU that chooses.
    pub cpu: Cpu,
    /// The task that ran on this CPU.
    pub current: Slot,
    /// The tasks that waited on this CPU, the woken one included.
    pub waiting: BTreeSet<Slot>,
    /// Why the scheduler had to choose.
    pub asked: Asked,
}

/// A choice: the task that runs next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The time of the choice, on the trace's clock.
    pub at: Nanos,
    /// What the scheduler had.
    pub situation: Situation,
    /// The task that was chosen.
    pub next: Slot,
}

impl Choice {
    /// What kind of choice it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self.situation.asked {
            Asked::Woken { .. } => Kind::Wakeup,
            Asked::Left => Kind::Next,
            Asked::Preempted => Kind::Preemption,
        }
    }
}

/// All choices of a trace, in order.
///
/// # Errors
/// When the trace cannot be read.
pub fn read(source: &mut dyn EventSource) -> io::Result<Vec<Choice>> {
    let (mut events, mut batch) = (Vec::new(), Vec::new());
    while source.next(&mut batch)? {
        events.append(&mut batch);
    }
    Ok(of_events(&events))
}

fn of_events(events: &[Event]) -> Vec<Choice> {
    let slots = Slots::of(events);
    let mut reader = Reader { slots: &slots, cpus: BTreeMap::new(), choices: Vec::new() };
    for (index, event) in events.iter().enumerate() {
        reader.see(event, index >= slots.complete);
    }
    reader.choices
}

/// The names of the load's tasks.
struct Slots {
    names: BTreeMap<Pid, Slot>,
    /// Index of the first event after the last slot was forked.
    complete: usize,
}

impl Slots {
    fn of(events: &[Event]) -> Self {
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

/// One CPU as the load sees it.
#[derive(Default)]
struct CpuState {
    /// The load's task that ran there last, and whether it sleeps since.
    current: Option<(Slot, bool)>,
    waiting: BTreeSet<Slot>,
    /// The last wakeup there, and when, until somebody runs.
    woken: Option<(Slot, Option<Slot>, Nanos)>,
}

impl CpuState {
    /// Whether the current task gives way to `next`, but not to the last wakeup: that was long before, or a third
    /// task runs.
    fn ended_otherwise(&self, next: &Slot, at: Nanos) -> bool {
        let (Some((task, _, before)), Some((current, false))) = (&self.woken, &self.current) else {
            return false;
        };
        *before + PREEMPTS_WITHIN < at || (task != next && current != next)
    }
}

struct Reader<'s> {
    slots: &'s Slots,
    cpus: BTreeMap<Cpu, CpuState>,
    choices: Vec<Choice>,
}

impl Reader<'_> {
    fn see(&mut self, event: &Event, counts: bool) {
        let slot = |pid: Pid| self.slots.names.get(&pid).cloned();
        match event.what {
            What::Wakeup { pid, cpu, .. } => {
                let Some(task) = slot(pid) else { return };
                let by = slot(event.by).filter(|_| event.context == schedlab_model::Context::Task);
                self.remove(&task);
                // A second wakeup before anybody ran: the first one did not preempt.
                self.goes_on(cpu, event.time, counts);
                let state = self.cpus.entry(cpu).or_default();
                if state.current.as_ref().is_some_and(|(current, _)| *current == task) {
                    state.current = None;
                }
                state.waiting.insert(task.clone());
                state.woken = Some((task, by, event.time));
            }
            What::Migrate { pid, to, .. } => {
                let Some(task) = slot(pid) else { return };
                if self.remove(&task) {
                    self.cpus.entry(to).or_default().waiting.insert(task);
                }
            }
            What::Switch { prev, left, next, .. } => {
                if let Some(prev) = slot(prev) {
                    let state = self.cpus.entry(event.cpu).or_default();
                    if left.is_runnable() {
                        state.waiting.insert(prev.clone());
                    }
                    if !left.is_runnable() {
                        // Asleep: that it was woken before did not preempt it.
                        self.goes_on(event.cpu, event.time, counts);
                    }
                    let state = self.cpus.entry(event.cpu).or_default();
                    state.current = Some((prev, !left.is_runnable()));
                }
                if let Some(next) = slot(next) {
                    self.runs(event.cpu, &next, event.time, counts);
                }
            }
            _ => {}
        }
    }

    /// Takes a task out of the queue in which it waits; whether it was in one.
    fn remove(&mut self, task: &Slot) -> bool {
        self.cpus.values_mut().any(|state| state.waiting.remove(task))
    }

    /// The last wakeup on a CPU did not preempt.
    fn goes_on(&mut self, cpu: Cpu, at: Nanos, counts: bool) {
        let Some(state) = self.cpus.get_mut(&cpu) else { return };
        let Some((task, by, _)) = state.woken.take() else { return };
        let Some((current, false)) = state.current.clone() else { return };
        let waiting = state.waiting.iter().filter(|one| **one != current).cloned().collect();
        let asked = Asked::Woken { task, by };
        let situation = Situation { cpu, current: current.clone(), waiting, asked };
        if counts {
            self.choices.push(Choice { at, situation, next: current });
        }
    }

    /// A task of the load runs on a CPU from now on.
    fn runs(&mut self, cpu: Cpu, next: &Slot, at: Nanos, counts: bool) {
        if self.cpus.get(&cpu).is_some_and(|state| state.ended_otherwise(next, at)) {
            // The wakeup did not preempt; what does so now is another choice.
            self.goes_on(cpu, at, counts);
        }
        let state = self.cpus.entry(cpu).or_default();
        let waiting = state.waiting.clone();
        state.waiting.remove(next);
        let woken = state.woken.take();
        let Some((current, asleep)) = state.current.replace((next.clone(), false)) else { return };
        if current == *next && woken.is_none() {
            // A task that is not the load's ran in between.
            return;
        }
        let asked = match (asleep, woken) {
            (true, _) => Asked::Left,
            (false, Some((task, by, _))) => Asked::Woken { task, by },
            (false, None) => Asked::Preempted,
        };
        let waiting = waiting.into_iter().filter(|one| *one != current || asleep).collect();
        let situation = Situation { cpu, current, waiting, asked };
        if counts {
            self.choices.push(Choice { at, situation, next: next.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Context, Left, Prio};

    const LOAD: i32 = 10;

    fn event(time: u64, by: i32, what: What) -> Event {
        Event { time: Nanos(time), by: Pid(by), cpu: Cpu(0), context: Context::Task, what }
    }

    fn fork(time: u64, child: i32) -> Event {
        event(time, LOAD, What::Fork { child: Pid(child) })
    }

    fn wakes(time: u64, by: i32, pid: i32) -> Event {
        let (prio, cpu) = (Prio::NORMAL, Cpu(0));
        event(time, by, What::Wakeup { pid: Pid(pid), prio, cpu, new: false })
    }

    fn switch(time: u64, prev: i32, left: Left, next: i32) -> Event {
        let (prev_prio, next_prio) = (Prio::NORMAL, Prio::NORMAL);
        event(
            time,
            prev,
            What::Switch { prev: Pid(prev), prev_prio, left, next: Pid(next), next_prio },
        )
    }

    /// Two tasks; the load sleeps, the first runs and wakes the second, which preempts it or not.
    fn trace(preempts: bool, shift: i32) -> Vec<Event> {
        let (one, two) = (11 + shift, 12 + shift);
        let mut all = vec![
            event(0, 2, What::Fork { child: Pid(5) }),
            fork(1, one),
            fork(2, two),
            wakes(3, LOAD, one),
            switch(4, LOAD, Left::Slept, one),
            wakes(5, one, two),
        ];
        if preempts {
            all.extend([switch(6, one, Left::Preempted, two), switch(9, two, Left::Slept, one)]);
        } else {
            // A kernel thread in between changes nothing.
            all.extend([
                switch(6, one, Left::Preempted, 5),
                switch(7, 5, Left::Slept, one),
                switch(8, one, Left::Slept, two),
            ]);
        }
        all
    }

    #[test]
    fn a_wakeup_that_preempts_is_another_choice_than_one_that_does_not() {
        let (yes, no) = (of_events(&trace(true, 0)), of_events(&trace(false, 7)));
        assert_eq!(first_difference(&yes, &yes), None);
        // The load gave way to the first task in both; then the wakeup of the second.
        let at = first_difference(&yes, &no).unwrap();
        assert_eq!(at, 1, "{yes:?} {no:?}");
        assert_eq!(yes[at].situation, no[at].situation);
        assert_eq!((yes[at].next.as_str(), no[at].next.as_str()), ("1", "0"));
        let asked = Asked::Woken { task: "1".into(), by: Some("0".into()) };
        assert_eq!(yes[at].situation.asked, asked);
        assert_eq!(yes[at].situation.waiting, BTreeSet::from(["1".to_owned()]));
    }

    #[test]
    fn a_third_task_that_runs_after_a_wakeup_was_not_chosen_by_it() {
        let mut events = vec![fork(1, 11), fork(2, 12), fork(3, 13), wakes(4, LOAD, 13)];
        events.extend([wakes(5, LOAD, 11), switch(6, LOAD, Left::Slept, 11), wakes(7, 11, 12)]);
        events.push(switch(8, 11, Left::Preempted, 13));
        let choices = of_events(&events);
        let last: Vec<(Kind, &str)> =
            choices.iter().rev().take(2).rev().map(|one| (one.kind(), &*one.next)).collect();
        assert_eq!(last, [(Kind::Wakeup, "0"), (Kind::Preemption, "2")]);
    }

    #[test]
    fn who_runs_long_after_a_wakeup_was_not_preempted_by_it() {
        let after = |delay: u64| {
            let mut events = trace(true, 0);
            let switches = events.len() - 2;
            events[switches..].iter_mut().for_each(|event| event.time.0 += delay);
            let choices = of_events(&events);
            choices.iter().map(|one| (one.kind(), one.next.clone())).collect::<Vec<_>>()
        };
        let kinds = |all: &[(Kind, &str)]| -> Vec<(Kind, Slot)> {
            all.iter().map(|(kind, next)| (*kind, (*next).to_owned())).collect()
        };
        let soon = kinds(&[(Kind::Next, "0"), (Kind::Wakeup, "1"), (Kind::Next, "0")]);
        assert_eq!(after(0), soon);
        let stays = [(Kind::Next, "0"), (Kind::Wakeup, "0"), (Kind::Preemption, "1")];
        let late = kinds(&[&stays[..], &[(Kind::Next, "0")]].concat());
        assert_eq!(after(PREEMPTS_WITHIN.0 + 10), late);
    }
}
