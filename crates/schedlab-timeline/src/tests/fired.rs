//! Timelines as text with tracepoints that have arguments, for the tests of what reads them.

use crate::notation;
use schedlab_model::{
    Context, Cpu, Event, EventSource, Nanos, OtherFormat, Pid, TraceInfo, Warning, What,
};
use std::borrow::Cow;
use std::io;

/// A trace whose other tracepoints have arguments.
pub(crate) struct Source {
    info: TraceInfo,
    pub(crate) events: Vec<(Event, String)>,
    at: usize,
    batch: usize,
}

impl Source {
    /// What is known beside the events, to say more.
    pub(crate) fn info_mut(&mut self) -> &mut TraceInfo {
        &mut self.info
    }
}

impl EventSource for Source {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        // Few, so that tests meet the seams between batches.
        self.at += self.batch;
        let rest = self.events.get(self.at..).unwrap_or_default();
        batch.clear();
        batch.extend(rest.iter().take(5).map(|(event, _)| *event));
        self.batch = batch.len();
        Ok(self.batch > 0)
    }

    fn warnings(&self) -> &[Warning] {
        &[]
    }

    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        let (event, text) = &self.events[self.at + index];
        matches!(event.what, What::Other { .. }).then_some(Cow::Borrowed(text.as_str()))
    }
}

/// A tracepoint that fired: when in nanoseconds, on which CPU, who was current, name, arguments.
pub(crate) type Fired<'a> = (u64, u16, Pid, &'a str, &'a str);

/// A timeline as text with these tracepoints, each behind the scheduler's events of its time.
pub(crate) fn source(text: &str, fired: &[Fired<'_>]) -> Source {
    let trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut info = trace.info.clone();
    // The notation keeps the first for events of its own.
    info.others = vec![OtherFormat { system: String::new(), name: "heartbeat".into() }];
    let mut events: Vec<_> = trace.events.iter().map(|event| (*event, String::new())).collect();
    for (time, cpu, by, name, arguments) in fired {
        let known = info.others.iter().position(|other| other.name == *name);
        let format = known.unwrap_or_else(|| {
            info.others.push(OtherFormat { system: String::new(), name: (*name).to_owned() });
            info.others.len() - 1
        });
        let what = What::Other { format: format as u16 };
        let (cpu, context) = (Cpu(*cpu), Context::HardIrq);
        let event = Event { time: Nanos(*time), by: *by, cpu, context, what };
        events.push((event, (*arguments).to_owned()));
    }
    events.sort_by_key(|(event, _)| event.time);
    Source { info, events, at: 0, batch: 0 }
}
