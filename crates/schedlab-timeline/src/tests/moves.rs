//! Chains of migrations, locality and the worst waits, on timelines as text. A column is a microsecond.

use crate::change::When;
use crate::{
    Cpus, LatencyByCpu, Locality, LocalityAnswer, Migrations, MigrationsAnswer, Question,
    RanInstead, Reply, Tasks, Worst, ask, notation,
};
use schedlab_model::{Cpu, Distance, Nanos, Pid, Place, Topology, What};

fn reply<Q: Question>(text: &str, question: Q) -> Reply<Q::Answer> {
    let trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    ask(&mut trace.source(), question).unwrap()
}

/// CPUs 0 and 1 share an LLC, 2 and 3 another on the same node; 4 and 5 are another socket.
fn topology() -> Topology {
    let place = |cpu: u16| Place {
        cpu: Cpu(cpu),
        core: cpu.into(),
        llc: u32::from(cpu / 2),
        node: u32::from(cpu / 4),
        socket: u32::from(cpu / 4),
    };
    Topology::new((0..6).map(place).collect())
}

fn chains(reply: &Reply<MigrationsAnswer>) -> Vec<String> {
    let hop = |hop: &crate::Hop| {
        let name = reply.state.name(hop.moved.task);
        let displaced = hop.displaced.map(|task| format!("!{}", reply.state.name(task)));
        let displaced = displaced.unwrap_or_default();
        format!("{name} {}-{} {}{displaced}", hop.moved.from, hop.moved.to, hop.moved.cause())
    };
    let chain = |hops: &Vec<crate::Hop>| hops.iter().map(hop).collect::<Vec<_>>().join(", ");
    reply.answer.chains.iter().map(chain).collect()
}

#[test]
fn one_bad_placement_and_all_that_it_pushed_around_is_one_chain() {
    // B, woken on CPU 1, displaces C, which is balanced to 2 and displaces D, which goes to 3.
    let text = "
        0 | AAAAAAAAAA
        1 | CCCBBBBBBB
          |    c
        2 | DDDDCCCCCC
          |     d
        3 | B....DDDDD
        at 3: A wakes B";
    let reply = reply(text, Migrations::new(None, 10));
    assert_eq!(chains(&reply), ["B 3-1 wakeup!C, C 1-2 balance!D, D 2-3 balance"]);
    assert_eq!((reply.answer.total(), reply.answer.chained), (3, 1));
    assert_eq!(reply.answer.totals, [1, 0, 2, 0, 0, 0]);
}

#[test]
fn a_task_that_waits_for_the_stopper_to_move_it_was_not_placed_by_a_wakeup() {
    // A blocks in its own sched_setaffinity, and the stopper S of CPU 0 wakes it on another CPU.
    let text = "
        0 | AAS....
        1 | ...AAAA
        at 2: A wakes S
        at 3: S wakes A
        S is called migration/0";
    let all = reply(text, Migrations::new(None, 10)).answer;
    assert_eq!((all.totals, all.total()), ([0, 0, 0, 0, 0, 1], 1));
    let tasks = reply(text, Tasks::new());
    let row = tasks.answer.rows.iter().find(|row| row.comm == "A").unwrap();
    assert_eq!((row.migrations_for_affinity, row.migrations), (Some(1), 1));
    let by = &row.woken_by[0];
    assert_eq!((by.to_be_moved, by.waker, by.count), (true, None, 1));
    let named = reply(&text.replace("migration/0", "m/0"), Migrations::new(None, 10)).answer;
    assert_eq!(named.totals[0], 1, "any other waker places it");
}

