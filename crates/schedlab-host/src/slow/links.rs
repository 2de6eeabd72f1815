//! Links between pairs of nodes: shaped, cut and healed while the nodes run.
//!
//! A packet from one node to another leaves by its sender's device, where a class of `htb` for the receiver shapes
//! it (rate there, delay and loss by `netem` below), and passes this machine, where a rule of routing drops it
//! without an answer while the pair is cut. So a cut needs no queueing discipline, and the sender learns of it as it
//! would of a broken cable: by nothing.

use super::{Node, SlowError, journalled};
use crate::net::{Namespace, NetError, run};
use schedlab_model::Nanos;
use schedlab_sys::guard::{Guard, StepId, Undo};
use schedlab_workload::{Cluster, Link, Pair};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Nodes with a network, and what is in force between them.
#[derive(Debug, Default)]
pub(super) struct Links {
    ends: BTreeMap<String, End>,
    cut: BTreeMap<Pair, [StepId; 2]>,
}

#[derive(Debug)]
struct End {
    at: Namespace,
    /// What shapes all that has no link of its own.
    own: Link,
    /// The class of each node to which a link was shaped; empty before the first.
    classes: BTreeMap<String, u32>,
}

impl Links {
    /// Takes the networks of nodes, and shapes the links of pairs that have one.
    pub(super) fn make(
        networks: &[Option<Namespace>],
        nodes: &[Node],
        cluster: &Cluster,
    ) -> Result<Self, SlowError> {
        let end = |(node, network): (&Node, &Option<Namespace>)| {
            let own = node.net?;
            let at = network.clone()?;
            Some((node.name.clone(), End { at, own, classes: BTreeMap::new() }))
        };
        let ends = nodes.iter().zip(networks).filter_map(end).collect();
        let mut links = Self { ends, cut: BTreeMap::new() };
        cluster.links.iter().try_for_each(|(pair, link)| links.shape(pair, link))?;
        Ok(links)
    }

    /// Whether both are nodes with a network.
    ///
    /// # Errors
    /// Which is not.
    pub(super) fn has(&self, pair: &Pair) -> Result<(), String> {
        for name in [&pair.0, &pair.1] {
            if !self.ends.contains_key(name) {
                return Err(format!("unknown node {name}: use a node with a network"));
            }
        }
        if pair.0 == pair.1 {
            return Err(format!("invalid link {}: name two different nodes", pair.0));
        }
        Ok(())
    }

    pub(super) fn shape(&mut self, pair: &Pair, link: &Link) -> Result<(), SlowError> {
        self.has(pair).map_err(SlowError::Usage)?;
        for (from, to) in [(&pair.0, &pair.1), (&pair.1, &pair.0)] {
            let there = self.ends[to].at.there;
            let end = self.ends.get_mut(from).expect("it was found just now");
            for line in end.shape(to, there, link) {
                run("tc", &line).map_err(|error| failed(pair, &error))?;
            }
        }
        Ok(())
    }

    /// Lets nothing pass between two nodes; of one that is cut already, nothing changes.
    pub(super) fn cut(&mut self, pair: &Pair, guard: &mut Guard) -> Result<(), SlowError> {
        self.has(pair).map_err(SlowError::Usage)?;
        if self.cut.contains_key(pair) {
            return Ok(());
        }
        let a = self.ends[&pair.0].at.there;
        let b = self.ends[&pair.1].at.there;
        let mut drop = |from: Ipv4Addr, to: Ipv4Addr| {
            let step = journalled(guard, Undo::RemoveRule { from, to })?;
            let rule = format!("rule add from {from} to {to} blackhole");
            run("ip", &rule).map_err(|error| failed(pair, &error)).map(|()| step)
        };
        let steps = [drop(a, b)?, drop(b, a)?];
        self.cut.insert(pair.clone(), steps);
        Ok(())
    }

    pub(super) fn heal(&mut self, pair: &Pair, guard: &mut Guard) -> Result<(), SlowError> {
        self.has(pair).map_err(SlowError::Usage)?;
        for step in self.cut.remove(pair).into_iter().flatten() {
            guard.undo(step).map_err(|e| SlowError::io(format!("healing the link {pair}"), e))?;
        }
        Ok(())
    }

    pub(super) fn cuts(&self) -> impl Iterator<Item = &Pair> {
        self.cut.keys()
    }
}

fn failed(pair: &Pair, error: &NetError) -> SlowError {
    SlowError::Missing(format!("the link of {pair}: {error}"))
}

