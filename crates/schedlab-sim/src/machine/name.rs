//! From the name of a machine, `sim:cpus=8,kernel=cfs-6.1`, to what is simulated.

use super::of_code::OfCode;
use super::parts::Parts;
use super::setting::{OF_NAME, Wrong, take};
use super::tuned::Tuned;
use crate::policy::{CfsKnobs, ClassKnobs, EevdfKnobs, PlacerKnobs, Policy};
use crate::{Costs, Hardware, Preparation};
use schedlab_model::{Cpu, Nanos, Place, Setting, Topology};
use schedlab_workload::{MachineName, Speed};
use std::str::FromStr;

/// The most CPUs of a simulated machine.
pub const CPUS_MAX: u32 = 1_024;
/// The most if a kernel's own code schedules, as far as its build allows (`CONFIG_NR_CPUS`).
pub(super) const CPUS_MAX_OF_CODE: u32 = 8_192;

/// The scheduler that is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernel {
    /// First in, first out on each CPU.
    Fifo,
    /// The fair scheduler of Debian's Linux 6.1.192.
    #[default]
    Cfs61,
    /// The fair scheduler of Debian's Linux 6.12.117.
    Eevdf612,
    /// First in, first out, in one queue for the machine.
    GlobalFifo,
    /// First in, first out, in a queue for each LLC.
    LlcFifo,
    /// The code of a kernel's source tree.
    Tree,
}

/// A scheduler that was part of the program; the error about it names what does its work now.
const REMOVED: &str = "cfs-5.10";

impl Kernel {
    const ALL: [(Self, &str); 5] = [
        (Self::Cfs61, "cfs-6.1"),
        (Self::Eevdf612, "eevdf-6.12"),
        (Self::Fifo, "fifo"),
        (Self::GlobalFifo, "global-fifo"),
        (Self::LlcFifo, "llc-fifo"),
    ];

    pub(crate) fn is_linux(self) -> bool {
        matches!(self, Self::Cfs61 | Self::Eevdf612 | Self::Tree)
    }

    /// Whether a name is that of a scheduler which is part of the program; others name a source tree.
    #[must_use]
    pub fn is_own(name: &str) -> bool {
        name == REMOVED || name.parse::<Self>().is_ok()
    }

    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kernel, _)| *kernel == self).map_or("", |(_, name)| name)
    }
}

impl FromStr for Kernel {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == REMOVED {
            let now = "it was removed: `schedlab sim build TREE` makes sim:kernel=TREE of the kernel's own \
                code; or use cfs-6.1";
            return Err(now.to_owned());
        }
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        let names: Vec<&str> = Self::ALL.iter().map(|(_, name)| *name).collect();
        found.map(|(kernel, _)| *kernel).ok_or_else(|| {
            format!("use {}, or a tree that `schedlab sim build` built", names.join(", "))
        })
    }
}

/// Makes a scheduler for these CPUs.
pub type MakePolicy = fn(&Hardware) -> Box<dyn Policy>;

/// The machine and the kernel that are simulated.
#[derive(Clone, Debug)]
pub struct Model {
    /// The name of the machine, as it was asked for.
    pub name: String,
    pub kernel: Kernel,
    /// The CPUs of the model, and what they share.
    pub topology: Topology,
    /// The number of ticks in a second.
    pub(crate) hz: u64,
    /// Whether a task can be displaced within a system call.
    pub(crate) preempt_kernel: bool,
    /// The time that each operation takes.
    pub costs: Costs,
    pub(super) tuned: Tuned,
    /// Switches of wakeup placement.
    pub(super) placement: PlacerKnobs,
    /// The tunables of real-time tasks.
    pub(super) classes: ClassKnobs,
    /// Slices in which limited groups get their time, in nanoseconds.
    pub(super) bandwidth_slice: u64,
    /// Whether the load is a group of its own, as a session.
    pub(super) autogroup: bool,
    /// The speed of a thread whose core's other threads are busy, in millionths.
    pub(super) smt_speed: u64,
    /// Parts of the machine that are off by default.
    pub(super) parts: Parts,
    /// Where the scheduler is the code of a kernel: which one, and what is set in it.
    pub(super) code: Option<OfCode>,
    /// A scheduler of one's own, in place of `kernel`'s.
    pub(super) own: Option<MakePolicy>,
    pub(super) prepared: Preparation,
    /// The texts of files that its name names, each a setting as [`MachineName::FILE`] says.
    pub files: Vec<Setting>,
}

