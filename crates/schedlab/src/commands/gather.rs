//! `schedlab gather`: the runs of all workers in one folder of results, with its report.

use schedlab_experiment::frozen::{Frozen, Gathered, gather};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab gather`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of `schedlab plan --freeze`, and copies of it from other machines
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Store results in DIR
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    output: PathBuf,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let frozen = Frozen::read(&args.folders[0])?;
    let results = args.output.join(&frozen.experiment.name);
    let told = gather_into(&frozen, &args.folders, &results)?;
    Ok(if told.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Gathers, says what there is, and writes the report.
pub(crate) fn gather_into(
    frozen: &Frozen,
    folders: &[PathBuf],
    results: &Path,
) -> anyhow::Result<Gathered> {
    let told = gather(folders, results)?;
    let mut stderr = crate::output::stderr();
    for error in &told.damaged {
        writeln!(stderr, "schedlab: a damaged run is left out: {error}")?;
    }
    writeln!(stderr, "schedlab: {} of {} runs are done", told.done, told.planned)?;
    for (machine, runs) in &told.machines {
        writeln!(stderr, "  {runs} on {machine}")?;
    }
    if told.twice > 0 {
        writeln!(stderr, "  {} were done twice and count once", told.twice)?;
    }
    if told.left_out > 0 {
        let what = "are of blocks that another machine did, and do not count";
        writeln!(stderr, "  {} {what}", told.left_out)?;
    }
    if told.done > 0 {
        super::run::conclude(&frozen.experiment, results, !told.is_whole())?;
    }
    Ok(told)
}
