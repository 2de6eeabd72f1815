//! Results of the simulated machine alone: the same rows on any machine.

use super::write;
use crate::steps;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// The chores by name: each keeps what an example of `schedlab-sim` prints.
pub(super) const CHORES: [&str; 1] = ["conservation"];

/// Runs the example `name` with a release build, and keeps its output as rows.
pub(super) fn run(name: &str) -> Result<()> {
    let words = ["run", "--release", "--locked", "-p", "schedlab-sim", "--example", name];
    steps::say(&format!("== cargo {}", words.join(" ")));
    let mut command = Command::new("cargo");
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    let out = command.args(words).stderr(Stdio::inherit()).output().context("cargo")?;
    ensure!(out.status.success(), "the example {name} failed: {}", out.status);
    let to = Path::new("examples/evidence").join(name);
    std::fs::create_dir_all(&to).context(format!("{}", to.display()))?;
    write(&to.join("rows.csv"), &String::from_utf8(out.stdout)?)
}
