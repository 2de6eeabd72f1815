//! The short way from a record to an event, for the four tracepoints that make up nearly all of a
//! scheduler trace.
//!
//! Offsets come from the format texts as everywhere; but where each number turns out to be an aligned
//! word within the first [`REACH`] bytes, and each name 16 bytes in place, one check of the record's
//! length replaces those of its fields. Little-endian only; whatever does not fit goes the long way.
//!
//! Resource sketch: a record of `sched_switch` is one look-up by its id, eight loads, two comparisons
//! of names and the stores of its event.

use crate::decode::Stamp;
use crate::merge::Batch;
use crate::names::Names;
use crate::plan::{Decoder, Entry, NameSlot, Plan, Slot};
use schedlab_model::{Cpu, Event, Nanos, Pid, Prio, What};

/// Bytes of a record (and of what follows it) that are looked at.
const REACH: usize = 128;
/// The same in words.
const WORDS: usize = REACH / 4;

/// Where a word lies, counted in words.
type Word = u8;

/// What lies where in records of one event id.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Near {
    shape: Shape,
    /// How long a record must be.
    need: u8,
}

#[derive(Clone, Copy, Debug, Default)]
enum Shape {
    /// The long way.
    #[default]
    Far,
    Switch {
        prev: Word,
        prev_prio: Word,
        /// The lower and the upper word.
        state: Word,
        prev_comm: u8,
        next: Word,
        next_prio: Word,
        next_comm: u8,
    },
    Waking {
        pid: Word,
        prio: Word,
        cpu: Word,
        comm: u8,
    },
    Wakeup {
        pid: Word,
        prio: Word,
        cpu: Word,
        comm: u8,
        new: bool,
    },
    Migrate {
        pid: Word,
        from: Word,
        to: Word,
        comm: u8,
    },
}

impl Near {
    /// The short spelling of a plan; `None` when it has none.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        let need = u8::try_from(entry.need).ok().filter(|need| usize::from(*need) <= REACH)?;
        let shape = match entry.plan {
            Plan::Switch { prev, prev_prio, prev_state, prev_comm, next, next_prio, next_comm } => {
                Shape::Switch {
                    prev: word(prev)?,
                    prev_prio: word(prev_prio)?,
                    state: word(Slot { size: 4, ..prev_state }).filter(|_| prev_state.size == 8)?,
                    prev_comm: name(prev_comm)?,
                    next: word(next)?,
                    next_prio: word(next_prio)?,
                    next_comm: name(next_comm)?,
                }
            }
            Plan::Waking { pid, prio, cpu, comm } => Shape::Waking {
                pid: word(pid)?,
                prio: word(prio)?,
                cpu: word(cpu)?,
                comm: name(comm)?,
            },
            Plan::Wakeup { pid, prio, cpu, comm, success: None, new } => Shape::Wakeup {
                pid: word(pid)?,
                prio: word(prio)?,
                cpu: word(cpu)?,
                comm: name(comm)?,
                new,
            },
            Plan::Migrate { pid, from, to, comm } => Shape::Migrate {
                pid: word(pid)?,
                from: word(from)?,
                to: word(to)?,
                comm: name(comm)?,
            },
            _ => return None,
        };
        Some(Self { shape, need })
    }
}

/// A number that is one aligned word.
fn word(slot: Slot) -> Option<Word> {
    let fits = slot.size == 4 && slot.at.is_multiple_of(4) && usize::from(slot.at) < REACH;
    fits.then(|| u8::try_from(slot.at / 4).ok()).flatten()
}

/// A name in place, where it begins.
fn name(slot: NameSlot) -> Option<u8> {
    match slot {
        NameSlot::Fixed(at) if usize::from(at) + 16 <= REACH => u8::try_from(at).ok(),
        _ => None,
    }
}

/// A record on its way.
struct Record<'a> {
    bytes: &'a [u8; REACH],
    words: &'a [[u8; 4]; WORDS],
}

