//! Who runs: the tick, displacing a task, switching to the next.

use super::task::{Phase, Resume, TaskState};
use super::wake::Waker;
use super::{Happening, World};
use crate::policy::{Alarm, Arrival, Departure, Push};
use crate::policy_view::{Class, TaskId};
use schedlab_model::{Context, Distance, Left, Pid, Prio, What};

impl World {
    /// The scheduler tick, on all busy CPUs at once: a CPU in a gap ticks at the gap's end.
    pub(super) fn tick(&mut self) {
        self.tick_at = None;
        if self.config.turns {
            return self.tick_by_turns();
        }
        for at in 0..self.order.len() {
            let cpu = self.order[at];
            if self.is_in_gap(cpu) {
                let at = self.scene.cpus[cpu].gap_until;
                self.agenda.post(at, cpu, Happening::TickOf(cpu));
            } else if self.ticked[cpu] == Some(self.scene.now) {
                // A timer of the same time had the tick in its interrupt.
            } else if self.scene.cpus[cpu].running.is_some() {
                self.tick_on(cpu);
            } else {
                self.idle_tick(cpu);
            }
        }
        self.balance();
        self.arm_tick(0);
    }

    /// Each CPU ticks in its turn.
    fn tick_by_turns(&mut self) {
        for at in 0..self.order.len() {
            let cpu = self.order[at];
            let ticks = self.scene.cpus[cpu].running.is_some() || self.ticks_while_idle(cpu);
            if ticks && !self.waits_for_turn(Happening::TickOf(cpu)) {
                self.tick_of(cpu);
            }
        }
        self.arm_tick(0);
    }

    /// One CPU ticks: by itself where ticks are skewed, or late after a gap.
    pub(super) fn tick_of(&mut self, cpu: usize) {
        if self.config.skew_tick {
            self.extras.ticks_armed[cpu] = false;
        }
        if self.scene.cpus[cpu].running.is_none() {
            return self.idle_tick(cpu);
        }
        self.tick_on(cpu);
        self.scene.tick_of = Some(cpu);
        self.balance();
        self.scene.tick_of = None;
        if self.config.skew_tick {
            self.arm_tick(cpu);
        }
    }

    fn tick_on(&mut self, cpu: usize) {
        self.in_interrupt(cpu, 0, |world| {
            world.does_tick(cpu);
            world.fire_due(cpu);
        });
    }

    fn does_tick(&mut self, cpu: usize) {
        self.interrupt(cpu, self.config.costs.tick);
        self.reads_clock(cpu);
        if self.policy.tick(&self.scene, cpu) {
            self.displace(cpu, cpu);
        }
        self.wake_rcu(cpu);
    }

    /// In a timer's interrupt: the tick of the same time, which is a timer too, comes in the same interrupt. It finds what
    /// ran before, also where the timer displaces that.
    pub(super) fn ticks_with(&mut self, cpu: usize) {
        let now = Some(self.scene.now);
        if self.tick_at != now || self.ticked[cpu] == now {
            return;
        }
        self.ticked[cpu] = now;
        if self.scene.cpus[cpu].running.is_some() {
            self.does_tick(cpu);
        }
    }

    fn balance(&mut self) {
        let mut moves = std::mem::take(&mut self.moves);
        self.policy.balance(&self.scene, &mut moves);
        self.moves = moves;
        self.apply_moves();
        self.send_pushes();
        self.set_alarms();
    }

    /// The first busy CPU of a tick wakes the kernel's RCU thread if tasks were forked or ended since the last one.
    fn wake_rcu(&mut self, cpu: usize) {
        if let Some(rcu) = self.rcu.filter(|_| std::mem::take(&mut self.stirred)) {
            let owed = self.owed;
            self.wake(rcu, Resume::Retry, Waker { cpu, context: Context::HardIrq, sync: false });
            self.owed = owed;
        }
    }

    /// Plans the next tick if a CPU is busy and none is planned; where ticks are skewed, that of `cpu`.
    fn arm_tick(&mut self, cpu: usize) {
        if self.has_code() {
            return;
        }
        if self.config.skew_tick {
            return self.arm_own_tick(cpu);
        }
        if self.tick_at.is_none() && self.scene.cpus.iter().any(|cpu| cpu.running.is_some()) {
            let tick = self.config.tick_ns;
            let at = (self.scene.now / tick + 1) * tick;
            self.tick_at = Some(at);
            self.sets_timer(cpu, at);
            self.agenda.post(at, 0, Happening::Tick);
        }
    }

