//! Tasks that wait for a CPU while a recording begins. No event tells of one until it runs, and a task that starves has
//! none at all.

use schedlab_model::{AtStart, Context, Cpu, Does, Nanos, Pid, TaskAtStart, Why};
use schedlab_sys::taskstats::{Stats, Taskstats};
use schedlab_sys::{clock, process};
use std::collections::BTreeMap;

/// What ran or waited before events were written, and how far it had come.
#[derive(Debug, Default)]
pub(crate) struct Queued {
    at: Nanos,
    came_to: BTreeMap<Pid, (Nanos, u64)>,
}

impl Queued {
    /// Before events are written. Reads a file for each task, if another one than this is runnable.
    pub(crate) fn now() -> Self {
        if process::count_runnable().is_none_or(|count| count < 2) {
            return Self::default();
        }
        let at = clock::monotonic();
        let mut tasks = process::tasks();
        tasks.retain(|pid| process::queued(*pid).is_some());
        Self { at, came_to: came_to(&tasks) }
    }

    /// Those that waited all the time since, once events are written: they are still runnable, and did not run.
    pub(crate) fn still(&self) -> AtStart {
        if self.came_to.is_empty() {
            return AtStart::default();
        }
        let tasks: Vec<Pid> = self.came_to.keys().copied().collect();
        let now = came_to(&tasks);
        let waits = |pid: &Pid| self.came_to.get(pid).is_some_and(|it| now.get(pid) == Some(it));
        let told = |pid: &Pid| {
            let (cpu, prio) = process::queued(*pid)?;
            Some(TaskAtStart {
                pid: *pid,
                prio,
                does: Does::Wait(cpu, true, Why::Displaced),
                since: self.at,
                last_cpu: Some(cpu),
                ran_until: Nanos::ZERO,
                waker: (None, Cpu(0), Context::Task),
                woken_from: None,
                moved: false,
            })
        };
        let tasks = tasks.iter().filter(|pid| waits(pid)).filter_map(told).collect();
        AtStart { tasks, ..AtStart::default() }
    }
}

/// For how long and how often tasks ran; nothing where the kernel does not say it to the nanosecond.
fn came_to(tasks: &[Pid]) -> BTreeMap<Pid, (Nanos, u64)> {
    let mut found = BTreeMap::new();
    let asked = Taskstats::open().and_then(|mut all| {
        all.of(tasks, &mut |pid, Stats { ran, arrivals, .. }| {
            found.insert(pid, (ran, arrivals));
        })
    });
    if asked.is_ok() { found } else { BTreeMap::new() }
}
