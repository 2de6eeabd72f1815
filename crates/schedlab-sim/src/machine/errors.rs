//! How far the built-in schedulers of Linux are off: one table, of which each result prints its row.

use schedlab_workload::WorkloadSpec;

/// The errors of a built-in scheduler for one kind of load on one CPU, in percent.
struct Row {
    kernel: &'static str,
    /// The kind of load, as in `real-time tasks`.
    load: &'static str,
    /// Half of its figures are closer to the kernel's.
    median: f64,
    p90: f64,
    /// The day on which the kernel was measured.
    date: &'static str,
}

const fn row(kernel: &'static str, load: &'static str, median: f64, p90: f64) -> Row {
    Row { kernel, load, median, p90, date: "2026-11-30" }
}

const PIPES: &str = "hackbench over pipes";
const SOCKETS: &str = "hackbench over sockets";
const OTHER: &str = "other loads";
pub(super) const NICE: &str = "nice levels";
pub(super) const POLICIES: &str = "SCHED_BATCH and SCHED_IDLE tasks";
pub(super) const REAL_TIME: &str = "real-time tasks";
pub(super) const DEADLINE: &str = "deadline tasks";
pub(super) const GROUPS: &str = "control groups";
pub(super) const LIMITS: &str = "limits of control groups";

/// Debian's kernels in QEMU with one CPU, where each instruction takes a nanosecond: times (or rates), latencies and run
/// delays of the loads in examples/evidence/guests.
const TABLE: &[Row] = &[
    row("cfs-6.1", PIPES, 3.5, 22.0),
    row("cfs-6.1", SOCKETS, 2.0, 5.5),
    row("cfs-6.1", OTHER, 3.7, 17.6),
    row("cfs-6.1", NICE, 2.1, 8.8),
    row("cfs-6.1", POLICIES, 0.6, 3.1),
    row("cfs-6.1", REAL_TIME, 2.2, 41.0),
    row("cfs-6.1", DEADLINE, 1.8, 47.8),
    row("cfs-6.1", GROUPS, 3.1, 5.7),
    row("cfs-6.1", LIMITS, 1.6, 2.4),
    row("eevdf-6.12", PIPES, 12.8, 44.4),
    row("eevdf-6.12", SOCKETS, 21.1, 43.7),
    row("eevdf-6.12", OTHER, 2.2, 13.1),
    row("eevdf-6.12", NICE, 5.4, 9.6),
    row("eevdf-6.12", POLICIES, 1.1, 7.1),
    row("eevdf-6.12", REAL_TIME, 2.2, 67.2),
    row("eevdf-6.12", DEADLINE, 2.7, 45.0),
    row("eevdf-6.12", GROUPS, 4.3, 36.4),
    row("eevdf-6.12", LIMITS, 1.4, 2.6),
];

/// The kind of load of plain fair tasks.
pub(super) fn plain(workload: &WorkloadSpec) -> &'static str {
    match workload {
        WorkloadSpec::Builtin { name, options } if name == "hackbench" => {
            let pipes = options.get("pipe").is_some_and(|value| value != "false");
            if pipes { PIPES } else { SOCKETS }
        }
        _ => OTHER,
    }
}

/// The row of a run on one CPU, in a line. Of several kinds of load in one run, that with the largest error counts.
pub(super) fn line(kernel: &str, loads: &[&str]) -> Option<String> {
    let rows = TABLE.iter().filter(|row| row.kernel == kernel && loads.contains(&row.load));
    let Row { load, median, p90, date, .. } = rows.max_by(|a, b| a.p90.total_cmp(&b.p90))?;
    Some(format!(
        "{kernel} was off by {median:.1} % in the median and {p90:.0} % at the 90th percentile, for {load} \
         on 1 CPU ({date})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the document is the expectation")]
    fn the_document_has_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/simulation.md");
        let text = std::fs::read_to_string(path).unwrap();
        for Row { kernel, load, median, p90, date } in TABLE {
            let row = format!("| `{kernel}` | {load} | 1 | {median:.1} %, {p90:.1} % | {date} |");
            assert!(text.contains(&row), "docs/simulation.md lacks {row}");
        }
        assert_eq!(
            text.matches(" | 2026-11-30 |").count(),
            TABLE.len(),
            "rows that nothing measured"
        );
    }

    #[test]
    fn the_largest_error_of_a_run_counts() {
        let line = |loads: &[&str]| line("cfs-6.1", loads);
        assert!(
            line(&[REAL_TIME, GROUPS]).unwrap().contains("41 % at the 90th percentile, for real")
        );
        assert!(line(&[PIPES]).unwrap().contains("off by 3.5 %"));
        assert_eq!(line(&["nothing"]), None);
    }
}
