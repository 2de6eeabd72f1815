//! `schedlab._native`: traces as Arrow tables, and tables of what the command measured.
//!
//! A table leaves through the Arrow C stream interface (PyCapsule), so pandas, Polars, DuckDB and pyarrow take its
//! buffers as they are. Reading releases the interpreter's lock.

mod columns;
mod declared;
mod events;
mod intervals;
mod lists;
mod rows;
mod table;
mod trace;
mod values;
mod words;

use pyo3::prelude::*;

/// The module that Python imports.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<table::Table>()?;
    module.add_class::<trace::Trace>()?;
    module.add("TraceWarning", module.py().get_type::<trace::TraceWarning>())?;
    module.add_function(wrap_pyfunction!(trace::read, module)?)?;
    module.add_function(wrap_pyfunction!(lists::table_of, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
