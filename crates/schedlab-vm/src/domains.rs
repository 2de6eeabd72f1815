//! The scheduler domains that a guest's kernel built: in words, and beside what was asked for.

use crate::VmError;
use crate::frame::Domain;
use crate::request::{Arrangement, Request};
use schedlab_model::{Cpu, CpuSet};
use std::collections::BTreeMap;

/// Flags of a domain whose CPUs share a last-level cache: before Linux 6.10, and since.
const SHARES_CACHE: [&str; 2] = ["SD_SHARE_PKG_RESOURCES", "SD_SHARE_LLC"];
/// Flag of a domain whose CPUs are threads of one core.
const SHARES_CORE: [&str; 1] = ["SD_SHARE_CPUCAPACITY"];
/// Flag of a domain that holds CPUs of several nodes.
const CROSSES_NODES: [&str; 1] = ["SD_NUMA"];

/// All domains in words, CPUs with the same ones together: `CPUs 0-3: MC 0-3, PKG 0-7`.
pub(crate) fn in_words(domains: &[Vec<Domain>]) -> String {
    let mut groups: BTreeMap<String, CpuSet> = BTreeMap::new();
    for (cpu, all) in (0..).map(Cpu).zip(domains) {
        let one = |domain: &Domain| format!("{} {}", domain.name, domain.cpus).trim().to_owned();
        let words: Vec<String> = all.iter().map(one).collect();
        let words = if words.is_empty() { "none".to_owned() } else { words.join(", ") };
        groups.entry(words).or_default().insert(cpu);
    }
    let mut groups: Vec<(String, CpuSet)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, cpus)| cpus.iter().next());
    let groups: Vec<String> =
        groups.into_iter().map(|(words, cpus)| format!("CPUs {cpus}: {words}")).collect();
    if groups.is_empty() { "not told".to_owned() } else { groups.join(" / ") }
}

/// The domains must be those of the arrangement that was asked for: the widest one of each CPU holds
/// all CPUs, the widest one below NUMA holds its node, the widest one that shares a cache holds its
/// socket, and the one that shares a core holds its threads. Nothing is checked where the kernel does not
/// tell which CPUs a domain has.
pub(crate) fn check(request: &Request, domains: &[Vec<Domain>]) -> Result<(), VmError> {
    for (cpu, all) in domains.iter().enumerate() {
        let told: Vec<&Domain> = all.iter().filter(|domain| !domain.cpus.is_empty()).collect();
        if let Some((key, value, why)) = wrong(request, cpu, &told) {
            return Err(VmError::Setting {
                key: key.to_owned(),
                value: value.to_string(),
                why: format!("{why}: {}", in_words(domains)),
            });
        }
    }
    Ok(())
}

