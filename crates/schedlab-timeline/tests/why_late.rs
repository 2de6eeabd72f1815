//! What an interval of a task's life was spent on, on timelines as text. A column is a microsecond.

#![expect(clippy::unwrap_used, reason = "a test that can't go on stops")]

use schedlab_model::{Nanos, Pid};
use schedlab_timeline::{Cut, WhyLate, ask_within, notation};

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
    let line = |part: &schedlab_timeline::Spent| {
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

#[test]
fn what_is_not_seen_is_unknown() {
    let text = "
        0 | ???AA..
        1 | .......";
    let parts = ["0-3 A unknown", "3-5 A runs", "5-7 A blocked"];
    assert_eq!(spent(text, (0, 7)), parts);
}
