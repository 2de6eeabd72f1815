//! Comma-separated values: a line for each event, the same columns for all.

use super::flush;
use super::row::{COLUMNS, Row, context};
use crate::conversion_loss::arguments_left_out;
use crate::event_sink::{EventSink, TaskNames};
use schedlab_model::{Event, TraceInfo, Warning, What, as_text, visible};
use std::fmt::Display;
use std::io::{self, Write};

/// Writes events as lines of CSV.
pub(super) struct Csv<W: Write> {
    out: W,
    /// Names are written as they are.
    raw: bool,
    others: u64,
    /// Of the next event.
    arguments: Option<String>,
}

impl<W: Write> Csv<W> {
    pub(super) fn new(out: W, raw: bool) -> Self {
        Self { out, raw, others: 0, arguments: None }
    }
}

impl<W: Write> EventSink for Csv<W> {
    fn begin(&mut self, _info: &TraceInfo) -> io::Result<()> {
        writeln!(self.out, "{}", COLUMNS.join(","))
    }

    fn event(&mut self, event: &Event, names: &TaskNames, info: &TraceInfo) -> io::Result<()> {
        let arguments = self.arguments.take();
        let other = matches!(event.what, What::Other { .. });
        self.others += u64::from(other && arguments.is_none());
        let row = Row::of(event, info);
        let arguments = arguments.filter(|text| !text.is_empty()).or(row.arguments);
        let cell = |text: &str| quoted(&if self.raw { text.into() } else { as_text(text) });
        let comm = |pid| cell(names.get(pid));
        let line = format!(
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            event.time.0,
            event.cpu,
            event.what.kind().name(),
            context(event.context),
            event.by,
            comm(event.by),
            text(row.pid),
            row.pid.map_or_else(String::new, comm),
            text(row.prio.map(|prio| prio.0)),
            text(row.state),
            text(row.from),
            text(row.to),
            text(row.next.map(|next| next.0)),
            row.next.map_or_else(String::new, |next| comm(next.0)),
            text(row.next.map(|next| next.1.0)),
            cell(row.name.as_deref().unwrap_or_default()),
            cell(arguments.as_deref().unwrap_or_default())
        );
        // Names may hold anything, also the end of a line.
        writeln!(self.out, "{}", visible(&line))
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

/// What is absent is empty.
fn text(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// A field as RFC 4180 wants it: in quotes where it holds a comma, a quote or a line's end.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
