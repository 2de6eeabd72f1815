//! Comma-separated values: a line for each event, the same columns for all.

use super::flush;
use super::row::EventRow;
use crate::conversion_loss::arguments_left_out;
use crate::event_sink::EventSink;
use crate::task_names::TaskNames;
use schedlab_model::table::{self, Column, Row};
use schedlab_model::{Event, TraceInfo, Warning, What, visible};
use std::io::{self, Write};

/// Writes events as lines of CSV.
pub(super) struct Csv<W: Write> {
    out: W,
    columns: Vec<Column<EventRow>>,
    /// Names are written as they are.
    raw: bool,
    others: u64,
    /// Of the next event.
    arguments: Option<String>,
    /// The line at hand; its memory is used again.
    line: String,
}

impl<W: Write> Csv<W> {
    pub(super) fn new(out: W, raw: bool) -> Self {
        Self {
            out,
            columns: EventRow::columns(),
            raw,
            others: 0,
            arguments: None,
            line: String::new(),
        }
    }
}

impl<W: Write> EventSink for Csv<W> {
    fn begin(&mut self, _info: &TraceInfo) -> io::Result<()> {
        self.out.write_all(table::Csv::new(&self.columns, self.raw).head().as_bytes())
    }

    fn event(&mut self, event: &Event, names: &TaskNames, info: &TraceInfo) -> io::Result<()> {
        let arguments = self.arguments.take();
        let other = matches!(event.what, What::Other { .. });
        self.others += u64::from(other && arguments.is_none());
        let row = EventRow::of(event, names, info, arguments);
        self.line.clear();
        table::Csv::new(&self.columns, self.raw).line(&row, &mut self.line);
        // Names may hold anything, also the end of a line.
        self.out.write_all(visible(self.line.trim_end_matches('\n')).as_bytes())?;
        self.out.write_all(b"\n")
    }

    fn arguments(&mut self, text: &str) {
        self.arguments = Some(text.to_owned());
    }

    fn end(&mut self, _names: &TaskNames, _info: &TraceInfo) -> io::Result<()> {
        flush(&mut self.out)
    }

    fn dropped(&self) -> Vec<Warning> {
        arguments_left_out(self.others)
    }
}
