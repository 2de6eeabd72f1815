//! `schedlab sim placement`: how well a model places the wakeups of a recording, beside naive rules.

use super::follow::{self, Follow, Recording};
use anyhow::bail;
use schedlab_sim::follow::{HISTORY_NS, Kind, Score};
use schedlab_workload::MachineName;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab sim placement`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A trace longer than a second, with sched_switch, sched_waking and sched_wakeup
    file: PathBuf,
    /// Use this simulated machine; it needs the CPUs of the recorded one
    #[arg(long, value_name = "MACHINE")]
    on: MachineName,
    /// List the wakeups that the model places elsewhere, a line each
    #[arg(long)]
    list: bool,
}

/// Wakeups below which a score says nothing.
const ENOUGH: u64 = 30;

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let file = args.file.display();
    let recording = Recording::read(&args.file)?;
    // Where the recording does not tell which wakeups are sync, there are two scores.
    let cases: &[(&str, bool)] = match recording.notes.tells_sync() {
        true => &[("sync as recorded", true)],
        false => &[("all wakeups sync", true), ("no wakeup sync", false)],
    };
    let (mut scores, mut elsewhere) = (Vec::new(), String::new());
    for &(how, sync) in cases {
        let follow = Follow { on: &args.on, settings: &[], sync };
        let mut comparison = follow.follow(&recording)?;
        if args.list {
            comparison.differences.retain(|of| of.kind == Kind::Placement);
            let all = follow::list(&comparison, &recording);
            let _ = write!(elsewhere, "Placed elsewhere with {how}:\n{all}");
        }
        scores.push((how, comparison.score));
    }
    let mut out = crate::output::stdout();
    let all = scores[0].1;
    writeln!(out, "{}", counted(&all))?;
    if all.counted < ENOUGH {
        bail!(
            "{file}: a score needs {ENOUGH} wakeups, and the trace holds {}: record more than a \
             second of a load with many wakeups on several CPUs",
            all.counted
        );
    }
    write!(out, "{}", table(&scores))?;
    writeln!(out, "The score is (model - best naive) / (1 - best naive).")?;
    if scores.len() > 1 {
        writeln!(out, "The recording does not tell which wakeups are sync (WF_SYNC).")?;
    }
    write!(out, "{elsewhere}")?;
    Ok(ExitCode::SUCCESS)
}

/// How many wakeups counted, and why others did not.
pub(super) fn counted(all: &Score) -> String {
    format!(
        "Wakeups: {} counted. Not counted: {} in the first {} s, {} first wakeups, {} of tasks bound to a CPU, {} on \
         which the naive rules agree, {} for which the kernel chose no CPU.",
        all.counted,
        all.early,
        HISTORY_NS / 1_000_000_000,
        all.new,
        all.bound,
        all.agreed,
        all.stayed
    )
}

/// How often each rule and the model are right, and the scores, by how wakeups are taken.
pub(super) fn table(scores: &[(&str, Score)]) -> String {
    let mut text = String::from("| | right | share |\n|---|---|---|\n");
    let Some((_, first)) = scores.first() else { return text };
    let share = |right: u64| 100.0 * right as f64 / first.counted.max(1) as f64;
    let rules = ["previous CPU", "waker's CPU", "first idle CPU"];
    for (rule, right) in rules.iter().zip(first.naive) {
        let _ = writeln!(text, "| {rule} | {right} | {:.1} % |", share(right));
    }
    for (how, score) in scores {
        let _ = writeln!(text, "| model, {how} | {} | {:.1} % |", score.model, share(score.model));
    }
    for (how, score) in scores {
        let _ = writeln!(text, "Score with {how}: {}", value(score));
    }
    text
}

fn value(score: &Score) -> String {
    let none = || "none, since a naive rule is always right".to_owned();
    score.value().map_or_else(none, |value| format!("{value:.2}"))
}