#[test]
fn a_stopper_that_a_task_woke_moves_for_its_affinity_and_one_of_an_interrupt_balances() {
    // C asks for a move of B, which waits behind the stopper T of CPU 1.
    let text = "
        0 | .....BB
        1 | BBBTT..
          |    bb
        2 | CCCCCCC
        at 3: C wakes T
        T is called migration/1";
    let totals = |text: &str| {
        let mut trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        // In the notation the CPU that pulls logs a move; here the stopper does.
        let is_move = |what: &What| matches!(what, What::Migrate { .. });
        let moved = trace.events.iter_mut().find(|event| is_move(&event.what)).unwrap();
        (moved.cpu, moved.by) = (Cpu(1), Pid(20));
        ask(&mut trace.source(), Migrations::new(None, 10)).unwrap().answer.totals
    };
    assert_eq!(totals(text), [0, 0, 0, 0, 0, 1]);
    let balanced = text.replace("C wakes T", "interrupt on 1 wakes T");
    assert_eq!(totals(&balanced), [0, 0, 1, 0, 0, 0]);
}

#[test]
fn moves_without_a_cause_are_no_chain() {
    let text = "
        0 | AA..A
        1 | ..A..
        2 | BBB..
        3 | ...BB";
    let reply = reply(text, Migrations::new(None, 10));
    assert_eq!(chains(&reply), [""; 0]);
    assert_eq!(reply.answer.total(), 3);
}

/// Moves within a cache, within a node, and beyond a socket.
const NEAR_AND_FAR: &str = "
        0 | A..A.....
        1 | .A.......
        2 | ..A.BB...
        4 | ...B..BCC
        5 | CCCCCCC..";

#[test]
fn migrations_are_counted_by_cause_and_distance() {
    let reply = reply(NEAR_AND_FAR, Migrations::new(Some(topology()), 10));
    let by = |distance: Distance| reply.answer.counts.iter().map(|c| c[distance as usize]).sum();
    let counts: Vec<u64> = Distance::ALL.into_iter().map(by).collect();
    assert_eq!(counts, [0, 0, 2, 2, 0, 2]);
    assert_eq!(When::Waiting.name(), "balance");
}

#[test]
fn a_cpu_tells_how_far_tasks_came_and_how_they_left() {
    let answer = reply(NEAR_AND_FAR, Cpus::by_distance(Some(topology()))).answer;
    let told = |cpu: u16| {
        let row = answer.rows.iter().find(|row| row.cpu == Cpu(cpu)).unwrap();
        (row.arrivals, row.arrivals_by, row.voluntary, row.involuntary)
    };
    // Who runs on without a gap elsewhere was displaced.
    // A came to CPU 0 from the other LLC of its node, C to CPU 4 from its LLC, B from the other socket.
    assert_eq!(told(0), (1, Some([0, 0, 0, 1, 0, 0]), 1, 1));
    assert_eq!(told(4), (2, Some([0, 0, 1, 0, 0, 1]), 1, 1));
    let without = reply(NEAR_AND_FAR, Cpus::new()).answer;
    let arrivals: u64 = without.rows.iter().map(|row| row.arrivals).sum();
    assert!(arrivals == 6 && without.rows.iter().all(|row| row.arrivals_by.is_none()));
    let displaced = reply("0 | ABA\n  | ba", Cpus::new()).answer;
    assert_eq!((displaced.rows[0].voluntary, displaced.rows[0].involuntary), (1, 1));
}

#[test]
fn without_wakeup_events_the_waker_moves_while_waking_and_others_balance() {
    let text = "
        0 | AAAAAAAA
        1 | CCCCCCCC
          |   bb
        2 | B...DDDB
          |     bbb
        at 2: A wakes B";
    let trace = notation::parse(text).unwrap().without(&[schedlab_model::Kind::Wakeup]);
    let answer = ask(&mut trace.source(), Migrations::new(None, 0)).unwrap().answer;
    assert_eq!(answer.totals, [1, 0, 1, 0, 0, 0]);
}

fn locality(text: &str) -> Reply<LocalityAnswer> {
    reply(text, Locality::new(Some(topology())))
}

