//! Results about kernels that are built here: what neutral code changes, a planted commit that is searched, and
//! one version beside another.
//!
//! Each kernel is measured from shifted starts. What the command printed is kept with a hash of each run.

mod history;
mod planted;

use super::{keep_identity, write};
use crate::steps;
use anyhow::{Context, Result, bail, ensure};
use history::History;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A chore gets the program and a folder for runs.
type Chore = fn(&Path, &Path) -> Result<()>;

/// The chores by name.
pub(super) const CHORES: [(&str, Chore); 9] = [
    ("counterfactuals", super::counterfactuals::run),
    ("reproducible", reproducible),
    ("placebos", placebos),
    ("planted", planted::run),
    ("planted-schbench", planted::schbench),
    ("bisect", bisect),
    ("neutral", planted::neutral),
    ("versions", versions),
    ("sched-ext", sched_ext),
];

const HACKBENCH: &str = "hackbench -g 1 -f 10 -l 60";
/// Few tasks, so that situations of the scheduler come back.
const MIXED: &str = "mixed --tasks 4 --work 300us --sleep 500us --duration 300ms";
/// Small matrices, so that a run has some hundred requests.
const SCHBENCH: &str = "schbench -m 1 -t 4 -r 300ms -w 0 -F 8";

/// The same source built twice: in the cache of the user, and from nothing in another folder.
fn reproducible(program: &Path, results: &Path) -> Result<()> {
    const SOURCE: &str = "linux-source-6.1";
    const NAME: &str = "6.1-250hz-voluntary";
    let other = std::path::absolute(results.join("elsewhere"))?;
    if other.exists() {
        std::fs::remove_dir_all(&other).context(format!("{}", other.display()))?;
    }
    let mut sums = Vec::new();
    for folder in [cache()?, other.clone()] {
        let mut build = Command::new(program);
        build.args(["vm", "build", SOURCE]).env("XDG_CACHE_HOME", &folder);
        steps::run(&mut build)?;
        let made = folder.join("schedlab/kernels").join(NAME);
        let files = ["vmlinux", "config"];
        sums.push(output(Command::new("sha256sum").args(files).current_dir(made))?);
    }
    let compiler = output(Command::new("gcc").arg("--version"))?;
    let compiler = compiler.lines().next().unwrap_or_default();
    let text = format!(
        "{SOURCE} built by {compiler}\nin the user's cache:\n{}in another folder, from nothing:\n{}",
        sums[0], sums[1]
    );
    write(&folder("reproducible")?.join("sums.txt"), &text)?;
    std::fs::remove_dir_all(&other).context(format!("{}", other.display()))?;
    ensure!(sums[0] == sums[1], "two builds of one source differ:\n{text}");
    Ok(())
}

/// Schedulers of examples/sched-ext.toml.
const SCHEDULERS: [&str; 4] = ["scx_simple", "scx_qmap", "scx_flatcg", "scx_central"];

/// EEVDF and the schedulers of the kernel's source on one kernel with two CPUs. A run fails if its scheduler was
/// not on to the end; what a load tells of that is kept for each scheduler.
fn sched_ext(program: &Path, results: &Path) -> Result<()> {
    let build = ["vm", "build", "linux-source-6.12", "--ext"];
    steps::run(Command::new(program).args(build))?;
    let above = results.parent().context("a folder of results")?;
    let mut command = Command::new(program);
    command.args(["run", "examples/sched-ext.toml", "--output"]).arg(above);
    steps::run(&mut command)?;
    let mut told = String::new();
    for name in SCHEDULERS {
        let machine = format!("vm:kernel=6.12-250hz-voluntary-ext,cpus=2,qemu=debian,ext={name}");
        let mut load = Command::new(program);
        load.args(["load", "hackbench", "-g", "1", "-f", "4", "-l", "50", "--on", &machine]);
        let done = load.output().context(format!("{load:?}"))?;
        let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        let mut lines = said.lines().filter_map(|line| line.split_once("sched_ext: "));
        let (_, on) = lines.next().with_context(|| format!("{name} was not on: {said}"))?;
        let _ = writeln!(told, "{name}: {on}");
    }
    super::keep_figures(above, "sched-ext")?;
    write(&folder("sched-ext")?.join("on.txt"), &told)
}

