//! `schedlab trace compare`: two traces side by side. One sample each, so differences, no verdict.

pub(crate) mod causes;

use super::form;
use super::input::{self, Input, Machine, Part, Selection};
use super::why::overview::{self, Waited};
use crate::commands::UsageError;
use crate::json;
use anyhow::Context as _;
use schedlab_model::table::{Bound, Column, Row, Rows, column};
use schedlab_model::{Clock, Known, Nanos, Warning, columns, readable};
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

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let one = |path: &Path| of_trace(path, args).with_context(|| path.display().to_string());
    // Two traces have nothing in common but the options.
    let (a, b) = std::thread::scope(|scope| {
        // Where no thread can be started, one follows the other.
        let a = std::thread::Builder::new().spawn_scoped(scope, || one(&args.a));
        let b = one(&args.b);
        (a.map_or_else(|_| Ok(one(&args.a)), std::thread::ScopedJoinHandle::join), b)
    });
    let a = a.map_err(|_| anyhow::anyhow!("reading {} panicked", args.a.display()))??;
    let b = b?;
    in_one_unit(args, &a, &b)?;
    let both = both(&a, &b);
    let figures = Rows::new(&both, Nanos::ZERO);
    let side = |file: &Path, one: &OfTrace| Side {
        file: file.display().to_string(),
        duration_s: one.seconds,
        warnings: one.warnings.clone(),
    };
    let a_side = side(&args.a, &a);
    let b_side = side(&args.b, &b);
    let waiting = causes::Difference::of(&a.waited, &b.waited);
    let document = Document { a: a_side, b: b_side, figures, waiting, verdict: None };
    let form = args.part.form;
    form.print(&[], &document, &document.figures, || {
        let mut table = document.figures.text(form.room(), &[]);
        let is_some =
            |both: &&Both| [both.a, both.b].iter().any(|value| value.unwrap_or(0.0) != 0.0);
        both.iter().filter(is_some).for_each(|row| table.row(row, &[]));
        headline(args, &a, &b, &document.waiting) + &table.print(0)
    })?;
    for (name, trace) in [("A", &a), ("B", &b)].into_iter().filter(|_| !form.json) {
        form::print_named_notes(name, &trace.warnings);
    }
    Ok(ExitCode::SUCCESS)
}

/// One of the traces, with a value for each of [`totals`].
struct OfTrace {
    values: Vec<Option<f64>>,
    known: Known,
    clock: Clock,
    seconds: f64,
    looked_at: String,
    waited: Waited,
    warnings: Vec<Warning>,
}

fn of_trace(path: &Path, args: &Args) -> anyhow::Result<OfTrace> {
    let topology = args.machine.topology()?;
    let chosen = args.selection.chosen(&args.part, path)?;
    let mut clock = Clock::Monotonic;
    let reply = args.part.ask(path, |info| {
        clock.clone_from(&info.clock);
        let topology = topology.or_else(|| info.topology.clone());
        everything(&About { info, topology, chosen: chosen.clone(), min: args.min })
    })?;
    let looked_at = input::looked_at(&reply);
    let values = total_values(&reply.answer, &chosen, &reply.known);
    let seconds = reply.observed.duration().as_secs_f64();
    let input = Input { file: path.to_owned(), part: args.part.clone() };
    let waited = overview::waited(&input, &args.selection)?;
    Ok(OfTrace {
        values,
        known: reply.known,
        clock,
        seconds,
        looked_at,
        waited,
        warnings: reply.warnings,
    })
}

/// Ticks and nanoseconds do not compare.
fn in_one_unit(args: &Args, a: &OfTrace, b: &OfTrace) -> anyhow::Result<()> {
    let ticks = |one: &OfTrace| matches!(one.clock, Clock::Ticks(_));
    let (counts, file) = match (ticks(a), ticks(b)) {
        (true, false) => (&a.clock, &args.a),
        (false, true) => (&b.clock, &args.b),
        _ => return Ok(()),
    };
    let (Clock::Ticks(name) | Clock::Nanoseconds(name)) = counts else { return Ok(()) };
    let file = file.display();
    let what = format!("{file}: the clock {name} counts ticks, and the other trace nanoseconds");
    Err(UsageError(format!("{what}: record both with the clock mono")).into())
}

/// A total of both traces.
pub(crate) struct Both {
    total: Total,
    a: Option<f64>,
    b: Option<f64>,
    /// What is compared: sums and counts per second of trace.
    a_rate: Option<f64>,
    b_rate: Option<f64>,
    /// How exact each is.
    bounds: [Option<Bound>; 2],
}

