//! A rule draws a small number from a node's hash: how many to add, to join, or whether to end.

use super::Hashing;

/// Where a rule holds; elsewhere it draws 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// The rule applies at every node.
    #[default]
    Always,
    /// At nodes without predecessors.
    AtStart,
    /// At nodes with exactly one predecessor.
    AtLink,
    /// At nodes with more than one predecessor.
    AtJoin,
}

impl When {
    fn holds(self, predecessors: usize) -> bool {
        match self {
            Self::Always => true,
            Self::AtStart => predecessors == 0,
            Self::AtLink => predecessors == 1,
            Self::AtJoin => predecessors > 1,
        }
    }
}

/// Draws 0, or a number from `min` (at least 1) to `max`, from the bits of a hash.
///
/// With u uniform in [0, 1): u < 1 - p gives 0; else the rest of u is spread over the range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rule {
    /// Probability of a number other than 0, from 0 (the rule is off) to 1.
    pub(crate) probability: f64,
    /// Smallest number when not 0; 0 means 1.
    pub min: u32,
    /// Largest number; `None` is the graph's fan. Not below `min`.
    pub max: Option<u32>,
    /// Multiplies the hash by a counter that begins here and grows with each draw, so that branches
    /// with equal hashes part.
    pub shuffle: Option<u64>,
    /// Draws always this number instead.
    pub(crate) fixed: Option<u32>,
    /// Where the rule holds.
    pub when: When,
}

impl Rule {
    /// The rule that draws nothing.
    pub const OFF: Self = Self {
        probability: 0.0,
        min: 0,
        max: None,
        shuffle: None,
        fixed: None,
        when: When::Always,
    };

    /// With this probability a number from 1 to the graph's fan.
    pub const fn chance(probability: f64) -> Self {
        Self { probability, ..Self::OFF }
    }

    /// A rule that always draws this number.
    pub const fn fixed(number: u32) -> Self {
        Self { fixed: Some(number), ..Self::OFF }
    }

    /// The rule, drawing values up to `max`.
    #[must_use]
    pub const fn max(mut self, max: u32) -> Self {
        self.max = Some(max);
        self
    }

    /// The rule, drawing values from `min` on.
    #[must_use]
    pub const fn min(mut self, min: u32) -> Self {
        self.min = min;
        self
    }

    /// The rule, shuffled from this counter on.
    #[must_use]
    pub const fn shuffle(mut self, counter: u64) -> Self {
        self.shuffle = Some(counter);
        self
    }

    /// The rule, applied only to nodes for which `when` holds.
    #[must_use]
    pub const fn when(mut self, when: When) -> Self {
        self.when = when;
        self
    }
}

/// A rule in use: it counts its draws.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    rule: Rule,
    counter: u64,
    fan: u32,
    hashing: Hashing,
}

impl Draw {
    pub(super) fn new(rule: Rule, fan: u32, hashing: Hashing) -> Self {
        Self { rule, counter: rule.shuffle.unwrap_or(0), fan, hashing }
    }

    /// Draws for a node with this hash and this many predecessors.
    pub(super) fn draw(&mut self, hash: u64, predecessors: usize) -> u32 {
        if !self.rule.when.holds(predecessors) {
            return 0;
        }
        if let Some(number) = self.rule.fixed {
            return number;
        }
        let mut hash = hash;
        if self.rule.shuffle.is_some() {
            hash = hash.wrapping_mul(self.counter);
            self.counter = self.counter.wrapping_add(1);
        }
        let (u, epsilon) = self.uniform(hash);
        self.spread(u, epsilon)
    }

    /// A number in [0, 1) from the hash, and half its resolution.
    fn uniform(&self, hash: u64) -> (f64, f64) {
        match self.hashing {
            Hashing::Compat => {
                let quanta = 1u64 << (4 + self.fan.max(1).ilog2());
                ((hash % quanta) as f64 / quanta as f64, 0.5 / quanta as f64)
            }
            Hashing::Mixed => ((hash >> 11) as f64 / (1u64 << 53) as f64, 0.0),
        }
    }

    fn spread(&self, u: f64, epsilon: f64) -> u32 {
        let off = 1.0 - self.rule.probability;
        if self.rule.probability <= 0.0 || u < off {
            return 0;
        }
        let v = (u - off) / self.rule.probability;
        let min = self.rule.min;
        let max = self.rule.max.unwrap_or(self.fan).max(min);
        if min == 0 {
            (v * f64::from(max) + 1.0 + epsilon).floor() as u32
        } else {
            (v * f64::from(max - min + 1) + f64::from(min) + epsilon).floor() as u32
        }
    }
}
