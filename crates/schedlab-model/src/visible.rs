//! Text that comes from outside, made safe to show.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with each character that acts on a terminal, or that nobody sees, spelled as `\u001b`.
///
/// This covers control characters (also line breaks and tabs), the direction marks of Unicode, and characters of
/// no width. JSON uses the same spelling inside of its strings.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    visible_but(text, &[])
}

/// As [`visible`], but the control characters in `kept` stay as they are.
#[must_use]
pub fn visible_but<'a>(text: &'a str, kept: &[char]) -> Cow<'a, str> {
    // All of nearly every text: a loop over bytes is several times as fast as one over characters.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let hidden = |c: char| acts(c) && !kept.contains(&c);
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if hidden(character) {
            write!(shown, "\\u{:04x}", u32::from(character)).expect("a String takes all");
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Whether a character acts on a terminal, or on the characters around it, instead of being shown.
const fn acts(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_spelled_out_and_the_rest_stays() {
        assert_eq!(visible("x\u{1b}[31mred\n\t\u{9b}1m"), "x\\u001b[31mred\\u000a\\u0009\\u009b1m");
        assert_eq!(visible("a\u{202e}b\u{200b}c\u{7f}"), "a\\u202eb\\u200bc\\u007f");
        assert!(matches!(visible("kworker/0:1-é \u{5d0}"), Cow::Borrowed(_)));
        assert_eq!(visible_but("a\n\tb\r", &['\n', '\t']), "a\n\tb\\u000d");
    }
}