#[test]
fn wakeups_are_counted_by_pair_and_by_how_far_they_carry() {
    let text = "
        0 | AAAAAAAA
        1 | BB..B...
        2 | ......C.
        4 | CC......
        5 | ....D...
        at 4: A wakes B
        at 6: A wakes C
        at 4: interrupt on 0 wakes D";
    let reply = locality(text);
    let told: Vec<String> = reply
        .answer
        .matrix
        .iter()
        .map(|(waker, wakee, woken)| {
            let left = [Distance::Llc, Distance::Node, Distance::Socket].map(|l| woken.left(l));
            format!("{}>{wakee} {} {left:?}", waker.as_deref().unwrap_or("irq"), woken.count)
        })
        .collect();
    assert_eq!(told, ["irq>D 1 [0, 0, 0]", "A>B 1 [0, 0, 0]", "A>C 1 [1, 1, 1]"]);
    assert_eq!(reply.answer.total.count, 3);
    assert_eq!(reply.answer.total.from_waker[Distance::Machine as usize], 1);
}

#[test]
fn home_is_where_a_task_ran_longest() {
    let text = "
        0 | AAAA..
        4 | ....AA";
    let reply = locality(text);
    let row = &reply.answer.tasks[0];
    assert_eq!((row.home, row.at_home, row.away), (Some(0), Nanos(4000), Nanos(2000)));
    let without = self::reply(text, Locality::new(None)).answer;
    assert!(!without.has_topology && without.tasks.is_empty());
}

/// The longest waits and who ran meanwhile, as `task from-to on CPU: who ran`.
fn worst(text: &str, limit: usize) -> Vec<String> {
    let trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let first = ask(&mut trace.source(), Worst::new(limit)).unwrap();
    let second = ask(&mut trace.source(), RanInstead::of(&first.answer)).unwrap();
    let name = |task| first.state.name(task);
    let told = first.answer.iter().zip(&second.answer).map(|(wait, meanwhile)| {
        let ran =
            meanwhile.ran.iter().map(|(task, time)| format!("{} {}", name(*task), time.0 / 1000));
        let idle = [("idle", meanwhile.idle), ("unknown", meanwhile.unknown)];
        let idle = idle.iter().filter(|(_, time)| *time > Nanos::ZERO);
        let rest = idle.map(|(what, time)| format!("{what} {}", time.0 / 1000));
        let (from, to) = (wait.since.0 / 1000, wait.at.0 / 1000);
        let ran: Vec<String> = ran.chain(rest).collect();
        format!("{} {from}-{to} on {}: {}", name(wait.task), wait.cpu, ran.join(", "))
    });
    told.collect()
}

#[test]
fn the_worst_waits_come_with_who_ran_instead() {
    let text = "
        0 | AAABBCD
          |  ddddd
          |   b c
        1 | E......
        at 1: A wakes D";
    assert_eq!(worst(text, 2), ["D 1-6 on 0: A 2, B 2, C 1", "B 2-3 on 0: A 1"]);
    let reply = reply(text, Worst::new(2));
    assert_eq!(reply.state.name(reply.answer[0].waker), "A");
}

#[test]
fn who_ran_instead_is_known_however_long_the_wait_and_wherever_it_stood() {
    // 200 slices, on both CPUs on whose queues it stood, hand-over and loss included.
    let pairs = "AB".repeat(100);
    let text = format!("0 | {pairs}CC\n  |  {}", "c".repeat(199));
    assert_eq!(worst(&text, 1), ["C 1-200 on 0: B 100, A 99"]);
    let text = "
        0 | AABBBBBB
          |  cc
        1 | DDDEE..C
          |    cccc";
    assert_eq!(worst(text, 1), ["C 1-7 on 1: E 2, A 1, B 1, idle 2"]);
}

#[test]
fn waits_by_cpu_count_where_they_end() {
    let text = "
        0 | AAAAAA
          |  bbb
        1 | CCCCBB
        2 | D.....";
    let answer = reply(text, LatencyByCpu::new()).answer;
    let counts: Vec<u64> = answer.iter().map(|(_, delays)| delays.wakeup.count()).collect();
    assert_eq!(counts, [0, 1, 0]);
    assert_eq!(answer[1].1.wakeup.max(), Some(3000));
}
