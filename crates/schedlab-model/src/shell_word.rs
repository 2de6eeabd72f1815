//! Words of a shell.

/// A text as one word of a POSIX shell.
#[must_use]
pub fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
