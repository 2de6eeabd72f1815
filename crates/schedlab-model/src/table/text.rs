//! Tables as text, whose columns stand under each other and fit the terminal.

use super::{Bound, Cell, Column, Head, Kind, Rows, Value};
use crate::{Nanos, Point, Unit, readable, significant};
use std::fmt::Write as _;

/// A table that is gathered, then printed. Numbers are flush right, texts flush left.
#[derive(Clone, Debug, Default)]
pub struct TextTable {
    heads: Vec<TextHead>,
    rows: Vec<Vec<String>>,
    /// Rows that are only counted.
    further: usize,
}

/// What stands above a column.
#[derive(Clone, Debug)]
struct TextHead {
    name: String,
    is_left: bool,
    /// What this column and its neighbours are figures of.
    group: Option<String>,
    rank: u8,
}

impl TextHead {
    fn new(title: &str, is_left: bool, rank: u8) -> Self {
        let (group, name) = match title.split_once(": ") {
            Some((group, name)) => (Some(group.to_owned()), name),
            None => (None, title),
        };
        Self { name: name.to_owned(), is_left, group, rank }
    }

    /// `[<][RANK?]TITLE`: flush left, and the rank where it is not 0.
    fn parse(text: &str) -> Self {
        let (is_left, text) = match text.strip_prefix('<') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let ranked = text.split_once('?').and_then(|(rank, name)| Some((rank.parse().ok()?, name)));
        let (rank, title) = ranked.unwrap_or((0, text));
        Self::new(title, is_left, rank)
    }
}

impl TextTable {
    /// A table with heads of the form `[<][RANK?][GROUP: ]NAME`. `<` aligns the column to the left. A narrow terminal
    /// drops columns with the highest rank first, and never those without a rank.
    #[must_use]
    pub fn new(heads: &[&str]) -> Self {
        Self {
            heads: heads.iter().map(|text| TextHead::parse(text)).collect(),
            rows: Vec::new(),
            further: 0,
        }
    }

    /// A table with these column heads: name, whether the column is aligned to the left, and rank.
    #[must_use]
    pub fn plain<'h>(heads: impl IntoIterator<Item = (&'h str, bool, u8)>) -> Self {
        let head = |(name, is_left, rank): (&str, bool, u8)| TextHead {
            name: name.to_owned(),
            is_left,
            group: None,
            rank,
        };
        Self { heads: heads.into_iter().map(head).collect(), rows: Vec::new(), further: 0 }
    }

    /// Adds a row: a cell for each head.
    ///
    /// # Panics
    /// Where there are more or fewer cells than heads.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.heads.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// The table as text of at most `room` characters a line, if its columns without rank fit; of more than `limit` rows (0
    /// is no limit) the first, and how many are left.
    #[must_use]
    pub fn text(&self, limit: usize, room: usize) -> String {
        let shown = first(&self.rows, limit);
        let rows = &self.rows[..shown];
        let columns = self.shown(rows, room);
        let mut text = self.groups(&columns);
        let heads: Vec<String> = self.heads.iter().map(|head| head.name.clone()).collect();
        for row in std::iter::once(&heads).chain(rows) {
            let mut line = String::new();
            for (at, width) in columns.iter().copied() {
                let cell = &row[at];
                let _ = match self.heads[at].is_left {
                    true => write!(line, "{cell:<width$}  "),
                    false => write!(line, "{cell:>width$}  "),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        let further = self.rows.len() - shown + self.further;
        if further > 0 {
            let _ = writeln!(text, "... and {further} more (--top 0 shows all)");
        }
        match self.heads.len() - columns.len() {
            0 => {}
            1 => text.push_str("1 column does not fit (--wide shows all)\n"),
            more => {
                let _ = writeln!(text, "{more} columns do not fit (--wide shows all)");
            }
        }
        text
    }

    /// The columns that there is room for, with their widths.
    fn shown(&self, rows: &[Vec<String>], room: usize) -> Vec<(usize, usize)> {
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.heads[column].name.chars().count()]).max().unwrap_or(0)
        };
        self.fitting((0..self.heads.len()).map(|at| (at, width(at))).collect(), room)
    }

    /// Columns with their widths, less those that may be left out while they do not fit.
    fn fitting(&self, mut columns: Vec<(usize, usize)>, room: usize) -> Vec<(usize, usize)> {
        loop {
            let wide = self.with_room_for_groups(columns.clone());
            let taken = wide.iter().map(|(_, width)| width + 2).sum::<usize>().saturating_sub(2);
            let ranked = columns.iter().map(|(at, _)| (self.heads[*at].rank, *at));
            match ranked.filter(|(rank, _)| *rank > 0).max() {
                Some((_, least)) if taken > room => columns.retain(|(at, _)| *at != least),
                _ => return wide,
            }
        }
    }

    /// The last column of a group is wide enough for the group's name.
    fn with_room_for_groups(&self, mut columns: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
        let group = |at: usize| self.heads[at].group.as_deref();
        for run in columns.chunk_by_mut(|a, b| group(a.0) == group(b.0)) {
            let room = run.iter().map(|(_, width)| width + 2).sum::<usize>() - 2;
            let name = run.first().and_then(|(at, _)| group(*at)).unwrap_or_default();
            if let Some((_, width)) = run.last_mut() {
                *width += name.chars().count().saturating_sub(room);
            }
        }
        columns
    }

    /// The line above the heads: each group's name, and a line as far as its columns go. None without groups.
    fn groups(&self, columns: &[(usize, usize)]) -> String {
        let group = |at: usize| self.heads[at].group.as_deref();
        if columns.iter().all(|(at, _)| group(*at).is_none()) {
            return String::new();
        }
        let mut line = String::new();
        for run in columns.chunk_by(|a, b| group(a.0) == group(b.0)) {
            let room = run.iter().map(|(_, width)| width + 2).sum::<usize>() - 2;
            let _ = match run.first().and_then(|(at, _)| group(*at)) {
                // A name as wide as its columns leaves no place for a line.
                Some(name) if name.chars().count() >= room => write!(line, "{name}  "),
                Some(name) => write!(line, "{:-<room$}  ", format!("{name} ")),
                None => write!(line, "{:room$}  ", ""),
            };
        }
        format!("{}\n", line.trim_end())
    }
}

