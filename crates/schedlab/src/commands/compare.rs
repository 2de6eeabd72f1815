//! `schedlab compare`: two sets of stored results, commands, or machines under one load, with a verdict for people
//! and for scripts.

mod choices;
mod commands;
mod difference;
mod export;
mod junit;
mod markdown;
mod sets;
mod sides;
mod summary;

use super::UsageError;
use super::result_file::{add_to_summary, check_place, save};
use super::run::known_metric;
use super::verdicts::{print_text, refuse_drift};
use crate::json;
use crate::output::{Width, folded};
use choices::Choices;
use commands::Measured;
use difference::Difference;
use export::Export;
use schedlab_experiment::analysis::{
    CompareOptions, Comparison, FailIf, Looks, Row, Verdict, compare,
};
use schedlab_experiment::report::answer;
use schedlab_experiment::{StoredRun, incomparable};
use schedlab_vm::DECISIONS_ONLY;
use schemars::JsonSchema;
use serde::Serialize;
use sides::Sides;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// `git bisect run` skips a commit that ends with this code.
const EXIT_CANT_TELL: u8 = 125;

const CODES: &str = "\
Examples:
  schedlab compare results/before results/after     two folders
  schedlab compare results/x                        two kernels (or hosts) in one folder
  schedlab compare results/x@6.11 results/x@6.12    two of its kernels
  schedlab compare -- 'make -j1' 'make -j8'         commands, in random order, until decided
  schedlab compare -- 'make -j8'                    one command: how long it takes
  schedlab compare -L j 1,2,4 -- 'make -j{j}'       the same with each value of a parameter
  schedlab compare --side sim --side sim,knob:latency=1ms -- hackbench -g 1
  schedlab compare --side vm:kernel=debian-6.1 --side vm:kernel=debian-6.12 -- hackbench -g 1

The primary metrics decide: those that --metric names, otherwise those of the registry
(docs/metrics.md). Large changes of other metrics are listed without a claim.

Exit codes: 1 if there is no verdict, since runs failed. With --fail-if: 0 the change is not there,
1 it is there, 125 the runs do not tell (git bisect run skips such a commit). All of the interval
must be on one side of the limit.";

/// Options of `schedlab compare`.
#[derive(clap::Args)]
#[command(after_help = CODES)]
pub(crate) struct Args {
    /// Folders of results: before, after; with --blocks, more pairs
    #[arg(
        required_unless_present = "commands",
        conflicts_with = "commands",
        value_name = "DIR[@PLACE]"
    )]
    folders: Vec<PathBuf>,
    /// Treat each pair of folders as a block (a boot, a day), and compare blocks instead of runs
    #[arg(long)]
    blocks: bool,
    /// Fail on a condition, such as 'time_s > +3%' (repeatable)
    #[arg(long = "fail-if", value_name = "CONDITION")]
    fail_if: Vec<FailIf>,
    /// Decide by this metric (repeatable) [default: the primary metrics]
    #[arg(long = "metric", visible_alias = "figure", value_name = "NAME")]
    metrics: Vec<String>,
    /// Count sides as equivalent within ±PERCENT [default: 5; for tails 10]
    #[arg(long, value_name = "PERCENT")]
    margin: Option<f64>,
    /// Do the runs of both folders again, in pairs of random order
    #[arg(long, conflicts_with_all = ["blocks", "commands"])]
    interleave: bool,
    /// Rank runs that failed behind all others, instead of giving no verdict beside them
    #[arg(long)]
    allow_failures: bool,
    /// Let --fail-if judge sides that did not run interleaved: a drift between them is then included
    #[arg(long)]
    allow_drift: bool,
    /// Print at most 10 lines of Markdown, for a pull request or a mailing list
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Add the Markdown to the summary of a job on GitHub
    #[arg(long)]
    github: bool,
    /// Write JUnit XML to FILE: one test for each metric and point
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
    #[command(flatten)]
    export: Export,
    #[command(flatten)]
    measured: Measured,
    #[command(flatten)]
    sides: Sides,
}

