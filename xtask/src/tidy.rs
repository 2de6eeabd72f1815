//! What no compiler checks: floors, circles of modules, purity, plain writes, documents, and what tests say that they lack.

use crate::{floors, links, module_cycles, plain_writes, prose, purity, steps};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// Bytes of a file in git, which keeps it for ever; only the corpus, fonts and pictures are large, and they stay under this.
const BYTES_MAX: u64 = 1_000_000;

/// Checks the tree and lists all that it found.
pub(crate) fn run() -> Result<()> {
    let files = tracked()?;
    let mut found = floors::check()?;
    for path in &files {
        // Files that a change deleted are still known to git until it is committed.
        let Ok(facts) = std::fs::metadata(path) else { continue };
        let name = path.display();
        if facts.len() > BYTES_MAX {
            found.push(format!("{name}: {} bytes; the limit is {BYTES_MAX}", facts.len()));
        }
        let of_tests = path.starts_with("crates")
            && path.extension().is_some_and(|extension| extension == "rs")
            && !path.iter().any(|folder| folder == "benches");
        if of_tests {
            let text = std::fs::read_to_string(path).context(format!("{name}"))?;
            found.extend(captured(&text).map(|line| {
                format!("{name}:{line}: the harness keeps this to itself: a test says what is missing by writeln! to stderr")
            }));
        }
    }
    found.extend(prose::check(&files)?);
    found.extend(links::check(&files)?);
    found.extend(module_cycles::check()?);
    found.extend(purity::check()?);
    found.extend(plain_writes::check()?);
    match found.as_slice() {
        [] => {
            steps::say(&format!("tidy: {} files, nothing found", files.len()));
            Ok(())
        }
        _ => bail!("tidy found:\n  {}", found.join("\n  ")),
    }
}

/// Files that are in git or will be.
pub(crate) fn tracked() -> Result<Vec<PathBuf>> {
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .context("git ls-files")?;
    let names = String::from_utf8(listing.stdout).context("a file name is not UTF-8")?;
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect())
}

/// The first line where something is said to be missing by a macro whose output the test harness captures.
fn captured(text: &str) -> Option<usize> {
    let mut before = "";
    text.lines()
        .position(|line| {
            let prints = [before, line].iter().any(|line| line.contains(concat!("print", "ln!(")));
            before = line;
            prints && line.contains(concat!("\"MISS", "ING: "))
        })
        .map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_passing_test_would_not_show_is_found() {
        let said = concat!("print", "ln!(\n    \"MISS", "ING: perf\",\n);");
        assert_eq!(captured(said), Some(2));
        assert_eq!(captured(&format!("e{}", said.replace("\n    ", ""))), Some(1));
        assert_eq!(captured(concat!("writeln!(stderr(), \"MISS", "ING: perf\");")), None);
    }
}
