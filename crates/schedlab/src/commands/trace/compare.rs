//! `schedlab trace compare`: two traces side by side. One sample each, so differences, no verdict.

use super::input::{self, Machine, Part, Selection};
use super::table::Table;
use crate::json;
use anyhow::Context as _;
use schedlab_model::{Distance, Nanos, Warning};
use schedlab_stats::Histogram;
use schedlab_timeline::{
    Cause, Conservation, ConservationOptions, Cpus, Latency, Locality, Migrations, Reply, Tasks,
    WHENS, Waiting,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab trace compare`.
#[derive(clap::Args)]
#[command(after_help = "\
Two traces are one sample each. The differences are shown, and no verdict is given. For a verdict,
repeat the runs: `schedlab run` and `schedlab compare`.
Counts and sums are also given per second, so that traces of unequal length compare.
--pid, --comm and --regex choose whose metrics; utilisation and overload are the whole machine's.")]
pub(crate) struct Args {
    /// The first trace
    a: PathBuf,
    /// The second trace
    b: PathBuf,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    machine: Machine,
    /// Leave out episodes of lost CPU time shorter than this
    #[arg(long, value_name = "TIME", default_value = "0")]
    min: Nanos,
}

/// A figure of one trace.
struct Figure {
    name: String,
    value: Option<f64>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A time in nanoseconds that stands for itself: a percentile, a maximum.
    Time,
    /// A part of one.
    Part,
    /// A mean number of tasks.
    Mean,
    /// A count that grows with the trace: compared a second.
    Count,
    /// A sum of nanoseconds that grows with the trace: compared a second.
    Sum,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let one = |path: &Path| figures(path, args).with_context(|| path.display().to_string());
    // Two traces have nothing in common but the options.
    let (a, b) = std::thread::scope(|scope| {
        // Where no thread can be started, one follows the other.
        let a = std::thread::Builder::new().spawn_scoped(scope, || one(&args.a));
        let b = one(&args.b);
        (a.map_or_else(|_| Ok(one(&args.a)), std::thread::ScopedJoinHandle::join), b)
    });
    let a = a.map_err(|_| anyhow::anyhow!("reading {} panicked", args.a.display()))??;
    let b = b?;
    if args.part.json {
        json::print(&Document::of(args, &a, &b))?;
    } else {
        input::print_text(&to_text(args, &a, &b))?;
        for (name, trace) in [("A", &a), ("B", &b)] {
            input::print_named_notes(name, &trace.warnings);
        }
    }
    Ok(ExitCode::SUCCESS)
}

struct Told {
    figures: Vec<Figure>,
    seconds: f64,
    looked_at: String,
    warnings: Vec<Warning>,
}

fn figures(path: &Path, args: &Args) -> anyhow::Result<Told> {
    let topology = args.machine.topology()?;
    let chosen = args.selection.chosen(&args.part, path)?;
    let chosen = || chosen.clone();
    let options = ConservationOptions { min: args.min, limit: 0, ..Default::default() };
    let reply = args.part.ask(path, |info| {
        let topology = || topology.clone().or_else(|| info.topology.clone());
        (
            Latency::new(),
            Tasks::by_distance(topology()),
            Cpus::new(),
            Waiting::new(2).about(chosen()),
            Conservation::new(options, info).about(chosen()),
            Migrations::new(topology(), 0).about(chosen()),
            Locality::new(topology()).about(chosen()),
        )
    })?;
    let looked_at = input::looked_at(&reply);
    let Reply { answer, observed, warnings, .. } = reply;
    let (latency, tasks, cpus, waiting, conservation, migrations, locality) = answer;
    let keeps = |pid, comm: &str| args.selection.keeps(pid, comm);
    let (latency, tasks) = (latency.only(keeps), tasks.only(keeps));
    let mut list = List(Vec::new());
    list.histogram("wakeup_latency", &latency.total.wakeup);
    list.histogram("run_delay", &latency.total.run_delay);
    list.count("tasks", tasks.rows.len() as u64);
    list.count("switches_voluntary", tasks.rows.iter().map(|row| row.voluntary).sum());
    list.count("switches_involuntary", tasks.rows.iter().map(|row| row.involuntary).sum());
    let time = |of: fn(&schedlab_timeline::CpuRow) -> Nanos| {
        cpus.rows.iter().map(|row| of(row).0).sum::<u64>()
    };
    let known = time(|row| row.busy) + time(|row| row.idle);
    let busy = (known > 0).then(|| time(|row| row.busy) as f64 / known as f64);
    list.push("utilisation", busy, Kind::Part);
    list.sum("overloaded", time(|row| row.overloaded));
    let curve = waiting.total();
    list.push("running_mean", Some(curve.running_mean()), Kind::Mean);
    list.push("waiting_mean", Some(curve.waiting_mean()), Kind::Mean);
    list.count("episodes", conservation.count);
    list.sum("lost_cpu_time", conservation.total.0);
    for (cause, (_, time)) in Cause::ALL.into_iter().zip(conservation.by_cause) {
        list.sum(&format!("lost_{}", cause.name()), time.0);
    }
    list.count("migrations", migrations.total());
    for (when, count) in WHENS.iter().zip(migrations.totals) {
        list.count(&format!("migrations_{}", when.name()), count);
    }
    list.count("migration_chains", migrations.chained);
    list.count("wakeups", locality.total.count);
    if locality.has_topology {
        list.count("wakeups_left_llc", locality.total.left(Distance::Llc));
        list.count("wakeups_left_node", locality.total.left(Distance::Node));
        list.count("wakeups_left_socket", locality.total.left(Distance::Socket));
        list.sum("away_from_home", locality.tasks.iter().map(|row| row.away.0).sum());
    }
    let seconds = observed.duration().as_secs_f64();
    Ok(Told { figures: list.0, seconds, looked_at, warnings })
}

struct List(Vec<Figure>);

impl List {
    fn push(&mut self, name: &str, value: Option<f64>, kind: Kind) {
        self.0.push(Figure { name: name.to_owned(), value, kind });
    }

    fn count(&mut self, name: &str, count: u64) {
        self.push(name, Some(count as f64), Kind::Count);
    }

    fn sum(&mut self, name: &str, ns: u64) {
        self.push(&format!("{name}_ns"), Some(ns as f64), Kind::Sum);
    }

    fn histogram(&mut self, name: &str, histogram: &Histogram) {
        for (suffix, q) in
            [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)]
        {
            let value = histogram.quantile(q).map(|ns| ns as f64);
            self.push(&format!("{name}_ns_{suffix}"), value, Kind::Time);
        }
        self.sum(&format!("{name}_sum"), histogram.sum());
    }
}

impl Figure {
    /// What is compared: growing figures a second of trace.
    fn rate(&self, seconds: f64) -> Option<f64> {
        match self.kind {
            Kind::Count | Kind::Sum => self.value.filter(|_| seconds > 0.0).map(|v| v / seconds),
            Kind::Time | Kind::Part | Kind::Mean => self.value,
        }
    }

    fn text(&self, value: Option<f64>, per_second: bool) -> String {
        let Some(value) = value else { return "-".to_owned() };
        let rate = if per_second { "/s" } else { "" };
        match self.kind {
            Kind::Time => Nanos(value.max(0.0) as u64).to_string(),
            Kind::Sum => format!("{}{rate}", Nanos(value.max(0.0) as u64)),
            Kind::Part => format!("{:.1}%", value * 100.0),
            Kind::Mean => format!("{value:.2}"),
            Kind::Count if per_second => format!("{value:.1}/s"),
            Kind::Count => format!("{value:.0}"),
        }
    }
}

/// B relative to A.
fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    let (a, b) = (a?, b?);
    (a > 0.0).then(|| b / a)
}

/// `schedlab trace compare --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    a: Side,
    b: Side,
    figures: Vec<Pair>,
    /// Always `null`: two single traces bear no verdict.
    verdict: Option<()>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/trace-compare/1";
}