    /// The tick of each CPU comes later than that of the CPU before: all lie in half a tick (Linux 6.1,
    /// kernel/time/tick-sched.c, `tick_setup_sched_timer`).
    fn arm_own_tick(&mut self, cpu: usize) {
        if std::mem::replace(&mut self.extras.ticks_armed[cpu], true) {
            return;
        }
        let at = self.tick_after(cpu);
        self.sets_timer(cpu, at);
        self.agenda.post(at, cpu, Happening::TickOf(cpu));
    }

    /// The time of a CPU's first tick after now.
    fn tick_after(&self, cpu: usize) -> u64 {
        let tick = self.config.tick_ns;
        let shift = match self.config.skew_tick {
            true => tick / 2 / self.scene.cpus.len() as u64 * cpu as u64,
            false => 0,
        };
        let whole = self.scene.now.checked_sub(shift).map_or(0, |past| past / tick + 1);
        whole * tick + shift
    }

    /// Whether a CPU ticks: while it is busy, and once after that (`cpuidle_idle_call` without a governor).
    fn has_tick(&self, cpu: usize) -> bool {
        let of = &self.scene.cpus[cpu];
        of.running.is_some() || of.idle_since + self.config.tick_ns >= self.tick_after(cpu)
    }

    /// The time of a CPU's next tick; the end of time where it has stopped.
    pub(super) fn next_tick(&self, cpu: usize) -> u64 {
        if self.has_tick(cpu) { self.tick_after(cpu) } else { u64::MAX }
    }

    /// An interrupt takes time from the task that runs.
    pub(super) fn interrupt(&mut self, cpu: usize, work: u64) {
        let Some(task) = self.scene.cpus[cpu].running else { return };
        if work > 0 && self.bodies[task.index()].left != u64::MAX {
            self.pause(cpu, task);
            self.bodies[task.index()].left += work;
            self.go(cpu, task);
        }
    }

    /// The task that runs on `cpu` is to be displaced; `from` is the CPU that decided it.
    pub(super) fn displace(&mut self, cpu: usize, from: usize) {
        if std::mem::replace(&mut self.scene.cpus[cpu].resched, true) {
            return;
        }
        if cpu == from {
            self.look(cpu);
        } else {
            let at = self.scene.now + self.way_to(cpu, false);
            self.agenda.post(at, cpu, Happening::Resched(cpu));
        }
    }

    /// A CPU looks who should run. Within a system call a displaced task goes on to its end, unless the kernel is
    /// preemptible.
    pub(super) fn look(&mut self, cpu: usize) {
        // The kernel's own code looks where a kernel does.
        if self.has_code() {
            return;
        }
        if self.stands_still(cpu) {
            self.waits_for_turn(Happening::Resched(cpu));
            return;
        }
        if self.interrupted == Some(cpu) {
            self.has_to_look = true;
            return;
        }
        let Some(task) = self.scene.cpus[cpu].running else { return self.schedule(cpu, None) };
        // After a gap it looks again.
        if self.is_in_gap(cpu) {
            return;
        }
        // While an operation takes effect its CPU has no piece of work: the way out of the call looks again.
        if !self.scene.cpus[cpu].resched || self.acting == Some(cpu) {
            return;
        }
        let body = &self.bodies[task.index()];
        if body.phase == Phase::Enter && body.act.is_user() {
            self.pause(cpu, task);
            self.schedule(cpu, Some(Left::Displaced));
        } else if self.config.preempt_kernel {
            self.pause(cpu, task);
            self.schedule(cpu, Some(Left::Preempted));
        }
    }

