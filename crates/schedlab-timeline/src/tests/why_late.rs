//! What an interval of a task's life was spent on, on timelines as text. A column is a microsecond.

use crate::{Cut, WhyLate, ask_within, notation};
use schedlab_model::{Nanos, Pid};

/// `start-end task what`, a line for each part, from the view of the task `A`.
fn spent(text: &str, (from, to): (u64, u64)) -> Vec<String> {
    let trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let cut = Cut { from: Some(Nanos(from * 1000)), to: Some(Nanos(to * 1000)) };
    let reply = ask_within(&mut trace.source(), cut, WhyLate::new(Pid(1))).unwrap();
    let answer = reply.answer.unwrap();
    // Without gap or overlap: shares sum to the whole.
    let mut told = reply.observed.start;
    for part in &answer.spent {
        assert_eq!(part.span.start, told);
        told = part.span.end;
    }
    assert_eq!(told, reply.observed.end);
    let line = |part: &crate::Spent| {
        let (start, end) = (part.span.start.0 / 1000, part.span.end.0 / 1000);
        let name = reply.state.name(part.task);
        let cpu = part.doing.cpu().map_or(String::new(), |cpu| format!(" {cpu}"));
        format!("{start}-{end} {name} {}{cpu}", part.doing.name())
    };
    answer.spent.iter().map(line).collect()
}

/// A waits for B, and B, meanwhile, for C. By hand: A runs 4, B runs 4 and waits 1, C runs 2.
const CHAIN: &str = "
    0 | AA.......AA
    1 | BBBBDDDBB..
      |       b
    2 | CCCCCC.....
    at 6: C wakes B
    at 9: B wakes A";

#[test]
fn a_chain_of_three_tasks_is_walked_back_by_its_wakers() {
    let parts =
        ["0-2 A runs", "2-4 B runs", "4-6 C runs", "6-7 B runnable 1", "7-9 B runs", "9-11 A runs"];
    assert_eq!(spent(CHAIN, (0, 11)), parts);
}

#[test]
fn a_part_of_the_interval_is_cut_at_both_ends() {
    assert_eq!(spent(CHAIN, (5, 8)), ["5-8 A blocked"], "nothing woke it before the end");
    let parts = ["5-6 C runs", "6-7 B runnable 1", "7-9 B runs", "9-10 A runs"];
    assert_eq!(spent(CHAIN, (5, 10)), parts);
}

#[test]
fn an_interrupt_ends_the_chain_and_a_wait_for_a_cpu_is_its_own() {
    let text = "
        0 | AABBBBBAA
          |      aa
        1 | ..CCCCCC.
        at 5: interrupt on 1 wakes A";
    let parts = ["0-2 A runs", "2-5 A interrupt 1", "5-7 A runnable 0", "7-9 A runs"];
    assert_eq!(spent(text, (0, 9)), parts);
}

/// Who had the CPUs that the tasks of the chain of `A` waited for: `name us`, then idle and unknown.
fn instead(text: &str, (from, to): (u64, u64)) -> (Vec<String>, u64, u64) {
    let trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let cut = Cut { from: Some(Nanos(from * 1000)), to: Some(Nanos(to * 1000)) };
    let reply = ask_within(&mut trace.source(), cut, WhyLate::new(Pid(1))).unwrap();
    let answer = reply.answer.unwrap();
    let waits: Vec<_> = answer.spent.iter().filter_map(|part| part.wait()).collect();
    let found = answer.occupants.during(waits.iter().copied());
    let waited = waits.iter().fold(Nanos::ZERO, |sum, (_, span)| sum + span.duration());
    assert_eq!(found.time(), waited, "each instant of the waits has one occupant");
    let ran = found.ran.iter();
    let ran = ran.map(|(task, time)| format!("{} {}", reply.state.name(*task), time.0 / 1000));
    (ran.collect(), found.idle.0 / 1000, found.unknown.0 / 1000)
}

#[test]
fn who_had_the_cpu_of_a_wait_is_told_with_their_times() {
    // A is woken at 1 while B runs; C takes over, then the CPU idles, then A runs.
    let text = "
        0 | ABBBCCCCC.AA
          |  aaaaaaaaa
        1 | D...........";
    assert_eq!(instead(text, (0, 12)), (vec!["C 5".to_owned(), "B 3".to_owned()], 1, 0));
    // What began before the interval or goes on after it counts inside of it only.
    assert_eq!(instead(text, (2, 6)), (vec!["B 2".to_owned(), "C 2".to_owned()], 0, 0));
    // In the chain it is B that waits, while D has its CPU.
    assert_eq!(instead(CHAIN, (0, 11)), (vec!["D 1".to_owned()], 0, 0));
}

#[test]
fn a_cpu_of_which_nothing_is_known_is_unknown_and_not_idle() {
    let text = "
        0 | ??BBAA.
          | aaaa
        1 | .......
        at 0: interrupt on 1 wakes A";
    assert_eq!(instead(text, (0, 7)), (vec!["B 2".to_owned()], 0, 2));
}

#[test]
fn what_is_not_seen_is_unknown() {
    let text = "
        0 | ???AA..
        1 | .......";
    let parts = ["0-3 A unknown", "3-5 A runs", "5-7 A blocked"];
    assert_eq!(spent(text, (0, 7)), parts);
}
