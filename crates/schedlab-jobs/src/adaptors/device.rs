//! A device for the I/O of jobs: a thread that tells their completions when their time has come.

use crate::graph::Node;
use crate::policy::Nanos;
use crate::run::{Io, Run};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Ends a job, well or not; dropped without a call, it fails the job.
pub(super) type EndJob = Box<dyn FnOnce(bool) + Send>;

struct Pending {
    /// By time and order of arrival.
    jobs: BTreeMap<(Nanos, u64), (Node, Io, EndJob)>,
    begun: u64,
    closed: bool,
}

type Shared = (Mutex<Pending>, Condvar);

fn lock(shared: &Shared) -> MutexGuard<'_, Pending> {
    shared.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// It ends with its owner; what is pending then fails.
pub(super) struct Device(Arc<Shared>);

impl Device {
    pub(super) fn start(run: Arc<Run>) -> std::io::Result<Self> {
        let pending = Pending { jobs: BTreeMap::new(), begun: 0, closed: false };
        let shared = Arc::new((Mutex::new(pending), Condvar::new()));
        let own = Arc::clone(&shared);
        std::thread::Builder::new().name("device".to_owned()).spawn(move || serve(&own, &run))?;
        Ok(Self(shared))
    }

    /// The I/O of a job ends then.
    pub(super) fn begin(&self, node: Node, io: Io, until: Nanos, end: EndJob) {
        let mut pending = lock(&self.0);
        pending.begun += 1;
        let key = (until, pending.begun);
        pending.jobs.insert(key, (node, io, end));
        let first = pending.jobs.first_key_value().is_some_and(|(&first, _)| first == key);
        drop(pending);
        if first {
            self.0.1.notify_one();
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        lock(&self.0).closed = true;
        self.0.1.notify_one();
    }
}

fn serve(shared: &Shared, run: &Run) {
    let mut pending = lock(shared);
    while !pending.closed {
        let now = run.clock().now();
        let left_ns = match pending.jobs.first_entry() {
            None => Nanos::MAX,
            Some(first) if first.key().0 > now => first.key().0 - now,
            Some(first) => {
                let (node, io, end) = first.remove();
                drop(pending);
                run.end_io(node, io.fails, None);
                end(!io.fails);
                pending = lock(shared);
                continue;
            }
        };
        let wait = Duration::from_nanos(left_ns.min(1_000_000_000));
        pending = shared.1.wait_timeout(pending, wait).unwrap_or_else(PoisonError::into_inner).0;
    }
    let left = std::mem::take(&mut pending.jobs);
    drop(pending);
    // Each request that is dropped without an answer fails its job, and the pool learns that.
    drop(left);
}
