//! Timed jobs: those whose start has not come, by start; those that are due, by their rule.

use crate::job::{Criticality, NEVER, Nanos, Stage, TaskRef};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Jobs that become due are moved at most so many at a time.
const MOVES: usize = 256;

/// A job before its start. Among those of one start the earliest deadlines become due first.
struct Future<'env> {
    start: Nanos,
    task: TaskRef<'env>,
}

impl Future<'_> {
    fn key(&self) -> (Nanos, Reverse<Criticality>, Nanos, u64) {
        // None of these changes: a heap could not bear that.
        let head = self.task.head();
        (self.start, Reverse(head.criticality), self.task.deadline(), self.task.serial())
    }
}

/// A job that is due: compulsory first, then the earliest effective deadline, then the order of posting.
struct Due<'env> {
    key: (Reverse<Criticality>, Nanos, u64),
    task: TaskRef<'env>,
}

/// Compulsory jobs go first; optional ones are not behind normal ones, they are only shed sooner.
fn rank(criticality: Criticality) -> Reverse<Criticality> {
    Reverse(criticality.max(Criticality::Normal))
}

macro_rules! smallest_first {
    ($($name:ident: $key:expr;)*) => {$(
        impl PartialEq for $name<'_> {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other) == Ordering::Equal
            }
        }
        impl Eq for $name<'_> {}
        impl PartialOrd for $name<'_> {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Ord for $name<'_> {
            fn cmp(&self, other: &Self) -> Ordering {
                let key: fn(&Self) -> _ = $key;
                key(other).cmp(&key(self))
            }
        }
    )*};
}

smallest_first! {
    Future: |job| job.key();
    Due: |job| job.key;
}

/// Both heaps.
#[derive(Default)]
pub(crate) struct Timed<'env> {
    future: BinaryHeap<Future<'env>>,
    due: BinaryHeap<Due<'env>>,
}

impl<'env> Timed<'env> {
    /// Takes in a job.
    pub(crate) fn add(&mut self, task: TaskRef<'env>, now: Nanos) {
        let start = task.start();
        if start <= now {
            self.add_due(task);
        } else {
            self.future.push(Future { start, task });
        }
    }

    fn add_due(&mut self, task: TaskRef<'env>) {
        let key = (rank(task.head().criticality), task.effective(), task.serial());
        self.due.push(Due { key, task });
    }

    /// Moves what has become due by now.
    pub(crate) fn advance(&mut self, now: Nanos) {
        for _ in 0..MOVES {
            match self.future.peek() {
                Some(first) if first.start <= now => {}
                _ => return,
            }
            if let Some(first) = self.future.pop() {
                self.add_due(first.task);
            }
        }
    }

    /// Takes the first due job; with `compulsory`, only if it is that.
    pub(crate) fn take(&mut self, compulsory: bool) -> Option<TaskRef<'env>> {
        // Of a job that was cancelled, or that lies here twice, an entry is left.
        for _ in 0..MOVES {
            let first = self.due.peek()?;
            if first.task.head().stage() == Stage::Queued {
                if compulsory && first.task.head().criticality != Criticality::Compulsory {
                    return None;
                }
                return self.due.pop().map(|due| due.task);
            }
            self.due.pop();
        }
        None
    }

    /// When a worker has to look again: now if jobs are due, else at the next start.
    pub(crate) fn next(&self) -> Nanos {
        if self.due.is_empty() { self.next_start() } else { 0 }
    }

    /// The next start that has not come.
    pub(crate) fn next_start(&self) -> Nanos {
        self.future.peek().map_or(NEVER, |first| first.start)
    }

    /// The first `count` starts, ascending.
    pub(crate) fn starts(&self, count: usize) -> Vec<Nanos> {
        let heap = self.future.as_slice();
        let mut open = BinaryHeap::new();
        open.extend(heap.first().map(|first| (Reverse(first.start), 0)));
        let mut starts = Vec::with_capacity(count);
        while starts.len() < count {
            let Some((Reverse(start), at)) = open.pop() else { break };
            starts.push(start);
            for child in [2 * at + 1, 2 * at + 2] {
                open.extend(heap.get(child).map(|next| (Reverse(next.start), child)));
            }
        }
        starts
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.future.len() + self.due.len()
    }

    /// Forgets the entries of jobs that have ended.
    pub(crate) fn forget_ended(&mut self) {
        self.future.retain(|entry| !entry.task.head().stage().is_end());
        self.due.retain(|entry| !entry.task.head().stage().is_end());
    }

    /// All jobs, in no order.
    pub(crate) fn drain(&mut self) -> Vec<TaskRef<'env>> {
        let due = std::mem::take(&mut self.due).into_vec();
        let future = std::mem::take(&mut self.future).into_vec();
        due.into_iter().map(|e| e.task).chain(future.into_iter().map(|e| e.task)).collect()
    }
}
