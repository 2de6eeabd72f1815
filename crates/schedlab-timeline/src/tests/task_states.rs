//! How long tasks were not runnable, in which state, and who ended it. A column is a microsecond.

use crate::{Asleep, Cut, Slices, TaskRow, Tasks, ask_within, notation};
use schedlab_model::{Context, Cpu, Event, Left, Nanos, OtherFormat, Pid, What};

/// A sleeps uninterruptibly from 3 to 7, and interruptibly from 9 to 11; from 12 on it is stopped.
fn trace() -> notation::Trace {
    let text = "
        0 | AAA....AA..A..
        1 | BBBBBBBBBBBBBB
        at 7: B wakes A
        at 11: interrupt on 1 wakes A";
    let mut trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    for event in &mut trace.events {
        if let What::Switch { prev: Pid(1), left, .. } = &mut event.what {
            match event.time.0 / 1000 {
                3 => *left = Left::Blocked,
                12 => *left = Left::Stopped,
                _ => {}
            }
        }
    }
    trace
}

fn row_of_a(from: u64, to: u64) -> TaskRow {
    let cut = Cut { from: Some(Nanos(from * 1000)), to: Some(Nanos(to * 1000)) };
    let rows = ask_within(&mut trace().source(), cut, Tasks::new()).unwrap().answer.rows;
    rows.into_iter().find(|row| row.pid == Pid(1)).unwrap()
}

fn us(times: [u64; 3]) -> Asleep {
    let [sleeping, uninterruptible, stopped] = times.map(|time| Nanos(time * 1000));
    Asleep { sleeping, uninterruptible, stopped }
}

#[test]
fn time_off_the_cpu_is_told_by_state_and_by_waker() {
    let row = row_of_a(0, 14);
    assert_eq!(row.asleep, us([2, 4, 2]));
    let whole = row.ran + row.waited + Nanos(8_000);
    assert_eq!(whole, Nanos(14_000), "each instant is in one state");
    let wakers: Vec<_> =
        row.woken_by.iter().map(|of| (of.waker.is_some(), of.count, of.time.0 / 1000)).collect();
    assert_eq!(wakers, [(true, 1, 4), (false, 1, 2)], "B, and an interrupt");
}

#[test]
fn a_window_cuts_what_it_opens_and_closes_in() {
    assert_eq!(row_of_a(5, 10).asleep, us([1, 2, 0]));
    assert_eq!(row_of_a(13, 14).asleep, us([0, 0, 1]), "asleep all the time");
}

#[test]
fn intervals_off_the_cpu_are_kept_when_they_are_asked_for() {
    let slices = |slices: Slices| {
        ask_within(&mut trace().source(), Cut::default(), slices).unwrap().answer.sleeps
    };
    assert!(slices(Slices::new(100)).is_empty());
    let found = slices(Slices::new(100).with_sleeps());
    let told: Vec<_> =
        found.iter().map(|it| (it.from.0 / 1000, it.to.0 / 1000, it.cpu.0, it.left)).collect();
    assert_eq!(
        told,
        [(3, 7, 0, Left::Blocked), (9, 11, 0, Left::Slept), (12, 14, 0, Left::Stopped)]
    );
}

/// `A` runs from 0 to 6 µs, `B` after it.
fn interrupted(fired: &[(u64, u16)]) -> Vec<TaskRow> {
    let mut trace = notation::parse("0 | AAAAAABBBB").unwrap();
    // The notation keeps the first for events of its own.
    let names =
        ["heartbeat", "irq_handler_entry", "irq_handler_exit", "softirq_entry", "softirq_exit"];
    let format = |name: &&str| OtherFormat { system: "irq".to_owned(), name: (*name).to_owned() };
    trace.info.others = names.iter().map(format).collect();
    for (time, format) in fired {
        let by = Pid(if *time < 6_000 { 1 } else { 2 });
        let what = What::Other { format: *format + 1 };
        let (cpu, context) = (Cpu(0), Context::HardIrq);
        trace.events.push(Event { time: Nanos(*time), by, cpu, context, what });
    }
    trace.events.sort_by_key(|event| event.time);
    ask_within(&mut trace.source(), Cut::default(), Tasks::new()).unwrap().answer.rows
}

fn interrupts_of(fired: &[(u64, u16)]) -> [Option<u64>; 2] {
    let rows = interrupted(fired);
    let of = |pid| rows.iter().find(|row| row.pid == Pid(pid)).unwrap();
    assert_eq!((of(1).ran, of(2).ran), (Nanos(6_000), Nanos(4_000)), "run time keeps them");
    [1, 2].map(|pid| of(pid).interrupts.map(|time| time.0))
}

#[test]
fn interrupts_are_told_beside_the_run_time_that_holds_them() {
    assert_eq!(interrupts_of(&[]), [None, None], "not recorded is not zero");
    // 300 ns, then a softirq of 500 ns with a handler of 100 ns inside it; B has none.
    let fired = [(1_000, 0), (1_300, 1), (2_000, 2), (2_100, 0), (2_200, 1), (2_500, 3)];
    assert_eq!(interrupts_of(&fired), [Some(800), Some(0)]);
    let lost_exit = [(1_000, 0), (7_000, 0), (7_400, 1)];
    assert_eq!(interrupts_of(&lost_exit), [Some(0), Some(400)], "none lasts over a switch");
    assert_eq!(interrupts_of(&[(9_000, 2)]), [Some(0), Some(1_000)], "under way at the end");
}
