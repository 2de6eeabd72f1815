//! The beginning and the end of a load, and of each task.

use super::perform::Effect;
use super::task::{Act, On, Phase, Resume, TaskState};
use super::wake::Waker;
use super::{Happening, Start, World};
use crate::policy_view::{Class, TaskId};
use schedlab_model::{Context, Nanos, What};
use schedlab_workload::{Done, Op};

impl World {
    /// The first moment: the starter becomes runnable, or all tasks do.
    pub(super) fn begin(&mut self) {
        if self.config.start == Start::InPlace {
            return self.begin_in_place();
        }
        let Some(starter) = self.starter else { return self.begin_at_once() };
        self.bodies[starter.index()].stand = TaskState::Asleep;
        if !self.has_code() {
            self.policy.leads(&self.scene, 0, starter);
        }
        self.in_interrupt(0, self.config.costs.timer, |world| {
            let by = Waker { cpu: 0, context: Context::HardIrq, sync: false };
            world.bodies[starter.index()].newborn = false;
            world.wake(starter, Resume::With(Done::Ok), by);
        });
        // Code that looks whether anything has begun finds it so.
        self.spawned = self.spawned.max(usize::from(self.spawn.is_empty()));
    }

    fn begin_at_once(&mut self) {
        self.go_off();
        self.spawned = self.spawn.len();
        let cpus = self.scene.cpus.len();
        for (turn, task) in self.spawn.clone().into_iter().enumerate() {
            let view = &self.scene.tasks[task.index()];
            let usable: Vec<usize> = (0..cpus).filter(|&cpu| view.may_use(cpu)).collect();
            let cpu = usable.get(turn % usable.len().max(1)).copied().unwrap_or(0);
            self.scene.tasks[task.index()].cpu = cpu;
            self.bodies[task.index()].stand = TaskState::Asleep;
            self.bodies[task.index()].newborn = false;
            self.alive += 1;
            self.started += 1;
            self.joins_load(cpu, task);
        }
        for task in self.spawn.clone() {
            let cpu = self.scene.tasks[task.index()].cpu;
            let by = Waker { cpu, context: Context::HardIrq, sync: false };
            self.owed = 0;
            self.wake(task, Resume::With(Done::Start), by);
        }
    }

    /// Tasks lie down in their first wait, or wake where they are.
    fn begin_in_place(&mut self) {
        self.go_off();
        self.spawned = self.spawn.len();
        let mut awake = Vec::new();
        for task in self.spawn.clone() {
            let cpu = self.own_cpu(task);
            self.bodies[task.index()].stand = TaskState::Asleep;
            self.bodies[task.index()].newborn = false;
            self.alive += 1;
            self.started += 1;
            self.joins_load(cpu, task);
            let op = self.ask_call(cpu, task);
            self.bodies[task.index()].act = Act::Op(op);
            match op {
                Op::SleepUntil(until) => {
                    self.bodies[task.index()].on = Some(On::Time);
                    let at = until.0.max(self.scene.now);
                    self.agenda.post(at, cpu, Happening::Timer(task, 0, true));
                }
                Op::AwaitPost(semaphore) => {
                    self.bodies[task.index()].on = Some(On::Semaphore(semaphore.0));
                    self.shared.semaphores[semaphore.0 as usize].sleeping.push_back(task);
                }
                Op::Receive { channel, .. } => {
                    self.bodies[task.index()].on = Some(On::Readable(channel.0));
                    self.channels[channel.0 as usize].sleeping_readers.push_back(task);
                }
                _ => awake.push(task),
            }
        }
        for task in awake {
            let cpu = self.scene.tasks[task.index()].cpu;
            self.owed = 0;
            let by = Waker { cpu, context: Context::HardIrq, sync: false };
            self.wake(task, Resume::Retry, by);
        }
        self.owed = 0;
        if self.alive == 0 {
            self.ended_at = Some(self.scene.now);
        }
    }

    /// A task is there that no task has forked.
    fn joins_load(&mut self, cpu: usize, task: TaskId) {
        if !self.has_code() {
            self.policy.fork(&self.scene, cpu, None, task);
        }
    }

    /// The CPU of a task that begins in place: its own, or the first that it may use here.
    fn own_cpu(&mut self, task: TaskId) -> usize {
        let cpus = self.scene.cpus.len();
        let view = &mut self.scene.tasks[task.index()];
        if view.cpu >= cpus || !view.may_use(view.cpu) {
            let wanted = view.cpu % cpus;
            let mut usable = (0..cpus).map(|step| (wanted + step) % cpus);
            view.cpu = usable.find(|&cpu| view.may_use(cpu)).unwrap_or(0);
        }
        view.cpu
    }

