//! The tasks that wait in a queue, by virtual time or deadline.

/// What tasks are ordered by: the time, then the turn in which they came; the last part is the task.
pub(super) type Key = (i64, u64, u32);

/// Keys in order, in place of the kernel's red-black tree. A queue mostly holds few tasks, and those that come and go are
/// mostly near its beginning. So the keys stand in a plain list, the least one last.
#[derive(Debug, Default)]
pub(super) struct Ordered(Vec<Key>);

impl Ordered {
    pub(super) fn insert(&mut self, key: Key) {
        let at = self.0.len() - self.before(key);
        self.0.insert(at, key);
    }

    pub(super) fn remove(&mut self, key: Key) {
        let behind = self.0.len() - self.before(key);
        if behind > 0 && self.0[behind - 1] == key {
            self.0.remove(behind - 1);
        }
    }

    /// The key that comes first in order.
    #[inline]
    pub(super) fn first(&self) -> Option<&Key> {
        self.0.last()
    }

    /// All keys, the least first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Key> {
        self.0.iter().rev()
    }

    fn before(&self, key: Key) -> usize {
        /// Keys that are looked at one by one before the rest is halved.
        const FEW: usize = 8;
        let near = self.0.iter().rev().take(FEW).take_while(|&&other| other < key).count();
        match near {
            FEW => self.0.len() - self.0.partition_point(|&other| other >= key),
            _ => near,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_come_in_the_order_of_a_tree() {
        let mut random = schedlab_stats::Random::new(3);
        let mut keys = Ordered::default();
        let mut tree = BTreeSet::new();
        for turn in 0..4_000_u64 {
            let key = (random.below(50) as i64 - 25, turn, (turn % 7) as u32);
            keys.insert(key);
            tree.insert(key);
            if turn % 100 > 40 {
                let one = *tree.iter().nth(random.below(tree.len())).unwrap();
                keys.remove(one);
                tree.remove(&one);
            }
            keys.remove((0, u64::MAX, 0));
            assert_eq!(keys.first(), tree.first());
            assert!(turn % 37 > 0 || keys.iter().eq(tree.iter()));
        }
        assert!(tree.len() > 100, "the list was long enough to be halved");
    }
}
