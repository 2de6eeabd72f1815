//! Made data with each verdict, for each kind of claim.

use super::*;
use crate::fake::Fake;
use crate::{Machines, Plan, run_plan, runs_of};
use schedlab_workload::{RunSpec, WorkloadSpec};
use std::path::Path;

const AXES: &str = "repeats = 6\n[workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\n\
    values = [\"1ms\", \"4ms\"]\n[[axis]]\noption = \"groups\"\nvalues = [1, 2, 3]\n";

fn runs(machine: &str, time: fn(&RunSpec, usize) -> f64) -> Vec<StoredRun> {
    let text = format!("machine = \"{machine}\"\n{AXES}");
    let experiment = Experiment::parse(&text, Path::new("x.toml")).unwrap();
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.time = time;
    let mut machines = Machines::one(&mut fake);
    run_plan(&mut machines, &Plan::new(&experiment), results.path(), &|| false, &mut |_| ())
        .unwrap();
    runs_of(results.path()).unwrap().runs
}

/// The verdict on one claim about `time_s`.
fn verdict_on(machine: &str, claim: &str, runs: &[StoredRun]) -> Judged {
    let text = format!(
        "machine = \"{machine}\"\n{AXES}[[claim]]\nsays = \"s\"\nwhy = \"w\"\nmetric = \"time_s\"\n{claim}"
    );
    let experiment = Experiment::parse(&text, Path::new("x.toml")).unwrap();
    judge(&experiment, runs).remove(0)
}

fn groups(spec: &RunSpec) -> f64 {
    let WorkloadSpec::Builtin { options, .. } = &spec.workload else { unreachable!() };
    options["groups"].parse().unwrap()
}

fn is_slow(spec: &RunSpec) -> bool {
    spec.settings.iter().any(|setting| setting.value == "4ms")
}

/// A few percent that differ from run to run.
fn jitter(n: usize) -> f64 {
    1.0 + (n * 7 % 11) as f64 / 300.0
}

/// 4 ms takes half as much time again, each group as much as the first.
fn half_more(spec: &RunSpec, n: usize) -> f64 {
    groups(spec) * jitter(n) * if is_slow(spec) { 1.5 } else { 1.0 }
}

const RATIO: &str = "at = { slice = \"4ms\" }\nagainst = { slice = \"1ms\" }\n";

#[test]
fn a_ratio_is_reproduced_refused_or_left_open_by_its_whole_interval() {
    let runs = runs("host", half_more);
    let of = |bounds: &str| verdict_on("host", &format!("{RATIO}{bounds}"), &runs);
    let inside = of("at_least = 1.3\nat_most = 1.7\n");
    assert_eq!((inside.finding, inside.verdict.as_str()), (Finding::Reproduced, "reproduced"));
    let (low, high) = inside.interval.unwrap();
    assert!(low < 1.5 && 1.5 < high && high < 1.6, "{low} .. {high}");
    assert_eq!((inside.blocks, inside.unit), (6, None));
    assert_eq!(of("at_most = 1.2\n").verdict, "not reproduced");
    assert_eq!(of("at_least = 1.5\n").verdict, "cannot be judged");
}

#[test]
fn a_claim_about_an_axis_of_one_workload_finds_its_runs() {
    let axis = AXES.replace("[[axis]]\noption", "[[axis]]\nworkload = \"hackbench\"\noption");
    let text = format!(
        "{axis}[[claim]]\nsays = \"s\"\nwhy = \"w\"\nmetric = \"time_s\"\nat = {{ \"hackbench/groups\" = 2 }}\n\
         against = {{ \"hackbench/groups\" = 1 }}\nat_least = 1.8\nat_most = 2.2\n"
    );
    let experiment = Experiment::parse(&text, Path::new("x.toml")).unwrap();
    let judged = judge(&experiment, &runs("host", half_more)).remove(0);
    assert_eq!(judged.finding, Finding::Reproduced, "{judged:?}");
}

