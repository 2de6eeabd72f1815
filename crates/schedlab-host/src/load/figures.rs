//! Figures that only this machine can tell, and its tasks as measuring sees them.

use super::arena::{Arena, TaskState};
use schedlab_model::{Better, Metric, Nanos, Pid, Unit, Usage};
use schedlab_sys::task::{self, Resources};
use schedlab_workload::Figure;
use schedlab_workload::measure::{Moment, Tasks};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// What the kernel counted for processes that were awaited: switches and CPU time.
pub(crate) fn of_resources(used: &Resources) -> [Figure; 4] {
    let figure = |name, unit, value| Figure {
        metric: Metric::new(name, unit, Better::Neither),
        of: String::new(),
        value,
    };
    [
        figure("switches_voluntary", Unit::Count, used.voluntary as f64),
        figure("switches_involuntary", Unit::Count, used.involuntary as f64),
        figure("cpu_user_s", Unit::Seconds, used.user.as_secs_f64()),
        figure("cpu_system_s", Unit::Seconds, used.system.as_secs_f64()),
    ]
}

/// How many CPUs idled, in the mean of the run: of all that are online; other programs may keep the others busy.
pub(super) fn idle(percent_busy: f64) -> Figure {
    let cpus = schedlab_sys::topology::online(std::path::Path::new("/sys"));
    let cpus = cpus.map_or(1, |set| set.len()) as f64;
    let metric = Metric::new("cpus_idle", Unit::Count, Better::Neither);
    Figure { metric, of: String::new(), value: (1.0 - percent_busy / 100.0).max(0.0) * cpus }
}

/// The tasks of a load: what they left in shared memory, and what the kernel says of those that live.
pub(super) struct LoadTasks<'a> {
    pub(super) arena: &'a Arena,
    /// Whether each task is a process of its own.
    pub(super) processes: bool,
}

impl Tasks for LoadTasks<'_> {
    fn moment(&self, at: Nanos) -> Moment {
        self.arena.moment(at)
    }

    fn counter(&self, task: usize, counter: u32) -> u64 {
        self.arena.counter(task, counter).load(Relaxed)
    }

    fn total(&self, counter: u32) -> u64 {
        self.arena.total(counter)
    }

    fn dial(&self, index: usize) -> u64 {
        self.arena.dial(index).load(Relaxed)
    }

    fn started(&self) -> u64 {
        self.arena.expected().load(Acquire)
    }

    fn ended(&self, task: usize) -> Option<(Nanos, Usage)> {
        if self.arena.stand(task) != TaskState::Ended {
            return None;
        }
        let (at, usage, _) = self.arena.end(task);
        Some((at, usage))
    }

    fn waited(&self, task: usize) -> (Nanos, u64) {
        if let Some((_, usage)) = self.ended(task) {
            return (usage.run_delay, usage.timeslices);
        }
        let thread = self.arena.thread(task);
        let this = Pid(std::process::id().cast_signed());
        task::run_delay(if self.processes { thread } else { this }, thread).unwrap_or_default()
    }
}
