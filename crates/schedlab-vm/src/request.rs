//! What kind of virtual machine is wanted: the settings of `--on vm:...`, as plain values.

use crate::{VmError, decisions};
use schedlab_model::Nanos;
use schedlab_workload::metrics;
use std::collections::BTreeMap;
use std::str::FromStr;

/// The settings of a virtual machine.
pub(crate) const KEYS: [&str; 11] = [
    "kernel", "cpus", "sockets", "threads", "nodes", "clock", "memory", "seed", "patience", "qemu",
    "ext",
];

fn within(number: u64, least: u32, most: u32) -> Result<u32, String> {
    let fits = u32::try_from(number).ok().filter(|n| (least..=most).contains(n));
    fits.ok_or_else(|| format!("use {least} to {most}"))
}

/// How time passes in the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Each instruction takes one nanosecond, and idle time passes at once: runs are identical, bit for
    /// bit, no matter what else the machine does.
    #[default]
    Instructions,
    /// The machine's own time.
    Wall,
}

impl Clock {
    /// As it is written: `instructions`, `wall`.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Wall => "wall",
        }
    }
}

impl FromStr for Clock {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "instructions" => Ok(Self::Instructions),
            "wall" => Ok(Self::Wall),
            _ => Err("use instructions or wall".to_owned()),
        }
    }
}

/// How CPUs share hardware. The CPUs of a socket share its last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrangement {
    pub(crate) sockets: u32,
    /// Hardware threads of each core.
    pub(crate) threads: u32,
    /// The number of NUMA nodes.
    pub(crate) nodes: u32,
}

impl Default for Arrangement {
    fn default() -> Self {
        Self { sockets: 1, threads: 1, nodes: 1 }
    }
}

impl Arrangement {
    /// Every socket, core and node has the same number of CPUs.
    fn check(&self, cpus: u32) -> Result<(), VmError> {
        let parts = [
            ("sockets", self.sockets),
            ("threads", self.sockets * self.threads),
            ("nodes", self.nodes),
        ];
        match parts.into_iter().find(|(_, part)| !cpus.is_multiple_of(*part)) {
            None => Ok(()),
            Some((key, part)) => Err(VmError::Setting {
                key: key.to_owned(),
                value: part.to_string(),
                why: format!("{cpus} CPUs cannot be divided by {part}"),
            }),
        }
    }

    /// The arguments of QEMU for this many CPUs and this much memory.
    pub(crate) fn arguments(&self, cpus: u32, memory_mib: u32) -> Vec<String> {
        let Self { sockets, threads, nodes } = *self;
        let cores = cpus / sockets / threads;
        let mut all = vec![
            "-smp".to_owned(),
            format!("cpus={cpus},sockets={sockets},cores={cores},threads={threads}"),
        ];
        for node in (0..nodes).filter(|_| nodes > 1) {
            let first = node * cpus / nodes;
            let last = (node + 1) * cpus / nodes - 1;
            let size = memory_mib / nodes;
            all.extend([
                "-object".to_owned(),
                format!("memory-backend-ram,id=m{node},size={size}M"),
            ]);
            all.extend([
                "-numa".to_owned(),
                format!("node,nodeid={node},cpus={first}-{last},memdev=m{node}"),
            ]);
        }
        all
    }
}

/// A virtual machine as it is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The kernel: a path, or a name that [`crate::Kernel::find`] knows.
    pub(crate) kernel: String,
    pub(crate) cpus: u32,
    /// How they are arranged.
    pub(crate) topology: Arrangement,
    /// The clock of the guest.
    pub(crate) clock: Clock,
    /// The memory of the guest in MiB.
    pub(crate) memory_mib: u32,
    /// Seed of what QEMU draws at random.
    pub(crate) seed: u64,
    /// How long the guest may take to boot, and to perform a run, in the machine's own time.
    pub(crate) patience: Nanos,
    /// The QEMU program, or `debian` for the one in the cache (docs/vm.md).
    pub(crate) qemu: String,
    /// The sched_ext scheduler that is on: the name of one that was built with the kernel, or the path of a
    /// static program.
    pub(crate) ext: Option<String>,
}

