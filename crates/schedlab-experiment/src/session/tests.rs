//! Sessions: warm-up, stop rules, hooks, runs with a warning.

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
    run_experiment(&mut Machines::one(fake), &experiment(text), results, &|| false, &mut |_| ())
        .unwrap()
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
fn looks_go_on_until_one_decides_and_are_counted_across_calls() {
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    // Twice the time, and some percent of noise: the first look decides.
    fake.time =
        |spec, n| (1.0 + (n * 7 % 11) as f64 / 300.0) * if is(spec, "2ms") { 2.0 } else { 1.0 };
    let text = "stop = { looks = [4, 6, 9] }";
    assert_eq!(go(&mut fake, text, results.path()).done, 8);
    let again = go(&mut fake, text, results.path());
    assert_eq!((again.done, again.skipped), (0, 8), "a look that decided is the last");
    assert_eq!(runs_of(results.path()).unwrap().looks.taken, [4]);

    // No difference beyond the noise: all looks are taken, also by calls of their own.
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.time = |_, n| 1.0 + (n * 37 % 101) as f64 / 100.0;
    assert_eq!(go(&mut fake, text, results.path()).done, 18);
    let stored = runs_of(results.path()).unwrap();
    assert_eq!((stored.looks.planned, stored.looks.taken), (vec![4, 6, 9], vec![4, 6, 9]));
    assert_eq!(go(&mut fake, text, results.path()).done, 0);
    assert_eq!(runs_of(results.path()).unwrap().looks.taken, [4, 6, 9]);
}

#[test]
fn runs_that_are_added_after_a_verdict_are_the_next_look() {
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    go(&mut fake, "repeats = 3", results.path());
    go(&mut fake, "repeats = 3", results.path());
    assert_eq!(runs_of(results.path()).unwrap().looks.taken, [3]);
    go(&mut fake, "repeats = 5", results.path());
    let looks = runs_of(results.path()).unwrap().looks;
    assert_eq!(looks.taken, [3, 5]);
    assert!(looks.sentence().contains("this is look 2"), "{}", looks.sentence());
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
fn a_machine_that_repeats_itself_is_not_asked_again_and_says_so_beforehand() {
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    (fake.steals_always, fake.offers.repeatable) = (true, true);
    let tally = go(&mut fake, "repeats = 2\nretries = 2", results.path());
    assert_eq!((tally.done, fake.ran.len()), (4, 4), "another attempt would be a copy");
    let experiment = experiment("repeats = 2");
    let codes = |fake: &mut Fake<'_>| -> Vec<String> {
        let checked = Plan::new(&experiment).check(&mut Machines::one(fake), &experiment);
        checked.unwrap().into_iter().map(|warning| warning.code).collect()
    };
    assert_eq!(codes(&mut fake), ["repeats-computed"]);
    fake.offers.repeatable = false;
    assert_eq!(codes(&mut fake), [""; 0]);
}

#[test]
fn each_further_attempt_is_told() {
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.steals_always = true;
    let mut told = 0;
    let experiment = experiment("repeats = 1");
    run_experiment(
        &mut Machines::one(&mut fake),
        &experiment,
        results.path(),
        &|| false,
        &mut |p| {
            told += u32::from(
                matches!(p, Progress::Again { doubtful, .. } if doubtful.manifest.attempt == 0),
            );
        },
    )
    .unwrap();
    // Both runs of the round are doubtful: the round is told, and done again as a whole.
    assert_eq!(told, 1, "a doubtful round is repeated once where the file does not say");
}

#[test]
fn a_scheduler_that_is_thrown_out_during_a_run_makes_it_fail() {
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    // The look after the first run (the loop looks once before all) finds the kernel's own scheduler again.
    fake.sched_ext = |looks| if looks == 2 { "" } else { "simple" };
    go(&mut fake, "repeats = 1\nretries = 0", results.path());
    let runs = runs_of(results.path()).unwrap().runs;
    let doubtful: Vec<bool> =
        runs.iter().map(|run| run.failure().is_some_and(|why| why.contains("sched_ext"))).collect();
    assert_eq!(doubtful.iter().filter(|d| **d).count(), 1);
}

