//! A budget of CPU time in each period (bandwidth control of the fair class).

use super::budget_change::{LEAST, budget};
use super::group::{Group, write};
use super::{SlowError, Speed};
use schedlab_model::Nanos;
use schedlab_sys::cgroup::{self, Version};

/// The period by default: 100 ms, the kernel's own, makes the first seconds up to 7 % too fast; at
/// 4 ms the kernel's tick is a part of the budget.
pub(crate) const PERIOD: Nanos = Nanos::from_millis(10);
/// The kernel's bounds of a period.
const PERIODS: std::ops::RangeInclusive<Nanos> = Nanos::from_millis(1)..=Nanos::from_secs(1);

/// A budget in force on a group of one CPU's tasks.
#[derive(Debug)]
pub(super) struct Quota {
    group: Group,
    period: Nanos,
    burst: Nanos,
}

/// Whether a speed is possible with a period.
///
/// # Errors
/// In a sentence.
pub(super) fn check(speed: Speed, period: Nanos, burst: Nanos) -> Result<(), String> {
    if !PERIODS.contains(&period) {
        return Err(format!("invalid quota period {period}: use 1 ms to 1 s"));
    }
    let budget = budget(speed, period);
    if budget < LEAST {
        let period = Nanos(LEAST.0 * 1_000_000 / u64::from(speed.millionths()));
        return Err(format!(
            "{speed} of the quota period is {budget}, and the kernel needs at least 1 ms: use \
             --quota-period {}ms or longer, or --method weight-pinned",
            period.0.div_ceil(1_000_000)
        ));
    }
    if burst > budget {
        return Err(format!("invalid burst {burst}: use at most the budget of a period, {budget}"));
    }
    Ok(())
}

impl Quota {
    pub(super) fn apply(
        group: &Group,
        speed: Speed,
        period: Nanos,
        burst: Nanos,
    ) -> Result<Self, SlowError> {
        let quota = Self { group: group.clone(), period, burst };
        quota.set(speed)?;
        Ok(quota)
    }

    /// Writes another budget, and how often it comes; `None` for no limit. The kernel gives it at once.
    pub(super) fn pace(&mut self, period: Nanos, budget: Option<Nanos>) -> Result<(), SlowError> {
        let shorter = period < self.period;
        self.period = period;
        // The kernel takes no burst that is longer than the budget.
        self.write(budget.map(|budget| budget.max(self.burst)), shorter)
    }

    pub(super) const fn period(&self) -> Nanos {
        self.period
    }

    pub(super) fn counted(&self) -> Option<u64> {
        cgroup::throttled_in(&self.group.dir).map(|(periods, _, _)| periods)
    }

    pub(super) fn set(&self, speed: Speed) -> Result<(), SlowError> {
        check(speed, self.period, self.burst).map_err(SlowError::Usage)?;
        // A budget of the whole period still throttles now and then: full speed has none.
        let budget = (speed != Speed::FULL).then(|| budget(speed, self.period));
        self.write(budget, false)
    }

    fn write(&self, budget: Option<Nanos>, shorter: bool) -> Result<(), SlowError> {
        let micros = |time: Nanos| (time.0 / 1_000).to_string();
        let period = micros(self.period);
        let budget = budget.map(micros);
        let Group { version, dir } = &self.group;
        let burst = match version {
            Version::V1 => {
                let period = (dir.join("cpu.cfs_period_us"), period);
                let budget = (dir.join("cpu.cfs_quota_us"), budget.unwrap_or_else(|| "-1".into()));
                // The old budget in a shorter period is more than a group above may allow.
                let files = if shorter { [budget, period] } else { [period, budget] };
                files.iter().try_for_each(|(path, text)| write(path, text))?;
                "cpu.cfs_burst_us"
            }
            Version::V2 => {
                let budget = budget.unwrap_or_else(|| "max".into());
                write(&dir.join("cpu.max"), &format!("{budget} {period}"))?;
                "cpu.max.burst"
            }
        };
        // Older kernels have no bursts.
        match self.burst > Nanos::ZERO {
            true => write(&dir.join(burst), &micros(self.burst)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_told_budget_and_period() {
        let speed = Speed::percent(30).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        let zone = |version| Group { version, dir: dir.path().to_owned() };
        let files = ["cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.max"];
        crate::slow::group::fake(dir.path(), &files);
        Quota::apply(&zone(Version::V1), speed, PERIOD, Nanos::ZERO).unwrap();
        assert_eq!(
            (read("cpu.cfs_period_us"), read("cpu.cfs_quota_us")),
            ("10000".into(), "3000".into())
        );
        // A burst came with Linux 5.14: an older kernel is asked for it without effect, and says which file it lacks.
        let burst = Nanos::from_millis(2);
        let old = Quota::apply(&zone(Version::V2), speed, PERIOD, burst).unwrap_err().to_string();
        assert!(old.contains("this kernel lacks cpu.max.burst"), "{old}");
        crate::slow::group::fake(dir.path(), &["cpu.max.burst"]);
        Quota::apply(&zone(Version::V2), speed, PERIOD, burst).unwrap();
        assert_eq!((read("cpu.max"), read("cpu.max.burst")), ("3000 10000".into(), "2000".into()));
        let mut longer = Quota::apply(&zone(Version::V2), speed, PERIOD, Nanos::ZERO).unwrap();
        longer.pace(Nanos::from_millis(50), Some(Nanos::from_millis(15))).unwrap();
        assert_eq!(read("cpu.max"), "15000 50000");
        assert_eq!(longer.counted(), None, "nobody counts here");
        let stat = "nr_periods 5\nnr_throttled 2\nthrottled_usec 7\n";
        std::fs::write(dir.path().join("cpu.stat"), stat).unwrap();
        assert_eq!(longer.counted(), Some(5));
        Quota::apply(&zone(Version::V1), Speed::FULL, PERIOD, Nanos::ZERO).unwrap();
        assert_eq!(read("cpu.cfs_quota_us"), "-1");
        Quota::apply(&zone(Version::V2), Speed::FULL, PERIOD, Nanos::ZERO).unwrap();
        assert_eq!(read("cpu.max"), "max 10000");
    }

    #[test]
    fn budgets_that_the_kernel_refuses_are_refused_before_with_a_period_that_works() {
        let five = Speed::percent(5).unwrap();
        assert!(check(five, PERIOD, Nanos::ZERO).unwrap_err().contains("--quota-period 20ms"));
        assert!(check(five, Nanos::from_millis(20), Nanos::ZERO).is_ok());
        assert!(check(five, Nanos::from_secs(2), Nanos::ZERO).is_err());
        assert!(check(five, Nanos::from_millis(20), Nanos::from_millis(5)).is_err());
    }
}
