//! Recorded calls by hand: which of them become objects, and which waits go with them.

use crate::script::{FUTEX, POLL, READ, Script, WRITE};
use schedlab_model::{Context, Nanos};
use schedlab_workload::demand::{Object, Step};

/// 11 reads and sleeps; 12 writes twice; 11 reads `second` bytes without a wait.
fn reader_and_writer(second: i64) -> Script {
    let mut script = Script::default();
    script.run(11);
    script.enter(READ, "fd=3 count=500");
    script.run(12);
    script.enter(WRITE, "fd=4 count=100");
    script.wake(11);
    script.exit(WRITE, 100);
    script.call(WRITE, "fd=4 count=100", 100);
    script.run(11);
    script.exit(READ, 100);
    script.call(READ, "fd=3 count=500", second);
    script.run(0);
    script
}

const fn take(object: u32, bytes: u32) -> Step {
    Step::Take { object, bytes }
}

const fn put(object: u32, bytes: u32) -> Step {
    Step::Put { object, bytes }
}

#[test]
fn a_read_that_found_data_takes_a_token_without_a_wait() {
    let (inferred, reader, writer) = reader_and_writer(100).inferred();
    assert_eq!(inferred.demand.objects, [Object::Pipe]);
    assert_eq!((inferred.totals.calls, inferred.totals.calls_unknown), (4, 0));
    assert_eq!(reader[..2], [take(0, 100), take(0, 100)], "{reader:?}");
    // Before its first burst it may have slept.
    assert_eq!(writer[1..3], [put(0, 100), put(0, 100)], "no wakeup beside: {writer:?}");
    assert!(!inferred.warnings.iter().any(|one| one.code == "hidden-dependencies"));
}

#[test]
fn an_object_with_a_writer_that_was_not_seen_is_unknown() {
    let (inferred, reader, writer) = reader_and_writer(400).inferred();
    assert!(inferred.demand.objects.is_empty());
    assert_eq!((inferred.totals.calls, inferred.totals.calls_unknown), (4, 4));
    assert_eq!(reader[0], Step::Wait, "{reader:?}");
    assert!(matches!(writer[1], Step::Post(_)), "{writer:?}");
    assert!(inferred.warnings.iter().any(|one| one.code == "hidden-dependencies"));
}

#[test]
fn what_nobody_reads_any_more_is_not_put() {
    let (inferred, reader, writer) = reader_and_writer(50).inferred();
    inferred.demand.check().unwrap();
    assert_eq!(reader[..2], [take(0, 100), take(0, 50)]);
    assert_eq!(writer[1..3], [put(0, 100), put(0, 50)]);
}

#[test]
fn a_futex_whose_value_had_changed_takes_the_token_of_the_wakeup_that_found_nobody() {
    let mut script = Script::default();
    script.run(12);
    script.call(FUTEX, "uaddr=0x10 op=1 val=1", 0);
    script.run(11);
    script.call(FUTEX, "uaddr=0x10 op=0 val=7", -11);
    // Nobody woke this one: the value had changed by itself.
    script.call(FUTEX, "uaddr=0x20 op=0 val=7", -11);
    script.run(0);
    let (inferred, waiter, waker) = script.inferred();
    assert_eq!(inferred.totals.futex_tokens, 1);
    assert!(waiter.contains(&take(0, 1)) && waker.contains(&put(0, 1)), "{waiter:?} {waker:?}");
}

/// 11 polls, is woken by a write of 12, and reads; then it polls again, finds bytes, and reads them.
fn poller(between: impl Fn(&mut Script)) -> Script {
    let mut script = Script::default();
    script.run(11);
    script.enter(POLL, "epfd=5");
    script.run(12);
    script.enter(WRITE, "fd=4 count=100");
    script.wake(11);
    script.exit(WRITE, 100);
    script.call(WRITE, "fd=4 count=100", 100);
    script.run(11);
    script.exit(POLL, 1);
    between(&mut script);
    script.call(READ, "fd=3 count=100", 100);
    script.call(POLL, "epfd=5", 1);
    script.call(READ, "fd=3 count=100", 100);
    script.run(0);
    script
}

#[test]
fn a_poll_waits_for_what_is_read_next() {
    let (inferred, reader, writer) = poller(|_| {}).inferred();
    assert_eq!(inferred.demand.objects, [Object::Pipe]);
    assert_eq!((inferred.totals.calls_unknown, inferred.totals.polls), (0, 2));
    // What it polled for is taken there, and the read takes nothing more.
    assert_eq!(reader[..2], [take(0, 100), take(0, 100)], "{reader:?}");
    assert_eq!(writer[1..3], [put(0, 100), put(0, 100)], "no wakeup beside: {writer:?}");
}

#[test]
fn a_poll_before_a_write_does_not_wait_for_its_answer() {
    let write = |script: &mut Script| script.call(WRITE, "fd=9 count=7", 7);
    let (inferred, reader, _) = poller(write).inferred();
    assert_eq!(inferred.totals.polls, 0, "{reader:?}");
    assert_eq!(reader[0], Step::Wait, "{reader:?}");
}

