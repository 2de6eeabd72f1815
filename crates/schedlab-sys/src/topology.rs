//! Topology from sysfs: which CPUs share a core, a last-level cache, a node, a socket.

use schedlab_model::{Cpu, CpuSet, Place, Topology};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// CPUs that are online. `root` is `/sys`, or a tree like it.
///
/// # Errors
/// When `devices/system/cpu/online` cannot be read or is no list.
pub fn online(root: &Path) -> io::Result<CpuSet> {
    let path = root.join("devices/system/cpu/online");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    text.parse().map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}

/// How the online CPUs share hardware. What sysfs does not tell is taken as: a core of its own, the
/// socket's cache, node 0, socket 0.
///
/// # Errors
/// When the online CPUs cannot be read.
pub fn read(root: &Path) -> io::Result<Topology> {
    let online = online(root)?;
    let nodes = nodes(root);
    let mut cores = Labels::default();
    let mut caches = Labels::default();
    let places = online.iter().map(|cpu| {
        let dir = root.join(format!("devices/system/cpu/cpu{cpu}"));
        let socket = number(&dir.join("topology/physical_package_id")).unwrap_or(0);
        let siblings = list(&dir.join("topology/core_cpus_list"))
            .or_else(|| list(&dir.join("topology/thread_siblings_list")))
            .unwrap_or_else(|| [cpu].into_iter().collect());
        let package = || {
            list(&dir.join("topology/package_cpus_list"))
                .or_else(|| list(&dir.join("topology/core_siblings_list")))
                .unwrap_or_else(|| online.clone())
        };
        let cache = last_level_cache(&dir).unwrap_or_else(package);
        Place {
            cpu,
            core: cores.of(siblings),
            llc: caches.of(cache),
            node: nodes.get(&cpu).copied().unwrap_or(0),
            socket,
        }
    });
    Ok(Topology::new(places.collect()))
}

/// Numbers sets in the order in which they are met.
#[derive(Default)]
struct Labels(BTreeMap<CpuSet, u32>);

impl Labels {
    fn of(&mut self, set: CpuSet) -> u32 {
        let next = u32::try_from(self.0.len()).expect("fewer groups than CPUs");
        *self.0.entry(set).or_insert(next)
    }
}

/// The CPUs that share the data or unified cache of the highest level.
fn last_level_cache(cpu: &Path) -> Option<CpuSet> {
    let entries = std::fs::read_dir(cpu.join("cache")).ok()?;
    let caches = entries.flatten().map(|entry| entry.path()).filter(|path| {
        let kind = std::fs::read_to_string(path.join("type")).unwrap_or_default();
        kind.trim() != "Instruction"
    });
    let largest = caches.filter_map(|path| Some((number(&path.join("level"))?, path))).max()?;
    list(&largest.1.join("shared_cpu_list"))
}

fn nodes(root: &Path) -> BTreeMap<Cpu, u32> {
    let entries = std::fs::read_dir(root.join("devices/system/node")).into_iter().flatten();
    let numbered = entries.flatten().filter_map(|entry| {
        let number = entry.file_name().to_str()?.strip_prefix("node")?.parse::<u32>().ok()?;
        Some((number, list(&entry.path().join("cpulist"))?))
    });
    numbered
        .flat_map(|(node, cpus)| cpus.iter().map(|cpu| (cpu, node)).collect::<Vec<_>>())
        .collect()
}

fn list(path: &Path) -> Option<CpuSet> {
    let set: CpuSet = std::fs::read_to_string(path).ok()?.parse().ok()?;
    (!set.is_empty()).then_some(set)
}

/// A number; the kernel writes -1 for "not known".
fn number(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Two sockets of two cores of two threads; CPU 5 is offline; each socket is a node with an L3.
    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "devices/system/cpu/online", "0-4,6-7\n");
        write(root, "devices/system/node/node0/cpulist", "0-1,4-5\n");
        write(root, "devices/system/node/node1/cpulist", "2-3,6-7\n");
        for cpu in [0, 1, 2, 3, 4, 6, 7] {
            let at = |file: &str| format!("devices/system/cpu/cpu{cpu}/{file}");
            let core = cpu % 4;
            let siblings = if core == 1 { "1".into() } else { format!("{core},{}", core + 4) };
            write(root, &at("topology/core_cpus_list"), &siblings);
            let (socket, cpus) = if core < 2 { ("0", "0-1,4-5") } else { ("1", "2-3,6-7") };
            write(root, &at("topology/physical_package_id"), socket);
            for (index, level, kind, shared) in [
                (0, "1", "Data", siblings.as_str()),
                (1, "1", "Instruction", siblings.as_str()),
                (3, "3", "Unified", cpus),
            ] {
                write(root, &at(&format!("cache/index{index}/level")), level);
                write(root, &at(&format!("cache/index{index}/type")), kind);
                write(root, &at(&format!("cache/index{index}/shared_cpu_list")), shared);
            }
        }
        dir
    }

    #[test]
    fn threads_caches_nodes_and_sockets_are_told_apart() {
        use schedlab_model::Distance::{Llc, Machine, Smt};
        let dir = tree();
        let topology = read(dir.path()).unwrap();
        let far = |a, b| topology.distance(Cpu(a), Cpu(b)).unwrap();
        assert_eq!(topology.cpus().to_string(), "0-4,6-7");
        assert_eq!((far(0, 4), far(0, 1), far(0, 2), far(2, 6)), (Smt, Llc, Machine, Smt));
        assert_eq!(topology.place(Cpu(6)).unwrap().node, 1);
    }

    #[test]
    fn a_bare_tree_is_cores_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "devices/system/cpu/online", "0-1");
        assert_eq!(read(dir.path()).unwrap(), Topology::flat(2));
        assert!(read(&dir.path().join("nothing")).is_err());
    }
}
