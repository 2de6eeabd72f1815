//! Graphs of jobs: what depends on what, how heavy each job is, and the hash that proves a run.
//!
//! A [`Graph`] is made by [`Rules`] (seeding, expansion, reduction, pruning, shuffling), by a
//! [`Shape`] with a name, or read from an STG file. Nodes are numbered so that every edge leads from
//! a smaller to a larger number; nothing in this crate has to sort a graph again.

mod build;
mod dot;
mod draw;
mod hash;
mod pattern;
mod shape;
mod statistics;
mod stg;

pub use build::Rules;
pub use dot::{dot, parse_dot};
pub use draw::{Rule, When};
pub use hash::Hashing;
pub use shape::Shape;
pub use statistics::{Category, GraphStatistics, Summary};
pub use stg::{parse_stg, stg};

/// A node of a [`Graph`]: its position in the order of levels.
pub type Node = u32;

/// Lists of nodes, one per node, in one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Lists {
    begin: Vec<u32>,
    nodes: Vec<Node>,
}

impl Lists {
    fn of(lists: &[Vec<Node>]) -> Self {
        let mut packed = Self { begin: Vec::with_capacity(lists.len() + 1), nodes: Vec::new() };
        packed.begin.push(0);
        for list in lists {
            packed.nodes.extend_from_slice(list);
            packed.begin.push(packed.nodes.len() as u32);
        }
        packed
    }

    fn get(&self, node: Node) -> &[Node] {
        let at = node as usize;
        &self.nodes[self.begin[at] as usize..self.begin[at + 1] as usize]
    }
}

/// An acyclic graph of jobs. Edges lead from a predecessor to a successor with a larger number.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Graph {
    seed: u64,
    hashing: Hashing,
    level: Vec<u32>,
    weight: Vec<u32>,
    start: Vec<u64>,
    hash: Vec<u64>,
    predecessors: Lists,
    successors: Lists,
    /// Of the nodes; empty where they have none.
    names: Vec<String>,
}

/// A node without its edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The level of the node, from 0.
    pub level: u32,
    /// The weight of the node: its work as a multiple of that of a job of weight 1.
    pub weight: u32,
    /// Whether the node hashes the seed before its predecessors: as start nodes do, and those that
    /// were linked to others later.
    pub seeded: bool,
}

/// Why a text is no graph of jobs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphTextError {
    /// A line that is not understood.
    #[error("line {line}: {what}")]
    Line {
        /// The line of the text, from 1.
        line: usize,
        /// What is wrong there.
        what: String,
    },
    /// The nodes make no graph of jobs.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// Why nodes and edges make no [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// An edge names a node that is not there.
    #[error("an edge leads from node {from} to node {to}, but there are {nodes} nodes")]
    NoSuchNode {
        /// Where the edge begins.
        from: u32,
        /// The node at which the edge ends.
        to: u32,
        /// How many nodes there are.
        nodes: u32,
    },
    /// Some jobs wait for each other.
    #[error("the graph has a cycle: {stuck} nodes wait for each other")]
    Cycle {
        /// Nodes that can never run.
        stuck: u32,
    },
}

impl Graph {
    /// A graph from weights and edges in any order. Nodes are renumbered level by level (a node's
    /// level is the length of the longest path to it), keeping their order within a level.
    ///
    /// # Errors
    /// An edge to a node that is not there, or a cycle.
    pub fn from_edges(
        weights: &[u32],
        edges: &[(Node, Node)],
        seed: u64,
        hashing: Hashing,
    ) -> Result<Self, GraphError> {
        let nodes = weights.len() as u32;
        if let Some(&(from, to)) = edges.iter().find(|(from, to)| from.max(to) >= &nodes) {
            return Err(GraphError::NoSuchNode { from, to, nodes });
        }
        let level = longest_paths(nodes, edges)?;
        let mut order: Vec<Node> = (0..nodes).collect();
        order.sort_by_key(|&node| level[node as usize]);
        let mut renamed = vec![0; weights.len()];
        for (new, &old) in order.iter().enumerate() {
            renamed[old as usize] = new as u32;
        }
        let mut predecessors = vec![Vec::new(); weights.len()];
        for &(from, to) in edges {
            predecessors[renamed[to as usize] as usize].push(renamed[from as usize]);
        }
        let level = order.iter().map(|&old| level[old as usize]).collect();
        let weight = order.iter().map(|&old| weights[old as usize]).collect();
        let start = starts(&predecessors, seed, hashing);
        Ok(Self::assemble(level, weight, start, &predecessors, seed, hashing))
    }

