//! Time off the CPU by stack, on timelines as text. A column is a microsecond.

use crate::fired;
use crate::fired::Fired;
use schedlab_model::{Nanos, Pid};
use schedlab_timeline::{Cut, OffCpuStacks, RequestStacks, Tasks, WithArguments, ask_within};

/// A sleeps twice and waits a tick after the first; B sleeps to the end, without a stack.
const TEXT: &str = "
    0 | AA...BA.AAABBB...
      |      a
    at 5: interrupt on 0 wakes A
    at 5: interrupt on 0 wakes B
    at 8: interrupt on 0 wakes A
    at 11: interrupt on 0 wakes B";

const READ: &str = "stack=__schedule<-schedule<-a<-b<-c<-d<-e<-f<-entry<-read<-main";
const POLL: &str = "stack=__schedule<-schedule<-do_poll";

fn fired() -> Vec<Fired<'static>> {
    vec![
        (2_000, 0, Pid(1), "kernel_stack", READ),
        // It was woken before its stack was logged.
        (8_500, 0, Pid(1), "kernel_stack", POLL),
    ]
}

fn folded(cut: Cut) -> Vec<String> {
    let question = WithArguments(OffCpuStacks::default());
    let reply = ask_within(&mut fired::source(TEXT, &fired()), cut, question).unwrap();
    let folded = reply.answer.folded(&reply.state);
    folded.iter().map(|of| format!("{} {}", of.frames.join(";"), of.time.0)).collect()
}

#[test]
fn stacks_are_whole_and_waits_stand_on_the_sleeps_before_them() {
    let read = "A;main;read;entry;f;e;d;c;b;a";
    let expected = [
        "A;do_poll 1000".to_owned(),
        format!("{read} 3000"),
        format!("{read};[run delay] 1000"),
        "A;[no stack] 6000".to_owned(),
        "B;[no stack] 8000".to_owned(),
    ];
    let mut found = folded(Cut::default());
    found.sort_by_key(|line| line.contains("[no stack]"));
    assert_eq!(found, expected);
    // The window begins in the middle of a sleep, whose stack was told before.
    let cut = Cut { from: Some(Nanos(4_000)), to: Some(Nanos(6_500)) };
    let found = folded(cut);
    assert!(found.contains(&format!("{read} 1000")), "{found:?}");
}

#[test]
fn the_sum_is_the_time_asleep_of_tasks() {
    let both = (WithArguments(OffCpuStacks::default()), Tasks::new());
    for cut in [(0, 17_000), (3_000, 12_000), (5_500, 9_000)] {
        let cut = Cut { from: Some(Nanos(cut.0)), to: Some(Nanos(cut.1)) };
        let reply = ask_within(&mut fired::source(TEXT, &fired()), cut, both.clone()).unwrap();
        let (off, tasks) = reply.answer;
        let asleep = |row: &schedlab_timeline::TaskRow| {
            (row.asleep.sleeping + row.asleep.uninterruptible + row.asleep.stopped).0
        };
        let sum: u64 = tasks.rows.iter().map(asleep).sum();
        assert_eq!(off.sums().0.0, sum, "{cut:?}");
        let rows = off.by_name(&reply.state);
        assert_eq!(rows.iter().map(|row| row.blocked.0).sum::<u64>(), sum);
        let share: f64 = rows.iter().map(|row| row.share).sum();
        assert!((share - 1.0).abs() < 1e-9, "{share}");
    }
}

#[test]
fn who_is_only_seen_to_leave_is_not_among_the_tasks() {
    let mut source = fired::source(TEXT, &fired());
    // B's last switch alone is left, after which it sleeps.
    source.events.retain(|(event, _)| event.time >= Nanos(13_500));
    let both = (WithArguments(OffCpuStacks::default()), Tasks::new());
    let cut = Cut { from: None, to: Some(Nanos(3_000)) };
    let (off, tasks) = ask_within(&mut source, cut, both).unwrap().answer;
    assert!(off.rows.is_empty() && tasks.rows.is_empty(), "{off:?} {:?}", tasks.rows);
}

/// A sleeps three times: B wakes it, then an interrupt beside C, then it sleeps to the end.
const WAKERS: &str = "
    0 | AA..A.AA...
      |    a
    1 | BBBBCCCCC..
    at 1: A marks 0 begin
    at 3: B wakes A
    at 6: interrupt on 1 wakes A
    at 7: A marks 0 end";

/// The stack of B at its waking, and one of C, which an interrupt met: C wakes nobody.
fn of_wakers() -> Vec<Fired<'static>> {
    const UNLOCK: &str = "stack=try_to_wake_up<-wake_up_q<-futex_wake<-unlock<-main";
    vec![
        (2_000, 0, Pid(1), "kernel_stack", READ),
        (3_000, 1, Pid(2), "kernel_stack", UNLOCK),
        (5_000, 0, Pid(1), "kernel_stack", POLL),
        (6_000, 1, Pid(3), "kernel_stack", UNLOCK),
        (8_000, 0, Pid(1), "kernel_stack", POLL),
    ]
}

#[test]
fn a_sleep_has_who_ended_it_and_a_bystander_of_an_interrupt_is_no_waker() {
    let ask = |question: OffCpuStacks| {
        let mut source = fired::source(WAKERS, &of_wakers());
        let reply = ask_within(&mut source, Cut::default(), WithArguments(question)).unwrap();
        let folded = reply.answer.folded(&reply.state).into_iter();
        let folded = folded.filter(|of| of.frames[0] == "A");
        let told =
            |of: schedlab_timeline::FoldedStack| format!("{} {}", of.frames.join(";"), of.time.0);
        (folded.map(told).collect::<Vec<_>>(), reply.answer.by_name(&reply.state))
    };
    let (mut found, rows) = ask(OffCpuStacks::by_waker());
    found.sort();
    let read = "A;main;read;entry;f;e;d;c;b;a";
    let expected = [
        "A;do_poll;woken by an interrupt 1000".to_owned(),
        "A;do_poll;woken by nobody before the end 3000".to_owned(),
        format!("{read};[run delay] 1000"),
        format!("{read};woken by B;main;unlock;futex_wake;wake_up_q 1000"),
    ];
    assert_eq!(found, expected);
    let by_b = rows.iter().find(|row| row.woken_by.as_deref() == Some("B")).unwrap();
    assert_eq!(by_b.waker_stack.as_deref(), Some("wake_up_q<-futex_wake<-unlock<-main"));
    // Who does not ask for wakers is not misled by their stacks.
    let (found, rows) = ask(OffCpuStacks::default());
    let expected =
        ["A;do_poll 4000".to_owned(), format!("{read} 1000"), format!("{read};[run delay] 1000")];
    assert_eq!(found, expected);
    assert!(rows.iter().all(|row| row.woken_by.is_none()));
}

#[test]
fn within_requests_only_the_time_of_who_ended_them_counts() {
    let mut source = fired::source(WAKERS, &of_wakers());
    source.info_mut().marks = vec!["request".into()];
    let question = WithArguments(RequestStacks::new("request", true));
    let reply = ask_within(&mut source, Cut::default(), question).unwrap();
    assert_eq!((reply.answer.requests, reply.answer.of), (1, 1));
    let off = reply.answer.off_cpu.without_wakers();
    let folded = off.folded(&reply.state);
    let told = folded.iter().map(|of| format!("{} {}", of.frames.join(";"), of.time.0));
    let read = "A;main;read;entry;f;e;d;c;b;a";
    let expected =
        ["A;do_poll 1000".to_owned(), format!("{read} 1000"), format!("{read};[run delay] 1000")];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}
