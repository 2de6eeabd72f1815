//! What pages of the documentation quote: results that are made anew by one chore each, and kept beside the examples.
//!
//! Of an experiment this keeps the measured metrics, the identity of its machines, and a hash of each run's metrics.
//! On a machine that repeats exactly, the same programs give the same files; `git diff` shows the rest.

use crate::steps;
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The metrics of whole runs that are kept.
const METRICS: [&str; 7] = [
    ",time_s,",
    ",switches_voluntary,",
    ",switches_involuntary,",
    ",trace_wakeups_left_idle_fraction,",
    ",trace_wakeups_previous_idle,",
    ",trace_migrations_wakeup,",
    ",trace_migrations,",
];
/// What a manifest says of a machine that repeats exactly.
const IDENTITY: [&str; 3] =
    ["\"known\": \"QEMU emulator", "\"known\": \"console=", "\"release\": "];

/// Runs `examples/NAME.toml` and keeps its metrics in `examples/evidence/NAME`. $SCHEDLAB_PROGRAM may name the program,
/// so that results of several experiments are of one program; otherwise a release is built.
pub(crate) fn run(name: &str) -> Result<()> {
    let experiment = format!("examples/{name}.toml");
    ensure!(
        Path::new(&experiment).is_file(),
        "{experiment} does not exist: name a file of examples/"
    );
    let target = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into()));
    let program = match std::env::var_os("SCHEDLAB_PROGRAM") {
        Some(program) => PathBuf::from(program),
        None => {
            steps::cargo(&["build", "--profile", "dist", "--locked", "-p", "schedlab"])?;
            target.join("dist/schedlab")
        }
    };
    let results = target.join("evidence");
    steps::run(Command::new(program).args(["run", &experiment, "--output"]).arg(&results))?;
    keep(&results.join(name), &Path::new("examples/evidence").join(name))
}

/// Kills sessions of `schedlab slow` at moments of chance, and prints how soon their changes were undone; then as many
/// times the other commands that start programs. For a quiet machine.
pub(crate) fn kills(count: &str) -> Result<()> {
    ensure!(count.parse::<u32>().is_ok(), "invalid number of kills '{count}'");
    let test = ["test", "--locked", "-p", "schedlab", "--test", "all"];
    let names = ["--", "--nocapture", "kills::"];
    let words = [&test[..], &names].concat();
    steps::cargo_with(&words, &[("SCHEDLAB_KILLS", count)])
}

/// Plants waits with known causes on this machine and in guests of two kernels with both versions of control groups, and
/// writes what was right into `examples/evidence/waits`.
pub(crate) fn waits() -> Result<()> {
    let folder = std::env::current_dir()?.join("examples/evidence/waits");
    std::fs::create_dir_all(&folder)?;
    let table = folder.join("table.txt");
    let _ = std::fs::remove_file(&table);
    let identity = identity(&[("qemu-system-x86_64", &["--version"])])?;
    write(&folder.join("identity.txt"), &identity)?;
    let table = table.to_str().context("the path of this tree is not UTF-8")?;
    let test = ["test", "--locked", "-p", "schedlab", "--features", "parquet", "--test", "all"];
    let words = [&test[..], &["planted_waits::", "--", "--test-threads", "1"]].concat();
    steps::cargo_with(&words, &[("SCHEDLAB_PLANTS", "all"), ("SCHEDLAB_PLANTS_TABLE", table)])
}

/// Records short programs with `perf sched record`, and keeps for how many tasks the worst wakeup latency is that of
/// `perf sched timehist`, and for how many commands that of `perf sched latency` is lower: README.md states these counts.
pub(crate) fn perf() -> Result<()> {
    let folder = std::env::current_dir()?.join("examples/evidence/perf");
    std::fs::create_dir_all(&folder)?;
    let counts = folder.join("counts.txt");
    let _ = std::fs::remove_file(&counts);
    let test = ["test", "--locked", "-p", "schedlab", "--features", "parquet", "--test", "all"];
    let name = "perf_agreement::the_worst_wakeup_latency";
    let kept = counts.to_str().context("the path of this tree is not UTF-8")?;
    let words = [&test[..], &[name, "--", "--nocapture"]].concat();
    steps::cargo_with(&words, &[("SCHEDLAB_AGREEMENT", kept)])?;
    ensure!(
        counts.is_file(),
        "nothing was counted: perf, or the right to record with it, is missing"
    );
    let identity = identity(&[("perf", &["--version"])])?;
    write(&folder.join("identity.txt"), &identity)
}

/// The commit, the machine and the first line that each of these programs says of itself.
fn identity(programs: &[(&str, &[&str])]) -> Result<String> {
    let told = |program: &str, words: &[&str]| -> Result<String> {
        let output = Command::new(program).args(words).output().context(program.to_owned())?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().next().unwrap_or_default().to_owned())
    };
    let commit = told("git", &["rev-parse", "HEAD"])?;
    let machine = told("uname", &["-srm"])?;
    let mut text = format!("commit {commit}\nmachine {machine}\n");
    for (program, words) in programs {
        text += &told(program, words)?;
        text.push('\n');
    }
    Ok(text)
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

/// Keeps the metrics of an experiment and what its machines were.
fn keep(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).context(format!("{}", to.display()))?;
    let all = read(&from.join("figures.csv"))?;
    let of_run = |line: &&str| line.contains(",,");
    let is_kept = |line: &&str| METRICS.iter().any(|metric| line.contains(metric));
    let mut kept: Vec<&str> = all.lines().skip(1).filter(of_run).filter(is_kept).collect();
    ensure!(!kept.is_empty(), "{}: no metrics", from.display());
    kept.sort_unstable();
    let head = all.lines().next().unwrap_or_default();
    write(&to.join("figures.csv"), &format!("{head}\n{}\n", kept.join("\n")))?;
    let mut sums = String::new();
    let mut identity = Vec::<String>::new();
    for run in folders(&from.join("runs"))? {
        let out = Command::new("sha256sum").arg("figures.jsonl").current_dir(&run).output();
        let sum = String::from_utf8(out.context("sha256sum")?.stdout)?;
        let id = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let _ = writeln!(sums, "{}  {id}/figures.jsonl", sum.split(' ').next().unwrap_or_default());
        for line in read(&run.join("manifest.json"))?.lines().map(str::trim) {
            let tells = IDENTITY.iter().any(|start| line.starts_with(start));
            if tells && !identity.iter().any(|known| known == line) {
                identity.push(line.to_owned());
            }
        }
    }
    write(&to.join("SHA256SUMS"), &sums)?;
    write(&to.join("identity.txt"), &(identity.join("\n") + "\n"))
}

/// The folders of runs, sorted.
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
