//! `schedlab compare`: two sets of stored results, with a verdict for people and for scripts.

use super::UsageError;
use schedlab_experiment::analysis::{Comparison, FailIf, Verdict, compare};
use schedlab_experiment::report::{Table, readable, significant};
use schedlab_experiment::{Experiment, StoredRun, StoredRuns, boots};
use serde_json::json;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// `git bisect run` skips a commit that ends with this code.
const EXIT_CANT_TELL: u8 = 125;

const CODES: &str = "\
Exit codes with --fail-if: 0 the change surely is not there, 1 it surely is, 125 the runs can't tell
(git bisect run skips such a commit). Surely: the whole 95 % interval lies on one side.";

/// Options of `schedlab compare`.
#[derive(clap::Args)]
#[command(after_help = CODES)]
pub(crate) struct Args {
    /// Folders of results, before and after; with --blocks more pairs may follow
    #[arg(required = true, num_args = 2.., value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Each pair of folders is a block (a boot, a day): blocks are compared, not runs. Of two folders
    /// that hold several boots each, the boots are the blocks
    #[arg(long)]
    blocks: bool,
    /// A condition for scripts, such as 'time_s > +3%'; may be given more than once
    #[arg(long = "fail-if", value_name = "CONDITION")]
    fail_if: Vec<FailIf>,
    /// Figures to compare [default: all that have a better and a worse]
    #[arg(long = "figure", value_name = "NAME")]
    figures: Vec<String>,
    /// For machines: an object with `comparisons`
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { folders, blocks, fail_if, mut figures, json } = args;
    if folders.len() % 2 == 1 || (folders.len() > 2 && !blocks) {
        let what = "give two folders, before and after; or pairs of them with --blocks";
        return Err(UsageError(what.into()).into());
    }
    if !figures.is_empty() {
        figures.extend(fail_if.iter().map(|condition| condition.metric.clone()));
    }
    let stored: Vec<StoredRuns> =
        folders.iter().map(|f| super::report::stored(f)).collect::<Result<_, _>>()?;
    if figures.is_empty() {
        figures = measured(&stored[0], &fail_if);
    }
    for condition in &fail_if {
        let has = |set: &StoredRuns| set.runs.iter().any(|r| r.value(&condition.metric).is_some());
        if !stored.iter().all(has) {
            return Err(UsageError(format!("no figure '{}' in both sets", condition.metric)).into());
        }
    }
    let sets = match (&*stored, blocks) {
        ([before, after], true) => by_boot(before, after)?,
        _ => stored.into_iter().map(|found| found.runs).collect(),
    };
    let pairs: Vec<(&[StoredRun], &[StoredRun])> =
        sets.chunks(2).map(|pair| (&*pair[0], &*pair[1])).collect();
    let comparisons = compare(&pairs, &figures);
    if comparisons.is_empty() {
        anyhow::bail!("the two sets have no figure at a common point; is it the same experiment?");
    }
    if json {
        print_json(&comparisons)?;
    } else {
        print_text(&comparisons)?;
    }
    judge(&comparisons, &fail_if)
}

/// Two folders of several boots each, as pairs: the first boot of one beside the first of the other, and so on.
fn by_boot(before: &StoredRuns, after: &StoredRuns) -> anyhow::Result<Vec<Vec<StoredRun>>> {
    let of = |stored: &StoredRuns, boot: &String| -> Vec<StoredRun> {
        let same = |run: &&StoredRun| run.manifest.facts.boot.known() == Some(boot);
        stored.runs.iter().filter(same).cloned().collect()
    };
    let (first, second) = (boots(&before.runs), boots(&after.runs));
    if first.len().min(second.len()) < 2 {
        let what = format!(
            "--blocks with two folders compares boots, and there are {} and {}; give pairs of folders, or set 'boots' \
             in the experiment",
            first.len(),
            second.len()
        );
        return Err(UsageError(what).into());
    }
    if first.len() != second.len() {
        let what =
            format!("{} boots before, {} after: the rest is left out", first.len(), second.len());
        writeln!(crate::output::stderr(), "schedlab: {what}")?;
    }
    Ok(first.iter().zip(&second).flat_map(|(a, b)| [of(before, a), of(after, b)]).collect())
}

