//! What happens to a cluster in a box: links between pairs of nodes, and when they and nodes change. Changes come
//! from a list, from a *nemesis*, which draws faults by a seed, or while it runs (`schedlab slow cut`).
//!
//! ```toml
//! [[link]]                          # between two nodes that have a net
//! between = ["a", "b"]
//! rate = "1Mbit"
//! delay = "20ms"
//! loss = "1%"
//! [[event]]
//! at = "10s"
//! cut = ["a", "b"]                  # or heal, link, fail, recover, or node and speed
//! [nemesis]
//! seed = 7
//! faults = ["cut", "fail", "slow"]
//! every = "5s"                      # mean time between the starts of faults
//! lasts = "2s"                      # mean length of a fault
//! distribution = "exponential"      # or uniform (0 to twice the mean), or fixed
//! until = "60s"
//! ```

use crate::link::{RawNet, link_of};
use crate::requested_speed::{RequestedSpeed, Settling};
use crate::{Link, Speed};
use schedlab_model::{Cpu, Nanos};
use schedlab_stats::Random;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::Spanned;

/// A pair of nodes, in the order of their names: a link is the same both ways.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, schemars::JsonSchema, Serialize, Deserialize,
)]
pub struct Pair(pub String, pub String);

impl Pair {
    /// The pair of two nodes.
    #[must_use]
    pub fn new(a: &str, b: &str) -> Self {
        let (a, b) = if a <= b { (a, b) } else { (b, a) };
        Self(a.to_owned(), b.to_owned())
    }
}

impl std::fmt::Display for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

/// What can change while a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// All of its CPUs get this speed.
    Speed(Speed),
    /// The node fails: its tasks stand still.
    Fail,
    /// The node comes back after a failure.
    Recover,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    Node(String, Change),
    /// Nothing passes between two nodes any more.
    Cut(Pair),
    /// The link passes messages again.
    Heal(Pair),
    /// The link of two nodes becomes this one.
    Link(Pair, Link),
}

/// As a mark of a recording has it: `cut a b`.
impl std::fmt::Display for Happening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Node(node, Change::Speed(speed)) => write!(f, "speed {node} {speed}"),
            Self::Node(node, Change::Fail) => write!(f, "fail {node}"),
            Self::Node(node, Change::Recover) => write!(f, "recover {node}"),
            Self::Cut(pair) => write!(f, "cut {pair}"),
            Self::Heal(pair) => write!(f, "heal {pair}"),
            Self::Link(pair, link) => write!(f, "link {pair} {link}"),
        }
    }
}

/// A change at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Since the start of the session.
    pub at: Nanos,
    pub what: Happening,
}

/// Links and events of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Links of pairs that have one of their own.
    pub links: BTreeMap<Pair, Link>,
    /// In the order of time; those of the nemesis are among them.
    pub events: Vec<Event>,
}

