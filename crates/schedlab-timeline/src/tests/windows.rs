//! Windows of a stream: each says what the same part of a whole trace says.

use crate::notation::Trace;
use crate::tests::causes::quota_source;
use crate::tests::chaos::Dice;
use crate::{
    Causes, Cpus, Cut, Latency, Question, Reply, Tasks, Throttling, Windows, WithArguments,
    ask_within, notation,
};
use schedlab_model::{
    Clock, Context, Cpu, CpuSet, Event, EventSource, Groups, Left, Member, Nanos, Pid, Prio, Span,
    TraceInfo, What,
};
use schedlab_random::SplitMix64;

type Asked = (Latency, Tasks, Causes, Cpus);

fn questions(info: &TraceInfo) -> Asked {
    (Latency::new(), Tasks::new(), Causes::new(info, &[], 5), Cpus::new())
}

/// All figures, without the numbers that a pass gives to tasks and names.
fn figures(reply: &Reply<<Asked as Question>::Answer>) -> String {
    let (latency, tasks, causes, cpus) = &reply.answer;
    let state = &reply.state;
    let mut rows: Vec<String> = latency
        .tasks
        .iter()
        .map(|row| format!("{} waits {:?}", row.pid, row.delays))
        .chain(tasks.rows.iter().map(|row| {
            let counts = (row.voluntary, row.involuntary, row.wakeups, row.migrations);
            format!(
                "{} ran {:?} {counts:?}",
                row.pid,
                (row.ran, row.waited, row.asleep, &row.slices)
            )
        }))
        .chain(causes.tasks.iter().map(|row| {
            let pid = state.task(row.task).pid;
            format!("{pid} {:?}", (row.waits, row.parts, row.longest, row.open_since))
        }))
        .chain(causes.worst.iter().map(|wait| {
            let pid = state.task(wait.task).pid;
            format!("{pid} {:?}", (wait.since, wait.until, wait.is_open, wait.cpu, wait.parts))
        }))
        .collect();
    rows.sort();
    format!("{:?} {:?} {rows:#?}", latency.total, cpus.rows)
}

/// Compares windows of one length with cuts of the whole; returns how many tasks were remembered at most.
fn compare(trace: &Trace, length: Nanos, what: &str) -> usize {
    let events = &trace.events;
    let origin = events.iter().find(|e| !matches!(e.what, What::Comm { .. })).unwrap().time;
    let origin = origin.min(events[0].time);
    let mut windows = Windows::new(&trace.info, origin);
    let (mut from, mut most) = (origin, 0);
    while from <= events.last().unwrap().time {
        let to = from + length;
        let inside = |event: &&Event| (from..to).contains(&event.time);
        let mine: Vec<Event> = events.iter().filter(inside).copied().collect();
        let (_, reply) = windows.close(&mine, &|_| None, to, |_| questions(&trace.info));
        let cut = Cut { from: Some(from - origin), to: Some(to - origin) };
        let whole = ask_within(&mut trace.source(), cut, questions(&trace.info)).unwrap();
        if whole.observed == Span::new(from, to) {
            assert_eq!(figures(&reply), figures(&whole), "{what}: {from} to {to}");
        }
        windows.state().assert_consistent();
        windows.forget_dead();
        windows.state().assert_consistent();
        most = most.max(windows.state().task_count());
        from = to;
    }
    most
}

#[test]
fn a_window_is_that_part_of_the_whole_whatever_the_events_claim() {
    for seed in 0..30 {
        let chaos = Dice(SplitMix64::new(seed)).trace(500);
        for length in [900, 4_000, 100_000] {
            compare(&chaos, Nanos(length), &format!("seed {seed}"));
        }
    }
}

