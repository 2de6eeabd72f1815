//! HTML text in which nothing that came from outside can become markup.

use schedlab_model::visible_but;
use std::fmt::Write as _;

/// HTML being written. Text goes in escaped; only this crate writes tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Html(String);

impl Html {
    /// Appends text, escaped for content and for quoted attributes alike. Control characters are spelled out, since
    /// HTML does not allow them, and so are those that turn the direction of the text around them.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        for c in visible_but(text, &['\n', '\t']).chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c => self.0.push(c),
            }
        }
        self
    }

    /// An element with text inside.
    pub(crate) fn element(&mut self, tag: &'static str, text: &str) -> &mut Self {
        let _ = write!(self.0, "<{tag}>");
        self.text(text);
        let _ = writeln!(self.0, "</{tag}>");
        self
    }

    /// Markup as it stands: our own tags, and pictures that our own writer made.
    pub(super) fn markup(&mut self, markup: &str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// The HTML text that was written.
    #[must_use]
    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        let mut html = Html::default();
        html.element("td", "<script>alert(\"1\")</script> & 'x'\u{1b}[31m");
        assert_eq!(
            html.into_string(),
            "<td>&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39;\\u001b[31m</td>\n"
        );
    }

    #[test]
    fn lines_and_tabs_stay_and_other_control_characters_do_not() {
        let mut html = Html::default();
        html.text("a\n\tb\u{7}\r\u{202e}c");
        assert_eq!(html.into_string(), "a\n\tb\\u0007\\u000d\\u202ec");
    }
}
