//! The options of all commands that take an experiment file.

use schedlab_experiment::{Experiment, FileError, Machines};
use schedlab_workload::MachineName;
use std::path::{Path, PathBuf};

/// An experiment file, where its results go, and what does its runs.
#[derive(clap::Args)]
pub(crate) struct ExperimentOptions {
    /// The experiment file (docs/experiments.md, docs/tune.md)
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Store results in DIR; finished runs in it are not repeated
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    output: PathBuf,
    /// Do the runs on this machine instead of the one in the file
    #[arg(long, value_name = "MACHINE")]
    on: Option<MachineName>,
}

impl ExperimentOptions {
    /// The experiment, and the folder of its results.
    pub(crate) fn read(self, machines: &mut Machines<'_>) -> anyhow::Result<(Experiment, PathBuf)> {
        let mut experiment = read(&self.file)?;
        if let Some(machine) = self.on {
            // What is wrong with it is not the file's mistake.
            machines.get(&machine)?;
            experiment.put_on(machine);
        }
        let results = self.output.join(&experiment.name);
        Ok((experiment, results))
    }
}

/// Reads an experiment file; its mistakes are wrong usage, not failure.
fn read(path: &Path) -> anyhow::Result<Experiment> {
    Experiment::read(path).map_err(|error| match error {
        FileError::Wrong { .. } => super::UsageError(error.to_string()).into(),
        FileError::Read { .. } => error.into(),
    })
}
