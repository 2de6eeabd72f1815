//! The events of a trace as columns: those that `schedlab trace convert` writes as CSV.

use crate::declared::Growing;
use crate::table::Table;
use arrow_schema::ArrowError;
use schedlab_model::{Event, Nanos, Span, TraceInfo, What};
use schedlab_trace::{EventRow, TaskNames};

/// The column that is there on request.
const ARGUMENTS: &str = "arguments";

/// Takes events in.
pub(crate) struct Events {
    names: TaskNames,
    /// Events outside are left out; their names of tasks hold all the same.
    window: Span,
    rows: Growing<EventRow>,
}

impl Events {
    /// Of a trace of which this is known.
    pub(crate) fn new(info: &TraceInfo, window: Span, has_arguments: bool) -> Self {
        let without: &[&str] = if has_arguments { &[] } else { &[ARGUMENTS] };
        let rows = Growing::without(without, ARGUMENTS);
        Self { names: TaskNames::new(&info.comms), window, rows }
    }

    /// Whether no event behind this time is wanted.
    pub(crate) fn is_over(&self, at: Nanos) -> bool {
        at >= self.window.end
    }

    /// Takes an event with the arguments that its source tells.
    #[inline]
    pub(crate) fn put(
        &mut self,
        event: &Event,
        info: &TraceInfo,
        arguments: Option<String>,
    ) -> Result<(), ArrowError> {
        if let What::Comm { pid, comm } = event.what {
            self.names.put(pid, comm);
        }
        if event.time < self.window.start || event.time >= self.window.end {
            return Ok(());
        }
        self.rows.put(EventRow::of(event, &self.names, info, arguments))
    }

    /// The table of all events.
    pub(crate) fn table(self) -> Result<Table, ArrowError> {
        self.rows.table()
    }
}
