//! Work conservation on timelines as text. A column is a microsecond.

#![expect(clippy::unwrap_used, reason = "a test that can't go on stops")]

use schedlab_model::{Affinity, Cpu, CpuSet, Nanos, Pid, Place, Topology, What};
use schedlab_timeline::{
    Conservation, ConservationAnswer, ConservationOptions, Reply, ask, notation,
};

fn reply(text: &str, min: u64, tell: impl Fn(&mut notation::Trace)) -> Reply<ConservationAnswer> {
    let mut trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    tell(&mut trace);
    let options = ConservationOptions { min: Nanos(min * 1000), ..Default::default() };
    let question = Conservation::new(options, &trace.info);
    ask(&mut trace.source(), question).unwrap()
}

/// `start-end task on overloaded, idle: cause`, longest first, then the sum and its bound.
fn text_of(reply: &Reply<ConservationAnswer>) -> String {
    let answer = &reply.answer;
    let mut text: String = answer
        .violations
        .iter()
        .map(|v| {
            format!(
                "{}-{} {} on {}, idle {}: {}\n",
                v.start.0 / 1000,
                v.end.0 / 1000,
                reply.state.name(v.task),
                v.overloaded,
                v.idle,
                v.because.cause.name()
            )
        })
        .collect();
    let bound = if answer.exact { "exact" } else { "upper" };
    text.push_str(&(answer.total.0 / 1000).to_string());
    text.push(' ');
    text.push_str(bound);
    text
}

#[track_caller]
fn check_min(text: &str, min: u64, tell: impl Fn(&mut notation::Trace), expected: &str) {
    let got = text_of(&reply(text, min, tell));
    let lines = expected.lines().map(str::trim).filter(|line| !line.is_empty());
    let expected = lines.collect::<Vec<_>>().join("\n");
    assert!(got == expected, "of\n{text}\ngot\n{got}\ninstead of\n{expected}");
}

#[track_caller]
fn check(text: &str, expected: &str) {
    check_min(text, 0, |_| {}, expected);
}

fn allow(trace: &mut notation::Trace, task: char, cpus: &str) {
    let pid = Pid(task as i32 - 'A' as i32 + 1);
    let allowed: CpuSet = cpus.parse().unwrap();
    let entry = Affinity { pid, at: Nanos::ZERO, allowed };
    trace.info.affinity.get_or_insert_default().push(entry);
}

const WAKERS_CPU: &str = "
    0 | AAAAAABBB
      |   bbbb
    1 | B......C.
    at 2: A wakes B";

#[test]
fn a_wakee_on_its_wakers_cpu_while_its_own_last_is_idle_is_a_violation() {
    check(WAKERS_CPU, "2-6 B on 0, idle 1: woken_on_wakers_cpu\n4 upper");
    let reply = reply(WAKERS_CPU, 0, |_| {});
    let violation = &reply.answer.violations[0];
    assert_eq!(
        violation.because.sentence(violation.overloaded, &reply.state),
        "woken on its waker's CPU 0 by A (1), where A (1) ran; its previous CPU 1 had been idle \
         for 1us, last used by B (2)"
    );
}

#[test]
fn affinity_makes_it_exact_and_forgives_pinned_tasks() {
    let all = |trace: &mut notation::Trace| allow(trace, 'B', "0-1");
    check_min(WAKERS_CPU, 0, all, "2-6 B on 0, idle 1: woken_on_wakers_cpu\n4 exact");
    let pinned = |trace: &mut notation::Trace| allow(trace, 'B', "0");
    check_min(WAKERS_CPU, 0, pinned, "0 exact");
    // Of another task, the affinity says nothing about B.
    let other = |trace: &mut notation::Trace| allow(trace, 'A', "0");
    check_min(WAKERS_CPU, 0, other, "2-6 B on 0, idle 1: woken_on_wakers_cpu\n4 upper");
}

#[test]
fn a_new_task_has_its_creators_affinity() {
    let text = "
        0 | AAAAB
          |   bb
        1 | .....
        at 1: A forks B
        at 2: A wakes B";
    check(text, "2-4 B on 0, idle 1: forked\n2 upper");
    check_min(text, 0, |trace| allow(trace, 'A', "0"), "0 exact");
}

#[test]
fn a_hand_over_is_no_violation() {
    // B is queued on the idle CPU 1 for two columns: it is about to run there.
    let text = "
        0 | AAAAAA
        1 | C..BB.
          |  bb";
    check(text, "0 upper");
    // And CPU 1 is not free for C while B comes.
    let text = "
        0 | AAACAA
          |  cc
        1 | ...BB.
          |  bb";
    check(text, "0 upper");
}

#[test]
fn short_violations_can_be_left_out() {
    let text = "
        0 | AABBBBBAA
          |  baaaaa
        1 | .........";
    check(text, "2-7 A on 0, idle 1: displaced\n1-2 B on 0, idle 1: woken_on_wakers_cpu\n6 upper");
    check_min(text, 2, |_| {}, "2-7 A on 0, idle 1: displaced\n5 upper");
}