/// Faster than any machine copies: a class without a rate of its own.
const UNLIMITED: u64 = 100_000_000_000;
/// The class of what has no link of its own; those of pairs follow.
const DEFAULT: u32 = 1;
const FIRST: u32 = 16;
/// Queues below classes have numbers of their own; 1 is the root's.
const LEAVES: u32 = 256;

impl End {
    /// The arguments of `tc` that shape what is sent to node `to`.
    fn shape(&mut self, to: &str, there: Ipv4Addr, link: &Link) -> Vec<String> {
        let space = self.at.name.clone();
        let device = format!("{}b", self.at.name);
        let mut lines = Vec::new();
        if self.classes.is_empty() {
            lines.push(format!(
                "-n {space} qdisc replace dev {device} root handle 1: htb default 1"
            ));
            lines.extend(class(&space, &device, DEFAULT, &self.own));
        }
        let next = FIRST + u32::try_from(self.classes.len()).expect("nodes are few");
        let new = !self.classes.contains_key(to);
        let minor = *self.classes.entry(to.to_owned()).or_insert(next);
        lines.extend(class(&space, &device, minor, link));
        if new {
            lines.push(format!(
                "-n {space} filter add dev {device} parent 1: protocol ip prio {minor} u32 \
                 match ip dst {there}/32 flowid 1:{minor:x}"
            ));
        }
        lines
    }
}

fn class(space: &str, device: &str, minor: u32, link: &Link) -> Vec<String> {
    let rate = link.rate_bit_s.unwrap_or(UNLIMITED);
    // As for a link without pairs: a bucket of 5 ms, but no less than ten frames, and a queue of 50 ms.
    let burst = (rate / 8 / 200).clamp(1 << 14, 1 << 30);
    let queue = (rate / 8 / 20).clamp(1 << 16, 1 << 30);
    let slow = link.delay > Nanos::ZERO || link.loss_millionths > 0;
    let leaf = match slow {
        true => crate::net::netem(&Link { rate_bit_s: None, ..*link }),
        false => format!("bfifo limit {queue}"),
    };
    vec![
        format!(
            "-n {space} class replace dev {device} parent 1: classid 1:{minor:x} htb rate {rate}bit burst {burst}"
        ),
        format!(
            "-n {space} qdisc replace dev {device} parent 1:{minor:x} handle {:x}: {leaf}",
            LEAVES + minor
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end() -> End {
        let at = Namespace {
            name: "sl1-0".into(),
            here: Ipv4Addr::new(198, 18, 0, 1),
            there: Ipv4Addr::new(198, 18, 0, 2),
        };
        let own = Link { rate_bit_s: Some(10_000_000), ..Link::default() };
        End { at, own, classes: BTreeMap::new() }
    }

    #[test]
    fn a_pair_has_a_class_of_its_own_and_the_rest_keeps_its_link() {
        let mut end = end();
        let there = Ipv4Addr::new(198, 18, 0, 6);
        let far = Link {
            rate_bit_s: Some(1_000_000),
            delay: Nanos::from_millis(20),
            loss_millionths: 10_000,
            ..Link::default()
        };
        let lines = end.shape("b", there, &far);
        assert_eq!(lines[0], "-n sl1-0 qdisc replace dev sl1-0b root handle 1: htb default 1");
        assert!(lines[1].ends_with("parent 1: classid 1:1 htb rate 10000000bit burst 16384"));
        assert!(lines[3].ends_with("classid 1:10 htb rate 1000000bit burst 16384"), "{lines:?}");
        assert!(
            lines[4].ends_with("parent 1:10 handle 110: netem limit 10000 delay 20000us loss 1%"),
            "{lines:?}"
        );
        assert!(lines[5].ends_with("u32 match ip dst 198.18.0.6/32 flowid 1:10"), "{lines:?}");
        // Another shape of the same pair: no second root and no second filter.
        let again = end.shape("b", there, &Link::default());
        assert_eq!(again.len(), 2);
        assert!(again[0].contains("100000000000bit") && again[1].contains("bfifo"), "{again:?}");
        let other = end.shape("c", there, &Link::default());
        assert!(other[0].contains("classid 1:11") && other.len() == 3, "{other:?}");
    }

    #[test]
    fn a_pair_without_networks_is_refused() {
        let mut links = Links { ends: BTreeMap::from([("a".into(), end())]), ..Links::default() };
        let why = links.shape(&Pair::new("a", "b"), &Link::default()).unwrap_err().to_string();
        assert!(why.contains("unknown node b"), "{why}");
        assert!(links.has(&Pair::new("a", "a")).unwrap_err().contains("two different nodes"));
    }
}