impl<R> Column<R> {
    fn text(&self, row: &R) -> String {
        match &self.spelled {
            Some(spelled) => spelled(row),
            None => value_text(&self.head.kind, &self.value(row)),
        }
    }
}

/// Rows on their way to text.
#[derive(Debug)]
pub struct TextRows<'a, R> {
    rows: &'a [R],
    columns: Vec<&'a Column<R>>,
    table: TextTable,
    room: usize,
}

impl<R> Rows<'_, R> {
    /// A table of at most `room` characters a line, without rows yet and without the columns whose names begin with one of
    /// `hidden`. Where room has no limit, it has the columns without title too.
    #[must_use]
    pub fn text(&self, room: usize, hidden: &[&str]) -> TextRows<'_, R> {
        let is_hidden = |head: &Head| hidden.iter().any(|start| head.name.starts_with(start));
        let has = |head: &Head| !head.title.is_empty() || room == usize::MAX && !head.on_request;
        let columns = self.columns.iter().filter(|one| has(&one.head) && !is_hidden(&one.head));
        let columns: Vec<&Column<R>> = columns.collect();
        let heads = columns.iter().map(|column| {
            let Head { name, kind, title, rank, .. } = &column.head;
            let is_left = matches!(kind, Kind::Text | Kind::Rows(_));
            let spelled = name.trim_end_matches("_ns").replace('_', " ");
            TextHead::new(if title.is_empty() { &spelled } else { title }, is_left, *rank)
        });
        let table = TextTable { heads: heads.collect(), rows: Vec::new(), further: 0 };
        TextRows { rows: self.rows, columns, table, room }
    }

    /// Titles and cells of the columns with these names, as text has them: for tables of another form.
    ///
    /// # Panics
    /// Where no column has one of the names.
    #[must_use]
    pub fn cells(&self, names: &[&str]) -> (Vec<String>, Vec<Vec<String>>) {
        let of = |name: &&str| {
            let named = self.columns.iter().find(|one| one.head.name == **name);
            named.expect("a column has each name")
        };
        let columns: Vec<&Column<R>> = names.iter().map(of).collect();
        let titles = columns.iter().map(|column| column.head.title.to_string()).collect();
        let cells = |row: &R| columns.iter().map(|column| column.text(row)).collect();
        (titles, self.rows.iter().map(cells).collect())
    }
}

