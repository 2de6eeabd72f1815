//! Predictions of `schedlab replay` against what a real kernel then did: loads are recorded in a guest under one setting,
//! predicted under others, and run under those too. hackbench is also recorded with its calls; what is predicted from
//! that is compared with the runs without them, since calls cost time to record.
//!
//! Kept are a row for each pair and figure with the recorded, replayed, changed and true value, a hash of each trace, and
//! what the guests were. `crates/schedlab-replay/tests/all/counterfactuals.rs` computes skill and coverage from the rows.

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
    /// The nice value of the task that computes beside.
    nice: i32,
}

const fn setting(
    name: &'static str,
    kernel: &'static str,
    knobs: &'static [(&'static str, &'static str)],
) -> Setting {
    Setting { name, kernel, knobs, nice: 0 }
}

const fn nice(name: &'static str, kernel: &'static str, nice: i32) -> Setting {
    Setting { name, kernel, knobs: &[], nice }
}

const SETTINGS: [Setting; 11] = [
    setting("base", "6.1", &[]),
    setting("wakeup-0.5ms", "6.1", &[("wakeup_granularity", "0.5ms")]),
    setting("wakeup-8ms", "6.1", &[("wakeup_granularity", "8ms")]),
    setting("min-8ms", "6.1", &[("min_granularity", "8ms")]),
    setting("latency-24ms", "6.1", &[("latency", "24ms")]),
    setting("eevdf", "6.12", &[]),
    setting("eevdf-3ms", "6.12", &[("base_slice", "3ms")]),
    setting("eevdf-12ms", "6.12", &[("base_slice", "12ms")]),
    nice("nice-5", "6.1", 5),
    nice("nice-minus-5", "6.1", -5),
    nice("eevdf-nice-5", "6.12", 5),
];

/// The settings of recordings with calls: the first ones on 6.1.
const WITH_CALLS: usize = 3;
/// What the name of a load gets that is recorded with its calls, and that of its experiment.
const CALLS: &str = "-calls";
/// What a recorded call costs is measured where fewest tasks are switched: a load alone, under a setting.
const COST_OF_CALLS: (&str, usize) = ("hackbench-alone", 2);
/// The task that computes beside, as events name it.
const HOG: &str = "cpu";

/// What 6.1 has on one CPU where nothing is set.
const DEFAULTS: [(&str, &str); 3] =
    [("wakeup_granularity", "1ms"), ("min_granularity", "0.75ms"), ("latency", "6ms")];

