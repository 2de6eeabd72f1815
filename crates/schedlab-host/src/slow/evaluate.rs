//! How true each method is on this machine: microbenchmarks at several speeds, each method's rates
//! against those at full speed in the same round.
//!
//! Rounds are interleaved: every point once, then every point again, so that a machine that drifts
//! drifts for all of them. Each point of a round is compared with the full speed of that round.

use super::bench::{BENCHMARKS, Benchmark, Rate, Task, calibrate, read, some};
use super::{Ended, Ground, Method, Node, Request, Session, SlowError, Speed};
use schedlab_model::{CpuSet, Nanos, Warning};
use schedlab_stats::{Sample, t_interval};
use schedlab_sys::clock;
use schedlab_sys::signal::Signals;
use serde::Serialize;
use std::path::Path;

/// What is evaluated.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The methods; those that can't be had here are left out, with why.
    pub methods: Vec<Method>,
    /// The microbenchmarks.
    pub benchmarks: Vec<Benchmark>,
    /// Numbers of CPUs.
    pub cpus: Vec<usize>,
    /// The speeds.
    pub speeds: Vec<Speed>,
    /// How often each point is measured.
    pub repeats: u32,
    /// How long each time.
    pub time: Nanos,
}

impl Evaluation {
    /// All speeds from 10 % to 100 %, 40 times, as in the study: hours.
    #[must_use]
    pub fn full() -> Self {
        let speeds = (1..=10).filter_map(|tenth| Speed::percent(tenth * 10)).collect();
        Self {
            speeds,
            repeats: 40,
            time: Nanos::from_secs(1),
            cpus: vec![1, 2, 4, 8],
            ..Self::short()
        }
    }

    /// Three speeds, three times: under two minutes.
    #[must_use]
    pub fn short() -> Self {
        Self {
            methods: super::METHODS
                .iter()
                .map(|(method, ..)| *method)
                .filter(|method| *method != Method::StopGroup)
                .collect(),
            benchmarks: BENCHMARKS.to_vec(),
            cpus: vec![1, 2],
            speeds: [25, 50, 75].into_iter().filter_map(Speed::percent).collect(),
            repeats: 3,
            time: Nanos::from_millis(150),
        }
    }
}

/// One point's figures.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The method's name.
    pub method: String,
    /// The microbenchmark's name.
    pub benchmark: String,
    /// The number of CPUs.
    pub cpus: usize,
    /// The speed asked for, as a fraction.
    pub speed: f64,
    /// What the rates count.
    pub unit: String,
    /// The rates.
    pub measured: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// Its 95 % interval by Student's t; from two repeats on.
    pub ci95: Option<[f64; 2]>,
    /// Each rate as a part of the one at full speed in the same round.
    pub relative: Vec<f64>,
    /// What `relative` should be.
    pub ideal: f64,
    /// CPU time for a unit of work, as a part of that at full speed.
    pub cpu_time: f64,
    /// CPU time of the controller outside its burners, as a part of the time.
    pub controller: f64,
}

/// All figures, and what was left out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Results {
    /// A point each.
    pub results: Vec<Figures>,
    /// What can't be had here, with why.
    pub left_out: Vec<String>,
    /// Doubts about all of them.
    pub warnings: Vec<Warning>,
    /// Whether it was stopped before its end.
    pub partial: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Point {
    method: Option<Method>,
    benchmark: Benchmark,
    cpus: usize,
    speed: Speed,
}

/// How full speed is measured: at a speed of 100 % and with the node's weight, nothing is started.
const FULL: Method = Method::Hogs;

/// What is told between the rounds.
pub type Progress<'p> = dyn FnMut(u32, usize, Nanos) + 'p;

/// Measures.
///
/// # Errors
/// When no method can be had at all, or results can't be written to `dir`.
pub fn evaluate(
    evaluation: &Evaluation,
    ground: &Ground,
    dir: &Path,
    signals: Signals,
    progress: &mut Progress<'_>,
) -> Result<Results, SlowError> {
    let (points, left_out) = points(evaluation, ground)?;
    let rounds_in_ms = calibrate();
    let mut seen: Vec<(Point, Vec<(Rate, f64)>)> =
        points.iter().map(|point| (point.clone(), Vec::new())).collect();
    let warnings = busy().into_iter().collect();
    let mut results = Results { left_out, warnings, ..Results::default() };
    'rounds: for round in 0..evaluation.repeats {
        let began = clock::monotonic();
        for (point, rates) in &mut seen {
            let result = dir.join("result.json");
            let cpus = some(&ground.allowed, point.cpus);
            let benchmark = point.benchmark;
            let task = Task { benchmark, cpus, time: evaluation.time, rounds_in_ms, result };
            match one(point, &task, ground, signals)? {
                Some(rate) => rates.push(rate),
                None => {
                    results.partial = true;
                    break 'rounds;
                }
            }
        }
        progress(round + 1, points.len(), clock::monotonic() - began);
    }
    results.results = figures(&seen, rounds_in_ms);
    Ok(results)
}

