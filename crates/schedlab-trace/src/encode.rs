//! From events back to records, for sources that have no records: texts, Perfetto, a simulator.
//!
//! The formats are our own spelling of the kernel's tracepoints (same systems, names and fields), so
//! that every reader of the target knows them. Tracepoints of which only the name is known get a
//! format with the common fields alone.

mod packed;
mod task_comms;

use crate::dat::SHORT;
use crate::mark;
pub(crate) use packed::{BYTES, Entry, Packed};
use schedlab_model::{Comm, Event, Left, OtherFormat, Pid, Prio, TraceInfo, What};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use task_comms::TaskComms;

/// Event ids of our formats.
const SWITCH: u16 = 300;
const WAKING: u16 = 301;
const WAKEUP: u16 = 302;
const WAKEUP_NEW: u16 = 303;
const MIGRATE: u16 = 304;
const FORK: u16 = 305;
const EXEC: u16 = 306;
const EXIT: u16 = 307;
const RENAME: u16 = 308;
const MARK: u16 = 309;
/// The first id of tracepoints of which only the name is known.
const OTHERS: u16 = 1000;

/// The priority of tasks of which none is known.
const NORMAL: [i16; 2] = [Prio::NORMAL.0, 0];

const LETTERS: &str = "{ 0x1, \"S\" }, { 0x2, \"D\" }, { 0x4, \"T\" }, { 0x8, \"t\" }, { 0x10, \"X\" }, \
    { 0x20, \"Z\" }, { 0x40, \"P\" }, { 0x80, \"I\" }";

/// Writes events as bodies of records.
pub(crate) struct Encoder {
    formats: Vec<(String, String)>,
    others: Vec<OtherFormat>,
    comms: TaskComms,
    /// The body of the record that was asked for last.
    body: Vec<u8>,
}

impl Encoder {
    /// For the events of a source with this `info`.
    #[must_use]
    pub(crate) fn new(info: &TraceInfo) -> Self {
        let mut formats = kernel_formats();
        formats.push((mark::SYSTEM.into(), mark::format_text(MARK, &info.marks)));
        let comms = TaskComms::new(info.comms.clone());
        let others = Vec::new();
        let body = Vec::new();
        let mut encoder = Self { formats, others, comms, body };
        encoder.learn(&info.others);
        encoder
    }

    /// System and text of the formats of all records that were written so far: streams learn
    /// tracepoints on the way, so ask at the end.
    #[must_use]
    pub(crate) fn formats(&self) -> &[(String, String)] {
        &self.formats
    }

    /// Adds formats for tracepoints beyond those known.
    pub(crate) fn learn(&mut self, others: &[OtherFormat]) {
        for other in others.iter().skip(self.others.len()) {
            let id = OTHERS.saturating_add(u16::try_from(self.others.len()).unwrap_or(u16::MAX));
            self.formats.push((
                other.system.clone(),
                text(&other.name, id, ARGUMENTS, "\"%s\", __get_str(arguments)"),
            ));
            self.others.push(other.clone());
        }
    }

    /// The names of tasks as of the last event.
    #[must_use]
    pub(crate) fn comms(&self) -> &BTreeMap<Pid, Comm> {
        self.comms.all()
    }

    /// A task's name from now on, without a record.
    pub(crate) fn call(&mut self, pid: Pid, comm: Comm) {
        self.comms.insert(pid, comm);
    }

    /// The body of an event's record (little-endian, 64-bit); `None` for what is no record: a loss,
    /// and a task's first name.
    pub(crate) fn body(&mut self, event: &Event) -> Option<&[u8]> {
        let packed = self.pack(event, "")?;
        Some(self.body_of(packed, &[]))
    }

    /// What the body of an event's record will say; `None` for what is no record. The arguments of a tracepoint beyond
    /// the scheduler's are a text of at most 64 KiB.
    #[inline(always)]
    pub(crate) fn pack(&mut self, event: &Event, arguments: &str) -> Option<Packed> {
        let comms = &mut self.comms;
        let packed = |id| Packed::by(event, id);
        Some(match event.what {
            What::Switch { prev, prev_prio, left, next, next_prio } => Packed {
                how: packed::state_to_byte(state(left)),
                first: comms.number(prev),
                second: comms.number(next),
                prios: [prev_prio.0, next_prio.0],
                ..packed(SWITCH)
            },
            What::Waking { pid, prio, last_cpu } => Packed {
                first: comms.number(pid),
                second: last_cpu.0.into(),
                prios: [prio.0, 0],
                ..packed(WAKING)
            },
            What::Wakeup { pid, prio, cpu, new } => Packed {
                first: comms.number(pid),
                second: cpu.0.into(),
                prios: [prio.0, 0],
                ..packed(if new { WAKEUP_NEW } else { WAKEUP })
            },
            What::Mark { pid, id, phase, request } => packed(MARK).mark(pid, id, phase, request),
            _ => return self.pack_seldom(event, arguments),
        })
    }

