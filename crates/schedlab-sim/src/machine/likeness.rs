//! A simulated machine that is like a recorded one: what its trace says, and what is assumed.

use super::name::{CPU_SETTINGS, CPUS_MAX, Kernel, Model};
use schedlab_model::{Conditions, Cpu, Place, Setting, Topology, TraceInfo};
use schedlab_workload::MachineName;
use schedlab_workload::knobs::FEATURES;

/// A simulated machine that is like one of which there is a trace.
#[derive(Debug)]
pub struct Likeness {
    /// Its name, completed by what the trace holds.
    pub name: MachineName,
    /// The recorded CPUs, if the name does not say which CPUs there are.
    pub topology: Option<Topology>,
    /// Whether there is a trace.
    pub is_like: bool,
    /// What the trace holds of knobs, tick and preemption.
    conditions: Conditions,
    /// How many CPUs the recorded machine had, if other CPUs were asked for.
    recorded_cpus: Option<usize>,
    /// What was assumed, in sentences.
    pub assumed: Vec<String>,
}

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
    /// A machine that its name describes without a trace.
    pub fn plain(name: MachineName) -> Self {
        Self {
            name,
            topology: None,
            is_like: false,
            conditions: Conditions::default(),
            recorded_cpus: None,
            assumed: Vec::new(),
        }
    }

    /// Whether [`Self::recorded`] needs the CPUs that the events of a trace name.
    pub fn needs_cpus(name: &MachineName, info: &TraceInfo) -> bool {
        !has_cpus(name) && info.cpus.is_empty() && info.topology.is_none()
    }

    /// A machine like a recorded one, as far as the name leaves it open.
    ///
    /// # Errors
    /// When the recorded machine has more CPUs than can be simulated.
    pub fn recorded(mut name: MachineName, info: &TraceInfo) -> Result<Self, String> {
        let mut assumed = Vec::new();
        if !name.settings.contains_key("kernel") {
            let (model, why) = nearest(info.kernel.as_deref());
            assumed.push(format!("the scheduler is {model}: {why}"));
            name.settings.insert("kernel".to_owned(), model.to_owned());
        }
        let conditions = info.conditions.clone().unwrap_or_default();
        // The build of a source tree decides the tick and preemption of its kernel.
        if name.settings.get("kernel").is_some_and(|kernel| Kernel::is_own(kernel)) {
            tick_and_preemption(&conditions, &mut name, &mut assumed);
        }
        let mut likeness = Self { is_like: true, conditions, assumed, ..Self::plain(name) };
        if has_cpus(&likeness.name) {
            let cpus = info.topology.as_ref().map(|topology| topology.places().len());
            let cpus = cpus.unwrap_or(info.cpus.len());
            likeness.recorded_cpus = Some(cpus).filter(|cpus| *cpus > 0);
            return Ok(likeness);
        }
        let assumed = &mut likeness.assumed;
        let topology = info.topology.clone().unwrap_or_else(|| {
            assumed.push("the CPUs share one LLC: the trace holds no topology".to_owned());
            let core = |cpu: Cpu| Place { core: u32::from(cpu.0), ..flat(cpu) };
            Topology::new(info.cpus.iter().map(core).collect())
        });
        let topology = without_holes(topology, assumed);
        let count = topology.places().len().max(1);
        if count > CPUS_MAX as usize {
            return Err(format!("it has {count} CPUs, and {CPUS_MAX} can be simulated"));
        }
        likeness.name.settings.insert("cpus".to_owned(), count.to_string());
        likeness.topology = Some(topology).filter(|one| !one.places().is_empty());
        Ok(likeness)
    }

    /// The model of the machine, and what was assumed, in sentences.
    ///
    /// # Errors
    /// When a setting of the name or the costs are wrong.
    pub fn model(mut self, costs: Option<&str>) -> Result<(Model, Vec<String>), String> {
        let mut model = Model::of(&self.name, costs)?;
        if let Some(topology) = self.topology.take() {
            let from: Vec<usize> = (0..topology.places().len()).collect();
            model.arrange(topology, &from);
        }
        self.adopt_knobs(&mut model);
        Ok((model, self.assumed))
    }

    /// The factor by which the recorded kernel multiplies times on this many CPUs, of which at most 8 count. By
    /// `tunable_scaling` it is 1, grows with their logarithm (the default), or is their number
    /// (`get_update_sysctl_factor`).
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

    /// Sets the recorded knobs that the model has, and returns them. The others are assumed.
    pub fn adopt_knobs(&mut self, model: &mut Model) -> Vec<Setting> {
        if !self.is_like {
            return Vec::new();
        }
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

/// Whether a name says which CPUs there are.
fn has_cpus(name: &MachineName) -> bool {
    CPU_SETTINGS.iter().any(|key| name.settings.contains_key(*key))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_times_are_scaled_as_the_kernel_scales_them_with_its_cpus() {
        let likeness = |recorded_cpus, scaling: &str| Likeness {
            is_like: true,
            conditions: Conditions {
                knobs: [(SCALING.to_owned(), scaling.to_owned())].into(),
                ..Conditions::default()
            },
            recorded_cpus,
            ..Likeness::plain("sim:cpus=8".parse().unwrap())
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
}