impl Record<'_> {
    /// No check is left of it: a word's number is below [`WORDS`].
    #[inline(always)]
    fn word(&self, at: Word) -> i32 {
        i32::from_le_bytes(self.words[usize::from(at) % WORDS])
    }

    #[inline(always)]
    fn pid(&self, at: Word) -> Pid {
        Pid(self.word(at))
    }

    #[inline(always)]
    fn prio(&self, at: Word) -> Prio {
        Prio(self.word(at) as i16)
    }

    #[inline(always)]
    fn place(&self, at: Word) -> Cpu {
        Cpu(self.word(at) as u16)
    }

    #[inline(always)]
    fn name(&self, at: u8) -> u128 {
        let bytes = self.bytes.get(usize::from(at)..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u128::from_le_bytes(*bytes))
    }
}

impl Decoder {
    /// Decodes a record the short way; `false` when it must go the long one.
    #[inline(always)]
    pub(crate) fn decode_near(
        &self,
        stamp: Stamp,
        rest: &[u8],
        length: usize,
        names: &mut Names,
        batch: &mut Batch<'_>,
    ) -> bool {
        let Some(bytes) = rest.first_chunk::<REACH>() else { return false };
        let id = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        let Some(near) = self.near.get(id) else { return false };
        let Ok(words) = bytes.as_chunks::<4>().0.try_into() else { return false };
        let record = Record { bytes, words };
        if length < usize::from(near.need) {
            return false;
        }
        let by = Pid(record.word((self.pid_at / 4) as u8));
        let context = self.contexts[usize::from(bytes[self.flags_at % REACH])];
        let Stamp { time, cpu } = stamp;
        let event = |what| Event { time: Nanos(time), by, cpu, context, what };
        // Each kind puts its event in its own arm: the fields then go from registers to their places.
        match near.shape {
            Shape::Switch { prev, prev_prio, state, prev_comm, next, next_prio, next_comm } => {
                let (prev, next) = (record.pid(prev), record.pid(next));
                let called = [(prev, record.name(prev_comm)), (next, record.name(next_comm))];
                for (pid, comm) in called {
                    if names.changed(pid, comm) {
                        renamed(event(What::Lost { count: None }), pid, comm, batch);
                    }
                }
                let high = record.word(state + 1).cast_unsigned();
                let low = record.word(state).cast_unsigned();
                let left = self.states.left(u64::from(high) << 32 | u64::from(low));
                let (prev_prio, next_prio) = (record.prio(prev_prio), record.prio(next_prio));
                batch.put(event(What::Switch { prev, prev_prio, left, next, next_prio }));
            }
            Shape::Waking { pid, prio, cpu, comm } => {
                let (pid, comm) = (record.pid(pid), record.name(comm));
                if names.changed(pid, comm) {
                    renamed(event(What::Lost { count: None }), pid, comm, batch);
                }
                let (prio, last_cpu) = (record.prio(prio), record.place(cpu));
                batch.put(event(What::Waking { pid, prio, last_cpu }));
            }
            Shape::Wakeup { pid, prio, cpu, comm, new } => {
                let (pid, comm) = (record.pid(pid), record.name(comm));
                if names.changed(pid, comm) {
                    renamed(event(What::Lost { count: None }), pid, comm, batch);
                }
                let (prio, cpu) = (record.prio(prio), record.place(cpu));
                batch.put(event(What::Wakeup { pid, prio, cpu, new }));
            }
            Shape::Migrate { pid, from, to, comm } => {
                let (pid, comm) = (record.pid(pid), record.name(comm));
                if names.changed(pid, comm) {
                    renamed(event(What::Lost { count: None }), pid, comm, batch);
                }
                let (from, to) = (record.place(from), record.place(to));
                batch.put(event(What::Migrate { pid, from, to }));
            }
            Shape::Far => return false,
        }
        true
    }
}

/// A task's name stands in the record and is news: an event of its own, like `event` otherwise.
#[cold]
#[inline(never)]
fn renamed(event: Event, pid: Pid, comm: u128, batch: &mut Batch<'_>) {
    let comm = crate::names::clean(comm).to_le_bytes();
    batch.put(Event { what: What::Comm { pid, comm }, ..event });
}
