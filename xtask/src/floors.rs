//! The floors of the house: a crate imports only crates on lower floors, and only those of its list.

use anyhow::{Context, Result};
use std::path::Path;

/// Crate, and what it may import. Adding a crate or an import is a decision about the house: make it
/// here, and in ARCHITECTURE.md.
const MAY_IMPORT: [(&str, &[&str]); 21] = [
    ("schedlab-model", &[]),
    ("schedlab-random", &[]),
    ("schedlab-pool", &[]),
    ("schedlab-stats", &["random"]),
    ("schedlab-jobs", &["model", "pool", "random"]),
    ("schedlab-tune", &["stats"]),
    ("schedlab-jobs-c", &["pool"]),
    ("schedlab-workload", &["model", "stats", "jobs"]),
    ("schedlab-sys", &["model"]),
    ("schedlab-trace", &["model", "random"]),
    ("schedlab-timeline", &["model", "random", "stats"]),
    ("schedlab-record", &["model", "sys", "trace", "workload"]),
    ("schedlab-host", &["model", "random", "stats", "sys", "trace", "workload", "jobs", "record"]),
    ("schedlab-sim", &["model", "random", "stats", "workload", "jobs"]),
    ("schedlab-replay", &["model", "stats", "timeline", "workload"]),
    ("schedlab-vm", &["model", "stats", "sys", "trace", "workload"]),
    ("schedlab-kernel", &["jobs", "model", "sim", "sys", "trace", "vm", "workload"]),
    ("schedlab-rig", &["jobs", "model", "pool", "record", "sys", "timeline", "trace"]),
    ("schedlab-draw", &["model", "stats", "timeline"]),
    (
        "schedlab-experiment",
        &["model", "stats", "tune", "sys", "trace", "timeline", "workload", "jobs", "draw"],
    ),
    (
        "schedlab",
        &[
            "model",
            "stats",
            "tune",
            "pool",
            "jobs",
            "workload",
            "sys",
            "trace",
            "timeline",
            "record",
            "host",
            "kernel",
            "sim",
            "replay",
            "rig",
            "vm",
            "draw",
            "experiment",
        ],
    ),
];

/// Every import that the floors do not allow, and every crate that has no floor.
pub(crate) fn check() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("crates").context("crates/")? {
        let folder = entry?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match MAY_IMPORT.iter().find(|(crate_name, _)| *crate_name == name) {
            Some((_, allowed)) => check_crate(&folder, &name, allowed, &mut found)?,
            None => found.push(format!("crates/{name}: has no floor in xtask/src/floors.rs")),
        }
    }
    Ok(found)
}

fn check_crate(folder: &Path, name: &str, allowed: &[&str], found: &mut Vec<String>) -> Result<()> {
    let manifest = folder.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).context(format!("{}", manifest.display()))?;
    let mut section = "";
    for line in text.lines() {
        if line.starts_with('[') {
            section = line.trim();
        }
        let imported = line.split(['.', ' ', '=']).next().unwrap_or_default();
        let Some(noun) = imported.strip_prefix("schedlab-") else { continue };
        // What tests import does not bind the house.
        if section == "[dependencies]" && !allowed.contains(&noun) {
            found.push(format!("{}: {name} may not import {imported}", manifest.display()));
        }
    }
    Ok(())
}
