//! One prediction on this machine, made before it is measured: how long schbench's workers wait beside tasks that only
//! compute, under another slice and with one CPU less.
//!
//! `record` runs the load once under the recorded slice and writes what the replay predicts, to be committed. `measure`
//! runs the recorded and both changed settings in interleaved rounds, and writes the interval of the true change. A
//! prediction has passed if its sign is right and it lies within the interval, which itself is narrower than half of the
//! predicted change. Where the interval is wider, the change is not measurable here. Both steps want a quiet machine.

use super::{folders, read, write};
use crate::steps;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The slice of all tasks of the load in the recording, and the one that is predicted.
const SLICES: [&str; 2] = ["3ms", "12ms"];
/// The tasks whose waits are predicted.
const WORKER: &str = "schbench-worker";
const WORKERS: u32 = 2;
/// What is predicted.
const CHANGES: [&str; 2] = ["slice", "one-cpu-less"];

/// How much is done: as published, or only to see that the steps work (`SCHEDLAB_TINY`).
struct Size {
    runtime_ms: u64,
    rounds: usize,
    warm_up_ms: u64,
}

const WHOLE: Size = Size { runtime_ms: 3_000, rounds: 12, warm_up_ms: 500 };
const TINY: Size = Size { runtime_ms: 400, rounds: 2, warm_up_ms: 50 };

/// Does a step: `record` or `measure`.
pub(super) fn run(step: &str, program: &Path, results: &Path) -> Result<()> {
    let tiny = std::env::var_os("SCHEDLAB_TINY").is_some();
    let (size, to) = match tiny {
        true => (TINY, results.join("kept")),
        false => (WHOLE, PathBuf::from("examples/evidence/prediction")),
    };
    let cpus = std::thread::available_parallelism().context("the number of CPUs")?.get();
    ensure!(cpus > 1, "one CPU less needs at least two CPUs");
    std::fs::create_dir_all(&to).context(format!("{}", to.display()))?;
    std::fs::create_dir_all(results).context(format!("{}", results.display()))?;
    let chore = Chore { program, results, size, cpus, to };
    match step {
        "record" => chore.record(),
        "measure" => chore.measure(tiny),
        _ => bail!("there is no step '{step}' of the prediction: use record, then measure"),
    }
}

struct Chore<'c> {
    program: &'c Path,
    results: &'c Path,
    size: Size,
    cpus: usize,
    to: PathBuf,
}

/// A run: its workload's label, its slice, its repeat, and its trace.
type Done = (String, String, u64, PathBuf);

