//! `schedlab view`: the interactive page of a trace.

use crate::json;
use anyhow::Context;
use schedlab_draw::page::{Columns, Listening, notes, page};
use schedlab_model::{Nanos, Span, Warning};
use schedlab_timeline::{Conservation, ConservationOptions, ask, span_of};
use schedlab_trace::{Options, open_with};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// How many episodes of lost CPU time the page lists, costliest first.
const EPISODES_MAX: usize = 1_000;

/// Options of `schedlab view`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads
    file: PathBuf,
    /// Where the page goes [default: the trace's name with .html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How CPUs share sockets, where the trace does not tell: a file made by 'lscpu -p', a copy of
    /// /sys, or 'host' for this machine
    #[arg(long, value_name = "FILE|DIR|host")]
    topology: Option<String>,
    /// What was written, as JSON
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
    let span = match info.span {
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
    let options = ConservationOptions { limit: EPISODES_MAX, ..ConservationOptions::default() };
    let conservation = Conservation::new(options, &info);
    let slices = Columns::new(Span::new(span.start, span.end)).with_marks(&info);
    let question = (slices, conservation);
    let mut listening = Listening::new(source.as_mut());
    let reply = ask(&mut listening, question).with_context(|| file.display().to_string())?;
    let (slices, conservation) = reply.answer;
    let slices = slices.with_arguments(listening.said());
    let notes = notes(&conservation, &reply.state);
    let title = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let html = page(&title, &slices, topology.as_ref(), &notes, conservation.count);
    let output = args.output.unwrap_or_else(|| file.with_extension("html"));
    std::fs::write(&output, &html)
        .with_context(|| format!("{} could not be written", output.display()))?;
    if args.json {
        json::print(&Document {
            path: output.display().to_string(),
            bytes: html.len(),
            origin_ns: span.start.0.to_string(),
            duration_ns: span.duration(),
            cpus: slices.cpus(),
            slices: slices.slices(),
            episodes: conservation.count,
            warnings: reply.warnings,
        })?;
    } else {
        writeln!(crate::output::stdout(), "{}", output.display())?;
        for warning in &reply.warnings {
            writeln!(crate::output::stderr(), "schedlab: {warning}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
