//! Rows whose columns are declared (`schedlab_model::table`) as Arrow columns: names, order and cells are those of JSON
//! and CSV. Points in time are those of the trace's clock.

use crate::columns::{Column, Head, PART, table};
use crate::table::Table;
use crate::values::Values;
use arrow_array::ArrayRef;
use arrow_schema::ArrowError;
use schedlab_model::table::{self, Cell, Kind, Row, Rows};

/// Rows that become columns together: their cells are in the processor's cache.
const HELD: usize = 1 << 8;

/// A table that grows row by row.
pub(crate) struct Growing<R> {
    columns: Vec<(table::Column<R>, Values)>,
    held: Vec<R>,
    /// Rows of the part at hand that are columns already.
    rows: usize,
    done: Vec<Vec<ArrayRef>>,
}

impl<R: Row> Growing<R> {
    /// With the columns of such rows but these; texts of `plain` do not repeat.
    pub(crate) fn without(names: &[&str], plain: &str) -> Self {
        let columns = R::columns().into_iter();
        let columns = columns.filter(|column| !names.contains(&&*column.head().name));
        let columns = columns.map(|column| {
            let head = column.head();
            let values = match head.name == plain {
                true => Values::plain(&head.kind),
                false => Values::words(&head.kind),
            };
            (column, values)
        });
        let held = Vec::with_capacity(HELD);
        Self { columns: columns.collect(), held, rows: 0, done: Vec::new() }
    }
}

impl<R> Growing<R> {
    /// Adds a row.
    #[inline]
    pub(crate) fn put(&mut self, row: R) -> Result<(), ArrowError> {
        self.held.push(row);
        if self.held.len() == HELD { self.pass() } else { Ok(()) }
    }

    /// Makes columns of the rows that are held.
    fn pass(&mut self) -> Result<(), ArrowError> {
        let mut cells = Vec::with_capacity(HELD);
        for (column, values) in &mut self.columns {
            column.cells(&self.held, &mut cells);
            values.extend(&cells);
            cells.clear();
        }
        self.rows += self.held.len();
        drop(cells);
        self.held.clear();
        if self.rows >= PART { self.close() } else { Ok(()) }
    }

    fn close(&mut self) -> Result<(), ArrowError> {
        let part = self.columns.iter_mut().map(|(_, values)| values.finish());
        self.done.push(part.collect::<Result<_, _>>()?);
        self.rows = 0;
        Ok(())
    }

    /// The table of all rows.
    pub(crate) fn table(mut self) -> Result<Table, ArrowError> {
        self.pass()?;
        if self.rows > 0 || self.done.is_empty() {
            self.close()?;
        }
        let heads = self.columns.into_iter().map(|(column, values)| head(column.head(), values));
        table(heads.collect(), self.done)
    }
}

/// The table of these rows.
pub(crate) fn declared<R>(rows: &Rows<'_, R>) -> Result<Table, ArrowError> {
    let mut heads = Vec::new();
    let mut part = Vec::new();
    for column in rows.columns() {
        let declared = column.head();
        let mut values = Values::words(&declared.kind);
        let mut cells: Vec<Cell<'_>> = Vec::new();
        column.cells(rows.rows(), &mut cells);
        values.extend(&cells);
        part.push(values.finish()?);
        heads.push(head(declared, values));
        if declared.bounded {
            let mut bounds = Values::words(&Kind::Text);
            for row in rows.rows() {
                bounds.put_text(column.bound(row).word().as_deref());
            }
            part.push(bounds.finish()?);
            heads.push(named(format!("{}_bound", declared.name), None, bounds));
        }
    }
    table(heads, vec![part])
}

fn head(declared: &table::Head, values: Values) -> Head {
    let unit = matches!(declared.kind, Kind::Duration | Kind::Point).then_some("ns");
    named(declared.name.to_string(), unit, values)
}

/// A column with the words that its values name.
pub(crate) fn named(name: String, unit: Option<&'static str>, values: Values) -> Head {
    let column = match values {
        Values::Words(_, words) => Column::Words(words.into_words()),
        _ => Column::Plain,
    };
    Head { name, unit, column }
}
