//! `schedlab jobs break`: bisection over the stress factor, raw and adjusted, against the bound.

use super::options::Setup;
use super::table;
use schedlab_jobs::rig::{BreakingPoint, Probe, Thresholds, breaking_point};
use schedlab_model::Nanos;
use schedlab_stats::{Sample, t_interval};
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;

/// Options of `schedlab jobs break`.
#[derive(clap::Args)]
#[command(after_help = "\
The schedule gives every level the time of its work at full concurrency, divided by the stress. It is
broken when runs end late (--fail) in more than --failures of the cases, by more than 4 ms on average and
with a standard deviation above 2 ms; or when nearly all do. `raw` is the stress as set; `adjusted` divides
out the concurrency and job times that the executor really got, and is near 1 by construction. The bound is
what the critical path and the number of workers allow.")]
pub(super) struct Args {
    #[command(flatten)]
    setup: Setup,
    /// schedlab, virtual or ideal: it must know start times
    #[arg(long, default_value = "schedlab")]
    on: String,
    /// Runs at each stress
    #[arg(long, default_value_t = 20)]
    runs: usize,
    /// The search is repeated so often, for an interval
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// A run that ends so late has failed
    #[arg(long, default_value = "2ms")]
    fail: Nanos,
    /// Broken above this fraction of failed runs
    #[arg(long, default_value_t = 0.55)]
    failures: f64,
    /// Also the stress up to which at most this fraction of runs fails, whatever their scatter
    #[arg(long, value_name = "FRACTION", default_value_t = 0.01)]
    miss_rate: f64,
}

/// Runs it.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let graph = args.setup.graph.graph()?;
    let mut executor = args.setup.executor.named(&args.on)?;
    let burner = args.setup.load.burner(executor.workers());
    let usual = Thresholds {
        runs: args.runs.max(1),
        fail_ns: args.fail.0,
        failures: args.failures,
        ..Thresholds::default()
    };
    // At a fixed miss rate, how scattered the misses are does not matter.
    let strict =
        Thresholds { failures: args.miss_rate, sigma_ns: -1.0, mean_ns: f64::MIN, ..usual };
    let (mut found, mut kept) = (Vec::new(), Vec::new());
    for _ in 0..args.repeat.max(1) {
        let show = |probe: &Probe| {
            if !args.setup.json {
                table::note(&line(probe));
            }
        };
        let base = args.setup.load.time.0;
        found.push(breaking_point(executor.as_mut(), &graph, burner, base, &usual, show)?);
        let quiet = |_: &Probe| {};
        kept.push(breaking_point(executor.as_mut(), &graph, burner, base, &strict, quiet)?.raw);
    }
    let raw: Vec<f64> = found.iter().map(|point| point.raw).collect();
    let adjusted: Vec<f64> = found.iter().map(|point| point.adjusted).collect();
    let (bound, bound_late) = (found[0].bound, found[0].bound_late);
    let path_ns = graph.critical_path() * args.setup.load.time.0;
    let jobs_per_s = |stress: f64| throughput(&found[0], stress, graph.len());
    if args.setup.json {
        table::json(&json!({
            "schema": "schedlab/jobs-break/1",
            "executor": executor.name(),
            "workers": executor.workers(),
            "raw": raw,
            "raw_ci95": interval(&raw),
            "adjusted": adjusted,
            "adjusted_ci95": interval(&adjusted),
            "bound": bound,
            "bound_late": bound_late,
            "of_bound": raw.iter().map(|raw| raw / bound).collect::<Vec<_>>(),
            "critical_path_ns": path_ns,
            "miss_rate": args.miss_rate,
            "stress_at_miss_rate": kept,
            "jobs_per_s_at_miss_rate": kept.iter().map(|&stress| jobs_per_s(stress)).collect::<Vec<_>>(),
        }))?;
    } else {
        let show = |name: &str, values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let range = interval(values)
                .map_or_else(String::new, |[low, high]| format!(" (95 %: {low:.3}..{high:.3})"));
            format!("{name} {mean:.3}{range}\n")
        };
        let mut text = show("breaking stress, raw", &raw);
        text.push_str(&show("breaking stress, adjusted", &adjusted));
        let _ = writeln!(
            text,
            "bound {bound:.3} (critical path {}), raw reaches {:.0} % of it",
            table::time(path_ns as f64),
            100.0 * raw.iter().sum::<f64>() / raw.len() as f64 / bound,
        );
        if let Some(late) = bound_late {
            let _ = writeln!(text, "bound when {} late is in time {late:.3}", args.fail);
        }
        let at = format!("stress at {} % missed", 100.0 * args.miss_rate);
        text.push_str(&show(&at, &kept));
        let mean = kept.iter().sum::<f64>() / kept.len() as f64;
        let _ = writeln!(text, "  that is {:.0} jobs a second", jobs_per_s(mean));
        table::say(&text)?;
    }
    Ok(ExitCode::SUCCESS)
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
