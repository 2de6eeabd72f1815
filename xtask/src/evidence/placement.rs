//! Where the model of the simulated machine puts waking tasks, beside kernels on several CPUs.

use super::write;
use crate::steps;
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The kernels, and the models of them.
const KERNELS: [(&str, &str); 2] = [("6.1", "cfs-6.1"), ("6.12", "eevdf-6.12")];
/// The loads: CPUs, the load, its options, and whether they were recorded after the model was done.
const LOADS: [(u16, &str, &str, bool); 9] = [
    (4, "schbench", "message-threads=2 threads=4 runtime=4", false),
    (8, "schbench", "message-threads=2 threads=6 runtime=4", false),
    (4, "mixed", "tasks=6 work=2ms sleep=3ms duration=3s", false),
    (8, "mixed", "tasks=12 work=2ms sleep=3ms duration=3s", false),
    (8, "pingpong", "via=futex pairs=4 duration=2s", false),
    (8, "schbench", "message-threads=1 threads=9 runtime=4 sleep_usec=500", true),
    (6, "mixed", "tasks=7 work=600us sleep=1ms duration=3s", true),
    (8, "barrier", "tasks=10 work=1ms imbalance=40 duration=3s", true),
    (8, "hackbench", "groups=1 fds=3 loops=40000 pipe=true", true),
];

/// What a command said of a load.
struct Scored {
    counted: String,
    best: (String, String),
    model: String,
    score: String,
}

/// Records each load on each kernel, scores the model's placement, and keeps a table.
pub(super) fn run(program: &Path) -> Result<()> {
    let mut rows = format!(
        "Checkout of commit {}, seed 1 of each load; Debian's kernels in Debian's QEMU.\n\n\
         | kernel | CPUs | load | load is | wakeups counted | best naive rule | model | score |\n|---|---|---|---|---|---|---|---|\n",
        commit()?,
    );
    for (kernel, model) in KERNELS {
        for (cpus, load, options, is_held_back) in LOADS {
            let mut command = Command::new(program);
            command.args(["sim", "diff", load, "--against"]);
            command.arg(format!("vm:kernel=debian-{kernel},cpus={cpus},qemu=debian"));
            command.arg("--on").arg(format!("sim:kernel={model},cpus={cpus}"));
            for option in options.split(' ') {
                command.args(["-O", option]);
            }
            steps::say(&format!("== {command:?}"));
            let out = command.stderr(Stdio::inherit()).output().context("sim diff")?;
            // 1: a difference was found.
            ensure!(matches!(out.status.code(), Some(0 | 1)), "sim diff: {}", out.status);
            let told = String::from_utf8(out.stdout)?;
            let Scored { counted, best, model, score } =
                scored(&told).with_context(|| format!("no score in: {told}"))?;
            let known = if is_held_back { "held back" } else { "known" };
            let _ = writeln!(
                rows,
                "| {kernel} | {cpus} | {load} {options} | {known} | {counted} | {} ({}) | {model} | {score} |",
                best.1, best.0
            );
            let to = Path::new("examples/evidence/placement");
            std::fs::create_dir_all(to).context("examples/evidence/placement")?;
            write(&to.join("table.md"), &rows)?;
        }
    }
    Ok(())
}

/// The commit of the checkout.
fn commit() -> Result<String> {
    let out = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output().context("git")?;
    ensure!(out.status.success(), "git rev-parse: {}", out.status);
    Ok(String::from_utf8(out.stdout)?.trim().to_owned())
}

/// Reads the score that `sim diff` prints of a recording on several CPUs.
fn scored(told: &str) -> Option<Scored> {
    let number = told.lines().find_map(|line| line.strip_prefix("Wakeups: "))?;
    let counted = number.split(' ').next()?.to_owned();
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let shares: Vec<Vec<String>> =
        told.lines().filter(|line| line.ends_with(" % |")).map(cells).collect();
    let (model, rules) = shares.split_last()?;
    let right = |row: &&Vec<String>| row[1].parse::<u64>().unwrap_or(0);
    let best = rules.iter().max_by_key(right)?;
    let score = told.lines().find_map(|line| line.strip_prefix("Score with "))?;
    let score = score.split(": ").nth(1)?.to_owned();
    Some(Scored {
        counted,
        best: (best[0].clone(), best[2].clone()),
        model: model[2].clone(),
        score,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_read_from_what_the_command_prints() {
        let told = "Seed 1: mixed\n| decision | same | different | not compared |\n|---|---|---|---|\n\
            | placement | 80 | 3 | 5 |\nWakeups: 412 counted. Not counted: 552 in the first 1 s.\n\
            | | right | share |\n|---|---|---|\n| previous CPU | 355 | 86.2 % |\n\
            | waker's CPU | 342 | 83.0 % |\n| first idle CPU | 51 | 12.4 % |\n\
            | model, sync as recorded | 411 | 99.8 % |\nScore with sync as recorded: 0.98\n";
        let scored = scored(told).unwrap();
        assert_eq!(scored.counted, "412");
        assert_eq!(scored.best, ("previous CPU".to_owned(), "86.2 %".to_owned()));
        assert_eq!((scored.model.as_str(), scored.score.as_str()), ("99.8 %", "0.98"));
        assert!(super::scored("Seed 1: mixed\n").is_none());
    }
}
