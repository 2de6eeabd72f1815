//! Idle cores: the same matching with cores of which all CPUs are free, where cores have several CPUs.

use super::matching::Matching;
use schedlab_model::{Cpu, CpuSet, Nanos, Topology};

/// Which cores are idle, and how many waiting tasks they could serve.
#[derive(Debug)]
pub(super) struct Cores {
    /// By CPU: the first CPU of its core, which stands for it.
    first: Vec<Cpu>,
    /// By first CPU: how many CPUs the core has, and how many of them are free.
    cpus: Vec<(u32, u32)>,
    pub(super) matching: Matching,
}

impl Cores {
    /// `None` where no core has several CPUs.
    pub(super) fn new(topology: &Topology, masks: &[Option<CpuSet>]) -> Option<Self> {
        let mut first = Vec::new();
        let mut cpus: Vec<(u32, u32)> = Vec::new();
        for (_, members) in topology.groups(|place| place.core) {
            let Some(leader) = members.iter().next() else { continue };
            if leader.index() >= cpus.len() {
                cpus.resize(leader.index() + 1, (0, 0));
            }
            cpus[leader.index()].0 = u32::try_from(members.len()).unwrap_or(u32::MAX);
            for cpu in members.iter() {
                if cpu.index() >= first.len() {
                    first.resize_with(cpu.index() + 1, || cpu);
                }
                first[cpu.index()] = leader;
            }
        }
        if cpus.iter().all(|(count, _)| *count < 2) {
            return None;
        }
        let leader = |cpu: Cpu| first.get(cpu.index()).copied().unwrap_or(cpu);
        let masks: Vec<_> = masks
            .iter()
            .map(|mask| mask.as_ref().map(|mask| mask.iter().map(leader).collect()))
            .collect();
        let matching = Matching::new(&masks);
        Some(Self { first, cpus, matching })
    }

    /// A CPU is free, or not, from now on.
    pub(super) fn set(&mut self, cpu: Cpu, is_free: bool, at: Nanos) {
        let Some(leader) = self.first.get(cpu.index()).copied() else { return };
        let Some((count, free)) = self.cpus.get_mut(leader.index()) else { return };
        if is_free {
            *free += 1;
            if free == count {
                self.matching.free(leader, at);
            }
        } else {
            if free == count {
                self.matching.take(leader, at);
            }
            *free -= 1;
        }
    }
}
