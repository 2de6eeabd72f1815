//! Scheduler domains (Linux 6.1.192, kernel/sched/topology.c: `sd_init`, `build_sched_domains`).
//!
//! A level divides the machine into domains, and a domain into groups: the domains of the level below, or single
//! CPUs. A level whose domains are those of the level below is left out, as the kernel does (`sd_degenerate`).

use crate::policy_view::Hardware;
use schedlab_model::Place;

/// What the CPUs of a domain share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The threads of a core.
    Smt,
    /// The cores of a last-level cache.
    Mc,
    /// The caches of a NUMA node.
    Die,
    /// The nodes of the machine.
    Numa,
}

#[derive(Debug)]
pub(super) struct Level {
    pub(super) kind: Kind,
    domain: Vec<usize>,
    /// The CPUs of each domain, ascending.
    spans: Vec<Vec<usize>>,
    group: Vec<usize>,
    /// The CPUs of each group, ascending.
    groups: Vec<Vec<usize>>,
    /// The groups of each domain, ascending.
    parts: Vec<Vec<usize>>,
    /// Groups in which affinity kept a level below from its balance (`sgc->imbalance`).
    pub(super) imbalanced: Vec<bool>,
    /// Whether the level below wants its tasks spread over its domains (`SD_PREFER_SIBLING`).
    pub(super) prefer_sibling: bool,
    /// The domains whose CPUs differ in capacity (`SD_ASYM_CPUCAPACITY`).
    asymmetric: Vec<bool>,
    /// Running tasks up to which an imbalance of two between nodes is allowed (`imb_numa_nr`).
    pub(super) imb_numa_nr: usize,
}

impl Level {
    /// Percents by which the load of groups may differ (`imbalance_pct`).
    pub(super) fn imbalance_pct(&self) -> u64 {
        if self.kind == Kind::Smt { 110 } else { 117 }
    }

    /// Failed attempts after which a task moves although its cache is hot (`cache_nice_tries`).
    pub(super) fn cache_nice_tries(&self) -> u32 {
        match self.kind {
            Kind::Smt => 0,
            Kind::Mc | Kind::Die => 1,
            Kind::Numa => 2,
        }
    }

    /// Whether the CPUs of a domain share a cache (`SD_SHARE_PKG_RESOURCES`).
    pub(super) fn shares_cache(&self) -> bool {
        matches!(self.kind, Kind::Smt | Kind::Mc)
    }

    pub(super) fn span(&self, cpu: usize) -> &[usize] {
        &self.spans[self.domain[cpu]]
    }

    /// Whether the CPUs of the domain that `cpu` is in differ in capacity.
    pub(super) fn is_asymmetric(&self, cpu: usize) -> bool {
        self.asymmetric[self.domain[cpu]]
    }

    pub(super) fn group_of(&self, cpu: usize) -> usize {
        self.group[cpu]
    }

    pub(super) fn group(&self, group: usize) -> &[usize] {
        &self.groups[group]
    }

    /// The groups of the domain that `cpu` is in, its own first.
    pub(super) fn groups(&self, cpu: usize) -> impl Iterator<Item = usize> {
        let parts = &self.parts[self.domain[cpu]];
        let own = parts.iter().position(|&group| group == self.group[cpu]).unwrap_or(0);
        parts[own..].iter().chain(&parts[..own]).copied()
    }
}

