//! A finished table, and its way out.

use crate::rows::Rows;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

/// A table of Arrow columns. pandas, Polars, DuckDB and pyarrow take it as it is.
#[pyclass(module = "schedlab", frozen)]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// Of finished parts, which have this schema.
    pub(crate) const fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    /// The parts.
    pub(crate) fn parts(&self) -> &[RecordBatch] {
        &self.batches
    }
}

/// What Arrow refuses is a mistake of this library.
pub(crate) fn refused(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

#[pymethods]
impl Table {
    /// The Arrow C stream interface. A wish for another schema is left to who takes the stream, as the
    /// interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        // A batch is a list of references to its buffers: this copies no value.
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The Arrow C schema interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(refused)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The unit of each column that has one.
    #[getter]
    fn units<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let units = PyDict::new(py);
        for field in self.schema.fields() {
            if let Some(unit) = field.metadata().get("unit") {
                units.set_item(field.name(), unit)?;
            }
        }
        Ok(units)
    }

    /// A pandas data frame; the names of tasks and reasons are categories.
    fn to_pandas<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("pandas")?.getattr("DataFrame")?.call_method1("from_arrow", (this,))
    }

    /// The rows, each a dictionary; what takes no Arrow takes these.
    fn __iter__(this: Py<Self>) -> Rows {
        Rows::of(this)
    }

    /// Bytes of all buffers.
    #[getter]
    fn nbytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    /// How many rows there are.
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __repr__(&self) -> String {
        let columns = self.columns().join(", ");
        let rows = self.__len__();
        format!("<schedlab.Table of {rows} row{}: {columns}>", if rows == 1 { "" } else { "s" })
    }
}