#[test]
fn a_violation_lasts_while_any_allowed_cpu_is_free() {
    let text = "
        0 | AAAAAAAAAAB
          |  bbbbbbbbb
        1 | CC...DDDD..
        2 | EEEE...EEEE";
    check(
        text,
        "2-7 B on 0, idle 1-2: woken_on_wakers_cpu\n9-10 B on 0, idle 1: woken_on_wakers_cpu\n6 upper",
    );
    let late = reply(text, 0, |_| {});
    let worst = &late.answer.violations[0];
    assert!(
        worst
            .because
            .sentence(worst.overloaded, &late.state)
            .ends_with("no CPU was free until 1us later, and nobody pulled it then"),
        "{}",
        worst.because.sentence(worst.overloaded, &late.state)
    );
}

#[test]
fn a_balanced_task_is_told_from_one_that_was_woken_there() {
    let text = "
        0 | AAAA.
          |  bb
        1 | CCCCB
          |    b
        2 | DDD..";
    let reply = reply(text, 0, |_| {});
    let violation = &reply.answer.violations[0];
    assert_eq!(violation.because.cause.name(), "balanced");
    let sentence = violation.because.sentence(violation.overloaded, &reply.state);
    assert!(
        sentence.starts_with("balanced away from CPU 0 to CPU 1, where C (3) ran"),
        "{sentence}"
    );
}

#[test]
fn per_cpu_kernel_threads_are_kept_apart() {
    // B is displaced by a kernel thread that belongs to CPU 0; C is one that waits.
    let text = "
        0 | BBKKKBB
          |   bbb
        1 | AAAC...
          |  cc
        K is called kworker/0:1
        C is called ksoftirqd/1";
    let reply = reply(text, 0, |_| {});
    assert_eq!(reply.answer.by_kernel_threads, Nanos(1000));
    let violation = &reply.answer.violations[0];
    assert_eq!(violation.because.cause.name(), "displaced_by_kernel_thread");
    assert_eq!((violation.start, violation.end), (Nanos(4000), Nanos(5000)));
    let text = "
        0 | AAAC
          |  cc
        1 | ....
        C is called ksoftirqd/0";
    let reply = self::reply(text, 0, |_| {});
    assert_eq!((reply.answer.total, reply.answer.bound_threads), (Nanos::ZERO, Nanos(2000)));
}

#[test]
fn the_definitions_of_others_stand_beside_ours() {
    let text = "
        0 | AAAAAB
          |  bbbb
          |  cccc
        1 | .....C
        2 | DDD..D";
    let sums = reply(text, 0, |_| {}).answer.sums;
    assert_eq!(sums.schedviz_wall, Nanos(4000));
    assert_eq!(sums.schedviz_cpu, Nanos(4000), "one CPU is overloaded, so min is 1");
    assert_eq!(sums.schedviz_thread, Nanos(6000), "one idle for 2 us, two for 2 us, two waiters");
    assert_eq!(sums.systing, Nanos(4000));
}

/// Two LLCs of two CPUs each.
fn two_llcs() -> Topology {
    let place = |cpu: u16| Place {
        cpu: Cpu(cpu),
        core: cpu.into(),
        llc: u32::from(cpu / 2),
        node: 0,
        socket: 0,
    };
    Topology::new((0..4).map(place).collect())
}

#[test]
fn whether_the_wakers_llc_had_an_idle_cpu_is_told() {
    let text = "
        0 | AAAAB
          |  bbb
        1 | CCCC.
        2 | .....
        3 | .....
        at 1: A wakes B";
    let tell = |trace: &mut notation::Trace| {
        trace.info.topology = Some(two_llcs());
    };
    let reply = reply(text, 0, tell);
    let violation = &reply.answer.violations[0];
    assert_eq!(violation.because.llc_had_free, Some(false));
    assert_eq!(violation.idle, "2-3".parse().unwrap());
}

/// The sentence of the longest violation, on two LLCs of two CPUs each.
#[track_caller]
fn sentence(text: &str) -> String {
    let topology = two_llcs();
    let reply = reply(text, 0, |trace| trace.info.topology = Some(topology.clone()));
    let violation = &reply.answer.violations[0];
    violation.because.sentence(violation.overloaded, &reply.state)
}

#[test]
fn the_sentence_names_the_waker_the_previous_cpu_and_what_the_wakers_llc_had() {
    // D used CPU 1 last, B before it: D is named, since it is whose data lies there now.
    let said = sentence(
        "
        0 | AAAAAAAAB
          |     bbbb
        1 | BDD......
        2 | CCCCCCCCC
        3 | EEEEEEEEE
        at 4: A wakes B",
    );
    assert_eq!(
        said,
        "woken on its waker's CPU 0 by A (1), where A (1) ran; its previous CPU 1 had been idle for \
         1us, last used by D (4); its waker's LLC had an idle CPU"
    );
    // Woken where it ran last, by a task of the other LLC, in which nothing is idle.
    let said = sentence(
        "
        0 | BAAAAAAB
          |    bbbb
        1 | ........
        2 | CCCCCCCC
        3 | EEEEEEEE
        at 3: C wakes B",
    );
    assert_eq!(
        said,
        "woken on CPU 0, where it ran last, by C (3), where A (1) ran; its waker's LLC had no idle CPU"
    );
    // On a third CPU, by an interrupt.
    let said = sentence(
        "
        0 | AAAAAAB.
          |   bbbb
        1 | B.......
        2 | CCCCCCCC
        3 | EEEEEEEE
        at 2: interrupt on 2 wakes B",
    );
    assert_eq!(
        said,
        "put on CPU 0 when woken by an interrupt of C (3) on CPU 2, where A (1) ran; its previous \
         CPU 1 had been idle for 1us, last used by B (2); its waker's LLC had no idle CPU"
    );
}

