//! Events that a mark selects by their arguments (`irq_handler_entry:irq=42`).
//!
//! Changes of the timeline hold no arguments, so selected events are distinguished before: behind each event
//! that a mark selects comes another at the same instant, of a tracepoint that only this mark knows.

use crate::marks::{EventMark, format};
use schedlab_model::{Event, EventSource, TraceInfo, Warning, What};
use std::borrow::Cow;
use std::io;

/// A source with the events that marks choose by their arguments.
pub struct Chosen<'a> {
    source: &'a mut dyn EventSource,
    marks: Vec<EventMark>,
    read: Vec<Event>,
    /// For each event of the last batch, its place in what was read.
    places: Vec<usize>,
}

impl<'a> Chosen<'a> {
    /// Chooses from `source`, which must tell arguments; `marks` in the order in which the question has them.
    pub fn new(source: &'a mut dyn EventSource, marks: Vec<EventMark>) -> Self {
        Self { source, marks, read: Vec::new(), places: Vec::new() }
    }
}

impl Chosen<'_> {
    /// Whether events go through as they come: no mark asks for what they say.
    fn passes(&self) -> bool {
        !self.marks.iter().any(EventMark::has_fields)
    }
}

impl EventSource for Chosen<'_> {
    fn info(&self) -> &TraceInfo {
        self.source.info()
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        if self.passes() {
            return self.source.next(batch);
        }
        batch.clear();
        self.places.clear();
        let more = self.source.next(&mut self.read)?;
        for (index, event) in self.read.iter().enumerate() {
            batch.push(*event);
            self.places.push(index);
            let What::Other { format: of } = event.what else { continue };
            let Some(other) = self.source.info().others.get(usize::from(of)) else { continue };
            for (place, mark) in self.marks.iter().enumerate() {
                if mark.has_fields()
                    && mark.names(other)
                    && mark.holds(&self.source.arguments(index).unwrap_or_default())
                {
                    batch.push(Event { what: What::Other { format: format(place) }, ..*event });
                    self.places.push(index);
                }
            }
        }
        Ok(more)
    }

    fn warnings(&self) -> &[Warning] {
        self.source.warnings()
    }

    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        let place = if self.passes() { index } else { *self.places.get(index)? };
        self.source.arguments(place)
    }
}
