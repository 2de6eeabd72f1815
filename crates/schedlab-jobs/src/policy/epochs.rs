//! Memory for records of jobs, in epochs: records that end at about the same time share a block, and
//! a block is used again as a whole when its last record ended.
//!
//! An epoch serves one span of deadlines, a step long. When it is full, another one serves what comes for the
//! same span. The step follows the load, so that an epoch is nine tenths full when its span has passed: a full
//! epoch shortens it, and the fill of each that has passed pulls it towards the right length, as in Lumiera.
//! A [`JobId`] carries the epoch's serial number, so that an id of a job that ended long ago never names another one.

use super::record::Record;
use super::{NEVER, Nanos};
use std::collections::BTreeMap;

/// Records of an epoch. Lumiera: 500.
const RECORDS: u32 = 512;
/// How full an epoch shall be. Lumiera: 0.9.
const FILL: f64 = 0.9;
/// An emptier epoch counts as this full, so that a pause does not stretch the step at once. Lumiera: 8 %.
const FILL_MIN: f64 = 0.08;
/// What a full epoch does to the step. Lumiera: 0.85.
const SHRINK: f64 = 0.85;
/// How many epochs the average over the right lengths takes in. Lumiera: at least 6.
const AVERAGED: f64 = 6.0;
/// The step is at least a 60th of the first one, as in Lumiera; and at most twice it, since gates that never
/// open are ended when their epoch has passed.
const SHORTEST: Nanos = 60;
const LONGEST: Nanos = 2;

/// Names a job from when it is posted on, also after it ended: [`Agenda::fate`](super::Agenda::fate).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    slot: u32,
    serial: u32,
}

/// Marks the slot of an id that is a ticket.
const TICKET: u32 = 1 << 31;

impl JobId {
    pub(crate) const fn of_ticket(ticket: u64) -> Self {
        Self { slot: TICKET | (ticket >> 32) as u32, serial: ticket as u32 }
    }

    pub(super) const fn ticket(self) -> Option<u64> {
        if self.slot & TICKET == 0 {
            return None;
        }
        Some(((self.slot & !TICKET) as u64) << 32 | self.serial as u64)
    }

    /// Where ids follow each other, and which place this one has there: the records of a block by the block's serial
    /// number, tickets by themselves.
    pub(super) const fn line(self) -> (u32, u32) {
        let line = if self.slot & TICKET == 0 { self.slot / RECORDS } else { self.slot };
        (line, self.serial)
    }
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
    /// The number of records whose jobs have not ended.
    live: u32,
    /// The deadlines that it serves while it is open: from, to and with.
    from: Nanos,
    to: Nanos,
    /// The most records that it had at once.
    most: u32,
    open: bool,
    records: Vec<Record<J>>,
}

#[derive(Debug)]
pub(super) struct Epochs<J> {
    /// The time that the first epoch covers.
    first_step_ns: Nanos,
    step_ns: f64,
    epochs: Vec<Epoch<J>>,
    /// By the last deadline that each serves; their spans do not overlap.
    open: BTreeMap<Nanos, u32>,
    free: Vec<u32>,
    /// The epoch of the last record: the next one most often belongs there too.
    last: Option<u32>,
    live: usize,
}

impl<J> Epochs<J> {
    pub(super) fn new(step_ns: Nanos) -> Self {
        Self {
            first_step_ns: step_ns.max(SHORTEST),
            step_ns: step_ns.max(SHORTEST) as f64,
            epochs: Vec::new(),
            open: BTreeMap::new(),
            free: Vec::new(),
            last: None,
            live: 0,
        }
    }

