//! What a number measures, so that tables, files, comparisons and pictures all say the same.

use serde::{Deserialize, Serialize};

/// The unit in which values of a metric are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Times in nanoseconds (ns).
    Nanoseconds,
    /// Times in seconds (s).
    Seconds,
    /// Counts without a unit.
    Count,
    /// Events for each second.
    PerSecond,
    /// Sizes in bytes (B).
    Bytes,
    /// A rate of data, in units of 1 byte.
    BytesPerSecond,
    /// A fraction of one, printed as a percentage.
    Fraction,
}

/// Which direction is an improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Less is better: times, latencies.
    Lower,
    /// More is better: throughput.
    Higher,
    /// Neither: it explains, it does not judge.
    Neither,
}

/// A metric: a name with its qualifiers from big to small (`latency_ns_p99`), unit and direction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Metric {
    /// The name, unit included where it has one.
    pub name: String,
    /// The unit of the stored values.
    pub unit: Unit,
    /// Which direction is an improvement.
    pub better: Better,
}

impl Metric {
    /// A metric by its parts.
    pub fn new(name: impl Into<String>, unit: Unit, better: Better) -> Self {
        Self { name: name.into(), unit, better }
    }
}
