//! How true each way of slowing CPUs is on a machine: the runs that show it, the rate of each load beside the one at full
//! speed in the same round, and what that says of each method.

mod figures;
mod picture;
mod points;
mod verdict;

pub use figures::Figures;
pub use picture::picture;
pub use points::{Benchmark, Evaluation, Prepared, Slowing, benchmarks};
pub use verdict::{Verdict, verdicts};

use schedlab_model::Warning;
use schemars::JsonSchema;
use serde::Serialize;

/// All figures, and what was left out.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct Results {
    /// The figures of each point that has runs.
    pub results: Vec<Figures>,
    /// What cannot be had here, or failed, with why.
    pub left_out: Vec<String>,
    /// Warnings about all of them.
    pub warnings: Vec<Warning>,
    /// Whether it was stopped before its end.
    pub partial: bool,
}
