//! The run loop over a machine that is told what to answer.

use super::*;
use crate::fake::Fake;
use crate::{Experiment, runs_of};
use std::sync::atomic::{AtomicBool, Ordering};

const NEVER: fn() -> bool = || false;

const SIX: &str = "repeats = 3\n[workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"2ms\"]\n";

fn plan(text: &str) -> Plan {
    Plan::new(&Experiment::parse(text, Path::new("x.toml")).unwrap())
}

fn go(
    fake: &mut Fake<'_>,
    plan: &Plan,
    results: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<Tally, LoopError> {
    run_plan(fake, plan, results, stop, &mut |_| ())
}

#[test]
fn every_run_is_done_once_in_the_plans_order_and_stored() {
    let results = tempfile::tempdir().unwrap();
    let (mut fake, plan) = (Fake::new(), plan(SIX));
    let mut told = Vec::new();
    let tally = run_plan(&mut fake, &plan, results.path(), &NEVER, &mut |p| {
        told.push(format!("{p:?}").split([' ', '{']).next().unwrap().to_owned());
    })
    .unwrap();
    assert_eq!(tally, Tally { done: 6, ..Tally::default() });
    assert_eq!(fake.ran, plan.runs.iter().map(|r| r.spec.clone()).collect::<Vec<_>>());
    assert_eq!(told, ["Begins", "Ended"].repeat(6));
    let stored = runs_of(results.path()).unwrap();
    assert_eq!(stored.runs.len(), 6);
    let first = stored.runs.iter().find(|r| r.manifest.id == plan.runs[0].id).unwrap();
    assert_eq!(first.manifest.spec, plan.runs[0].spec);
    assert_eq!(first.value("time_s"), Some(1.0));
    assert_eq!(first.stream(schedlab_workload::Stream::Trace), None);
    assert!(first.stream(schedlab_workload::Stream::Stdout).is_some());
}

#[test]
fn intervals_are_stored_and_add_up_to_the_whole() {
    let results = tempfile::tempdir().unwrap();
    go(&mut Fake::new(), &plan(SIX), results.path(), &NEVER).unwrap();
    let stored = runs_of(results.path()).unwrap();
    let intervals = stored.runs[0].intervals("").unwrap();
    assert_eq!(intervals.len(), 2);
    let mut sum = schedlab_stats::Histogram::new();
    intervals.iter().for_each(|interval| sum.merge(&interval.since[0].histogram));
    assert_eq!(sum, intervals[1].total[0].histogram);
    assert!(intervals[0].total.is_empty(), "only the last tells the whole");
    assert_eq!(intervals[0].counts_since, [("loops".to_owned(), 1)]);
    assert_eq!(stored.runs[0].intervals("noise").unwrap().len(), 1);
    assert_eq!(stored.runs[0].intervals("nobody").unwrap(), []);
}

#[test]
fn finished_runs_are_skipped() {
    let results = tempfile::tempdir().unwrap();
    let plan = plan(SIX);
    let mut fake = Fake::new();
    go(&mut fake, &plan, results.path(), &NEVER).unwrap();
    let tally = go(&mut fake, &plan, results.path(), &NEVER).unwrap();
    assert_eq!(tally, Tally { skipped: 6, ..Tally::default() });
    assert_eq!(fake.ran.len(), 6, "nothing ran twice");
}

#[test]
fn a_stopped_run_is_kept_as_partial_and_done_again() {
    let results = tempfile::tempdir().unwrap();
    let (plan, stop) = (plan(SIX), AtomicBool::new(false));
    let mut fake = Fake::new();
    fake.stops_at = Some((2, &stop));
    let tally = go(&mut fake, &plan, results.path(), &|| stop.load(Ordering::Relaxed)).unwrap();
    assert_eq!((tally.done, tally.stopped), (3, true));
    let partial =
        runs_of(results.path()).unwrap().runs.into_iter().filter(|r| !r.is_whole()).count();
    assert_eq!(partial, 1);
    let tally = go(&mut Fake::new(), &plan, results.path(), &NEVER).unwrap();
    assert_eq!((tally.done, tally.skipped), (4, 2));
    assert!(runs_of(results.path()).unwrap().runs.iter().all(StoredRun::is_whole));
}

#[test]
fn a_run_that_fails_leaves_nothing_and_the_others_go_on() {
    let results = tempfile::tempdir().unwrap();
    let plan = plan(SIX);
    let mut fake = Fake::new();
    fake.fails_at = Some(3);
    let tally = go(&mut fake, &plan, results.path(), &NEVER).unwrap();
    assert_eq!((tally.done, tally.failed.len()), (5, 1));
    assert_eq!(std::fs::read_dir(results.path().join("runs")).unwrap().count(), 5);
}

#[test]
fn a_first_run_that_fails_ends_the_loop() {
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.fails_at = Some(0);
    let error = go(&mut fake, &plan(SIX), results.path(), &NEVER).unwrap_err();
    assert!(error.to_string().contains("it was told to"), "{error}");
}

#[test]
fn what_a_crash_left_behind_is_removed_and_not_read() {
    let results = tempfile::tempdir().unwrap();
    let runs = results.path().join("runs");
    // No process has this number: it is above the kernel's limit.
    let dead = runs.join(".tmp-0123456789abcdef-4194305");
    std::fs::create_dir_all(&dead).unwrap();
    std::fs::write(dead.join("figures.jsonl"), "{\"cut").unwrap();
    assert_eq!(runs_of(results.path()).unwrap().cut_off, 1);
    go(&mut Fake::new(), &plan(SIX), results.path(), &NEVER).unwrap();
    assert!(!dead.exists());
    assert_eq!(runs_of(results.path()).unwrap().runs.len(), 6);
}

#[test]
fn a_report_of_stored_runs_shows_their_figures_and_escapes_what_it_is_told() {
    let results = tempfile::tempdir().unwrap();
    go(&mut Fake::new(), &plan(SIX), results.path(), &NEVER).unwrap();
    let runs = runs_of(results.path()).unwrap().runs;
    let html = crate::report::of_runs("six", &runs).html();
    assert!(html.contains("switches_involuntary") && html.contains("1.00 s"));
    assert!(html.contains("fake &lt;host&gt;") && !html.contains("fake <host>"));
    assert_eq!(html, crate::report::of_runs("six", &runs).html());
}
