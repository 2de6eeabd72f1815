//! What recording costs the workload, beside what `perf sched record` costs it.
//!
//! `cargo bench -p schedlab --bench record [-- ROUNDS]` (20 unless told). A round runs hackbench alone,
//! under `schedlab record` and under `perf sched record`, in an order that turns from round to round;
//! the time is hackbench's own. Printed: the median of each, the ratio of the two paired by round with
//! its 95 % interval, and the bytes that an event takes on disk.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks and may fail")]

use schedlab_stats::{Sample, interval};
use std::path::Path;
use std::process::{Command, Stdio};

const LOAD: [&str; 5] = ["hackbench", "-g", "4", "-l", "1000"];

/// Who records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    Nobody,
    Schedlab,
    Perf,
}

const ARMS: [Arm; 3] = [Arm::Nobody, Arm::Schedlab, Arm::Perf];

fn main() {
    let rounds = std::env::args().skip(1).find_map(|text| text.parse().ok()).unwrap_or(20);
    for peer in ["hackbench", "perf"] {
        if Command::new(peer).arg("--help").output().is_err() {
            println!("MISSING: {peer}");
            return;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let mut times = [const { Vec::new() }; 3];
    for round in 0..rounds {
        for turn in 0..ARMS.len() {
            let arm = (round + turn) % ARMS.len();
            times[arm].push(run(ARMS[arm], dir.path()));
        }
    }
    println!("hackbench -g 4 -l 1000, {rounds} rounds; medians with 95 % intervals\n");
    for (arm, times) in ARMS.iter().zip(&times) {
        line(&format!("recorded by {arm:?}").to_lowercase(), times, "s");
    }
    let ratio = |a: usize, b: usize| -> Vec<f64> {
        times[a].iter().zip(&times[b]).map(|(a, b)| a / b).collect()
    };
    println!();
    line("schedlab to nobody", &ratio(1, 0), "x");
    line("perf to nobody", &ratio(2, 0), "x");
    line("schedlab to perf", &ratio(1, 2), "x");
    println!();
    for file in ["schedlab.dat", "perf.data"] {
        bytes_an_event(&dir.path().join(file));
    }
}

/// Hackbench's own time in seconds under this recorder.
fn run(arm: Arm, dir: &Path) -> f64 {
    let mut command = match arm {
        Arm::Nobody => Command::new(LOAD[0]),
        Arm::Schedlab => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
            command.args(["record", "-o", "schedlab.dat", "--", LOAD[0]]);
            command
        }
        Arm::Perf => {
            let mut command = Command::new("perf");
            command.args(["sched", "record", "-o", "perf.data", "--", LOAD[0]]);
            command
        }
    };
    let output = command.args(&LOAD[1..]).current_dir(dir).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let time = said.lines().find_map(|line| line.strip_prefix("Time: "));
    let Some(time) = time.and_then(|time| time.trim().parse().ok()) else {
        panic!("{arm:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    };
    time
}

fn line(name: &str, values: &[f64], unit: &str) {
    let sample = Sample::new(values.to_vec()).unwrap();
    let interval = interval(&sample, 0.95, 1);
    let range = interval
        .map_or_else(|error| error.to_string(), |i| format!("[{:.3}, {:.3}]", i.low, i.high));
    println!("{name:24} {:8.3} {unit}  {range}", sample.median());
}

fn bytes_an_event(file: &Path) {
    let bytes = std::fs::metadata(file).unwrap().len();
    let info = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["trace", "info", "--json"])
        .arg(file)
        .output()
        .unwrap();
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    let counts = info["events"].as_object().unwrap().values();
    let events: u64 = counts.filter_map(serde_json::Value::as_u64).sum();
    let name = file.file_name().unwrap_or_default().display();
    let each = bytes as f64 / events as f64;
    println!("{name:24} {each:8.1} bytes an event ({events} events, lost {})", info["lost"]);
}
