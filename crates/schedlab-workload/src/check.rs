//! What can be said against a run before anything is started.

use crate::options::OptionError;
use crate::placement::MachineProperties;
use crate::plan::Plan;
use crate::workloads::{self, PlanError};
use crate::{MachineError, Offers, RunSpec, WorkloadSpec};
use schedlab_model::Fact;

/// Checks a spec against what a machine offers: the labels of what runs beside, each workload with its
/// options, and whether commands can run. It starts nothing.
///
/// A machine calls this in its [`crate::Machine::check`] and adds what is its own.
///
/// # Errors
/// The first thing that is wrong.
pub fn check_spec(spec: &RunSpec, offers: &Offers) -> Result<(), MachineError> {
    plans_of(spec, offers).map(drop)
}

/// Checks a spec as [`check_spec`] does and keeps the plans: of its own workload, then of each beside
/// it. They are not calibrated: they say what a run needs, not how long it takes. A command that is no
/// workload of ours has none.
///
/// # Errors
/// As [`check_spec`].
pub fn plans_of(spec: &RunSpec, offers: &Offers) -> Result<Vec<Option<Plan>>, MachineError> {
    plans_around(spec, offers, &offers.surroundings(spec.seed))
}

/// The plans of [`plans_of`] in surroundings that are known, a calibrated speed included: they can be performed.
///
/// # Errors
/// As [`check_spec`].
pub fn plans_around(
    spec: &RunSpec,
    offers: &Offers,
    around: &MachineProperties,
) -> Result<Vec<Option<Plan>>, MachineError> {
    let beside =
        |why: String| refused(offers, &spec.workload, OptionError::new("beside", why).into());
    spec.check_labels().map_err(beside)?;
    let own = check_one(&spec.workload, offers, around);
    let refuse = |error: PlanError| refused(offers, &spec.workload, error);
    let mut plans = vec![own.map_err(|wrong| wrong.machine_error(refuse))?];
    for one in &spec.beside {
        let told = |error: PlanError| beside(format!("{}: {error}", one.label));
        plans.push(
            check_one(&one.workload, offers, around).map_err(|wrong| wrong.machine_error(told))?,
        );
    }
    Ok(plans)
}

enum Wrong {
    Plan(PlanError),
    Machine(MachineError),
}

impl Wrong {
    fn machine_error(self, plan: impl FnOnce(PlanError) -> MachineError) -> MachineError {
        match self {
            Self::Plan(error) => plan(error),
            Self::Machine(error) => error,
        }
    }
}

fn check_one(
    workload: &WorkloadSpec,
    offers: &Offers,
    around: &MachineProperties,
) -> Result<Option<Plan>, Wrong> {
    let plan = match workload {
        WorkloadSpec::Command { .. } => None,
        WorkloadSpec::Builtin { name, options } => {
            Some(workloads::plan(name, options, around).map_err(Wrong::Plan)?)
        }
    };
    let is_command = plan.as_ref().is_none_or(|plan| plan.command.is_some());
    match &offers.commands {
        Fact::Unknown(why) if is_command => Err(Wrong::Machine(MachineError::NotOffered {
            machine: offers.machine.clone(),
            what: "run a command".to_owned(),
            why: why.clone(),
        })),
        _ => Ok(plan),
    }
}

/// A plan's error as a machine tells it.
fn refused(offers: &Offers, workload: &WorkloadSpec, error: PlanError) -> MachineError {
    let name = match workload {
        WorkloadSpec::Builtin { name, .. } => name.clone(),
        WorkloadSpec::Command { argv } => argv.join(" "),
    };
    match error {
        PlanError::Option(OptionError { option, why }) => {
            MachineError::Option { workload: name, option, why }
        }
        PlanError::NoWorkload(..) => MachineError::NotOffered {
            machine: offers.machine.clone(),
            what: format!("run '{name}'"),
            why: error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Beside;
    use schedlab_model::{CpuSet, Topology};

    fn check(
        commands: Fact<()>,
        workload: WorkloadSpec,
        beside: &[(&str, WorkloadSpec)],
    ) -> String {
        let offers = Offers {
            machine: "sim".into(),
            topology: Topology::flat(2),
            allowed: CpuSet::first(2),
            knobs: Vec::new(),
            recording: Fact::Unknown(String::new()),
            speeds: Fact::Unknown(String::new()),
            commands,
            repeatable: true,
            parallel: true,
        };
        let beside = beside.iter().map(|(label, workload)| Beside {
            label: (*label).to_owned(),
            workload: workload.clone(),
        });
        let spec = RunSpec { beside: beside.collect(), ..RunSpec::of(workload) };
        let done = check_spec(&spec, &offers);
        done.map_or_else(|error| error.to_string(), |()| String::new())
    }

    fn builtin(name: &str, options: &[(&str, &str)]) -> WorkloadSpec {
        let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        WorkloadSpec::Builtin { name: name.to_owned(), options: options.collect() }
    }

    #[test]
    fn a_machine_without_commands_refuses_each_form_of_one_and_says_why() {
        let why = || Fact::Unknown("it has no kernel".to_owned());
        let command = WorkloadSpec::Command { argv: vec!["make".into()] };
        let line = builtin("command", &[("line", "make")]);
        let wanted = "sim cannot run a command: it has no kernel";
        assert_eq!(check(why(), command.clone(), &[]), wanted);
        assert_eq!(check(why(), line.clone(), &[]), wanted);
        for beside in [&command, &line] {
            assert_eq!(check(why(), builtin("cpu", &[]), &[("b", beside.clone())]), wanted);
        }
        assert_eq!(check(why(), builtin("cpu", &[]), &[("b", builtin("cpu", &[]))]), "");
        assert_eq!(check(Fact::Known(()), command, &[("b", line)]), "");
    }

    #[test]
    fn wrong_options_and_labels_are_told_with_whose_they_are() {
        let known = || Fact::Known(());
        let wrong = builtin("hackbench", &[("groups", "x")]);
        assert!(check(known(), wrong.clone(), &[]).starts_with("option groups: "));
        let beside = check(known(), builtin("cpu", &[]), &[("noise", wrong)]);
        assert!(beside.starts_with("option beside: noise: option groups: "), "{beside}");
        let twice = [("a", builtin("cpu", &[])), ("a", builtin("cpu", &[]))];
        assert!(check(known(), builtin("cpu", &[]), &twice).contains("two workloads"));
        let none = check(known(), builtin("nothing", &[]), &[]);
        assert!(none.starts_with("sim cannot run 'nothing': unknown workload"), "{none}");
    }
}
