//! The one place that makes machines from their names.

use schedlab_host::Host;
use schedlab_workload::{HOST, Machine, MachineError, MachineName};

/// The kinds of machine, each with its help.
const KINDS: &[(&str, &str)] =
    &[(HOST, "this machine"), (VM, "another kernel in QEMU"), (SIM, "a model in virtual time")];

const VM: &str = "vm";
const SIM: &str = "sim";

/// Makes the machine of a name.
///
/// # Errors
/// When there is no such kind, a setting is wrong, or the machine can't be had here.
pub(crate) fn make(name: &MachineName) -> Result<Box<dyn Machine>, MachineError> {
    let refused = |why: String| MachineError::NotOffered {
        machine: "schedlab".to_owned(),
        what: format!("run on '{name}'"),
        why,
    };
    match name.kind.as_str() {
        HOST => {
            name.finish(&[]).map_err(refused)?;
            let host = Host::here().map_err(|e| MachineError::io("finding this program", e))?;
            Ok(Box::new(host))
        }
        VM => {
            let request = schedlab_vm::Request::read(&name.settings)?;
            Ok(Box::new(schedlab_vm::Vm::boot(request)?))
        }
        SIM => Ok(Box::new(schedlab_sim::Simulated::new(model(name)?))),
        _ => {
            let kinds = KINDS.iter().map(|(kind, about)| format!("{kind} ({about})"));
            Err(refused(format!("use {}", kinds.collect::<Vec<_>>().join(" or "))))
        }
    }
}

/// The model of a simulated machine.
///
/// # Errors
/// When the name is not that of a simulated machine, or a setting is wrong.
pub(crate) fn model(name: &MachineName) -> Result<schedlab_sim::Model, MachineError> {
    let refused = |why: String| MachineError::NotOffered {
        machine: "schedlab".to_owned(),
        what: format!("simulate '{name}'"),
        why,
    };
    if name.kind != SIM {
        return Err(refused("use sim:KEY=VALUE,...".to_owned()));
    }
    let costs = costs(name).map_err(refused)?;
    schedlab_sim::Model::of(name, costs.as_deref()).map_err(refused)
}

/// Whether executors of jobs can run on a machine. The machine is not made: a kernel would boot to say no.
///
/// # Errors
/// When they cannot, or there is no such machine.
pub(crate) fn has_executors(name: &MachineName) -> Result<(), MachineError> {
    let why = match name.kind.as_str() {
        VM => {
            "executors are threads of this process: run the workload `jobs` there, with \
             `schedlab load jobs --on vm` or an experiment"
        }
        SIM => {
            "executors are threads, and it has none: use --executor virtual for the policy of \
             schedlab's pool in virtual time"
        }
        _ => return make(name).map(drop),
    };
    Err(MachineError::NotOffered {
        machine: name.to_string(),
        what: "run executors of jobs".to_owned(),
        why: why.to_owned(),
    })
}

/// The text of the file of costs that a simulated machine is given: one of the program's own by name, or a path.
fn costs(name: &MachineName) -> Result<Option<String>, String> {
    let Some(file) = name.settings.get("costs") else { return Ok(None) };
    if let Some(own) = schedlab_sim::Costs::preset(file) {
        return Ok(Some(own.to_owned()));
    }
    let own: Vec<&str> = schedlab_sim::Costs::presets().collect();
    let own = own.join(" or ");
    std::fs::read_to_string(file)
        .map(Some)
        .map_err(|error| format!("reading the costs in '{file}': {error}; use a file, or {own}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_no_machine_is_refused_with_what_there_is() {
        let why = |text: &str| make(&text.parse().unwrap()).err().unwrap().to_string();
        for (kind, _) in KINDS {
            assert!(why("moon").contains(&format!("{kind} (")), "{}", why("moon"));
        }
        assert!(why("moon").starts_with("schedlab can't run on 'moon': use host (this machine)"));
        let settings =
            "schedlab can't run on 'host:cpus=2': machine 'host' takes no settings: remove 'cpus'";
        assert_eq!(why("host:cpus=2"), settings);
    }
}
