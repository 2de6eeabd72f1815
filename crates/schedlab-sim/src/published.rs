//! The errors of the model that docs/simulation-errors.md publishes.

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

/// The model's published errors for a part of it, over all cells and metrics of that part, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedPart {
    /// The simulated kernel, as it is written.
    pub kernel: &'static str,
    /// The part, as in `real-time tasks`.
    pub part: &'static str,
    /// Whether the cells were compared once, when the model was done.
    pub is_held_back: bool,
    /// The model's error in percent: the median, the 90th percentile and the worst.
    pub model: (f64, f64, f64),
    /// The median error and the 90th percentile of the best constants.
    pub constant: (f64, f64),
}

/// Parts that were compared with cells of metrics of their own.
pub(crate) const LOADS: &str = "other loads";
pub(crate) const NICE: &str = "nice levels";
pub(crate) const REAL_TIME: &str = "real-time tasks";
pub(crate) const DEADLINE: &str = "deadline tasks";
pub(crate) const GROUPS: &str = "control groups";
pub(crate) const POLICIES: &str = "SCHED_BATCH and SCHED_IDLE tasks";
pub(crate) const LIMITS: &str = "limits of control groups";

/// The published errors of the parts. A test computes them again.
pub const PUBLISHED_PARTS: &[PublishedPart] = &[
    part("cfs-6.1", LOADS, (1.1, 49.6, 400.0), (13.9, 99.6)),
    part("cfs-6.1", NICE, (0.9, 3.7, 4.1), (57.6, 91.8)),
    part("cfs-6.1", REAL_TIME, (2.8, 79.9, 137.2), (1.1, 78.8)),
    part("cfs-6.1", DEADLINE, (2.5, 23.8, 93.2), (0.4, 97.0)),
    part("cfs-6.1", GROUPS, (1.6, 5.7, 10.8), (10.0, 46.0)),
    part("cfs-6.1", LOADS, (1.4, 130.0, 400.0), (0.0, 29.5)).held_back(),
    part("cfs-6.1", NICE, (6.0, 16.6, 19.5), (0.0, 0.0)).held_back(),
    part("cfs-6.1", POLICIES, (2.5, 78.7, 200.0), (65.0, 1001.4)).held_back(),
    part("cfs-6.1", REAL_TIME, (1.2, 12.7, 132.7), (0.0, 0.0)).held_back(),
    part("cfs-6.1", DEADLINE, (1.3, 62.7, 316.8), (48.7, 277.0)).held_back(),
    part("cfs-6.1", GROUPS, (1.5, 7.6, 8.8), (0.0, 0.0)).held_back(),
    part("cfs-6.1", LIMITS, (9.8, 46.5, 129.3), (2.9, 1054.5)).held_back(),
    part("eevdf-6.12", LOADS, (3.8, 92.1, 900.0), (22.0, 147.4)),
    part("eevdf-6.12", REAL_TIME, (4.2, 47.7, 157.0), (7.0, 83.6)),
    part("eevdf-6.12", DEADLINE, (3.4, 22.4, 429.5), (0.3, 135.0)),
    part("eevdf-6.12", GROUPS, (3.5, 11.1, 20.0), (0.0, 0.0)),
    part("eevdf-6.12", LOADS, (2.6, 32.4, 171.4), (0.0, 40.5)).held_back(),
    part("eevdf-6.12", NICE, (6.9, 8.3, 8.4), (0.0, 0.0)).held_back(),
    part("eevdf-6.12", POLICIES, (2.0, 31.6, 66.7), (49.3, 774.4)).held_back(),
    part("eevdf-6.12", REAL_TIME, (4.6, 15.5, 23.4), (0.0, 0.0)).held_back(),
    part("eevdf-6.12", DEADLINE, (0.8, 52.2, 429.4), (45.6, 236.4)).held_back(),
    part("eevdf-6.12", GROUPS, (5.0, 19.7, 28.6), (0.0, 0.0)).held_back(),
    part("eevdf-6.12", LIMITS, (8.3, 89.9, 100.0), (5.1, 376.5)).held_back(),
];

const fn part(
    kernel: &'static str,
    part: &'static str,
    model: (f64, f64, f64),
    constant: (f64, f64),
) -> PublishedPart {
    PublishedPart { kernel, part, is_held_back: false, model, constant }
}

