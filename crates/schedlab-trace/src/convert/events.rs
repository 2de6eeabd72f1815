//! Events as a Parquet table: the columns of the CSV, typed.

use super::row::EventRow;
use crate::conversion_loss::arguments_left_out;
use crate::event_sink::EventSink;
use crate::parquet_table::Table;
use crate::task_names::TaskNames;
use schedlab_model::table::Row;
use schedlab_model::{Event, TraceInfo, Warning, What};
use std::io;
use std::path::Path;

/// Writes events as rows of a Parquet table.
pub(super) struct Events {
    table: Table<EventRow>,
    others: u64,
    /// Of the next event.
    arguments: Option<String>,
}

impl Events {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let table = Table::create(path, "events", EventRow::columns())?;
        Ok(Self { table, others: 0, arguments: None })
    }
}

impl EventSink for Events {
    fn begin(&mut self, _info: &TraceInfo) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, event: &Event, names: &TaskNames, info: &TraceInfo) -> io::Result<()> {
        let arguments = self.arguments.take();
        let other = matches!(event.what, What::Other { .. });
        self.others += u64::from(other && arguments.is_none());
        self.table.row(&EventRow::of(event, names, info, arguments))
    }

    fn arguments(&mut self, text: &str) {
        self.arguments = Some(text.to_owned());
    }

    fn end(&mut self, _names: &TaskNames, _info: &TraceInfo) -> io::Result<()> {
        self.table.finish()
    }

    fn dropped(&self) -> Vec<Warning> {
        arguments_left_out(self.others)
    }
}
