//! From a record's bytes to an event: a plan for each event id, compiled once from its format.
//!
//! Resource sketch: a record of `sched_switch` is one table look-up for its id, eight loads and two
//! comparisons of names; about 10 ns, so that reading stays bound by the merge and by memory.

use crate::encoding::Encoding;
use crate::format::{Field, Format, Place, identify};
use crate::mark;
use crate::names::{self, Recent};
use crate::states::States;
use schedlab_model::{
    Context, Cpu, Event, Kind, KindSet, Left, Nanos, OtherFormat, Phase, Pid, Prio, What,
};

/// A number in a record.
#[derive(Clone, Copy, Debug)]
struct Slot {
    at: u16,
    size: u8,
}

/// A task's name in a record.
#[derive(Clone, Copy, Debug)]
enum NameSlot {
    /// 16 bytes in place.
    Fixed(u16),
    /// Fewer or more bytes in place.
    Array(u16, u16),
    /// A number at `.0` says where; `.1` is added to the offset that it gives.
    Elsewhere(u16, u16),
    /// The format has none.
    Absent,
}

/// What to do with records of one event id.
#[derive(Clone, Copy, Debug)]
enum Plan {
    Switch {
        prev: Slot,
        prev_prio: Slot,
        prev_state: Slot,
        prev_comm: NameSlot,
        next: Slot,
        next_prio: Slot,
        next_comm: NameSlot,
    },
    Waking {
        pid: Slot,
        prio: Slot,
        cpu: Slot,
        comm: NameSlot,
    },
    Wakeup {
        pid: Slot,
        prio: Slot,
        cpu: Slot,
        comm: NameSlot,
        success: Option<Slot>,
        new: bool,
    },
    Migrate {
        pid: Slot,
        from: Slot,
        to: Slot,
        comm: NameSlot,
    },
    Fork {
        child: Slot,
        comm: NameSlot,
    },
    Exec {
        old: Slot,
    },
    Exit {
        pid: Slot,
        comm: NameSlot,
    },
    Mark {
        pid: Slot,
        mark: Slot,
        phase: Slot,
    },
    Rename {
        pid: Slot,
        comm: NameSlot,
    },
    Other,
}

/// A plan, how long a record must be for it, and its place in [`Decoder::others`].
#[derive(Clone, Copy, Debug)]
struct Entry {
    plan: Plan,
    need: u16,
    other: u16,
}

/// Decodes the records of one trace. Shared by all its CPUs, and by threads.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    encoding: Encoding,
    states: States,
    flags_at: usize,
    pid_at: usize,
    /// Index into `entries` by event id.
    ids: Vec<u16>,
    entries: Vec<Entry>,
    /// Every tracepoint that may come out as [`What::Other`].
    others: Vec<OtherFormat>,
    kinds: KindSet,
}

