//! What the events imply about queues beside who stands on them: wakeups on their way, and tasks that are held back.

use crate::change::{Change, Switch};
use crate::state::{CpuState, Occupant, State};
use crate::task::{Activity, TaskId};
use schedlab_model::{Cpu, Nanos};

/// By CPU and by task.
#[derive(Debug, Default)]
pub(super) struct Queues {
    cpus: Vec<CpuArrivals>,
    tasks: Vec<Mark>,
}

/// Tasks that matter to a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct CpuArrivals {
    /// Tasks that were woken, ran here last, and have no CPU yet: most will come here.
    coming: u32,
    /// Tasks on the queue that could not run when the CPU went idle.
    held: u32,
}

/// What is known of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mark {
    #[default]
    None,
    /// It was woken and is expected there.
    Coming(Cpu),
    /// It was left on that queue.
    Held(Cpu),
}

impl Queues {
    /// Whether a CPU could run a task at once: it idles, nobody who could run waits there, and nobody is on the way.
    pub(super) fn is_free(&self, cpu: Cpu, here: &CpuState) -> bool {
        let known = self.cpus.get(cpu.index()).copied().unwrap_or_default();
        here.occupant == Occupant::Idle && here.waiting == known.held && known.coming == 0
    }

    /// Whether a task is held back.
    pub(super) fn is_held(&self, task: TaskId) -> bool {
        matches!(self.tasks.get(task.index()), Some(Mark::Held(_)))
    }

    /// What is known when the window opens.
    pub(super) fn begin(&mut self, state: &State) {
        for (id, task) in state.tasks() {
            if let Activity::Waiting { cpu, placed: false, .. } = task.activity {
                self.set(id, Mark::Coming(cpu));
            }
        }
    }

    /// Follows a change; gives a CPU that may be free or not because of it, beside those that the change touches.
    pub(super) fn see(&mut self, change: &Change, state: &State) -> Option<Cpu> {
        match *change {
            Change::Runnable(ref woken) => {
                let before = self.set(woken.task, Mark::None);
                match state.task(woken.task).activity {
                    Activity::Waiting { cpu, placed: false, .. } => {
                        self.set(woken.task, Mark::Coming(cpu));
                        Some(cpu)
                    }
                    _ => before,
                }
            }
            Change::Placed { task, .. } | Change::Forgotten { task, .. } => {
                self.set(task, Mark::None)
            }
            Change::Moved(moved) => self.set(moved.task, Mark::None),
            Change::Switch(Switch { cpu, is: Occupant::Task(task), .. }) => {
                self.set(task, Mark::None).filter(|other| *other != cpu)
            }
            Change::Switch(Switch { cpu, since, is: Occupant::Idle, .. }) => {
                self.hold(cpu, since, state);
                None
            }
            _ => None,
        }
    }

    /// A CPU goes idle: who could have run there is held back. A task that was woken since `slice`, when the task that
    /// leaves came, may not have arrived yet, as clocks of CPUs differ by a little.
    fn hold(&mut self, cpu: Cpu, slice: Nanos, state: &State) {
        if state.cpu(cpu).is_none_or(|here| here.waiting == 0) {
            return;
        }
        let waiters: Vec<TaskId> = state.waiters(cpu).collect();
        for id in waiters {
            let task = state.task(id);
            if let Activity::Waiting { why, .. } = task.activity
                && (!why.is_wakeup() || task.since < slice)
            {
                self.set(id, Mark::Held(cpu));
            }
        }
    }

    /// Gives the CPU that the task mattered to before.
    fn set(&mut self, task: TaskId, mark: Mark) -> Option<Cpu> {
        if task.index() >= self.tasks.len() {
            if mark == Mark::None {
                return None;
            }
            self.tasks.resize(task.index() + 1, Mark::None);
        }
        let was = std::mem::replace(&mut self.tasks[task.index()], mark);
        if was == mark {
            return None;
        }
        if let Mark::Coming(cpu) | Mark::Held(cpu) = mark {
            let here = self.here(cpu);
            match mark {
                Mark::Coming(_) => here.coming += 1,
                _ => here.held += 1,
            }
        }
        match was {
            Mark::None => None,
            Mark::Coming(cpu) => {
                self.here(cpu).coming -= 1;
                Some(cpu)
            }
            Mark::Held(cpu) => {
                self.here(cpu).held -= 1;
                Some(cpu)
            }
        }
    }

    fn here(&mut self, cpu: Cpu) -> &mut CpuArrivals {
        if cpu.index() >= self.cpus.len() {
            self.cpus.resize(cpu.index() + 1, CpuArrivals::default());
        }
        &mut self.cpus[cpu.index()]
    }
}
