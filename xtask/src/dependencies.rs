//! What cargo-deny finds in the dependencies (`deny.toml`): advisories, licences, sources, and two versions of one crate.
//!
//! Advisories come from a snapshot of the RustSec database, since CI reaches no registry but that of crates. It holds
//! facts only: which versions of which package an advisory is about. cargo-deny reads it as if it had fetched it.

use crate::steps;
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// A newer one may know other checks.
const VERSION: &str = "0.20.2";
const SNAPSHOT: &str = "xtask/advisories.tsv";
/// The folder that cargo-deny looks for: the last part of the database's address, and its hash.
const DATABASE: &str = "advisory-db-3157b0e258782691";
/// Each has a lock of its own.
const WORKSPACES: [&str; 3] = ["Cargo.toml", "python/Cargo.toml", "fuzz/Cargo.toml"];

/// Checks each workspace with the snapshot, offline but for the registry of crates. Where that cannot be reached either,
/// says so.
pub(crate) fn check() -> Result<()> {
    let installed = Command::new("cargo").args(["deny", "--version"]).output();
    if !installed.is_ok_and(|out| out.stdout.trim_ascii().ends_with(VERSION.as_bytes())) {
        // Unoptimised, it compiles in a third of the time and checks in a second.
        let name = format!("cargo-deny@{VERSION}");
        if let Err(error) = steps::cargo(&["install", "--locked", "--debug", &name]) {
            ensure!(std::env::var_os("CI").is_none(), "CI must have cargo-deny: {error}");
            steps::say(
                "MISSING: cargo-deny, or a registry to get it from: dependencies were not checked",
            );
            return Ok(());
        }
    }
    let folder = steps::root().join("target/advisories");
    unpack(&fs::read_to_string(SNAPSHOT).context(SNAPSHOT)?, &folder)?;
    for manifest in WORKSPACES {
        steps::cargo(&["fetch", "--quiet", "--locked", "--manifest-path", manifest])?;
        let deny = ["deny", "--manifest-path", manifest, "--config", "deny.toml", "--frozen"];
        let check = ["check", "--hide-inclusion-graph"];
        // Not each workspace needs each exception.
        let allowed = ["--allow", "license-not-encountered", "--allow", "unmatched-skip"];
        steps::cargo(&[&deny[..], &check, &allowed].concat())?;
    }
    Ok(())
}

/// Writes the snapshot anew from a clone of <https://github.com/rustsec/advisory-db>.
pub(crate) fn renew(clone: &str) -> Result<()> {
    let mut git = Command::new("git");
    git.args(["-C", clone, "log", "-1", "--format=%ct\t%cs\t%H"]);
    let head = git.output().context("git log")?;
    ensure!(head.status.success(), "{clone} is not a git repository");
    let mut lines = Vec::new();
    let crates = Path::new(clone).join("crates");
    for package in fs::read_dir(&crates).with_context(|| format!("{}", crates.display()))? {
        for file in fs::read_dir(package?.path())? {
            let path = file?.path();
            let text = fs::read_to_string(&path)?;
            lines.extend(line(&text).with_context(|| format!("{}", path.display()))?);
        }
    }
    lines.sort();
    let head = String::from_utf8(head.stdout)?;
    fs::write(SNAPSHOT, format!("{head}{}\n", lines.join("\n"))).context(SNAPSHOT)
}

/// An advisory's facts; none where it was withdrawn.
fn line(advisory: &str) -> Result<Option<String>> {
    let text = advisory.split("```toml").nth(1).and_then(|rest| rest.split("```").next());
    let facts: toml::Table = text.context("no TOML")?.parse()?;
    let about = &facts["advisory"];
    let versions = &facts["versions"];
    if about.get("withdrawn").is_some() {
        return Ok(None);
    }
    let word = |key: &str| about.get(key).and_then(toml::Value::as_str).unwrap_or_default();
    let list = |key: &str| versions.get(key).map_or("[]".to_owned(), ToString::to_string);
    let words = [word("id"), word("package"), word("date"), word("informational")].join("\t");
    Ok(Some(format!("{words}\t{}\t{}", list("patched"), list("unaffected"))))
}

/// Lays the snapshot out as cargo-deny keeps what it fetched.
fn unpack(snapshot: &str, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).context("target/advisories")?;
    }
    let database = folder.join(DATABASE);
    fs::create_dir_all(database.join("crates"))?;
    fs::create_dir_all(database.join(".git"))?;
    let (head, lines) = snapshot.split_once('\n').context("an empty snapshot")?;
    let mut head = head.split('\t');
    let seconds = head.next().unwrap_or_default().parse().context("the snapshot's time")?;
    steps::say(&format!("advisories of {}", head.next().unwrap_or_default()));
    // Its age, of which deny.toml has the limit.
    let fetched = fs::File::create(database.join(".git/FETCH_HEAD"))?;
    fetched.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))?;
    for line in lines.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        let [id, package, date, kind, patched, unaffected] = words[..] else {
            anyhow::bail!("{SNAPSHOT}: not an advisory: {line}");
        };
        let mut text = format!("```toml\n[advisory]\nid = \"{id}\"\npackage = \"{package}\"\n");
        writeln!(text, "date = \"{date}\"")?;
        if !kind.is_empty() {
            writeln!(text, "informational = \"{kind}\"")?;
        }
        write!(text, "[versions]\npatched = {patched}\nunaffected = {unaffected}\n```\n# {id}\n")?;
        fs::write(database.join("crates").join(format!("{id}.md")), text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVISORY: &str = "```toml\n[advisory]\nid = \"RUSTSEC-2000-0001\"\npackage = \"x\"\n\
        date = \"2000-01-02\"\ninformational = \"unsound\"\n[versions]\npatched = [\n \">= 1, < 2\",\n\">= 3\"]\n```\n# T\n";

    #[test]
    fn the_facts_of_an_advisory_are_a_line_and_a_file_again() {
        let line = line(ADVISORY).unwrap().unwrap();
        assert_eq!(
            line,
            "RUSTSEC-2000-0001\tx\t2000-01-02\tunsound\t[\">= 1, < 2\", \">= 3\"]\t[]"
        );
        assert_eq!(super::line(&ADVISORY.replace("date", "withdrawn")).unwrap(), None);
    }
}
