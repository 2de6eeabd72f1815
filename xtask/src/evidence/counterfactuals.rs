//! Predictions of `schedlab replay` against what a real kernel then did: loads are recorded in a guest under one setting,
//! predicted under others, and run under those too.
//!
//! Kept are a row for each pair and figure with the recorded, replayed, changed and true value, a hash of each trace, and
//! what the guests were. `crates/schedlab-replay/tests/counterfactuals.rs` computes skill and coverage from the rows.

use super::{folders, read, write};
use crate::steps;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Under what a load is run.
struct Setting {
    name: &'static str,
    kernel: &'static str,
    knobs: &'static [(&'static str, &'static str)],
}

const fn setting(
    name: &'static str,
    kernel: &'static str,
    knobs: &'static [(&'static str, &'static str)],
) -> Setting {
    Setting { name, kernel, knobs }
}

const SETTINGS: [Setting; 8] = [
    setting("base", "6.1", &[]),
    setting("wakeup-0.5ms", "6.1", &[("wakeup_granularity", "0.5ms")]),
    setting("wakeup-8ms", "6.1", &[("wakeup_granularity", "8ms")]),
    setting("min-8ms", "6.1", &[("min_granularity", "8ms")]),
    setting("latency-24ms", "6.1", &[("latency", "24ms")]),
    setting("eevdf", "6.12", &[]),
    setting("eevdf-3ms", "6.12", &[("base_slice", "3ms")]),
    setting("eevdf-12ms", "6.12", &[("base_slice", "12ms")]),
];

/// What 6.1 has on one CPU where nothing is set.
const DEFAULTS: [(&str, &str); 3] =
    [("wakeup_granularity", "1ms"), ("min_granularity", "0.75ms"), ("latency", "6ms")];

/// The loads: label, workload, options, and whether a task computes beside.
const LOADS: [(&str, &str, &str, bool); 5] = [
    ("mixed", "mixed", "tasks = 4, work = \"3ms\", sleep = \"8ms\", duration = \"800ms\"", true),
    (
        "schbench",
        "schbench",
        "message-threads = 1, threads = 3, runtime = \"700ms\", warmuptime = 0, operations = 2, \
         cache_footprint = \"32KiB\"",
        true,
    ),
    ("hackbench", "hackbench", "groups = 1, fds = 4, loops = 400, pipe = true", true),
    ("pingpong", "pingpong", "pairs = 3, duration = \"200ms\"", true),
    ("hackbench-alone", "hackbench", "groups = 1, fds = 4, loops = 400, pipe = true", false),
];

/// What is not judged at the begin of a run, in nanoseconds.
const WARM_UP: u64 = 20_000_000;

