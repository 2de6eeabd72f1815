//! Each dependency of any manifest has its reason in `docs/dependencies.md`, and the table names nothing else. Each
//! dependency of the workspace is used by a crate. The locks outside of the workspace name all dependencies.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

const REASONS: &str = "docs/dependencies.md";
const WORKSPACE: &str = "[workspace.dependencies]";

/// Every dependency without a reason or a user, and every reason without a dependency.
pub(crate) fn check(files: &[PathBuf]) -> Result<Vec<String>> {
    let workspace = names_in(&read("Cargo.toml")?, |heading| heading == WORKSPACE);
    let reasons = names_in_table(&read(REASONS)?);
    let mut used = BTreeSet::new();
    for path in files.iter().filter(|path| path.ends_with("Cargo.toml") && path.exists()) {
        let manifest = read(&path.to_string_lossy())?;
        used.extend(names_in(&manifest, |heading| {
            heading.contains("dependencies") && heading != WORKSPACE
        }));
    }
    let mut found = Vec::new();
    for name in workspace.union(&used).filter(|name| !name.starts_with("schedlab-")) {
        if !reasons.contains(name) {
            found.push(format!("{REASONS}: gives no reason for `{name}`"));
        }
        if !used.contains(name) {
            found.push(format!("Cargo.toml: no crate uses `{name}`"));
        }
    }
    for name in reasons.difference(&used) {
        found.push(format!("{REASONS}: names `{name}`, which no manifest has"));
    }
    for folder in ["fuzz", "python"] {
        if lock_is_behind(folder)? {
            let mend = format!("run `cargo metadata --offline` in {folder}/ and commit it");
            found.push(format!("{folder}/Cargo.lock: does not name all dependencies: {mend}"));
        }
    }
    Ok(found)
}

/// Whether the lock of a folder outside of the workspace names too few dependencies. cargo is asked without the network:
/// crates that cannot be had are another error.
pub(crate) fn lock_is_behind(folder: &str) -> Result<bool> {
    let mut ask = Command::new("cargo");
    ask.args(["metadata", "--locked", "--offline", "--format-version", "1", "--manifest-path"]);
    let said = ask.arg(format!("{folder}/Cargo.toml")).output().context("cargo")?.stderr;
    Ok(String::from_utf8_lossy(&said).contains("cannot update the lock file"))
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path).context(path.to_owned())
}

/// The names of dependencies in the sections of a manifest that `wanted` chooses by their headings.
fn names_in(manifest: &str, wanted: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut is_wanted = false;
    let mut names = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_wanted = wanted(line);
        } else if is_wanted && let Some((key, _)) = line.split_once(" = ") {
            names.insert(key.split('.').next().unwrap_or(key).to_owned());
        }
    }
    names
}

/// The names in backticks of the first column of every table.
fn names_in_table(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_is_known_by_either_spelling_in_its_section_alone() {
        let manifest = "[package]\nversion = \"1\"\n[dependencies]\nserde.workspace = true\n\
                        rayon = { workspace = true, optional = true }\n\
                        [target.'cfg(unix)'.dev-dependencies]\nloom = \"0.7\"\n[features]\nx = []\n";
        let names = names_in(manifest, |heading| heading.contains("dependencies"));
        assert_eq!(names, BTreeSet::from(["loom", "rayon", "serde"].map(str::to_owned)));
    }

    #[test]
    fn only_the_first_column_of_the_table_counts() {
        let table = "| dependency | saves |\n|---|---|\n| `clap` | brings `other` along |\n";
        assert_eq!(names_in_table(table), BTreeSet::from(["clap".to_owned()]));
    }
}
