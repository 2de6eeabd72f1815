//! Timelines as text, answers in numbers. Times are in microseconds: a column is one.

use crate::{
    Activity, By, Conservation, ConservationOptions, Cpus, Cut, Density, Latency, Question, Reply,
    Slices, State, Tasks, Waiting, Worst, ask, ask_within, notation,
};
use schedlab_model::{Cpu, Kind, Nanos, Pid, Span};

fn parsed(text: &str) -> notation::Trace {
    notation::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn answer<Q: Question>(text: &str, question: Q) -> Q::Answer {
    ask(&mut parsed(text).source(), question).unwrap().answer
}

#[track_caller]
fn check(text: &str, got: impl AsRef<str>, expected: &str) {
    let tidy = |text: &str| {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    };
    let (got, expected) = (tidy(got.as_ref()), tidy(expected));
    assert!(got == expected, "of\n{text}\ngot\n{got}\ninstead of\n{expected}");
}

fn us(time: Nanos) -> u64 {
    time.0 / 1000
}

/// `comm wakeup-count/sum/max run-delay-count/sum/max unfinished`
#[track_caller]
fn check_latency(text: &str, expected: &str) {
    check(text, latency_text(&answer(text, Latency::new())), expected);
}

fn latency_text(answer: &crate::LatencyAnswer) -> String {
    let figures = |h: &schedlab_stats::Histogram| {
        format!("{}/{}/{}", h.count(), h.sum() / 1000, h.max().unwrap_or(0) / 1000)
    };
    let rows = answer.tasks.iter().map(|row| {
        let delays = &row.delays;
        let (wakeup, all) = (figures(&delays.wakeup), figures(&delays.run_delay));
        format!("{} {wakeup} {all} {}\n", row.comm, delays.unfinished)
    });
    rows.collect()
}

/// `comm ran waited slices voluntary involuntary wakeups migrations`
#[track_caller]
fn check_tasks(text: &str, expected: &str) {
    let answer = answer(text, Tasks::new());
    let rows = answer.rows.iter().map(|row| {
        format!(
            "{} {} {} {} {} {} {} {}\n",
            row.comm,
            us(row.ran),
            us(row.waited),
            row.slices.count(),
            row.voluntary,
            row.involuntary,
            row.wakeups,
            row.migrations
        )
    });
    check(text, rows.collect::<String>(), expected);
}

/// `cpu busy idle unknown switches overloaded waiting_max waited`
#[track_caller]
fn check_cpus(text: &str, expected: &str) {
    let answer = answer(text, Cpus::new());
    let rows = answer.rows.iter().map(|row| {
        format!(
            "{} {} {} {} {} {} {} {}\n",
            row.cpu,
            us(row.busy),
            us(row.idle),
            us(row.unknown),
            row.switches,
            us(row.overloaded),
            row.waiting_max,
            us(row.waited)
        )
    });
    check(text, rows.collect::<String>(), expected);
}

const PREEMPTION: &str = "
    0 | AAABBBAAA..
      |  bbaaa
    1 | ..C........
    at 1: A wakes B";

#[test]
fn a_wakeup_waits_until_it_runs_and_preemption_is_run_delay_only() {
    check_latency(PREEMPTION, "A 0/0/0 1/3/3 0\nB 1/2/2 1/2/2 0\nC 1/0/0 1/0/0 0");
    let text = "
        0 | AAABBBAAA..
          |  bbaaa";
    check_latency(text, "A 0/0/0 1/3/3 0\nB 1/2/2 1/2/2 0");
}

#[test]
fn run_time_and_switches_are_counted_where_they_belong() {
    let text = "
        0 | AAABBBAAA..
          |  bbaaa
        1 | ..C........";
    check_tasks(text, "A 6 3 2 1 1 0 0\nB 3 2 1 1 0 1 0\nC 1 0 1 1 0 1 0");
    check_cpus(text, "0 9 2 0 3 5 1 5\n1 1 10 0 2 0 0 0");
}

#[test]
fn a_displaced_task_waits_and_its_switch_is_involuntary() {
    let text = "
        0 | AABBAA
          |   aa
        at 2: A is displaced";
    check_tasks(text, "A 4 2 2 0 1 0 0\nB 2 0 1 1 0 1 0");
}

#[test]
fn a_yield_is_told_where_the_trace_has_the_system_call_and_nowhere_else() {
    let text = "
        0 | AABBAABBAA
          |   aa  aa
        at 2: A is displaced";
    let why = |calls: &[(u64, &'static str)]| -> Vec<&'static str> {
        let fired: Vec<crate::tests::fired::Fired<'_>> =
            calls.iter().map(|(at, name)| (*at, 0, Pid(1), *name, "")).collect();
        let mut source = crate::tests::fired::source(text, &fired);
        let mut waits = ask(&mut source, Worst::new(9)).unwrap().answer;
        waits.retain(|wait| !wait.why.is_wakeup());
        waits.sort_by_key(|wait| wait.since);
        waits.iter().map(|wait| wait.why.name()).collect()
    };
    let (enter, exit) = ("sys_enter_sched_yield", "sys_exit_sched_yield");
    assert_eq!(why(&[]), ["displaced", "displaced_in_kernel"]);
    assert_eq!(why(&[(1_500, enter)]), ["yielded", "displaced_in_kernel"]);
    let picked_again = [(1_200, enter), (1_300, exit)];
    assert_eq!(why(&picked_again), ["displaced", "displaced_in_kernel"]);
}

#[test]
fn a_trace_begins_with_its_first_event_and_not_with_a_name_told_before() {
    let mut trace = parsed("0 | AAAA..");
    for event in &mut trace.events {
        event.time += Nanos(1_000_000);
    }
    trace.info.span = None;
    let what = schedlab_model::What::Comm {
        pid: trace.events[0].by,
        comm: *b"early\0\0\0\0\0\0\0\0\0\0\0",
    };
    trace.events.insert(0, schedlab_model::Event { time: Nanos(1), what, ..trace.events[0] });
    let reply = ask(&mut trace.source(), Cpus::new()).unwrap();
    assert_eq!((reply.origin, reply.observed.start), (trace.events[1].time, trace.events[1].time));
    assert_eq!(reply.state.name(reply.state.task_of(trace.events[0].by).unwrap()), "early");
    assert_eq!(crate::span_of(&mut trace.source()).unwrap().start, trace.events[1].time);
}

#[test]
fn a_wait_counts_where_it_ends_and_one_that_does_not_end_is_unfinished() {
    let text = "
        0 | AAAAAABB
          |  bbbbb
        1 | CCCCCCCC
          |   dddddd";
    check_latency(text, "D 0/0/0 0/0/0 1\nB 1/5/5 1/5/5 0");
    let open = answer(text, Latency::new()).tasks.into_iter().next().expect("a row");
    assert_eq!(
        (open.comm.as_str(), open.delays.longest()),
        ("D", Some(Nanos(6_000))),
        "ranked first"
    );
    assert_eq!((open.delays.open.sum_ns, open.delays.run_delay.count()), (6_000, 0));
    let worst = answer(text, Worst::new(1));
    assert!(worst[0].is_open && worst[0].at - worst[0].since == Nanos(6_000), "{worst:?}");
    let trace = parsed(text);
    let within = |from: u64, to: u64| {
        let cut = Cut { from: Some(Nanos(from * 1000)), to: Some(Nanos(to * 1000)) };
        ask_within(&mut trace.source(), cut, (Latency::new(), Cpus::new(), Tasks::new())).unwrap()
    };
    let Reply { answer: (latency, cpus, tasks), observed, .. } = within(3, 7);
    assert_eq!(observed, Span::new(Nanos(3000), Nanos(7000)));
    check(text, latency_text(&latency), "B 1/5/5 1/5/5 0\nD 0/0/0 0/0/0 1");
    assert_eq!((us(cpus.rows[0].busy), us(cpus.rows[0].overloaded)), (4, 3));
    let ran = |comm: &str| {
        tasks.rows.iter().find(|row| row.comm == comm).map(|row| (us(row.ran), us(row.waited)))
    };
    assert_eq!((ran("A"), ran("B"), ran("D")), (Some((3, 0)), Some((1, 3)), Some((0, 4))));
    // The window ends before B runs.
    let (latency, ..) = within(3, 5).answer;
    check(text, latency_text(&latency), "B 0/0/0 0/0/0 1\nD 0/0/0 0/0/0 1");
}

#[test]
fn the_curve_is_exact_in_every_bin() {
    let text = "
        0 | AAAABBBB
          |  bbb
        1 | ..CCCD..
          |    dd";
    let answer = answer(text, Waiting::within(Span::new(Nanos(0), Nanos(8000)), 4));
    let bins = answer.bins.iter().map(|bin| {
        let (ran, waited) = (bin.running_ns / 1000, bin.waiting_ns / 1000);
        format!("{ran} {waited} {} {}\n", bin.running_max, bin.waiting_max)
    });
    check(text, bins.collect::<String>(), "2 1 1 1\n4 3 2 2\n4 1 2 1\n2 0 1 0");
    assert_eq!((answer.cpus, answer.running_time_ns), (2, vec![0, 4000, 4000]));
}

#[test]
fn halving_the_bins_keeps_every_nanosecond() {
    let text = "
        tick 700ns
        0 | AABBAABBAABBAABBAABBAABBAABBAABBAABBAABBAABBAABBAABBAABB
          |   aabbaabbaabbaabbaabbaabbaabbaabbaabbaabbaabbaabbaabbaa";
    for limit in [2, 3, 5, 24, 1000] {
        let answer = answer(text, Waiting::new(limit));
        let total = answer.total();
        assert!(answer.bins.len() <= limit, "{} bins of {limit}", answer.bins.len());
        assert_eq!(total.seen_ns, 56 * 700);
        assert_eq!((total.running_ns, total.waiting_ns), (56 * 700, 54 * 700));
        assert_eq!(answer.running_time_ns.iter().sum::<u64>(), 56 * 700);
        assert_eq!(answer.waiting_time_ns, [2 * 700, 54 * 700]);
    }
}

#[test]
fn slices_are_the_picture() {
    let text = "
        0 | AAAB..A
          |  bb
        1 | ??.....
        at 1: A wakes B";
    let answer = answer(text, Slices::new(100));
    let names = ["", "A", "B"];
    let slices = answer.slices.iter().map(|slice| {
        let task = names[slice.task.index()];
        format!("{} {task} {}-{}\n", slice.cpu, us(slice.from), us(slice.to))
    });
    check(text, slices.collect::<String>(), "1  0-2\n0 A 0-3\n0 B 3-4\n0 A 6-7");
    assert_eq!(answer.waits.len(), 1);
    assert_eq!((us(answer.waits[0].from), us(answer.waits[0].to)), (1, 3));
    let wake = &answer.wakes[0];
    assert_eq!((us(wake.at), wake.waker.cpu, wake.task.0), (1, Cpu(0), 2));
}

#[test]
fn a_limit_on_slices_is_told() {
    let answer = answer("0 | ABABABAB", Slices::new(3));
    assert_eq!(answer.slices.len(), 3);
    assert!(answer.left_out > 0);
}

#[test]
fn density_is_exact_in_every_cell() {
    let text = "
        0 | AAB.CCCC
        1 | ????....";
    let window = Span::new(Nanos(0), Nanos(8000));
    let answer = answer(text, Density::new(window, 2, By::Task));
    let cells: Vec<_> = answer.rows[0]
        .1
        .iter()
        .map(|cell| (cell.busy, cell.top, cell.top_part, cell.mixed))
        .collect();
    assert_eq!(cells, [(49151, 1, 32767, 2), (65535, 3, 65535, 1)]);
    assert_eq!(answer.rows[1].1[0].unknown, 65535);
    assert_eq!(answer.rows[1].1[1], crate::Cell::default());
}

/// What is printed is what was parsed.
#[track_caller]
fn check_round_trip(text: &str) {
    let trace = parsed(text);
    let printed = notation::print(&mut trace.source(), trace.tick).unwrap();
    let tidy = |text: &str| {
        let lines = text.lines().map(str::trim_start).filter(|line| !line.is_empty());
        lines.map(str::trim_end).collect::<Vec<_>>().join("\n")
    };
    assert!(tidy(&printed) == tidy(text), "parsed\n{text}\nprinted\n{printed}");
}

#[test]
fn what_is_parsed_prints_the_same() {
    check_round_trip(
        "
        0 | AAAABB..
          |   bb
        1 | .CC.AAA?
        at 2: A wakes B",
    );
    check_round_trip(
        "
        tick 20us
        0 | AABBB?AA..
          | bbaaa
          | cc
        1 | ..CCC????E
        2 | D...DD...G
          |       eee
          |        gg
        3 | EEEEEE...?",
    );
}

#[test]
fn contradictory_pictures_are_refused_with_the_line() {
    for (text, what) in [
        ("0 | AA\n1 | A.", "A is in two places in column 0"),
        ("0 | A.\n  |  a\n  |  a", "A is in two places in column 1"),
        ("0 | AB\n1 | BA", "tasks swap CPUs within the edge of column 1"),
        ("0 | BBB\n  | a", "A stops waiting in column 1 without running"),
        ("0 | AA\n1 | A", "the row of CPU 1 is not as long as the first row"),
        ("0 | A*", "invalid state of a CPU '*': see the table in `notation`"),
        ("at x: A wakes B", "invalid column 'x': use a whole number"),
    ] {
        let error = notation::parse(text).unwrap_err();
        assert_eq!(error.what, what, "{text}");
    }
}

/// Chapter and verse of what a scheduler model must get right: a test for each trap.
mod traps {
    use super::*;

    fn state_of(trace: &notation::Trace) -> State {
        ask(&mut trace.source(), Latency::new()).unwrap().state
    }

    fn codes(trace: &notation::Trace) -> Vec<String> {
        let reply = ask(&mut trace.source(), Latency::new()).unwrap();
        reply.warnings.into_iter().map(|warning| warning.code).collect()
    }

    #[test]
    fn one_waking_names_the_last_cpu_and_not_the_placement() {
        // A ran on 0 and is put on 1, whose queue it joins; CPU 0 never has a waiter.
        let text = "
            0 | AA......
            1 | BBBBBBAA
              |     aa";
        check_cpus(text, "0 2 6 0 1 0 0 0\n1 8 0 0 1 2 1 2");
        // Without migrations the wakeup alone tells; without wakeups the migration does.
        for missing in [Kind::Migrate, Kind::Wakeup] {
            let trace = parsed(text).without(&[missing]);
            let answer = ask(&mut trace.source(), Cpus::new()).unwrap().answer;
            let waited: Vec<u64> = answer.rows.iter().map(|row| us(row.waited)).collect();
            assert_eq!(waited, [0, 2], "without {missing:?}");
        }
    }

    #[test]
    fn two_a_wakeup_logged_elsewhere_counts_where_it_says() {
        let text = "
            0 | AAAA
            1 | BBBC
              |  cc
            at 1: A wakes C";
        check_cpus(text, "0 4 0 0 0 0 0 0\n1 4 0 0 1 2 1 2");
        let state = state_of(&parsed(text));
        let task = state.tasks().find(|(id, _)| state.name(*id) == "C").unwrap().1;
        assert_eq!((task.waker_cpu, task.last_cpu), (Cpu(0), Some(Cpu(1))));
    }

    #[test]
    fn three_preempted_tasks_wait_and_sleepers_do_not() {
        let text = "
            0 | AABBCCA
              |   aaaa
            1 | ..D....";
        check_latency(text, "A 0/0/0 1/4/4 0\nB 1/0/0 1/0/0 0\nC 1/0/0 1/0/0 0\nD 1/0/0 1/0/0 0");
    }

    #[test]
    fn four_with_switches_only_waits_are_lower_bounds_and_said_to_be() {
        let text = "
            0 | AAABBAA
              |   baa";
        let all = [Kind::Waking, Kind::Wakeup, Kind::WakeupNew, Kind::Migrate];
        let trace = parsed(text).without(&all);
        let reply = ask(&mut trace.source(), Latency::new()).unwrap();
        check(text, latency_text(&reply.answer), "A 0/0/0 1/2/2 0");
        assert_eq!(reply.warnings[0].code, "no-wakeups");
        assert_eq!(codes(&parsed(text)), [""; 0]);
    }

    #[test]
    fn five_what_was_not_seen_is_unknown_and_not_idle() {
        // CPU 1 is silent until 3; events of CPU 0 are lost at 2, and its waiter with them.
        let text = "
            0 | AA??BB
              |  c
            1 | ???DDD
            at 2: lose 7 on 0";
        check_cpus(text, "0 4 0 2 1 1 1 1\n1 3 0 3 1 0 0 0");
        check_latency(text, "C 0/0/0 0/0/0 1");
        let state = state_of(&parsed(text));
        assert_eq!((state.tally().losses, state.tally().lost_events), (1, 7));
        assert_eq!(codes(&parsed(text)), ["events-lost"]);
        // A CPU that the trace does not cover is no row at all, and who goes there is out of sight.
        let text = "
            0 | AA..AA
            7 | ------
              |   aa  ";
        check_cpus(text, "0 4 2 0 2 0 0 0");
        check_latency(text, "A 0/0/0 0/0/0 1");
        assert_eq!(codes(&parsed(text)), ["cpus-unobserved"]);
    }

    #[test]
    fn six_an_idle_cpu_that_hands_over_is_neither_free_nor_overloaded() {
        let violated = |text: &str, min: u64| {
            let trace = parsed(text);
            let options = ConservationOptions { min: Nanos(min * 1000), ..Default::default() };
            let answer = answer(text, Conservation::new(options, &trace.info));
            (us(answer.total), us(answer.sums.schedviz_wall), us(answer.sums.systing))
        };
        // B is on its way onto the idle CPU 1 while F waits on CPU 0: CPU 1 is not free for F.
        let text = "
            0 | AAAAAAF
              |  fffff
            1 | D..BBBB
              |  bb
            2 | EEEEEEE";
        assert_eq!(violated(text, 0), (0, 0, 2), "only systing's definition counts hand-overs");
        // Overload for a microsecond beside an idle CPU counts, unless a least duration is asked for.
        let text = "
            0 | AAABB
              |   b
            1 | .....";
        check_cpus(text, "0 5 0 0 1 1 1 1\n1 0 5 0 0 0 0 0");
        assert_eq!((violated(text, 0), violated(text, 2)), ((1, 1, 1), (0, 1, 1)));
    }

    #[test]
    fn seven_pids_are_used_again_names_change_and_exec_takes_the_leaders_pid() {
        let text = "
            0 | AABB..AA
            at 2: A dies
            at 3: B forks A";
        check_tasks(text, "A 2 0 1 1 0 0 0\nA 2 0 1 0 0 1 0\nB 2 0 1 1 0 1 0");
        assert_eq!(state_of(&parsed(text)).tally().reused_pids, 1);
        // B, a thread of A's process, executes a program and is A from then on.
        let mut trace = parsed("0 | AABBB.BB");
        let (a, b) = (trace.events[0].by, schedlab_model::Pid(2));
        let at = |time, what| schedlab_model::Event {
            time: Nanos(time),
            by: a,
            cpu: Cpu(0),
            context: schedlab_model::Context::Task,
            what,
        };
        let comm = *b"new\0\0\0\0\0\0\0\0\0\0\0\0\0";
        trace.events.retain(|event| event.time < Nanos(3000));
        trace.events.push(at(3000, schedlab_model::What::Exec { old: b }));
        trace.events.push(at(3000, schedlab_model::What::Comm { pid: a, comm }));
        let state = state_of(&trace);
        let now = state.task_of(a).unwrap();
        assert_eq!((state.name(now).as_str(), state.task_of(b)), ("new", None));
        assert_eq!(state.task(now).activity, Activity::Running { cpu: Cpu(0) });
    }

    #[test]
    fn eight_percentiles_merge_and_censored_waits_are_counted_apart() {
        let text = "
            0 | AAAAAAAAAA
              |  bbbbbbbbb";
        check_latency(text, "B 0/0/0 0/0/0 1");
        let one = answer("0 | AAB\n  |  b", Latency::new()).total;
        let mut both = answer("0 | AAAAAB\n  |  bbbb", Latency::new()).total;
        both.merge(&one);
        assert_eq!(both.wakeup, [1000, 4000].into_iter().collect());
    }

    #[test]
    fn nine_a_task_on_two_cpus_at_once_is_counted_and_not_fatal() {
        // CPU 1's clock is 2 us early: A is seen there before it is seen to leave CPU 0.
        let mut trace = parsed(
            "
            0 | AAAA....
            1 | ....AAA.",
        );
        for event in &mut trace.events {
            if event.cpu == Cpu(1) && event.time > Nanos::ZERO {
                event.time -= Nanos(2000);
            }
        }
        trace.events.sort_by_key(|event| event.time);
        let reply = ask(&mut trace.source(), (Tasks::new(), Cpus::new())).unwrap();
        assert_eq!(reply.state.tally().overlaps, 1);
        assert_eq!(reply.warnings[0].code, "clocks-disagree");
        let (tasks, cpus) = reply.answer;
        assert_eq!(us(tasks.rows[0].ran), 5, "never in two places, so 2 + 3");
        let unknown: Vec<u64> = cpus.rows.iter().map(|row| us(row.unknown)).collect();
        assert_eq!(unknown, [2, 0], "what CPU 0 did meanwhile can't be told");
    }
}

#[test]
fn of_tasks_that_were_filtered_away_nothing_is_made_up() {
    // Only what concerns B is kept: A runs on for 5 µs after its first switch, as far as the events tell.
    let mut trace = parsed(
        "
        0 | AABBA.CC
          |  baa
        at 1: A wakes B",
    );
    let names = |event: &schedlab_model::Event| match event.what {
        schedlab_model::What::Switch { prev, next, .. } => prev == Pid(2) || next == Pid(2),
        schedlab_model::What::Waking { pid, .. } | schedlab_model::What::Wakeup { pid, .. } => {
            pid == Pid(2)
        }
        _ => false,
    };
    trace.events.retain(names);
    trace.info.only = Some([Pid(2)].into());
    let reply = ask(&mut trace.source(), (Tasks::new(), Cpus::new())).unwrap();
    let (tasks, cpus) = &reply.answer;
    let rows: Vec<_> =
        tasks.rows.iter().map(|row| (row.pid.0, us(row.ran), us(row.waited))).collect();
    assert_eq!(rows, [(2, 2, 1)], "B alone, with its own figures");
    let row = &cpus.rows[0];
    assert_eq!((us(row.busy), row.idle), (2, Nanos::ZERO), "the rest of the CPU is unknown");
}
