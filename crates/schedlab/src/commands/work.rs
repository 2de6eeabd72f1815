//! `schedlab work`: some runs of a frozen plan, on this machine.

use super::UsageError;
use crate::machines;
use anyhow::Context as _;
use schedlab_experiment::frozen::{Frozen, Share, Work, WorkStep, work};
use schedlab_experiment::{Machines, machine_line};
use schedlab_model::Nanos;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab work`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  schedlab work frozen --shard 2/8           the second of eight parts, as in an array of jobs
  schedlab work frozen --claim               what no other worker does; several may work at once
  schedlab work frozen                       all runs: the machine becomes an axis of the report

The same command goes on after a crash. `schedlab gather frozen` writes the report.")]
pub(crate) struct Args {
    /// The folder of `schedlab plan --freeze`
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Do part I of N; I starts at 1
    #[arg(long, value_name = "I/N", value_parser = shard, conflicts_with = "claim")]
    shard: Option<Share>,
    /// Do runs that no other worker does, until all runs are done
    #[arg(long)]
    claim: bool,
    /// Take over a portion whose worker did not renew its claim for this time
    #[arg(long, value_name = "TIME", default_value = "10min", requires = "claim")]
    lease: Nanos,
    /// Name the folder of this worker's runs [default: the host name and a number]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

fn shard(text: &str) -> Result<Share, String> {
    let form = "write I/N, such as 2/8, with I from 1 to N";
    let (index, of) = text.split_once('/').ok_or(form)?;
    let (index, of): (usize, usize) = index.parse().ok().zip(of.parse().ok()).ok_or(form)?;
    if index == 0 || index > of {
        return Err(form.to_owned());
    }
    Ok(Share::Shard { index: index - 1, of })
}

/// Runs it.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { folder, shard, claim, lease, name } = args;
    if lease.0 == 0 {
        return Err(UsageError("--lease: give a time above zero".to_owned()).into());
    }
    let frozen = Frozen::read(&folder)?;
    let mut machines = Machines::made_by(&machines::make);
    super::run::check(&mut machines, &frozen.experiment, &frozen.plan)?;
    let mut stderr = crate::output::stderr();
    for name in frozen.experiment.machines() {
        writeln!(stderr, "{}", machine_line(&machines.get(&name)?.facts()))?;
    }
    let share = match (shard, claim) {
        (Some(shard), _) => shard,
        (None, true) => Share::Claim { lease: lease.as_duration() },
        (None, false) => Share::All,
    };
    let signals = schedlab_sys::signal::catch().context("catching Ctrl-C")?;
    let stop = || signals.caught().is_some();
    let mut told = BTreeSet::new();
    let mut tell = |step: &WorkStep<'_>| {
        let mut stderr = crate::output::stderr();
        let _ = match step {
            WorkStep::Takes { portion, of } => {
                writeln!(stderr, "portion {} of {of}", portion + 1)
            }
            WorkStep::Waits { portions } => {
                writeln!(stderr, "other workers do the {portions} portions that are left")
            }
            WorkStep::Run(progress) => {
                super::run::tell(progress, &mut told);
                Ok(())
            }
        };
    };
    let tally = work(&mut machines, &frozen, &Work { share, name }, &stop, &mut tell)?;
    for failure in &tally.failed {
        writeln!(stderr, "schedlab: failed: {failure}")?;
    }
    let (done, there) = (tally.done, tally.skipped);
    writeln!(stderr, "schedlab: {done} runs done, {there} were there")?;
    Ok(super::run::exit_code(&tally))
}
