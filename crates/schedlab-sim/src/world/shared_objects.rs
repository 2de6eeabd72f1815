//! What tasks share beside channels: words, locks, barriers, semaphores, queues of values.

use crate::policy_view::TaskId;
use schedlab_workload::Done;
use schedlab_workload::plan::{Plan, Queue};
use std::collections::VecDeque;

/// All that the tasks of a plan share, beside channels.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) words: Vec<Word>,
    pub(super) locks: Vec<Lock>,
    pub(super) barriers: Vec<Barrier>,
    pub(super) semaphores: Vec<Semaphore>,
    pub(super) queues: Vec<Store>,
}

impl Shared {
    pub(super) fn of(plan: &Plan) -> Self {
        let barrier = |&parties: &u32| Barrier { parties, sleeping: VecDeque::new() };
        Self {
            words: (0..plan.words).map(|_| Word::default()).collect(),
            locks: (0..plan.locks).map(|_| Lock::default()).collect(),
            barriers: plan.barriers.iter().map(barrier).collect(),
            semaphores: (0..plan.semaphores).map(|_| Semaphore::default()).collect(),
            queues: plan.queues.iter().map(|&queue| Store::new(queue)).collect(),
        }
    }

    /// Nobody sleeps on anything any more.
    pub(super) fn forget_sleepers(&mut self) {
        self.words.iter_mut().for_each(|word| word.sleeping.clear());
        self.locks.iter_mut().for_each(|lock| lock.sleeping.clear());
        self.barriers.iter_mut().for_each(|barrier| barrier.sleeping.clear());
        self.semaphores.iter_mut().for_each(|semaphore| semaphore.sleeping.clear());
    }
}

/// A word to wait on, and the stamp of a wake that nobody has taken.
#[derive(Debug, Default)]
pub(super) struct Word {
    pub(super) pending: Option<u64>,
    pub(super) sleeping: VecDeque<TaskId>,
}

#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) owner: Option<TaskId>,
    pub(super) sleeping: VecDeque<TaskId>,
}

#[derive(Debug)]
pub(super) struct Barrier {
    pub(super) parties: u32,
    pub(super) sleeping: VecDeque<TaskId>,
}

#[derive(Debug, Default)]
pub(super) struct Semaphore {
    pub(super) count: u64,
    pub(super) sleeping: VecDeque<TaskId>,
}

#[derive(Debug)]
pub(super) struct Store {
    kind: Queue,
    values: VecDeque<u64>,
}

impl Store {
    pub(super) fn new(kind: Queue) -> Self {
        Self { kind, values: VecDeque::new() }
    }

    pub(super) fn push(&mut self, value: u64) -> Done {
        match self.kind {
            Queue::Stack { .. } => {
                self.values.push_front(value);
                Done::Pushed { depth: 0 }
            }
            Queue::Fifo { capacity } if self.values.len() >= capacity as usize => Done::Full,
            Queue::Fifo { .. } => {
                self.values.push_back(value);
                Done::Pushed { depth: self.values.len() as u64 }
            }
        }
    }

    /// Takes a value; of a stack all values are taken at once, into the task's `batch`.
    pub(super) fn pop(&mut self, batch: &mut VecDeque<u64>) -> Done {
        match self.kind {
            Queue::Stack { .. } => {
                let first = batch.is_empty();
                if first {
                    batch.append(&mut self.values);
                }
                batch.pop_front().map_or(Done::Empty, |value| Done::Popped { value, first })
            }
            Queue::Fifo { .. } => {
                let value = self.values.pop_front();
                value.map_or(Done::Empty, |value| Done::Popped { value, first: true })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_hands_out_a_batch_and_the_newest_first() {
        let mut stack = Store::new(Queue::Stack { capacity: 9 });
        let mut batch = VecDeque::new();
        stack.push(1);
        stack.push(2);
        assert_eq!(stack.pop(&mut batch), Done::Popped { value: 2, first: true });
        stack.push(3);
        assert_eq!(stack.pop(&mut batch), Done::Popped { value: 1, first: false });
        assert_eq!(stack.pop(&mut batch), Done::Popped { value: 3, first: true });
        assert_eq!(stack.pop(&mut batch), Done::Empty);
    }

    #[test]
    fn a_queue_is_full_at_its_capacity() {
        let mut queue = Store::new(Queue::Fifo { capacity: 1 });
        let mut batch = VecDeque::new();
        assert_eq!(queue.push(5), Done::Pushed { depth: 1 });
        assert_eq!(queue.push(6), Done::Full);
        assert_eq!(queue.pop(&mut batch), Done::Popped { value: 5, first: true });
    }
}
