//! Finds the part of a run that its machine refuses.
//!
//! A check changes nothing and costs little, so the machine is asked again with one part left out at a time.
//! The part without which the machine no longer refuses is the cause. So every machine's refusals find their
//! line in the file, independent of their words.

use crate::file::Part;
use schedlab_workload::{Machine, MachineError, MachineName, RunSpec, WorkloadSpec};

/// The part of `spec` that the machine refused with `error`, and its value; the workload as a whole
/// where no single part is.
pub(crate) fn blamed(
    machine: &dyn Machine,
    spec: &RunSpec,
    label: &str,
    error: &MachineError,
) -> (Part, String) {
    let mut candidates = parts(spec, label);
    // An option that the error names is tried first: another one may stand against it.
    if let MachineError::Option { option, .. } = error {
        let own = Part::Option { label: label.to_owned(), name: option.clone() };
        candidates.sort_by_key(|(part, ..)| *part != own);
    }
    let said = error.to_string();
    let mut changed = None;
    for (part, value, without) in candidates {
        match machine.check(&without) {
            Ok(()) => return (part, value),
            Err(other) if other.to_string() != said && changed.is_none() => {
                changed = Some((part, value));
            }
            Err(_) => {}
        }
    }
    changed.unwrap_or_else(|| (Part::Workload(label.to_owned()), String::new()))
}

/// Each part that can be left out, with its value and the spec without it.
fn parts(spec: &RunSpec, label: &str) -> Vec<(Part, String, RunSpec)> {
    let mut parts = Vec::new();
    for (name, value) in options(&spec.workload) {
        let workload = without(&spec.workload, name);
        let part = Part::Option { label: label.to_owned(), name: name.clone() };
        parts.push((part, value.clone(), RunSpec { workload, ..spec.clone() }));
    }
    // Texts of files are not written in the file: the machines that name them are.
    let written = |knob: &str| !knob.starts_with(MachineName::FILE);
    for setting in spec.settings.iter().filter(|setting| written(&setting.knob)) {
        let mut other = spec.clone();
        other.settings.retain(|kept| kept.knob != setting.knob);
        parts.push((Part::Setting(setting.knob.clone()), setting.value.clone(), other));
    }
    if spec.record.is_some() {
        parts.push((Part::Record, String::new(), RunSpec { record: None, ..spec.clone() }));
    }
    if spec.time_limit.is_some() {
        parts.push((Part::TimeLimit, String::new(), RunSpec { time_limit: None, ..spec.clone() }));
    }
    for (index, beside) in spec.beside.iter().enumerate() {
        for (name, value) in options(&beside.workload) {
            let mut other = spec.clone();
            other.beside[index].workload = without(&beside.workload, name);
            let part = Part::Option { label: beside.label.clone(), name: name.clone() };
            parts.push((part, value.clone(), other));
        }
    }
    for (index, beside) in spec.beside.iter().enumerate() {
        let mut other = spec.clone();
        other.beside.remove(index);
        parts.push((Part::Workload(beside.label.clone()), String::new(), other));
    }
    parts
}

fn options(workload: &WorkloadSpec) -> impl Iterator<Item = (&String, &String)> {
    let options = match workload {
        WorkloadSpec::Builtin { options, .. } => Some(options),
        WorkloadSpec::Command { .. } => None,
    };
    options.into_iter().flatten()
}

fn without(workload: &WorkloadSpec, option: &str) -> WorkloadSpec {
    let mut other = workload.clone();
    if let WorkloadSpec::Builtin { options, .. } = &mut other {
        options.remove(option);
    }
    other
}
