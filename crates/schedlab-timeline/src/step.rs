//! The state machine: how each event alters the state.
//!
//! A task's life, by the events that move it (`docs/answers.md` has the drawing):
//!
//! ```text
//! New --WakeupNew--> Waiting --Switch next--> Running --Switch prev, R--> Waiting
//! Sleeping --Waking, Wakeup--> Waiting          |--Switch prev, S D T P I--> Sleeping
//! any --Lost, unobserved CPU--> Unknown         `--Switch prev, X--> Dead
//! ```
//!
//! `Waking` comes before a CPU is chosen: the wait begins there, unplaced, and is on no queue until
//! a `Migrate` or `Wakeup` says which. Where the trace holds no `Wakeup` at all, it is taken to be
//! placed where it last ran, and migrations move it. (Files describe kinds that were not recorded,
//! so this is also found out: from a task that runs unplaced when no `Wakeup` was ever seen.)

use crate::change::{Change, Switch, Wait};
use crate::state::{Occupant, State};
use crate::task::{Activity, TaskId, Why};
use schedlab_model::{Context, Cpu, Event, Kind, Left, Nanos, Pid, Prio, What};

/// Where an event was logged, and what ran there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    pub(crate) cpu: Cpu,
    pub(crate) by: Pid,
    pub(crate) context: Context,
}

impl State {
    /// Takes in one event and tells `see` every change that it makes, each with the state after it.
    ///
    /// Events must come in order of time; an earlier one is taken to have happened now.
    pub(crate) fn step(&mut self, event: &Event, see: &mut (impl FnMut(&Change, &Self) + ?Sized)) {
        self.now = self.now.max(event.time);
        let at = self.now;
        let logged = Logged { cpu: event.cpu, by: event.by, context: event.context };
        let cpu = event.cpu;
        if cpu.index() >= self.cpus.len() {
            self.grow(cpu);
        }
        if let What::Lost { count } = event.what {
            return self.lost(cpu, count, see);
        }
        let here = &mut self.cpus[cpu.index()];
        let before = here.last_event;
        // A reader adds names: no CPU logs them.
        if !matches!(event.what, What::Comm { .. }) {
            here.last_event = at;
            if before < at {
                here.event_before = before;
            }
        }
        if here.waking != Nanos::ZERO {
            self.tally.misplaced += at - std::mem::take(&mut here.waking);
        }
        // Who logs an event is current there.
        match self.cpus[cpu.index()].occupant {
            Occupant::Task(id) if self.tells_all && self.tasks[id.index()].pid == logged.by => {}
            Occupant::Idle if self.tells_all && logged.by.is_idle() => {}
            _ if self.is_foreign(&event.what) => return,
            _ => self.unexpected(logged, &event.what, before, see),
        }
        match event.what {
            What::Switch { prev, prev_prio, left, next, next_prio } => {
                self.seen = self.seen.with(Kind::Switch);
                self.switch(cpu, prev, prev_prio, left, next, next_prio, see);
            }
            What::Waking { pid, prio, last_cpu } => {
                self.seen = self.seen.with(Kind::Waking);
                self.waking(logged, pid, prio, last_cpu, see);
            }
            What::Wakeup { pid, prio, cpu: target, new } => {
                if new {
                    self.seen = self.seen.with(Kind::WakeupNew);
                } else {
                    self.seen = self.seen.with(Kind::Wakeup);
                    self.wakes_are_placed = false;
                }
                self.wakeup(logged, pid, prio, target, new, see);
            }
            What::Migrate { pid, from, to } => {
                self.seen = self.seen.with(Kind::Migrate);
                self.migrate(logged, pid, from, to, see);
            }
            What::Fork { child } => {
                self.fork(logged, child, see);
            }
            What::Exec { old } => {
                self.exec(event.by, old);
            }
            What::Exit { pid } => {
                let task = self.pids.get(pid);
                if task.is_some() {
                    see(&Change::Exiting { at, task }, self);
                }
            }
            What::Comm { pid, comm } => self.rename(pid, comm, see),
            What::Mark { pid, id, phase, request } => {
                let task = self.pids.get(pid);
                see(&Change::Mark { at, cpu, task, id, phase, request }, self);
            }
            What::Online { cpu: of, online } => self.online(of, online, of != cpu, see),
            What::Lost { .. } => {}
            What::Other { format } => {
                if self.yields.is_some() {
                    self.calls(cpu, format);
                }
                see(&Change::Other { at, cpu, format }, self);
            }
        }
    }

