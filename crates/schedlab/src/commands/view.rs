//! `schedlab view`: the interactive page of a trace.

mod tee;

use super::result_file::save;
use super::trace::compare::causes::Difference;
use super::trace::form;
use super::trace::input::{Input, Selection};
use super::trace::why::overview::{Answer, Limits, Waited, narrow};
use crate::json;
use anyhow::{Context, bail};
use schedlab_draw::Belongs;
use schedlab_draw::flame::{Flame, FlameStacks};
use schedlab_draw::page::{Columns, Listening, Pair, notes, page_from, pair};
use schedlab_model::{Nanos, Point, Span, Warning};
use schedlab_timeline::{
    Conservation, ConservationOptions, Cut, FoldedStack, OffCpuAnswer, OffCpuStacks, OnCpuAnswer,
    OnCpuStacks, Power, Reply, RequestSpans, State, ask_within, span_of, stack_changes,
};
use schedlab_trace::Options;
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tee::tee;

/// How many episodes of lost CPU time the page lists, costliest first.
const EPISODES_MAX: usize = 1_000;

/// Bytes that slices may take before compression: a page of them has at most 60 MB.
const SLICES_MAX: usize = 60 << 20;

/// Changes of frequency that a page shows, and intervals of idle states, IPIs and timers.
const POWER_MAX: usize = 500_000;

/// Sleeps of which a page makes flame graphs, ticks, and requests: each takes at most some MB.
const SLEEPS_MAX: usize = 200_000;

/// Options of `schedlab view`.
#[derive(clap::Args)]
#[command(after_help = "\
The page begins with why tasks waited, at their worst wait. --pid, --comm, --regex and --cgroup
choose these tasks. Its rows show all tasks, since the others ran meanwhile.")]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads; a second one is shown below it
    #[arg(required = true, num_args = 1..=2)]
    files: Vec<PathBuf>,
    /// Write the page to FILE [default: the name of the first trace with .html]
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
    #[command(flatten)]
    selection: Selection,
    /// Leave out why tasks waited
    #[arg(long)]
    no_why: bool,
    /// Replace the names of tasks, control groups, marks and the file by numbers, before you share the page
    #[arg(long)]
    anonymise: bool,
    /// Bytes for slices before compression; a page with more of them shows columns in their place
    #[arg(long, value_name = "SIZE", default_value_t = SLICES_MAX, hide = true)]
    slices_max: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `schedlab view --json`.
#[derive(Clone, Serialize, JsonSchema)]
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

/// `schedlab view A B --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Both {
    /// The first trace; `path` and `bytes` are those of the one file.
    a: Document,
    /// The second trace.
    b: Document,
}

impl json::Document for Both {
    const ID: &'static str = "schedlab/view-pair/1";
}

/// Writes one HTML file that opens from disk and asks for nothing else.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let made = args.files.iter().map(|file| make(args, file));
    let made = made.collect::<anyhow::Result<Vec<Made>>>()?;
    let output = args.output.clone().unwrap_or_else(|| args.files[0].with_extension("html"));
    let html = match made.as_slice() {
        [a, b] => Cow::Owned(beside(a, b)),
        all => Cow::Borrowed(all[0].html.as_str()),
    };
    save(&output, html.as_ref())?;
    let path = output.display().to_string();
    let bytes = html.len();
    if args.json {
        let of = |made: &Made| Document { path: path.clone(), bytes, ..made.document.clone() };
        match made.as_slice() {
            [a, b] => json::print(&Both { a: of(a), b: of(b) })?,
            all => json::print(&of(&all[0]))?,
        }
    } else {
        writeln!(crate::output::stdout(), "{path}")?;
        made.iter().for_each(|made| form::print_notes(&made.document.warnings));
    }
    Ok(ExitCode::SUCCESS)
}

/// Two pages in one, with the difference in waiting.
fn beside(a: &Made, b: &Made) -> String {
    let difference = match (&a.waited, &b.waited) {
        (Some(a), Some(b)) => Some(Difference::of(a, b)),
        _ => None,
    };
    let flames = a.by_stack.iter().filter_map(|was| {
        let is = b.by_stack.iter().find(|is| is.what == was.what)?;
        Some(Flame {
            title: format!("Change of {} by stack from {} to {}", was.what, a.title, b.title),
            notes: Vec::new(),
            stacks: FlameStacks::Changes(stack_changes(
                &was.folded,
                was.length,
                &is.folded,
                is.length,
            )),
        })
    });
    let flames = flames.collect();
    pair(&Pair {
        flames,
        names: [a, b].map(|made| made.title.clone()),
        pages: [a, b].map(|made| made.html.clone()),
        difference: difference.as_ref().map_or_else(String::new, Difference::sentence),
        tables: difference.as_ref().map_or_else(Vec::new, Difference::tables),
    })
}

/// A page, and what is told of it.
struct Made {
    title: String,
    html: String,
    /// How long tasks waited, if that was asked.
    waited: Option<Waited>,
    /// Times by stack, if the trace holds stacks and another is beside it.
    by_stack: Vec<ByStack>,
    document: Document,
}

/// A time by stack in a trace of that length.
struct ByStack {
    what: &'static str,
    folded: Vec<FoldedStack>,
    length: Nanos,
}

impl ByStack {
    fn all(off: &OffCpuAnswer, on: &OnCpuAnswer, state: &State, length: Nanos) -> Vec<Self> {
        let mut all = Vec::new();
        if off.rows.iter().any(|row| row.stack.is_some()) {
            let folded = off.clone().without_wakers().folded(state);
            all.push(Self { what: "off-CPU time", folded, length });
        }
        let (_, _, ticks) = on.sums();
        if ticks > 0 {
            all.push(Self { what: "on-CPU time", folded: on.folded(state), length });
        }
        all
    }
}