#[test]
fn rounds_of_each_boot_are_blocks_of_their_own() {
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    let text = "repeats = 2\nboots = 3";
    let tally = go(&mut fake, text, results.path());
    assert_eq!((tally.done, tally.boots_left), (4, 2));
    let tally = go(&mut fake, text, results.path());
    assert_eq!(
        (tally.done, tally.skipped, tally.boots_left),
        (0, 4, 2),
        "nothing new in the same boot"
    );
    fake.boot = "second";
    assert_eq!(go(&mut fake, text, results.path()).boots_left, 1);
    fake.boot = "third";
    assert_eq!(go(&mut fake, text, results.path()).boots_left, 0);
    fake.boot = "fourth";
    assert_eq!(go(&mut fake, text, results.path()), Tally::default(), "it has had all its boots");
    let runs = runs_of(results.path()).unwrap().runs;
    let here = &runs[0].manifest.place;
    assert_eq!(crate::store::boots(&runs, here), ["first", "second", "third"]);
    let blocks: Vec<u32> = runs.iter().map(|r| r.manifest.block).collect();
    assert_eq!(blocks, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
}

#[test]
fn what_runs_beside_is_waited_for_and_ended_with_all_that_it_started() {
    let results = tempfile::tempdir().unwrap();
    let folder = results.path().display();
    // The command forks, takes its time to be ready, and puts something back when it is asked to end.
    let text = format!(
        "repeats = 1\n[hooks]\nduring = [\"sh\", \"-c\", \"trap 'echo end >> {folder}/log; exit' TERM; sleep 1000 & echo $! > \
         {folder}/pid; sleep 0.3; touch {folder}/ready; wait\"]\nready = [\"test\", \"-e\", \"{folder}/ready\"]\n\
         before = [\"rm\", \"-f\", \"{folder}/ready\"]\nafter = [\"sh\", \"-c\", \"echo after >> {folder}/log\"]\n"
    );
    let mut fake = Fake::new();
    go(&mut fake, &text, results.path());
    let log = std::fs::read_to_string(results.path().join("log")).unwrap();
    assert_eq!(log, "end\nafter\nend\nafter\n");
    let pid = std::fs::read_to_string(results.path().join("pid")).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z"), "its child is gone: {stat}");
}

#[test]
fn what_never_gets_ready_fails_its_run() {
    let results = tempfile::tempdir().unwrap();
    let text = "repeats = 1\n[hooks]\nduring = [\"true\"]\nready = [\"false\"]\n";
    let error = run_experiment(
        &mut Machines::one(&mut Fake::new()),
        &experiment(text),
        results.path(),
        &|| false,
        &mut |_| (),
    )
    .unwrap_err();
    assert!(error.to_string().contains("ended before it was ready"), "{error}");
}

#[test]
fn hooks_may_be_an_axis() {
    let results = tempfile::tempdir().unwrap();
    let log = results.path().join("log");
    let text = format!(
        "repeats = 1\n[workload]\nname = \"hackbench\"\n[[axis]]\nhook = \"scheduler\"\nvalues = [\"none\", \"sleep\"]\n\
         [hooks]\nduring = [\"{{scheduler}}\", \"100\"]\nbefore = [\"sh\", \"-c\", \"echo {{scheduler}} >> {}\"]\n",
        log.display()
    );
    let experiment = Experiment::parse(&text, Path::new("x.toml")).unwrap();
    let mut fake = Fake::new();
    let tally = run_experiment(
        &mut Machines::one(&mut fake),
        &experiment,
        results.path(),
        &|| false,
        &mut |_| (),
    )
    .unwrap();
    assert_eq!(tally.done, 2, "same spec, other scheduler: not the same run");
    let log = std::fs::read_to_string(&log).unwrap();
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["none", "sleep"]);
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
        &mut Machines::one(&mut Fake::new()),
        &experiment("repeats = 1\n[hooks]\nbefore = [\"false\"]\n"),
        results.path(),
        &|| false,
        &mut |_| (),
    )
    .unwrap_err();
    assert!(error.to_string().contains("hook 'false' ended with exit status: 1"), "{error}");
}