    pub(super) fn add(&mut self, record: Record<J>) -> JobId {
        let deadline = record.deadline;
        let serves = |epoch: &Epoch<J>| epoch.open && (epoch.from..=epoch.to).contains(&deadline);
        let at = match self.last {
            Some(at) if serves(&self.epochs[at as usize]) => at,
            _ => self.open(deadline),
        };
        self.last = Some(at);
        let epoch = &mut self.epochs[at as usize];
        let slot = at * RECORDS + epoch.records.len() as u32;
        let serial = epoch.serial;
        epoch.records.push(record);
        epoch.live += 1;
        epoch.most = epoch.most.max(epoch.records.len() as u32);
        self.live += 1;
        if epoch.records.len() as u32 == RECORDS {
            epoch.open = false;
            let (to, endless) = (epoch.to, epoch.to == NEVER);
            self.open.remove(&to);
            if !endless {
                self.set_step(self.step_ns * SHRINK);
            }
        }
        JobId { slot, serial }
    }

    /// The epoch that serves a deadline, a new one if there is none.
    fn open(&mut self, deadline: Nanos) -> u32 {
        let next = self.open.range(deadline..).next().map(|(_, &at)| at);
        let next_from = next.map(|at| self.epochs[at as usize].from);
        if let (Some(at), Some(from)) = (next, next_from)
            && from <= deadline
        {
            return at;
        }
        let (from, to) = self.span(deadline, next_from);
        let at = self.free.pop().unwrap_or_else(|| {
            let (serial, live, most, open) = (0, 0, 0, true);
            self.epochs.push(Epoch { serial, live, from, to, most, open, records: Vec::new() });
            self.epochs.len() as u32 - 1
        });
        let epoch = &mut self.epochs[at as usize];
        (epoch.from, epoch.to, epoch.most, epoch.open) = (from, to, 0, true);
        self.open.insert(to, at);
        at
    }

    /// A step around a deadline, as far as it lies between those that are served. Jobs without a deadline are
    /// by themselves.
    fn span(&self, deadline: Nanos, next_from: Option<Nanos>) -> (Nanos, Nanos) {
        if deadline == NEVER {
            return (NEVER, NEVER);
        }
        let step = self.step_ns as Nanos;
        let from = deadline - deadline % step;
        let to = from.saturating_add(step - 1).min(next_from.unwrap_or(NEVER) - 1);
        let before = self.open.range(..deadline).next_back().map_or(0, |(&to, _)| to + 1);
        (from.max(before), to)
    }

