//! Tables of Python's lists: what the command prints becomes columns too.

use crate::columns::{Head, plain, table};
use crate::declared::named;
use crate::table::{Table, refused};
use crate::values::Values as Growing;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array};
use arrow_schema::ArrowError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use schedlab_model::table::Kind;
use std::sync::Arc;

/// A column on its way: its name and its values, all of one kind; `None` is absent.
#[derive(FromPyObject)]
enum Values {
    Flags(Vec<Option<bool>>),
    Numbers(Vec<Option<i64>>),
    Reals(Vec<Option<f64>>),
    Texts(Vec<Option<String>>),
}

/// A table of columns: pairs of a name and a list of bool, int, float or str, in which `None` is absent.
#[pyfunction]
pub(crate) fn table_of(columns: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Table> {
    let mut heads = Vec::new();
    let mut part = Vec::new();
    for (name, values) in columns {
        let values = values.extract().map_err(|_| {
            PyValueError::new_err(format!(
                "{name}: the values are not of one kind that a table has"
            ))
        })?;
        let (head, array) = column(name, values).map_err(refused)?;
        heads.push(head);
        part.push(array);
    }
    if part.windows(2).any(|two| two[0].len() != two[1].len()) {
        return Err(PyValueError::new_err("the columns differ in length"));
    }
    table(heads, vec![part]).map_err(refused)
}

fn column(name: String, values: Values) -> Result<(Head, ArrayRef), ArrowError> {
    Ok(match values {
        Values::Flags(values) => (plain(name), Arc::new(BooleanArray::from(values))),
        Values::Numbers(values) => (plain(name), Arc::new(Int64Array::from(values))),
        Values::Reals(values) => (plain(name), Arc::new(Float64Array::from(values))),
        Values::Texts(values) => {
            let mut words = Growing::words(&Kind::Text);
            values.iter().for_each(|text| words.put_text(text.as_deref()));
            let keys = words.finish()?;
            (named(name, None, words), keys)
        }
    })
}
