//! `schedlab jobs break`: bisection over the stress factor, raw and adjusted, against the bound.

use super::options::Setup;
use super::table;
use crate::json;
use schedlab_jobs::executor::{Executor, ExecutorError};
use schedlab_jobs::graph::Graph;
use schedlab_jobs::load::{Burner, Kind};
use schedlab_jobs::policy::Order;
use schedlab_jobs::rig::{BreakingPoint, Probe, Thresholds, breaking_point};
use schedlab_jobs::virtual_time::VirtualTime;
use schedlab_model::Nanos;
use schedlab_stats::{Sample, t_interval};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::process::ExitCode;

/// Options of `schedlab jobs break`.
#[derive(clap::Args)]
#[command(after_help = "\
The schedule gives every level the time of its work at full concurrency, divided by the stress.
It is broken in either of two cases:
  runs end late (--fail) in more than --failures of the cases, by more than 4 ms on average, with a
  standard deviation above 2 ms
  nearly all runs end late

The first line compares with an ideal list schedule of the same graph, which costs nothing.

`raw` is the stress as set. `adjusted` divides out the concurrency and job times that the executor
really had, and is near 1 by construction. `bound` is the limit by critical path and workers for
runs that end in time. `raw` counts runs as kept that end --fail late: its limit is `bound_late`.")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) setup: Setup,
    /// Executor: schedlab, virtual or ideal
    #[arg(long, value_name = "NAME", default_value = "schedlab")]
    executor: String,
    /// Do N runs at each stress
    #[arg(long, default_value_t = 20)]
    runs: usize,
    /// Search N times; each search is one sample
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// A run fails if it ends this late
    #[arg(long, default_value = "2ms")]
    fail: Nanos,
    /// A stress breaks the schedule above this fraction of failed runs
    #[arg(long, default_value_t = 0.55)]
    failures: f64,
    /// Find the stress up to which at most this fraction of runs fails too
    #[arg(long, value_name = "FRACTION", default_value_t = 0.01)]
    miss_rate: f64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.setup.load.streams.refuse("jobs break")?;
    let graph = args.setup.graph.graph()?;
    let mut executor = args.setup.executor.named(&args.executor)?;
    let burner = args.setup.burner(executor.workers())?;
    let usual = Thresholds {
        runs: args.runs.max(1),
        fail_ns: args.fail.0,
        failures: args.failures,
        ..Thresholds::default()
    };
    // At a fixed miss rate, how scattered the misses are does not matter.
    let strict =
        Thresholds { failures: args.miss_rate, sigma_ns: -1.0, mean_ns: f64::MIN, ..usual };
    let mut found = Vec::new();
    let mut kept = Vec::new();
    for _ in 0..args.repeat.max(1) {
        let show = |probe: &Probe| {
            if !args.setup.json {
                table::note(&line(probe));
            }
        };
        let base = args.setup.load.time.0;
        let search =
            |executor: &mut dyn Executor, thresholds: &Thresholds, show: &dyn Fn(&Probe)| {
                let stop = super::interrupted;
                breaking_point(executor, &graph, burner, base, thresholds, stop, show)
            };
        // A search that the user ends has found nothing; those before it have.
        match search(executor.as_mut(), &usual, &show) {
            Err(ExecutorError::Interrupted) if !found.is_empty() => break,
            point => found.push(point?),
        }
        match search(executor.as_mut(), &strict, &|_| {}) {
            Err(ExecutorError::Interrupted) => break,
            point => kept.push(point?.raw),
        }
    }
    let ideal = ideal(&graph, executor.workers(), args.setup.load.time, &usual)?;
    let found = Found { points: found, kept, jobs: graph.len(), ideal };
    let path_ns = graph.critical_path() * args.setup.load.time.0;
    if args.setup.json {
        json::print(&Document {
            executor: executor.name(),
            workers: executor.workers(),
            miss_rate: args.miss_rate,
            interrupted: super::interrupted(),
            found: found.document(path_ns),
        })?;
    } else {
        table::say(&found.text(args, path_ns))?;
    }
    Ok(super::code(ExitCode::SUCCESS))
}

/// Where an ideal list schedule breaks: it costs nothing and takes the longest path first. It shows what the graph allows.
fn ideal(
    graph: &Graph,
    workers: usize,
    time: Nanos,
    usual: &Thresholds,
) -> anyhow::Result<Option<f64>> {
    let mut ideal = VirtualTime::ideal(workers).ordered(Order::Path);
    let once = Thresholds { runs: 1, ..*usual };
    let burner = Burner::planned(Kind::Cpu.into());
    let point = breaking_point(&mut ideal, graph, burner, time.0, &once, || false, |_| ())?;
    Ok(point.raw)
}

/// `schedlab jobs break --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    executor: String,
    workers: usize,
    /// The fraction of runs that may fail, of `stress_at_miss_rate`.
    miss_rate: f64,
    interrupted: bool,
    #[serde(flatten)]
    found: FoundFigures,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/jobs-break/1";
}

