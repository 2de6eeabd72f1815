//! From stored runs to figures: each rate against full speed in the same round.

use super::points::{Benchmark, Point, Prepared};
use crate::StoredRun;
use schedlab_stats::{Sample, t_interval};
use schemars::JsonSchema;
use serde::Serialize;

/// One point's figures.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Figures {
    /// The method's name.
    pub method: String,
    /// The workload's name.
    pub benchmark: String,
    /// The number of CPUs.
    pub cpus: usize,
    /// The speed asked for, as a fraction.
    pub speed: f64,
    /// What the rates count.
    pub(crate) unit: String,
    /// The rates.
    pub(crate) measured: Vec<f64>,
    /// Their mean.
    pub(crate) mean: f64,
    /// Its 95 % interval by Student's t; from two repeats on.
    #[schemars(with = "Option<[Option<f64>; 2]>")]
    pub(crate) ci95: Option<[f64; 2]>,
    /// Each rate as a part of the one at full speed in the same round.
    pub(crate) relative: Vec<f64>,
    /// What `relative` should be.
    pub ideal: f64,
    /// CPU time for a unit of work, as a part of that at full speed.
    pub(crate) cpu_time: f64,
    /// How unequal the tasks fared: 0 is equal.
    pub(crate) unfairness: f64,
    /// CPU time of the controller outside its burners, as a part of the time.
    pub(crate) controller: f64,
}

/// What one run measured.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    block: u32,
    rate: f64,
    /// Units of work done.
    done: f64,
    /// CPU time for a unit, in seconds.
    cpu: f64,
    /// Time on the clock for a unit, in seconds.
    time: f64,
    unfairness: f64,
    controller: f64,
}

impl Seen {
    fn of(run: &StoredRun, benchmark: &Benchmark) -> Option<Self> {
        let rate = run.value(benchmark.rate)?;
        let time = run.value("time_s")?;
        let done = run.value(benchmark.rate.trim_end_matches("_per_s"))?.max(1.0);
        let used = run.value("cpu_user_s")? + run.value("cpu_system_s")?;
        Some(Self {
            block: run.manifest.block,
            rate,
            done,
            cpu: used / done,
            time: time / done,
            unfairness: run.value("unfairness_tasks").unwrap_or(0.0),
            controller: run.value("slow_controller_fraction").unwrap_or(0.0),
        })
    }
}

impl Prepared {
    /// The figures of the points that have runs.
    #[must_use]
    pub fn figures(&self, runs: &[StoredRun]) -> Vec<Figures> {
        let of = |point: &Point| -> Vec<Seen> {
            let axes = point.axes();
            let name = point.benchmark.name;
            let mine = runs.iter().filter(|run| run.is_whole() && run.manifest.workload == name);
            mine.filter(|run| run.manifest.point == axes)
                .filter_map(|run| Seen::of(run, &point.benchmark))
                .collect()
        };
        let mut all = Vec::new();
        for full in self.points.iter().filter(|point| point.method.is_none()) {
            let base = of(full);
            let is_beside =
                |point: &&Point| point.benchmark == full.benchmark && point.cpus == full.cpus;
            let group = self.points.iter().filter(is_beside);
            all.extend(group.filter_map(|point| one(point, &of(point), &base)));
        }
        all
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

fn one(point: &Point, seen: &[Seen], base: &[Seen]) -> Option<Figures> {
    if seen.is_empty() {
        return None;
    }
    let measured: Vec<f64> = seen.iter().map(|seen| seen.rate).collect();
    let pairs: Vec<(&Seen, &Seen)> = seen
        .iter()
        .filter_map(|seen| Some((seen, base.iter().find(|full| full.block == seen.block)?)))
        .collect();
    Some(Figures {
        method: point.method_name().to_owned(),
        benchmark: point.benchmark.name.to_owned(),
        cpus: point.cpus,
        speed: point.speed.fraction(),
        unit: point.benchmark.unit.to_owned(),
        mean: mean(measured.iter().copied()),
        ci95: interval(&measured).map(|(low, high)| [low, high]),
        relative: pairs.iter().map(|(seen, full)| seen.rate / full.rate).collect(),
        ideal: ideal(point, base),
        cpu_time: mean(pairs.iter().map(|(seen, full)| seen.cpu / full.cpu)),
        unfairness: mean(seen.iter().map(|seen| seen.unfairness)),
        controller: mean(seen.iter().map(|seen| seen.controller)),
        measured,
    })
}

/// What a perfectly slowed CPU would reach, as a part of the rate at full speed. Memory and devices
/// would stay as fast as they are. A cycle of `mixed` is computing, which slows, and a sleep, which
/// does not: how long each is was measured at full speed.
fn ideal(point: &Point, base: &[Seen]) -> f64 {
    let speed = point.speed.fraction();
    match point.benchmark.name {
        "udp" | "stream" => 1.0,
        "mixed" => {
            let cycle = mean(base.iter().map(|seen| seen.time));
            let computing = mean(base.iter().map(|seen| seen.cpu)).min(cycle);
            if cycle > 0.0 { cycle / (computing / speed + cycle - computing) } else { f64::NAN }
        }
        _ => speed,
    }
}

fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let sample = Sample::new(values.iter().copied());
    // Rates, and parts of rates.
    let interval = sample.and_then(|sample| t_interval(&sample, 0.95)).ok()?.not_negative();
    Some((interval.low, interval.high))
}

impl Figures {
    /// The mean of what was reached, as a part of full speed, and its 95 % interval.
    #[must_use]
    pub fn reached(&self) -> (f64, Option<(f64, f64)>) {
        (mean(self.relative.iter().copied()), interval(&self.relative))
    }
}

#[cfg(test)]
mod tests {
    use super::super::points::{BENCHMARKS, Slowing};
    use super::*;
    use schedlab_workload::Speed;

    fn seen(block: u32, rate: f64) -> Seen {
        Seen { block, rate, done: rate, cpu: 0.001, time: 0.003, unfairness: 0.0, controller: 0.0 }
    }

    fn point(name: &str, percent: u32) -> Point {
        let benchmark = *BENCHMARKS.iter().find(|b| b.name == name).unwrap();
        let speed = Speed::percent(percent).unwrap();
        Point { method: Some(Slowing::new("hogs")), benchmark, cpus: 1, speed }
    }

    #[test]
    fn rates_are_compared_with_full_speed_of_the_same_round() {
        let base = [seen(0, 100.0), seen(1, 200.0)];
        let slowed = [seen(1, 100.0), seen(0, 50.0)];
        let figures = one(&point("cpu", 50), &slowed, &base).unwrap();
        assert_eq!(figures.relative, [0.5, 0.5]);
        assert!((figures.reached().0 - 0.5).abs() < 1e-9 && (figures.ideal - 0.5).abs() < 1e-9);
        assert!(one(&point("cpu", 50), &[], &base).is_none());
    }

    #[test]
    fn ideals_are_proportional_flat_or_by_phases() {
        let base = [seen(0, 333.0)];
        assert!((ideal(&point("stream", 25), &base) - 1.0).abs() < 1e-9);
        assert!((ideal(&point("threads", 25), &base) - 0.25).abs() < 1e-9);
        // A cycle of 3 ms of which 1 ms is computing: at a half it takes 4 ms.
        assert!((ideal(&point("mixed", 50), &base) - 0.75).abs() < 1e-9);
    }
}