/// A set of runs with its name.
#[derive(Clone, Default)]
struct Set {
    name: String,
    /// What tells it from another set of the same name.
    path: String,
    runs: Vec<StoredRun>,
    looks: Looks,
    /// The metric that its experiment names first.
    measure: Option<String>,
    /// What `-L` and `-P` put into the command, by the name of the parameter.
    parameters: BTreeMap<String, String>,
}

impl Set {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// What was found between two sets.
struct Pair {
    before: String,
    after: String,
    comparisons: Vec<Comparison>,
    placebos: Vec<Placebo>,
    choices: Option<Choices>,
    difference: Option<Difference>,
}

/// A kernel that differs from that of the first set in neutral code.
#[derive(Serialize, JsonSchema)]
struct Placebo {
    kernel: String,
    /// What each start measured, by metric.
    values: BTreeMap<String, Vec<f64>>,
}

/// `schedlab compare --json`: a line for each pair of sets.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'c> {
    /// The first set.
    before: &'c str,
    /// The second set.
    after: &'c str,
    /// The answer in a sentence.
    answer: String,
    comparisons: &'c [Comparison],
    /// Kernels that differ from the first side in neutral code, where some were measured.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    placebos: &'c [Placebo],
    /// What both schedulers chose, where their choices were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    choices: Option<&'c Choices>,
    /// The first decision that both kernels do not share, where the simulated machine runs their own code.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<&'c Difference>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/compare/1";
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { folders, blocks, fail_if, metrics, margin, markdown, junit, json, .. } = args;
    let Args {
        allow_failures,
        allow_drift,
        measured,
        sides,
        interleave,
        github,
        export,
        width,
        ..
    } = args;
    let room = width.room();
    check_folders(&folders, interleave, blocks)?;
    let is_measured = !measured.commands.is_empty();
    junit.as_deref().map(check_place).transpose()?;
    export.check()?;
    if is_measured {
        check_metrics(&metrics, &fail_if)?;
    }
    let mut study = sides.study(&measured, &metrics)?;
    let question = |sets: &[Set], looks: &Looks| -> anyhow::Result<CompareOptions> {
        let asked = CompareOptions {
            allow_failures,
            interleaved: true,
            tests: sets.len() - 1,
            ..asked(sets, metrics.clone(), &fail_if, margin)?
        };
        Ok(CompareOptions { looks: looks.clone(), ..asked })
    };
    // A command alone has nothing to be compared with: three seconds or hundreds of runs show its time.
    let is_decided = |sets: &[Set], looks: &Looks| {
        let [first, others @ ..] = sets else { return Ok(true) };
        if others.is_empty() {
            return Ok(is_known(first));
        }
        let asked = question(sets, looks)?;
        let found = others.iter().flat_map(|after| pair(&[(first, after)], &asked).comparisons);
        Ok(found.into_iter().all(|comparison| comparison.verdict() != Verdict::Undecided))
    };
    let (sets, looks, stopped) = match &mut study {
        Some(study) => {
            let (sets, stopped) = study.sets(measured.warmup)?;
            (sets, Looks::default(), stopped)
        }
        None if is_measured => measured.sets(&is_decided)?,
        None if interleave => {
            let (sets, stopped) = sets::anew(&folders)?;
            (sets, Looks::default(), stopped)
        }
        None => (sets::of_folders(&folders)?, Looks::default(), false),
    };
    export.write(&sets)?;
    if let ([one], true) = (&sets[..], is_measured) {
        return tell_alone(one, github, stopped, room);
    }
    if let Some(why) = sets::of_different_hosts(&folders, &sets) {
        anyhow::bail!("cannot compare these results: {why}");
    }
    if let Some(why) = incomparable(sets.iter().flat_map(|set| &set.runs)) {
        anyhow::bail!("cannot compare these results: {why}");
    }
    let mut pairs: Vec<Pair> = match is_measured {
        true => {
            let asked = question(&sets, &looks)?;
            sets[1..].iter().map(|after| pair(&[(&sets[0], after)], &asked)).collect()
        }
        false => {
            let asked = asked(&sets, metrics, &fail_if, margin)?;
            let asked = CompareOptions { allow_failures, interleaved: interleave, ..asked };
            let blocks: Vec<(&Set, &Set)> = sets.chunks(2).map(|two| (&two[0], &two[1])).collect();
            vec![pair(&blocks, &asked)]
        }
    };
    if pairs.iter().any(|pair: &Pair| pair.comparisons.is_empty()) {
        anyhow::bail!("the two sets have no metric at a common point; is it the same experiment?");
    }
    if let Some(study) = study.as_mut().filter(|_| !stopped) {
        for (at, pair) in pairs.iter_mut().enumerate() {
            study.complete(at + 1, pair, [&sets[0], &sets[at + 1]])?;
        }
    }
    if !fail_if.is_empty() && !allow_drift {
        refuse_drift(pairs.iter().flat_map(|pair| &pair.comparisons))?;
    }
    print(&pairs, markdown, json, room)?;
    if is_measured {
        tell_warnings(&sets)?;
    }
    if github {
        add_to_summary(&markdown::markdown(&pairs))?;
    }
    let comparisons: Vec<Comparison> =
        pairs.into_iter().flat_map(|pair| pair.comparisons).collect();
    if let Some(path) = junit {
        save(&path, junit::junit(&comparisons, &fail_if))?;
    }
    if stopped {
        return Ok(ExitCode::from(super::run::EXIT_INTERRUPTED));
    }
    judge(&comparisons, &fail_if)
}