/// The loads: label, workload, options, and whether a task computes beside.
const LOADS: [Load; 5] = [
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

/// A load that runs under a setting: the one alone does so under no other nice value.
fn is_run(load: &Load, setting: &Setting) -> bool {
    load.3 || setting.nice == 0
}

/// Label, workload, options, and whether a task computes beside.
type Load = (&'static str, &'static str, &'static str, bool);

/// A run: its load and setting, whether with its calls, and its trace.
type Runs = BTreeMap<(&'static str, usize, bool), PathBuf>;

/// Runs the loads, predicts each from each recording on 6.1, and keeps the rows.
pub(super) fn run(program: &Path, results: &Path) -> Result<()> {
    std::fs::create_dir_all(results).context(format!("{}", results.display()))?;
    let with_calls = SETTINGS[..WITH_CALLS].iter().map(|setting| (setting, true));
    for (setting, calls) in SETTINGS.iter().map(|setting| (setting, false)).chain(with_calls) {
        let file = results.join(format!("{}.toml", experiment_name(setting, calls)));
        write(&file, &experiment(setting, calls))?;
        steps::run(Command::new(program).arg("run").arg(&file).arg("--output").arg(results))?;
    }
    let to = Path::new("examples/evidence/counterfactuals");
    std::fs::create_dir_all(to).context(format!("{}", to.display()))?;
    let runs = runs(results)?;
    identity(&runs, to)?;
    let mut rows = "load,from,to,figure,recorded,replayed,changed,truth\n".to_owned();
    let cost = cost_of_calls(program, &runs)?;
    for load in &LOADS {
        pairs(program, (load, None), &runs, &mut rows)?;
    }
    for load in LOADS.iter().filter(|load| load.1 == "hackbench") {
        pairs(program, (load, Some(cost)), &runs, &mut rows)?;
    }
    write(&to.join("pairs.csv"), &rows)
}

fn experiment_name(setting: &Setting, calls: bool) -> String {
    setting.name.to_owned() + if calls { CALLS } else { "" }
}

fn experiment(setting: &Setting, calls: bool) -> String {
    let Setting { kernel, knobs, nice, .. } = setting;
    let name = experiment_name(setting, calls);
    let mut text =
        format!("name = \"{name}\"\nmachine = \"vm:kernel=debian-{kernel}\"\nretries = 0\n");
    let is_wanted = |load: &&Load| is_run(load, setting) && (!calls || load.1 == "hackbench");
    for (label, workload, options, is_beside) in LOADS.iter().filter(is_wanted) {
        let _ = write!(
            text,
            "\n[[workload]]\nlabel = \"{label}\"\nname = \"{workload}\"\noptions = {{ {options} }}\n"
        );
        if *is_beside {
            let _ = writeln!(
                text,
                "[[workload.beside]]\nlabel = \"hog\"\nname = \"cpu\"\noptions = {{ duration = \"0\", nice = \"{nice}\" }}"
            );
        }
    }
    if !knobs.is_empty() {
        text.push_str("\n[knobs]\n");
        for (knob, value) in *knobs {
            let _ = writeln!(text, "{knob} = \"{value}\"");
        }
    }
    let more = ["enter", "exit"]
        .iter()
        .flat_map(|edge| ["read", "write"].map(|call| format!("syscalls:sys_{edge}_{call}")));
    let events = std::iter::once("irq".to_owned()).chain(more.filter(|_| calls));
    let events: Vec<String> = events.map(|event| format!("\"{event}\"")).collect();
    text + &format!("\n[record]\nevents = [{}]\n", events.join(", "))
}

/// The traces of all runs.
fn runs(results: &Path) -> Result<Runs> {
    let mut all = Runs::new();
    let both = SETTINGS.iter().enumerate().flat_map(|(number, setting)| {
        let calls = [false, true].into_iter().filter(move |calls| !calls || number < WITH_CALLS);
        calls.map(move |calls| (number, setting, calls))
    });
    for (number, setting, calls) in both {
        for folder in folders(&results.join(experiment_name(setting, calls)).join("runs"))? {
            let manifest: Value = serde_json::from_str(&read(&folder.join("manifest.json"))?)?;
            let label = manifest["workload"].as_str().unwrap_or_default();
            let load = LOADS.iter().map(|(load, ..)| *load).find(|load| *load == label);
            let load = load.with_context(|| format!("{}: unknown '{label}'", folder.display()))?;
            all.insert((load, number, calls), folder.join("trace.dat"));
        }
    }
    Ok(all)
}

/// What it costs to record that a call begins or ends, in nanoseconds: by how much a load takes longer, over two events
/// for each call.
fn cost_of_calls(program: &Path, runs: &Runs) -> Result<u64> {
    let (load, setting) = COST_OF_CALLS;
    let told = |calls| -> Result<(u64, u64)> {
        let trace = runs.get(&(load, setting, calls)).context("a run without a trace")?;
        let document = replay(program, trace, None)?;
        let number = |name: &str| document[name].as_u64().unwrap_or(0);
        Ok((number("duration_ns"), number("calls")))
    };
    let ((without, _), (with, calls)) = (told(false)?, told(true)?);
    ensure!(calls > 0, "{load}: no call was recorded");
    let cost = with.saturating_sub(without) / (2 * calls);
    steps::say(&format!("recording a call's begin or end costs {cost} ns"));
    Ok(cost)
}

/// Predicts each run of a load from each other that was recorded on 6.1, or from those with calls of a known cost.
fn pairs(
    program: &Path,
    (load, cost): (&Load, Option<u64>),
    runs: &Runs,
    rows: &mut String,
) -> Result<()> {
    let (name, calls) = (load.0, cost.is_some());
    let mut truths = BTreeMap::new();
    for (number, _) in SETTINGS.iter().enumerate().filter(|(_, one)| is_run(load, one)) {
        let trace = runs.get(&(name, number, false)).context("a run without a trace")?;
        truths.insert(number, figures(&replay(program, trace, None)?, "recorded"));
    }
    let label = name.to_owned() + if calls { CALLS } else { "" };
    let of_load = runs.iter().filter(|((one, _, with), _)| *one == name && *with == calls);
    for ((_, from, _), trace) in of_load {
        if SETTINGS[*from].kernel != "6.1" {
            continue;
        }
        // The trace does not hold its knobs: the replay under them is a changed replay too.
        let base = replay(program, trace, Some((load, &SETTINGS[*from], cost)))?;
        let (recorded, replayed) = (figures(&base, "recorded"), figures(&base, "changed"));
        for (to, truth) in truths.iter().filter(|(to, _)| *to != from) {
            let changed = replay(program, trace, Some((load, &SETTINGS[*to], cost)))?;
            let changed = figures(&changed, "changed");
            for (at, (figure, truth)) in truth.iter().enumerate() {
                let values = [recorded[at].1, replayed[at].1, changed[at].1, *truth];
                let values = values.map(|value| format!("{value:.0}")).join(",");
                let (from, to) = (SETTINGS[*from].name, SETTINGS[*to].name);
                let _ = writeln!(rows, "{label},{from},{to},{figure},{values}");
            }
        }
    }
    Ok(())
}

/// Under what a load is replayed, and what it cost to record its calls.
type Under<'u> = (&'u Load, &'u Setting, Option<u64>);

/// Replays a trace, under a setting if one is given.
fn replay(program: &Path, trace: &Path, under: Option<Under<'_>>) -> Result<Value> {
    let mut command = Command::new(program);
    command.arg("replay").arg(trace).args(["--json", "--warm-up", &format!("{WARM_UP}ns")]);
    if let Some((load, setting, cost)) = under {
        command.args(cost.map(|cost| format!("--call-cost={cost}ns")));
        let like = format!("sim:like={},costs=icount-6.1", trace.display());
        let is_old = setting.kernel == "6.1";
        let defaults = DEFAULTS.iter().filter(|_| is_old);
        let set: BTreeMap<&str, &str> = defaults.chain(setting.knobs).copied().collect();
        command.arg("--on").arg(if is_old { like } else { like + ",kernel=eevdf-6.12" });
        command.args(set.iter().map(|(knob, value)| format!("--set={knob}={value}")));
        if load.3 {
            command.arg(format!("--set=nice:{HOG}={}", setting.nice));
        }
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
    for ((load, number, calls), trace) in runs {
        let out = Command::new("sha256sum").arg(trace).output().context("sha256sum")?;
        let sum = String::from_utf8(out.stdout)?;
        let sum = sum.split(' ').next().unwrap_or_default();
        let _ = writeln!(
            sums,
            "{sum}  {load}/{}/trace.dat",
            experiment_name(&SETTINGS[*number], *calls)
        );
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