    /// The same from what [`Graph::place`] says of each node, numbers and hash included: a graph by rules may put
    /// independent nodes on levels of their own. Where levels fall or leave one out, or an edge leads to no later one, as
    /// [`Graph::from_edges`].
    ///
    /// # Errors
    /// As [`Graph::from_edges`].
    pub fn from_places(
        places: &[Place],
        edges: &[(Node, Node)],
        seed: u64,
        hashing: Hashing,
    ) -> Result<Self, GraphError> {
        let level = |node: Node| places.get(node as usize).map(|place| place.level);
        let rises = |&(from, to): &(Node, Node)| level(from).is_some() && level(from) < level(to);
        let steps = places
            .windows(2)
            .all(|two| matches!(two[1].level.checked_sub(two[0].level), Some(0 | 1)));
        let weights: Vec<u32> = places.iter().map(|place| place.weight).collect();
        if level(0) != Some(0) || !steps || !edges.iter().all(rises) {
            return Self::from_edges(&weights, edges, seed, hashing);
        }
        let mut predecessors = vec![Vec::new(); places.len()];
        for &(from, to) in edges {
            predecessors[to as usize].push(from);
        }
        let mut start = starts(&predecessors, seed, hashing);
        for (node, _) in places.iter().enumerate().filter(|(_, place)| place.seeded) {
            start[node] = hashing.start(seed, node as Node);
        }
        let levels = places.iter().map(|place| place.level).collect();
        Ok(Self::assemble(levels, weights, start, &predecessors, seed, hashing))
    }

    /// The same, with a name for each node.
    #[must_use]
    pub(crate) fn with_names(mut self, names: Vec<String>) -> Self {
        self.names = names;
        self
    }

    /// The name of a node in the text that the graph was read from; `None` if it has none.
    pub(crate) fn name(&self, node: Node) -> Option<&str> {
        self.names.get(node as usize).map(String::as_str)
    }

    /// Where a node stands, for [`Graph::from_places`].
    pub fn place(&self, node: Node) -> Place {
        let seeded = self.start[node as usize] != 0;
        Place { level: self.level(node), weight: self.weight(node), seeded }
    }

    /// `predecessors` names smaller numbers only, and `level` does not fall.
    fn assemble(
        level: Vec<u32>,
        weight: Vec<u32>,
        start: Vec<u64>,
        predecessors: &[Vec<Node>],
        seed: u64,
        hashing: Hashing,
    ) -> Self {
        let mut successors = vec![Vec::new(); level.len()];
        for (node, list) in predecessors.iter().enumerate() {
            for &from in list {
                successors[from as usize].push(node as Node);
            }
        }
        let mut graph = Self {
            seed,
            hashing,
            start,
            hash: vec![0; level.len()],
            level,
            weight,
            predecessors: Lists::of(predecessors),
            successors: Lists::of(&successors),
            names: Vec::new(),
        };
        for node in 0..graph.len() {
            graph.hash[node as usize] = graph.node_hash(node, |p| graph.hash[p as usize]);
        }
        graph
    }

    /// The hash of `node`, given the hashes of its predecessors: what its job has to compute.
    #[inline]
    pub(crate) fn node_hash(&self, node: Node, of: impl Fn(Node) -> u64) -> u64 {
        let start = self.start[node as usize];
        self.predecessors(node).iter().fold(start, |hash, &p| self.hashing.fold(hash, of(p)))
    }

    /// The hash of the whole graph from the hashes of its nodes: the exits' hashes, folded in order
    /// of their numbers; zeros are passed over, as in the original.
    pub(crate) fn fold_exits(&self, of: impl Fn(Node) -> u64) -> u64 {
        (0..self.len())
            .filter(|&node| self.successors(node).is_empty())
            .map(of)
            .filter(|&hash| hash != 0)
            .fold(0, |all, hash| self.hashing.fold(all, hash))
    }

    /// The hash that a complete run must give.
    pub fn hash(&self) -> u64 {
        self.fold_exits(|node| self.hash[node as usize])
    }

    /// The hash that the job of `node` must compute.
    pub fn expected(&self, node: Node) -> u64 {
        self.hash[node as usize]
    }