impl<R> TextRows<'_, R> {
    /// Whether the trace leaves a figure of the first `limit` rows (0: of all), in a column that there is room for, unknown
    /// or uncertain by more than 1 % of its value. A column that needs nothing of the trace is no figure.
    #[must_use]
    pub fn is_touched(&self, limit: usize) -> bool {
        let rows = &self.rows[..first(self.rows, limit)];
        let shown = self.table.shown(&self.table.rows, self.room);
        let mut figures =
            shown.iter().map(|(at, _)| self.columns[*at]).filter(|one| one.head.need.is_some());
        figures.any(|one| one.blank || rows.iter().any(|row| one.value(row).is_touched()))
    }

    /// Adds a row; `named` are texts for some of its columns.
    pub fn row(&mut self, row: &R, named: &[(&str, &str)]) {
        let cell = |column: &&Column<R>| {
            let named = named.iter().find(|(name, _)| *name == column.head.name);
            named.map_or_else(|| column.text(row), |(_, text)| (*text).to_owned())
        };
        self.table.rows.push(self.columns.iter().map(cell).collect());
    }

    /// Adds all rows.
    pub fn all(&mut self) {
        self.first(0);
    }

    /// Adds the first `limit` rows (0 is no limit); of those that follow only the count is printed.
    pub fn first(&mut self, limit: usize) {
        let shown = first(self.rows, limit);
        self.rows[..shown].iter().for_each(|row| self.row(row, &[]));
        self.table.further += self.rows.len() - shown;
    }

    /// The table as [`TextTable::text`] prints it.
    #[must_use]
    pub fn print(&self, limit: usize) -> String {
        self.table.text(limit, self.room)
    }
}

/// How many of these rows are shown; a `limit` of 0 is none.
fn first<T>(rows: &[T], limit: usize) -> usize {
    if limit == 0 { rows.len() } else { limit.min(rows.len()) }
}

/// A cell with its bound.
fn value_text(kind: &Kind, value: &Value<'_>) -> String {
    let text = cell_text(kind, &value.cell);
    match value.bound {
        _ if value.cell == Cell::Unknown => text,
        Bound::Exact => text,
        Bound::AtLeast => format!("≥ {text}"),
        Bound::AtMost => format!("≤ {text}"),
        Bound::Within(apart) => {
            let apart = match kind {
                Kind::Share | Kind::Real => Cell::Real(apart),
                _ => Cell::Whole(apart.round() as u64),
            };
            format!("{text} ± {}", cell_text(kind, &apart))
        }
    }
}

fn cell_text(kind: &Kind, cell: &Cell<'_>) -> String {
    match (cell, kind) {
        (Cell::Whole(ns), Kind::Duration) => readable(*ns as f64, Unit::Nanoseconds),
        (Cell::Real(ns), Kind::MeanTime) => readable(*ns, Unit::Nanoseconds),
        (Cell::Whole(at), Kind::Point) => Point::At(Nanos(*at)).to_string(),
        (Cell::Whole(number), _) => number.to_string(),
        (Cell::Signed(number), _) => number.to_string(),
        (Cell::Real(part), Kind::Share) => readable(*part, Unit::Fraction),
        (Cell::Real(number), _) if number.is_finite() => significant(*number),
        (Cell::Unknown | Cell::Real(_), _) => "-".to_owned(),
        (Cell::Flag(flag), _) => if *flag { "yes" } else { "no" }.to_owned(),
        (Cell::Text(text), _) => text.as_ref().to_owned(),
        (Cell::List(rows), Kind::Rows(heads)) => {
            let rows = rows.iter().map(|row| match row {
                Cell::List(cells) => joined(heads.iter().map(|head| &head.kind).zip(cells), " "),
                other => cell_text(&Kind::Text, other),
            });
            rows.collect::<Vec<_>>().join(", ")
        }
        (Cell::List(cells), Kind::List(kind, _)) => {
            joined(cells.iter().map(|cell| (&**kind, cell)), " ")
        }
        (Cell::List(_), _) => String::new(),
    }
}

fn joined<'c>(cells: impl Iterator<Item = (&'c Kind, &'c Cell<'c>)>, between: &str) -> String {
    cells.map(|(kind, cell)| cell_text(kind, cell)).collect::<Vec<_>>().join(between)
}
