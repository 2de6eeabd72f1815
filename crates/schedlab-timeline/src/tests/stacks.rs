//! Where tasks blocked, by stacks behind their switches, on timelines as text. A column is a microsecond.

use crate::{BlockedIn, Cut, Stacks, Tasks, WhyLate, WithArguments, ask_within};
use schedlab_model::{Nanos, Pid};

use crate::tests::fired;
use crate::tests::fired::Fired;

/// A sleeps twice, B once to the end; A's second sleep ends before its stack is logged.
const TEXT: &str = "
    0 | AA...A..AABBB...
      |        a
    at 5: interrupt on 0 wakes A
    at 7: interrupt on 0 wakes A
    at 10: interrupt on 0 wakes B";

const STACK: &str = "kernel_stack";
const READ: &str = "stack=__schedule<-schedule<-pipe_read<-vfs_read";
const POLL: &str = "stack=__schedule<-schedule<-do_poll";

fn fired() -> Vec<Fired<'static>> {
    vec![
        (2_000, 0, Pid(1), STACK, READ),
        (7_500, 0, Pid(1), STACK, POLL),
        // A stack that does not follow a switch, and one of a task that did not leave.
        (9_500, 0, Pid(1), STACK, READ),
        (13_000, 0, Pid(2), STACK, READ),
    ]
}

fn told(blocked: &[BlockedIn], stacks: &Stacks) -> Vec<(String, u64, u64)> {
    let text = |of: &BlockedIn| of.stack.map_or("?", |stack| stacks.text(stack)).to_owned();
    blocked.iter().map(|of| (text(of), of.count, of.time.0)).collect()
}

fn cut(from: u64, to: u64) -> Cut {
    Cut { from: Some(Nanos(from)), to: Some(Nanos(to)) }
}

#[test]
fn times_by_stack_are_those_of_the_sleeps_that_they_began() {
    let mut source = fired::source(TEXT, &fired());
    let question = WithArguments(Tasks::new());
    let answer = ask_within(&mut source, Cut::default(), question).unwrap().answer;
    let of = |name: &str| answer.rows.iter().find(|row| row.comm == name).unwrap();
    let told = |name: &str| told(&of(name).blocked, &answer.stacks);
    let row = |stack: &str, count, ns| (stack.to_owned(), count, ns);
    assert_eq!(told("A"), [row("pipe_read<-vfs_read", 1, 3_000), row("do_poll", 1, 1_000)]);
    assert_eq!(told("B"), [row("pipe_read<-vfs_read", 1, 3_000)], "it sleeps to the end");
    let without = ask_within(&mut fired::source(TEXT, &fired()), Cut::default(), Tasks::new());
    assert!(without.unwrap().answer.rows.iter().all(|row| row.blocked.is_empty()));
}

#[test]
fn why_names_the_function_of_a_block_that_an_interrupt_ended_and_of_one_that_goes_on() {
    let ask = |cut| {
        let question = WithArguments(WhyLate::new(Pid(1)));
        ask_within(&mut fired::source(TEXT, &fired()), cut, question).unwrap().answer.unwrap()
    };
    let answer = ask(cut(1_000, 10_000));
    let parts: Vec<_> = answer
        .spent
        .iter()
        .map(|part| (part.doing.name(), part.stack.map(|stack| answer.stacks.text(stack))))
        .collect();
    let read = Some("pipe_read<-vfs_read");
    let expected = [
        ("runs", None),
        ("interrupt", read),
        ("runs", None),
        ("interrupt", Some("do_poll")),
        ("runnable", None),
        ("runs", None),
    ];
    assert_eq!(parts, expected);
    let told_of = told(&answer.blocked, &answer.stacks);
    let row = |stack: &str, ns| (stack.to_owned(), 1, ns);
    assert_eq!(told_of, [row("pipe_read<-vfs_read", 3_000), row("do_poll", 1_000)]);
    // The window begins in the middle of the first sleep, and what was told before it holds.
    let answer = ask(cut(4_000, 5_000));
    assert_eq!(told(&answer.blocked, &answer.stacks), [row("pipe_read<-vfs_read", 1_000)]);
    assert_eq!(answer.spent[0].doing.name(), "blocked");
    assert_eq!(answer.spent[0].stack.map(|stack| answer.stacks.text(stack)), read);
}
