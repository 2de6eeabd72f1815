//! Who waited for locks and what their holders did, by hand arithmetic on timelines as text. A column is a microsecond.

use crate::locks::{Lock, LockKind};
use crate::tests::fired::{self, Fired};
use crate::{Cut, LockHeld, LockName, Locks, LocksAnswer, Reply, ask_within};
use schedlab_model::{Nanos, Pid, TraceInfo};

const ENTER: &str = "sys_enter_futex";
const EXIT: &str = "sys_exit_futex";
const WAIT: &str = "uaddr=0x70 op=128 val=2";
const WAKE: &str = "uaddr=0x70 op=129 val=1";

/// All tasks are threads of one process, or each is its own.
fn asked_in(
    text: &str,
    fired: &[Fired<'_>],
    cut: Cut,
    set: impl Fn(&mut TraceInfo),
) -> Reply<LocksAnswer> {
    let mut source = fired::source(text, fired);
    let info = source.info_mut();
    info.processes = Some((1..=26).map(|pid| (Pid(pid), Pid(1))).collect());
    set(info);
    let locks = Locks::new(info, &[]);
    ask_within(&mut source, cut, locks).unwrap()
}

fn asked(text: &str, fired: &[Fired<'_>]) -> Reply<LocksAnswer> {
    asked_in(text, fired, Cut::default(), |_| {})
}

/// Holder, waits, and the times: waited, ran, runnable, blocked, unknown.
fn told(row: &LockHeld, reply: &Reply<LocksAnswer>) -> (String, u64, [u64; 5]) {
    let holder = row.holder.map_or("nobody".to_owned(), |task| reply.state.name(task));
    let times = [row.waited, row.ran, row.runnable, row.blocked, row.unknown];
    (holder, row.waits, times.map(|time| time.0))
}

fn all(reply: &Reply<LocksAnswer>) -> Vec<(String, u64, [u64; 5])> {
    reply.answer.rows.iter().map(|row| told(row, reply)).collect()
}

/// A holds a mutex for which B and C wait, and H displaces A. Then B gets it.
const DISPLACED: &str = "
    0 | AAAAHHHHAAAA....
      |     aaaa
    1 | B.........BBBB..
    2 | C...........CC..
    at 10: A wakes B
    at 12: B wakes C";
const FIRED: [Fired<'_>; 7] = [
    (900, 1, Pid(2), ENTER, WAIT),
    (900, 2, Pid(3), ENTER, WAIT),
    (9_500, 0, Pid(1), ENTER, WAKE),
    (10_500, 0, Pid(1), EXIT, "ret=1"),
    (10_600, 1, Pid(2), EXIT, "ret=0"),
    (11_500, 1, Pid(2), ENTER, WAKE),
    (12_600, 2, Pid(3), EXIT, "ret=0"),
];

#[test]
fn the_holder_of_a_mutex_is_who_released_it_and_its_wait_for_a_cpu_costs_each_waiter() {
    let reply = asked(DISPLACED, &FIRED);
    // B waits 0.9 to 10 us for A; C waits for A until its call at 9.5, and then for B, which slept until 10.
    let a = ("A".into(), 2, [17_700, 9_700, 8_000, 0, 0]);
    let b = ("B".into(), 1, [2_500, 2_000, 0, 500, 0]);
    assert_eq!(all(&reply), [a, b]);
    let row = &reply.answer.rows[0];
    assert_eq!((row.cost(), row.stalled, row.tasks_max), (Nanos(8_000), Nanos(4_000), 2));
    assert_eq!(row.displaced, Nanos(8_000));
    assert_eq!(row.displaced_by().map(|task| reply.state.name(task)), Some("H".into()));
    assert_eq!(row.kind, LockKind::Mutex);
    let title = reply.answer.title(row.lock, &reply.state);
    assert_eq!(title, "A:1 0x70");
    let waits: Vec<_> = reply.answer.waits.iter().map(|it| (it.task, it.stalled.0)).collect();
    let task = |pid| reply.state.task_of(Pid(pid)).unwrap();
    assert_eq!(waits, [(task(2), 4_000), (task(3), 4_000)]);
}

#[test]
fn times_are_those_of_the_window_and_a_call_from_before_it_is_known() {
    let cut = Cut { from: Some(Nanos(5_000)), to: Some(Nanos(9_000)) };
    let reply = asked_in(DISPLACED, &FIRED, cut, |_| {});
    // Nobody has released it yet: the holder is not known.
    assert_eq!(all(&reply), [("nobody".into(), 2, [8_000, 0, 0, 0, 8_000])]);
    let cut = Cut { from: Some(Nanos(5_000)), to: Some(Nanos(11_000)) };
    let reply = asked_in(DISPLACED, &FIRED, cut, |_| {});
    assert_eq!(told(&reply.answer.rows[0], &reply).2, [5_000 + 4_500, 3_500, 6_000, 0, 0]);
}

#[test]
fn a_futex_whose_waits_find_other_values_is_taken_for_no_lock() {
    let mut fired = FIRED;
    fired[1].4 = "uaddr=0x70 op=128 val=7";
    let reply = asked(DISPLACED, &fired);
    assert_eq!(all(&reply), []);
    let LocksAnswer { other_count, other_time, .. } = reply.answer;
    assert_eq!((other_count, other_time), (2, Nanos(9_100 + 11_100)));
}

#[test]
fn who_may_release_a_lock_with_inheritance_or_is_named_in_its_word_held_it() {
    for (wait, wake, kind) in [
        ("uaddr=0x70 op=134 val=0", "uaddr=0x70 op=135 val=0", LockKind::Inherits),
        ("uaddr=0x70 op=128 val=0x80000001", WAKE, LockKind::Named),
    ] {
        let mut fired = FIRED;
        (fired[0].4, fired[1].4, fired[2].4, fired[5].4) = (wait, wait, wake, wake);
        let reply = asked(DISPLACED, &fired);
        let row = &reply.answer.rows[0];
        assert_eq!((row.kind, row.cost()), (kind, Nanos(8_000)));
        // Before anybody released it, the word alone knows.
        let cut = Cut { from: None, to: Some(Nanos(9_000)) };
        let open = asked_in(DISPLACED, &fired, cut, |_| {});
        let row = &open.answer.rows[0];
        let is_named = kind == LockKind::Named;
        assert_eq!(row.holder.is_some(), is_named);
        assert_eq!(row.cost(), if is_named { Nanos(8_000) } else { Nanos::ZERO });
    }
}

#[test]
fn a_number_that_is_no_thread_of_the_process_names_nobody_and_the_word_is_no_lock() {
    let mut fired = FIRED;
    // As the word of a read-write lock in Rust: a count of readers, and somebody waits.
    (fired[0].4, fired[1].4) =
        ("uaddr=0x70 op=128 val=0x80000001", "uaddr=0x70 op=128 val=0x80000032");
    let reply = asked(DISPLACED, &fired);
    assert_eq!((all(&reply), reply.answer.other_count), (Vec::new(), 2));
}

#[test]
fn a_wait_that_a_timer_ends_names_nobody_and_one_that_never_slept_is_none() {
    let text = "
        0 | AAAAAAAA
        1 | B...BBBB
        2 | CCCCCCCC
        at 4: interrupt on 1 wakes B";
    let fired = [
        (900, 1, Pid(2), ENTER, WAIT),
        (2_000, 2, Pid(3), ENTER, WAIT),
        (2_500, 2, Pid(3), EXIT, "ret=-11"),
        (4_100, 1, Pid(2), EXIT, "ret=-110"),
    ];
    assert_eq!(all(&asked(text, &fired)), [("nobody".into(), 1, [3_100, 0, 0, 0, 3_100])]);
}

#[test]
fn the_calls_with_flags_name_their_word_as_futex_does() {
    let mut fired = FIRED;
    let (wait, wake) = ("uaddr=0x70 val=2 mask=1 flags=0x82", "uaddr=0x70 mask=1 nr=1 flags=0x82");
    for event in &mut fired {
        let is_wait = event.4 == WAIT;
        (event.3, event.4) = match event.3 {
            ENTER if is_wait => ("sys_enter_futex_wait", wait),
            ENTER => ("sys_enter_futex_wake", wake),
            _ if event.4 == "ret=1" => ("sys_exit_futex_wake", event.4),
            _ => ("sys_exit_futex_wait", event.4),
        };
    }
    assert_eq!(all(&asked(DISPLACED, &fired)), all(&asked(DISPLACED, &FIRED)));
}

#[test]
fn calls_whose_words_are_in_a_list_are_counted_in_the_window() {
    let list = "waiters=0x7f00 nr_futexes=2 flags=0 timeout=0x0 clockid=1";
    let (wait, wake) = ("sys_enter_futex_waitv", "sys_enter_futex_requeue");
    let fired = [
        (900, 1, Pid(2), wait, list),
        (2_000, 2, Pid(3), wait, list),
        (9_500, 0, Pid(1), wake, "waiters=0x7f00 flags=0 nr_wake=1 nr_requeue=1"),
    ];
    let reply = asked(DISPLACED, &fired);
    let LocksAnswer { other_count, listed_waits, listed_wakes, .. } = reply.answer;
    assert_eq!((other_count, listed_waits, listed_wakes), (0, 2, 1));
    let cut = Cut { from: Some(Nanos(1_000)), to: Some(Nanos(9_000)) };
    let LocksAnswer { listed_waits, listed_wakes, .. } =
        asked_in(DISPLACED, &fired, cut, |_| {}).answer;
    assert_eq!((listed_waits, listed_wakes), (1, 0), "those of the window");
}

#[test]
fn a_word_belongs_to_a_process_and_is_shared_where_the_calls_say_so() {
    // B and C are other processes: the first knows the word at the same address and is not meant.
    let of = |info: &mut TraceInfo| {
        let own = (1..=26).map(|pid| (Pid(pid), Pid(if pid == 4 { 1 } else { pid })));
        info.processes = Some(own.collect());
    };
    let text = "
        0 | AAAAAAAA
        1 | D.....DD
        2 | CCCCCCCC
        at 6: A wakes D";
    let fired = [
        (900, 1, Pid(4), ENTER, WAIT),
        (2_000, 2, Pid(3), ENTER, WAKE),
        (2_100, 2, Pid(3), EXIT, "ret=0"),
        (5_500, 0, Pid(1), ENTER, WAKE),
        (6_200, 1, Pid(4), EXIT, "ret=0"),
    ];
    let reply = asked_in(text, &fired, Cut::default(), of);
    assert_eq!(all(&reply), [("A".into(), 1, [5_100, 5_100, 0, 0, 0])]);
    let mut shared = fired;
    // Mapped elsewhere by another process.
    shared[0].4 = "uaddr=0x5070 op=0 val=2";
    shared[3] = (5_500, 0, Pid(1), ENTER, "uaddr=0x70 op=1 val=1");
    let reply = asked_in(text, &shared, Cut::default(), of);
    assert_eq!(all(&reply), [("A".into(), 1, [5_100, 5_100, 0, 0, 0])]);
}

#[test]
fn the_holder_of_a_lock_of_the_kernel_is_who_woke_the_task_that_slept() {
    let text = "
        0 | AAAHHHAAA
          |    aaa
        1 | B......BB
        2 | CCCCCCCCC
        at 7: A wakes B";
    let fired = [
        (900, 1, Pid(2), "contention_begin", "lock_addr=0xffff0070 flags=0x20"),
        // Others spin, and nothing tells who held it.
        (1_000, 2, Pid(3), "contention_begin", "lock_addr=0xffff0080 flags=0x1"),
        (1_400, 2, Pid(3), "contention_end", "lock_addr=0xffff0080 ret=0"),
        (7_200, 1, Pid(2), "contention_end", "lock_addr=0xffff0070 ret=0"),
    ];
    let reply = asked(text, &fired);
    let a = ("A".into(), 1, [6_100, 3_100, 3_000, 0, 0]);
    assert_eq!(all(&reply), [a, ("nobody".into(), 1, [400, 0, 0, 0, 400])]);
    assert_eq!(reply.answer.rows[0].lock, LockName(Lock::Kernel(0xffff_0070)));
}

#[test]
fn marks_name_the_holder_of_a_lock_for_which_others_spin() {
    let text = "
        0 | AAAAHHHHAA..
          |     aaaa
        1 | BBBBBBBBBBBB
        at 1: A marks 0 begin
        at 2: B marks 1 begin
        at 9: A marks 0 end
        at 10: B marks 1 end
        at 10: B marks 0 begin
        at 11: B marks 0 end";
    let marks = |info: &mut TraceInfo| {
        info.marks = vec!["lock:buffer".into(), "lock-wait:buffer".into()];
    };
    let reply = asked_in(text, &[], Cut::default(), marks);
    let nobody = ("nobody".into(), 1, [1_000, 0, 0, 0, 1_000]);
    assert_eq!(all(&reply), [("A".into(), 1, [7_000, 3_000, 4_000, 0, 0]), nobody]);
    let row = &reply.answer.rows[0];
    assert_eq!(reply.answer.title(row.lock, &reply.state), "A:1 buffer");
    // A window that opens while it is held.
    let cut = Cut { from: Some(Nanos(5_000)), to: Some(Nanos(10_500)) };
    let reply = asked_in(text, &[], cut, marks);
    let nobody = ("nobody".into(), 1, [1_000, 0, 0, 0, 1_000]);
    assert_eq!(all(&reply), [("A".into(), 1, [4_000, 1_000, 3_000, 0, 0]), nobody]);
}
