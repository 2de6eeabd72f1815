//! `schedlab trace convert`: from any format to any other.

use crate::commands::UsageError;
use clap::ValueEnum;
use schedlab_trace::dat::{Compression, Version};
use schedlab_trace::{Target, convert};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab trace convert`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads
    from: PathBuf,
    /// What to write; its ending says the format (.dat .pftrace .csv .txt) unless --to does
    #[arg(value_name = "TO")]
    target: PathBuf,
    /// The format to write
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,
    /// Pack a trace.dat of version 7
    #[arg(long, value_name = "HOW")]
    compression: Option<Packing>,
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

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let target = target(args)?;
    let converted = convert(&args.from, &args.target, target)?;
    let mut err = io::stderr().lock();
    let how = if converted.untouched { "records, untouched" } else { "events" };
    writeln!(err, "{}: {} {how}", args.target.display(), converted.events)?;
    for warning in &converted.warnings {
        writeln!(err, "note: {warning}")?;
    }
    Ok(ExitCode::SUCCESS)
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
        Some(Format::Report) => Target::Report,
        None => Target::by_name(&args.target).ok_or_else(|| {
            UsageError(format!(
                "{}: its ending says no format: give --to, or one of .dat .pftrace .csv .txt",
                args.target.display()
            ))
        })?,
    };
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
        Target::Perfetto | Target::Csv | Target::Report => Version::V6,
    }
}
