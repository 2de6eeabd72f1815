//! Feature sections: what perf kept about the machine.

use crate::input::{Cursor, Stop};
use schedlab_model::{Cpu, CpuSet, Place, Topology};
use std::collections::BTreeMap;

pub(crate) const TRACING_DATA: u32 = 1;
pub(crate) const OSRELEASE: u32 = 4;
pub(crate) const NRCPUS: u32 = 7;
pub(crate) const CPU_TOPOLOGY: u32 = 13;
pub(crate) const NUMA_TOPOLOGY: u32 = 14;
pub(crate) const CACHE: u32 = 20;
pub(crate) const SAMPLE_TIME: u32 = 21;
/// Nobody has more groups of CPUs than this.
const GROUPS_MAX: u32 = 1 << 16;

/// What the features say about the CPUs, gathered until all have been read.
#[derive(Debug, Default)]
pub(crate) struct Hardware {
    sockets: Vec<CpuSet>,
    cores: Vec<CpuSet>,
    nodes: Vec<(u32, CpuSet)>,
    /// Level and CPUs of each cache.
    caches: Vec<(u32, CpuSet)>,
}

/// A text with its length before it.
pub(crate) fn string(cursor: &mut Cursor<'_>) -> Result<String, Stop> {
    let length = cursor.u32()?;
    let bytes = cursor.bytes(length.into())?;
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

fn lists(cursor: &mut Cursor<'_>) -> Result<Vec<CpuSet>, Stop> {
    let count = cursor.u32()?.min(GROUPS_MAX);
    let mut lists = Vec::new();
    for _ in 0..count {
        lists.extend(string(cursor)?.parse::<CpuSet>().ok());
    }
    Ok(lists)
}

impl Hardware {
    /// Takes in one feature; those that say nothing about CPUs are passed over.
    pub(crate) fn read(&mut self, feature: u32, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        match feature {
            CPU_TOPOLOGY => {
                self.sockets = lists(cursor)?;
                self.cores = lists(cursor)?;
            }
            NUMA_TOPOLOGY => {
                for _ in 0..cursor.u32()?.min(GROUPS_MAX) {
                    let node = cursor.u32()?;
                    let _memory = (cursor.u64()?, cursor.u64()?);
                    self.nodes.extend(string(cursor)?.parse().ok().map(|cpus| (node, cpus)));
                }
            }
            CACHE => {
                let _version = cursor.u32()?;
                for _ in 0..cursor.u32()?.min(GROUPS_MAX) {
                    let level = cursor.u32()?;
                    let _shape = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
                    let _kind = (string(cursor)?, string(cursor)?);
                    self.caches.extend(string(cursor)?.parse().ok().map(|cpus| (level, cpus)));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The topology; `None` when perf kept none.
    pub(crate) fn topology(&self) -> Option<Topology> {
        let last = self.caches.iter().map(|cache| cache.0).max();
        let label = |groups: &mut dyn Iterator<Item = (u32, &CpuSet)>| {
            let mut labels = BTreeMap::<Cpu, u32>::new();
            for (label, cpus) in groups {
                for cpu in cpus.iter() {
                    labels.entry(cpu).or_insert(label);
                }
            }
            labels
        };
        let numbered = |sets: &[CpuSet]| label(&mut (0..).zip(sets));
        let sockets = numbered(&self.sockets);
        let cores = numbered(&self.cores);
        let nodes = label(&mut self.nodes.iter().map(|(node, cpus)| (*node, cpus)));
        let caches = self.caches.iter().filter(|cache| Some(cache.0) == last);
        let caches = label(&mut (0..).zip(caches.map(|cache| &cache.1)));
        if cores.is_empty() {
            return None;
        }
        let place = |(&cpu, &core): (&Cpu, &u32)| {
            let socket = sockets.get(&cpu).copied().unwrap_or(0);
            let llc = caches.get(&cpu).copied().unwrap_or(socket);
            let node = nodes.get(&cpu).copied().unwrap_or(socket);
            Place { cpu, core, llc, node, socket }
        };
        Some(Topology::new(cores.iter().map(place).collect()))
    }
}
