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

impl Published {
    /// What the messages go through: pipes or sockets.
    pub(crate) fn kind(&self) -> &'static str {
        self.label.split(',').next().unwrap_or(self.label)
    }
}

/// What docs/simulation.md publishes, and what each result of a simulation carries. A test computes them again.
pub const PUBLISHED: &[Published] = &[
    published("cfs-6.1", "icount-6.1", "pipes", (0.7, 1.1), (30.7, 54.1)),
    published("cfs-6.1", "icount-6.1", "sockets", (1.4, 2.3), (10.9, 23.4)),
    published("cfs-6.1", "icount-6.1", "sockets, 12 senders", (2.2, 8.4), (8.8, 30.8)),
    published("cfs-6.1", "icount-6.1", "pipes, 3 groups", (0.5, 1.4), (0.6, 45.1)),
    published("cfs-6.1", "icount-6.1", "pipes, 16 senders", (2.1, 5.4), (31.1, 43.2)),
    published("cfs-6.1", "icount-6.1", "sockets, 3 groups", (1.7, 2.8), (4.1, 11.8)),
    published("cfs-5.10", "icount-5.10", "pipes", (0.6, 3.2), (38.8, 42.2)),
    published("eevdf-6.12", "icount-6.12", "pipes", (1.0, 1.9), (0.7, 1.0)),
    published("eevdf-6.12", "icount-6.12", "sockets", (1.2, 4.4), (0.6, 0.6)),
    published("eevdf-6.12", "icount-6.12", "pipes, 3 groups", (1.3, 1.5), (0.2, 0.2)),
    published("eevdf-6.12", "icount-6.12", "sockets, 12 senders", (4.9, 7.4), (3.0, 6.2)),
    published("eevdf-6.12", "icount-6.12", "pipes, 16 senders", (0.6, 1.2), (0.2, 0.5)),
    published("eevdf-6.12", "icount-6.12", "sockets, 3 groups", (3.2, 3.6), (0.5, 1.3)),
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