/// Processes that come and go, one after the other on each of two CPUs, with names of their own.
fn short_lives(count: u32) -> Trace {
    let mut info = TraceInfo::new("x", Clock::Monotonic);
    info.cpus = CpuSet::first(2);
    let (prio, context) = (Prio::NORMAL, Context::Task);
    let mut events = Vec::new();
    let shell = |cpu: u16| Pid(10 + i32::from(cpu));
    for at in 0..count {
        let (cpu, time) = (Cpu((at % 2) as u16), u64::from(at) * 10_000);
        let (shell, child) = (shell(cpu.0), Pid(100 + (at % 30_000) as i32));
        let mut put = |after: u64, by: Pid, what: What| {
            events.push(Event { time: Nanos(time + after), by, cpu, context, what });
        };
        let mut comm = [0; 16];
        comm[..8].copy_from_slice(format!("{at:08}").as_bytes());
        let switch =
            |prev, left, next| What::Switch { prev, prev_prio: prio, left, next, next_prio: prio };
        put(0, shell, What::Fork { child });
        put(100, shell, What::Comm { pid: child, comm });
        put(200, shell, What::Wakeup { pid: child, prio, cpu, new: true });
        put(1_000, shell, switch(shell, Left::Slept, child));
        put(3_000, child, What::Exit { pid: child });
        put(3_500, child, What::Waking { pid: shell, prio, last_cpu: cpu });
        put(3_600, child, What::Wakeup { pid: shell, prio, cpu, new: false });
        put(4_000, child, switch(child, Left::Dead, shell));
    }
    Trace { info, events, tick: Nanos(1) }
}

#[test]
fn tasks_that_come_and_go_are_forgotten_and_the_figures_stay() {
    let trace = short_lives(5_000);
    let most = compare(&trace, Nanos::from_millis(5), "short lives");
    assert!((500..2_000).contains(&most), "{most} tasks were remembered, of 5,000");
}

/// A day of 100 ms windows would hold 864,000 of these; what matters is that nothing grows.
#[test]
fn names_and_tasks_of_a_long_stream_do_not_add_up() {
    let trace = short_lives(2_000);
    let mut windows = Windows::new(&trace.info, Nanos::ZERO);
    let length = Nanos(2_000 * 10_000);
    let mut seen = Vec::new();
    for round in 0..60 {
        let offset = Nanos(length.0 * round);
        let later = |event: &Event| Event { time: event.time + offset, ..*event };
        let events: Vec<Event> = trace.events.iter().map(later).collect();
        windows.close(&events, &|_| None, offset + length, |_| questions(&trace.info));
        windows.forget_dead();
        seen.push((windows.state().task_count(), windows.state().names().count()));
    }
    let (tasks, names) = *seen.iter().max().unwrap();
    assert!(tasks < 5_000 && names < 5_000, "{seen:?}");
}

/// 8,640 windows of ten seconds, in each of which some processes live and end; and once a crowd.
#[test]
fn a_day_of_windows_and_a_crowd_of_ten_thousand_leave_nothing() {
    let (few, crowd) = (short_lives(40), short_lives(10_000));
    let mut windows = Windows::new(&few.info, Nanos::ZERO);
    let length = Nanos::from_secs(10);
    let (mut tasks, mut after) = (0, (0, 0));
    for round in 0..8_640_u64 {
        let start = Nanos(length.0 * round);
        let lives = if round == 4_000 { &crowd } else { &few };
        // Numbers of tasks go round, as the kernel's do.
        let turned = |pid: Pid| Pid(100 + (pid.0 + 40 * round as i32) % 32_000);
        let pid = |pid: Pid| if pid.0 < 100 { pid } else { turned(pid) };
        let later = |event: &Event| {
            let by = pid(event.by);
            let what = match event.what {
                What::Fork { child } => What::Fork { child: pid(child) },
                What::Comm { pid: of, comm } => What::Comm { pid: pid(of), comm },
                What::Wakeup { pid: of, prio, cpu, new } => {
                    What::Wakeup { pid: pid(of), prio, cpu, new }
                }
                What::Exit { pid: of } => What::Exit { pid: pid(of) },
                What::Switch { prev, prev_prio, left, next, next_prio } => {
                    What::Switch { prev: pid(prev), prev_prio, left, next: pid(next), next_prio }
                }
                other => other,
            };
            Event { time: event.time + start, by, what, ..*event }
        };
        let events: Vec<Event> = lives.events.iter().map(later).collect();
        windows.close(&events, &|_| None, start + length, |_| questions(&lives.info));
        tasks = tasks.max(windows.state().task_count());
        windows.forget_dead();
        after = (windows.state().task_count(), windows.state().names().count());
    }
    assert!((10_000..15_000).contains(&tasks), "{tasks} tasks at most");
    assert!(after.0 < 3_000 && after.1 < 3_000, "{after:?} tasks and names at the end");
}

