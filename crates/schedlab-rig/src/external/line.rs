//! The lines that a process and the rig say to each other (`docs/executors.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the lines in runs without deadlines.
pub const SCHEMA: &str = "schedlab/jobs-lines/3";
/// The version of the lines in runs with deadlines.
pub const SCHEMA_DEADLINES: &str = "schedlab/jobs-lines/4";

/// A line in either direction.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Line<'l> {
    /// The first that the process gets.
    Head(Head<'l>),
    /// One for each job.
    Job(Job<'l>),
    /// The last that the process gets.
    Go(Go),
    /// What the process answers for each job.
    Ran(Ran),
    /// What it answers for each job that it drops.
    DroppedLine(DroppedLine),
    /// What it answers instead of running the jobs.
    NotOffered(NotOffered),
    /// The last that it answers.
    Done(Done),
}

/// The first line that the rig writes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Head<'n> {
    /// The version of these lines: [`SCHEMA`], or [`SCHEMA_DEADLINES`].
    pub(crate) schema: &'static str,
    /// How many jobs may run at once.
    pub(crate) workers: usize,
    /// How many jobs there are.
    pub(crate) jobs: u32,
    /// The process mixes it into each value, in hexadecimal digits.
    pub(crate) nonce: &'n str,
}

/// A line for each job.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Job<'g> {
    /// Its number, from 0.
    pub(crate) job: u32,
    /// The number of rounds of the job's work.
    pub(crate) rounds: u64,
    /// How long the rounds take in native code on this machine, in nanoseconds; for information only.
    pub(crate) work_ns: u64,
    /// The jobs that must end before.
    pub(crate) after: &'g [u32],
    /// Earliest start after the base, where the run has start times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_ns: Option<u64>,
    /// Latest start after the base, where the run has deadlines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline_ns: Option<u64>,
}

/// The last line: the process begins.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Go {
    /// The word to begin: always true.
    pub(crate) go: bool,
    /// The time in nanoseconds of CLOCK_MONOTONIC to which start times and deadlines are relative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base_ns: Option<u64>,
}

/// How a job ran.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ran {
    /// The number of the job.
    pub(crate) job: u32,
    /// Its worker, from 0.
    pub worker: u32,
    /// When the job began, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) begin_ns: u64,
    /// The end of the job on CLOCK_MONOTONIC, in nanoseconds.
    pub(crate) end_ns: u64,
    /// What its work gave, in hexadecimal digits; none in events that were written by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<String>,
    /// The thread id of its worker, where it is reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tid: Option<i32>,
}

/// A job that did not run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Gone")]
pub struct DroppedLine {
    /// The number of the job.
    pub(crate) job: u32,
    /// The reason why the job did not run.
    pub(crate) dropped: Why,
    /// When that was decided, on CLOCK_MONOTONIC.
    pub(crate) at_ns: u64,
}

/// Why a job did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Why {
    /// It could not begin before its deadline.
    Missed,
    /// A job that it waits for was dropped.
    Abandoned,
}

/// What a process cannot do.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NotOffered {
    /// `start times` or `deadlines`.
    pub(crate) not_offered: String,
}

/// The end of the answer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Done {
    /// The end of the run: always true.
    pub(crate) done: bool,
}
