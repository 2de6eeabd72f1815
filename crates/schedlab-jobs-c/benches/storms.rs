//! Storms of posters through the C interface, beside the pool in Rust, rayon and tokio, in turns.
//!
//! `cargo bench -p schedlab-jobs-c --bench storms [-- ROUNDS]`, after `cargo build -p schedlab-jobs-c --release`. Each
//! storm of `storm.c` also looks whether a job was done in each 250 ms in which workers had CPU time.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

#[path = "../../schedlab-pool/benches/common/mod.rs"]
mod common;
#[path = "../../schedlab-pool/benches/common/storm.rs"]
mod storm;

use common::{median, ratios};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use storm::{PEERS, storm};

/// Milliseconds of a storm.
const LENGTH: u64 = 250;

/// Compiles the program.
fn build() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("storm");
    let bench = std::env::current_exe().expect("it runs");
    let release = bench.parent().and_then(Path::parent).expect("it lies in target/release/deps");
    let built = Command::new("gcc")
        .args(["-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
        .arg(root.join("include"))
        .arg(root.join("benches/storm.c"))
        .arg(release.join("libschedlab_jobs_c.a"))
        .args(["-ldl", "-lm", "-o"])
        .arg(&program)
        .status();
    assert!(
        built.is_ok_and(|status| status.success()),
        "gcc and the library in release are needed"
    );
    program
}

/// Done, posted, refused; spans of 250 ms in which workers had CPU time, and those without a job that was done.
fn through_c(program: &Path, posters: usize, workers: usize) -> Vec<f64> {
    let numbers = [posters.to_string(), workers.to_string(), LENGTH.to_string()];
    let out = Command::new(program).args(numbers).output().expect("it was built");
    assert!(out.status.success(), "a job was lost: {}", out.status);
    let text = String::from_utf8_lossy(&out.stdout);
    text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(30);
    let program = build();
    println!("| posters, workers | executor | done | accepted | refused |");
    println!("|---|---|---|---|---|");
    let (mut with_cpu, mut stood_still) = (0.0, 0.0);
    for (posters, workers) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        // The last one is through C.
        let mut all = vec![Vec::new(); PEERS.len() + 1];
        for round in 0..rounds {
            for turn in 0..all.len() {
                let at = (turn + round) % all.len();
                let found = match PEERS.get(at) {
                    Some(name) => {
                        storm(name, posters, workers, Duration::from_millis(LENGTH)).to_vec()
                    }
                    None => through_c(&program, posters, workers),
                };
                all[at].push(found);
            }
        }
        let column =
            |at: usize, which: usize| all[at].iter().map(|one| one[which]).collect::<Vec<f64>>();
        let c = PEERS.len();
        let refused = median(&column(c, 2));
        let (done, posted) = (median(&column(c, 0)), median(&column(c, 1)));
        println!("| {posters}, {workers} | through C | {done:.0} | {posted:.0} | {refused:.0} |");
        for (at, name) in PEERS.iter().enumerate() {
            let of = |which| ratios(&column(c, which), &column(at, which));
            let refused = median(&column(at, 2));
            println!("| | C to {name} | {} | {} | {refused:.0} |", of(0), of(1));
        }
        with_cpu += column(c, 3).iter().sum::<f64>();
        stood_still += column(c, 4).iter().sum::<f64>();
    }
    println!(
        "through C, {stood_still} of {with_cpu} spans of 250 ms with CPU time had no job done"
    );
}
