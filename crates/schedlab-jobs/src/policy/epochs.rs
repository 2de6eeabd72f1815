//! Memory for records of jobs, in epochs: records that end at about the same time share a block, and
//! a block is used again as a whole when its last record ended.
//!
//! An epoch serves one step of deadlines. When it is full, another one serves the same step, so a step
//! needs no tuning. A [`JobId`] carries the epoch's serial number: an id of a job that ended long ago
//! names nothing, rather than something else.

use super::agenda::Record;
use super::{NEVER, Nanos};
use std::collections::BTreeMap;

/// Records of an epoch. Lumiera: 500.
const RECORDS: u32 = 512;

/// Names a job from when it is posted until it ended; after that it names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    slot: u32,
    serial: u32,
}

#[cfg(test)]
impl JobId {
    pub(super) const fn new(slot: u32, serial: u32) -> Self {
        Self { slot, serial }
    }

    pub(super) const fn slot(self) -> u32 {
        self.slot
    }
}

#[derive(Debug)]
struct Epoch<J> {
    serial: u32,
    /// Records not ended.
    live: u32,
    /// The step of deadlines that it serves while it is open.
    step: u64,
    open: bool,
    records: Vec<Record<J>>,
}

#[derive(Debug)]
pub(super) struct Epochs<J> {
    step_ns: Nanos,
    epochs: Vec<Epoch<J>>,
    open: BTreeMap<u64, u32>,
    free: Vec<u32>,
    /// The epoch of the last record: the next one most often belongs there too.
    last: Option<u32>,
    live: usize,
}

impl<J> Epochs<J> {
    pub(super) fn new(step_ns: Nanos) -> Self {
        Self {
            step_ns: step_ns.max(1),
            epochs: Vec::new(),
            open: BTreeMap::new(),
            free: Vec::new(),
            last: None,
            live: 0,
        }
    }

    pub(super) fn add(&mut self, record: Record<J>) -> JobId {
        let step = if record.deadline == NEVER { NEVER } else { record.deadline / self.step_ns };
        let at = match self.last {
            Some(at) if self.epochs[at as usize].open && self.epochs[at as usize].step == step => {
                at
            }
            _ => self.open(step),
        };
        self.last = Some(at);
        let epoch = &mut self.epochs[at as usize];
        let slot = at * RECORDS + epoch.records.len() as u32;
        epoch.records.push(record);
        epoch.live += 1;
        self.live += 1;
        if epoch.records.len() as u32 == RECORDS {
            epoch.open = false;
            self.open.remove(&step);
        }
        JobId { slot, serial: self.epochs[at as usize].serial }
    }

    fn open(&mut self, step: u64) -> u32 {
        if let Some(&at) = self.open.get(&step) {
            return at;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.epochs.push(Epoch { serial: 0, live: 0, step, open: true, records: Vec::new() });
            self.epochs.len() as u32 - 1
        });
        let epoch = &mut self.epochs[at as usize];
        (epoch.step, epoch.open) = (step, true);
        self.open.insert(step, at);
        at
    }

    pub(super) fn get(&self, id: JobId) -> Option<&Record<J>> {
        let epoch = self.epochs.get((id.slot / RECORDS) as usize)?;
        let records = (epoch.serial == id.serial).then_some(&epoch.records)?;
        records.get((id.slot % RECORDS) as usize)
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut Record<J>> {
        let epoch = self.epochs.get_mut((id.slot / RECORDS) as usize)?;
        let records = (epoch.serial == id.serial).then_some(&mut epoch.records)?;
        records.get_mut((id.slot % RECORDS) as usize)
    }

    /// The record ended: the last one of an epoch frees the epoch.
    pub(super) fn end(&mut self, id: JobId) {
        self.live -= 1;
        let at = id.slot / RECORDS;
        let epoch = &mut self.epochs[at as usize];
        epoch.live -= 1;
        if epoch.live == 0 {
            epoch.serial = epoch.serial.wrapping_add(1);
            epoch.records.clear();
            if !epoch.open {
                self.free.push(at);
            }
        }
    }

    /// Closes the empty epochs of steps that have passed.
    pub(super) fn close(&mut self, now: Nanos) {
        let step = now / self.step_ns;
        let passed: Vec<(u64, u32)> = self.open.range(..step).map(|(&s, &at)| (s, at)).collect();
        for (step, at) in passed {
            let epoch = &mut self.epochs[at as usize];
            epoch.open = false;
            self.open.remove(&step);
            if epoch.live == 0 {
                self.free.push(at);
            }
        }
    }

    /// The live records of steps that have passed entirely, or of all of them.
    pub(super) fn ids(&self, before: Option<Nanos>) -> Vec<JobId> {
        let limit = before.map_or(u64::MAX, |now| now / self.step_ns);
        let mut ids = Vec::new();
        for (at, epoch) in self.epochs.iter().enumerate() {
            if epoch.live == 0 || (before.is_some() && epoch.step >= limit) {
                continue;
            }
            let first = at as u32 * RECORDS;
            let live = epoch.records.iter().zip(first..).filter(|(record, _)| record.is_live());
            ids.extend(live.map(|(_, slot)| JobId { slot, serial: epoch.serial }));
        }
        ids
    }

    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Blocks ever needed at once: what memory is measured by.
    pub(super) fn blocks(&self) -> usize {
        self.epochs.len()
    }
}
