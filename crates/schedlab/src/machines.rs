//! The one place that makes machines from their names.

use schedlab_host::Host;
use schedlab_kernel::OfTree;
use schedlab_sim::{Likeness, MachineFile, OfCode};
use schedlab_workload::{HOST, Machine, MachineError, MachineName};
use std::path::Path;

/// The kinds of machine, each with its help.
const KINDS: &[(&str, &str)] =
    &[(HOST, "this machine"), (VM, "another kernel in QEMU"), (SIM, "a model in virtual time")];

/// The kind of virtual machines.
pub(crate) const VM: &str = "vm";
pub(crate) const SIM: &str = "sim";
/// The setting of a simulated machine that names a trace: the machine is like the recorded one.
pub(crate) const LIKE: &str = "like";
/// The setting of a simulated machine that names a file which describes it.
const FILE: &str = "machine";

/// Makes the machine of a name.
///
/// # Errors
/// When there is no such kind, a setting is wrong, or the machine cannot be had here.
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
        SIM if is_tree(name) => Ok(Box::new(of_tree(name, &mut Vec::new())?)),
        SIM => Ok(Box::new(schedlab_sim::Simulated::new(model(name)?))),
        _ => {
            let kinds = KINDS.iter().map(|(kind, about)| format!("{kind} ({about})"));
            Err(refused(format!("use {}", kinds.collect::<Vec<_>>().join(" or "))))
        }
    }
}

/// Whether a machine is simulated, and its scheduler is the code of a source tree.
pub(crate) fn is_tree(name: &MachineName) -> bool {
    let kernel = name.settings.get("kernel").filter(|_| name.kind == SIM);
    kernel.is_some_and(|kernel| !schedlab_sim::Kernel::is_own(kernel))
}

/// A machine whose scheduler is the code of a source tree. What was assumed goes to `assumed`, in sentences.
fn of_tree(name: &MachineName, assumed: &mut Vec<String>) -> Result<OfTree, MachineError> {
    let refused = |why: String| MachineError::NotOffered {
        machine: "schedlab".to_owned(),
        what: format!("simulate '{name}'"),
        why,
    };
    let mut plain = name.clone();
    let of_file = described(&mut plain).map_err(refused)?;
    let mut likeness = likeness(plain).map_err(refused)?;
    let costs = costs(&likeness.name).map_err(refused)?.or(of_file);
    let topology = likeness.topology.take();
    let like = likeness.name.clone();
    let tree = OfTree::like(&like, name, costs, topology, |model| likeness.adopt_knobs(model))?;
    if likeness.is_like {
        let OfCode { release, hz, preempt, .. } = tree.code();
        assumed.push(format!(
            "the scheduler is the code of Linux {release}, with HZ={hz} and preempt={preempt}"
        ));
    }
    assumed.extend(likeness.assumed);
    Ok(tree)
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
    if is_tree(name) {
        return of_tree(name, &mut Vec::new()).map(|tree| tree.model().clone());
    }
    let (mut model, _) = liken(name).map_err(refused)?;
    model.files = schedlab_experiment::machine_files(name).map_err(refused)?;
    name.to_string().clone_into(&mut model.name);
    Ok(model)
}

/// The model of a name, with what its trace says about the machine; and what was assumed, in sentences.
fn liken(name: &MachineName) -> Result<(schedlab_sim::Model, Vec<String>), String> {
    let mut name = name.clone();
    let of_file = described(&mut name)?;
    let likeness = likeness(name)?;
    let costs = costs(&likeness.name)?.or(of_file);
    likeness.model(costs.as_deref())
}

/// Reads what the trace of the setting `like` says about its machine.
fn likeness(mut name: MachineName) -> Result<Likeness, String> {
    let Some(file) = name.settings.remove(LIKE) else { return Ok(Likeness::plain(name)) };
    let mut source = schedlab_trace::open(Path::new(&file)).map_err(|error| error.to_string())?;
    let mut info = source.info().clone();
    if Likeness::needs_cpus(&name, &info) {
        let mut batch = Vec::new();
        while source.next(&mut batch).map_err(|error| format!("{file}: {error}"))? {
            batch.iter().for_each(|event| info.cpus.insert(event.cpu));
        }
    }
    Likeness::recorded(name, &info).map_err(|why| format!("{file}: {why}"))
}