/// Breaking points, a value for each search; `null`: no stress breaks it.
#[derive(Serialize, JsonSchema)]
struct FoundFigures {
    /// The stress as set.
    raw: Vec<Option<f64>>,
    #[schemars(with = "Option<[Option<f64>; 2]>")]
    raw_ci95: Option<[f64; 2]>,
    /// The stress with the concurrency and job times that the executor really got.
    adjusted: Vec<Option<f64>>,
    #[schemars(with = "Option<[Option<f64>; 2]>")]
    adjusted_ci95: Option<[f64; 2]>,
    /// What no scheduler can exceed without ending late. `raw` can, since it allows some lateness.
    bound: f64,
    /// The same when runs may end as late as the thresholds allow: `raw` exceeds it only if jobs take less time than
    /// calibrated.
    bound_late: Option<f64>,
    /// `raw` as a part of `bound_late`, of the searches that found one.
    of_bound_late: Vec<Option<f64>>,
    /// The stress that breaks a list schedule without any cost, the longest path first: what the graph allows.
    ideal: Option<f64>,
    /// `raw` as a part of that: what the executor makes of what the graph allows.
    of_ideal: Vec<Option<f64>>,
    critical_path_ns: u64,
    stress_at_miss_rate: Vec<Option<f64>>,
    jobs_per_s_at_miss_rate: Vec<Option<f64>>,
}

/// What the searches found, one for each repeat.
struct Found {
    points: Vec<BreakingPoint>,
    /// The stress at the miss rate; `None` where no stress has more misses.
    kept: Vec<Option<f64>>,
    jobs: u32,
    ideal: Option<f64>,
}

impl Found {
    fn raw(&self) -> Vec<f64> {
        self.points.iter().filter_map(|point| point.raw).collect()
    }

    fn adjusted(&self) -> Vec<f64> {
        self.points.iter().filter_map(|point| point.adjusted).collect()
    }

    fn document(&self, path_ns: u64) -> FoundFigures {
        let raw = self.raw();
        let adjusted = self.adjusted();
        let first = &self.points[0];
        let jobs_per_s = |stress: &Option<f64>| stress.map(|s| throughput(first, s, self.jobs));
        FoundFigures {
            raw: self.points.iter().map(|point| point.raw).collect(),
            raw_ci95: interval(&raw),
            adjusted: self.points.iter().map(|point| point.adjusted).collect(),
            adjusted_ci95: interval(&adjusted),
            bound: first.bound,
            bound_late: first.bound_late,
            of_bound_late: raw.iter().map(|raw| first.bound_late.map(|b| raw / b)).collect(),
            ideal: self.ideal,
            of_ideal: raw.iter().map(|raw| self.ideal.map(|ideal| raw / ideal)).collect(),
            critical_path_ns: path_ns,
            stress_at_miss_rate: self.kept.clone(),
            jobs_per_s_at_miss_rate: self.kept.iter().map(jobs_per_s).collect(),
        }
    }

    fn text(&self, args: &Args, path_ns: u64) -> String {
        let raw = self.raw();
        let adjusted = self.adjusted();
        let first = &self.points[0];
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let show = |name: &str, values: &[f64]| {
            let range = interval(values)
                .map_or_else(String::new, |[low, high]| format!(" (95 %: {low:.3}..{high:.3})"));
            format!("{name} {:.3}{range}\n", mean(values))
        };
        let path = table::time(path_ns as f64);
        if raw.is_empty() {
            return format!(
                "no stress breaks this schedule: with all jobs due at once, a run ends less than {} late\n\
                 critical path {path}; choose a smaller --fail, a longer --time or more --nodes\n",
                args.fail
            );
        }
        let mut text = self.ideal.map_or_else(String::new, |ideal| {
            let part = 100.0 * mean(&raw) / ideal;
            format!("the executor keeps {part:.0} % of the stress that an ideal list schedule keeps ({ideal:.3})\n")
        });
        text.push_str(&show("breaking stress, raw", &raw));
        text.push_str(&show("breaking stress, adjusted", &adjusted));
        let _ =
            writeln!(text, "bound for ending in time {:.3} (critical path {path})", first.bound);
        if let Some(late) = first.bound_late {
            let _ = writeln!(
                text,
                "bound for ending {} late {late:.3}; raw reaches {:.0} % of it",
                args.fail,
                100.0 * mean(&raw) / late
            );
        }
        let kept: Vec<f64> = self.kept.iter().flatten().copied().collect();
        if !kept.is_empty() {
            text.push_str(&show(&format!("stress at {} % missed", 100.0 * args.miss_rate), &kept));
            let per_s = throughput(first, mean(&kept), self.jobs);
            let _ = writeln!(text, "  that is {per_s:.0} jobs a second");
        }
        if super::interrupted() {
            let got = self.points.len();
            let all = args.repeat.max(1);
            let _ = writeln!(text, "interrupted: {got} of {all} searches");
        }
        text
    }
}

fn throughput(found: &BreakingPoint, stress: f64, jobs: u32) -> f64 {
    let end_at_1 =
        found.probes.first().map_or(1.0, |probe| probe.expected_ns as f64 * probe.stress);
    f64::from(jobs) / (end_at_1 / stress / 1e9)
}

fn interval(values: &[f64]) -> Option<[f64; 2]> {
    let sample = Sample::new(values.to_vec()).ok()?;
    let interval = t_interval(&sample, 0.95).ok()?.not_negative();
    Some([interval.low, interval.high])
}

fn line(probe: &Probe) -> String {
    format!(
        "stress {:.3}: late {} +- {}, run {}, {:.0} % failed, due {} {}",
        probe.stress,
        table::time(probe.late_ns),
        table::time(probe.sigma_ns),
        table::time(probe.run_ns),
        100.0 * probe.failed,
        table::time(probe.expected_ns as f64),
        if probe.broken { "broken" } else { "kept" },
    )
}
