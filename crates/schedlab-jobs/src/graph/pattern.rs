//! Graphs with a regular pattern. Rows of `fan` nodes follow each other as the time steps of Task Bench do
//! (Slaughter et al., SC 2020, table 2); each pattern says which nodes of the row before a node waits for.

use super::{Graph, Hashing, Node, Rules, starts};

/// How many nodes of the row before a node of `nearest`, `spread` or `random` waits for at most.
const RADIX: u32 = 5;

/// The nodes that a node waits for, and its level; from the node, the fan and the seed.
pub(super) type Pattern = fn(Node, u32, u64) -> (Vec<Node>, u32);

/// The graph of a pattern. Every edge joins neighbouring levels.
pub(super) fn build(pattern: Pattern, base: &Rules) -> Graph {
    let nodes = base.nodes.max(1);
    let fan = base.fan.max(1);
    let places = (0..nodes).map(|node| pattern(node, fan, base.seed));
    let (lists, levels): (Vec<_>, Vec<_>) = places.unzip();
    let start = starts(&lists, base.seed, base.hashing);
    Graph::assemble(levels, vec![1; nodes as usize], start, &lists, base.seed, base.hashing)
}

/// A node of a pattern in rows: the columns before are those of `of(step, column, width)`.
fn row(node: Node, width: u32, of: impl FnOnce(u32, u32) -> Vec<u32>) -> (Vec<Node>, u32) {
    let step = node / width;
    let column = node % width;
    let Some(above) = step.checked_sub(1).map(|before| before * width) else {
        return (Vec::new(), 0);
    };
    let mut columns = of(step, column);
    columns.sort_unstable();
    columns.dedup();
    (columns.into_iter().map(|column| above + column).collect(), step)
}

pub(super) fn isolated(node: Node, _: u32, _: u64) -> (Vec<Node>, u32) {
    (Vec::new(), node)
}

pub(super) fn stencil(node: Node, width: u32, _: u64) -> (Vec<Node>, u32) {
    row(node, width, |_, column| near(column, 3, width).collect())
}

pub(super) fn nearest(node: Node, width: u32, _: u64) -> (Vec<Node>, u32) {
    row(node, width, |_, column| near(column, RADIX, width).collect())
}

pub(super) fn all_to_all(node: Node, width: u32, _: u64) -> (Vec<Node>, u32) {
    row(node, width, |_, _| (0..width).collect())
}

/// This many columns around this one, cut at the edges.
fn near(column: u32, radix: u32, width: u32) -> impl Iterator<Item = u32> {
    column.saturating_sub(radix / 2)..(column + radix.div_ceil(2)).min(width)
}

/// This column and those 2^k to either side, with another k in each step.
pub(super) fn fft(node: Node, width: u32, _: u64) -> (Vec<Node>, u32) {
    let strides = width.next_power_of_two().ilog2().max(1);
    row(node, width, |step, column| {
        let stride = 1 << ((step - 1) % strides);
        let right = Some(column + stride).filter(|right| *right < width);
        column.checked_sub(stride).into_iter().chain([column]).chain(right).collect()
    })
}

/// Columns at equal distances over the whole row; those but the first move on by one in each step.
pub(super) fn spread(node: Node, width: u32, _: u64) -> (Vec<Node>, u32) {
    let radix = RADIX.min(width);
    row(node, width, |step, column| {
        let shift = |k: u32| if k == 0 { 0 } else { (step - 1) % width.div_ceil(radix) };
        (0..radix).map(|k| (column + k * width / radix + shift(k)) % width).collect()
    })
}

/// This column, and each of the nearest with an even chance.
pub(super) fn random(node: Node, width: u32, seed: u64) -> (Vec<Node>, u32) {
    let drawn = |other: u32| {
        let hash = Hashing::Mixed.fold(seed, u64::from(node));
        Hashing::Mixed.fold(hash, u64::from(other)) >> 63 == 1
    };
    row(node, width, |_, column| {
        near(column, RADIX, width).filter(|&other| other == column || drawn(other)).collect()
    })
}

/// A binary tree from its root on.
pub(super) fn tree(node: Node, _: u32, _: u64) -> (Vec<Node>, u32) {
    (node.checked_sub(1).map(|n| n / 2).into_iter().collect(), (node + 1).ilog2())
}

/// A node, `width` nodes that wait for it, a node that waits for those, and so on.
pub(super) fn fork_join(node: Node, width: u32, _: u64) -> (Vec<Node>, u32) {
    let stage = node / (width + 1);
    let place = node % (width + 1);
    let head = stage * (width + 1);
    let predecessors = match (place, stage) {
        (0, 0) => Vec::new(),
        (0, _) => (head - width..head).collect(),
        _ => vec![head],
    };
    (predecessors, 2 * stage + u32::from(place != 0))
}

/// Divide and conquer: each node forks two until there are as many leaves as the width has room for, a power of two;
/// then two join in one until one is left, from which it begins again.
pub(super) fn divide(node: Node, width: u32, _: u64) -> (Vec<Node>, u32) {
    let depth = width.ilog2();
    let leaves = 1 << depth;
    // Forks and leaves are a full tree; the joins mirror it without the leaves.
    let down = 2 * leaves - 1;
    let all = 3 * leaves - 2;
    let round = node / all;
    let place = node % all;
    let first = round * all;
    let first_level = round * (2 * depth + 1);
    if place < down {
        let forked = place.checked_sub(1).map(|place| first + place / 2);
        let predecessors = forked.or(first.checked_sub(1));
        let level = (place + 1).ilog2();
        return (predecessors.into_iter().collect(), first_level + level);
    }
    // Counted from the end, the joins are a tree again: 0 is the last of them.
    let from_end = all - 1 - place;
    let level = (from_end + 1).ilog2();
    let joined = if level + 1 == depth {
        let leaf = leaves - 1 + 2 * (leaves - 2 - from_end);
        [leaf, leaf + 1]
    } else {
        [all - 1 - (2 * from_end + 2), all - 1 - (2 * from_end + 1)]
    };
    (joined.map(|place| first + place).to_vec(), first_level + 2 * depth - level)
}
