//! What a run directory says about its run.

use super::Place;
use crate::{Planned, Point, RunId};
use schedlab_model::{LoadFacts, MachineFacts};
use schedlab_workload::{Outcome, RunSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the run directory that this program writes.
pub const SCHEMA: &str = "schedlab/run/2";

/// `manifest.json`: what was run, where, and how it ended.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Manifest {
    /// The schema of the file: [`SCHEMA`].
    pub(crate) schema: String,
    /// The run's name: the hash of machine and spec.
    pub id: RunId,
    /// The machine as it was asked for: `host`, `sim:cpus=4`.
    pub machine: String,
    /// The label of the workload within its experiment.
    pub workload: String,
    /// The choice on every axis.
    pub point: Point,
    /// Where it was done.
    pub place: Place,
    /// The block: runs of one block were done close to each other.
    pub(crate) block: u32,
    /// What the machine was asked.
    pub spec: RunSpec,
    /// Exit code of the load.
    pub exit_code: i32,
    /// Whether it was stopped before its end: its figures are partial.
    pub interrupted: bool,
    /// Whether the run's time limit ended it: its times are lower bounds, its counts are of a part of the work.
    #[serde(default)]
    pub censored: bool,
    /// When it began, in UTC (RFC 3339).
    pub started_at: String,
    /// How long it took, starting and recording included, in nanoseconds.
    pub took_ns: u64,
    /// The machine before the run.
    pub facts: MachineFacts,
    /// Load right after the run.
    pub(crate) load_after: LoadFacts,
    /// The number of this attempt, from 0: a run with a warning is done again.
    #[serde(default)]
    pub(crate) attempt: u32,
    /// Why the run failed: its load did, or what was to be measured was not in force. Its figures are not results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Earlier attempts at this run that failed. Each is kept beside it, as `.failed-NAME-NUMBER`.
    #[serde(default)]
    pub(crate) failed_before: u32,
    /// Whether the machine gives the same result for the same run.
    #[serde(default)]
    pub(crate) repeatable: bool,
    /// How many lines each file of lines has: fewer are a damaged file.
    #[serde(default)]
    pub(crate) lines: BTreeMap<String, usize>,
}

impl Manifest {
    pub(crate) fn new(planned: &Planned, facts: MachineFacts, place: Place) -> Self {
        Self {
            schema: SCHEMA.into(),
            id: planned.id.clone(),
            machine: planned.machine.to_string(),
            workload: planned.workload.clone(),
            point: planned.point.clone(),
            place,
            block: planned.block,
            spec: planned.spec.clone(),
            exit_code: 0,
            interrupted: false,
            censored: false,
            started_at: facts.taken_at.clone(),
            took_ns: 0,
            load_after: facts.load.clone(),
            facts,
            attempt: 0,
            failure: None,
            failed_before: 0,
            repeatable: false,
            lines: BTreeMap::new(),
        }
    }

    pub(crate) fn ended(&mut self, outcome: &Outcome, took_ns: u64, load_after: LoadFacts) {
        self.exit_code = outcome.exit_code;
        self.interrupted = outcome.interrupted;
        self.censored = outcome.censored;
        self.took_ns = took_ns;
        self.load_after = load_after;
    }
}