/// Whether other load runs on the machine: it can't be told from a method's error.
fn busy() -> Option<Warning> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    (load > 0.5).then(|| {
        let what = format!("the machine is busy (load average {load}): the figures are too");
        Warning::new("machine-busy", what, "evaluate on a machine that does nothing else")
    })
}

/// The points, full speed first in each group, and what can't be had here.
fn points(
    evaluation: &Evaluation,
    ground: &Ground,
) -> Result<(Vec<Point>, Vec<String>), SlowError> {
    let (mut points, mut left_out) = (Vec::new(), Vec::new());
    let mut counts: Vec<usize> =
        evaluation.cpus.iter().copied().filter(|count| *count <= ground.allowed.len()).collect();
    counts.dedup();
    for &cpus in &counts {
        for &benchmark in evaluation.benchmarks.iter().filter(|b| b.fits(cpus)) {
            points.push(Point { method: None, benchmark, cpus, speed: Speed::FULL });
            for &method in &evaluation.methods {
                if cpus == 1 && matches!(method, Method::WeightPerCpu | Method::WeightPinned) {
                    // On one CPU these are `weight`.
                    continue;
                }
                for &speed in &evaluation.speeds {
                    let point = Point { method: Some(method), benchmark, cpus, speed };
                    let request = request(&point, &some(&ground.allowed, cpus), &["-".into()]);
                    match request.plan(ground) {
                        Ok(_) => points.push(point),
                        Err(error) => {
                            let why = format!("{method} on {cpus} CPUs at {speed}: {error}");
                            if !left_out.contains(&why) {
                                left_out.push(why);
                            }
                        }
                    }
                }
            }
        }
    }
    if points.iter().all(|point| point.method.is_none()) {
        return Err(SlowError::Missing(format!(
            "no method can be had here: {}",
            left_out.join("; ")
        )));
    }
    Ok((points, left_out))
}

fn request(point: &Point, cpus: &CpuSet, argv: &[String]) -> Request {
    let node = Node {
        name: "evaluate".into(),
        speeds: cpus.iter().map(|cpu| (cpu, point.speed)).collect(),
        bind: true,
        commands: vec![argv.to_vec()],
        ..Node::default()
    };
    let method = point.method.or(Some(FULL));
    Request { method, nodes: vec![node], measure: false, heavy: true, ..Request::default() }
}

/// Measures a point once: its rate, and the part of the time that the controller used. `None` when
/// the user wants to stop.
fn one(
    point: &Point,
    task: &Task,
    ground: &Ground,
    signals: Signals,
) -> Result<Option<(Rate, f64)>, SlowError> {
    let plan = request(point, &task.cpus, &task.argv()?).plan(ground)?;
    let mut session = Session::start(plan, ground)?;
    let (start, cpu) = (clock::monotonic(), clock::process_cpu());
    let ended = session.run(signals);
    let part = (clock::process_cpu() - cpu).0 as f64 / (clock::monotonic() - start).0 as f64;
    finish(session)?;
    match ended? {
        Ended::Commands(0) => Ok(Some((read(&task.result)?, part))),
        Ended::Commands(code) => {
            let name = point.benchmark.name();
            Err(SlowError::Failed(format!("the benchmark {name} ended with {code}")))
        }
        Ended::Interrupted | Ended::TimeLimit => Ok(None),
    }
}

fn finish(session: Session) -> Result<(), SlowError> {
    match session.finish().first() {
        Some(failed) => Err(SlowError::Failed(format!("could not be undone: {failed}"))),
        None => Ok(()),
    }
}

/// The part of each second that a task was granted on a CPU at a speed, for some seconds.
///
/// # Errors
/// When the method can't be had here.
pub fn granted(
    method: Method,
    speed: Speed,
    seconds: usize,
    ground: &Ground,
) -> Result<Vec<f64>, SlowError> {
    let cpus = some(&ground.allowed, 1);
    let point = Point { method: Some(method), benchmark: Benchmark::Cpu, cpus: 1, speed };
    let idle = ["sleep".to_owned(), "3600".to_owned()];
    let session = Session::start(request(&point, &cpus, &idle).plan(ground)?, ground)?;
    let groups = session.groups();
    let (time, align) = (Nanos::from_secs(1), Nanos::ZERO);
    let probe = super::probe::Probe { groups, time, align, realtime: false };
    let readings = (0..seconds).map(|_| probe.read(&cpus)).collect::<Result<Vec<_>, _>>();
    finish(session)?;
    Ok(readings?.iter().flatten().map(super::probe::Reading::share).collect())
}

