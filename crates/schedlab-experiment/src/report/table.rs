//! Tables: plain text cells, numbers to the right.

use super::Html;
use schedlab_model::table::TextTable;

/// A table. The first column names the row; columns that hold numbers are set to the right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Of the columns in text; those beyond have rank 0.
    ranks: Vec<u8>,
}

impl Table {
    /// A table with its column heads.
    #[must_use]
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
            ranks: Vec::new(),
        }
    }

    /// Where text has no room for all columns, those of a higher rank are left out first; those of rank 0 never are.
    #[must_use]
    pub fn ranked(mut self, ranks: &[u8]) -> Self {
        self.ranks = ranks.to_vec();
        self
    }

    /// Appends a row; missing cells stay empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) -> &mut Self {
        let mut cells: Vec<String> = cells.into_iter().collect();
        cells.resize(self.head.len(), String::new());
        self.rows.push(cells);
        self
    }

    /// The table as text for a terminal, columns aligned.
    #[must_use]
    pub fn text(&self) -> String {
        self.fit(usize::MAX)
    }

    /// The table as text of at most `room` characters a line, as far as the columns of rank 0 allow.
    #[must_use]
    pub fn fit(&self, room: usize) -> String {
        let rank = |at: usize| self.ranks.get(at).copied().unwrap_or(0);
        let heads = self.head.iter().enumerate();
        let mut table =
            TextTable::plain(heads.map(|(at, name)| (&**name, !self.is_number(at), rank(at))));
        self.rows.iter().for_each(|row| table.row(row.clone()));
        table.text(0, room)
    }

    fn is_number(&self, column: usize) -> bool {
        let numeric = |cell: &str| {
            cell.is_empty()
                || cell.starts_with(|c: char| {
                    c.is_ascii_digit() || matches!(c, '-' | '+' | '±' | '[' | '≥' | '<')
                })
        };
        column > 0 && self.rows.iter().all(|row| numeric(&row[column]))
    }

    pub(super) fn write(&self, html: &mut Html) {
        let numbers: Vec<bool> =
            (0..self.head.len()).map(|column| self.is_number(column)).collect();
        let open = |tag: &str, column: usize| match numbers[column] {
            true => format!("<{tag} class=\"number\">"),
            false => format!("<{tag}>"),
        };
        // A wide table scrolls by itself; the page does not.
        html.markup("<div class=\"wide\"><table>\n<thead><tr>");
        for (column, cell) in self.head.iter().enumerate() {
            html.markup(&open("th", column)).text(cell).markup("</th>");
        }
        html.markup("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            html.markup("<tr>");
            for (column, cell) in row.iter().enumerate() {
                html.markup(&open("td", column)).text(cell).markup("</td>");
            }
            html.markup("</tr>\n");
        }
        html.markup("</tbody></table></div>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_high_rank_go_first_where_there_is_no_room() {
        let mut table = Table::new(["what", "time", "detail"]).ranked(&[0, 1, 2]);
        table.row(["a".into(), "1.2 s".into(), "something long".into()]);
        let full = "what   time  detail\na     1.2 s  something long\n";
        assert_eq!((table.fit(27), table.text()), (full.into(), full.into()));
        let one = "what   time\na     1.2 s\n1 column does not fit (--wide shows all)\n";
        assert_eq!(table.fit(26), one);
        let two = "what\na\n2 columns do not fit (--wide shows all)\n";
        assert_eq!(table.fit(10), two);
    }

    #[test]
    fn numbers_stand_to_the_right() {
        let mut table = Table::new(["what", "time", "note"]);
        table.row(["a".into(), "1.2 s".into(), "fine".into()]);
        table.row(["longer".into(), "12.3 s".into()]);
        assert_eq!(table.text(), "what      time  note\na        1.2 s  fine\nlonger  12.3 s\n");
    }

    #[test]
    fn a_column_of_signs_and_digits_is_numbers_but_never_the_first_one() {
        let mut table = Table::new(["1", "n", "change", "word"]);
        table.row(["1", "+2", "±3 %", "4"].map(str::to_owned));
        table.row(["2", "-1", "[0 .. 1]", "four"].map(str::to_owned));
        let numbers: Vec<bool> = (0..4).map(|column| table.is_number(column)).collect();
        assert_eq!(numbers, [false, true, true, false]);
    }
}
