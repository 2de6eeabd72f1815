//! The measurable part of `docs/style.md`: sentence length, line width and banned words in documents.
//! Code, tables, lists and pictures do not count as sentences.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Documents that are checked. A document joins this list once its text follows the style guide.
const CHECKED: [&str; 28] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/style.md",
    "docs/dependencies.md",
    "docs/formats.md",
    "docs/jobs.md",
    "docs/answers.md",
    "docs/experiments.md",
    "docs/statistics.md",
    "docs/tune.md",
    "docs/machines.md",
    "docs/load.md",
    "docs/pictures.md",
    "docs/recording.md",
    "docs/replay.md",
    "docs/vm.md",
    "docs/simulation.md",
    "docs/slow.md",
    "docs/executors.md",
    "docs/jobs-c.md",
    "SECURITY.md",
    "docs/gallery/jobs.md",
    "docs/gallery/schbench.md",
    "docs/gallery/placement.md",
    "docs/gallery/emulation.md",
    "docs/gallery/granularities.md",
];
/// Columns of a line, unless it is code or a table row, or holds a link.
const COLUMNS_MAX: usize = 100;
/// Words of any sentence.
const WORDS_MAX: usize = 35;
/// Words of the 90th percentile of sentences: the README, then every other document.
const WORDS_P90: (usize, usize) = (22, 25);
/// Words that the style guide replaces, with what to write.
const BANNED: [(&str, &str); 8] = [
    ("whoever", "name the person or program"),
    ("in company", "say what accompanies it"),
    ("so many", "N"),
    ("is told", "name who reports it"),
    ("can't be had", "is missing"),
    ("stands beside", "accompanies"),
    ("by the mood", "varies"),
    ("need not have", "even though it could have"),
];

/// Every place in the checked documents that breaks a measurable rule.
pub(crate) fn check(files: &[PathBuf]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for name in CHECKED {
        if !files.iter().any(|path| path == Path::new(name)) {
            found.push(format!("{name}: the prose check names it, but it does not exist"));
            continue;
        }
        let text = std::fs::read_to_string(name).context(name)?;
        let p90 = if name == "README.md" { WORDS_P90.0 } else { WORDS_P90.1 };
        // The guide quotes the words that it bans.
        let banned = if name == "docs/style.md" { &[][..] } else { &BANNED[..] };
        found.extend(faults(&text, p90, banned).into_iter().map(|fault| format!("{name}:{fault}")));
    }
    Ok(found)
}

fn faults(text: &str, p90: usize, banned: &[(&str, &str)]) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        fenced ^= line.starts_with("```");
        let code = fenced || line.starts_with("    ");
        let free = code || is_table_row(line) || line.contains("](");
        if !free && line.chars().count() > COLUMNS_MAX {
            found.push(format!("{number}: longer than {COLUMNS_MAX} columns"));
        }
        let lower = line.to_lowercase();
        for (word, instead) in banned.iter().filter(|(word, _)| lower.contains(word)) {
            found.push(format!("{number}: `{word}`: {instead}"));
        }
    }
    let sentences = sentences(text);
    let mut lengths: Vec<usize> = sentences.iter().map(|s| s.split_whitespace().count()).collect();
    for sentence in sentences.iter().filter(|s| s.split_whitespace().count() > WORDS_MAX) {
        let start: String = sentence.chars().take(60).collect();
        found.push(format!(" a sentence over {WORDS_MAX} words: {start}..."));
    }
    lengths.sort_unstable();
    if let Some(&at) = lengths.get(lengths.len() * 9 / 10)
        && at > p90
    {
        found.push(format!(" one sentence in ten has {at} words or more; the limit is {p90}"));
    }
    found
}

/// The sentences of the paragraphs: without code, tables, headings, pictures and list items.
fn sentences(text: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut fenced = false;
    let mut paragraph = String::new();
    let mut listed = false;
    for line in text.lines().chain([""]) {
        if line.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let code = fenced || line.starts_with("    ");
        let skipped = code || is_table_row(line) || line.starts_with(['#', '!']);
        if skipped || line.trim().is_empty() {
            split(&paragraph, &mut sentences);
            paragraph.clear();
            listed = listed && !line.trim().is_empty();
        } else if is_list_item(line) || (listed && line.starts_with("  ")) {
            listed = true;
        } else {
            listed = false;
            paragraph.push(' ');
            paragraph.push_str(line.trim());
        }
    }
    sentences
}

/// A table may be part of a list.
fn is_table_row(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

fn is_list_item(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ") || line.starts_with("* ") || (number != line && number.starts_with(". "))
}

/// Ends a sentence at a full stop, a question mark or an exclamation mark before a space.
fn split(paragraph: &str, into: &mut Vec<String>) {
    let mut start = 0;
    for (at, _) in paragraph.match_indices(['.', '?', '!']) {
        if paragraph[at + 1..].starts_with(' ') {
            into.push(paragraph[start..=at].trim().to_owned());
            start = at + 1;
        }
    }
    let rest = paragraph[start..].trim();
    if !rest.is_empty() {
        into.push(rest.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_tables_and_lists_are_not_sentences() {
        let text = "One. Two\nlines!\n\n    code. here.\n\n| a. | b. |\n- item. item.\n  more. of it.\n\nThree.\n";
        assert_eq!(sentences(text), ["One.", "Two lines!", "Three."]);
    }

    #[test]
    fn each_fault_names_its_line_or_its_sentence() {
        let long = "word ".repeat(36);
        let text = format!("Whoever reads this.\n\n{}\n", long.trim());
        let found = faults(&text, 100, &BANNED);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("1: `whoever`"), "{found:?}");
        assert!(found[1].starts_with("3: longer than 100"), "{found:?}");
        assert!(found[2].contains("over 35 words"), "{found:?}");
    }

    #[test]
    fn many_long_sentences_are_a_fault_even_below_the_limit() {
        let text = "a b c d e f. ".repeat(10);
        assert_eq!(faults(&text, 5, &[]).len(), 2, "width and percentile");
    }
}
