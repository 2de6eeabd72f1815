//! Results of experiments that are the same wherever they are repeated: run them anew, and keep what
//! they measured beside the examples.
//!
//! Kept are the measured figures, the identity of the guest, and a hash of each run's figures. With the
//! same QEMU, kernel and schedlab binary a repetition gives the same files; `git diff` shows the rest.

use crate::release::static_program;
use crate::steps;
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

mod counterfactuals;
mod kernels;
mod needs;
mod placement;
mod prediction;
mod simulated;

/// The experiments, by the names of their files in examples/.
const EXPERIMENTS: [&str; 3] = ["two-knobs", "base-slice", "wake-affine"];
/// Their figures that are kept, of whole runs.
const FIGURES: [&str; 7] = [
    ",time_s,",
    ",switches_voluntary,",
    ",switches_involuntary,",
    ",trace_wakeups_left_idle_fraction,",
    ",trace_wakeups_previous_idle,",
    ",trace_migrations_wakeup,",
    ",trace_migrations,",
];
/// Kernels that the experiments boot and that are built, as arguments of `schedlab vm build`.
const KERNELS: [&[&str]; 2] = [
    &["linux-source-6.1"],
    &[
        "linux-source-6.1",
        "--patch",
        "examples/wake-affine/no-previous-idle.patch",
        "--name",
        "6.1-no-previous-idle",
    ],
];

/// Runs the experiments, or the one that is named, with a release build and keeps what they measured.
pub(crate) fn run(only: Option<&str>) -> Result<()> {
    let simulated = simulated::CHORES.iter().filter(|name| only.is_none_or(|only| only == **name));
    for name in simulated {
        simulated::run(name)?;
    }
    if only.is_some_and(|name| simulated::CHORES.contains(&name)) {
        return Ok(());
    }
    let is_kernels = |name: &str| kernels::CHORES.iter().any(|(chore, _)| *chore == name);
    if let Some(name) = only {
        let chores = kernels::CHORES.iter().map(|(name, _)| *name);
        let names: Vec<&str> =
            EXPERIMENTS.into_iter().chain(chores).chain(simulated::CHORES).collect();
        let names = names.join(", ");
        let is_known = EXPERIMENTS.contains(&name) || is_kernels(name);
        ensure!(is_known, "there is no evidence '{name}': use one of {names}");
    }
    for (name, _) in
        kernels::CHORES.iter().filter(|(name, _)| only.is_none_or(|only| only == *name))
    {
        needs::check(name)?;
    }
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let results = Path::new(&target).join("evidence");
    let program = release(Path::new(&target))?;
    for name in EXPERIMENTS.into_iter().filter(|name| only.is_none_or(|only| only == *name)) {
        if name == "wake-affine" {
            for kernel in KERNELS {
                steps::run(Command::new(&program).args(["vm", "build"]).args(kernel))?;
            }
        }
        let mut command = Command::new(&program);
        command.arg("run").arg(format!("examples/{name}.toml")).arg("--output").arg(&results);
        steps::run(&mut command)?;
    }
    let chores = kernels::CHORES.into_iter();
    for (name, chore) in chores.filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        steps::say(name);
        chore(&program, &results.join(name))?;
    }
    if only.is_none_or(|name| !is_kernels(name)) { keep(&results) } else { Ok(()) }
}

/// Does a step of the prediction on this machine: `record`, whose result is to be committed, or `measure`.
pub(crate) fn prediction(step: &str) -> Result<()> {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let program = release(Path::new(&target))?;
    prediction::run(step, &program, &Path::new(&target).join("evidence/prediction"))
}

/// Scores where the simulated machine puts waking tasks, beside recordings of kernels on several CPUs, and keeps the
/// table. It needs a QEMU that boots them, which it fetches.
pub(crate) fn placement() -> Result<()> {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let program = release(Path::new(&target))?;
    steps::run(Command::new(&program).args(["vm", "fetch", "qemu"]))?;
    placement::run(&program)
}

/// A build as it is shipped: the one that $SCHEDLAB_PROGRAM names, so that results of several chores are of one program, or
/// a new one.
fn release(target: &Path) -> Result<PathBuf> {
    if let Some(program) = std::env::var_os("SCHEDLAB_PROGRAM") {
        return needs::program(Path::new(&program));
    }
    steps::cargo(&["build", "--profile", "dist", "--locked", "-p", "schedlab"])?;
    Ok(target.join("dist/schedlab"))
}

/// Measures what busy loops on two CPUs share, by the test that asserts it, and writes the times. It needs
/// a QEMU that boots them: $SCHEDLAB_QEMU, qemu-system-x86_64, or Debian's, which it fetches.
pub(crate) fn two_loops() -> Result<()> {
    let test = ["test", "--locked", "-p", "schedlab", "--test", "all"];
    let words = [&test[..], &["two_loops", "--", "--nocapture"]].concat();
    steps::cargo_with(&words, &[("SCHEDLAB_EVIDENCE", "write")])
}

