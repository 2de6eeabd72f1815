//! Two pages in one document, which look at the same part together, and what differs between them.

use super::{fill, html};
use crate::colour::Theme;
use crate::flame::Flame;
use crate::font::printable;
use crate::svg::{SvgOptions, svg_with};
use std::fmt::Write as _;

/// The width of the flame graph in pixels.
const FLAME_WIDTH: i32 = 1_200;

/// A table beside the pages: its heads, and rows of a name and the values of both traces and of the change.
#[derive(Clone, Debug)]
pub struct Table {
    /// What the names are.
    pub head: String,
    pub rows: Vec<[String; 4]>,
}

/// Two traces side by side.
#[derive(Clone, Debug)]
pub struct Pair {
    /// What each of the two is called.
    pub names: [String; 2],
    /// Their pages, as [`super::page_from`] makes them.
    pub pages: [String; 2],
    /// The difference in a sentence.
    pub difference: String,
    pub tables: Vec<Table>,
    /// How times by stack differ, of those that both traces hold.
    pub flames: Vec<Flame>,
}

/// Writes the document.
#[must_use]
pub fn pair(of: &Pair) -> String {
    let [a, b] = of.names.each_ref().map(|name| printable(name));
    let [first, second] = of.pages.each_ref().map(|page| html(page));
    let tables: String = of.tables.iter().map(table).collect();
    let flames = if of.flames.is_empty() { String::new() } else { changes(&of.flames) };
    fill(
        include_str!("../../page/pair.html"),
        &[
            ("title", &html(&format!("A: {a}, B: {b}"))),
            ("css", include_str!("../../page/pair.css")),
            ("difference", &html(&printable(&of.difference))),
            ("tables", &tables),
            ("flames", &flames),
            ("a", &html(&a)),
            ("b", &html(&b)),
            ("pageA", &first),
            ("pageB", &second),
            ("script", &format!("(() => {{\n{}}})();\n", include_str!("../../page/pair.js"))),
        ],
    )
}

/// The changes of times by stack, in both themes: style shows the one that fits.
fn changes(flames: &[Flame]) -> String {
    let drawn = |flame: &Flame, prefix: &'static str, theme: &Theme| {
        let options = SvgOptions { prefix, ..SvgOptions::default() };
        let picture = svg_with(&flame.scene(FLAME_WIDTH, theme), options);
        format!("<div class=\"{prefix}\">{picture}</div>\n")
    };
    let both =
        |flame| drawn(flame, "light", &Theme::light()) + &drawn(flame, "dark", &Theme::dark());
    let all: String = flames.iter().map(both).collect();
    format!("<details id=\"flame\"><summary>The change by stack</summary>\n{all}</details>")
}

fn table(table: &Table) -> String {
    let mut out = format!(
        "<table><tr><th>{}</th><th>A</th><th>B</th><th>B less A</th></tr>",
        html(&table.head)
    );
    for row in &table.rows {
        let cells: String =
            row.iter().map(|cell| format!("<td>{}</td>", html(&printable(cell)))).collect();
        let _ = write!(out, "<tr>{cells}</tr>");
    }
    out + "</table>"
}
