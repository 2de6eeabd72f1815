//! Texts from outside as cells of a table.

use std::borrow::Cow;

/// The text as a cell that a spreadsheet shows and does not compute: a task named `=cmd|...` would be a formula that
/// starts a program. An apostrophe goes before texts that begin with `=`, `+`, `-`, `@`, a tab or a carriage return,
/// unless they are numbers.
#[must_use]
pub(crate) fn as_text(text: &str) -> Cow<'_, str> {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err() {
        true => Cow::Owned(format!("'{text}")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_formula_and_a_number_is_a_number() {
        for name in ["=cmd|'/C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\tx", "\r=1", "--", "-"] {
            assert_eq!(as_text(name), format!("'{name}"));
        }
        for other in ["", "-2.5", "+1", "-1e9", "kworker/0:1", "a=b", "1-2", "'x"] {
            assert_eq!(as_text(other), other);
        }
    }
}