#[test]
fn another_kernel_adds_a_column_to_the_same_folder() {
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.time = |_, n| 1.0 + (n * 7 % 11) as f64 / 300.0;
    assert_eq!(go(&mut fake, "repeats = 3", results.path()).done, 6);
    fake.kernel = "6.2";
    fake.boot = "second";
    fake.time = |_, n| 3.0 + (n * 7 % 11) as f64 / 100.0;
    assert_eq!(go(&mut fake, "repeats = 3", results.path()).done, 6, "another kernel, other runs");
    fake.kernel = "6.1";
    fake.boot = "third";
    assert_eq!(
        go(&mut fake, "repeats = 3", results.path()).done,
        0,
        "the first kernel has its runs"
    );
    let mut stored = runs_of(results.path()).unwrap();
    assert_eq!(stored.looks.taken, [3], "a further column is not a further look");
    assert_eq!(crate::store::name_places(&mut stored.runs, crate::Hosts::Apart), ["kernel"]);
    let kernels: std::collections::BTreeSet<&str> =
        stored.runs.iter().map(|run| run.manifest.point["kernel"].as_str()).collect();
    assert_eq!(kernels.into_iter().collect::<Vec<_>>(), ["6.1 #1", "6.2 #1"]);
    let told = answer::sentences(&experiment("repeats = 3"), &stored.runs, &stored.looks);
    let told = told.iter().find(|text| text.starts_with("kernel=6.2 #1 against 6.1 #1")).unwrap();
    assert!(told.contains("time_s is higher") && told.contains("on these two boots"), "{told}");
}

#[test]
fn runs_under_another_governor_are_refused() {
    let results = tempfile::tempdir().unwrap();
    go(&mut Fake::new(), "repeats = 2", results.path());
    let mut fake = Fake::new();
    fake.governor = "powersave";
    let more = experiment("repeats = 3");
    let refused = run_experiment(
        &mut Machines::one(&mut fake),
        &more,
        results.path(),
        &|| false,
        &mut |_| (),
    );
    let told = refused.unwrap_err().to_string();
    assert!(told.contains("governor was performance and is powersave"), "{told}");
    assert!(fake.ran.is_empty());
    assert_eq!(go(&mut Fake::new(), "repeats = 3", results.path()).done, 2, "set back, it goes on");
}

#[test]
fn a_run_of_another_version_is_refused_by_its_name() {
    let results = tempfile::tempdir().unwrap();
    go(&mut Fake::new(), "repeats = 2", results.path());
    for run in runs_of(results.path()).unwrap().runs {
        // Another version need not have the same fields.
        let text = r#"{"schema": "schedlab-run/1", "id": "0123456789abcdef"}"#;
        std::fs::write(run.folder.join("manifest.json"), text).unwrap();
    }
    let told = runs_of(results.path()).unwrap_err().to_string();
    assert!(told.contains("'schedlab-run/1'") && told.contains("'schedlab/run/2'"), "{told}");
    let mut fake = Fake::new();
    let again = experiment("repeats = 2");
    let refused = run_experiment(
        &mut Machines::one(&mut fake),
        &again,
        results.path(),
        &|| false,
        &mut |_| (),
    );
    let told = refused.unwrap_err().to_string();
    assert!(told.contains("'schedlab-run/1'") && told.contains("--output"), "{told}");
    assert!(fake.ran.is_empty(), "nothing is mixed");
}
