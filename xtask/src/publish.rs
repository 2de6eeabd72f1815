//! The libraries as others get them: packaged, unpacked elsewhere, and used by a program outside the workspace.

use crate::steps;
use anyhow::{Context as _, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The libraries that can be published, in the order in which they need each other.
pub(crate) const LIBRARIES: [&str; 6] = [
    "schedlab-random",
    "schedlab-model",
    "schedlab-stats",
    "schedlab-timeline",
    "schedlab-trace",
    "schedlab-pool",
];
/// A program of somebody else's.
const PROGRAM: &str = "examples/library/longest-waits.rs";
/// A trace in which tasks wait, and a perf.data that is kept for the fuzz targets: hardly anybody waits there.
const TRACES: [&str; 2] = ["corpus/buffers.dat", "fuzz/corpus/perf/little.data"];

/// Packages the libraries and compiles the program against what is in the packages.
pub(crate) fn run() -> Result<()> {
    let target = PathBuf::from(std::env::var("CARGO_TARGET_DIR").unwrap_or("target".into()));
    try_out(&packages(&target)?, &target)
}

/// Compiles the program against the libraries among the packages in a folder.
pub(crate) fn try_out(packages: &Path, target: &Path) -> Result<()> {
    let folder = target.join("publish");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("target/publish")?;
    }
    fs::create_dir_all(folder.join("program/src")).context("target/publish")?;
    let version = version()?;
    let mut manifest =
        "[package]\nname = \"longest-waits\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         publish = false\n\n[workspace]\n\n[dependencies]\n"
            .to_owned();
    let mut patch = "\n[patch.crates-io]\n".to_owned();
    for name in LIBRARIES {
        let file = packages.join(format!("{name}-{version}.crate"));
        steps::run(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(&folder))?;
        writeln!(manifest, "{name} = \"{version}\"")?;
        writeln!(patch, "{name} = {{ path = \"../{name}-{version}\" }}")?;
    }
    let program = folder.join("program");
    fs::write(program.join("Cargo.toml"), manifest + &patch + &profiles()?)
        .context("Cargo.toml")?;
    fs::copy(PROGRAM, program.join("src/main.rs")).context(PROGRAM)?;
    // The versions of other libraries are those that were tested.
    fs::copy("Cargo.lock", program.join("Cargo.lock")).context("Cargo.lock")?;
    answered(&program, target)
}

/// How the workspace compiles the libraries of others: with the same words they need not be compiled again.
fn profiles() -> Result<String> {
    let manifest = fs::read_to_string("Cargo.toml").context("Cargo.toml")?;
    let parts = manifest.split("\n[").filter(|part| {
        part.starts_with("profile.dev]") || part.starts_with("profile.dev.package.\"*\"]")
    });
    Ok(parts.map(|part| format!("\n[{part}")).collect())
}

/// Packages every crate of the workspace but the chores, in a copy that says that all may be published: cargo finds
/// only such crates when it packages those that need them. Gives the folder of the packages.
pub(crate) fn packages(target: &Path) -> Result<PathBuf> {
    let copy = std::path::absolute(target.join("packages"))?;
    if copy.exists() {
        fs::remove_dir_all(&copy).context("target/packages")?;
    }
    fs::create_dir_all(&copy).context("target/packages")?;
    let list = "git ls-files -z | tar --null -T - -c | tar -x -C \"$0\"";
    steps::run(Command::new("sh").args(["-ec", list]).arg(&copy))?;
    let manifest = fs::read_to_string(copy.join("Cargo.toml")).context("Cargo.toml")?;
    let manifest = manifest.replacen("\npublish = false", "\npublish = true", 1);
    fs::write(copy.join("Cargo.toml"), manifest).context("Cargo.toml")?;
    let package = |more: &[&str]| {
        let mut command = Command::new("cargo");
        command.args(["package", "--quiet", "--no-verify", "--allow-dirty"]).args(more);
        for entry in fs::read_dir("crates").context("crates/")?.flatten() {
            command.arg("-p").arg(entry.file_name());
        }
        command.current_dir(&copy).env("CARGO_TARGET_DIR", copy.join("target"));
        steps::run(command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO"))
    };
    // What was built is known without asking the registry's index, mostly.
    package(&["--offline"]).or_else(|_| package(&[]))?;
    Ok(copy.join("target/package"))
}

/// The version that all crates of the workspace have.
pub(crate) fn version() -> Result<String> {
    let manifest = fs::read_to_string("Cargo.toml").context("Cargo.toml")?;
    let after = manifest.split("[workspace.package]").nth(1).context("[workspace.package]")?;
    let line = after.lines().find_map(|line| line.strip_prefix("version = "));
    Ok(line.context("version")?.trim_matches('"').to_owned())
}

/// Compiles the program, with options for cargo, and lets it read a trace.
fn read(program: &Path, target: &Path, trace: &Path, more: &[&str]) -> Result<Output> {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet"]).args(more).arg("--").arg(trace);
    command.env("CARGO_TARGET_DIR", std::path::absolute(target)?);
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").current_dir(program);
    command.output().context("cargo run")
}

/// Lets the program read all traces.
fn answered(program: &Path, target: &Path) -> Result<()> {
    let mut waits = 0;
    for trace in TRACES {
        let trace = fs::canonicalize(trace).context(trace)?;
        // What was built is known without asking the registry's index, mostly.
        let mut output = read(program, target, &trace, &["--offline"])?;
        if !output.status.success() {
            output = read(program, target, &trace, &[])?;
        }
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        waits += said.lines().filter(|line| line.contains(" on CPU ")).count();
    }
    ensure!(waits > 0, "the program names no wait in {}", TRACES.join(" and "));
    steps::say(&format!(
        "publish: {} libraries packaged; a program against them named {waits} waits",
        LIBRARIES.len()
    ));
    Ok(())
}