#[test]
fn a_write_counts_from_its_begin_since_its_bytes_may_be_read_before_its_end() {
    let mut script = Script::default();
    for _ in 0..3 {
        script.run(11);
        script.enter(READ, "fd=3 count=500");
        script.run(12);
        script.enter(WRITE, "fd=4 count=100");
        script.wake(11);
        script.run(11);
        script.exit(READ, 100);
        script.run(12);
        script.exit(WRITE, 100);
    }
    script.run(0);
    let (inferred, reader, writer) = script.inferred();
    assert_eq!(inferred.totals.calls_unknown, 0);
    let count = |steps: &[Step], what| steps.iter().filter(|step| **step == what).count();
    assert_eq!((count(&reader, take(0, 100)), count(&writer, put(0, 100))), (3, 3));
}

#[test]
fn an_object_whose_reader_sleeps_beside_bytes_is_no_stream() {
    let mut script = Script::default();
    for _ in 0..4 {
        // Like an event counter: a read takes what two writes added.
        script.run(11);
        script.enter(READ, "fd=3 count=8");
        script.run(12);
        script.enter(WRITE, "fd=4 count=8");
        script.wake(11);
        script.exit(WRITE, 8);
        script.call(WRITE, "fd=4 count=8", 8);
        script.run(11);
        script.exit(READ, 8);
    }
    script.run(0);
    let (inferred, ..) = script.inferred();
    assert!(inferred.demand.objects.is_empty());
    assert_eq!((inferred.totals.calls, inferred.totals.calls_unknown), (12, 12));
}

#[test]
fn a_packet_within_the_call_that_sends_it_names_its_reader() {
    let mut script = Script::default();
    for _ in 0..2 {
        script.hand_over(Context::SoftIrq);
    }
    script.run(0);
    let (inferred, reader, _) = script.inferred();
    assert_eq!((inferred.totals.calls, inferred.totals.calls_unknown), (4, 0));
    // Between the calls it sleeps without a wakeup.
    let [.., Step::Interrupt { .. }, Step::Take { .. }, _] = reader[..] else {
        panic!("{reader:?}")
    };
    assert_eq!(reader[0], take(0, 100), "the packet's wakeup is no wait: {reader:?}");
}

#[test]
fn an_object_that_two_tasks_read_is_unknown() {
    let mut script = Script::default();
    script.run(11);
    script.enter(READ, "fd=3 count=8");
    for round in 0..20 {
        // 12 writes two jobs; 11 sleeps for one, and 13 finds the other.
        script.run(12);
        script.enter(WRITE, "fd=4 count=8");
        script.wake(11);
        script.exit(WRITE, 8);
        script.call(WRITE, "fd=4 count=8", 8);
        script.run(13);
        script.call(READ, "fd=3 count=8", 8);
        script.run(11);
        script.exit(READ, 8);
        if round < 19 {
            script.enter(READ, "fd=3 count=8");
        }
    }
    script.run(0);
    let (inferred, ..) = script.inferred();
    assert!(inferred.demand.objects.is_empty(), "who takes a job does it: {:?}", inferred.totals);
}

#[test]
fn bytes_of_a_write_that_the_trace_does_not_end_are_of_that_write() {
    let mut script = Script::default();
    for _ in 0..20 {
        script.hand_over(Context::Task);
    }
    script.run(12);
    script.enter(WRITE, "fd=4 count=90000");
    script.run(11);
    script.call(READ, "fd=3 count=500", 500);
    script.run(0);
    let (inferred, reader, writer) = script.inferred();
    assert_eq!(inferred.totals.calls_unknown, 0);
    assert_eq!(reader[0], take(0, 100), "nothing lay there when the trace began: {reader:?}");
    assert!(writer.contains(&put(0, 500)), "{writer:?}");
}

#[test]
fn a_write_that_waited_for_room_wakes_before_it_puts() {
    let mut script = Script::default();
    for _ in 0..2 {
        script.hand_over(Context::Task);
        script.call(WRITE, "fd=9 count=1", 1);
    }
    // 12 fills the object and sleeps in the call, 11 polls, writes elsewhere, and reads.
    script.enter(POLL, "epfd=5");
    script.run(12);
    script.enter(WRITE, "fd=4 count=900");
    script.wake(11);
    script.run(11);
    script.exit(POLL, 1);
    script.call(WRITE, "fd=9 count=1", 1);
    script.enter(READ, "fd=3 count=900");
    script.wake(12);
    script.exit(READ, 900);
    script.run(12);
    script.exit(WRITE, 900);
    script.run(0);
    let (inferred, _, writer) = script.inferred();
    assert_eq!((inferred.totals.polls, inferred.totals.calls_unknown), (0, 3), "{writer:?}");
    let at = |what: fn(&Step) -> bool| writer.iter().rposition(what).unwrap();
    let post = at(|step| matches!(step, Step::Post(_)));
    let bytes = at(|step| *step == put(0, 900));
    assert!(post < bytes, "the reader waits for the wakeup, so it could not make room: {writer:?}");
}

#[test]
fn what_it_cost_to_record_calls_is_subtracted() {
    let (inferred, ..) = reader_and_writer(100).inferred();
    // 11 has 3 events of calls while it runs, 12 has 4; the switches to both are cheaper than what follows.
    let other = reader_and_writer(100).inferred_at(Nanos::ZERO).0;
    let more = other.totals.cpu_time.0 - inferred.totals.cpu_time.0;
    assert_eq!(more, 7 * 220, "{:?} {:?}", inferred.totals, other.totals);
}
