//! Recorded runs for tests: `tests/all/hackbench-2cpu.csv` says how they were made.

use crate::analysis::ValueGrid;
use std::collections::BTreeMap;

const TEXT: &str = include_str!("../tests/all/hackbench-2cpu.csv");

/// Rounds of the plane.
pub(crate) const BLOCKS: u32 = 8;

fn rows() -> impl Iterator<Item = BTreeMap<&'static str, &'static str>> {
    let mut lines = TEXT.lines().filter(|line| !line.starts_with('#'));
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines.map(move |line| head.iter().copied().zip(line.split(',')).collect())
}

/// The plane of slice and groups.
pub(crate) fn plane(metric: &str) -> ValueGrid {
    let columns: Vec<String> = ["100us", "1ms", "10ms", "100ms"].map(Into::into).to_vec();
    let groups: Vec<String> = ["1", "2", "4"].map(Into::into).to_vec();
    let mut cells = vec![vec![BTreeMap::new(); columns.len()]; groups.len()];
    for row in rows().filter(|row| row["set"] == "plane") {
        let x = columns.iter().position(|c| c == row["slice"]).unwrap();
        let y = groups.iter().position(|g| g == row["groups"]).unwrap();
        cells[y][x].insert(row["block"].parse().unwrap(), row[metric].parse().unwrap());
    }
    ValueGrid { x: "slice".into(), y: "groups".into(), columns, rows: groups, cells }
}

/// A hundred raw values of one setting.
pub(crate) fn pool(metric: &str) -> Vec<f64> {
    rows().filter(|row| row["set"] == "one").map(|row| row[metric].parse().unwrap()).collect()
}