/// Kills sessions of `schedlab slow` at moments of chance, and prints how soon their changes were undone. For a quiet
/// machine.
pub(crate) fn kills(count: &str) -> Result<()> {
    ensure!(count.parse::<u32>().is_ok(), "'{count}' is no number of kills");
    let test = ["test", "--locked", "-p", "schedlab", "--test", "all"];
    let words = [&test[..], &["slow::kills", "--", "--nocapture"]].concat();
    steps::cargo_with(&words, &[("SCHEDLAB_KILLS", count)])
}

/// Builds the static program, and tests that it is a guest's init and that its runs are identical.
pub(crate) fn static_init() -> Result<()> {
    let program = std::path::absolute(static_program()?)?;
    let program = program.to_string_lossy();
    let test = ["test", "--locked", "-p", "schedlab", "--test", "all"];
    let words = [&test[..], &["a_static_program", "--", "--nocapture"]].concat();
    steps::cargo_with(&words, &[("SCHEDLAB_STATIC", &program)])
}

/// Simulates how often verdicts are wrong, and writes the tables into `docs/statistics.md`. Seeds are
/// fixed: any machine writes the same tables.
pub(crate) fn statistics() -> Result<()> {
    let test = ["test", "--release", "--locked", "-p", "schedlab-experiment"];
    let words = [&test[..], &["--test", "all", "calibration::", "--", "--nocapture"]].concat();
    steps::cargo_with(&words, &[("SCHEDLAB_EVIDENCE", "write")])
}

/// Searches functions whose optimum is known, beside random search and Optuna where that is installed, and
/// writes the table of `docs/tune.md`; then simulates 2,000 tunings of knobs that do nothing.
pub(crate) fn tune() -> Result<()> {
    let write = [("SCHEDLAB_EVIDENCE", "write")];
    let test = ["test", "--release", "--locked", "-p"];
    let searches = ["schedlab-tune", "--test", "all", "evidence::", "--", "--nocapture"];
    steps::cargo_with(&[&test[..], &searches].concat(), &write)?;
    let tunings = ["schedlab-experiment", "--lib", "--", "--nocapture", "tunings_of_dead_knobs"];
    steps::cargo_with(&[&test[..], &tunings].concat(), &write)
}

/// Keeps what stands in a folder of results.
pub(crate) fn keep(results: &Path) -> Result<()> {
    for name in EXPERIMENTS {
        if results.join(name).join("figures.csv").is_file() {
            keep_figures(results, name)?;
        } else {
            steps::say(&format!("MISSING: {name} in {}: not run to its end", results.display()));
        }
    }
    Ok(())
}

/// Keeps the figures of an experiment, what the guests were, and its curves.
fn keep_figures(results: &Path, name: &str) -> Result<()> {
    let from = results.join(name);
    let to = Path::new("examples/evidence").join(name);
    std::fs::create_dir_all(&to).context(format!("{}", to.display()))?;
    let figures = read(&from.join("figures.csv"))?;
    let is_kept =
        |line: &&str| FIGURES.iter().any(|figure| line.contains(figure)) && line.contains(",,");
    let mut kept: Vec<&str> = figures.lines().skip(1).filter(is_kept).collect();
    ensure!(!kept.is_empty(), "{}: no figures", from.display());
    kept.sort_unstable();
    let head = figures.lines().next().unwrap_or_default();
    write(&to.join("figures.csv"), &format!("{head}\n{}\n", kept.join("\n")))?;
    keep_identity(&from.join("runs"), &to)
}

/// Keeps a hash of each run's figures, and what the guests were.
fn keep_identity(runs: &Path, to: &Path) -> Result<()> {
    let runs = folders(runs)?;
    let mut sums = String::new();
    for run in &runs {
        let out = Command::new("sha256sum").arg("figures.jsonl").current_dir(run).output();
        let sum = String::from_utf8(out.context("sha256sum")?.stdout)?;
        let id = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let _ = writeln!(sums, "{}  {id}/figures.jsonl", sum.split(' ').next().unwrap_or_default());
    }
    write(&to.join("SHA256SUMS"), &sums)?;
    let is_identity = |line: &&str| {
        ["\"known\": \"QEMU emulator", "\"known\": \"console=", "\"release\": "]
            .iter()
            .any(|start| line.trim_start().starts_with(start))
    };
    let mut identity: Vec<String> = Vec::new();
    for run in &runs {
        let manifest = read(&run.join("manifest.json"))?;
        let lines = manifest.lines().map(str::trim).filter(is_identity).map(str::to_owned);
        let new: Vec<String> = lines.filter(|line| !identity.contains(line)).collect();
        identity.extend(new);
    }
    write(&to.join("identity.txt"), &(identity.join("\n") + "\n"))?;
    steps::say(&format!("{}: {} runs", to.display(), runs.len()));
    Ok(())
}

/// The folders in a folder, sorted.
fn folders(path: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(path).context(format!("{}", path.display()))?;
    let mut all: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    all.retain(|path| path.is_dir() && !path.to_string_lossy().contains("/."));
    all.sort();
    ensure!(!all.is_empty(), "{}: no runs", path.display());
    Ok(all)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).context(format!("{}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).context(format!("{}", path.display()))
}