    /// Takes the task that runs off the CPU, if one runs, and puts the next one on.
    ///
    /// `left` says how the running task leaves. One that sleeps or ends is dequeued here.
    pub(super) fn schedule(&mut self, cpu: usize, left: Option<Left>) {
        let prev = self.scene.cpus[cpu].running;
        if self.has_code() {
            if let (Some(task), Some(left)) = (prev, left) {
                self.leave_by_code(cpu, task, left);
            }
            return;
        }
        self.scene.cpus[cpu].resched = false;
        let push = self.pushes[cpu].take().filter(|_| left.is_some_and(Left::is_runnable));
        if let (Some(task), Some(to)) = (prev, push)
            && self.scene.task(task).may_use(to)
        {
            return self.relocate(cpu, task, Some(to));
        }
        let read_at = self.scene.cpus[cpu].read_at.take();
        self.scene.cpus[cpu].held_at = read_at;
        if let (Some(task), Some(left)) = (prev, left) {
            self.scene.tasks[task.index()].ran_at = self.scene.now;
            match left {
                Left::Preempted | Left::Displaced => {}
                Left::Dead => self.leaves(cpu, task, Departure::Ends),
                _ => self.leaves(cpu, task, Departure::Sleeps),
            }
        }
        self.switch(cpu, prev, left.unwrap_or(Left::Displaced));
        self.scene.cpus[cpu].held_at = None;
        self.settle(cpu);
    }

    /// The clock of a CPU is read, by which its tasks are charged.
    pub(super) fn reads_clock(&mut self, cpu: usize) {
        let now = self.scene.now;
        if let Some(at) = &mut self.scene.cpus[cpu].read_at {
            *at = now;
        }
    }

    fn leaves(&mut self, cpu: usize, task: TaskId, departure: Departure) {
        self.scene.cpus[cpu].above -= u32::from(self.scene.task(task).class.is_above());
        self.policy.dequeue(&self.scene, cpu, task, departure);
    }

    /// A task comes to the queue of a CPU.
    pub(super) fn joins(&mut self, cpu: usize, task: TaskId, arrival: Arrival) {
        self.scene.cpus[cpu].above += u32::from(self.scene.task(task).class.is_above());
        self.policy.enqueue(&self.scene, cpu, task, arrival);
    }

    pub(super) fn changes_class(&mut self, cpu: usize, task: TaskId, class: Class) {
        self.leaves(cpu, task, Departure::Moves);
        self.scene.tasks[task.index()].class = class;
        self.joins(cpu, task, Arrival::Moved);
        // Its way out of the call looks who should run.
        self.scene.cpus[cpu].resched = true;
        self.set_alarms();
    }

    /// A new task asks for the class that it shall have. `false`: it lost its CPU for that, and tries what it was about to
    /// do again.
    pub(super) fn asks_for_class(&mut self, cpu: usize, task: TaskId) -> bool {
        self.bodies[task.index()].is_plain = false;
        if self.has_code() {
            return self.asks_code_for_class(cpu, task);
        }
        self.changes_class(cpu, task, self.bodies[task.index()].own_class);
        self.schedule(cpu, Some(Left::Displaced));
        self.scene.cpus[cpu].running == Some(task)
    }

    /// A policy that acts by itself moves what it wants to move, and sets its alarms.
    pub(super) fn settle(&mut self, cpu: usize) {
        if !self.timed {
            return;
        }
        let mut moves = std::mem::take(&mut self.moves);
        self.policy.settle(&self.scene, cpu, &mut moves);
        self.moves = moves;
        self.apply_moves();
        self.set_alarms();
    }

    fn set_alarms(&mut self) {
        while self.timed
            && let Some(alarm) = self.policy.take_alarm()
        {
            self.alarms[alarm.cpu].insert(alarm);
            self.agenda.post(alarm.at.max(self.scene.now), alarm.cpu, Happening::Alarm(alarm));
        }
    }

    /// An alarm of the policy goes off on its CPU, unless an interrupt has handled it already.
    pub(super) fn alarm(&mut self, alarm: Alarm) {
        let way = self.config.costs.idle_exit;
        if self.scene.cpus[alarm.cpu].running.is_none() && self.scene.now == alarm.at && way > 0 {
            return self.agenda.post(alarm.at + way, alarm.cpu, Happening::Alarm(alarm));
        }
        if !self.alarms[alarm.cpu].contains(&alarm) {
            return;
        }
        let mut counts = false;
        self.in_interrupt(alarm.cpu, 0, |world| {
            counts = world.alarm_ends(alarm);
            // The policy's timers are timers of the CPU: others that are due fire with them.
            if counts {
                world.fire_due(alarm.cpu);
                world.ticks_with(alarm.cpu);
            }
        });
        if counts {
            self.settle(alarm.cpu);
        }
    }

