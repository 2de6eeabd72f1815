//! Cells of a declared column (`schedlab_model::table`), which become an Arrow array of the type that the kind has.

use crate::words::Words;
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Float64Builder, Int32Builder, Int64Builder, PrimitiveBuilder,
    StringBuilder, UInt16Builder,
};
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, Field, Fields};
use schedlab_model::table::{Cell, Head, Kind};
use std::sync::Arc;

/// Numbers that a builder takes at a time.
const CHUNK: usize = 256;

/// The values of a column so far.
pub(crate) enum Values {
    Long(Int64Builder),
    Cpu(UInt16Builder),
    Number(Int32Builder),
    Real(Float64Builder),
    Flag(BooleanBuilder),
    /// Numbers of words.
    Words(Int32Builder, Words),
    Text(StringBuilder),
    List(List),
    Record(Vec<(String, Values)>),
}

/// Several in each cell: those of all cells after each other, and how many each cell has.
pub(crate) struct List {
    items: Box<Values>,
    lengths: Vec<usize>,
    known: Vec<bool>,
}

impl Values {
    /// Of a column of this kind; its texts repeat.
    pub(crate) fn words(kind: &Kind) -> Self {
        match kind {
            Kind::Text => Self::Words(Int32Builder::new(), Words::default()),
            kind => Self::plain(kind),
        }
    }

    /// The same; its texts do not repeat.
    pub(crate) fn plain(kind: &Kind) -> Self {
        match kind {
            Kind::Duration | Kind::Point | Kind::Count => Self::Long(Int64Builder::new()),
            Kind::Cpu => Self::Cpu(UInt16Builder::new()),
            Kind::Number => Self::Number(Int32Builder::new()),
            Kind::Share | Kind::Real | Kind::MeanTime => Self::Real(Float64Builder::new()),
            Kind::Flag => Self::Flag(BooleanBuilder::new()),
            Kind::List(kind, _) => Self::list(Self::plain(kind)),
            Kind::Rows(heads) => {
                let field = |head: &Head| (head.name.to_string(), Self::plain(&head.kind));
                Self::list(Self::Record(heads.iter().map(field).collect()))
            }
            _ => Self::Text(StringBuilder::new()),
        }
    }

    fn list(items: Self) -> Self {
        Self::List(List { items: Box::new(items), lengths: Vec::new(), known: Vec::new() })
    }

    /// Adds cells: what they hold is looked up once, not for each.
    pub(crate) fn extend(&mut self, cells: &[Cell<'_>]) {
        match self {
            Self::Long(values) => numbers(values, cells, long),
            Self::Cpu(values) => numbers(values, cells, cpu),
            Self::Number(values) => numbers(values, cells, number),
            Self::Words(keys, words) => numbers(keys, cells, |cell| word(cell, words)),
            rare => cells.iter().for_each(|cell| rare.put(cell)),
        }
    }

    /// Adds a cell.
    fn put(&mut self, cell: &Cell<'_>) {
        match self {
            Self::Long(values) => values.append_option(long(cell)),
            Self::Cpu(values) => values.append_option(cpu(cell)),
            Self::Number(values) => values.append_option(number(cell)),
            Self::Words(keys, words) => keys.append_option(word(cell, words)),
            Self::Real(values) => values.append_option(match cell {
                Cell::Real(number) => Some(*number).filter(|number| number.is_finite()),
                _ => None,
            }),
            Self::Flag(values) => values.append_option(match cell {
                Cell::Flag(flag) => Some(*flag),
                _ => None,
            }),
            Self::Text(values) => values.append_option(match cell {
                Cell::Text(text) => Some(text),
                _ => None,
            }),
            Self::List(list) => {
                let items = parts(cell);
                items.iter().for_each(|item| list.items.put(item));
                list.lengths.push(items.len());
                list.known.push(matches!(cell, Cell::List(_)));
            }
            Self::Record(fields) => {
                for (place, (_, values)) in fields.iter_mut().enumerate() {
                    values.put(parts(cell).get(place).unwrap_or(&Cell::Unknown));
                }
            }
        }
    }

    /// Adds texts, or nothing.
    pub(crate) fn put_text(&mut self, text: Option<&str>) {
        self.put(&text.map_or(Cell::Unknown, |text| Cell::Text(text.into())));
    }

    /// Hands out what was added since; words keep their numbers.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Self::Long(values) => ArrayBuilder::finish(values),
            Self::Cpu(values) => ArrayBuilder::finish(values),
            Self::Number(values) => ArrayBuilder::finish(values),
            Self::Real(values) => ArrayBuilder::finish(values),
            Self::Flag(values) => ArrayBuilder::finish(values),
            Self::Words(keys, _) => ArrayBuilder::finish(keys),
            Self::Text(values) => ArrayBuilder::finish(values),
            Self::List(list) => {
                let offsets = OffsetBuffer::from_lengths(std::mem::take(&mut list.lengths));
                let known = NullBuffer::from(std::mem::take(&mut list.known));
                let items = list.items.finish()?;
                let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
                Arc::new(ListArray::try_new(field, offsets, items, Some(known))?)
            }
            Self::Record(fields) => {
                let finished = fields.iter_mut().map(|(name, values)| {
                    let array = values.finish()?;
                    Ok((Field::new(name.as_str(), array.data_type().clone(), true), array))
                });
                let finished: Vec<(Field, ArrayRef)> =
                    finished.collect::<Result<_, ArrowError>>()?;
                let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = finished.into_iter().unzip();
                Arc::new(StructArray::try_new(Fields::from(fields), arrays, None)?)
            }
        })
    }
}

/// Adds the numbers of cells. The builder takes many at a time quicker than one by one.
#[inline]
fn numbers<T: ArrowPrimitiveType>(
    values: &mut PrimitiveBuilder<T>,
    cells: &[Cell<'_>],
    mut get: impl FnMut(&Cell<'_>) -> Option<T::Native>,
) {
    let mut found = [T::Native::default(); CHUNK];
    let mut known = [false; CHUNK];
    for chunk in cells.chunks(CHUNK) {
        for ((cell, found), known) in chunk.iter().zip(&mut found).zip(&mut known) {
            let value = get(cell);
            *known = value.is_some();
            *found = value.unwrap_or_default();
        }
        let found = &found[..chunk.len()];
        let known = &known[..chunk.len()];
        match known.iter().filter(|known| **known).count() {
            0 => values.append_nulls(chunk.len()),
            all if all == chunk.len() => values.append_slice(found),
            _ => values.append_values(found, known),
        }
    }
}

#[inline]
fn long(cell: &Cell<'_>) -> Option<i64> {
    match cell {
        Cell::Whole(number) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
        _ => None,
    }
}

#[inline]
fn cpu(cell: &Cell<'_>) -> Option<u16> {
    match cell {
        Cell::Whole(number) => u16::try_from(*number).ok(),
        _ => None,
    }
}

#[inline]
fn number(cell: &Cell<'_>) -> Option<i32> {
    match cell {
        Cell::Signed(number) => i32::try_from(*number).ok(),
        _ => None,
    }
}

/// The number of a text.
#[inline]
fn word(cell: &Cell<'_>, words: &mut Words) -> Option<i32> {
    match cell {
        Cell::Text(text) => Some(words.number(text)),
        _ => None,
    }
}

fn parts<'c, 'r>(cell: &'c Cell<'r>) -> &'c [Cell<'r>] {
    match cell {
        Cell::List(parts) => parts,
        _ => &[],
    }
}