/// The setting of the request that the guest's domains of one CPU contradict, with its value and the reason.
fn wrong(request: &Request, cpu: usize, told: &[&Domain]) -> Option<(&'static str, u32, String)> {
    let cpus = request.cpus;
    let Arrangement { sockets, threads, nodes } = request.topology;
    let widest = |fits: &dyn Fn(&Domain) -> bool| {
        told.iter().rfind(|domain| fits(domain)).map(|domain| domain.cpus.len())
    };
    let has =
        |domain: &Domain, flags: &[&str]| flags.iter().any(|flag| domain.flags.contains(flag));
    let seen = widest(&|_| true)?;
    if seen != cpus as usize {
        return Some(("cpus", cpus, format!("no scheduler domain of CPU {cpu} holds all CPUs")));
    }
    let node = widest(&|domain| !has(domain, &CROSSES_NODES));
    let core = widest(&|domain| has(domain, &SHARES_CORE));
    let parts = [
        ("nodes", nodes, cpus / nodes, node.or(Some(1))),
        // A kernel without CONFIG_SCHED_MC has none.
        ("sockets", sockets, cpus / sockets, widest(&|domain| has(domain, &SHARES_CACHE))),
        ("threads", threads, threads, core.or(Some(1))),
    ];
    let differs = |(_, _, wanted, seen): &(&str, u32, u32, Option<usize>)| {
        seen.is_some_and(|seen| seen != *wanted as usize)
    };
    let (key, value, wanted, _) = parts.into_iter().find(differs)?;
    let why = match key {
        "threads" => format!("the scheduler does not see cores of {wanted} threads"),
        _ => format!("the scheduler does not see {key} of {wanted} CPUs"),
    };
    Some((key, value, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(name: &str, flags: &str, cpus: &str) -> Domain {
        Domain { name: name.to_owned(), flags: flags.to_owned(), cpus: cpus.parse().unwrap() }
    }

    fn two_sockets() -> Vec<Vec<Domain>> {
        let of = |socket: &str| {
            vec![
                domain("MC", "SD_LOAD_BALANCE SD_SHARE_LLC", socket),
                domain("PKG", "SD_LOAD_BALANCE", "0-3"),
            ]
        };
        vec![of("0-1"), of("0-1"), of("2-3"), of("2-3")]
    }

    fn request(cpus: u32, sockets: u32) -> Request {
        arranged(cpus, Arrangement { sockets, threads: 1, nodes: 1 })
    }

    fn arranged(cpus: u32, topology: Arrangement) -> Request {
        Request { cpus, topology, ..Request::new("x".to_owned()) }
    }

    #[test]
    fn cpus_with_the_same_domains_stand_together() {
        let words = "CPUs 0-1: MC 0-1, PKG 0-3 / CPUs 2-3: MC 2-3, PKG 0-3";
        assert_eq!(in_words(&two_sockets()), words);
        assert_eq!(in_words(&[Vec::new()]), "CPUs 0: none");
        assert_eq!(in_words(&[]), "not told");
    }

    #[test]
    fn threads_and_nodes_are_those_that_were_asked_for() {
        let of = |core: &str, node: &str| {
            vec![
                domain("SMT", "SD_SHARE_CPUCAPACITY SD_SHARE_PKG_RESOURCES", core),
                domain("MC", "SD_SHARE_PKG_RESOURCES", node),
                domain("NUMA", "SD_SERIALIZE SD_NUMA", "0-7"),
            ]
        };
        let pairs = ["0-1", "2-3", "4-5", "6-7"];
        let all: Vec<Vec<Domain>> =
            (0..8).map(|cpu| of(pairs[cpu / 2], if cpu < 4 { "0-3" } else { "4-7" })).collect();
        let told = |sockets, threads, nodes| {
            let request = arranged(8, Arrangement { sockets, threads, nodes });
            check(&request, &all).map_err(|error| error.to_string())
        };
        told(2, 2, 2).unwrap();
        let why = told(2, 1, 2).unwrap_err();
        assert!(why.starts_with("vm:threads=1: the scheduler does not see cores of 1"), "{why}");
        let why = told(2, 2, 1).unwrap_err();
        assert!(why.starts_with("vm:nodes=1: the scheduler does not see nodes of 8"), "{why}");
        let flat = vec![vec![domain("MC", "SD_SHARE_LLC", "0-1")]; 2];
        let request = arranged(2, Arrangement { sockets: 1, threads: 2, nodes: 1 });
        let why = check(&request, &flat).unwrap_err().to_string();
        assert!(why.starts_with("vm:threads=2: the scheduler does not see cores of 2"), "{why}");
    }

    #[test]
    fn domains_that_differ_from_the_arrangement_are_refused() {
        check(&request(4, 2), &two_sockets()).unwrap();
        let why = check(&request(4, 1), &two_sockets()).unwrap_err().to_string();
        assert!(why.starts_with("vm:sockets=1: the scheduler does not see sockets of 4"), "{why}");
        let why = check(&request(8, 2), &two_sockets()).unwrap_err().to_string();
        assert!(why.contains("no scheduler domain of CPU 0 holds all CPUs: CPUs 0-1: MC"), "{why}");
        // A kernel that does not tell the CPUs of its domains, and one CPU without any.
        check(&request(2, 2), &[vec![domain("MC", "", "")]]).unwrap();
        check(&request(1, 1), &[Vec::new()]).unwrap();
    }
}