/// Whether a metric has each of the names that were given.
fn check_metrics(metrics: &[String], fail_if: &[FailIf]) -> anyhow::Result<()> {
    let conditions = fail_if.iter().map(|condition| ("--fail-if", &condition.metric));
    let mut named = metrics.iter().map(|name| ("--metric", name)).chain(conditions);
    named.try_for_each(|(option, name)| known_metric(option, name))
}

/// Whether as many folders were given as what is done with them needs.
fn check_folders(folders: &[PathBuf], interleave: bool, blocks: bool) -> Result<(), UsageError> {
    if interleave && folders.len() != 2 {
        return Err(UsageError("--interleave: give two folders".into()));
    }
    if folders.len() > 1 && (folders.len() % 2 == 1 || (folders.len() > 2 && !blocks)) {
        let what = "give two folders, before and after; or pairs of them with --blocks";
        return Err(UsageError(what.into()));
    }
    Ok(())
}

/// The warnings of runs that were done for this comparison, each kind with its count.
fn tell_warnings(sets: &[Set]) -> std::io::Result<()> {
    let runs: Vec<StoredRun> = sets.iter().flat_map(|set| &set.runs).cloned().collect();
    let warnings = answer::by_kind(&runs);
    if warnings.is_empty() {
        return Ok(());
    }
    writeln!(crate::output::stderr(), "schedlab: warnings: {}", warnings.join("; "))
}

