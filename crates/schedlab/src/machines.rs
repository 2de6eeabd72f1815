//! The one place that makes machines from their names.

use schedlab_host::Host;
use schedlab_kernel::OfTree;
use schedlab_model::{Conditions, Cpu, Place, Setting, Topology};
use schedlab_sim::{MachineFile, OfCode};
use schedlab_workload::knobs::FEATURES;
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
    let mut likeness = Likeness::of(&plain).map_err(refused)?;
    let costs = costs(&plain).map_err(refused)?.or(of_file);
    let topology = likeness.topology.take();
    let like = likeness.name.clone();
    let tree = OfTree::like(&like, name, costs, topology, |model| match likeness.is_like {
        true => likeness.adopt_knobs(model),
        false => Vec::new(),
    })?;
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
    model.files = texts(name);
    name.to_string().clone_into(&mut model.name);
    Ok(model)
}

/// The model of a name, with what its trace says about the machine; and what was assumed, in sentences.
fn liken(name: &MachineName) -> Result<(schedlab_sim::Model, Vec<String>), String> {
    let mut name = name.clone();
    let of_file = described(&mut name)?;
    let mut likeness = Likeness::of(&name)?;
    let costs = costs(&likeness.name)?.or(of_file);
    let mut model = schedlab_sim::Model::of(&likeness.name, costs.as_deref())?;
    if let Some(topology) = likeness.topology.take() {
        let from: Vec<usize> = (0..topology.places().len()).collect();
        model.arrange(topology, &from);
    }
    if likeness.is_like {
        likeness.adopt_knobs(&mut model);
    }
    Ok((model, likeness.assumed))
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

/// A simulated machine that is like one of which there is a trace.
struct Likeness {
    /// Its name without `like`.
    name: MachineName,
    topology: Option<Topology>,
    /// Whether a trace was named.
    is_like: bool,
    /// What the trace holds of knobs, tick and preemption.
    conditions: Conditions,
    /// How many CPUs the recorded machine had, if other CPUs were asked for.
    recorded_cpus: Option<usize>,
    /// What was assumed, in sentences.
    assumed: Vec<String>,
}

/// Settings that say which CPUs there are.
const CPUS: [&str; 5] = ["cpus", "sockets", "llcs", "cores", "smt"];

/// The knob by which the kernel scales times with its CPUs.
const SCALING: &str = "tunable_scaling";

/// Knobs of the fair schedulers.
const OF_FAIR: [&str; 6] = [
    "latency",
    "min_granularity",
    "wakeup_granularity",
    "idle_min_granularity",
    "base_slice",
    FEATURES,
];

impl Likeness {
    fn of(name: &MachineName) -> Result<Self, String> {
        let mut name = name.clone();
        let Some(file) = name.settings.remove(LIKE) else {
            let conditions = Conditions::default();
            return Ok(Self {
                name,
                topology: None,
                is_like: false,
                conditions,
                recorded_cpus: None,
                assumed: Vec::new(),
            });
        };
        let mut source = schedlab_trace::open(Path::new(&file)).map_err(|e| e.to_string())?;
        let mut assumed = Vec::new();
        let kernel = source.info().kernel.clone();
        if !name.settings.contains_key("kernel") {
            let (model, why) = nearest(kernel.as_deref());
            assumed.push(format!("the scheduler is {model}: {why}"));
            name.settings.insert("kernel".to_owned(), model.to_owned());
        }
        let conditions = source.info().conditions.clone().unwrap_or_default();
        // The build of a tree decides them.
        if !is_tree(&name) {
            tick_and_preemption(&conditions, &mut name, &mut assumed);
        }
        if CPUS.iter().any(|key| name.settings.contains_key(*key)) {
            let cpus = source.info().topology.as_ref().map(|told| told.places().len());
            let cpus = cpus.unwrap_or(source.info().cpus.len());
            let recorded_cpus = Some(cpus).filter(|cpus| *cpus > 0);
            let topology = None;
            return Ok(Self { name, topology, is_like: true, conditions, recorded_cpus, assumed });
        }
        let told = source.info().topology.clone();
        let mut cpus = source.info().cpus.clone();
        if cpus.is_empty() && told.is_none() {
            let mut batch = Vec::new();
            while source.next(&mut batch).map_err(|error| format!("{file}: {error}"))? {
                batch.iter().for_each(|event| cpus.insert(event.cpu));
            }
        }
        let topology = told.unwrap_or_else(|| {
            assumed.push("the CPUs share one LLC: the trace holds no topology".to_owned());
            Topology::new(
                cpus.iter().map(|cpu| Place { core: u32::from(cpu.0), ..flat(cpu) }).collect(),
            )
        });
        let topology = without_holes(topology, &mut assumed);
        let count = topology.places().len().max(1);
        if count > schedlab_sim::CPUS_MAX as usize {
            return Err(format!(
                "{file}: it has {count} CPUs, and {} can be simulated",
                schedlab_sim::CPUS_MAX
            ));
        }
        name.settings.insert("cpus".to_owned(), count.to_string());
        let topology = Some(topology).filter(|one| !one.places().is_empty());
        Ok(Self { name, topology, is_like: true, conditions, recorded_cpus: None, assumed })
    }

    /// By how much the recorded kernel multiplies times with a number of CPUs, at most 8: by `tunable_scaling` not at
    /// all, with their logarithm (the default), or linearly (`get_update_sysctl_factor`).
    fn factor(&self, cpus: usize) -> u64 {
        let cpus = cpus.clamp(1, 8);
        match self.conditions.knobs.get(SCALING).map(String::as_str) {
            Some("0") => 1,
            Some("2") => cpus as u64,
            _ => u64::from(1 + cpus.ilog2()),
        }
    }

    /// What the kernel would have made of a recorded knob with the model's number of CPUs.
    fn scaled(&self, name: &str, value: &str, cpus: usize) -> String {
        match (value.parse::<u64>(), self.recorded_cpus) {
            (Ok(time), Some(recorded)) if name != FEATURES => {
                (time.saturating_mul(self.factor(cpus)) / self.factor(recorded)).to_string()
            }
            _ => value.to_owned(),
        }
    }

    /// Gives the model the recorded knobs that it has, and returns them. The others are assumed.
    fn adopt_knobs(&mut self, model: &mut schedlab_sim::Model) -> Vec<Setting> {
        let mut adopted = Vec::new();
        let mut defaults = Vec::new();
        let knobs = model.knobs().into_iter().filter(|knob| OF_FAIR.contains(&&*knob.name));
        let cpus = model.topology.places().len();
        if let Some(recorded) = self.recorded_cpus
            && self.factor(recorded) != self.factor(cpus)
            && !self.conditions.knobs.is_empty()
        {
            self.assumed.push(format!(
                "times of the scheduler are those of {cpus} CPUs, as the kernel scales them from {recorded}"
            ));
        }
        for knob in knobs {
            let recorded = self.conditions.knobs.get(&knob.name);
            let recorded = recorded.map(|value| self.scaled(&knob.name, value, cpus));
            // A feature that is not modelled cannot be set; the others can.
            let words = recorded.iter().flat_map(|value| match knob.name == FEATURES {
                true => value.split_whitespace().collect(),
                false => vec![value.as_str()],
            });
            let taken = words.filter(|word| model.set(&knob.name, word).is_ok());
            let taken: Vec<Setting> = taken
                .map(|word| Setting { knob: knob.name.clone(), value: word.to_owned() })
                .collect();
            adopted.extend_from_slice(&taken);
            if taken.is_empty() {
                let value = knob.value.filter(|_| knob.name != FEATURES);
                let value = value.map_or(String::new(), |value| format!(" {value} {}", knob.unit));
                defaults.push(format!("{}{}", knob.name, value.trim_end()));
            }
        }
        if !defaults.is_empty() {
            let list = defaults.join(", ");
            self.assumed
                .push(format!("defaults of the model, which the trace does not hold: {list}"));
        }
        adopted
    }
}

/// The tick rate and the preemption model of the recording, where nothing else was asked for.
fn tick_and_preemption(held: &Conditions, name: &mut MachineName, assumed: &mut Vec<String>) {
    let recorded = [
        ("hz", held.hz.map(|hz| hz.to_string()), "250 ticks a second"),
        ("preempt", held.preempt.clone(), "voluntary preemption"),
    ];
    for (key, value, default) in recorded {
        if name.settings.contains_key(key) {
            continue;
        }
        match value.as_deref() {
            Some("lazy") => {
                assumed.push("lazy preemption is modelled as voluntary preemption".to_owned());
            }
            Some(value) => drop(name.settings.insert(key.to_owned(), value.to_owned())),
            None => assumed.push(format!("{default}: the trace does not hold it")),
        }
    }
}

const fn flat(cpu: Cpu) -> Place {
    Place { cpu, core: 0, llc: 0, node: 0, socket: 0 }
}

/// A simulated machine numbers its CPUs from 0 without holes.
fn without_holes(topology: Topology, assumed: &mut Vec<String>) -> Topology {
    let last = topology.places().last().map_or(0, |place| place.cpu.index() + 1);
    if last == topology.places().len() {
        return topology;
    }
    let missing = last - topology.places().len();
    assumed
        .push(format!("{missing} CPUs that the trace does not name are added, idle at the start"));
    let place = |cpu: u16| {
        let own = topology.place(Cpu(cpu)).copied();
        own.unwrap_or(Place { core: u32::from(cpu) + 1_000_000, ..flat(Cpu(cpu)) })
    };
    Topology::new((0..u16::try_from(last).unwrap_or(u16::MAX)).map(place).collect())
}

/// The model that is nearest to a kernel, and why.
fn nearest(kernel: Option<&str>) -> (&'static str, String) {
    let Some(kernel) = kernel else {
        return ("cfs-6.1", "the trace does not hold its kernel".to_owned());
    };
    let number = |word: &str| -> Option<(u32, u32)> {
        let mut parts = word.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    };
    let version = kernel.split_whitespace().find_map(number);
    let simulated =
        [("one FIFO", "global-fifo"), ("a FIFO for each LLC", "llc-fifo"), ("FIFO", "fifo")];
    match version {
        Some((major, minor)) if (major, minor) >= (6, 6) => {
            ("eevdf-6.12", format!("the kernel is {major}.{minor}"))
        }
        Some((major, minor)) => ("cfs-6.1", format!("the kernel is {major}.{minor}")),
        None => match simulated.iter().find(|(part, _)| kernel.contains(part)) {
            Some((_, model)) => (model, "it was recorded there".to_owned()),
            None => ("cfs-6.1", format!("'{kernel}' has no version")),
        },
    }
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

/// The texts of the files that a name names, as a plan keeps them. The program's own have none.
fn texts(name: &MachineName) -> Vec<Setting> {
    let files = MachineName::FILES.into_iter().filter_map(|key| name.settings.get(key));
    let read = |file: &String| {
        let knob = format!("{}{file}", MachineName::FILE);
        Some(Setting { knob, value: schedlab_sys::regular_file::text(Path::new(file)).ok()? })
    };
    files.filter_map(read).collect()
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
    fn recorded_times_are_scaled_as_the_kernel_scales_them_with_its_cpus() {
        let likeness = |recorded_cpus, scaling: &str| Likeness {
            name: "sim:cpus=8".parse().unwrap(),
            topology: None,
            is_like: true,
            conditions: Conditions {
                knobs: [(SCALING.to_owned(), scaling.to_owned())].into(),
                ..Conditions::default()
            },
            recorded_cpus,
            assumed: Vec::new(),
        };
        let scaled = |recorded, scaling: &str, cpus| {
            likeness(recorded, scaling).scaled("base_slice", "1400000", cpus)
        };
        assert_eq!(scaled(Some(2), "1", 1), "700000");
        assert_eq!(scaled(Some(2), "1", 8), "2800000");
        assert_eq!(scaled(Some(2), "1", 64), "2800000", "at most 8 CPUs count");
        assert_eq!(scaled(Some(2), "0", 8), "1400000", "the kernel was told not to");
        assert_eq!(scaled(Some(2), "2", 4), "2800000", "linearly");
        assert_eq!(scaled(None, "1", 8), "1400000", "no other CPUs were asked for");
    }

    #[test]
    fn the_nearest_model_follows_the_kernel() {
        for (kernel, model) in [
            (Some("Linux host 6.1.0-18-amd64 #1 SMP"), "cfs-6.1"),
            (Some("6.6.8"), "eevdf-6.12"),
            (Some("6.12.117"), "eevdf-6.12"),
            (Some("5.10.0"), "cfs-6.1"),
            (Some("simulated: FIFO on each CPU"), "fifo"),
            (Some("simulated: Linux 6.12.117 (Debian), fair tasks"), "eevdf-6.12"),
            (None, "cfs-6.1"),
        ] {
            assert_eq!(nearest(kernel).0, model, "{kernel:?}");
        }
    }

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
