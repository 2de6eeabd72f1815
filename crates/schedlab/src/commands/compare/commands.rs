//! Commands that are measured against each other.

use super::super::UsageError;
use super::super::rounds::{Cell, measure};
use super::super::temporary_folder::Folder;
use super::Set;
use crate::machines;
use schedlab_experiment::analysis::Looks;
use schedlab_experiment::{Hooks, Machines, StoredRun, missing_program};
use schedlab_model::Nanos;
use schedlab_sys::guard;
use schedlab_workload::{MachineName, RunSpec, WorkloadSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The label of commands as a workload.
const LABEL: &str = "command";
/// Runs of each command before the first look.
const ROUNDS: u32 = 10;
/// Looks at most, and runs of each command at most.
const LOOKS_MAX: usize = 6;
const ROUNDS_MAX: u32 = 1_000;

/// The rounds at each look: as many as the budget has room for, judged by the first ones, at equal ratios.
fn planned(took: Duration, rounds: u32, budget: Duration) -> Vec<u32> {
    let each = took.as_secs_f64() / f64::from(rounds);
    let most = (budget.as_secs_f64() / each.max(1e-6)).clamp(1.0, f64::from(ROUNDS_MAX)) as u32;
    let mut looks = vec![rounds];
    if most <= rounds {
        return looks;
    }
    let ratio = (f64::from(most) / f64::from(rounds)).max(1.5);
    let steps = (LOOKS_MAX - 1).min((f64::from(most) / f64::from(rounds)).log(1.5).ceil() as usize);
    looks.extend(
        (1..=steps).map(|step| {
            (f64::from(rounds) * ratio.powf(step as f64 / steps as f64)).round() as u32
        }),
    );
    looks.dedup();
    looks
}

/// Counts a run whose exit code was not 0 as any other.
fn forgive(run: &mut StoredRun) {
    if run.manifest.exit_code != 0 {
        run.manifest.exit_code = 0;
        run.manifest.failure = None;
    }
}

/// Runs a command by a shell; its failure ends the comparison.
fn by_shell(line: &str) -> anyhow::Result<()> {
    // What it starts in the background may hold its output open.
    let ended = guard::ended(Command::new("sh").args(["-c", line]).stdin(Stdio::null()))?;
    anyhow::ensure!(ended.status.success(), "'{line}' failed: {}", ended.status);
    Ok(())
}

/// A command with the values of its parameters put in.
#[derive(Clone)]
struct Expanded {
    text: String,
    parameters: BTreeMap<String, String>,
}

/// How commands are measured.
#[derive(clap::Args)]
pub(crate) struct Measured {
    /// Run each command, or the load on each side, N times [default: until decided, within --budget; sides 10]
    #[arg(short = 'n', long, value_name = "N", requires = "commands")]
    runs: Option<u32>,
    /// Stop measuring commands after this time, once each ran 10 times
    #[arg(long, value_name = "TIME", default_value = "60s", requires = "commands")]
    budget: Nanos,
    /// Run this command before each run, by a shell
    #[arg(short, long, value_name = "COMMAND", requires = "commands")]
    prepare: Option<String>,
    /// Run this command once before the first run, by a shell
    #[arg(long, value_name = "COMMAND", requires = "commands")]
    setup: Option<String>,
    /// Run this command once after the last run, by a shell
    #[arg(long, value_name = "COMMAND", requires = "commands")]
    cleanup: Option<String>,
    /// Run the commands by this shell; none: without one [default: sh, for those that need one]
    #[arg(short = 'S', long, value_name = "SHELL", requires = "commands")]
    shell: Option<String>,
    /// Count runs that end with another exit code than 0 as any other
    #[arg(short, long, requires = "commands")]
    ignore_failure: bool,
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
    /// Runs of the load on each side.
    pub(super) fn rounds(&self) -> u32 {
        self.runs.unwrap_or(ROUNDS)
    }

    /// The command as program and arguments.
    fn argv(&self, command: &str) -> Vec<String> {
        match self.shell.as_deref() {
            None => argv(command),
            Some("none") => command.split_whitespace().map(str::to_owned).collect(),
            Some(shell) => [shell, "-c", command].map(str::to_owned).to_vec(),
        }
    }

    /// Measures the commands; a set of runs for each, the looks at them, and whether the user stopped. Without a number
    /// of runs this goes on until `is_decided` says so, at most [`LOOKS_MAX`] times and within the budget.
    pub(super) fn sets(
        &self,
        is_decided: &dyn Fn(&[Set], &Looks) -> anyhow::Result<bool>,
    ) -> anyhow::Result<(Vec<Set>, Looks, bool)> {
        let commands = self.expanded()?;
        let argvs: Vec<Vec<String>> =
            commands.iter().map(|command| self.argv(&command.text)).collect();
        // What runs before may make the programs.
        let makes = self.setup.is_some() || self.prepare.is_some();
        if !makes && let Some(what) = argvs.iter().find_map(|argv| missing_program(argv)) {
            return Err(UsageError(what).into());
        }
        let folder = Folder::of(self.output.as_deref(), "compare")?;
        let mut machines = Machines::made_by(&machines::make);
        let before = self.prepare.iter().flat_map(|line| ["sh", "-c", line].map(str::to_owned));
        let hooks = Hooks { before: before.collect(), ..Hooks::default() };
        let cell = |argv: &Vec<String>| {
            let workload = WorkloadSpec::Command { argv: argv.clone() };
            let spec = RunSpec { seed: 1, ..RunSpec::of(workload) };
            Cell { machine: MachineName::default(), spec, hooks: hooks.clone() }
        };
        let cells: Vec<Cell> = argvs.iter().map(cell).collect();
        self.setup.as_deref().map(by_shell).transpose()?;
        if self.warmup > 0 {
            // Caches fill by running; what that took is thrown away.
            let scratch = Folder::of(None, "warmup")?;
            measure(&mut machines, &cells, LABEL, 0..self.warmup, scratch.path())?;
        }
        let mut looks = Looks::default();
        let mut rounds = self.rounds();
        let began = Instant::now();
        let (sets, stopped) = loop {
            let (mut runs, stopped) =
                measure(&mut machines, &cells, LABEL, 0..rounds, folder.path())?;
            if self.ignore_failure {
                runs.iter_mut().flatten().for_each(forgive);
            }
            let set = |(command, runs): (&Expanded, _)| {
                let parameters = command.parameters.clone();
                Set { runs, parameters, ..Set::new(&command.text) }
            };
            let sets: Vec<Set> = commands.iter().zip(runs).map(set).collect();
            if stopped || self.runs.is_some() {
                break (sets, stopped);
            }
            if looks.planned.is_empty() {
                looks.planned = planned(began.elapsed(), rounds, self.budget.as_duration());
            }
            looks.take(rounds);
            let next = looks.planned.get(looks.taken.len()).copied();
            match next.filter(|_| began.elapsed() < self.budget.as_duration()) {
                Some(next) if !is_decided(&sets, &looks)? => rounds = next,
                _ => break (sets, stopped),
            }
        };
        self.cleanup.as_deref().map(by_shell).transpose()?;
        let fails = |set: &&Set| set.runs.iter().all(|run| run.failure().is_some());
        if let Some(failed) = sets.iter().find(fails).filter(|_| !stopped) {
            let why = failed.runs.iter().find_map(StoredRun::failure).unwrap_or_default();
            anyhow::bail!("'{}' fails: all of its runs failed: {why}", failed.name);
        }
        Ok((sets, looks, stopped))
    }

    /// The commands with all values of all parameters put in, each once.
    fn expanded(&self) -> anyhow::Result<Vec<Expanded>> {
        let plain = |text: &String| Expanded { text: text.clone(), parameters: BTreeMap::new() };
        let mut commands: Vec<Expanded> = self.commands.iter().map(plain).collect();
        for (name, values) in self.parameters()? {
            let place = format!("{{{name}}}");
            if !commands.iter().any(|command| command.text.contains(&place)) {
                return Err(UsageError(format!("no command has {place} in it")).into());
            }
            let put = |command: &Expanded| -> Vec<Expanded> {
                let with = |value: &String| {
                    let mut one = command.clone();
                    one.text = one.text.replace(&place, value);
                    one.parameters.insert(name.clone(), value.clone());
                    one
                };
                match command.text.contains(&place) {
                    true => values.iter().map(with).collect(),
                    false => vec![command.clone()],
                }
            };
            commands = commands.iter().flat_map(put).collect();
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = commands.iter().find(|command| !seen.insert(&command.text)) {
            return Err(UsageError(format!("'{}' is given twice", twice.text)).into());
        }
        Ok(commands)
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
            let low = number(&scan[1])?;
            let high = number(&scan[2])?;
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
    fn fast_commands_run_hundreds_of_times_within_six_looks() {
        let second = Duration::from_secs(1);
        // A millisecond a round: as many as there may be.
        let fast = planned(second / 100, 10, 60 * second);
        assert_eq!((fast[0], fast.len(), *fast.last().unwrap()), (10, LOOKS_MAX, ROUNDS_MAX));
        assert!(fast.is_sorted());
        assert_eq!(planned(10 * second, 10, 60 * second).last(), Some(&60));
        // Too slow for more than the first rounds.
        assert_eq!(planned(100 * second, 10, 60 * second), [10]);
    }

    #[test]
    fn parameters_multiply_the_commands_that_hold_them() {
        let measured = |lists: &[&str], scans: &[&str], commands: &[&str]| Measured {
            runs: Some(1),
            budget: Nanos::from_secs(60),
            prepare: None,
            setup: None,
            cleanup: None,
            shell: None,
            ignore_failure: false,
            warmup: 0,
            lists: lists.iter().map(|s| (*s).to_owned()).collect(),
            scans: scans.iter().map(|s| (*s).to_owned()).collect(),
            output: None,
            commands: commands.iter().map(|s| (*s).to_owned()).collect(),
        };
        let found = measured(&["c", "a,b"], &["n", "1", "3"], &["x {c} {n}", "y {n}"]);
        let found = found.expanded().unwrap();
        assert_eq!(found.len(), 9);
        assert_eq!((&*found[0].text, &*found[8].text), ("x a 1", "y 3"));
        assert_eq!(found[0].parameters.len(), 2);
        assert_eq!(found[8].parameters["n"], "3");
        assert!(measured(&["z", "a,b"], &[], &["x"]).expanded().is_err());
        assert!(measured(&[], &["n", "3", "1"], &["x {n}"]).expanded().is_err());
        assert!(measured(&[], &[], &["x", "x"]).expanded().is_err());
    }
}
