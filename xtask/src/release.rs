//! What a user installs: a static binary, a Debian package, a container image, packages for cargo, and the wheel
//! for Python. Each is tried as a user would have it.

mod alone;
mod container;
mod debian;
mod registry;

use crate::{publish, python, steps};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Everything that is built lies here.
const DIST: &str = "dist";
/// A binary of this target needs no library: one file is the whole installation.
const STATIC: &str = "x86_64-unknown-linux-musl";
/// The completions that the binary prints, with the names of their files.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "schedlab.bash"), ("zsh", "_schedlab"), ("fish", "schedlab.fish")];

/// Builds the release: the static binary, what holds it, and an installation by cargo.
pub(crate) fn run() -> Result<()> {
    let target = target();
    let dist = Path::new(DIST);
    let start = Instant::now();
    let binary = static_program()?;
    let seconds = start.elapsed().as_secs_f64();
    made(&binary, dist, "")?;
    alone::try_out(&dist.join("schedlab"), &target.join("alone"))?;
    container::build(dist)?;
    registry::installed(&target)?;
    python::release(&dist.join("schedlab"), dist)?;
    let size = std::fs::metadata(dist.join("schedlab")).context("dist/schedlab")?.len();
    steps::say(&format!(
        "dist/: schedlab (static, {} MiB), its man pages, completions, the Debian package, and the wheel; \
         the build took {seconds:.0} s",
        size >> 20
    ));
    Ok(())
}

/// What makes cargo check for the static binary, which has another C library with other types. Nothing, which is said,
/// if this machine has neither its target nor a way to get it, or no compiler for its C parts.
pub(crate) fn static_target() -> &'static [&'static str] {
    let added = Command::new("rustup").args(["target", "add", STATIC]).output();
    let compiles = Command::new("musl-gcc").arg("--version").output();
    if [added, compiles].iter().all(|done| done.as_ref().is_ok_and(|out| out.status.success())) {
        return &["--target", STATIC];
    }
    steps::say(&format!("MISSING: the target {STATIC}: the static binary was not checked"));
    &[]
}

/// Builds the static binary; where it is.
fn static_program() -> Result<PathBuf> {
    let build = ["build", "--profile", "dist", "--locked", "-p", "schedlab", "--target", STATIC];
    steps::cargo(&build).context(format!(
        "a static binary needs `rustup target add {STATIC}` and the package musl-tools"
    ))?;
    Ok(target().join(STATIC).join("dist/schedlab"))
}

/// The same from a debug build, so that a mistake in the packaging is found before a release.
pub(crate) fn rehearse() -> Result<()> {
    steps::cargo(&["build", "--locked", "-p", "schedlab"])?;
    rehearse_built()
}

/// The same from the binary that the tests left.
pub(crate) fn rehearse_built() -> Result<()> {
    let folder = target().join("rehearsal");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("target/rehearsal")?;
    }
    std::fs::create_dir_all(&folder).context("target/rehearsal")?;
    let binary = folder.join("stripped");
    steps::run(Command::new("strip").arg("-o").arg(&binary).arg(target().join("debug/schedlab")))?;
    made(&binary, &folder, "libc6")?;
    container::listed(&folder)?;
    let packages = registry::complete(&target())?;
    publish::try_out(&packages, &target())
}

fn target() -> PathBuf {
    PathBuf::from(std::env::var("CARGO_TARGET_DIR").unwrap_or("target".into()))
}

/// Lays the binary, its pages and the package into a folder, and tries the package.
fn made(binary: &Path, folder: &Path, depends: &str) -> Result<()> {
    std::fs::create_dir_all(folder).context("the folder of the release")?;
    let own = folder.join("schedlab");
    std::fs::copy(binary, &own).context(format!("{}", binary.display()))?;
    for (what, file) in COMPLETIONS {
        let page = said(&own, &["shell", what])?;
        std::fs::write(folder.join(file), page).context(file)?;
    }
    let manual = folder.join("man1");
    if manual.exists() {
        std::fs::remove_dir_all(&manual).context("man1")?;
    }
    let mut pages = Command::new(std::path::absolute(&own)?);
    steps::run(pages.args(["shell", "man", "--output"]).arg(&manual))?;
    let package = debian::build(folder, depends)?;
    debian::try_out(&package, folder)
}

/// What a program prints; an empty answer is a mistake.
fn said(program: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let program = std::path::absolute(program)?;
    let output = Command::new(&program).args(arguments).output();
    let output = output.context(format!("{}", program.display()))?;
    let words = arguments.join(" ");
    ensure!(output.status.success(), "`{} {words}`: {}", program.display(), output.status);
    ensure!(!output.stdout.is_empty(), "`{} {words}` prints nothing", program.display());
    Ok(output.stdout)
}

fn emptied(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).context(format!("{}", folder.display()))?;
    }
    std::fs::create_dir_all(folder).context(format!("{}", folder.display()))
}
