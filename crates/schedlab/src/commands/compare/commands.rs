//! Commands that are measured against each other.

use super::super::UsageError;
use super::super::rounds::{Cell, measure};
use super::super::temporary_folder::Folder;
use super::Set;
use crate::machines;
use schedlab_experiment::{Machines, StoredRun, missing_program};
use schedlab_workload::{MachineName, RunSpec, WorkloadSpec};
use std::path::PathBuf;

/// The label of commands as a workload.
const LABEL: &str = "command";

/// How commands are measured.
#[derive(clap::Args)]
pub(crate) struct Measured {
    /// Run each command, or the load on each side, N times
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, requires = "commands")]
    pub(super) runs: u32,
    /// Run each N times first, and do not count these runs
    #[arg(short, long, value_name = "N", default_value_t = 1, requires = "commands")]
    pub(super) warmup: u32,
    /// Replace {VAR} in the commands by each of the values (repeatable)
    #[arg(
        short = 'L',
        long = "parameter-list",
        num_args = 2,
        value_names = ["VAR", "VALUES"],
        requires = "commands"
    )]
    lists: Vec<String>,
    /// Replace {VAR} in the commands by each whole number from MIN to MAX
    #[arg(
        short = 'P',
        long = "parameter-scan",
        num_args = 3,
        value_names = ["VAR", "MIN", "MAX"],
        requires = "commands"
    )]
    scans: Vec<String>,
    /// Store results in DIR; finished runs in it are not repeated
    #[arg(short, long, value_name = "DIR", requires = "commands")]
    pub(super) output: Option<PathBuf>,
    /// Commands; each is compared with the first. A shell runs those that need one. With --side: a load,
    /// such as hackbench -g 1, or one command
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) commands: Vec<String>,
}

impl Measured {
    /// Measures the commands; a set of runs for each. The second value tells whether the user stopped.
    pub(super) fn sets(&self) -> anyhow::Result<(Vec<Set>, bool)> {
        let commands = self.expanded()?;
        if commands.len() < 2 {
            let what =
                "give two commands or more after --, or a parameter with two values (-L, -P)";
            return Err(UsageError(what.into()).into());
        }
        if let Some(what) = commands.iter().find_map(|command| missing_program(&argv(command))) {
            return Err(UsageError(what).into());
        }
        let folder = Folder::of(self.output.as_deref(), "compare")?;
        let mut machines = Machines::made_by(&machines::make);
        let cell = |command: &String| {
            let workload = WorkloadSpec::Command { argv: argv(command) };
            let spec = RunSpec { seed: 1, ..RunSpec::of(workload) };
            Cell { machine: MachineName::default(), spec }
        };
        let cells: Vec<Cell> = commands.iter().map(cell).collect();
        if self.warmup > 0 {
            // Caches fill by running; what that took is thrown away.
            let scratch = Folder::of(None, "warmup")?;
            measure(&mut machines, &cells, LABEL, self.warmup, scratch.path())?;
        }
        let (runs, stopped) = measure(&mut machines, &cells, LABEL, self.runs, folder.path())?;
        let set = |(command, runs): (&String, _)| Set { runs, ..Set::new(command) };
        let sets: Vec<Set> = commands.iter().zip(runs).map(set).collect();
        let fails = |set: &&Set| set.runs.iter().all(|run| run.failure().is_some());
        if let Some(failed) = sets.iter().find(fails).filter(|_| !stopped) {
            let why = failed.runs.iter().find_map(StoredRun::failure).unwrap_or_default();
            anyhow::bail!("'{}' fails: all of its runs failed: {why}", failed.name);
        }
        Ok((sets, stopped))
    }

    /// The commands with all values of all parameters put in, each once.
    fn expanded(&self) -> anyhow::Result<Vec<String>> {
        let mut commands = self.commands.clone();
        for (name, values) in self.parameters()? {
            let place = format!("{{{name}}}");
            if !commands.iter().any(|command| command.contains(&place)) {
                return Err(UsageError(format!("no command has {place} in it")).into());
            }
            let put = |command: &String| -> Vec<String> {
                match command.contains(&place) {
                    true => values.iter().map(|value| command.replace(&place, value)).collect(),
                    false => vec![command.clone()],
                }
            };
            commands = commands.iter().flat_map(put).collect();
        }
        let mut seen: Vec<String> = Vec::new();
        for command in commands {
            if seen.contains(&command) {
                return Err(UsageError(format!("'{command}' is given twice")).into());
            }
            seen.push(command);
        }
        Ok(seen)
    }

    fn parameters(&self) -> anyhow::Result<Vec<(String, Vec<String>)>> {
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        for pair in self.lists.chunks_exact(2) {
            let values = pair[1].split(',').map(str::to_owned).collect();
            all.push((pair[0].clone(), values));
        }
        for scan in self.scans.chunks_exact(3) {
            let number = |text: &String| {
                text.parse::<i64>().map_err(|_| {
                    UsageError(format!(
                        "-P {}: invalid value '{text}': use a whole number",
                        scan[0]
                    ))
                })
            };
            let (low, high) = (number(&scan[1])?, number(&scan[2])?);
            if high <= low || high.abs_diff(low) > 10_000 {
                let what = format!("-P {}: give MIN below MAX, at most 10,000 apart", scan[0]);
                return Err(UsageError(what).into());
            }
            all.push((scan[0].clone(), (low..=high).map(|n| n.to_string()).collect()));
        }
        Ok(all)
    }
}

/// Characters that only a shell understands.
const SHELL: &str = "|&;<>()$`\\\"'*?[]#~={}!\n";

/// The command as program and arguments; by the shell where it says something to the shell. Starting a
/// shell takes a millisecond that would be measured, too.
pub(super) fn argv(command: &str) -> Vec<String> {
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    match command.contains(|c: char| SHELL.contains(c)) || words.is_empty() {
        true => ["sh", "-c", command].map(str::to_owned).to_vec(),
        false => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_a_shell_gets_one() {
        assert_eq!(argv("make -j 4"), ["make", "-j", "4"]);
        assert_eq!(argv("sleep 1; true"), ["sh", "-c", "sleep 1; true"]);
        assert_eq!(argv("X=1 make"), ["sh", "-c", "X=1 make"]);
    }

    #[test]
    fn parameters_multiply_the_commands_that_hold_them() {
        let measured = |lists: &[&str], scans: &[&str], commands: &[&str]| Measured {
            runs: 1,
            warmup: 0,
            lists: lists.iter().map(|s| (*s).to_owned()).collect(),
            scans: scans.iter().map(|s| (*s).to_owned()).collect(),
            output: None,
            commands: commands.iter().map(|s| (*s).to_owned()).collect(),
        };
        let found = measured(&["c", "a,b"], &["n", "1", "3"], &["x {c} {n}", "y {n}"]);
        let found = found.expanded().unwrap();
        assert_eq!(found.len(), 9);
        assert_eq!((&*found[0], &*found[8]), ("x a 1", "y 3"));
        assert!(measured(&["z", "a,b"], &[], &["x"]).expanded().is_err());
        assert!(measured(&[], &["n", "3", "1"], &["x {n}"]).expanded().is_err());
        assert!(measured(&[], &[], &["x", "x"]).expanded().is_err());
    }
}
