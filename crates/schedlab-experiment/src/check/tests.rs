//! Refusals of a machine, each at the line that asks for what it refuses.

use super::*;
use crate::fake::Fake;
use schedlab_workload::{RunSpec, WorkloadSpec};
use std::path::Path;

const TEXT: &str = "repeats = 2
time_limit = \"1s\"
record = true
[[workload]]
name = \"hackbench\"
options = { groups = \"few\", fds = 3 }
[[workload.beside]]
label = \"noise\"
name = \"cpu\"
options = { tasks = 7 }
[[axis]]
option = \"loops\"
values = [10, 20, 30]
[[axis]]
knob = \"slice\"
range = { from = \"1ms\", to = \"2ms\", count = 2 }
";

/// What the machine says against `text` where it refuses what `refuses` finds.
fn told(text: &str, refuses: fn(&RunSpec) -> Option<String>) -> Vec<String> {
    let experiment = Experiment::parse(text, Path::new("x.toml")).unwrap();
    let mut fake = Fake::new();
    fake.refuses = refuses;
    let checked = Plan::new(&experiment).check(&mut Machines::one(&mut fake), &experiment);
    let Err(error) = checked else { return Vec::new() };
    error.to_string().lines().map(str::to_owned).collect()
}

fn option<'s>(workload: &'s WorkloadSpec, name: &str) -> Option<&'s str> {
    let WorkloadSpec::Builtin { options, .. } = workload else { return None };
    options.get(name).map(String::as_str)
}

#[test]
fn each_refusal_is_told_once_with_the_place_of_what_is_refused() {
    let own = told(TEXT, |spec| {
        option(&spec.workload, "groups").map(|value| format!("'{value}' is not a number"))
    });
    let place = "x.toml: line 6, column 22: workload.options.groups: fake cannot run it: ";
    assert_eq!(own, [format!("{place}'few' is not a number")]);
    let of_axis = told(TEXT, |spec| {
        (option(&spec.workload, "loops") == Some("20")).then(|| "20 is odd".to_owned())
    });
    assert_eq!(of_axis, ["x.toml: line 13, column 15: axis.values: fake cannot run it: 20 is odd"]);
    let of_range =
        told(TEXT, |spec| (spec.settings[..].len() == 1).then(|| "no slices".to_owned()));
    assert_eq!(of_range, ["x.toml: line 16, column 9: axis.values: fake cannot run it: no slices"]);
    let beside = told(TEXT, |spec| {
        let tasks = spec.beside.first().and_then(|one| option(&one.workload, "tasks"));
        tasks.map(|_| "too many".to_owned())
    });
    let place = "x.toml: line 10, column 21: workload.beside.options.tasks: ";
    assert_eq!(beside, [format!("{place}fake cannot run it: too many")]);
    let company = told(TEXT, |spec| (!spec.beside.is_empty()).then(|| "one only".to_owned()));
    let place = "x.toml: line 7, column 1: workload.beside: noise: ";
    assert_eq!(company, [format!("{place}fake cannot run it: one only")]);
    let record = told(TEXT, |spec| spec.record.as_ref().map(|_| "no trace".to_owned()));
    assert_eq!(record, ["x.toml: line 3, column 10: record: fake cannot run it: no trace"]);
    let all = told(TEXT, |_| Some("never".to_owned()));
    let place = "x.toml: line 4, column 1: workload: hackbench: ";
    assert_eq!(all, [format!("{place}fake cannot run it: never")]);
}

#[test]
fn a_knob_that_is_not_there_or_locked_is_told_with_its_line_and_once() {
    let text = "[workload]\nname = \"cpu\"\n[knobs]\nbase_slice = 3\n[[axis]]\nknob = \"slise\"\n\
        values = [\"1ms\", \"2ms\"]\n";
    // The machine refuses them too, when it is asked.
    let told = told(text, |spec| spec.settings.first().map(|_| "no knobs".to_owned()));
    assert_eq!(
        told,
        [
            "x.toml: line 4, column 14: knobs.base_slice: cannot set knob base_slice here: debugfs is locked",
            "x.toml: line 7, column 11: axis.values: unknown knob slise on fake; did you mean slice?",
        ]
    );
}

#[test]
fn a_knob_unlike_all_others_is_told_with_the_knobs_of_the_machine() {
    let text = "[workload]\nname = \"cpu\"\n[knobs]\nquantum = 3\n";
    let place = "x.toml: line 4, column 11: knobs.quantum: ";
    assert_eq!(
        told(text, |_| None),
        [format!("{place}unknown knob quantum on fake: use slice, base_slice")]
    );
}

#[test]
fn a_machine_that_cannot_be_made_is_told_at_its_name() {
    let text = "machine = [\"sim:cpus=1\", \"sim:cpus=x\"]\n[workload]\nname = \"cpu\"\n";
    let experiment = Experiment::parse(text, Path::new("x.toml")).unwrap();
    let make = |name: &MachineName| -> Result<Box<dyn Machine>, schedlab_workload::MachineError> {
        match name.settings["cpus"].as_str() {
            "x" => Err(schedlab_workload::MachineError::Load("cpus=x is no number".to_owned())),
            _ => Ok(Box::new(Fake::new())),
        }
    };
    let checked = Plan::new(&experiment).check(&mut Machines::made_by(&make), &experiment);
    let told = checked.unwrap_err().to_string();
    assert_eq!(told, "x.toml: line 1, column 26: machine: the load failed: cpus=x is no number");
}

#[test]
fn a_metric_that_the_machine_does_not_carry_is_refused_where_the_file_asks_for_it() {
    let text = "measure = [\"migrations\", \"time_s\"]\n[[workload]]\nname = \"hackbench\"\n";
    let experiment = Experiment::parse(text, Path::new("x.toml")).unwrap();
    let mut fake = Fake::new();
    fake.unmeasured = |metric| (metric == "time_s").then(|| "its clock is shared".to_owned());
    let checked = Plan::new(&experiment).check(&mut Machines::one(&mut fake), &experiment);
    assert_eq!(
        checked.unwrap_err().to_string(),
        "x.toml: line 1, column 11: measure: fake does not measure time_s: its clock is shared"
    );
}