impl PublishedPart {
    const fn held_back(self) -> Self {
        Self { is_held_back: true, ..self }
    }
}

/// What results say of a part that they use: its errors, or that it was not compared. Cells that were held back tell
/// more than those that were known while the model was made.
pub(crate) fn sentence(kernel: &str, part: &str, cpus: usize) -> String {
    let mut all = PUBLISHED_PARTS.iter().filter(|one| (one.kernel, one.part) == (kernel, part));
    match all.clone().find(|one| one.is_held_back).or_else(|| all.next()) {
        None => format!("{part} have not been compared with a kernel"),
        Some(one) => {
            let (median, p90, worst) = one.model;
            let cells = if one.is_held_back { ", in cells that were held back" } else { "" };
            let more = if cpus > 1 { "; on several CPUs they have not been compared" } else { "" };
            format!(
                "{part} were compared on one CPU{cells}: CPU times, latencies and switches are off by \
                 {median:.1} % in the median, {p90:.0} % at the 90th percentile and {worst:.0} % at \
                 worst{more}"
            )
        }
    }
}

/// How the model places waking tasks on several CPUs, beside recordings of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedPlacement {
    /// The simulated kernel, as it is written.
    pub kernel: &'static str,
    /// The share of wakeups that the model places as the kernel did, in percent: the least and the most of all recordings.
    pub right: (f64, f64),
    /// The score beside the best naive rule, which would be 0: the least and the most.
    pub score: (f64, f64),
}

/// The published placements. A test reads them from `examples/evidence/placement`.
pub const PUBLISHED_PLACEMENTS: &[PublishedPlacement] = &[
    PublishedPlacement { kernel: "cfs-6.1", right: (88.5, 99.9), score: (0.64, 0.98) },
    PublishedPlacement { kernel: "eevdf-6.12", right: (95.7, 100.0), score: (0.62, 1.0) },
];

/// What results on several CPUs say.
pub(crate) fn several_cpus(kernel: &str) -> String {
    let known = PUBLISHED_PLACEMENTS.iter().find(|one| one.kernel == kernel);
    let placed = known.map_or_else(
        || "nor has placement".to_owned(),
        |one| {
            let ((least, most), (low, high)) = (one.right, one.score);
            format!(
                "of the wakeups recorded on 4 to 8 CPUs, the model places {least:.0} to {most:.0} % as the kernel \
                 (score {low:.2} to {high:.2}, where 0 is the best naive rule)"
            )
        },
    );
    format!("run times on several CPUs have not been compared with a kernel; {placed}")
}

/// What docs/simulation-errors.md publishes, and what each result of a simulation carries. A test computes them again.
pub const PUBLISHED: &[Published] = &[
    published("cfs-6.1", "icount-6.1", "pipes", (0.9, 1.3), (30.7, 54.1)),
    published("cfs-6.1", "icount-6.1", "sockets", (1.4, 2.3), (10.9, 23.4)),
    published("cfs-6.1", "icount-6.1", "sockets, 12 senders", (2.2, 8.3), (8.8, 30.8)),
    published("cfs-6.1", "icount-6.1", "pipes, 3 groups", (0.4, 1.5), (0.6, 45.1)),
    published("cfs-6.1", "icount-6.1", "pipes, 16 senders", (2.0, 5.8), (31.1, 43.2)),
    published("cfs-6.1", "icount-6.1", "sockets, 3 groups", (1.5, 2.7), (4.1, 11.8)),
    published("cfs-5.10", "icount-5.10", "pipes", (0.6, 3.2), (38.8, 42.2)),
    published("eevdf-6.12", "icount-6.12", "pipes", (0.9, 1.8), (0.7, 1.0)),
    published("eevdf-6.12", "icount-6.12", "sockets", (1.9, 4.4), (0.6, 0.6)),
    published("eevdf-6.12", "icount-6.12", "pipes, 3 groups", (1.3, 1.5), (0.2, 0.2)),
    published("eevdf-6.12", "icount-6.12", "sockets, 12 senders", (5.3, 7.2), (3.0, 6.2)),
    published("eevdf-6.12", "icount-6.12", "pipes, 16 senders", (0.5, 1.2), (0.2, 0.5)),
    published("eevdf-6.12", "icount-6.12", "sockets, 3 groups", (3.0, 3.2), (0.5, 1.3)),
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
