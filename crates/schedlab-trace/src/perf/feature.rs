//! Feature sections: what perf kept about the machine.

use crate::input::{Cursor, Stop};
use schedlab_model::{Cpu, CpuSet, Place, Topology};
use std::collections::BTreeMap;

pub(crate) const TRACING_DATA: u32 = 1;
pub(crate) const BUILD_ID: u32 = 2;
pub(crate) const OSRELEASE: u32 = 4;
pub(crate) const NRCPUS: u32 = 7;
pub(crate) const CPU_TOPOLOGY: u32 = 13;
pub(crate) const NUMA_TOPOLOGY: u32 = 14;
pub(crate) const CACHE: u32 = 20;
pub(crate) const SAMPLE_TIME: u32 = 21;
/// Nobody has more groups of CPUs than this.
const GROUPS_MAX: u32 = 1 << 16;

/// Bytes that a set takes beside its CPUs.
const SET: u64 = 64;

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
        lists.extend(set(cursor)?);
    }
    Ok(lists)
}

/// CPUs by their numbers: a few letters name all that can be.
fn set(cursor: &mut Cursor<'_>) -> Result<Option<CpuSet>, Stop> {
    let set = string(cursor)?.parse::<CpuSet>().ok();
    cursor.take(SET + set.as_ref().map_or(0, |set| size_of_val(set.words()) as u64))?;
    Ok(set)
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
                    self.nodes.extend(set(cursor)?.map(|cpus| (node, cpus)));
                }
            }
            CACHE => {
                let _version = cursor.u32()?;
                for _ in 0..cursor.u32()?.min(GROUPS_MAX) {
                    let level = cursor.u32()?;
                    let _shape = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
                    let _kind = (string(cursor)?, string(cursor)?);
                    self.caches.extend(set(cursor)?.map(|cpus| (level, cpus)));
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
            let mut known = Vec::new();
            for (label, cpus) in groups {
                // By words: a file may name all CPUs thousands of times.
                let words = cpus.words();
                known.resize(known.len().max(words.len()), 0);
                let new: Vec<u64> = words.iter().zip(&known).map(|(new, old)| new & !old).collect();
                labels.extend(CpuSet::from_words(&new).iter().map(|cpu| (cpu, label)));
                known.iter_mut().zip(words).for_each(|(old, new)| *old |= new);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Encoding;
    use crate::input::Input;
    use std::path::Path;

    /// Content of a feature: numbers, and texts with their lengths before them.
    #[derive(Default)]
    struct Content(Vec<u8>);

    impl Content {
        fn u32(mut self, number: u32) -> Self {
            self.0.extend(number.to_le_bytes());
            self
        }

        fn u64(mut self, number: u64) -> Self {
            self.0.extend(number.to_le_bytes());
            self
        }

        /// As perf writes it: padded with NULs.
        fn text(self, text: &str) -> Self {
            let mut of = self.u32(16);
            of.0.extend(text.bytes());
            of.0.resize(of.0.len() + 16 - text.len(), 0);
            of
        }

        fn read(self, hardware: &mut Hardware, feature: u32) -> Result<(), Stop> {
            let input = Input::memory(Path::new("x"), self.0);
            hardware.read(feature, &mut Cursor::new(&input, Encoding::default(), 0))
        }
    }

    /// Two sockets of two cores with two threads each.
    fn cores(hardware: &mut Hardware) {
        let sockets = Content::default().u32(2).text("0-3").text("4-7");
        let cores = sockets.u32(4).text("0-1").text("2-3").text("4-5").text("6-7");
        cores.read(hardware, CPU_TOPOLOGY).unwrap();
    }

    fn place(hardware: &Hardware, cpu: u16) -> (u32, u32, u32, u32) {
        let topology = hardware.topology().unwrap();
        let place = topology.place(Cpu(cpu)).unwrap();
        (place.core, place.llc, place.node, place.socket)
    }

    #[test]
    fn threads_of_a_core_and_cores_of_a_socket_are_told_apart() {
        let mut hardware = Hardware::default();
        assert!(hardware.topology().is_none(), "nothing is known");
        cores(&mut hardware);
        assert_eq!(hardware.topology().unwrap().places().len(), 8);
        let places = [0, 1, 2, 4, 7].map(|cpu| place(&hardware, cpu));
        // Without caches and nodes, those of a socket share both.
        assert_eq!(places, [(0, 0, 0, 0), (0, 0, 0, 0), (1, 0, 0, 0), (2, 1, 1, 1), (3, 1, 1, 1)]);
    }

    #[test]
    fn nodes_have_the_numbers_that_perf_kept() {
        let mut hardware = Hardware::default();
        cores(&mut hardware);
        let nodes = Content::default().u32(2);
        let nodes = nodes.u32(5).u64(100).u64(50).text("0-5").u32(9).u64(100).u64(50).text("0-7");
        nodes.read(&mut hardware, NUMA_TOPOLOGY).unwrap();
        // A CPU belongs to the first that names it.
        assert_eq!([0, 5, 6].map(|cpu| place(&hardware, cpu).2), [5, 5, 9]);
    }

    #[test]
    fn the_last_level_of_caches_counts() {
        let mut hardware = Hardware::default();
        cores(&mut hardware);
        let cache = |content: Content, level, cpus| {
            content.u32(level).u32(64).u32(512).u32(8).text("Data").text("48K").text(cpus)
        };
        let caches = cache(Content::default().u32(1).u32(4), 1, "0-1");
        let caches = cache(cache(caches, 3, "0-3"), 3, "4-5");
        cache(caches, 3, "6-7").read(&mut hardware, CACHE).unwrap();
        assert_eq!([0, 3, 4, 7].map(|cpu| place(&hardware, cpu).1), [0, 0, 1, 2]);
    }

    #[test]
    fn a_feature_that_is_cut_is_an_error_and_an_unknown_one_is_passed_over() {
        let mut hardware = Hardware::default();
        assert!(Content::default().u32(2).text("0-3").read(&mut hardware, CPU_TOPOLOGY).is_err());
        assert!(Content::default().u32(1).u32(5).read(&mut hardware, NUMA_TOPOLOGY).is_err());
        assert!(Content::default().read(&mut hardware, 77).is_ok());
        assert!(hardware.topology().is_none());
    }

    #[test]
    fn a_text_ends_at_its_nul() {
        let input = Input::memory(Path::new("x"), Content::default().text("6.18.1").0);
        let mut cursor = Cursor::new(&input, Encoding::default(), 0);
        assert_eq!(string(&mut cursor).unwrap(), "6.18.1");
        assert_eq!(cursor.offset(), 20, "and its padding is passed over");
    }
}