fn both(a: &OfTrace, b: &OfTrace) -> Vec<Both> {
    let values = a.values.iter().zip(&b.values);
    let both = |(total, (x, y)): (Total, (&Option<f64>, &Option<f64>))| {
        let rate = |value: &Option<f64>, one: &OfTrace| match total.grows {
            true => value.filter(|_| one.seconds > 0.0).map(|value| value / one.seconds),
            false => *value,
        };
        let of = |one: &OfTrace| total.need.map_or(Some(Bound::Exact), |need| one.known.of(need));
        let bounds = [of(a), of(b)];
        Both { a: *x, b: *y, a_rate: rate(x, a), b_rate: rate(y, b), bounds, total }
    };
    totals().into_iter().zip(values).map(both).collect()
}

impl Both {
    fn spelled(&self, value: Option<f64>, side: usize) -> String {
        let figure = |value| input::bounded(self.bounds[side], readable(value, self.total.unit));
        value.map_or_else(|| "-".to_owned(), figure)
    }

    fn spelled_rate(&self, value: Option<f64>, side: usize) -> String {
        if self.total.grows { format!("{}/s", self.spelled(value, side)) } else { String::new() }
    }
}

impl Row for Both {
    const ABOUT: &'static str = "A total of both traces.";

    fn columns() -> Vec<Column<Self>> {
        let name = |row: &Self| row.total.name.clone();
        let words =
            |name: &str| name.trim_end_matches("_ns").replace("_ns_", "_").replace('_', " ");
        let mut columns = vec![
            column("name", "The total, see *Totals*.", name)
                .title("metric")
                .spelled(move |row: &Self| words(&row.total.name)),
            column("a", "The value in the first trace.", |row: &Self| vec![row.a])
                .title("A")
                .spelled(|row: &Self| row.spelled(row.a, 0)),
            column("b", "The value in the second trace.", |row: &Self| vec![row.b])
                .title("B")
                .spelled(|row: &Self| row.spelled(row.b, 1)),
            column("a_compared", "The compared value: of a total that grows with the trace, its value per second of trace.", |row: &Self| row.a_rate)
                .title("A, a second")
                .rank(9)
                .spelled(|row: &Self| row.spelled_rate(row.a_rate, 0)),
            column("b_compared", "The compared value of the second trace.", |row: &Self| row.b_rate)
                .title("B, a second")
                .rank(8)
                .spelled(|row: &Self| row.spelled_rate(row.b_rate, 1)),
        ];
        columns.extend(columns! { row: Self;
            "per_second" = row.total.grows, "Whether the compared values are per second of trace.";
            "ratio" ["B / A"] = row.ratio(), "`b_compared / a_compared`; `null` where one of them is a bound.";
            "a_bound" = row.bounds[0].and_then(bound_word), "`at_least` or `at_most` if `a` is a bound.";
            "b_bound" = row.bounds[1].and_then(bound_word), "The same of `b`.";
        });
        columns
    }
}

impl Both {
    /// B relative to A.
    fn ratio(&self) -> Option<f64> {
        let a = self.a_rate?;
        let b = self.b_rate?;
        let exact = self.bounds.iter().all(|bound| bound.and_then(bound_word).is_none());
        (exact && a > 0.0).then(|| b / a)
    }
}

fn bound_word(bound: Bound) -> Option<&'static str> {
    match bound {
        Bound::Exact | Bound::Within(_) => None,
        Bound::AtLeast => Some("at_least"),
        Bound::AtMost => Some("at_most"),
    }
}

/// `schedlab trace compare --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    a: Side,
    b: Side,
    figures: Rows<'a, Both>,
    /// Why tasks of one trace waited longer than those of the other.
    waiting: causes::Difference,
    /// Always `null`: two single traces bear no verdict.
    verdict: Option<()>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-compare/1";
}

/// A trace that is compared.
#[derive(Serialize, JsonSchema)]
struct Side {
    file: String,
    duration_s: f64,
    warnings: Vec<Warning>,
}

fn headline(args: &Args, a: &OfTrace, b: &OfTrace, waiting: &causes::Difference) -> String {
    format!(
        "A: {} ({})\nB: {} ({})\none sample each: differences, no verdict\n\n{}\n",
        args.a.display(),
        a.looked_at,
        args.b.display(),
        b.looked_at,
        overview::wrapped(&waiting.sentence()),
    )
}
