//! Whether tasks that share objects can do all their steps in some order: then they can in each order, as long as no
//! writer waits for room. For a put and a wakeup only help, and of each object one task takes.
//!
//! What calls seem to share may be wrong. A pair of ends that makes tasks wait for each other for ever is.

use schedlab_workload::demand::Step;
use std::collections::BTreeSet;

/// A task's steps, and whether another task starts it.
pub(crate) struct Task {
    pub(crate) steps: Vec<Step>,
    pub(crate) is_forked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum For {
    /// To be started, or a wakeup of its own.
    Task(usize),
    Bytes(u32),
}

struct Performance<'s> {
    tasks: &'s [Task],
    next: Vec<usize>,
    started: Vec<bool>,
    posts: Vec<u64>,
    bytes: Vec<u64>,
}

impl Performance<'_> {
    /// Performs a task's steps up to one that it waits for; `None`: all of them. What others may wait for is in `moved`.
    fn perform(&mut self, at: usize, moved: &mut BTreeSet<For>) -> Option<For> {
        if !self.started[at] {
            return Some(For::Task(at));
        }
        while let Some(step) = self.tasks[at].steps.get(self.next[at]) {
            match *step {
                Step::Wait if self.posts[at] == 0 => return Some(For::Task(at)),
                Step::Wait => self.posts[at] -= 1,
                Step::Post(task) => {
                    self.posts[task as usize] += 1;
                    moved.insert(For::Task(task as usize));
                }
                Step::Fork(task) => {
                    self.started[task as usize] = true;
                    moved.insert(For::Task(task as usize));
                }
                Step::Put { object, bytes } => {
                    self.bytes[object as usize] += u64::from(bytes);
                    moved.insert(For::Bytes(object));
                }
                Step::Take { object, bytes } => {
                    let held = &mut self.bytes[object as usize];
                    let Some(left) = held.checked_sub(bytes.into()) else {
                        return Some(For::Bytes(object));
                    };
                    *held = left;
                }
                _ => {}
            }
            self.next[at] += 1;
        }
        None
    }
}

/// The objects whose bytes never come to a task that waits for them.
pub(crate) fn stuck(tasks: &[Task], objects: usize) -> BTreeSet<u32> {
    let mut all = Performance {
        tasks,
        next: vec![0; tasks.len()],
        started: tasks.iter().map(|task| !task.is_forked).collect(),
        posts: vec![0; tasks.len()],
        bytes: vec![0; objects],
    };
    let mut waits: BTreeSet<(For, usize)> = BTreeSet::new();
    let mut ready: Vec<usize> = (0..tasks.len()).collect();
    while let Some(at) = ready.pop() {
        let mut moved = BTreeSet::new();
        waits.extend(all.perform(at, &mut moved).map(|what| (what, at)));
        for what in moved {
            let woken: Vec<(For, usize)> =
                waits.range((what, 0)..=(what, usize::MAX)).copied().collect();
            for one in woken {
                waits.remove(&one);
                ready.push(one.1);
            }
        }
    }
    let bytes = |what: For| if let For::Bytes(object) = what { Some(object) } else { None };
    waits.into_iter().filter_map(|(what, _)| bytes(what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn put(object: u32) -> Step {
        Step::Put { object, bytes: 2 }
    }

    const fn take(object: u32) -> Step {
        Step::Take { object, bytes: 2 }
    }

    fn stuck_of(steps: [&[Step]; 3]) -> Vec<u32> {
        // The third is started by another.
        let task =
            |(at, steps): (usize, &[Step])| Task { steps: steps.to_vec(), is_forked: at == 2 };
        let tasks: Vec<Task> = steps.into_iter().enumerate().map(task).collect();
        stuck(&tasks, 2).into_iter().collect()
    }

    #[test]
    fn tasks_that_can_go_on_in_some_order_are_not_stuck() {
        let asks = [put(0), take(1), Step::Fork(2)];
        let answers = [take(0), put(1), Step::Wait];
        assert_eq!(stuck_of([&asks, &answers, &[Step::Post(1)]]), [0; 0]);
        assert_eq!(stuck_of([&[Step::Fork(2)], &[take(0)], &[put(0)]]), [0; 0]);
    }

    #[test]
    fn tasks_that_wait_for_each_other_name_the_objects() {
        let first = [take(1), put(0), Step::Fork(2)];
        assert_eq!(stuck_of([&first, &[take(0), put(1)], &[]]), [0, 1]);
        // The bytes are there, but the one that puts them waits for a wakeup that comes later.
        assert_eq!(stuck_of([&[take(1), Step::Post(1)], &[Step::Wait, put(1)], &[]]), [1]);
        assert_eq!(stuck_of([&[take(1)], &[], &[put(1)]]), [1], "nobody starts the third");
    }
}
