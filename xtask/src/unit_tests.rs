//! Where modules and their unit tests stand: `name.rs` beside the folder `name`, and tests at the file's end.

use std::path::Path;

/// Lines of tests inside their file; longer ones stand in `name/tests.rs`.
const INLINE_MAX: usize = 180;

/// What is wrong with the place of a module of `src`, or of the unit tests in it.
pub(crate) fn check(path: &Path, text: &str) -> Vec<(usize, String)> {
    if !path.components().any(|part| part.as_os_str() == "src") {
        return Vec::new();
    }
    let mut found = Vec::new();
    if path.ends_with("mod.rs") {
        found.push((1, "a module `name` is the file name.rs, not name/mod.rs".to_owned()));
    }
    let in_tests =
        path.ends_with("tests.rs") || path.components().any(|p| p.as_os_str() == "tests");
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.iter().position(|line| is_tests(line));
    let first = lines.iter().position(|line| line.trim() == "#[test]");
    if let Some(first) = first.filter(|first| !in_tests && begin.is_none_or(|begin| *first < begin))
    {
        found.push((first + 1, "a unit test outside `mod tests`".to_owned()));
    }
    if let Some(begin) = begin {
        let end = match lines[begin].ends_with(';') {
            true => begin,
            false => (begin..lines.len()).find(|&at| lines[at] == "}").unwrap_or(lines.len()),
        };
        if lines.iter().skip(end + 1).any(|line| !line.is_empty()) {
            found.push((begin + 1, "`mod tests` is the last item of its file".to_owned()));
        }
        if end - begin > INLINE_MAX {
            found.push((
                begin + 1,
                format!("over {INLINE_MAX} lines of tests: move them to tests.rs"),
            ));
        }
    }
    found
}

fn is_tests(line: &str) -> bool {
    let line =
        line.strip_prefix("pub(super) ").or(line.strip_prefix("pub(crate) ")).unwrap_or(line);
    line == "mod tests;" || line == "mod tests {"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(Path::new(path), text).len()
    }

    #[test]
    fn tests_stand_in_their_module_at_the_end() {
        let body = concat!("mod tests {\n    #[", "test]\n    fn a() {}\n}\n");
        assert_eq!(found("a/src/b.rs", body), 0);
        assert_eq!(found("a/src/b.rs", &format!("{body}fn c() {{}}\n")), 1);
        assert_eq!(found("a/src/b.rs", "mod tests;\n"), 0);
        assert_eq!(found("a/src/b.rs", "mod tests;\nmod c;\n"), 1);
        assert_eq!(
            found("a/src/b.rs", &format!("mod tests {{\n{}}}\n", "    //\n".repeat(181))),
            1
        );
    }

    #[test]
    fn a_test_without_its_module_is_found_unless_the_file_is_the_module() {
        let bare = concat!("#[", "test]\nfn a() {}\n");
        assert_eq!(found("a/src/b.rs", bare), 1);
        assert_eq!(found("a/src/b/tests.rs", bare), 0);
        assert_eq!(found("a/src/b/tests/c.rs", bare), 0);
        assert_eq!(found("a/tests/b.rs", bare), 0);
    }

    #[test]
    fn a_folder_does_not_hold_its_own_module() {
        assert_eq!(found("a/src/b/mod.rs", ""), 1);
        assert_eq!(found("a/tests/b/mod.rs", ""), 0);
    }
}