/// Makes the page of a trace in one pass. A group with a quota, chosen tasks, and a trace that does not tell its length
/// take one more each.
fn make(args: &Args, file: &Path) -> anyhow::Result<Made> {
    let name = || file.display().to_string();
    let input = Input::part_of(file, args.from, args.to).anonymised(args.anonymise);
    // Names of functions are those of programs.
    let names = (!args.anonymise).then(schedlab_record::names_here);
    let options = Options { arguments: true, names, ..Options::all_cpus() };
    let mut source = input.part.open(file, &options)?;
    let mut info = source.info().clone();
    let whole = match info.span {
        Some(span) => span,
        None => {
            let span = span_of(source.as_mut()).with_context(name)?;
            // Streams learn tracepoints and marks on the way: now all are known.
            info = source.info().clone();
            source = input.part.open(file, &options)?;
            span
        }
    };
    let topology = match &args.topology {
        Some(from) => Some(super::topology::read(from)?),
        None => info.topology.clone(),
    };
    let span = part(args, file, whole)?;
    let cut = Cut { from: since(args.from, whole), to: since(args.to, whole) };
    let options = ConservationOptions { limit: EPISODES_MAX, ..ConservationOptions::default() };
    let conservation = Conservation::new(options, &info);
    let limits = if args.no_why { None } else { Some(Limits::of(&input)?) };
    let mut slices = Columns::new(span).with_marks(&info).without_power();
    slices = slices.at_most(args.slices_max).or_columns();
    if let Some(limits) = &limits {
        slices = slices.with_causes(limits.causes());
    }
    // Names of functions are those of programs.
    let stacks = (!args.anonymise).then(|| {
        let off = OffCpuStacks::by_waker().with_sleeps(SLEEPS_MAX);
        (off, OnCpuStacks::default().with_ticks(SLEEPS_MAX))
    });
    let requests = RequestSpans::at_most(SLEEPS_MAX);
    let power = Power::new(POWER_MAX).with_spans(POWER_MAX);
    let mut listening = Listening::new(source.as_mut()).without_power();
    let (mut tee, mut copy) = tee(&mut listening);
    // Only the tee has what tracepoints say, of which frequencies are made.
    let (reply, conservation) = std::thread::scope(|scope| {
        let other = move || ask_within(&mut copy, cut, conservation);
        let other = std::thread::Builder::new().spawn_scoped(scope, other)?;
        let reply = ask_within(&mut tee, cut, (slices, power, (stacks, requests)));
        // Nothing more comes for the other one.
        drop(tee);
        let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        io::Result::Ok((reply?, other?.answer))
    })
    .with_context(name)?;
    let Reply { answer, origin, observed, state, mut warnings, known, checked } = reply;
    let (slices, power, (stacks, requests)) = answer;
    let mut page = slices.with_power(power).with_deviations(&checked);
    // What tracepoints say can hold any name.
    if !args.anonymise {
        page = page.with_arguments(listening.said());
    }
    let mut by_stack = Vec::new();
    if let Some((off, on)) = stacks {
        if args.files.len() > 1 {
            by_stack = ByStack::all(&off, &on, &state, span.duration());
        }
        page = page.with_sleeps(off).with_ticks(on);
    }
    page = page.with_requests(requests);
    page = page.with_owners(&Belongs::of(source.info()), &state);
    if !page.is_whole() {
        warnings.push(Warning::new(
            "page-columns",
            "the page shows columns, since the trace has too many slices for it",
            "--from and --to choose a part that is shown with all of them",
        ));
    }
    let notes = notes(&conservation, &state);
    let mut waited = None;
    if let (Some(limits), Some(answer)) = (limits, page.take_causes()) {
        let warnings_told = warnings.clone();
        let mut reply =
            Reply { answer, origin, observed, state, warnings: warnings_told, known, checked };
        // Other names change no numbers of tasks.
        let named = Input::part_of(file, args.from, args.to);
        narrow(&mut reply, &named.chosen(&args.selection)?);
        waited = Some(Waited::of(&reply));
        let Answer { text, worst } = limits.answer(&input, &reply);
        page = page.with_answer(text, worst);
    }
    let title = match args.anonymise {
        true => Cow::Borrowed("trace"),
        false => file.file_name().unwrap_or(file.as_os_str()).to_string_lossy(),
    };
    let count = conservation.count;
    let html = page_from(&title, &page, whole.start, topology.as_ref(), &notes, count);
    let document = Document {
        path: String::new(),
        bytes: html.len(),
        origin_ns: whole.start.0.to_string(),
        duration_ns: span.duration(),
        cpus: page.cpus(),
        slices: page.slices(),
        episodes: count,
        warnings,
    };
    Ok(Made { title: title.into_owned(), html, waited, by_stack, document })
}

/// A point as the time since the trace began.
fn since(point: Option<Point>, whole: Span) -> Option<Nanos> {
    point.map(|point| point.since(whole.start))
}

/// The part of the trace that is asked for.
fn part(args: &Args, file: &Path, whole: Span) -> anyhow::Result<Span> {
    let start = whole.start + since(args.from, whole).unwrap_or(Nanos::ZERO);
    let end = since(args.to, whole).map_or(whole.end, |to| (whole.start + to).min(whole.end));
    if (args.from.is_some() || args.to.is_some()) && start >= end {
        bail!(
            "{}: the trace holds nothing between --from {} and --to {}: it lasts {}",
            file.display(),
            args.from.unwrap_or(Nanos::ZERO.into()),
            args.to.unwrap_or(whole.duration().into()),
            whole.duration()
        );
    }
    Ok(Span::new(start, end))
}
