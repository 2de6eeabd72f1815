//! What requests were spent on, on timelines as text. A column is a microsecond.

use crate::{Chosen, Cut, EveryTask, Part, Requests, RequestsAnswer, ask_within, notation};
use schedlab_model::Nanos;
use std::fmt::Write as _;

fn parsed(text: &str) -> notation::Trace {
    let mut trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    trace.info.marks = vec!["request".to_owned(), "other".to_owned()];
    trace
}

fn ask(text: &str, nth: usize) -> RequestsAnswer {
    let trace = parsed(text);
    ask_within(&mut trace.source(), Cut::default(), Requests::new("request", nth)).unwrap().answer
}

/// `start-end parts`, longest first, with `+` where it had not ended; parts without time are left out.
fn told(answer: &RequestsAnswer) -> Vec<String> {
    let line = |request: &crate::Request| {
        let (start, end) = (request.span.start.0 / 1000, request.span.end.0 / 1000);
        let sum: u64 = request.parts.iter().map(|part| part.0).sum();
        assert_eq!(sum, request.span.duration().0, "each instant is in one part");
        let parts = Part::ALL.iter().zip(request.parts);
        let parts = parts.filter(|(_, time)| *time > Nanos::ZERO);
        let parts: Vec<String> =
            parts.map(|(part, time)| format!("{} {}", part.name(), time.0 / 1000)).collect();
        let open = if request.is_open { "+" } else { "" };
        format!("{start}-{end}{open} {}", parts.join(", "))
    };
    answer.requests.iter().map(line).collect()
}

#[test]
fn a_request_that_another_task_ends_is_walked_back_from_there() {
    // A makes it at 1; B, asleep, is woken at 3 and gets the CPU of C at 5.
    let text = "
        0 | AAAA....
        1 | BCCCCBB.
          |    bb
        at 1: A marks 0 begin of 7
        at 2: A marks 1 begin of 7
        at 3: A wakes B
        at 6: B marks 0 end of 7";
    assert_eq!(told(&ask(text, 1)), ["1-6 ran 1, runnable 2, waker_ran 2"]);
    let spent = ask(text, 1).spent;
    let depths: Vec<usize> = spent.iter().map(|part| part.depth).collect();
    assert_eq!(depths, [1, 0, 0], "the waker until it woke B, then B's own wait and run");
    assert!(ask(text, 2).spent.is_empty(), "there is no second one");
}

#[test]
fn overlapping_requests_of_one_task_are_told_apart_by_their_numbers() {
    let text = "
        0 | AAAAAAAA
        at 1: A marks 0 begin of 1
        at 2: A marks 0 begin of 2
        at 4: A marks 0 end of 1
        at 7: A marks 0 end of 2";
    assert_eq!(told(&ask(text, 1)), ["2-7 ran 5", "1-4 ran 3"]);
}

#[test]
fn without_a_number_an_end_belongs_to_the_tasks_last_begin() {
    let text = "
        0 | AAAAAAAA
        1 | BBBBBBBB
        at 1: A marks 0 end
        at 2: A marks 0 begin
        at 3: B marks 0 begin
        at 4: A marks 0 begin
        at 5: A marks 0 end
        at 6: B marks 0 end
        at 6: A marks 0 point";
    let answer = ask(text, 1);
    assert_eq!(told(&answer), ["2-8+ ran 6", "3-6 ran 3", "4-5 ran 1"]);
    assert_eq!((answer.unfinished, answer.unbegun), (0, 1));
}

#[test]
fn a_request_that_has_not_ended_counts_once_it_is_the_longest() {
    let text = |begin| {
        format!(
            "
        0 | AAAAAAAA
        at 1: A marks 0 begin of 1
        at 4: A marks 0 end of 1
        at {begin}: A marks 0 begin of 2"
        )
    };
    let answer = ask(&text(4), 1);
    assert_eq!(
        (told(&answer), answer.unfinished),
        (vec!["4-8+ ran 4".into(), "1-4 ran 3".into()], 0)
    );
    let answer = ask(&text(6), 1);
    assert_eq!((told(&answer), answer.unfinished), (vec!["1-4 ran 3".into()], 1));
}

#[test]
fn an_open_request_of_a_task_that_is_not_chosen_does_not_count() {
    let trace = parsed(
        "
        0 | AAAAAAAA
        1 | BBBBBBBB
        at 1: B marks 0 begin of 1
        at 2: B marks 0 end of 1
        at 3: A marks 0 begin of 2",
    );
    let state = ask_within(&mut trace.source(), Cut::default(), EveryTask).unwrap().state;
    let of = |name: &str| {
        let chosen = Chosen::of(&state, |_, _, comm| comm == name);
        let requests = Requests::new("request", 1).about(chosen);
        let answer = ask_within(&mut trace.source(), Cut::default(), requests).unwrap().answer;
        (told(&answer), answer.unfinished)
    };
    assert_eq!(of("A"), (vec!["3-8+ ran 5".into()], 0));
    assert_eq!(of("B"), (vec!["1-2 ran 1".into()], 0));
}

/// A request of each length from 1 to `count` columns.
fn many(count: usize) -> RequestsAnswer {
    let columns: usize = (1..=count).map(|length| length + 1).sum();
    let mut text = format!("0 | {}\n", "A".repeat(columns));
    let mut at = 0;
    for length in 1..=count {
        let _ = writeln!(text, "at {at}: A marks 0 begin of {length}");
        at += length;
        let _ = writeln!(text, "at {at}: A marks 0 end of {length}");
        at += 1;
    }
    ask(&text, 1)
}

#[test]
fn who_ran_while_slow_and_middle_requests_waited_is_summed_over_them() {
    // 20 requests of B, which waits for A in each; the last one is the longest, and it waits for C.
    let mut rows = [String::new(), String::new()];
    let mut marks = String::new();
    for at in 0..20 {
        let (begin, end) = (at * 4, if at == 19 { 86 } else { at * 4 + 2 });
        rows[0] += if at == 19 { "BBCCCCCCCBB" } else { "BAB." };
        rows[1] += if at == 19 { "  bbbbbbb  " } else { " b  " };
        let _ = writeln!(marks, "at {begin}: B marks 0 begin of {at}1");
        let _ = writeln!(marks, "at {end}: B marks 0 end of {at}1");
    }
    let answer = ask(&format!("0 | {}\n  | {}\n{marks}", rows[0], rows[1]), 1);
    let [slow, middle] = &answer.instead;
    let times = |found: &crate::Meanwhile| -> Vec<u64> {
        found.ran.iter().map(|(_, time)| time.0 / 1000).collect()
    };
    assert_eq!((times(slow), times(middle)), (vec![7], vec![1 + 1]));
    assert_ne!(slow.ran[0].0, middle.ran[0].0, "C, and A");
    assert_eq!(slow.time(), Nanos(7_000));
}

#[test]
fn the_slowest_percent_and_the_middle_tenth_are_means_of_whole_requests() {
    assert!(many(19).compositions().is_none(), "refused under 20");
    let answer = many(40);
    let [slow, middle] = answer.compositions().unwrap();
    assert_eq!((slow.count, slow.length_ns), (1, 40_000.0));
    // By length 40 ..= 1, the 19th to the 22nd: 22, 21, 20, 19.
    assert_eq!((middle.count, middle.length_ns), (4, 20_500.0));
    assert_eq!(middle.parts_ns.iter().sum::<f64>(), middle.length_ns);
    assert_eq!(answer.quantile(0.5), Some(Nanos(20_000)));
    assert_eq!(answer.quantile(0.99), Some(Nanos(40_000)));
}
