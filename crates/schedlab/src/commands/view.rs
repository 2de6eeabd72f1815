//! `schedlab view`: the interactive page of a trace.

use super::result_file::save;
use super::trace::input::Input;
use super::trace::why::overview;
use crate::json;
use anyhow::{Context, bail};
use schedlab_draw::Belongs;
use schedlab_draw::levels::Levels;
use schedlab_draw::page::{Columns, Listening, PageData, notes, page_from};
use schedlab_model::{Nanos, Point, Span, Warning};
use schedlab_timeline::{
    By, Conservation, ConservationOptions, Cut, Density, Power, ask_within, span_of,
};
use schedlab_trace::{Options, open_with};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// How many episodes of lost CPU time the page lists, costliest first.
const EPISODES_MAX: usize = 1_000;

/// Bytes that slices may take before compression: a page of them has at most 60 MB.
const SLICES_MAX: usize = 60 << 20;

/// Columns of the curve of running and waiting tasks, on a page without slices.
const LEVELS: u32 = 1 << 16;

/// Changes of frequency that a page shows, and intervals of idle states, IPIs and timers.
const POWER_MAX: usize = 500_000;

/// Options of `schedlab view`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads
    file: PathBuf,
    /// Write the page to FILE [default: the name of the trace with .html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How CPUs share caches and sockets, if the trace does not say: 'host', a copy of /sys, or a
    /// file made by 'lscpu -p'
    #[arg(long, value_name = "FILE|DIR|host")]
    topology: Option<String>,
    /// Start here: time since the start of the trace (1.5s, 20ms), or time of its clock (@12345.678)
    #[arg(long, value_name = "TIME", value_parser = super::draw::instant)]
    from: Option<Point>,
    /// End here, in the same form
    #[arg(long, value_name = "TIME", value_parser = super::draw::instant)]
    to: Option<Point>,
    /// Leave out why tasks waited, which takes one or two more passes over the trace
    #[arg(long)]
    no_why: bool,
    /// Bytes for slices before compression; a page with more of them shows columns in their place
    #[arg(long, value_name = "SIZE", default_value_t = SLICES_MAX, hide = true)]
    slices_max: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `schedlab view --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    /// The page.
    path: String,
    bytes: usize,
    /// Time zero of the page, in nanoseconds of the trace's clock. A text, since JSON numbers are doubles to
    /// many readers and lose nanoseconds.
    origin_ns: String,
    duration_ns: Nanos,
    cpus: usize,
    slices: usize,
    /// Episodes in which CPU time was lost while tasks waited.
    episodes: u64,
    warnings: Vec<Warning>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/view/1";
}

/// Writes one HTML file that opens from disk and asks for nothing else.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let file = &args.file;
    let options = Options { arguments: true, ..Options::default() };
    let mut source = open_with(file, &options)?;
    let mut info = source.info().clone();
    let whole = match info.span {
        Some(span) => span,
        None => {
            let span = span_of(source.as_mut()).with_context(|| file.display().to_string())?;
            // Streams learn tracepoints and marks on the way: now all are known.
            info = source.info().clone();
            source = open_with(file, &options)?;
            span
        }
    };
    let topology = match &args.topology {
        Some(from) => Some(super::draw::topology::read(from)?),
        None => info.topology.clone(),
    };
    let span = part(&args, whole)?;
    let cut = Cut { from: since(args.from, whole), to: since(args.to, whole) };
    let options = ConservationOptions { limit: EPISODES_MAX, ..ConservationOptions::default() };
    let conservation = Conservation::new(options, &info);
    let slices = Columns::new(span).with_marks(&info).without_power().at_most(args.slices_max);
    let power = Power::new(POWER_MAX).with_spans(POWER_MAX);
    let mut listening = Listening::new(source.as_mut()).without_power();
    let reply = ask_within(&mut listening, cut, (slices, conservation, power))
        .with_context(|| file.display().to_string())?;
    let (slices, conservation, power) = reply.answer;
    let slices = slices.with_arguments(listening.said()).with_power(power);
    let mut slices = slices.with_owners(&Belongs::of(source.info()), &reply.state);
    let too_many = !slices.is_whole();
    if too_many {
        slices = in_columns(slices, &args, span, cut)?;
    }
    let mut warnings = reply.warnings;
    warnings.extend(too_many.then(|| {
        let what = "the page shows columns, since the trace has too many slices for it".to_owned();
        Warning::new(
            "page-columns",
            what,
            "--from and --to choose a part that is shown with all of them",
        )
    }));
    if !args.no_why {
        let input = Input::part_of(file, args.from, args.to);
        let overview::Answer { text, worst } = overview::answer(&input)?;
        slices = slices.with_answer(text, worst);
    }
    let notes = notes(&conservation, &reply.state);
    let title = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let count = conservation.count;
    let html = page_from(&title, &slices, whole.start, topology.as_ref(), &notes, count);
    let output = args.output.unwrap_or_else(|| file.with_extension("html"));
    save(&output, &html)?;
    if args.json {
        json::print(&Document {
            path: output.display().to_string(),
            bytes: html.len(),
            origin_ns: whole.start.0.to_string(),
            duration_ns: span.duration(),
            cpus: slices.cpus(),
            slices: slices.slices(),
            episodes: conservation.count,
            warnings,
        })?;
    } else {
        writeln!(crate::output::stdout(), "{}", output.display())?;
        for warning in &warnings {
            writeln!(crate::output::stderr(), "schedlab: {warning}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A point as the time since the trace began.
fn since(point: Option<Point>, whole: Span) -> Option<Nanos> {
    point.map(|point| point.since(whole.start))
}

/// The part of the trace that is asked for.
fn part(args: &Args, whole: Span) -> anyhow::Result<Span> {
    let start = whole.start + since(args.from, whole).unwrap_or(Nanos::ZERO);
    let end = since(args.to, whole).map_or(whole.end, |to| (whole.start + to).min(whole.end));
    if (args.from.is_some() || args.to.is_some()) && start >= end {
        bail!(
            "{}: the trace holds nothing between --from {} and --to {}: it lasts {}",
            args.file.display(),
            args.from.unwrap_or(Nanos::ZERO.into()),
            args.to.unwrap_or(whole.duration().into()),
            whole.duration()
        );
    }
    Ok(Span::new(start, end))
}

/// Reads the trace once more, for columns in place of slices.
fn in_columns(page: PageData, args: &Args, span: Span, cut: Cut) -> anyhow::Result<PageData> {
    let mut source = open_with(&args.file, &Options::default())?;
    let columns = Density::new(span, PageData::columns_of(page.cpus()), By::Task);
    let question = (columns, Levels::new(span, LEVELS, Vec::new()));
    let reply = ask_within(source.as_mut(), cut, question)
        .with_context(|| args.file.display().to_string())?;
    let (columns, curves) = reply.answer;
    let levels = curves.into_iter().next().map_or_else(Vec::new, |machine| machine.levels);
    Ok(page.with_columns(columns, levels))
}
