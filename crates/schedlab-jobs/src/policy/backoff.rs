//! What a worker does when the token is taken: first it spins, then it sleeps, longer each time.

use super::{Nanos, Step};

/// The highest level. Lumiera: 12.
const LEVEL_MAX: u32 = 12;
/// Up to this level a worker spins. Lumiera: 3.
const LEVEL_SPIN: u32 = 3;
/// The level from which sleeps grow no longer. Lumiera: 8.
const LEVEL_SLEEP_MAX: u32 = 8;

/// How to pass the time until the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Spin some turns, then yield, in a number of rounds.
    Spin {
        /// Turns of the loop in a round.
        turns: u32,
        /// Rounds, each ending in a yield.
        rounds: u32,
    },
    /// Sleep for this many nanoseconds.
    Sleep(Nanos),
}

/// A worker's memory of contention: up one level with each failure, down by the policy's step with
/// each success.
#[derive(Clone, Debug)]
pub(crate) struct Ladder {
    level: u32,
    step: Step,
    /// From 0 to 10, different between workers, so that they do not come back together.
    spread: u32,
}

impl Ladder {
    pub(crate) fn new(worker: usize, step: Step) -> Self {
        // Neighbouring numbers land far apart modulo 11.
        Self { level: 0, step, spread: (worker as u32).wrapping_mul(7) % 11 }
    }

    /// Notes that another worker had the token: one level up. Returns how this worker pauses before its next try.
    pub(crate) fn climb(&mut self) -> Pause {
        if self.step == Step::None {
            return Pause::Spin { turns: 1, rounds: 1 };
        }
        self.level = (self.level + 1).min(LEVEL_MAX);
        if self.level <= LEVEL_SPIN {
            // Lumiera's turns are 100 (1 + r) k of a loop that an optimiser removes; ours are hints to
            // the processor, which take tens of cycles each.
            return Pause::Spin { turns: 4 * (1 + self.spread) * self.level, rounds: self.level };
        }
        let doublings = self.level.min(LEVEL_SLEEP_MAX) - LEVEL_SPIN - 1;
        Pause::Sleep((100_000 + 10_000 * Nanos::from(self.spread)) << doublings)
    }

    /// The token was had.
    pub(crate) fn ease(&mut self) {
        self.level = match self.step {
            Step::Halving => self.level / 2,
            Step::Linear => self.level.saturating_sub(1),
            Step::None => 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn climbed(step: Step, times: usize) -> Ladder {
        let mut ladder = Ladder::new(0, step);
        for _ in 0..times {
            ladder.climb();
        }
        ladder
    }

    #[test]
    fn sleeps_double_from_a_tenth_to_one_and_six_tenths_of_a_millisecond() {
        let mut ladder = climbed(Step::Halving, 3);
        let sleeps: Vec<_> = (0..7).map(|_| ladder.climb()).collect();
        let expected = [100, 200, 400, 800, 1600, 1600, 1600].map(|us| Pause::Sleep(us * 1000));
        assert_eq!(sleeps, expected);
    }

    #[test]
    fn halving_forgets_a_climb_in_four_successes_and_linear_in_twelve() {
        let successes = |step| {
            let mut ladder = climbed(step, 20);
            (0..).take_while(|_| (ladder.level > 0, ladder.ease()).0).count()
        };
        assert_eq!((successes(Step::Halving), successes(Step::Linear)), (4, 12));
    }
}
