//! Several of something in one graph: which job does what, and which job matters how much. By category of the node,
//! and the others by shares that are drawn.

use super::Random;
use crate::graph::{Category, Graph, Node};
use schedlab_model::percentage;
use std::str::FromStr;

/// A choice for every node of a graph. The rest, that no category and no share names, is the default.
///
/// As text: `cpu`, `memory=20%,block=10%` (the rest by default), `lock@join,block@seed=50%`. The first part that names a
/// category of the node (or any) decides, and its share, where it has one, is drawn per node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mix<T> {
    parts: [Option<Part<T>>; PARTS],
}

/// How many parts a mix may have.
const PARTS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Part<T> {
    what: T,
    category: Option<Category>,
    /// Of the nodes that it names, between 0 and 1; `None`: all that are left.
    share: Option<f64>,
}

impl<T: Copy + Default + PartialEq> Mix<T> {
    /// What a node gets: a function of graph, seed and node, so every executor gets the same jobs.
    pub fn of(&self, graph: &Graph, seed: u64, node: Node) -> T {
        let mut random = Random::new(seed.rotate_left(32) ^ (u64::from(node) << 20) ^ 0x006d_6978);
        random.bits();
        let drawn = random.unit();
        // Shares of a category lie beside each other in [0, 1), so that they add up.
        let mut below: Vec<(Option<Category>, f64)> = Vec::new();
        for part in self.parts.iter().flatten() {
            if part.category.is_some_and(|category| !category.holds(graph, node)) {
                continue;
            }
            let Some(share) = part.share else { return part.what };
            let at = below.iter().position(|(category, _)| *category == part.category);
            let from = at.map_or(0.0, |at| below[at].1);
            if (from..from + share).contains(&drawn) {
                return part.what;
            }
            match at {
                Some(at) => below[at].1 += share,
                None => below.push((part.category, share)),
            }
        }
        T::default()
    }

    /// All that some node may get, each once.
    pub fn all(&self) -> Vec<T> {
        let named = self.parts.iter().flatten().map(|part| part.what);
        // A part without a limit leaves nothing to the default.
        let whole = self.parts.iter().flatten();
        let closed = whole.clone().any(|part| part.category.is_none() && part.share.is_none())
            || whole
                .filter(|part| part.category.is_none())
                .filter_map(|part| part.share)
                .sum::<f64>()
                > 1.0 - 1e-9;
        let rest = (!closed).then(T::default);
        let mut all: Vec<T> = Vec::new();
        for what in named.chain(rest) {
            if !all.contains(&what) {
                all.push(what);
            }
        }
        all
    }
}

impl<T: Copy> From<T> for Mix<T> {
    fn from(what: T) -> Self {
        let mut parts = [None; PARTS];
        parts[0] = Some(Part { what, category: None, share: None });
        Self { parts }
    }
}

impl<T: Copy + FromStr<Err = String>> FromStr for Mix<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = [None; PARTS];
        let mut whole: Vec<(Option<Category>, f64)> = Vec::new();
        for (at, part) in text.split(',').enumerate() {
            let slot = parts.get_mut(at);
            let slot = slot.ok_or_else(|| format!("invalid mix: use at most {PARTS} parts"))?;
            let part: Part<T> = part.trim().parse()?;
            let sum = whole.iter().position(|(category, _)| *category == part.category);
            let sum = sum.unwrap_or_else(|| {
                whole.push((part.category, 0.0));
                whole.len() - 1
            });
            if whole[sum].1 > 1.0 - 1e-9 {
                return Err(format!(
                    "invalid mix '{text}': the parts before leave no share for part {}",
                    at + 1
                ));
            }
            whole[sum].1 += part.share.unwrap_or(1.0);
            if part.share.is_some() && whole[sum].1 > 1.0 + 1e-9 {
                return Err(format!("invalid mix '{text}': the shares add up to more than 100%"));
            }
            *slot = Some(part);
        }
        Ok(Self { parts })
    }
}

impl<T: FromStr<Err = String>> FromStr for Part<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (named, share) = match text.split_once('=') {
            Some((named, share)) => (named, Some(percent(share)?)),
            None => (text, None),
        };
        let (what, category) = match named.split_once('@') {
            Some((what, category)) => (what, Some(category.parse()?)),
            None => (named, None),
        };
        Ok(Self { what: what.parse()?, category, share })
    }
}

pub(super) fn percent(text: &str) -> Result<f64, String> {
    let share = percentage(text).filter(|percent| (0.0..=100.0).contains(percent));
    share
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("invalid share '{text}': use a percentage, as in 20%"))
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;
    use crate::graph::{Rules, Shape};

    fn counts(mix: &str, shape: Shape) -> Vec<(Kind, usize)> {
        let mix: Mix<Kind> = mix.parse().unwrap();
        let graph = shape.build(&Rules { nodes: 4_000, ..Rules::default() });
        let of = |kind| (0..graph.len()).filter(|&n| mix.of(&graph, 7, n) == kind).count();
        mix.all().into_iter().map(|kind| (kind, of(kind))).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "no threads: plain data, for minutes")]
    fn shares_are_kept_and_the_rest_is_cpu() {
        let found = counts("memory=20%,block=10%", Shape::Isolated);
        let [(Kind::Memory, memory), (Kind::Block, block), (Kind::Cpu, cpu)] = found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(memory + block + cpu, 4_000);
        // Four standard deviations.
        assert!(memory.abs_diff(800) < 101 && block.abs_diff(400) < 76, "{found:?}");
        assert_eq!(counts("lock", Shape::Chain), [(Kind::Lock, 4_000)]);
    }

    #[test]
    fn categories_go_before_the_rest_in_the_order_given() {
        let graph = Shape::LoadBursts.build(&Rules { nodes: 500, ..Rules::default() });
        let mix: Mix<Kind> = "lock@join,block@seed,memory".parse().unwrap();
        for node in 0..graph.len() {
            let expected = match graph.predecessors(node).len() {
                0 => Kind::Block,
                1 => Kind::Memory,
                _ => Kind::Lock,
            };
            assert_eq!(mix.of(&graph, 3, node), expected, "{node}");
        }
        let half: Mix<Kind> = "lock@join=50%".parse().unwrap();
        let joins = (0..graph.len()).filter(|&n| graph.predecessors(n).len() > 1);
        let (locks, all) = joins.fold((0, 0), |(locks, all), n| {
            (locks + usize::from(half.of(&graph, 3, n) == Kind::Lock), all + 1)
        });
        assert!(locks > all / 4 && locks < 3 * all / 4, "{locks} of {all}");
    }

    #[test]
    fn what_makes_no_mix_is_said() {
        let said = |text: &str| text.parse::<Mix<Kind>>().unwrap_err();
        assert!(said("cpu=70%,memory=40%").contains("more than 100%"));
        assert!(said("cpu,memory=10%").contains("leave no share for part 2"));
        assert!(said("cpu=70").contains("use a percentage, as in 20%"));
        for wrong in ["cpu=120%", "cpu=-1%", "cpu=%", "cpu=3%%", "cpu=NaN%"] {
            assert!(said(wrong).contains("invalid share"), "{wrong}");
        }
        assert!(said("tea").contains("unknown load 'tea'"));
        assert!(said("cpu@leaf").contains("seed, exit"));
    }
}
