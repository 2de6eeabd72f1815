//! Sessions: warm-up, stop rules, hooks, doubtful runs.

use super::*;
use crate::fake::Fake;
use schedlab_workload::RunSpec;
use std::path::Path;

fn experiment(text: &str) -> Experiment {
    let text = format!(
        "{text}\n[workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"2ms\"]\n"
    );
    Experiment::parse(&text, Path::new("x.toml")).unwrap()
}

fn go(fake: &mut Fake<'_>, text: &str, results: &Path) -> Tally {
    run_experiment(fake, &experiment(text), results, &|| false, &mut |_| ()).unwrap()
}

fn is(spec: &RunSpec, slice: &str) -> bool {
    spec.settings[0].value == slice
}

#[test]
fn warm_up_runs_are_done_and_thrown_away_once() {
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    let tally = go(&mut fake, "repeats = 2\nwarm_up = 3", results.path());
    assert_eq!((tally.done, fake.ran.len()), (4, 7));
    assert_eq!(runs_of(results.path()).unwrap().runs.len(), 4);
    go(&mut fake, "repeats = 2\nwarm_up = 3", results.path());
    assert_eq!(fake.ran.len(), 7, "nothing is warmed up for nothing");
}

#[test]
fn only_points_that_are_still_wide_get_more_runs() {
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    // One point is the same every time, the other jumps.
    fake.time = |spec, n| if is(spec, "1ms") { 1.0 } else { 1.0 + (n % 3) as f64 };
    go(&mut fake, "repeats = 4\nstop = { width = 0.05, repeats_max = 9 }", results.path());
    assert_eq!(fake.ran.iter().filter(|s| is(s, "1ms")).count(), 4);
    assert_eq!(fake.ran.iter().filter(|s| is(s, "2ms")).count(), 9);
}

#[test]
fn a_budget_ends_after_the_round_under_way() {
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    let tally = go(&mut fake, "repeats = 50\nstop = { budget = \"1ns\" }", results.path());
    assert_eq!((tally.done, tally.stopped), (2, false));
}

#[test]
fn a_doubtful_run_is_done_again_within_limits_and_marked() {
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.steals_always = true;
    let tally = go(&mut fake, "repeats = 1\nretries = 2", results.path());
    assert_eq!((tally.done, fake.ran.len()), (2, 6), "two runs, each three times");
    let runs = runs_of(results.path()).unwrap().runs;
    assert!(runs.iter().all(|run| run.manifest.attempt == 2));
    assert!(runs.iter().all(|run| run.warnings.iter().any(|w| w.code == "steal")), "{runs:?}");
}

#[test]
fn hooks_run_around_each_run_and_their_figures_are_stored() {
    let results = tempfile::tempdir().unwrap();
    let log = results.path().join("log");
    let mut fake = Fake::new();
    let text = format!(
        "repeats = 1\n[hooks]\nbefore = [\"sh\", \"-c\", \"echo before >> {0}\"]\n\
         after = [\"sh\", \"-c\", \"echo after >> {0}\"]\nduring = [\"sleep\", \"100\"]\n\
         metric = [\"echo\", \"answer 42\"]\n",
        log.display()
    );
    go(&mut fake, &text, results.path());
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "before\nafter\nbefore\nafter\n");
    let runs = runs_of(results.path()).unwrap().runs;
    assert!(runs.iter().all(|run| run.value("answer") == Some(42.0)));
}

#[test]
fn a_hook_that_fails_leaves_its_run_out() {
    let results = tempfile::tempdir().unwrap();
    let error = run_experiment(
        &mut Fake::new(),
        &experiment("repeats = 1\n[hooks]\nbefore = [\"false\"]\n"),
        results.path(),
        &|| false,
        &mut |_| (),
    )
    .unwrap_err();
    assert!(error.to_string().contains("hook 'false' ended with exit status: 1"), "{error}");
}
