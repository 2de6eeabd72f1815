//! The cells of metrics that come with the program, by the part of the model that they judge; and their page.

use super::{MetricErrors, Truth, simulate_metrics};
use crate::published::{DEADLINE, GROUPS, LIMITS, LOADS, NICE, POLICIES, REAL_TIME};
use crate::{Costs, Model, PUBLISHED, PUBLISHED_PARTS, PUBLISHED_PLACEMENTS};
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

/// The page `docs/simulation-errors.md`, as text: all errors that are published.
#[must_use]
pub fn page() -> String {
    let mut text = String::from(
        "# Errors of the simulated machine\n\n\
         Look up here how far the model is off. [The simulated machine](simulation.md#how-wrong-it-is) says\n\
         what the cells are and how errors are counted. `schedlab sim validate` prints the errors by load and\n\
         metric. This page is generated, and a test computes its errors again. This command writes it:\n\n\
         \x20   SCHEDLAB_DOCS=write cargo test -p schedlab-sim --test all errors::\n\n\
         A row has the errors of the model over its cells and metrics, beside those of the best constants. A\n\
         constant over one cell is the kernel's own number, so its error is 0. Cells that were *held back*\n\
         were compared once, when the model was done. The date is the day on which the kernel was measured.\n\n\
         | kernel | kind of load | CPUs | model: median, 90th percentile, worst | constant: median, 90th percentile | date |\n\
         |---|---|---|---|---|---|\n",
    );
    for one in PUBLISHED {
        let model = percents(&[one.model.0, one.model.1]);
        let constant = percents(&[one.constant.0, one.constant.1]);
        let (kernel, label) = (one.kernel, one.label);
        let _ = writeln!(
            text,
            "| `{kernel}` | hackbench: {label} | 1 | {model} | {constant} | 2026-11-24 |"
        );
    }
    for one in PUBLISHED_PARTS {
        let model = percents(&[one.model.0, one.model.1, one.model.2]);
        let constant = percents(&[one.constant.0, one.constant.1]);
        let (kernel, part) = (one.kernel, one.part);
        let (held, date) =
            if one.is_held_back { (", held back", "2026-11-26") } else { ("", "2026-11-25") };
        let _ = writeln!(text, "| `{kernel}` | {part}{held} | 1 | {model} | {constant} | {date} |");
    }
    text.push_str(
        "\nOn several CPUs only the placement of waking tasks is judged. The score of the best naive rule is 0,\n\
         that of the kernel is 1.\n\n\
         | kernel | CPUs | placed as the kernel did | score | date |\n|---|---|---|---|---|\n",
    );
    for one in PUBLISHED_PLACEMENTS {
        let (kernel, (least, most), (low, high)) = (one.kernel, one.right, one.score);
        let _ = writeln!(
            text,
            "| `{kernel}` | 4 to 8 | {least:.1} to {most:.1} % | {low:.2} to {high:.2} | 2026-11-26 |"
        );
    }
    text
}

fn percents(all: &[f64]) -> String {
    all.iter().map(|one| format!("{one:.1} %")).collect::<Vec<_>>().join(", ")
}
