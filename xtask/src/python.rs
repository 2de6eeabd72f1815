//! The wheel for Python: built by maturin, installed into an environment of its own, and tested there.

use crate::{contents, steps};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the tests compare with: those that take the tables, and what runs notebooks and checks types.
const PACKAGES: [&str; 9] = [
    "maturin==1.16.0",
    "pyarrow==26.0.1",
    "pandas==3.1.1",
    "polars==2.1.0",
    "duckdb==2.0.0",
    "numpy==2.4.6",
    "nbclient==0.11.0",
    "ipykernel==7.4.0",
    "mypy==2.4.1",
];

/// Builds the wheel and runs its tests against the command that the tests of the workspace left.
pub(crate) fn run() -> Result<()> {
    steps::cargo(&["build", "--locked", "-p", "schedlab"])?;
    run_built()
}

/// The same with the command that is there. A machine that cannot get the packages says so.
pub(crate) fn run_built() -> Result<()> {
    let Some(python) = environment()? else {
        steps::say(
            "MISSING: python3 with venv and pip, or the packages that the wheel's tests need: \
             the wheel was not built and not tested",
        );
        return Ok(());
    };
    // It would look like crates that cannot be had.
    ensure!(
        !lock_is_behind()?,
        "python/Cargo.lock does not name all dependencies: run `cargo metadata --offline` in python/ and commit it"
    );
    let fetch = ["fetch", "--quiet", "--locked", "--manifest-path", "python/Cargo.toml"];
    if steps::cargo(&fetch).is_err() {
        steps::say(
            "MISSING: the crates of python/Cargo.lock: the wheel was not built and not tested",
        );
        return Ok(());
    }
    let wheels = target().join("python/wheels");
    let wheel = wheel(&python, &wheels, &["--profile", "dev"])?;
    install(&python, &wheel)?;
    let mut tests = Command::new(std::path::absolute(&python)?);
    tests.args(["-m", "unittest", "discover", "--top-level-directory", ".", "--start-directory"]);
    tests.arg("tests").current_dir("python");
    tests.env("SCHEDLAB", std::path::absolute(target().join("debug/schedlab"))?);
    steps::run(&mut tests)
}

/// Whether the lock names too few dependencies. cargo is asked without the network: crates that are not available are
/// another error.
fn lock_is_behind() -> Result<bool> {
    let mut ask = Command::new("cargo");
    ask.args(["metadata", "--locked", "--offline", "--format-version", "1", "--manifest-path"]);
    let said = ask.arg("python/Cargo.toml").output().context("cargo")?.stderr;
    Ok(String::from_utf8_lossy(&said).contains("cannot update the lock file"))
}

fn target() -> PathBuf {
    PathBuf::from(std::env::var("CARGO_TARGET_DIR").unwrap_or("target".into()))
}

/// The interpreter of an environment with all packages; `None` where it cannot be made.
fn environment() -> Result<Option<PathBuf>> {
    let folder = std::path::absolute(target().join("python/environment"))?;
    let python = folder.join("bin/python");
    let made = python.exists()
        || steps::run(Command::new("python3").args(["-m", "venv"]).arg(&folder)).is_ok();
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    let got = made && steps::run(Command::new(&python).args(pip).args(PACKAGES)).is_ok();
    Ok(got.then_some(python))
}

/// Builds the wheel into an empty folder.
pub(crate) fn wheel(python: &Path, folder: &Path, options: &[&str]) -> Result<PathBuf> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).context("the folder of the wheels")?;
    }
    let mut command = Command::new(python);
    command.args(["-m", "maturin", "build", "--quiet", "--locked", "--out"]);
    command.arg(std::path::absolute(folder)?).args(options);
    command.args(["--manifest-path", "python/Cargo.toml"]);
    command.env("CARGO_TARGET_DIR", std::path::absolute(target().join("python/build"))?);
    steps::run(command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO"))?;
    let mut wheels = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let wheel = wheels.next().context("maturin made no wheel")?;
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    ensure!(name.contains("-abi3-"), "{name} is for one version of Python only");
    let names = "import sys, zipfile; print(*zipfile.ZipFile(sys.argv[1]).namelist(), sep='\\n')";
    let files = contents::listed(&format!("python3 -c \"{names}\" \"$0\""), &wheel)?;
    contents::check(&wheel, &files, contents::WHEEL)?;
    Ok(wheel)
}

/// The wheel of a release, which holds the static command: `pip install` of it is the whole installation.
pub(crate) fn release(command: &Path, dist: &Path) -> Result<()> {
    let Some(python) = environment()? else {
        steps::say("MISSING: python3 with venv and pip: the wheel was not built");
        return Ok(());
    };
    let scripts = Path::new("python/schedlab._native.data/scripts");
    std::fs::create_dir_all(scripts).context("python/schedlab._native.data")?;
    std::fs::copy(command, scripts.join("schedlab")).context("the static command")?;
    let made = wheel(&python, &target().join("python/release"), &["--release", "--strip"]);
    // Wheels of the tests have no command.
    std::fs::remove_dir_all("python/schedlab._native.data")
        .context("python/schedlab._native.data")?;
    let made = made?;
    install(&python, &made)?;
    let asked = "import schedlab, subprocess; subprocess.run([schedlab.command(), '--version'], check=True)";
    let mut try_out = Command::new(std::path::absolute(&python)?);
    steps::run(try_out.args(["-c", asked]).current_dir(target()).env_remove("SCHEDLAB"))?;
    let name = made.file_name().context("a wheel has a name")?;
    std::fs::copy(&made, dist.join(name)).context("the wheel")?;
    Ok(())
}

fn install(python: &Path, wheel: &Path) -> Result<()> {
    let pip = ["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", "--no-index"];
    steps::run(Command::new(python).args(pip).arg(wheel))
}
