//! Reads a source ahead on a background thread, so that decoding overlaps with the caller's work.
//!
//! The events are the same, in the same batches, and so are the arguments of tracepoints: bodies travel along, and are
//! spelt where somebody asks. Memory: [`READY`] batches beside the source's own.

use crate::argument_text::{EventBodies, Spelling};
use schedlab_model::{Event, EventSource, TraceInfo, Warning};
use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Batches that are kept ready.
const READY: usize = 16;

/// A source that one thread can read for another.
pub(crate) trait Portable: EventSource + Send + 'static {
    /// How arguments are spelt, if anybody asks; it does not change.
    fn spelling(&self) -> Option<Arc<Spelling>>;

    /// Bodies of the last batch's events.
    fn bodies(&mut self) -> &mut EventBodies;

    /// What is known of the trace. The source needs none of it to go on, and holds what it learns from then on.
    fn info_mut(&mut self) -> &mut TraceInfo;
}

/// Takes what a source knows: two copies of it could take more memory than the file is worth.
fn take_info(source: &mut impl Portable) -> TraceInfo {
    let info = source.info();
    let empty = TraceInfo::new(info.format.clone(), info.clock.clone());
    std::mem::replace(source.info_mut(), empty)
}

/// What a source gives at once.
#[derive(Default)]
struct Batch {
    events: Vec<Event>,
    bodies: EventBodies,
}

/// A source whose events come from another thread.
pub(crate) struct Ahead {
    info: TraceInfo,
    warnings: Vec<Warning>,
    spelling: Option<Arc<Spelling>>,
    /// Why functions have no names.
    notes: Vec<Warning>,
    bodies: EventBodies,
    /// `None` once the source has ended.
    line: Option<Line>,
}

/// `source`, read ahead; its info must be complete but for names. Where no further thread can be started
/// it is read by its caller.
pub(crate) fn ahead(mut source: impl Portable) -> Box<dyn EventSource> {
    let spelling = source.spelling();
    let bodies = EventBodies::default();
    let (sender, full) = sync_channel(READY);
    let (empty, emptied) = channel();
    // The thread is given the source once it is there: one that is not started would take it along.
    let (give, given) = channel();
    let life = move || given.recv().ok().map(|source| read(source, &sender, &emptied));
    match std::thread::Builder::new().name("ahead".to_owned()).spawn(life) {
        Ok(thread) => {
            let info = take_info(&mut source);
            let warnings = source.warnings().to_vec();
            match give.send(source) {
                Ok(()) => {
                    let line = Some(Line { full, empty, thread });
                    let notes = Vec::new();
                    Box::new(Ahead { info, warnings, spelling, notes, bodies, line })
                }
                Err(mut unsent) => {
                    *unsent.0.info_mut() = info;
                    Box::new(unsent.0)
                }
            }
        }
        Err(_) => Box::new(source),
    }
}

/// What joins the two threads.
struct Line {
    full: Receiver<io::Result<Batch>>,
    /// Batches that were read, to be filled again.
    empty: Sender<Batch>,
    thread: JoinHandle<Option<(TraceInfo, Vec<Warning>)>>,
}

/// Reads until the source ends, or until nobody listens. What it learnt on the way.
fn read(
    mut source: impl Portable,
    full: &SyncSender<io::Result<Batch>>,
    empty: &Receiver<Batch>,
) -> (TraceInfo, Vec<Warning>) {
    loop {
        let mut batch = empty.try_recv().unwrap_or_default();
        let (message, more) = match source.next(&mut batch.events) {
            Ok(false) => break,
            Ok(true) => {
                std::mem::swap(&mut batch.bodies, source.bodies());
                (Ok(batch), true)
            }
            Err(error) => (Err(error), false),
        };
        if full.send(message).is_err() || !more {
            break;
        }
    }
    (take_info(&mut source), source.warnings().to_vec())
}

impl Ahead {
    /// Takes note of why functions have no names. All that was handed out before has been spelt.
    fn note(&mut self, ended: bool) {
        let notes = self.spelling.as_ref().map(|spelling| spelling.notes(ended));
        let notes = notes.unwrap_or_default();
        self.warnings.extend_from_slice(&notes);
        self.notes.extend(notes);
    }
}

impl EventSource for Ahead {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        batch.clear();
        self.note(false);
        let Some(line) = &self.line else { return Ok(false) };
        if let Ok(message) = line.full.recv() {
            let mut read = message?;
            std::mem::swap(batch, &mut read.events);
            std::mem::swap(&mut self.bodies, &mut read.bodies);
            // A thread that has ended needs no batch.
            let _ = line.empty.send(read);
            return Ok(true);
        }
        if let Some(Line { thread, .. }) = self.line.take() {
            let known = thread.join().map_err(|_| io::Error::other("a reading thread panicked"))?;
            if let Some((learnt, warnings)) = known {
                self.info.comms.extend(learnt.comms);
                if let Some(processes) = learnt.processes {
                    self.info.processes.get_or_insert_default().extend(processes);
                }
                self.warnings = warnings;
                self.warnings.append(&mut self.notes);
                self.note(true);
            }
        }
        Ok(false)
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        Some(self.spelling.as_ref()?.text(self.bodies.get(index)?).into())
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
