//! What to do with the records of each event id: a plan, compiled once from the event's format text.
//! `decode` carries plans out, and `fast_decode` has a faster form of the four most frequent.

use crate::encoding::Encoding;
use crate::entry::{Entry, NameSlot, Plan, Slot};
use crate::fast_layout::Near;
use crate::format::{Field, Format, Place, identify};
use crate::mark;
use crate::states::States;
use schedlab_model::{Context, Kind, KindSet, OtherFormat};
use std::collections::BTreeSet;

/// Decodes the records of one trace. Shared by all its CPUs, and by threads.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    pub(crate) encoding: Encoding,
    pub(crate) states: States,
    pub(crate) flags_at: usize,
    pub(crate) pid_at: usize,
    /// By event id: the short way, where there is one.
    pub(crate) near: Vec<Near>,
    /// What the common flags say, by their byte.
    pub(crate) contexts: [Context; 256],
    /// Whether bodies of other tracepoints are kept, for `Spelling`.
    pub(crate) keeps: bool,
    /// Index into `entries` by event id.
    ids: Vec<u16>,
    entries: Vec<Entry>,
    /// Every tracepoint that may come out as [`What::Other`].
    others: Vec<OtherFormat>,
    kinds: KindSet,
}

impl Decoder {
    /// Compiles plans for all `formats` (system and text). Texts that cannot be read are passed over.
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
            near: Vec::new(),
            contexts: std::array::from_fn(|flags| context(flags as u8)),
            keeps: false,
            ids: Vec::new(),
            entries: vec![entry],
            others: vec![unknown],
            kinds: KindSet::EMPTY.with(Kind::Comm).with(Kind::Lost),
        };
        for (system, text) in formats {
            decoder.add(system, text);
        }
        decoder.near = decoder.nearby();
        decoder
    }

    /// The short ways: offsets are those of the formats, and what does not fit goes the long way.
    fn nearby(&self) -> Vec<Near> {
        let short = |index: &u16| {
            let entry = &self.entries[usize::from(*index)];
            let near = || Near::of(entry, self.pid_at, self.flags_at);
            (!self.encoding.big_endian).then(near).flatten().unwrap_or_default()
        };
        self.ids.iter().map(short).collect()
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
        let ours = matches!(system, "sched" | "task" | "cpuhp") || system == mark::SYSTEM;
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

    /// The same, but these of the scheduler's events come out as [`What::Other`]: for a further buffer that recorded
    /// them again.
    pub(crate) fn passing(&self, told: &BTreeSet<u16>) -> Self {
        let mut passing = self.clone();
        for entry in passing.entries.iter_mut().filter(|entry| told.contains(&entry.other)) {
            entry.plan = Plan::Other;
        }
        passing.near = passing.nearby();
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

    /// The kind of events that records of this id become; `None` for tracepoints beyond the scheduler's.
    pub(crate) fn kind_of(&self, id: u16) -> Option<Kind> {
        Some(match self.entry(id).plan {
            Plan::Switch { .. } => Kind::Switch,
            Plan::Waking { .. } => Kind::Waking,
            Plan::Wakeup { new: false, .. } => Kind::Wakeup,
            Plan::Wakeup { new: true, .. } => Kind::WakeupNew,
            Plan::Migrate { .. } => Kind::Migrate,
            Plan::Fork { .. } => Kind::Fork,
            Plan::Exec { .. } => Kind::Exec,
            Plan::Exit { .. } => Kind::Exit,
            _ => return None,
        })
    }

    /// The index among [`Self::others`] of the event that a record with this body is, if it is one of the scheduler's.
    pub(crate) fn sched(&self, body: &[u8]) -> Option<u16> {
        let entry = self.entry(self.encoding.u16(*body.first_chunk()?));
        let is_sched =
            !matches!(entry.plan, Plan::Other | Plan::Mark { .. } | Plan::Hotplug { .. });
        is_sched.then_some(entry.other)
    }

    /// What to do with records of this id.
    pub(crate) fn entry(&self, id: u16) -> &Entry {
        let index = self.ids.get(usize::from(id)).copied().unwrap_or(0);
        &self.entries[usize::from(index)]
    }
}

/// What a CPU was doing, by the common flags (`TRACE_FLAG_NMI`, `_HARDIRQ`, `_SOFTIRQ`).
fn context(flags: u8) -> Context {
    match flags {
        flags if flags & 0x58 == 0 => Context::Task,
        flags if flags & 0x40 != 0 => Context::Nmi,
        flags if flags & 0x08 != 0 => Context::HardIrq,
        _ => Context::SoftIrq,
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
            let pid = slot("pid")?;
            let prio = slot("prio")?;
            let cpu = slot("target_cpu")?;
            (Plan::Waking { pid, prio, cpu, comm: comm("comm") }, Kind::Waking)
        }
        ("sched", "sched_wakeup" | "sched_wakeup_new") => {
            let new = format.name == "sched_wakeup_new";
            let pid = slot("pid")?;
            let prio = slot("prio")?;
            let cpu = slot("target_cpu")?;
            let kind = if new { Kind::WakeupNew } else { Kind::Wakeup };
            let success = slot("success");
            (Plan::Wakeup { pid, prio, cpu, comm: comm("comm"), success, new }, kind)
        }
        ("sched", "sched_migrate_task") => {
            let pid = slot("pid")?;
            let from = slot("orig_cpu")?;
            let to = slot("dest_cpu")?;
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
            let pid = slot("pid")?;
            let mark = slot("mark")?;
            let phase = slot("phase")?;
            (Plan::Mark { pid, mark, phase, request: slot("request") }, Kind::Mark)
        }
        ("task", "task_rename") => {
            (Plan::Rename { pid: slot("pid")?, comm: comm("newcomm") }, Kind::Other)
        }
        ("cpuhp", "cpuhp_enter") => {
            (Plan::Hotplug { cpu: slot("cpu")?, target: slot("target")? }, Kind::Other)
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
