//! The fast path from a record to an event, for the four tracepoints that make up nearly all of a
//! scheduler trace, and for tracepoints that are passed on undecoded. `decode` is the general path.
//!
//! Offsets come from the format texts. If each number is an aligned word within the first [`REACH`] bytes
//! and each name is 16 bytes in place, one check of the record's length replaces the checks of its fields.
//! If the offsets are also those that kernels have used for years ([`Places::usual`]), they are constants
//! in the code. Little-endian only; all other records take the general path.
//!
//! Cost: a record of `sched_switch` is one look-up by its id, eight loads, two comparisons of names and
//! the stores of its event.

use crate::decode::Stamp;
use crate::fast_layout::WORDS;
pub(crate) use crate::fast_layout::{
    Kind, Known, MIGRATE, Near, Places, REACH, SWITCH, TASK, Word,
};
use crate::merge::{Batch, Out};
use crate::names::Called;
use crate::plan::Decoder;
use schedlab_model::{Comm, Context, Cpu, Event, Left, Nanos, Pid, Prio, What};

/// A record on its way: its bytes, what lies where in them, and when and where it was logged.
pub(crate) struct Record<'a> {
    bytes: &'a [u8; REACH],
    pub(crate) at: Places,
    pub(crate) stamp: Stamp,
    pub(crate) context: Context,
}

impl<'a> Record<'a> {
    #[inline(always)]
    pub(crate) fn new(decoder: &Decoder, bytes: &'a [u8; REACH], at: Places, stamp: Stamp) -> Self {
        let context = decoder.contexts[usize::from(bytes[usize::from(at.flags) % REACH])];
        Self { bytes, at, stamp, context }
    }

    /// No check is left of it: a word's number is below [`WORDS`].
    #[inline(always)]
    pub(crate) fn word(&self, at: Word) -> i32 {
        let words = self.bytes.as_chunks::<4>().0;
        i32::from_le_bytes(words[usize::from(at) % WORDS])
    }

    #[inline(always)]
    fn pid(&self, at: Word) -> Pid {
        Pid(self.word(at))
    }

    #[inline(always)]
    pub(crate) fn prio(&self, at: Word) -> Prio {
        Prio(self.word(at) as i16)
    }

    #[inline(always)]
    pub(crate) fn place(&self, at: Word) -> Cpu {
        Cpu(self.word(at) as u16)
    }

    #[inline(always)]
    pub(crate) fn name(&self, at: u8) -> &Comm {
        let bytes = self.bytes.get(usize::from(at)..).and_then(|rest| rest.first_chunk());
        bytes.unwrap_or(&[0; 16])
    }

    #[inline(always)]
    fn event(&self, what: What) -> Event {
        let Stamp { time, cpu } = self.stamp;
        Event { time: Nanos(time), by: self.pid(self.at.by), cpu, context: self.context, what }
    }

    /// Takes note of a task's name, which is an event of its own when it is news.
    #[inline(always)]
    fn called(&self, pid: Word, comm: u8, names: &mut impl Called, out: &mut impl Out) {
        let pid = self.pid(pid);
        let comm = self.name(comm);
        if names.called(pid, comm) {
            let comm = *comm;
            let event = self.event(What::Lost { count: None });
            out.aside(move |batch| renamed(event, pid, comm, batch));
        }
    }

    /// How the task of a switch left its CPU.
    #[inline(always)]
    pub(crate) fn left(&self, decoder: &Decoder) -> Left {
        let [low, high] =
            [self.at.there, self.at.there + 1].map(|at| self.word(at).cast_unsigned());
        decoder.states.left(u64::from(high) << 32 | u64::from(low))
    }

    // Each kind puts its event by itself: the fields then go from registers to their places.

    #[inline(always)]
    fn switch(&self, decoder: &Decoder, names: &mut impl Called, out: &mut impl Out) {
        let at = self.at;
        self.called(at.pid, at.comm, names, out);
        self.called(at.next, at.next_comm, names, out);
        let left = self.left(decoder);
        let prev = self.pid(at.pid);
        let prev_prio = self.prio(at.prio);
        let next = self.pid(at.next);
        let next_prio = self.prio(at.next_prio);
        out.put(self.event(What::Switch { prev, prev_prio, left, next, next_prio }));
    }

    #[inline(always)]
    fn waking(&self, names: &mut impl Called, out: &mut impl Out) {
        let at = self.at;
        self.called(at.pid, at.comm, names, out);
        let pid = self.pid(at.pid);
        let prio = self.prio(at.prio);
        let last_cpu = self.place(at.there);
        out.put(self.event(What::Waking { pid, prio, last_cpu }));
    }

    #[inline(always)]
    fn wakeup(&self, new: bool, names: &mut impl Called, out: &mut impl Out) {
        let at = self.at;
        self.called(at.pid, at.comm, names, out);
        let pid = self.pid(at.pid);
        let prio = self.prio(at.prio);
        let cpu = self.place(at.there);
        out.put(self.event(What::Wakeup { pid, prio, cpu, new }));
    }

    #[inline(always)]
    fn migrate(&self, names: &mut impl Called, out: &mut impl Out) {
        let at = self.at;
        self.called(at.pid, at.comm, names, out);
        let pid = self.pid(at.pid);
        let from = self.place(at.there);
        let to = self.place(at.next);
        out.put(self.event(What::Migrate { pid, from, to }));
    }
}

impl Decoder {
    /// What a record is that begins with `id` and has this length. Code that meets a record before its turn comes
    /// asks then: its kind is the first that decoding must know.
    #[inline(always)]
    pub(crate) fn known(&self, id: u16, length: usize) -> Known {
        match self.near.get(usize::from(id)) {
            Some(near) if length >= usize::from(near.need) => Known { kind: near.kind, id },
            _ => Known::default(),
        }
    }

