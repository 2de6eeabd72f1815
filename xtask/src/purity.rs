//! The pure crates reach no file, process, clock, environment or network.
//!
//! Clippy refuses calls by their type (each crate's `clippy.toml`), but only those that it lists. Here it is the other
//! way round: of the standard library a pure crate may name what is listed below and nothing else, and of other crates
//! those of [`MAY_IMPORT`]. Tests (`#[cfg(test)]`) may do what they like.

mod rules;

use crate::tokens::{self, Token};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The crates whose results follow from their arguments alone.
const PURE: [&str; 9] =
    ["model", "random", "stats", "tune", "timeline", "workload", "draw", "replay", "sim"];

/// What they may import: each other, `schedlab-jobs` without its threads and clocks (see the rules), and crates that
/// compute.
const MAY_IMPORT: [&str; 12] = [
    "flate2",
    "pdf-writer",
    "schedlab-jobs",
    "schemars",
    "rustc-hash",
    "serde",
    "serde_json",
    "skrifa",
    "subsetter",
    "thiserror",
    "tiny-skia",
    "toml",
];

/// Every way out that a pure crate names.
pub(crate) fn check() -> Result<Vec<String>> {
    let mut found = Vec::new();
    let lints = read(Path::new("crates/schedlab-model/clippy.toml"))?;
    for noun in PURE {
        let folder = PathBuf::from(format!("crates/schedlab-{noun}"));
        let manifest = folder.join("Cargo.toml");
        for (line, what) in imports(&read(&manifest)?) {
            found.push(format!("{}:{line}: {what}", manifest.display()));
        }
        if read(&folder.join("clippy.toml")).ok().as_ref() != Some(&lints) {
            let path = folder.join("clippy.toml");
            found.push(format!("{}: not that of schedlab-model", path.display()));
        }
        if folder.join("build.rs").exists() {
            found.push(format!("{}: a pure crate has no build script", folder.display()));
        }
        check_sources(&folder.join("src"), &mut found)?;
    }
    Ok(found)
}

fn check_sources(folder: &Path, found: &mut Vec<String>) -> Result<()> {
    for (path, program) in programs(folder)? {
        let of_file = |(line, what): (usize, String)| format!("{}:{line}: {what}", path.display());
        found.extend(ways_out(&path, &program).into_iter().map(of_file));
    }
    Ok(())
}

/// The tokens of each Rust file of a folder, without what only tests compile.
pub(crate) fn programs(folder: &Path) -> Result<Vec<(PathBuf, Vec<Token>)>> {
    let mut paths = Vec::new();
    sources(folder, &mut paths)?;
    let mut programs = Vec::new();
    let mut of_tests = BTreeSet::new();
    for path in paths {
        let (program, modules) = tokens::program(&read(&path)?);
        of_tests.extend(modules.into_iter().map(|name| module(&path, &name)));
        programs.push((path, program));
    }
    programs.retain(|(path, _)| {
        let path = path.with_extension("");
        !path.ancestors().any(|above| of_tests.contains(above))
    });
    Ok(programs)
}

/// Every Rust file of a folder, in order.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(folder).context(format!("{}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<BTreeSet<_>>>()?;
    for path in paths {
        if path.is_dir() {
            sources(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
    Ok(())
}

/// Where the module lies that a file declares, without its extension.
fn module(file: &Path, name: &str) -> PathBuf {
    match file.file_stem().is_some_and(|stem| ["lib", "mod"].iter().any(|root| stem == *root)) {
        true => file.with_file_name(name),
        false => file.with_extension("").join(name),
    }
}

/// The ways out of one source, each with its line.
fn ways_out(path: &Path, program: &[Token]) -> Vec<(usize, String)> {
    let mut found = rules::imports(program);
    found.extend(rules::paths(program));
    found.extend(rules::marks(program));
    found.extend(rules::inclusions(path, program));
    found.sort();
    found.dedup();
    found
}

fn imports(manifest: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut section = "";
    for (number, line) in (1..).zip(manifest.lines()) {
        let line = line.trim();
        if line.starts_with('[') {
            section = line;
            let of_its_own = ["[dependencies.", "[target.", "[build-dependencies"];
            if of_its_own.iter().any(|start| line.starts_with(start)) {
                found.push((
                    number,
                    format!("{line}: a pure crate lists what it imports in [dependencies]"),
                ));
            }
        }
        let of_build = section == "[package]" && line.starts_with("build");
        if of_build || (section == "[dependencies]" && line.contains("package")) {
            found.push((
                number,
                format!("{line}: no build script and no other name in a pure crate"),
            ));
        }
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        let is_pure = name.strip_prefix("schedlab-").is_some_and(|noun| PURE.contains(&noun));
        let is_name = section == "[dependencies]" && line.contains('=');
        if is_name && !is_pure && !MAY_IMPORT.contains(&name) {
            found.push((
                number,
                format!("a pure crate may not import {name} (xtask/src/purity.rs)"),
            ));
        }
    }
    found
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).context(format!("{}", path.display()))
}

#[cfg(test)]
mod tests;
