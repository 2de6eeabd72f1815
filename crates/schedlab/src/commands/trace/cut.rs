//! `schedlab trace cut`: a part of a trace as a trace of its own.

use super::form;
use super::input::{self, Selection};
use crate::commands::UsageError;
use schedlab_model::{CpuSet, Nanos, Pid, Point, Span};
use schedlab_timeline::{Cut, EveryTask, ask_within};
use schedlab_trace::dat::{Compression, Version};
use schedlab_trace::{Part, cut};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab trace cut`.
#[derive(clap::Args)]
#[command(after_help = "\
The part is a trace.dat that trace-cmd and KernelShark open. It keeps formats, names of tasks,
topology, affinity and the kernel's name. Times stay those of the whole trace, so @12345.678 means
the same in both. The part also tells who ran and waited at its start, so a wait that began before
keeps its length: run times and run delays of parts add up to those of the whole trace.
--pid, --comm, --regex and --cgroup keep the events that name one of these tasks or that
fired while it ran.
Metrics of CPUs and of other tasks are then not valid, and schedlab warns about that.

Examples:
  schedlab trace cut x.dat part.dat --from 2s --to 2.5s
  schedlab trace cut x.dat part.dat --from @12345.6 --to @12345.7 --cpus 0-3
  schedlab trace cut x.dat part.dat --comm server --compress")]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads; - is stdin
    file: PathBuf,
    /// The trace.dat to write; - is stdout
    #[arg(value_name = "TO")]
    target: PathBuf,
    #[command(flatten)]
    bounds: Bounds,
    /// Write a trace.dat of version 7, compressed by Zstandard
    #[arg(long)]
    compress: bool,
}

/// Which part of a trace.
#[derive(clap::Args)]
pub(super) struct Bounds {
    /// Start here: time since the start of the trace (1.5s, 20ms), or time of its clock (@12345.678)
    #[arg(long, value_name = "TIME")]
    from: Option<Point>,
    /// End here, in the same form
    #[arg(long, value_name = "TIME")]
    to: Option<Point>,
    /// Use only events of these CPUs (0-3,8)
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    #[command(flatten)]
    selection: Selection,
}

/// A part of a trace whose bounds were looked up in it.
pub(super) struct Bounded {
    pub(super) part: Part,
    /// The first instant of the trace.
    pub(super) origin: Nanos,
    /// From when to when the part goes.
    pub(super) span: Span,
}

impl Bounds {
    /// Looks up what the bounds mean in `file`.
    pub(super) fn of(&self, file: &std::path::Path) -> anyhow::Result<Bounded> {
        let whole = input::span(file)?;
        let on_clock = |point: Point| whole.start + point.since(whole.start);
        let start = self.from.map_or(whole.start, on_clock);
        let end = self.to.map_or(whole.end, on_clock);
        let empty = start > whole.end || start >= end && self.to.is_some();
        if empty {
            let what = format!(
                "{}: the trace holds nothing between --from {} and --to {}: it goes from {} to {}",
                file.display(),
                Point::At(start),
                Point::At(end),
                Point::At(whole.start),
                Point::At(whole.end)
            );
            return Err(UsageError(what).into());
        }
        let span = Span::new(start, end.min(whole.end).max(start));
        let limited = self.from.is_some() || self.to.is_some();
        // Its last event is at the end of the trace.
        let kept = Span::new(start, self.to.map_or(Nanos(whole.end.0 + 1), on_clock));
        let at_start = if start > whole.start {
            // Events before the part show who runs and waits when it begins.
            let cut = Cut { from: None, to: Some(start - whole.start) };
            let mut source = schedlab_trace::open(file)?;
            Some(ask_within(&mut *source, cut, EveryTask)?.state.at_start())
        } else {
            None
        };
        let part = Part {
            span: limited.then_some(kept),
            cpus: self.cpus(file)?,
            tasks: self.tasks(file)?,
            at_start,
        };
        Ok(Bounded { part, origin: whole.start, span })
    }

    fn cpus(&self, file: &std::path::Path) -> anyhow::Result<Option<CpuSet>> {
        let Some(cpus) = &self.cpus else { return Ok(None) };
        let source = schedlab_trace::open(file)?;
        let known = &source.info().cpus;
        let unknown = cpus.iter().find(|cpu| !known.is_empty() && !known.contains(*cpu));
        match unknown {
            Some(cpu) => {
                let what =
                    format!("--cpus {cpus}: {} has no CPU {cpu}; it has {known}", file.display());
                Err(UsageError(what).into())
            }
            None => Ok(Some(cpus.clone())),
        }
    }

    fn tasks(&self, file: &std::path::Path) -> anyhow::Result<Option<BTreeSet<Pid>>> {
        let whole = input::Input::part_of(file, None, None);
        let found = self.selection.found(&whole.part, file)?;
        Ok(found.map(|(chosen, state)| {
            let tasks = state.tasks().filter(|(id, _)| chosen.has(*id));
            tasks.map(|(_, task)| task.pid).collect()
        }))
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Bounded { part, origin, span } = args.bounds.of(&args.file)?;
    if part.is_whole() {
        let what = "which part? Give --from, --to, --cpus, --pid, --comm, --regex or --cgroup";
        return Err(UsageError(what.into()).into());
    }
    super::convert::leave_nothing_when_interrupted()?;
    let (version, compression) = match args.compress {
        true => (Version::V7, Compression::Zstd),
        false => (Version::V6, Compression::None),
    };
    let cut = cut(&args.file, &args.target, version, compression, &part)?;
    let mut err = crate::output::stderr();
    let from = input::at(origin, span.start);
    let to = input::at(origin, span.end);
    writeln!(err, "{}: {} events from {from} to {to}", args.target.display(), cut.events)?;
    form::print_notes(&cut.warnings);
    Ok(ExitCode::SUCCESS)
}
