//! Texts: each spelling of a trace tells the same story as the trace itself.

use crate::common::{counts, data, peer};
use schedlab_model::{Event, EventSource, Kind, Left, What};
use schedlab_trace::dat::Header;
use schedlab_trace::synthetic::{Plan, Synthetic};
use schedlab_trace::{Census, TraceErrorKind, open, open_bytes};
use std::collections::BTreeMap;
use std::path::Path;

fn events(source: &mut dyn EventSource) -> Vec<Event> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while source.next(&mut batch).unwrap() {
        all.extend(batch.iter().filter(|event| event.what.kind() != Kind::Comm));
    }
    all
}

#[test]
fn what_trace_cmd_prints_reads_back_as_the_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.dat");
    let plan = Plan { cpus: 4, events: 3_000, ..Plan::default() };
    Synthetic::new(plan).write(&path, Header::default()).unwrap();
    let truth = events(open(&path).unwrap().as_mut());
    for arguments in [vec!["-t"], vec!["-t", "-N"], vec!["-t", "-R"], vec!["-t", "-N", "-l"]] {
        let mut all = vec!["report"];
        all.extend(&arguments);
        all.push("-i");
        let Some((text, _)) = peer("trace-cmd", &all, &path) else { return };
        let mut source = open_bytes(Path::new("report.txt"), text.into_bytes()).unwrap();
        let read = events(source.as_mut());
        assert_eq!(read.len(), truth.len(), "{arguments:?}");
        for (a, b) in read.iter().zip(&truth) {
            // The interrupt's flag is printed only with -l.
            let flags = arguments.contains(&"-l");
            // The plugin that lays out the default text prints no `+`.
            let told = if arguments.len() == 1 { without_plus(b.what) } else { b.what };
            assert_eq!((a.time, a.cpu, a.by, a.what), (b.time, b.cpu, b.by, told), "{arguments:?}");
            assert!(!flags || a.context == b.context, "{a:?} {b:?}");
        }
        assert!(source.warnings().is_empty(), "{:?}", source.warnings());
    }
}

fn without_plus(what: What) -> What {
    match what {
        What::Switch { prev, prev_prio, left: Left::Preempted, next, next_prio } => {
            What::Switch { prev, prev_prio, left: Left::Displaced, next, next_prio }
        }
        other => other,
    }
}

#[test]
fn what_perf_prints_reads_back_as_the_trace() {
    let Some(path) = data("traces/local_2cpu_pipe.perf.data") else { return };
    let truth = events(open(&path).unwrap().as_mut());
    let Some((text, _)) = peer("perf", &["script", "--ns", "-i"], &path) else { return };
    let read = events(open_bytes(Path::new("perf.txt"), text.into_bytes()).unwrap().as_mut());
    assert_eq!(read.len(), truth.len());
    for (a, b) in read.iter().zip(&truth) {
        assert_eq!((a.time, a.cpu, a.by), (b.time, b.cpu, b.by));
        // perf prints no `+`, so displaced and yielding tasks look alike.
        if let (What::Switch { prev, next, .. }, What::Switch { prev: p, next: n, .. }) =
            (a.what, b.what)
        {
            assert_eq!((prev, next), (p, n));
        }
    }
}

#[test]
fn texts_of_others_are_counted_line_by_line() {
    for name in ["lisa_trace.txt", "catapult_android_systrace.txt"] {
        let Some(path) = data("traces").map(|dir| dir.join(name)) else { return };
        let text = std::fs::read_to_string(&path).unwrap();
        let mut source = open(&path).unwrap();
        let census = Census::of(source.as_mut()).unwrap();
        let ours = census.per_cpu.iter().flat_map(|(cpu, names)| {
            names.iter().map(|(name, count)| ((cpu.0, name.clone()), *count))
        });
        assert_eq!(ours.collect::<BTreeMap<_, _>>(), counts(&text).0, "{name}");
        assert!(census.events()["sched_switch"] > 40, "{name}");
        assert!(source.warnings().is_empty(), "{:?}", source.warnings());
    }
}

#[test]
fn a_text_without_events_is_no_trace() {
    for text in ["hello\nworld\n", "{\"a\": [1]}"] {
        let error = open_bytes(Path::new("x.txt"), text.as_bytes().to_vec()).err().unwrap();
        assert_eq!(error.kind(), TraceErrorKind::Unknown, "{error}");
    }
}

