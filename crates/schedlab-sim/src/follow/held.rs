//! The policy's tasks and queues beside what the recorded kernel held of them: compared, then made the same.

use super::notes::Held;
use super::{Follower, Kind, Stand};
use crate::policy::{Queue, Standing};
use crate::policy_view::TaskId;
use schedlab_model::{Left, Pid};

impl Follower<'_> {
    /// What the kernel held of a task at this event.
    pub(super) fn held(&self, pid: Pid) -> Option<Held> {
        let all = self.held.get(&self.event)?;
        all.iter().find(|held| held.pid == pid).copied()
    }

    /// Whether the recording tells what the kernel held.
    pub(super) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// A task is about to wake: whether it has left its queue, and with which lag.
    pub(super) fn slept(&mut self, task: TaskId, pid: Pid) {
        let Some(held) = self.held(pid) else { return };
        let cpu = self.scene.task(task).cpu;
        self.known[task.index()].sure = true;
        let Some(model) = self.policy.held_of(task) else { return };
        let queued = |of: &Standing| if of.queued { "is still in the queue" } else { "has left" };
        if self.queue_known[cpu] && model.queued != held.standing.queued {
            let name = self.name(task);
            let words = |of: &Standing| format!("{name} {} when it wakes", queued(of));
            let (recorded, model) = (words(&held.standing), words(&model));
            self.differs(cpu, Kind::Leave, recorded, model);
        }
        self.policy.take_standing(cpu, task, &held.standing);
    }

    /// A task was put into a queue. `sure`: the policy knew its lag and the queue.
    pub(super) fn is_placed(&mut self, cpu: usize, task: TaskId, held: &Held, sure: bool) {
        let Some(model) = self.policy.held_of(task) else { return };
        let place = |of: &Standing| (of.vruntime, of.deadline);
        if !sure {
            self.skip(Kind::Place, "the queue or the task's lag is not known");
        } else if place(&model) == place(&held.standing) {
            self.count(Kind::Place).same += 1;
        } else {
            let name = self.name(task);
            let words = |of: &Standing| {
                let (vruntime, deadline) = place(of);
                format!("{name} is placed at a vruntime of {vruntime} ns, deadline {deadline} ns")
            };
            let (recorded, model) = (words(&held.standing), words(&model));
            self.differs(cpu, Kind::Place, recorded, model);
        }
        self.known[task.index()].sure = true;
        self.policy.take_standing(cpu, task, &held.standing);
        self.looks_at_queue(cpu, &held.queue);
    }

    /// Whether a call gave the running task another slice.
    pub(super) fn has_another_slice(&self, task: TaskId, pid: Pid) -> bool {
        let model = self.policy.held_of(task);
        self.held(pid).zip(model).is_some_and(|(held, model)| held.standing.slice != model.slice)
    }

    /// The running task was charged. Its virtual time has been compared; its deadline follows.
    pub(super) fn holds_after_charge(&mut self, cpu: usize, task: TaskId, pid: Pid, sure: bool) {
        let Some(held) = self.held(pid) else { return };
        let Some(model) = self.policy.held_of(task) else { return };
        let told = held.standing;
        if sure && model.vruntime == told.vruntime && model.deadline != told.deadline {
            let name = self.name(task);
            let words = |deadline| format!("{name} has a deadline of {deadline} ns");
            self.differs(cpu, Kind::Charge, words(told.deadline), words(model.deadline));
        }
        self.known[task.index()].sure = true;
        self.policy.take_standing(cpu, task, &told);
    }

    /// The kernel exchanged the running task: what it holds of both, and of the queue.
    pub(super) fn holds_after_switch(&mut self, cpu: usize, prev: Pid, left: Left, next: Pid) {
        let mut queue = None;
        for (pid, is_next) in [(prev, false), (next, true)] {
            let (Some(held), Some(&task)) = (self.held(pid), self.ids.get(&pid)) else { continue };
            if !self.known[task.index()].fair {
                continue;
            }
            if !is_next && left == Left::Dead {
                queue = Some(held.queue);
                continue;
            }
            let sleeps = !is_next && !left.is_runnable();
            self.compares_standing(cpu, task, &held.standing, sleeps);
            self.policy.take_standing(cpu, task, &held.standing);
            self.known[task.index()].sure = true;
            queue = Some(held.queue);
        }
        if let Some(queue) = queue {
            self.looks_at_queue(cpu, &queue);
        }
    }

    fn compares_standing(&mut self, cpu: usize, task: TaskId, told: &Standing, sleeps: bool) {
        let Some(model) = self.policy.held_of(task) else { return };
        let sure = self.known[task.index()].sure && self.queue_known[cpu];
        let same = match sleeps {
            true if told.delayed => model.delayed,
            true => !model.queued && model.vlag == told.vlag,
            false => (model.vruntime, model.deadline) == (told.vruntime, told.deadline),
        };
        if !sure {
            if sleeps {
                self.skip(Kind::Leave, "the queue or the task's past is not known");
            }
        } else if !same {
            let name = self.name(task);
            let words = |of: &Standing| {
                let Standing { vruntime, deadline, vlag, .. } = of;
                match (sleeps, of.queued) {
                    (true, true) => format!("{name} sleeps and stays in the queue"),
                    (true, false) => format!("{name} leaves with a lag of {vlag} ns"),
                    _ => format!("{name} has a vruntime of {vruntime} ns, deadline {deadline} ns"),
                }
            };
            let kind = if sleeps { Kind::Leave } else { Kind::Charge };
            let (recorded, model) = (words(told), words(&model));
            self.differs(cpu, kind, recorded, model);
        } else if sleeps {
            self.count(Kind::Leave).same += 1;
        }
    }

    /// Whether the policy's queue is the kernel's: only then decisions are compared.
    fn looks_at_queue(&mut self, cpu: usize, told: &Queue) {
        self.policy.take_zero(cpu, told.zero);
        self.queue_known[cpu] = self.policy.queue(cpu) == Some(*told);
    }

    /// The tasks that waited when the recording began, as the kernel held them when they were picked.
    pub(super) fn waited(&mut self, cpu: usize, task: TaskId, held: &Held) {
        let told = Standing { queued: true, delayed: false, ..held.standing };
        self.policy.take_standing(cpu, task, &told);
        (self.known[task.index()].stand, self.known[task.index()].sure) = (Stand::Queued, true);
    }
}
