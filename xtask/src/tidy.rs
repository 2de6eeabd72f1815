//! What no compiler checks: floors, sizes, headers, words that must not stay.

use crate::short_docs::ShortDocs;
use crate::{
    comments, dependencies, floors, links, messages, module_cycles, prose, purity, steps,
    unit_tests,
};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines of a source file above which it must be split.
const LINES_MAX: usize = 1_000;
/// Columns of a source line that rustfmt could not break.
const COLUMNS_MAX: usize = 140;
/// Bytes of a file in git; only the corpus, fonts and pictures are large, and they stay under this.
const BYTES_MAX: u64 = 1_000_000;

/// Where JSON is made by hand: QEMU's protocol, a private option of trace.dat, and what a run's name is the
/// hash of. What the program prints or stores is a type, so that its schema can be made from it.
const JSON_BY_HAND: [&str; 4] = [
    "crates/schedlab-vm/src/qmp.rs",
    "crates/schedlab-vm/src/qemu.rs",
    "crates/schedlab-trace/src/dat/private_option.rs",
    "crates/schedlab-experiment/src/id.rs",
];

/// Multipliers by which generators of random numbers are known (SplitMix64, xorshift*, PCG), in two parts, so that this
/// file does not find itself. Each generator is in schedlab-random by its name.
const GENERATORS: [(&str, &str); 4] = [
    ("bf58476d", "1ce4e5b9"),
    ("94d049bb", "133111eb"),
    ("2545f491", "4f6cdd1d"),
    ("5851f42d", "4c957f2d"),
];

/// Whether a line of code has a generator of random numbers of its own.
fn generates(line: &str) -> bool {
    let plain = line.replace('_', "").to_lowercase();
    GENERATORS.iter().any(|(first, second)| plain.contains(&format!("{first}{second}")))
}

/// Checks the tree and lists all that it found.
pub(crate) fn run() -> Result<()> {
    let files = tracked()?;
    let mut found = floors::check()?;
    let banned = prose::banned_words()?;
    let mut docs = ShortDocs::default();
    for path in &files {
        // Files that a change deleted are still known to git until it is committed.
        let Ok(facts) = std::fs::metadata(path) else { continue };
        if facts.len() > BYTES_MAX {
            found.push(format!(
                "{}: {} bytes; the limit is {BYTES_MAX}",
                path.display(),
                facts.len()
            ));
        }
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(path).context(format!("{}", path.display()))?;
            let mut faults = messages::check(path, &text, &banned);
            faults.extend(comments::check(path, &text, &banned));
            let named =
                |(line, what): (usize, String)| format!("{}:{line}: {what}", path.display());
            found.extend(faults.into_iter().map(named));
            docs.add(path, &text);
            check_source(path, &text, &mut found);
        }
    }
    found.extend(docs.faults());
    found.extend(dependencies::check(&files)?);
    found.extend(prose::check(&files)?);
    found.extend(links::check(&files)?);
    found.extend(module_cycles::check()?);
    found.extend(purity::check()?);
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

fn check_source(path: &Path, text: &str, found: &mut Vec<String>) {
    let mut note = |line: usize, what: &str| {
        found.push(format!("{}:{line}: {what}", path.display()));
    };
    for (line, what) in unit_tests::check(path, text) {
        note(line, &what);
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        note(lines, &format!("{lines} lines; split it (the limit is {LINES_MAX})"));
    }
    if !text.starts_with("//!") && !text.starts_with("#!") {
        note(1, "opens without saying what it is for (//!)");
    }
    // Spelled in two parts, so that this file does not find itself.
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let may =
        ["crates/schedlab-sys/", "crates/schedlab-jobs-c/"].iter().any(|c| path.starts_with(c));
    let in_program =
        path.starts_with("crates") && path.components().any(|part| part.as_os_str() == "src");
    let mut typed = in_program && !JSON_BY_HAND.iter().any(|file| path == Path::new(file));
    let tests =
        path.starts_with("crates") && !path.components().any(|p| p.as_os_str() == "benches");
    if let Some(line) = captured(text).filter(|_| tests) {
        note(
            line,
            "the harness keeps this to itself: a test says what is missing by writeln! to stderr",
        );
    }
    for (index, line) in text.lines().enumerate() {
        typed &= !line.starts_with("#[cfg(test)]");
        if typed && line.contains(concat!("json", "!(")) {
            note(index + 1, "JSON made by hand: print a type (crates/schedlab/src/json.rs)");
        }
        if line.chars().count() > COLUMNS_MAX {
            note(index + 1, &format!("longer than {COLUMNS_MAX} columns"));
        }
        if generates(line) && !path.starts_with("crates/schedlab-random") {
            note(index + 1, "a generator of random numbers of its own: use one of schedlab-random");
        }
        if words.iter().any(|word| line.contains(word)) {
            note(index + 1, "a note to oneself: do it, or write an issue");
        }
        if line.contains(concat!("un", "safe {")) && !may {
            note(index + 1, "unsafe code lives in schedlab-sys and schedlab-jobs-c alone");
        }
    }
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

    #[test]
    fn a_generator_is_known_by_its_multiplier_however_it_is_written() {
        assert!(generates(concat!("z = (z ^ z >> 30).wrapping_mul(0xBF58_476D", "_1CE4_E5B9);")));
        assert!(generates(concat!("(x.wrapping_mul(0x2545f4914f6c", "dd1d) >> 33)")));
        assert!(!generates("seed ^ 0x9e37_79b9_7f4a_7c15"));
    }
}
