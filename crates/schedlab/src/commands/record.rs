//! `schedlab record`.

use schedlab_host::record::{Marks, Recorder, Summary, stitch};
use schedlab_model::Bytes;
use schedlab_sys::{process, signal};
use schedlab_workload::RecordSpec;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Options of `schedlab record`.
#[derive(clap::Args)]
#[command(after_help = "\
Without a command it records until Ctrl-C. The command's exit code is passed on.
  schedlab record -o x.dat -- hackbench -g 4 -l 1000
  schedlab record -o x.dat -e irq -e power:cpu_frequency -- make -j8
  trace-cmd report x.dat; kernelshark x.dat")]
pub(crate) struct Args {
    /// The trace to write
    #[arg(short, long, value_name = "FILE", default_value = "trace.dat")]
    output: PathBuf,
    /// Record these tracepoints as well: a system, or system:name
    #[arg(short, long = "event", value_name = "SYSTEM[:NAME]")]
    events: Vec<String>,
    /// Memory for the ring of each CPU
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    ring: Bytes,
    /// Write the trace of a recording that was killed, from the directory that it left
    #[arg(long, value_name = "DIR", conflicts_with_all = ["events", "command"])]
    salvage: Option<PathBuf>,
    /// Print what was recorded as JSON on stdout
    #[arg(long)]
    json: bool,
    /// Record while this command runs
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Runs it.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { output, events, ring, salvage, json, command } = args;
    if let Some(dir) = salvage {
        finish(&dir, &output, json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let signals = signal::catch()?;
    let recorder = Recorder::start(&RecordSpec { events, ring_bytes: ring.0 }, &spool(&output))?;
    let ended = match command.as_slice() {
        [] => until_signal(signals),
        command => during(command, signals),
    };
    // Whatever became of the command, what was recorded is kept.
    let dir = recorder.stop()?;
    finish(&dir, &output, json)?;
    let code = ended?;
    if signals.caught().is_some() && !command.is_empty() {
        note("interrupted: what was recorded until then is kept");
        return Ok(ExitCode::from(130));
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// The directory beside the output in which a recording grows.
fn spool(output: &Path) -> PathBuf {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".spool");
    output.with_file_name(name)
}

fn until_signal(signals: signal::Signals) -> anyhow::Result<i32> {
    note("recording; end with Ctrl-C");
    while signals.caught().is_none() {
        process::poll(&[signals.fd()], None)?;
    }
    Ok(0)
}

/// Runs the command to its end. Ctrl-C reaches it from the terminal as it reaches us; a signal that
/// came to us alone is passed on.
fn during(command: &[String], signals: signal::Signals) -> anyhow::Result<i32> {
    use anyhow::Context;
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .spawn()
        .with_context(|| format!("can't run '{}'", command[0]))?;
    let ended = process::ended(&child)?;
    let mut passed = false;
    loop {
        let fds = [ended.as_fd(), signals.fd()];
        let ready = process::poll(if passed { &fds[..1] } else { &fds }, None)?;
        if ready[0] {
            return Ok(process::exit_code(child.wait()?));
        }
        if let (Some(signal), false) = (signals.caught(), passed) {
            passed = true;
            if !(signal == 2 && std::io::stdin().is_terminal()) {
                let _ = process::kill(schedlab_model::Pid(child.id().cast_signed()), signal);
            }
        }
    }
}

/// Writes the trace, says what is in it, and removes the spool.
fn finish(dir: &Path, output: &Path, json: bool) -> anyhow::Result<()> {
    let summary = stitch(dir, output, &Marks::default())?;
    std::fs::remove_dir_all(dir)?;
    tell(&summary, output);
    if json {
        writeln!(std::io::stdout(), "{}", as_json(&summary, output))?;
    }
    Ok(())
}

fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "schedlab: {text}");
}

fn tell(summary: &Summary, output: &Path) {
    let events = summary.events();
    let total: u64 = events.values().sum();
    let size = std::fs::metadata(output).map_or(0, |data| data.len());
    let time = summary.span.map_or_else(String::new, |s| format!(" over {}", s.duration()));
    let cpus = summary.per_cpu.len();
    note(&format!("{}: {total} events of {cpus} CPUs{time}, {}", output.display(), Bytes(size)));
    let list: Vec<String> = events.iter().map(|(name, count)| format!("{name} {count}")).collect();
    note(&list.join(", "));
    match summary.lost_total() {
        0 => note("no event was lost"),
        _ => {
            let list: Vec<String> =
                summary.lost.iter().map(|(cpu, count)| format!("CPU {cpu} {count}")).collect();
            note(&format!("lost: {}", list.join(", ")));
        }
    }
    for warning in &summary.warnings {
        note(&format!("warning: {warning}"));
    }
}

fn as_json(summary: &Summary, output: &Path) -> serde_json::Value {
    let per_cpu: serde_json::Map<_, _> = summary
        .per_cpu
        .iter()
        .map(|(cpu, counts)| (cpu.to_string(), serde_json::json!(counts)))
        .collect();
    serde_json::json!({
        "schema": 1,
        "file": output.display().to_string(),
        "origin_ns": summary.span.map_or(0, |span| span.start.0).to_string(),
        "duration_ns": summary.span.map_or(0, |span| span.duration().0),
        "events": summary.events(),
        "per_cpu": per_cpu,
        "lost": summary.lost_total(),
        "warnings": summary.warnings,
    })
}
