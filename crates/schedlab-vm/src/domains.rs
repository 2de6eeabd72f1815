//! The scheduler domains that a guest's kernel built: in words, and beside what was asked for.

use crate::VmError;
use crate::frame::Domain;
use crate::request::Request;
use schedlab_model::{Cpu, CpuSet};
use std::collections::BTreeMap;

/// Flags of a domain whose CPUs share a last-level cache: before Linux 6.10, and since.
const SHARES_CACHE: [&str; 2] = ["SD_SHARE_PKG_RESOURCES", "SD_SHARE_LLC"];

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
/// all CPUs, and the widest one that shares a cache holds its socket. Nothing is checked where the
/// kernel does not tell which CPUs a domain has.
pub(crate) fn check(request: &Request, domains: &[Vec<Domain>]) -> Result<(), VmError> {
    let told = |domain: &&Domain| !domain.cpus.is_empty();
    let wrong = |key: &str, value: u32, why: String| VmError::Setting {
        key: key.to_owned(),
        value: value.to_string(),
        why: format!("{why}: {}", in_words(domains)),
    };
    for (cpu, all) in domains.iter().enumerate() {
        let Some(widest) = all.iter().rfind(told) else { continue };
        if widest.cpus.len() != request.cpus as usize {
            let why = format!("no scheduler domain of CPU {cpu} holds all CPUs");
            return Err(wrong("cpus", request.cpus, why));
        }
        let shares = |domain: &&Domain| SHARES_CACHE.iter().any(|f| domain.flags.contains(f));
        let socket = (request.cpus / request.topology.sockets) as usize;
        let Some(cache) = all.iter().filter(told).rfind(shares) else { continue };
        if cache.cpus.len() != socket {
            let why = format!("the scheduler does not see sockets of {socket} CPUs");
            return Err(wrong("sockets", request.topology.sockets, why));
        }
    }
    Ok(())
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
        let mut request = Request::new("x".to_owned());
        request.cpus = cpus;
        request.topology.sockets = sockets;
        request
    }

    #[test]
    fn cpus_with_the_same_domains_stand_together() {
        let words = "CPUs 0-1: MC 0-1, PKG 0-3 / CPUs 2-3: MC 2-3, PKG 0-3";
        assert_eq!(in_words(&two_sockets()), words);
        assert_eq!(in_words(&[Vec::new()]), "CPUs 0: none");
        assert_eq!(in_words(&[]), "not told");
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
