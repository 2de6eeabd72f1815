//! What happens next: when each CPU's current piece of work ends, and everything else in a heap.
//!
//! Ends of work are by far the most events and there is at most one for each CPU. They stand in a tournament tree, in
//! which a change costs one comparison a level. Equal times are ordered by a seeded key of each CPU.

use schedlab_stats::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No time at all: nothing is planned.
pub(crate) const NEVER: u64 = u64::MAX;

/// The next event of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next<E> {
    /// A CPU's piece of work ends.
    Cpu(usize),
    /// An event that is not the end of a CPU's work.
    Other(E),
}

/// Events in order of time.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    /// When the work of each CPU ends.
    ends: Vec<u64>,
    keys: Vec<u32>,
    /// The winner of each inner node; the root is at 1, leaves begin at `leaves`.
    tree: Vec<u32>,
    leaves: usize,
    others: BinaryHeap<Reverse<(u64, u32, u64, E)>>,
    posted: u64,
}

impl<E: Copy + Ord> Agenda<E> {
    /// Nothing is planned. With seed 0, CPUs with lower numbers come first at equal times.
    pub(crate) fn new(cpus: usize, seed: u64) -> Self {
        let leaves = cpus.next_power_of_two().max(2);
        let mut keys: Vec<u32> = (0..leaves as u32).collect();
        if seed != 0 {
            Random::new(seed).shuffle(&mut keys[..cpus]);
        }
        let mut tree = vec![0; 2 * leaves];
        for (leaf, slot) in tree[leaves..].iter_mut().enumerate() {
            *slot = leaf as u32;
        }
        let ends = vec![NEVER; leaves];
        let mut agenda = Self { ends, keys, tree, leaves, others: BinaryHeap::new(), posted: 0 };
        (0..leaves).for_each(|cpu| agenda.replay(cpu));
        agenda
    }

    /// The key of a CPU at equal times.
    pub(crate) fn key(&self, cpu: usize) -> u32 {
        self.keys[cpu]
    }

    /// The work of `cpu` ends at `at`.
    #[inline]
    pub(crate) fn set(&mut self, cpu: usize, at: u64) {
        self.ends[cpu] = at;
        self.replay(cpu);
    }

    /// Plans another event, among equal times by the key of the CPU that it concerns.
    pub(crate) fn post(&mut self, at: u64, cpu: usize, event: E) {
        self.posted += 1;
        self.others.push(Reverse((at, self.keys[cpu], self.posted, event)));
    }

    /// The time of the next event.
    #[inline]
    pub(crate) fn next_at(&self) -> u64 {
        let end = self.ends[self.tree[1] as usize];
        self.others.peek().map_or(end, |Reverse((at, ..))| end.min(*at))
    }

    /// Takes the next event; other events come before ends of work of the same time.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Next<E>> {
        let cpu = self.tree[1] as usize;
        match self.others.peek() {
            Some(Reverse((at, ..))) if *at <= self.ends[cpu] => {
                self.others.pop().map(|Reverse((_, _, _, event))| Next::Other(event))
            }
            _ if self.ends[cpu] == NEVER => None,
            _ => {
                self.set(cpu, NEVER);
                Some(Next::Cpu(cpu))
            }
        }
    }

    #[inline]
    fn replay(&mut self, cpu: usize) {
        let mut node = (self.leaves + cpu) / 2;
        while node > 0 {
            let (a, b) = (self.tree[2 * node] as usize, self.tree[2 * node + 1] as usize);
            let first = (self.ends[a], self.keys[a]) <= (self.ends[b], self.keys[b]);
            self.tree[node] = if first { a } else { b } as u32;
            node /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_equal_times_by_key() {
        let mut agenda = Agenda::<u32>::new(3, 0);
        agenda.set(2, 5);
        agenda.set(0, 5);
        agenda.set(1, 9);
        agenda.post(7, 1, 70);
        agenda.post(5, 1, 50);
        let mut got = Vec::new();
        while let Some(next) = agenda.take() {
            got.push(next);
        }
        let expected = [Next::Other(50), Next::Cpu(0), Next::Cpu(2), Next::Other(70), Next::Cpu(1)];
        assert_eq!(got, expected);
        assert_eq!(agenda.next_at(), NEVER);
    }

    #[test]
    fn a_seed_changes_the_order_of_equal_times_only() {
        let order = |seed| {
            let mut agenda = Agenda::<u32>::new(8, seed);
            (0..8).for_each(|cpu| agenda.set(cpu, 1 + (cpu as u64 % 2)));
            std::iter::from_fn(|| agenda.take()).collect::<Vec<_>>()
        };
        assert_ne!(order(0), order(1));
        assert_eq!(order(1), order(1));
        let even = |next: &Next<u32>| matches!(next, Next::Cpu(cpu) if cpu % 2 == 0);
        assert!(order(1)[..4].iter().all(even));
    }
}
