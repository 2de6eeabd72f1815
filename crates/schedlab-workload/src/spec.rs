//! What a run is: plain values that can be written down, hashed and sent to a load child.

use crate::RecordSpec;
use schedlab_model::{Nanos, Setting};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One execution of one point of an experiment, completely described.
///
/// Its identity is the hash of its content (see `schedlab-experiment`): two specs that are equal are
/// the same run, so everything that may change a result is in here, the repeat included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// What loads the machine.
    pub workload: WorkloadSpec,
    /// Knobs to set before and put back after.
    #[serde(default)]
    pub settings: Vec<Setting>,
    /// Which scheduler events to record, if any.
    #[serde(default)]
    pub record: Option<RecordSpec>,
    /// Seed of everything random in the workload.
    #[serde(default)]
    pub seed: u64,
    /// Which repeat of its point this is, from 0.
    #[serde(default)]
    pub repeat: u32,
    /// The run is stopped after this time.
    #[serde(default)]
    pub time_limit: Option<Nanos>,
}

/// A workload by name, or a command of the user's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WorkloadSpec {
    /// A workload of ours: its name and its options as text, by their long names.
    Builtin {
        /// `hackbench`, `schbench`, ...
        name: String,
        /// Options by long name without dashes; a flag has the value `true`.
        #[serde(default)]
        options: BTreeMap<String, String>,
    },
    /// A command, run as it stands.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
    },
}
