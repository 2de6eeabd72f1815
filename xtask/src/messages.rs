//! The measurable part of `docs/style.md` in the program's own texts: errors, notes, warnings and reports.
//!
//! Texts are the literal strings of `crates/*/src`, without those of tests. Help comes from doc comments; the
//! tests of the command check it.

use crate::prose::{self, Banned};
use crate::tokens::{self, Kind};
use std::path::Path;

/// Forms that an error must not have, and what to write instead.
const FORMS: [(&str, &str); 5] = [
    (" is no ", "write `invalid X 'y': use ...`"),
    (" are no ", "write `invalid X 'y': use ...`"),
    (" is none of ", "write `invalid X 'y': use ...`"),
    ("' is not a ", "write `invalid X 'y': use ...`"),
    ("there's no ", "write `unknown X 'y': use ...`"),
];
/// Where "is no" is right: "there is no X" as a part of a sentence, and "is no longer".
const ALLOWED: (&str, &str) = ("there", "longer");
/// Texts of other tools, word by word.
const QUOTING: [&str; 1] = ["crates/schedlab-workload/src/getopt.rs"];

/// What is wrong in the texts of a source, each with its line.
pub(crate) fn check(path: &Path, text: &str, banned: &[Banned]) -> Vec<(usize, String)> {
    let in_tests =
        path.ends_with("tests.rs") || path.components().any(|p| p.as_os_str() == "tests");
    let of_program =
        path.starts_with("crates") && path.components().any(|p| p.as_os_str() == "src");
    let quotes = QUOTING.iter().any(|file| path == Path::new(file));
    if in_tests || !of_program || quotes {
        return Vec::new();
    }
    let (program, _) = tokens::program(text);
    let texts = program.into_iter().filter_map(|token| match token.kind {
        Kind::Text(text) => Some((token.line, plain(&text))),
        _ => None,
    });
    texts
        .filter(|(_, text)| text.contains(' '))
        .flat_map(|(line, text)| faults(&text, banned).into_iter().map(move |what| (line, what)))
        .collect()
}

/// What a text says: its lines joined where the source wraps them, without the names of its arguments.
fn plain(text: &str) -> String {
    let mut joined = String::new();
    for part in text.split("\\\n") {
        joined.push_str(if joined.is_empty() { part } else { part.trim_start() });
    }
    let mut said = String::new();
    let mut depth = 0usize;
    for c in joined.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => said.push(c),
            _ => {}
        }
    }
    said
}

fn faults(text: &str, banned: &[Banned]) -> Vec<String> {
    let lower = text.to_lowercase();
    let words = banned.iter().filter(|(word, _)| prose::has_word(&lower, word));
    let forms = FORMS.iter().filter(|(form, _)| {
        let allowed = |at: usize| {
            lower[..at].ends_with(ALLOWED.0) || lower[at + form.len()..].starts_with(ALLOWED.1)
        };
        lower.match_indices(form).any(|(at, _)| !allowed(at))
    });
    let say = |word: &str, instead: &str| format!("`{}` in a text: {instead}", word.trim());
    words
        .map(|(word, instead)| say(word, instead))
        .chain(forms.map(|(form, instead)| say(form, instead)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<(usize, String)> {
        let banned = [("can't".to_owned(), "cannot".to_owned())];
        check(Path::new("crates/x/src/y.rs"), source, &banned)
    }

    #[test]
    fn an_error_names_what_is_invalid_and_what_to_use() {
        assert_eq!(found("let why = format!(\"'{text}' is no label\");\n").len(), 1);
        assert_eq!(found("\n\n#[error(\"it can't be read\")]\n")[0].0, 3);
        assert_eq!(found("let why = \"the file is \\\n    no trace\";\n").len(), 1);
        assert_eq!(found("let why = \"invalid label 'x y': use letters\";\n"), []);
    }

    #[test]
    fn sentences_with_there_is_no_names_of_arguments_and_comments_pass() {
        assert_eq!(found("let why = \"there is no free CPU\";\n"), []);
        assert_eq!(found("let why = \"it is no longer measured\";\n"), []);
        assert_eq!(found("// This is no text.\nlet x = \"{can't} be\";\n"), []);
        assert_eq!(found("let key = \"can't\";\n"), [], "one word is a key");
    }

    #[test]
    fn tests_and_chores_say_what_they_like() {
        let source = "let why = \"it can't be\";\n";
        assert_eq!(found(&format!("#[cfg(test)]\nmod tests {{\n{source}}}\n")), []);
        assert_eq!(check(Path::new("xtask/src/y.rs"), source, &[]), []);
    }
}
