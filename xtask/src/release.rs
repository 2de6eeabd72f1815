//! What a user installs: the binary, the man page, the completions.

use crate::steps;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// Builds the release binary and lays it with its pages into dist/.
pub(crate) fn run() -> Result<()> {
    steps::cargo(&["build", "--release", "--locked", "-p", "schedlab"])?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let binary = Path::new(&target).join("release/schedlab");
    std::fs::create_dir_all("dist").context("dist/")?;
    std::fs::copy(&binary, "dist/schedlab").context(format!("{}", binary.display()))?;
    for (what, file) in [
        ("man", "schedlab.1"),
        ("bash", "schedlab.bash"),
        ("zsh", "_schedlab"),
        ("fish", "schedlab.fish"),
    ] {
        let page = Command::new("dist/schedlab").args(["shell", what]).output();
        let page = page.context(format!("schedlab shell {what}"))?;
        std::fs::write(Path::new("dist").join(file), page.stdout).context(file)?;
    }
    steps::say("dist/: schedlab, its man page, completions for bash, zsh and fish");
    Ok(())
}
