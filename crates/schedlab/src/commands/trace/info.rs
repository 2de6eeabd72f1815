//! `schedlab trace info`: what a file is and what it holds.

use anyhow::Context as _;
use schedlab_model::{Clock, EventSource, Nanos};
use schedlab_trace::{Census, Options};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab trace info`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads
    file: PathBuf,
    /// For machines
    #[arg(long)]
    json: bool,
}

/// Characters of an example that are shown.
const EXAMPLE_MAX: usize = 100;

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options { arguments: true, ..Options::default() };
    let mut source = schedlab_trace::open_with(&args.file, &options)?;
    let census = Census::of(source.as_mut())
        .with_context(|| format!("{} can't be read on", args.file.display()))?;
    let mut out = crate::output::stdout();
    if args.json {
        writeln!(out, "{:#}", machine(source.as_ref(), &census))?;
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

fn machine(source: &dyn EventSource, census: &Census) -> Value {
    let info = source.info();
    let origin = census.span.map_or(Nanos::ZERO, |span| span.start);
    let per_cpu: serde_json::Map<String, Value> =
        census.per_cpu.iter().map(|(cpu, names)| (cpu.to_string(), json!(names))).collect();
    json!({
        "schema": 1,
        "format": info.format,
        "clock": clock_name(&info.clock),
        "clock_is_time": !matches!(info.clock, Clock::Ticks(_)),
        "kernel": info.kernel,
        "cpus": info.cpus.len(),
        "cpu_list": info.cpus,
        "origin_ns": origin.0.to_string(),
        "duration_ns": census.duration().0,
        "events": census.events(),
        "per_cpu": per_cpu,
        "lost": census.lost,
        "losses_unknown": census.losses_unknown,
        "topology": info.topology.is_some(),
        "affinity": info.affinity.is_some(),
        "marks": info.marks,
        "examples": census.examples,
        "warnings": source.warnings(),
    })
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
    writeln!(out, "duration  {}", census.duration())?;
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
    for (name, count) in census.events() {
        match census.examples.get(name) {
            Some(arguments) => {
                // One line; --json has all of it.
                let text: String = arguments.chars().take(EXAMPLE_MAX).collect();
                writeln!(out, "  {count:>12}  {name:<24} first: {text}")?;
            }
            None => writeln!(out, "  {count:>12}  {name}")?,
        }
    }
    for (cpu, names) in &census.per_cpu {
        let total: u64 = names.values().sum();
        writeln!(out, "CPU {cpu:<5} {total:>12} events")?;
    }
    out.flush()?;
    for warning in source.warnings() {
        writeln!(crate::output::stderr(), "note: {warning}")?;
    }
    Ok(())
}
