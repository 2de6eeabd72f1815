//! The public interface of the libraries, one line for each item, kept in docs/interface: a change of what others
//! build on is a change of a file, and so it is seen.

mod items;
mod types;

use crate::publish::LIBRARIES;
use crate::steps;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Where the listings are kept.
const FOLDER: &str = "docs/interface";
/// The version of rustdoc's JSON that this reads.
const FORMAT: u64 = 57;
/// rustdoc says all that it knows only to those who ask for what is not stable. Only rustdoc is asked: with the variable
/// set for cargo, it would build the libraries' dependencies anew.
const RUSTDOC: &str = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n";

/// Writes the listings anew.
pub(crate) fn write() -> Result<()> {
    for (name, listing) in listings()?.unwrap_or_default() {
        let file = file(name);
        fs::create_dir_all(FOLDER).context(FOLDER)?;
        fs::write(&file, listing).context(format!("{}", file.display()))?;
    }
    Ok(())
}

/// Compares the listings with the libraries.
pub(crate) fn check() -> Result<()> {
    let Some(listings) = listings()? else { return Ok(()) };
    let mut count = 0;
    for (name, listing) in listings {
        let file = file(name);
        let kept = fs::read_to_string(&file).context(format!("{}", file.display()))?;
        let (kept, now): (Vec<&str>, Vec<&str>) =
            (kept.lines().collect(), listing.lines().collect());
        let gone = kept.iter().find(|line| !now.contains(line));
        let new = now.iter().find(|line| !kept.contains(line));
        ensure!(
            kept == now,
            "{} differs from {name}: `cargo xtask interface` writes it anew. Gone: {}. New: {}.",
            file.display(),
            gone.unwrap_or(&"nothing"),
            new.unwrap_or(&"nothing")
        );
        count += now.len();
    }
    steps::say(&format!("interface: {} libraries with {count} public items", LIBRARIES.len()));
    Ok(())
}

fn file(name: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{name}.txt"))
}

/// The listing of each library; `None` with another version of rustdoc, whose JSON differs.
fn listings() -> Result<Option<Vec<(&'static str, String)>>> {
    let target = PathBuf::from(std::env::var("CARGO_TARGET_DIR").unwrap_or("target".into()));
    let target = std::path::absolute(target)?;
    fs::create_dir_all(&target).context("target")?;
    let rustdoc = target.join("rustdoc-json.sh");
    fs::write(&rustdoc, RUSTDOC).context("rustdoc-json.sh")?;
    fs::set_permissions(&rustdoc, fs::Permissions::from_mode(0o755)).context("rustdoc-json.sh")?;
    let rustdoc = rustdoc.to_string_lossy();
    let mut all = Vec::new();
    for name in LIBRARIES {
        let library = ["rustdoc", "--quiet", "--locked", "--lib", "-p", name, "--"];
        let json = ["-Z", "unstable-options", "--output-format", "json"];
        steps::cargo_with(&[&library[..], &json].concat(), &[("RUSTDOC", &rustdoc)])?;
        let json = target.join("doc").join(format!("{}.json", name.replace('-', "_")));
        let bytes = fs::read(&json).context(format!("{}", json.display()))?;
        let document: Value = serde_json::from_slice(&bytes).context("rustdoc's JSON")?;
        if document["format_version"] != FORMAT {
            let version = &document["format_version"];
            steps::say(&format!(
                "MISSING: a rustdoc with JSON of version {FORMAT} (this one has {version}): \
                 the public interface was not compared"
            ));
            return Ok(None);
        }
        all.push((name, items::lines(&document).join("\n") + "\n"));
    }
    Ok(Some(all))
}

#[cfg(test)]
mod tests;
