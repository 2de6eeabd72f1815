//! Paces jobs for executors without timers: each is released at its start time, by the calling thread.

use crate::graph::Node;
use crate::policy::Nanos;
use crate::run::Run;
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