/// A trace that is compared.
#[derive(Serialize, JsonSchema)]
struct Side {
    file: String,
    duration_s: f64,
    warnings: Vec<Warning>,
}

/// A figure of both traces.
#[derive(Serialize, JsonSchema)]
struct Pair {
    name: String,
    /// The value in the first trace.
    a: [Option<f64>; 1],
    /// The value in the second trace.
    b: [Option<f64>; 1],
    /// What is compared: figures that grow with the trace a second of it.
    a_compared: Option<f64>,
    b_compared: Option<f64>,
    /// Whether they are a second of trace.
    per_second: bool,
    /// `b_compared / a_compared`
    ratio: Option<f64>,
}

impl Document {
    fn of(args: &Args, a: &Told, b: &Told) -> Self {
        let pair = |figure: &Figure| {
            let other = b.figures.iter().find(|other| other.name == figure.name);
            let (x, y) = (figure.rate(a.seconds), other.and_then(|other| other.rate(b.seconds)));
            Pair {
                name: figure.name.clone(),
                a: [figure.value],
                b: [other.and_then(|other| other.value)],
                a_compared: x,
                b_compared: y,
                per_second: matches!(figure.kind, Kind::Count | Kind::Sum),
                ratio: ratio(x, y),
            }
        };
        let side = |file: &Path, told: &Told| Side {
            file: file.display().to_string(),
            duration_s: told.seconds,
            warnings: told.warnings.clone(),
        };
        Self {
            a: side(&args.a, a),
            b: side(&args.b, b),
            figures: a.figures.iter().map(pair).collect(),
            verdict: None,
        }
    }
}

fn to_text(args: &Args, a: &Told, b: &Told) -> String {
    let mut table = Table::new(&["<figure", "A", "B", "1?A, a second", "2?B, a second", "B / A"]);
    for figure in &a.figures {
        let other = b.figures.iter().find(|other| other.name == figure.name);
        let value = other.and_then(|other| other.value);
        let (x, y) = (figure.rate(a.seconds), other.and_then(|other| other.rate(b.seconds)));
        let grows = matches!(figure.kind, Kind::Count | Kind::Sum);
        let rate = |rate| if grows { figure.text(rate, true) } else { String::new() };
        if figure.value == Some(0.0) && value == Some(0.0) {
            continue;
        }
        table.row(vec![
            figure.name.trim_end_matches("_ns").replace("_ns_", "_").replace('_', " "),
            figure.text(figure.value, false),
            figure.text(value, false),
            rate(x),
            rate(y),
            ratio(x, y).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
        ]);
    }
    format!(
        "A: {} ({})\nB: {} ({})\none sample each: differences, no verdict\n\n{}",
        args.a.display(),
        a.looked_at,
        args.b.display(),
        b.looked_at,
        table.text(0)
    )
}
