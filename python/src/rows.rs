//! A table row by row, for what takes no Arrow: `pandas.DataFrame(table)`, a loop.

use crate::table::Table;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt16Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

/// The rows of a table that are still to come.
#[pyclass(module = "schedlab")]
pub(crate) struct Rows {
    table: Py<Table>,
    part: usize,
    row: usize,
}

impl Rows {
    /// All rows of a table.
    pub(crate) const fn of(table: Py<Table>) -> Self {
        Self { table, part: 0, row: 0 }
    }
}

#[pymethods]
impl Rows {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let parts = self.table.get().parts();
        while parts.get(self.part).is_some_and(|part| self.row == part.num_rows()) {
            (self.part, self.row) = (self.part + 1, 0);
        }
        let Some(part) = parts.get(self.part) else { return Ok(None) };
        self.row += 1;
        dictionary(py, part, self.row - 1).map(Some)
    }
}

fn dictionary<'py>(
    py: Python<'py>,
    part: &RecordBatch,
    row: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (field, column) in part.schema_ref().fields().iter().zip(part.columns()) {
        all.set_item(field.name(), value(py, column, row)?)?;
    }
    Ok(all)
}

/// A cell; `None` where there is nothing.
fn value<'py>(py: Python<'py>, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if array.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    Ok(match array.data_type() {
        DataType::Int32 => {
            array.as_primitive::<Int32Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::Int64 => {
            array.as_primitive::<Int64Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::UInt16 => {
            array.as_primitive::<UInt16Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::Float64 => {
            array.as_primitive::<Float64Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::Boolean => array.as_boolean().value(row).into_pyobject(py)?.to_owned().into_any(),
        DataType::Utf8 => PyString::new(py, array.as_string::<i32>().value(row)).into_any(),
        DataType::Dictionary(..) => {
            let words = array.as_any_dictionary();
            let word = words.keys().as_primitive::<Int32Type>().value(row);
            return value(py, words.values(), usize::try_from(word).unwrap_or(0));
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            let items: PyResult<Vec<_>> =
                (0..items.len()).map(|at| value(py, &items, at)).collect();
            PyList::new(py, items?)?.into_any()
        }
        DataType::Struct(fields) => {
            let record = PyDict::new(py);
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                record.set_item(field.name(), value(py, column, row)?)?;
            }
            record.into_any()
        }
        other => return Err(PyRuntimeError::new_err(format!("no table has {other}"))),
    })
}
