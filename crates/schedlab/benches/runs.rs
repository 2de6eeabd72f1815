//! What an experiment costs beside its runs: 10,000 short simulated runs on all CPUs, and their report.
//!
//! `cargo bench -p schedlab --bench runs [-- RUNS]`. The results lie once on the disk of the temporary folder, where
//! each batch is written out, and once in memory (/dev/shm), where that costs nothing. The overhead of a run is the
//! time of all CPUs, less the time within the runs, over their number.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks and may fail")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

fn main() {
    let runs: u32 = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(10_000);
    let disk = tempfile::tempdir().unwrap();
    measure("on the disk, each batch written out", disk.path(), runs);
    match tempfile::tempdir_in("/dev/shm") {
        Ok(memory) => measure("in memory", memory.path(), runs),
        Err(error) => {
            println!("MISSING: /dev/shm: {error}; the cost of the disk is not told apart");
        }
    }
}

/// Half of the runs are of each of two points.
fn measure(place: &str, folder: &Path, runs: u32) {
    let file = folder.join("many.toml");
    let repeats = runs / 2;
    let text = format!(
        "name = \"many\"\nmachine = \"sim:cpus=2\"\nrepeats = {repeats}\nmeasure = [\"time_s\"]\n\
         [[workload]]\nname = \"hackbench\"\noptions = {{ groups = 1, fds = 1, loops = 10 }}\n\
         [[axis]]\noption = \"loops\"\nvalues = [10, 20]\n"
    );
    std::fs::write(&file, text).unwrap();
    let results = folder.join("results");
    let wall = seconds(
        Command::new(env!("CARGO_BIN_EXE_schedlab")).arg("run").arg(&file).arg("-o").arg(&results),
    );
    let (count, within) = stored(&results.join("many/runs"));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let overhead = wall.mul_add(cpus, -within) / f64::from(count);
    let report = seconds(
        Command::new(env!("CARGO_BIN_EXE_schedlab"))
            .arg("run")
            .arg("report")
            .arg(results.join("many")),
    );
    println!(
        "{place}: {count} runs in {wall:.1} s; within a run {:.0} µs, beside it {:.0} µs; report in {report:.2} s",
        within / f64::from(count) * 1e6,
        overhead * 1e6
    );
}

fn seconds(command: &mut Command) -> f64 {
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    began.elapsed().as_secs_f64()
}

/// How many runs are stored, and the seconds within all of them.
fn stored(runs: &Path) -> (u32, f64) {
    let mut sum = (0, 0.0);
    for run in std::fs::read_dir(runs).unwrap() {
        let manifest = run.unwrap().path().join("manifest.json");
        let text = std::fs::read_to_string(manifest).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        sum = (sum.0 + 1, sum.1 + value["took_ns"].as_f64().unwrap() / 1e9);
    }
    sum
}
