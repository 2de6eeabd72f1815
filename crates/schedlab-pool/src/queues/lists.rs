//! Plain lists behind locks: for virtual time, for loom, and as what the lock-free queues are compared with.

use super::{INBOX_BATCH, LANES, Lane, Queues};
use crate::sync::{Mutex, lock};
use std::collections::VecDeque;

/// What an injector of crossbeam keeps in a block: a batch does not reach beyond its end.
const BLOCK: u64 = 63;
/// The most that one theft from a deque takes.
const THEFT: usize = 32;

/// An injector: a list that knows how many passed it.
struct Injector<J> {
    list: VecDeque<J>,
    taken: u64,
}

impl<J> Injector<J> {
    fn new() -> Self {
        Self { list: VecDeque::new(), taken: 0 }
    }

    fn take(&mut self) -> Option<J> {
        let job = self.list.pop_front()?;
        self.taken += 1;
        Some(job)
    }

    /// How many a batch takes: to the end of the block, or half of what lies in the last one.
    fn batch(&self, most: usize) -> usize {
        let left = (BLOCK - self.taken % BLOCK) as usize;
        let len = self.list.len();
        if len >= left { left.min(most) } else { len.div_ceil(2).min(most) }
    }

    fn take_batch(&mut self, into: &mut VecDeque<J>, most: usize) -> Option<J> {
        let batch = self.batch(most);
        let first = self.take()?;
        for _ in 1..batch {
            into.extend(self.take());
        }
        Some(first)
    }
}

/// As crossbeam's, with a lock for each.
pub(crate) struct Lists<J> {
    lanes: [Mutex<Injector<J>>; LANES],
    queues: Vec<Mutex<VecDeque<J>>>,
    inboxes: Vec<Mutex<Injector<J>>>,
}

impl<J: Send> Queues<J> for Lists<J> {
    type Local = usize;

    fn new(workers: usize) -> (Self, Vec<usize>) {
        let queues = (0..workers).map(|_| Mutex::new(VecDeque::new())).collect();
        let inboxes = (0..workers).map(|_| Mutex::new(Injector::new())).collect();
        let lanes = std::array::from_fn(|_| Mutex::new(Injector::new()));
        (Self { lanes, queues, inboxes }, (0..workers).collect())
    }

    fn post(&self, lane: Lane, job: J) {
        lock(&self.lanes[lane as usize]).list.push_back(job);
    }

    fn take(&self, lane: Lane) -> Option<J> {
        lock(&self.lanes[lane as usize]).take()
    }

    fn take_batch(&self, &local: &usize, most: usize) -> Option<J> {
        let mut plain = lock(&self.lanes[Lane::Plain as usize]);
        plain.take_batch(&mut lock(&self.queues[local]), most)
    }

    fn push(&self, &local: &usize, job: J) {
        lock(&self.queues[local]).push_back(job);
    }

    fn post_to(&self, worker: usize, job: J) {
        lock(&self.inboxes[worker]).list.push_back(job);
    }

    fn pop(&self, worker: usize, _: &usize) -> Option<J> {
        let mut queue = lock(&self.queues[worker]);
        match queue.pop_front() {
            Some(job) => Some(job),
            None => lock(&self.inboxes[worker]).take_batch(&mut queue, INBOX_BATCH),
        }
    }

    fn steal(&self, from: usize, &local: &usize) -> Option<J> {
        // One lock after the other: two thieves may steal from each other.
        let mut stolen = {
            let mut queue = lock(&self.queues[from]);
            let half = queue.len().div_ceil(2).min(THEFT);
            queue.drain(..half).collect::<VecDeque<_>>()
        };
        let first = stolen.pop_front();
        lock(&self.queues[local]).append(&mut stolen);
        first.or_else(|| lock(&self.inboxes[from]).take())
    }

    fn steal_one(&self, from: usize) -> Option<J> {
        let first = lock(&self.queues[from]).pop_front();
        first.or_else(|| lock(&self.inboxes[from]).take())
    }

    fn is_empty(&self, lane: Lane) -> bool {
        lock(&self.lanes[lane as usize]).list.is_empty()
    }

    fn has_none(&self, worker: usize) -> bool {
        lock(&self.queues[worker]).is_empty() && lock(&self.inboxes[worker]).list.is_empty()
    }
}
