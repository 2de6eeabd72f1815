//! What a run is: plain values that can be written down, hashed and sent to a load child.

use crate::RecordSpec;
use schedlab_model::{Nanos, Setting};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What figures of the machine itself are of; no workload beside others may be called so.
pub const MACHINE: &str = "machine";

/// One execution of one point of an experiment, completely described.
///
/// Its identity is the hash of its content (see `schedlab-experiment`): two specs that are equal are
/// the same run, so everything that may change a result is in here, the repeat included.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// What loads the machine.
    pub workload: WorkloadSpec,
    /// What runs at the same time: a server's antagonist, say. They begin with the workload and end
    /// when it ends. (Left out of the text where there is none, so that such a run keeps its identity.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Beside>,
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

/// A workload that runs beside another. Its metrics are reported under its label (`antagonist`), and those of
/// its roles below it (`antagonist/worker`): see [`Beside::of`].
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// Its name in the results, unlike that of any other beside it: letters, digits, `-` and `_`.
    pub label: String,
    /// The workload and its options.
    pub workload: WorkloadSpec,
}

impl Beside {
    /// Whose a figure is in the results of the whole run, when the workload itself says that it is
    /// `role`'s (empty: its own).
    #[must_use]
    pub fn of(&self, role: &str) -> String {
        if role.is_empty() { self.label.clone() } else { format!("{}/{role}", self.label) }
    }

    /// The reverse of [`Beside::of`]: the role, where `of` is this workload's.
    #[must_use]
    pub fn role<'o>(&self, of: &'o str) -> Option<&'o str> {
        let rest = of.strip_prefix(self.label.as_str())?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
    }
}

impl RunSpec {
    /// A run of this workload alone: nothing set, nothing recorded, no limit, seed 0.
    #[must_use]
    pub fn of(workload: WorkloadSpec) -> Self {
        Self {
            workload,
            beside: Vec::new(),
            settings: Vec::new(),
            record: None,
            seed: 0,
            repeat: 0,
            time_limit: None,
        }
    }

    /// The labels of what runs beside must tell the figures apart.
    ///
    /// # Errors
    /// The first that is none or is there twice, in a sentence.
    pub(crate) fn check_labels(&self) -> Result<(), String> {
        for (index, one) in self.beside.iter().enumerate() {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            if one.label.is_empty() || !one.label.chars().all(fits) {
                return Err(format!(
                    "invalid label '{}': use letters, digits, '-' and '_'",
                    one.label
                ));
            }
            if one.label == MACHINE {
                return Err(format!(
                    "invalid label '{MACHINE}': metrics of the machine itself have this label"
                ));
            }
            if self.beside[..index].iter().any(|other| other.label == one.label) {
                return Err(format!(
                    "two workloads have the label '{}': give one another label (LABEL: WORKLOAD \
                     ...)",
                    one.label
                ));
            }
        }
        Ok(())
    }
}

/// A workload by name, or a command of the user's.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WorkloadSpec {
    /// A workload of ours: its name and its options as text, by their long names.
    Builtin {
        /// The name: `hackbench`, `schbench` and so on.
        name: String,
        /// Options by long name without dashes; a flag has the value `true`.
        #[serde(default)]
        options: BTreeMap<String, String>,
    },
    /// A command, run as it stands.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
    },
}
