//! Tables as JSON: an object for each row. What the names of neighbours have in common before a dot is an object in it.

use super::{Bound, Cell, Column, Head, Kind, One, Rows, Value};
use crate::Nanos;
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};

/// The columns of an object: a column with the rest of its name, or an object in it.
#[derive(Debug)]
pub(super) enum Field<'h> {
    /// The place of the column.
    Cell(&'h str, usize),
    /// Its name and its fields.
    Object(&'h str, Vec<Field<'h>>),
}

/// The fields of these columns, whose names are told from `from` on.
pub(super) fn fields<'h>(heads: &[(usize, &'h str)]) -> Vec<Field<'h>> {
    let first = |name: &'h str| name.split_once('.').map(|(first, _)| first);
    let mut fields = Vec::new();
    for run in heads.chunk_by(|a, b| first(a.1).is_some() && first(a.1) == first(b.1)) {
        let [(place, name), ..] = run else { continue };
        match first(name) {
            None => fields.push(Field::Cell(name, *place)),
            Some(object) => {
                let inner = run.iter().map(|(at, name)| (*at, &name[object.len() + 1..]));
                fields.push(Field::Object(object, self::fields(&inner.collect::<Vec<_>>())));
            }
        }
    }
    fields
}

/// Names with their places.
pub(super) fn names<'h>(heads: impl Iterator<Item = &'h Head>) -> Vec<(usize, &'h str)> {
    heads.enumerate().map(|(at, head)| (at, &*head.name)).collect()
}

impl<R> Serialize for Rows<'_, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let heads: Vec<&Head> = self.columns.iter().map(Column::head).collect();
        let fields = fields(&names(heads.iter().copied()));
        let mut rows = serializer.serialize_seq(Some(self.rows.len()))?;
        for row in self.rows {
            let values: Vec<Value<'_>> = self.columns.iter().map(|one| one.value(row)).collect();
            let fields = &fields[..];
            let values = &values[..];
            rows.serialize_element(&Object { fields, heads: &heads, values, origin: self.origin })?;
        }
        rows.end()
    }
}

impl<R> Serialize for One<'_, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let heads: Vec<&Head> = self.columns.iter().map(Column::head).collect();
        let fields = fields(&names(heads.iter().copied()));
        let values: Vec<Value<'_>> = self.columns.iter().map(|one| one.value(self.row)).collect();
        Object { fields: &fields, heads: &heads, values: &values, origin: self.origin }
            .serialize(serializer)
    }
}

/// A row, or the part of it below one name.
struct Object<'o> {
    fields: &'o [Field<'o>],
    heads: &'o [&'o Head],
    values: &'o [Value<'o>],
    origin: Nanos,
}

impl Object<'_> {
    /// Whether nothing of it is known.
    fn is_unknown(&self) -> bool {
        self.fields.iter().all(|field| match field {
            Field::Cell(_, place) => self.values[*place].cell == Cell::Unknown,
            Field::Object(_, fields) => Object { fields, ..*self }.is_unknown(),
        })
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        for field in self.fields {
            match field {
                Field::Cell(name, place) => {
                    let head = self.heads[*place];
                    let value = &self.values[*place];
                    let cell = &value.cell;
                    let kind = &head.kind;
                    let origin = self.origin;
                    object.serialize_entry(name, &InKind { cell, kind, origin })?;
                    if head.bounded {
                        object.serialize_entry(&format!("{name}_bound"), &value.bound.word())?;
                    }
                }
                Field::Object(name, fields) => {
                    let inner = Object { fields, ..*self };
                    object.serialize_entry(name, &Some(&inner).filter(|all| !all.is_unknown()))?;
                }
            }
        }
        object.end()
    }
}

/// A cell with what it means.
struct InKind<'c> {
    cell: &'c Cell<'c>,
    kind: &'c Kind,
    origin: Nanos,
}

impl Serialize for InKind<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let origin = self.origin;
        match (self.cell, self.kind) {
            (Cell::Unknown, _) => serializer.serialize_none(),
            (Cell::Whole(at), Kind::Point) => serializer.serialize_u64(at.saturating_sub(origin.0)),
            (Cell::Whole(number), _) => serializer.serialize_u64(*number),
            (Cell::Signed(number), _) => serializer.serialize_i64(*number),
            (Cell::Real(number), _) => serializer.serialize_f64(*number),
            (Cell::Flag(flag), _) => serializer.serialize_bool(*flag),
            (Cell::Text(text), _) => serializer.serialize_str(text),
            (Cell::List(rows), Kind::Rows(heads)) => {
                let heads: Vec<&Head> = heads.iter().collect();
                let fields = fields(&names(heads.iter().copied()));
                let mut list = serializer.serialize_seq(Some(rows.len()))?;
                for row in rows {
                    let Cell::List(cells) = row else { continue };
                    let value = |cell: &Cell<'_>| Value {
                        cell: cell.clone().into_owned(),
                        bound: Bound::Exact,
                    };
                    let values: Vec<Value<'_>> = cells.iter().map(value).collect();
                    let fields = &fields[..];
                    let values = &values[..];
                    list.serialize_element(&Object { fields, heads: &heads, values, origin })?;
                }
                list.end()
            }
            (Cell::List(cells), Kind::List(kind, _)) => {
                serializer.collect_seq(cells.iter().map(|cell| InKind { cell, kind, origin }))
            }
            (Cell::List(_), _) => serializer.serialize_none(),
        }
    }
}
