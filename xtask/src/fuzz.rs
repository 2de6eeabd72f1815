//! Coverage-guided fuzzing of every reader, from the kept corpus.

use crate::steps;
use anyhow::{Context, Result};
use std::process::Command;

/// Runs every target of fuzz/ but those in `without` for `seconds`. Needs the nightly toolchain and cargo-fuzz, which it
/// installs by name; where there is no nightly it says so and leaves it at the seeded smoke tests.
pub(crate) fn run(seconds: u32, without: &[&str]) -> Result<()> {
    let nightly = Command::new("rustup").args(["run", "nightly", "rustc", "--version"]).output();
    if !nightly.is_ok_and(|out| out.status.success()) {
        steps::say(
            "MISSING: the nightly toolchain: not fuzzed; the seeded smoke tests ran instead",
        );
        return Ok(());
    }
    let installed = Command::new("cargo").args(["fuzz", "--version"]).output();
    if !installed.is_ok_and(|out| out.status.success()) {
        steps::cargo(&["install", "--locked", "cargo-fuzz"])?;
    }
    for target in targets()?.into_iter().filter(|target| !without.contains(&target.as_str())) {
        let limit = format!("-max_total_time={seconds}");
        // What the fuzzer finds new goes to the first folder; the kept seeds are only read.
        let found = format!("target/found/{target}");
        let seeds = format!("corpus/{target}");
        std::fs::create_dir_all(format!("fuzz/{found}")).context("fuzz/target")?;
        let mut arguments = vec!["+nightly", "fuzz", "run", target.as_str(), found.as_str()];
        if std::path::Path::new("fuzz").join(&seeds).is_dir() {
            arguments.push(&seeds);
        }
        // This one measures memory, which the address sanitizer takes for itself.
        let measures = target == "structure";
        arguments.extend(if measures { &["--sanitizer", "none"][..] } else { &[] });
        let timeout = if measures { "-timeout=60" } else { "-timeout=10" };
        arguments.extend(["--", limit.as_str(), "-rss_limit_mb=2048", timeout]);
        let mut command = Command::new("cargo");
        // What is freed goes back at once: else nobody can tell what one file took.
        command.env("MALLOC_MMAP_THRESHOLD_", "131072");
        command.current_dir("fuzz").env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
        steps::run(command.args(arguments))?;
    }
    Ok(())
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
