//! Counts per level and per kind of node: what a graph offers to workers, and when.

use super::Graph;

/// A kind of node. A node can be of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    Node,
    /// A node without predecessors.
    Seed,
    /// A node without successors.
    Exit,
    /// A node with predecessors and successors.
    Inner,
    /// More than one successor.
    Fork,
    /// More than one predecessor.
    Join,
    /// A node with one predecessor and one successor.
    Link,
    /// A fork and a join.
    Knot,
    /// Not counted but summed: the weight.
    Weight,
}

impl Category {
    /// All, in the order of the table.
    pub(crate) const ALL: [Self; 9] = [
        Self::Node,
        Self::Seed,
        Self::Exit,
        Self::Inner,
        Self::Fork,
        Self::Join,
        Self::Link,
        Self::Knot,
        Self::Weight,
    ];

    /// The category's name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Seed => "seed",
            Self::Exit => "exit",
            Self::Inner => "inner",
            Self::Fork => "fork",
            Self::Join => "join",
            Self::Link => "link",
            Self::Knot => "knot",
            Self::Weight => "weight",
        }
    }

    /// Whether a node is of this kind; of any, where it is not counted.
    pub(crate) fn holds(self, graph: &Graph, node: u32) -> bool {
        let ins = graph.predecessors(node).len();
        let outs = graph.successors(node).len();
        match self {
            Self::Node | Self::Weight => true,
            Self::Seed => ins == 0,
            Self::Exit => outs == 0,
            Self::Inner => ins > 0 && outs > 0,
            Self::Fork => outs > 1,
            Self::Join => ins > 1,
            Self::Link => ins == 1 && outs == 1,
            Self::Knot => ins > 1 && outs > 1,
        }
    }

    fn count(self, graph: &Graph, node: u32) -> u64 {
        match self {
            Self::Weight => u64::from(graph.weight(node)),
            _ => u64::from(self.holds(graph, node)),
        }
    }
}

impl std::str::FromStr for Category {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut counted = Self::ALL.into_iter().filter(|&category| category != Self::Weight);
        counted.find(|category| category.name() == text).ok_or_else(|| {
            format!(
                "unknown category '{text}': use node, seed, exit, inner, fork, join, link or knot"
            )
        })
    }
}

/// How many nodes of one level belong to each category, in the order of [`Category::ALL`]; for
/// weights, their sum.
pub(crate) type LevelCounts = [u64; 9];

/// How often nodes of one category occur over the whole graph, and where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The category of the nodes.
    pub category: Category,
    /// How many (or the sum of weights).
    pub count: u64,
    /// As a fraction of the nodes.
    pub fraction: f64,
    /// The mean number of these nodes in a level.
    pub per_level: f64,
    /// Mean over levels of the share of the level's nodes.
    pub per_width: f64,
    /// Where along the levels they lie: 0 at the first, 1 at the last, `None` without any.
    pub centre: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GraphStatistics {
    /// The counts of each level, from the first.
    pub(crate) levels: Vec<LevelCounts>,
    /// Per kind, in the order of `Category::ALL`.
    pub summary: Vec<Summary>,
    /// Parts one after the other with no edge between them.
    pub segments: u32,
    /// Largest count of predecessors.
    pub fan_in_max: usize,
    /// Largest count of successors.
    pub fan_out_max: usize,
}

impl GraphStatistics {
    /// Counts the nodes of a graph, by level and category.
    pub fn of(graph: &Graph) -> Self {
        let mut levels = vec![[0; 9]; graph.levels() as usize];
        for node in 0..graph.len() {
            let counts = &mut levels[graph.level(node) as usize];
            for (count, category) in counts.iter_mut().zip(Category::ALL) {
                *count += category.count(graph, node);
            }
        }
        let summary = Category::ALL
            .into_iter()
            .enumerate()
            .map(|(i, category)| summarise(&levels, category, i, graph.len()))
            .collect();
        Self {
            summary,
            segments: segments(graph),
            fan_in_max: (0..graph.len()).map(|n| graph.predecessors(n).len()).max().unwrap_or(0),
            fan_out_max: (0..graph.len()).map(|n| graph.successors(n).len()).max().unwrap_or(0),
            levels,
        }
    }

    /// The number of nodes in the widest level.
    pub fn width_max(&self) -> u64 {
        self.levels.iter().map(|counts| counts[0]).max().unwrap_or(0)
    }
}

fn summarise(levels: &[LevelCounts], category: Category, i: usize, nodes: u32) -> Summary {
    let height = levels.len().max(1) as f64;
    let count: u64 = levels.iter().map(|counts| counts[i]).sum();
    let share = |counts: &LevelCounts| counts[i] as f64 / counts[0].max(1) as f64;
    let last = (levels.len() - 1).max(1) as f64;
    let moment: f64 = levels.iter().enumerate().map(|(l, c)| c[i] as f64 * l as f64 / last).sum();
    Summary {
        category,
        count,
        fraction: count as f64 / f64::from(nodes.max(1)),
        per_level: count as f64 / height,
        per_width: levels.iter().map(share).sum::<f64>() / height,
        centre: (count > 0).then(|| moment / count as f64),
    }
}

/// A new segment begins at a level which no edge from before reaches or crosses.
fn segments(graph: &Graph) -> u32 {
    let mut reach = 0;
    let mut segments = 0;
    let mut node = 0;
    for level in 0..graph.levels() {
        segments += u32::from(level == 0 || reach < level);
        while node < graph.len() && graph.level(node) == level {
            let farthest = graph.successors(node).iter().map(|&s| graph.level(s)).max();
            reach = reach.max(farthest.unwrap_or(0));
            node += 1;
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Hashing, Rules, Shape};

    #[test]
    fn counts_of_the_published_burst_graph() {
        let rules = Rules { nodes: 64, hashing: Hashing::Compat, ..Rules::default() };
        let s = GraphStatistics::of(&Shape::LoadBursts.build(&rules));
        assert_eq!((s.fan_in_max, s.fan_out_max, s.width_max()), (10, 5, 10));
        assert_eq!((s.summary[2].count, s.summary[8].count, s.segments), (3, 66, 1));
    }

    #[test]
    fn severed_chains_are_segments() {
        let rules = Rules { nodes: 256, hashing: Hashing::Compat, ..Rules::default() };
        assert_eq!(GraphStatistics::of(&Shape::ShortChains2.build(&rules)).segments, 128);
    }
}
