//! Measuring over tasks with scripted work and times.

use super::*;
use crate::plan::{Task, Timing};
use crate::{Behaviour, Done, Instruments, Op};
use schedlab_model::{Better, Metric, Unit};
use schedlab_stats::Histogram;

struct Nothing;

impl Behaviour for Nothing {
    fn next(&mut self, _: Nanos, _: Done, _: &mut dyn Instruments) -> Op {
        Op::Exit
    }
}

/// Two tasks of one role, each with a series and a counter.
#[derive(Default)]
struct Two {
    histograms: [Histogram; 2],
    counts: [u64; 2],
    ended: [Option<Nanos>; 2],
}

impl Two {
    /// Each task does this many things, of this many nanoseconds each.
    fn work(&mut self, times: [u64; 2], length: u64) {
        for (task, times) in times.into_iter().enumerate() {
            (0..times).for_each(|_| self.histograms[task].record(length));
            self.counts[task] += times;
        }
    }
}

impl Tasks for Two {
    fn moment(&self, at: Nanos) -> Moment {
        let histograms = self.histograms.iter().map(Copied::of).collect();
        Moment { at, histograms, counters: self.counts.to_vec() }
    }

    fn counter(&self, task: usize, _: u32) -> u64 {
        self.counts[task]
    }

    fn total(&self, _: u32) -> u64 {
        self.counts.iter().sum()
    }

    fn dial(&self, _: usize) -> u64 {
        0
    }

    fn started(&self) -> u64 {
        2
    }

    fn ended(&self, task: usize) -> Option<(Nanos, Usage)> {
        self.ended[task].map(|at| (at, Usage { voluntary: 3, ..Usage::default() }))
    }

    fn waited(&self, _: usize) -> (Nanos, u64) {
        (Nanos(100), 2)
    }
}

/// What moments are counted from.
const START: Nanos = Nanos::from_secs(1_000);

fn at(seconds: u64) -> Nanos {
    START + Nanos::from_secs(seconds)
}

fn measuring(timing: Timing) -> Measuring {
    let mut plan = Plan::new("two");
    let role = plan.role("worker");
    plan.series(Metric::new("latency_ns", Unit::Nanoseconds, Better::Lower));
    let done = plan.counter(Metric::new("loops", Unit::Count, Better::Higher));
    plan.progress = Some(done.0);
    plan.timing = timing;
    let tasks = [0, 1].map(|group| Task { group, ..Task::new("w", role, Box::new(Nothing)) });
    let shape = Shape::of(&plan, &tasks);
    let mut measuring = Measuring::new(plan, shape);
    measuring.go(START);
    measuring
}

fn value(figures: &[Figure], name: &str) -> f64 {
    figures.iter().find(|f| f.of.is_empty() && f.metric.name == name).unwrap().value
}

#[test]
fn what_a_warm_up_measured_is_in_no_interval_after_it() {
    let timing = Timing { warm_up: Nanos::from_secs(2), interval: SECOND, ..Timing::default() };
    let mut measuring = measuring(timing);
    let mut tasks = Two::default();
    let mut told = Vec::new();
    for second in 1..=4 {
        tasks.work([1, 1], second * 10);
        let look = measuring.look(at(second), at(5), &tasks);
        assert_eq!((look.second, look.next), (true, at(second + 1)));
        told.push((look.note.is_some(), look.interval));
    }
    let notes: Vec<bool> = told.iter().map(|(note, _)| *note).collect();
    assert_eq!(notes, [false, true, false, false]);
    let of = |second: usize| told[second - 1].1.as_ref();
    assert!(of(1).is_none(), "it warms up");
    let fourth = of(4).unwrap();
    assert_eq!((fourth.covers, fourth.covers_since), (at(4) - at(2), SECOND));
    assert_eq!((fourth.counts[0].1, fourth.counts_since[0].1), (4, 2));
    assert_eq!(fourth.since[0].histogram.min(), Some(40));
    tasks.work([1, 3], 50);
    let last = measuring.last(at(5), true, &tasks);
    assert_eq!((last.counts[0].1, &last.rates[..]), (8, &[2.0, 2.0, 4.0][..]));
    assert_eq!(last.total[0].histogram.count(), 8);
    assert_eq!(last.delay, [("worker".to_owned(), Nanos(50))]);
}

#[test]
fn figures_start_anew_at_each_multiple_of_zero() {
    let timing = Timing { zero: Nanos::from_secs(2), ..Timing::default() };
    let mut measuring = measuring(timing);
    let mut tasks = Two::default();
    for second in 1..=5 {
        tasks.work([second, 0], 10);
        let _ = measuring.look(at(second), at(6), &tasks);
    }
    let last = measuring.last(at(5), true, &tasks);
    assert_eq!((last.covers, last.counts[0].1), (SECOND, 5));
}

#[test]
fn tasks_that_end_have_figures_of_their_end_and_stopped_ones_of_what_they_did() {
    let mut measuring = measuring(Timing::default());
    let mut tasks = Two::default();
    tasks.work([10, 30], 10);
    tasks.ended = [Some(at(2)), Some(at(4))];
    let _ = measuring.last(at(4), false, &tasks);
    let mut times = Times { began: Nanos(0), ready: START, go: START, stopped: None, end: at(5) };
    let (figures, warnings) = measuring.close(&times, &tasks);
    assert_eq!((value(&figures, "time_s"), value(&figures, "tail_s")), (5.0, 2.0));
    // Ends at 2 s and 4 s: 2 s apart, of a mean of 3 s.
    assert!((value(&figures, "unfairness_groups") - 2.0 / 3.0).abs() < 1e-9);
    assert_eq!(value(&figures, "switches_voluntary"), 6.0);
    assert!(warnings.is_empty(), "{warnings:?}");
    times.stopped = Some(START + Nanos::from_millis(100));
    let (figures, warnings) = measuring.close(&times, &tasks);
    // 10 and 30 done: 20 apart, of a mean of 20.
    assert_eq!(value(&figures, "unfairness_tasks"), 1.0);
    assert!(figures.iter().all(|figure| figure.metric.name != "tail_s"));
    assert_eq!(warnings[0].code, "run-too-short");
    let (_, warnings) = measuring.in_virtual_time().close(&times, &tasks);
    assert!(warnings.is_empty(), "a short run in virtual time is exact: {warnings:?}");
}
