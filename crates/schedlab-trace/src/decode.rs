//! From a record's bytes to an event, by the plan of its id.
//!
//! The general path, for any field of any size in either byte order; `fast_decode` is the fast path.

use crate::encoding::Encoding;
use crate::entry::{Entry, NameSlot, Plan, Slot};
use crate::merge::{Batch, Out, append};
use crate::names::{self, Names};
use crate::plan::Decoder;
use schedlab_model::{Comm, Context, Cpu, Event, Left, Nanos, Phase, Pid, Prio, What};

/// When and where a record was logged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) time: u64,
    pub(crate) cpu: Cpu,
}

impl Decoder {
    /// Appends the events of one record to `out`.
    pub(crate) fn decode_to(
        &self,
        stamp: Stamp,
        body: &[u8],
        names: &mut Names,
        out: &mut Vec<Event>,
    ) {
        append(out, |batch| self.decode_any(stamp, body, names, batch));
    }

    /// Decodes one record into an event, and changes of name before it where there are some.
    #[inline(never)]
    pub(crate) fn decode_any(
        &self,
        stamp: Stamp,
        body: &[u8],
        names: &mut Names,
        batch: &mut Batch<'_>,
    ) {
        if self.encoding.big_endian {
            self.decode_as::<true>(stamp, body, names, batch);
        } else {
            self.decode_as::<false>(stamp, body, names, batch);
        }
    }

    /// The byte order is decided once a record, not once a field.
    fn decode_as<const BIG: bool>(
        &self,
        stamp: Stamp,
        body: &[u8],
        names: &mut Names,
        batch: &mut Batch<'_>,
    ) {
        let Some(id) = body.first_chunk::<2>() else { return };
        let entry = self.entry(order::<BIG>().u16(*id));
        let mut record = Decoding::<BIG> { decoder: self, body, stamp, names, batch };
        if body.len() < usize::from(entry.need) {
            return record.emit(What::Other { format: entry.other });
        }
        record.push(entry);
    }

    fn context(&self, body: &[u8]) -> Context {
        self.contexts[usize::from(body.get(self.flags_at).copied().unwrap_or(0))]
    }
}

/// How numbers are read; a constant in each instance.
const fn order<const BIG: bool>() -> Encoding {
    Encoding { big_endian: BIG, long: 8 }
}

/// A number of any size; those of 32 bits are signed.
fn load<const BIG: bool>(body: &[u8], slot: Slot) -> i64 {
    let rest = body.get(usize::from(slot.at)..).unwrap_or_default();
    let order = order::<BIG>();
    match slot.size {
        4 => i64::from(i32_at::<BIG>(body, usize::from(slot.at))),
        8 => rest.first_chunk::<8>().map_or(0, |bytes| order.u64(*bytes).cast_signed()),
        2 => rest.first_chunk::<2>().map_or(0, |bytes| i64::from(order.u16(*bytes).cast_signed())),
        _ => rest.first().map_or(0, |&byte| i64::from(byte)),
    }
}

fn i32_at<const BIG: bool>(body: &[u8], at: usize) -> i32 {
    body.get(at..)
        .and_then(|rest| rest.first_chunk::<4>())
        .map_or(0, |bytes| order::<BIG>().u32(*bytes).cast_signed())
}

fn name_at<const BIG: bool>(body: &[u8], slot: NameSlot) -> Option<Comm> {
    let range = match slot {
        NameSlot::Absent => return None,
        NameSlot::Fixed(at) => usize::from(at)..usize::from(at) + 16,
        NameSlot::Array(at, length) => usize::from(at)..usize::from(at) + usize::from(length),
        NameSlot::Elsewhere(at, base) => {
            let place = i32_at::<BIG>(body, usize::from(at)).cast_unsigned();
            let start = (place & 0xffff) as usize + usize::from(base);
            start..start + (place >> 16) as usize
        }
    };
    Some(names::comm(body.get(range)?))
}

