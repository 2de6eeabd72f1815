//! From the numbers in the pages to nanoseconds of the trace's clock.

use super::read_head::{ShiftSample, TimeOptions};
use schedlab_model::{Clock, Cpu};
use std::sync::Arc;

/// Corrections of one CPU's time stamps; most files need none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Correction {
    /// Shared by the CPUs of a guest that gives one list.
    shift: Arc<[ShiftSample]>,
    tsc: Option<(u32, u32)>,
    offset: i64,
}

impl Correction {
    /// What the options ask for on `cpu`.
    pub(crate) fn new(options: &TimeOptions, cpu: Cpu, clock: &str) -> Self {
        let shift = options.shift.as_ref().and_then(|all| {
            // A guest that gives one list means all of its CPUs.
            all.get(cpu.index()).or_else(|| all.first().filter(|_| all.len() == 1))
        });
        let tsc = match clock {
            "x86-tsc" | "tsc2nsec" => options.tsc,
            // The kernel counts in hundredths of a second (USER_HZ).
            UPTIME => Some((10_000_000, 0)),
            _ => None,
        };
        Self { shift: shift.cloned().unwrap_or_default(), tsc, offset: options.offset }
    }

    pub(crate) fn is_identity(&self) -> bool {
        self.shift.is_empty() && self.tsc.is_none() && self.offset == 0
    }

    /// One time, corrected: the guest's shift, then ticks, then the offset.
    pub(crate) fn time(&self, raw: u64) -> u64 {
        let mut time = raw;
        if let Some(sample) = self.sample(time) {
            time = shifted(time, sample);
        }
        if let Some((mult, shift)) = self.tsc {
            let product = u128::from(time) * u128::from(mult);
            time = u64::try_from(product >> shift.min(127)).unwrap_or(u64::MAX);
        }
        time.saturating_add_signed(self.offset)
    }

    /// The last sample that is not after `time`, or the first. As trace-cmd does it, so that times agree: the
    /// last of several only says where the stretch of the one before it ends, and that goes on.
    fn sample(&self, time: u64) -> Option<&ShiftSample> {
        let time = i64::try_from(time).unwrap_or(i64::MAX);
        let after = self.shift.partition_point(|sample| sample.time <= time);
        let last = self.shift.len().saturating_sub(2);
        self.shift.get(after.saturating_sub(1).min(last))
    }
}

/// Scaled by the sample's ratio (with as many fraction bits as it says), then moved by its offset.
fn shifted(time: u64, sample: &ShiftSample) -> u64 {
    let scaled = match (sample.scaling, sample.fraction) {
        (0 | 1, 0) => i128::from(time),
        (scaling, fraction) => (i128::from(time) * i128::from(scaling)) >> fraction.clamp(0, 63),
    };
    let moved = scaled.saturating_add(sample.offset.into()).max(0);
    u64::try_from(moved).unwrap_or(u64::MAX)
}

/// The clock that counts hundredths of a second.
pub(crate) const UPTIME: &str = "uptime";

/// What the kernel's name of a clock means. `scaled`: the file tells how long a tick is.
pub(crate) fn clock(name: &str, scaled: bool) -> Clock {
    match name {
        "mono" => Clock::Monotonic,
        "x86-tsc" | "counter" | "jiffies" if !scaled => Clock::Ticks(name.to_owned()),
        other => Clock::Nanoseconds(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds_before_the_offset() {
        let options = TimeOptions { offset: -5, tsc: Some((1 << 20, 21)), shift: None };
        let correction = Correction::new(&options, Cpu(0), "x86-tsc");
        assert_eq!(correction.time(100), 45);
        assert_eq!(correction.time(u64::MAX), (u64::MAX >> 1) - 5);
        assert_eq!(Correction::new(&options, Cpu(0), "local").time(100), 95);
    }

    #[test]
    fn the_clock_uptime_counts_hundredths_of_a_second() {
        let correction = Correction::new(&TimeOptions::default(), Cpu(0), UPTIME);
        assert_eq!(correction.time(12_345), 123_450_000_000);
        assert_eq!(clock(UPTIME, false), Clock::Nanoseconds(UPTIME.into()));
    }

    #[test]
    fn a_guests_time_follows_the_last_sample_before_it() {
        let sample = |time, offset| ShiftSample { time, offset, scaling: 3 << 4, fraction: 5 };
        let options = TimeOptions {
            shift: Some(vec![[sample(10, 100), sample(20, 200), sample(30, 300)].into()]),
            ..TimeOptions::default()
        };
        let correction = Correction::new(&options, Cpu(3), "local");
        assert_eq!([4, 10, 19, 20, 40].map(|t| correction.time(t)), [106, 115, 128, 230, 260]);
    }

    #[test]
    fn counters_without_a_rate_are_ticks() {
        assert_eq!(clock("mono", false), Clock::Monotonic);
        assert_eq!(clock("boot", false), Clock::Nanoseconds("boot".into()));
        assert_eq!(clock("x86-tsc", false), Clock::Ticks("x86-tsc".into()));
        assert_eq!(clock("x86-tsc", true), Clock::Nanoseconds("x86-tsc".into()));
    }

    #[test]
    fn each_cpu_of_a_guest_has_its_own_samples_or_all_have_one_list() {
        let sample = |offset| -> Arc<[ShiftSample]> {
            [ShiftSample { offset, ..ShiftSample::default() }].into()
        };
        let of = |lists: Vec<Arc<[ShiftSample]>>, cpu| {
            let options = TimeOptions { shift: Some(lists), ..TimeOptions::default() };
            Correction::new(&options, Cpu(cpu), "local")
        };
        let two = vec![sample(5), sample(7)];
        assert_eq!([0, 1].map(|cpu| of(two.clone(), cpu).time(100)), [105, 107]);
        assert!(of(two, 2).is_identity(), "one that the guest does not have");
        assert_eq!(of(vec![sample(5)], 9).time(100), 105);
    }

    #[test]
    fn a_correction_of_nothing_is_known_as_such() {
        let of = |options: &TimeOptions| Correction::new(options, Cpu(0), "x86-tsc").is_identity();
        let none = TimeOptions::default();
        assert!(of(&none));
        assert!(!of(&TimeOptions { offset: 1, ..none.clone() }));
        assert!(!of(&TimeOptions { tsc: Some((1, 0)), ..none.clone() }));
        assert!(!of(&TimeOptions { shift: Some(vec![[ShiftSample::default()].into()]), ..none }));
    }

    #[test]
    fn a_scale_of_nothing_or_one_leaves_a_time_as_it_is() {
        let of = |scaling, fraction| {
            shifted(100, &ShiftSample { scaling, fraction, ..ShiftSample::default() })
        };
        assert_eq!([of(0, 0), of(1, 0), of(3, 0), of(3, 1), of(1, 1)], [100, 100, 300, 150, 50]);
        let back = ShiftSample { offset: -200, scaling: 1, ..ShiftSample::default() };
        assert_eq!(shifted(100, &back), 0, "no time is before the first");
    }

    #[test]
    fn ticks_that_are_too_many_end_at_the_largest_time() {
        let options = TimeOptions { tsc: Some((3, 0)), ..TimeOptions::default() };
        for clock in ["x86-tsc", "tsc2nsec"] {
            let correction = Correction::new(&options, Cpu(0), clock);
            assert_eq!([correction.time(7), correction.time(u64::MAX)], [21, u64::MAX]);
        }
    }
}
