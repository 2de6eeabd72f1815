//! `schedlab submit`: an experiment on other machines, through ssh or Slurm.
//!
//! Both freeze the plan, have `schedlab work` do its portions elsewhere, and gather the runs.

mod slurm;
mod ssh;

use super::UsageError;
use super::experiment_options::Asked;
use crate::machines;
use anyhow::Context as _;
use schedlab_experiment::{Hosts, Machines, Plan};
use schedlab_workload::HOST;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab submit`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  schedlab submit --ssh a,b,root@c x.toml    copy the program, do the runs there, report
  schedlab submit --slurm x.toml --dry-run   the scripts for sbatch
  schedlab submit --slurm x.toml             an array of jobs, and a job that gathers after it

Ctrl-C, a lost host or a lost job lose no finished portion: the same command goes on.")]
#[command(group = clap::ArgGroup::new("where").required(true).args(["ssh", "slurm"]))]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,
    /// Do the runs on these hosts through ssh
    #[arg(long, value_name = "HOST,..", value_delimiter = ',')]
    ssh: Vec<String>,
    /// Do the runs as jobs of Slurm; all nodes must share the folders
    #[arg(long)]
    slurm: bool,
    /// Write the frozen plan to DIR [default: NAME.frozen next to the results]
    #[arg(long, value_name = "DIR")]
    freeze: Option<PathBuf>,
    /// Program that does the runs; a static one suits hosts with another C library [default: this one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Command that calls ssh, with options
    #[arg(long, value_name = "COMMAND", default_value = "ssh", conflicts_with = "slurm")]
    ssh_command: String,
    /// Option for sbatch, such as --sbatch=--partition=quiet (repeatable)
    #[arg(long, value_name = "OPTION", conflicts_with = "ssh")]
    sbatch: Vec<String>,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs it.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut machines = Machines::made_by(&machines::make);
    let (experiment, results) = args.asked.read(&mut machines)?;
    let measures = experiment.machines().iter().any(|machine| machine.kind == HOST);
    let shares = !measures || experiment.hosts == Hosts::Blocks;
    if args.slurm && !shares {
        let file = experiment.path.display();
        let what = format!(
            "{file}: nodes would share measurements of a plan that keeps hosts apart: write hosts = \"blocks\""
        );
        return Err(UsageError(what).into());
    }
    let folder = args.freeze.unwrap_or_else(|| results.with_added_extension("frozen"));
    if args.dry_run && !args.slurm {
        let (runs, hosts) = (Plan::new(&experiment).runs.len(), args.ssh.join(", "));
        let how = if shares { "shared by" } else { "each on all of" };
        writeln!(crate::output::stdout(), "{runs} runs, {how} {hosts}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run {
        let scratch = super::temporary_folder::Scratch::new("plan")?;
        let frozen = super::plan::freeze(&experiment, &scratch.path().join("frozen"))?;
        let job = slurm::Job { frozen: &frozen, folder: &folder, results: &results, measures };
        let scripts = job.scripts(&program(args.binary.as_deref())?)?;
        write!(crate::output::stdout(), "{}\n{}", scripts.0, scripts.1)?;
        return Ok(ExitCode::SUCCESS);
    }
    let frozen = super::plan::freeze(&experiment, &folder)?;
    if args.slurm {
        let job = slurm::Job { frozen: &frozen, folder: &folder, results: &results, measures };
        return job.submit(&program(args.binary.as_deref())?, &args.sbatch);
    }
    let binary = match args.binary {
        Some(binary) => binary,
        None => schedlab_sys::process::this_program().context("this program's file")?,
    };
    let whole = ssh::run(&frozen, &args.ssh, &args.ssh_command, &binary, shares)?;
    let told = super::gather::gather_into(&frozen, std::slice::from_ref(&folder), &results)?;
    Ok(match whole {
        ssh::Whole::Yes if told.is_whole() => ExitCode::SUCCESS,
        ssh::Whole::Stopped => ExitCode::from(super::run::EXIT_INTERRUPTED),
        _ => ExitCode::FAILURE,
    })
}

/// The path of the program that jobs start, as the nodes see it.
fn program(binary: Option<&Path>) -> anyhow::Result<PathBuf> {
    match binary {
        Some(path) => path.canonicalize().with_context(|| path.display().to_string()),
        None => std::env::current_exe().context("the path of this program"),
    }
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_is_one_word_of_a_shell() {
        for word in ["plain", "two words", "it's", "$HOME `x` \"y\"", "a\nb"] {
            let command = format!("printf %s {}", quoted(word));
            let out = std::process::Command::new("sh").args(["-c", &command]).output();
            assert_eq!(out.expect("there is a shell").stdout, word.as_bytes());
        }
    }
}
