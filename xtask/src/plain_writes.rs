//! Files that are written under their own names: half of one is left by a full disk or a kill, and any link is followed.
//!
//! What users name goes through `schedlab_trace::NewFile`, values for the kernel through `schedlab_sys::kernel_file`. Where
//! plain writing is right, the comment `// Plain: REASON` stands above. The chores themselves write into the repository
//! and `target/`, which belong to who runs them.

use crate::purity::programs;
use crate::tokens::{PATH, Token};
use anyhow::{Context, Result};

/// How many lines above the call the reason may stand.
const ABOVE: usize = 5;

/// Every plain write without a reason.
pub(crate) fn check() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("crates").context("crates")? {
        for (path, program) in programs(&entry?.path().join("src"))? {
            let text = std::fs::read_to_string(&path).context(format!("{}", path.display()))?;
            found.extend(without_reason(&program, &text).map(|line| {
                format!(
                    "{}:{line}: a plain write: use schedlab_trace::write_file or NewFile, \
                     schedlab_sys::kernel_file, or say `// Plain: REASON` above",
                    path.display()
                )
            }));
        }
    }
    found.sort();
    Ok(found)
}

/// The lines of plain writes without a reason.
fn without_reason(program: &[Token], text: &str) -> impl Iterator<Item = usize> {
    let lines: Vec<&str> = text.lines().collect();
    let writes = program.windows(3).filter(|window| {
        let is = |first: &str, last: &[&str]| {
            window[0].is_word(first)
                && window[1].is(PATH)
                && last.iter().any(|word| window[2].is_word(word))
        };
        is("fs", &["write", "copy"]) || is("File", &["create", "create_new"])
    });
    let lines = writes.map(|window| window[0].line).filter(move |line| {
        let above = &lines[line.saturating_sub(ABOVE + 1)..line - 1];
        !above.iter().any(|line| line.trim_start().starts_with("// Plain: "))
    });
    lines.collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens;

    #[test]
    fn a_plain_write_needs_a_reason_but_in_tests() {
        let found = |text: &str| {
            let (program, _) = tokens::program(text);
            without_reason(&program, text).collect::<Vec<_>>()
        };
        assert_eq!(found("fn f() {\n    std::fs::write(a, b);\n}"), [2]);
        assert_eq!(found("fn f() {\n\n    File::create(a);\n}"), [3]);
        assert!(found("fn f() {\n    // Plain: it is ours.\n    fs::write(a, b);\n}").is_empty());
        assert!(found("#[cfg(test)]\nmod tests { fn f() { std::fs::write(a, b); } }").is_empty());
        assert!(found("fn f() { kernel_file::write(a, b); }").is_empty());
    }
}
