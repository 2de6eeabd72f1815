//! Whether a CPU is as fast as was asked: measured after applying, for a moment, on each.

use super::probe::{Probe, Reading};
use super::{Grid, Method, Speed, Speeds};
use schedlab_model::{Cpu, CpuSet, Nanos, Warning};
use serde::Serialize;
use std::path::PathBuf;

/// The speed that a CPU had when it was measured, beside the one that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Measured {
    /// The CPU that was measured.
    pub cpu: Cpu,
    /// What was asked for.
    pub asked: Speed,
    /// The part of the time that a task got.
    pub granted: f64,
    /// The part of the time that interrupts and the hypervisor took, as counted in ticks.
    pub(crate) taken: f64,
    /// Work done in that time, as a part of what was done at full speed just before. On a virtual
    /// machine it varies by some percent by itself.
    #[schemars(with = "Option<f64>")]
    pub work: f64,
}

/// More than this off is a warning, for any method.
const TOLERANCE: f64 = 0.02;
/// Below this part of the time before anything was applied, others took some of it.
const STEADY: f64 = 0.97;
/// A CPU that is off is read so often. What disturbs a reading passes; a speed that is not in force stays away.
pub(super) const READINGS: usize = 3;

/// The probe for a method, and how much more than [`TOLERANCE`] its reading may be off, since the
/// method's own period is not much shorter than the reading.
pub(super) fn probe(
    method: Method,
    grid: Grid,
    quota_period: Nanos,
    groups: &[PathBuf],
) -> (Probe, f64) {
    let ms = Nanos::from_millis;
    let (time, align, slack) = match method {
        Method::Hogs => {
            (Nanos(grid.period().0 * ms(100).0.div_ceil(grid.period().0)), grid.period(), 0.0)
        }
        Method::Quota => (Nanos(quota_period.0 * 30), Nanos::ZERO, 1.0 / 30.0),
        Method::Stop | Method::StopGroup => (ms(600), Nanos::ZERO, 0.02),
        Method::Gov => (Nanos(super::frequency::PITCH.0 * 4), Nanos::ZERO, 0.0),
        Method::Freq => (ms(100), Nanos::ZERO, 0.0),
        // Its periods have an origin of their own, of which one may be cut off at either end.
        Method::Deadline => (ms(200), Nanos::ZERO, grid.period().0 as f64 / ms(200).0 as f64),
        Method::Weight | Method::WeightPerCpu | Method::WeightPinned | Method::Uclamp => {
            (ms(400), Nanos::ZERO, 0.0)
        }
    };
    let realtime = !method.is_for_command();
    (Probe { groups: groups.to_vec(), time, align, realtime }, slack)
}

/// The probe at full speed, before anything is applied.
pub(super) fn baseline() -> Probe {
    Probe { groups: Vec::new(), time: Nanos::from_millis(40), align: Nanos::ZERO, realtime: true }
}

pub(super) fn compare(speeds: &Speeds, before: &[Reading], after: &[Reading]) -> Vec<Measured> {
    let of =
        |readings: &[Reading], cpu| readings.iter().find(|reading| reading.cpu == cpu).copied();
    let measured = speeds.iter().filter_map(|(&cpu, &asked)| {
        let after = of(after, cpu)?;
        let full = of(before, cpu).map_or(f64::NAN, |before| before.rate());
        let taken = after.taken.0 as f64 / after.wall.0.max(1) as f64;
        Some(Measured { cpu, asked, granted: after.share(), taken, work: after.rate() / full })
    });
    measured.collect()
}

/// Whether a method changes the clock, which leaves the time that a task gets and changes its work.
const fn changes_the_clock(method: Method) -> bool {
    matches!(method, Method::Freq | Method::Gov | Method::Uclamp)
}

fn off(method: Method, one: &Measured) -> f64 {
    let got = if changes_the_clock(method) { one.work } else { one.granted };
    got - one.asked.fraction()
}

/// Whether full speed is asked for, by a method that takes time of a CPU: then nothing slows it.
fn is_unslowed(method: Method, one: &Measured) -> bool {
    one.asked == Speed::FULL && !changes_the_clock(method)
}

pub(super) fn are_off(method: Method, measured: &[Measured], slack: f64) -> CpuSet {
    let is_off = |one: &&Measured| off(method, one).abs() > TOLERANCE + slack;
    measured.iter().filter(is_off).map(|one| one.cpu).collect()
}

