//! `docs/schemas`: the schemas of what `--json` prints, as the program itself tells them.

use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use std::process::Command;

const FOLDER: &str = "docs/schemas";

/// Writes the folder anew. The schemas are all made first, so that a failure leaves the old ones as they are.
pub(crate) fn run() -> Result<()> {
    let mut made = Vec::new();
    for id in schedlab(&[])?.lines() {
        let name = id.split('/').nth(1).context(id.to_owned())?;
        made.push((format!("{name}.json"), schedlab(&[name])?));
    }
    ensure!(!made.is_empty(), "`schedlab schema` lists nothing");
    replace(Path::new(FOLDER), &made)
}

/// Puts these files into the folder, and removes what else is there.
fn replace(folder: &Path, files: &[(String, String)]) -> Result<()> {
    std::fs::create_dir_all(folder).context(FOLDER)?;
    for (name, text) in files {
        std::fs::write(folder.join(name), text).context(name.clone())?;
    }
    for entry in std::fs::read_dir(folder).context(FOLDER)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !files.iter().any(|(kept, _)| *kept == name) {
            std::fs::remove_file(&path).context(format!("{}", path.display()))?;
        }
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
