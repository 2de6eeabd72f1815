//! Perfetto's protobuf: what comes back, what Perfetto's own `.proto` files make of the bytes, and damage.

use crate::convert::{events, read, synthetic};
use schedlab_model::{Event, Kind, What};
use schedlab_trace::{Target, convert, open};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// Every kind of event, marks, a tracepoint beyond the scheduler's, and a loss.
const ALL_KINDS: &str = "\
cpus=2
 sh-7 [000] 1.000000100: sched_switch: prev_comm=sh prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=a b next_pid=8 next_prio=100
 a b-8 [000] 1.000000200: sched_waking: comm=sh pid=7 prio=120 target_cpu=001
 a b-8 [000] 1.000000300: sched_migrate_task: comm=sh pid=7 prio=120 orig_cpu=1 dest_cpu=0
 a b-8 [000] 1.000000400: sched_wakeup: comm=sh pid=7 prio=120 target_cpu=000
 a b-8 [000] 1.000000500: sched_process_fork: comm=a b pid=8 child_comm=a b child_pid=9
 a b-8 [000] 1.000000600: sched_wakeup_new: comm=a b pid=9 prio=120 target_cpu=001
 a b-9 [001] 1.000000700: sched_process_exec: filename=/bin/c pid=9 old_pid=9
 a b-9 [001] 1.000000800: mark: begin warm up pid=9
 a b-9 [001] 1.000000900: disk_begins: irq=42 name=disk
CPU:1 [5 EVENTS DROPPED]
 a b-9 [001] 1.000001000: disk_ends: irq=42 ret=handled and done
 a b-9 [001] 1.000001100: sched_process_exit: comm=a b pid=9 prio=120
";

/// An event as both sides tell it: CPU, time, and the task that it is about (0: none).
type Told = (u16, u64, i32);

fn ours(events: &[Event]) -> BTreeMap<String, Vec<Told>> {
    let mut told = BTreeMap::<String, Vec<Told>>::new();
    for event in events {
        let (name, pid) = match event.what {
            What::Switch { next, .. } => ("sched_switch", next.0),
            What::Waking { pid, .. } => ("sched_waking", pid.0),
            What::Wakeup { pid, new, .. } => {
                (if new { "sched_wakeup_new" } else { "sched_wakeup" }, pid.0)
            }
            What::Migrate { pid, .. } => ("sched_migrate_task", pid.0),
            What::Fork { child } => ("sched_process_fork", child.0),
            What::Exec { .. } => ("sched_process_exec", event.by.0),
            What::Exit { pid } => ("sched_process_exit", pid.0),
            What::Mark { .. } => ("print", 0),
            What::Other { .. } => ("generic", 0),
            What::Lost { .. } | What::Comm { .. } | What::Online { .. } => continue,
        };
        told.entry(name.into()).or_default().push((event.cpu.0, event.time.0, pid));
    }
    told.values_mut().for_each(|told| told.sort_unstable());
    told
}

