//! Events in memory as a source, for questions to a run that just ended.

use schedlab_model::{Event, EventSource, TraceInfo, Warning, What};
use std::borrow::Cow;
use std::io;

const BATCH: usize = 4_096;

#[derive(Clone, Debug)]
pub struct MemorySource {
    info: TraceInfo,
    events: Vec<Event>,
    next: usize,
    /// The first event of the last batch.
    first: usize,
    /// The arguments of tracepoints beyond the scheduler's, by the event.
    arguments: Vec<(usize, String)>,
}

impl MemorySource {
    /// Events in order of time, with what is known besides them.
    #[must_use]
    pub const fn new(info: TraceInfo, events: Vec<Event>) -> Self {
        Self { info, events, next: 0, first: 0, arguments: Vec::new() }
    }

    /// The same with the arguments of the tracepoints beyond the scheduler's, in the order of their events.
    #[must_use]
    pub fn with_arguments(mut self, arguments: Vec<String>) -> Self {
        let others = self.events.iter().enumerate();
        let others = others.filter(|(_, event)| matches!(event.what, What::Other { .. }));
        self.arguments = others.map(|(at, _)| at).zip(arguments).collect();
        self
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

impl EventSource for MemorySource {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        let end = (self.next + BATCH).min(self.events.len());
        batch.clear();
        batch.extend_from_slice(&self.events[self.next..end]);
        self.first = self.next;
        self.next = end;
        Ok(!batch.is_empty())
    }

    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        let at = self.first + index;
        let found = self.arguments.binary_search_by_key(&at, |(event, _)| *event).ok()?;
        Some(Cow::Borrowed(self.arguments[found].1.as_str()))
    }

    fn warnings(&self) -> &[Warning] {
        &[]
    }
}