#[test]
fn a_value_and_a_slope_are_judged_in_the_unit_of_the_metric() {
    let runs = runs("host", half_more);
    let of = |claim: &str| verdict_on("host", claim, &runs);
    let value = "at = { slice = \"1ms\", groups = 2 }\n";
    assert_eq!(of(&format!("{value}at_most = \"3s\"\n")).finding, Finding::Reproduced);
    assert_eq!(of(&format!("{value}at_most = \"1s\"\n")).finding, Finding::NotReproduced);
    let slope = "at = { slice = \"4ms\" }\nalong = \"groups\"\n";
    let found = of(&format!("{slope}at_least = 1.4\nat_most = \"1700ms\"\n"));
    assert_eq!((found.finding, found.unit), (Finding::Reproduced, Some(Unit::Seconds)));
    assert_eq!(of(&format!("{slope}at_least = 2\n")).finding, Finding::NotReproduced);
}

#[test]
fn equal_numbers_decide_only_where_the_machine_repeats_itself() {
    // The slice changes nothing, and each block has the same values.
    let same: fn(&RunSpec, usize) -> f64 = |spec, _| groups(spec);
    let claim = format!("{RATIO}at_most = 1.0\n");
    let simulated = verdict_on("sim:cpus=2", &claim, &runs("sim:cpus=2", same));
    assert_eq!(simulated.verdict, "reproduced in the model", "{simulated:?}");
    assert_eq!((simulated.value, simulated.interval, simulated.exact), (Some(1.0), None, true));
    let refused = format!("{RATIO}at_least = 1.01\n");
    let refused = verdict_on("sim:cpus=2", &refused, &runs("sim:cpus=2", same));
    assert_eq!(refused.verdict, "not reproduced in the model");
    let host = verdict_on("host", &claim, &runs("host", same));
    assert_eq!((host.verdict.as_str(), host.exact), ("cannot be judged", false));
    assert!(host.note.contains("identical"), "{}", host.note);
}

#[test]
fn runs_that_are_missing_or_elsewhere_leave_a_claim_open() {
    let here = runs("host", half_more);
    let elsewhere = verdict_on("sim:cpus=2", &format!("{RATIO}at_least = 1.3\n"), &here);
    assert_eq!(elsewhere.finding, Finding::CannotBeJudged);
    assert!(elsewhere.note.contains("No whole run"), "{}", elsewhere.note);
    let one: Vec<StoredRun> = here.iter().filter(|run| run.manifest.block == 0).cloned().collect();
    let one = verdict_on("host", &format!("{RATIO}at_least = 1.3\n"), &one);
    assert_eq!(one.finding, Finding::CannotBeJudged);
    assert!(one.note.contains("One block"), "{}", one.note);
    // A run that lacks its partner takes its block out, and no other.
    let fewer: Vec<StoredRun> = here
        .iter()
        .filter(|run| run.manifest.block != 2 || run.manifest.point["groups"] != "3")
        .cloned()
        .collect();
    let fewer = verdict_on("host", &format!("{RATIO}at_least = 1.3\n"), &fewer);
    assert_eq!((fewer.finding, fewer.blocks), (Finding::Reproduced, 5));
}

#[test]
fn many_claims_have_wider_intervals() {
    let runs = runs("host", half_more);
    let claim = format!(
        "[[claim]]\nsays = \"s\"\nwhy = \"w\"\nmetric = \"time_s\"\n{RATIO}at_least = 1.3\n"
    );
    let text = format!("{AXES}{}", claim.repeat(10));
    let experiment = Experiment::parse(&text, Path::new("x.toml")).unwrap();
    let ten = judge(&experiment, &runs);
    assert!((ten[0].level - 0.995).abs() < 1e-12);
    let one = verdict_on("host", &format!("{RATIO}at_least = 1.3\n"), &runs);
    let width = |judged: &Judged| judged.interval.map(|(low, high)| high - low);
    assert!(width(&ten[0]) > width(&one));
}
