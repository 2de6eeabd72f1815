//! Coverage-guided fuzzing of every reader, from the kept corpus.

use crate::steps;
use anyhow::{Context, Result, ensure};
use std::process::{Child, Command};

const CARGO_FUZZ: &str = "cargo-fuzz@0.13.2";

/// Runs every target of fuzz/ for `seconds`, and `structure` for a minute at least, since it makes a few files a second.
/// Needs the nightly toolchain and cargo-fuzz, which it installs by name; where there is no nightly it says so and leaves
/// it at the seeded smoke tests.
pub(crate) fn run(seconds: u32) -> Result<()> {
    let nightly = Command::new("rustup").args(["run", "nightly", "rustc", "--version"]).output();
    if !nightly.is_ok_and(|out| out.status.success()) {
        steps::say(
            "MISSING: the nightly toolchain: not fuzzed; the seeded smoke tests ran instead",
        );
        return Ok(());
    }
    let installed = Command::new("cargo").args(["fuzz", "--version"]).output();
    if !installed.is_ok_and(|out| out.status.success()) {
        steps::cargo(&["install", "--locked", CARGO_FUZZ])?;
    }
    // Readers have no unsafe code for a sanitizer to look at, and it takes memory, which one target measures.
    let build = ["+nightly", "fuzz", "build", "--sanitizer", "none"];
    steps::run(cargo().args(build))?;
    // Each target keeps one CPU busy.
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    for at_once in targets()?.chunks(cpus) {
        steps::say(&format!("== cargo fuzz run {}", at_once.join(" and ")));
        let mut running = Vec::new();
        for target in at_once {
            running.push(fuzz(target, seconds)?.spawn().context("cargo fuzz")?);
        }
        let ended: Vec<_> = running.iter_mut().map(Child::wait).collect();
        for (target, status) in at_once.iter().zip(ended) {
            ensure!(status.context("cargo fuzz")?.success(), "the fuzz target {target} failed");
        }
    }
    Ok(())
}

fn fuzz(target: &str, seconds: u32) -> Result<Command> {
    let measures = target == "structure";
    // What the fuzzer finds new goes to the first folder; the kept seeds are only read.
    let found = format!("target/found/{target}");
    let seeds = format!("corpus/{target}");
    std::fs::create_dir_all(format!("fuzz/{found}")).context("fuzz/target")?;
    let mut command = cargo();
    command.args(["+nightly", "fuzz", "run", "--sanitizer", "none", target, &found]);
    if std::path::Path::new("fuzz").join(&seeds).is_dir() {
        command.arg(&seeds);
    }
    let limit = format!("-max_total_time={}", if measures { seconds.max(60) } else { seconds });
    command.args(["--", limit.as_str(), "-rss_limit_mb=2048"]);
    // Each of its bytes is a choice; short inputs make the same few files.
    let how = ["-timeout=60", "-len_control=0", "-max_len=512"];
    command.args(if measures { &how[..] } else { &["-timeout=10"] });
    Ok(command)
}

fn cargo() -> Command {
    let mut command = Command::new("cargo");
    // What is freed goes back at once: else nobody can tell what one file took.
    command.env("MALLOC_MMAP_THRESHOLD_", "131072");
    command.current_dir("fuzz").env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command
}

fn targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir("fuzz/fuzz_targets").context("fuzz/fuzz_targets")? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}