    /// The same for events of which there are few.
    fn pack_seldom(&mut self, event: &Event, arguments: &str) -> Option<Packed> {
        let comms = &mut self.comms;
        let packed = |id| Packed::by(event, id);
        Some(match event.what {
            What::Migrate { pid, from, to } => Packed {
                first: comms.number(pid),
                second: u32::from(from.0) << 16 | u32::from(to.0),
                prios: NORMAL,
                ..packed(MIGRATE)
            },
            What::Fork { child } => Packed {
                first: comms.number(event.by),
                second: comms.number(child),
                ..packed(FORK)
            },
            What::Exec { old } => Packed {
                first: comms.number(event.by),
                second: old.0.cast_unsigned(),
                ..packed(EXEC)
            },
            What::Exit { pid } => {
                Packed { first: comms.number(pid), prios: NORMAL, ..packed(EXIT) }
            }
            What::Comm { pid, comm } => {
                let first = comms.number(pid);
                // The first name of a task is in the records around it.
                comms.insert(pid, comm)?;
                Packed { first, second: comms.number(pid), ..packed(RENAME) }
            }
            What::Other { format } => {
                // With the final zero.
                let length = u16::try_from(arguments.len() + 1).unwrap_or(u16::MAX);
                Packed { first: length.into(), ..packed(OTHERS.saturating_add(format)) }
            }
            _ => return None,
        })
    }

    /// The body of a record; `text` are the arguments with which it was packed.
    pub(crate) fn body_of(&mut self, packed: Packed, text: &[u8]) -> &[u8] {
        let mut fixed = [0; SHORT];
        self.write(packed, &mut fixed);
        self.body.clear();
        if packed.is_short() {
            self.body.extend_from_slice(&fixed[..packed.length()]);
        } else {
            self.body.extend_from_slice(&fixed[..12]);
            self.body.extend_from_slice(text);
            self.body.push(0);
        }
        &self.body
    }

    /// Writes the body of a record, up to its text. Fields at known places are plain stores.
    #[inline(always)]
    pub(crate) fn write(&self, packed: Packed, body: &mut [u8; SHORT]) {
        let comms = &self.comms;
        let [one, other] = packed.prios;
        let first = packed.first;
        let second = packed.second.cast_signed();
        put(body, 0, packed.head());
        match packed.id {
            SWITCH => {
                task(body, 8, comms.named(first), one);
                put(body, 32, packed::byte_to_state(packed.how).to_le_bytes());
                task(body, 40, comms.named(packed.second), other);
            }
            WAKING | WAKEUP | WAKEUP_NEW => {
                task(body, 8, comms.named(first), one);
                int(body, 32, second);
            }
            MARK => {
                let (pid, (mark, phase, request)) = packed.as_mark();
                put(body, 0, mark::body(MARK, packed.current(), pid, mark, phase, request));
            }
            MIGRATE => {
                task(body, 8, comms.named(first), one);
                int(body, 32, second >> 16 & 0xffff);
                int(body, 36, second & 0xffff);
            }
            FORK => {
                named(body, 8, comms.named(first));
                named(body, 28, comms.named(packed.second));
            }
            EXEC => {
                named(body, 8, comms.named(first));
                int(body, 28, second);
            }
            EXIT => task(body, 8, comms.named(first), one),
            RENAME => {
                let (pid, before) = comms.named(first);
                let (_, after) = comms.named(packed.second);
                int(body, 8, pid.0);
                put(body, 12, before);
                put(body, 28, after);
            }
            // A dynamic text: its length with the final zero, and where it stands.
            _ => put(body, 8, (first << 16 | 12).to_le_bytes()),
        }
    }
}

/// Puts a field at its place.
#[inline]
fn put<const N: usize>(body: &mut [u8; SHORT], at: usize, bytes: [u8; N]) {
    body[at..at + N].copy_from_slice(&bytes);
}

#[inline]
fn int(body: &mut [u8; SHORT], at: usize, value: i32) {
    put(body, at, value.to_le_bytes());
}

