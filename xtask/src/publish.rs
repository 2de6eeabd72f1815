//! The libraries as others get them: packaged, unpacked elsewhere, and used by a program outside the workspace.

use crate::steps;
use anyhow::{Context as _, Result, ensure};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The libraries that can be published, in the order in which they need each other.
pub(crate) const LIBRARIES: [&str; 6] = [
    "schedlab-random",
    "schedlab-model",
    "schedlab-stats",
    "schedlab-timeline",
    "schedlab-trace",
    "schedlab-jobs",
];
/// A program of somebody else's.
const PROGRAM: &str = "examples/library/longest-waits.rs";
/// A trace in which tasks wait, and a perf.data that is kept for the fuzz targets: hardly anybody waits there.
const TRACES: [&str; 2] = ["corpus/buffers.dat", "fuzz/corpus/perf/little.data"];

/// Packages the libraries and compiles the program against what is in the packages.
pub(crate) fn run() -> Result<()> {
    let target = PathBuf::from(std::env::var("CARGO_TARGET_DIR").unwrap_or("target".into()));
    let packages = packaged(&target)?;
    let folder = target.join("publish");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("target/publish")?;
    }
    std::fs::create_dir_all(folder.join("program/src")).context("target/publish")?;
    let mut manifest =
        "[package]\nname = \"longest-waits\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         publish = false\n\n[workspace]\n\n[dependencies]\n"
            .to_owned();
    let mut patch = "\n[patch.crates-io]\n".to_owned();
    for Package { name, version, file } in &packages {
        steps::run(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(&folder))?;
        writeln!(manifest, "{name} = \"{version}\"")?;
        writeln!(patch, "{name} = {{ path = \"../{name}-{version}\" }}")?;
    }
    let program = folder.join("program");
    std::fs::write(program.join("Cargo.toml"), manifest + &patch).context("Cargo.toml")?;
    std::fs::copy(PROGRAM, program.join("src/main.rs")).context(PROGRAM)?;
    // The versions of other libraries are those that were tested.
    std::fs::copy("Cargo.lock", program.join("Cargo.lock")).context("Cargo.lock")?;
    answered(&program, &target)
}

/// A library as it would be uploaded.
struct Package {
    name: &'static str,
    version: String,
    file: PathBuf,
}

fn packaged(target: &Path) -> Result<Vec<Package>> {
    let mut command = Command::new("cargo");
    command.args(["package", "--no-verify", "--allow-dirty"]);
    for name in LIBRARIES {
        command.args(["-p", name]);
    }
    steps::run(command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO"))?;
    let version = version()?;
    let package = |name| {
        let file = target.join(format!("package/{name}-{version}.crate"));
        ensure!(file.is_file(), "{} is missing", file.display());
        Ok(Package { name, version: version.clone(), file })
    };
    LIBRARIES.into_iter().map(package).collect()
}

/// The version that all crates of the workspace have.
pub(crate) fn version() -> Result<String> {
    let manifest = std::fs::read_to_string("Cargo.toml").context("Cargo.toml")?;
    let after = manifest.split("[workspace.package]").nth(1).context("[workspace.package]")?;
    let line = after.lines().find_map(|line| line.strip_prefix("version = "));
    Ok(line.context("version")?.trim_matches('"').to_owned())
}

/// Compiles the program and has it read traces.
fn answered(program: &Path, target: &Path) -> Result<()> {
    let mut waits = 0;
    for trace in TRACES {
        let mut command = Command::new("cargo");
        command.args(["run", "--quiet", "--"]).arg(std::fs::canonicalize(trace).context(trace)?);
        command.env("CARGO_TARGET_DIR", std::path::absolute(target.join("publish-build"))?);
        command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").current_dir(program);
        let output = command.output().context("cargo run")?;
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
