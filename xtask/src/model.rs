//! What threads share in the job executor, checked beyond tests: all interleavings by loom, all accesses by Miri.

use crate::steps;
use anyhow::Result;
use std::process::Command;

/// Miri runs a thousand times slower: what hangs under it ends here.
const MIRI_LIMIT_S: &str = "900";

/// Loom over the token, then Miri over the unit tests (two minutes). Where there is no nightly toolchain, it says that
/// Miri did not run.
pub(crate) fn run() -> Result<()> {
    let loom = &[("RUSTFLAGS", "--cfg loom"), ("CARGO_TARGET_DIR", "target/loom")];
    steps::cargo_with(&["test", "-p", "schedlab-jobs", "--release", "--test", "loom"], loom)?;
    let nightly = Command::new("rustup").args(["run", "nightly", "rustc", "--version"]).output();
    if !nightly.is_ok_and(|out| out.status.success()) {
        steps::say(
            "MISSING: the nightly toolchain: the executor's accesses were not checked by Miri",
        );
        return Ok(());
    }
    let add = ["component", "add", "--toolchain", "nightly", "miri", "rust-src"];
    steps::run(Command::new("rustup").args(add))?;
    let mut miri = Command::new("timeout");
    miri.args([MIRI_LIMIT_S, "cargo", "+nightly", "miri", "test", "-p", "schedlab-jobs"]);
    // The tests of the pool's threads wait for real time, which passes a thousand times too fast for Miri.
    miri.arg("--lib");
    miri.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("CARGO_TARGET_DIR", "target/miri");
    steps::run(miri.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO"))
}
