//! The effect of an operation when its time has passed, but for messages.

use super::World;
use super::perform::Effect;
use super::task::{Act, On, Resume, TaskState};
use super::wake::Waker;
use crate::policy_view::{Class, TaskId};
use schedlab_model::{Context, Nanos};
use schedlab_workload::{Done, Op};

const EBUSY: i32 = 16;

impl World {
    /// An operation that is no message takes effect.
    pub(super) fn perform(&mut self, cpu: usize, task: TaskId, op: Op) -> Effect {
        let by = Waker { cpu, context: Context::Task, sync: false };
        match op {
            Op::Sleep(Nanos(0)) => self.went(task, Done::Ok),
            Op::Sleep(time) => self.sleeps_until(cpu, task, self.scene.now.saturating_add(time.0)),
            Op::SleepUntil(until) if until.0 <= self.scene.now => self.went(task, Done::Ok),
            Op::SleepUntil(until) => self.sleeps_until(cpu, task, until.0),
            Op::Wait(word) => match self.shared.words[word.0 as usize].pending.take() {
                Some(stamp) => self.went(task, Done::Woken { stamp: Nanos(stamp) }),
                None => Effect::Sleep(On::Word(word.0)),
            },
            Op::WaitUntil { word, until } => {
                match self.shared.words[word.0 as usize].pending.take() {
                    Some(stamp) => self.went(task, Done::Woken { stamp: Nanos(stamp) }),
                    None if until.0 <= self.scene.now => self.went(task, Done::Ok),
                    None => {
                        self.sleeps_until(cpu, task, until.0);
                        Effect::Sleep(On::Word(word.0))
                    }
                }
            }
            Op::Wake { word, stamp } => {
                let word = &mut self.shared.words[word.0 as usize];
                if word.pending.is_none() {
                    word.pending = Some(stamp.0);
                    let first = word.sleeping.pop_front();
                    first.into_iter().for_each(|first| self.wake(first, Resume::Retry, by));
                }
                self.went(task, Done::Ok)
            }
            Op::Push { queue, value } => {
                let done = self.shared.queues[queue.0 as usize].push(value);
                self.went(task, done)
            }
            Op::Pop(queue) => {
                let batch = &mut self.bodies[task.index()].batch;
                let done = self.shared.queues[queue.0 as usize].pop(batch);
                self.went(task, done)
            }
            Op::Close(channel) => {
                self.close(task, channel.0, by);
                self.went(task, Done::Ok)
            }
            Op::Fork(fork) => self.fork(cpu, task, fork.0),
            Op::Place(place) => self.place(cpu, task, place.0),
            Op::Yield => Effect::Yield,
            Op::Exit => self.ends(cpu, task),
            _ => self.synchronise(cpu, task, op),
        }
    }

    fn synchronise(&mut self, cpu: usize, task: TaskId, op: Op) -> Effect {
        let by = Waker { cpu, context: Context::Task, sync: false };
        match op {
            Op::Lock(lock) => {
                let owner = &mut self.shared.locks[lock.0 as usize].owner;
                if owner.is_some() {
                    return Effect::Sleep(On::Lock(lock.0));
                }
                *owner = Some(task);
            }
            // The one that comes first takes a free lock; a woken task tries again.
            Op::Unlock(lock) => {
                let lock = &mut self.shared.locks[lock.0 as usize];
                lock.owner = None;
                let first = lock.sleeping.pop_front();
                first.into_iter().for_each(|first| self.wake(first, Resume::Retry, by));
                (0..self.scene.cpus.len()).for_each(|cpu| self.end_spin(cpu, op));
            }
            Op::Spin(lock) => {
                let owner = &mut self.shared.locks[lock.0 as usize].owner;
                if owner.is_some() {
                    return Effect::Spin;
                }
                *owner = Some(task);
            }
            Op::LockCpu => {
                if self.cpu_locks[cpu].is_some() {
                    return Effect::Spin;
                }
                self.cpu_locks[cpu] = Some(task);
                self.bodies[task.index()].cpu_lock = Some(cpu);
            }
            Op::UnlockCpu => {
                if let Some(of) = self.bodies[task.index()].cpu_lock.take() {
                    self.cpu_locks[of] = None;
                    self.end_spin(of, op);
                }
            }
            Op::Meet(barrier) => {
                let barrier_ = &mut self.shared.barriers[barrier.0 as usize];
                if barrier_.sleeping.len() + 1 < barrier_.parties as usize {
                    return Effect::Sleep(On::Barrier(barrier.0));
                }
                for other in std::mem::take(&mut barrier_.sleeping) {
                    self.wake(other, Resume::With(Done::Ok), by);
                }
            }
            Op::Post(semaphore) => {
                let semaphore = &mut self.shared.semaphores[semaphore.0 as usize];
                semaphore.count += 1;
                let first = semaphore.sleeping.pop_front();
                first.into_iter().for_each(|first| self.wake(first, Resume::Retry, by));
            }
            Op::AwaitPost(semaphore) => {
                let count = &mut self.shared.semaphores[semaphore.0 as usize].count;
                if *count == 0 {
                    return Effect::Sleep(On::Semaphore(semaphore.0));
                }
                *count -= 1;
            }
            // It has no effect beside its time.
            Op::Fill { .. } | Op::Walk { .. } | Op::Allocate { .. } | Op::Stream { .. } => {
                self.memory_changes(cpu, None);
            }
            // Messages have their own way.
            _ => {}
        }
        self.went(task, Done::Ok)
    }

