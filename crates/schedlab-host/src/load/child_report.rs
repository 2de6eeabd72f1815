//! What the load child reports to its parent: JSON lines.

use schedlab_model::{Comm, Pid, Warning};
use schedlab_workload::{Figure, Interval};
use serde::{Deserialize, Serialize};
use std::io::Write;

/// One line that the load child writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoadReport {
    /// A sentence about what was made of the options.
    Note(String),
    /// The names of marks, by number.
    Marks(Vec<String>),
    /// The tasks that were started: number, name.
    Tasks(Vec<(Pid, Comm)>),
    /// What was measured so far.
    Interval(Box<Interval>),
    /// A number for the whole run.
    Figure(Figure),
    Warning(Warning),
    /// The run cannot be done, or an option is wrong.
    Failed {
        /// Which option, where it is one.
        option: Option<String>,
        /// The reason of the failure.
        why: String,
    },
    /// The end; the last line.
    Ended {
        /// Whether it was stopped before its time.
        interrupted: bool,
        /// Whether the run's time limit ended it.
        censored: bool,
        /// What went wrong with tasks, in sentences.
        failures: Vec<String>,
    },
}

impl LoadReport {
    /// Tells it. When the parent is gone nobody minds: the child is about to be killed.
    pub(crate) fn tell(&self) {
        let mut line = serde_json::to_string(self).expect("plain values");
        line.push('\n');
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}