impl Chore<'_> {
    fn prediction(&self) -> PathBuf {
        self.to.join("prediction.csv")
    }

    fn record(&self) -> Result<()> {
        let file = self.prediction();
        ensure!(
            !file.exists(),
            "{}: a prediction is there: remove it to predict anew",
            file.display()
        );
        let runs = self.runs("prediction-record", &["all"], &SLICES[..1], 1)?;
        let (.., trace) = runs.first().context("no run was recorded")?;
        let mut rows = "change,recorded,replayed,changed,log_ratio\n".to_owned();
        let base = format!("sim:like={}", trace.display());
        let less = format!("{base},cpus={}", self.cpus - 1);
        let was = self.replay(trace, &base, SLICES[0])?;
        let recorded = self.waiting(&was, "run_delay_ns", 0);
        let replayed = self.waiting(&was, "changed_run_delay_ns", 0);
        for (change, machine, slice) in
            [(CHANGES[0], &base, SLICES[1]), (CHANGES[1], &less, SLICES[0])]
        {
            let then = self.replay(trace, machine, slice)?;
            let changed = self.waiting(&then, "changed_run_delay_ns", 0);
            let ratio = (changed / replayed).ln();
            let _ = writeln!(rows, "{change},{recorded:.4},{replayed:.4},{changed:.4},{ratio:.4}");
        }
        write(&file, &rows)?;
        self.identity(trace)?;
        steps::say(&format!(
            "{}: commit it, then run `cargo xtask evidence prediction measure`\n{rows}",
            file.display()
        ));
        Ok(())
    }

    fn measure(&self, tiny: bool) -> Result<()> {
        let file = self.prediction();
        let text = read(&file)?;
        ensure!(tiny || is_committed(&file)?, "{}: commit it before measuring", file.display());
        let runs = self.runs("prediction-measure", &["all", "less"], &SLICES, self.size.rounds)?;
        let mut waits: BTreeMap<(String, String, u64), f64> = BTreeMap::new();
        for (label, slice, repeat, trace) in runs {
            let document =
                self.replay(&trace, &format!("sim:like={}", trace.display()), SLICES[0])?;
            waits.insert((label, slice, repeat), self.waiting(&document, "run_delay_ns", 0));
        }
        let mut rows = "change,repeat,before,after,log_ratio\n".to_owned();
        let mut verdicts = String::new();
        for (change, label, slice) in
            [(CHANGES[0], "all", SLICES[1]), (CHANGES[1], "less", SLICES[0])]
        {
            let mut ratios = Vec::new();
            for repeat in 0..self.size.rounds as u64 {
                let of = |label: &str, slice: &str| {
                    waits.get(&(label.to_owned(), slice.to_owned(), repeat)).copied()
                };
                let (Some(before), Some(after)) = (of("all", SLICES[0]), of(label, slice)) else {
                    bail!("{change}: repeat {repeat} is missing");
                };
                let ratio = (after / before).ln();
                let _ = writeln!(rows, "{change},{repeat},{before:.4},{after:.4},{ratio:.4}");
                ratios.push(ratio);
            }
            let predicted = predicted(&text, change)?;
            let _ = writeln!(verdicts, "{change}: {}", verdict(predicted, &ratios));
        }
        write(&self.to.join("measured.csv"), &rows)?;
        write(&self.to.join("verdict.txt"), &verdicts)?;
        steps::say(&verdicts);
        Ok(())
    }

    /// Does the runs of an experiment, all repeats interleaved.
    fn runs(
        &self,
        name: &str,
        labels: &[&str],
        slices: &[&str],
        repeats: usize,
    ) -> Result<Vec<Done>> {
        let folder = self.results.join(name);
        if folder.exists() {
            // Stored runs would be those of another moment.
            std::fs::remove_dir_all(&folder).context(format!("{}", folder.display()))?;
        }
        let file = self.results.join(format!("{name}.toml"));
        write(&file, &self.experiment(name, labels, slices, repeats))?;
        let mut command = Command::new(self.program);
        command.arg("run").arg(&file).arg("--output").arg(self.results);
        steps::run(&mut command)?;
        let mut all = Vec::new();
        for run in folders(&folder.join("runs"))? {
            let manifest: Value = serde_json::from_str(&read(&run.join("manifest.json"))?)?;
            let label = manifest["workload"].as_str().unwrap_or_default().to_owned();
            let slice = manifest["spec"]["settings"][0]["value"].as_str().unwrap_or_default();
            let repeat = manifest["spec"]["repeat"].as_u64().unwrap_or(0);
            all.push((label, slice.to_owned(), repeat, run.join("trace.dat")));
        }
        Ok(all)
    }

    fn experiment(&self, name: &str, labels: &[&str], slices: &[&str], repeats: usize) -> String {
        let runtime = self.size.runtime_ms;
        let mut text =
            format!("name = \"{name}\"\nmachine = \"host\"\nretries = 0\nrepeats = {repeats}\n");
        for label in labels {
            let cpus = match *label {
                "less" => format!(", cpus = \"0-{}\"", self.cpus - 2),
                _ => String::new(),
            };
            let hogs = self.cpus + 1;
            let _ = write!(
                text,
                "\n[[workload]]\nlabel = \"{label}\"\nname = \"schbench\"\noptions = {{ \
                 message-threads = 1, threads = {WORKERS}, runtime = \"{runtime}ms\", \
                 warmuptime = 0{cpus} }}\n[[workload.beside]]\nlabel = \"hog\"\nname = \"cpu\"\n\
                 options = {{ tasks = {hogs}, duration = \"0\"{cpus} }}\n"
            );
        }
        let values: Vec<String> = slices.iter().map(|slice| format!("\"{slice}\"")).collect();
        let _ = write!(text, "\n[[axis]]\nknob = \"slice\"\nvalues = [{}]\n", values.join(", "));
        text + "\n[record]\nevents = [\"irq\"]\n"
    }

    /// Replays a trace as it was, and on a machine under a slice.
    fn replay(&self, trace: &Path, machine: &str, slice: &str) -> Result<Value> {
        let mut command = Command::new(self.program);
        let warm_up = format!("{}ms", self.size.warm_up_ms);
        command.arg("replay").arg(trace).args(["--json", "--warm-up", &warm_up]);
        command.args(["--on", machine, "--set", &format!("slice={slice}")]);
        let done = command.stderr(Stdio::null()).output().context(format!("{command:?}"))?;
        ensure!(done.status.success(), "{command:?} failed");
        Ok(serde_json::from_slice(&done.stdout)?)
    }

    /// The part of its time that a worker waits for a CPU; `at` chooses of several values in a row.
    fn waiting(&self, document: &Value, key: &str, at: usize) -> f64 {
        let length = document["duration_ns"].as_f64().unwrap_or(0.0);
        let judged = length - self.size.warm_up_ms as f64 * 1e6;
        let tasks = document["tasks"].as_array().into_iter().flatten();
        let workers = tasks.filter(|task| task["comm"] == WORKER);
        let value = |task: &Value| match &task[key] {
            Value::Array(values) => values.get(at).and_then(Value::as_f64),
            value => value.as_f64(),
        };
        let sum: f64 = workers.filter_map(value).sum();
        sum / judged / f64::from(WORKERS)
    }

    fn identity(&self, trace: &Path) -> Result<()> {
        let text = read(&trace.with_file_name("manifest.json"))?;
        let manifest: Value = serde_json::from_str(&text)?;
        let mut identity = format!("CPUs: {}\nslices: {}\n", self.cpus, SLICES.join(", "));
        // Numbers of the release only: what follows them names the builder's machine.
        let release = manifest["place"]["kernel"][0].as_str().unwrap_or_default();
        let _ =
            writeln!(identity, "kernel: Linux {}", release.split('-').next().unwrap_or_default());
        write(&self.to.join("identity.txt"), &identity)
    }
}

