//! Runs that failed, counted a side: they are no results, and a comparison beside them has no verdict unless it is
//! asked to rank them behind all others.

use crate::analysis::{Cell, Cells};
use schedlab_stats::fisher;
use serde::Serialize;
use std::collections::BTreeMap;

/// The chance at which one side is said to fail more often.
const LEVEL: f64 = 0.05;

/// The attempts of a side.
#[derive(Default)]
struct Side {
    failed: usize,
    attempts: usize,
    /// Why runs are missing.
    whys: Vec<String>,
}

impl Side {
    fn add(&mut self, cells: &Cells<'_>, label: &str) {
        for run in cells.of(label).flat_map(Cell::all) {
            let before = run.manifest.failed_before as usize;
            let why = run.failure();
            self.failed += before + usize::from(why.is_some());
            self.attempts += before + 1;
            self.whys.extend(why);
        }
    }
}

/// Attempts of both sides that failed.
#[derive(Clone, Debug, Default, PartialEq, schemars::JsonSchema, Serialize)]
pub(crate) struct Failures {
    /// Failed attempts of the first side.
    pub(crate) before: usize,
    /// All its attempts.
    pub(crate) of_before: usize,
    /// Failed attempts of the second side.
    pub(crate) after: usize,
    /// All its attempts.
    pub(crate) of_after: usize,
    /// Whether the last attempt at some run failed, so that the run is missing.
    pub(crate) is_missing: bool,
    /// The most frequent reason.
    pub(crate) why: String,
    /// The chance of shares so different if both sides fail alike (Fisher); 1 without failures.
    pub(crate) p: f64,
}

impl Failures {
    /// Those of a workload in all blocks.
    pub(super) fn of(cells: &[(Cells<'_>, Cells<'_>)], label: &str) -> Self {
        let mut before = Side::default();
        let mut after = Side::default();
        for (first, second) in cells {
            before.add(first, label);
            after.add(second, label);
        }
        let whys = [before.whys, after.whys].concat();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        whys.iter().for_each(|why| *counts.entry(why).or_default() += 1);
        let most = counts.iter().max_by_key(|(_, count)| **count);
        let why = most.map_or(String::new(), |(why, _)| (*why).to_owned());
        let of_before = before.attempts;
        let of_after = after.attempts;
        let before = before.failed;
        let after = after.failed;
        let p = if before + after > 0 { fisher(before, of_before, after, of_after) } else { 1.0 };
        Self { before, of_before, after, of_after, is_missing: !whys.is_empty(), why, p }
    }

    /// How many failed, and whether one side fails more often; empty without failures.
    pub(super) fn sentence(&self) -> String {
        let Self { before, of_before, after, of_after, why, p, .. } = self;
        if before + after == 0 {
            return String::new();
        }
        let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
        let more = match (*p <= LEVEL, after * of_before > before * of_after) {
            (false, _) => String::new(),
            (true, true) => format!(" The second side fails more often (p {p:.3})."),
            (true, false) => format!(" The first side fails more often (p {p:.3})."),
        };
        format!("{before} of {of_before} attempts failed against {after} of {of_after}{why}.{more}")
    }
}