    /// The load begins: from now on its time counts.
    fn go_off(&mut self) {
        self.went_at = Some(self.scene.now);
        self.until = self.duration.map(|duration| Nanos(self.scene.now + duration));
        self.plan_speeds();
        if let Some(duration) = self.duration {
            // The task that ends the load sleeps until then, as others do.
            let slack = self.starter.map_or(0, |_| self.config.costs.timer_slack);
            self.agenda.post(self.scene.now + duration + slack, 0, Happening::Stop);
        }
    }

    pub(super) fn starters_next(&mut self) -> Act {
        if let Some(&task) = self.spawn.get(self.spawned) {
            self.spawned += 1;
            Act::Spawn(task)
        } else if self.ready < self.spawn.len() {
            Act::AwaitReady
        } else if !std::mem::replace(&mut self.told_ready, true) {
            Act::Begin
        } else if self.went_at.is_none() {
            Act::OpenGate
        } else {
            Act::AwaitEnd
        }
    }

    /// A step of the start takes effect.
    pub(super) fn stage(&mut self, cpu: usize, task: TaskId, act: Act) -> Effect {
        let by = Waker { cpu, context: Context::Task, sync: false };
        match act {
            Act::Spawn(child) => {
                let left = self.cost_of_preparing();
                let body = &mut self.bodies[child.index()];
                body.phase = Phase::Enter;
                body.act = Act::Prepare;
                body.left = left;
                self.bear(cpu, task, child);
            }
            Act::Prepare => {
                self.ready += 1;
                // Each task that is ready wakes the starter, which looks whether all are.
                if let Some(starter) = self.starter {
                    self.wake(starter, Resume::Retry, by);
                }
                return Effect::Sleep(On::Gate);
            }
            Act::EndGrace => return Effect::Sleep(On::Time),
            Act::AwaitReady if self.ready < self.spawn.len() => {
                return Effect::Sleep(On::AllReady);
            }
            Act::OpenGate => {
                self.go_off();
                // Those that wait in a poll wake in the opposite order of their coming.
                for waiting in std::mem::take(&mut self.gate).into_iter().rev() {
                    self.bodies[waiting.index()].fresh = true;
                    self.wake(waiting, Resume::With(Done::Start), by);
                    // It comes out of its wait before it asks what to do.
                    self.bodies[waiting.index()].left += self.config.costs.first;
                }
            }
            Act::AwaitEnd if self.ending.time_is_up && !self.stopping => {
                self.ending.is_asked_for = true;
                return Effect::Again(self.config.costs.wait.max(1));
            }
            Act::AwaitEnd if self.processes && self.reaped < self.gone => {
                let work = (self.gone - self.reaped) * self.config.costs.reap;
                self.reaped = self.gone;
                return Effect::Again(work.max(1));
            }
            Act::AwaitEnd if self.alive > 0 => return Effect::Sleep(On::AllEnded),
            Act::AwaitEnd => self.ended_at = Some(self.scene.now),
            _ => {}
        }
        self.went(task, Done::Ok)
    }

    fn bear(&mut self, cpu: usize, parent: TaskId, child: TaskId) {
        self.alive += 1;
        self.started += 1;
        let pid = self.pid(child);
        self.emit(cpu, Context::Task, What::Fork { child: pid });
        self.stirred = true;
        self.scene.tasks[child.index()].cpu = cpu;
        // A class above the fair ones is a task's own to ask for, once it runs.
        let class = self.scene.task(child).class;
        self.bodies[child.index()].is_plain = class.is_above();
        if self.has_code() {
            return self.fork_by_code(cpu, child);
        }
        if class.is_above() {
            self.bodies[child.index()].own_class = class;
            self.scene.tasks[child.index()].class = Class::Normal;
        }
        self.policy.fork(&self.scene, cpu, Some(parent), child);
        self.wake_new(child, Waker { cpu, context: Context::Task, sync: false });
    }

    /// A task starts another of a fork, if one may be started.
    pub(super) fn fork(&mut self, cpu: usize, parent: TaskId, fork: u32) -> Effect {
        let Some(child) = self.forks[fork as usize].pop() else {
            return self.went(parent, Done::Full);
        };
        let body = &mut self.bodies[child.index()];
        if let Some(anew) = body.behaviour.as_ref().and_then(|behaviour| behaviour.again()) {
            body.behaviour = Some(anew);
        }
        body.phase = Phase::Ask;
        body.done = Done::Start;
        body.left = 0;
        body.ended_at = None;
        body.last_ran = None;
        body.batch.clear();
        body.closed.clear();
        self.bear(cpu, parent, child);
        self.went(parent, Done::Ok)
    }

