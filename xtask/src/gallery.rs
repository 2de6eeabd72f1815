//! The gallery at small size, with the program that the tests left: every example runs to its verdicts.

use crate::steps;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Examples in the order of the folder, with whether a real machine runs them, which may lack a right or a CPU.
fn examples() -> Result<Vec<(String, bool)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("examples/gallery").context("examples/gallery")? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).context(format!("{}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.push((name, text.contains("machine = \"host\"")));
    }
    found.sort();
    Ok(found)
}

/// Runs all examples, and counts their verdicts.
pub(crate) fn run_built() -> Result<()> {
    let target = PathBuf::from(std::env::var("CARGO_TARGET_DIR").unwrap_or("target".into()));
    let program = std::path::absolute(target.join("debug/schedlab"))?;
    let results = target.join("gallery");
    if results.exists() {
        fs::remove_dir_all(&results).context("target/gallery")?;
    }
    let mut command = Command::new(program);
    // Some examples may be left out; which ones is looked at below.
    let _ = steps::run(command.args(["gallery", "run", "--short", "--output"]).arg(&results));
    let mut told = Vec::new();
    for (name, is_real) in examples()? {
        match verdicts(&results.join(format!("{name}-short"))) {
            Ok(verdicts) => told.push(format!("{name} {verdicts}")),
            Err(error) if is_real => steps::say(&format!(
                "MISSING: what the example {name} needs of this machine: it was not run: {error:#}"
            )),
            Err(error) => bail!("the example {name} of the gallery did not run: {error:#}"),
        }
    }
    steps::say(&format!("gallery (reproduced/not/open): {}", told.join(", ")));
    Ok(())
}

/// How many claims were reproduced, were not, and cannot be judged.
fn verdicts(folder: &Path) -> Result<String> {
    let text = fs::read_to_string(folder.join("claims.json")).context("no claims.json")?;
    let document: Value = serde_json::from_str(&text).context("claims.json")?;
    let claims = document["claims"].as_array().context("no claims")?;
    let count = |word: &str| {
        let is = |claim: &&Value| claim["verdict"].as_str().is_some_and(|it| it.starts_with(word));
        claims.iter().filter(is).count()
    };
    let counts = [count("reproduced"), count("not reproduced"), count("cannot be judged")];
    ensure!(counts.iter().sum::<usize>() == claims.len(), "a claim has no verdict");
    ensure!(folder.join("report.html").is_file(), "no report.html");
    ensure!(folder.join("picture-1.png").is_file(), "no picture");
    Ok(counts.map(|count| count.to_string()).join("/"))
}
