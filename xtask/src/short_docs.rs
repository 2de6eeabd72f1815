//! Doc comments of three words or fewer ("When.", "Runs it."), which say nothing that the name does not say.

use std::collections::BTreeMap;
use std::path::Path;

/// Words of a doc comment that is too short.
const WORDS: usize = 3;
/// The command's comments are mostly help of options ("Print JSON"), whose words its own test checks.
const HELP: &str = "schedlab";

/// Doc comments that are too short, by crate, each with its place.
#[derive(Default)]
pub(crate) struct ShortDocs(BTreeMap<String, Vec<String>>);

impl ShortDocs {
    /// Adds those of a source of a crate.
    pub(crate) fn add(&mut self, path: &Path, text: &str) {
        let mut parts = path.components().map(|part| part.as_os_str().to_string_lossy());
        let (Some(crates), Some(name), Some(src)) = (parts.next(), parts.next(), parts.next())
        else {
            return;
        };
        let of_tests = path.ends_with("tests.rs") || parts.any(|part| part == "tests");
        if crates == "crates" && src == "src" && name != HELP && !of_tests {
            let places = short(text).into_iter().map(|line| format!("{}:{line}", path.display()));
            self.0.entry(name.into_owned()).or_default().extend(places);
        }
    }

    /// A fault for each crate that has some.
    pub(crate) fn faults(self) -> Vec<String> {
        let some = self.0.into_iter().filter(|(_, places)| !places.is_empty());
        some.map(|(name, places)| {
            let shown: Vec<&str> = places.iter().take(5).map(String::as_str).collect();
            format!(
                "crates/{name}: {} doc comments of {WORDS} words or fewer: say what the item is, its unit and its \
                 range ({})",
                places.len(),
                shown.join(", ")
            )
        })
        .collect()
    }
}

/// The lines at which such comments begin, without those of tests.
fn short(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut begin = None;
    let mut words = 0;
    for (index, line) in text.lines().enumerate() {
        match line.trim_start().strip_prefix("///") {
            Some(said) => {
                begin.get_or_insert(index + 1);
                words += said.split_whitespace().count();
            }
            None => {
                found.extend(begin.take().filter(|_| words <= WORDS));
                words = 0;
            }
        }
        if line.ends_with("mod tests {") {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_words_are_too_few_and_lines_of_a_comment_count_together() {
        assert_eq!(short("/// When it began.\nat: u64,\n"), [1]);
        assert_eq!(short("/// The time\n/// of the wakeup.\nat: u64,\n"), [] as [usize; 0]);
        assert_eq!(short("mod tests {\n/// Short.\nfn a() {}\n"), [] as [usize; 0]);
    }

    #[test]
    fn short_comments_of_tests_and_of_the_command_do_not_count() {
        let mut docs = ShortDocs::default();
        docs.add(Path::new("crates/schedlab-draw/src/scene.rs"), "/// When.\nat: u64,\n");
        docs.add(Path::new("crates/schedlab-draw/src/scene/tests.rs"), "/// When.\nat: u64,\n");
        docs.add(Path::new("crates/schedlab/src/options.rs"), "/// Print JSON\njson: bool,\n");
        let faults = docs.faults();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with("crates/schedlab-draw: 1 doc comments"), "{faults:?}");
    }
}
