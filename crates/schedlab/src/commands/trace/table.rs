//! Text tables whose columns stand under each other.

use std::fmt::Write as _;

/// Heads of migrations by distance, beside a column of all: the nearest that both CPUs share, as in
/// [`schedlab_model::Distance::ALL`] but for the same CPU.
pub(crate) const DISTANCES: [&str; 5] = [
    "0?migrations: in core",
    "0?migrations: LLC",
    "0?migrations: node",
    "0?migrations: socket",
    "0?migrations: beyond",
];

/// A table that is gathered, then printed. Numbers are flush right, names flush left.
pub(crate) struct Table {
    heads: Vec<Head>,
    rows: Vec<Vec<String>>,
}

/// What stands above a column.
struct Head {
    name: String,
    side: Side,
    /// What this column and its neighbours are figures of; told above them.
    group: Option<String>,
    /// On a terminal that is too narrow, columns with a number are left out, the lowest first.
    spare: Option<u32>,
}

/// To which side a column is flush.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Head {
    /// `[<][NUMBER?][GROUP: ]NAME`: a column flush left, one that may be left out, one of a group.
    fn parse(text: &str) -> Self {
        let (side, text) = match text.strip_prefix('<') {
            Some(rest) => (Side::Left, rest),
            None => (Side::Right, text),
        };
        let spare =
            text.split_once('?').and_then(|(number, name)| Some((number.parse().ok()?, name)));
        let (spare, text) = spare.map_or((None, text), |(number, name)| (Some(number), name));
        let (group, name) = match text.split_once(": ") {
            Some((group, name)) => (Some(group.to_owned()), name),
            None => (None, text),
        };
        Self { name: name.to_owned(), side, group, spare }
    }
}

impl Table {
    /// Heads as [`Head::parse`] takes them.
    pub(crate) fn new(heads: &[&str]) -> Self {
        Self { heads: heads.iter().map(|text| Head::parse(text)).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.heads.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// The table as text; of more than `limit` rows (0 is no limit) the first, and how many are left. On a
    /// terminal it has the columns for which there is room.
    pub(crate) fn text(&self, limit: usize) -> String {
        let room = crate::output::columns().unwrap_or(usize::MAX);
        self.text_within(limit, room)
    }

    fn text_within(&self, limit: usize, room: usize) -> String {
        let shown = if limit == 0 { self.rows.len() } else { limit.min(self.rows.len()) };
        let rows = &self.rows[..shown];
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.heads[column].name.chars().count()]).max().unwrap_or(0)
        };
        let all: Vec<(usize, usize)> = (0..self.heads.len()).map(|at| (at, width(at))).collect();
        let columns = self.fitting(all, room);
        let mut text = self.groups(&columns);
        let heads: Vec<String> = self.heads.iter().map(|head| head.name.clone()).collect();
        for row in std::iter::once(&heads).chain(rows) {
            let mut line = String::new();
            for (at, width) in columns.iter().copied() {
                let cell = &row[at];
                let _ = match self.heads[at].side {
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
        let left_out = self.heads.len() - columns.len();
        if left_out > 0 {
            let plural = if left_out == 1 { "" } else { "s" };
            let _ = writeln!(
                text,
                "{left_out} column{plural} more on a wider terminal, in a pipe or a file"
            );
        }
        text
    }

    /// Columns with their widths, less those that may be left out while they do not fit.
    fn fitting(&self, mut columns: Vec<(usize, usize)>, room: usize) -> Vec<(usize, usize)> {
        let taken =
            |columns: &[(usize, usize)]| columns.iter().map(|(_, width)| width + 2).sum::<usize>();
        while taken(&columns).saturating_sub(2) > room {
            let spare = columns.iter().filter_map(|(at, _)| Some((self.heads[*at].spare?, *at)));
            let Some((_, least)) = spare.min() else { break };
            columns.retain(|(at, _)| *at != least);
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
                Some(name) => write!(line, "{:-<room$}  ", format!("{name} ")),
                None => write!(line, "{:room$}  ", ""),
            };
        }
        format!("{}\n", line.trim_end())
    }
}

/// A part of one as a percentage.
pub(crate) fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| format!("{:.1}%", part * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_told_above_and_a_narrow_terminal_has_fewer_columns() {
        let mut table = Table::new(&["pid", "wait: p50", "1?wait: p99", "wait: max", "2?run: sum"]);
        table.row(vec!["1".into(), "2us".into(), "30us".into(), "400us".into(), "5s".into()]);
        let wide =
            "     wait -----------  run\npid  p50   p99    max  sum\n  1  2us  30us  400us   5s\n";
        assert_eq!(table.text_within(0, 26), wide);
        let narrow = "     wait -----  run\npid  p50    max  sum\n  1  2us  400us   5s\n\
                      1 column more on a wider terminal, in a pipe or a file\n";
        assert_eq!(table.text_within(0, 25), narrow);
        let least = "     wait -----\npid  p50    max\n  1  2us  400us\n\
                     2 columns more on a wider terminal, in a pipe or a file\n";
        assert_eq!(table.text_within(0, 1), least, "what is needed stays");
    }

    #[test]
    fn columns_stand_under_each_other_and_the_rest_is_counted() {
        let mut table = Table::new(&["pid", "<comm", "max"]);
        table.row(vec!["1".into(), "init".into(), "20us".into()]);
        table.row(vec!["1234".into(), "a b".into(), "-".into()]);
        table.row(vec!["5".into(), "left out".into(), "1ms".into()]);
        assert_eq!(
            table.text_within(2, usize::MAX),
            " pid  comm   max\n   1  init  20us\n1234  a b      -\n... and 1 more (--top 0 shows all)\n"
        );
    }
}
