//! Events as a Parquet table: the columns of the CSV, typed.

use super::row::{COLUMNS, Row, context};
use crate::conversion_loss::arguments_left_out;
use crate::event_sink::{EventSink, TaskNames};
use crate::parquet_table::{Cell, ColumnKind, Table};
use schedlab_model::{Cpu, Event, Pid, TraceInfo, Warning, What};
use std::io;
use std::path::Path;

/// The kinds of [`COLUMNS`].
const KINDS: [ColumnKind; COLUMNS.len()] = {
    use ColumnKind::{Cpu, Number, Text, Time};
    [
        Time, Cpu, Text, Text, Number, Text, Number, Text, Number, Text, Cpu, Cpu, Number, Text,
        Number, Text, Text,
    ]
};

/// Writes events as rows of a Parquet table.
pub(super) struct Events {
    table: Table,
    others: u64,
    /// Of the next event.
    arguments: Option<String>,
}

impl Events {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let columns: Vec<_> = COLUMNS.into_iter().zip(KINDS).collect();
        Ok(Self { table: Table::create(path, "events", &columns)?, others: 0, arguments: None })
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
        let row = Row::of(event, info);
        let arguments = arguments.filter(|text| !text.is_empty()).or(row.arguments);
        let (next, next_prio) = row.next.unzip();
        let prio = |prio: Option<schedlab_model::Prio>| number(prio.map(|prio| prio.0.into()));
        let pid = |pid: Option<Pid>| number(pid.map(|pid| pid.0));
        let cpu = |cpu: Option<Cpu>| number(cpu.map(|cpu| cpu.0.into()));
        let comm = |pid: Option<Pid>| text(pid.map(|pid| names.get(pid)));
        self.table.row(&[
            Cell::Time(event.time.0),
            cpu(Some(event.cpu)),
            Cell::Text(event.what.kind().name()),
            Cell::Text(context(event.context)),
            pid(Some(event.by)),
            comm(Some(event.by)),
            pid(row.pid),
            comm(row.pid),
            prio(row.prio),
            text(row.state),
            cpu(row.from),
            cpu(row.to),
            pid(next),
            comm(next),
            prio(next_prio),
            text(row.name.as_deref()),
            text(arguments.as_deref()),
        ])
    }

    fn arguments(&mut self, text: &str) {
        self.arguments = Some(text.to_owned());
    }

    fn end(&mut self, _names: &TaskNames, _info: &TraceInfo) -> io::Result<()> {
        self.table.end()
    }

    fn dropped(&self) -> Vec<Warning> {
        arguments_left_out(self.others)
    }
}

fn number(value: Option<i32>) -> Cell<'static> {
    value.map_or(Cell::Absent, Cell::Number)
}

fn text(value: Option<&str>) -> Cell<'_> {
    value.map_or(Cell::Absent, Cell::Text)
}
