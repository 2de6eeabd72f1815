//! `schedlab trace convert`: from any format to any other.

use super::form;
#[cfg(feature = "parquet")]
use super::intervals;
use crate::commands::UsageError;
use anyhow::Context as _;
use clap::ValueEnum;
use schedlab_trace::dat::{Compression, Version};
use schedlab_trace::{ConvertOptions, Converted, Target, TraceError, convert_with, tick_hz};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

/// Options of `schedlab trace convert`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads; - is stdin
    from: PathBuf,
    #[cfg_attr(
        feature = "parquet",
        doc = "The file to write; its suffix chooses the format (.dat .pftrace .csv .parquet .txt) unless --to\n\
               does; - is stdout"
    )]
    #[cfg_attr(
        not(feature = "parquet"),
        doc = "The file to write; its suffix chooses the format (.dat .pftrace .csv .txt) unless --to does; -\n\
               is stdout"
    )]
    #[arg(value_name = "TO")]
    target: PathBuf,
    /// Write this format
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,
    /// Compress a trace.dat of version 7
    #[arg(long, value_name = "HOW")]
    compression: Option<Packing>,
    /// Write this table only, as Parquet [default: events to TO, intervals next to it]
    #[arg(long, value_name = "TABLE")]
    #[cfg_attr(not(feature = "parquet"), arg(hide = true))]
    table: Option<Table>,
    /// In CSV, write names as they are, for programs: a spreadsheet may run them
    #[arg(long)]
    raw: bool,
    /// Take the clock's ticks for HZ a second, if the trace counts ticks; auto takes the rate from
    /// sched_stat_runtime events
    #[arg(long, value_name = "HZ|auto")]
    tick_hz: Option<TickHz>,
}

/// How many ticks a second a clock counts.
#[derive(Clone, Copy)]
enum TickHz {
    /// What the trace's events say.
    Auto,
    Told(NonZeroU64),
}

impl FromStr for TickHz {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => text.parse().map(Self::Told).map_err(|_| "give a whole number of Hz, or auto"),
        }
    }
}

impl Args {
    fn convert(&self, target: Target) -> Result<Converted, TraceError> {
        let mut options = ConvertOptions::default();
        options.names = Some(schedlab_record::names_here());
        options.tick_hz = match self.tick_hz {
            None => None,
            Some(TickHz::Told(hz)) => Some(hz),
            Some(TickHz::Auto) => {
                let hz = tick_hz(&self.from)?;
                let from = self.from.display();
                let _ = writeln!(crate::output::stderr(), "{from}: {hz} ticks a second");
                Some(hz)
            }
        };
        convert_with(&self.from, &self.target, target, &options)
    }
}

