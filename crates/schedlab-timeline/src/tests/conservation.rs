//! Work conservation on timelines as text. A column is a microsecond.

use crate::{Conservation, ConservationAnswer, ConservationOptions, Reply, ask, notation};
use schedlab_model::{Affinity, Cpu, CpuSet, Nanos, Pid, Place, Topology, What};

fn reply(text: &str, min: u64, tell: impl Fn(&mut notation::Trace)) -> Reply<ConservationAnswer> {
    reply_joining(text, (min, 0), tell)
}

/// With a shortest length and a longest gap, in microseconds.
fn reply_joining(
    text: &str,
    (min, gap): (u64, u64),
    tell: impl Fn(&mut notation::Trace),
) -> Reply<ConservationAnswer> {
    let mut trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    tell(&mut trace);
    let options = ConservationOptions {
        min: Nanos(min * 1000),
        gap: Nanos(gap * 1000),
        ..Default::default()
    };
    let question = Conservation::new(options, &trace.info);
    ask(&mut trace.source(), question).unwrap()
}

/// `start-end task on overloaded, idle: cause, cost, how it ended`, costliest first, then the sum and its bound.
fn text_of(reply: &Reply<ConservationAnswer>) -> String {
    let answer = &reply.answer;
    let mut text: String = answer
        .episodes
        .iter()
        .map(|episode| {
            format!(
                "{}-{} {} on {}, idle {}: {}, {} {}\n",
                episode.start.0 / 1000,
                episode.end.0 / 1000,
                reply.state.name(episode.task),
                episode.overloaded,
                episode.idle,
                episode.because.cause.name(),
                episode.cost.0 / 1000,
                episode.ended.name(),
            )
        })
        .collect();
    let bound = if answer.lost.low == answer.lost.cpus { "exact" } else { "upper" };
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
fn a_wakee_on_its_wakers_cpu_while_its_own_last_is_idle_loses_time() {
    check(WAKERS_CPU, "2-6 B on 0, idle 1: woken_on_wakers_cpu, 4 ran\n4 upper");
    let reply = reply(WAKERS_CPU, 0, |_| {});
    let episode = &reply.answer.episodes[0];
    assert_eq!(
        episode.because.sentence(episode.overloaded, &reply.state),
        "woken on its waker's CPU 0 by A (1), where A (1) ran; its previous CPU 1 had been idle \
         for 1.00 µs, last used by B (2)"
    );
}

#[test]
fn affinity_makes_it_exact_and_forgives_pinned_tasks() {
    let all = |trace: &mut notation::Trace| allow(trace, 'B', "0-1");
    check_min(WAKERS_CPU, 0, all, "2-6 B on 0, idle 1: woken_on_wakers_cpu, 4 ran\n4 exact");
    let pinned = |trace: &mut notation::Trace| allow(trace, 'B', "0");
    check_min(WAKERS_CPU, 0, pinned, "0 exact");
    // Of another task, the affinity says nothing about B.
    let other = |trace: &mut notation::Trace| allow(trace, 'A', "0");
    check_min(WAKERS_CPU, 0, other, "2-6 B on 0, idle 1: woken_on_wakers_cpu, 4 ran\n4 upper");
}

#[test]
fn a_new_task_has_its_creators_affinity() {
    let text = "
        0 | AAAAB
          |   bb
        1 | .....
        at 1: A forks B
        at 2: A wakes B";
    check(text, "2-4 B on 0, idle 1: forked, 2 ran\n2 upper");
    check_min(text, 0, |trace| allow(trace, 'A', "0"), "0 exact");
}

#[test]
fn a_hand_over_is_in_no_episode() {
    // B is queued on the idle CPU 1 for two columns: it is about to run there.
    let text = "
        0 | AAAAAA
        1 | C..BB.
          |  bb";
    check(text, "0 exact");
    // And CPU 1 is not free for C while B comes.
    let text = "
        0 | AAACAA
          |  cc
        1 | ...BB.
          |  bb";
    check(text, "0 exact");
}

#[test]
fn short_episodes_can_be_left_out() {
    let text = "
        0 | AABBBBBAA
          |  baaaaa
        1 | .........";
    check(text, "1-7 B on 0, idle 1: woken_on_previous_cpu, 6 ran\n6 upper");
    check_min(text, 7, |_| {}, "0 upper");
}

#[test]
fn an_episode_lasts_while_any_allowed_cpu_is_free() {
    let text = "
        0 | AAAAAAAAAAB
          |  bbbbbbbbb
        1 | CC...DDDD..
        2 | EEEE...EEEE";
    check(
        text,
        "2-7 B on 0, idle 1-2: not_pulled, 5 cpu_taken\n9-10 B on 0, idle 1: not_pulled, 1 ran\n6 upper",
    );
    let late = reply(text, 0, |_| {});
    assert_eq!(
        late.answer.episodes[0].because.inferred(),
        "CPU 1 became free 1.00 µs after its wait began, and did not pull it"
    );
    // A gap of 2 us joins the two, and costs nothing.
    let joined = reply_joining(text, (0, 2), |_| {});
    assert_eq!(text_of(&joined), "2-10 B on 0, idle 1-2: not_pulled, 6 ran\n6 upper");
}

#[test]
fn a_balanced_task_is_told_from_one_that_was_woken_there() {
    let text = "
        0 | AAAAA.
          |  bb
        1 | CCCCCB
          |    bb
        2 | DD....";
    let reply = reply(text, 0, |_| {});
    let episode = &reply.answer.episodes[0];
    assert_eq!(episode.because.cause.name(), "balanced");
    let sentence = episode.because.sentence(episode.overloaded, &reply.state);
    assert!(
        sentence.starts_with("pulled from CPU 0 to CPU 1 while it waited, where C (3) ran"),
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
    let episode = &reply.answer.episodes[0];
    // CPU 1 became free later.
    assert_eq!(episode.because.cause.name(), "not_pulled");
    assert_eq!((episode.start, episode.end), (Nanos(4000), Nanos(5000)));
    let text = "
        0 | AAAC
          |  cc
        1 | ....
        C is called ksoftirqd/0";
    let reply = self::reply(text, 0, |_| {});
    assert_eq!((reply.answer.total, reply.answer.bound_threads), (Nanos::ZERO, Nanos(2000)));
}

#[test]
fn an_episode_whose_free_cpu_pulled_a_waiter_ended_by_that() {
    let text = "
        0 | AAAAAAA
          |  bbb
          |  cccccc
        1 | DDD.BBB";
    let reply = reply(text, 0, |_| {});
    let episode = &reply.answer.episodes[0];
    assert_eq!((episode.start, episode.end), (Nanos(3000), Nanos(4000)));
    assert_eq!((episode.ended.name(), episode.ended.moved_to()), ("moved", Some(Cpu(1))));
    let said = "a waiter was moved to CPU 1, and no other CPU was free";
    assert_eq!(episode.ended.sentence(), said);
}

#[test]
fn kernel_threads_of_a_cpu_wait_whether_another_cpu_is_free_or_not() {
    // The trace tells where they may run.
    let text = "
        0 | AAAKK..
          |  kk
        1 | BBBBBBB
        K is called kworker/0:1";
    let reply = reply(text, 0, |trace| {
        let on = |pid, cpus: &[u16]| Affinity {
            pid: Pid(pid),
            at: Nanos::ZERO,
            allowed: cpus.iter().map(|cpu| Cpu(*cpu)).collect(),
        };
        trace.info.affinity = Some(vec![on(1, &[0, 1]), on(2, &[0, 1]), on(11, &[0])]);
    });
    assert_eq!((reply.answer.bound_threads, reply.answer.total), (Nanos(2000), Nanos::ZERO));
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
    let episode = &reply.answer.episodes[0];
    assert_eq!(episode.because.llc_had_free, Some(false));
    assert_eq!(episode.idle, "2-3".parse().unwrap());
}

/// The sentence of the costliest episode, on two LLCs of two CPUs each.
#[track_caller]
fn sentence(text: &str) -> String {
    let topology = two_llcs();
    let reply = reply(text, 0, |trace| trace.info.topology = Some(topology.clone()));
    let episode = &reply.answer.episodes[0];
    episode.because.sentence(episode.overloaded, &reply.state)
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
         1.00 µs, last used by D (4); its waker's LLC had an idle CPU"
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
         CPU 1 had been idle for 1.00 µs, last used by B (2); its waker's LLC had no idle CPU"
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
    let episode = &reply.answer.episodes[0];
    assert_eq!((episode.start, episode.because.waited_since), (Nanos(2500), Nanos(2000)));
    assert_eq!(
        episode.because.sentence(episode.overloaded, &reply.state),
        "woken on its waker's CPU 0 by A (1), where A (1) ran; its previous CPU 1 had been idle \
         for 1.00 µs, last used by B (2)"
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
    // One that may run anywhere was put on a busy CPU itself, before it displaced B.
    assert_eq!(
        by("kworker/u8:2"),
        "woken on its waker's CPU 0 by an interrupt of B (2) on CPU 0, where B (2) ran; its waker's LLC had \
         an idle CPU"
    );
}

#[test]
fn unknown_cpus_are_not_idle() {
    let text = "
        0 | AAAB
          |  bb
        1 | ????";
    check(text, "0 exact");
}

#[test]
fn only_the_worst_are_kept_and_all_are_summed() {
    // A and B share CPU 0 while CPU 1 is free, four times.
    let text = "
        0 | AABB.AABB.AABB.AABB
          |  b    b    b    b
        1 | ...................";
    let trace = notation::parse(text).unwrap();
    let options = ConservationOptions { limit: 3, gap: Nanos::ZERO, ..Default::default() };
    let answer = ask(&mut trace.source(), Conservation::new(options, &trace.info)).unwrap().answer;
    assert_eq!(answer.episodes.len(), 3);
    assert!(answer.count == 4 && answer.total.0 == 4_000);
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
    assert_eq!((told.total, told.waited), (two, Nanos(3 * 4_000)), "three tasks wait");
    assert_eq!(told.episodes.len(), 1, "on one queue");
    let waited: Vec<Nanos> = told.episodes[0].tasks.iter().map(|share| share.waited).collect();
    assert_eq!(waited, [Nanos(4_000); 3]);
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

#[test]
fn a_cpu_to_which_a_wakeup_is_on_its_way_is_not_free() {
    // B waits on CPU 0. CPU 1 idles, but C was woken and ran there last: its wakeup comes 2 us later.
    let text = "
        0 | AAAAAAAB
          |   bbbbb
        1 | C...CCCC";
    let late = |trace: &mut notation::Trace| {
        for event in &mut trace.events {
            if matches!(event.what, What::Waking { pid: Pid(3), .. }) {
                event.time = Nanos(2_000);
            }
        }
        trace.events.sort_by_key(|event| event.time);
    };
    check(text, "2-4 B on 0, idle 1: woken_on_previous_cpu, 2 cpu_taken\n2 upper");
    check_min(text, 0, late, "0 exact");
}

#[test]
fn a_task_that_an_idle_cpu_leaves_on_its_queue_is_throttled_and_loses_nothing() {
    // A is held back from 2 on: CPU 0 idles although A stands on its queue, and later runs C beside it.
    let text = "
        0 | AA..CCAA
          |   aaaa
        1 | ........";
    check(text, "0 exact");
    // The CPU is free for others meanwhile.
    let text = "
        0 | AA...CAA
          |   aaaa
        1 | BBBBBBBB
          |    cc";
    check(text, "3-5 C on 1, idle 0: woken_on_previous_cpu, 2 moved\n2 upper");
}

#[test]
fn the_stopper_at_work_loses_nothing() {
    let text = "
        0 | AASSAAAA
          |   aa
        1 | ........
        S is called migration/0";
    check(text, "0 exact");
}

#[test]
fn a_task_that_hops_has_an_episode_on_each_queue_and_both_add_up() {
    let text = "
        0 | AAAAAAAA
          |  bb
        1 | CCCCCCCC
          |    bbb
        2 | ......B.";
    let found = reply(text, 0, |_| {});
    assert_eq!(
        text_of(&found),
        "3-6 B on 1, idle 2: balanced, 3 moved\n1-3 B on 0, idle 2: woken_on_previous_cpu, 2 moved\n5 upper"
    );
    assert_eq!(found.answer.lost.cpus, found.answer.total);
}

#[test]
fn queues_that_compete_for_one_free_cpu_share_its_time() {
    let text = "
        0 | AAAAAABB
          |   bbbb
        1 | CCCCCCDD
          |     dd
        2 | ........";
    let found = reply(text, 0, |_| {});
    let costs: Vec<u64> = found.answer.episodes.iter().map(|episode| episode.cost.0).collect();
    assert_eq!(costs, [3_000, 1_000], "for 2 us each has half of it");
    assert_eq!((found.answer.total, found.answer.waited), (Nanos(4_000), Nanos(6_000)));
}

#[test]
fn a_task_whose_idle_cpu_another_took_first_was_overtaken() {
    // B is put on the idle CPU 0 at 2; C comes later and runs first.
    let text = "
        0 | A...CCCCB
          |   bbbbbb
        1 | .........";
    check(text, "4-8 B on 0, idle 1: overtaken, 4 ran\n4 upper");
}
