//! Counters of the kernel beside the events, on timelines as text. A column is ten milliseconds.

use crate::{Checked, Cut, EveryTask, Reply, ask, ask_within, notation};
use schedlab_model::{Counted, Nanos, Pid};

const MS: u64 = 1_000_000;

/// `B` waits 20 ms for `A`, then runs 30 ms.
const TEXT: &str = "tick 10ms
    0 | AAAAABBBAA
      |    bbaaa";

fn counted(pid: i32, ran: u64, waited: u64, arrivals: u64) -> Counted {
    let (from, to) = (Some(Nanos(0)), Nanos(100 * MS));
    Counted { pid: Pid(pid), from, to, ran: Nanos(ran * MS), waited: Nanos(waited * MS), arrivals }
}

fn checked(counters: &[Counted], cut: Cut) -> Reply<()> {
    let mut trace = notation::parse(TEXT).unwrap_or_else(|error| panic!("{error}"));
    trace.info.counters = Some(counters.to_vec());
    match cut == Cut::default() {
        true => ask(&mut trace.source(), EveryTask).unwrap(),
        false => ask_within(&mut trace.source(), cut, EveryTask).unwrap(),
    }
}

#[test]
fn events_that_agree_with_the_counters_are_not_off() {
    // A ran before the first reading, so only its second start counts.
    let all = checked(&[counted(1, 70, 30, 1), counted(2, 30, 20, 1)], Cut::default());
    let told = |one: &Checked| (one.counted.pid.0, one.ran_off(), one.waited_off(), one.missing());
    let told: Vec<_> = all.checked.iter().map(told).collect();
    let zero = Nanos::ZERO;
    assert_eq!(told, [(1, zero, Some(zero), 0), (2, zero, Some(zero), 0)]);
    assert!(all.checked.iter().all(|one| !one.is_off) && all.warnings.is_empty());
}

#[test]
fn a_task_whose_switches_are_missing_is_off_and_every_answer_says_so() {
    let all = checked(&[counted(1, 70, 30, 1), counted(2, 50, 20, 4)], Cut::default());
    let worst = &all.checked[0];
    assert_eq!((worst.counted.pid, worst.ran, worst.is_off), (Pid(2), Nanos(30 * MS), true));
    assert_eq!((worst.ran_off(), worst.missing()), (Nanos(20 * MS), 3));
    assert!(!all.checked[1].is_off);
    let note = all.warnings.iter().find(|warning| warning.code == "counters-differ").unwrap();
    assert!(note.what.contains("times of 1 of 2 tasks are off, since 3 switches are missing"));
    assert!(note.what.contains("most of B (2)"), "{}", note.what);
    let task = worst.task.unwrap();
    assert_eq!(all.off(task).map(Checked::ran_off), Some(Nanos(20 * MS)));
}

#[test]
fn a_part_of_a_trace_is_not_compared_nor_what_was_read_long_after_it() {
    let part = Cut { from: Some(Nanos(10 * MS)), to: None };
    assert!(checked(&[counted(2, 50, 20, 4)], part).checked.is_empty());
    let late = Counted { to: Nanos(900 * MS), ..counted(2, 50, 20, 4) };
    assert!(checked(&[late], Cut::default()).checked.is_empty());
}
