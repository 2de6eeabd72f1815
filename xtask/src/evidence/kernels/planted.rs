//! A kernel with one planted line beside the same kernel and its placebos: which choice is shown as the cause. And
//! two placebos beside each other, where none may be.

use super::history::History;
use super::{HACKBENCH, MIXED, SCHBENCH, compare, folder, sides};
use crate::evidence::read;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;

/// The placebos that are compared with each other, by how many instructions they add.
const NEUTRAL: [usize; 2] = [3, 7];

/// Compares them with two loads. The mixed load has few tasks, so its situations come back.
pub(super) fn run(program: &Path, results: &Path) -> Result<()> {
    let (before, after, placebos) = History::beside(results, program)?.kernels(program)?;
    let picture = folder("planted")?.join("choice.svg");
    // One of an earlier run would pass for this one's.
    if picture.exists() {
        std::fs::remove_file(&picture).context(format!("{}", picture.display()))?;
    }
    let picture = picture.to_string_lossy();
    let loads =
        [("mixed", MIXED, "switches_involuntary", "8"), ("hackbench", HACKBENCH, "time_s", "4")];
    for (name, workload, metric, starts) in loads {
        let mut words = sides(&before, &after, &placebos);
        words.extend(["--choices", "--starts", starts, "--workload", workload, "--metric", metric]);
        if name == "mixed" {
            words.extend(["--draw", &picture]);
        }
        compare(program, results, "planted", &words, &format!("{name}.json"))?;
    }
    ensure!(Path::new(&*picture).is_file(), "no choice was shown as the cause with the mixed load");
    Ok(())
}

/// Compares them with schbench, where a wakeup that preempts is worth most.
pub(super) fn schbench(program: &Path, results: &Path) -> Result<()> {
    let (before, after, placebos) = History::beside(results, program)?.kernels(program)?;
    let mut words = sides(&before, &after, &placebos);
    words.extend(["--starts", "4", "--workload", SCHBENCH, "--metric", "wakeup_latency_ns_p99"]);
    compare(program, results, "planted-schbench", &words, "schbench.json")
}

/// Compares two placebos. The first commit and the other placebos are their placebos.
pub(super) fn neutral(program: &Path, results: &Path) -> Result<()> {
    let (first, _, mut others) = History::beside(results, program)?.kernels(program)?;
    let after = others.remove(NEUTRAL[1] - 1);
    let before = others.remove(NEUTRAL[0] - 1);
    others.push(first);
    let mut words = sides(&before, &after, &others);
    words.extend(["--choices", "--starts", "4"]);
    words.extend(["--workload", MIXED, "--metric", "switches_involuntary"]);
    compare(program, results, "neutral", &words, "mixed.json")?;
    let text = read(&folder("neutral")?.join("mixed.json"))?;
    let told: Value = serde_json::from_str(&text)?;
    ensure!(
        told["choices"]["first"].is_null(),
        "a choice of a neutral kernel was shown as a cause"
    );
    Ok(())
}
