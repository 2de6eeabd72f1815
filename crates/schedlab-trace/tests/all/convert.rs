//! Conversions: what goes in comes out, and what the target cannot hold is said.

use crate::common::{data, header, instances, peer, small};
use schedlab_model::{Event, EventSource, Kind, Nanos};
use schedlab_timeline::{Tasks, ask};
use schedlab_trace::dat::{Compression, Header, Version};
use schedlab_trace::synthetic::{Plan, Synthetic};
use schedlab_trace::{Census, Target, convert, open};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const V6: Target = Target::Dat(Version::V6, Compression::None);
const V7: Target = Target::Dat(Version::V7, Compression::Zstd);

pub(crate) fn events(source: &mut dyn EventSource) -> Vec<Event> {
    let (mut all, mut batch) = (Vec::<Event>::new(), Vec::new());
    while source.next(&mut batch).unwrap() {
        all.extend(batch.iter().filter(|event| event.what.kind() != Kind::Comm));
    }
    // Equal times of different CPUs may change places.
    all.sort_by_key(|event: &Event| (event.time, event.cpu));
    all
}

pub(crate) fn read(path: &Path) -> Vec<Event> {
    events(open(path).unwrap().as_mut())
}

pub(crate) fn synthetic(dir: &Path) -> PathBuf {
    let path = dir.join("synthetic.dat");
    let plan = Plan { cpus: 4, events: 5_000, ..Plan::default() };
    Synthetic::new(plan).write(&path, Header::default()).unwrap();
    path
}

#[test]
fn records_pass_untouched_between_formats_of_records() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("a.dat");
    let mut head = header(Version::V6, Compression::None, 3);
    head.instances = instances();
    head.kallsyms = b"ffffffff81000000 T _text\n".to_vec();
    std::fs::write(&source, small(&head)).unwrap();
    let (there, back) = (dir.path().join("b.dat"), dir.path().join("c.dat"));
    let converted = convert(&source, &there, V7).unwrap();
    assert!(converted.untouched && converted.events == 110, "{converted:?}");
    convert(&there, &back, V6).unwrap();
    assert!(read(&source) == read(&there) && read(&source) == read(&back));
    let (a, c) = (std::fs::read(&source).unwrap(), std::fs::read(&back).unwrap());
    assert!(a == c, "there and back again: the same bytes");
}

#[test]
fn perf_data_becomes_a_trace_dat_that_trace_cmd_reads() {
    let Some(source) = data("traces/local_2cpu_zstd.perf.data") else { return };
    let dir = tempfile::tempdir().unwrap();
    for target in [V6, V7] {
        let path = dir.path().join("x.dat");
        let converted = convert(&source, &path, target).unwrap();
        assert!(converted.untouched);
        assert!(read(&source) == read(&path), "{target:?}");
        let known = open(&path).unwrap();
        assert_eq!(known.info().topology.as_ref().unwrap().places().len(), 2);
        let Some((out, err)) = peer("trace-cmd", &["report", "-N", "-i"], &path) else { return };
        let lines = out.lines().filter(|line| line.contains("sched_switch:")).count();
        assert_eq!(lines as u64, converted.events, "{err}");
    }
}

/// Time and CPU of a switch; who left, in which state, and who came.
type Switches = BTreeMap<(u64, u16), (i32, String, i32)>;

/// The switches in the text of `perf script` or `trace-cmd report`.
fn printed(text: &str) -> Switches {
    let mut switches = Switches::new();
    for line in text.lines().filter(|line| line.contains("sched_switch:")) {
        let value = |key: &str| {
            let (_, rest) = line.rsplit_once(key).unwrap();
            rest.split(' ').next().unwrap().to_owned()
        };
        let (cpu, rest) = line.split_once('[').unwrap().1.split_once(']').unwrap();
        let (secs, rest) = rest.trim_start().split_once('.').unwrap();
        let nanos: u64 = rest[..9].parse().unwrap();
        let time = secs.parse::<u64>().unwrap() * 1_000_000_000 + nanos;
        let [prev, next] = ["prev_pid=", "next_pid="].map(|key| value(key).parse().unwrap());
        switches.insert((time, cpu.parse().unwrap()), (prev, value("prev_state="), next));
    }
    switches
}

