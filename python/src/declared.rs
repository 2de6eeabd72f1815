//! Rows whose columns are declared (`schedlab_model::table`) as Arrow columns: names, order and cells are those of JSON
//! and CSV. Points in time are those of the trace's clock.

use crate::columns::{Column, Found, Head, table};
use crate::table::Table;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, ListArray, StringArray,
    StructArray, UInt16Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, Field, Fields};
use schedlab_model::table::{Cell, Head as Declared, Kind, Rows};
use std::sync::Arc;

/// The table of these rows.
pub(crate) fn declared<R>(rows: &Rows<'_, R>) -> Result<Table, ArrowError> {
    let mut heads = Vec::new();
    let mut part = Vec::new();
    for column in rows.columns() {
        let Declared { name, kind, bounded, .. } = column.head();
        let values: Vec<_> = rows.rows().iter().map(|row| column.value(row)).collect();
        let cells: Vec<&Cell<'_>> = values.iter().map(|value| &value.cell).collect();
        let unit = matches!(kind, Kind::Duration | Kind::Point).then_some("ns");
        let (column, array) = match kind {
            Kind::Text => words(cells.iter().map(|cell| text(cell))),
            kind => (Column::Plain, array(kind, &cells)?),
        };
        heads.push(Head { name: name.to_string(), unit, column });
        part.push(array);
        if *bounded {
            let bounds: Vec<_> = values.iter().map(|value| value.bound.word()).collect();
            let (column, array) = words(bounds.iter().map(Option::as_deref));
            heads.push(Head { name: format!("{name}_bound"), unit: None, column });
            part.push(array);
        }
    }
    table(heads, vec![part])
}

/// Texts as numbers of words.
fn words<'t>(texts: impl Iterator<Item = Option<&'t str>>) -> (Column, ArrayRef) {
    let mut found = Found::default();
    let keys: Int32Array = texts.map(|text| text.map(|text| found.number(text))).collect();
    (Column::Words(found.words()), Arc::new(keys))
}

fn text<'c>(cell: &'c Cell<'_>) -> Option<&'c str> {
    match cell {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}

fn whole<T: TryFrom<u64>>(cell: &Cell<'_>) -> Option<T> {
    match cell {
        Cell::Whole(number) => T::try_from(*number).ok(),
        _ => None,
    }
}

/// Cells of a column of this kind.
fn array(kind: &Kind, cells: &[&Cell<'_>]) -> Result<ArrayRef, ArrowError> {
    let cells_of = || cells.iter().copied();
    Ok(match kind {
        Kind::Duration | Kind::Point | Kind::Count => {
            Arc::new(cells_of().map(whole::<i64>).collect::<Int64Array>())
        }
        Kind::Cpu => Arc::new(cells_of().map(whole::<u16>).collect::<UInt16Array>()),
        Kind::Number => {
            let number = |cell: &Cell<'_>| match cell {
                Cell::Signed(number) => i32::try_from(*number).ok(),
                _ => None,
            };
            Arc::new(cells_of().map(number).collect::<Int32Array>())
        }
        Kind::Share | Kind::Real => {
            let number = |cell: &Cell<'_>| match cell {
                Cell::Real(number) if number.is_finite() => Some(*number),
                _ => None,
            };
            Arc::new(cells_of().map(number).collect::<Float64Array>())
        }
        Kind::Flag => {
            let flag = |cell: &Cell<'_>| match cell {
                Cell::Flag(flag) => Some(*flag),
                _ => None,
            };
            Arc::new(cells_of().map(flag).collect::<BooleanArray>())
        }
        Kind::List(kind) => list(cells, |items| array(kind, items))?,
        Kind::Rows(heads) => list(cells, |items| record(heads, items))?,
        _ => Arc::new(cells_of().map(text).collect::<StringArray>()),
    })
}

/// Several in each cell: those of all cells after each other, and where each cell's end.
fn list(
    cells: &[&Cell<'_>],
    array: impl FnOnce(&[&Cell<'_>]) -> Result<ArrayRef, ArrowError>,
) -> Result<ArrayRef, ArrowError> {
    let items = |cell: &&Cell<'_>| match cell {
        Cell::List(items) => items.len(),
        _ => 0,
    };
    let offsets = OffsetBuffer::from_lengths(cells.iter().map(items));
    let known = NullBuffer::from_iter(cells.iter().map(|cell| matches!(cell, Cell::List(_))));
    let all: Vec<&Cell<'_>> = cells.iter().flat_map(|cell| parts(cell)).collect();
    let all = array(&all)?;
    let item = Arc::new(Field::new_list_field(all.data_type().clone(), true));
    Ok(Arc::new(ListArray::try_new(item, offsets, all, Some(known))?))
}

fn parts<'c, 'r>(cell: &'c Cell<'r>) -> &'c [Cell<'r>] {
    match cell {
        Cell::List(parts) => parts,
        _ => &[],
    }
}

/// Rows of a cell: a field for each of their columns.
fn record(heads: &[Declared], rows: &[&Cell<'_>]) -> Result<ArrayRef, ArrowError> {
    let column = |(place, head): (usize, &Declared)| {
        let cells: Vec<&Cell<'_>> =
            rows.iter().map(|row| parts(row).get(place).unwrap_or(&Cell::Unknown)).collect();
        let array = array(&head.kind, &cells)?;
        Ok((Field::new(head.name.as_ref(), array.data_type().clone(), true), array))
    };
    let columns = heads.iter().enumerate().map(column).collect::<Result<Vec<_>, ArrowError>>()?;
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    Ok(Arc::new(StructArray::try_new(Fields::from(fields), arrays, None)?))
}