    /// Decodes a record the short way; `false` when it must go the long one. `bytes` are its own and
    /// what lies behind it.
    #[inline(always)]
    pub(crate) fn decode_near(
        &self,
        known: Known,
        stamp: Stamp,
        bytes: &[u8; REACH],
        names: &mut impl Called,
        out: &mut impl Out,
    ) -> bool {
        let record = |at: Places| Record::new(self, bytes, at, stamp);
        match known.kind {
            Kind::UsualSwitch => record(SWITCH).switch(self, names, out),
            Kind::UsualWaking => record(TASK).waking(names, out),
            Kind::UsualWakeup => record(TASK).wakeup(false, names, out),
            Kind::UsualWakeupNew => record(TASK).wakeup(true, names, out),
            Kind::UsualMigrate => record(MIGRATE).migrate(names, out),
            Kind::Far => return false,
            // The one that keeps bodies does so on the long way.
            Kind::UsualOther | Kind::Other if self.keeps => return false,
            Kind::UsualOther => {
                let format = self.near.get(usize::from(known.id)).map_or(0, |near| near.other);
                out.put(record(TASK).event(What::Other { format }));
            }
            _ => {
                let near = self.near.get(usize::from(known.id)).copied().unwrap_or_default();
                self.decode_placed(&near, &record(near.places), names, out);
            }
        }
        true
    }

    /// Decodes a record whose places are not the usual ones: by itself, to leave registers to the others.
    #[inline(never)]
    fn decode_placed(
        &self,
        near: &Near,
        record: &Record<'_>,
        names: &mut impl Called,
        out: &mut impl Out,
    ) {
        match near.kind {
            Kind::Switch => record.switch(self, names, out),
            Kind::Waking => record.waking(names, out),
            Kind::Wakeup => record.wakeup(false, names, out),
            Kind::WakeupNew => record.wakeup(true, names, out),
            Kind::Migrate => record.migrate(names, out),
            _ => out.put(record.event(What::Other { format: near.other })),
        }
    }
}

/// A task's name stands in the record and is news: an event of its own, like `event` otherwise.
#[cold]
#[inline(never)]
pub(crate) fn renamed(event: Event, pid: Pid, comm: Comm, batch: &mut Batch<'_>) {
    let comm = crate::names::clean(comm);
    batch.put(Event { what: What::Comm { pid, comm }, ..event });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::Encoder;
    use crate::encoding::Encoding;
    use crate::merge::append;
    use crate::names::Names;
    use schedlab_model::{Clock, OtherFormat, TraceInfo};

    /// The formats that we write, with the number that lies at `.0` and the one at `.1` exchanged.
    fn decoder((a, b): (&str, &str)) -> Decoder {
        let mut info = TraceInfo::new("test", Clock::Monotonic);
        info.others = vec![OtherFormat { system: "irq".into(), name: "irq_entry".into() }];
        let encoder = Encoder::new(&info);
        let exchange =
            |text: &str| text.replace(a, "offset:x").replace(b, a).replace("offset:x", b);
        let formats: Vec<(String, String)> = encoder
            .formats()
            .iter()
            .map(|(system, text)| (system.clone(), exchange(text)))
            .collect();
        let formats = formats.iter().map(|(system, text)| (system.as_str(), text.as_str()));
        Decoder::new(Encoding { big_endian: false, long: 8 }, formats)
    }

    #[test]
    fn the_short_ways_tell_what_the_long_one_tells() {
        // As they are, with the first pid in the place of its priority, and with CPUs exchanged.
        let cases = [
            ("offset:24;", "offset:24;"),
            ("offset:24;", "offset:28;"),
            ("offset:32;\tsize:4", "offset:28;\tsize:4"),
        ];
        let mut state = 1u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 56) as u8
        };
        for (case, exchanged) in cases.into_iter().enumerate() {
            let decoder = decoder(exchanged);
            let (mut near_names, mut any_names) = (Names::default(), Names::default());
            let mut short = 0;
            for round in 0..2000u16 {
                // Small numbers mostly: pids and states that are known.
                let mut bytes: [u8; REACH] =
                    std::array::from_fn(|at| if at % 4 == 0 { draw() % 16 } else { 0 });
                bytes[2] = draw();
                bytes[8..24].fill(b'a' + draw() % 3);
                bytes[40..56].fill(b'd' + draw() % 3);
                bytes[32] = draw();
                let id = [300, 301, 302, 303, 304, 305, 1000, 7][usize::from(round % 8)];
                bytes[..2].copy_from_slice(&u16::to_le_bytes(id));
                let length = [64, 32, 8][usize::from(round / 8 % 3)];
                let stamp = Stamp { time: round.into(), cpu: Cpu(1) };
                let (mut by_short, mut by_long) = (Vec::new(), Vec::new());
                let mut taken = false;
                append(&mut by_short, |batch| {
                    let known = decoder.known(id, length);
                    taken = decoder.decode_near(known, stamp, &bytes, &mut near_names, batch);
                    if !taken {
                        decoder.decode_any(stamp, &bytes[..length], &mut near_names, batch);
                    }
                });
                append(&mut by_long, |batch| {
                    decoder.decode_any(stamp, &bytes[..length], &mut any_names, batch);
                });
                assert_eq!(by_short, by_long, "case {case}, id {id}, {length} bytes");
                short += usize::from(taken);
            }
            assert!(short > 600, "case {case}: {short} of 2000 went a short way");
        }
    }
}
