//! Time off the CPU by stack, on timelines as text. A column is a microsecond.

use crate::tests::causes::quota_source;
use crate::tests::fired;
use crate::tests::fired::Fired;
use crate::{
    Causes, Cut, OffCpuAnswer, OffCpuStacks, Reply, RequestSpans, RequestStacks, TaskRow, Tasks,
    Throttled, Throttling, Unslept, WithArguments, ask, ask_within,
};
use schedlab_model::{EventSource, Nanos, Pid, Span};

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
        let asleep = |row: &crate::TaskRow| {
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
        let told = |of: crate::FoldedStack| format!("{} {}", of.frames.join(";"), of.time.0);
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
    let off = reply.answer.times.without_wakers();
    let folded = off.folded(&reply.state);
    let told = folded.iter().map(|of| format!("{} {}", of.frames.join(";"), of.time.0));
    let read = "A;main;read;entry;f;e;d;c;b;a";
    let expected =
        ["A;do_poll 1000".to_owned(), format!("{read} 1000"), format!("{read};[run delay] 1000")];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

/// A sleeps, and is woken while B runs; CPU 1 idles for the second half of its wait. Then A displaces B.
const CAUSES: &str = "
    0 | AA.BBBAABB.
      |     aabb
    1 | CCCCC.CCCCC
    at 4: C wakes A";

fn lines(reply: &Reply<OffCpuAnswer>) -> Vec<String> {
    let folded = reply.answer.folded(&reply.state);
    folded.iter().map(|of| format!("{} {}", of.frames.join(";"), of.time.0)).collect()
}

/// A is moved while it waits, runs, and is displaced; its request lasts from its wakeup to its last run.
const MOVED: &str = "
    0 | AA.BBBBBBBB.
      |     aa
    1 | CCCCCCCACAC.
      |       a a
    at 3: C marks 0 begin of 1
    at 4: C wakes A
    at 8: A is displaced
    at 9: A marks 0 end of 1";

fn moved() -> fired::Source {
    let mut source = fired::source(MOVED, &[(2_000, 0, Pid(1), "kernel_stack", READ)]);
    source.info_mut().marks = vec!["request".into()];
    source
}

#[test]
fn a_wait_on_two_queues_counts_whole_within_a_request() {
    let question = WithArguments(RequestStacks::new("request", false));
    let reply = ask(&mut moved(), question).unwrap();
    let reply = reply.map(|answer| answer.times.without_wakers());
    let read = "A;main;read;entry;f;e;d;c;b;a";
    assert_eq!(lines(&reply), [format!("{read} 1000"), format!("{read};[run delay] 3000")]);
}

#[test]
fn waits_within_requests_have_causes_and_displaced_tasks_count() {
    let mut source = moved();
    let causes = Causes::new(source.info(), &[], 0);
    let question = WithArguments(RequestStacks::new("request", false).with_causes(causes));
    let reply = ask(&mut source, question).unwrap();
    let read = "A;main;read;entry;f;e;d;c;b;a";
    let expected = [
        "A;[displaced];competition 1000".to_owned(),
        format!("{read} 1000"),
        format!("{read};[run delay];competition 3000"),
    ];
    assert_eq!(lines(&reply.map(|answer| answer.times.without_wakers())), expected);
}

/// The request begins in the midst of a wait: first beside an idle CPU, then behind B.
const CLIPPED: &str = "
    0 | AA.BBBBBABBA
      |     aaaa aa
    1 | CCCCC.CCCCCC
    at 4: C wakes A
    at 9: A is displaced
    at 7: C marks 0 begin of 1
    at 10: C marks 0 begin of 2
    at 11: A marks 0 end of 2
    at 11: A marks 0 end of 1";

#[test]
fn the_part_of_a_wait_with_several_causes_is_unknown() {
    let mut source = fired::source(CLIPPED, &[(2_000, 0, Pid(1), "kernel_stack", READ)]);
    source.info_mut().marks = vec!["request".into()];
    let causes = Causes::new(source.info(), &[], 0);
    let question = WithArguments(RequestStacks::new("request", false).with_causes(causes));
    let reply = ask(&mut source, question).unwrap();
    let found = lines(&reply.map(|answer| answer.times.without_wakers()));
    let read = "A;main;read;entry;f;e;d;c;b;a";
    let expected = [
        // Both requests: 2 and 1 µs.
        "A;[displaced];competition 3000".to_owned(),
        format!("{read};[run delay];unknown 1000"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn requests_of_all_names_are_paired_and_a_limit_is_told() {
    let mut source = fired::source(CLIPPED, &[]);
    source.info_mut().marks = vec!["request".into()];
    let answer = ask(&mut source, RequestSpans::at_most(1)).unwrap().answer;
    let found: Vec<_> = answer.found.iter().map(|one| (one.name, one.span)).collect();
    assert_eq!(found, [(0, Span::new(Nanos(10_000), Nanos(11_000)))]);
    assert_eq!(answer.left_out, 1);
}

#[test]
fn waits_without_a_sleep_are_kept_one_by_one() {
    let question = WithArguments(OffCpuStacks::default().with_sleeps(9));
    let reply = ask(&mut moved(), question).unwrap();
    let told: Vec<_> = reply.answer.sleeps.unslept.iter().collect();
    let [wait] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(wait.why, Some(Unslept::Displaced));
    assert_eq!((wait.since.0, wait.waited.0), (8_000, 1_000));
    let (_, waited, _) = reply.answer.sums();
    assert_eq!(waited.0, 3_000, "only with causes it is in the sums");
}

/// What `source` holds of stacks with causes, and of tasks.
fn explained(
    source: &mut fired::Source,
    question: OffCpuStacks,
    throttled: &[Throttled],
    cut: Cut,
) -> (Reply<OffCpuAnswer>, Vec<TaskRow>) {
    let question = question.with_causes(Causes::new(source.info(), throttled, 0));
    let reply = ask_within(source, cut, (WithArguments(question), Tasks::new())).unwrap();
    let mut rows = Vec::new();
    let reply = reply.map(|(off, tasks)| {
        rows = tasks.rows;
        off
    });
    (reply, rows)
}

#[test]
fn waits_have_causes_and_who_is_displaced_waits_too() {
    let fired = [(2_000, 0, Pid(1), "kernel_stack", READ)];
    let read = "A;main;read;entry;f;e;d;c;b;a";
    for wakers in [false, true] {
        let question = if wakers { OffCpuStacks::by_waker() } else { OffCpuStacks::default() };
        let mut source = fired::source(CAUSES, &fired);
        let reply = explained(&mut source, question.with_sleeps(9), &[], Cut::default()).0;
        // Who woke a task changes nothing of its waits.
        let found = lines(&reply.map(OffCpuAnswer::without_wakers));
        let expected = [
            "A;[no stack] 3000".to_owned(),
            format!("{read} 2000"),
            format!("{read};[run delay];competition 1000"),
            format!("{read};[run delay];misplaced 1000"),
            "B;[displaced];competition 2000".to_owned(),
            "B;[no stack] 1000".to_owned(),
            "C;[no stack] 1000".to_owned(),
        ];
        assert_eq!(found, expected);
    }
}

#[test]
fn a_sleep_by_itself_has_its_wait_and_a_row_of_displaced_tasks_has_no_stack() {
    let mut source = fired::source(CAUSES, &[(2_000, 0, Pid(1), "kernel_stack", READ)]);
    let question = OffCpuStacks::default().with_sleeps(9);
    let reply = explained(&mut source, question, &[], Cut::default()).0;
    let sleeps = &reply.answer.sleeps.found;
    assert!(sleeps.iter().any(|sleep| (sleep.blocked.0, sleep.waited.0) == (2_000, 2_000)));
    let (blocked, waited, unstacked) = reply.answer.sums();
    assert_eq!((blocked.0, waited.0, unstacked.0), (7_000, 4_000, 5_000));
    let rows = reply.answer.by_name(&reply.state);
    let displaced = rows.iter().find(|row| row.unslept.is_some()).unwrap();
    assert_eq!((displaced.comm.as_str(), &displaced.stack), ("B", &None));
    assert_eq!((displaced.count, displaced.blocked.0, displaced.waited.0), (1, 0, 2_000));
    assert_eq!(displaced.parts.unwrap().sum(), displaced.waited);
    let count: u64 = rows.iter().filter(|row| row.unslept.is_none()).map(|row| row.count).sum();
    assert_eq!(count, 4, "waits without a sleep are not counted as sleeps");
}

#[test]
fn with_causes_the_sum_is_all_the_time_off_the_cpu_of_each_task() {
    let stacks: Vec<_> = fired().into_iter().chain(of_wakers()).collect();
    for text in [TEXT, WAKERS, CAUSES, MOVED] {
        for (from, to) in [(0, 17_000), (3_000, 12_000), (5_500, 9_000), (4_500, 5_500)] {
            let cut = Cut { from: Some(Nanos(from)), to: Some(Nanos(to)) };
            let mut source = fired::source(text, &stacks);
            let (reply, tasks) = explained(&mut source, OffCpuStacks::by_waker(), &[], cut);
            for row in &tasks {
                let own = reply.answer.rows.iter().filter(|of| of.task == row.task);
                let asleep = row.asleep.sleeping + row.asleep.uninterruptible + row.asleep.stopped;
                let (blocked, waited) = own.clone().fold((0, 0), |(blocked, waited), of| {
                    assert_eq!(of.parts.sum(), of.waited, "{of:?}");
                    (blocked + of.blocked.0, waited + of.waited.0)
                });
                assert_eq!((blocked, waited), (asleep.0, row.waited.0), "{text} {cut:?} {row:?}");
            }
            let all: u64 = reply.answer.folded(&reply.state).iter().map(|of| of.time.0).sum();
            let (blocked, waited, _) = reply.answer.sums();
            assert_eq!(all, blocked.0 + waited.0);
        }
    }
}

#[test]
fn a_task_without_budget_is_displaced_and_throttled() {
    let mut source = quota_source("6.1.0-49-amd64", false, true);
    let question = WithArguments(Throttling::new(source.info()));
    let spans = ask(&mut source, question).unwrap().answer.spans;
    let mut source = quota_source("6.1.0-49-amd64", false, true);
    let reply = explained(&mut source, OffCpuStacks::default(), &spans, Cut::default()).0;
    let mut found = lines(&reply);
    found.retain(|line| line.starts_with("A;"));
    let expected =
        ["A;[displaced];competition: other groups 50000000", "A;[displaced];throttled 300000000"];
    assert_eq!(found, expected);
}
