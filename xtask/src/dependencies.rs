//! Each dependency of the workspace is used by a crate and has its reason in `docs/dependencies.md`.
//! The table names nothing else.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::PathBuf;

const REASONS: &str = "docs/dependencies.md";

/// Every dependency without a reason or a user, and every reason without a dependency.
pub(crate) fn check(files: &[PathBuf]) -> Result<Vec<String>> {
    let root = read("Cargo.toml")?;
    let workspace = names_in(&root, "[workspace.dependencies]");
    let reasons = names_in_table(&read(REASONS)?);
    let mut used = BTreeSet::new();
    for path in files.iter().filter(|path| path.ends_with("Cargo.toml") && path.exists()) {
        let manifest = read(&path.to_string_lossy())?;
        used.extend(manifest.lines().filter_map(dependency_name).map(str::to_owned));
    }
    let mut found = Vec::new();
    for name in workspace.iter().filter(|name| !name.starts_with("schedlab-")) {
        if !reasons.contains(name) {
            found.push(format!("{REASONS}: gives no reason for `{name}`"));
        }
        if !used.contains(name) {
            found.push(format!("Cargo.toml: no crate uses `{name}`"));
        }
    }
    for name in reasons.difference(&workspace) {
        found.push(format!("{REASONS}: names `{name}`, which is not in Cargo.toml"));
    }
    Ok(found)
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path).context(path.to_owned())
}

/// The keys of one section of a manifest.
fn names_in(manifest: &str, heading: &str) -> BTreeSet<String> {
    let section = manifest.split(heading).nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    section.lines().filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect()
}

/// `name` of a line `name.workspace = true` or `name = { workspace = true, ... }`.
fn dependency_name(line: &str) -> Option<&str> {
    let (left, right) = line.split_once(" = ")?;
    match left.strip_suffix(".workspace") {
        Some(name) => Some(name),
        None => right.contains("workspace = true").then_some(left),
    }
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
    fn a_dependency_is_known_by_either_spelling() {
        assert_eq!(dependency_name("serde.workspace = true"), Some("serde"));
        assert_eq!(dependency_name("rayon = { workspace = true, optional = true }"), Some("rayon"));
        assert_eq!(dependency_name("version = \"1\""), None);
    }

    #[test]
    fn only_the_first_column_of_the_table_counts() {
        let table = "| dependency | saves |\n|---|---|\n| `clap` | brings `other` along |\n";
        assert_eq!(names_in_table(table), BTreeSet::from(["clap".to_owned()]));
    }
}
