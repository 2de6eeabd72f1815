//! Finished columns and their names, which become a table.

use crate::table::Table;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use std::collections::HashMap;
use std::sync::Arc;

/// Rows of a part of a table: few parts, and none is copied as the table grows.
pub(crate) const PART: usize = 1 << 18;

/// What a column is made of.
pub(crate) enum Column {
    /// The values themselves.
    Plain,
    /// Numbers of words: the words are known at the end.
    Words(Vec<String>),
}

/// A column with its name, and its unit where it has one.
pub(crate) struct Head {
    pub(crate) name: String,
    pub(crate) unit: Option<&'static str>,
    pub(crate) column: Column,
}

/// A column of values.
pub(crate) fn plain(name: impl Into<String>) -> Head {
    Head { name: name.into(), unit: None, column: Column::Plain }
}

/// Makes a table of its parts: each has an array for each head.
pub(crate) fn table(heads: Vec<Head>, parts: Vec<Vec<ArrayRef>>) -> Result<Table, ArrowError> {
    let words: Vec<Option<ArrayRef>> = heads
        .iter()
        .map(|head| match &head.column {
            Column::Plain => None,
            Column::Words(words) => {
                Some(Arc::new(StringArray::from_iter_values(words)) as ArrayRef)
            }
        })
        .collect();
    let parts: Vec<Vec<ArrayRef>> = parts
        .into_iter()
        .map(|part| {
            part.into_iter().zip(&words).map(|(array, words)| spelt(array, words)).collect()
        })
        .collect::<Result<_, _>>()?;
    let fields: Vec<Field> = heads
        .iter()
        .enumerate()
        .map(|(index, head)| {
            let kind = parts.first().map_or(DataType::Null, |part| part[index].data_type().clone());
            let field = Field::new(&head.name, kind, true);
            match head.unit {
                Some(unit) => {
                    field.with_metadata(HashMap::from([("unit".to_owned(), unit.to_owned())]))
                }
                None => field,
            }
        })
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let batches = parts
        .into_iter()
        .map(|part| RecordBatch::try_new(Arc::clone(&schema), part))
        .collect::<Result<_, _>>()?;
    Ok(Table::new(schema, batches))
}

/// Numbers of words become words, which all parts share.
fn spelt(array: ArrayRef, words: &Option<ArrayRef>) -> Result<ArrayRef, ArrowError> {
    let Some(words) = words else { return Ok(array) };
    let keys = array.as_any().downcast_ref::<Int32Array>();
    let keys = keys.ok_or_else(|| ArrowError::SchemaError("words have numbers".into()))?;
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys.clone(), Arc::clone(words))?))
}
