//! A kernel with one planted line beside the same kernel and its placebos: which choice is shown as the cause.

use super::{HACKBENCH, MIXED, SCHBENCH, compare, folder};
use crate::steps;
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "linux-source-6.12";
/// The commit of examples/bisect that lets a woken task preempt a task with the same slice.
const PATCH: &str = "examples/bisect/06-a-shorter-slice-preempts.patch";
const NAME: &str = "6.12-a-shorter-slice-preempts";

/// Compares them with three loads. The mixed load has few tasks, so its situations come back.
pub(super) fn run(program: &Path, results: &Path) -> Result<()> {
    let build = ["vm", "build", SOURCE, "--name", NAME, "--patch", PATCH];
    steps::run(Command::new(program).args(build))?;
    let picture = folder("planted")?.join("choice.svg");
    let picture = picture.to_string_lossy();
    let loads = [
        ("mixed", MIXED, "switches_involuntary", "4"),
        ("hackbench", HACKBENCH, "time_s", "4"),
        ("schbench", SCHBENCH, "wakeup_latency_ns_p99", "4"),
    ];
    for (name, workload, metric, starts) in loads {
        let mut words = vec![SOURCE, NAME, "--choices", "--starts", starts];
        words.extend(["--workload", workload, "--metric", metric]);
        if name == "mixed" {
            words.extend(["--draw", &picture]);
        }
        compare(program, results, "planted", &words, &format!("{name}.json"))?;
    }
    ensure!(Path::new(&*picture).is_file(), "no choice was shown as the cause with the mixed load");
    Ok(())
}
