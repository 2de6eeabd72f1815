//! `schedlab cluster`: the runs of an experiment on several machines, without a server.
//!
//! A plan is frozen into a folder, workers do shards of it, and what they did is gathered into one report. Through ssh
//! and Slurm, one command does all of it.

mod slurm;
mod ssh;

use super::UsageError;
use super::experiment_options::ExperimentOptions;
use super::ssh::quoted;
use crate::machines;
use anyhow::Context as _;
use schedlab_experiment::frozen::{self, Frozen, Gathered};
use schedlab_experiment::{Experiment, Machines, Progress, Shard, machine_line};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab cluster`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  schedlab cluster plan x.toml --freeze frozen        write the runs into a folder
  schedlab cluster work frozen --shard 2/8            do the second of eight parts, on any machine
  schedlab cluster gather frozen                      collect the runs of all workers, and report
  schedlab cluster ssh --hosts a,b,root@c x.toml      all of it on hosts that ssh reaches
  schedlab cluster slurm x.toml                       an array of jobs, and a job that gathers

After a crash the same command goes on: it does not repeat finished runs.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Write the runs of an experiment into a folder, for workers on any machine
    Plan(ToFreeze),
    /// Do runs of a frozen plan on this machine
    Work(Work),
    /// Collect the runs of all workers into one report, and list the missing runs
    Gather(Gather),
    /// Do the runs on hosts through ssh, and report
    Ssh(ssh::Args),
    /// Do the runs as jobs of Slurm, and report
    Slurm(slurm::Args),
}

/// An experiment, and where its plan goes.
#[derive(clap::Args)]
struct ToFreeze {
    #[command(flatten)]
    asked: ExperimentOptions,
    /// Write the frozen plan to DIR [default: NAME.frozen next to the results]
    #[arg(long, value_name = "DIR")]
    freeze: Option<PathBuf>,
}

/// What was read of it.
struct Planned {
    experiment: Experiment,
    results: PathBuf,
    folder: PathBuf,
}

impl ToFreeze {
    fn read(self) -> anyhow::Result<Planned> {
        let (experiment, results) = self.asked.read(&mut Machines::made_by(&machines::make))?;
        let folder = self.freeze.unwrap_or_else(|| results.with_added_extension("frozen"));
        Ok(Planned { experiment, results, folder })
    }
}

impl Planned {
    fn freeze(&self) -> anyhow::Result<Frozen> {
        let frozen = Frozen::freeze(&self.experiment, &self.folder)?;
        let folder = self.folder.display();
        let runs = frozen.plan.runs.len();
        writeln!(crate::output::stderr(), "schedlab: {folder}: {runs} runs")?;
        Ok(frozen)
    }
}

#[derive(clap::Args)]
struct Work {
    /// The folder of a frozen plan
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Do part I of N; I starts at 1
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Name the folder of this worker's runs [default: the host name, and the shard]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(clap::Args)]
struct Gather {
    /// The folder of a frozen plan, and copies of it from other machines
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Store results in DIR
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    output: PathBuf,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Plan(plan) => plan.read()?.freeze().map(|_| ExitCode::SUCCESS),
        Action::Work(options) => work(options),
        Action::Gather(Gather { folders, output }) => {
            let frozen = Frozen::read(&folders[0])?;
            let results = output.join(&frozen.experiment.name);
            let told = gather(&frozen, &folders, &results)?;
            Ok(if told.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Action::Ssh(args) => ssh::run(args),
        Action::Slurm(args) => slurm::run(args),
    }
}

fn work(options: Work) -> anyhow::Result<ExitCode> {
    let Work { folder, shard, name } = options;
    let frozen = Frozen::read(&folder)?;
    let mut machines = Machines::made_by(&machines::make);
    super::run::check(&mut machines, &frozen.experiment, &frozen.plan)?;
    let mut stderr = crate::output::stderr();
    for name in frozen.experiment.machines() {
        writeln!(stderr, "{}", machine_line(&machines.get(&name)?.facts()))?;
    }
    let signals = schedlab_sys::signal::catch().context("catching Ctrl-C")?;
    let stop = || signals.caught().is_some();
    let mut told = BTreeSet::new();
    let mut tell = |progress: &Progress<'_>| super::run::tell(progress, &mut told);
    let asked = frozen::Work { shard, name };
    let tally = frozen::work(&mut machines, &frozen, &asked, &stop, &mut tell)?;
    super::run::tell_failures(&tally)?;
    let done = tally.done;
    let there = tally.skipped;
    writeln!(stderr, "schedlab: {done} runs done, {there} were there")?;
    Ok(super::run::exit_code(&tally))
}

/// Missing runs that are named.
const NAMED: usize = 10;

/// Gathers, says what there is and what is missing, and writes the report.
fn gather(frozen: &Frozen, folders: &[PathBuf], results: &Path) -> anyhow::Result<Gathered> {
    let told = frozen::gather(folders, results)?;
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
    for missing in told.missing.iter().take(NAMED) {
        writeln!(stderr, "  missing: {missing}")?;
    }
    if told.missing.len() > NAMED {
        writeln!(stderr, "  missing: {} more", told.missing.len() - NAMED)?;
    }
    if !told.is_whole() {
        writeln!(stderr, "schedlab: the command that did not end does the missing runs")?;
    }
    if told.done > 0 {
        super::run::conclude(&frozen.experiment, results, !told.is_whole(), crate::output::room())?;
    }
    Ok(told)
}
