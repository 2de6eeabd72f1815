//! Tables as CSV (RFC 4180): a head, and a line for each row.

use super::{Cell, Column, Head, Kind, Rows};
use crate::{Nanos, as_text};
use std::fmt::{Display, Write};

impl<R> Rows<'_, R> {
    /// A line with the names, and a line for each row. Unknown is empty; several in a cell have spaces between them, of
    /// rows in a cell the numbers, with colons. `raw` as in [`Csv::new`].
    #[must_use]
    pub fn csv(&self, raw: bool) -> String {
        let csv = Csv { columns: &self.columns, origin: self.origin, raw };
        let mut text = csv.head();
        for row in self.rows {
            csv.line(row, &mut text);
        }
        text
    }
}

/// The lines of a table as CSV, each with its end.
#[derive(Clone, Copy, Debug)]
pub struct Csv<'a, R> {
    columns: &'a [Column<R>],
    origin: Nanos,
    raw: bool,
}

impl<'a, R> Csv<'a, R> {
    /// With these columns; points in time are those of the trace's clock. Unless `raw`, no text is a formula to a spreadsheet
    /// (`as_text`).
    #[must_use]
    pub const fn new(columns: &'a [Column<R>], raw: bool) -> Self {
        Self { columns, origin: Nanos::ZERO, raw }
    }

    fn cell(&self, kind: &Kind, of: &Cell<'_>, text: &mut String) {
        match (of, kind) {
            (Cell::Whole(at), Kind::Point) => push(text, at.saturating_sub(self.origin.0)),
            (Cell::Whole(number), _) => push(text, number),
            (Cell::Signed(number), _) => push(text, number),
            // As JSON spells it.
            (Cell::Real(number), _) if number.is_finite() => {
                text.push_str(&serde_json::to_string(number).unwrap_or_default());
            }
            (Cell::Flag(flag), _) => push(text, flag),
            (Cell::Text(words), _) if self.raw => quoted(words, text),
            (Cell::Text(words), _) => quoted(&as_text(words), text),
            (Cell::List(rows), Kind::Rows(heads)) => {
                for (index, row) in rows.iter().enumerate() {
                    text.push_str(before(index, " "));
                    self.numbers(heads, row, text);
                }
            }
            (Cell::List(cells), Kind::List(kind, _)) => {
                for (index, one) in cells.iter().enumerate() {
                    text.push_str(before(index, " "));
                    self.cell(kind, one, text);
                }
            }
            (Cell::Unknown | Cell::Real(_) | Cell::List(_), _) => {}
        }
    }

    /// The numbers of a row in a cell: texts may hold what stands between them.
    fn numbers(&self, heads: &[Head], row: &Cell<'_>, text: &mut String) {
        let Cell::List(cells) = row else { return };
        let cells = heads.iter().zip(cells).filter(|(head, _)| !matches!(head.kind, Kind::Text));
        for (index, (head, one)) in cells.enumerate() {
            text.push_str(before(index, ":"));
            self.cell(&head.kind, one, text);
        }
    }

    fn columns(&self) -> impl Iterator<Item = &'a Column<R>> {
        self.columns.iter().filter(|column| !column.head.on_request)
    }

    /// The line with the names.
    #[must_use]
    pub fn head(&self) -> String {
        let mut text = String::new();
        for (index, head) in self.columns().map(|column| &column.head).enumerate() {
            text.push_str(before(index, ","));
            quoted(&head.name, &mut text);
            if head.bounded {
                text.push(',');
                quoted(&format!("{}_bound", head.name), &mut text);
            }
        }
        text + "\n"
    }

    /// Adds the cells of a row, separated by commas, with the line end.
    pub fn line(&self, row: &R, text: &mut String) {
        for (index, column) in self.columns().enumerate() {
            text.push_str(before(index, ","));
            let value = column.value(row);
            self.cell(&column.head.kind, &value.cell, text);
            if column.head.bounded {
                text.push(',');
                text.push_str(&value.bound.word().unwrap_or_default());
            }
        }
        text.push('\n');
    }
}

/// What stands before the item with this index.
const fn before(index: usize, separator: &str) -> &str {
    if index > 0 { separator } else { "" }
}

fn push(text: &mut String, value: impl Display) {
    write!(text, "{value}").expect("a String takes all");
}

/// Adds a text as a cell.
fn quoted(words: &str, text: &mut String) {
    if words.contains([',', '"', '\n', '\r']) {
        text.push('"');
        text.push_str(&words.replace('"', "\"\""));
        text.push('"');
    } else {
        text.push_str(words);
    }
}
