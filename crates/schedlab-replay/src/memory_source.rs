//! Events in memory as a source, for questions to a run that just ended.

use schedlab_model::{Event, EventSource, TraceInfo, Warning};
use std::io;

/// Events of a batch.
const BATCH: usize = 4_096;

/// A source of events that are in memory.
#[derive(Clone, Debug)]
pub struct Kept {
    info: TraceInfo,
    events: Vec<Event>,
    next: usize,
}

impl Kept {
    /// Events in order of time, with what is known besides them.
    #[must_use]
    pub const fn new(info: TraceInfo, events: Vec<Event>) -> Self {
        Self { info, events, next: 0 }
    }

    /// The events in order of time.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Begins again at the first event.
    pub const fn rewind(&mut self) {
        self.next = 0;
    }
}

impl EventSource for Kept {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        let end = (self.next + BATCH).min(self.events.len());
        batch.clear();
        batch.extend_from_slice(&self.events[self.next..end]);
        self.next = end;
        Ok(!batch.is_empty())
    }

    fn warnings(&self) -> &[Warning] {
        &[]
    }
}
