//! What a user installs: a static binary, and a Debian package with the man page, completions and links.

mod debian;

use crate::steps;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Everything that is built lies here.
const DIST: &str = "dist";
/// A binary of this target needs no library: one file is the whole installation.
const STATIC: &str = "x86_64-unknown-linux-musl";
/// The pages that the binary prints, with the names of their files.
const PAGES: [(&str, &str); 4] = [
    ("man", "schedlab.1"),
    ("bash", "schedlab.bash"),
    ("zsh", "_schedlab"),
    ("fish", "schedlab.fish"),
];

/// Builds the release: the static binary, the package that holds it, and an installation by cargo.
pub(crate) fn run() -> Result<()> {
    let binary = static_program()?;
    made(&binary, Path::new(DIST), "")?;
    installed(&target())?;
    steps::say("dist/: schedlab (static), its man page, completions, and the Debian package");
    Ok(())
}

/// Builds the static binary; where it is.
pub(crate) fn static_program() -> Result<PathBuf> {
    let build = ["build", "--release", "--locked", "-p", "schedlab", "--target", STATIC];
    steps::cargo(&build).context(format!(
        "a static binary needs `rustup target add {STATIC}` and the package musl-tools"
    ))?;
    Ok(target().join(STATIC).join("release/schedlab"))
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
    made(&binary, &folder, "libc6")
}

fn target() -> PathBuf {
    PathBuf::from(std::env::var("CARGO_TARGET_DIR").unwrap_or("target".into()))
}

/// Lays the binary, its pages and the package into a folder, and tries the package.
fn made(binary: &Path, folder: &Path, depends: &str) -> Result<()> {
    std::fs::create_dir_all(folder).context("the folder of the release")?;
    let own = folder.join("schedlab");
    std::fs::copy(binary, &own).context(format!("{}", binary.display()))?;
    for (what, file) in PAGES {
        let page = said(&own, &["shell", what])?;
        std::fs::write(folder.join(file), page).context(file)?;
    }
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

/// `cargo install` gives a program that runs.
fn installed(target: &Path) -> Result<()> {
    let root = target.join("installed");
    let root_text = root.to_string_lossy().into_owned();
    let path = ["install", "--path", "crates/schedlab", "--locked", "--force", "--root"];
    steps::cargo(&[&path[..], &[root_text.as_str()]].concat())?;
    let version = said(&root.join("bin/schedlab"), &["--version"])?;
    ensure!(version.starts_with(b"schedlab "), "cargo install gives another program");
    Ok(())
}
