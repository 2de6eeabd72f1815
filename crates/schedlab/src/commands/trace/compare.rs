//! `schedlab trace compare`: two traces side by side. One sample each, so differences, no verdict.

use super::columns;
use super::input::{self, Machine, Part, Selection};
use super::table::{Table, percent};
use crate::json;
use anyhow::Context as _;
use schedlab_model::{Nanos, Unit, Warning};
use schedlab_timeline::{About, Total, everything, total_values, totals};
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

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let one = |path: &Path| told(path, args).with_context(|| path.display().to_string());
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
        columns::print(&args.part, &[], &Document::of(args, &a, &b), |_| to_text(args, &a, &b))?;
        for (name, trace) in [("A", &a), ("B", &b)] {
            input::print_named_notes(name, &trace.warnings);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What one trace tells: a value for each of [`totals`].
struct Told {
    values: Vec<Option<f64>>,
    seconds: f64,
    looked_at: String,
    warnings: Vec<Warning>,
}

fn told(path: &Path, args: &Args) -> anyhow::Result<Told> {
    let topology = args.machine.topology()?;
    let chosen = args.selection.chosen(&args.part, path)?;
    let reply = args.part.ask(path, |info| {
        let topology = topology.or_else(|| info.topology.clone());
        everything(&About { info, topology, chosen: chosen.clone(), min: args.min })
    })?;
    let looked_at = input::looked_at(&reply);
    let values = total_values(&reply.answer, &chosen);
    let seconds = reply.observed.duration().as_secs_f64();
    Ok(Told { values, seconds, looked_at, warnings: reply.warnings })
}

/// A total of both traces.
struct Both {
    total: Total,
    a: Option<f64>,
    b: Option<f64>,
    /// What is compared: sums and counts per second of trace.
    a_rate: Option<f64>,
    b_rate: Option<f64>,
}

fn both(a: &Told, b: &Told) -> Vec<Both> {
    let values = a.values.iter().zip(&b.values);
    let both = |(total, (x, y)): (Total, (&Option<f64>, &Option<f64>))| {
        let rate = |value: &Option<f64>, told: &Told| match total.grows {
            true => value.filter(|_| told.seconds > 0.0).map(|value| value / told.seconds),
            false => *value,
        };
        Both { a: *x, b: *y, a_rate: rate(x, a), b_rate: rate(y, b), total }
    };
    totals().into_iter().zip(values).map(both).collect()
}

fn text(total: &Total, value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    match total.unit {
        Unit::Nanoseconds => Nanos(value.max(0.0) as u64).to_string(),
        Unit::Fraction => percent(Some(value)),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
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

impl columns::Answer for Document {
    type Row = Pair;

    fn rows(&self) -> Vec<&Pair> {
        self.figures.iter().collect()
    }
}

/// A trace that is compared.
#[derive(Serialize, JsonSchema)]
struct Side {
    file: String,
    duration_s: f64,
    warnings: Vec<Warning>,
}

/// A total of both traces.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Pair {
    /// The total, see *Totals*.
    name: String,
    /// The value in the first trace.
    a: [Option<f64>; 1],
    /// The value in the second trace.
    b: [Option<f64>; 1],
    /// The compared value: of a total that grows with the trace, its value per second of trace.
    a_compared: Option<f64>,
    /// The compared value of the second trace.
    b_compared: Option<f64>,
    /// Whether the compared values are per second of trace.
    per_second: bool,
    /// `b_compared / a_compared`.
    ratio: Option<f64>,
}

impl Document {
    fn of(args: &Args, a: &Told, b: &Told) -> Self {
        let pair = |both: Both| Pair {
            a: [both.a],
            b: [both.b],
            a_compared: both.a_rate,
            b_compared: both.b_rate,
            per_second: both.total.grows,
            ratio: ratio(both.a_rate, both.b_rate),
            name: both.total.name,
        };
        let side = |file: &Path, told: &Told| Side {
            file: file.display().to_string(),
            duration_s: told.seconds,
            warnings: told.warnings.clone(),
        };
        Self {
            a: side(&args.a, a),
            b: side(&args.b, b),
            figures: both(a, b).into_iter().map(pair).collect(),
            verdict: None,
        }
    }
}

fn to_text(args: &Args, a: &Told, b: &Told) -> String {
    let mut table = Table::new(&["<metric", "A", "B", "1?A, a second", "2?B, a second", "B / A"]);
    for Both { total, a, b, a_rate, b_rate } in both(a, b) {
        if [a, b].iter().all(|value| value.unwrap_or(0.0) == 0.0) {
            continue;
        }
        let rate = |rate| match total.grows {
            true => format!("{}/s", text(&total, rate)),
            false => String::new(),
        };
        table.row(vec![
            total.name.trim_end_matches("_ns").replace("_ns_", "_").replace('_', " "),
            text(&total, a),
            text(&total, b),
            rate(a_rate),
            rate(b_rate),
            ratio(a_rate, b_rate).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
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
