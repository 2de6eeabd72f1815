//! Timed jobs: those whose start has not come, by start; those that are due, by their rule.

use crate::job::{Criticality, NEVER, Nanos, Stage, TaskRef};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Jobs that become due are moved at most so many at a time.
const MOVES: usize = 256;

/// A job before its start. Among those of one start the earliest deadlines become due first.
struct Future<'env> {
    start: Nanos,
    task: TaskRef<'env>,
}

impl Future<'_> {
    fn key(&self) -> (Nanos, Nanos, u64) {
        // None of these changes: a heap could not bear that.
        (self.start, self.task.deadline(), self.task.serial())
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

/// Jobs before their start, and those that are due.
#[derive(Default)]
pub(crate) struct Timed<'env> {
    /// Compulsory jobs apart from others: they become due at once, however many starts have passed.
    future: [BinaryHeap<Future<'env>>; 2],
    due: BinaryHeap<Due<'env>>,
}

impl<'env> Timed<'env> {
    /// Takes in a job.
    pub(crate) fn add(&mut self, task: TaskRef<'env>, now: Nanos) {
        let start = task.start();
        if start <= now {
            self.add_due(task);
        } else {
            let is_other = task.head().criticality != Criticality::Compulsory;
            self.future[usize::from(is_other)].push(Future { start, task });
        }
    }

    fn add_due(&mut self, task: TaskRef<'env>) {
        let key = (rank(task.head().criticality), task.effective(), task.serial());
        self.due.push(Due { key, task });
    }

    /// Moves what has become due by now.
    pub(crate) fn advance(&mut self, now: Nanos) {
        for which in 0..self.future.len() {
            for _ in 0..MOVES {
                let is_due = self.future[which].peek().is_some_and(|first| first.start <= now);
                let Some(first) = is_due.then(|| self.future[which].pop()).flatten() else { break };
                self.add_due(first.task);
            }
        }
    }

    /// Takes the first due job; with `compulsory`, only if it is compulsory. `ended` gets what is left of jobs that were
    /// cancelled, or that were queued twice. It may own a value of the user: drop it without the lock.
    pub(crate) fn take(
        &mut self,
        compulsory: bool,
        ended: &mut Vec<TaskRef<'env>>,
    ) -> Option<TaskRef<'env>> {
        for _ in 0..MOVES {
            let first = self.due.peek()?;
            if first.task.head().stage() == Stage::Queued {
                if compulsory && first.task.head().criticality != Criticality::Compulsory {
                    return None;
                }
                return self.due.pop().map(|due| due.task);
            }
            ended.extend(self.due.pop().map(|due| due.task));
        }
        None
    }

    /// When a worker has to look again: now if jobs are due, else at the next start.
    pub(crate) fn next(&self) -> Nanos {
        if self.due.is_empty() { self.next_start() } else { 0 }
    }

    /// The next start that has not come.
    pub(crate) fn next_start(&self) -> Nanos {
        let starts = self.future.iter().filter_map(|heap| heap.peek());
        starts.map(|first| first.start).min().unwrap_or(NEVER)
    }

    /// The first `count` starts, ascending.
    pub(crate) fn starts(&self, count: usize) -> Vec<Nanos> {
        let entry = |which: usize, at: usize| {
            self.future[which].as_slice().get(at).map(|next| (Reverse(next.start), which, at))
        };
        let mut open: BinaryHeap<_> =
            (0..self.future.len()).filter_map(|which| entry(which, 0)).collect();
        let mut starts = Vec::with_capacity(count);
        while starts.len() < count {
            let Some((Reverse(start), which, at)) = open.pop() else { break };
            starts.push(start);
            open.extend([2 * at + 1, 2 * at + 2].into_iter().filter_map(|at| entry(which, at)));
        }
        starts
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.future.iter().map(BinaryHeap::len).sum::<usize>() + self.due.len()
    }

    /// Takes out the jobs that have ended.
    pub(crate) fn take_ended(&mut self) -> Vec<TaskRef<'env>> {
        let mut ended = Vec::new();
        let mut stays = |task: &TaskRef<'env>| {
            let has_ended = task.head().stage().is_end();
            ended.extend(has_ended.then(|| Arc::clone(task)));
            !has_ended
        };
        self.future.iter_mut().for_each(|heap| heap.retain(|entry| stays(&entry.task)));
        self.due.retain(|entry| stays(&entry.task));
        ended
    }

    /// All jobs, in no order.
    pub(crate) fn drain(&mut self) -> Vec<TaskRef<'env>> {
        let due = std::mem::take(&mut self.due).into_vec();
        let future = std::mem::take(&mut self.future).into_iter().flat_map(BinaryHeap::into_vec);
        due.into_iter().map(|e| e.task).chain(future.map(|e| e.task)).collect()
    }
}
