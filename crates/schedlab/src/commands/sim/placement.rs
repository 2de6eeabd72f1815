//! `schedlab sim placement`: how well a model places the wakeups of a recording, beside naive rules.

use super::follow::{Follow, Recording};
use anyhow::bail;
use schedlab_sim::follow::{HISTORY_NS, Score};
use schedlab_workload::MachineName;
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
}

/// Wakeups below which a score says nothing.
const ENOUGH: u64 = 30;

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let file = args.file.display();
    let recording = Recording::read(&args.file)?;
    let mut scores = Vec::new();
    for sync in [true, false] {
        let follow = Follow { on: &args.on, settings: &[], sync };
        scores.push((sync, follow.follow(&recording)?.score));
    }
    let mut out = crate::output::stdout();
    let all = scores[0].1;
    writeln!(
        out,
        "Wakeups: {} counted. Not counted: {} in the first {} s, {} first wakeups, {} of tasks bound to a CPU, {} on \
         which the naive rules agree.",
        all.counted,
        all.early,
        HISTORY_NS / 1_000_000_000,
        all.new,
        all.bound,
        all.agreed
    )?;
    if all.counted < ENOUGH {
        bail!(
            "{file}: a score needs {ENOUGH} wakeups, and the trace holds {}: record more than a \
             second of a load with many wakeups on several CPUs",
            all.counted
        );
    }
    writeln!(out, "| | right | share |\n|---|---|---|")?;
    let share = |right: u64| 100.0 * right as f64 / all.counted as f64;
    let rules = ["previous CPU", "waker's CPU", "first idle CPU"];
    for (rule, right) in rules.iter().zip(all.naive) {
        writeln!(out, "| {rule} | {right} | {:.1} % |", share(right))?;
    }
    for (sync, score) in &scores {
        let how = if *sync { "all wakeups sync" } else { "none sync" };
        writeln!(out, "| model, {how} | {} | {:.1} % |", score.model, share(score.model))?;
    }
    for (sync, score) in &scores {
        let how = if *sync { "all wakeups sync" } else { "no wakeup sync" };
        writeln!(out, "Score with {how}: {}", value(score))?;
    }
    writeln!(
        out,
        "The score is (model - best naive) / (1 - best naive). A recording does not tell which wakeups are sync \
         (WF_SYNC)."
    )?;
    Ok(ExitCode::SUCCESS)
}

fn value(score: &Score) -> String {
    let none = || "none, since a naive rule is always right".to_owned();
    score.value().map_or_else(none, |value| format!("{value:.2}"))
}
