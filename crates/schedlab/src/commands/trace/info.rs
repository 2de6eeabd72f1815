//! `schedlab trace info`: what a file is and what it holds.

use super::form;
use crate::json;
use anyhow::Context as _;
use schedlab_model::table::TextTable;
use schedlab_model::{Clock, Cpu, CpuSet, EventSource, Nanos, Warning};
use schedlab_trace::{Census, Options};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab trace info`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Characters of an example that are shown.
const EXAMPLE_MAX: usize = 100;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options { arguments: true, ..Options::default() };
    let mut source = schedlab_trace::open_with(&args.file, &options)?;
    let census = Census::of(source.as_mut())
        .with_context(|| format!("cannot read further in {}", args.file.display()))?;
    let mut out = crate::output::stdout();
    if args.json {
        json::print(&Document::of(source.as_ref(), census))?;
    } else {
        people(&mut out, source.as_ref(), &census)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn clock_name(clock: &Clock) -> &str {
    match clock {
        Clock::Monotonic => "mono",
        Clock::Nanoseconds(name) | Clock::Ticks(name) => name,
    }
}

/// `schedlab trace info --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    /// The format, as people name it.
    format: String,
    /// The trace's clock, as ftrace names it.
    clock: String,
    /// Whether the clock counts nanoseconds; else it counts ticks.
    clock_is_time: bool,
    /// The kernel that was traced, if the file says.
    kernel: Option<String>,
    /// How many CPUs were observed.
    cpus: usize,
    cpu_list: CpuSet,
    /// Time of the first event, in nanoseconds of the trace's clock. A text, since JSON numbers are doubles
    /// to many readers and lose nanoseconds.
    origin_ns: String,
    duration_ns: Nanos,
    /// Events by name.
    events: BTreeMap<String, u64>,
    /// Events by CPU and name.
    per_cpu: BTreeMap<Cpu, BTreeMap<String, u64>>,
    /// Events that are known to be lost.
    lost: u64,
    /// Losses of unknown size.
    losses_unknown: u64,
    /// Whether the file holds the topology.
    topology: bool,
    /// Whether the file holds the tasks' affinity.
    affinity: bool,
    /// Names of user marks.
    marks: Vec<String>,
    /// Arguments of the first event of each tracepoint beyond the scheduler's.
    examples: BTreeMap<String, String>,
    /// What is wrong with the file.
    warnings: Vec<Warning>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/trace-info/1";
}

impl Document {
    fn of(source: &dyn EventSource, census: Census) -> Self {
        let info = source.info();
        let origin = census.span.map_or(Nanos::ZERO, |span| span.start);
        let events = census.events().into_iter().map(|(name, count)| (name.to_owned(), count));
        Self {
            format: info.format.clone(),
            clock: clock_name(&info.clock).to_owned(),
            clock_is_time: !matches!(info.clock, Clock::Ticks(_)),
            kernel: info.kernel.clone(),
            cpus: info.cpus.len(),
            cpu_list: info.cpus.clone(),
            origin_ns: origin.0.to_string(),
            duration_ns: census.duration(),
            events: events.collect(),
            per_cpu: census.per_cpu,
            lost: census.lost,
            losses_unknown: census.losses_unknown,
            topology: info.topology.is_some(),
            affinity: info.affinity.is_some(),
            marks: info.marks.clone(),
            examples: census.examples,
            warnings: source.warnings().to_vec(),
        }
    }
}

fn people(out: &mut impl Write, source: &dyn EventSource, census: &Census) -> io::Result<()> {
    let info = source.info();
    writeln!(out, "format    {}", info.format)?;
    let unit = if matches!(info.clock, Clock::Ticks(_)) { " (ticks, not time)" } else { "" };
    writeln!(out, "clock     {}{unit}", clock_name(&info.clock))?;
    if let Some(kernel) = &info.kernel {
        writeln!(out, "kernel    {kernel}")?;
    }
    writeln!(out, "CPUs      {} ({})", info.cpus.len(), info.cpus)?;
    let origin = census.span.map_or(Nanos::ZERO, |span| span.start);
    writeln!(out, "from      {}.{:09} s", origin.0 / 1_000_000_000, origin.0 % 1_000_000_000)?;
    let duration = census.duration().readable();
    writeln!(out, "duration  {duration}")?;
    let beside = [
        (info.topology.is_some(), "topology"),
        (info.affinity.is_some(), "affinity"),
        (!info.marks.is_empty(), "marks"),
    ];
    let beside: Vec<&str> = beside.into_iter().filter(|b| b.0).map(|b| b.1).collect();
    if !beside.is_empty() {
        writeln!(out, "beside    {}", beside.join(", "))?;
    }
    let lost = match (census.lost, census.losses_unknown) {
        (0, 0) => "none".to_owned(),
        (lost, 0) => format!("{lost} events"),
        (lost, places) => format!("{lost} events, and an unknown number at {places} places"),
    };
    writeln!(out, "lost      {lost}")?;
    writeln!(out, "events    {}", census.total())?;
    let room = crate::output::room();
    let mut events = TextTable::new(&["count", "<event", "<first"]);
    for (name, count) in census.events() {
        let first = census.examples.get(name).map_or("", String::as_str);
        let first = first.chars().take(EXAMPLE_MAX).collect();
        events.row(vec![count.to_string(), name.to_owned(), first]);
    }
    writeln!(out)?;
    for line in events.text(0, room).lines() {
        // A part of the arguments; --json has all.
        writeln!(out, "{}", line.chars().take(room).collect::<String>())?;
    }
    let mut cpus = TextTable::new(&["CPU", "events"]);
    for (cpu, names) in &census.per_cpu {
        cpus.row(vec![cpu.to_string(), names.values().sum::<u64>().to_string()]);
    }
    write!(out, "\n{}", cpus.text(0, room))?;
    out.flush()?;
    form::print_notes(source.warnings());
    Ok(())
}