/// A run: its load and setting, and its trace.
type Runs = BTreeMap<(&'static str, usize), PathBuf>;

/// Runs the loads, predicts each from each recording on 6.1, and keeps the rows.
pub(super) fn run(program: &Path, results: &Path) -> Result<()> {
    std::fs::create_dir_all(results).context(format!("{}", results.display()))?;
    for setting in &SETTINGS {
        let file = results.join(format!("{}.toml", setting.name));
        write(&file, &experiment(setting))?;
        steps::run(Command::new(program).arg("run").arg(&file).arg("--output").arg(results))?;
    }
    let to = Path::new("examples/evidence/counterfactuals");
    std::fs::create_dir_all(to).context(format!("{}", to.display()))?;
    let runs = runs(results)?;
    identity(&runs, to)?;
    let mut rows = "load,from,to,figure,recorded,replayed,changed,truth\n".to_owned();
    for (load, ..) in LOADS {
        pairs(program, load, &runs, &mut rows)?;
    }
    write(&to.join("pairs.csv"), &rows)
}

fn experiment(setting: &Setting) -> String {
    let Setting { name, kernel, knobs } = setting;
    let mut text =
        format!("name = \"{name}\"\nmachine = \"vm:kernel=debian-{kernel}\"\nretries = 0\n");
    for (label, workload, options, is_beside) in LOADS {
        let _ = write!(
            text,
            "\n[[workload]]\nlabel = \"{label}\"\nname = \"{workload}\"\noptions = {{ {options} }}\n"
        );
        if is_beside {
            text.push_str(
                "[[workload.beside]]\nlabel = \"hog\"\nname = \"cpu\"\noptions = { duration = \"0\", nice = \"0\" }\n",
            );
        }
    }
    if !knobs.is_empty() {
        text.push_str("\n[knobs]\n");
        for (knob, value) in *knobs {
            let _ = writeln!(text, "{knob} = \"{value}\"");
        }
    }
    text + "\n[record]\nevents = [\"irq\"]\n"
}

/// The traces of all runs.
fn runs(results: &Path) -> Result<Runs> {
    let mut all = Runs::new();
    for (number, setting) in SETTINGS.iter().enumerate() {
        for folder in folders(&results.join(setting.name).join("runs"))? {
            let manifest: Value = serde_json::from_str(&read(&folder.join("manifest.json"))?)?;
            let label = manifest["workload"].as_str().unwrap_or_default();
            let load = LOADS.iter().map(|(load, ..)| *load).find(|load| *load == label);
            let load = load.with_context(|| format!("{}: unknown '{label}'", folder.display()))?;
            all.insert((load, number), folder.join("trace.dat"));
        }
    }
    Ok(all)
}

/// Predicts each run of a load from each other that was recorded on 6.1.
fn pairs(program: &Path, load: &'static str, runs: &Runs, rows: &mut String) -> Result<()> {
    let mut truths = Vec::new();
    for number in 0..SETTINGS.len() {
        let trace = runs.get(&(load, number)).context("a run without a trace")?;
        truths.push(figures(&replay(program, trace, None)?, "recorded"));
    }
    for (from, trace) in (0..).map_while(|from| Some((from, runs.get(&(load, from))?))) {
        if SETTINGS[from].kernel != "6.1" {
            continue;
        }
        // The trace does not hold its knobs: the replay under them is a changed replay too.
        let base = replay(program, trace, Some(&SETTINGS[from]))?;
        let (recorded, replayed) = (figures(&base, "recorded"), figures(&base, "changed"));
        for to in (0..SETTINGS.len()).filter(|to| *to != from) {
            let changed = figures(&replay(program, trace, Some(&SETTINGS[to]))?, "changed");
            for (at, (figure, truth)) in truths[to].iter().enumerate() {
                let values = [recorded[at].1, replayed[at].1, changed[at].1, *truth];
                let values = values.map(|value| format!("{value:.0}")).join(",");
                let (from, to) = (SETTINGS[from].name, SETTINGS[to].name);
                let _ = writeln!(rows, "{load},{from},{to},{figure},{values}");
            }
        }
    }
    Ok(())
}

/// Replays a trace, under a setting if one is given.
fn replay(program: &Path, trace: &Path, under: Option<&Setting>) -> Result<Value> {
    let mut command = Command::new(program);
    command.arg("replay").arg(trace).args(["--json", "--warm-up", &format!("{WARM_UP}ns")]);
    if let Some(setting) = under {
        let like = format!("sim:like={},costs=icount-6.1", trace.display());
        let is_old = setting.kernel == "6.1";
        let defaults = DEFAULTS.iter().filter(|_| is_old);
        let set: BTreeMap<&str, &str> = defaults.chain(setting.knobs).copied().collect();
        command.arg("--on").arg(if is_old { like } else { like + ",kernel=eevdf-6.12" });
        command.args(set.iter().map(|(knob, value)| format!("--set={knob}={value}")));
    }
    let done = command.stderr(Stdio::null()).output().context(format!("{command:?}"))?;
    ensure!(done.status.success(), "{command:?} failed");
    Ok(serde_json::from_slice(&done.stdout)?)
}

/// The figures of a run: run delays in nanoseconds, and context switches in a second.
fn figures(document: &Value, run: &str) -> [(&'static str, f64); 4] {
    let seconds = (document["duration_ns"].as_f64().unwrap_or(0.0) - WARM_UP as f64) / 1e9;
    let run = &document[run];
    let delay = |name: &str| run["run_delay"][name].as_f64().unwrap_or(0.0);
    [
        ("run_delay_mean", delay("sum_ns") / delay("count").max(1.0)),
        ("run_delay_p50", delay("p50_ns")),
        ("run_delay_p99", delay("p99_ns")),
        ("switches_per_s", run["switches"].as_f64().unwrap_or(0.0) / seconds),
    ]
}

/// Keeps a hash of each trace, and what the guests were.
fn identity(runs: &Runs, to: &Path) -> Result<()> {
    let (mut sums, mut identity) = (String::new(), Vec::<String>::new());
    for ((load, number), trace) in runs {
        let out = Command::new("sha256sum").arg(trace).output().context("sha256sum")?;
        let sum = String::from_utf8(out.stdout)?;
        let sum = sum.split(' ').next().unwrap_or_default();
        let _ = writeln!(sums, "{sum}  {load}/{}/trace.dat", SETTINGS[*number].name);
        let text = read(&trace.with_file_name("manifest.json"))?;
        let manifest: Value = serde_json::from_str(&text)?;
        for part in ["kernel", "command_line", "hypervisor"] {
            let line = format!("{part}: {}", manifest["place"][part]);
            if !identity.contains(&line) {
                identity.push(line);
            }
        }
    }
    write(&to.join("SHA256SUMS"), &sums)?;
    write(&to.join("identity.txt"), &(identity.join("\n") + "\n"))
}