/// A node, as far as links and faults know it.
pub(crate) struct NodeInfo {
    pub(crate) name: String,
    pub(crate) wired: bool,
    /// Of its first CPU.
    pub(crate) speed: Option<Speed>,
    /// The first CPU of the node.
    pub(crate) cpu: Cpu,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLink {
    between: [String; 2],
    rate: Option<String>,
    delay: Option<String>,
    loss: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawEvent {
    at: String,
    cut: Option<[String; 2]>,
    heal: Option<[String; 2]>,
    link: Option<[String; 2]>,
    rate: Option<String>,
    delay: Option<String>,
    loss: Option<String>,
    fail: Option<String>,
    recover: Option<String>,
    node: Option<String>,
    speed: Option<Spanned<RequestedSpeed>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fault {
    Cut,
    Fail,
    Slow,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Distribution {
    #[default]
    Exponential,
    Uniform,
    Fixed,
}

impl Distribution {
    fn draw(self, mean: Nanos, random: &mut Random) -> Nanos {
        let part = match self {
            Self::Exponential => -(1.0 - random.unit()).ln(),
            Self::Uniform => random.unit() * 2.0,
            Self::Fixed => 1.0,
        };
        Nanos((mean.0 as f64 * part) as u64)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawNemesis {
    #[serde(default)]
    seed: u64,
    faults: Vec<Fault>,
    every: String,
    lasts: String,
    until: String,
    #[serde(default)]
    distribution: Distribution,
}

pub(crate) fn cluster(
    nodes: &[NodeInfo],
    links: Vec<RawLink>,
    events: Vec<RawEvent>,
    nemesis: Option<&RawNemesis>,
    settling: &Settling<'_, '_>,
) -> Result<Cluster, String> {
    let mut read = Cluster::default();
    for raw in links {
        let pair = pair(&raw.between, nodes)?;
        let net = RawNet { rate: raw.rate, delay: raw.delay, loss: raw.loss };
        let link = link_of(&net).map_err(|why| format!("the link of {pair}: {why}"))?;
        if read.links.insert(pair.clone(), link).is_some() {
            return Err(format!("the pair {pair} has two links"));
        }
    }
    for raw in events {
        let at = time(&raw.at)?;
        let what = happening(raw, nodes, settling);
        let what = what.map_err(|why| format!("the event at {at}: {why}"))?;
        read.events.push(Event { at, what });
    }
    if let Some(nemesis) = nemesis {
        read.events.extend(drawn(nemesis, nodes).map_err(|why| format!("the nemesis: {why}"))?);
    }
    // Stable: what is written first at one time comes first.
    read.events.sort_by_key(|event| event.at);
    Ok(read)
}

fn time(text: &str) -> Result<Nanos, String> {
    text.parse().map_err(|error: schedlab_model::NanosError| error.to_string())
}

fn pair(names: &[String; 2], nodes: &[NodeInfo]) -> Result<Pair, String> {
    let [a, b] = names;
    if a == b {
        return Err(format!("{a} and {b} are one node: a link is between two"));
    }
    for name in names {
        let node = named(name, nodes)?;
        if !node.wired {
            return Err(format!("node {name} has no network: add [node.net] to it"));
        }
    }
    Ok(Pair::new(a, b))
}

fn named<'n>(name: &str, nodes: &'n [NodeInfo]) -> Result<&'n NodeInfo, String> {
    nodes.iter().find(|node| node.name == name).ok_or_else(|| {
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        format!("unknown node {name}: use {}", names.join(", "))
    })
}

fn happening(
    raw: RawEvent,
    nodes: &[NodeInfo],
    settling: &Settling<'_, '_>,
) -> Result<Happening, String> {
    let net = RawNet { rate: raw.rate, delay: raw.delay, loss: raw.loss };
    let shaped = net.rate.is_some() || net.delay.is_some() || net.loss.is_some();
    let node = |name: String, change| named(&name, nodes).map(|_| Happening::Node(name, change));
    let mut all = Vec::new();
    all.extend(raw.cut.map(|names| pair(&names, nodes).map(Happening::Cut)));
    all.extend(raw.heal.map(|names| pair(&names, nodes).map(Happening::Heal)));
    let is_link = raw.link.is_some();
    all.extend(raw.link.map(|names| Ok(Happening::Link(pair(&names, nodes)?, link_of(&net)?))));
    all.extend(raw.fail.map(|name| node(name, Change::Fail)));
    all.extend(raw.recover.map(|name| node(name, Change::Recover)));
    match (raw.node, raw.speed) {
        (Some(name), Some(wish)) => {
            let speed = settling.settle(&wish, named(&name, nodes)?.cpu)?;
            all.push(node(name, Change::Speed(speed)));
        }
        (None, None) => {}
        _ => return Err("node and speed belong together".into()),
    }
    if shaped && !is_link {
        return Err("rate, delay and loss are for link".into());
    }
    match all.len() {
        1 => all.remove(0),
        _ => Err("missing change: use cut, heal, link, fail, recover, or node and speed".into()),
    }
}

/// Draws faults and their ends. Nothing is drawn twice at a time: what is cut is not cut again before it heals.
fn drawn(raw: &RawNemesis, nodes: &[NodeInfo]) -> Result<Vec<Event>, String> {
    let every = time(&raw.every)?;
    let lasts = time(&raw.lasts)?;
    let until = time(&raw.until)?;
    if every < Nanos::from_millis(1) || lasts == Nanos::ZERO {
        return Err("every is 1ms at least, and lasts is above 0".into());
    }
    if until.0 / every.0 > 100_000 {
        return Err(format!("faults every {every} until {until} are too many: 100000 at most"));
    }
    let wired: Vec<&NodeInfo> = nodes.iter().filter(|node| node.wired).collect();
    let mut pairs = Vec::new();
    for (index, a) in wired.iter().enumerate() {
        pairs.extend(wired[index + 1..].iter().map(|b| Pair::new(&a.name, &b.name)));
    }
    if raw.faults.is_empty() {
        return Err("name its faults: cut, fail, slow".into());
    }
    if raw.faults.iter().any(|fault| matches!(fault, Fault::Cut)) && pairs.is_empty() {
        return Err("a cut needs two nodes with [node.net]".into());
    }
    let mut random = Random::new(raw.seed);
    let mut all = Vec::new();
    let mut busy = BTreeMap::new();
    let mut now = Nanos::ZERO;
    loop {
        now += raw.distribution.draw(every, &mut random).max(Nanos(1));
        if now >= until {
            return Ok(all);
        }
        // At `until` all is well again.
        let end = (now + raw.distribution.draw(lasts, &mut random).max(Nanos(1))).min(until);
        let fault = raw.faults[random.below(raw.faults.len())];
        let (what, undone) = match fault {
            Fault::Cut => {
                let pair = pairs[random.below(pairs.len())].clone();
                (Happening::Cut(pair.clone()), Happening::Heal(pair))
            }
            Fault::Fail | Fault::Slow => {
                let node = &nodes[random.below(nodes.len())];
                let of = |change| Happening::Node(node.name.clone(), change);
                match node.speed.filter(|_| matches!(fault, Fault::Slow)) {
                    Some(speed) => (of(Change::Speed(half(speed))), of(Change::Speed(speed))),
                    None => (of(Change::Fail), of(Change::Recover)),
                }
            }
        };
        let free = busy.get(&what.to_string()).is_none_or(|until| *until <= now);
        if free {
            busy.insert(what.to_string(), end);
            all.push(Event { at: now, what });
            all.push(Event { at: end, what: undone });
        }
    }
}

/// Half as fast, and no slower than every method can.
fn half(speed: Speed) -> Speed {
    let least = 100_000.min(speed.millionths());
    Speed::from_millionths((speed.millionths() / 2).max(least)).unwrap_or(speed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::parse;

    const NODES: &str = "[[node]]\nname = \"b\"\ncpus = \"0\"\nspeed = \"50%\"\n[node.net]\n\
                         [[node]]\nname = \"a\"\ncpus = \"1\"\nspeed = \"80%\"\n[node.net]\n\
                         [[node]]\nname = \"bare\"\ncpus = \"2\"\nspeed = \"80%\"\n";

    fn read(rest: &str) -> Result<Cluster, String> {
        let file = parse(&format!("{NODES}{rest}"), &|text, _| Err(text.to_owned()));
        file.map(|file| file.cluster).map_err(|error| error.to_string())
    }

    #[test]
    fn links_and_events_are_read_in_the_order_of_time() {
        let read = read(
            "[[link]]\nbetween = [\"b\", \"a\"]\nrate = \"1Mbit\"\ndelay = \"2ms\"\n\
             [[event]]\nat = \"3s\"\nheal = [\"a\", \"b\"]\n[[event]]\nat = \"1s\"\ncut = [\"b\", \"a\"]\n\
             [[event]]\nat = \"2s\"\nlink = [\"b\", \"a\"]\nloss = \"2%\"\n\
             [[event]]\nat = \"4s\"\nnode = \"bare\"\nspeed = \"20%\"\n[[event]]\nat = \"5s\"\nfail = \"a\"\n",
        )
        .unwrap();
        let link = read.links[&Pair::new("a", "b")];
        assert_eq!((link.rate_bit_s, link.delay), (Some(1_000_000), Nanos::from_millis(2)));
        let said: Vec<String> = read.events.iter().map(|event| event.what.to_string()).collect();
        assert_eq!(said[0], "cut a b");
        assert!(said[1].starts_with("link a b") && said[1].contains("2% lost"), "{said:?}");
        assert_eq!(said[2..], ["heal a b", "speed bare 20%", "fail a"]);
    }

    #[test]
    fn mistakes_are_said() {
        for (rest, why) in [
            ("[[link]]\nbetween = [\"a\", \"c\"]\n", "unknown node c: use b, a, bare"),
            ("[[link]]\nbetween = [\"a\", \"bare\"]\n", "bare has no network"),
            ("[[link]]\nbetween = [\"a\", \"a\"]\n", "one node"),
            ("[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"9\"\n", "the link of a b"),
            ("[[event]]\nat = \"1s\"\n", "missing change: use cut"),
            ("[[event]]\nat = \"1s\"\nfail = \"a\"\nrecover = \"a\"\n", "missing change: use cut"),
            ("[[event]]\nat = \"1s\"\nfail = \"a\"\nloss = \"1%\"\n", "are for link"),
            ("[[event]]\nat = \"1s\"\nnode = \"a\"\n", "belong together"),
            ("[[event]]\nat = \"soon\"\nfail = \"a\"\n", "soon"),
            (
                "[nemesis]\nfaults = []\nevery = \"1s\"\nlasts = \"1s\"\nuntil = \"9s\"\n",
                "name its",
            ),
            (
                "[nemesis]\nfaults = [\"rot\"]\nevery = \"1s\"\nlasts = \"1s\"\nuntil = \"9s\"\n",
                "rot",
            ),
            (
                "[nemesis]\nfaults = [\"fail\"]\nevery = \"0s\"\nlasts = \"1s\"\nuntil = \"9s\"\n",
                "1ms",
            ),
        ] {
            let error = read(rest).unwrap_err();
            assert!(error.contains(why), "{rest}: {error}");
        }
    }

    #[test]
    fn a_nemesis_is_its_seed_and_all_is_well_at_its_end() {
        let nemesis = |seed: u64, distribution: &str| {
            let text = format!(
                "[nemesis]\nseed = {seed}\nfaults = [\"cut\", \"fail\", \"slow\"]\nevery = \"1s\"\n\
                 lasts = \"300ms\"\nuntil = \"60s\"\ndistribution = \"{distribution}\"\n"
            );
            read(&text).unwrap().events
        };
        let events = nemesis(7, "exponential");
        assert_eq!(events, nemesis(7, "exponential"));
        assert_ne!(events, nemesis(8, "exponential"));
        assert!(events.len() > 20, "{}", events.len());
        // All that begins, ends: by kind and object.
        let mut open: BTreeMap<String, i32> = BTreeMap::new();
        for event in &events {
            assert!(event.at <= Nanos::from_secs(60));
            let said = event.what.to_string();
            let (object, step) = match &event.what {
                Happening::Cut(pair) => (format!("link {pair}"), 1),
                Happening::Heal(pair) => (format!("link {pair}"), -1),
                Happening::Node(node, Change::Fail) => (format!("node {node}"), 1),
                Happening::Node(node, Change::Recover) => (format!("node {node}"), -1),
                Happening::Node(node, Change::Speed(speed)) => {
                    let full =
                        speed.to_string() == "80%" || node == "b" && speed.to_string() == "50%";
                    (format!("speed {node}"), if full { -1 } else { 1 })
                }
                Happening::Link(..) => panic!("{said} is no fault"),
            };
            let count = open.entry(object).or_default();
            *count += step;
            assert!((0..=1).contains(count), "{said}");
        }
        assert!(open.values().all(|count| *count == 0), "{open:?}");
        assert_eq!(
            open.len(),
            7,
            "a pair, three nodes that fail, three that become slow: {open:?}"
        );
        // At equal distances.
        let fixed = nemesis(1, "fixed");
        assert_eq!((fixed[0].at, fixed[1].at), (Nanos::from_secs(1), Nanos::from_millis(1_300)));
        assert!(nemesis(1, "uniform").len() > 20);
    }
}
