//! The cells of metrics that come with the program, by the part of the model that they judge; and their page.

use super::{MetricErrors, Truth, overall, simulate_metrics, table_of};
use crate::published::{DEADLINE, GROUPS, LIMITS, LOADS, NICE, POLICIES, REAL_TIME};
use crate::{Costs, Model};
use schedlab_workload::MachineError;
use std::fmt::Write as _;

/// A file of cells of metrics.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// The part of the model: several files may judge one.
    pub part: &'static str,
    /// Whether the cells were compared once, when the model was done, and nothing was changed afterwards.
    pub is_held_back: bool,
    /// The text of the file, as it comes with the program.
    pub text: &'static str,
}

const fn file(part: &'static str, text: &'static str) -> Compared {
    Compared { part, is_held_back: false, text }
}

impl Compared {
    const fn held_back(self) -> Self {
        Self { is_held_back: true, ..self }
    }
}

/// The files that come with the program.
pub const COMPARED: &[Compared] = &[
    file(LOADS, include_str!("../../data/debian-6.1-loads.truth.toml")),
    file(NICE, include_str!("../../data/debian-6.1-nice.truth.toml")),
    file(REAL_TIME, include_str!("../../data/debian-6.1-realtime.truth.toml")),
    file(DEADLINE, include_str!("../../data/debian-6.1-deadline.truth.toml")),
    file(GROUPS, include_str!("../../data/debian-6.1-groups.truth.toml")),
    file(LOADS, include_str!("../../data/debian-6.1-held-loads.truth.toml")).held_back(),
    file(NICE, include_str!("../../data/debian-6.1-held-nice.truth.toml")).held_back(),
    file(POLICIES, include_str!("../../data/debian-6.1-policies.truth.toml")).held_back(),
    file(REAL_TIME, include_str!("../../data/debian-6.1-held-realtime.truth.toml")).held_back(),
    file(DEADLINE, include_str!("../../data/debian-6.1-held-deadline.truth.toml")).held_back(),
    file(GROUPS, include_str!("../../data/debian-6.1-held-groups.truth.toml")).held_back(),
    file(LIMITS, include_str!("../../data/debian-6.1-limits.truth.toml")).held_back(),
    file(LOADS, include_str!("../../data/debian-6.12-loads.truth.toml")),
    file(REAL_TIME, include_str!("../../data/debian-6.12-realtime.truth.toml")),
    file(DEADLINE, include_str!("../../data/debian-6.12-deadline.truth.toml")),
    file(GROUPS, include_str!("../../data/debian-6.12-groups.truth.toml")),
    file(LOADS, include_str!("../../data/debian-6.12-held-loads.truth.toml")).held_back(),
    file(NICE, include_str!("../../data/debian-6.12-nice.truth.toml")).held_back(),
    file(POLICIES, include_str!("../../data/debian-6.12-policies.truth.toml")).held_back(),
    file(REAL_TIME, include_str!("../../data/debian-6.12-held-realtime.truth.toml")).held_back(),
    file(DEADLINE, include_str!("../../data/debian-6.12-held-deadline.truth.toml")).held_back(),
    file(GROUPS, include_str!("../../data/debian-6.12-held-groups.truth.toml")).held_back(),
    file(LIMITS, include_str!("../../data/debian-6.12-limits.truth.toml")).held_back(),
];

/// A file with the errors of its metrics.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The file that was compared, with its part.
    pub of: Compared,
    /// The simulated kernel, as it is written.
    pub kernel: &'static str,
    /// A row for each load and metric.
    pub errors: Vec<MetricErrors>,
}

/// Compares all files with the model that each names.
///
/// # Errors
/// When a file or a model cannot be read, or a cell cannot run.
pub fn judged() -> Result<Vec<Judged>, MachineError> {
    let one = |of: &Compared| {
        let truth = Truth::parse(of.text).map_err(MachineError::Load)?;
        let name: schedlab_workload::MachineName =
            truth.machine.parse().map_err(MachineError::Load)?;
        let costs = name.settings.get("costs").and_then(|name| Costs::preset(name));
        let model = Model::of(&name, costs).map_err(MachineError::Load)?;
        let errors = truth.compare_metrics(|cell| simulate_metrics(cell, &model))?;
        Ok(Judged { of: *of, kernel: model.kernel.name(), errors })
    };
    COMPARED.iter().map(one).collect()
}

/// The page `docs/simulation-errors.md`, as text.
#[must_use]
pub fn page(all: &[Judged]) -> String {
    let mut text = String::from(
        "# Errors of the simulated machine, by load and metric\n\n\
         Look up here how far the model is off for one load and one metric. [The simulated\n\
         machine](simulation.md#other-loads-classes-and-groups) says what the cells are and how errors are\n\
         counted. This page is generated; a test computes it again. This command writes it:\n\n\
         \x20   SCHEDLAB_DOCS=write cargo test -p schedlab-sim --test all errors::\n\n\
         A row has the errors of the model in the median of its cells, at their 90th percentile and at worst.\n\
         Beside them are those of the best constant, and of the best table over one knob or option. Where a\n\
         metric has one cell, the constant is the kernel's own number. Cells that were held back were\n\
         compared once, when the model was done, and nothing was changed afterwards.\n",
    );
    for one in all {
        let held = if one.of.is_held_back { ", held back" } else { "" };
        let _ = writeln!(text, "\n## {}, {}{held}\n", one.of.part, one.kernel);
        text.push_str(&table_of(&one.errors));
        let (model, constant) = overall(&one.errors);
        let percent = |fraction: f64| format!("{:.1} %", fraction * 100.0);
        let _ = writeln!(
            text,
            "\nAll cells and metrics: model {}, {}, {}; constants {}, {}.",
            percent(model.median),
            percent(model.p90),
            percent(model.worst),
            percent(constant.median),
            percent(constant.p90)
        );
    }
    text
}