/// Prints how long a command alone takes; with the exit code.
fn tell_alone(one: &Set, github: bool, stopped: bool, room: usize) -> anyhow::Result<ExitCode> {
    summary::print(one, room)?;
    if github {
        add_to_summary(&export::markdown_of(std::slice::from_ref(one)))?;
    }
    if stopped {
        return Ok(ExitCode::from(super::run::EXIT_INTERRUPTED));
    }
    let has_failed = one.runs.iter().any(|run| run.failure().is_some());
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Whether enough was seen of a command alone.
fn is_known(set: &Set) -> bool {
    let times: Vec<f64> = set.runs.iter().filter_map(|run| run.value("time_s")).collect();
    times.iter().sum::<f64>() > 3.0 || times.len() >= 300
}

/// Compares pairs of sets as blocks; the first pair gives the names.
fn pair(blocks: &[(&Set, &Set)], asked: &CompareOptions) -> Pair {
    let runs: Vec<(&[StoredRun], &[StoredRun])> =
        blocks.iter().map(|(before, after)| (&*before.runs, &*after.runs)).collect();
    let before = blocks[0].0.name.clone();
    let after = blocks[0].1.name.clone();
    let comparisons = compare(&runs, asked);
    Pair { before, after, comparisons, placebos: Vec::new(), choices: None, difference: None }
}

fn print(pairs: &[Pair], markdown: bool, json: bool, room: usize) -> anyhow::Result<()> {
    if json {
        for Pair { before, after, comparisons, placebos, choices, difference } in pairs {
            let answer = answer(comparisons, after);
            let choices = choices.as_ref();
            let difference = difference.as_ref();
            json::print(&Document {
                before,
                after,
                answer,
                comparisons,
                placebos,
                choices,
                difference,
            })?;
        }
    } else if markdown {
        crate::output::stdout().write_all(markdown::markdown(pairs).as_bytes())?;
    } else {
        for pair in pairs {
            print_text(&pair.comparisons, &pair.before, &pair.after, room)?;
            if let Some(difference) = &pair.difference {
                let text = difference.text([&pair.before, &pair.after]);
                crate::output::stdout().write_all(folded(&text, 2, room).as_bytes())?;
            }
            if let Some(choices) = &pair.choices {
                let sides = [&*pair.before, &*pair.after];
                choices.print(&mut crate::output::stdout(), sides, room)?;
            }
        }
    }
    Ok(())
}

/// The answers of all workloads.
fn answer(comparisons: &[Comparison], after: &str) -> String {
    let all: Vec<String> = comparisons.iter().map(|c| c.answer(after)).collect();
    all.join(" ")
}

fn asked(
    sets: &[Set],
    mut metrics: Vec<String>,
    fail_if: &[FailIf],
    margin: Option<f64>,
) -> anyhow::Result<CompareOptions> {
    if margin.is_some_and(|margin| !(margin > 0.0 && margin < 100.0)) {
        return Err(UsageError("--margin: give a percentage between 0 and 100".into()).into());
    }
    let conditions: Vec<String> = fail_if.iter().map(|c| c.metric.clone()).collect();
    for name in metrics.iter().chain(&conditions) {
        let has = |set: &Set| set.runs.iter().any(|r| r.value(name).is_some());
        // A side of which all runs failed measures nothing.
        let fails = |set: &Set| set.runs.iter().all(|run| run.failure().is_some());
        if !sets.iter().all(|set| has(set) || fails(set)) {
            let why = left_out(sets).map_or(String::new(), |why| format!(": {why}"));
            return Err(UsageError(format!("no metric '{name}' in both sets{why}")).into());
        }
    }
    if metrics.is_empty() {
        metrics.extend(sets[0].measure.clone());
    }
    let margin = margin.map(|percent| percent / 100.0);
    // Runs that were added to a side after a verdict on it.
    let looks = sets.iter().map(|set| &set.looks).max_by_key(|looks| looks.taken.len());
    let looks = looks.cloned().unwrap_or_default();
    Ok(CompareOptions { metrics, conditions, margin, looks, ..CompareOptions::default() })
}

/// Why a machine left metrics out of its runs, where one did.
fn left_out(sets: &[Set]) -> Option<String> {
    let mut warnings = sets.iter().flat_map(|set| &set.runs).flat_map(|run| &run.warnings);
    warnings.find(|one| one.code == DECISIONS_ONLY).map(ToString::to_string)
}

fn judge(comparisons: &[Comparison], conditions: &[FailIf]) -> anyhow::Result<ExitCode> {
    let mut stderr = crate::output::stderr();
    let has_verdict = |comparison: &Comparison| comparison.no_verdict.is_empty();
    let mut code = match comparisons.iter().all(has_verdict) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    };
    for condition in conditions {
        match condition.check(comparisons) {
            Some(false) => {}
            Some(true) => {
                writeln!(stderr, "schedlab: {} is beyond the limit", condition.metric)?;
                return Ok(ExitCode::FAILURE);
            }
            None => {
                let rows = comparisons.iter().flat_map(Comparison::rows);
                let more: Option<usize> = rows
                    .filter(|row| row.metric.name == condition.metric)
                    .filter_map(|row: &Row| row.more_runs.filter(|more| *more > 0))
                    .max();
                let hint = more.map_or(String::new(), |n| format!("; about {n} more a side would"));
                writeln!(stderr, "schedlab: {}: undecided{hint}", condition.metric)?;
                code = ExitCode::from(EXIT_CANT_TELL);
            }
        }
    }
    Ok(code)
}
