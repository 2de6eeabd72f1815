//! What several test files need: formats of a kernel, small files, and the peers' readers.

use schedlab_model::{Comm, Cpu, Nanos, Phase, Pid};
use schedlab_trace::dat::{Compression, Header, Instance, Version, Writer};
use schedlab_trace::{Encoding, mark};
use std::collections::BTreeMap;
use std::io::{Cursor, Write as _};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of other people's traces, or `None`, said aloud.
pub(crate) fn data(part: &str) -> Option<PathBuf> {
    match std::env::var_os("SCHEDLAB_DATA").map(|root| Path::new(&root).join(part)) {
        Some(path) if path.exists() => Some(path),
        _ => {
            drop(writeln!(
                std::io::stderr(),
                "MISSING: SCHEDLAB_DATA/{part}: traces of others are not checked"
            ));
            None
        }
    }
}

/// Runs a peer; `None`, said aloud, where it is not installed. In CI that is a failure.
pub(crate) fn peer(program: &str, arguments: &[&str], file: &Path) -> Option<(String, String)> {
    match Command::new(program).args(arguments).arg(file).output() {
        Ok(output) => {
            if !output.status.success() {
                eprintln!("{program} {arguments:?} {}: {}", file.display(), output.status);
            }
            Some((
                String::from_utf8_lossy(&output.stdout).into_owned(),
                String::from_utf8_lossy(&output.stderr).into_owned(),
            ))
        }
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{program} is needed in CI: {error}");
            drop(writeln!(
                std::io::stderr(),
                "MISSING: {program}: its reader is not compared with ours"
            ));
            None
        }
    }
}

/// Events per CPU and name, counted in the text of `trace-cmd report -N`; and lost events.
pub(crate) fn counts(report: &str) -> (BTreeMap<(u16, String), u64>, u64) {
    let mut counts = BTreeMap::new();
    let mut lost = 0;
    for line in report.lines() {
        if line.starts_with("CPU:") {
            if let Some(rest) = line.split_once('[').map(|parts| parts.1) {
                lost += rest.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            }
            continue;
        }
        // `   comm-pid  [003]  time: name: fields`
        let Some((before, after)) = line.split_once("] ") else { continue };
        let Some(cpu) = before.rsplit('[').next().and_then(|cpu| cpu.parse().ok()) else {
            continue;
        };
        let Some(name) = after.split(": ").nth(1) else { continue };
        *counts.entry((cpu, name.trim().trim_end_matches(':').to_owned())).or_insert(0) += 1;
    }
    (counts, lost)
}

pub(crate) const SWITCH: u16 = 372;
pub(crate) const WAKING: u16 = 375;
pub(crate) const MIGRATE: u16 = 371;
pub(crate) const MARK: u16 = 9000;
pub(crate) const IRQ: u16 = 21;

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

/// A format text from `type name offset size signed` lines.
pub(crate) fn format(name: &str, id: u16, fields: &[(&str, u32, u32, u8)], print: &str) -> String {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n{COMMON}");
    for (declaration, offset, size, signed) in fields {
        let line =
            ["\tfield:", declaration, ";\toffset:", &offset.to_string(), ";\tsize:"].concat();
        text += &[&line, &size.to_string(), ";\tsigned:", &signed.to_string(), ";\n"].concat();
    }
    text + &format!("\nprint fmt: {print}\n")
}

/// Formats as a recent kernel has them (64-bit), and our marks.
pub(crate) fn formats() -> Vec<(String, String)> {
    let switch = format(
        "sched_switch",
        SWITCH,
        &[
            ("char prev_comm[16]", 8, 16, 0),
            ("pid_t prev_pid", 24, 4, 1),
            ("int prev_prio", 28, 4, 1),
            ("long prev_state", 32, 8, 1),
            ("char next_comm[16]", 40, 16, 0),
            ("pid_t next_pid", 56, 4, 1),
            ("int next_prio", 60, 4, 1),
        ],
        "\"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d \
         next_prio=%d\", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & \
         (((0x1 | 0x2) + 1) << 1) - 1) ? __print_flags(REC->prev_state & 0xff, \"|\", { 0x1, \"S\" }, \
         { 0x2, \"D\" }, { 0x40, \"P\" }, { 0x80, \"I\" }) : \"R\", REC->prev_state & 0x100 ? \"+\" : \"\", \
         REC->next_comm, REC->next_pid, REC->next_prio",
    );
    let waking = format(
        "sched_waking",
        WAKING,
        &[
            ("char comm[16]", 8, 16, 0),
            ("pid_t pid", 24, 4, 1),
            ("int prio", 28, 4, 1),
            ("int target_cpu", 32, 4, 1),
        ],
        "\"comm=%s pid=%d prio=%d target_cpu=%03d\", REC->comm, REC->pid, REC->prio, REC->target_cpu",
    );
    let migrate = format(
        "sched_migrate_task",
        MIGRATE,
        &[
            ("__data_loc char[] comm", 8, 4, 0),
            ("pid_t pid", 12, 4, 1),
            ("int prio", 16, 4, 1),
            ("int orig_cpu", 20, 4, 1),
            ("int dest_cpu", 24, 4, 1),
        ],
        "\"comm=%s pid=%d prio=%d orig_cpu=%d dest_cpu=%d\", __get_str(comm), REC->pid, REC->prio, \
         REC->orig_cpu, REC->dest_cpu",
    );
    let irq = format(
        "irq_handler_entry",
        IRQ,
        &[("int irq", 8, 4, 1), ("__data_loc char[] name", 12, 4, 0)],
        "\"irq=%d name=%s\", REC->irq, __get_str(name)",
    );
    vec![
        ("sched".into(), switch),
        ("sched".into(), waking),
        ("sched".into(), migrate),
        ("irq".into(), irq),
        (mark::SYSTEM.into(), mark::format_text(MARK, &["warm-up".into(), "load".into()])),
    ]
}

