//! A task's demand while the trace is read.

use crate::hrtimers::Started;
use crate::objects::Found;
use crate::resolve::{Part, Within, resolve};
use crate::speed::{Measure, Pace, Part as Paced};
use schedlab_model::{Cpu, Nanos, Prio};
use schedlab_timeline::TaskId;
use schedlab_workload::demand::Step;
use std::collections::BTreeMap;

/// A wait that has not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    step: usize,
    since: Nanos,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Task(TaskId),
    Interrupt,
    Unseen,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenCall {
    pub(crate) number: u32,
    /// The index of the step after which its time is.
    from: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    /// Other tasks are named by their numbers in the timeline. Objects are named by the numbers of calls.
    pub(crate) steps: Vec<Step>,
    /// In the order of steps.
    within: Vec<Within>,
    /// At which pace bursts ran, in the order of steps.
    paced: Vec<Paced>,
    /// The pace of the CPU on which it runs.
    pub(crate) pace: Pace,
    pub(crate) call: Option<OpenCall>,
    /// The next burst is a step of its own.
    apart: bool,
    /// Whether anything is known of it.
    pub(crate) begun: bool,
    pub(crate) forked: bool,
    pub(crate) prio: Prio,
    /// The priority that its steps have led to.
    told_prio: Prio,
    pub(crate) cpu: Cpu,
    /// The CPU of all its bursts; `None` once there were two.
    pub(crate) only_cpu: Option<Cpu>,
    /// The time up to which the current burst is already written as steps; `None` while the task does not run.
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
            self.cpu = cpu;
            self.only_cpu = Some(cpu);
            self.prio = prio;
            self.told_prio = prio;
        }
    }

    pub(crate) fn steps_up(&mut self, at: Nanos, cpu: Cpu, pace: Pace, overhead: Nanos) {
        self.pace = pace;
        if self.only_cpu != Some(cpu) {
            self.only_cpu = None;
        }
        self.cursor = Some(at);
        self.debt = overhead.0;
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
            (time, Some(Step::Run(before))) if !self.apart => before.0 += time,
            (time, _) => {
                if let Some(call) = self.call {
                    let step = self.steps.len();
                    self.within.push(Within { step, call: call.number, what: Part::Time });
                }
                self.steps.push(Step::Run(Nanos(time)));
                self.apart = false;
            }
        }
        if time > paid {
            self.paces(time - paid);
        }
    }

    /// What it runs next contains this overhead.
    pub(crate) fn owes(&mut self, at: Nanos, overhead: Nanos) {
        self.runs_until(at);
        self.debt += overhead.0;
    }

    /// The last burst grew by a time at the present pace.
    fn paces(&mut self, time: u64) {
        let step = self.steps.len() - 1;
        let pace = self.pace;
        match self.paced.last_mut() {
            Some(last) if last.step == step && last.pace == pace => last.time += time,
            _ => self.paced.push(Paced { step, time, pace }),
        }
    }

    /// From now on its CPU has another pace.
    pub(crate) fn changes_pace(&mut self, at: Nanos, pace: Pace) {
        self.runs_until(at);
        self.pace = pace;
    }

    /// Its bursts in time at full speed; and how much of that is of unknown speed.
    pub(crate) fn convert(&mut self, measure: &Measure) -> Nanos {
        let mut unknown = 0;
        for paced in &mut self.paced {
            let (time, of_unknown) = measure.convert(paced);
            unknown += of_unknown.0;
            if let Some(Step::Run(all)) = self.steps.get_mut(paced.step) {
                all.0 = all.0 + time.0 - paced.time.min(all.0 + time.0);
            }
            paced.time = time.0;
        }
        Nanos(unknown)
    }

    /// A call begins that reads or writes. What it moves stands before its time: a machine moves it at the call's end.
    pub(crate) fn enters(&mut self, at: Nanos, number: u32, reads: bool) {
        self.marks(at, number, reads);
        self.apart = true;
        let from = self.steps.len();
        self.call = Some(OpenCall { number, from });
    }

    /// A call that may put or take a token was made.
    pub(crate) fn marks(&mut self, at: Nanos, number: u32, takes: bool) {
        let step = match takes {
            true => Step::Take { object: number, bytes: 0 },
            false => Step::Put { object: number, bytes: 0 },
        };
        self.does(at, step, Nanos::ZERO);
    }

    pub(crate) fn leaves(&mut self, at: Nanos) -> Option<OpenCall> {
        self.runs_until(at);
        self.apart = true;
        self.call.take()
    }

    /// Wakes a task that waits within a call.
    pub(crate) fn ends_a_wait(&mut self, at: Nanos, task: u32, call: Option<u32>, cost: Nanos) {
        self.runs_until(at);
        if let Some(call) = call {
            self.within.push(Within { step: self.steps.len(), call, what: Part::Wait });
        }
        self.does(at, Step::Post(task), cost);
    }

    /// The call in which it sleeps, if it sleeps in one.
    pub(crate) fn sleeps_in(&self) -> Option<u32> {
        self.call.filter(|_| self.open.is_some()).map(|call| call.number)
    }

    /// How many of its waits for tasks were for bytes of known objects.
    pub(crate) fn waits_on(&self, found: &Found) -> u64 {
        let waits = self.within.iter().filter(|one| {
            one.what == Part::Wait
                && found.is_known(one.call)
                && matches!(self.steps.get(one.step), Some(Step::Wait))
        });
        waits.count() as u64
    }

    /// The steps, with what calls did to objects; and the time that is subtracted beside.
    pub(crate) fn resolved(&self, found: &Found) -> (Vec<Step>, Nanos) {
        resolve(&self.steps, &self.within, found)
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
            self.waits_in_call();
            self.open = Some(Open { step: self.steps.len(), since });
            self.steps.push(Step::Wait);
        }
    }

    /// It is about to sleep: within a call, the time since it began or was woken is that of going to sleep.
    fn waits_in_call(&mut self) {
        let step = self.steps.len();
        let Some(call) = &mut self.call else { return };
        for one in self.within.iter_mut().rev().take_while(|one| one.step >= call.from) {
            if one.what == Part::Time {
                one.what = Part::Before;
            }
        }
        call.from = step + 1;
        self.within.push(Within { step, call: call.number, what: Part::Wait });
        self.apart = true;
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

    /// Whether it goes on after the trace: it computed to the end, and its own end was not seen.
    pub(crate) fn is_endless(&self, time: Nanos) -> bool {
        self.computes_to_the_end(time) && !self.is_dead
    }

    /// Whether only the recording decides how much it computed: it did so until somebody ended it, as a rule.
    pub(crate) fn is_fixed(&self, time: Nanos) -> bool {
        self.computes_to_the_end(time) && self.is_dead
    }

    /// Whether it computed without waiting for the last `time` of its CPU time or more.
    fn computes_to_the_end(&self, time: Nanos) -> bool {
        let waits = |step: &&Step| matches!(step, Step::Wait | Step::Interrupt { .. });
        let last = self.steps.iter().rev().take_while(|step| !waits(step));
        let run: u64 = last.map(|step| if let Step::Run(time) = step { time.0 } else { 0 }).sum();
        self.begun && self.open.is_none() && run >= time.0.max(1)
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
