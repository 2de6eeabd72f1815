//! What has to happen before a job may run, per node: for executors that know no dependencies.

use crate::graph::{Graph, Node};
use crate::run::Run;
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) struct Countdown(Vec<AtomicU32>);

impl Countdown {
    pub(super) fn new(graph: &Graph) -> Self {
        let count = |node| AtomicU32::new(graph.predecessors(node).len() as u32);
        Self((0..graph.len()).map(count).collect())
    }

    /// Predecessors, and where the run has start times, its release then.
    pub(super) fn of(run: &Run) -> Self {
        let mut all = Self::new(run.graph());
        if run.schedule().is_timed() {
            all.0.iter_mut().for_each(|count| *count.get_mut() += 1);
        }
        all
    }

    /// One of these happened: was it the last one?
    pub(super) fn last(&self, node: Node) -> bool {
        self.0[node as usize].fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Nodes that wait for nothing.
    pub(super) fn roots(graph: &Graph) -> impl Iterator<Item = Node> + '_ {
        (0..graph.len()).filter(|&node| graph.predecessors(node).is_empty())
    }
}