impl Request {
    /// Reads the settings of `vm:KEY=VALUE,...`.
    ///
    /// # Errors
    /// When one is unknown or its value is wrong.
    pub fn read(settings: &BTreeMap<String, String>) -> Result<Self, VmError> {
        let mut all = Self::new("debian-6.1".to_owned());
        for (key, value) in settings {
            let wrong =
                |why: String| VmError::Setting { key: key.clone(), value: value.clone(), why };
            let number =
                || value.parse::<u64>().map_err(|_| wrong("use a whole number".to_owned()));
            match key.as_str() {
                "kernel" => all.kernel.clone_from(value),
                "clock" => all.clock = value.parse().map_err(wrong)?,
                "cpus" => all.cpus = within(number()?, 1, 255).map_err(wrong)?,
                "sockets" => all.topology.sockets = within(number()?, 1, 64).map_err(wrong)?,
                "threads" => all.topology.threads = within(number()?, 1, 8).map_err(wrong)?,
                "nodes" => all.topology.nodes = within(number()?, 1, 64).map_err(wrong)?,
                "memory" => all.memory_mib = within(number()?, 256, 65_536).map_err(wrong)?,
                "seed" => all.seed = number()?,
                "patience" => all.patience = Nanos::from_secs(number()?),
                "qemu" => all.qemu.clone_from(value),
                "ext" => all.ext = Some(value.clone()),
                _ => {
                    return Err(wrong(format!("unknown setting: use {}", KEYS.join(", "))));
                }
            }
        }
        all.topology.check(all.cpus)?;
        Ok(all)
    }

    /// Whether several CPUs share one budget of instructions: then a lost CPU costs nothing, and
    /// times say nothing.
    #[must_use]
    pub(crate) fn shares_instructions(&self) -> bool {
        self.cpus > 1 && self.clock == Clock::Instructions
    }

    /// Whether a metric may be taken from such a machine.
    ///
    /// # Errors
    /// With why not, in a sentence with what to use instead.
    pub(crate) fn measures(&self, metric: &str) -> Result<(), String> {
        if !self.shares_instructions() || decisions::is_decision(&metrics::metric(metric)) {
            return Ok(());
        }
        Err(format!(
            "{}: use counts of switches, migrations or wakeups; for times use cpus=1 or clock=wall",
            decisions::WHY
        ))
    }

    /// One CPU with the clock of instructions on this kernel.
    #[must_use]
    pub(crate) fn new(kernel: String) -> Self {
        Self {
            kernel,
            cpus: 1,
            topology: Arrangement::default(),
            clock: Clock::default(),
            memory_mib: 512,
            seed: 7,
            patience: Nanos::from_secs(1_800),
            qemu: "qemu-system-x86_64".to_owned(),
            ext: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_wrong_ones_are_named() {
        let read = |pairs: &[(&str, &str)]| {
            let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            Request::read(&pairs.iter().map(own).collect())
        };
        let all = read(&[("kernel", "x"), ("cpus", "2"), ("clock", "wall"), ("patience", "5")]);
        let all = all.unwrap();
        assert_eq!((all.kernel.as_str(), all.cpus, all.clock), ("x", 2, Clock::Wall));
        assert_eq!(all.patience, Nanos::from_secs(5));
        for (key, value, why) in [
            ("cpus", "0", "use 1 to 255"),
            ("cpus", "two", "a whole number"),
            ("clock", "cycles", "use instructions or wall"),
            ("cores", "2", "unknown setting"),
            ("sockets", "2", "cannot be divided"),
        ] {
            let error = read(&[(key, value)]).unwrap_err().to_string();
            assert!(error.contains(&format!("vm:{key}={value}")) && error.contains(why), "{error}");
        }
    }
}
