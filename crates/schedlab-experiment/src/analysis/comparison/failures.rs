//! Runs that failed, counted a side: they are no results, and a comparison beside them has no verdict unless it is
//! asked to rank them behind all others.

use crate::StoredRun;
use crate::analysis::Cells;
use schedlab_stats::fisher;
use serde::Serialize;
use std::collections::BTreeMap;

/// The chance at which one side is said to fail more often.
const LEVEL: f64 = 0.05;

/// Attempts of both sides that failed.
#[derive(Clone, Debug, Default, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Failures {
    /// Failed attempts of the first side.
    pub before: usize,
    /// All its attempts.
    pub of_before: usize,
    /// Failed attempts of the second side.
    pub after: usize,
    /// All its attempts.
    pub of_after: usize,
    /// Whether the last attempt at some run failed, so that the run is missing.
    pub is_missing: bool,
    /// The most frequent reason.
    pub why: String,
    /// The chance of shares so different if both sides fail alike (Fisher); 1 without failures.
    pub p: f64,
}

impl Failures {
    /// Those of a workload in all blocks.
    pub(super) fn of(cells: &[(Cells<'_>, Cells<'_>)], label: &str) -> Self {
        let count = |side: &dyn Fn(&(Cells<'_>, Cells<'_>)) -> Vec<(usize, Option<String>)>| {
            let all: Vec<(usize, Option<String>)> = cells.iter().flat_map(side).collect();
            let missing = all.iter().filter(|(_, why)| why.is_some()).count();
            let failed = missing + all.iter().map(|(before, _)| before).sum::<usize>();
            let attempts = all.len() + failed - missing;
            let whys: Vec<String> = all.into_iter().filter_map(|(_, why)| why).collect();
            (failed, attempts, whys)
        };
        let run = |run: &StoredRun| (run.manifest.failed_before as usize, run.failure());
        let of = |cells: &Cells<'_>| -> Vec<(usize, Option<String>)> {
            cells.of(label).flat_map(|cell| cell.all().map(run).collect::<Vec<_>>()).collect()
        };
        let (before, of_before, whys) = count(&|(first, _)| of(first));
        let (after, of_after, more) = count(&|(_, second)| of(second));
        let whys = [whys, more].concat();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        whys.iter().for_each(|why| *counts.entry(why).or_default() += 1);
        let most = counts.iter().max_by_key(|(_, count)| **count);
        let why = most.map_or(String::new(), |(why, _)| (*why).to_owned());
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