/// How long each task ran until a time, by its switches.
fn run_times(switches: &Switches, end: Nanos) -> BTreeMap<i32, u64> {
    let (mut runs, mut since) = (BTreeMap::new(), BTreeMap::new());
    for ((time, cpu), (_, _, next)) in switches {
        if let Some((task, from)) = since.insert(*cpu, (*next, *time)) {
            *runs.entry(task).or_insert(0) += time - from;
        }
    }
    for (task, from) in since.into_values() {
        *runs.entry(task).or_insert(0) += end.0 - from;
    }
    runs.retain(|task, ran| *task > 0 && *ran > 0);
    runs
}

#[test]
fn states_counts_and_run_times_are_what_perf_and_trace_cmd_say() {
    let Some(source) = data("traces/local_2cpu_zstd.perf.data") else { return };
    let perf = ["script", "--ns", "-F", "cpu,time,event,trace", "-i"];
    let Some((out, _)) = peer("perf", &perf, &source) else { return };
    let truth = printed(&out);
    assert!(truth.len() > 1_000);
    let dir = tempfile::tempdir().unwrap();
    for name in ["v6.dat", "v7.dat", "x.pftrace", "x.txt"] {
        let path = dir.path().join(name);
        let target = if name == "v7.dat" { V7 } else { Target::by_name(&path).unwrap() };
        convert(&source, &path, target).unwrap();
        let reply = ask(open(&path).unwrap().as_mut(), Tasks::new()).unwrap();
        let ours = reply.answer.rows.iter().map(|row| (row.pid.0, row.ran.0));
        let ours: BTreeMap<i32, u64> = ours.filter(|(_, ran)| *ran > 0).collect();
        assert_eq!(ours, run_times(&truth, reply.observed.end), "{name}");
        if name.ends_with(".dat") {
            let report = peer("trace-cmd", &["report", "-t", "-N", "-i"], &path);
            let Some((out, _)) = report else { return };
            assert!(printed(&out) == truth, "{name}");
        }
    }
}

#[test]
fn traces_of_others_pass_through_v7_and_back() {
    for name in ["lisa_sched_load.dat", "trappy_trace.dat"] {
        let Some(source) = data("traces").map(|dir| dir.join(name)) else { return };
        let dir = tempfile::tempdir().unwrap();
        let (there, back) = (dir.path().join("b.dat"), dir.path().join("c.dat"));
        convert(&source, &there, V7).unwrap();
        convert(&there, &back, V6).unwrap();
        let census = |path: &Path| Census::of(open(path).unwrap().as_mut()).unwrap();
        assert_eq!(census(&source), census(&there), "{name}");
        assert_eq!(census(&source), census(&back), "{name}");
        let Some((before, _)) = peer("trace-cmd", &["report", "-i"], &source) else { return };
        let Some((after, _)) = peer("trace-cmd", &["report", "-i"], &back) else { return };
        assert!(before == after, "{name}: trace-cmd prints both alike");
    }
}

#[test]
fn every_event_survives_the_report_text() {
    let dir = tempfile::tempdir().unwrap();
    let source = synthetic(dir.path());
    let text = dir.path().join("x.txt");
    let converted = convert(&source, &text, Target::Report).unwrap();
    assert_eq!(converted.events, 5_000);
    let (truth, mut back) = (read(&source), read(&text));
    for (event, truth) in back.iter_mut().zip(&truth) {
        event.context = truth.context;
    }
    assert!(back == truth);
    // And a text becomes a trace.dat.
    let again = dir.path().join("again.dat");
    let converted = convert(&text, &again, V6).unwrap();
    assert!(!converted.untouched && converted.events == 5_000);
    assert!(read(&again) == read(&text));
}

#[test]
fn csv_has_a_line_for_each_event_and_quotes_what_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("x.txt");
    std::fs::write(
        &source,
        " a,\"b-1 [000] 1.5: sched_waking: comm=c, d pid=3 prio=1 target_cpu=1\n",
    )
    .unwrap();
    let path = dir.path().join("x.csv");
    convert(&source, &path, Target::Csv).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[2], "1500000000,0,sched_waking,unknown,1,<...>,3,\"c, d\",1,,1,,,,,,");
    let columns = lines[0].split(',').count();
    assert_eq!(columns, 17);
}

#[test]
fn a_target_that_failed_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("nonsense");
    std::fs::write(&source, "nonsense").unwrap();
    assert!(convert(&source, &dir.path().join("x.csv"), Target::Csv).is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(Target::by_name(Path::new("a.pftrace")), Some(Target::Perfetto));
    assert_eq!(Target::by_name(Path::new("a")), None);
}