/// A table of a Parquet file.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Table {
    /// A row for each event, the columns of the CSV
    Events,
    /// A row for each interval in which a task ran or waited
    Intervals,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// trace.dat version 6: for every trace-cmd and KernelShark
    DatV6,
    /// trace.dat version 7
    DatV7,
    /// Perfetto protobuf: for ui.perfetto.dev
    Perfetto,
    /// A line for each event, for spreadsheets and scripts
    Csv,
    /// Tables with typed columns, for notebooks and databases
    #[cfg_attr(not(feature = "parquet"), value(hide = true))]
    Parquet,
    /// The text of `trace-cmd report`
    Report,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Packing {
    /// Not at all
    None,
    /// zlib
    Zlib,
    /// Zstandard
    Zstd,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let target = target(args)?;
    leave_nothing_when_interrupted()?;
    match (target, args.table) {
        (Target::Parquet, table) => tables(args, table)?,
        (_, Some(_)) => {
            return Err(UsageError("--table is for Parquet (--to parquet)".into()).into());
        }
        _ => report(&args.target, "events", &args.convert(target)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Ctrl-C ends a conversion at once, and takes the unfinished files with it.
pub(super) fn leave_nothing_when_interrupted() -> anyhow::Result<()> {
    let signals = schedlab_sys::signal::catch().context("catching Ctrl-C")?;
    let life = move || {
        while signals.caught().is_none() {
            let _ = schedlab_sys::process::poll(&[signals.fd()], None);
        }
        schedlab_trace::remove_unfinished();
        let _ = writeln!(crate::output::stderr(), "schedlab: interrupted: nothing was written");
        std::process::exit(130);
    };
    let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(life);
    thread
        .map_err(|error| schedlab_sys::process::thread_refused(&error))
        .context("waiting for Ctrl-C")?;
    Ok(())
}

/// Where the intervals go that stand beside the events of `target`.
#[cfg(feature = "parquet")]
fn intervals_of(target: &Path) -> PathBuf {
    target.with_extension("intervals.parquet")
}

/// Says what was written, and what was not.
fn report(path: &Path, what: &str, converted: &Converted) -> io::Result<()> {
    let mut err = crate::output::stderr();
    let how = if converted.untouched { "records, untouched" } else { what };
    writeln!(err, "{}: {} {how}", path.display(), converted.events)?;
    form::print_notes(&converted.warnings);
    Ok(())
}

#[cfg(feature = "parquet")]
fn tables(args: &Args, table: Option<Table>) -> anyhow::Result<()> {
    if args.tick_hz.is_some() && table != Some(Table::Events) {
        let what = "--tick-hz: intervals are written in ticks; use --table events";
        return Err(UsageError(what.to_owned()).into());
    }
    let mut events = None;
    if table != Some(Table::Intervals) {
        let written = events.insert(args.convert(Target::Parquet)?);
        report(&args.target, "events", written)?;
    }
    if table != Some(Table::Events) {
        let path = match table {
            Some(_) => args.target.clone(),
            None => intervals_of(&args.target),
        };
        let mut written = schedlab_trace::replace(&path, |part| {
            intervals::write(&args.from, part).map_err(|error| error.of(part, &path))
        })?;
        // What was said of the events need not be said again.
        let said = events.map_or_else(Vec::new, |events| events.warnings);
        written.warnings.retain(|warning| !said.contains(warning));
        report(&path, "intervals", &written)?;
    }
    Ok(())
}

#[cfg(not(feature = "parquet"))]
fn tables(_args: &Args, _table: Option<Table>) -> anyhow::Result<()> {
    anyhow::bail!(
        "cannot write Parquet: this schedlab was built without it; build it with `cargo build \
         --release --features parquet`, or convert to .csv"
    )
}

fn target(args: &Args) -> Result<Target, UsageError> {
    let packing = args.compression.map(|packing| match packing {
        Packing::None => Compression::None,
        Packing::Zlib => Compression::Zlib,
        Packing::Zstd => Compression::Zstd,
    });
    let packed = packing.is_some_and(|packing| packing != Compression::None);
    let target = match args.to {
        Some(Format::DatV6) => Target::Dat(Version::V6, Compression::None),
        Some(Format::DatV7) => Target::Dat(Version::V7, Compression::None),
        Some(Format::Perfetto) => Target::Perfetto,
        Some(Format::Csv) => Target::Csv,
        Some(Format::Parquet) => Target::Parquet,
        Some(Format::Report) => Target::Report,
        None => Target::by_name(&args.target).ok_or_else(|| {
            UsageError(format!(
                "{}: unknown format: give --to, or use the ending .dat, .pftrace, .csv, .parquet \
                 or .txt",
                args.target.display()
            ))
        })?,
    };
    let target = match (target, args.raw) {
        (Target::Csv, true) => Target::RawCsv,
        (_, true) => return Err(UsageError("--raw is for CSV (--to csv)".into())),
        _ => target,
    };
    if target == Target::Parquet && args.table.is_none() && args.target == Path::new("-") {
        let what = "standard output holds one table: choose it with --table";
        return Err(UsageError(what.into()));
    }
    match (target, packing) {
        // Packing asks for version 7, unless version 6 was asked for by name.
        (Target::Dat(..), Some(packing)) if !packed || args.to != Some(Format::DatV6) => {
            let version = if packed { Version::V7 } else { version(target) };
            Ok(Target::Dat(version, packing))
        }
        (_, Some(_)) if packed => {
            Err(UsageError("--compression is for trace.dat version 7 (--to dat-v7)".into()))
        }
        _ => Ok(target),
    }
}

fn version(target: Target) -> Version {
    match target {
        Target::Dat(version, _) => version,
        Target::Perfetto | Target::Csv | Target::RawCsv | Target::Parquet | Target::Report => {
            Version::V6
        }
    }
}
