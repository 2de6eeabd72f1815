//! The run loop over a machine with scripted answers.

use super::*;
use crate::fake::Fake;
use crate::{Experiment, runs_of};
use schedlab_model::Knob;
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
    run_plan(&mut Machines::one(fake), plan, results, stop, &mut |_| ())
}

#[test]
fn every_run_is_done_once_in_the_plans_order_and_stored() {
    let results = tempfile::tempdir().unwrap();
    let (mut fake, plan) = (Fake::new(), plan(SIX));
    let mut told = Vec::new();
    let tally = run_plan(&mut Machines::one(&mut fake), &plan, results.path(), &NEVER, &mut |p| {
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
fn rows_of_a_table_are_alike_for_all_experiments() {
    let results = tempfile::tempdir().unwrap();
    go(&mut Fake::new(), &plan(SIX), results.path(), &NEVER).unwrap();
    let stored = runs_of(results.path()).unwrap().runs;
    let rows: Vec<crate::export::Row> = crate::export::rows(&stored).collect();
    assert_eq!(rows.len(), stored.iter().map(|run| run.figures.len()).sum::<usize>());
    let time = rows.iter().find(|row| row.metric == "time_s").unwrap();
    let point = &stored[0].manifest.point;
    assert_eq!((time.unit.as_str(), time.value), ("seconds", stored[0].value("time_s")));
    assert_eq!(time.point, format!("{{\"slice\":\"{}\"}}", point["slice"]));
    assert!(time.whole && !time.censored && time.host == "fake <host>");
}

#[test]
fn events_of_a_machine_become_the_trace_of_the_run_and_its_figures() {
    let results = tempfile::tempdir().unwrap();
    let plan = plan("record = true\n[workload]\nname = \"hackbench\"\n");
    go(&mut Fake::new(), &plan, results.path(), &NEVER).unwrap();
    let run = runs_of(results.path()).unwrap().runs.remove(0);
    assert_eq!(run.warnings, []);
    assert_eq!(run.value("trace_wakeup_latency_ns_max"), Some(2_000.0));
    assert_eq!(run.value("trace_run_delay_ns_max"), Some(2_000.0));
    for total in schedlab_timeline::totals() {
        let stored = run.value(&format!("trace_{}", total.name));
        let needs_topology = ["_left_", "away_"].iter().any(|part| total.name.contains(part));
        assert_eq!(stored.is_some(), !needs_topology, "{}", total.name);
    }
    let trace = run.stream(schedlab_workload::Stream::Trace).unwrap();
    assert_eq!(schedlab_trace::open(&trace).unwrap().info().cpus.to_string(), "0-1");
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
fn a_run_that_its_time_limit_ended_is_stored_as_censored_and_not_done_again() {
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.censors = |_| true;
    go(&mut fake, &plan(SIX), results.path(), &NEVER).unwrap();
    let stored = runs_of(results.path()).unwrap().runs;
    assert!(stored.iter().all(|run| run.is_censored() && !run.is_whole()));
    let tally = go(&mut fake, &plan(SIX), results.path(), &NEVER).unwrap();
    assert_eq!(tally.skipped, 6);
}

#[test]
fn a_run_that_fails_is_kept_with_its_reason_and_the_others_go_on() {
    let results = tempfile::tempdir().unwrap();
    let plan = plan(SIX);
    let mut fake = Fake::new();
    fake.fails_at = Some(3);
    let tally = go(&mut fake, &plan, results.path(), &NEVER).unwrap();
    assert_eq!((tally.done, tally.failed.len()), (5, 1));
    let stored = runs_of(results.path()).unwrap().runs;
    let whys: Vec<String> = stored.iter().filter_map(StoredRun::failure).collect();
    assert_eq!((stored.len(), &whys[..]), (6, &["the test asks for a failure".to_owned()][..]));
    let tally = go(&mut fake, &plan, results.path(), &NEVER).unwrap();
    assert_eq!((tally.done, tally.skipped, tally.failed.len()), (1, 5, 0), "it is done again");
}

#[test]
fn a_first_run_that_fails_ends_the_loop() {
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.fails_at = Some(0);
    let error = go(&mut fake, &plan(SIX), results.path(), &NEVER).unwrap_err();
    assert!(error.to_string().contains("the test asks for a failure"), "{error}");
}

#[test]
fn what_a_crash_left_behind_is_removed_and_not_read() {
    let results = tempfile::tempdir().unwrap();
    let runs = results.path().join("runs");
    // No process has this number: it is above the kernel's limit.
    let dead = runs.join(".tmp-0123456789abcdef-4194305");
    std::fs::create_dir_all(&dead).unwrap();
    std::fs::write(dead.join("figures.jsonl"), "{\"cut").unwrap();
    assert_eq!(runs_of(results.path()).unwrap().damaged.len(), 0);
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

#[test]
fn a_second_loop_on_the_same_folder_is_refused_and_told_by_whom() {
    let results = tempfile::tempdir().unwrap();
    let plan = plan(SIX);
    let mut fake = Fake::new();
    let mut refused = Vec::new();
    run_plan(&mut Machines::one(&mut fake), &plan, results.path(), &NEVER, &mut |p| {
        if matches!(p, Progress::Begins { index: 0, .. }) {
            let again = go(&mut Fake::new(), &plan, results.path(), &NEVER);
            refused.push(again.unwrap_err().to_string());
        }
    })
    .unwrap();
    let by = format!("process {} (", std::process::id());
    assert!(refused.len() == 1 && refused[0].contains(&by), "{refused:?}");
    assert_eq!(fake.ran.len(), 6);
    assert!(!results.path().join(".lock").exists());
}

#[test]
fn a_damaged_run_is_set_aside_named_and_done_again_and_the_others_are_read() {
    type Damage = (&'static str, fn(&Path));
    let damages: [Damage; 6] = [
        ("manifest.json", |path| std::fs::write(path, "{\"schema\": \"sched").unwrap()),
        ("manifest.json", |path| std::fs::remove_file(path).unwrap()),
        ("figures.jsonl", |path| {
            let text = std::fs::read_to_string(path).unwrap();
            std::fs::write(path, text.split_inclusive('\n').next().unwrap()).unwrap();
        }),
        ("figures.jsonl", |path| std::fs::remove_file(path).unwrap()),
        ("intervals.jsonl", |path| std::fs::write(path, "{}\n{}\n{}\n").unwrap()),
        ("figures.jsonl", |path| std::fs::write(path, [0xff, 0xfe, b'\n']).unwrap()),
    ];
    for (file, damage) in damages {
        let results = tempfile::tempdir().unwrap();
        let plan = plan(SIX);
        go(&mut Fake::new(), &plan, results.path(), &NEVER).unwrap();
        let runs = results.path().join("runs");
        let stored = runs_of(results.path()).unwrap().runs;
        let third = stored.iter().find(|run| run.manifest.id == plan.runs[2].id).unwrap();
        damage(&third.folder.join(file));
        let found = runs_of(results.path()).unwrap();
        if file != "intervals.jsonl" {
            assert_eq!((found.runs.len(), found.damaged.len()), (5, 1));
            assert!(found.damaged[0].to_string().contains(file), "{:?}", found.damaged);
        }
        let mut told = Vec::new();
        let mut fake = Fake::new();
        let tally =
            run_plan(&mut Machines::one(&mut fake), &plan, results.path(), &NEVER, &mut |p| {
                if let Progress::SetAside { run, error, folder } = p {
                    told.push((run.id.clone(), error.to_string(), folder.to_path_buf()));
                }
            });
        assert_eq!(tally.unwrap(), Tally { done: 1, skipped: 5, ..Tally::default() }, "{file}");
        let [(id, why, folder)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(id, &plan.runs[2].id);
        assert!(why.contains(file), "{why}");
        assert!(folder.is_dir() && folder.starts_with(&runs), "{folder:?}");
        let found = runs_of(results.path()).unwrap();
        assert_eq!((found.runs.len(), found.damaged.len()), (6, 0));
    }
}

#[test]
fn a_run_of_another_version_is_not_taken_for_a_damaged_one() {
    let results = tempfile::tempdir().unwrap();
    let plan = plan(SIX);
    go(&mut Fake::new(), &plan, results.path(), &NEVER).unwrap();
    let stored = runs_of(results.path()).unwrap().runs;
    let first = stored.iter().find(|run| run.manifest.id == plan.runs[0].id).unwrap();
    let path = first.folder.join("manifest.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let other = text.replace(crate::store::SCHEMA, "schedlab/run/99");
    std::fs::write(&path, other).unwrap();
    let error = go(&mut Fake::new(), &plan, results.path(), &NEVER).unwrap_err().to_string();
    assert!(error.contains("schedlab/run/99"), "{error}");
    assert!(path.exists());
}

#[test]
fn a_knob_that_changes_during_a_run_is_a_warning_that_another_attempt_may_cure() {
    let knob = |value: &str| Knob {
        name: "base_slice".into(),
        value: Some(value.into()),
        unit: "ns".into(),
        min: None,
        max: None,
        meaning: String::new(),
        r#where: String::new(),
        writable: true,
        why_not: String::new(),
    };
    let facts = |value| MachineFacts { knobs: vec![knob(value)], ..Fake::new().facts() };
    assert_eq!(doubts(&facts("3000000"), &facts("3000000"), 1), []);
    let [warning] = &doubts(&facts("3000000"), &facts("48"), 1)[..] else { panic!() };
    assert!(warning.code == "other-knob-changed" && is_passing(warning), "{warning}");
    assert_eq!(not_in_force(std::slice::from_ref(warning)), None, "the run did not ask for it");
    assert!(warning.what.contains("base_slice changed from 3000000 to 48"), "{warning}");
}