/// One record on its way to events.
struct Decoding<'a, 'b, const BIG: bool> {
    decoder: &'a Decoder,
    body: &'a [u8],
    stamp: Stamp,
    names: &'a mut Names,
    batch: &'a mut Batch<'b>,
}

impl<const BIG: bool> Decoding<'_, '_, BIG> {
    fn push(&mut self, entry: &Entry) {
        match entry.plan {
            Plan::Switch { prev, prev_prio, prev_state, prev_comm, next, next_prio, next_comm } => {
                let prev = self.pid(prev);
                let next = self.pid(next);
                self.called(prev, prev_comm);
                self.called(next, next_comm);
                let prev_prio = self.prio(prev_prio);
                let next_prio = self.prio(next_prio);
                let left = self.left(prev_state);
                self.emit(What::Switch { prev, prev_prio, left, next, next_prio });
            }
            Plan::Waking { pid, prio, cpu, comm } => {
                let pid = self.pid(pid);
                self.called(pid, comm);
                let prio = self.prio(prio);
                let last_cpu = self.place(cpu);
                self.emit(What::Waking { pid, prio, last_cpu });
            }
            Plan::Wakeup { pid, prio, cpu, comm, success, new } => {
                // Old kernels log wakeups of tasks that were awake already.
                if success.is_some_and(|slot| load::<BIG>(self.body, slot) == 0) {
                    return self.emit(What::Other { format: entry.other });
                }
                let pid = self.pid(pid);
                self.called(pid, comm);
                let prio = self.prio(prio);
                let cpu = self.place(cpu);
                self.emit(What::Wakeup { pid, prio, cpu, new });
            }
            Plan::Migrate { pid, from, to, comm } => {
                let pid = self.pid(pid);
                self.called(pid, comm);
                let from = self.place(from);
                let to = self.place(to);
                self.emit(What::Migrate { pid, from, to });
            }
            _ => {
                let what = self.rare(entry);
                self.emit(what);
            }
        }
    }

    fn rare(&mut self, entry: &Entry) -> What {
        match entry.plan {
            Plan::Fork { child, comm } => {
                let child = self.pid(child);
                self.called(child, comm);
                What::Fork { child }
            }
            Plan::Exec { old } => What::Exec { old: self.pid(old) },
            Plan::Exit { pid, comm } => {
                let pid = self.pid(pid);
                self.called(pid, comm);
                What::Exit { pid }
            }
            Plan::Mark { pid, mark, phase, request } => {
                let phase = match load::<BIG>(self.body, phase) {
                    0 => Phase::Begin,
                    1 => Phase::End,
                    _ => Phase::Point,
                };
                let id = load::<BIG>(self.body, mark) as u32;
                let request = request.map_or(0, |slot| load::<BIG>(self.body, slot) as u32);
                What::Mark { pid: self.pid(pid), id, phase, request }
            }
            Plan::Rename { pid, comm } => {
                let pid = self.pid(pid);
                self.called(pid, comm);
                What::Other { format: entry.other }
            }
            Plan::Hotplug { cpu, target } => {
                let cpu = self.place(cpu);
                // State 0 is unplugged.
                self.emit(What::Online { cpu, online: load::<BIG>(self.body, target) > 0 });
                What::Other { format: entry.other }
            }
            _ => What::Other { format: entry.other },
        }
    }

    fn emit(&mut self, what: What) {
        let by = Pid(i32_at::<BIG>(self.body, self.decoder.pid_at));
        let context = self.decoder.context(self.body);
        let Stamp { time, cpu } = self.stamp;
        if self.decoder.keeps && matches!(what, What::Other { .. }) {
            self.batch.keep(self.body);
        }
        self.batch.put(Event { time: Nanos(time), by, cpu, context, what });
    }