pub(crate) fn comm(name: &str) -> Comm {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

/// Bodies of records in one byte order.
pub(crate) struct Bodies(pub(crate) Encoding);

impl Bodies {
    fn u32(&self, value: i32) -> [u8; 4] {
        if self.0.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn common(&self, id: u16, flags: u8, by: i32) -> Vec<u8> {
        let id = if self.0.big_endian { id.to_be_bytes() } else { id.to_le_bytes() };
        let mut body = vec![id[0], id[1], flags, 0];
        body.extend(self.u32(by));
        body
    }

    pub(crate) fn switch(&self, prev: i32, state: u64, next: i32) -> Vec<u8> {
        let mut body = self.common(SWITCH, 0, prev);
        body.extend(comm(&format!("task {prev}")));
        body.extend(self.u32(prev));
        body.extend(self.u32(120));
        body.extend(if self.0.big_endian { state.to_be_bytes() } else { state.to_le_bytes() });
        body.extend(comm(&format!("task {next}")));
        body.extend(self.u32(next));
        body.extend(self.u32(100));
        body
    }

    pub(crate) fn waking(&self, flags: u8, by: i32, pid: i32, cpu: i32) -> Vec<u8> {
        let mut body = self.common(WAKING, flags, by);
        body.extend(comm(&format!("task {pid}")));
        body.extend(self.u32(pid));
        body.extend(self.u32(120));
        body.extend(self.u32(cpu));
        body
    }

    pub(crate) fn migrate(&self, by: i32, pid: i32, from: i32, to: i32) -> Vec<u8> {
        let mut body = self.common(MIGRATE, 0, by);
        let name = format!("task {pid}\0");
        body.extend(self.u32((name.len() as i32) << 16 | 28));
        for value in [pid, 120, from, to] {
            body.extend(self.u32(value));
        }
        body.extend(name.bytes());
        body
    }

    /// An interrupt whose name is `length` bytes long.
    pub(crate) fn irq(&self, by: i32, length: usize) -> Vec<u8> {
        let mut body = self.common(IRQ, 8, by);
        body.extend(self.u32(7));
        body.extend(self.u32((length as i32) << 16 | 16));
        body.extend(vec![b'x'; length.saturating_sub(1)]);
        body.push(0);
        body
    }
}

/// A header with our formats, for `cpus` CPUs.
pub(crate) fn header(version: Version, compression: Compression, cpus: u32) -> Header {
    Header {
        version,
        compression,
        formats: formats(),
        cmdlines: vec![(Pid(1), comm("init"))],
        cpus,
        uname: Some("Linux test 6.18".into()),
        ..Header::default()
    }
}

/// A small trace with every kind of record that the writer knows: two busy CPUs and an empty one, a
/// long sleep, a long record, a loss of known and one of unknown size, and a mark.
pub(crate) fn small(header: &Header) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new()), header).unwrap();
    let bodies = Bodies(header.encoding);
    let mut cpu = writer.cpu(Cpu(0)).unwrap();
    for i in 0..100u64 {
        let (prev, next) = if i % 2 == 0 { (0, 100) } else { (100, 0) };
        cpu.record(Nanos(1_000 + i * 1_000), &bodies.switch(prev, i % 3, next)).unwrap();
    }
    cpu.record(Nanos(300_000_000_000), &bodies.waking(0x10, 0, 100, 2)).unwrap();
    cpu.record(Nanos(300_000_000_500), &bodies.irq(0, 200)).unwrap();
    cpu.finish().unwrap();
    let mut cpu = writer.cpu(Cpu(2)).unwrap();
    cpu.record(Nanos(1_500), &bodies.migrate(0, 100, 0, 2)).unwrap();
    cpu.lost(NonZeroU32::new(77)).unwrap();
    cpu.record(Nanos(50_500), &bodies.switch(0, 0, 200)).unwrap();
    cpu.lost(None).unwrap();
    if !header.encoding.big_endian {
        let body = mark::body(MARK, Pid(200), Pid(200), 1, Phase::Begin, 9);
        cpu.record(Nanos(50_600), &body).unwrap();
    }
    cpu.record(Nanos(50_700), &bodies.switch(200, 0x100, 0)).unwrap();
    cpu.finish().unwrap();
    for _ in &header.instances {
        writer.instance().unwrap();
        let mut cpu = writer.cpu(Cpu(1)).unwrap();
        cpu.record(Nanos(2_000), &bodies.irq(5, 8)).unwrap();
        cpu.record(Nanos(2_100), &bodies.switch(0, 0, 300)).unwrap();
        cpu.finish().unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// Two more buffers.
pub(crate) fn instances() -> Vec<Instance> {
    ["one", "two"].map(|name| Instance { name: name.into() }).to_vec()
}
