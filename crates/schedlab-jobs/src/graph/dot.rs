//! Graphviz text of a graph.

use super::Graph;
use std::fmt::Write;

/// The graph in Graphviz's language: a rank per level, seeds as circles, the root as a double circle,
/// exits as rounded boxes; a label is the number, the lowest byte of the hash, and the weight.
pub fn dot(graph: &Graph) -> String {
    let mut text = String::from("digraph jobs {\n  node [fontname=\"sans-serif\"];\n");
    for node in 0..graph.len() {
        let first = graph.predecessors(node).is_empty();
        let last = graph.successors(node).is_empty();
        let look = match (node, first, last) {
            (0, ..) => " shape=doublecircle",
            (_, true, _) => " shape=circle",
            (_, _, true) => " shape=box style=rounded",
            _ => "",
        };
        let byte = graph.expected(node) & 0xff;
        let weight = graph.weight(node);
        let _ = writeln!(text, "  n{node} [label=\"{node}: {byte:02X}.{weight}\"{look}];");
    }
    let mut from = 0;
    for level in 0..graph.levels() {
        let rank = if level == 0 { "min" } else { "same" };
        let _ = write!(text, "  {{ rank={rank};");
        while from < graph.len() && graph.level(from) == level {
            let _ = write!(text, " n{from};");
            from += 1;
        }
        text.push_str(" }\n");
    }
    for node in 0..graph.len() {
        for to in graph.successors(node) {
            let _ = writeln!(text, "  n{node} -> n{to};");
        }
    }
    text.push_str("}\n");
    text
}
