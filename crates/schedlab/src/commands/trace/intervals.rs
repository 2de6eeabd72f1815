//! The intervals of a trace as a Parquet table, row by row as they end.
//!
//! Memory: the tasks and CPUs seen and one row group of the table, for any trace's length.

use schedlab_model::table::Row;
use schedlab_timeline::{Interval, Intervals};
use schedlab_trace::parquet_table::Table;
use schedlab_trace::{Converted, TraceError};
use std::path::Path;

/// Writes the intervals of the trace `from` to `part`.
pub(super) fn write(from: &Path, part: &Path) -> Result<Converted, TraceError> {
    let failed = |error| TraceError::io(part, &error);
    let mut source = schedlab_trace::open(from)?;
    let mut table = Table::create(part, "intervals", Interval::columns()).map_err(failed)?;
    let mut events = 0;
    let mut written = Ok(());
    let question = Intervals::new(|interval| {
        if written.is_ok() {
            written = table.row(&interval);
            events += 1;
        }
    });
    let reply = schedlab_timeline::ask(source.as_mut(), question.with_sleeps())
        .map_err(|error| TraceError::io(from, &error))?;
    written.and_then(|()| table.finish()).map_err(failed)?;
    Ok(Converted { events, untouched: false, warnings: reply.warnings })
}
