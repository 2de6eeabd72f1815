//! The errors of the model that docs/simulation.md publishes.

/// The model's published errors for one kind of load, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// The simulated kernel, as it is written.
    pub kernel: &'static str,
    /// The costs with which it was compared.
    pub costs: &'static str,
    /// The group of cells.
    pub label: &'static str,
    /// The model's error in percent: the median of the cells and their 90th percentile.
    pub model: (f64, f64),
    /// The same two errors of the best constant.
    pub constant: (f64, f64),
}

/// What docs/simulation.md publishes, and what each result of a simulation carries. A test computes them again.
pub const PUBLISHED: &[Published] = &[
    published("cfs-6.1", "icount-6.1", "pipes", (2.0, 9.2), (22.2, 31.4)),
    published("cfs-6.1", "icount-6.1", "sockets", (2.5, 7.9), (10.0, 18.8)),
    published("eevdf-6.12", "icount-6.12", "pipes", (3.3, 3.5), (0.1, 0.3)),
    published("eevdf-6.12", "icount-6.12", "sockets", (0.7, 2.0), (0.1, 2.2)),
];

const fn published(
    kernel: &'static str,
    costs: &'static str,
    label: &'static str,
    model: (f64, f64),
    constant: (f64, f64),
) -> Published {
    Published { kernel, costs, label, model, constant }
}
