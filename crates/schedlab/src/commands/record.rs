//! `schedlab record`.

use super::UsageError;
use anyhow::Context;
use schedlab_host::record::{
    Ended, Filter, Full, Marks, Options, Recorder, Snapshot, Summary, Via, stitch,
};
use schedlab_model::{Bytes, Nanos, Pid};
use schedlab_sys::{clock, process, signal};
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
  schedlab record --time 10s --size 100MiB --full overwrite
  schedlab record --snapshot 20ms --keep 200ms -- ./server
  trace-cmd report x.dat; kernelshark x.dat")]
pub(crate) struct Args {
    /// The trace to write
    #[arg(short, long, value_name = "FILE", default_value = "trace.dat")]
    output: PathBuf,
    /// Record these tracepoints as well: a system, or system:name
    #[arg(short, long = "event", value_name = "SYSTEM[:NAME]")]
    events: Vec<String>,
    /// Through which interface of the kernel
    #[arg(long, value_enum, default_value = "auto")]
    via: Interface,
    /// Memory for the ring of each CPU
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    ring: Bytes,
    /// Record only for this long; the command goes on
    #[arg(long, value_name = "DURATION")]
    time: Option<Nanos>,
    /// Record at most this much, over all CPUs
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// What happens at that size: stop, or let the oldest events give way
    #[arg(long, value_enum, default_value = "stop", requires = "size")]
    full: AtSize,
    /// Only events that concern these tasks (threads)
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',')]
    pids: Vec<i32>,
    /// The kernel's filter for one event, as in 'sched_switch: next_prio < 100'
    #[arg(long = "filter", value_name = "EVENT: EXPRESSION")]
    filters: Vec<Filter>,
    /// End when a task was runnable for this long without running, and keep what led to it
    #[arg(long, value_name = "DURATION", conflicts_with = "size")]
    snapshot: Option<Nanos>,
    /// How much of the time before a snapshot is kept
    #[arg(long, value_name = "DURATION", default_value = "100ms")]
    keep: Nanos,
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

#[derive(Clone, Copy, clap::ValueEnum)]
enum Interface {
    /// Perf events; ftrace where those are refused
    Auto,
    /// One ring of perf events for each CPU
    Perf,
    /// An ftrace instance
    Ftrace,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum AtSize {
    Stop,
    Overwrite,
}

/// Runs it.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = options(&args)?;
    let Args { output, salvage, json, command, time, .. } = args;
    if let Some(dir) = salvage {
        finish(&dir, &output, json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let signals = signal::catch()?;
    let recorder = Recorder::start(&options, &spool(&output))?;
    let watch = Watch { recorder: &recorder, signals, until: time.map(|t| clock::monotonic() + t) };
    let ended = match command.as_slice() {
        [] => watch.until_it_ends(),
        command => watch.during(command),
    };
    match (recorder.ended(), options.snapshot) {
        (Some(ended), _) => note(&why(ended)),
        (None, Some(asked)) => {
            note(&format!("no task waited for {}: the end is kept instead", asked.bound));
        }
        (None, None) => {}
    }
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

fn options(args: &Args) -> anyhow::Result<Options> {
    let usage = |what: &str| Err(anyhow::Error::new(UsageError(what.to_owned())));
    if args.size.is_some_and(|size| size.0 == 0) {
        return usage("--size 0: nothing would be recorded");
    }
    if args.snapshot.is_some_and(|bound| bound < Nanos::from_micros(100)) {
        return usage("--snapshot: a wait below 100us is no spike");
    }
    if args.pids.iter().any(|pid| *pid < 1) {
        return usage("--pid: a task's number is 1 or more");
    }
    Ok(Options {
        events: args.events.clone(),
        ring_bytes: args.ring.0,
        via: match args.via {
            Interface::Auto => Via::Auto,
            Interface::Perf => Via::Perf,
            Interface::Ftrace => Via::Ftrace,
        },
        pids: args.pids.iter().map(|pid| Pid(*pid)).collect(),
        filters: args.filters.clone(),
        limit_bytes: args.size.map(|size| size.0),
        full: match args.full {
            AtSize::Stop => Full::Stop,
            AtSize::Overwrite => Full::Overwrite,
        },
        snapshot: args.snapshot.map(|bound| Snapshot { bound, keep: args.keep }),
    })
}

/// The directory beside the output in which a recording grows.
fn spool(output: &Path) -> PathBuf {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".spool");
    output.with_file_name(name)
}

/// What is looked at while a recording runs.
struct Watch<'a> {
    recorder: &'a Recorder,
    signals: signal::Signals,
    /// When the recording ends by its time limit.
    until: Option<Nanos>,
}

/// How often a recording that may end by itself is looked at.
const LOOK: Nanos = Nanos::from_millis(50);

impl Watch<'_> {
    /// Whether the recording has come to its end; stops the events at the time limit.
    fn is_over(&self) -> bool {
        let late = self.until.is_some_and(|until| clock::monotonic() >= until);
        if late {
            self.recorder.pause();
        }
        late || self.recorder.ended().is_some()
    }

    fn until_it_ends(&self) -> anyhow::Result<i32> {
        note("recording; end with Ctrl-C");
        while self.signals.caught().is_none() && !self.is_over() {
            process::poll(&[self.signals.fd()], Some(LOOK))?;
        }
        Ok(0)
    }

    /// Runs the command to its end. Ctrl-C reaches it from the terminal as it reaches us; a signal
    /// that came to us alone is passed on.
    fn during(&self, command: &[String]) -> anyhow::Result<i32> {
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .spawn()
            .with_context(|| format!("can't run '{}'", command[0]))?;
        let ended = process::ended(&child)?;
        let mut passed = false;
        let mut over = false;
        loop {
            let fds = [ended.as_fd(), self.signals.fd()];
            let timeout = (!over).then_some(LOOK);
            let ready = process::poll(if passed { &fds[..1] } else { &fds }, timeout)?;
            over = over || self.is_over();
            if ready[0] {
                return Ok(process::exit_code(child.wait()?));
            }
            if let (Some(signal), false) = (self.signals.caught(), passed) {
                passed = true;
                if !(signal == 2 && std::io::stdin().is_terminal()) {
                    let _ = process::kill(Pid(child.id().cast_signed()), signal);
                }
            }
        }
    }
}

fn why(ended: Ended) -> String {
    match ended {
        Ended::Full => "the recording ended at its size limit".into(),
        Ended::Spike(spike) => {
            let end = if spike.cpu.is_some() { "" } else { ", and it still waits" };
            let name = process::comm(spike.pid);
            let name = name.map(|comm| {
                let text: Vec<u8> = comm.into_iter().take_while(|byte| *byte != 0).collect();
                format!(" ({})", String::from_utf8_lossy(&text))
            });
            let (pid, name) = (spike.pid, name.unwrap_or_default());
            format!("task {pid}{name} was runnable for {} without running{end}", spike.waited)
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
