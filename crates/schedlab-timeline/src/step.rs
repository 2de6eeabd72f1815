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

use crate::change::{Change, Moved, Runnable, Switch, Wait, Waker, When};
use crate::names::CommId;
use crate::state::{Occupant, State};
use crate::task::{Activity, Task, TaskId, Why};
use schedlab_model::{Cpu, Event, Kind, Left, Nanos, Pid, Prio, What};

impl State {
    /// Takes in one event and tells `see` every change that it makes, each with the state after it.
    ///
    /// Events must come in order of time; an earlier one is taken to have happened now.
    #[inline]
    pub fn step(&mut self, event: &Event, see: &mut impl FnMut(&Change, &Self)) {
        self.now = self.now.max(event.time);
        let at = self.now;
        if event.cpu.index() >= self.cpus.len() {
            self.grow(event.cpu);
        }
        let cpu = event.cpu;
        match event.what {
            What::Switch { prev, prev_prio, left, next, next_prio } => {
                self.seen = self.seen.with(Kind::Switch);
                self.switch(cpu, (prev, prev_prio, left), (next, next_prio), see);
            }
            What::Waking { pid, prio, last_cpu } => {
                self.current(event, see);
                self.seen = self.seen.with(Kind::Waking);
                self.waking(event, pid, prio, last_cpu, see);
            }
            What::Wakeup { pid, prio, cpu: target, new } => {
                if new {
                    self.seen = self.seen.with(Kind::WakeupNew);
                } else {
                    self.seen = self.seen.with(Kind::Wakeup);
                    self.wakes_are_placed = false;
                }
                self.current(event, see);
                self.wakeup(event, (pid, prio), target, new, see);
            }
            What::Migrate { pid, from, to } => {
                self.current(event, see);
                self.seen = self.seen.with(Kind::Migrate);
                self.migrate(event, pid, from, to, see);
            }
            What::Fork { child } => {
                self.current(event, see);
                self.fork(event, child, see);
            }
            What::Exec { old } => {
                self.current(event, see);
                self.exec(event.by, old);
            }
            What::Exit { pid } => {
                self.current(event, see);
                let task = self.pids.get(pid);
                if task.is_some() {
                    see(&Change::Exiting { at, task }, self);
                }
            }
            What::Comm { pid, comm } => self.rename(pid, comm, see),
            What::Mark { pid, id, phase } => {
                let task = self.pids.get(pid);
                see(&Change::Mark { at, cpu, task, id, phase }, self);
            }
            What::Lost { count } => return self.lost(cpu, count, see),
            What::Other { format } => {
                self.current(event, see);
                see(&Change::Other { at, cpu, format }, self);
            }
        }
        self.cpus[cpu.index()].last_event = at;
    }