pub(crate) const SETTINGS: &[&str] = &[
    "cpus",
    "sockets",
    "llcs",
    "cores",
    "smt",
    "kernel",
    "hz",
    "preempt",
    "slice",
    "idle-prev-first",
    "smt-speed",
    "capacity",
    "noise",
    "skew-tick",
    "turns",
    "irq",
    "steal",
    "frequency",
    "node-bandwidth",
    "llc-bandwidth",
    "autogroup",
    "costs",
    "machine",
];

pub(super) const CPU_SETTINGS: [&str; 5] = ["cpus", "sockets", "llcs", "cores", "smt"];

/// The slice of queues that CPUs share, in nanoseconds.
const SLICE: u64 = 5_000_000;

impl Model {
    /// Reads the settings of a machine's name. `costs` is the text of the file that the setting `costs` names. The
    /// caller has completed the name by the file that the setting `machine` names ([`crate::MachineFile::complete`]).
    ///
    /// # Errors
    /// A sentence: a setting that does not exist, a value that is wrong, a topology that is impossible.
    pub fn of(name: &MachineName, costs: Option<&str>) -> Result<Self, String> {
        let model = Self::read(name, costs, CPUS_MAX).map_err(|wrong| wrong.why)?;
        match model.parts.has_frequencies() {
            true => Err(format!(
                "{OF_NAME}invalid frequency: schedutil, a kernel's own code, chooses it: use sim:kernel=TREE"
            )),
            false => Ok(model),
        }
    }

    /// As [`Self::of`], with at most `most` CPUs.
    pub(super) fn read(name: &MachineName, costs: Option<&str>, most: u32) -> Result<Self, Wrong> {
        let written = name.to_string();
        let mut name = name.clone();
        name.settings.remove("costs");
        name.settings.remove("machine");
        let kernel: Kernel = take(&mut name, "kernel")?.unwrap_or_default();
        let topology = topology(&mut name, most)?;
        let hz: u64 = take(&mut name, "hz")?.unwrap_or(250);
        if !(10..=10_000).contains(&hz) {
            return Err(Wrong::new("hz", format!("{OF_NAME}invalid hz={hz}: use 10 to 10000")));
        }
        let preempt: String = take(&mut name, "preempt")?.unwrap_or_else(|| "voluntary".to_owned());
        let preempt_kernel = match preempt.as_str() {
            "voluntary" | "none" => false,
            "full" => true,
            other => {
                let why = "use voluntary, none or full";
                return Err(Wrong::new(
                    "preempt",
                    format!("{OF_NAME}invalid preempt={other}: {why}"),
                ));
            }
        };
        let slice: Option<Nanos> = take(&mut name, "slice")?;
        if slice.is_some() && kernel.is_linux() {
            let why = "kernels of Linux have knobs instead (--set)";
            return Err(Wrong::new("slice", format!("{OF_NAME}invalid slice: {why}")));
        }
        let idle_prev_first: Option<bool> = take(&mut name, "idle-prev-first")?;
        let smt_speed: Option<Speed> = take(&mut name, "smt-speed")?;
        let smt_speed = u64::from(smt_speed.unwrap_or(Speed::FULL).millionths());
        let autogroup: bool = take(&mut name, "autogroup")?.unwrap_or(false);
        if autogroup && !kernel.is_linux() {
            let why = "use a kernel of Linux";
            return Err(Wrong::new("autogroup", format!("{OF_NAME}invalid autogroup: {why}")));
        }
        let parts = Parts::take(&mut name, &topology)?;
        name.finish(SETTINGS).map_err(|why| Wrong::new("", why))?;
        let costs = costs.map_or(Ok(Costs::USUAL), Costs::parse);
        let costs = costs.map_err(|error| Wrong::new("costs", error.to_string()))?;
        let cpus = topology.places().len();
        let tuned = match kernel {
            Kernel::Fifo => Tuned::Fifo { slice_ns: slice.map(|slice| slice.0) },
            Kernel::GlobalFifo => Tuned::Global { slice_ns: slice.map_or(SLICE, |slice| slice.0) },
            Kernel::LlcFifo => Tuned::Llc { slice_ns: slice.map_or(SLICE, |slice| slice.0) },
            Kernel::Cfs61 => Tuned::Cfs(CfsKnobs::of(cpus)),
            Kernel::Tree => Tuned::Fifo { slice_ns: None },
            Kernel::Eevdf612 => Tuned::Eevdf(EevdfKnobs::of(cpus, 1_000_000_000 / hz)),
        };
        let placement = PlacerKnobs { idle_prev_first: idle_prev_first.unwrap_or(true) };
        let classes = ClassKnobs::of(kernel != Kernel::Eevdf612, 1_000_000_000 / hz);
        Ok(Self {
            name: written,
            kernel,
            topology,
            hz,
            preempt_kernel,
            costs,
            tuned,
            placement,
            classes,
            bandwidth_slice: 5_000_000,
            autogroup,
            smt_speed,
            parts,
            code: None,
            own: None,
            prepared: Preparation::default(),
            files: Vec::new(),
        })
    }
}

