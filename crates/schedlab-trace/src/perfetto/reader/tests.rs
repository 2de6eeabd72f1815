//! Small traces made field by field: what other writers say, and ours does not.

use super::ftrace_events::context;
use super::*;
use crate::names::comm;
use crate::protobuf::{bytes, number, signed};
use schedlab_model::Left;
use std::path::Path;

/// The fields of a message, one after the other.
#[derive(Clone, Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(mut self, field: u32, value: u64) -> Self {
        number(&mut self.0, field, value);
        self
    }

    fn signed(mut self, field: u32, value: i32) -> Self {
        signed(&mut self.0, field, value);
        self
    }

    fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        bytes(&mut self.0, field, value);
        self
    }

    fn text(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    fn message(self, field: u32, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }

    /// Numbers packed into one field; each below 128.
    fn packed(self, field: u32, values: &[u8]) -> Self {
        self.bytes(field, values)
    }
}

fn message() -> Message {
    Message::default()
}

/// An event of its own: its time, who ran, and one field more.
fn event(time: u64, pid: i32, field: u32, content: &Message) -> Message {
    message().number(event::TIMESTAMP, time).signed(event::PID, pid).message(field, content)
}

fn switch(prev: i32, state: u64, next: i32) -> Message {
    let prev = message().text(1, "a").signed(2, prev).signed(3, 120).number(4, state);
    prev.text(5, "b").signed(6, next).signed(7, 100)
}

/// The bundle of a CPU with these events.
fn bundle_of(cpu: u64, events: &[Message]) -> Message {
    let bundle = message().number(bundle::CPU, cpu);
    events.iter().fold(bundle, |bundle, event| bundle.message(bundle::EVENT, event))
}

/// A trace of packets with these fields.
fn trace_of(packets: &[(u32, Message)]) -> Vec<u8> {
    let all = packets.iter().fold(message(), |all, (field, content)| {
        all.message(trace::PACKET, &message().message(*field, content))
    });
    all.0
}

fn bundles(bundles: &[Message]) -> Vec<u8> {
    let packets: Vec<_> =
        bundles.iter().map(|bundle| (packet::FTRACE_EVENTS, bundle.clone())).collect();
    trace_of(&packets)
}

fn opened(bytes: Vec<u8>) -> PerfettoReader {
    PerfettoReader::open(Input::memory(Path::new("x"), bytes), true).unwrap()
}

/// All events but names, each with its arguments.
fn read(reader: &mut PerfettoReader) -> Vec<(Event, Option<String>)> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.next(&mut batch).unwrap() {
        for (index, event) in batch.iter().enumerate() {
            all.push((*event, reader.arguments(index).map(Cow::into_owned)));
        }
    }
    all.retain(|(event, _)| !matches!(event.what, What::Comm { .. }));
    all
}

fn whats(bytes: Vec<u8>) -> Vec<What> {
    read(&mut opened(bytes)).into_iter().map(|(event, _)| event.what).collect()
}

#[test]
fn a_file_is_known_by_its_first_packet() {
    let sound = bundles(&[bundle_of(0, &[event(5, 7, event::SWITCH, &switch(7, 1, 8))])]);
    assert!(looks_like(&sound));
    assert!(!looks_like(b""));
    assert!(!looks_like(&message().number(1, 5).0), "a packet is bytes");
    assert!(!looks_like(&message().bytes(2, b"").0), "another field");
    assert!(!looks_like(&message().message(1, &message().number(2000, 1)).0), "no such field");
    assert!(looks_like(&message().message(1, &message().number(1999, 1)).0));
    assert!(!looks_like(&message().bytes(1, &[0x0b, 1]).0), "what is in it makes no sense");
    // One longer than what was looked at: its length has several bytes.
    assert!(looks_like(&[0x0a, 0x80, 0x7f, 1, 2, 3, 4, 5, 6]));
    assert!(!looks_like(&[0x0a, 0x80, 0x7f, 1, 2, 3, 4, 5]), "too short for that");
    assert!(!looks_like(&[0x0a, 0x7f, 1, 2, 3, 4, 5, 6, 7]));
    assert!(!looks_like(&[0x0b, 0x80, 0x7f, 1, 2, 3, 4, 5, 6]));
}

