//! The measurable part of `docs/style.md`: sentence length, line width and banned words in all documents.
//! Code, tables, lists and pictures do not count as sentences.

use anyhow::{Context, Result, ensure};
use std::path::PathBuf;

/// Where banned words are listed.
const GLOSSARY: &str = "docs/glossary.md";
/// Documents that quote banned words.
const QUOTING: [&str; 2] = [GLOSSARY, "docs/style.md"];
/// Columns of a line, unless it is code or a table row, or holds a link.
const COLUMNS_MAX: usize = 100;
/// Words of any sentence.
const WORDS_MAX: usize = 35;
/// Words of the 90th percentile of sentences: the README, then every other document.
const WORDS_P90: (usize, usize) = (22, 25);

/// A banned word and what to write instead.
type Banned = (String, String);

/// Every place in the documents that breaks a measurable rule.
pub(crate) fn check(files: &[PathBuf]) -> Result<Vec<String>> {
    let banned = banned_words()?;
    let mut found = Vec::new();
    for path in documents(files) {
        let name = path.to_string_lossy();
        let text = std::fs::read_to_string(path).context(name.to_string())?;
        let p90 = if name == "README.md" { WORDS_P90.0 } else { WORDS_P90.1 };
        let banned = if QUOTING.contains(&&*name) { &[][..] } else { &banned };
        found.extend(faults(&text, p90, banned).into_iter().map(|fault| format!("{name}:{fault}")));
    }
    Ok(found)
}

fn banned_words() -> Result<Vec<Banned>> {
    banned(&std::fs::read_to_string(GLOSSARY).context(GLOSSARY)?)
}

/// The documents among the files of the tree, without those that a change deleted.
pub(crate) fn documents(files: &[PathBuf]) -> impl Iterator<Item = &PathBuf> {
    files.iter().filter(|path| path.extension().is_some_and(|end| end == "md") && path.exists())
}

/// The rows `| \`word\` | instead |` below the heading "Banned words".
fn banned(glossary: &str) -> Result<Vec<Banned>> {
    let table = glossary.split("\n## Banned words").nth(1).unwrap_or_default();
    let row = |line: &str| {
        let (word, instead) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((word.to_owned(), instead.trim_end_matches(" |").to_owned()))
    };
    let found: Vec<Banned> = table.lines().filter_map(row).collect();
    ensure!(!found.is_empty(), "{GLOSSARY}: no table below 'Banned words'");
    Ok(found)
}

/// Whether a line, in lower case, has this word and not only a longer one with it inside.
fn has_word(line: &str, word: &str) -> bool {
    let inside = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    line.match_indices(word).any(|(at, _)| {
        !inside(line[..at].chars().next_back()) && !inside(line[at + word.len()..].chars().next())
    })
}

fn faults(text: &str, p90: usize, banned: &[Banned]) -> Vec<String> {
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
        for (word, instead) in banned.iter().filter(|(word, _)| has_word(&lower, word)) {
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

/// Ends a sentence at a full stop, a question mark or an exclamation mark, perhaps in quotes, before a space.
fn split(paragraph: &str, into: &mut Vec<String>) {
    let mut start = 0;
    for (at, _) in paragraph.match_indices(['.', '?', '!']) {
        let rest = &paragraph[at + 1..];
        let quote = usize::from(rest.starts_with('"'));
        if rest[quote..].starts_with(' ') {
            into.push(paragraph[start..=at + quote].trim().to_owned());
            start = at + 1 + quote;
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
        assert_eq!(sentences("A says \"b.\" C.\n"), ["A says \"b.\"", "C."]);
    }

    const TABLE: &str =
        "| `task` | x |\n## Banned words\n\n| word | write |\n|---|---|\n| `whoever` | N |\n";

    #[test]
    fn banned_words_come_from_their_table_alone_and_match_whole_words() {
        let table = format!("\n{TABLE}");
        let banned = banned(&table).unwrap();
        assert_eq!(banned, [("whoever".to_owned(), "N".to_owned())]);
        assert!(has_word("ask whoever.", "whoever") && !has_word("whoevers", "whoever"));
        assert!(super::banned("# Glossary").is_err(), "a glossary without the table bans nothing");
    }

    #[test]
    fn each_fault_names_its_line_or_its_sentence() {
        let long = "word ".repeat(36);
        let text = format!("Whoever reads this.\n\n{}\n", long.trim());
        let banned = super::banned(TABLE).unwrap();
        let found = faults(&text, 100, &banned);
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
