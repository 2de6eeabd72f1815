//! What a result must say about the machine on which it was measured.

use crate::{CpuSet, Knob, Topology, Warning};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A fact that could be read, or the reason why not.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact<T> {
    /// The value that was read.
    Known(T),
    /// Why it could not be read, in a few words.
    Unknown(String),
}

impl<T> Fact<T> {
    /// The value, if it could be read.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }
}

/// The kernel and what of its configuration matters to scheduling.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct KernelFacts {
    /// The release of the kernel, as `uname -r` prints it.
    pub release: String,
    /// `uname -v`, which names preemption and build.
    pub version: String,
    /// The GNU build id in hex, unlike that of any other build; results of older versions have none.
    #[serde(default = "untold")]
    pub build_id: Fact<String>,
    /// The architecture of the kernel, as `uname -m` prints it.
    pub architecture: String,
    /// The kernel's command line at boot.
    pub command_line: Fact<String>,
    /// Mitigations of CPU vulnerabilities: `all`, `none needed`, or those that are left vulnerable.
    #[serde(default = "untold")]
    pub mitigations: Fact<String>,
    /// Preemption model in force (`none`, `voluntary`, `full`, `lazy`).
    pub preemption: Fact<String>,
    /// Configuration symbols that matter (`CONFIG_HZ` and such), by name.
    pub config: Fact<BTreeMap<String, String>>,
    /// The active sched_ext scheduler, empty when none.
    pub sched_ext: Fact<String>,
    /// Its state and how often a scheduler was enabled since boot; results of older versions have none.
    #[serde(default = "untold")]
    pub sched_ext_state: Fact<String>,
}

/// How CPU frequencies are governed.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Frequency {
    /// Governors in force over all CPUs.
    pub governors: Fact<Vec<String>>,
    /// The name of the cpufreq driver.
    pub driver: Fact<String>,
    /// Whether turbo (boost) is on.
    pub turbo: Fact<bool>,
}

/// The control group that we run in.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct CgroupFacts {
    /// 1, 2, or both mounted ("hybrid" is 1 with 2 beside it).
    pub version: Fact<String>,
    /// Our path in the CPU controller's hierarchy.
    pub path: Fact<String>,
    /// Bandwidth limit in force, as a number of CPUs; `None` when unlimited.
    pub cpu_limit: Fact<Option<String>>,
}

/// How busy the machine was.
#[derive(Clone, Debug, Default, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct LoadFacts {
    /// The three load averages.
    pub average: [f64; 3],
    /// Runnable tasks at that instant, schedlab's own included.
    pub runnable: u64,
    /// CPU time stolen by the hypervisor since boot, all CPUs, in nanoseconds.
    pub steal_ns: u64,
    /// CPU time used since boot, all CPUs (user, nice, system, irq, softirq), in nanoseconds.
    pub busy_ns: u64,
}

/// The machine that a result was measured on.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct MachineFacts {
    /// Version of schedlab that looked.
    pub schedlab: String,
    /// When, in UTC (RFC 3339).
    pub taken_at: String,
    /// The name of the host.
    pub host: String,
    /// The model name of the CPU.
    pub model: Fact<String>,
    /// The size of the main memory in bytes.
    pub memory_bytes: Fact<u64>,
    /// Hypervisor, empty on bare metal.
    pub hypervisor: Fact<String>,
    /// What is known of the kernel.
    pub kernel: KernelFacts,
    /// The CPUs that the kernel may use, by `/sys/devices/system/cpu/online`.
    pub online: CpuSet,
    /// CPUs that we are allowed to run on.
    pub allowed: CpuSet,
    /// How they share hardware.
    pub topology: Topology,
    /// Whether SMT is active.
    pub smt: Fact<bool>,
    /// What controls the CPUs' frequencies.
    pub frequency: Frequency,
    /// The control group of the process, with its limits.
    pub cgroup: CgroupFacts,
    /// How busy the machine was when these facts were read.
    pub load: LoadFacts,
    /// Unlike at every other boot of any machine; results of older versions have none.
    #[serde(default = "untold")]
    pub boot: Fact<String>,
    /// Clock source of the kernel.
    pub clocksource: Fact<String>,
    /// Knobs that could be read.
    pub knobs: Vec<Knob>,
    /// Warnings about measuring here.
    pub warnings: Vec<Warning>,
}

fn untold() -> Fact<String> {
    Fact::Unknown("not stored by this version".into())
}
