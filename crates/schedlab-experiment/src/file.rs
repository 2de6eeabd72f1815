//! Experiment files: TOML, written by people, read with all their mistakes at once.
//!
//! An experiment is workloads, axes to sweep, and how to go about it. [`Experiment::parse`] is pure;
//! [`Experiment::read`] adds the file. What the words mean is in `docs/experiments.md`.

mod axis;
mod claims;
mod decode;
mod locations;
mod metric_names;
mod sections;
mod short;
mod tuning;

pub(crate) use axis::AxisKind;
pub use axis::{Axis, Varies, When};
pub use claims::Claim;
pub(crate) use claims::Measure;
pub(crate) use decode::nearest;
pub use locations::Mistake;
pub(crate) use locations::{Part, Places};
pub use metric_names::unknown_metric;
pub(crate) use metric_names::{DIRECTIONS, UNITS};
pub use short::Short;
pub use tuning::{Limit, Screen, Tuning};

use crate::Point;
use decode::Decoder;
use schedlab_model::{Metric, Nanos, Setting};
use schedlab_workload::metrics::{self, Work};
use schedlab_workload::{Beside, MachineName, RecordSpec, WorkloadSpec};
use std::path::{Path, PathBuf};

/// An experiment as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Its name: of the folder of its results, for instance. Letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// A line for the report's head; the name where none is given.
    pub title: String,
    /// What it is to answer, in a sentence or two; may be empty.
    pub question: String,
    /// The machine that it runs on: `host`, or what `--on` takes. The first of several.
    pub machine: MachineName,
    /// What loads the machine; each point runs every one of them. Never empty.
    pub workloads: Vec<Workload>,
    /// What is varied; the points are all combinations. May be empty: one point.
    pub axes: Vec<Axis>,
    /// Knobs that are the same at all points.
    pub settings: Vec<Setting>,
    /// The number of runs of each point and workload.
    pub repeats: u32,
    /// Boots of the machine in which all that is done, each a set of blocks of its own; 1: boots do not matter.
    pub boots: u32,
    /// In which order the runs go.
    pub(crate) order: Order,
    /// What hosts are to each other whose runs are in one folder.
    pub(crate) hosts: Hosts,
    /// Runs before the first one that counts; they are thrown away.
    pub warm_up: u32,
    /// Seed of the order and of everything random in the workloads.
    pub seed: u64,
    /// A run is stopped after this time.
    pub time_limit: Option<Nanos>,
    /// What to record beside each run.
    pub(crate) record: Option<RecordSpec>,
    /// The metrics that matter, the first most of all; empty for all that the runs give.
    pub measure: Vec<String>,
    /// Relative standard deviation of a run, 0.02 for 2 %, where it is known from elsewhere.
    pub(crate) noise: Option<f64>,
    /// When to stop before all repeats are done, or to go on after them.
    pub stop: StopRule,
    /// How settings are searched for; `None`: all points are measured.
    pub tune: Option<Tuning>,
    /// Commands of the user's around each run.
    pub hooks: Hooks,
    /// What to draw; empty for what fits the axes.
    pub draw: Vec<Drawing>,
    /// How often a run with a warning is repeated.
    pub retries: u32,
    /// Whether a run that failed ranks behind all finished ones; else there is no verdict beside one.
    pub allow_failures: bool,
    /// What comparisons are adjusted by, named before the first run ([`crate::analysis::PRIORS`]).
    pub(crate) adjust: Vec<String>,
    /// Published results that the runs are to show; each gets a verdict of its own.
    pub claims: Vec<Claim>,
    /// What is smaller in a short run; `None`: nothing.
    pub short: Option<Short>,
    /// The file, word for word: it goes into the report.
    pub text: String,
    /// The file's path, for messages.
    pub path: PathBuf,
    /// Where in the file the parts of runs are written.
    pub(crate) places: Places,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Unlike all others in the file: the workload's name where none is given.
    pub(crate) label: String,
    /// The workload and its options.
    pub(crate) spec: WorkloadSpec,
    /// What runs at the same time in each of its runs.
    pub(crate) beside: Vec<Beside>,
}

impl Workload {
    /// The workload and all beside it, each with its label.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &WorkloadSpec)> {
        let beside = self.beside.iter().map(|b| (b.label.as_str(), &b.workload));
        std::iter::once((self.label.as_str(), &self.spec)).chain(beside)
    }
}

/// In which order the runs go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// All runs of all rounds shuffled together.
    Shuffled,
    /// Round by round, each round with every point once, in a random order of its own: slow drift of
    /// the machine falls on all points alike, and a round is a block for paired comparison.
    #[default]
    Interleaved,
    /// As the file lists them, all repeats of a point in a row. Drift looks like an effect: only for
    /// machines that repeat exactly.
    Listed,
}

/// What hosts are to each other whose runs are in one folder of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// Their runs are kept apart: the host is an axis, and each host does all runs.
    #[default]
    Apart,
    /// Each block is done on one host, and hosts share the blocks. Points are compared within blocks,
    /// so what differs between hosts cancels.
    Blocks,
}

