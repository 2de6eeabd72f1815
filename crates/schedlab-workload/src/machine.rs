//! The traits of machine and output. They lie below their implementers, so that a host, a simulator,
//! a virtual machine and a fake in the tests are the same to everything above.

use crate::placement::MachineProperties;
use crate::{Recorded, RunSpec};
use schedlab_model::{
    CpuSet, Event, Fact, Knob, MachineFacts, Metric, Nanos, Topology, TraceInfo, Warning,
};
use schedlab_stats::Histogram;
use serde::{Deserialize, Serialize};
use std::io;

/// What a machine can do, asked before anything is planned on it. For what it cannot do there is a
/// reason, with the way to get it if there is one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Offers {
    /// The machine's name: `host`, `sim`, `vm`.
    pub machine: String,
    /// The CPUs of the machine, and what they share.
    pub topology: Topology,
    /// Those of them that a load may use.
    pub allowed: CpuSet,
    /// The machine's knobs. A knob that cannot be changed has the reason.
    pub knobs: Vec<Knob>,
    /// Whether scheduler events can be recorded, and how.
    pub recording: Fact<Recording>,
    /// Whether CPUs can be made slower, and by which methods.
    pub speeds: Fact<Vec<String>>,
    pub commands: Fact<()>,
    /// Whether the same spec gives the same result, bit for bit. Repeats then differ by what the spec says alone (seed,
    /// [`RunSpec::repeat`]), which plans tell beforehand, and a run with a warning is not done again.
    pub repeatable: bool,
    /// Whether several of these machines can run at the same time without changing each other's
    /// figures: true in virtual time.
    pub parallel: bool,
}

impl Offers {
    /// The machine for a plan that is only checked: its speed is 1, since nothing is calibrated.
    #[must_use]
    pub fn surroundings(&self, seed: u64) -> MachineProperties {
        let topology = self.topology.clone();
        let allowed = self.allowed.clone();
        MachineProperties { topology, allowed, speed: 1, seed }
    }
}

/// How scheduler events are recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The interface: `perf`, `ftrace` or `exact`.
    pub via: String,
    /// What falls short, if anything.
    pub warnings: Vec<Warning>,
}

pub trait Machine {
    fn offers(&self) -> &Offers;

    /// The facts that every result on it carries, as they are now.
    fn facts(&self) -> MachineFacts;

    /// Says what is wrong with `spec` before anything is started; it changes nothing. See
    /// [`crate::check_spec`] for what all machines check alike.
    ///
    /// # Errors
    /// A wrong option, or what the machine does not offer.
    fn check(&self, spec: &RunSpec) -> Result<(), MachineError>;

    /// Whether a metric of this name may be taken from this machine; why not, where its clock does not
    /// carry it.
    ///
    /// # Errors
    /// With why not, in a sentence.
    fn measures(&self, _metric: &str) -> Result<(), String> {
        Ok(())
    }

    /// Performs `spec` and hands all that it learns to `out`. All changes to the machine have
    /// been put back when this returns.
    ///
    /// # Errors
    /// When the spec asks for what the machine does not offer, or the machine failed. A workload that
    /// exits with a code of its own is no error: see [`Outcome::exit_code`].
    fn run(&mut self, spec: &RunSpec, out: &mut dyn Output) -> Result<Outcome, MachineError>;
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code of the load (128 + signal where it was killed).
    pub exit_code: i32,
    /// Whether it was stopped before its end: what was measured is partial.
    pub interrupted: bool,
    /// Whether the run's time limit ended it: its times are lower bounds, and its counts are of a part of the work.
    pub censored: bool,
}

/// The warning of a run that its time limit ended.
#[must_use]
pub fn cut_by_limit(limit: Nanos) -> Warning {
    let what = format!(
        "the time limit of {limit} ended the run: times are at least, counts are of a part"
    );
    Warning::new("censored", what, "raise the time limit, or ask for less work")
}

/// A stream of a run directory that a machine may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    Trace,
    /// What the load printed on its standard output.
    Stdout,
    /// What the load printed on its standard error.
    Stderr,
}

/// A number that a run measured, once.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Figure {
    /// The metric, with its unit.
    pub metric: Metric,
    /// The role or group that it belongs to (`worker`, `group 3`); empty for the whole run.
    pub of: String,
    /// The value in the metric's unit.
    #[schemars(with = "Option<f64>")]
    pub value: f64,
}

/// Samples of one series of one role.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Series {
    /// The metric, with its unit.
    pub metric: Metric,
    /// The role of the tasks that sampled it.
    pub of: String,
    /// The histogram of the samples.
    pub histogram: Histogram,
}