/// A simulated machine that executors of jobs can run on.
pub(crate) enum Simulation {
    Model(Box<schedlab_sim::Model>),
    Tree(Box<OfTree>),
}

impl Simulation {
    pub(crate) fn model(&self) -> &schedlab_sim::Model {
        match self {
            Self::Model(model) => model,
            Self::Tree(tree) => tree.model(),
        }
    }
}

/// Whether executors of jobs can run on a machine, and what is simulated if it is a simulated one. No virtual machine is
/// made: a kernel would boot to say no.
///
/// # Errors
/// When they cannot, or there is no such machine.
pub(crate) fn for_executors(name: &MachineName) -> Result<Option<Simulation>, MachineError> {
    let why = match name.kind.as_str() {
        VM => {
            "executors are threads of this process: run the workload `jobs` there, with \
             `schedlab load jobs --on vm` or an experiment"
        }
        SIM if is_tree(name) => {
            let tree = of_tree(name, &mut Vec::new())?;
            return Ok(Some(Simulation::Tree(Box::new(tree))));
        }
        SIM => return model(name).map(|model| Some(Simulation::Model(Box::new(model)))),
        _ => return make(name).map(|_| None),
    };
    Err(MachineError::NotOffered {
        machine: name.to_string(),
        what: "run executors of jobs".to_owned(),
        why: why.to_owned(),
    })
}

/// What is assumed of a machine that is like a recorded one.
///
/// # Errors
/// When its trace cannot be read.
pub(crate) fn assumptions(name: &MachineName) -> anyhow::Result<Vec<String>> {
    if is_tree(name) {
        let mut assumed = Vec::new();
        of_tree(name, &mut assumed)?;
        return Ok(assumed);
    }
    liken(name).map(|(_, assumed)| assumed).map_err(anyhow::Error::msg)
}

/// Completes a name by the file that its setting `machine` names: one of the program's own by name, or a path. Returns
/// the costs of the file.
fn described(name: &mut MachineName) -> Result<Option<String>, String> {
    let Some(file) = name.settings.remove(FILE) else { return Ok(None) };
    let text = match MachineFile::preset(&file) {
        Some(text) => text.to_owned(),
        None => schedlab_sys::regular_file::text(Path::new(&file)).map_err(|error| {
            let own: Vec<&str> = MachineFile::presets().collect();
            let own = own.join(", ");
            format!("cannot read the machine in '{file}': {error}: use a file, or one of {own}")
        })?,
    };
    let described = MachineFile::parse(&text).map_err(|why| format!("{file}, {why}"))?;
    described.complete(name);
    Ok(described.costs)
}

/// The costs of a simulated machine: those of its file of costs, else of the file that describes it.
///
/// # Errors
/// When a file cannot be read, or is wrong.
pub(crate) fn costs_of(name: &MachineName) -> Result<schedlab_sim::Costs, String> {
    let mut name = name.clone();
    let of_file = described(&mut name)?;
    let text = costs(&name)?.or(of_file).unwrap_or_default();
    schedlab_sim::Costs::parse(&text).map_err(|error| error.to_string())
}

/// The text of the file of costs that a simulated machine is given: one of the program's own by name, or a path.
fn costs(name: &MachineName) -> Result<Option<String>, String> {
    let Some(file) = name.settings.get("costs") else { return Ok(None) };
    if let Some(own) = schedlab_sim::Costs::preset(file) {
        return Ok(Some(own.to_owned()));
    }
    if let Some(removed) = crate::removed::value(&["sim", "costs"], "", file) {
        return Err(removed);
    }
    let own: Vec<&str> = schedlab_sim::Costs::presets().collect();
    let own = own.join(" or ");
    schedlab_sys::regular_file::text(Path::new(file)).map(Some).map_err(|error| {
        format!("cannot read the costs in '{file}': {error}: use a file, or {own}")
    })
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
        assert!(why("moon").starts_with("schedlab cannot run on 'moon': use host (this machine)"));
        let settings =
            "schedlab cannot run on 'host:cpus=2': machine 'host' takes no settings: remove 'cpus'";
        assert_eq!(why("host:cpus=2"), settings);
    }
}
