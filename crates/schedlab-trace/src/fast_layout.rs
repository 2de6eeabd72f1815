//! Where fields lie in records that [`fast_decode`](crate::fast_decode) can read.

use crate::entry::{Entry, NameSlot, Plan, Slot};

/// Bytes of a record (and of what follows it) that are looked at.
pub(crate) const REACH: usize = 128;
/// The same in words.
pub(crate) const WORDS: usize = REACH / 4;

/// Where a word lies, counted in words.
pub(crate) type Word = u8;

/// What lies where in records of one event id. A power of two in size, since it is looked up by number.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(16))]
pub(crate) struct Near {
    pub(crate) kind: Kind,
    /// How long a record must be.
    pub(crate) need: u8,
    /// The number of a tracepoint that is none of the scheduler's.
    pub(crate) other: u16,
    pub(crate) places: Places,
}

/// What a record is, as far as it is known before its turn comes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    pub(crate) kind: Kind,
    pub(crate) id: u16,
}

/// Which event it is, and whether its places are the usual ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Kind {
    /// A record that takes the general path.
    #[default]
    Far,
    Other,
    Switch,
    Waking,
    Wakeup,
    WakeupNew,
    Migrate,
    UsualOther,
    UsualSwitch,
    UsualWaking,
    UsualWakeup,
    UsualWakeupNew,
    UsualMigrate,
}

/// The places of a record's parts. Those of `sched_switch` are all used; of the others, a task's are the
/// first three, and `there` is its CPU, `next` a migration's second one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) by: Word,
    pub(crate) flags: u8,
    pub(crate) comm: u8,
    pub(crate) pid: Word,
    pub(crate) prio: Word,
    /// The lower word of the state, or a CPU.
    pub(crate) there: Word,
    pub(crate) next_comm: u8,
    pub(crate) next: Word,
    pub(crate) next_prio: Word,
}

pub(crate) const SWITCH: Places = Places::usual(Kind::Switch);
pub(crate) const TASK: Places = Places::usual(Kind::Waking);
pub(crate) const MIGRATE: Places = Places::usual(Kind::Migrate);

impl Places {
    /// Where kernels from 3.x to 6.x on 64 bits have put the parts of events of this kind.
    const fn usual(kind: Kind) -> Self {
        let task = Self {
            by: 1,
            flags: 2,
            comm: 8,
            pid: 6,
            prio: 7,
            there: 8,
            next_comm: 0,
            next: 0,
            next_prio: 0,
        };
        match kind {
            Kind::UsualOther | Kind::Other => {
                Self { by: task.by, flags: task.flags, comm: 0, pid: 0, prio: 0, there: 0, ..task }
            }
            Kind::Switch | Kind::UsualSwitch => {
                Self { next_comm: 40, next: 14, next_prio: 15, ..task }
            }
            Kind::Migrate | Kind::UsualMigrate => Self { next: 9, ..task },
            _ => task,
        }
    }
}

impl Near {
    /// The short spelling of a plan; `None` when it has none.
    pub(crate) fn of(entry: &Entry, by_at: usize, flags_at: usize) -> Option<Self> {
        let need = u8::try_from(entry.need).ok().filter(|need| usize::from(*need) <= REACH)?;
        let common = Places {
            by: word(Slot { at: u16::try_from(by_at).ok()?, size: 4 })?,
            flags: u8::try_from(flags_at).ok().filter(|at| usize::from(*at) < REACH)?,
            ..Places::default()
        };
        let (kind, usual, places) = match entry.plan {
            Plan::Switch { prev, prev_prio, prev_state, prev_comm, next, next_prio, next_comm } => {
                let places = Places {
                    comm: name(prev_comm)?,
                    pid: word(prev)?,
                    prio: word(prev_prio)?,
                    there: word(Slot { size: 4, ..prev_state }).filter(|_| prev_state.size == 8)?,
                    next_comm: name(next_comm)?,
                    next: word(next)?,
                    next_prio: word(next_prio)?,
                    ..common
                };
                (Kind::Switch, Kind::UsualSwitch, places)
            }
            Plan::Waking { pid, prio, cpu, comm } => {
                (Kind::Waking, Kind::UsualWaking, task(common, [pid, prio, cpu], comm)?)
            }
            Plan::Wakeup { pid, prio, cpu, comm, success: None, new } => {
                let places = task(common, [pid, prio, cpu], comm)?;
                match new {
                    false => (Kind::Wakeup, Kind::UsualWakeup, places),
                    true => (Kind::WakeupNew, Kind::UsualWakeupNew, places),
                }
            }
            Plan::Migrate { pid, from, to, comm } => {
                // Nobody asks for the priority: its place is the usual one.
                let usual = Places::usual(Kind::Migrate);
                let task = task(common, [pid, pid, from], comm)?;
                let places = Places { prio: usual.prio, next: word(to)?, ..task };
                (Kind::Migrate, Kind::UsualMigrate, places)
            }
            Plan::Other => (Kind::Other, Kind::UsualOther, common),
            _ => return None,
        };
        let kind = if places == Places::usual(kind) { usual } else { kind };
        Some(Self { kind, need, other: entry.other, places })
    }
}

/// The places of one task: its pid, its priority, a CPU, and its name.
fn task(common: Places, [pid, prio, cpu]: [Slot; 3], comm: NameSlot) -> Option<Places> {
    let (comm, pid, prio, there) = (name(comm)?, word(pid)?, word(prio)?, word(cpu)?);
    Some(Places { comm, pid, prio, there, ..common })
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
