//! What the parent asks of a load child: one line of JSON, and later, if the child has to wait, the word to begin.

use crate::load_environment::Site;
use schedlab_workload::RunSpec;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadRequest {
    /// The run; its own workload is what this child performs.
    pub(crate) spec: RunSpec,
    pub(crate) part: Part,
    /// What was made for it.
    pub(crate) site: Site,
}

/// The part of a load child in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// It begins as soon as its tasks are ready.
    Alone,
    /// It begins when it is asked to: others begin with it.
    Among,
    /// As before, and it goes on until it is stopped, which is then no interruption.
    Beside,
}

impl Part {
    /// Whether its tasks wait for the parent's word.
    pub(crate) const fn waits(self) -> bool {
        !matches!(self, Self::Alone)
    }
}

/// The word at which the load begins.
pub(crate) const GO: &[u8] = b"go\n";