/// The text of a trace by Perfetto's own files; `None` without `protoc`.
fn by_the_official_files(trace: &Path) -> Option<String> {
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proto");
    let protoc = Command::new("protoc")
        .args(["-I", files, "--decode=perfetto.protos.Trace"])
        .arg("protos/perfetto/trace/trace.proto")
        .stdin(File::open(trace).unwrap())
        .output();
    let Ok(output) = protoc else {
        assert!(std::env::var_os("CI").is_none(), "protoc is needed in CI");
        drop(writeln!(
            std::io::stderr(),
            "MISSING: protoc (protobuf-compiler): Perfetto output is judged by ourselves only"
        ));
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// What the decoder's text tells.
#[derive(Default)]
struct Decoded {
    told: BTreeMap<String, Vec<Told>>,
    losses: usize,
    /// Names of generic events and of threads.
    generic: BTreeSet<String>,
    /// Of generic events: `name=value`.
    fields: Vec<String>,
    threads: BTreeSet<String>,
    clocks: usize,
    cpu: u16,
    time: u64,
    /// Switches in columns.
    compact: usize,
    /// Columns of the compact events of this bundle.
    columns: BTreeMap<String, Vec<i64>>,
}

impl Decoded {
    fn read(text: &str) -> Self {
        let (mut decoded, mut path) = (Self::default(), Vec::new());
        for line in text.lines().map(str::trim) {
            let name = line.split([':', ' ']).next().unwrap();
            assert!(
                !name.starts_with(|first: char| first.is_ascii_digit()),
                "a field that Perfetto's files do not know: {path:?} {line}"
            );
            if line == "}" {
                if path.pop() == Some("compact_sched") {
                    decoded.compact();
                }
            } else if line.ends_with(" {") {
                path.push(name);
                if let ["packet", "ftrace_events", "event", kind] = path.as_slice() {
                    decoded.event((*kind).to_owned());
                }
            } else {
                let value = line[name.len() + 1..].trim().trim_matches('"');
                decoded.leaf(&path, name, value);
            }
        }
        decoded.told.values_mut().for_each(|told| told.sort_unstable());
        decoded
    }

    fn event(&mut self, kind: String) {
        self.told.entry(kind).or_default().push((self.cpu, self.time, 0));
    }

    fn leaf(&mut self, path: &[&str], name: &str, value: &str) {
        match (path, name) {
            (["packet", "ftrace_events"], "cpu") => self.cpu = value.parse().unwrap(),
            (["packet", "ftrace_events"], "lost_events") => self.losses += 1,
            (["packet", "ftrace_events", "event"], "timestamp") => {
                self.time = value.parse().unwrap();
            }
            (["packet", "ftrace_events", "event", "generic"], "event_name") => {
                self.generic.insert(value.to_owned());
            }
            (["packet", "ftrace_events", "event", "generic", "field"], "name") => {
                self.fields.push(value.to_owned());
            }
            (["packet", "ftrace_events", "event", "generic", "field"], kind) => {
                let field = self.fields.last_mut().unwrap();
                *field = format!("{field}={value} as {kind}");
            }
            (["packet", "ftrace_events", "event", kind], "pid" | "child_pid" | "next_pid") => {
                self.told.get_mut(*kind).unwrap().last_mut().unwrap().2 = value.parse().unwrap();
            }
            (["packet", "ftrace_events", "compact_sched"], _) if name != "intern_table" => {
                self.columns.entry(name.to_owned()).or_default().push(value.parse().unwrap());
            }
            (["packet", "process_tree", "threads"], "name") => {
                self.threads.insert(value.to_owned());
            }
            (["packet", "clock_snapshot", "clocks"], "clock_id") => self.clocks += 1,
            _ => {}
        }
    }

    fn compact(&mut self) {
        let mut columns = std::mem::take(&mut self.columns);
        let kinds = [
            ("sched_switch", "switch_timestamp", "switch_next_pid"),
            ("sched_waking", "waking_timestamp", "waking_pid"),
        ];
        for (kind, times, pids) in kinds {
            let (times, pids) = (columns.remove(times), columns.remove(pids));
            let (times, pids) = (times.unwrap_or_default(), pids.unwrap_or_default());
            assert_eq!(times.len(), pids.len());
            self.compact += if kind == "sched_switch" { times.len() } else { 0 };
            let mut time = 0;
            for (delta, pid) in times.into_iter().zip(pids) {
                time += delta.cast_unsigned();
                let told = (self.cpu, time, i32::try_from(pid).unwrap());
                self.told.entry(kind.to_owned()).or_default().push(told);
            }
        }
        // Every event has an entry in each column.
        for (name, column) in columns {
            let kind = if name.starts_with("switch") { "sched_switch" } else { "sched_waking" };
            assert!(column.len() <= self.told[kind].len(), "{name}");
        }
    }
}

/// Compares a trace with what Perfetto's files make of its conversion.
fn agrees(truth: &[Event], trace: &Path) -> Option<Decoded> {
    let decoded = Decoded::read(&by_the_official_files(trace)?);
    assert_eq!(decoded.told, ours(truth));
    let losses = truth.iter().filter(|event| event.what.kind() == Kind::Lost).count();
    assert_eq!(decoded.losses, losses);
    assert!(decoded.clocks >= 1 && !decoded.threads.is_empty());
    Some(decoded)
}

#[test]
fn every_kind_of_event_is_what_perfettos_own_files_say() {
    let dir = tempfile::tempdir().unwrap();
    let (source, path) = (dir.path().join("x.txt"), dir.path().join("x.pftrace"));
    std::fs::write(&source, ALL_KINDS).unwrap();
    let converted = convert(&source, &path, Target::Perfetto).unwrap();
    let said = |part: &str| converted.warnings.iter().any(|warning| warning.what.contains(part));
    assert!(!said("tracepoints beyond the scheduler's"), "all arguments are kept: {converted:?}");
    let (truth, back) = (read(&source), read(&path));
    assert_eq!(ours(&truth), ours(&back));
    let others = open(&path).unwrap().info().others.clone();
    let names: Vec<_> = others[1..].iter().map(|other| other.name.as_str()).collect();
    assert_eq!(names, ["disk_begins", "disk_ends"]);
    let Some(decoded) = agrees(&truth, &path) else { return };
    assert_eq!(decoded.told.len(), 10, "{:?}", decoded.told.keys());
    assert_eq!(decoded.losses, 1);
    let fields = [
        "irq=42 as int_value",
        "name=disk as str_value",
        "irq=42 as int_value",
        "ret=handled and done as str_value",
    ];
    assert_eq!(decoded.fields, fields);
    assert!(decoded.generic.iter().eq(["disk_begins", "disk_ends"]));
    assert!(decoded.threads.contains("a b") && decoded.threads.contains("sh"));
}

/// Tracepoints that Perfetto has messages for, in the kernel's words.
const NATIVE: &str = "\
cpu_frequency: state=1500000 cpu_id=1
cpu_frequency_limits: min_freq=300000 max_freq=2400000 cpu_id=1
cpu_idle: state=4294967295 cpu_id=1
irq_handler_entry: irq=42 name=eth0
irq_handler_exit: irq=42 ret=1
softirq_entry: vec=1
softirq_exit: vec=1
softirq_raise: vec=7
ipi_entry: reason=Rescheduling interrupts
ipi_exit: reason=Rescheduling interrupts
ipi_raise: target_cpus=2 reason=Function call interrupts
hrtimer_start: hrtimer=0xffff888100000000 function=hrtimer_wakeup expires=5000 softexpires=4000 mode=1
hrtimer_expire_entry: hrtimer=0xffff888100000000 function=hrtimer_wakeup now=5001
hrtimer_expire_exit: hrtimer=0xffff888100000000
hrtimer_cancel: hrtimer=0xffff888100000000
sched_blocked_reason: pid=8 iowait=1 caller=io_schedule+0x12/0x40
sched_process_free: comm=a pid=9 prio=120
task_newtask: pid=12 comm=a clone_flags=0x10f00 oom_score_adj=0
workqueue_queue_work: work=0xffff888100000040 function=vmstat_update workqueue=mm_percpu_wq req_cpu=-1 cpu=1
workqueue_execute_start: work=0xffff888100000040 function=vmstat_update
workqueue_execute_end: work=0xffff888100000040 function=vmstat_update
cpuhp_exit: cpu=1 state=237 idx=238 ret=0
suspend_resume: action=timekeeping_freeze val=0 start=1
print: hello world
";

#[test]
fn tracepoints_that_perfetto_draws_are_written_as_its_own_messages_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let (source, path) = (dir.path().join("x.txt"), dir.path().join("x.pftrace"));
    let switch = " sh-7 [000] ..... 1.000000100: sched_switch: prev_comm=sh prev_pid=7 \
        prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=100\n";
    let lines = NATIVE.lines().zip(200..);
    let others = lines.map(|(line, ns)| format!(" b-8 [000] ..... 1.000000{ns}: {line}\n"));
    std::fs::write(&source, switch.to_owned() + &others.collect::<String>()).unwrap();
    convert(&source, &path, Target::Perfetto).unwrap();
    let options = schedlab_trace::Options { arguments: true, ..Default::default() };
    let mut back = schedlab_trace::open_with(&path, &options).unwrap();
    let (mut batch, mut told) = (Vec::new(), Vec::new());
    while back.next(&mut batch).unwrap() {
        for (index, event) in batch.iter().enumerate() {
            if let What::Other { format } = event.what {
                let name = &back.info().others[usize::from(format)].name;
                told.push(format!("{name}: {}", back.arguments(index).unwrap_or_default()));
            }
        }
    }
    assert_eq!(told, NATIVE.lines().collect::<Vec<_>>());
    let Some(text) = by_the_official_files(&path) else { return };
    assert!(!text.contains("generic {"), "{text}");
    for part in [
        "cpu_frequency {\n        state: 1500000\n        cpu_id: 1",
        "str: \"io_schedule+0x12/0x40\"",
        "irq: 42\n        name: \"eth0\"",
        "io_wait: 1",
        "workqueue: \"mm_percpu_wq\"",
        "req_cpu: -1",
        "buf: \"hello world\\n\"",
        "softexpires: 4000\n        mode: 1",
        "release: \"4.14.0 (states as there; the kernel is unknown)\"",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn perfetto_comes_back_and_perfettos_own_files_agree() {
    let dir = tempfile::tempdir().unwrap();
    let source = synthetic(dir.path());
    let path = dir.path().join("x.pftrace");
    convert(&source, &path, Target::Perfetto).unwrap();
    let (truth, back) = (read(&source), read(&path));
    assert!(truth == back, "what ran before a CPU's first switch, too");
    let Some(decoded) = agrees(&truth, &path) else { return };
    // Each CPU's first switch says what ran before; the rest need not.
    let switches = decoded.told["sched_switch"].len();
    assert!(decoded.compact >= switches - 2 * 4, "{} of {switches}", decoded.compact);
}

#[test]
fn a_perfetto_trace_cut_or_damaged_anywhere_is_read_as_far_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let source = synthetic(dir.path());
    let path = dir.path().join("x.pftrace");
    convert(&source, &path, Target::Perfetto).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for at in (0..200).chain((200..whole.len()).step_by(whole.len() / 200)) {
        let mut wrong = whole.clone();
        wrong[at] ^= if at % 2 == 0 { 0xff } else { 0x04 };
        for bytes in [whole[..at].to_vec(), wrong] {
            if let Ok(mut source) = schedlab_trace::open_bytes(Path::new("x"), bytes) {
                events(source.as_mut());
            }
        }
    }
}