/// What a workload measured up to now: reported while it runs, and once more at its end.
#[derive(Clone, Debug, Default, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Interval {
    /// Time since the tasks began to work.
    pub elapsed: Nanos,
    /// Time that `total` covers: since the warm-up, or since the figures last started anew.
    pub covers: Nanos,
    /// Whether the run has ended.
    pub last: bool,
    /// Samples of all that is covered.
    pub total: Vec<Series>,
    /// Samples since the interval before.
    pub since: Vec<Series>,
    /// Of series that are also kept in the buckets of the tool that the workload stands in for: the
    /// metric, and of each filled bucket the value by which that tool tells it, and how many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_buckets: Vec<(String, Vec<(u64, u64)>)>,
    /// Counters over all that is covered, summed over the tasks.
    pub counts: Vec<(String, u64)>,
    /// The counts since the interval before.
    #[serde(default)]
    pub counts_since: Vec<(String, u64)>,
    /// What the plan's progress counter counted since the tasks began to work, with what was left out
    /// of `counts` at a new start.
    #[serde(default)]
    pub done: u64,
    /// Time that `since` and `counts_since` cover.
    #[serde(default)]
    pub covers_since: Nanos,
    /// How much was done in each second that is covered, a second each.
    pub rates: Vec<f64>,
    /// How much was done a second, in the interval before.
    pub rate: f64,
    /// For each role: the mean run delay per timeslice since its tasks started.
    pub delay: Vec<(String, Nanos)>,
    /// Where the workload's first dial stands, if it has one.
    pub dial: Option<u64>,
}

/// Where a machine puts what it learns in a run.
pub trait Output {
    /// A path of the run directory to which the machine writes the stream itself. Asking for it
    /// creates nothing.
    fn path(&mut self, stream: Stream) -> std::path::PathBuf;

    /// Whether what a command prints goes to [`Stream::Stdout`] and [`Stream::Stderr`]; otherwise it
    /// keeps our own streams, terminal included.
    fn keeps_streams(&self) -> bool {
        true
    }

    /// A number for the whole run.
    ///
    /// # Errors
    /// When it cannot be stored.
    fn figure(&mut self, figure: Figure) -> io::Result<()>;

    /// What was measured so far. Also told once at the end, with all samples.
    fn interval(&mut self, _interval: &Interval) {}

    /// What a workload beside the run's own (see [`crate::Beside`]) measured so far, by its label.
    fn interval_beside(&mut self, _label: &str, _interval: &Interval) {}

    /// The events of this run begin. A machine calls this once, before the first event, if it has
    /// events rather than a file for [`Stream::Trace`]. An output that keeps no trace ignores both.
    ///
    /// # Errors
    /// When the trace cannot be stored.
    fn trace(&mut self, _info: &TraceInfo) -> io::Result<()> {
        Ok(())
    }

    /// The next events of the run: times ascend, and equal times keep the order of cause and effect,
    /// on all CPUs.
    ///
    /// # Errors
    /// When the trace cannot be stored.
    fn events(&mut self, _events: &[Event]) -> io::Result<()> {
        Ok(())
    }

    /// The same with the arguments of the tracepoints beyond the scheduler's among these events, in their order
    /// (`fd=3 count=100`). An output that does not keep them takes the events alone.
    ///
    /// # Errors
    /// When the trace cannot be stored.
    fn events_with(&mut self, events: &[Event], _arguments: &[String]) -> io::Result<()> {
        self.events(events)
    }

    /// What the trace holds, told by a machine that wrote [`Stream::Trace`] itself.
    fn recorded(&mut self, _what: &Recorded) {}

    /// A sentence about what was made of the options.
    fn note(&mut self, _sentence: &str) {}

    /// A warning about this run.
    fn warning(&mut self, warning: Warning);

    /// Whether the user asked to stop; a machine looks often and ends cleanly with what it has.
    fn stopped(&self) -> bool;
}

/// Why a machine did not perform a run.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The spec asks for something that this machine has not.
    #[error("{machine} cannot {what}: {why}")]
    NotOffered {
        machine: String,
        what: String,
        /// Why not, and what to do.
        why: String,
    },
    #[error("option {option}: {why}")]
    Option {
        workload: String,
        option: String,
        /// What is wrong, and what is right.
        why: String,
    },
    /// The operating system refused.
    #[error("{doing}: {error}")]
    Io {
        /// What was being done, with the path where there is one.
        doing: String,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// The load died or did not keep to its contract.
    #[error("the load failed: {0}")]
    Load(String),
}

impl MachineError {
    /// An I/O error with what was being done.
    pub fn io(doing: impl Into<String>, error: io::Error) -> Self {
        Self::Io { doing: doing.into(), error }
    }
}
