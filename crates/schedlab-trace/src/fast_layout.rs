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
    let comm = name(comm)?;
    let pid = word(pid)?;
    let prio = word(prio)?;
    let there = word(cpu)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_an_aligned_word_within_reach_and_a_name_lies_whole_in_it() {
        let at = |at, size| word(Slot { at, size });
        assert_eq!([at(0, 4), at(24, 4), at(124, 4)], [Some(0), Some(6), Some(31)]);
        assert_eq!([at(26, 4), at(24, 8), at(24, 2), at(128, 4)], [None; 4]);
        assert_eq!([name(NameSlot::Fixed(8)), name(NameSlot::Fixed(112))], [Some(8), Some(112)]);
        assert_eq!(name(NameSlot::Fixed(113)), None);
        assert_eq!([name(NameSlot::Absent), name(NameSlot::Array(8, 8))], [None; 2]);
    }

    #[test]
    fn only_records_whose_head_and_length_are_within_reach_go_the_short_way() {
        let near = |need, by_at, flags_at| {
            Near::of(&Entry { plan: Plan::Other, need, other: 5 }, by_at, flags_at)
        };
        let found = near(128, 4, 2).unwrap();
        assert!(matches!(found.kind, Kind::UsualOther) && found.need == 128 && found.other == 5);
        assert!(matches!(near(8, 8, 2).unwrap().kind, Kind::Other), "the task lies elsewhere");
        assert!(matches!(near(8, 4, 127).unwrap().kind, Kind::Other));
        assert!(near(129, 4, 2).is_none() && near(300, 4, 2).is_none());
        assert!(near(8, 6, 2).is_none() && near(8, 4, 128).is_none());
    }

    #[test]
    fn what_lies_where_kernels_have_put_it_is_known_as_such() {
        let slot = |at| Slot { at, size: 4 };
        let comm = NameSlot::Fixed(8);
        let kind = |plan, need| Near::of(&Entry { plan, need, other: 0 }, 4, 2).unwrap().kind;
        let waking = |pid| Plan::Waking { pid: slot(pid), prio: slot(28), cpu: slot(32), comm };
        assert!(matches!(kind(waking(24), 36), Kind::UsualWaking));
        assert!(matches!(kind(waking(20), 36), Kind::Waking));
        let wakeup = |new| Plan::Wakeup {
            pid: slot(24),
            prio: slot(28),
            cpu: slot(32),
            comm,
            success: None,
            new,
        };
        assert!(matches!(kind(wakeup(false), 36), Kind::UsualWakeup));
        assert!(matches!(kind(wakeup(true), 36), Kind::UsualWakeupNew));
        let migrate = |to| Plan::Migrate { pid: slot(24), from: slot(32), to: slot(to), comm };
        assert!(matches!(kind(migrate(36), 40), Kind::UsualMigrate));
        assert!(matches!(kind(migrate(40), 44), Kind::Migrate));
    }
}