impl Decoder {
    /// Compiles plans for all `formats` (system and text). Texts that can't be read are passed over.
    pub(crate) fn new<'a>(
        encoding: Encoding,
        formats: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let unknown = OtherFormat { system: "unknown".into(), name: "unknown".into() };
        let entry = Entry { plan: Plan::Other, need: 8, other: 0 };
        let mut decoder = Self {
            encoding,
            states: States::parse(""),
            flags_at: 2,
            pid_at: 4,
            ids: Vec::new(),
            entries: vec![entry],
            others: vec![unknown],
            kinds: KindSet::EMPTY.with(Kind::Comm).with(Kind::Lost),
        };
        for (system, text) in formats {
            decoder.add(system, text);
        }
        decoder
    }

    fn add(&mut self, system: &str, text: &str) {
        let Some((name, id)) = identify(text) else { return };
        let (Ok(index), Ok(other)) =
            (u16::try_from(self.entries.len()), u16::try_from(self.others.len()))
        else {
            return;
        };
        self.others.push(OtherFormat { system: system.to_owned(), name: name.to_owned() });
        let mut entry = Entry { plan: Plan::Other, need: 8, other };
        let ours = matches!(system, "sched" | "task") || system == mark::SYSTEM;
        if let Some(format) = ours.then(|| Format::parse(system, text)).flatten() {
            if let Some((plan, need, kind)) = compile(&format) {
                entry = Entry { plan, need, other };
                self.kinds = self.kinds.with(kind);
            }
            if name == "sched_switch" {
                self.states = States::parse(&format.print);
            }
            let at = |name: &str| Some(format.field(name)?.offset as usize);
            self.flags_at = at("common_flags").unwrap_or(2).min(64);
            self.pid_at = at("common_pid").unwrap_or(4).min(64);
        }
        if matches!(entry.plan, Plan::Other) {
            self.kinds = self.kinds.with(Kind::Other);
        }
        if usize::from(id) >= self.ids.len() {
            self.ids.resize(usize::from(id) + 1, 0);
        }
        self.ids[usize::from(id)] = index;
        self.entries.push(entry);
    }

    /// The same, but the scheduler's events come out as [`What::Other`]: for a second buffer that
    /// recorded them again.
    pub(crate) fn passing(&self) -> Self {
        let mut passing = self.clone();
        for entry in &mut passing.entries {
            if !matches!(entry.plan, Plan::Mark { .. }) {
                entry.plan = Plan::Other;
            }
        }
        passing
    }

    /// The tracepoints that [`What::Other`] refers to; index 0 stands for ids without a format.
    pub(crate) fn others(&self) -> &[OtherFormat] {
        &self.others
    }

    /// The kinds that the formats allow.
    pub(crate) fn kinds(&self) -> KindSet {
        self.kinds
    }

    /// Whether a record with this body is one of the scheduler's kinds.
    pub(crate) fn is_sched(&self, body: &[u8]) -> bool {
        let Some(id) = body.first_chunk::<2>() else { return false };
        let index = self.ids.get(usize::from(self.encoding.u16(*id))).copied().unwrap_or(0);
        !matches!(self.entries[usize::from(index)].plan, Plan::Other | Plan::Mark { .. })
    }

    /// Decodes one record into an event, and a change of name before it where there is one.
    #[inline]
    pub(crate) fn decode(
        &self,
        time: u64,
        cpu: Cpu,
        body: &[u8],
        names: &mut Recent,
        out: &mut Vec<Event>,
    ) {
        if self.encoding.big_endian {
            self.decode_as::<true>(time, cpu, body, names, out);
        } else {
            self.decode_as::<false>(time, cpu, body, names, out);
        }
    }

    /// The byte order is decided once a record, not once a field.
    #[inline]
    fn decode_as<const BIG: bool>(
        &self,
        time: u64,
        cpu: Cpu,
        body: &[u8],
        names: &mut Recent,
        out: &mut Vec<Event>,
    ) {
        let Some(id) = body.first_chunk::<2>() else { return };
        let id = usize::from(order::<BIG>().u16(*id));
        let entry = &self.entries[usize::from(self.ids.get(id).copied().unwrap_or(0))];
        let mut record = Decoding::<BIG> { decoder: self, body, time, cpu, names, out };
        if body.len() < usize::from(entry.need) {
            return record.emit_rare(What::Other { format: entry.other });
        }
        record.push(entry);
    }

    #[inline]
    fn context(&self, body: &[u8]) -> Context {
        match body.get(self.flags_at).copied().unwrap_or(0) {
            flags if flags & 0x58 == 0 => Context::Task,
            flags if flags & 0x40 != 0 => Context::Nmi,
            flags if flags & 0x08 != 0 => Context::HardIrq,
            _ => Context::SoftIrq,
        }
    }
}

/// How numbers are read; a constant in each instance.
#[inline]
const fn order<const BIG: bool>() -> Encoding {
    Encoding { big_endian: BIG, long: 8 }
}

/// Nearly all numbers have 32 bits; the others stay out of line, so that decoding is short.
#[inline]
fn load<const BIG: bool>(body: &[u8], slot: Slot) -> i64 {
    if slot.size == 4 {
        return i64::from(i32_at::<BIG>(body, usize::from(slot.at)));
    }
    load_other::<BIG>(body, slot)
}

#[inline(never)]
fn load_other<const BIG: bool>(body: &[u8], slot: Slot) -> i64 {
    let rest = body.get(usize::from(slot.at)..).unwrap_or_default();
    let order = order::<BIG>();
    match slot.size {
        8 => rest.first_chunk::<8>().map_or(0, |bytes| order.u64(*bytes).cast_signed()),
        2 => rest.first_chunk::<2>().map_or(0, |bytes| i64::from(order.u16(*bytes).cast_signed())),
        _ => rest.first().map_or(0, |&byte| i64::from(byte)),
    }
}

/// A `long` of a 64-bit kernel, or whatever else the state is.
#[inline]
fn load_state<const BIG: bool>(body: &[u8], slot: Slot) -> u64 {
    if slot.size == 8 {
        let bytes = body.get(usize::from(slot.at)..).and_then(|rest| rest.first_chunk::<8>());
        return bytes.map_or(0, |bytes| order::<BIG>().u64(*bytes));
    }
    load::<BIG>(body, slot).cast_unsigned()
}