/// A task's name and pid: 20 bytes.
#[inline]
fn named(body: &mut [u8; SHORT], at: usize, (pid, comm): (Pid, Comm)) {
    put(body, at, comm);
    int(body, at + 16, pid.0);
}

/// A task's name, pid and priority: 24 bytes.
#[inline]
fn task(body: &mut [u8; SHORT], at: usize, of: (Pid, Comm), prio: i16) {
    named(body, at, of);
    int(body, at + 20, prio.into());
}

/// `prev_state` as kernels since 4.14 count it.
pub(crate) fn state(left: Left) -> u64 {
    match left {
        Left::Preempted => 0x100,
        Left::Displaced => 0,
        Left::Slept | Left::Other => 1,
        Left::Blocked => 2,
        Left::Stopped => 4,
        Left::Traced => 8,
        Left::Dead => 0x10,
        Left::Parked => 0x40,
        Left::IdleSleep => 0x80,
    }
}

/// Of tracepoints beyond the scheduler's only a text is known.
const ARGUMENTS: Fields<'_> = &[("__data_loc char[] arguments", 4)];

/// A field's C declaration and its size; offsets follow from their order.
type Fields<'a> = &'a [(&'a str, u32)];

fn kernel_formats() -> Vec<(String, String)> {
    let comm = ("char comm[16]", 16);
    let pid = ("pid_t pid", 4);
    let prio = ("int prio", 4);
    let task = "comm=%s pid=%d prio=%d";
    let args = "REC->comm, REC->pid, REC->prio";
    let woken = [comm, pid, prio, ("int target_cpu", 4)];
    let wakeup = format!("\"{task} target_cpu=%03d\", {args}, REC->target_cpu");
    let switch = format!(
        "\"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d \
         next_prio=%d\", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & 0xff) ? \
         __print_flags(REC->prev_state & 0xff, \"|\", {LETTERS}) : \"R\", REC->prev_state & 0x100 ? \
         \"+\" : \"\", REC->next_comm, REC->next_pid, REC->next_prio"
    );
    let sched = [
        text(
            "sched_switch",
            SWITCH,
            &[
                ("char prev_comm[16]", 16),
                ("pid_t prev_pid", 4),
                ("int prev_prio", 4),
                ("long prev_state", 8),
                ("char next_comm[16]", 16),
                ("pid_t next_pid", 4),
                ("int next_prio", 4),
            ],
            &switch,
        ),
        text("sched_waking", WAKING, &woken, &wakeup),
        text("sched_wakeup", WAKEUP, &woken, &wakeup),
        text("sched_wakeup_new", WAKEUP_NEW, &woken, &wakeup),
        text(
            "sched_migrate_task",
            MIGRATE,
            &[comm, pid, prio, ("int orig_cpu", 4), ("int dest_cpu", 4)],
            &format!("\"{task} orig_cpu=%d dest_cpu=%d\", {args}, REC->orig_cpu, REC->dest_cpu"),
        ),
        text(
            "sched_process_fork",
            FORK,
            &[
                ("char parent_comm[16]", 16),
                ("pid_t parent_pid", 4),
                ("char child_comm[16]", 16),
                ("pid_t child_pid", 4),
            ],
            "\"comm=%s pid=%d child_comm=%s child_pid=%d\", REC->parent_comm, REC->parent_pid, \
             REC->child_comm, REC->child_pid",
        ),
        text(
            "sched_process_exec",
            EXEC,
            &[("char filename[16]", 16), pid, ("pid_t old_pid", 4)],
            "\"filename=%s pid=%d old_pid=%d\", REC->filename, REC->pid, REC->old_pid",
        ),
        text("sched_process_exit", EXIT, &[comm, pid, prio], &format!("\"{task}\", {args}")),
    ];
    let mut formats: Vec<_> = sched.into_iter().map(|text| ("sched".to_owned(), text)).collect();
    let rename = text(
        "task_rename",
        RENAME,
        &[pid, ("char oldcomm[16]", 16), ("char newcomm[16]", 16)],
        "\"pid=%d oldcomm=%s newcomm=%s\", REC->pid, REC->oldcomm, REC->newcomm",
    );
    formats.push(("task".to_owned(), rename));
    formats
}

fn text(name: &str, id: u16, fields: Fields<'_>, print: &str) -> String {
    let mut text = format!(
        "name: {name}\nID: {id}\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    );
    let mut offset = 8;
    for (declaration, size) in fields {
        let signed = u8::from(!declaration.starts_with("char"));
        let _ = writeln!(
            text,
            "\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
        );
        offset += size;
    }
    let _ = write!(text, "\nprint fmt: {print}\n");
    text
}