/// The levels of a machine, smallest domains first.
pub(super) fn levels(hardware: &Hardware) -> Vec<Level> {
    let places = hardware.topology().places();
    let by = |label: &dyn Fn(&Place) -> u32| places.iter().map(label).collect::<Vec<u32>>();
    let labels = [
        (Kind::Smt, by(&|place| place.core)),
        (Kind::Mc, by(&|place| place.llc)),
        (Kind::Die, by(&|place| place.node)),
        (Kind::Numa, by(&|_| 0)),
    ];
    let nodes = parts(&labels[2].1).1.len();
    let (mut group, mut groups) = parts(&by(&|place| place.cpu.0.into()));
    let mut levels: Vec<Level> = Vec::new();
    for (kind, labels) in labels {
        let (domain, spans) = parts(&labels);
        // More than one CPU but one node: the level of the node has them all.
        if spans == groups || (kind == Kind::Numa && nodes == 1) {
            continue;
        }
        let within = |span: &Vec<usize>| {
            let mut within: Vec<usize> = span.iter().map(|&cpu| group[cpu]).collect();
            within.sort_unstable();
            within.dedup();
            within
        };
        let differ = |span: &Vec<usize>| {
            span.iter().any(|&cpu| hardware.capacity(cpu) != hardware.capacity(span[0]))
        };
        let level = Level {
            kind,
            asymmetric: spans.iter().map(differ).collect(),
            parts: spans.iter().map(within).collect(),
            imbalanced: vec![false; groups.len()],
            prefer_sibling: levels.last().is_some_and(|child| child.kind != Kind::Numa),
            imb_numa_nr: allowed_between_nodes(hardware, nodes),
            group: std::mem::replace(&mut group, domain.clone()),
            groups: std::mem::replace(&mut groups, spans.clone()),
            domain,
            spans,
        };
        levels.push(level);
    }
    levels
}

/// `imb_numa_nr` of the level of all nodes: an eighth of a node's CPUs, or its LLCs where it has several.
fn allowed_between_nodes(hardware: &Hardware, nodes: usize) -> usize {
    let llcs = hardware.llcs().len() / nodes.max(1);
    if llcs > 1 { llcs } else { (hardware.cpus() / nodes.max(1) / 8).max(1) }
}

/// The part of each CPU, and the CPUs of each part, by a label.
fn parts(labels: &[u32]) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut names = labels.to_vec();
    names.sort_unstable();
    names.dedup();
    let part: Vec<usize> =
        labels.iter().map(|label| names.binary_search(label).unwrap_or(0)).collect();
    let mut cpus = vec![Vec::new(); names.len()];
    for (cpu, &part) in part.iter().enumerate() {
        cpus[part].push(cpu);
    }
    (part, cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Cpu, Place, Topology};

    fn machine(sockets: u32, cores: u32, threads: u32) -> Hardware {
        let all = sockets * cores;
        let place = |cpu: u32| {
            let core = cpu % all;
            let socket = core / cores;
            let cpu = Cpu(u16::try_from(cpu).unwrap());
            Place { cpu, core, llc: socket, node: socket, socket }
        };
        Hardware::new(Topology::new((0..all * threads).map(place).collect()))
    }

    #[test]
    fn levels_that_add_nothing_are_left_out() {
        let kinds = |hardware: &Hardware| {
            levels(hardware).iter().map(|level| level.kind).collect::<Vec<Kind>>()
        };
        assert!(kinds(&machine(1, 1, 1)).is_empty());
        assert_eq!(kinds(&machine(1, 4, 1)), [Kind::Mc]);
        assert_eq!(kinds(&machine(1, 4, 2)), [Kind::Smt, Kind::Mc]);
        assert_eq!(kinds(&machine(4, 16, 2)), [Kind::Smt, Kind::Mc, Kind::Numa]);
    }

    #[test]
    fn groups_are_the_domains_below_and_the_own_comes_first() {
        let levels = levels(&machine(2, 2, 2));
        // Threads of core c are CPUs c and c + 4.
        assert_eq!(levels[0].span(5), [1, 5]);
        assert_eq!(levels[1].span(1), [0, 1, 4, 5]);
        assert_eq!(levels[1].group(levels[1].group_of(1)), [1, 5]);
        let of = |cpu| levels[2].groups(cpu).map(|g| levels[2].group(g)[0]).collect::<Vec<_>>();
        assert_eq!((of(0), of(3)), (vec![0, 2], vec![2, 0]));
        assert!(!levels[0].prefer_sibling && levels[1].prefer_sibling && levels[2].prefer_sibling);
    }
}
