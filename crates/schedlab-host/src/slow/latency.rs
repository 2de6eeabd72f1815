//! How late tasks wake on a CPU, before a method is applied and under it: a task that does nothing but
//! sleep, again and again, for moments of no rhythm.

use super::child_entry::{Entry, answer, answers, enter};
use super::{Method, SlowError, Speed};
use schedlab_model::{Cpu, CpuSet, Nanos};
use schedlab_stats::{Random, Sample};
use schedlab_sys::clock;
use schedlab_sys::signal::Signals;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// For how long: some 250 sleeps.
const TIME: Nanos = Nanos::from_millis(400);
/// A sleep lasts this long, and up to as much again.
const SLEEP: Nanos = Nanos::from_millis(1);

/// How late a task woke.
#[derive(Clone, Copy, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Lateness {
    /// How often it woke.
    pub(crate) wakeups: usize,
    /// The median, in nanoseconds.
    pub latency_ns_p50: f64,
    /// What 99 of 100 wakeups did not exceed, in nanoseconds.
    pub latency_ns_p99: f64,
}

/// How late a task wakes on a CPU, with and without a method.
#[derive(Clone, Copy, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Wakeups {
    /// The CPU on which the task slept and woke.
    pub cpu: Cpu,
    /// How late the task woke before the method was applied.
    pub before: Lateness,
    /// How late the task woke under the method.
    pub under: Lateness,
    /// What the method adds at most by its construction; `None` where nothing bounds it.
    pub added_ns_max: Option<u64>,
}

/// What a method adds at most to a task that wakes alone: under hogs the longest burn.
fn bound(method: Method, speed: Speed, period: Nanos) -> Option<u64> {
    match method {
        Method::Hogs => Some(speed.lost(period.0)),
        // A clock slows what a task does, not when it may begin.
        Method::Freq => Some(0),
        _ => None,
    }
}

/// Puts both measurements of a CPU side by side; CPUs that lack one are left out.
pub(super) fn compare(
    method: Method,
    period: Nanos,
    speeds: &super::Speeds,
    before: &[(Cpu, Lateness)],
    under: &[(Cpu, Lateness)],
) -> Vec<Wakeups> {
    let of = |all: &[(Cpu, Lateness)], cpu| all.iter().find(|(at, _)| *at == cpu).map(|(_, l)| *l);
    let one = |(&cpu, &speed): (&Cpu, &Speed)| {
        let before = of(before, cpu)?;
        let under = of(under, cpu)?;
        Some(Wakeups { cpu, before, under, added_ns_max: bound(method, speed, period) })
    };
    speeds.iter().filter_map(one).collect()
}

/// Measures CPUs, all at a time: sleepers do not load.
pub(super) fn read(
    groups: &[PathBuf],
    cpus: &CpuSet,
    signals: Option<Signals>,
) -> Result<Vec<(Cpu, Lateness)>, SlowError> {
    let sleeper = |cpu| Entry::Sleeper { groups: groups.to_vec(), cpu };
    let all = answers(cpus.iter().map(sleeper), signals)?;
    Ok(cpus.iter().zip(all).filter_map(|(cpu, late)| Some((cpu, late?))).collect())
}

pub(super) fn child(groups: &[PathBuf], cpu: Cpu) -> i32 {
    if enter(groups, &CpuSet::from_iter([cpu])).is_err() {
        return 1;
    }
    sleep(TIME).map_or(1, |lateness| answer(&lateness))
}

fn sleep(time: Nanos) -> Option<Lateness> {
    let mut random = Random::new(1);
    let mut late = Vec::new();
    let end = clock::monotonic() + time;
    loop {
        let until = clock::monotonic() + SLEEP + Nanos(random.bits() % SLEEP.0);
        clock::sleep_until(until);
        let now = clock::monotonic();
        late.push((now - until).0 as f64);
        if now >= end {
            break;
        }
    }
    let sample = Sample::new(late).ok()?;
    Some(Lateness {
        wakeups: sample.len(),
        latency_ns_p50: sample.quantile(0.5),
        latency_ns_p99: sample.quantile(0.99),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_never_early_and_its_quantiles_are_in_order() {
        let lateness = sleep(Nanos::from_millis(20)).unwrap();
        assert!(lateness.wakeups > 0 && lateness.wakeups <= 20);
        assert!(lateness.latency_ns_p50 > 0.0);
        assert!(lateness.latency_ns_p50 <= lateness.latency_ns_p99);
    }

    #[test]
    fn what_was_measured_stands_beside_what_the_method_adds_at_most() {
        let late = |p50: f64| Lateness { wakeups: 9, latency_ns_p50: p50, latency_ns_p99: p50 };
        let speeds =
            super::super::Speeds::from([(Cpu(0), "25%".parse().unwrap()), (Cpu(1), Speed::FULL)]);
        let before = [(Cpu(0), late(50.0)), (Cpu(1), late(60.0))];
        let under = [(Cpu(0), late(900.0))];
        let period = Nanos::from_millis(2);
        let all = compare(Method::Hogs, period, &speeds, &before, &under);
        assert_eq!(all.len(), 1, "CPU 1 has no second measurement");
        assert_eq!(all[0].added_ns_max, Some(1_500_000));
        assert!((all[0].under.latency_ns_p50 - 900.0).abs() < 1e-9);
        assert_eq!(compare(Method::Stop, period, &speeds, &before, &under)[0].added_ns_max, None);
    }
}
