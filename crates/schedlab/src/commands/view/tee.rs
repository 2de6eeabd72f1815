//! A source for two passes at a time: one reads it, the other one, in a thread of its own, gets copies of the batches.

use schedlab_model::{Coverage, Event, EventSource, TraceInfo, Warning};
use std::borrow::Cow;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Batches that the reader may be ahead of the other thread.
const AHEAD: usize = 8;

/// The next events; and what is known besides, where that changed.
type Copied = (Vec<Event>, Option<TraceInfo>);

/// Reads a source for itself and for a [`TeeCopy`]. When it is dropped, that one has ended.
pub(super) struct Tee<'a> {
    source: &'a mut dyn EventSource,
    other: SyncSender<Copied>,
    told: Learnt,
}

/// What a source learns on the way: what it left out, and how many tracepoints and marks there are.
type Learnt = (Coverage, usize, usize);

fn learnt(info: &TraceInfo) -> Learnt {
    (info.coverage, info.others.len(), info.marks.len())
}

/// What a [`Tee`] has read, without arguments and warnings. Waits until there is something, or the tee is dropped.
#[derive(Debug)]
pub(super) struct TeeCopy {
    info: TraceInfo,
    from: Receiver<Copied>,
}

/// Divides a source that two questions are asked about: each gets the reply that it would get alone. The tee waits when it
/// is 8 batches ahead of the copy, and goes on alone when the copy is dropped.
pub(super) fn tee(source: &mut dyn EventSource) -> (Tee<'_>, TeeCopy) {
    let (other, from) = sync_channel(AHEAD);
    let info = source.info().clone();
    (Tee { source, other, told: learnt(&info) }, TeeCopy { info, from })
}

impl EventSource for Tee<'_> {
    fn info(&self) -> &TraceInfo {
        self.source.info()
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        let more = self.source.next(batch)?;
        let now = learnt(self.source.info());
        let is_news = std::mem::replace(&mut self.told, now) != now;
        let news = is_news.then(|| self.source.info().clone());
        // An error: the copy was dropped.
        let _ = self.other.send((batch.clone(), news));
        Ok(more)
    }

    fn warnings(&self) -> &[Warning] {
        self.source.warnings()
    }

    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        self.source.arguments(index)
    }
}

impl EventSource for TeeCopy {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        batch.clear();
        // The reader has ended, or stopped.
        let Ok((events, news)) = self.from.recv() else { return Ok(false) };
        if let Some(info) = news {
            self.info = info;
        }
        *batch = events;
        Ok(true)
    }

    fn warnings(&self) -> &[Warning] {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use super::tee;
    use schedlab_model::Nanos;
    use schedlab_timeline::{Cpus, Cut, Latency, ask_within, notation};

    #[test]
    fn both_get_what_each_gets_alone() {
        let columns = |row: &str| row.repeat(5_000);
        let rows = [("0", "AABBAACC"), (" ", " b a c a"), ("1", "DD..DEED")];
        let rows = rows.map(|(cpu, row)| format!("{cpu} | {}", columns(row)));
        let trace = notation::parse(&rows.join("\n")).unwrap();
        let part = Cut { from: Some(Nanos(9_000_000)), to: Some(Nanos(30_000_000)) };
        for cut in [Cut::default(), part] {
            let mut source = trace.source();
            let (mut tee, mut copy) = tee(&mut source);
            let (latency, cpus) = std::thread::scope(|scope| {
                let other = move || ask_within(&mut copy, cut, Cpus::new()).unwrap().answer;
                let other = std::thread::Builder::new().spawn_scoped(scope, other).unwrap();
                let reply = ask_within(&mut tee, cut, Latency::new()).unwrap().answer;
                drop(tee);
                (reply, other.join().unwrap())
            });
            let alone = ask_within(&mut trace.source(), cut, Latency::new()).unwrap().answer;
            assert!(!latency.tasks.is_empty());
            assert_eq!(format!("{latency:?}"), format!("{alone:?}"));
            let alone = ask_within(&mut trace.source(), cut, Cpus::new()).unwrap().answer;
            assert_eq!(format!("{cpus:?}"), format!("{alone:?}"));
        }
    }
}
