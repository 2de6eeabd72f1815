//! Text tables whose columns stand under each other.

use schedlab_model::Nanos;
use std::fmt::Write as _;

/// A table that is gathered, then printed. Numbers are flush right, names flush left.
pub(crate) struct Table {
    heads: Vec<(String, Side)>,
    rows: Vec<Vec<String>>,
}

/// To which side a column is flush.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Table {
    /// A head begins with `<` when its column is flush left.
    pub(crate) fn new(heads: &[&str]) -> Self {
        let side = |head: &&str| match head.strip_prefix('<') {
            Some(name) => (name.to_owned(), Side::Left),
            None => ((*head).to_owned(), Side::Right),
        };
        Self { heads: heads.iter().map(side).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.heads.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// The table as text; of more than `limit` rows (0 is no limit) the first, and how many are left.
    pub(crate) fn text(&self, limit: usize) -> String {
        let shown = if limit == 0 { self.rows.len() } else { limit.min(self.rows.len()) };
        let rows = &self.rows[..shown];
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.heads[column].0.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heads.len()).map(width).collect();
        let mut text = String::new();
        let heads: Vec<String> = self.heads.iter().map(|(name, _)| name.clone()).collect();
        for row in std::iter::once(&heads).chain(rows) {
            let mut line = String::new();
            for ((cell, width), (_, side)) in row.iter().zip(&widths).zip(&self.heads) {
                let _ = match side {
                    Side::Left => write!(line, "{cell:<width$}  "),
                    Side::Right => write!(line, "{cell:>width$}  "),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        if shown < self.rows.len() {
            let _ = writeln!(text, "... and {} more (--top 0 shows all)", self.rows.len() - shown);
        }
        text
    }
}

/// A time, or a dash for none.
pub(crate) fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| Nanos(ns).to_string())
}

/// A part of one as a percentage.
pub(crate) fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| format!("{:.1}%", part * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other_and_the_rest_is_counted() {
        let mut table = Table::new(&["pid", "<comm", "max"]);
        table.row(vec!["1".into(), "init".into(), "20us".into()]);
        table.row(vec!["1234".into(), "a b".into(), "-".into()]);
        table.row(vec!["5".into(), "left out".into(), "1ms".into()]);
        assert_eq!(
            table.text(2),
            " pid  comm   max\n   1  init  20us\n1234  a b      -\n... and 1 more (--top 0 shows all)\n"
        );
    }
}
