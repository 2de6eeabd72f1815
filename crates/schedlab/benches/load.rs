//! What our own code costs a wakeup, and the same work beside the originals in one run.
//!
//! `cargo bench -p schedlab --bench load [RUNS]`. hackbench comes from rt-tests (a Debian package);
//! schbench is no package: its path is taken from SCHBENCH. A peer that is absent is said aloud.
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "a benchmark")]

use schedlab_stats::{Sample, paired};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn main() {
    let runs = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(10);
    let links = tempfile::tempdir().unwrap();
    for name in ["schbench", "hackbench"] {
        let target = env!("CARGO_BIN_EXE_schedlab");
        std::os::unix::fs::symlink(target, links.path().join(name)).unwrap();
    }
    own_cost(Path::new(env!("CARGO_BIN_EXE_schedlab")));
    match find("hackbench") {
        Some(peer) => hackbench(&peer, &links.path().join("hackbench"), runs),
        None => eprintln!("MISSING: hackbench; install rt-tests for its ratio"),
    }
    match std::env::var_os("SCHBENCH").map(PathBuf::from).filter(|path| path.is_file()) {
        Some(peer) => schbench(&peer, &links.path().join("schbench"), runs),
        None => eprintln!("MISSING: schbench; set SCHBENCH to its path for its ratio"),
    }
}

fn find(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn run(program: &Path, line: &str) -> Output {
    let output = Command::new(program).args(line.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{} {line}: {output:?}", program.display());
    output
}

/// Our own code beyond clock and system calls, and its share at the highest rate reached here.
fn own_cost(ours: &Path) {
    let cost = schedlab_host::load::overhead().unwrap();
    println!(
        "own code: {:.1} ns a step, {:.1} ns a sample, {:.0} ns a wakeup beyond the clock ({:.1} ns a reading)",
        cost.step_ns,
        cost.sample_ns,
        cost.wakeup_ns(),
        cost.clock_ns
    );
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    for (way, pairs) in [("futex", 1), ("pipe", 1), ("futex", cpus), ("pipe", cpus)] {
        let line = format!("load pingpong --via {way} --pairs {pairs} --duration 2s --json");
        let json: serde_json::Value = serde_json::from_slice(&run(ours, &line).stdout).unwrap();
        let rates = json["rates"].as_array().unwrap();
        let trips = rates.iter().filter_map(serde_json::Value::as_f64).fold(0.0, f64::max);
        // A round trip is two wakeups: four steps and a sample.
        let share = trips * (4.0 * cost.step_ns + cost.sample_ns) / 1e9 / cpus as f64;
        println!(
            "pingpong over {pairs} x {way}: {:.0} wakeups a second; our own code is {:.2} % of {cpus} CPUs' time",
            2.0 * trips,
            share * 100.0
        );
    }
}

/// Ours over theirs, from pairs of runs: the mean of the logarithms of their ratios, with Student's interval.
fn ratio(what: &str, pairs: &[(f64, f64)]) {
    let logs: Vec<f64> = pairs.iter().map(|(ours, theirs)| (ours / theirs).ln()).collect();
    let effect = paired(&logs).unwrap();
    let (low, high) = effect.interval(0.95);
    let median = |values: Vec<f64>| Sample::new(values).unwrap().median();
    println!(
        "{what}: ours / original {:.3} ({:.3} to {:.3}), {} pairs; medians {:.4} and {:.4}",
        effect.estimate.exp(),
        low.exp(),
        high.exp(),
        pairs.len(),
        median(pairs.iter().map(|pair| pair.0).collect()),
        median(pairs.iter().map(|pair| pair.1).collect())
    );
}

/// Runs both programs side by side, `runs` times. Every second pair begins with the other one, so that
/// neither always meets a warmer machine.
fn pairs(runs: usize, ours: &dyn Fn() -> f64, theirs: &dyn Fn() -> f64) -> Vec<(f64, f64)> {
    let pair = |n: usize| match n % 2 {
        0 => {
            let theirs = theirs();
            (ours(), theirs)
        }
        _ => (ours(), theirs()),
    };
    (0..runs).map(pair).collect()
}

/// Compares one command line of a drop-in with the original's, as it is and with our own measurements.
fn compare(
    line: &str,
    what: &str,
    programs: (&Path, &Path),
    runs: usize,
    value: fn(&Output) -> f64,
) {
    let (peer, ours) = programs;
    for extra in ["", " --compat none"] {
        let line_of_ours = format!("{line}{extra}");
        let mine = || value(&run(ours, &line_of_ours));
        let name = ours.file_name().unwrap().display();
        ratio(
            &format!("{name} {line_of_ours}, {what}"),
            &pairs(runs, &mine, &|| value(&run(peer, line))),
        );
    }
}

/// Lines whose runs take about a second: shorter ones differ more from run to run.
fn hackbench(peer: &Path, ours: &Path, runs: usize) {
    fn time(output: &Output) -> f64 {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().find_map(|l| l.strip_prefix("Time: ")).unwrap().parse().unwrap()
    }
    let modes = [
        "-g 4 -l 800",
        "-p -g 4 -l 1600",
        "-T -g 4 -l 800",
        "-T -p -g 4 -l 1600",
        "-i -g 4 -l 400",
    ];
    for line in modes {
        compare(line, "time", (peer, ours), runs, time);
    }
}

fn schbench(peer: &Path, ours: &Path, runs: usize) {
    fn rate(output: &Output) -> f64 {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.lines().find_map(|l| l.strip_prefix("average rps: ")).unwrap().parse().unwrap()
    }
    for line in ["-m 1 -t 2 -r 3", "-L -n 0 -m 1 -t 2 -r 3", "-L -n 0 -s 0 -m 1 -t 2 -r 3"] {
        compare(line, "requests", (peer, ours), runs, rate);
    }
}