/// Two tasks for each of 1,000 groups, which take turns on 100 CPUs.
fn many_groups() -> Trace {
    let mut info = TraceInfo::new("x", Clock::Monotonic);
    info.cpus = CpuSet::first(100);
    let names = (0..1_000).map(|group| format!("/pods/{group}")).collect();
    let member =
        |task: u32| Member { pid: Pid(1_000 + task as i32), at: Nanos::ZERO, group: task % 1_000 };
    let members = (0..2_000).map(member).collect();
    info.groups = Some(Groups { names, members, ..Groups::default() });
    let mut dice = SplitMix64::new(48);
    let mut next = |count: usize| (dice.bits() % count as u64) as usize;
    let (prio, context) = (Prio::NORMAL, Context::Task);
    let mut asleep: Vec<Pid> = (0..2_000).map(|task| Pid(1_000 + task)).collect();
    let mut queues = vec![std::collections::VecDeque::new(); 100];
    let mut on = vec![Pid::IDLE; 100];
    let mut events = Vec::new();
    for step in 0..30_000_u64 {
        let at = next(100);
        let (cpu, by) = (Cpu(at as u16), on[at]);
        let mut put = |after: u64, what| {
            events.push(Event { time: Nanos(step * 2_000 + after), by, cpu, context, what });
        };
        if !asleep.is_empty() {
            let pid = asleep.swap_remove(next(asleep.len()));
            put(0, What::Waking { pid, prio, last_cpu: cpu });
            put(100, What::Wakeup { pid, prio, cpu, new: false });
            queues[at].push_back(pid);
        }
        if step % 3 == 0 {
            continue;
        }
        let left = if step % 5 == 0 { Left::Preempted } else { Left::Slept };
        let coming = queues[at].pop_front().unwrap_or(Pid::IDLE);
        let next = (coming, prio);
        put(500, What::Switch { prev: by, prev_prio: prio, left, next: next.0, next_prio: next.1 });
        match (by.is_idle(), left) {
            (true, _) => {}
            (false, Left::Slept) => asleep.push(by),
            (false, _) => queues[at].push_back(by),
        }
        on[at] = coming;
    }
    Trace { info, events, tick: Nanos(1) }
}

#[test]
fn a_hundred_cpus_and_a_thousand_groups_have_the_figures_of_the_whole() {
    let trace = many_groups();
    compare(&trace, Nanos::from_millis(9), "a hundred CPUs");
    let cut = Cut { from: None, to: None };
    let whole = ask_within(&mut trace.source(), cut, questions(&trace.info)).unwrap();
    let groups: std::collections::BTreeSet<_> =
        whole.answer.2.tasks.iter().filter_map(|row| row.group).collect();
    assert!(groups.len() > 990, "{} groups waited", groups.len());
}

#[test]
fn a_loss_marks_its_windows_until_the_cpu_has_switched() {
    let mut trace = short_lives(400);
    let lost = trace.events.iter().position(|event| event.time >= Nanos(1_000_000)).unwrap();
    let What::Fork { .. } = trace.events[lost].what else { panic!("a fork begins a life") };
    trace.events[lost].what = What::Lost { count: None };
    let mut windows = Windows::new(&trace.info, Nanos::ZERO);
    let mut marked = Vec::new();
    for number in 0..4 {
        let span = Span::new(Nanos(number * 900_000), Nanos((number + 1) * 900_000));
        let inside = |event: &&Event| (span.start..span.end).contains(&event.time);
        let events: Vec<Event> = trace.events.iter().filter(inside).copied().collect();
        let (_, reply) = windows.close(&events, &|_| None, span.end, |_| questions(&trace.info));
        marked.push(reply.known.gaps);
    }
    assert_eq!(marked, [false, true, false, false]);
}

/// Events with their arguments.
fn told(mut source: impl EventSource) -> Vec<(Event, Option<String>)> {
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    while source.next(&mut batch).unwrap() {
        let text = |index| source.arguments(index).map(|text| text.into_owned());
        all.extend(batch.iter().enumerate().map(|(index, event)| (*event, text(index))));
    }
    all
}

/// The events of a part, and their arguments.
fn inside(
    all: &[(Event, Option<String>)],
    from: Nanos,
    to: Nanos,
) -> (Vec<Event>, Vec<Option<String>>) {
    all.iter().filter(|(event, _)| (from..to).contains(&event.time)).cloned().unzip()
}

