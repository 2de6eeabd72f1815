//! The Standard Task Graph format (Tobita and Kasahara, 2002): a count, then a line per task with its
//! number, processing time, number of predecessors, and those. Files of the collection add an entry and
//! an exit task of no length; these are read as the nodes that they are. Text after `#` is a comment.

use super::{Graph, GraphTextError, Hashing};
use std::fmt::Write;

/// The graph in STG. Numbers, weights and edges survive; the hash does not belong to the format.
pub fn stg(graph: &Graph) -> String {
    let mut text = format!("{}\n", graph.len());
    for node in 0..graph.len() {
        let predecessors = graph.predecessors(node);
        let _ = write!(text, "{node} {} {}", graph.weight(node), predecessors.len());
        for p in predecessors {
            let _ = write!(text, " {p}");
        }
        text.push('\n');
    }
    let _ = writeln!(text, "# critical path {}", graph.critical_path());
    text
}

/// Reads STG, as the collection writes it (the count leaves out its two dummy tasks) or as [`stg`] does.
///
/// # Errors
/// The first line that is wrong, or a cycle.
pub fn parse_stg(text: &str, seed: u64, hashing: Hashing) -> Result<Graph, GraphTextError> {
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.split('#').next().unwrap_or_default().trim()))
        .filter(|(_, line)| !line.is_empty());
    let wrong = |line, what: &str| GraphTextError::Line { line, what: what.to_owned() };
    let (at, first) =
        lines.next().ok_or_else(|| wrong(1, "missing count of tasks: the first line holds it"))?;
    let count: usize =
        first.parse().map_err(|_| wrong(at, "invalid count of tasks: use a whole number"))?;
    let mut weights = Vec::new();
    let mut edges = Vec::new();
    for (at, line) in lines {
        let numbers: Result<Vec<u32>, _> = line.split_whitespace().map(str::parse).collect();
        let numbers = numbers.map_err(|_| wrong(at, "invalid field: use whole numbers"))?;
        let [number, weight, fan_in, predecessors @ ..] = numbers.as_slice() else {
            return Err(wrong(
                at,
                "incomplete line: write number, time, count of predecessors, predecessors",
            ));
        };
        if *number as usize != weights.len() {
            return Err(wrong(
                at,
                &format!(
                    "found task {number} instead of task {}: tasks are in ascending order",
                    weights.len()
                ),
            ));
        }
        if *fan_in as usize != predecessors.len() {
            let found = predecessors.len();
            return Err(wrong(at, &format!("found {found} predecessors instead of {fan_in}")));
        }
        weights.push(*weight);
        edges.extend(predecessors.iter().map(|p| (*p, *number)));
    }
    if weights.len() != count && weights.len() != count.saturating_add(2) {
        let found = weights.len();
        return Err(wrong(at, &format!("found {found} tasks instead of {count}")));
    }
    Ok(Graph::from_edges(&weights, &edges, seed, hashing)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Rules, Shape};

    #[test]
    fn what_is_written_reads_back_equal() {
        let graph = Shape::LoadBursts.build(&Rules { nodes: 100, ..Rules::default() });
        let back = parse_stg(&stg(&graph), graph.seed(), Hashing::Mixed).unwrap();
        let edges = |g: &Graph| (0..g.len()).map(|n| g.predecessors(n).len()).sum::<usize>();
        assert_eq!((back.len(), edges(&back)), (graph.len(), edges(&graph)));
        assert_eq!(back.critical_path(), graph.critical_path());
    }

    #[test]
    fn the_collections_dummy_tasks_are_read() {
        let graph = parse_stg("1\n0 0 0\n1 7 1 0\n2 0 1 1\n", 0, Hashing::Mixed).unwrap();
        assert_eq!((graph.len(), graph.critical_path()), (3, 7));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let error = |text| parse_stg(text, 0, Hashing::Mixed).unwrap_err().to_string();
        assert_eq!(error("2\n0 1 0\n1 1 2 0\n"), "line 3: found 1 predecessors instead of 2");
        assert_eq!(error("5\n0 1 0\n"), "line 1: found 1 tasks instead of 5");
        assert_eq!(
            error("1\n0 1 1 9\n"),
            "an edge leads from node 9 to node 0, but there are 1 nodes"
        );
    }
}
