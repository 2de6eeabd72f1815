//! The static binary alone: a machine that has this one file and nothing else can use it.

use super::emptied;
use crate::steps;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// What is tried there: a page of text, a simulated load with a trace, an answer about it, a picture of it, and an
/// experiment with its report.
const TRIED: [&[&str]; 5] = [
    &["--version"],
    &[
        "load",
        "hackbench",
        "--on",
        "sim:cpus=2",
        "--groups",
        "1",
        "--loops",
        "50",
        "--trace",
        "/tmp/x.dat",
    ],
    &["trace", "latency", "/tmp/x.dat"],
    &["draw", "cores", "/tmp/x.dat", "-o", "/tmp/x.png"],
    &["gallery", "run", "jobs-burst", "--short", "--output", "/tmp/results"],
];

/// Copies the file into an empty root of a file system, and uses it there.
pub(super) fn try_out(binary: &Path, root: &Path) -> Result<()> {
    if !is_root()? {
        steps::say("MISSING: root, for chroot: the static binary was not tried without a system");
        return Ok(());
    }
    emptied(root)?;
    std::fs::create_dir_all(root.join("tmp")).context("an empty root")?;
    std::fs::copy(binary, root.join("schedlab")).context("the static binary")?;
    for arguments in TRIED {
        let output = Command::new("chroot").arg(root).arg("/schedlab").args(arguments).output()?;
        let words = arguments.join(" ");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "alone, `schedlab {words}`: {}: {said}", output.status);
    }
    for file in ["tmp/x.png", "tmp/results/jobs-burst-short/report.html"] {
        let length = std::fs::metadata(root.join(file)).context(file)?.len();
        ensure!(length > 1_000, "alone, {file} has {length} bytes");
    }
    steps::say("the static binary works alone in an empty root");
    Ok(())
}

pub(super) fn is_root() -> Result<bool> {
    let output = Command::new("id").arg("-u").output().context("id -u")?;
    Ok(output.stdout.trim_ascii() == b"0")
}
