//! Time on the CPU by stack, on timelines as text. A column is a microsecond.

use crate::tests::fired::{self, Fired};
use crate::{Cut, OffCpuStacks, OnCpuStacks, RequestRunning, Tasks, WithArguments, ask_within};
use schedlab_model::Pid;

/// A runs for 7 microseconds, B for 3, and A sleeps in between.
const TEXT: &str = "
    0 | AAAABBB.AAA
    at 8: interrupt on 0 wakes A";

const TICK: &str = "hrtimer=0x1 function=tick_nohz_handler now=1";
const OTHER: &str = "hrtimer=0x2 function=hrtimer_wakeup now=1";
const FIRES: &str = "stack=__hrtimer_run_queues<-hrtimer_interrupt<-sysvec_apic_timer_interrupt\
                     <-asm_sysvec_apic_timer_interrupt";

/// A tick, or another timer, and the stack of the task that it interrupts.
fn interrupted<'a>(at: u64, by: i32, timer: &'a str, stack: &'a str) -> [Fired<'a>; 2] {
    let pid = Pid(by);
    [(at, 0, pid, "hrtimer_expire_entry", timer), (at + 1, 0, pid, "kernel_stack", stack)]
}

fn told(stacks: [&str; 4]) -> Vec<Fired<'_>> {
    let mut all = Vec::new();
    all.extend(interrupted(500, 1, TICK, stacks[0]));
    all.extend(interrupted(1_500, 1, TICK, stacks[1]));
    all.extend(interrupted(2_500, 1, TICK, stacks[0]));
    // Neither a timer of somebody else's nor a stack of a task that sleeps is a sample.
    all.extend(interrupted(3_500, 1, OTHER, stacks[2]));
    all.push((4_000, 0, Pid(1), "kernel_stack", stacks[3]));
    all
}

const SLEEP: &str = "stack=__schedule<-schedule<-do_poll<-poll<-main";

#[test]
fn the_run_time_of_a_task_is_divided_as_its_ticks_are() {
    let [inner, outer, whose] =
        ["inner<-main", "main", "nobody"].map(|of| format!("{FIRES}<-{of}"));
    let fired = told([&inner, &outer, &whose, SLEEP]);
    let ask = || {
        let question = WithArguments(OnCpuStacks::default());
        ask_within(&mut fired::source(TEXT, &fired), Cut::default(), question).unwrap()
    };
    let reply = ask();
    let folded = reply.answer.folded(&reply.state);
    let folded: Vec<(String, u64)> =
        folded.iter().map(|of| (of.frames.join(";"), of.time.0)).collect();
    // Of 7 microseconds two thirds and one third; of B nobody knows where.
    let expected = [("A;main", 2_334), ("A;main;inner", 4_666), ("B;[no tick]", 3_000)];
    assert_eq!(folded, expected.map(|(frames, time)| (frames.to_owned(), time)));
    let rows = reply.answer.by_name(&reply.state);
    assert_eq!((rows[0].ticks, rows[0].stack.as_deref()), (2, Some("inner<-main")));
    // 7 microseconds * sqrt(2/3 * 1/3 / 3).
    assert_eq!(rows[0].error.0, 1_905);
    let tasks = ask_within(&mut fired::source(TEXT, &fired), Cut::default(), Tasks::default());
    let ran: u64 = tasks.unwrap().answer.rows.iter().map(|row| row.ran.0).sum();
    assert_eq!(reply.answer.sums().0.0, ran, "all of the run time");
}

#[test]
fn a_stack_of_a_tick_is_nobodys_sleep() {
    let inner = format!("{FIRES}<-inner<-main");
    // The tick comes as A begins to run again; the stack with which it went to sleep was not recorded.
    let fired: Vec<Fired<'_>> = interrupted(9_500, 1, TICK, &inner).into();
    let question = WithArguments(OffCpuStacks::default());
    let reply = ask_within(&mut fired::source(TEXT, &fired), Cut::default(), question).unwrap();
    let folded = reply.answer.folded(&reply.state);
    assert!(folded.iter().all(|of| of.frames[1] == "[no stack]"), "{folded:?}");
}

#[test]
fn without_the_programs_functions_it_is_the_program_that_ran() {
    let kernel = format!("{FIRES}<-vfs_read<-do_syscall_64");
    let fired = told([FIRES, &kernel, FIRES, SLEEP]);
    let question = WithArguments(OnCpuStacks::default());
    let reply = ask_within(&mut fired::source(TEXT, &fired), Cut::default(), question).unwrap();
    let frames: Vec<String> =
        reply.answer.folded(&reply.state).iter().map(|of| of.frames.join(";")).collect();
    assert_eq!(frames, ["A;[program]", "A;do_syscall_64;vfs_read", "B;[no tick]"]);
}

#[test]
fn within_requests_the_run_time_of_who_ended_them_is_divided_by_the_ticks_there() {
    // The request holds 2 of A's 7 microseconds, and two of its three ticks.
    let text = format!("{TEXT}\n    at 1: A marks 0 begin\n    at 3: A marks 0 end");
    let [inner, outer, whose] =
        ["inner<-main", "main", "nobody"].map(|of| format!("{FIRES}<-{of}"));
    let fired = told([&inner, &outer, &whose, SLEEP]);
    let mut source = fired::source(&text, &fired);
    source.info_mut().marks = vec!["request".into()];
    let question = WithArguments(RequestRunning::new("request", true));
    let reply = ask_within(&mut source, Cut::default(), question).unwrap();
    assert_eq!((reply.answer.requests, reply.answer.of), (1, 1));
    let folded = reply.answer.times.folded(&reply.state);
    let folded: Vec<(String, u64, u64)> = folded
        .iter()
        .zip(&reply.answer.times.rows)
        .map(|(of, row)| (of.frames.join(";"), of.time.0, row.ticks))
        .collect();
    let expected = [("A;main", 1_000, 1), ("A;main;inner", 1_000, 1)];
    let expected = expected.map(|(frames, time, ticks)| (frames.to_owned(), time, ticks));
    assert_eq!(folded, expected);
}
