//! What threads share in the job executor, checked beyond tests: interleavings by loom, accesses by Miri.

use crate::steps;
use anyhow::Result;
use std::process::Command;

/// Miri runs a thousand times slower: what hangs under it ends here. Three such runs and loom stay below a quarter of
/// an hour on a machine that does other things as well.
const MIRI_LIMIT_S: &str = "280";

/// The unit tests of what threads share and of what is made of it. Those of graphs, loads and policies are plain data
/// in safe code, where Miri sees nothing that the compiler does not, and take it half an hour.
const SHARED: [&str; 5] = ["pool::", "run::", "executor::", "profile::", "rig::"];

/// Decisions of schedlab-pool over plain lists: of random sequences too. Its threads use crossbeam's queues.
const LISTS: [&str; 4] = [
    "model::tests::a_compulsory",
    "model::tests::a_job_beside",
    "model::tests::both_bodies",
    "model::tests::due_timed",
];

/// Loom over the token, the bundle and schedlab-pool, then Miri over the unit tests of what is shared (some 20 s), the
/// threads of lumiera's pool (30 s), and schedlab-pool over plain lists (some minutes).
pub(crate) fn run() -> Result<()> {
    loom()?;
    if has_miri()? {
        pool()?;
        // These read the environment and a file or two.
        let shared = [&["--lib", "--"], SHARED.as_slice()].concat();
        miri("schedlab-jobs", &shared, "-Zmiri-disable-isolation")?;
        miri("schedlab-pool", &[&["--lib", "--"], LISTS.as_slice()].concat(), "")?;
    }
    Ok(())
}

/// What CI has time for, under a minute: Miri over the threads of the pool, where all that is shared is shared.
pub(crate) fn short() -> Result<()> {
    if has_miri()? { pool() } else { Ok(()) }
}

fn loom() -> Result<()> {
    let loom = &[("RUSTFLAGS", "--cfg loom"), ("CARGO_TARGET_DIR", "target/loom")];
    let tests = ["--test", "all", "--", "loom::"];
    steps::cargo_with(
        &[&["test", "-p", "schedlab-jobs", "--release"], tests.as_slice()].concat(),
        loom,
    )?;
    steps::cargo_with(&["test", "-p", "schedlab-pool", "--release", "--lib", "loom::"], loom)
}

/// Isolated, time is Miri's own: it passes with the steps of the program, so that waits end when they would on a slow
/// machine, and each time in the same way.
fn pool() -> Result<()> {
    miri("schedlab-jobs", &["--test", "all", "pool::"], "")
}

/// Where there is no nightly toolchain, it says that Miri did not run.
fn has_miri() -> Result<bool> {
    let nightly = Command::new("rustup").args(["run", "nightly", "rustc", "--version"]).output();
    if !nightly.is_ok_and(|out| out.status.success()) {
        steps::say(
            "MISSING: the nightly toolchain: the executor's accesses were not checked by Miri",
        );
        return Ok(false);
    }
    let add = ["component", "add", "--toolchain", "nightly", "miri", "rust-src"];
    steps::run(Command::new("rustup").args(add))?;
    Ok(true)
}

fn miri(package: &str, tests: &[&str], flags: &str) -> Result<()> {
    let mut miri = Command::new("timeout");
    miri.args([MIRI_LIMIT_S, "cargo", "+nightly", "miri", "test", "-p", package]);
    miri.args(tests).env("MIRIFLAGS", flags).env("CARGO_TARGET_DIR", "target/miri");
    steps::run(miri.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO"))
}
