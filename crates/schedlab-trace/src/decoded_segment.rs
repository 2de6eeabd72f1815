//! Decoded events of one segment of a trace, decoded without knowing what came before the segment.
//!
//! The segment alone cannot tell which names are new. It keeps every candidate with its position; when the
//! segment's turn comes, the reader keeps those that changed a name ([`Names::apart`]) and drops the others.

use crate::merge::{Batch, Out, STEP_MAX, append};
use crate::names::Names;
use schedlab_model::{Event, EventSink, What};

/// Decoded events, and what may be changes of name between them.
#[derive(Default)]
pub(crate) struct DecodedSegment {
    events: Vec<Event>,
    /// Each with the index of the event before which it stands; ascending.
    names: Vec<(usize, Event)>,
}

impl DecodedSegment {
    /// Holds nothing any longer, but keeps its memory; there is room for `count` events at least.
    pub(crate) fn clear(&mut self, count: usize) {
        self.events.clear();
        self.names.clear();
        self.events.reserve(count.max(STEP_MAX));
    }

    /// How many events it holds, without names.
    pub(crate) fn count(&self) -> usize {
        self.events.len()
    }

    /// Keeps a name that may be news, at this place.
    pub(crate) fn name(&mut self, event: Event) {
        self.names.push((self.events.len(), event));
    }

    /// Makes room for twice as many.
    pub(crate) fn grow(&mut self) {
        self.events.reserve(self.events.capacity());
    }

    /// Hands all to `sink`: what `names` did not know among them.
    pub(crate) fn hand_to(&self, names: &mut Names, sink: &mut impl EventSink) {
        let mut from = 0;
        for (place, event) in &self.names {
            if is_news(names, event) {
                self.events[from..*place].iter().for_each(|event| sink.take(event));
                from = *place;
                sink.take(event);
            }
        }
        self.events[from..].iter().for_each(|event| sink.take(event));
    }

    /// Replaces `batch` by all, as [`Self::hand_to`] would hand them out; holds what `batch` held then.
    pub(crate) fn exchange(&mut self, names: &mut Names, batch: &mut Vec<Event>) {
        self.names.retain(|(_, event)| is_news(names, event));
        if !self.names.is_empty() {
            let mut all = Vec::with_capacity(self.events.len() + self.names.len());
            let mut from = 0;
            for (place, event) in &self.names {
                all.extend_from_slice(&self.events[from..*place]);
                from = *place;
                all.push(*event);
            }
            all.extend_from_slice(&self.events[from..]);
            self.events = all;
        }
        std::mem::swap(&mut self.events, batch);
    }
}

fn is_news(names: &mut Names, event: &Event) -> bool {
    matches!(event.what, What::Comm { pid, comm } if names.changed(pid, &comm))
}

impl Out for DecodedSegment {
    #[inline(always)]
    fn put(&mut self, event: Event) {
        if self.events.len() < self.events.capacity() {
            self.events.push(event);
        }
    }

    #[cold]
    #[inline(never)]
    fn aside(&mut self, put: impl FnOnce(&mut Batch<'_>)) {
        let start = self.events.len();
        append(&mut self.events, put);
        let mut kept = start;
        for index in start..self.events.len() {
            let event = self.events[index];
            if matches!(event.what, What::Comm { .. }) {
                self.names.push((kept, event));
            } else {
                self.events[kept] = event;
                kept += 1;
            }
        }
        self.events.truncate(kept);
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.events.capacity() - self.events.len() < STEP_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::FILLER;
    use crate::names::comm;
    use schedlab_model::{Cpu, Pid};

    #[test]
    fn names_are_told_where_they_stood_if_they_are_news() {
        let name = |pid, name: &[u8]| Event {
            what: What::Comm { pid: Pid(pid), comm: comm(name) },
            ..FILLER
        };
        let event = |cpu| Event { cpu: Cpu(cpu), ..FILLER };
        let mut segment = DecodedSegment::default();
        segment.clear(100);
        let told = [name(1, b"a"), name(2, b"b"), event(1)];
        segment.aside(|batch| told.into_iter().for_each(|event| batch.put(event)));
        segment.put(event(2));
        segment.aside(|batch| batch.put(name(1, b"")));
        segment.aside(|batch| batch.put(name(1, b"a")));
        segment.put(event(3));
        let known = || {
            let mut names = Names::default();
            names.changed(Pid(1), &comm(b"a"));
            names
        };
        let expected = [name(2, b"b"), event(1), event(2), name(1, b"a"), event(3)];
        let mut all = Vec::new();
        segment.hand_to(&mut known(), &mut all);
        assert_eq!(all, expected);
        let mut batch = vec![event(9)];
        segment.exchange(&mut known(), &mut batch);
        assert_eq!(batch, expected);
        assert_eq!(segment.events, [event(9)], "its memory comes back");
    }
}
