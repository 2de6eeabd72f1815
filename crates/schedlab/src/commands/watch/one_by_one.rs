//! Tasks that hand on to each other, one at a time, as behind a lock. Those whose turn it is not sleep: no wait for a
//! CPU shows them, but their wakeups do.

use crate::commands::trace::why::overview::percent;
use schedlab_model::{Nanos, Pid};
use schedlab_timeline::{State, TaskId, TasksAnswer};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Fewer tasks may take turns for other reasons.
const TASKS_MIN: usize = 4;
/// Fewer handovers in a second are no fault.
const HANDOVERS_MIN: u64 = 100;
/// A lock that is always held lets about one task run.
const CPUS: std::ops::RangeInclusive<f64> = 0.7..=1.3;
/// A task at one end of a larger part of the handovers hands out work.
const HUB: f64 = 0.7;

/// A sentence about such tasks, and how long each of them slept; `None` if there are none. `processes` has the threads
/// that are not the first of theirs.
pub(super) fn sentence(
    ran: &TasksAnswer,
    processes: Option<&BTreeMap<Pid, Pid>>,
    state: &State,
    window: Nanos,
) -> Option<(String, Nanos)> {
    let process_of = |pid: Pid| processes.and_then(|all| all.get(&pid)).copied().unwrap_or(pid);
    let mut threads = BTreeMap::<Pid, usize>::new();
    for row in &ran.rows {
        *threads.entry(process_of(row.pid)).or_default() += 1;
    }
    // Threads of a process, or processes of one name.
    let family = |task: TaskId| {
        let process = process_of(state.task(task).pid);
        match threads.get(&process) >= Some(&TASKS_MIN) {
            true => (Some(process), String::new()),
            false => (None, state.name(task)),
        }
    };
    let mut families = BTreeMap::<_, Family>::new();
    for row in &ran.rows {
        let own = family(row.task);
        let wakers = row.woken_by.iter().filter_map(|of| Some((of.waker?, of.count)));
        let within = wakers.filter(|(waker, _)| *waker != row.task && family(*waker) == own);
        let one = families.entry(own.clone()).or_default();
        let mut received = 0;
        for (waker, count) in within {
            *one.ends.entry(waker).or_default() += count;
            received += count;
        }
        if received > 0 {
            *one.ends.entry(row.task).or_default() += received;
            one.handovers += received;
            one.others += row.wakeups.saturating_sub(received);
            one.asleep += row.asleep.sleeping;
            one.ran += row.ran;
            one.tasks.push(row.task);
        }
    }
    let found = families.into_values().filter(|one| one.is_one_by_one(window));
    let found = found.max_by_key(|one| (one.handovers, Reverse(one.tasks.len())))?;
    let count = found.tasks.len();
    let first = state.name(found.tasks[0]);
    let each = Nanos(found.asleep.0 / count as u64);
    let said = format!(
        "{count} tasks of {first} ran one at a time, as behind a lock: they woke each other {} times, ran on {:.2} CPUs in \
         sum, and each slept {} of the time. `schedlab record --stacks` tells where.",
        found.handovers,
        found.cpus(window),
        percent(each, window)
    );
    Some((said, each))
}

#[derive(Default)]
struct Family {
    tasks: Vec<TaskId>,
    /// By task: handovers at one end of which it is.
    ends: BTreeMap<TaskId, u64>,
    handovers: u64,
    /// Wakeups by others.
    others: u64,
    asleep: Nanos,
    ran: Nanos,
}

impl Family {
    fn cpus(&self, window: Nanos) -> f64 {
        self.ran.0 as f64 / window.0.max(1) as f64
    }

    fn is_one_by_one(&self, window: Nanos) -> bool {
        let count = self.tasks.len();
        let most = self.ends.values().max().copied().unwrap_or(0) as f64;
        let time = window.0 as f64 * count as f64;
        count >= TASKS_MIN
            && self.handovers as f64 >= HANDOVERS_MIN as f64 * window.as_secs_f64()
            && self.others * 4 < self.handovers
            && most < HUB * self.handovers as f64
            && CPUS.contains(&self.cpus(window))
            && self.asleep.0 as f64 > time / 2.0
    }
}