#[test]
fn user_space_marks_phases_within_a_task_and_across() {
    let said = |text: &str| mark(&message().text(2, text).0);
    let told = |phase, name: &str, request| Some((phase, Pid(7), name.to_owned(), request));
    assert_eq!(said("B|7|load\n"), told(Phase::Begin, "load", 0));
    assert_eq!(said("E|7|load"), told(Phase::End, "load", 0));
    assert_eq!(said("E|7"), told(Phase::End, "", 0));
    assert_eq!(said("I|7|a|b"), told(Phase::Point, "a|b", 0), "only spans have a request");
    assert_eq!(said("S|7|a|b|9"), told(Phase::Begin, "a|b", 9));
    assert_eq!(said("F|7|load|9"), told(Phase::End, "load", 9));
    assert_eq!(said("S|7|load"), told(Phase::Begin, "load", 0));
    assert_eq!(said("F|7|load|x"), None);
    assert_eq!(said("C|7|counter|5"), told(Phase::Point, "counter", 0));
    assert_eq!(said("G|7|track|load|9"), told(Phase::Begin, "load", 9));
    assert_eq!(said("H|7|track|9"), told(Phase::End, "", 9));
    assert_eq!(said("N|7|track|load"), told(Phase::Point, "load", 0));
    assert_eq!(said("D|7|load"), None);
    assert_eq!(said("B|x|load"), None);
    assert_eq!(mark(&message().text(1, "B|7|load").0), None, "another field");
}

#[test]
fn marks_are_numbered_by_their_names() {
    let print = |time, text: &str| event(time, 7, event::PRINT, &message().text(2, text));
    let bytes = bundles(&[bundle_of(
        0,
        &[print(1, "B|7|a"), print(2, "B|7|b"), print(3, "E|7|b"), print(4, "hello")],
    )]);
    let mut reader = opened(bytes);
    let marks: Vec<_> = read(&mut reader).iter().map(|(event, _)| event.what).collect();
    let mark = |id, phase| What::Mark { pid: Pid(7), id, phase, request: 0 };
    let other = What::Other { format: 1 };
    assert_eq!(
        marks,
        [mark(0, Phase::Begin), mark(1, Phase::Begin), mark(1, Phase::End), other],
        "a text that is no mark is a tracepoint"
    );
    assert_eq!(reader.info().others[1].name, "print");
    assert_eq!(reader.info().marks, ["a", "b"]);
}

#[test]
fn events_of_their_own_are_read_field_by_field() {
    let woken = message().text(1, "b").signed(2, 8).signed(3, 99).number(5, 3);
    let migrate = message().text(1, "b").signed(2, 8).number(4, 3).number(5, 2);
    let fork = message().text(1, "a").signed(2, 7).text(3, "c").signed(4, 9);
    let events = [
        event(1, 7, event::SWITCH, &switch(7, 2, 8)),
        event(2, 7, event::WAKING, &woken),
        event(3, 7, event::WAKEUP, &woken),
        event(4, 7, event::WAKEUP_NEW, &woken),
        event(5, 7, event::MIGRATE, &migrate),
        event(6, 7, event::FORK, &fork),
        event(7, 7, event::EXEC, &message().text(1, "/c").signed(2, 9).signed(3, 6)),
        event(8, 7, event::EXIT, &message().text(1, "b").signed(2, 8)),
    ];
    let prev = What::Switch {
        prev: Pid(7),
        prev_prio: Prio(120),
        left: Left::Blocked,
        next: Pid(8),
        next_prio: Prio(100),
    };
    let (pid, prio) = (Pid(8), Prio(99));
    let wakeup = |new| What::Wakeup { pid, prio, cpu: Cpu(3), new };
    let expected = [
        prev,
        What::Waking { pid, prio, last_cpu: Cpu(3) },
        wakeup(false),
        wakeup(true),
        What::Migrate { pid, from: Cpu(3), to: Cpu(2) },
        What::Fork { child: Pid(9) },
        What::Exec { old: Pid(6) },
        What::Exit { pid },
    ];
    assert_eq!(whats(bundles(&[bundle_of(0, &events)])), expected);
}

