//! Events on their way into a file: what their records will say, in fewer bytes.
//!
//! A file lies CPU by CPU, so events wait for its end. A record of a switch has 68 bytes, most of them names of tasks;
//! here it has 24.

use schedlab_model::{Context, Event, Nanos, Phase, Pid};

/// The length of an [`Entry`] in a lane, in bytes, without its text.
pub(crate) const BYTES: usize = 24;
/// Bytes of the bodies of the formats from [`super::SWITCH`] on.
const LENGTHS: [u8; 10] = [64, 36, 36, 36, 40, 48, 32, 32, 44, 24];
/// Ids of entries that are no records: a loss, and the whole time of the next entry.
const LOST: u16 = 0;
const TIME: u16 = 1;

/// What a record says, without the names of its tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packed {
    /// The event id of the format of its record.
    pub(super) id: u16,
    /// `common_flags` of the record: where its CPU was.
    pub(super) flags: u8,
    /// Why a task left, by [`state_to_byte`], or the phase of a mark.
    pub(super) how: u8,
    /// The task that was current.
    pub(super) by: i32,
    /// Numbers of names, CPUs, or what else the format has.
    pub(super) first: u32,
    pub(super) second: u32,
    /// Priorities of tasks, or the request of a mark.
    pub(super) prios: [i16; 2],
}

/// What waits for the end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A record, and the nanoseconds since the entry before it.
    Record(u32, Packed),
    /// Events are missing here; 0: unknown how many.
    Lost(u32),
    /// The time from which the next entry counts.
    Time(Nanos),
}

impl Entry {
    pub(crate) fn to_bytes(self) -> [u8; BYTES] {
        match self {
            Self::Record(delta, packed) => packed.to_bytes(delta),
            Self::Lost(count) => Packed { id: LOST, first: count, ..Packed::default() }.to_bytes(0),
            Self::Time(Nanos(time)) => {
                let first = time as u32;
                let second = (time >> 32) as u32;
                Packed { id: TIME, first, second, ..Packed::default() }.to_bytes(0)
            }
        }
    }

    #[inline]
    pub(crate) fn from_bytes(bytes: &[u8; BYTES]) -> Self {
        let (delta, packed) = Packed::from_bytes(bytes);
        match packed.id {
            LOST => Self::Lost(packed.first),
            TIME => Self::Time(Nanos(u64::from(packed.second) << 32 | u64::from(packed.first))),
            _ => Self::Record(delta, packed),
        }
    }
}

impl Packed {
    /// What every record of an event says.
    #[inline]
    pub(super) fn by(event: &Event, id: u16) -> Self {
        let flags = match event.context {
            // A record has no way to say that it is not known.
            Context::Task | Context::Unknown => 0,
            Context::SoftIrq => 0x10,
            Context::HardIrq => 0x08,
            Context::Nmi => 0x40,
        };
        Self { id, flags, by: event.by.0, ..Self::default() }
    }

    /// The same with what a mark says.
    #[inline]
    pub(super) fn mark(self, pid: Pid, id: u32, phase: Phase, request: u32) -> Self {
        let how = match phase {
            Phase::Begin => 0,
            Phase::End => 1,
            Phase::Point => 2,
        };
        let prios = [request as u16, (request >> 16) as u16].map(u16::cast_signed);
        Self { how, first: pid.0.cast_unsigned(), second: id, prios, ..self }
    }

    /// What a mark says: the task that it concerns, its name, its phase, and its request.
    pub(super) fn as_mark(self) -> (Pid, (u32, Phase, u32)) {
        let phase = match self.how {
            0 => Phase::Begin,
            1 => Phase::End,
            _ => Phase::Point,
        };
        let [low, high] = self.prios.map(|half| u32::from(half.cast_unsigned()));
        (Pid(self.first.cast_signed()), (self.second, phase, high << 16 | low))
    }

    /// The task that was current.
    pub(super) const fn current(self) -> Pid {
        Pid(self.by)
    }

    /// The head of a record.
    #[inline]
    pub(super) fn head(self) -> [u8; 8] {
        let [low, high] = self.id.to_le_bytes();
        let by = self.by.to_le_bytes();
        [low, high, self.flags, 0, by[0], by[1], by[2], by[3]]
    }

    /// Whether its body has no text.
    #[inline]
    pub(crate) const fn is_short(self) -> bool {
        self.id < super::OTHERS
    }

    /// The bytes of the text that follows the entry, if it has one.
    #[inline]
    pub(crate) const fn text(self) -> usize {
        if self.is_short() { 0 } else { (self.first as usize).saturating_sub(1) }
    }

    /// The bytes of its body.
    #[inline]
    pub(crate) const fn length(self) -> usize {
        if self.is_short() {
            LENGTHS[(self.id - super::SWITCH) as usize] as usize
        } else {
            12 + self.first as usize
        }
    }

    #[inline]
    fn to_bytes(self, delta: u32) -> [u8; BYTES] {
        let Self { id, flags, how, by, first, second, prios: [one, other] } = self;
        let word = |low: u32, high: u32| (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
        let kind = u32::from(id) << 16 | u32::from(flags) << 8 | u32::from(how);
        let prios = u32::from(other.cast_unsigned()) << 16 | u32::from(one.cast_unsigned());
        let words = [word(delta, kind), word(by.cast_unsigned(), first), word(second, prios)];
        let mut bytes = [0; BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word);
        }
        bytes
    }

    #[inline]
    fn from_bytes(bytes: &[u8; BYTES]) -> (u32, Self) {
        let word = |at: usize| {
            let word = bytes[at..at + 4].try_into().expect("four bytes");
            u32::from_le_bytes(word)
        };
        let kind = word(4);
        let prios = word(20);
        let packed = Self {
            id: (kind >> 16) as u16,
            flags: (kind >> 8) as u8,
            how: kind as u8,
            by: word(8).cast_signed(),
            first: word(12),
            second: word(16),
            prios: [prios as u16, (prios >> 16) as u16].map(u16::cast_signed),
        };
        (word(0), packed)
    }
}

/// A `prev_state`, which has at most one bit, as the number of that bit from 1 on.
#[inline]
pub(super) const fn state_to_byte(state: u64) -> u8 {
    (64 - state.leading_zeros()) as u8
}

#[inline]
pub(super) const fn byte_to_state(byte: u8) -> u64 {
    (1 << byte) >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_from_their_bytes() {
        let packed = Packed {
            id: 300,
            flags: 0x40,
            how: 9,
            by: -1,
            first: u32::MAX,
            second: 0x8000_0001,
            prios: [-1, i16::MIN],
        };
        let entries = [
            Entry::Record(u32::MAX, packed),
            Entry::Record(0, packed.mark(Pid(-5), 7, Phase::Point, 0xfedc_ba98)),
            Entry::Lost(u32::MAX),
            Entry::Time(Nanos(u64::MAX - 1)),
        ];
        for entry in entries {
            assert_eq!(Entry::from_bytes(&entry.to_bytes()), entry);
        }
        let mark = packed.mark(Pid(-5), 7, Phase::Point, 0xfedc_ba98);
        assert_eq!(mark.as_mark(), (Pid(-5), (7, Phase::Point, 0xfedc_ba98)));
    }

    #[test]
    fn states_with_one_bit_fit_a_byte() {
        for state in [0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100] {
            assert_eq!(byte_to_state(state_to_byte(state)), state);
        }
    }
}