/// The figures that the experiment itself names, if any, and those of the conditions.
fn measured(stored: &StoredRuns, conditions: &[FailIf]) -> Vec<String> {
    let text = stored.experiment.as_deref().unwrap_or_default();
    let experiment = Experiment::parse(text, &stored.folder.join("experiment.toml"));
    let mut figures = experiment.map(|e| e.measure).unwrap_or_default();
    let asked: Vec<String> = conditions.iter().map(|c| c.metric.clone()).collect();
    figures.extend(asked);
    figures.dedup();
    figures
}

fn judge(comparisons: &[Comparison], conditions: &[FailIf]) -> anyhow::Result<ExitCode> {
    let mut stderr = crate::output::stderr();
    let mut code = ExitCode::SUCCESS;
    for condition in conditions {
        match condition.check(comparisons) {
            Some(false) => {}
            Some(true) => {
                writeln!(stderr, "schedlab: {} is beyond the limit", condition.metric)?;
                return Ok(ExitCode::FAILURE);
            }
            None => {
                let needed = comparisons
                    .iter()
                    .filter(|c| c.metric.name == condition.metric)
                    .filter_map(|c| c.runs_needed(condition.change))
                    .max();
                let hint = needed.map_or(String::new(), |n| format!("; about {n} runs each would"));
                writeln!(stderr, "schedlab: {}: the runs can't tell{hint}", condition.metric)?;
                code = ExitCode::from(EXIT_CANT_TELL);
            }
        }
    }
    Ok(code)
}

fn percent(change: f64) -> String {
    if change.is_finite() { format!("{:+.1} %", change * 100.0) } else { "?".into() }
}

pub(crate) fn print_text(comparisons: &[Comparison]) -> anyhow::Result<()> {
    let mut table = Table::new([
        "figure",
        "before",
        "after",
        "runs",
        "change",
        "95 %",
        "p",
        "shows from",
        "verdict",
    ]);
    for c in comparisons {
        let median = |values: &[f64]| {
            let sample = schedlab_stats::Sample::new(values.iter().copied());
            sample.map_or("-".into(), |s| readable(s.median(), c.metric.unit))
        };
        let point: Vec<String> =
            c.point.iter().map(|(axis, value)| format!(" {axis}={value}")).collect();
        let interval = match c.change.low.is_finite() && c.change.high.is_finite() {
            true => format!("{} .. {}", percent(c.change.low), percent(c.change.high)),
            false => "too few".into(),
        };
        table.row([
            format!("{} {}{}", c.workload, c.metric.name, point.concat()),
            median(&c.before),
            median(&c.after),
            format!("{}+{}", c.before.len(), c.after.len()),
            percent(c.change.estimate),
            interval,
            significant(c.p_corrected),
            c.detectable.map_or("-".into(), |d| format!("{:.1} %", d * 100.0)),
            c.verdict.to_string(),
        ]);
    }
    let mut out = crate::output::stdout();
    out.write_all(table.text().as_bytes())?;
    writeln!(out, "\n{}", summary(comparisons))?;
    Ok(())
}

/// The plain sentence.
fn summary(comparisons: &[Comparison]) -> String {
    let count = |verdict| comparisons.iter().filter(|c| c.verdict == verdict).count();
    let (better, worse) = (count(Verdict::Better), count(Verdict::Worse));
    let (few, all) = (count(Verdict::TooFew), comparisons.len());
    match (better, worse, few) {
        (_, _, few) if few == all => {
            "Too few runs: no difference, however large, could be shown (4 each at least).".into()
        }
        (0, 0, _) => "No difference is shown. 'shows from' is the least change that 8 of 10 such comparisons \
                      would have found; smaller ones may be there."
            .into(),
        _ => format!("Of {all} figures {better} are better and {worse} worse, corrected for their number (Holm)."),
    }
}

fn print_json(comparisons: &[Comparison]) -> anyhow::Result<()> {
    let finite = |v: f64| v.is_finite().then_some(v);
    let list: Vec<serde_json::Value> = comparisons
        .iter()
        .map(|c| {
            json!({
                "workload": c.workload, "point": c.point, "figure": c.metric.name,
                "before": c.before, "after": c.after,
                "change": c.change.estimate,
                "change_ci95": [finite(c.change.low), finite(c.change.high)],
                "p": c.test.p, "p_corrected": c.p_corrected, "cliffs_delta": c.delta,
                "detectable": c.detectable, "verdict": c.verdict.to_string(),
            })
        })
        .collect();
    let object = json!({ "schema": "schedlab-compare/1", "comparisons": list });
    writeln!(crate::output::stdout(), "{}", serde_json::to_string_pretty(&object)?)?;
    Ok(())
}
