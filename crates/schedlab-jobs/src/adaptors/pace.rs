//! Paces jobs for executors without timers: each is released at its start time, by the calling thread.

use crate::graph::Node;
use crate::planning::Planning;
use crate::policy::Nanos;
use crate::run::Run;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Between the begin of a paced run and its first start time: workers go to sleep, as those of our pool do.
pub(super) const PRE_ROLL_NS: Nanos = 3_000_000;
/// How soon it is seen that the user ended the run.
const LOOK_NS: Nanos = 50_000_000;

/// Sleeps until then on the run's clock; false when the user ended the run.
pub(super) fn wait_until(run: &Run, time: Nanos) -> bool {
    loop {
        if run.is_stopped() {
            return false;
        }
        let left = time.saturating_sub(run.clock().now());
        if left == 0 {
            return true;
        }
        std::thread::sleep(Duration::from_nanos(left.min(LOOK_NS)));
    }
}

/// Lets threads plan the chunks of a run, each when it is due, until `plan` refuses one. Returns when all have ended.
pub(super) fn plan_by_posters(
    run: &Run,
    planning: &Planning,
    threads: usize,
    plan: impl Fn(u32) -> bool + Sync,
) -> Result<(), String> {
    let next = AtomicU32::new(0);
    let post_chunks = || {
        loop {
            let chunk = next.fetch_add(1, Ordering::Relaxed);
            if chunk >= planning.chunks(run) {
                return;
            }
            let due = planning.due(run, run.base(), chunk);
            if !wait_until(run, due) || !plan(chunk) {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        let started: Result<Vec<_>, _> = (0..threads.max(1))
            .map(|number| {
                let poster = std::thread::Builder::new().name(format!("poster {number}"));
                poster.spawn_scoped(scope, post_chunks)
            })
            .collect();
        started.map(drop).map_err(|error| format!("cannot start threads: {error}"))
    })
}

/// Releases each job at its start time. Of a run that the user ended, all at once: they do nothing.
pub(super) fn pace(run: &Run, mut release: impl FnMut(Node)) {
    let mut order: Vec<Node> = (0..run.graph().len()).collect();
    order.sort_by_key(|&node| run.schedule().start(node));
    let base = run.base();
    for node in order {
        wait_until(run, base + run.schedule().start(node));
        run.set_posted(node, run.clock().now());
        release(node);
    }
}