#[test]
fn events_tell_the_names_of_their_tasks() {
    let fork = message().text(1, "a").signed(2, 7).text(3, "c").signed(4, 9);
    let woken = message().text(1, "d").signed(2, 10).number(5, 0);
    let idle = message().text(1, "b").signed(2, 8).text(5, "swapper/0").signed(6, 0);
    let kinds = [event::WAKING, event::WAKEUP, event::WAKEUP_NEW, event::MIGRATE, event::EXIT];
    let names = |field: u32, content: &Message| {
        let mut reader = opened(bundles(&[bundle_of(0, &[event(1, 7, field, content)])]));
        let mut batch = Vec::new();
        reader.next(&mut batch).unwrap();
        let name = |event: &Event| match event.what {
            What::Comm { pid, comm } => Some((pid.0, comm)),
            _ => None,
        };
        batch.iter().filter_map(name).collect::<Vec<_>>()
    };
    assert_eq!(names(event::SWITCH, &switch(7, 1, 8)), [(7, comm(b"a")), (8, comm(b"b"))]);
    assert_eq!(names(event::SWITCH, &idle), [(8, comm(b"b"))], "the idle task has no name");
    assert_eq!(names(event::FORK, &fork), [(9, comm(b"c"))]);
    for kind in kinds {
        assert_eq!(names(kind, &woken), [(10, comm(b"d"))], "{kind}");
    }
    assert_eq!(names(event::EXEC, &woken), []);
}

#[test]
fn flags_say_whether_an_event_was_in_an_interrupt() {
    let contexts = [0, 0x10, 0x08, 0x18, 0x40, 0x48, 0x01].map(context);
    let hard = Context::HardIrq;
    let expected =
        [Context::Task, Context::SoftIrq, hard, hard, Context::Nmi, Context::Nmi, Context::Task];
    assert_eq!(contexts, expected);
    let woken = message().text(1, "b").signed(2, 8).number(5, 0);
    let event = event(1, 7, event::WAKING, &woken).number(event::COMMON_FLAGS, 0x10);
    let read = read(&mut opened(bundles(&[bundle_of(0, &[event])])));
    assert_eq!((read[0].0.context, read[0].0.by), (Context::SoftIrq, Pid(7)));
}

/// Two switches and two wakings in columns.
fn compact() -> Message {
    let table = message().text(compact::INTERN_TABLE, "a").text(compact::INTERN_TABLE, "b");
    table
        .packed(compact::SWITCH_TIMESTAMP, &[10, 5])
        .packed(compact::SWITCH_PREV_STATE, &[1, 2])
        .packed(compact::SWITCH_NEXT_PID, &[7, 8])
        .packed(compact::SWITCH_NEXT_PRIO, &[100, 110])
        .packed(compact::SWITCH_NEXT_COMM, &[0, 1])
        .packed(compact::WAKING_TIMESTAMP, &[12, 1])
        .packed(compact::WAKING_PID, &[8, 9])
        .packed(compact::WAKING_TARGET_CPU, &[1, 2])
        .packed(compact::WAKING_PRIO, &[110, 99])
        .packed(compact::WAKING_COMM, &[1, 0])
        .packed(compact::WAKING_FLAGS, &[0x10, 0])
}

#[test]
fn columns_are_events_by_who_ran_before() {
    let bundle = message().number(bundle::CPU, 3).message(bundle::COMPACT_SCHED, &compact());
    let read = read(&mut opened(bundles(&[bundle])));
    let times: Vec<u64> = read.iter().map(|(event, _)| event.time.0).collect();
    assert_eq!(times, [10, 12, 13, 15]);
    let bys: Vec<i32> = read.iter().map(|(event, _)| event.by.0).collect();
    assert_eq!(bys, [0, 7, 7, 7], "who runs wakes; before the first switch nobody is known");
    let switch = |prev, prev_prio, left, next, next_prio| What::Switch {
        prev: Pid(prev),
        prev_prio: Prio(prev_prio),
        left,
        next: Pid(next),
        next_prio: Prio(next_prio),
    };
    let waking =
        |pid, prio, cpu| What::Waking { pid: Pid(pid), prio: Prio(prio), last_cpu: Cpu(cpu) };
    let whats: Vec<What> = read.iter().map(|(event, _)| event.what).collect();
    let first = switch(0, 120, Left::Slept, 7, 100);
    let last = switch(7, 100, Left::Blocked, 8, 110);
    assert_eq!(whats, [first, waking(8, 110, 1), waking(9, 99, 2), last]);
    let contexts: Vec<Context> = read.iter().map(|(event, _)| event.context).collect();
    assert_eq!(contexts[1..3], [Context::SoftIrq, Context::Task]);
    assert!(read.iter().all(|(event, _)| event.cpu == Cpu(3)));
}

