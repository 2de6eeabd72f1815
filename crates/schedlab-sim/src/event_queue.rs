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
    /// The ends of work, each as [`entry`] makes it: the least of each inner node, with the root at 1, then those of
    /// the CPUs from `leaves` on.
    tree: Vec<u128>,
    keys: Vec<u32>,
    leaves: usize,
    /// The CPU whose end was taken and that got no other yet. It mostly does at once, which saves a way up the tree.
    taken: Option<usize>,
    others: BinaryHeap<Reverse<(u64, u32, u64, E)>>,
    /// The time of the first of them.
    first_other: u64,
    posted: u64,
}

/// What orders ends of work: the time, then the key; the CPU.
#[inline]
fn entry(at: u64, key: u32, cpu: usize) -> u128 {
    (u128::from(at) << 64) | (u128::from(key) << 32) | cpu as u128
}

impl<E: Copy + Ord> Agenda<E> {
    /// Nothing is planned. With seed 0, CPUs with lower numbers come first at equal times.
    pub(crate) fn new(cpus: usize, seed: u64) -> Self {
        let leaves = cpus.next_power_of_two().max(2);
        let mut keys: Vec<u32> = (0..leaves as u32).collect();
        if seed != 0 {
            Random::new(seed).shuffle(&mut keys[..cpus]);
        }
        let mut tree = vec![u128::MAX; leaves];
        tree.extend(keys.iter().enumerate().map(|(cpu, key)| entry(NEVER, *key, cpu)));
        for node in (1..leaves).rev() {
            tree[node] = tree[2 * node].min(tree[2 * node + 1]);
        }
        let (others, first_other) = (BinaryHeap::new(), NEVER);
        Self { tree, keys, leaves, taken: None, others, first_other, posted: 0 }
    }

    /// The key of a CPU at equal times.
    pub(crate) fn key(&self, cpu: usize) -> u32 {
        self.keys[cpu]
    }

    /// The work of `cpu` ends at `at`.
    #[inline]
    pub(crate) fn set(&mut self, cpu: usize, at: u64) {
        if self.taken == Some(cpu) {
            self.taken = None;
        }
        let mut least = entry(at, self.keys[cpu], cpu);
        let mut node = self.leaves + cpu;
        self.tree[node] = least;
        // Up to the root, also where nothing changes any more: whether it does cannot be foreseen.
        while node > 1 {
            least = least.min(self.tree[node ^ 1]);
            node /= 2;
            self.tree[node] = least;
        }
    }

    /// Plans another event, among equal times by the key of the CPU that it concerns.
    pub(crate) fn post(&mut self, at: u64, cpu: usize, event: E) {
        self.posted += 1;
        self.first_other = self.first_other.min(at);
        self.others.push(Reverse((at, self.keys[cpu], self.posted, event)));
    }

    /// The time of the next event.
    #[inline]
    pub(crate) fn next_at(&mut self) -> u64 {
        if let Some(cpu) = self.taken {
            self.set(cpu, NEVER);
        }
        self.first_other.min((self.tree[1] >> 64) as u64)
    }

    /// Takes the next event; other events come before ends of work of the same time.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Next<E>> {
        let at = self.next_at();
        if at == NEVER {
            return None;
        }
        if self.first_other == at {
            let event = self.others.pop().map(|Reverse((_, _, _, event))| Next::Other(event));
            self.first_other = self.others.peek().map_or(NEVER, |Reverse((at, ..))| *at);
            return event;
        }
        let cpu = self.tree[1] as u32 as usize;
        self.taken = Some(cpu);
        Some(Next::Cpu(cpu))
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
