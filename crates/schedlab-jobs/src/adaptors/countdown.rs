//! Predecessors that have not ended, per node: for executors that know no dependencies.

use crate::graph::{Graph, Node};
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) struct Countdown(Vec<AtomicU32>);

impl Countdown {
    pub(super) fn new(graph: &Graph) -> Self {
        let count = |node| AtomicU32::new(graph.predecessors(node).len() as u32);
        Self((0..graph.len()).map(count).collect())
    }

    /// A predecessor of `node` ended: was it the last one?
    pub(super) fn last(&self, node: Node) -> bool {
        self.0[node as usize].fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Nodes that wait for nothing.
    pub(super) fn roots(graph: &Graph) -> impl Iterator<Item = Node> + '_ {
        (0..graph.len()).filter(|&node| graph.predecessors(node).is_empty())
    }
}
