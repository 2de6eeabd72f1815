//! Timers of sleeps: when they fire, and which fire together.
//!
//! A timer has two times: the one that its task asked for, and a later one, by the slack of the task. The CPU's clock is
//! set to the later time of the first timer. That interrupt, and the tick, also fire the timers that follow, up to the
//! first whose own time has not come (Linux 6.1.192 and 6.12.117, kernel/time/hrtimer.c, `hrtimer_interrupt` and
//! `__hrtimer_run_queues`). Real-time and deadline tasks have no slack (`__setscheduler_params`).

use super::perform::Effect;
use super::task::{On, Resume, TaskState};
use super::wake::Waker;
use super::{Happening, World};
use crate::event_queue::NEVER;
use crate::policy_view::TaskId;
use schedlab_model::Context;
use schedlab_workload::Done;
use std::collections::BTreeSet;

/// A timer of a CPU, in the order in which timers fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    latest: u64,
    /// Counts timers: of two with one time the older fires first.
    number: u64,
    task: TaskId,
    /// The number of the task's sleep.
    sleep: u64,
    /// The time that the task asked for.
    due: u64,
    /// When it was set.
    set: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Timers {
    of_cpu: Vec<BTreeSet<Timer>>,
    /// How many were set.
    set: u64,
}

impl Timers {
    pub(super) fn new(cpus: usize) -> Self {
        Self { of_cpu: vec![BTreeSet::new(); cpus], set: 0 }
    }
}

impl World {
    pub(super) fn sleeps_until(&mut self, cpu: usize, task: TaskId, until: u64) -> Effect {
        let slack = match self.scene.task(task).class.is_above() {
            true => 0,
            false => self.config.costs.timer_slack,
        };
        let latest = until.saturating_add(slack);
        if self.has_code() {
            self.bodies[task.index()].until = Some(until);
        } else if latest < NEVER / 2 {
            let sleep = self.bodies[task.index()].sleeps;
            let exact = self.config.start == super::Start::InPlace;
            self.sets_timer(cpu, latest);
            self.agenda.post(latest, cpu, Happening::Timer(task, sleep, exact));
            self.timers.set += 1;
            let number = self.timers.set;
            let due = until;
            let set = self.scene.now;
            self.timers.of_cpu[cpu].insert(Timer { latest, number, task, sleep, due, set });
        }
        Effect::Sleep(On::Time)
    }

    /// The timer of a sleep fires where the task went to sleep.
    pub(super) fn timer_fires(&mut self, task: TaskId, sleep: u64, late: bool) {
        if !self.sleeps_still(task, sleep) {
            return;
        }
        let cpu = self.scene.tasks[task.index()].cpu;
        let way = self.config.costs.idle_exit;
        if !late && way > 0 && self.scene.cpus[cpu].running.is_none() {
            let at = self.scene.now + way;
            return self.agenda.post(at, cpu, Happening::Timer(task, sleep, true));
        }
        self.in_interrupt(cpu, self.config.costs.timer, |world| {
            world.timer_ends(cpu, task);
            world.fire_due(cpu);
            world.ticks_with(cpu);
        });
    }

    pub(super) fn sleeps_still(&self, task: TaskId, sleep: u64) -> bool {
        let body = &self.bodies[task.index()];
        body.stand == TaskState::Asleep && body.sleeps == sleep
    }

    /// Fires timers in their order, those of the policy too, up to the first that is not due. The tick is among them.
    pub(super) fn fire_due(&mut self, cpu: usize) {
        let mut next = None;
        loop {
            let timer = self.timers.of_cpu[cpu].first().copied();
            let alarm = self.alarms[cpu].first().copied();
            let alarm = alarm.filter(|alarm| alarm.at <= self.scene.now);
            if let Some(alarm) = alarm.filter(|alarm| timer.is_none_or(|of| alarm.at < of.latest)) {
                self.alarm_ends(alarm);
                next = None;
                continue;
            }
            let Some(timer) = timer else { break };
            let waits = self.sleeps_still(timer.task, timer.sleep);
            if waits {
                let is_due = timer.due <= self.scene.now;
                let (alarm, tick) = *next.get_or_insert_with(|| self.next_events(cpu));
                // The tick was set a tick ago: of two timers with one time the older is first.
                let precedes_tick = timer.set + self.config.tick_ns < tick;
                let ticks = timer.latest > tick || (timer.latest == tick && !precedes_tick);
                if !is_due || ticks || timer.latest >= alarm {
                    break;
                }
            }
            self.timers.of_cpu[cpu].pop_first();
            if waits {
                self.timer_ends(cpu, timer.task);
            }
        }
    }

    /// When a timer of the policy and the tick are the next to go off on a CPU.
    fn next_events(&self, cpu: usize) -> (u64, u64) {
        let alarm = self.policy.next_alarm(&self.scene, cpu);
        (alarm.unwrap_or(u64::MAX), self.next_tick(cpu))
    }

    /// A CPU that became idle has one more tick, which fires timers, and then stops its tick.
    pub(super) fn idle_tick(&mut self, cpu: usize) {
        if !self.ticks_while_idle(cpu) {
            return;
        }
        let at = self.scene.now + self.config.costs.idle_exit;
        // A timer of the policy that goes off later than that, but before those of sleeps, holds these up.
        let alarm = self.policy.next_alarm(&self.scene, cpu).filter(|&alarm| alarm > at);
        let fires =
            |timer: &&Timer| timer.due <= at && alarm.is_none_or(|alarm| timer.latest < alarm);
        let first = self.timers.of_cpu[cpu].first().filter(fires);
        if let Some(&Timer { task, sleep, .. }) = first {
            self.agenda.post(at, cpu, Happening::Timer(task, sleep, true));
        }
    }

    /// Whether the tick of a CPU that idles has not stopped yet: there is one after the CPU became idle.
    pub(super) fn ticks_while_idle(&self, cpu: usize) -> bool {
        self.scene.cpus[cpu].idle_since + self.config.tick_ns > self.scene.now
    }

    /// The sleep of a task is over.
    fn timer_ends(&mut self, cpu: usize, task: TaskId) {
        if let Some(On::Word(word)) = self.bodies[task.index()].on {
            // The time of its wait is over, and nobody has woken it.
            self.shared.words[word as usize].sleeping.retain(|sleeping| *sleeping != task);
        }
        let by = Waker { cpu, context: Context::HardIrq, sync: false };
        self.wake(task, Resume::With(Done::Ok), by);
    }
}