#[test]
fn events_that_are_missing_are_a_loss_before_the_others() {
    let events = [event(5, 7, event::SWITCH, &switch(7, 1, 8))];
    let with = |lost: u64| bundle_of(0, &events).number(bundle::LOST_EVENTS, lost);
    let lost = whats(bundles(&[with(1)]));
    assert!(matches!(lost[..], [What::Lost { count: None }, What::Switch { .. }]), "{lost:?}");
    assert_eq!(whats(bundles(&[with(0)])).len(), 1, "none are");
}

#[test]
fn the_clock_of_the_bundles_is_told() {
    let clock = |number: u64| {
        let bundle = bundle_of(0, &[event(5, 7, event::SWITCH, &switch(7, 1, 8))]);
        opened(bundles(&[bundle.number(bundle::FTRACE_CLOCK, number)])).info().clock.clone()
    };
    let named = |name: &str| Clock::Nanoseconds(name.to_owned());
    assert_eq!([0, 2, 1].map(clock), ["boot", "global", "unknown"].map(named));
}

#[test]
fn the_tree_of_processes_tells_names_and_owners() {
    // A process has a command line, a thread a name and its process.
    let process = message().signed(1, 7).text(3, "/usr/bin/load").text(3, "--fast");
    let thread = |tid, name, tgid| message().signed(1, tid).text(2, name).signed(3, tgid);
    let tree = message()
        .message(1, &process)
        .message(2, &thread(8, "worker", 7))
        .message(2, &thread(7, "renamed", 7))
        .message(2, &thread(9, "alone", 0))
        .message(3, &thread(10, "no thread", 7));
    let bundle = bundle_of(0, &[event(5, 7, event::SWITCH, &switch(7, 1, 8))]);
    let packets = [(packet::PROCESS_TREE, tree), (packet::FTRACE_EVENTS, bundle)];
    let reader = opened(trace_of(&packets));
    let names: Vec<_> = reader.info().comms.iter().map(|(pid, comm)| (pid.0, *comm)).collect();
    assert_eq!(names, [(7, comm(b"renamed")), (8, comm(b"worker")), (9, comm(b"alone"))]);
    assert_eq!(reader.info().processes, Some(BTreeMap::from([(Pid(8), Pid(7))])));
}

#[test]
fn other_tracepoints_keep_their_names_and_arguments() {
    let field = |name: &str, kind: u32, value: u64| message().text(1, name).number(kind, value);
    let generic = message()
        .text(1, "irq")
        .message(2, &field("a", 4, -5_i64 as u64))
        .message(2, &field("b", 5, u64::MAX))
        .message(2, &message().text(1, "c").text(3, "disk"))
        .message(2, &message().text(1, "text").text(3, "as it was"));
    let long = message().text(1, &"x".repeat(257));
    let events = [
        event(1, 7, event::GENERIC, &generic),
        event(2, 7, event::GENERIC, &long),
        event(3, 7, 99, &message().number(1, 1)),
        event(4, 7, event::GENERIC, &generic),
    ];
    let mut reader = opened(bundles(&[bundle_of(0, &events)]));
    let read = read(&mut reader);
    let names: Vec<&str> = reader.info().others.iter().map(|other| other.name.as_str()).collect();
    assert_eq!(names, ["other", "irq"]);
    let told = (What::Other { format: 1 }, Some("a=-5 b=18446744073709551615 c=disk as it was"));
    assert_eq!((read[0].0.what, read[0].1.as_deref()), told);
    assert_eq!(read[1].0.what, What::Other { format: 0 }, "its name is too long");
    assert_eq!((read[2].0.what, read[2].1.as_deref()), (What::Other { format: 0 }, None));
    assert_eq!(read[3].0.what, What::Other { format: 1 }, "its name is known");
    assert_eq!(generic_name(&"x".repeat(256)), Some("x".repeat(256)));
    assert_eq!(generic_name(""), None);
}

fn generic_name(name: &str) -> Option<String> {
    let content = message().text(1, name).0;
    super::generic(&content).map(|name| String::from_utf8_lossy(name).into_owned())
}