/// The predicted logarithm of after over before.
fn predicted(rows: &str, change: &str) -> Result<f64> {
    let row = rows.lines().find(|row| row.split(',').next() == Some(change));
    let word = row.and_then(|row| row.rsplit(',').next());
    word.and_then(|word| word.parse().ok()).context(format!("{change}: no prediction"))
}

/// Whether git holds a file as it is.
fn is_committed(file: &Path) -> Result<bool> {
    let git = |words: &[&str]| -> Result<String> {
        let out = Command::new("git").args(words).arg(file).output().context("git")?;
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    };
    Ok(!git(&["ls-files", "--"])?.is_empty() && git(&["status", "--porcelain", "--"])?.is_empty())
}

/// Student's 97.5 % quantile by degrees of freedom.
const STUDENT: [f64; 15] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131,
];

/// The 95 % interval of the mean.
fn interval(ratios: &[f64]) -> (f64, f64) {
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let squares: f64 = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum();
    let freedom = ratios.len().saturating_sub(1);
    let student = STUDENT.get(freedom.saturating_sub(1)).copied().unwrap_or(2.131);
    let half = student * (squares / freedom.max(1) as f64 / n).sqrt();
    (mean - half, mean + half)
}

fn verdict(predicted: f64, ratios: &[f64]) -> String {
    let (low, high) = interval(ratios);
    let factors = format!(
        "predicted a factor of {:.3}; measured {:.3} to {:.3} (95 % interval of {} rounds)",
        predicted.exp(),
        low.exp(),
        high.exp(),
        ratios.len()
    );
    let word = if high - low >= predicted.abs() / 2.0 {
        "not measurable here: the interval is not narrower than half of the predicted change"
    } else if low * high <= 0.0 || (low > 0.0) != (predicted > 0.0) {
        "failed: the sign is wrong or not known"
    } else if predicted < low || predicted > high {
        "failed: the prediction lies outside of the interval"
    } else {
        "passed"
    };
    format!("{word}; {factors}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_passes_only_within_a_narrow_interval() {
        let starts = |predicted: f64, ratios: &[f64], word: &str| {
            let verdict = verdict(predicted, ratios);
            assert!(verdict.starts_with(word), "{verdict}");
        };
        let narrow = [0.5, 0.52, 0.48, 0.5, 0.51, 0.49];
        starts(0.505, &narrow, "passed");
        starts(0.8, &narrow, "failed: the prediction lies outside");
        starts(-0.5, &narrow, "failed: the sign");
        starts(0.02, &narrow, "not measurable");
        starts(0.5, &[0.1, 0.9, 0.5, 0.2], "not measurable");
        let (low, high) = interval(&[1.0, 3.0]);
        assert!((low + 10.706).abs() < 1e-9 && (high - 14.706).abs() < 1e-9);
    }

    #[test]
    fn a_prediction_is_read_from_its_row() {
        let rows = "change,recorded,log_ratio\nslice,1,0.25\none-cpu-less,1,-0.5\n";
        assert!((predicted(rows, "one-cpu-less").unwrap() + 0.5).abs() < 1e-9);
        assert!(predicted(rows, "other").is_err());
    }
}