#[test]
fn budgets_carry_over_from_window_to_window() {
    for (kernel, timers) in [("6.12.1", true), ("6.18.1", true), ("6.12.1", false)] {
        let source = || quota_source(kernel, timers, false);
        let info = source().info().clone();
        let all = told(source());
        let (first, last) = (all[0].0.time, all.last().unwrap().0.time);
        let mut windows = Windows::new(&info, first);
        let mut throttled = 0;
        let mut from = first;
        while from < last {
            // No multiple of the period, so that windows begin within throttled times.
            let to = from + Nanos(37_000_000);
            let (events, texts) = inside(&all, from, to);
            let text = |place: usize| texts[place].as_deref().map(Into::into);
            let (answer, reply) =
                windows.close(&events, &text, to, |told| Causes::new(&info, &told.spans, 5));
            let cut = Cut { from: None, to: Some(to - first) };
            let question = WithArguments(Throttling::new(&info));
            let until = ask_within(&mut source(), cut, question).unwrap();
            if until.observed.end == to {
                assert_eq!(
                    answer,
                    until.answer.clone().within(Span::new(from, to)),
                    "{kernel}: until {to}"
                );
                let cut = Cut { from: Some(from - first), to: Some(to - first) };
                let causes = Causes::new(&info, &until.answer.spans, 5);
                let part = ask_within(&mut source(), cut, causes).unwrap();
                assert_eq!(reply.answer.total, part.answer.total, "{kernel}: until {to}");
            }
            throttled += answer.groups.values().map(|time| time.0).sum::<u64>();
            from = to;
        }
        assert!(throttled > 100_000_000, "{kernel}: {throttled}");
    }
}

/// The same trace, where groups that are gone are forgotten between windows: those that stay have other numbers.
#[test]
fn budgets_carry_over_where_groups_have_new_numbers() {
    let source = || quota_source("6.12.1", true, false);
    let all = told(source());
    let plain = source().info().clone();
    let mut shifted = plain.clone();
    let groups = shifted.groups.as_mut().unwrap();
    groups.names.insert(0, "/gone".into());
    groups.members.iter_mut().for_each(|member| member.group += 1);
    groups.limits.iter_mut().for_each(|limit| limit.group += 1);
    let told = |infos: [&TraceInfo; 2]| {
        let mut windows = Windows::new(infos[0], all[0].0.time);
        let mut found = Vec::new();
        let (mut from, last) = (all[0].0.time, all.last().unwrap().0.time);
        while from < last {
            let to = from + Nanos(37_000_000);
            let (events, texts) = inside(&all, from, to);
            let text = |place: usize| texts[place].as_deref().map(Into::into);
            let (answer, _) = windows.close(&events, &text, to, |_| Latency::new());
            let times: Vec<u64> = answer.groups.values().map(|time| time.0).collect();
            found.push((times, answer.spans.len()));
            windows.learn(infos[found.len() % 2]);
            from = to;
        }
        found
    };
    let same = told([&plain, &plain]);
    assert!(same.iter().any(|(times, _)| times.iter().sum::<u64>() > 1_000_000), "{same:?}");
    assert_eq!(told([&shifted, &plain]), same);
}

/// `A` runs on CPU 0, `B` on CPU 1, which is said to be out of use at 50 ms by another CPU, or by itself before its last
/// switch.
#[test]
fn a_cpu_out_of_use_runs_nobody_though_its_last_switches_are_not_logged() {
    let ms = Nanos::from_millis;
    for (by_another, is_lost) in [(true, false), (true, true), (false, false), (false, true)] {
        let text = "tick 10ms\n0 | AAAAAAAAAA\n1 | BBBBBBBBBB";
        let mut trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}"));
        trace.events.retain(|event| event.time < ms(50));
        let first = trace.events[0];
        let cpu = Cpu(u16::from(!by_another));
        let what = What::Online { cpu: Cpu(1), online: false };
        trace.events.push(Event { time: ms(50), cpu, what, ..first });
        if is_lost {
            let what = What::Lost { count: None };
            trace.events.push(Event { time: ms(50), cpu: Cpu(1), what, ..first });
        }
        let mut windows = Windows::new(&trace.info, Nanos::ZERO);
        let (_, reply) = windows.close(&trace.events, &|_| None, ms(100), |_| Cpus::new());
        let busy = if by_another || is_lost { ms(50) } else { ms(100) };
        assert_eq!(reply.answer.rows[1].busy, busy, "{by_another} {is_lost}");
        assert_eq!(reply.known.gaps, is_lost);
        // No event of it can be missing now.
        let (_, next) = windows.close(&[], &|_| None, ms(200), |_| Cpus::new());
        assert!(!next.known.gaps);
    }
}
