//! Tables as CSV (RFC 4180): a head, and a line for each row.

use super::{Cell, Column, Head, Kind, Rows};
use crate::{Nanos, as_text};

impl<R> Rows<'_, R> {
    /// A line with the names, and a line for each row. Unknown is empty; several in a cell have spaces between them, of
    /// rows in a cell the numbers, with colons. `raw` as in [`Csv::new`].
    #[must_use]
    pub fn csv(&self, raw: bool) -> String {
        let csv = Csv { columns: &self.columns, origin: self.origin, raw };
        self.rows.iter().map(|row| csv.line(row)).fold(csv.head(), |text, line| text + &line)
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

    fn cell(&self, kind: &Kind, of: &Cell<'_>) -> String {
        match (of, kind) {
            (Cell::Unknown, _) => String::new(),
            (Cell::Whole(at), Kind::Point) => at.saturating_sub(self.origin.0).to_string(),
            (Cell::Whole(number), _) => number.to_string(),
            (Cell::Signed(number), _) => number.to_string(),
            // As JSON spells it.
            (Cell::Real(number), _) if number.is_finite() => {
                serde_json::to_string(number).unwrap_or_default()
            }
            (Cell::Real(_), _) => String::new(),
            (Cell::Flag(flag), _) => flag.to_string(),
            (Cell::Text(text), _) if self.raw => quoted(text),
            (Cell::Text(text), _) => quoted(&as_text(text)),
            (Cell::List(rows), Kind::Rows(heads)) => {
                let rows: Vec<String> = rows.iter().map(|row| self.numbers(heads, row)).collect();
                rows.join(" ")
            }
            (Cell::List(cells), Kind::List(kind)) => {
                let cells: Vec<String> = cells.iter().map(|one| self.cell(kind, one)).collect();
                cells.join(" ")
            }
            (Cell::List(_), _) => String::new(),
        }
    }

    /// The numbers of a row in a cell: texts may hold what stands between them.
    fn numbers(&self, heads: &[Head], row: &Cell<'_>) -> String {
        let Cell::List(cells) = row else { return String::new() };
        let cells = heads.iter().zip(cells).filter(|(head, _)| !matches!(head.kind, Kind::Text));
        cells.map(|(head, one)| self.cell(&head.kind, one)).collect::<Vec<_>>().join(":")
    }

    fn columns(&self) -> impl Iterator<Item = &'a Column<R>> {
        self.columns.iter().filter(|column| !column.head.on_request)
    }

    /// The line with the names.
    #[must_use]
    pub fn head(&self) -> String {
        let mut names = Vec::new();
        for head in self.columns().map(|column| &column.head) {
            names.push(quoted(&head.name));
            names.extend(head.bounded.then(|| quoted(&format!("{}_bound", head.name))));
        }
        names.join(",") + "\n"
    }

    /// The cells of a row, separated by commas, with the line end.
    #[must_use]
    pub fn line(&self, row: &R) -> String {
        let mut cells = Vec::new();
        for column in self.columns() {
            let value = column.value(row);
            cells.push(self.cell(&column.head.kind, &value.cell));
            cells.extend(column.head.bounded.then(|| value.bound.word().unwrap_or_default()));
        }
        cells.join(",") + "\n"
    }
}

/// A text as a cell.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
