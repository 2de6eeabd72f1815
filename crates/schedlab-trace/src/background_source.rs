//! Reads a source ahead on a background thread, so that decoding overlaps with the caller's work.
//!
//! The events are the same, in the same batches. Memory: [`READY`] batches beside the source's own.

use schedlab_model::{Event, EventSource, TraceInfo, Warning};
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Batches that are kept ready.
const READY: usize = 16;

/// A source whose events come from another thread.
pub(crate) struct Ahead {
    info: TraceInfo,
    warnings: Vec<Warning>,
    /// `None` once the source has ended.
    line: Option<Line>,
}

/// `source`, read ahead; its info must be complete but for names. Where no further thread can be started
/// it is read by its caller.
pub(crate) fn ahead(source: impl EventSource + Send + 'static) -> Box<dyn EventSource> {
    let (info, warnings) = (source.info().clone(), source.warnings().to_vec());
    let (sender, full) = sync_channel(READY);
    let (empty, emptied) = channel();
    // The thread is given the source once it is there: one that is not started would take it along.
    let (give, given) = channel();
    let life = move || given.recv().ok().map(|source| read(source, &sender, &emptied));
    match std::thread::Builder::new().name("ahead".to_owned()).spawn(life) {
        Ok(thread) => match give.send(source) {
            Ok(()) => Box::new(Ahead { info, warnings, line: Some(Line { full, empty, thread }) }),
            Err(unsent) => Box::new(unsent.0),
        },
        Err(_) => Box::new(source),
    }
}

/// What joins the two threads.
struct Line {
    full: Receiver<io::Result<Vec<Event>>>,
    /// Batches that were read, to be filled again.
    empty: Sender<Vec<Event>>,
    thread: JoinHandle<Option<(TraceInfo, Vec<Warning>)>>,
}

/// Reads until the source ends, or until nobody listens. What is known of the source then.
fn read(
    mut source: impl EventSource,
    full: &SyncSender<io::Result<Vec<Event>>>,
    empty: &Receiver<Vec<Event>>,
) -> (TraceInfo, Vec<Warning>) {
    loop {
        let mut batch = empty.try_recv().unwrap_or_default();
        let (message, more) = match source.next(&mut batch) {
            Ok(false) => break,
            Ok(true) => (Ok(batch), true),
            Err(error) => (Err(error), false),
        };
        if full.send(message).is_err() || !more {
            break;
        }
    }
    (source.info().clone(), source.warnings().to_vec())
}

impl EventSource for Ahead {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        batch.clear();
        let Some(line) = &self.line else { return Ok(false) };
        if let Ok(message) = line.full.recv() {
            let read = std::mem::replace(batch, message?);
            // A thread that has ended needs no batch.
            let _ = line.empty.send(read);
            return Ok(true);
        }
        if let Some(Line { thread, .. }) = self.line.take() {
            let known = thread.join().map_err(|_| io::Error::other("a reading thread panicked"))?;
            if let Some(known) = known {
                (self.info, self.warnings) = known;
            }
        }
        Ok(false)
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some(Line { full, thread, .. }) = self.line.take() {
            drop(full);
            let _ = thread.join();
        }
    }
}
