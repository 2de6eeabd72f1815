//! The states of a task in `trace why` are those of Perfetto on the same trace.
//!
//! The trace is Perfetto's protobuf, decoded by Perfetto's own `.proto` files. Perfetto's `trace_processor_shell` gives its
//! states where it is installed. It is in no Debian package, so its rules are carried out here as well, as its
//! `ThreadStateTracker` documents them: a switch ends the state of both tasks; who leaves is in the state that the switch
//! says; who comes runs; a waking makes a blocked task runnable and says nothing about others.

use schedlab_trace::dat::Header;
use schedlab_trace::synthetic::{Plan, Synthetic};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// What a task does from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Runs,
    Runnable,
    Blocked,
}

type States = BTreeMap<i64, Vec<(u64, Does)>>;

/// An event that moves states.
enum Event {
    /// CPU, state of who leaves, who comes; who leaves where it says so.
    Switch {
        cpu: u64,
        prev: Option<i64>,
        left: u64,
        next: i64,
    },
    Waking {
        pid: i64,
    },
}

fn missing(what: &str) {
    missing!("{what}");
}

/// The events in the text that `protoc` makes of a trace by Perfetto's files.
#[derive(Default)]
struct Decoded {
    events: Vec<(u64, Event)>,
    cpu: u64,
    /// Of the event that is read: time, and fields.
    time: u64,
    fields: BTreeMap<String, i64>,
    /// Of the compact events of a bundle.
    columns: BTreeMap<String, Vec<u64>>,
}

impl Decoded {
    fn read(text: &str) -> Vec<(u64, Event)> {
        let (mut decoded, mut path) = (Self::default(), Vec::new());
        for line in text.lines().map(str::trim) {
            let name = line.split([':', ' ']).next().expect("a word");
            if line == "}" {
                decoded.end(&path);
                path.pop();
            } else if line.ends_with('{') {
                path.push(name);
            } else if let Ok(number) = line[name.len() + 1..].trim().parse::<i64>() {
                decoded.number(&path, name, number);
            }
        }
        decoded.events.sort_by_key(|(time, _)| *time);
        decoded.events
    }

    fn number(&mut self, path: &[&str], name: &str, number: i64) {
        match path {
            ["packet", "ftrace_events"] if name == "cpu" => self.cpu = number.cast_unsigned(),
            ["packet", "ftrace_events", "event"] if name == "timestamp" => {
                self.time = number.cast_unsigned();
            }
            ["packet", "ftrace_events", "event", "sched_switch" | "sched_waking"] => {
                self.fields.insert(name.to_owned(), number);
            }
            ["packet", "ftrace_events", "compact_sched"] => {
                self.columns.entry(name.to_owned()).or_default().push(number.cast_unsigned());
            }
            _ => {}
        }
    }

    fn end(&mut self, path: &[&str]) {
        let fields = |name: &str| self.fields.get(name).copied().unwrap_or(0);
        let event = match path {
            ["packet", "ftrace_events", "event", "sched_switch"] => Event::Switch {
                cpu: self.cpu,
                prev: Some(fields("prev_pid")),
                left: fields("prev_state").cast_unsigned(),
                next: fields("next_pid"),
            },
            ["packet", "ftrace_events", "event", "sched_waking"] => {
                Event::Waking { pid: fields("pid") }
            }
            ["packet", "ftrace_events", "compact_sched"] => return self.compact(),
            _ => return,
        };
        self.events.push((self.time, event));
        self.fields.clear();
    }

    /// Times are the distance from the one before.
    fn compact(&mut self) {
        let columns = std::mem::take(&mut self.columns);
        let column = |name: &str| columns.get(name).cloned().unwrap_or_default();
        let times = |name: &str| {
            column(name).into_iter().scan(0, |time, delta| {
                *time += delta;
                Some(*time)
            })
        };
        let (left, next) = (column("switch_prev_state"), column("switch_next_pid"));
        for (time, (left, next)) in times("switch_timestamp").zip(left.into_iter().zip(next)) {
            let next = next.cast_signed();
            self.events.push((time, Event::Switch { cpu: self.cpu, prev: None, left, next }));
        }
        for (time, pid) in times("waking_timestamp").zip(column("waking_pid")) {
            self.events.push((time, Event::Waking { pid: pid.cast_signed() }));
        }
    }
}