    /// Makes an event of the task's name in the record, if the name changed.
    fn called(&mut self, pid: Pid, slot: NameSlot) {
        let Some(comm) = name_at::<BIG>(self.body, slot) else { return };
        if self.names.changed(pid, &comm) {
            self.renamed(pid, comm);
        }
    }

    #[cold]
    fn renamed(&mut self, pid: Pid, comm: Comm) {
        self.emit(What::Comm { pid, comm });
    }

    fn pid(&self, slot: Slot) -> Pid {
        Pid(load::<BIG>(self.body, slot) as i32)
    }

    fn prio(&self, slot: Slot) -> Prio {
        Prio(load::<BIG>(self.body, slot) as i16)
    }

    fn place(&self, slot: Slot) -> Cpu {
        Cpu(load::<BIG>(self.body, slot) as u16)
    }

    fn left(&self, slot: Slot) -> Left {
        self.decoder.states.left(load::<BIG>(self.body, slot).cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A format of the system `sched` with these fields: declaration, offset and size.
    fn format(name: &str, fields: &[(&str, u32, u32)]) -> String {
        let mut text = format!("name: {name}\nID: 7\nformat:\n");
        for (declaration, offset, size) in fields {
            text += &["\tfield:", declaration, ";\toffset:", &offset.to_string()].concat();
            text += &[";\tsize:", &size.to_string(), ";\tsigned:1;\n"].concat();
        }
        text + "\nprint fmt: \"\"\n"
    }

    /// What the record tells, whose head is that of event 7 by task 5 in a softirq.
    fn told(system: &str, text: &str, big_endian: bool, body: &[u8]) -> Vec<Event> {
        let encoding = Encoding { big_endian, long: 8 };
        let decoder = Decoder::new(encoding, [(system, text)].into_iter());
        let mut record = match big_endian {
            true => vec![0, 7, 0x10, 0, 0, 0, 0, 5],
            false => vec![7, 0, 0x10, 0, 5, 0, 0, 0],
        };
        record.extend(body);
        let (mut names, mut events) = (Names::default(), Vec::new());
        let stamp = Stamp { time: 99, cpu: Cpu(3) };
        decoder.decode_to(stamp, &record, &mut names, &mut events);
        events
    }

    fn what(name: &str, fields: &[(&str, u32, u32)], body: &[u8]) -> Vec<What> {
        let events = told("sched", &format(name, fields), false, body);
        events.into_iter().map(|event| event.what).collect()
    }

    #[test]
    fn numbers_have_the_size_that_the_format_says_in_either_byte_order() {
        let text = format(
            "sched_migrate_task",
            &[("long pid", 8, 8), ("short orig_cpu", 16, 2), ("char dest_cpu", 18, 1)],
        );
        let little = [0xf9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x34, 0x12, 200];
        let big = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf9, 0x12, 0x34, 200];
        let expected = What::Migrate { pid: Pid(-7), from: Cpu(0x1234), to: Cpu(200) };
        for (big_endian, body) in [(false, little), (true, big)] {
            let events = told("sched", &text, big_endian, &body);
            assert_eq!(events.len(), 1, "no name, no event of one");
            let event = events[0];
            assert_eq!((event.what, event.by, event.cpu), (expected, Pid(5), Cpu(3)));
            assert_eq!((event.time, event.context), (Nanos(99), Context::SoftIrq));
        }
    }

    #[test]
    fn a_name_lies_in_place_or_elsewhere_in_the_record() {
        let name = |declaration, size, body: &[u8]| {
            let fields = [("pid_t pid", 8, 4), ("int prio", 12, 4), (declaration, 16, size)];
            let whats =
                what("sched_process_exit", &fields, &[&[9, 0, 0, 0, 120, 0, 0, 0], body].concat());
            match whats[..] {
                [What::Comm { pid: Pid(9), comm }, What::Exit { pid: Pid(9) }] => Some(comm),
                [What::Exit { pid: Pid(9) }] => None,
                _ => panic!("{whats:?}"),
            }
        };
        let worker = Some(names::comm(b"worker"));
        assert_eq!(name("char comm[16]", 16, b"worker\0\0\0\0\0\0\0\0\0\0"), worker);
        assert_eq!(name("char comm[8]", 8, b"worker\0\0"), worker);
        // Seven bytes at 20, or 4 behind the field itself.
        let place = |offset: u8| [&[offset, 0, 7, 0][..], b"worker\0"].concat();
        assert_eq!(name("__data_loc char[] comm", 4, &place(20)), worker);
        assert_eq!(name("__rel_loc char[] comm", 4, &place(0)), worker);
        assert_eq!(name("__data_loc char[] comm", 4, &place(21)), None, "it is cut");
    }

    #[test]
    fn a_record_shorter_than_its_format_is_only_counted() {
        let fields = [("pid_t pid", 8, 4), ("int orig_cpu", 12, 4), ("int dest_cpu", 16, 4)];
        let whole = what("sched_migrate_task", &fields, &[9, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(whole, [What::Migrate { pid: Pid(9), from: Cpu(1), to: Cpu(2) }]);
        let cut = what("sched_migrate_task", &fields, &[9, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0]);
        assert_eq!(cut, [What::Other { format: 1 }]);
    }

    #[test]
    fn a_wakeup_without_effect_is_only_counted() {
        let fields = [
            ("pid_t pid", 8, 4),
            ("int prio", 12, 4),
            ("int success", 16, 4),
            ("int target_cpu", 20, 4),
        ];
        let woken = |success| {
            what("sched_wakeup", &fields, &[9, 0, 0, 0, 99, 0, 0, 0, success, 0, 0, 0, 2, 0, 0, 0])
        };
        let wakeup = What::Wakeup { pid: Pid(9), prio: Prio(99), cpu: Cpu(2), new: false };
        assert_eq!((woken(1), woken(0)), (vec![wakeup], vec![What::Other { format: 1 }]));
    }

    #[test]
    fn tasks_are_created_replaced_and_renamed() {
        let nine = [9, 0, 0, 0];
        let fork = what("sched_process_fork", &[("pid_t child_pid", 8, 4)], &nine);
        assert_eq!(fork, [What::Fork { child: Pid(9) }]);
        let exec = what("sched_process_exec", &[("pid_t old_pid", 8, 4)], &nine);
        assert_eq!(exec, [What::Exec { old: Pid(9) }]);
        let fields = [("pid_t pid", 8, 4), ("char newcomm[16]", 12, 16)];
        let body = [&nine[..], &names::comm(b"new")].concat();
        let renamed = told("task", &format("task_rename", &fields), false, &body);
        let whats: Vec<What> = renamed.iter().map(|event| event.what).collect();
        let comm = What::Comm { pid: Pid(9), comm: names::comm(b"new") };
        assert_eq!(whats, [comm, What::Other { format: 1 }]);
    }

    #[test]
    fn a_mark_has_a_phase_and_may_have_a_request() {
        let mark = |phase: u8, request: bool| {
            let mut text = crate::mark::format_text(7, &["load".into()]);
            if !request {
                // Recordings of earlier versions have none.
                text = text.replace(" request;", " other;");
            }
            let body = crate::mark::body(7, Pid(5), Pid(6), 1, Phase::Begin, 9);
            let mut body = body[8..].to_vec();
            body[8] = phase;
            told(crate::mark::SYSTEM, &text, false, &body)[0].what
        };
        let expected = |phase, request| What::Mark { pid: Pid(6), id: 1, phase, request };
        let phases = [0, 1, 2, 7].map(|phase| mark(phase, true));
        let [begin, end, point] = [Phase::Begin, Phase::End, Phase::Point];
        assert_eq!(phases, [begin, end, point, point].map(|phase| expected(phase, 9)));
        assert_eq!(mark(0, false), expected(begin, 0));
    }
}
