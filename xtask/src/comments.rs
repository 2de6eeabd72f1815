//! Banned words in the comments of the crates, doc comments included: readers of the code get the words of the documents.

use crate::prose::{self, Banned};
use std::path::Path;

/// What is wrong in the comments of a source of a crate, each with its line.
pub(crate) fn check(path: &Path, text: &str, banned: &[Banned]) -> Vec<(usize, String)> {
    let of_crate =
        path.starts_with("crates") && path.components().any(|part| part.as_os_str() == "src");
    if !of_crate {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
        let lower = comment.to_lowercase();
        let words = banned.iter().filter(|(word, _)| prose::has_word(&lower, word));
        found.extend(words.map(|(word, instead)| (index + 1, format!("`{word}`: {instead}"))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_crates_have_no_banned_word_and_code_may() {
        let banned = [("whoever".to_owned(), "name it".to_owned())];
        let text = "/// Whoever asks.\nlet whoever = 1; // whoever\n    // Done by whoever.\n";
        let found = check(Path::new("crates/schedlab-draw/src/scene.rs"), text, &banned);
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 3]);
        assert!(check(Path::new("xtask/src/main.rs"), text, &banned).is_empty());
    }
}