    /// The policy acts by itself, in an interrupt of a CPU; CPUs look who should run where it says so. Whether it wanted to.
    pub(super) fn alarm_ends(&mut self, alarm: Alarm) -> bool {
        self.alarms[alarm.cpu].remove(&alarm);
        let mut kicks = Vec::new();
        if !self.policy.alarm(&self.scene, alarm, &mut kicks) {
            return false;
        }
        self.reads_clock(alarm.cpu);
        for cpu in kicks {
            if cpu == alarm.cpu || self.scene.cpus[cpu].running.is_some() {
                self.displace(cpu, cpu);
            } else {
                let at = self.scene.now + self.config.costs.idle_exit;
                self.agenda.post(at, cpu, Happening::Resched(cpu));
            }
        }
        true
    }

    /// Puts the next task on a CPU whose task `prev` has been accounted and, where it leaves, dequeued.
    pub(super) fn switch(&mut self, cpu: usize, prev: Option<TaskId>, left: Left) {
        let mut next = self.policy.pick(&self.scene, cpu);
        if next.is_none() {
            let mut moves = std::mem::take(&mut self.moves);
            self.policy.pull(&self.scene, cpu, &mut moves);
            self.moves = moves;
            if !self.moves.done.is_empty() {
                // The CPU takes what it pulled by itself.
                self.note_moves();
                next = self.policy.pick(&self.scene, cpu);
            }
            self.send_pushes();
        }
        if prev == next {
            return if let Some(task) = next {
                self.go(cpu, task);
            };
        }
        if let Some(task) = next {
            self.comes_from_elsewhere(cpu, task);
        }
        let of = |task: Option<TaskId>| {
            task.map_or((Pid::IDLE, Prio::NORMAL), |task| (self.pid(task), self.prio(task)))
        };
        let (prev_pid, prev_prio) = of(prev);
        let (next_pid, next_prio) = of(next);
        let state = if prev.is_some() { left } else { Left::Displaced };
        let what =
            What::Switch { prev: prev_pid, prev_prio, left: state, next: next_pid, next_prio };
        self.emit(cpu, Context::Task, what);
        if let Some(task) = prev {
            self.steps_down(task, left);
        }
        self.scene.cpus[cpu].running = next;
        match next {
            Some(task) => self.steps_up(cpu, task),
            None => self.scene.cpus[cpu].idle_since = self.scene.now,
        }
        if prev.is_none() != next.is_none() {
            self.core_changes(cpu);
        }
        self.memory_changes(cpu, next);
    }

    /// A task that waited in a queue that CPUs share is picked by another CPU than the one it waited on.
    fn comes_from_elsewhere(&mut self, cpu: usize, task: TaskId) {
        let from = self.scene.tasks[task.index()].cpu;
        if from != cpu {
            self.moves.done.push(crate::policy::Move { task, from, to: cpu });
            self.note_moves();
        }
    }

    pub(super) fn steps_down(&mut self, task: TaskId, left: Left) {
        let now = self.scene.now;
        let body = &mut self.bodies[task.index()];
        match left.is_voluntary() {
            true => body.usage.voluntary += 1,
            false => body.usage.involuntary += 1,
        }
        // One that ended or moved stands elsewhere already.
        if body.stand == TaskState::Running {
            body.stand = if left.is_runnable() { TaskState::Queued } else { TaskState::Asleep };
        }
        body.since = now;
    }

    pub(super) fn steps_up(&mut self, cpu: usize, task: TaskId) {
        let now = self.scene.now;
        let view = &mut self.scene.tasks[task.index()];
        view.ran_at = now;
        view.cpu = cpu;
        let last = self.bodies[task.index()].last_ran.replace(cpu);
        let costs = &self.config.costs;
        let cold = last.filter(|&last| last != cpu).map_or(0, |last| {
            match self.scene.hardware.distance(last, cpu) {
                Distance::Same => 0,
                Distance::Smt => costs.migrate_smt,
                Distance::Llc => costs.migrate_llc,
                Distance::Node => costs.migrate_node,
                Distance::Socket | Distance::Machine => costs.migrate_machine,
            }
        });
        let address_space = if self.processes { costs.switch_process } else { 0 };
        let switch = costs.switch + address_space;
        let body = &mut self.bodies[task.index()];
        body.usage.run_delay_ns += now - body.since;
        body.usage.timeslices += 1;
        body.stand = TaskState::Running;
        body.since = now;
        if body.spinning {
            // It looks again whether the lock of this CPU is free.
            body.spinning = false;
            body.left = 0;
        }
        body.left = body.left.saturating_add(switch + cold);
        self.go(cpu, task);
        self.arm_tick(cpu);
    }

