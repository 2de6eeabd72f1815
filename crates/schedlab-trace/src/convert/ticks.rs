//! Ticks of a counter become nanoseconds, by a rate that the user tells.

use schedlab_model::{Clock, Event, EventSource, Nanos, Span, TraceInfo, Warning};
use std::borrow::Cow;
use std::io;
use std::num::NonZeroU64;

/// A source whose times are nanoseconds, where those of the one inside are ticks.
pub(super) struct Timed {
    source: Box<dyn EventSource>,
    info: TraceInfo,
    hz: NonZeroU64,
}

impl Timed {
    /// `None` if the source counts nanoseconds already.
    pub(super) fn new(source: Box<dyn EventSource>, hz: NonZeroU64) -> Option<Self> {
        let info = in_nanoseconds(source.info(), hz)?;
        Some(Self { source, info, hz })
    }
}

/// What the source says, in nanoseconds.
fn in_nanoseconds(info: &TraceInfo, hz: NonZeroU64) -> Option<TraceInfo> {
    let Clock::Ticks(name) = &info.clock else { return None };
    let mut info = TraceInfo { clock: Clock::Nanoseconds(name.clone()), ..info.clone() };
    info.span = info.span.map(|span| Span::new(time(span.start, hz), time(span.end, hz)));
    Some(info)
}

fn time(ticks: Nanos, hz: NonZeroU64) -> Nanos {
    let ns = u128::from(ticks.0) * 1_000_000_000 / u128::from(hz.get());
    Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

impl EventSource for Timed {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        let more = self.source.next(batch)?;
        batch.iter_mut().for_each(|event| event.time = time(event.time, self.hz));
        let now = self.source.info();
        // Texts learn names and CPUs on the way.
        if !more
            || (now.others.len(), now.marks.len())
                != (self.info.others.len(), self.info.marks.len())
        {
            self.info = in_nanoseconds(now, self.hz).unwrap_or_else(|| self.info.clone());
        }
        Ok(more)
    }

    fn warnings(&self) -> &[Warning] {
        self.source.warnings()
    }

    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        self.source.arguments(index)
    }
}
