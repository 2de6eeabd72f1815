//! How CPUs share hardware: SMT siblings, last-level caches, NUMA nodes, sockets.

use crate::{Cpu, CpuSet};
use serde::{Deserialize, Serialize};

/// Where one CPU sits. Numbers are labels: equal means shared, order means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Place {
    /// The logical CPU, as Linux numbers it.
    pub cpu: Cpu,
    /// Physical core, unique over the machine (not per socket as in sysfs).
    pub core: u32,
    /// The number of the last-level cache, unique over the machine.
    pub llc: u32,
    /// The number of the CPU's NUMA node.
    pub node: u32,
    /// The number of the CPU's socket (physical package).
    pub socket: u32,
}

/// How far apart two CPUs are, nearest first.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    schemars::JsonSchema,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// Both CPUs are the same one.
    Same,
    /// Hardware threads of one core.
    Smt,
    /// Cores that share their last-level cache.
    Llc,
    /// Different caches of one NUMA node.
    Node,
    /// Different nodes of one socket.
    Socket,
    /// The CPUs are in different sockets.
    Machine,
}

impl Distance {
    /// All distances, nearest first.
    pub const ALL: [Self; 6] =
        [Self::Same, Self::Smt, Self::Llc, Self::Node, Self::Socket, Self::Machine];

    /// The nearest level that the two share, as people say it: `same core`, `same LLC`, ...
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same CPU",
            Self::Smt => "same core",
            Self::Llc => "same LLC",
            Self::Node => "same node",
            Self::Socket => "same socket",
            Self::Machine => "other socket",
        }
    }
}

/// The places of all CPUs of a machine, in ascending order of CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Topology {
    places: Vec<Place>,
}

impl Topology {
    /// From places in any order; a CPU named twice keeps its first place.
    #[must_use]
    pub fn new(mut places: Vec<Place>) -> Self {
        places.sort_by_key(|place| place.cpu);
        places.dedup_by_key(|place| place.cpu);
        Self { places }
    }

    /// `count` CPUs, each a core of its own, in one LLC, node and socket.
    #[must_use]
    pub fn flat(count: u16) -> Self {
        let place =
            |cpu: u16| Place { cpu: Cpu(cpu), core: cpu.into(), llc: 0, node: 0, socket: 0 };
        Self { places: (0..count).map(place).collect() }
    }

    /// In ascending order of CPU.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The place of `cpu`, if it is known.
    #[must_use]
    pub fn place(&self, cpu: Cpu) -> Option<&Place> {
        // Most machines number their CPUs without holes, so the index is the first guess.
        self.places.get(cpu.index()).filter(|place| place.cpu == cpu).or_else(|| {
            let at = self.places.binary_search_by_key(&cpu, |place| place.cpu).ok()?;
            self.places.get(at)
        })
    }

    /// All CPUs whose place is known.
    #[must_use]
    pub fn cpus(&self) -> CpuSet {
        self.places.iter().map(|place| place.cpu).collect()
    }

    /// How far apart two CPUs are; `None` when one is unknown.
    #[must_use]
    pub fn distance(&self, a: Cpu, b: Cpu) -> Option<Distance> {
        let a = self.place(a)?;
        let b = self.place(b)?;
        Some(match () {
            () if a.cpu == b.cpu => Distance::Same,
            () if a.core == b.core => Distance::Smt,
            () if a.llc == b.llc => Distance::Llc,
            () if a.node == b.node => Distance::Node,
            () if a.socket == b.socket => Distance::Socket,
            () => Distance::Machine,
        })
    }

    /// CPUs ordered so that sockets, nodes, LLCs and SMT siblings each stand together.
    #[must_use]
    pub fn socket_order(&self) -> Vec<Cpu> {
        let mut places = self.places.clone();
        places.sort_by_key(|p| (p.socket, p.node, p.llc, p.core, p.cpu));
        places.into_iter().map(|place| place.cpu).collect()
    }

    /// The CPUs of each group under `key`, groups in order of their label.
    #[must_use]
    pub fn groups(&self, key: impl Fn(&Place) -> u32) -> Vec<(u32, CpuSet)> {
        let mut groups = std::collections::BTreeMap::<u32, CpuSet>::new();
        for place in &self.places {
            groups.entry(key(place)).or_default().insert(place.cpu);
        }
        groups.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets, CPUs dealt round-robin over them, two threads a core.
    fn two_sockets() -> Topology {
        let place = |cpu: u16| Place {
            cpu: Cpu(cpu),
            core: u32::from(cpu % 4),
            llc: u32::from(cpu % 2),
            node: u32::from(cpu % 2),
            socket: u32::from(cpu % 2),
        };
        Topology::new((0..8).rev().map(place).collect())
    }

    #[test]
    fn distance_is_the_nearest_shared_level() {
        let topology = two_sockets();
        let far = |a, b| topology.distance(Cpu(a), Cpu(b));
        assert_eq!(far(0, 0), Some(Distance::Same));
        assert_eq!(far(0, 4), Some(Distance::Smt));
        assert_eq!(far(0, 2), Some(Distance::Llc));
        assert_eq!(far(0, 1), Some(Distance::Machine));
        assert_eq!(far(0, 9), None);
    }

    #[test]
    fn socket_order_keeps_siblings_together() {
        let order: Vec<u16> = two_sockets().socket_order().iter().map(|cpu| cpu.0).collect();
        assert_eq!(order, [0, 4, 2, 6, 1, 5, 3, 7]);
    }
}