impl Model {
    /// Makes it a machine of other CPUs. What was set for each CPU goes with it: each CPU of `topology` is as the CPU of
    /// the number in `from` was, or usual if there was none.
    pub fn arrange(&mut self, topology: Topology, from: &[usize]) {
        self.parts.arrange(from);
        self.topology = topology;
    }

    /// Whether a task may have a slice of its own: since Linux 6.12.
    pub(super) fn has_slices(&self) -> bool {
        let known = self.code.as_ref().map(|code| code.knobs.iter());
        self.kernel == Kernel::Eevdf612
            || known.is_some_and(|mut knobs| knobs.any(|(name, _)| name == "base_slice_ns"))
    }

    #[must_use]
    pub fn with_costs(mut self, costs: Costs) -> Self {
        self.costs = costs;
        self
    }
}

/// `cpus=N` is N cores of one LLC; otherwise sockets of LLCs of cores of threads. Threads of a core are numbered as on
/// most machines: first one of each core, then the others.
fn topology(name: &mut MachineName, most: u32) -> Result<Topology, Wrong> {
    let cpus: Option<u32> = take(name, "cpus")?;
    let mut parts = [1_u32; 4];
    let mut given = false;
    for (part, key) in parts.iter_mut().zip(&CPU_SETTINGS[1..]) {
        if let Some(count) = take(name, key)? {
            (*part, given) = (count, true);
        }
    }
    let [sockets, llcs, mut cores, smt] = parts;
    let all = |cores: u32| {
        [sockets, llcs, cores, smt].iter().map(|&n| u64::from(n)).fold(1, u64::saturating_mul)
    };
    if let Some(cpus) = cpus {
        let groups = all(1);
        if given && cores == 1 && groups > 0 && u64::from(cpus).is_multiple_of(groups) {
            cores = u32::try_from(u64::from(cpus) / groups).unwrap_or(0);
        } else if !given {
            cores = cpus;
        }
        if all(cores) != u64::from(cpus) {
            let parts = format!("sockets={sockets},llcs={llcs},cores={cores},smt={smt}");
            let count = all(cores);
            let why = format!("{OF_NAME}cpus={cpus} and {parts} ({count} CPUs) disagree");
            return Err(Wrong::new("cpus", why));
        }
    }
    if !(1..=u64::from(most)).contains(&all(cores)) {
        let count = all(cores);
        let why = format!("{OF_NAME}invalid number of CPUs {count}: use 1 to {most}");
        return Err(Wrong::new(if cpus.is_some() { "cpus" } else { "" }, why));
    }
    let total = sockets * llcs * cores;
    let place = |cpu: u32| {
        let core = cpu % total;
        let llc = core / cores;
        let socket = llc / llcs;
        let cpu = Cpu(u16::try_from(cpu).unwrap_or(u16::MAX));
        Place { cpu, core, llc, node: socket, socket }
    };
    Ok(Topology::new((0..total * smt).map(place).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(text: &str) -> Result<Model, String> {
        Model::of(&text.parse()?, None)
    }

    #[test]
    fn a_name_says_what_is_simulated() {
        let model_ = model("sim:sockets=4,cores=16,smt=2,kernel=eevdf-6.12,hz=1000").unwrap();
        assert_eq!(model_.topology.places().len(), 128);
        assert_eq!((model_.kernel.name(), model_.hz), ("eevdf-6.12", 1_000));
        let place = |cpu| *model_.topology.place(Cpu(cpu)).unwrap();
        assert_eq!((place(17).socket, place(17).core), (1, 17));
        assert_eq!((place(81).socket, place(81).core), (1, 17));
        assert_eq!(model("sim").unwrap().topology, Topology::flat(1));
        assert_eq!(model("sim:cpus=8").unwrap().topology, Topology::flat(8));
        assert_eq!(model("sim:cpus=8,sockets=2").unwrap().topology.place(Cpu(4)).unwrap().llc, 1);
    }

    #[test]
    fn impossible_machines_are_refused_with_the_reason() {
        for (text, part) in [
            ("sim:cpus=0", "invalid number of CPUs 0"),
            ("sim:cpus=5000", "use 1 to 1024"),
            ("sim:cpus=7,sockets=2", "disagree"),
            ("sim:sockets=70000,cores=70000", "invalid number of CPUs"),
            ("sim:kernel=cfs-5.4", "use cfs-6.1, eevdf-6.12, fifo, global-fifo, llc-fifo"),
            ("sim:hz=0", "use 10 to 10000"),
            ("sim:cpu=8", "has no setting 'cpu': use cpus, sockets"),
            ("sim:cpus=x", "invalid cpus=x"),
            ("sim:slice=3ms", "have knobs"),
            ("sim:preempt=lazy", "use voluntary"),
            ("sim:smt=2,smt-speed=0", "more than 0"),
            ("sim:kernel=fifo,autogroup=true", "use a kernel of Linux"),
            ("sim:cpus=2,capacity=0:500+1:600", "the fastest CPU has 1024"),
            ("sim:cpus=2,capacity=0:2000", "use 1 to 1024"),
            ("sim:cores=2,smt=2,capacity=0:500", "use smt=1"),
            ("sim:noise=5", "use 0% to 90%"),
            ("sim:skew-tick=1", "invalid skew-tick=1"),
            ("sim:cpus=2,irq=2:10us/1ms", "there is no CPU 2: use 0 to 1"),
            ("sim:irq=600us/1ms,steal=6ms/10ms", "take more than 95 % of CPU 0"),
            ("sim:frequency=1GHz-2GHz", "schedutil, a kernel's own code, chooses it"),
            ("sim:frequency=2GHz-1GHz", "use LOWEST-HIGHEST"),
            ("sim:frequency=1-2", "use LOWEST-HIGHEST"),
            ("sim:cpus=2,frequency=2:1GHz-2GHz", "there is no CPU 2"),
            ("sim:node-bandwidth=7", "invalid node-bandwidth=7: use bytes a second"),
            ("sim:node-bandwidth=7GB,llc-bandwidth=7GB", "exclude each other"),
        ] {
            let error = model(text).map(|_| ()).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
