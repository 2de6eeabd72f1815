//! `schedlab sim truth`: cells of a file, measured on the machine that the file names.

use crate::commands::observe::observe;
use crate::machines;
use anyhow::{Context as _, anyhow};
use schedlab_sim::validate::{Truth, comment};
use schedlab_workload::MachineName;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab sim truth`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fill the cells of this file; cells that have runs keep them
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Start each cell N times, at shifted phases of the tick
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=100))]
    starts: u32,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let place = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file).with_context(|| place.clone())?;
    let mut truth = Truth::read(&text).map_err(|why| anyhow!("{place}: {why}"))?;
    let name: MachineName =
        truth.measured_on.parse().map_err(|why: String| anyhow!("{place}: {why}"))?;
    let mut machine = machines::make(&name)?;
    let mut progress = crate::output::stderr();
    let cells = truth.cell.len();
    for at in 0..cells {
        let cell = &mut truth.cell[at];
        if cell.metrics.values().all(|runs| !runs.is_empty()) {
            continue;
        }
        cell.metrics.values_mut().for_each(Vec::clear);
        writeln!(progress, "cell {} of {cells}: {}", at + 1, cell.label)?;
        for repeat in 0..args.starts {
            let seen = observe(machine.as_mut(), &cell.spec(repeat), false)
                .with_context(|| format!("{place}: cell {} ({})", at + 1, cell.label))?;
            let values = cell.read(&seen).map_err(|why| anyhow!("{place}: {why}"))?;
            cell.add(&values);
        }
        // After each cell, so that the command can go on where it was stopped.
        std::fs::write(&args.file, truth.write(&comment(&text))).with_context(|| place.clone())?;
    }
    Ok(ExitCode::SUCCESS)
}
