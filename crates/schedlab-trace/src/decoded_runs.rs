//! Merges lanes that deliver runs of decoded events, for formats that decode in bundles only.

use crate::merge::{ENDED, Lanes, Merge, Out};
use crate::names::Names;
use schedlab_model::{Event, What};
use std::io;

/// Where lanes get their events from.
pub(crate) trait Refill {
    /// Appends the next events of `lane`, ascending in time; `false` when there are no more.
    fn refill(&mut self, lane: usize, out: &mut Vec<Event>) -> io::Result<bool>;
}

/// A merge of runs: one for each lane is in memory.
pub(crate) struct Runs {
    merge: Merge,
    lanes: Vec<Run>,
    names: Names,
}

#[derive(Default)]
struct Run {
    events: Vec<Event>,
    at: usize,
}

impl Runs {
    pub(crate) fn new(lanes: usize) -> Self {
        let lanes = (0..lanes).map(|_| Run::default()).collect();
        Self { merge: Merge::default(), lanes, names: Names::default() }
    }

    /// Replaces `batch` by about `limit` events; `false` when none are left.
    pub(crate) fn next(
        &mut self,
        source: &mut impl Refill,
        batch: &mut Vec<Event>,
        limit: usize,
    ) -> io::Result<bool> {
        let mut lanes = Refilled { source, lanes: &mut self.lanes, names: &mut self.names };
        self.merge.next(&mut lanes, batch, limit)
    }
}

struct Refilled<'a, R> {
    source: &'a mut R,
    lanes: &'a mut [Run],
    names: &'a mut Names,
}

impl<R: Refill> Lanes for Refilled<'_, R> {
    fn count(&self) -> usize {
        self.lanes.len()
    }

    fn next(&mut self, lane: usize) -> io::Result<u64> {
        let run = &mut self.lanes[lane];
        while run.at == run.events.len() {
            run.events.clear();
            run.at = 0;
            if !self.source.refill(lane, &mut run.events)? {
                return Ok(ENDED);
            }
        }
        Ok(run.time().unwrap_or(ENDED))
    }

    fn time(&self, lane: usize) -> u64 {
        self.lanes[lane].time().unwrap_or(ENDED)
    }

    #[inline]
    fn put(&mut self, lane: usize, out: &mut impl Out) -> Option<u64> {
        let run = &mut self.lanes[lane];
        let event = *run.events.get(run.at)?;
        run.at += 1;
        // Lanes are read ahead in turns, so the same news can come from several.
        let news = match event.what {
            What::Comm { pid, comm } => self.names.changed(pid, &comm),
            _ => true,
        };
        if news {
            out.put(event);
        }
        run.time()
    }
}

impl Run {
    /// The time of what is next; `None` when more must be fetched.
    fn time(&self) -> Option<u64> {
        Some(self.events.get(self.at)?.time.0.min(ENDED - 1))
    }
}
