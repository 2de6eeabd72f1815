//! From events back to records, for sources that have no records: texts, Perfetto, a simulator.
//!
//! The formats are our own spelling of the kernel's tracepoints (same systems, names and fields), so
//! that every reader of the target knows them. Tracepoints of which only the name is known get a
//! format with the common fields alone.

mod task_comms;

use crate::mark;
use schedlab_model::{Comm, Context, Event, Left, OtherFormat, Pid, Prio, TraceInfo, What};
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

const LETTERS: &str = "{ 0x1, \"S\" }, { 0x2, \"D\" }, { 0x4, \"T\" }, { 0x8, \"t\" }, { 0x10, \"X\" }, \
    { 0x20, \"Z\" }, { 0x40, \"P\" }, { 0x80, \"I\" }";

/// Writes events as bodies of records.
pub struct Encoder {
    formats: Vec<(String, String)>,
    others: Vec<OtherFormat>,
    comms: TaskComms,
    /// The last record of a fixed length: fields at known places are plain stores.
    fixed: [u8; 64],
    /// The last record with a text.
    body: Vec<u8>,
}

impl Encoder {
    /// For the events of a source with this `info`.
    #[must_use]
    pub fn new(info: &TraceInfo) -> Self {
        let mut formats = kernel_formats();
        formats.push((mark::SYSTEM.into(), mark::format_text(MARK, &info.marks)));
        let comms = TaskComms::new(info.comms.clone());
        let (others, body) = (Vec::new(), Vec::new());
        let mut encoder = Self { formats, others, comms, fixed: [0; 64], body };
        encoder.learn(&info.others);
        encoder
    }

    /// System and text of the formats of all records that were written so far: streams learn
    /// tracepoints on the way, so ask at the end.
    #[must_use]
    pub fn formats(&self) -> &[(String, String)] {
        &self.formats
    }

    /// Adds formats for tracepoints beyond those known.
    pub fn learn(&mut self, others: &[OtherFormat]) {
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
    pub fn comms(&self) -> &BTreeMap<Pid, Comm> {
        self.comms.all()
    }

    /// A task's name from now on, without a record.
    pub(crate) fn call(&mut self, pid: Pid, comm: Comm) {
        self.comms.insert(pid, comm);
    }

    /// The body of an event's record (little-endian, 64-bit); `None` for what is no record: a loss,
    /// and a task's first name.
    pub fn body(&mut self, event: &Event) -> Option<&[u8]> {
        self.body_with(event, "")
    }

    /// As [`Encoder::body`], with the arguments of a tracepoint beyond the scheduler's as a text of
    /// at most 64 KiB. `None` for what is not a record.
    #[inline]
    pub fn body_with(&mut self, event: &Event, arguments: &str) -> Option<&[u8]> {
        let (body, comms) = (&mut self.fixed, &mut self.comms);
        let length = match event.what {
            What::Switch { prev, prev_prio, left, next, next_prio } => {
                head(body, SWITCH, event);
                task(body, 8, (prev, comms.get(prev), prev_prio));
                put(body, 32, state(left).to_le_bytes());
                task(body, 40, (next, comms.get(next), next_prio));
                64
            }
            What::Waking { pid, prio, last_cpu } => {
                head(body, WAKING, event);
                task(body, 8, (pid, comms.get(pid), prio));
                int(body, 32, last_cpu.0.into());
                36
            }
            What::Wakeup { pid, prio, cpu, new } => {
                head(body, if new { WAKEUP_NEW } else { WAKEUP }, event);
                task(body, 8, (pid, comms.get(pid), prio));
                int(body, 32, cpu.0.into());
                36
            }
            What::Mark { pid, id, phase, request } => {
                body[..24].copy_from_slice(&mark::body(MARK, event.by, pid, (id, phase, request)));
                24
            }
            What::Lost { .. } => return None,
            _ => return self.seldom(event, arguments),
        };
        Some(&self.fixed[..length])
    }

    /// The same for events of which there are few.
    fn seldom(&mut self, event: &Event, arguments: &str) -> Option<&[u8]> {
        let (body, comms) = (&mut self.fixed, &mut self.comms);
        let length = match event.what {
            What::Migrate { pid, from, to } => {
                head(body, MIGRATE, event);
                task(body, 8, (pid, comms.get(pid), Prio::NORMAL));
                int(body, 32, from.0.into());
                int(body, 36, to.0.into());
                40
            }
            What::Fork { child } => {
                head(body, FORK, event);
                put(body, 8, comms.get(event.by));
                int(body, 24, event.by.0);
                put(body, 28, comms.get(child));
                int(body, 44, child.0);
                48
            }
            What::Exec { old } => {
                head(body, EXEC, event);
                put(body, 8, comms.get(event.by));
                int(body, 24, event.by.0);
                int(body, 28, old.0);
                32
            }
            What::Exit { pid } => {
                head(body, EXIT, event);
                task(body, 8, (pid, comms.get(pid), Prio::NORMAL));
                32
            }
            What::Comm { pid, comm } => {
                // The first name of a task is in the records around it.
                let before = comms.insert(pid, comm)?;
                head(body, RENAME, event);
                int(body, 8, pid.0);
                put(body, 12, before);
                put(body, 28, comm);
                44
            }
            What::Other { format } => {
                head(body, OTHERS.saturating_add(format), event);
                // A dynamic text: its length with the final zero, and where it stands.
                let length = u16::try_from(arguments.len() + 1).unwrap_or(u16::MAX);
                put(body, 8, (u32::from(length) << 16 | 12).to_le_bytes());
                self.body.clear();
                self.body.extend(&body[..12]);
                self.body.extend(&arguments.as_bytes()[..usize::from(length) - 1]);
                self.body.push(0);
                return Some(&self.body);
            }
            _ => return None,
        };
        Some(&self.fixed[..length])
    }
}

/// Puts a field at its place.
fn put<const N: usize>(body: &mut [u8; 64], at: usize, bytes: [u8; N]) {
    body[at..at + N].copy_from_slice(&bytes);
}

fn int(body: &mut [u8; 64], at: usize, value: i32) {
    put(body, at, value.to_le_bytes());
}

/// A task's name, pid and priority: 24 bytes.
fn task(body: &mut [u8; 64], at: usize, (pid, comm, prio): (Pid, Comm, Prio)) {
    put(body, at, comm);
    int(body, at + 16, pid.0);
    int(body, at + 20, prio.0.into());
}

fn head(body: &mut [u8; 64], id: u16, event: &Event) {
    let flags: u8 = match event.context {
        Context::Task => 0,
        Context::SoftIrq => 0x10,
        Context::HardIrq => 0x08,
        Context::Nmi => 0x40,
    };
    put(body, 0, id.to_le_bytes());
    put(body, 2, [flags, 0]);
    int(body, 4, event.by.0);
}

/// `prev_state` as kernels since 4.14 count it.
pub(crate) fn state(left: Left) -> u64 {
    match left {
        Left::Preempted => 0x100,
        Left::Yielded => 0,
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
    let (pid, prio) = (("pid_t pid", 4), ("int prio", 4));
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