#[test]
fn bundles_come_in_the_order_of_their_first_event_and_late_events_are_raised() {
    let at = |time| event(time, 7, event::SWITCH, &switch(7, 1, 8));
    let mut reader =
        opened(bundles(&[bundle_of(0, &[at(20), at(30)]), bundle_of(0, &[at(25), at(10)])]));
    let times: Vec<u64> = read(&mut reader).iter().map(|(event, _)| event.time.0).collect();
    assert_eq!(times, [10, 25, 25, 30]);
    let warnings: Vec<&str> = reader.warnings().iter().map(|w| w.what.as_str()).collect();
    // Its names and the switch.
    assert_eq!(warnings, ["x: 3 events are earlier than the event before them"]);
    let mut reader = opened(bundles(&[bundle_of(0, &[at(20)])]));
    read(&mut reader);
    assert!(reader.warnings().is_empty());
}

#[test]
fn a_trace_that_is_cut_says_where() {
    let bundle = bundle_of(2, &[event(5, 7, event::SWITCH, &switch(7, 1, 8))]);
    let whole = bundles(&[bundle.clone(), bundle]);
    let half = whole.len() / 2;
    let said = |bytes: Vec<u8>| opened(bytes).warnings()[0].what.clone();
    let inside = said(whole[..whole.len() - 1].to_vec());
    assert_eq!(inside, format!("x: the file ends inside a packet (at offset {})", half + 2));
    let head = said(whole[..=half].to_vec());
    assert_eq!(head, format!("x: the file ends inside a packet's head (at offset {half})"));
    let nonsense = said([&whole[..half], &[0x08, 5]].concat());
    assert_eq!(nonsense, format!("x: missing start of a packet (at offset {half})"));
    assert!(opened(whole.clone()).warnings().is_empty());
    // Other fields of the trace are passed over, as packets are that hold none of it.
    let more = [&whole[..], &message().bytes(9, b"x").message(1, &message().number(8, 1)).0];
    assert!(opened(more.concat()).warnings().is_empty());
    assert_eq!(opened(whole).info().cpus.to_string(), "2");
}

#[test]
fn a_trace_without_scheduler_events_is_refused() {
    let open = |bytes| PerfettoReader::open(Input::memory(Path::new("x"), bytes), false);
    let error = open(bundles(&[message().number(bundle::CPU, 1)])).err().unwrap().to_string();
    assert!(error.contains("holds no scheduler events"), "{error}");
    let far = bundle_of(70_000, &[event(5, 7, event::SWITCH, &switch(7, 1, 8))]);
    assert!(open(bundles(&[far])).is_err(), "no CPU has this number");
}

/// A trace of one switch with this state, of a kernel of this release.
fn left_by(release: Option<&str>, state: u64) -> (Left, Vec<String>) {
    let utsname = release.map(|release| {
        let names = message().text(system::RELEASE, release);
        (packet::SYSTEM_INFO, message().message(system::UTSNAME, &names))
    });
    let events = [event(1, 7, event::SWITCH, &switch(7, state, 8))];
    let packets: Vec<_> =
        utsname.into_iter().chain([(packet::FTRACE_EVENTS, bundle_of(0, &events))]).collect();
    let mut reader = opened(trace_of(&packets));
    let codes = reader.warnings().iter().map(|warning| warning.code.clone()).collect();
    let Some((Event { what: What::Switch { left, .. }, .. }, _)) = read(&mut reader).pop() else {
        panic!("a switch")
    };
    (left, codes)
}

#[test]
fn states_mean_what_the_kernel_of_the_trace_says() {
    let of = |release: &str, state| left_by(Some(release), state).0;
    // From 4.14 on the report is one bit behind the highest state, and P and I have bits of their own.
    for release in ["4.14.98", "5.10.43-android12", "6.18.0"] {
        assert_eq!(
            [0, 1, 2].map(|s| of(release, s)),
            [Left::Displaced, Left::Slept, Left::Blocked]
        );
        assert_eq!(
            [0x40, 0x80, 0x100].map(|s| of(release, s)),
            [Left::Parked, Left::IdleSleep, Left::Preempted]
        );
        assert_eq!([0x10, 0x20].map(|s| of(release, s)), [Left::Dead, Left::Dead]);
    }
    // Before, 256 is a waking task and the flag is behind it: 2048, from 4.8 on 4096.
    assert_eq!(
        [0x100, 0x200, 0x800].map(|s| of("4.4.88", s)),
        [Left::Other, Left::Parked, Left::Preempted]
    );
    assert_eq!([0x200, 0x1000].map(|s| of("4.9.1", s)), [Left::Parked, Left::Preempted]);
    // Without a kernel the rule is that of 4.4, and what no kernel switches away from is the flag of a later one.
    assert_eq!(
        [0x100, 0x800, 2].map(|s| left_by(None, s).0),
        [Left::Preempted, Left::Preempted, Left::Blocked]
    );
    assert!(left_by(None, 0x800).1.is_empty());
}

