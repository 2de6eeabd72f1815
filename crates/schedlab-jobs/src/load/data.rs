//! Data along the edges of a graph.

use crate::graph::{Graph, Node};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// A result of each job, which all of its successors read.
#[derive(Debug)]
pub(super) struct Data {
    graph: Graph,
    /// Words of one result.
    words: usize,
    /// The results, one after the other.
    results: Vec<AtomicU64>,
}

impl Data {
    /// Results of this many bytes, rounded up to words of 8 bytes. The memory is touched here, not in the run.
    pub(super) fn new(graph: &Graph, bytes: usize) -> Self {
        let words = bytes.div_ceil(8);
        let results = (0..words * graph.len() as usize).map(|_| AtomicU64::new(1)).collect();
        Self { graph: graph.clone(), words, results }
    }

    /// The number of bytes of one result.
    pub(super) fn bytes(&self) -> usize {
        8 * self.words
    }

    fn result(&self, node: Node) -> &[AtomicU64] {
        &self.results[node as usize * self.words..][..self.words]
    }

    /// Reads the results of all predecessors; their sum.
    pub(super) fn read(&self, node: Node) -> u64 {
        let words = self.graph.predecessors(node).iter().flat_map(|&before| self.result(before));
        black_box(words.fold(0, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed))))
    }

    /// Writes the result of a job.
    pub(super) fn write(&self, node: Node, value: u64) {
        for word in self.result(node) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Rules, Shape};

    #[test]
    fn a_job_reads_what_its_predecessors_wrote() {
        let graph = Shape::Divide.build(&Rules { nodes: 4, fan: 2, ..Rules::default() });
        let data = Data::new(&graph, 20);
        for node in 0..3 {
            assert_eq!(data.results[node as usize * 3].load(Ordering::Relaxed), 1);
            data.write(node, 10 + u64::from(node));
        }
        assert_eq!(data.read(0), 0, "it has none");
        assert_eq!(data.read(3), 3 * (11 + 12), "three words of each of two");
    }
}