/// Neutral kernels beside each other: the patch changes the placement on several CPUs, and the guest has one.
fn placebos(program: &Path, results: &Path) -> Result<()> {
    let patch = "examples/wake-affine/no-previous-idle.patch";
    let build = ["vm", "build", "linux-source-6.1", "--name", "6.1-no-previous-idle", "--patch"];
    steps::run(Command::new(program).args(build).arg(patch))?;
    let sides = ["linux-source-6.1", "6.1-no-previous-idle", "--starts", "4"];
    let words = [&sides[..], &["--workload", HACKBENCH]].concat();
    compare(program, results, "placebos", &words, "compare.json")
}

/// The commits of examples/bisect on Debian's 6.12. One of them makes wakeups preempt; the others change
/// generated code only.
fn bisect(program: &Path, results: &Path) -> Result<()> {
    let history = History::beside(results, program)?;
    let to = folder("bisect")?;
    write(&to.join("history.txt"), &history.log()?)?;
    let good = history.first()?;
    let how = ["--workload", HACKBENCH, "--metric", "time_s", "--starts", "4"];
    let mut command = Command::new(program);
    command.args(["vm", "bisect", &good, "HEAD", "--worse", "8%", "--tree"]).arg(history.path());
    let found = output(command.args(how).arg("--output").arg(results))?;
    write(&to.join("found.txt"), &found)?;
    let planted = found.split(' ').next().unwrap_or_default();
    // The search has built both. Commits before the planted one change generated code only, so placebos of the
    // good one are placebos of each.
    let before = history.kernel(&format!("{planted}^"), "")?;
    let after = history.kernel(planted, "")?;
    let placebos = history.placebos()?;
    let mut sides = sides(&before, &after, &placebos);
    sides.push("--choices");
    compare(program, results, "bisect", &[&sides, &how[..]].concat(), "hackbench.json")?;
    let few = ["--workload", MIXED, "--metric", "switches_involuntary", "--starts", "4"];
    compare(program, results, "bisect", &[&sides, &few[..]].concat(), "mixed.json")
}

/// Linux 6.1 beside 6.12 in the same configuration. The 6.12 is the first commit of the history.
fn versions(program: &Path, results: &Path) -> Result<()> {
    let (later, _, _) = History::beside(results, program)?.kernels(program)?;
    let loads = [
        ("hackbench", HACKBENCH, "time_s", "8"),
        ("schbench", SCHBENCH, "wakeup_latency_ns_p99", "4"),
    ];
    for (name, workload, metric, starts) in loads {
        let sides = ["linux-source-6.1", &later, "--choices", "--starts", starts];
        let how = ["--workload", workload, "--metric", metric];
        let words = [&sides[..], &how].concat();
        compare(program, results, "versions", &words, &format!("{name}.json"))?;
    }
    Ok(())
}

/// The words that name two kernels and the placebos of the first one.
fn sides<'a>(before: &'a str, after: &'a str, placebos: &'a [String]) -> Vec<&'a str> {
    let placebos = placebos.iter().flat_map(|name| ["--placebo", name]);
    [before, after].into_iter().chain(placebos).collect()
}

/// Runs `schedlab vm compare` and keeps what it printed.
fn compare(program: &Path, results: &Path, name: &str, words: &[&str], file: &str) -> Result<()> {
    let mut command = Command::new(program);
    command.args(["vm", "compare", "--json", "--output"]).arg(results).args(words);
    let text = output(&mut command)?;
    let to = folder(name)?;
    write(&to.join(file), &text)?;
    keep_identity(&results.join("runs"), &to)
}

fn folder(name: &str) -> Result<PathBuf> {
    let to = Path::new("examples/evidence").join(name);
    std::fs::create_dir_all(&to).context(format!("{}", to.display()))?;
    Ok(to)
}

/// What a command printed; what it told meanwhile goes to the terminal.
fn output(command: &mut Command) -> Result<String> {
    let done = command.stderr(Stdio::inherit()).output().context(format!("{command:?}"))?;
    ensure!(done.status.success(), "{command:?} failed");
    Ok(String::from_utf8(done.stdout)?)
}

/// The user's cache.
fn cache() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let Some(cache) = cache else { bail!("neither XDG_CACHE_HOME nor HOME is set") };
    Ok(cache)
}