#[test]
fn states_that_no_tracepoint_reports_are_the_kernels_own_and_the_reader_says_so() {
    // `TASK_FREEZABLE` beside an interruptible sleep, and an uninterruptible one without load.
    for (state, left) in [(8193, Left::Slept), (1026, Left::IdleSleep), (0x2100, Left::Other)] {
        let (told, codes) = left_by(Some("6.6.1"), state);
        assert_eq!((told, codes.join(" ").as_str()), (left, "states-as-in-kernel"), "{state}");
    }
    assert_eq!(left_by(Some("4.4.1"), 0x1002).0, Left::Blocked);
    assert_eq!(left_by(Some("6.6.1"), 0x102), (Left::Preempted, vec![]), "the flag wins");
}

#[test]
fn events_from_before_the_time_that_the_trace_covers_are_left_out() {
    let at = |time| event(time, 7, event::SWITCH, &switch(7, 1, 8));
    let first = |cpu, end| bundle_of(cpu, &[at(10), at(30)]).number(bundle::PREVIOUS_END, end);
    let later = bundle_of(0, &[at(50)]).number(bundle::PREVIOUS_END, 45);
    let bundles = [first(0, 5), first(1, 20), later];
    let times = |bytes: Vec<u8>| {
        let mut reader = opened(bytes);
        let times: Vec<u64> = read(&mut reader).iter().map(|(event, _)| event.time.0).collect();
        (times, reader.warnings().iter().map(|w| w.what.clone()).collect::<Vec<_>>())
    };
    let (told, warnings) = times(self::bundles(&bundles));
    assert_eq!(told, [30, 30, 50], "only what is before a CPU's first bundle counts");
    assert_eq!(
        warnings,
        ["x: 2 events are left out: the trace does not have those of all CPUs then"]
    );
    let started = message().number(packet::TIMESTAMP, 40);
    let started = started.message(packet::SERVICE_EVENT, &message().number(2, 1));
    let mut all = message().message(trace::PACKET, &started).0;
    all.extend(self::bundles(&bundles));
    assert_eq!(times(all).0, [50]);
}

#[test]
fn slices_of_tracks_are_marks_of_their_threads_and_others_have_their_track_as_request() {
    let slice = |time, kind, track, name: Option<&str>| {
        let of = message().number(9, kind).number(11, track);
        let of = name.map_or(of.clone(), |name| of.text(23, name));
        message()
            .number(packet::TIMESTAMP, time)
            .number(packet::TRUSTED_PACKET_SEQUENCE_ID, 3)
            .message(packet::TRACK_EVENT, &of)
    };
    let thread = message().number(1, 70).message(4, &message().number(1, 5).number(2, 7));
    let described = message().message(packet::TRACK_DESCRIPTOR, &thread);
    let named = message().message(2, &message().number(1, 9).text(2, "interned"));
    let by_number = message().number(packet::TIMESTAMP, 500);
    let by_number = by_number
        .number(packet::TRUSTED_PACKET_SEQUENCE_ID, 3)
        .number(packet::CLOCK_ID, 64)
        .message(packet::INTERNED_DATA, &named)
        .message(packet::TRACK_EVENT, &message().number(9, 3).number(10, 9).number(11, 80));
    // Clock 64 of this writer stands at 400 when the boot clock stands at 30.
    let clock = |id, value| message().number(1, id).number(2, value);
    let snapshot = message().message(1, &clock(6, 30)).message(1, &clock(64, 400));
    let snapshot = message()
        .number(packet::TRUSTED_PACKET_SEQUENCE_ID, 3)
        .message(packet::CLOCK_SNAPSHOT, &snapshot);
    let unknown = slice(9, 3, 70, Some("nowhere")).number(packet::CLOCK_ID, 65);
    let packets = [
        described,
        snapshot,
        slice(10, 1, 70, Some("outer")),
        slice(11, 1, 70, Some("inner")),
        slice(12, 2, 70, None),
        slice(13, 1, 80, Some("queue")),
        slice(14, 2, 80, None),
        slice(15, 2, 80, None),
        by_number,
        unknown,
    ];
    let mut bytes = bundles(&[bundle_of(2, &[event(5, 7, event::SWITCH, &switch(7, 1, 8))])]);
    for packet in &packets {
        bytes.extend(message().message(trace::PACKET, packet).0);
    }
    let mut reader = opened(bytes);
    let told = read(&mut reader);
    let names = &reader.info().marks;
    let marks: Vec<_> = told
        .iter()
        .filter_map(|(event, _)| match event.what {
            What::Mark { pid, id, phase, request } => {
                Some((event.time.0, pid.0, &*names[id as usize], phase, request))
            }
            _ => None,
        })
        .collect();
    let expected = [
        (10, 7, "outer", Phase::Begin, 0),
        (11, 7, "inner", Phase::Begin, 0),
        (12, 7, "inner", Phase::End, 0),
        (13, 0, "queue", Phase::Begin, 1),
        (14, 0, "queue", Phase::End, 1),
        (130, 0, "interned", Phase::Point, 1),
    ];
    assert_eq!(marks, expected, "an end without a begin is none");
    assert_eq!(reader.warnings().len(), 1);
    assert!(reader.warnings()[0].what.contains("1 slices are on clocks"));
    assert_eq!(reader.info().cpus.to_string(), "2");
}