fn figures(seen: &[(Point, Vec<(Rate, f64)>)], rounds_in_ms: u64) -> Vec<Figures> {
    let full = |point: &Point| {
        let same = |other: &Point| {
            other.method.is_none() && other.benchmark == point.benchmark && other.cpus == point.cpus
        };
        seen.iter().find(|(other, _)| same(other)).map(|(_, rates)| rates.as_slice())
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let figures = seen.iter().filter(|(_, rates)| !rates.is_empty()).map(|(point, rates)| {
        let base = full(point).unwrap_or_default();
        let measured: Vec<f64> = rates.iter().map(|(rate, _)| rate.rate).collect();
        let pairs = || rates.iter().zip(base).map(|((rate, _), (full, _))| (rate, full));
        let ci95 = Sample::new(measured.iter().copied())
            .and_then(|sample| t_interval(&sample, 0.95))
            .ok()
            .map(|interval| [interval.low, interval.high]);
        let used: Vec<f64> = pairs().map(|(rate, full)| rate.cpu_ns / full.cpu_ns).collect();
        Figures {
            method: point.method.map_or("none", Method::name).to_owned(),
            benchmark: point.benchmark.name().to_owned(),
            cpus: point.cpus,
            speed: point.speed.fraction(),
            unit: point.benchmark.unit().to_owned(),
            mean: mean(&measured),
            ci95,
            relative: pairs().map(|(rate, full)| rate.rate / full.rate).collect(),
            ideal: ideal(point, base, rounds_in_ms),
            cpu_time: mean(&used),
            controller: mean(&rates.iter().map(|(_, part)| *part).collect::<Vec<f64>>()),
            measured,
        }
    });
    figures.collect()
}

/// What a perfectly slowed CPU would reach. A sleep takes longer than it was asked to, so its length is
/// taken from the cycle at full speed.
fn ideal(point: &Point, base: &[(Rate, f64)], rounds_in_ms: u64) -> f64 {
    let speed = point.speed.fraction();
    let full = base.iter().map(|(rate, _)| rate.rate).sum::<f64>() / base.len().max(1) as f64;
    if point.benchmark != Benchmark::Sleep || full <= 0.0 {
        return point.benchmark.ideal(speed);
    }
    let compute = super::bench::PHASE.as_secs_f64();
    let cycle = (rounds_in_ms as f64 * compute * 1e3 / full).max(compute);
    cycle / (compute / speed + cycle - compute)
}

impl Figures {
    /// The mean of what was reached, as a part of full speed, and its 95 % interval.
    #[must_use]
    pub fn reached(&self) -> (f64, Option<(f64, f64)>) {
        let mean = self.relative.iter().sum::<f64>() / self.relative.len().max(1) as f64;
        let interval = Sample::new(self.relative.iter().copied())
            .and_then(|sample| t_interval(&sample, 0.95))
            .ok()
            .map(|interval| (interval.low, interval.high));
        (mean, interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_begin_with_full_speed_and_leave_out_what_can_not_be_had() {
        let ground = Ground::fake(2);
        let (points, left_out) = points(&Evaluation::short(), &ground).unwrap();
        assert!(points[0].method.is_none());
        assert!(left_out.iter().any(|why| why.contains("cpufreq")));
        assert!(left_out.iter().any(|why| why.contains("quota on 2 CPUs")));
        let barrier = |p: &&Point| p.benchmark == Benchmark::Barrier;
        assert!(points.iter().filter(barrier).all(|point| point.cpus == 2));
        let bare = Ground { root: false, realtime: false, ..Ground::fake(1) };
        let hogs = Evaluation { methods: vec![Method::Hogs], ..Evaluation::short() };
        assert!(super::points(&hogs, &bare).is_err());
    }

    #[test]
    fn rates_are_compared_with_full_speed_of_the_same_round() {
        let rate = |rate| (Rate { rate, cpu_ns: 10.0 }, 0.0);
        let point = |method, speed| Point { method, benchmark: Benchmark::Cpu, cpus: 1, speed };
        let half = Speed::percent(50).unwrap();
        let seen = [
            (point(None, Speed::FULL), vec![rate(100.0), rate(200.0)]),
            (point(Some(Method::Hogs), half), vec![rate(50.0), rate(100.0)]),
        ];
        let all = figures(&seen, 1_000);
        assert_eq!(all[1].relative, [0.5, 0.5]);
        assert_eq!(all[1].reached().0, 0.5);
        assert_eq!(all[1].ideal, 0.5);
        // A cycle of 3 ms of which 1 ms is work: at a half it takes 4 ms.
        let sleep = Point { benchmark: Benchmark::Sleep, ..seen[1].0.clone() };
        let rates = [rate(1_000.0 / 0.003)];
        assert!((ideal(&sleep, &rates, 1_000) - 0.75).abs() < 1e-9);
    }
}
