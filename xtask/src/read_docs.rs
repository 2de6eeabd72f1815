//! Public items drawn at random, with what their documentation says: for a person to judge.
//!
//! An item passes if its unit, its range, its errors and a reason to exist can be read from its comment, its name, its
//! types and the comment of the item that holds it. The same seed draws the same items from the same sources.

use crate::steps;
use anyhow::{Context, Result, ensure};
use schedlab_random::Random;
use std::path::{Path, PathBuf};

/// Items that are drawn of each library.
const COUNT: usize = 30;

/// A public item as its source has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    /// Its line, from 1.
    line: usize,
    /// Its first line of code, such as `pub fn open(path: &Path) -> ...`.
    code: String,
    /// What its comment says, in one line.
    doc: String,
}

/// Prints items of every library, or of the named one.
pub(crate) fn run(seed: &str, library: Option<&str>) -> Result<()> {
    let seed: u64 = seed.parse().context("the seed is not a number")?;
    let mut libraries: Vec<PathBuf> = std::fs::read_dir("crates")
        .context("crates/")?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    libraries.retain(|path| path.join("src/lib.rs").exists());
    libraries.retain(|path| library.is_none_or(|name| path.ends_with(name)));
    ensure!(!libraries.is_empty(), "unknown library '{}'", library.unwrap_or_default());
    libraries.sort();
    for path in &libraries {
        let mut items = public_items(&path.join("src"))?;
        let all = items.len();
        Random::new(seed).shuffle(&mut items);
        steps::say(&format!("# {}: {} of {all} items", path.display(), COUNT.min(all)));
        for (file, Item { line, code, doc }) in items.iter().take(COUNT) {
            steps::say(&format!("{}:{line}\n    {code}\n    {doc}", file.display()));
        }
    }
    Ok(())
}

/// All public items below a folder, by file and line.
fn public_items(folder: &Path) -> Result<Vec<(PathBuf, Item)>> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    entries.sort();
    for path in entries {
        let is_test = path.ends_with("tests.rs") || path.ends_with("tests");
        if path.is_dir() && !is_test {
            found.extend(public_items(&path)?);
        } else if path.extension().is_some_and(|end| end == "rs") && !is_test {
            let text =
                std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            found.extend(items(&text).into_iter().map(|item| (path.clone(), item)));
        }
    }
    Ok(found)
}

/// The public items of a source, without re-exports, modules and what only tests compile.
fn items(text: &str) -> Vec<Item> {
    let mut found = Vec::new();
    let (mut doc, mut open) = (Vec::new(), 0_usize);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("#[cfg(test)]") {
            break;
        }
        if open > 0 || line.starts_with("#[") {
            // An attribute stands between a comment and its item, on one line or on several.
            open = (open + line.matches('[').count()).saturating_sub(line.matches(']').count());
        } else if let Some(said) = line.strip_prefix("///") {
            doc.push(said.trim());
        } else {
            let is_public = line.starts_with("pub ");
            if is_public && !["pub use ", "pub mod "].iter().any(|other| line.starts_with(other)) {
                let doc = doc.join(" ");
                found.push(Item { line: index + 1, code: line.to_owned(), doc });
            }
            doc.clear();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_has_its_comment_over_attributes_and_tests_have_none() {
        let text = "pub use a::B;\n/// A length\n/// in time.\n#[derive(\n    Clone,\n)]\npub struct Length {\n    \
                    /// In nanoseconds.\n    pub ns: u64,\n    pub(crate) inner: u64,\n}\n#[cfg(test)]\nmod tests {\n    \
                    pub fn none() {}\n}\n";
        let found = items(text);
        let said: Vec<(usize, &str)> =
            found.iter().map(|item| (item.line, item.doc.as_str())).collect();
        assert_eq!(said, [(7, "A length in time."), (9, "In nanoseconds.")]);
        assert_eq!(found[1].code, "pub ns: u64,");
    }
}
