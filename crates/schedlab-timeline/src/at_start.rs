//! The state at one moment, kept with a part of a trace that begins there, and taken up again.

use crate::state::{Occupant, State};
use crate::task::{Activity, Task, TaskId};
use schedlab_model::{AtStart, Cpu, Does, TaskAtStart};

impl State {
    /// What a part of the trace that begins now has to know.
    #[must_use]
    pub fn at_start(&self) -> AtStart {
        let idle = self.observed_cpus().filter(|(_, cpu)| cpu.occupant == Occupant::Idle);
        let of = |task: &Task| {
            let does = match task.activity {
                Activity::New => Does::New,
                Activity::Running { cpu } => Does::Run(cpu),
                Activity::Waiting { cpu, placed, why } => Does::Wait(cpu, placed, why),
                Activity::Sleeping { left } => Does::Sleep(left),
                Activity::Unknown | Activity::Dead => return None,
            };
            let waker = task.waker.is_some().then(|| self.task(task.waker).pid);
            Some(TaskAtStart {
                pid: task.pid,
                prio: task.prio,
                does,
                since: task.since,
                last_cpu: task.last_cpu,
                ran_until: task.ran_until,
                waker: (waker, task.waker_cpu, task.waker_context),
                woken_from: task.woken_from,
                moved: task.moved,
            })
        };
        let mut tasks: Vec<_> = self.tasks().filter_map(|(_, task)| of(task)).collect();
        tasks.sort_by_key(|task| task.pid);
        AtStart { idle: idle.map(|(cpu, _)| cpu).collect(), tasks, gap: self.gap }
    }

    /// Takes up what a part knows of its start. What cannot be is passed over.
    pub(crate) fn resume(&mut self, at: &AtStart) {
        let is_free = |state: &Self, cpu: Cpu| {
            state.cpu(cpu).is_some_and(|cpu| cpu.observed && cpu.occupant == Occupant::Unknown)
        };
        self.gap = at.gap;
        for &cpu in &at.idle {
            if is_free(self, cpu) {
                self.occupy(cpu, Occupant::Idle);
            }
        }
        for told in at.tasks.iter().filter(|told| !told.pid.is_idle()) {
            if self.pids.get(told.pid).is_some() && self.at(told).activity != Activity::Unknown {
                continue;
            }
            let id = self.living(told.pid);
            let activity = match told.does {
                Does::New => Activity::New,
                Does::Sleep(left) => Activity::Sleeping { left },
                Does::Wait(cpu, placed, why) => Activity::Waiting { cpu, placed, why },
                Does::Run(cpu) if is_free(self, cpu) => Activity::Running { cpu },
                Does::Run(_) => continue,
            };
            let (waker, waker_cpu, waker_context) = told.waker;
            let waker = waker.filter(|pid| !pid.is_idle());
            let waker = waker.map_or(TaskId::NONE, |pid| self.living(pid));
            let task = &mut self.tasks[id.index()];
            (task.activity, task.since, task.prio) = (activity, told.since, told.prio);
            (task.waker, task.waker_cpu, task.waker_context) = (waker, waker_cpu, waker_context);
            (task.last_cpu, task.ran_until) = (told.last_cpu, told.ran_until);
            (task.woken_from, task.moved) = (told.woken_from, told.moved);
            match activity {
                Activity::Running { cpu } => self.occupy(cpu, Occupant::Task(id)),
                Activity::Waiting { cpu, placed, .. } => {
                    self.waiting += 1;
                    if placed {
                        self.link(id, cpu);
                    }
                }
                _ => {}
            }
        }
    }

    fn at(&self, told: &TaskAtStart) -> &Task {
        self.task(self.pids.get(told.pid))
    }
}