    /// Tells what a policy moved, and has the CPUs look that got something.
    pub(super) fn apply_moves(&mut self) {
        let moved = self.moves.done.iter().map(|m| (m.to, m.task));
        let moved: Vec<(usize, TaskId)> = moved.collect();
        self.note_moves();
        for (cpu, task) in moved {
            // It may have gone on to another CPU, or run by now.
            let waits = self.bodies[task.index()].stand == TaskState::Queued;
            if !waits || self.scene.tasks[task.index()].cpu != cpu {
                continue;
            }
            if self.scene.cpus[cpu].running.is_none() {
                let at = self.scene.now + self.way_to(cpu, true);
                self.agenda.post(at, cpu, Happening::Resched(cpu));
            } else if self.policy.preempts(&self.scene, cpu, task, Arrival::Moved) {
                self.displace(cpu, cpu);
            }
        }
    }

    fn note_moves(&mut self) {
        for at in 0..self.moves.done.len() {
            let moved = self.moves.done[at];
            let from = moved.from;
            let to = moved.to;
            self.scene.tasks[moved.task.index()].cpu = to;
            self.bodies[moved.task.index()].usage.migrations += 1;
            if self.scene.task(moved.task).class.is_above() {
                self.scene.cpus[from].above -= 1;
                self.scene.cpus[to].above += 1;
            }
            let pid = self.pid(moved.task);
            let what = What::Migrate {
                pid,
                from: crate::policy_view::id(from),
                to: crate::policy_view::id(to),
            };
            self.emit(to, Context::Task, what);
        }
        self.moves.done.clear();
    }

    /// Tells CPUs that they are to give a task away.
    fn send_pushes(&mut self) {
        for push in std::mem::take(&mut self.moves.pushes) {
            let at = self.scene.now + self.way_to(push.from, false);
            self.agenda.post(at, push.from, Happening::Push(push));
        }
    }

    /// A CPU gives a task to another: one that waits at once, the one that runs when it may be displaced.
    pub(super) fn push(&mut self, push: Push) {
        let Some(task) = self.policy.push(&self.scene, push) else { return };
        if self.scene.cpus[push.from].running == Some(task) {
            self.pushes[push.from] = Some(push.to);
            return self.displace(push.from, push.from);
        }
        self.moves.done.push(crate::policy::Move { task, from: push.from, to: push.to });
        self.apply_moves();
    }

    /// The task that runs on `cpu` goes to the CPU `to`; without one, because it may not stay, to one that it may use.
    pub(super) fn relocate(&mut self, cpu: usize, task: TaskId, to: Option<usize>) {
        if self.has_code() {
            return self.set_by_code(cpu, task);
        }
        // What was about to push or displace it no longer counts: it concerned this task, not the next one.
        self.pushes[cpu] = None;
        self.scene.cpus[cpu].resched = false;
        self.leaves(cpu, task, Departure::Moves);
        let wake = crate::policy::Wake { task, cpu, waker: None, new: false, sync: false };
        let to = to.unwrap_or_else(|| self.policy.select(&self.scene, &wake));
        self.switch(cpu, Some(task), Left::Preempted);
        let pid = self.pid(task);
        let from = crate::policy_view::id(cpu);
        let there = crate::policy_view::id(to);
        self.emit(cpu, Context::Task, What::Migrate { pid, from, to: there });
        self.scene.tasks[task.index()].cpu = to;
        self.bodies[task.index()].usage.migrations += 1;
        self.joins(to, task, Arrival::Moved);
        if self.scene.cpus[to].running.is_none() {
            let at = self.scene.now + self.way_to(to, true);
            self.agenda.post(at, to, Happening::Resched(to));
        } else if self.policy.preempts(&self.scene, to, task, Arrival::Moved) {
            self.displace(to, cpu);
        }
        self.settle(to);
    }
}