#[test]
fn a_text_cut_anywhere_or_with_any_byte_wrong_is_read_as_far_as_it_goes() {
    let text = "version = 6\ncpus=2\n sh-1 [000]  1.000001: sched_switch: sh:1 [120] S ==> a:2 [120]\n\
        CPU:1 [77 EVENTS DROPPED]\n a-2 [001] d.h2 1.000002: sched_waking: comm=b pid=3 prio=1 \
        target_cpu=001\n x-1 3d.s.. 2.5: mark: begin load pid=5\n p 4/5 [0] 3.5: irq:x: y\n";
    for length in 0..text.len() {
        if let Ok(mut source) = open_bytes(Path::new("x"), text.as_bytes()[..length].to_vec()) {
            events(source.as_mut());
        }
        for change in [1, 0x20, 0x80, 0xff] {
            let mut bytes = text.as_bytes().to_vec();
            bytes[length] ^= change;
            if let Ok(mut source) = open_bytes(Path::new("x"), bytes) {
                events(source.as_mut());
            }
        }
    }
    let read = events(open_bytes(Path::new("x"), text.as_bytes().to_vec()).unwrap().as_mut());
    let kinds: Vec<Kind> = read.iter().map(|event| event.what.kind()).collect();
    assert_eq!(kinds, [Kind::Switch, Kind::Lost, Kind::Waking, Kind::Mark, Kind::Other]);
    assert_eq!(read[1].time, read[2].time, "a loss lies before what follows it");
}

#[test]
fn the_text_of_a_latency_tracer_in_a_trace_dat_is_read() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/lost.dat");
    let mut bytes = std::fs::read(corpus).unwrap();
    let tag = b"options  \0";
    let at = bytes.windows(tag.len()).position(|window| window == tag).expect("a v6 file");
    bytes.truncate(at);
    bytes.extend(b"latency  \0# tracer: wakeup\n#\n");
    let empty = schedlab_trace::open_bytes(Path::new("x.dat"), bytes.clone());
    assert!(empty.err().unwrap().to_string().contains("latency tracer"));
    bytes.extend(
        b"    bash-12      1d..2.    7us : sched_switch: prev_comm=bash prev_pid=12 \
          prev_prio=120 prev_state=S ==> next_comm=sh next_pid=13 next_prio=120\n",
    );
    let mut source = schedlab_trace::open_bytes(Path::new("x.dat"), bytes).unwrap();
    let mut batch = Vec::new();
    assert!(source.next(&mut batch).unwrap());
    let switch = batch.iter().find(|event| matches!(event.what, What::Switch { .. })).unwrap();
    assert_eq!((switch.time.0, switch.cpu.0, switch.by.0), (7_000, 1, 12));
}

/// A task waits on CPU 1 before any line names that CPU; nothing says how many CPUs there are.
const LATE_CPU: &str = " a-1 [000] 1.000001: sched_waking: comm=b pid=2 prio=120 target_cpu=001
 a-1 [000] 1.000002: sched_wakeup: comm=b pid=2 prio=120 target_cpu=001
 a-1 [000] 1.000003: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=swapper/0 \
next_pid=0 next_prio=120
";

#[test]
fn a_wait_on_a_cpu_that_no_line_has_named_yet_counts() {
    use schedlab_timeline::{Latency, ask};
    // More than a batch of lines before CPU 1 says anything.
    let others = (0..3_000).map(|line| format!(" <idle>-0 [000] 1.{:06}: irq: x\n", 100 + line));
    let mut text = LATE_CPU.to_owned() + &others.collect::<String>();
    text += " <idle>-0 [001] 1.010000: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 \
             prev_state=R ==> next_comm=b next_pid=2 next_prio=120\n";
    let mut source = open_bytes(Path::new("x.txt"), text.into_bytes()).unwrap();
    let reply = ask(source.as_mut(), Latency::new()).unwrap();
    assert_eq!(reply.answer.total.wakeup.count(), 1);
    let codes: Vec<&str> = reply.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(codes, ["no-contexts"], "the lines have no flags");
    assert_eq!(source.info().cpus.to_string(), "0-1");
}

#[test]
fn the_line_of_androids_clocks_is_no_event() {
    let text = format!(
        "           dummy-0000  [000] 0.0: 0: trace_event_clock_sync: parent_ts=0\n{LATE_CPU}\
           dummy-0000  [000] 0.0: 0: trace_event_clock_sync: parent_ts=0\n"
    );
    let mut source = open_bytes(Path::new("x.txt"), text.into_bytes()).unwrap();
    assert_eq!(events(source.as_mut()).len(), 3);
    assert!(source.warnings().is_empty(), "{:?}", source.warnings());
}
