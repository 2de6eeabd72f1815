//! What the interrupts of a task look like: a periodic timer, a sleep of fixed length, or neither. The smaller residual
//! decides; equal ones tell nothing. Where the timers themselves were recorded, they decide.

use crate::hrtimers::Started;
use schedlab_model::Nanos;

/// The fewest periods that decide.
pub(crate) const PERIODS_MIN: usize = 10;
/// A model fits if its residual is at most this part of the period.
const FITS: u64 = 10;

/// What ended the waits that no task ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timer {
    /// The task had no interrupts.
    #[default]
    None,
    /// A timer with a period: the times of interrupts are multiples of it apart.
    Periodic(Nanos),
    /// A sleep: the interrupt comes this long after the task went to sleep.
    Relative(Nanos),
    /// Neither fits, or there were fewer than 10 periods.
    Unknown,
}

/// A timer, and what tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) timer: Timer,
    /// Whether recorded timers decided, not the times of waits.
    pub(crate) is_recorded: bool,
    /// The median slack of recorded timers.
    pub(crate) slack: Option<Nanos>,
}

/// Decides by the recorded timers if at least half of the waits ended by one, else by the times of the waits.
pub(crate) fn decide(waits: &[(Nanos, Nanos)], recorded: &[Started]) -> Decided {
    let slacks: Vec<u64> = recorded.iter().map(|one| one.slack.0).collect();
    let slack = (!slacks.is_empty()).then(|| Nanos(median(&slacks)));
    if recorded.is_empty() || recorded.len() * 2 < waits.len() {
        return Decided { timer: by_times(waits), is_recorded: false, slack };
    }
    let relative = recorded.iter().filter(|one| one.is_relative).count();
    let steps: Vec<u64> =
        waits.windows(2).map(|pair| pair[1].0.0.saturating_sub(pair[0].0.0)).collect();
    let sleeps: Vec<u64> = waits.iter().map(|(_, slept)| slept.0).collect();
    let timer = match relative {
        0 if !steps.is_empty() => Timer::Periodic(Nanos(median(&steps))),
        all if all == recorded.len() => {
            let slack = slack.map_or(0, |slack| slack.0);
            Timer::Relative(Nanos(median(&sleeps).saturating_sub(slack)))
        }
        _ => Timer::Unknown,
    };
    Decided { timer, is_recorded: true, slack }
}

/// The median of times, in whole nanoseconds; 0 of none.
fn median(values: &[u64]) -> u64 {
    schedlab_stats::median(values.iter().map(|&time| time as f64)).unwrap_or(0.0).round() as u64
}

/// Decides by the smaller residual. `waits` has the time of each interrupt and how long the task had slept.
fn by_times(waits: &[(Nanos, Nanos)]) -> Timer {
    if waits.is_empty() {
        return Timer::None;
    }
    if waits.len() <= PERIODS_MIN {
        return Timer::Unknown;
    }
    let steps: Vec<u64> =
        waits.windows(2).map(|pair| pair[1].0.0.saturating_sub(pair[0].0.0)).collect();
    let sleeps: Vec<u64> = waits[1..].iter().map(|(_, slept)| slept.0).collect();
    let period = median(&steps);
    let sleep = median(&sleeps);
    if period == 0 || sleep == 0 {
        return Timer::Unknown;
    }
    // A period may have been missed: the step is then a multiple.
    let off = |step: u64| {
        let times = ((step + period / 2) / period).max(1);
        step.abs_diff(times * period)
    };
    let of_period = residual(steps.iter().map(|step| off(*step)));
    let of_sleep = residual(sleeps.iter().map(|slept| slept.abs_diff(sleep)));
    if of_period < of_sleep && of_period <= period / FITS {
        Timer::Periodic(Nanos(period))
    } else if of_sleep < of_period && of_sleep <= sleep / FITS {
        Timer::Relative(Nanos(sleep))
    } else {
        Timer::Unknown
    }
}

/// The mean of the residuals without the largest tenth, which other causes explain.
fn residual(of: impl Iterator<Item = u64>) -> u64 {
    let mut all: Vec<u64> = of.collect();
    all.sort_unstable();
    all.truncate((all.len() * 9).div_ceil(10));
    let sum: u128 = all.iter().map(|&one| u128::from(one)).sum();
    u64::try_from(sum / all.len().max(1) as u128).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(of: impl Fn(u64) -> (u64, u64)) -> Vec<(Nanos, Nanos)> {
        (0..20).map(of).map(|(at, slept)| (Nanos(at), Nanos(slept))).collect()
    }

    #[test]
    fn a_period_and_a_sleep_are_told_apart() {
        // A period of 1 ms; the work before the sleep takes 100 to 290 us.
        let periodic = waits(|turn| (1_000_000 * turn, 900_000 - 10_000 * turn));
        assert_eq!(by_times(&periodic), Timer::Periodic(Nanos(1_000_000)));
        // The same with a period that was missed.
        let missed =
            waits(|turn| (1_000_000 * (turn + u64::from(turn > 9)), 900_000 - 10_000 * turn));
        assert_eq!(by_times(&missed), Timer::Periodic(Nanos(1_000_000)));
        // A sleep of 1 ms after work of varying length.
        let relative = waits(|turn| (1_000_000 * turn + 40_000 * turn * turn, 1_000_000 + turn));
        assert!(matches!(by_times(&relative), Timer::Relative(_)));
    }

    #[test]
    fn recorded_timers_decide_and_the_slack_is_apart() {
        let timer = |is_relative| Started { is_relative, slack: Nanos(50_000) };
        // By the times alone, neither fits.
        let irregular = waits(|turn| (turn * turn * turn * 100_000, turn * turn * 90_000));
        let relative = decide(&irregular, &[timer(true); 20]);
        assert!(relative.is_recorded && matches!(relative.timer, Timer::Relative(_)));
        assert_eq!(relative.slack, Some(Nanos(50_000)));
        let sleep = waits(|turn| (1_000_000 * turn + turn * turn, 1_050_000));
        let Timer::Relative(asked) = decide(&sleep, &[timer(true); 20]).timer else { panic!() };
        assert_eq!(asked, Nanos(1_000_000), "without its slack");
        assert!(matches!(decide(&sleep, &[timer(false); 20]).timer, Timer::Periodic(_)));
        let mixed = [[timer(true); 10], [timer(false); 10]].concat();
        assert_eq!(decide(&sleep, &mixed).timer, Timer::Unknown);
        assert!(!decide(&sleep, &[timer(true); 9]).is_recorded, "of 20 waits");
    }

    #[test]
    fn few_waits_and_irregular_ones_are_unknown() {
        let regular = waits(|turn| (1_000_000 * turn, 900_000 + turn));
        assert_eq!(by_times(&regular[..PERIODS_MIN]), Timer::Unknown);
        assert!(matches!(by_times(&regular[..=PERIODS_MIN]), Timer::Periodic(_)));
        let irregular = waits(|turn| (turn * turn * turn * 100_000, turn * turn * 90_000));
        assert_eq!(by_times(&irregular), Timer::Unknown);
        assert_eq!(by_times(&[]), Timer::None);
    }
}