    /// The operation is over, and went so.
    #[inline]
    pub(super) fn went(&mut self, task: TaskId, done: Done) -> Effect {
        self.bodies[task.index()].done = done;
        Effect::Done
    }

    /// The lock of a CPU is free: the task that turns round there looks again.
    /// A task that spins on a CPU for what `given` gives back tries again.
    fn end_spin(&mut self, cpu: usize, given: Op) {
        let Some(task) = self.scene.cpus[cpu].running else { return };
        let body = &self.bodies[task.index()];
        let is_meant = match (body.act, given) {
            (Act::Op(Op::Spin(lock)), Op::Unlock(given)) => lock == given,
            (Act::Op(Op::LockCpu), Op::UnlockCpu) => true,
            _ => false,
        };
        if body.spinning && is_meant {
            self.pause(cpu, task);
            let body = &mut self.bodies[task.index()];
            body.spinning = false;
            body.left = self.config.costs.step;
            self.go(cpu, task);
        }
    }

    fn place(&mut self, cpu: usize, task: TaskId, place: u32) -> Effect {
        let placement = &self.places[place as usize];
        let has_code = self.code.is_some();
        let view = &mut self.scene.tasks[task.index()];
        if let Some(cpus) = &placement.cpus {
            view.allowed = Some(cpus.clone());
        }
        view.nice = placement.nice.unwrap_or(view.nice);
        view.slice_ns = placement.slice.map_or(view.slice_ns, |slice| slice.0);
        let before = view.class;
        let class = placement.policy.and_then(Class::of).unwrap_or(before);
        if has_code {
            view.class = class;
            return Effect::Relocate;
        }
        if class.is_above() || before.is_above() {
            if class != before {
                if !self.admits(task, class) {
                    return self.went(task, Done::Failed(EBUSY));
                }
                self.changes_class(cpu, task, class);
            }
        } else {
            view.class = class;
        }
        let stays = self.scene.task(task).may_use(cpu);
        if stays { self.went(task, Done::Ok) } else { Effect::Relocate }
    }

    /// Whether the CPUs have room for what a task reserves, beside what others reserved: 95 % of their time
    /// (`__dl_overflow`).
    fn admits(&self, task: TaskId, class: Class) -> bool {
        let share = |class: Class| match class {
            Class::Deadline(reserved) => reserved.bandwidth(),
            _ => 0,
        };
        let others = (0..self.bodies.len())
            .filter(|&at| at != task.index() && self.is_alive(TaskId(at as u32)));
        let taken: u64 = others.map(|at| share(self.scene.tasks[at].class)).sum();
        let room = (self.scene.cpus.len() as u64) * (95 << 20) / 100;
        share(class) == 0 || taken.saturating_add(share(class)) <= room
    }

    /// Whether a task has begun and not ended.
    pub(super) fn is_alive(&self, task: TaskId) -> bool {
        !matches!(self.bodies[task.index()].stand, TaskState::Unborn | TaskState::Gone)
    }
}
