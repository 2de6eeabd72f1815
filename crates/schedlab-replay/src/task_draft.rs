//! A task's demand while the trace is read.

use crate::hrtimers::Started;
use schedlab_model::{Cpu, Nanos, Prio};
use schedlab_timeline::TaskId;
use schedlab_workload::demand::Step;
use std::collections::BTreeMap;

/// A wait that has not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// The index of its step.
    step: usize,
    since: Nanos,
}

/// What ends a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Task(TaskId),
    Interrupt,
    /// It was not seen.
    Unseen,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    /// Other tasks are named by their numbers in the timeline.
    pub(crate) steps: Vec<Step>,
    /// Whether anything is known of it.
    pub(crate) begun: bool,
    pub(crate) forked: bool,
    pub(crate) prio: Prio,
    /// The priority that its steps have led to.
    told_prio: Prio,
    pub(crate) cpu: Cpu,
    /// The CPU of all its bursts; `None` once there were two.
    pub(crate) only_cpu: Option<Cpu>,
    /// Up to when its burst is in the steps; `None` while it does not run.
    pub(crate) cursor: Option<Nanos>,
    /// Overhead that the present burst contains and that was not subtracted yet.
    debt: u64,
    pub(crate) overhead: u64,
    open: Option<Open>,
    /// Whether its end was seen.
    pub(crate) is_dead: bool,
    pub(crate) by_task: u64,
    pub(crate) unseen: u64,
    pub(crate) not_asleep: u64,
    pub(crate) wakers: BTreeMap<TaskId, u64>,
    /// Each interrupt that ended a wait: when, and how long the task had slept.
    pub(crate) interrupts: Vec<(Nanos, Nanos)>,
    /// The recorded timers among them.
    pub(crate) timers: Vec<Started>,
}

impl Draft {
    pub(crate) fn begins(&mut self, cpu: Cpu, prio: Prio) {
        if !std::mem::replace(&mut self.begun, true) {
            (self.cpu, self.only_cpu) = (cpu, Some(cpu));
            (self.prio, self.told_prio) = (prio, prio);
        }
    }

    pub(crate) fn steps_up(&mut self, at: Nanos, cpu: Cpu, overhead: Nanos) {
        if self.only_cpu != Some(cpu) {
            self.only_cpu = None;
        }
        (self.cursor, self.debt) = (Some(at), overhead.0);
    }

    /// Adds what it ran up to now.
    pub(crate) fn runs_until(&mut self, at: Nanos) {
        let Some(cursor) = self.cursor else { return };
        let time = at.0.saturating_sub(cursor.0);
        let paid = time.min(self.debt);
        self.debt -= paid;
        self.overhead += paid;
        self.cursor = Some(at.max(cursor));
        match (time - paid, self.steps.last_mut()) {
            (0, _) => {}
            (time, Some(Step::Run(before))) => before.0 += time,
            (time, _) => self.steps.push(Step::Run(Nanos(time))),
        }
    }

    /// An interrupt took time from its burst.
    pub(crate) fn was_interrupted(&mut self, from: Nanos, to: Nanos) -> Nanos {
        let Some(cursor) = self.cursor else { return Nanos::ZERO };
        let time = to.0.saturating_sub(from.max(cursor).0);
        self.runs_until(from.max(cursor));
        self.cursor = Some(to.max(cursor));
        Nanos(time)
    }

    pub(crate) fn does(&mut self, at: Nanos, step: Step, overhead: Nanos) {
        self.runs_until(at);
        self.steps.push(step);
        self.debt += overhead.0;
    }

    pub(crate) fn has_prio(&mut self, prio: Prio) {
        if prio != self.told_prio {
            self.told_prio = prio;
            self.steps.push(Step::Prio(prio));
        }
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.open.is_some()
    }

    pub(crate) fn sleeps(&mut self, since: Nanos) {
        if self.open.is_none() {
            self.open = Some(Open { step: self.steps.len(), since });
            self.steps.push(Step::Wait);
        }
    }

    /// The open wait ends. `start` is the begin of the trace.
    pub(crate) fn wakes(&mut self, at: Nanos, end: End, start: Nanos) {
        let Some(open) = self.open.take() else { return };
        let interrupt =
            Step::Interrupt { at: sub(at, start), slept: sub(at, open.since.max(start)) };
        match end {
            End::Task(waker) => {
                self.by_task += 1;
                *self.wakers.entry(waker).or_default() += 1;
            }
            End::Interrupt => {
                self.steps[open.step] = interrupt;
                self.interrupts.push((at, sub(at, open.since)));
            }
            End::Unseen => {
                self.steps[open.step] = interrupt;
                self.unseen += 1;
            }
        }
    }

    /// Whether it goes on after the trace: it computed without waiting for the last `time` of its CPU time or more, and
    /// neither its end nor a wait was seen.
    pub(crate) fn is_endless(&self, time: Nanos) -> bool {
        let waits = |step: &&Step| matches!(step, Step::Wait | Step::Interrupt { .. });
        let last = self.steps.iter().rev().take_while(|step| !waits(step));
        let run: u64 = last.map(|step| if let Step::Run(time) = step { time.0 } else { 0 }).sum();
        self.begun && !self.is_dead && self.open.is_none() && run >= time.0.max(1)
    }

    /// The trace ends: an open wait lasts to its end.
    pub(crate) fn ends(&mut self, at: Nanos, start: Nanos) {
        self.runs_until(at);
        self.cursor = None;
        if let Some(open) = self.open.take() {
            let slept = sub(at, open.since.max(start));
            self.steps[open.step] = Step::Interrupt { at: sub(at, start), slept };
        }
    }
}

fn sub(a: Nanos, b: Nanos) -> Nanos {
    Nanos(a.0.saturating_sub(b.0))
}
