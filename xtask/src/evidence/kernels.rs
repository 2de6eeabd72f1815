//! Results about kernels that are built here: what neutral code changes, a planted commit that is searched, and
//! one version beside another.
//!
//! Each kernel is measured from shifted starts. What the command printed is kept with a hash of each run.

use super::{keep_identity, read, write};
use crate::steps;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A chore gets the program and a folder for runs.
type Chore = fn(&Path, &Path) -> Result<()>;

/// The chores by name.
pub(super) const CHORES: [(&str, Chore); 6] = [
    ("counterfactuals", super::counterfactuals::run),
    ("reproducible", reproducible),
    ("placebos", placebos),
    ("bisect", bisect),
    ("versions", versions),
    ("sched-ext", sched_ext),
];

const HACKBENCH: &str = "hackbench -g 1 -f 10 -l 60";
const SCHBENCH: &str = "schbench -m 1 -t 4 -r 1 -w 0";

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

/// EEVDF and the schedulers of the kernel's source on one kernel with two CPUs.
fn sched_ext(program: &Path, results: &Path) -> Result<()> {
    let build = ["vm", "build", "linux-source-6.12", "--ext"];
    steps::run(Command::new(program).args(build))?;
    let above = results.parent().context("a folder of results")?;
    let mut command = Command::new(program);
    command.args(["run", "examples/sched-ext.toml", "--output"]).arg(above);
    steps::run(&mut command)?;
    super::keep_figures(above, "sched-ext")
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
    steps::run(Command::new(program).args(["vm", "build", "linux-source-6.12"]))?;
    let tree = results.with_file_name("history");
    if !tree.join(".git").is_dir() {
        history(&source("linux-source-6.12")?, &tree)?;
    }
    let log = output(git(&tree).args(["log", "--reverse", "--format=%h %s"]))?;
    let to = folder("bisect")?;
    write(&to.join("history.txt"), &log)?;
    let first = log.lines().next().and_then(|line| line.split(' ').next()).context("no commit")?;
    let tree = tree.to_string_lossy().into_owned();
    let how = ["--tree", &tree, "--workload", HACKBENCH, "--metric", "switches_involuntary"];
    let starts = ["--starts", "4", "--output"];
    let mut command = Command::new(program);
    command.args(["vm", "bisect", first, "HEAD", "--worse", "200%"]).args(how).args(starts);
    let found = output(command.arg(results))?;
    write(&to.join("found.txt"), &found)?;
    let planted = found.split(' ').next().unwrap_or_default();
    let before = format!("{planted}^");
    let sides = [&before, planted, "--choices", "--starts", "4"];
    compare(program, results, "bisect", &[&sides[..], &how].concat(), "choices.json")
}

/// Linux 6.1 beside 6.12 in the same configuration.
fn versions(program: &Path, results: &Path) -> Result<()> {
    for (name, workload) in [("hackbench", HACKBENCH), ("schbench", SCHBENCH)] {
        let metric = if name == "schbench" { "wakeup_latency_ns_p99" } else { "time_s" };
        let sides = ["linux-source-6.1", "linux-source-6.12", "--choices"];
        let how = ["--workload", workload, "--metric", metric];
        let words = [&sides[..], &how].concat();
        compare(program, results, "versions", &words, &format!("{name}.json"))?;
    }
    Ok(())
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

/// Where `schedlab vm build` keeps a package's source.
fn source(package: &str) -> Result<PathBuf> {
    Ok(cache()?.join("schedlab/builds").join(package).join(package))
}

/// The user's cache.
fn cache() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let Some(cache) = cache else { bail!("neither XDG_CACHE_HOME nor HOME is set") };
    Ok(cache)
}

/// git with names and times that are the same each time, so that commits are too.
fn git(tree: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(tree).args(["-c", "gc.auto=0", "-c", "core.autocrlf=false"]);
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "schedlab");
        command.env(format!("GIT_{who}_EMAIL"), "schedlab@example.org");
        command.env(format!("GIT_{who}_DATE"), "2024-01-01T00:00:00Z");
    }
    command
}

/// Makes the repository: the source as its first commit, and the patches in order.
fn history(source: &Path, tree: &Path) -> Result<()> {
    let mut copy = Command::new("cp");
    steps::run(copy.args(["--archive", "--reflink=auto"]).arg(source).arg(tree))?;
    steps::run(git(tree).args(["init", "--quiet"]))?;
    let commit = |subject: &str| {
        steps::run(git(tree).args(["add", "--all", "--force"]))?;
        steps::run(git(tree).args(["commit", "--quiet", "--message", subject]))
    };
    commit("Debian's linux-source-6.12")?;
    let entries = std::fs::read_dir("examples/bisect").context("examples/bisect")?;
    let mut patches: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    patches.sort();
    for patch in patches {
        let text = read(&patch)?;
        let path = std::fs::canonicalize(&patch).context(format!("{}", patch.display()))?;
        steps::run(git(tree).arg("apply").arg(path))?;
        commit(text.lines().next().context("a patch begins with its subject")?)?;
    }
    Ok(())
}
