//! The grid of slots on which hogs burn.
//!
//! Time since the origin of `CLOCK_MONOTONIC` is cut into slots of one period. In slot `k` a CPU of
//! speed `s` burns `(1 - s) P`, beginning at `r(k) s P` into the slot, where `r(k)` is a hash of `k` in
//! [0, 1). Since origin, period and hash are the same for every CPU and every process on the machine,
//! all of them burn in step without talking to each other: CPUs of equal speed burn at the same time,
//! and a longer burn covers a shorter one. The place in the slot changes from slot to slot, else a
//! workload that sleeps about as long as a slot locks to the grid and runs up to a quarter too fast.

use super::Speed;
use schedlab_model::{Nanos, Span};
use schedlab_random::SplitMix64;

/// Time cut into slots of one period, in each of which a slowed CPU burns once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    period: Nanos,
}

impl Grid {
    /// The period that suits most work. It may be at most twice the shortest phase of computing (1 ms), since
    /// the burn's place varies. It is long enough that switches and cold caches cost only 1 %.
    pub(crate) const PERIOD: Nanos = Nanos::from_millis(2);
    /// The shortest period: below it, waking the hog is a large part of the burn.
    pub(crate) const PERIOD_MIN: Nanos = Nanos::from_micros(200);
    /// The longest period: the longest burn must stay short for the one that uses the machine.
    pub(crate) const PERIOD_MAX: Nanos = Nanos::from_millis(200);

    /// A grid of this period; `None` outside [`Grid::PERIOD_MIN`] ..= [`Grid::PERIOD_MAX`].
    #[must_use]
    pub(crate) fn new(period: Nanos) -> Option<Self> {
        (Self::PERIOD_MIN..=Self::PERIOD_MAX).contains(&period).then_some(Self { period })
    }

    #[must_use]
    pub(crate) const fn period(self) -> Nanos {
        self.period
    }

    #[must_use]
    pub(crate) const fn slot(self, time: Nanos) -> u64 {
        time.0 / self.period.0
    }

    /// When a CPU of this speed burns in a slot; an empty span at full speed.
    #[must_use]
    pub(crate) fn burn(self, slot: u64, speed: Speed) -> Span {
        let burn = speed.lost(self.period.0);
        let room = u128::from(self.period.0 - burn);
        // 64 bits of the hash are the fraction r; the product's upper half is r times the room.
        let offset = u64::try_from((room * u128::from(SplitMix64::nth(slot))) >> 64)
            .expect("below the period");
        let start = slot * self.period.0 + offset;
        Span::new(Nanos(start), Nanos(start + burn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        Grid::new(Grid::PERIOD).unwrap()
    }

    fn speed(percent: u32) -> Speed {
        Speed::percent(percent).unwrap()
    }

    #[test]
    fn a_burn_lies_inside_its_slot_and_takes_what_is_missing_to_full_speed() {
        for percent in [10, 25, 50, 75, 99, 100] {
            for slot in 0..2_000 {
                let burn = grid().burn(slot, speed(percent));
                let start = Nanos(slot * Grid::PERIOD.0);
                assert!(burn.start >= start && burn.end <= start + Grid::PERIOD);
                assert_eq!(burn.duration().0, Grid::PERIOD.0 * u64::from(100 - percent) / 100);
            }
        }
    }

    #[test]
    fn a_slower_cpu_burns_throughout_the_burn_of_a_faster_one() {
        // Else threads that meet at a barrier would wait for two burns in a slot.
        for slot in 0..2_000 {
            let long = grid().burn(slot, speed(25));
            let short = grid().burn(slot, speed(75));
            assert!(long.start <= short.start && short.end <= long.end, "slot {slot}");
        }
    }

    #[test]
    fn places_of_the_burn_spread_evenly_over_the_slot() {
        let mut tenths = [0u32; 10];
        for slot in 0..10_000 {
            let offset = grid().burn(slot, speed(50)).start.0 - slot * Grid::PERIOD.0;
            tenths[usize::try_from(offset * 10 / 1_000_001).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|&count| (850..1_150).contains(&count)), "{tenths:?}");
    }

    #[test]
    fn neighbouring_burns_do_not_follow_a_pattern_that_a_sleeper_could_lock_to() {
        let places: Vec<f64> = (0..10_000)
            .map(|slot| (grid().burn(slot, speed(50)).start.0 - slot * Grid::PERIOD.0) as f64 / 1e6)
            .collect();
        for lag in 1..=16 {
            let products = places.windows(lag + 1).map(|w| (w[0] - 0.5) * (w[lag] - 0.5));
            let correlation = products.sum::<f64>() / (places.len() as f64) * 12.0;
            assert!(correlation.abs() < 0.05, "lag {lag}: {correlation}");
        }
    }

    #[test]
    fn periods_have_bounds() {
        assert!(Grid::new(Nanos::from_micros(100)).is_none());
        assert!(Grid::new(Nanos::from_secs(1)).is_none());
        assert_eq!(grid().slot(Nanos::from_millis(5)), 2);
    }
}