    fn set_step(&mut self, step_ns: f64) {
        let first = self.first_step_ns;
        self.step_ns = step_ns.clamp((first / SHORTEST) as f64, (first * LONGEST) as f64);
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

    /// Whether a record ever had this id.
    pub(super) fn issued(&self, id: JobId) -> bool {
        let Some(epoch) = self.epochs.get((id.slot / RECORDS) as usize) else { return false };
        match epoch.serial.wrapping_sub(id.serial) {
            0 => ((id.slot % RECORDS) as usize) < epoch.records.len(),
            ago => ago < u32::MAX / 2,
        }
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

    /// Closes the epochs whose span has passed, and learns from how full they were.
    pub(super) fn close(&mut self, now: Nanos) {
        let passed: Vec<(Nanos, u32)> = self.open.range(..now).map(|(&to, &at)| (to, at)).collect();
        for (to, at) in passed {
            let epoch = &mut self.epochs[at as usize];
            epoch.open = false;
            self.open.remove(&to);
            let (live, span) = (epoch.live, (epoch.to - epoch.from + 1) as f64);
            let fill = (f64::from(epoch.most) / f64::from(RECORDS)).max(FILL_MIN);
            if live == 0 {
                self.free.push(at);
            }
            self.set_step(self.step_ns + (span * FILL / fill - self.step_ns) / AVERAGED);
        }
    }

    /// The live records of epochs whose span has passed, or of all of them.
    pub(super) fn ids(&self, before: Option<Nanos>) -> Vec<JobId> {
        let mut ids = Vec::new();
        for (at, epoch) in self.epochs.iter().enumerate() {
            if epoch.live == 0 || before.is_some_and(|now| epoch.to >= now) {
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

#[cfg(test)]
mod tests {
    use super::super::edges::NONE;
    use super::super::record::{Criticality, State, StreamId};
    use super::*;
    use std::collections::VecDeque;

    const MS: Nanos = 1_000_000;

    fn record(deadline: Nanos) -> Record<()> {
        Record {
            job: Some(()),
            start: 0,
            deadline,
            expected_ns: 0,
            pending: 0,
            successors: NONE,
            stream: StreamId(0),
            criticality: Criticality::default(),
            state: State::Queued,
            told: false,
            word: None,
            ticketed: false,
        }
    }

    /// One record every `gap`, each ending at its deadline, which is `life` later or, of every other one, half
    /// of it; a tick every 50 ms.
    fn drive(epochs: &mut Epochs<()>, gap: Nanos, life: Nanos, from: Nanos, to: Nanos) {
        let mut queues = [VecDeque::new(), VecDeque::new()];
        let mut tick = from;
        for (i, now) in (from..to).step_by(gap as usize).enumerate() {
            for queue in &mut queues {
                while queue.front().is_some_and(|&(deadline, _)| deadline <= now) {
                    let (_, id) = queue.pop_front().expect("it has a front");
                    assert!(epochs.get(id).is_some(), "a live record keeps its place");
                    epochs.end(id);
                    epochs.get_mut(id).into_iter().for_each(|r| r.state = State::Ended);
                }
            }
            if now >= tick {
                tick += 50 * MS;
                epochs.close(now);
            }
            let deadline = now + if i % 2 == 0 { life } else { life / 2 };
            queues[i % 2].push_back((deadline, epochs.add(record(deadline))));
        }
        let rest: Vec<_> = queues.into_iter().flatten().collect();
        assert_eq!(epochs.live(), rest.len());
        rest.into_iter().for_each(|(_, id)| epochs.end(id));
        assert_eq!(epochs.live(), 0);
    }

    #[test]
    fn the_step_follows_the_load_within_its_limits() {
        let mut epochs = Epochs::new(400 * MS);
        // 20 records a millisecond: 512 come in 25 ms.
        drive(&mut epochs, MS / 20, 500 * MS, 0, 4_000 * MS);
        let dense = epochs.step_ns;
        assert!((400e6 / 60.0..60e6).contains(&dense), "{dense}");
        // Ten a second: longer than the beginning, as long as is allowed.
        drive(&mut epochs, 100 * MS, 2_000 * MS, 5_000 * MS, 65_000 * MS);
        assert!(epochs.step_ns > 790e6, "{}", epochs.step_ns);
    }

    #[test]
    #[cfg_attr(miri, ignore = "no threads: plain data, for minutes")]
    fn memory_is_flat_whatever_the_load_was_before() {
        let mut epochs = Epochs::new(400 * MS);
        drive(&mut epochs, MS / 20, 500 * MS, 0, 3_000 * MS);
        // 7,500 records live at once need 15 blocks; half as many again are being filled or emptied.
        let blocks = epochs.blocks();
        assert!((15..=60).contains(&blocks), "{blocks}");
        drive(&mut epochs, 100 * MS, 2_000 * MS, 4_000 * MS, 20_000 * MS);
        drive(&mut epochs, MS / 20, 500 * MS, 21_000 * MS, 27_000 * MS);
        assert!(epochs.blocks() <= blocks + blocks / 4, "{} after {blocks}", epochs.blocks());
    }

    #[test]
    #[cfg_attr(miri, ignore = "no threads: plain data, for minutes")]
    fn spans_never_overlap_and_jobs_without_a_deadline_are_by_themselves() {
        let mut epochs = Epochs::new(400 * MS);
        for i in 0..5_000u64 {
            let deadline = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            epochs.add(record(deadline));
            epochs.add(record(NEVER));
            let spans: Vec<_> =
                epochs.open.values().map(|&at| &epochs.epochs[at as usize]).collect();
            assert!(spans.windows(2).all(|two| two[0].to < two[1].from));
        }
        assert!(epochs.epochs.iter().all(|e| e.records.iter().all(|r| {
            (e.from..=e.to).contains(&r.deadline) && (r.deadline == NEVER) == (e.from == NEVER)
        })));
    }
}
