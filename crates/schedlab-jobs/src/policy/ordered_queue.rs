//! A queue ordered by key, first come first served among equals.
//!
//! Most jobs are posted in the order in which they start, so the queue is a sorted run, to which a
//! larger key is appended in constant time, beside a heap for the rest.

use super::record::JobId;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    key: u64,
    order: u64,
    id: JobId,
}

/// The queue. 24 bytes an entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Ordered {
    run: VecDeque<Entry>,
    heap: BinaryHeap<Reverse<Entry>>,
    pushed: u64,
}

impl Ordered {
    pub(super) fn push(&mut self, key: u64, id: JobId) {
        self.pushed += 1;
        let entry = Entry { key, order: self.pushed, id };
        if self.run.back().is_none_or(|last| last.key <= key) {
            self.run.push_back(entry);
        } else {
            self.heap.push(Reverse(entry));
        }
    }

    /// The smallest key and whose it is.
    pub(super) fn head(&self) -> Option<(u64, JobId)> {
        let heap = self.heap.peek().map(|Reverse(entry)| entry);
        let first = match (self.run.front(), heap) {
            (Some(run), Some(heap)) => run.min(heap),
            (run, heap) => run.or(heap)?,
        };
        Some((first.key, first.id))
    }

    pub(super) fn pop(&mut self) -> Option<(u64, JobId)> {
        let from_heap = match (self.run.front(), self.heap.peek()) {
            (Some(run), Some(Reverse(heap))) => heap < run,
            (None, Some(_)) => true,
            _ => false,
        };
        let entry = if from_heap { self.heap.pop().map(|r| r.0) } else { self.run.pop_front() };
        entry.map(|entry| (entry.key, entry.id))
    }

    pub(super) fn len(&self) -> usize {
        self.run.len() + self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_leave_in_order_and_equals_as_they_came() {
        let mut queue = Ordered::default();
        let keys = [5, 3, 9, 3, 5, 1, 9, 2];
        let mut records = super::super::record::Records::default();
        let ids = keys.map(|key| records.add(super::super::record::tests::starting(key)));
        keys.iter().zip(ids).for_each(|(&key, id)| queue.push(key, id));
        let mut expected: Vec<_> = keys.into_iter().zip(ids).collect();
        expected.sort();
        let left: Vec<_> = std::iter::from_fn(|| {
            assert_eq!(queue.head().map(|h| h.0), queue.clone().pop().map(|h| h.0));
            queue.pop()
        })
        .collect();
        assert_eq!(left, expected);
    }
}