    /// A task ends: its channels are closed, and the one that waits for that is woken. The end of a process wakes the
    /// starter, which looks after it; the run is over when the starter has seen all.
    pub(super) fn ends(&mut self, cpu: usize, task: TaskId) -> Effect {
        let by = Waker { cpu, context: Context::Task, sync: false };
        for channel in self.bodies[task.index()].sends.clone() {
            self.close(task, channel, by);
        }
        for channel in self.bodies[task.index()].receives.clone() {
            let of = &mut self.channels[channel as usize];
            of.readers = of.readers.saturating_sub(1);
            if of.readers == 0 {
                for writer in std::mem::take(&mut of.sleeping_writers) {
                    self.wake(writer, Resume::Retry, by);
                }
            }
        }
        let pid = self.pid(task);
        self.emit(cpu, Context::Task, What::Exit { pid });
        self.stirred = true;
        let body = &mut self.bodies[task.index()];
        body.stand = TaskState::Gone;
        body.ended_at = Some(self.scene.now);
        if let Some(fork) = body.fork {
            self.forks[fork as usize].push(task);
        }
        self.alive -= 1;
        self.gone += 1;
        match self.starter {
            Some(starter) if self.alive == 0 || self.processes => {
                self.wake(starter, Resume::Retry, by);
            }
            None if self.alive == 0 => self.ended_at = Some(self.scene.now),
            _ => {}
        }
        Effect::Ended
    }

    /// The time of the load is over. The task that started it has to get a CPU before it can end it: it is a fair task.
    /// Where tasks may wait for ever, it does not wait for one.
    pub(super) fn ends_its_time(&mut self) {
        let Some(starter) = self.starter else { return self.stop() };
        self.ending.time_is_up = true;
        if !self.has_code() && !self.policy.serves_all() {
            self.ending.is_asked_for = true;
            return;
        }
        if self.bodies[starter.index()].stand == TaskState::Asleep {
            let cpu = self.scene.tasks[starter.index()].cpu;
            self.in_interrupt(cpu, self.config.costs.timer, |world| {
                let by = Waker { cpu, context: Context::HardIrq, sync: false };
                world.wake(starter, Resume::Retry, by);
            });
        }
    }

    /// Whether the load is about to be stopped: the next step does it.
    #[must_use]
    pub(crate) fn asks_to_stop(&self) -> bool {
        self.ending.is_asked_for && !self.stopping
    }

    /// Whether a task of the world starts the load and ends it.
    #[must_use]
    pub(crate) fn has_starter(&self) -> bool {
        self.starter.is_some()
    }

    /// Asks all tasks to stop. Tasks that sleep are woken; one that computes looks up every 10 ms.
    pub(crate) fn stop(&mut self) {
        if std::mem::replace(&mut self.stopping, true) {
            return;
        }
        self.ending.stopped_at = Some(self.scene.now);
        self.allow_short_way();
        self.forget_sleepers();
        for at in 0..self.bodies.len() {
            let task = TaskId(at as u32);
            if Some(task) == self.starter || Some(task) == self.rcu || !self.is_alive(task) {
                continue;
            }
            let cpu = self.scene.tasks[at].cpu;
            match self.bodies[at].stand {
                TaskState::Asleep => self.in_interrupt(cpu, self.config.costs.timer, |world| {
                    let by = Waker { cpu, context: Context::HardIrq, sync: false };
                    world.wake(task, Resume::With(Done::Stopped), by);
                }),
                TaskState::Running => {
                    self.pause(cpu, task);
                    self.cut_short(at);
                    self.go(cpu, task);
                }
                _ => self.cut_short(at),
            }
        }
    }

    /// What a task does ends where it looks whether it shall stop: a call at its end, work in pieces of 10 ms.
    fn cut_short(&mut self, task: usize) {
        const PIECE: u64 = 10_000_000;
        let body = &mut self.bodies[task];
        if body.spinning {
            body.phase = Phase::Ask;
            body.done = Done::Stopped;
            body.left = 0;
            body.spinning = false;
            body.on = None;
        } else if body.phase == Phase::Enter && body.act.is_user() {
            body.left = if body.left > PIECE { body.left % PIECE } else { body.left };
        }
    }

    fn forget_sleepers(&mut self) {
        self.shared.forget_sleepers();
        for channel in &mut self.channels {
            channel.sleeping_readers.clear();
            channel.sleeping_writers.clear();
        }
    }
}
