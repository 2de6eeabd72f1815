//! Work that proves itself: a job yields a value that only its work and its predecessors' values give.
//!
//! A *round* is `v = (v ^ (v >> 32)) * M` in 64 bits with M = 0xd6e8feb86659fd93 (odd,
//! so that no value is lost). A job begins with the nonce of the run, takes in its number plus one and
//! then the value of each predecessor in their order, each by `v = round(v ^ x)`, and then does its rounds. Rounds follow
//! from each other, so they take their time, and nobody knows a value without having done them.

use crate::graph::Node;
use crate::policy::Nanos;
use std::hint::black_box;
use std::time::Instant;

const M: u64 = 0xd6e8_feb8_6659_fd93;

/// One round of work: a function that cannot be skipped.
#[must_use]
pub(crate) const fn round(value: u64) -> u64 {
    (value ^ (value >> 32)).wrapping_mul(M)
}

/// This many rounds, one after the other.
#[must_use]
pub(crate) fn rounds(mut value: u64, count: u64) -> u64 {
    for _ in 0..count {
        value = round(value);
    }
    value
}

/// The value of a job whose work has `count` rounds.
#[must_use]
pub fn value(nonce: u64, job: Node, predecessors: impl Iterator<Item = u64>, count: u64) -> u64 {
    let begin = round(nonce ^ (u64::from(job) + 1));
    rounds(predecessors.fold(begin, |value, x| round(value ^ x)), count)
}

/// Rounds in a nanosecond on this CPU: the best of some tries, which take `time` together.
#[must_use]
pub fn calibrate(time: Nanos) -> f64 {
    const COUNT: u64 = 20_000;
    let begin = Instant::now();
    let mut best = 0.0;
    let mut value = 1;
    while begin.elapsed().as_nanos() < u128::from(time) {
        let from = Instant::now();
        value = black_box(rounds(black_box(value), COUNT));
        best = f64::max(best, COUNT as f64 / from.elapsed().as_nanos().max(1) as f64);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_document() {
        // Computed apart, in Python.
        assert_eq!(round(1), M);
        assert_eq!(value(0x1234, 0, [].into_iter(), 0), FIRST);
        assert_eq!(value(0x1234, 7, [FIRST, 5].into_iter(), 1000), SECOND);
    }

    const FIRST: u64 = 0xe025_b35f_8475_d56f;
    const SECOND: u64 = 0x4350_4b2a_282e_ef17;

    #[test]
    fn a_value_depends_on_all_that_goes_in() {
        let of =
            |nonce, job, before: &[u64], count| value(nonce, job, before.iter().copied(), count);
        let one = of(1, 2, &[3, 4], 5);
        for other in [
            of(2, 2, &[3, 4], 5),
            of(1, 3, &[3, 4], 5),
            of(1, 2, &[4, 3], 5),
            of(1, 2, &[3], 5),
            of(1, 2, &[3, 4], 6),
        ] {
            assert_ne!(one, other);
        }
    }
}
