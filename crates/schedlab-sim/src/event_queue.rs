//! What happens next: when each CPU's current piece of work ends, and everything else in a heap.
//!
//! Ends of work are by far the most events and there is at most one for each CPU. They stand in a tournament tree, in
//! which a change costs one comparison a level. Equal times are ordered by a seeded key of each CPU.
//!
//! Time and key share a word of 64 bits. Comparing two words became branches, which nobody can foresee: they were half
//! of all mispredicted branches of hackbench over pipes (callgrind). For 8 CPUs that leaves 61 bits for the time. Later
//! ends are all alike in the tree, and looked up one by one if nothing is earlier.

use schedlab_stats::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No time at all: nothing is planned.
pub(crate) const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next<E> {
    Cpu(usize),
    /// An event that is not the end of a CPU's work.
    Other(E),
}

/// Events in order of time.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    /// The ends of work, each as [`entry`] makes it: the least of each inner node, with the root at 1, then those of
    /// the CPUs from `leaves` on.
    tree: Vec<u64>,
    /// The exact end of each CPU's work, in nanoseconds.
    ends: Vec<u64>,
    keys: Vec<u32>,
    cpus: Vec<u32>,
    leaves: usize,
    /// The bits of a key.
    bits: u32,
    /// The CPU whose end was taken and that got no other yet. It mostly does at once, which saves a way up the tree.
    taken: Option<usize>,
    others: BinaryHeap<Reverse<(u64, u32, u64, E)>>,
    /// The time of the first of them.
    first_other: u64,
    posted: u64,
}

/// What orders ends of work: the time, as far as it fits, then the key.
#[inline]
fn entry(at: u64, key: u32, bits: u32) -> u64 {
    at.min(u64::MAX >> bits) << bits | u64::from(key)
}

impl<E: Copy + Ord> Agenda<E> {
    /// Nothing is planned. With seed 0, CPUs with lower numbers come first at equal times.
    pub(crate) fn new(cpus: usize, seed: u64) -> Self {
        let leaves = cpus.next_power_of_two().max(2);
        let mut keys: Vec<u32> = (0..leaves as u32).collect();
        if seed != 0 {
            Random::new(seed).shuffle(&mut keys[..cpus]);
        }
        let mut by_key = vec![0; leaves];
        keys.iter().enumerate().for_each(|(cpu, key)| by_key[*key as usize] = cpu as u32);
        let bits = leaves.ilog2();
        let mut tree = vec![u64::MAX; leaves];
        tree.extend(keys.iter().map(|key| entry(NEVER, *key, bits)));
        for node in (1..leaves).rev() {
            tree[node] = tree[2 * node].min(tree[2 * node + 1]);
        }
        let others = BinaryHeap::new();
        let first_other = NEVER;
        Self {
            tree,
            ends: vec![NEVER; leaves],
            keys,
            cpus: by_key,
            leaves,
            bits,
            taken: None,
            others,
            first_other,
            posted: 0,
        }
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
        self.ends[cpu] = at;
        let mut least = entry(at, self.keys[cpu], self.bits);
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

    /// Plans another event, after all others of its time.
    pub(crate) fn post_last(&mut self, at: u64, event: E) {
        self.posted += 1;
        self.first_other = self.first_other.min(at);
        self.others.push(Reverse((at, u32::MAX, self.posted, event)));
    }

    /// All events that are no ends of work, each with its time, in no order.
    pub(crate) fn others(&self) -> impl Iterator<Item = (u64, E)> {
        self.others.iter().map(|Reverse((at, _, _, event))| (*at, *event))
    }

    #[inline]
    pub(crate) fn next_at(&mut self) -> u64 {
        if let Some(cpu) = self.taken {
            self.set(cpu, NEVER);
        }
        match self.tree[1] >> self.bits {
            time if time < self.far() => self.first_other.min(time),
            _ if self.first_other < self.far() => self.first_other,
            _ => self.first_other.min(self.ends[self.first_of_far()]),
        }
    }

    /// The time in the tree of all ends that do not fit it.
    #[inline]
    fn far(&self) -> u64 {
        u64::MAX >> self.bits
    }

    /// The CPU whose work ends first.
    #[inline]
    fn first_cpu(&self) -> usize {
        let first = self.tree[1];
        if first >> self.bits == self.far() {
            return self.first_of_far();
        }
        self.cpus[(first & (self.leaves as u64 - 1)) as usize] as usize
    }

    /// The same where no end fits the tree.
    #[cold]
    fn first_of_far(&self) -> usize {
        let order = |&cpu: &usize| (self.ends[cpu], self.keys[cpu]);
        (0..self.leaves).min_by_key(order).expect("there are at least two leaves")
    }

    /// Takes the next event, which is that of `at` by [`Self::next_at`]; other events come before ends of work of the
    /// same time.
    #[inline]
    pub(crate) fn take_at(&mut self, at: u64) -> Option<Next<E>> {
        if at == NEVER {
            return None;
        }
        if self.first_other == at {
            let event = self.others.pop().map(|Reverse((_, _, _, event))| Next::Other(event));
            self.first_other = self.others.peek().map_or(NEVER, |Reverse((at, ..))| *at);
            return event;
        }
        let cpu = self.first_cpu();
        self.taken = Some(cpu);
        Some(Next::Cpu(cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(agenda: &mut Agenda<u32>) -> Option<Next<u32>> {
        let at = agenda.next_at();
        agenda.take_at(at)
    }

    #[test]
    fn events_come_in_order_of_time_and_equal_times_by_key() {
        let mut agenda = Agenda::<u32>::new(3, 0);
        agenda.set(2, 5);
        agenda.set(0, 5);
        agenda.set(1, 9);
        agenda.post(7, 1, 70);
        agenda.post(5, 1, 50);
        let mut got = Vec::new();
        while let Some(next) = take(&mut agenda) {
            got.push(next);
        }
        let expected = [Next::Other(50), Next::Cpu(0), Next::Cpu(2), Next::Other(70), Next::Cpu(1)];
        assert_eq!(got, expected);
        assert_eq!(agenda.next_at(), NEVER);
    }

    #[test]
    fn ends_that_do_not_fit_the_tree_keep_their_order() {
        let mut agenda = Agenda::<u32>::new(3, 0);
        agenda.set(0, NEVER - 1);
        agenda.set(1, NEVER - 3);
        agenda.set(2, NEVER - 3);
        agenda.post(NEVER - 2, 0, 7);
        let got: Vec<_> = std::iter::from_fn(|| take(&mut agenda)).collect();
        assert_eq!(got, [Next::Cpu(1), Next::Cpu(2), Next::Other(7), Next::Cpu(0)]);
    }

    #[test]
    fn a_seed_changes_the_order_of_equal_times_only() {
        let order = |seed| {
            let mut agenda = Agenda::<u32>::new(8, seed);
            (0..8).for_each(|cpu| agenda.set(cpu, 1 + (cpu as u64 % 2)));
            std::iter::from_fn(|| take(&mut agenda)).collect::<Vec<_>>()
        };
        assert_ne!(order(0), order(1));
        assert_eq!(order(1), order(1));
        let even = |next: &Next<u32>| matches!(next, Next::Cpu(cpu) if cpu % 2 == 0);
        assert!(order(1)[..4].iter().all(even));
    }
}
