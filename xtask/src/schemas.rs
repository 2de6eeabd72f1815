//! `docs/schemas`: the schemas of what `--json` prints, as the program itself tells them.

use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use std::process::Command;

const FOLDER: &str = "docs/schemas";

/// Writes the folder anew.
pub(crate) fn run() -> Result<()> {
    let folder = Path::new(FOLDER);
    if folder.exists() {
        std::fs::remove_dir_all(folder).context(FOLDER)?;
    }
    std::fs::create_dir_all(folder).context(FOLDER)?;
    for id in schedlab(&[])?.lines() {
        let name = id.split('/').nth(1).context(id.to_owned())?;
        std::fs::write(folder.join(format!("{name}.json")), schedlab(&[name])?)?;
    }
    Ok(())
}

fn schedlab(words: &[&str]) -> Result<String> {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "-p", "schedlab", "--", "schema"]).args(words);
    let output = command.output().context("cargo run")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
