//! The rate that keeps a machine busy to a wanted share, found by small steps once a second.

/// How busy the machine was between two looks at `/proc/stat`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Busy {
    last: Option<(u64, u64)>,
}

impl Busy {
    /// Percent of CPU time that was not idle since the last call; `None` the first time, or when the
    /// text is not what the kernel writes. Waiting for a disk is idle: nothing was scheduled.
    pub fn since_last(&mut self, stat: &str) -> Option<f64> {
        let fields: Vec<u64> = stat
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_whitespace()
            // Guest time, the ninth and tenth, is part of user time.
            .take(8)
            .map_while(|field| field.parse().ok())
            .collect();
        let idle = fields.get(3)? + fields.get(4).copied().unwrap_or(0);
        let total: u64 = fields.iter().sum();
        let (idle_before, total_before) = self.last.replace((idle, total))?;
        let elapsed = total.checked_sub(total_before).filter(|&n| n > 0)?;
        Some(100.0 - 100.0 * idle.saturating_sub(idle_before) as f64 / elapsed as f64)
    }
}

/// The rate to try next. Far from the goal it moves at most threefold, near it by a part of what
/// is missing, and it never sticks at zero.
#[must_use]
pub(crate) fn next_rate(rate: u64, busy: f64, wanted: f64) -> u64 {
    let rate = rate.max(1);
    let ratio = wanted / busy.max(0.1);
    let next = if ratio > 1.0 {
        let step = match ratio {
            r if r > 3.0 => 3.0,
            r if r < 1.2 => 1.0 + (r - 1.0) / 8.0,
            r if r < 1.5 => 1.0 + (r - 1.0) / 4.0,
            r => r,
        };
        (rate as f64 * step).ceil()
    } else {
        let step = match ratio {
            r if r < 0.3 => 0.3,
            r if r > 0.9 => r + (1.0 - r) / 8.0,
            r if r > 0.8 => r + (1.0 - r) / 4.0,
            r => r,
        };
        (rate as f64 * step).floor()
    };
    (next as u64).clamp(1, 1 << 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_what_is_not_idle() {
        let mut busy = Busy::default();
        assert_eq!(busy.since_last("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0"), None);
        assert_eq!(busy.since_last("cpu  150 0 150 750 150 0 0 0 90 0\ncpu0"), Some(50.0));
        assert_eq!(busy.since_last("nonsense"), None);
    }

    #[test]
    fn a_rate_finds_its_goal_from_below_and_from_above_and_never_sticks_at_zero() {
        // A machine that 1,000 requests a second keep wholly busy.
        let busy = |rate: u64| (rate as f64 / 10.0).min(100.0);
        for start in [0, 1, 10, 100_000] {
            let mut rate = start;
            for _ in 0..200 {
                rate = next_rate(rate, busy(rate), 60.0);
            }
            assert!((590..=610).contains(&rate), "from {start}: {rate}");
        }
        // Others keep the machine busy: the rate falls, and rises again once they are gone.
        assert_eq!(next_rate(1, 100.0, 10.0), 1);
        assert!(next_rate(1, 5.0, 10.0) > 1);
    }
}