    #[inline]
    fn switch(
        &mut self,
        cpu: Cpu,
        prev: Pid,
        prev_prio: Prio,
        left: Left,
        next: Pid,
        next_prio: Prio,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        let at = self.now;
        let idled = prev.is_idle();
        let tells_all = self.tells_all;
        // What others do before and after is not known.
        let prev = match tells_all || self.tells(prev) {
            true => self.leave(cpu, prev, prev_prio, left, see),
            false => TaskId::NONE,
        };
        let here = &mut self.cpus[cpu.index()];
        let was = here.occupant;
        let since = here.since;
        if here.blind {
            self.tally.unseen += at - since;
        }
        self.tally.switches += 1;
        self.tally.arrivals += u64::from(!next.is_idle());
        here.blind = false;
        here.yields = false;
        here.mute_idle &= !idled;
        here.observed = true;
        here.since = at;
        if let Occupant::Task(task) = was {
            here.last_task = task;
        }
        let mut switch = Switch {
            at,
            cpu,
            was,
            since,
            prev,
            left: Some(left),
            is: Occupant::Idle,
            wait: None,
            last_cpu: None,
        };
        if !tells_all && !self.is_told(next, see) {
            switch.is = Occupant::Unknown;
        } else if next.is_idle() {
            let here = &self.cpus[cpu.index()];
            if here.mute_idle || here.offline || self.only.is_some() {
                switch.is = Occupant::Unknown;
            }
        } else {
            let id = self.living(next);
            self.running_elsewhere(id, see);
            let task = &mut self.tasks[id.index()];
            switch.is = Occupant::Task(id);
            switch.last_cpu = task.last_cpu.replace(cpu);
            let since = std::mem::replace(&mut task.since, at);
            task.prio = next_prio;
            match std::mem::replace(&mut task.activity, Activity::Running { cpu }) {
                Activity::Waiting { cpu: queue, why, placed } => {
                    switch.wait = Some(Wait { since, why, cpu: queue });
                    if since < self.gap || (placed && queue != cpu) {
                        switch.wait = self.believed(id, switch.wait, placed && queue != cpu, see);
                    }
                    if placed {
                        self.unlink(id, queue);
                    } else if !self.seen.contains(Kind::Wakeup) {
                        self.wakes_are_placed = true;
                    }
                    self.waiting -= 1;
                }
                Activity::Sleeping { .. } => {
                    self.tally.unwoken += 1;
                    let elsewhere = switch.last_cpu.is_some_and(|last| last != cpu);
                    self.tally.unmoved += u64::from(elsewhere && !self.tasks[id.index()].moved);
                }
                Activity::New => self.tally.unborn += 1,
                _ => {}
            }
        }
        self.occupy(cpu, switch.is);
        see(&Change::Switch(switch), self);
    }

    /// The occupant of `cpu` leaves. Afterwards the CPU's entry still names it (or `Unknown`, when
    /// it was another than `prev`), but the task itself has moved on.
    #[inline]
    fn leave(
        &mut self,
        cpu: Cpu,
        prev: Pid,
        prio: Prio,
        left: Left,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) -> TaskId {
        let id = match self.cpus[cpu.index()].occupant {
            Occupant::Task(id) if self.tasks[id.index()].pid == prev => id,
            Occupant::Idle if prev.is_idle() => return TaskId::NONE,
            _ => match self.correct(cpu, prev, see) {
                Ok(id) => id,
                Err(id) => return id,
            },
        };
        let at = self.now;
        let task = &mut self.tasks[id.index()];
        task.since = at;
        task.ran_until = at;
        task.prio = prio;
        task.last_cpu = Some(cpu);
        task.moved = false;
        if left.is_runnable() {
            let why = match left {
                Left::Displaced if self.cpus[cpu.index()].yields => Why::Yielded,
                Left::Displaced => Why::Displaced,
                _ => Why::Preempted,
            };
            task.activity = Activity::Waiting { cpu, placed: true, why };
            task.woken_from = Some(cpu);
            self.link(id, cpu);
            self.waiting += 1;
        } else if left == Left::Dead {
            task.activity = Activity::Dead;
        } else {
            task.activity = Activity::Sleeping { left };
        }
        id
    }
}