/// Puts further readings in the place of those that lay further from what was asked for.
pub(super) fn keep_nearest(method: Method, kept: &mut [Measured], again: &[Measured]) {
    for new in again {
        let is_farther = |old: &&mut Measured| {
            old.cpu == new.cpu && off(method, new).abs() < off(method, old).abs()
        };
        kept.iter_mut().filter(is_farther).for_each(|old| *old = *new);
    }
}

pub(super) fn doubts(
    method: Method,
    measured: &[Measured],
    before: &[Reading],
    asked: &CpuSet,
    slack: f64,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for one in measured {
        let off = off(method, one);
        if off.abs() <= TOLERANCE + slack {
            continue;
        }
        let got = off + one.asked.fraction();
        let what =
            format!("CPU {} was set to {}, but runs at {:.1}%", one.cpu, one.asked, got * 100.0);
        let share =
            before.iter().find(|reading| reading.cpu == one.cpu).map_or(1.0, Reading::share);
        let is_short = off < 0.0;
        let others = if is_short { taken_by_others(method, one, share) } else { None };
        // Methods for commands share what others leave.
        let is_crowded = others.is_some() || (is_short && method.is_for_command());
        let code = if is_crowded { "speed-crowded" } else { "speed-off" };
        warnings.push(Warning::new(code, what, others.unwrap_or_else(|| cause(method, off))));
    }
    for cpu in asked.iter().filter(|cpu| measured.iter().all(|one| one.cpu != *cpu)) {
        let what = format!("cannot measure the speed of CPU {cpu}");
        warnings.push(Warning::new("speed-unknown", what, "the probe died; see `schedlab doctor`"));
    }
    warnings
}

/// What else took the time that is missing of a speed: then the speed may be right the next time. `None` where nothing
/// tells.
fn taken_by_others(method: Method, one: &Measured, share_before: f64) -> Option<String> {
    // Ticks count down: up to twice as much was taken.
    if 2.0 * one.taken >= -off(method, one) {
        let percent = one.taken * 100.0;
        return Some(format!("interrupts and the hypervisor took {percent:.0}% of it meanwhile"));
    }
    if share_before < STEADY {
        let percent = (1.0 - share_before) * 100.0;
        return Some(format!("real-time tasks or interrupts took {percent:.0}% of it before"));
    }
    let nothing = "nothing slows it: other real-time tasks or the hypervisor took the rest";
    is_unslowed(method, one).then(|| nothing.into())
}

