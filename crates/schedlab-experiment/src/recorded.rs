//! Recorded runs for tests: `tests/hackbench-2cpu.csv` says how they were made.

use crate::analysis::Plane;
use std::collections::BTreeMap;

const TEXT: &str = include_str!("../tests/hackbench-2cpu.csv");

/// Rounds in the file.
pub(crate) const BLOCKS: u32 = 8;

fn rows() -> impl Iterator<Item = BTreeMap<&'static str, &'static str>> {
    let mut lines = TEXT.lines().filter(|line| !line.starts_with('#'));
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines.map(move |line| head.iter().copied().zip(line.split(',')).collect())
}

/// The plane of slice and groups.
pub(crate) fn plane(metric: &str) -> Plane {
    let columns: Vec<String> = ["100us", "1ms", "10ms", "100ms"].map(Into::into).to_vec();
    let groups: Vec<String> = ["1", "2", "4"].map(Into::into).to_vec();
    let mut cells = vec![vec![BTreeMap::new(); columns.len()]; groups.len()];
    for row in rows() {
        let x = columns.iter().position(|c| c == row["slice"]).unwrap();
        let y = groups.iter().position(|g| g == row["groups"]).unwrap();
        cells[y][x].insert(row["block"].parse().unwrap(), row[metric].parse().unwrap());
    }
    Plane { x: "slice".into(), y: "groups".into(), columns, rows: groups, cells }
}

/// All runs of two groups, taken for runs of one setting: their ratios to the median of their slice.
pub(crate) fn pool(metric: &str) -> Vec<f64> {
    let plane = plane(metric);
    let mut pool = Vec::new();
    for cell in &plane.cells[1] {
        let mut values: Vec<f64> = cell.values().copied().collect();
        values.sort_by(f64::total_cmp);
        let median = values[values.len() / 2];
        pool.extend(values.iter().map(|v| v / median));
    }
    pool
}
