//! What a writer of events implements, format by format.

use crate::task_names::TaskNames;
use schedlab_model::{Event, TraceInfo, Warning};
use std::io;

/// Something that events are written to.
pub(crate) trait EventSink {
    /// Before the first event.
    fn begin(&mut self, info: &TraceInfo) -> io::Result<()>;
    /// One event; `names` are the tasks' as of now.
    fn event(&mut self, event: &Event, names: &TaskNames, info: &TraceInfo) -> io::Result<()>;
    /// The arguments of the tracepoint beyond the scheduler's that comes next, where the source tells them.
    fn arguments(&mut self, text: &str);
    /// After the last event.
    fn end(&mut self, names: &TaskNames, info: &TraceInfo) -> io::Result<()>;
    /// What was met and cannot be held, as sentences.
    fn dropped(&self) -> Vec<Warning>;
}