    /// How many nodes there are.
    pub fn len(&self) -> u32 {
        self.level.len() as u32
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.level.is_empty()
    }

    /// How many edges there are.
    pub fn edges(&self) -> usize {
        self.predecessors.nodes.len()
    }

    /// How many levels there are.
    pub fn levels(&self) -> u32 {
        self.level.last().map_or(0, |level| level + 1)
    }

    /// The level of a node, from 0.
    pub fn level(&self, node: Node) -> u32 {
        self.level[node as usize]
    }

    /// How heavy a node is, in units of the load's base time.
    pub fn weight(&self, node: Node) -> u32 {
        self.weight[node as usize]
    }

    pub fn weight_sum(&self) -> u64 {
        self.weight.iter().map(|&weight| u64::from(weight)).sum()
    }

    /// What a node waits for, in the order of linking.
    pub fn predecessors(&self, node: Node) -> &[Node] {
        self.predecessors.get(node)
    }

    /// What waits for a node.
    pub fn successors(&self, node: Node) -> &[Node] {
        self.successors.get(node)
    }

    /// The seed that start nodes hash.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// This graph with every weight replaced.
    #[must_use]
    pub fn with_weight(mut self, weight: u32) -> Self {
        self.weight.fill(weight);
        self
    }

    /// The longest path, in units of weight: no number of workers is faster than this.
    pub fn critical_path(&self) -> u64 {
        self.critical_path_by(|node| u64::from(self.weight(node)))
    }

    /// The longest path, where each node takes `length`.
    pub fn critical_path_by(&self, length: impl Fn(Node) -> u64) -> u64 {
        let mut end = vec![0u64; self.level.len()];
        for node in 0..self.len() {
            let ready = self.predecessors(node).iter().map(|&p| end[p as usize]).max();
            end[node as usize] = ready.unwrap_or(0) + length(node);
        }
        end.into_iter().max().unwrap_or(0)
    }
}

/// What each node hashes before its predecessors.
fn starts(predecessors: &[Vec<Node>], seed: u64, hashing: Hashing) -> Vec<u64> {
    let start = |(node, list): (usize, &Vec<Node>)| {
        if list.is_empty() { hashing.start(seed, node as Node) } else { 0 }
    };
    predecessors.iter().enumerate().map(start).collect()
}

/// The longest path to every node, in edges (Kahn's algorithm).
fn longest_paths(nodes: u32, edges: &[(Node, Node)]) -> Result<Vec<u32>, GraphError> {
    let mut waiting = vec![0u32; nodes as usize];
    let mut successors = vec![Vec::new(); nodes as usize];
    for &(from, to) in edges {
        waiting[to as usize] += 1;
        successors[from as usize].push(to);
    }
    let mut level = vec![0u32; nodes as usize];
    let mut ready: Vec<Node> = (0..nodes).filter(|&n| waiting[n as usize] == 0).collect();
    let mut done = 0;
    while let Some(node) = ready.pop() {
        done += 1;
        for &to in &successors[node as usize] {
            level[to as usize] = level[to as usize].max(level[node as usize] + 1);
            waiting[to as usize] -= 1;
            if waiting[to as usize] == 0 {
                ready.push(to);
            }
        }
    }
    if done == nodes { Ok(level) } else { Err(GraphError::Cycle { stuck: nodes - done }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_refused() {
        let made = Graph::from_edges(&[1; 3], &[(0, 1), (1, 2), (2, 1)], 0, Hashing::Compat);
        assert_eq!(made, Err(GraphError::Cycle { stuck: 2 }));
    }

    #[test]
    fn nodes_are_renumbered_by_level() {
        // 2 -> 0 -> 1
        let graph = Graph::from_edges(&[5, 6, 7], &[(2, 0), (0, 1)], 0, Hashing::Mixed).unwrap();
        assert_eq!((0..3).map(|n| graph.weight(n)).collect::<Vec<_>>(), [7, 5, 6]);
        assert_eq!(graph.predecessors(2), [1]);
        assert_eq!(graph.critical_path(), 18);
    }

    #[test]
    fn an_omitted_start_node_changes_the_mixed_hash() {
        let graph = Graph::from_edges(&[1; 2], &[], 0, Hashing::Mixed).unwrap();
        let partial = graph.fold_exits(|node| if node == 0 { graph.expected(0) } else { 0 });
        assert_ne!(partial, graph.hash());
    }
}