    #[inline]
    fn switch(
        &mut self,
        cpu: Cpu,
        (prev, prev_prio, left): (Pid, Prio, Left),
        (next, next_prio): (Pid, Prio),
        see: &mut impl FnMut(&Change, &Self),
    ) {
        let at = self.now;
        let idled = prev.is_idle();
        let prev = self.leave(cpu, prev, prev_prio, left, see);
        let here = &mut self.cpus[cpu.index()];
        let (was, since) = (here.occupant, here.since);
        here.blind = false;
        here.mute_idle &= !idled;
        let idles = if here.mute_idle { Occupant::Unknown } else { Occupant::Idle };
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
            is: idles,
            wait: None,
            last_cpu: None,
        };
        if !next.is_idle() {
            let id = self.living(next);
            self.running_elsewhere(id, see);
            let task = &mut self.tasks[id.index()];
            switch.is = Occupant::Task(id);
            switch.last_cpu = task.last_cpu;
            match task.activity {
                Activity::Waiting { cpu: queue, why, placed } => {
                    switch.wait = Some(Wait { since: task.since, why, cpu: queue });
                    if placed {
                        self.unlink(id, queue);
                    } else if !self.seen.contains(Kind::Wakeup) {
                        self.wakes_are_placed = true;
                    }
                    self.waiting -= 1;
                }
                Activity::Sleeping { .. } => self.tally.unwoken += 1,
                _ => {}
            }
            let task = &mut self.tasks[id.index()];
            task.activity = Activity::Running { cpu };
            task.since = at;
            task.prio = next_prio;
            task.last_cpu = Some(cpu);
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
        see: &mut impl FnMut(&Change, &Self),
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
        if left.is_runnable() {
            let why = if left == Left::Yielded { Why::Yielded } else { Why::Preempted };
            task.activity = Activity::Waiting { cpu, placed: true, why };
            task.moved = false;
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

    /// A switch says that `prev` ran on `cpu`, and the state says otherwise. Gives the task, as an
    /// error when its departure can't be believed.
    #[cold]
    fn correct(
        &mut self,
        cpu: Cpu,
        prev: Pid,
        see: &mut impl FnMut(&Change, &Self),
    ) -> Result<TaskId, TaskId> {
        match self.cpus[cpu.index()].occupant {
            Occupant::Unknown => {}
            Occupant::Idle => self.left_idle_unseen(cpu, see),
            Occupant::Task(_) => {
                self.tally.contradictions += 1;
                self.vacate(cpu, self.now, see);
            }
        }
        if prev.is_idle() {
            return Err(TaskId::NONE);
        }
        let id = self.living(prev);
        match self.tasks[id.index()].activity {
            // It was seen to start elsewhere before it was seen to leave here: its clocks disagree,
            // and where it is now is known better.
            Activity::Running { .. } => Err(id),
            Activity::Waiting { cpu: queue, placed, .. } => {
                if placed {
                    self.unlink(id, queue);
                }
                self.waiting -= 1;
                self.forgotten(id, self.now, see);
                Ok(id)
            }
            _ => Ok(id),
        }
    }

    /// A task about to run here is still taken to run elsewhere: that one ended unseen.
    #[inline]
    fn running_elsewhere(&mut self, id: TaskId, see: &mut impl FnMut(&Change, &Self)) {
        if let Activity::Running { cpu } = self.tasks[id.index()].activity {
            self.tally.overlaps += 1;
            self.vacate(cpu, self.now, see);
        }
    }

    /// The CPU that logs an event tells who is current there; that is news before its first switch.
    #[inline]
    fn current(&mut self, event: &Event, see: &mut impl FnMut(&Change, &Self)) {
        let here = &self.cpus[event.cpu.index()];
        if here.occupant == Occupant::Unknown && !here.blind {
            self.discover(event.cpu, event.by, see);
        }
    }

    /// A task leaves a CPU that was taken to idle: the switch to it was not told. Some kernels
    /// tell none on some CPUs, so from now on this one counts as unknown, not idle, whenever its
    /// last task has left, until a switch away from idle is seen there.
    #[cold]
    fn left_idle_unseen(&mut self, cpu: Cpu, see: &mut impl FnMut(&Change, &Self)) {
        self.tally.contradictions += 1;
        self.cpus[cpu.index()].mute_idle = true;
        self.vacate(cpu, self.now, see);
    }

    #[cold]
    fn discover(&mut self, cpu: Cpu, by: Pid, see: &mut impl FnMut(&Change, &Self)) {
        // A negative pid is a reader's "not known".
        if by.0 < 0 {
            return;
        }
        let mut is = Occupant::Idle;
        if !by.is_idle() {
            let id = self.living(by);
            match self.tasks[id.index()].activity {
                Activity::Running { .. } => return,
                Activity::Waiting { cpu: queue, placed, .. } => {
                    if placed {
                        self.unlink(id, queue);
                    }
                    self.waiting -= 1;
                    self.forgotten(id, self.now, see);
                }
                _ => {}
            }
            let task = &mut self.tasks[id.index()];
            task.activity = Activity::Running { cpu };
            task.since = self.now;
            task.last_cpu = Some(cpu);
            is = Occupant::Task(id);
        }
        let at = self.now;
        let here = &mut self.cpus[cpu.index()];
        let since = here.since;
        here.observed = true;
        here.since = at;
        self.occupy(cpu, is);
        let was = Occupant::Unknown;
        let switch = Switch {
            at,
            cpu,
            was,
            since,
            prev: TaskId::NONE,
            left: None,
            is,
            wait: None,
            last_cpu: Some(cpu),
        };
        see(&Change::Switch(switch), self);
    }

    #[inline]
    fn waking(
        &mut self,
        event: &Event,
        pid: Pid,
        prio: Prio,
        last_cpu: Cpu,
        see: &mut impl FnMut(&Change, &Self),
    ) {
        let id = self.living(pid);
        let task = &mut self.tasks[id.index()];
        task.prio = prio;
        // A task that is about to sleep can be woken before it has left: it never waits then.
        if matches!(task.activity, Activity::Running { .. } | Activity::Waiting { .. }) {
            return;
        }
        let placed = self.wakes_are_placed;
        self.begin_wait(event, id, (last_cpu, placed, Why::Woken), Some(last_cpu), see);
        if placed {
            self.sight(id, last_cpu, see);
        }
    }

    #[inline]
    fn wakeup(
        &mut self,
        event: &Event,
        (pid, prio): (Pid, Prio),
        target: Cpu,
        new: bool,
        see: &mut impl FnMut(&Change, &Self),
    ) {
        let mut id = self.living(pid);
        if new && matches!(self.tasks[id.index()].activity, Activity::Sleeping { .. }) {
            id = self.reuse(pid);
        }
        self.tasks[id.index()].prio = prio;
        let mut from = None;
        match self.tasks[id.index()].activity {
            Activity::Running { .. } => return,
            Activity::Waiting { cpu, placed: true, .. } if cpu == target => return,
            Activity::Waiting { cpu, placed, why } => {
                if placed {
                    self.tally.replaced += 1;
                    self.unlink(id, cpu);
                    from = Some(cpu);
                }
                let waiting = Activity::Waiting { cpu: target, placed: true, why };
                self.tasks[id.index()].activity = waiting;
                self.link(id, target);
            }
            _ => {
                let why = if new { Why::New } else { Why::Woken };
                self.begin_wait(event, id, (target, true, why), None, see);
            }
        }
        see(&Change::Placed { at: self.now, task: id, cpu: target, from }, self);
        self.sight(id, target, see);
    }

    fn begin_wait(
        &mut self,
        event: &Event,
        id: TaskId,
        (cpu, placed, why): (Cpu, bool, Why),
        last_cpu: Option<Cpu>,
        see: &mut impl FnMut(&Change, &Self),
    ) {
        let at = self.now;
        // Who is current is known already, so no look-up by pid.
        let waker = match self.cpus[event.cpu.index()].occupant {
            Occupant::Task(waker) => waker,
            Occupant::Idle => TaskId::NONE,
            Occupant::Unknown => self.pids.get(event.by),
        };
        let task = &mut self.tasks[id.index()];
        let asleep = matches!(task.activity, Activity::Sleeping { .. });
        let slept_since = asleep.then_some(task.since);
        task.activity = Activity::Waiting { cpu, placed, why };
        task.since = at;
        task.moved = false;
        task.waker = waker;
        task.waker_cpu = event.cpu;
        task.waker_context = event.context;
        task.woken_from = last_cpu.or(task.last_cpu);
        let runnable = Runnable {
            at,
            task: id,
            why,
            waker: Waker { task: task.waker, cpu: event.cpu, context: event.context },
            last_cpu: task.woken_from,
            slept_since,
        };
        self.waiting += 1;
        if placed {
            self.link(id, cpu);
        }
        see(&Change::Runnable(runnable), self);
    }

    fn migrate(
        &mut self,
        event: &Event,
        pid: Pid,
        from: Cpu,
        to: Cpu,
        see: &mut impl FnMut(&Change, &Self),
    ) {
        let id = self.living(pid);
        let when = match self.tasks[id.index()].activity {
            Activity::Running { .. } => When::Running,
            Activity::Waiting { cpu, placed, why } => {
                if placed {
                    self.unlink(id, cpu);
                }
                let waiting = Activity::Waiting { cpu: to, placed: true, why };
                self.tasks[id.index()].activity = waiting;
                self.link(id, to);
                // Without `Wakeup` events the choice of a CPU and later balancing look the same but
                // for who acts: the waker itself, or whoever balances.
                let task = &self.tasks[id.index()];
                let waking = self.wakes_are_placed
                    && why.is_wakeup()
                    && !task.moved
                    && task.waker_cpu == event.cpu;
                if !placed || waking { When::Waking } else { When::Waiting }
            }
            Activity::New => When::Fork,
            Activity::Unknown | Activity::Sleeping { .. } | Activity::Dead => When::Asleep,
        };
        let by = self.cpus[event.cpu.index()].occupant.task().unwrap_or(TaskId::NONE);
        self.tasks[id.index()].moved = true;
        let moved = Moved { at: self.now, task: id, from, to, when, by_cpu: event.cpu, by };
        see(&Change::Moved(moved), self);
        if matches!(when, When::Waking | When::Waiting) {
            self.sight(id, to, see);
        }
    }

    fn fork(&mut self, event: &Event, child: Pid, see: &mut impl FnMut(&Change, &Self)) {
        let at = self.now;
        let parent = self.cpus[event.cpu.index()].occupant.task();
        let parent = parent.unwrap_or_else(|| self.pids.get(event.by));
        let old = self.pids.get(child);
        let fresh = old.is_some() && {
            let task = &self.tasks[old.index()];
            match task.activity {
                // A wakeup can be logged before the fork when clocks disagree: the same task then.
                Activity::Waiting { why: Why::New, .. } => true,
                // Its name may have been told a moment before.
                Activity::Unknown => task.since == at && task.last_cpu.is_none(),
                _ => false,
            }
        };
        let id = if fresh { old } else { self.reuse(child) };
        let comm = if parent.is_some() { self.tasks[parent.index()].comm } else { CommId::UNKNOWN };
        let task = &mut self.tasks[id.index()];
        if task.activity == Activity::Unknown {
            task.activity = Activity::New;
        }
        // Who reads names tells the child's when it is not the one that the pid had before.
        if task.comm == CommId::UNKNOWN {
            task.comm = comm;
        }
        see(&Change::Born { at, task: id, parent }, self);
    }

    /// When a thread that is not its process's leader executes a program, it takes the leader's pid.
    fn exec(&mut self, now_called: Pid, old: Pid) {
        let id = self.pids.get(old);
        if now_called == old || !id.is_some() || now_called.is_idle() {
            return;
        }
        let leader = self.pids.get(now_called);
        if leader.is_some() {
            // It is dead already: the kernel waits for it. Its running or waiting is over.
            match self.tasks[leader.index()].activity {
                Activity::Running { .. } | Activity::Waiting { .. } => return,
                _ => self.tasks[leader.index()].activity = Activity::Dead,
            }
        }
        self.pids.set(old, TaskId::NONE);
        self.pids.set(now_called, id);
        self.tasks[id.index()].pid = now_called;
    }

    fn rename(
        &mut self,
        pid: Pid,
        comm: schedlab_model::Comm,
        see: &mut impl FnMut(&Change, &Self),
    ) {
        if pid.is_idle() {
            return;
        }
        let id = self.living(pid);
        let is = self.names.id(comm);
        let was = std::mem::replace(&mut self.tasks[id.index()].comm, is);
        if was != is {
            see(&Change::Renamed { at: self.now, task: id, was }, self);
        }
    }

    /// Events of `cpu` are missing: nothing about it is known until its next switch, and nothing
    /// about the tasks that were on it.
    #[cold]
    fn lost(
        &mut self,
        cpu: Cpu,
        count: Option<std::num::NonZeroU32>,
        see: &mut impl FnMut(&Change, &Self),
    ) {
        let at = self.now;
        self.tally.losses += 1;
        self.tally.lost_events += count.map_or(0, |count| u64::from(count.get()));
        let here = &mut self.cpus[cpu.index()];
        here.blind = true;
        here.observed = true;
        // The gap is somewhere between the CPU's last event and now.
        let since = here.last_event.max(here.since).min(at);
        let occupant = here.occupant;
        if occupant != Occupant::Unknown {
            self.vacate(cpu, since, see);
        }
        while let Some(task) = Some(self.cpus[cpu.index()].head).filter(|id| id.is_some()) {
            self.unlink(task, cpu);
            self.waiting -= 1;
            self.forgotten(task, since, see);
        }
        see(&Change::Lost { at, cpu, count }, self);
    }

    /// The occupant of `cpu` is not known any longer. The task that was there is left to the caller.
    fn vacate(&mut self, cpu: Cpu, at: Nanos, see: &mut impl FnMut(&Change, &Self)) {
        let here = &mut self.cpus[cpu.index()];
        let (was, since) = (here.occupant, here.since);
        here.since = at;
        if let Occupant::Task(task) = was {
            here.last_task = task;
            let task = &mut self.tasks[task.index()];
            task.activity = Activity::Unknown;
            task.since = at;
            task.ran_until = at;
        }
        let is = Occupant::Unknown;
        self.occupy(cpu, is);
        let switch = Switch {
            at,
            cpu,
            was,
            since,
            prev: TaskId::NONE,
            left: None,
            is,
            wait: None,
            last_cpu: None,
        };
        see(&Change::Switch(switch), self);
    }

    /// A task that waited, already off its queue, is not known any longer.
    fn forgotten(&mut self, id: TaskId, at: Nanos, see: &mut impl FnMut(&Change, &Self)) {
        let task = &mut self.tasks[id.index()];
        let (was, since) = (task.activity, task.since);
        task.activity = Activity::Unknown;
        task.since = at.max(since);
        see(&Change::Forgotten { at: at.max(since), task: id, was, since }, self);
    }

    /// A task that waits on a CPU which the trace does not cover is out of sight.
    #[inline]
    fn sight(&mut self, id: TaskId, cpu: Cpu, see: &mut impl FnMut(&Change, &Self)) {
        if !self.observed.is_empty() && !self.cpus[cpu.index()].observed {
            self.tally.out_of_sight += 1;
            self.unlink(id, cpu);
            self.waiting -= 1;
            self.forgotten(id, self.now, see);
        }
    }

    #[inline]
    fn occupy(&mut self, cpu: Cpu, is: Occupant) {
        let here = &mut self.cpus[cpu.index()];
        self.running -= u32::from(matches!(here.occupant, Occupant::Task(_)));
        self.running += u32::from(matches!(is, Occupant::Task(_)));
        here.occupant = is;
    }

    /// The task that has `pid` and can act; a new one when none is known or the last one is dead.
    #[inline]
    fn living(&mut self, pid: Pid) -> TaskId {
        let id = self.pids.get(pid);
        if id.is_some() && self.tasks[id.index()].activity != Activity::Dead {
            return id;
        }
        self.reuse(pid)
    }

    /// A new task for `pid`.
    #[cold]
    fn reuse(&mut self, pid: Pid) -> TaskId {
        let old = self.pids.get(pid);
        let comm = if old.is_some() {
            self.tally.reused_pids += 1;
            self.tasks[old.index()].comm
        } else {
            let known = self.known_comms.get(&pid).copied().unwrap_or_default();
            self.names.id(known)
        };
        let id =
            TaskId(u32::try_from(self.tasks.len()).expect("tasks fit in memory, so in 32 bits"));
        self.tasks.push(Task::new(pid, comm, self.now));
        self.pids.set(pid, id);
        id
    }

    #[inline]
    fn link(&mut self, id: TaskId, cpu: Cpu) {
        if cpu.index() >= self.cpus.len() {
            self.grow(cpu);
        }
        let here = &mut self.cpus[cpu.index()];
        let first = std::mem::replace(&mut here.head, id);
        here.waiting += 1;
        let task = &mut self.tasks[id.index()];
        task.prev = TaskId::NONE;
        task.next = first;
        if first.is_some() {
            self.tasks[first.index()].prev = id;
        }
    }

    #[inline]
    fn unlink(&mut self, id: TaskId, cpu: Cpu) {
        let Task { prev, next, .. } = self.tasks[id.index()];
        let here = &mut self.cpus[cpu.index()];
        here.waiting -= 1;
        if prev.is_some() {
            self.tasks[prev.index()].next = next;
        } else {
            here.head = next;
        }
        if next.is_some() {
            self.tasks[next.index()].prev = prev;
        }
    }
}