#[test]
fn an_end_without_a_name_ends_what_its_thread_began_last() {
    let print = |time, by, text: &str| event(time, by, event::PRINT, &message().text(2, text));
    let tree = message().message(2, &message().signed(1, 8).text(2, "w").signed(3, 7));
    let events =
        [print(1, 8, "B|7|a"), print(2, 7, "B|7|b"), print(3, 8, "E|7"), print(4, 7, "E|7")];
    let packets = [(packet::PROCESS_TREE, tree), (packet::FTRACE_EVENTS, bundle_of(0, &events))];
    let mut reader = opened(trace_of(&packets));
    let told: Vec<_> = read(&mut reader)
        .iter()
        .filter_map(|(event, _)| match event.what {
            What::Mark { pid, id, .. } => Some((pid.0, id)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(8, 0), (7, 1), (8, 0), (7, 1)], "the text names the process");
}

#[test]
fn only_the_first_machines_packets_are_read() {
    let at = |time| bundle_of(0, &[event(time, 7, event::SWITCH, &switch(7, 1, 8))]);
    let packet = |time, machine| {
        message().message(packet::FTRACE_EVENTS, &at(time)).number(packet::MACHINE, machine)
    };
    let all = message()
        .message(trace::PACKET, &packet(5, 9))
        .message(trace::PACKET, &packet(6, 8))
        .message(trace::PACKET, &packet(7, 9));
    let mut reader = opened(all.0);
    let times: Vec<u64> = read(&mut reader).iter().map(|(event, _)| event.time.0).collect();
    assert_eq!(times, [5, 7]);
    assert_eq!(reader.warnings()[0].code, "machines-several");
}

#[test]
fn a_place_in_the_kernel_has_the_name_that_its_number_has_there() {
    let reason = |time| event(time, 7, 18, &message().signed(1, 8).number(2, 1).number(3, 1));
    let symbols =
        |name: &str| message().message(KERNEL_SYMBOLS, &message().number(1, 1).text(2, name));
    let packet = |events: &[Message], names: Option<Message>| {
        let of = message().message(packet::FTRACE_EVENTS, &bundle_of(0, events));
        let of = of.number(packet::TRUSTED_PACKET_SEQUENCE_ID, 2);
        names.map_or(of.clone(), |names| of.message(packet::INTERNED_DATA, &names))
    };
    let all = message()
        .message(trace::PACKET, &packet(&[reason(1)], Some(symbols("filemap_fault"))))
        .message(trace::PACKET, &packet(&[reason(2)], None))
        .message(trace::PACKET, &packet(&[reason(3)], Some(symbols("futex_wait"))));
    let told: Vec<_> = read(&mut opened(all.0)).into_iter().filter_map(|(_, text)| text).collect();
    let with = |name: &str| format!("pid=8 iowait=1 caller={name}");
    assert_eq!(told, [with("filemap_fault"), with("filemap_fault"), with("futex_wait")]);
}
