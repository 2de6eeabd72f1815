//! How long tasks were not runnable, in which state, and who ended it. A column is a microsecond.

#![expect(clippy::unwrap_used, reason = "a test that can't go on stops")]

use schedlab_model::{Left, Nanos, Pid, What};
use schedlab_timeline::{Asleep, Cut, Slices, TaskRow, Tasks, ask_within, notation};

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