fn cause(method: Method, off: f64) -> String {
    match (method, off > 0.0) {
        (Method::Hogs, true) => {
            "the hogs came late or were throttled: see kernel.sched_rt_runtime_us, and whether \
                                 another program throttles real-time tasks"
                .into()
        }
        (Method::Hogs, false) => {
            "other real-time tasks run there, or another session slows it too".into()
        }
        (Method::Deadline, true) => "the kernel gave the burner less than it admitted".into(),
        (Method::Deadline, false) => "real-time or other deadline tasks run there too".into(),
        (Method::Uclamp, _) => {
            "clamps are a hint: the governor takes the largest of all tasks on the CPU, and the hardware decides".into()
        }
        (Method::Freq | Method::Gov, _) => {
            "the hardware's policy, a turbo or a limit (thermal_pressure) decides the clock; the \
             written value is only a request"
                .into()
        }
        (Method::Quota, true) => {
            "the first periods have more than the budget; or the budget is not in force".into()
        }
        (Method::Stop | Method::StopGroup, true) => {
            "the average over the process's life has not settled yet".into()
        }
        (Method::Weight | Method::WeightPerCpu | Method::WeightPinned, true) => {
            "the burners did not get their share: another group there has a weight".into()
        }
        (_, false) => "other load runs on the CPU: these methods share what it leaves".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(cpu: u16, share: f64) -> Reading {
        let wall = Nanos::from_millis(100);
        let granted = Nanos((wall.0 as f64 * share) as u64);
        let rounds = (share * 1e6) as u64;
        Reading { cpu: Cpu(cpu), wall, granted, taken: Nanos::ZERO, rounds, realtime: true }
    }

    #[test]
    fn only_what_is_more_than_two_percent_off_is_a_doubt_and_it_has_a_cause() {
        let speeds =
            Speeds::from([(Cpu(0), "50%".parse().unwrap()), (Cpu(1), "25%".parse().unwrap())]);
        let before = [reading(0, 1.0), reading(1, 1.0)];
        let measured = compare(&speeds, &before, &[reading(0, 0.51), reading(1, 0.30)]);
        let asked: CpuSet = speeds.keys().copied().collect();
        let doubts = doubts(Method::Hogs, &measured, &before, &asked, 0.0);
        assert_eq!(doubts.len(), 1);
        assert!(doubts[0].what.contains("CPU 1") && doubts[0].remedy.contains("throttled"));
    }

    #[test]
    fn what_disturbs_one_reading_is_no_speed_that_is_missing() {
        let speeds =
            Speeds::from([(Cpu(0), "50%".parse().unwrap()), (Cpu(1), "50%".parse().unwrap())]);
        let of = |shares: [f64; 2]| {
            compare(&speeds, &[], &[reading(0, shares[0]), reading(1, shares[1])])
        };
        let mut kept = of([0.45, 0.50]);
        let off = |kept: &[Measured]| are_off(Method::Hogs, kept, 0.0).to_string();
        assert_eq!(off(&kept), "0");
        keep_nearest(Method::Hogs, &mut kept, &of([0.47, 0.40]));
        assert_eq!(off(&kept), "0", "a reading that was right is kept");
        keep_nearest(Method::Hogs, &mut kept, &of([0.505, 0.40]));
        assert!(are_off(Method::Hogs, &kept, 0.0).is_empty(), "{kept:?}");
        // A speed that is not in force is off each time.
        let mut lost = of([1.0, 0.5]);
        keep_nearest(Method::Hogs, &mut lost, &of([0.99, 0.5]));
        assert_eq!(off(&lost), "0");
    }

    #[test]
    fn what_others_take_of_a_cpu_may_pass_and_a_speed_that_is_not_in_force_does_not() {
        let code = |asked: &str, share: f64, taken_ms: u64, before: f64| {
            let speeds = Speeds::from([(Cpu(0), asked.parse().unwrap())]);
            let before = [reading(0, before)];
            let after = Reading { taken: Nanos::from_millis(taken_ms), ..reading(0, share) };
            let measured = compare(&speeds, &before, &[after]);
            let asked: CpuSet = speeds.keys().copied().collect();
            let found = doubts(Method::Hogs, &measured, &before, &asked, 0.0);
            found.into_iter().map(|warning| warning.code).collect::<Vec<_>>()
        };
        // A tick that the hypervisor took, real-time load that was there before, and a CPU that nothing slows.
        assert_eq!(code("50%", 0.40, 10, 1.0), ["speed-crowded"]);
        assert_eq!(code("50%", 0.40, 0, 0.9), ["speed-crowded"]);
        assert_eq!(code("100%", 0.96, 0, 1.0), ["speed-crowded"]);
        // Nothing else tells why; more is missing than was taken; and what is too fast is taken by nobody.
        assert_eq!(code("50%", 0.40, 0, 1.0), ["speed-off"]);
        assert_eq!(code("50%", 0.20, 10, 1.0), ["speed-off"]);
        assert_eq!(code("50%", 1.0, 10, 0.9), ["speed-off"]);
    }

    #[test]
    fn a_cpu_that_could_not_be_measured_is_said() {
        let speeds = Speeds::from([(Cpu(0), Speed::FULL)]);
        let asked: CpuSet = speeds.keys().copied().collect();
        let doubts = doubts(Method::Hogs, &compare(&speeds, &[], &[]), &[], &asked, 0.0);
        assert_eq!(doubts[0].code, "speed-unknown");
    }

    #[test]
    fn clocks_are_judged_by_the_work_done() {
        let speeds = Speeds::from([(Cpu(0), "50%".parse().unwrap())]);
        let slow = Reading { rounds: 500_000, ..reading(0, 1.0) };
        let measured = compare(&speeds, &[reading(0, 1.0)], &[slow]);
        let asked: CpuSet = speeds.keys().copied().collect();
        assert!(doubts(Method::Freq, &measured, &[], &asked, 0.0).is_empty());
        assert_eq!(doubts(Method::Hogs, &measured, &[], &asked, 0.0).len(), 1);
    }
}