/// When an experiment is done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StopRule {
    /// Half the width of the 95 % interval of the first metric's median, relative to it, that is narrow
    /// enough (0.02 for 2 %). Points that have it get no more runs.
    pub(crate) width: Option<f64>,
    /// No further round begins after this time.
    pub budget: Option<Nanos>,
    /// With `width`: repeats beyond which a point is given up. At least `repeats`.
    pub repeats_max: Option<u32>,
    /// Repeats at each planned look, ascending: after each, verdicts decide whether the next is needed.
    /// The first is `repeats`. Empty: no looks are planned.
    pub looks: Vec<u32>,
}

/// Commands around a run, each as program and arguments.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, schemars::JsonSchema, serde::Serialize, serde::Deserialize,
)]
pub struct Hooks {
    /// Before each run; the run is not done when it fails.
    pub before: Vec<String>,
    /// After each run, also after a failed one.
    pub after: Vec<String>,
    /// Started before each run and ended after it: a sched_ext scheduler, an antagonist.
    pub during: Vec<String>,
    /// Whether `during` may end before the run does; else such a run fails. (Left out of the text where it is false, so
    /// that such a run keeps its identity.)
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_end: bool,
    /// Tried until it succeeds after `during` was started; only then the run begins.
    pub ready: Vec<String>,
    /// After each run; each line `NAME VALUE [UNIT] [higher|lower]` of its output is a figure of the run.
    pub metric: Vec<String>,
    /// What the file says of the metric that `metric` prints. It is no part of a run's identity: it says how
    /// a value is read, not how it came about.
    #[serde(skip)]
    pub declared: Option<Metric>,
}

/// A picture of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawing {
    /// The first metric over two axes.
    Map,
    /// The first metric along each axis, with intervals.
    Curves,
    /// Voluntary and involuntary switches beside the metric.
    Switches,
    /// Each CPU's row over time, of the first recorded run of each workload.
    Cores,
    /// Tasks running and waiting over time, of the same run.
    Waiting,
}

/// Why an experiment file is not valid.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        path: PathBuf,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
    /// It says something wrong; all mistakes in the order of the file.
    #[error("{}", listing(path, mistakes))]
    Wrong {
        path: PathBuf,
        /// What is wrong. Never empty.
        mistakes: Vec<Mistake>,
    },
}

fn listing(path: &Path, mistakes: &[Mistake]) -> String {
    let lines: Vec<String> = mistakes.iter().map(|m| format!("{}: {m}", path.display())).collect();
    lines.join("\n")
}

impl Experiment {
    /// The machines that it runs on: one, or those of its axis in the file's order.
    #[must_use]
    pub fn machines(&self) -> Vec<MachineName> {
        match self.axes.iter().find(|axis| axis.varies == Varies::Machine) {
            Some(axis) => {
                let named = |value: &String| value.parse().expect("the file was checked");
                axis.values.iter().map(named).collect()
            }
            None => vec![self.machine.clone()],
        }
    }

    /// What an axis changes of the work that is asked for; `None` where it is a setting.
    #[must_use]
    pub(crate) fn work(&self, axis: &Axis) -> Option<Work> {
        let Varies::Option(name) = &axis.varies else { return None };
        let is_meant = |label: &str| axis.workload.is_empty() || axis.workload == label;
        let specs =
            self.workloads.iter().flat_map(Workload::all).filter(|(label, _)| is_meant(label));
        let found = specs.filter_map(|(_, spec)| metrics::work(spec, name)).next();
        match axis.kind {
            Some(AxisKind::Setting) => None,
            Some(AxisKind::Load) => found.or(Some(Work::Tasks)),
            None => found,
        }
    }

    /// Puts the experiment on one machine instead of the file's.
    pub fn put_on(&mut self, machine: MachineName) {
        self.axes.retain(|axis| axis.varies != Varies::Machine);
        self.machine = machine;
    }

    /// Reads an experiment file.
    ///
    /// # Errors
    /// When the file cannot be read or says something wrong.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let text = schedlab_sys::regular_file::text(path)
            .map_err(|error| FileError::Read { path: path.to_owned(), error })?;
        Self::parse(&text, path)
    }

    /// Reads an experiment from text; `path` is for the messages, and its stem is the name where the
    /// text gives none.
    ///
    /// # Errors
    /// When the text says something wrong: all mistakes, in the order of the text.
    pub fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        let mut decoder = Decoder::new(text);
        let root = decoder.root();
        let stem =
            path.file_stem().map_or("experiment".into(), |s| s.to_string_lossy().into_owned());
        let experiment = match decoder.mistakes.is_empty() {
            true => sections::experiment(&mut decoder, root, &stem, (text, path)),
            // What is no TOML is mended first: a half of a file only gives false alarms.
            false => None,
        };
        let mut mistakes = decoder.mistakes;
        mistakes.sort_by_key(|m| (m.line, m.column));
        match experiment {
            Some(experiment) if mistakes.is_empty() => Ok(experiment),
            _ => Err(FileError::Wrong { path: path.to_owned(), mistakes }),
        }
    }
}

/// The keys of an experiment file, table by table, for the schema and its test.
#[must_use]
pub fn keys() -> Vec<(&'static str, &'static [&'static str])> {
    sections::KEYS.to_vec()
}

#[cfg(test)]
mod tests;
