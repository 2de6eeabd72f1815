//! `schedlab plan`: the runs of an experiment, shown, or frozen into a folder that several workers share.

use super::experiment_options::Asked;
use crate::machines;
use schedlab_experiment::frozen::Frozen;
use schedlab_experiment::{Experiment, Machines};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab plan`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  schedlab plan x.toml                       what `run` does, and how long it takes
  schedlab plan x.toml --freeze frozen       write the runs, for `work frozen` on any machine")]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,
    /// Write the runs to DIR, for `schedlab work`
    #[arg(long, value_name = "DIR")]
    freeze: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut machines = Machines::made_by(&machines::make);
    let (experiment, results) = args.asked.read(&mut machines)?;
    match args.freeze {
        None => super::run::show_plan(&mut machines, &experiment, &results)?,
        Some(folder) => drop(freeze(&experiment, &folder)?),
    }
    Ok(ExitCode::SUCCESS)
}

/// Freezes a plan and says so.
pub(crate) fn freeze(experiment: &Experiment, folder: &Path) -> anyhow::Result<Frozen> {
    // A machine that is not here may be elsewhere; workers ask theirs.
    let parallel = |name: &_| machines::make(name).is_ok_and(|machine| machine.offers().parallel);
    let frozen = Frozen::freeze(experiment, &parallel, folder)?;
    writeln!(
        crate::output::stderr(),
        "schedlab: {}: {} runs in {} portions",
        folder.display(),
        frozen.plan.runs.len(),
        frozen.portions.len()
    )?;
    Ok(frozen)
}
