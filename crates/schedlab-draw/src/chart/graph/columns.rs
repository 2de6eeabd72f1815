//! Columns of a graph: which node stands where, and where edges that skip columns pass between them.

use super::{Edge, Node};
use std::collections::{BTreeMap, BTreeSet};

/// More ways than this make a graph that nobody follows edge by edge; its edges are drawn straight.
const WAYS_MAX: usize = 1_500;
/// The room of a way, of which a node has three.
pub(super) const WAY: usize = 1;
pub(super) const NODE: usize = 3;

/// What stands in the columns. A slot is a node (by its index) or, from the number of nodes on, a way: a
/// place that an edge passes on its way to a later column. All edges of a node share its ways.
pub(super) struct Columns {
    /// The slots of each column, from top to bottom.
    pub(super) columns: Vec<Vec<usize>>,
    /// From slot to slot, each once.
    pub(super) edges: BTreeSet<(usize, usize)>,
    /// How many slots are nodes; all others are ways.
    pub(super) nodes: usize,
    slots: usize,
}

impl Columns {
    /// Puts nodes into columns, ordered so that edges cross little.
    pub(super) fn of(nodes: &[Node], edges: &[Edge]) -> Self {
        // A level number can be anything; only levels that have nodes take room.
        let mut used: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, node) in nodes.iter().enumerate() {
            used.entry(node.level).or_default().push(index);
        }
        let columns: Vec<Vec<usize>> = used.into_values().collect();
        let mut column_of = vec![0; nodes.len()];
        for (column, here) in columns.iter().enumerate() {
            here.iter().for_each(|&node| column_of[node] = column);
        }
        let count = nodes.len();
        let mut all = Self { columns, edges: BTreeSet::new(), nodes: count, slots: count };
        all.connect(&column_of, edges);
        all.order();
        all
    }

    pub(super) const fn slots(&self) -> usize {
        self.slots
    }

    pub(super) const fn is_way(&self, slot: usize) -> bool {
        slot >= self.nodes
    }

    pub(super) fn room(&self, column: &[usize]) -> usize {
        column.iter().map(|&slot| self.room_of(slot)).sum()
    }

    pub(super) const fn room_of(&self, slot: usize) -> usize {
        if self.is_way(slot) { WAY } else { NODE }
    }

    fn connect(&mut self, column_of: &[usize], edges: &[Edge]) {
        let valid = |edge: &&Edge| edge.from < column_of.len() && edge.to < column_of.len();
        let mut reach = vec![0; column_of.len()];
        for Edge { from, to } in edges.iter().filter(valid) {
            reach[*from] = reach[*from].max(column_of[*to].saturating_sub(column_of[*from] + 1));
        }
        let has_ways = reach.iter().sum::<usize>() <= WAYS_MAX;
        let mut ways: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for Edge { from, to } in edges.iter().filter(valid) {
            let mut last = *from;
            let between = column_of[*from] + 1..column_of[*to];
            for column in between.filter(|_| has_ways) {
                let way = *ways.entry((*from, column)).or_insert_with(|| {
                    self.columns[column].push(self.slots);
                    self.slots += 1;
                    self.slots - 1
                });
                self.edges.insert((last, way));
                last = way;
            }
            self.edges.insert((last, *to));
        }
    }

    fn order(&mut self) {
        let mut order = vec![0.0; self.slots];
        number(&self.columns, &mut order);
        for forward in [true, false, true] {
            let means = self.means(&order, forward);
            for column in &mut self.columns {
                column.sort_by(|&a, &b| means[a].total_cmp(&means[b]).then(a.cmp(&b)));
            }
            number(&self.columns, &mut order);
        }
    }

    /// For each slot the mean order of its neighbours on one side; its own where it has none.
    fn means(&self, order: &[f64], forward: bool) -> Vec<f64> {
        let mut sums = vec![(0.0, 0_u32); order.len()];
        for (from, to) in &self.edges {
            let (slot, other) = if forward { (*to, *from) } else { (*from, *to) };
            sums[slot].0 += order[other];
            sums[slot].1 += 1;
        }
        let mean = |((sum, count), own): (&(f64, u32), &f64)| match count {
            0 => *own,
            count => sum / f64::from(*count),
        };
        sums.iter().zip(order).map(mean).collect()
    }
}

/// Where each slot stands in its column, counted from the column's middle.
fn number(columns: &[Vec<usize>], order: &mut [f64]) {
    for column in columns {
        let middle = column.len() as f64 / 2.0;
        for (place, &slot) in column.iter().enumerate() {
            order[slot] = place as f64 - middle;
        }
    }
}
