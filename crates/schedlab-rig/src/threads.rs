//! Which thread each worker of an executor is, so that the kernel's events can be put down to workers.

use schedlab_jobs::pool::OnStart;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is known of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Thread {
    /// It has told nothing.
    #[default]
    Unknown,
    One(i32),
    /// Its jobs ran on several.
    Several,
}

/// The threads of workers, as they reported themselves.
#[derive(Clone, Debug, Default)]
pub struct Threads(Arc<Mutex<Vec<Thread>>>);

impl Threads {
    fn lock(&self) -> MutexGuard<'_, Vec<Thread>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job of this worker ran on this thread.
    pub(crate) fn tell(&self, worker: usize, thread: i32) {
        let mut all = self.lock();
        if all.len() <= worker {
            all.resize(worker + 1, Thread::Unknown);
        }
        all[worker] = match all[worker] {
            Thread::Unknown => Thread::One(thread),
            Thread::One(known) if known == thread => Thread::One(thread),
            Thread::One(_) | Thread::Several => Thread::Several,
        };
    }

    /// Registers the calling thread as the thread of this worker.
    pub fn tell_own(&self, worker: usize) {
        self.tell(worker, schedlab_sys::process::thread_id().0);
    }

    /// What workers do first; each reports its thread before that.
    pub fn on_start(&self, then: Option<OnStart>) -> OnStart {
        let threads = self.clone();
        Arc::new(move |worker: usize| {
            threads.tell_own(worker);
            if let Some(then) = &then {
                then(worker);
            }
        })
    }

    /// The thread of each worker, 0 for one that ran nothing.
    ///
    /// # Errors
    /// Where a worker that `ran` jobs has told none, or several.
    pub fn of(&self, ran: &[bool]) -> Result<Vec<i32>, String> {
        let all = self.lock();
        let of = |(worker, &ran): (usize, &bool)| match all.get(worker) {
            Some(Thread::One(thread)) => Ok(*thread),
            Some(Thread::Several) => {
                Err(format!("the jobs of worker {worker} ran on several threads"))
            }
            _ if ran => Err(format!("worker {worker} does not report its thread id (`tid`)")),
            _ => Ok(0),
        };
        ran.iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_a_thread_or_nothing_is_put_down_to_it() {
        let threads = Threads::default();
        threads.tell(1, 7);
        threads.tell(1, 7);
        assert_eq!(threads.of(&[false, true]), Ok(vec![0, 7]));
        assert!(
            threads.of(&[true, true]).unwrap_err().contains("worker 0 does not report its thread")
        );
        threads.tell(1, 8);
        threads.tell(1, 7);
        assert!(threads.of(&[false, true]).unwrap_err().contains("on several threads"));
    }
}
