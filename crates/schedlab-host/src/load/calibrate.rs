//! The calibrated loop: work that takes the same number of cycles each time.

use schedlab_model::Nanos;
use schedlab_sys::clock;
use std::hint::black_box;

/// Does `iterations` of the loop: a chain of multiplications, each of which needs the one before, so
/// that no compiler or core does two at a time. About 1 ns each.
#[inline(never)]
pub(crate) fn compute(iterations: u64) {
    let mut x = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..iterations {
        // Knuth's multiplier for a linear congruence modulo 2^64 (TAOCP 3.3.4).
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    black_box(x);
}

/// Iterations of the loop that this CPU does in a microsecond now: the fastest of some short tries,
/// since every disturbance makes it slower.
#[must_use]
pub(crate) fn calibrate() -> u64 {
    const ITERATIONS: u64 = 200_000;
    let once = || {
        let began = clock::monotonic();
        compute(ITERATIONS);
        (clock::monotonic() - began).max(Nanos(1))
    };
    let fastest = (0..20).map(|_| once()).min().unwrap_or(Nanos(1));
    (ITERATIONS * 1_000 / fastest.0).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_iterations_take_longer() {
        // Orders of magnitude apart, and the fastest of some, so that no noise can turn it round.
        let time = |iterations| {
            let began = clock::monotonic();
            compute(iterations);
            clock::monotonic() - began
        };
        let few = (0..50).map(|_| time(2_000)).min().unwrap();
        assert!(time(20_000_000) > few);
    }
}
