//! From a wakeup to a CPU.

use super::task::{Phase, Resume, TaskState};
use super::{Happening, Start, World};
use crate::policy::{Arrival, Wake};
use crate::policy_view::{TaskId, id};
use schedlab_model::{Context, What};

/// Who wakes: on which CPU, in which context, and whether it says that it will sleep soon.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waker {
    pub(super) cpu: usize,
    pub(super) context: Context,
    pub(super) sync: bool,
}

impl World {
    /// Wakes a task that sleeps. What it costs is owed by the task that runs on the waker's CPU.
    pub(super) fn wake(&mut self, task: TaskId, resume: Resume, by: Waker) {
        if self.bodies[task.index()].stand != TaskState::Asleep {
            return;
        }
        self.comes_awake(task, resume);
        if self.has_code() {
            let began = self.scene.now;
            let cost = self.config.costs.wake;
            self.owed += cost;
            self.wake_by_code(task, by);
            // What the kernel's code took is a part of it, and of the waker's next calls: costs were measured together.
            let took = self.scene.now - began;
            self.owed -= cost.min(took).min(self.owed);
            if by.context == Context::Task
                && let Some(waker) = self.scene.cpus[by.cpu].running
                && self.config.start != Start::InPlace
            {
                self.bodies[waker.index()].prepaid += took.saturating_sub(cost);
            }
            return;
        }
        let last = self.scene.tasks[task.index()].cpu;
        let pid = self.pid(task);
        let prio = self.prio(task);
        self.emit(by.cpu, by.context, What::Waking { pid, prio, last_cpu: id(last) });
        self.owed += self.config.costs.wake;
        let waker = self.scene.cpus[by.cpu].running.filter(|_| by.context == Context::Task);
        let wake = Wake { task, cpu: by.cpu, waker, new: false, sync: by.sync };
        let cpu = self.policy.select(&self.scene, &wake);
        if cpu != last {
            self.emit(by.cpu, by.context, What::Migrate { pid, from: id(last), to: id(cpu) });
            self.scene.tasks[task.index()].cpu = cpu;
            self.bodies[task.index()].usage.migrations += 1;
            self.bodies[task.index()].woke_elsewhere = true;
        }
        // The kernel leaves the enqueueing to the other CPU where that is idle or shares no cache (`ttwu_queue_cond`).
        let idle = self.scene.cpus[cpu].running.is_none();
        if cpu != by.cpu && (idle || !self.scene.hardware.share_llc(cpu, by.cpu)) {
            let way = self.way_to(cpu, idle);
            self.scene.cpus[cpu].pending += 1;
            let at = self.scene.now + self.owed + way;
            self.agenda.post(at, cpu, Happening::Arrive(cpu, task));
        } else {
            self.arrive(cpu, task, by.cpu, by.context);
        }
    }

    /// A task that slept is to go on, on a CPU that is not chosen yet.
    pub(super) fn comes_awake(&mut self, task: TaskId, resume: Resume) {
        let body = &mut self.bodies[task.index()];
        body.on = None;
        body.sleeps += 1;
        match resume {
            Resume::Retry => {
                body.phase = Phase::Enter;
                self.bodies[task.index()].left = self.cost_of_retry(task);
            }
            Resume::With(done) => (body.phase, body.done, body.left) = (Phase::Ask, done, 0),
        }
        let body = &mut self.bodies[task.index()];
        body.stand = TaskState::Arriving;
        body.since = self.scene.now;
    }

    /// A task that was just forked becomes runnable.
    pub(super) fn wake_new(&mut self, task: TaskId, by: Waker) {
        let body = &mut self.bodies[task.index()];
        body.stand = TaskState::Arriving;
        body.since = self.scene.now;
        body.newborn = true;
        let waker = self.scene.cpus[by.cpu].running;
        let wake = Wake { task, cpu: by.cpu, waker, new: true, sync: false };
        let cpu = self.policy.select(&self.scene, &wake);
        self.scene.tasks[task.index()].cpu = cpu;
        self.arrive(cpu, task, by.cpu, by.context);
    }

    /// A woken task reaches the queue of `cpu`; the CPU `logger` tells it.
    pub(super) fn arrive(&mut self, cpu: usize, task: TaskId, logger: usize, context: Context) {
        let body = &mut self.bodies[task.index()];
        let new = std::mem::take(&mut body.newborn);
        let elsewhere = std::mem::take(&mut body.woke_elsewhere);
        body.stand = TaskState::Queued;
        let arrival = match (new, elsewhere) {
            (true, _) => Arrival::New,
            (false, true) => Arrival::WokenElsewhere,
            (false, false) => Arrival::Woken,
        };
        let pid = self.pid(task);
        let prio = self.prio(task);
        self.reads_clock(cpu);
        self.joins(cpu, task, arrival);
        self.emit(logger, context, What::Wakeup { pid, prio, cpu: id(cpu), new });
        if self.scene.cpus[cpu].running.is_some() {
            if self.policy.preempts(&self.scene, cpu, task, arrival) {
                self.displace(cpu, logger);
            }
            if self.scene.cpus[cpu].resched {
                self.scene.cpus[cpu].read_at = Some(self.scene.now);
            }
        } else if cpu == logger {
            self.look(cpu);
        } else {
            let at = self.scene.now + self.way_to(cpu, true);
            self.agenda.post(at, cpu, Happening::Resched(cpu));
        }
        self.settle(cpu);
    }

    /// Does something in an interrupt on `cpu`, of so much work. What runs after it waits for it, and for the wakeups
    /// in it. From an idle CPU the way out of idle is all there is.
    pub(super) fn in_interrupt(&mut self, cpu: usize, work: u64, act: impl FnOnce(&mut Self)) {
        self.owed = 0;
        let before = self.scene.cpus[cpu].running;
        self.interrupted = Some(cpu);
        act(self);
        self.interrupted = None;
        let owed = std::mem::take(&mut self.owed);
        // Its way out looks once, whatever happened in it.
        if std::mem::take(&mut self.has_to_look) {
            self.look(cpu);
        }
        // A recorded burst contains what interrupts took from it.
        if self.config.start == super::Start::InPlace {
            return self.interrupt(cpu, work);
        }
        if before.is_some() {
            self.interrupt(cpu, work + owed);
        }
    }
}
