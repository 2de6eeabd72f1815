//! Warnings as values: what may be wrong with a result, and what to do about it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A fact that limits what a result means. The command prints it beside the metric that it
/// concerns.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, schemars::JsonSchema, Serialize, Deserialize,
)]
pub struct Warning {
    /// A stable name for scripts, in kebab case: `events-lost`, `machine-busy`.
    pub code: String,
    /// What was seen, where, in a sentence without a full stop.
    pub what: String,
    /// What to do about it; empty when nothing can be done.
    pub remedy: String,
}

impl Warning {
    /// A warning with its remedy.
    pub fn new(
        code: impl Into<String>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { code: code.into(), what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.remedy.as_str() {
            "" => write!(f, "{}", self.what),
            remedy => write!(f, "{}: {remedy}", self.what),
        }
    }
}