#[inline]
fn i32_at<const BIG: bool>(body: &[u8], at: usize) -> i32 {
    body.get(at..)
        .and_then(|rest| rest.first_chunk::<4>())
        .map_or(0, |bytes| order::<BIG>().u32(*bytes).cast_signed())
}

#[inline]
fn name_at<const BIG: bool>(body: &[u8], slot: NameSlot) -> Option<u128> {
    if let NameSlot::Fixed(at) = slot {
        let bytes = body.get(usize::from(at)..)?.first_chunk::<16>()?;
        return Some(u128::from_le_bytes(*bytes));
    }
    name_elsewhere::<BIG>(body, slot)
}

#[inline(never)]
fn name_elsewhere<const BIG: bool>(body: &[u8], slot: NameSlot) -> Option<u128> {
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
    Some(u128::from_le_bytes(names::comm(body.get(range)?)))
}

/// One record on its way to events.
struct Decoding<'a, const BIG: bool> {
    decoder: &'a Decoder,
    body: &'a [u8],
    time: u64,
    cpu: Cpu,
    names: &'a mut Recent,
    out: &'a mut Vec<Event>,
}

impl<const BIG: bool> Decoding<'_, BIG> {
    /// Each kind is emitted in its own arm: the fields then go from registers to where the event
    /// lies. Built elsewhere first and copied, each event waits for its own small stores, which
    /// costs as much as all the rest.
    #[inline]
    fn push(&mut self, entry: &Entry) {
        match entry.plan {
            Plan::Switch { prev, prev_prio, prev_state, prev_comm, next, next_prio, next_comm } => {
                let (prev, next) = (self.pid(prev), self.pid(next));
                self.called(prev, prev_comm);
                self.called(next, next_comm);
                let (prev_prio, next_prio) = (self.prio(prev_prio), self.prio(next_prio));
                let left = self.left(prev_state);
                self.emit(What::Switch { prev, prev_prio, left, next, next_prio });
            }
            Plan::Waking { pid, prio, cpu, comm } => {
                let pid = self.pid(pid);
                self.called(pid, comm);
                let (prio, last_cpu) = (self.prio(prio), self.place(cpu));
                self.emit(What::Waking { pid, prio, last_cpu });
            }
            Plan::Wakeup { pid, prio, cpu, comm, success, new } => {
                // Old kernels log wakeups of tasks that were awake already.
                if success.is_some_and(|slot| load::<BIG>(self.body, slot) == 0) {
                    return self.emit_rare(What::Other { format: entry.other });
                }
                let pid = self.pid(pid);
                self.called(pid, comm);
                let (prio, cpu) = (self.prio(prio), self.place(cpu));
                self.emit(What::Wakeup { pid, prio, cpu, new });
            }
            Plan::Migrate { pid, from, to, comm } => {
                let pid = self.pid(pid);
                self.called(pid, comm);
                let (from, to) = (self.place(from), self.place(to));
                self.emit(What::Migrate { pid, from, to });
            }
            _ => {
                let what = self.rare(entry);
                self.emit_rare(what);
            }
        }
    }

    #[inline(never)]
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
            Plan::Mark { pid, mark, phase } => {
                let phase = match load::<BIG>(self.body, phase) {
                    0 => Phase::Begin,
                    1 => Phase::End,
                    _ => Phase::Point,
                };
                let id = load::<BIG>(self.body, mark) as u32;
                What::Mark { pid: self.pid(pid), id, phase }
            }
            Plan::Rename { pid, comm } => {
                let pid = self.pid(pid);
                self.called(pid, comm);
                What::Other { format: entry.other }
            }
            _ => What::Other { format: entry.other },
        }
    }

    #[inline(never)]
    fn emit_rare(&mut self, what: What) {
        self.emit(what);
    }

    #[inline(always)]
    fn emit(&mut self, what: What) {
        let by = Pid(i32_at::<BIG>(self.body, self.decoder.pid_at));
        let context = self.decoder.context(self.body);
        self.out.push(Event { time: Nanos(self.time), by, cpu: self.cpu, context, what });
    }

    /// A task's name stands in the record: an event of its own when it is news.
    #[inline]
    fn called(&mut self, pid: Pid, slot: NameSlot) {
        let Some(comm) = name_at::<BIG>(self.body, slot) else { return };
        if self.names.changed(pid, comm) {
            self.renamed(pid, comm);
        }
    }

    #[cold]
    fn renamed(&mut self, pid: Pid, comm: u128) {
        let comm = names::clean(comm).to_le_bytes();
        self.emit(What::Comm { pid, comm });
    }

    #[inline]
    fn pid(&self, slot: Slot) -> Pid {
        Pid(load::<BIG>(self.body, slot) as i32)
    }

    #[inline]
    fn prio(&self, slot: Slot) -> Prio {
        Prio(load::<BIG>(self.body, slot) as i16)
    }

    #[inline]
    fn place(&self, slot: Slot) -> Cpu {
        Cpu(load::<BIG>(self.body, slot) as u16)
    }

    #[inline]
    fn left(&self, slot: Slot) -> Left {
        self.decoder.states.left(load_state::<BIG>(self.body, slot))
    }
}