#[test]
fn a_wait_that_is_older_than_its_place_on_a_queue_is_not_said_to_have_lacked_a_free_cpu() {
    // As kernels log it: the CPU is chosen half a microsecond after sched_waking. CPU 1 is free all the while.
    let placed_late = |trace: &mut notation::Trace| {
        for event in &mut trace.events {
            if matches!(event.what, What::Migrate { .. } | What::Wakeup { .. }) {
                event.time += Nanos(500);
            }
        }
    };
    let reply = reply(WAKERS_CPU, 0, placed_late);
    let violation = &reply.answer.violations[0];
    assert_eq!((violation.start, violation.because.waited_since), (Nanos(2500), Nanos(2000)));
    assert_eq!(
        violation.because.sentence(violation.overloaded, &reply.state),
        "woken on its waker's CPU 0 by A (1), where A (1) ran; its previous CPU 1 had been idle \
         for 1us, last used by B (2)"
    );
}

#[test]
fn the_sentence_tells_creation_displacement_and_kernel_threads() {
    let said = sentence(
        "
        0 | AAAAAB
          |   bbb
        1 | ......
        2 | CCCCCC
        3 | EEEEEE
        at 1: A forks B
        at 2: A wakes B",
    );
    let created = "put on CPU 0 when it was created by A (1), where A (1) ran";
    assert_eq!(said, format!("{created}; its waker's LLC had an idle CPU"));
    let by = |name: &str| {
        sentence(&format!(
            "
            0 | BBKKKKBB
              |   bbbb
            1 | ........
            K is called {name}"
        ))
    };
    assert_eq!(
        by("kworker/0:1"),
        "displaced on CPU 0 by the per-CPU kernel thread kworker/0:1 (11)"
    );
    // One that may run anywhere is a task as others are.
    assert_eq!(by("kworker/u8:2"), "displaced on CPU 0 by kworker/u8:2 (11)");
}

#[test]
fn unknown_cpus_are_not_idle() {
    let text = "
        0 | AAAB
          |  bb
        1 | ????";
    check(text, "0 upper");
}

#[test]
fn only_the_worst_are_kept_and_all_are_summed() {
    let text = "
        0 | AABABABABABB
          |  babababab
        1 | ............";
    let trace = notation::parse(text).unwrap();
    let options = ConservationOptions { limit: 3, ..Default::default() };
    let answer = ask(&mut trace.source(), Conservation::new(options, &trace.info)).unwrap().answer;
    assert_eq!(answer.violations.len(), 3);
    assert!(answer.count > 3 && answer.total.0 == 1000 * answer.count);
}

#[test]
fn lost_cpu_time_is_a_maximum_matching_and_not_the_lesser_count() {
    // CPUs 1 to 3 are free from 2 on; B may use all of them, C and D only CPU 1.
    let text = "
        0 | AAAAAA
          |   bbbb
          |   cccc
          |   dddd
        1 | E.....
        2 | F.....
        3 | G.....";
    let tell = |trace: &mut notation::Trace| {
        allow(trace, 'B', "1-3");
        allow(trace, 'C', "1");
        allow(trace, 'D', "1");
    };
    let two = Nanos(2 * 4_000);
    let told = reply(text, 0, tell).answer;
    assert_eq!((told.lost.cpus, told.lost.low, told.lost.high), (two, two, two));
    assert!(told.lost.affinity_known && told.lost.cores.is_none());
    assert_eq!(told.total, Nanos(3 * 4_000), "three tasks wait");
    // With no affinity told, three CPUs lose their time, or none.
    let untold = reply(text, 0, |_| {}).answer.lost;
    assert_eq!((untold.cpus, untold.low), (Nanos(3 * 4_000), Nanos::ZERO));
    // With two CPUs a core, one whole core is idle.
    let smt = |trace: &mut notation::Trace| {
        let mut topology = two_llcs().places().to_vec();
        topology.iter_mut().for_each(|place| place.core = u32::from(place.cpu.0 / 2));
        trace.info.topology = Some(Topology::new(topology));
    };
    assert_eq!(reply(text, 0, smt).answer.lost.cores, Some(Nanos(4_000)));
    // A CPU of which nothing is known may have been free.
    let unknown = text.replace("3 | G.....", "3 | G?????");
    let unknown = reply(&unknown, 0, |_| {}).answer.lost;
    assert_eq!((unknown.cpus, unknown.high), (Nanos(2 * 4_000), Nanos(3 * 4_000)));
}
