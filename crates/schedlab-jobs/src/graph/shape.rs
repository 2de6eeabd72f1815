//! Graphs with a name.

use super::{Graph, Hashing, Node, Rule, Rules, When};
use std::fmt;
use std::str::FromStr;

/// A family of graphs. The first seven are rules of Lumiera's `TestChainLoad`, some of which its
/// published measurements used; the rest are plain patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One chain.
    Chain,
    /// Nodes without edges, one per level.
    Isolated,
    /// Chains of about 2, one node per level.
    ShortChains2,
    /// Chains of about 3, interleaved.
    ShortChains3,
    /// Small trees of joins, interwoven.
    ShortSegments3,
    /// Chains that burst into an interconnected overload ("Topo-10" with 64 nodes).
    LoadBursts,
    /// Chains side by side at a constant width ("Topo-21"); fan 8, seed 60.
    Stationary,
    /// Rows of `fan` nodes, each waiting for its neighbours in the row before (Task Bench's stencil).
    Stencil,
    /// A node, `fan` nodes that wait for it, a node that waits for those, and so on.
    ForkJoin,
    /// A binary tree, from its root outward.
    Tree,
}

impl Shape {
    /// Every shape.
    pub const ALL: [Self; 10] = [
        Self::Chain,
        Self::Isolated,
        Self::ShortChains2,
        Self::ShortChains3,
        Self::ShortSegments3,
        Self::LoadBursts,
        Self::Stationary,
        Self::Stencil,
        Self::ForkJoin,
        Self::Tree,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Isolated => "isolated",
            Self::ShortChains2 => "short-chains2",
            Self::ShortChains3 => "short-chains3",
            Self::ShortSegments3 => "short-segments3",
            Self::LoadBursts => "load-bursts",
            Self::Stationary => "stationary",
            Self::Stencil => "stencil",
            Self::ForkJoin => "fork-join",
            Self::Tree => "tree",
        }
    }

    /// The rules of this shape over `base`, which brings nodes, fan, seed and hashing; `None` for the
    /// patterns that are not grown by rules.
    pub fn rules(self, base: &Rules) -> Option<Rules> {
        let one = Rule::fixed(1);
        let chance = Rule::chance;
        Some(match self {
            Self::Chain => *base,
            Self::Isolated => Rules { pruning: one, weight: one, ..*base },
            Self::ShortChains2 => Rules { pruning: chance(0.8), weight: one, ..*base },
            Self::ShortChains3 => Rules {
                pruning: chance(0.6),
                seeding: one.when(When::AtStart),
                weight: one,
                ..*base
            },
            Self::ShortSegments3 => Rules {
                seeding: chance(0.8).max(1),
                reduction: chance(0.75).max(3),
                pruning: one.when(When::AtJoin),
                weight: one,
                ..*base
            },
            Self::LoadBursts => Rules {
                expansion: chance(0.27).max(4),
                reduction: chance(0.44).max(6).min(2),
                weight: chance(0.66).max(3),
                seed: 55,
                ..*base
            },
            Self::Stationary => Rules {
                fan: 8,
                seed: 60,
                seeding: chance(0.6).max(2),
                pruning: chance(0.44),
                weight: one,
                ..*base
            },
            Self::Stencil | Self::ForkJoin | Self::Tree => return None,
        })
    }

    /// The graph of this shape.
    pub fn build(self, base: &Rules) -> Graph {
        // A million nodes without edges need no draws.
        if self == Self::Isolated && base.hashing == Hashing::Mixed {
            return pattern(base, |_| Vec::new(), |node| node);
        }
        if let Some(rules) = self.rules(base) {
            return rules.build();
        }
        let fan = base.fan.max(1);
        match self {
            Self::Stencil => pattern(base, |node| stencil(node, fan), |node| node / fan),
            Self::ForkJoin => pattern(
                base,
                |node| fork_join(node, fan),
                |node| 2 * (node / (fan + 1)) + u32::from(node % (fan + 1) != 0),
            ),
            _ => pattern(
                base,
                |node| node.checked_sub(1).map(|n| n / 2).into_iter().collect(),
                |node| (node + 1).ilog2(),
            ),
        }
    }
}

fn pattern(
    base: &Rules,
    predecessors: impl Fn(Node) -> Vec<Node>,
    level: impl Fn(Node) -> u32,
) -> Graph {
    let nodes = base.nodes.max(1);
    let lists: Vec<_> = (0..nodes).map(predecessors).collect();
    let levels = (0..nodes).map(level).collect();
    let start = super::starts(&lists, base.seed, base.hashing);
    Graph::assemble(levels, vec![1; nodes as usize], start, &lists, base.seed, base.hashing)
}

fn stencil(node: Node, width: u32) -> Vec<Node> {
    let Some(above) = node.checked_sub(width) else { return Vec::new() };
    let column = node % width;
    let left = (column > 0).then(|| above - 1);
    let right = (column + 1 < width).then_some(above + 1);
    left.into_iter().chain([above]).chain(right).collect()
}

fn fork_join(node: Node, width: u32) -> Vec<Node> {
    let (stage, place) = (node / (width + 1), node % (width + 1));
    let head = stage * (width + 1);
    match (place, stage) {
        (0, 0) => Vec::new(),
        (0, _) => (head - width..head).collect(),
        _ => vec![head],
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = text.replace('_', "-");
        Self::ALL.into_iter().find(|shape| shape.name() == wanted).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is no shape; there are: {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compat(nodes: u32) -> Rules {
        Rules { nodes, hashing: Hashing::Compat, ..Rules::default() }
    }

    #[test]
    fn load_bursts_of_64_nodes_are_the_published_graph() {
        let graph = Shape::LoadBursts.build(&compat(64));
        assert_eq!((graph.levels(), graph.edges(), graph.weight_sum()), (26, 84, 66));
        assert_eq!(graph.critical_path(), 31);
        assert_eq!(graph.hash(), 0x258C_8DEF_5E07_91BF);
    }

    #[test]
    fn short_segments_of_64_nodes_have_the_published_hash() {
        assert_eq!(Shape::ShortSegments3.build(&compat(64)).hash(), 0x554F_5086_DE5B_0861);
        assert_eq!(Shape::ShortSegments3.build(&compat(256)).levels(), 55);
    }

    #[test]
    fn stationary_chains_have_the_published_measures() {
        let graph = Shape::Stationary.build(&compat(256));
        assert_eq!((graph.levels(), graph.edges()), (66, 192));
    }

    #[test]
    fn isolated_nodes_have_a_level_each() {
        for hashing in [Hashing::Compat, Hashing::Mixed] {
            let graph = Shape::Isolated.build(&Rules { nodes: 20, hashing, ..Rules::default() });
            assert_eq!((graph.levels(), graph.edges(), graph.weight_sum()), (20, 0, 20));
        }
    }

    #[test]
    fn patterns_depend_on_smaller_numbers_of_the_level_before() {
        for shape in [Shape::Stencil, Shape::ForkJoin, Shape::Tree] {
            let graph = shape.build(&Rules { nodes: 60, fan: 5, ..Rules::default() });
            for node in 0..60 {
                let level = graph.level(node);
                let before = |&p: &Node| p < node && graph.level(p) + 1 == level;
                assert!(graph.predecessors(node).iter().all(before), "{shape}: {node}");
                assert_eq!(level == 0, graph.predecessors(node).is_empty(), "{shape}: {node}");
            }
        }
    }
}