/// Perfetto's rules, carried out on its events.
fn states(events: &[(u64, Event)]) -> States {
    let (mut states, mut on) = (States::new(), BTreeMap::<u64, i64>::new());
    for (time, event) in events {
        let mut set = |pid: i64, does: Does| {
            let all = states.entry(pid).or_default();
            if pid != 0 && all.last().is_none_or(|(_, last)| *last != does) {
                all.push((*time, does));
            }
        };
        match *event {
            Event::Switch { cpu, prev, left, next } => {
                if let Some(prev) = prev.or_else(|| on.get(&cpu).copied()) {
                    set(prev, if left & 0xff == 0 { Does::Runnable } else { Does::Blocked });
                }
                set(next, Does::Runs);
                on.insert(cpu, next);
            }
            Event::Waking { pid } => {
                let last = states.get(&pid).and_then(|all| all.last()).map(|(_, does)| *does);
                if last.is_none_or(|does| does == Does::Blocked) {
                    states.entry(pid).or_default().push((*time, Does::Runnable));
                }
            }
        }
    }
    states
}

/// The states of a task in `trace why` of the whole trace: its own, and where its wakers act, it is blocked. And when the
/// trace ends.
fn ours(file: &Path, pid: i64) -> (Vec<(u64, Does)>, u64) {
    let output = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["trace", "why", "--json", "--pid", &pid.to_string()])
        .arg(file)
        .output()
        .expect("the built command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let origin: u64 = answer["origin_ns"].as_str().expect("a text").parse().expect("a number");
    let mut all: Vec<(u64, Does)> = Vec::new();
    for entry in answer["entries"].as_array().expect("entries") {
        let does = match (entry["depth"].as_u64(), entry["state"].as_str()) {
            (Some(0), Some("runs")) => Does::Runs,
            (Some(0), Some("runnable")) => Does::Runnable,
            _ => Does::Blocked,
        };
        if all.last().is_none_or(|(_, last)| *last != does) {
            all.push((origin + entry["start_ns"].as_u64().expect("a time"), does));
        }
    }
    (all, origin + answer["end_ns"].as_u64().expect("a time"))
}

/// The states that Perfetto's own program gives, where it is installed.
fn perfettos(file: &Path) -> Option<States> {
    let query =
        "select t.tid, s.ts, s.state from thread_state s join thread t using (utid) order by s.ts";
    let asked = Command::new("trace_processor_shell").args(["query"]).arg(file).arg(query).output();
    let Ok(output) = asked else {
        missing(
            "trace_processor_shell: Perfetto's documented rules judge the states, not Perfetto itself",
        );
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut states = States::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut cells = line.split(',').map(|cell| cell.trim_matches('"'));
        let (Some(Ok(tid)), Some(Ok(ts)), Some(state)) =
            (cells.next().map(str::parse), cells.next().map(str::parse), cells.next())
        else {
            continue;
        };
        let does = match state {
            "Running" => Does::Runs,
            "R" | "R+" => Does::Runnable,
            _ => Does::Blocked,
        };
        let all = states.entry(tid).or_default();
        if all.last().is_none_or(|(_, last)| *last != does) {
            all.push((ts, does));
        }
    }
    Some(states)
}

#[test]
fn states_of_tasks_are_perfettos() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (dat, file) = (dir.path().join("x.dat"), dir.path().join("x.pftrace"));
    let plan = Plan { cpus: 3, tasks_per_cpu: 3, events: 3_000, seed: 11 };
    Synthetic::new(plan).write(&dat, Header::default()).expect("a temporary file");
    let converted = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["trace", "convert"])
        .args([&dat, &file])
        .output()
        .expect("the built command starts");
    assert!(converted.status.success());
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/../schedlab-trace/tests/proto");
    let protoc = Command::new("protoc")
        .args(["-I", files, "--decode=perfetto.protos.Trace", "protos/perfetto/trace/trace.proto"])
        .stdin(File::open(&file).expect("it was written"))
        .output();
    let Ok(protoc) = protoc else {
        assert!(std::env::var_os("CI").is_none(), "protoc is needed in CI");
        return missing("protoc (protobuf-compiler): states are not compared with Perfetto's");
    };
    let by_rules = states(&Decoded::read(&String::from_utf8_lossy(&protoc.stdout)));
    let by_perfetto = perfettos(&file);
    let mut compared = 0;
    for (pid, theirs) in by_rules.iter().filter(|(pid, _)| **pid != 0) {
        let first = theirs.first().expect("a state").0;
        let (ours, end) = ours(&file, *pid);
        let before = ours.iter().take_while(|(time, _)| *time < first).count();
        // What the last event begins has no length.
        let lasting = theirs.iter().filter(|(time, _)| *time < end);
        assert!(ours[before..].iter().eq(lasting), "task {pid}: {ours:?} beside {theirs:?}");
        if let Some(states) = &by_perfetto {
            assert_eq!(&states[pid], theirs, "Perfetto itself, task {pid}");
        }
        compared += theirs.len();
    }
    assert!(compared > 1_000, "{compared} states are enough to judge by");
}
