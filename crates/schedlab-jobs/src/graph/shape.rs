//! Graphs with a name.

use super::{Graph, Hashing, Rule, Rules, When, pattern};
use std::fmt;
use std::str::FromStr;

/// A family of graphs. The first seven are rules of Lumiera's `TestChainLoad`, some of which its
/// published measurements used; the rest are plain patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One chain: each job waits for the one before.
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
    /// Recursive fork and join: each node forks two up to `fan` nodes, then two join in one, again and again.
    Divide,
    /// A binary tree, from its root outward.
    Tree,
    /// Rows of `fan` nodes; each waits for itself and those 2^k to either side, k changing from row to row.
    Fft,
    /// Rows of `fan` nodes; each waits for the five nearest of the row before.
    Nearest,
    /// Rows of `fan` nodes; each waits for five that are spread over the row before.
    Spread,
    /// Rows of `fan` nodes; each waits for itself and for each of its four neighbours with an even chance.
    Random,
    /// Rows of `fan` nodes; each waits for the whole row before.
    AllToAll,
}

impl Shape {
    /// Every shape, in the order of the help.
    pub const ALL: [Self; 16] = [
        Self::Chain,
        Self::Isolated,
        Self::ShortChains2,
        Self::ShortChains3,
        Self::ShortSegments3,
        Self::LoadBursts,
        Self::Stationary,
        Self::Stencil,
        Self::ForkJoin,
        Self::Divide,
        Self::Tree,
        Self::Fft,
        Self::Nearest,
        Self::Spread,
        Self::Random,
        Self::AllToAll,
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
            Self::Divide => "divide",
            Self::Tree => "tree",
            Self::Fft => "fft",
            Self::Nearest => "nearest",
            Self::Spread => "spread",
            Self::Random => "random",
            Self::AllToAll => "all-to-all",
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
            _ => return None,
        })
    }

    pub fn build(self, base: &Rules) -> Graph {
        // A million nodes without edges need no draws.
        let plain = self == Self::Isolated && base.hashing == Hashing::Mixed;
        match (self.pattern().filter(|_| plain || self != Self::Isolated), self.rules(base)) {
            (Some(pattern), _) => pattern::build(pattern, base),
            (None, rules) => rules.unwrap_or(*base).build(),
        }
    }

    fn pattern(self) -> Option<pattern::Pattern> {
        Some(match self {
            Self::Isolated => pattern::isolated,
            Self::Stencil => pattern::stencil,
            Self::ForkJoin => pattern::fork_join,
            Self::Divide => pattern::divide,
            Self::Tree => pattern::tree,
            Self::Fft => pattern::fft,
            Self::Nearest => pattern::nearest,
            Self::Spread => pattern::spread,
            Self::Random => pattern::random,
            Self::AllToAll => pattern::all_to_all,
            _ => return None,
        })
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
            format!("unknown shape '{text}': use one of {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Node;

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

    fn waits_for(shape: Shape, nodes: u32, fan: u32, node: Node) -> Vec<Node> {
        let graph = shape.build(&Rules { nodes, fan, ..Rules::default() });
        graph.predecessors(node).to_vec()
    }

    #[test]
    fn edges_join_neighbouring_levels_and_only_the_first_level_waits_for_nothing() {
        for shape in Shape::ALL.into_iter().filter(|s| s.rules(&Rules::default()).is_none()) {
            for (nodes, fan) in [(60, 5), (100, 1), (7, 16), (200, 8)] {
                let graph = shape.build(&Rules { nodes, fan, ..Rules::default() });
                for node in 0..nodes {
                    let level = graph.level(node);
                    let before = |&p: &Node| p < node && graph.level(p) + 1 == level;
                    let given = graph.predecessors(node);
                    assert!(given.iter().all(before), "{shape} {fan}: {node} {given:?}");
                    assert_eq!(level == 0, given.is_empty(), "{shape} {fan}: {node}");
                }
            }
        }
    }

    #[test]
    fn rows_wait_for_the_columns_of_their_pattern() {
        assert_eq!(waits_for(Shape::Stencil, 16, 8, 8), [0, 1]);
        assert_eq!(waits_for(Shape::Nearest, 16, 8, 11), [1, 2, 3, 4, 5]);
        assert_eq!(waits_for(Shape::Fft, 40, 8, 8 + 3), [2, 3, 4]);
        assert_eq!(waits_for(Shape::Fft, 40, 8, 24 + 3), [16 + 3, 16 + 7], "four to either side");
        assert_eq!(waits_for(Shape::Spread, 20, 10, 10), [0, 2, 4, 6, 8]);
        assert_eq!(waits_for(Shape::Spread, 30, 10, 20), [10, 13, 15, 17, 19], "moved on by one");
        assert_eq!(waits_for(Shape::AllToAll, 12, 6, 7), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn random_edges_are_half_of_the_near_ones_and_follow_the_seed() {
        let of =
            |seed| Shape::Random.build(&Rules { nodes: 16_000, fan: 16, seed, ..Rules::default() });
        let near = Shape::Nearest.build(&Rules { nodes: 16_000, fan: 16, ..Rules::default() });
        // All but the own columns are drawn.
        let drawn = |graph: &Graph| graph.edges() - (16_000 - 16);
        let share = drawn(&of(1)) as f64 / drawn(&near) as f64;
        assert!((0.48..0.52).contains(&share), "{share}");
        assert_eq!(of(1), of(1));
        assert_ne!(of(1).edges(), of(2).edges());
    }

    #[test]
    fn divide_forks_to_a_power_of_two_and_joins_again() {
        // 5 leave room for 4: 1, 2, 4, 2, 1 nodes a round.
        let graph = Shape::Divide.build(&Rules { nodes: 20, fan: 5, ..Rules::default() });
        let widths: Vec<_> =
            (0..10).map(|level| (0..20).filter(|&n| graph.level(n) == level).count()).collect();
        assert_eq!(widths, [1, 2, 4, 2, 1, 1, 2, 4, 2, 1]);
        assert_eq!(graph.predecessors(7), [3, 4]);
        assert_eq!(graph.predecessors(8), [5, 6]);
        assert_eq!(graph.predecessors(9), [7, 8]);
        assert_eq!(graph.predecessors(10), [9]);
        assert_eq!(graph.edges(), 2 * 12 + 1);
    }
}
