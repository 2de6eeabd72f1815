//! The lock-free queues of crossbeam, for threads.

use super::{LANES, Lane, Queues};
use crossbeam_deque::{Injector, Steal, Stealer, Worker};

/// Injectors for posters; for each worker a deque and an inbox.
pub(crate) struct Deques<J> {
    lanes: [Injector<J>; LANES],
    stealers: Vec<Stealer<J>>,
    inboxes: Vec<Injector<J>>,
}

/// Tries again while another thread is at the same place.
fn until_known<J>(mut steal: impl FnMut() -> Steal<J>) -> Option<J> {
    loop {
        match steal() {
            Steal::Success(job) => return Some(job),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}

impl<J: Send> Queues<J> for Deques<J> {
    type Local = Worker<J>;

    fn new(workers: usize) -> (Self, Vec<Worker<J>>) {
        let locals: Vec<_> = (0..workers).map(|_| Worker::new_fifo()).collect();
        let stealers = locals.iter().map(Worker::stealer).collect();
        let inboxes = (0..workers).map(|_| Injector::new()).collect();
        (Self { lanes: std::array::from_fn(|_| Injector::new()), stealers, inboxes }, locals)
    }

    fn post(&self, lane: Lane, job: J) {
        self.lanes[lane as usize].push(job);
    }

    fn take(&self, lane: Lane) -> Option<J> {
        until_known(|| self.lanes[lane as usize].steal())
    }

    fn take_batch(&self, local: &Worker<J>, most: usize) -> Option<J> {
        let plain = &self.lanes[Lane::Plain as usize];
        until_known(|| plain.steal_batch_with_limit_and_pop(local, most))
    }

    fn push(&self, local: &Worker<J>, job: J) {
        local.push(job);
    }

    fn post_to(&self, worker: usize, job: J) {
        self.inboxes[worker].push(job);
    }

    fn pop(&self, worker: usize, local: &Worker<J>) -> Option<J> {
        local.pop().or_else(|| {
            let inbox = &self.inboxes[worker];
            until_known(|| inbox.steal_batch_with_limit_and_pop(local, super::INBOX_BATCH))
        })
    }

    fn steal(&self, from: usize, local: &Worker<J>) -> Option<J> {
        until_known(|| self.stealers[from].steal_batch_and_pop(local))
            .or_else(|| until_known(|| self.inboxes[from].steal()))
    }

    fn steal_one(&self, from: usize) -> Option<J> {
        until_known(|| self.stealers[from].steal())
            .or_else(|| until_known(|| self.inboxes[from].steal()))
    }

    fn is_empty(&self, lane: Lane) -> bool {
        self.lanes[lane as usize].is_empty()
    }

    fn has_none(&self, worker: usize) -> bool {
        self.stealers[worker].is_empty() && self.inboxes[worker].is_empty()
    }
}
