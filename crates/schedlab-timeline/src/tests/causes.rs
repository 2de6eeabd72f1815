//! Causes of waits by hand arithmetic, on timelines as text. A column is a microsecond unless a tick says otherwise.

use crate::notation::{self, Trace};
use crate::tests::fired;
use crate::{
    Causes, CausesAnswer, Doing, Part, Reply, Requests, State, Throttling, ThrottlingAnswer,
    WaitCause, WhyLate, WithArguments, ask,
};
use schedlab_model::{
    Affinity, Cpu, CpuSet, EventSource, Groups, Limit, Member, Nanos, Pid, Prio, TraceInfo, What,
};
use std::collections::BTreeMap;

fn parsed(text: &str) -> Trace {
    notation::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Both passes over a trace of which `told` says more.
fn explained(text: &str, told: impl Fn(&mut TraceInfo)) -> Reply<CausesAnswer> {
    let mut trace = parsed(text);
    told(&mut trace.info);
    let throttled = ask(&mut trace.source(), Throttling::new(&trace.info)).unwrap().answer;
    ask(&mut trace.source(), Causes::new(&trace.info, &throttled.spans, 10)).unwrap()
}

/// A task's causes in nanoseconds, longest first.
fn causes(reply: &Reply<CausesAnswer>, name: &str) -> Vec<(WaitCause, u64)> {
    let named = |state: &State, task| state.name(task) == name;
    let row = reply.answer.tasks.iter().find(|row| named(&reply.state, row.task));
    let row = row.unwrap_or_else(|| panic!("{name} did not wait"));
    row.parts.ranked().into_iter().map(|(cause, time)| (cause, time.0)).collect()
}

/// A name, pids of members, and a quota with its period.
type Group<'a> = (&'a str, &'a [i32], Option<(u64, u64)>);

/// Groups by name, each with its members' pids, and its limit in microseconds of each period.
fn grouped(all: &[Group<'_>]) -> Groups {
    let mut groups = Groups::default();
    for (number, (name, pids, limit)) in (0..).zip(all) {
        groups.names.push((*name).to_owned());
        let member = |pid: &i32| Member { pid: Pid(*pid), at: Nanos::ZERO, group: number };
        groups.members.extend(pids.iter().map(member));
        let micros = |time: u64| Nanos(time * 1_000);
        groups.limits.push(Limit {
            at: Nanos::ZERO,
            group: number,
            quota: limit.map(|(quota, _)| micros(quota)),
            period: limit.map_or(Nanos(100_000_000), |(_, period)| micros(period)),
            burst: Nanos::ZERO,
            shares: 1024,
        });
    }
    groups.members.sort_unstable();
    groups
}

#[test]
fn a_wait_beside_a_free_cpu_is_misplaced_or_pinned_and_else_competition() {
    let text = "0 | AAAAAABB\n  |   bbbb\n1 | CCC.....";
    let all = explained(text, |_| {});
    assert_eq!(causes(&all, "B"), [(WaitCause::Misplaced, 3_000), (WaitCause::Fair, 1_000)]);
    let pinned = explained(text, |info| {
        let on = |pid, cpus: &[u16]| Affinity {
            pid: Pid(pid),
            at: Nanos::ZERO,
            allowed: cpus.iter().map(|cpu| Cpu(*cpu)).collect::<CpuSet>(),
        };
        info.affinity = Some(vec![on(1, &[0, 1]), on(2, &[0]), on(3, &[0, 1])]);
    });
    assert_eq!(causes(&pinned, "B"), [(WaitCause::Pinned, 3_000), (WaitCause::Fair, 1_000)]);
    let blame: Vec<_> = pinned.answer.blame.iter().map(|one| (one.by.0, one.time.0)).collect();
    let culprit = pinned.state.task_of(Pid(1)).unwrap();
    assert_eq!(blame, [(culprit.0, 4_000)], "A ran all the time on the CPU of B");
}

#[test]
fn competition_is_told_by_who_ran() {
    let text = "0 | AAABBBCCCDD\n  | dddddddddd\n  |  b\n";
    let text = text.replace("dddddddddd", "ddddddddd ").replace("  |  b\n", "");
    let groups = grouped(&[("/a", &[1, 4], None), ("/b", &[2, 3], None)]);
    let all = explained(&text, |info| info.groups = Some(groups.clone()));
    assert_eq!(causes(&all, "D"), [(WaitCause::OtherGroup, 6_000), (WaitCause::OwnGroup, 3_000)]);
    let named = format!("{text}\nC is called kworker/0:1");
    let all = explained(&named, |info| info.groups = Some(groups.clone()));
    assert_eq!(
        causes(&all, "D"),
        [
            (WaitCause::KernelThread, 3_000),
            (WaitCause::OwnGroup, 3_000),
            (WaitCause::OtherGroup, 3_000)
        ]
    );
}

#[test]
fn an_idle_cpu_hands_over_and_after_a_millisecond_it_holds_back() {
    let short = explained("0 | A...AA\n  |  aaa", |_| {});
    assert_eq!(causes(&short, "A"), [(WaitCause::HandingOver, 3_000)]);
    let long = explained("tick 1ms\n0 | A...AA\n  |  aaa", |_| {});
    assert_eq!(causes(&long, "A"), [(WaitCause::HeldBack, 3_000_000)]);
}

/// At a time in nanoseconds, on a CPU, a tracepoint beyond the scheduler's.
fn with_events(text: &str, events: &[(u64, u16, &'static str)]) -> Reply<CausesAnswer> {
    let fired: Vec<fired::Fired<'_>> =
        events.iter().map(|(at, cpu, name)| (*at, *cpu, Pid(-1), *name, "")).collect();
    let mut source = fired::source(text, &fired);
    let info = source.info().clone();
    ask(&mut source, Causes::new(&info, &[], 10)).unwrap()
}

#[test]
fn recorded_interrupts_are_a_cause_of_their_own_and_nobodys_blame() {
    let text = "0 | AAAAAABB\n  |   bbbb";
    let (entry, exit) = ("irq_handler_entry", "irq_handler_exit");
    // Nested ones count once; what lies before the wait does not count.
    let nested = [
        (1_000, 0, entry),
        (3_000, 0, "softirq_entry"),
        (3_500, 0, "softirq_exit"),
        (4_500, 0, exit),
    ];
    let all = with_events(text, &nested);
    assert_eq!(causes(&all, "B"), [(WaitCause::Interrupt, 2_500), (WaitCause::Fair, 1_500)]);
    assert_eq!(all.answer.blame[0].time, Nanos(1_500));
    assert!(all.answer.sees_interrupts);
    let own = with_events(&format!("{text}\nA is called ksoftirqd/0"), &nested[1..3]);
    assert_eq!(causes(&own, "B"), [(WaitCause::KernelThread, 4_000)], "softirqs are its own work");
    let none = with_events(text, &[]);
    assert_eq!(causes(&none, "B"), [(WaitCause::Fair, 4_000)]);
    assert!(!none.answer.sees_interrupts);
}

#[test]
fn a_wait_that_never_ends_is_one_of_the_longest() {
    let all = explained("0 | AABBBBBB\n  |   aaaaaa", |_| {});
    assert_eq!(causes(&all, "A"), [(WaitCause::Fair, 6_000)]);
    let worst = &all.answer.worst[0];
    assert!(worst.is_open);
    assert_eq!((worst.until - worst.since).0, 6_000);
    assert_eq!(all.answer.tasks[0].open_since, Some(Nanos(2_000)));
}

/// `A` has 20 ms of each 100 ms, whose refills are at 110, 210 and 310 ms; `B` runs whenever it may. A column is 10 ms.
const QUOTA: &str = "BAABBBBBBBBAABBBBBBBBAABBBBBBBBABBABBBBBBBBB";

fn quota_text(displaced: bool) -> String {
    let waits = |who: char, waiter: char| -> String {
        let first = QUOTA.find(who).unwrap_or_default();
        let letter = |(at, on): (usize, char)| if on == who || at < first { ' ' } else { waiter };
        QUOTA.chars().enumerate().map(letter).collect()
    };
    let left = [3, 13, 23, 35].iter().filter(|_| displaced);
    let displaced: String = left.map(|at| format!("\nat {at}: A is displaced")).collect();
    format!("tick 10ms\n0 | {QUOTA}\n  | {}\n  | {}{displaced}", waits('A', 'a'), waits('B', 'b'))
}

fn throttled(
    kernel: &str,
    timers: bool,
    displaced: bool,
) -> (ThrottlingAnswer, Reply<CausesAnswer>) {
    let source = || quota_source(kernel, timers, displaced);
    let info = source().info().clone();
    let question = WithArguments(Throttling::new(&info));
    let throttled = ask(&mut source(), question).unwrap().answer;
    let causes = ask(&mut source(), Causes::new(&info, &throttled.spans, 10)).unwrap();
    (throttled, causes)
}

/// The trace of the quota, with the events of its timer or without them.
pub(crate) fn quota_source(kernel: &str, timers: bool, displaced: bool) -> fired::Source {
    quota_of(&quota_text(displaced), kernel, timers)
}

fn quota_of(text: &str, kernel: &str, timers: bool) -> fired::Source {
    let fired: Vec<fired::Fired<'_>> = [11_u64, 21, 31]
        .into_iter()
        .filter(|_| timers)
        .map(|at| {
            let arguments = "hrtimer=0xff function=sched_cfs_period_timer now=1";
            (at * 10_000_000 - 1_000, 0, Pid(-1), "hrtimer_expire_entry", arguments)
        })
        .collect();
    let groups = grouped(&[("/q", &[1], Some((20_000, 100_000))), ("/", &[2], None)]);
    let mut source = fired::source(text, &fired);
    source.info_mut().groups = Some(groups);
    source.info_mut().kernel = Some(kernel.to_owned());
    source
}

#[test]
fn a_task_without_budget_is_throttled_and_after_its_refill_it_competes() {
    // As a recording names it, and as other files do.
    for kernel in ["Linux 6.1.0-49-amd64 #1 SMP x86_64", "6.1.0-49-amd64", "Linux 6.18.44 #1 SMP"] {
        for timers in [true, false] {
            let (sums, all) = throttled(kernel, timers, kernel.contains("6.1."));
            // From 310 ms on A is displaced once, uses the rest of its budget, and competes again after the refill at 410 ms.
            // Each event of the timer comes a microsecond before its group runs again.
            let earlier = if timers { 4_000 } else { 0 };
            let expected = [
                (WaitCause::Throttled, 300_000_000 - earlier),
                (WaitCause::OtherGroup, 50_000_000 + earlier),
            ];
            assert_eq!(causes(&all, "A"), expected, "{kernel}, timers: {timers}");
            assert_eq!(sums.groups[&0].0, expected[0].1, "{kernel}, timers: {timers}");
        }
    }
}

#[test]
fn a_request_of_a_task_without_budget_waited_for_its_quota_and_not_for_who_ran() {
    // A makes a request from 120 to 220 ms.
    let marks = "\nat 12: A marks 0 begin\nat 22: A marks 0 end";
    let source = || {
        let mut source = quota_of(&(quota_text(true) + marks), "6.1.0-49-amd64", false);
        source.info_mut().marks = vec!["request".to_owned()];
        source
    };
    let question = WithArguments(Throttling::new(source().info()));
    let throttled = ask(&mut source(), question).unwrap().answer.spans;
    let ms = |time: Nanos| time.0 / 1_000_000;
    let parts = |question: Requests| {
        let answer = ask(&mut source(), question).unwrap().answer;
        let parts = Part::ALL.into_iter().zip(answer.requests[0].parts);
        parts
            .filter(|(_, time)| time.0 > 0)
            .map(|(part, time)| (part, ms(time)))
            .collect::<Vec<_>>()
    };
    let known = Requests::new("request", 1).throttled(&throttled);
    assert_eq!(parts(known), [(Part::Ran, 20), (Part::Throttled, 80)]);
    let unknown = Requests::new("request", 1);
    assert_eq!(parts(unknown), [(Part::Ran, 20), (Part::Waited, 80)]);
    let life = WhyLate::new(Pid(1)).throttled(&throttled);
    let spent = ask(&mut source(), life).unwrap().answer.unwrap().spent;
    let stopped = spent.iter().filter(|one| one.doing == Doing::Throttled);
    let stopped: Vec<u64> = stopped.map(|one| ms(one.span.duration())).collect();
    assert_eq!(stopped, [80, 80, 80, 60], "from 320 and from 410 ms on it competes");
    assert_eq!(spent.iter().map(|one| ms(one.span.duration())).sum::<u64>(), 440);
}

/// The kernel left out switches, so the model has 30 of 40 ms left.
#[test]
fn a_task_beside_an_idle_cpu_that_runs_after_the_timer_of_its_group_was_throttled() {
    let of = |columns: &str, fired: &[fired::Fired<'_>]| {
        let groups = grouped(&[("/q", &[1], Some((40_000, 100_000))), ("/", &[2], None)]);
        let source = || {
            let text = format!("tick 10ms\n0 | {columns}AABB\n  |   aaaaaaaaa    ");
            let mut source = fired::source(&text, fired);
            source.info_mut().groups = Some(groups.clone());
            source.info_mut().kernel = Some("6.18.44".to_owned());
            source
        };
        let info = source().info().clone();
        let throttled = ask(&mut source(), WithArguments(Throttling::new(&info))).unwrap().answer;
        let all = ask(&mut source(), Causes::new(&info, &throttled.spans, 10)).unwrap();
        causes(&all, "A")
    };
    let timer = "hrtimer=0xff function=sched_cfs_period_timer now=1";
    let expiry = |ms: u64| (ms * 1_000_000 - 1_000, 0, Pid(-1), "hrtimer_expire_entry", timer);
    let with = of("BA.....B...", &[expiry(10), expiry(110)]);
    assert_eq!(with[0], (WaitCause::Throttled, 89_999_000), "also while B ran: {with:?}");
    let without = of("BA.....B...", &[expiry(10)]);
    assert_eq!(without, [(WaitCause::Throttled, 90_000_000)], "A left to nobody, by the grid");
    // B displaced it, and where it was when B left is not known as certainly.
    let with = of("BAB...B....", &[expiry(10), expiry(110)]);
    assert_eq!(with[0], (WaitCause::Throttled, 79_999_000), "from 30 ms on: {with:?}");
    let without = of("BAB...B....", &[expiry(10)]);
    assert!(without.iter().all(|(cause, _)| *cause != WaitCause::Throttled), "{without:?}");
}

/// A runs 20 of each 100 ms. No switch away from idle is logged: what tells that it runs is a tick, 3.9 ms after its refill.
#[test]
fn a_quota_is_told_where_the_begin_of_a_run_is_not_logged() {
    let [run, wait] = ["A".repeat(5) + &".".repeat(20), " ".repeat(5) + &"a".repeat(20)];
    let text = format!("tick 4ms\n0 | {}\n  | {}", run.repeat(6), wait.repeat(6));
    let groups = [("/q", &[1][..], Some((20_000, 100_000))), ("/r", &[3], Some((50_000, 90_000)))];
    let timers = [100, 200, 300, 400, 500].map(|ms: u64| {
        let arguments = "hrtimer=0xff function=sched_cfs_period_timer now=1";
        (ms * 1_000_000 - 1_000, 0, Pid(0), "hrtimer_expire_entry", arguments)
    });
    let ticks = [0, 100, 200, 300, 400, 500].map(|ms: u64| {
        let arguments = "hrtimer=0xee function=tick_nohz_handler now=1";
        (ms * 1_000_000 + 3_900_000, 0, Pid(1), "hrtimer_expire_entry", arguments)
    });
    let source = || {
        let mut source = fired::source(&text, &[&timers[..], &ticks].concat());
        source.info_mut().groups = Some(grouped(&groups));
        source.info_mut().kernel = Some("6.18.44".to_owned());
        source.events.retain(
            |(event, _)| !matches!(event.what, What::Switch { prev, .. } if prev.is_idle()),
        );
        source
    };
    let info = source().info().clone();
    let first = ask(&mut source(), WithArguments(Throttling::new(&info))).unwrap().answer;
    let question = WithArguments(Throttling::new(&info).knowing(&first.timers));
    let throttled = ask(&mut source(), question).unwrap().answer;
    // Each period ends a microsecond before a column; the last one by the grid.
    assert_eq!(throttled.groups[&0], Nanos(6 * (80_000_000 - 1_000)));
    let all = ask(&mut source(), Causes::new(&info, &throttled.spans, 10)).unwrap();
    let told = causes(&all, "A");
    assert_eq!(told[0], (WaitCause::Throttled, 6 * (80_000_000 - 1_000)));
    // From each refill to the tick, and to the end.
    assert_eq!(told[1..], [(WaitCause::Unknown, 5 * 3_901_000 + 1_000)]);
}

#[test]
fn a_task_that_only_lost_its_turn_may_be_throttled_since_linux_6_18_or_not() {
    let (sums, all) = throttled("6.18.44", true, true);
    let unknown = causes(&all, "A")[0];
    assert_eq!(unknown, (WaitCause::Unknown, 299_996_000));
    assert_eq!(sums.groups[&0], Nanos::ZERO, "nothing is certain");
}

/// Expiries of period timers, a microsecond before these milliseconds.
fn expiries<'a>(timers: &[&'a str], at_ms: &[u64]) -> Vec<fired::Fired<'a>> {
    let expiry =
        |ms: u64, timer| (ms * 1_000_000 - 1_000, 0, Pid(-1), "hrtimer_expire_entry", timer);
    at_ms.iter().flat_map(|ms| timers.iter().map(|timer| expiry(*ms, *timer))).collect()
}

/// Both passes over a timeline on Linux 6.1 with groups and events of timers.
fn with_timers(
    text: &str,
    groups: &Groups,
    fired: &[fired::Fired<'_>],
    timers: &BTreeMap<u32, u64>,
) -> (ThrottlingAnswer, Reply<CausesAnswer>) {
    let source = || {
        let mut source = fired::source(text, fired);
        source.info_mut().groups = Some(groups.clone());
        source.info_mut().kernel = Some("6.1.0".to_owned());
        source
    };
    let info = source().info().clone();
    let question = WithArguments(Throttling::new(&info).knowing(timers));
    let throttled = ask(&mut source(), question).unwrap().answer;
    let causes = ask(&mut source(), Causes::new(&info, &throttled.spans, 10)).unwrap();
    (throttled, causes)
}

#[test]
fn a_group_and_the_one_above_it_may_have_timers_that_expire_together() {
    // Of each 100 ms A has 20, and A and B together have 50.
    let text = format!(
        "tick 10ms\n0 | {}\n  | {}\n  | {}",
        "ABABB.....".repeat(5),
        " a aaaaaaa".repeat(5),
        "b b  bbbbb".repeat(5)
    );
    let limits = [
        ("/a", &[][..], Some((50_000, 100_000))),
        ("/a/b", &[1], Some((20_000, 100_000))),
        ("/a/c", &[2], None),
    ];
    let timers = [
        "hrtimer=0xff function=sched_cfs_period_timer now=1",
        "hrtimer=0xee function=sched_cfs_period_timer now=1",
    ];
    let fired = expiries(&timers, &[100, 200, 300, 400]);
    let (sums, all) = with_timers(&text, &grouped(&limits), &fired, &BTreeMap::new());
    // The first two refills are seen when A runs again; from then on both timers are known.
    let late = 3_000;
    assert_eq!(sums.groups[&1].0, 5 * 70_000_000 - late, "of A's own group");
    assert_eq!(sums.groups[&0].0, 5 * 50_000_000 - late, "of both");
    assert_eq!(causes(&all, "A")[0], (WaitCause::Throttled, 5 * 70_000_000 - late));
}

#[test]
fn a_timer_is_that_of_the_group_whose_tasks_no_other_limit_held() {
    // The budget of both comes at 100, 200, ... ms and that of A alone 60 ms later, while both are throttled.
    let text = format!(
        "tick 10ms\n0 | {}\n  | {}\n  | {}",
        "BABAB.....".repeat(6),
        "a a aaaaaa".repeat(6),
        " b b bbbbb".repeat(6)
    );
    let limits = [
        ("/a", &[][..], Some((50_000, 100_000))),
        ("/a/b", &[1], Some((20_000, 100_000))),
        ("/a/c", &[2], None),
    ];
    let timer = |address| format!("hrtimer={address} function=sched_cfs_period_timer now=1");
    let [both, own] = ["0xff", "0xee"].map(timer);
    let mut fired = expiries(&[&both], &[100, 200, 300, 400, 500]);
    fired.extend(expiries(&[&own], &[60, 160, 260, 360, 460, 560]));
    fired.sort_by_key(|one| one.0);
    let groups = grouped(&limits);
    let (first, _) = with_timers(&text, &groups, &fired, &BTreeMap::new());
    assert_eq!(first.timers, BTreeMap::from([(0, 0xff), (1, 0xee)]));
    let (sums, all) = with_timers(&text, &groups, &fired, &first.timers);
    // A is throttled from 40 to 60 ms of each period by its own limit, and from 50 to 100 ms by the other. The refill at
    // the end of the trace is seen by the grid.
    assert_eq!(sums.groups[&1].0, 6 * (20_000_000 - 1_000));
    assert_eq!(sums.groups[&0].0, 6 * (50_000_000 - 1_000));
    let throttled = causes(&all, "A")[0];
    assert_eq!(throttled, (WaitCause::Throttled, 6 * (60_000_000 - 1_000)));
}

#[test]
fn nobody_is_blamed_in_the_first_period_if_its_quota_is_used_up() {
    // Refills at 10 and 110 ms; A runs twice 10 ms in each period.
    let text = "tick 10ms\n0 | BABABBBBBBBABABBBBBBB\n  | a a aaaaaaa a aaaaaaa\n  |  b b       b b       ";
    let groups = grouped(&[("/q", &[1], Some((20_000, 100_000))), ("/", &[2], None)]);
    let timer = ["hrtimer=0xff function=sched_cfs_period_timer now=1"];
    let (_, all) = with_timers(text, &groups, &expiries(&timer, &[10, 110]), &BTreeMap::new());
    let of_a = all.answer.blame.iter().filter(|one| all.state.names().text(one.comm) == "A");
    let of_a: u64 = of_a.map(|one| one.time.0).sum();
    assert!(of_a < 10_000, "only while it came to its queue: {:?}", all.answer.blame);
    let to_quota: u64 = all.answer.to_quota.iter().map(|one| one.3.0).sum();
    // From 20 to 30 ms and from 120 to 130 ms, and a microsecond after each refill.
    assert_eq!(to_quota, 20_002_000, "{:?}", all.answer.to_quota);
}

#[test]
fn a_group_may_come_to_its_first_refill_in_debt() {
    // Of each 100 ms A has 20. It ran too long before the trace, so that at 10 ms it has only 15 left.
    let text = format!(
        "tick 5ms\n0 | {}\n  | {}\n  |   bbb {}\n",
        ["BB", "AAAB", &"B".repeat(16), "AAAAB", &"B".repeat(15)].concat(),
        ["aa", "   a", &"a".repeat(16), "    a", &"a".repeat(15)].concat(),
        [&" ".repeat(16), "bbbb"].concat(),
    );
    let groups = grouped(&[("/q", &[1], Some((20_000, 100_000))), ("/", &[2], None)]);
    let timer = ["hrtimer=0xff function=sched_cfs_period_timer now=1"];
    let (_, all) = with_timers(&text, &groups, &expiries(&timer, &[10, 110]), &BTreeMap::new());
    let told = causes(&all, "A");
    // Or B had more turns: the file does not say. Nor does it up to the first refill, which is seen after 10 ms.
    let unknown = WaitCause::Unknown;
    assert!(told.contains(&(unknown, 85_000_000 + 10_000_000 - 2_000)), "{told:?}");
    assert!(told.contains(&(WaitCause::Throttled, 80_000_000 - 1_000)), "{told:?}");
    let of_a = all.answer.blame.iter().filter(|one| all.state.names().text(one.comm) == "A");
    let of_a: u64 = of_a.map(|one| one.time.0).sum();
    assert!(of_a < 10_000, "{:?}", all.answer.blame);
}

/// A task that is woken before the first refill.
#[test]
fn a_wakeup_that_is_taken_up_late_is_no_throttling_unless_a_period_ended() {
    // Woken at 20 ms beside an idle CPU, on which it runs 10 ms later.
    let text = "tick 10ms\n0 | B..A......\n  |   a       ";
    let groups = [
        ("/q", &[1][..], Some((20_000, 100_000))),
        ("/r", &[3], Some((20_000, 100_000))),
        ("/", &[2], None),
    ];
    let timer = ["hrtimer=0xff function=sched_cfs_period_timer now=1"];
    for (at, cause) in [(30, WaitCause::Throttled), (15, WaitCause::Unknown)] {
        let fired = expiries(&timer, &[at]);
        let (_, all) = with_timers(text, &grouped(&groups), &fired, &BTreeMap::new());
        assert_eq!(causes(&all, "A"), [(cause, 10_000_000)], "a period ended at {at} ms");
    }
}

/// The causes of `A`, where `A` and `B` have these kernel priorities.
fn with_priorities(text: &str, [a, b]: [i16; 2]) -> Vec<(WaitCause, u64)> {
    let mut trace = parsed(text);
    let of = |pid: Pid| Prio([120, a, b].get(pid.0 as usize).copied().unwrap_or(120));
    for event in &mut trace.events {
        match &mut event.what {
            What::Switch { prev, prev_prio, next, next_prio, .. } => {
                (*prev_prio, *next_prio) = (of(*prev), of(*next));
            }
            What::Waking { pid, prio, .. } | What::Wakeup { pid, prio, .. } => *prio = of(*pid),
            _ => {}
        }
    }
    let reply = ask(&mut trace.source(), Causes::new(&trace.info, &[], 10)).unwrap();
    causes(&reply, "A")
}

#[test]
fn a_task_before_which_the_kernel_picks_a_lower_class_has_no_budget() {
    let text = "0 | AABBBBCCAA\n  |   aaaaaa\nat 2: A is displaced";
    let (real_time, deadline, fair) = (50, -1, 120);
    assert_eq!(with_priorities(text, [real_time, fair]), [(WaitCause::Throttled, 6_000)]);
    assert_eq!(with_priorities(text, [deadline, fair]), [(WaitCause::Throttled, 6_000)]);
    assert_eq!(
        with_priorities(text, [real_time, deadline]),
        [(WaitCause::Deadline, 4_000), (WaitCause::Throttled, 2_000)],
        "C is fair"
    );
    assert_eq!(
        with_priorities(text, [fair, real_time]),
        [(WaitCause::RealTime, 4_000), (WaitCause::Fair, 2_000)]
    );
    // Not yet preempted is no budget that is used up.
    let woken = "0 | BBBBAA\n  |   aa";
    assert_eq!(with_priorities(woken, [real_time, fair]), [(WaitCause::Fair, 2_000)]);
    // Elsewhere it waits for its turn again.
    let moved = "0 | AABBBBBB\n  |   aa\n1 | CCCCCCAA\n  |     aa\nat 2: A is displaced";
    assert_eq!(
        with_priorities(moved, [real_time, fair]),
        [(WaitCause::Throttled, 2_000), (WaitCause::Fair, 2_000)]
    );
}

#[test]
fn nobody_is_blamed_for_waits_of_a_period_in_which_the_quota_is_used_up() {
    let (_, all) = throttled("6.1.0-49-amd64", false, true);
    let a = all.state.names().text(all.answer.to_quota[0].0);
    // A stands behind B from 320 to 340 ms, and is throttled at 350 ms. From 410 ms on it is not.
    let to_quota: u64 = all.answer.to_quota.iter().map(|one| one.3.0).sum();
    assert_eq!((a.as_str(), to_quota), ("A", 20_000_000));
    let by_b: u64 = all.answer.blame.iter().filter(|one| one.by.0 == 1).map(|one| one.time.0).sum();
    assert_eq!(by_b, 30_000_000, "{:?}", all.answer.blame);
}

#[test]
fn blame_can_be_kept_for_each_task_that_waits() {
    let text = "0 | AAAABC\n  |  bbb\n  |  cccc";
    let named = format!("{text}\nB is called w\nC is called w");
    let ask_each = |each: bool| {
        let trace = parsed(&named);
        let causes = Causes::new(&trace.info, &[], 10);
        let causes = if each { causes.each_task() } else { causes };
        let mut blame = ask(&mut trace.source(), causes).unwrap().answer.blame;
        blame.sort_by_key(|one| (one.task, one.by));
        blame.iter().map(|one| (one.task.map(|it| it.0), one.by.0, one.time.0)).collect::<Vec<_>>()
    };
    let by_name: u64 = ask_each(false).iter().map(|one| one.2).sum();
    let each = ask_each(true);
    assert_eq!(each.len(), 3, "B behind A, C behind A and B: {each:?}");
    assert_eq!(each.iter().map(|one| one.2).sum::<u64>(), by_name);
}