/// The plan of a format, how long its records must be, and the kind that comes out; `None` when it is
/// none of the scheduler's or lacks a field that its event needs.
fn compile(format: &Format) -> Option<(Plan, u16, Kind)> {
    let mut need = 8u32;
    let mut slot = |name: &str| -> Option<Slot> {
        let field = format.field(name)?;
        let size = u8::try_from(field.size).ok().filter(|size| matches!(size, 1 | 2 | 4 | 8))?;
        need = need.max(field.offset.checked_add(field.size)?);
        Some(Slot { at: u16::try_from(field.offset).ok()?, size })
    };
    let comm = |name: &str| format.field(name).map_or(NameSlot::Absent, name_slot);
    let (plan, kind) = match (format.system.as_str(), format.name.as_str()) {
        ("sched", "sched_switch") => (
            Plan::Switch {
                prev: slot("prev_pid")?,
                prev_prio: slot("prev_prio")?,
                prev_state: slot("prev_state")?,
                prev_comm: comm("prev_comm"),
                next: slot("next_pid")?,
                next_prio: slot("next_prio")?,
                next_comm: comm("next_comm"),
            },
            Kind::Switch,
        ),
        ("sched", "sched_waking") => {
            let (pid, prio, cpu) = (slot("pid")?, slot("prio")?, slot("target_cpu")?);
            (Plan::Waking { pid, prio, cpu, comm: comm("comm") }, Kind::Waking)
        }
        ("sched", "sched_wakeup" | "sched_wakeup_new") => {
            let new = format.name == "sched_wakeup_new";
            let (pid, prio, cpu) = (slot("pid")?, slot("prio")?, slot("target_cpu")?);
            let kind = if new { Kind::WakeupNew } else { Kind::Wakeup };
            let success = slot("success");
            (Plan::Wakeup { pid, prio, cpu, comm: comm("comm"), success, new }, kind)
        }
        ("sched", "sched_migrate_task") => {
            let (pid, from, to) = (slot("pid")?, slot("orig_cpu")?, slot("dest_cpu")?);
            (Plan::Migrate { pid, from, to, comm: comm("comm") }, Kind::Migrate)
        }
        ("sched", "sched_process_fork") => {
            (Plan::Fork { child: slot("child_pid")?, comm: comm("child_comm") }, Kind::Fork)
        }
        ("sched", "sched_process_exec") => (Plan::Exec { old: slot("old_pid")? }, Kind::Exec),
        ("sched", "sched_process_exit") => {
            (Plan::Exit { pid: slot("pid")?, comm: comm("comm") }, Kind::Exit)
        }
        (mark::SYSTEM, mark::NAME) => {
            let (pid, mark, phase) = (slot("pid")?, slot("mark")?, slot("phase")?);
            (Plan::Mark { pid, mark, phase }, Kind::Mark)
        }
        ("task", "task_rename") => {
            (Plan::Rename { pid: slot("pid")?, comm: comm("newcomm") }, Kind::Other)
        }
        _ => return None,
    };
    Some((plan, u16::try_from(need).ok()?, kind))
}

fn name_slot(field: &Field) -> NameSlot {
    let Ok(at) = u16::try_from(field.offset) else { return NameSlot::Absent };
    match field.place {
        Place::Inline if field.size == 16 => NameSlot::Fixed(at),
        Place::Inline => u16::try_from(field.size)
            .ok()
            .and_then(|size| at.checked_add(size).map(|_| size))
            .map_or(NameSlot::Absent, |size| NameSlot::Array(at, size)),
        Place::DataLoc => NameSlot::Elsewhere(at, 0),
        Place::RelLoc => NameSlot::Elsewhere(at, at.saturating_add(4)),
    }
}
