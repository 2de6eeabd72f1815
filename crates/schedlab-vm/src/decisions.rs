//! What counts of a run on several CPUs that share one budget of instructions: decisions, not times.
//!
//! QEMU runs the CPUs of a guest with the clock of instructions in turns. Measured with QEMU 10.0.2 and
//! Linux 6.1: one busy loop takes 2.20 s of the guest's time, two side by side on two CPUs 4.45 s each. So
//! a CPU that stands idle costs nothing, and no run time or throughput may be taken from such a guest.

use schedlab_model::{Metric, Unit, Warning};
use schedlab_workload::{Figure, Interval, Output, Stream};
use std::io;
use std::path::PathBuf;

/// Code of the warning of a run whose times were left out.
pub const DECISIONS_ONLY: &str = "decisions-only";
/// Why times say nothing.
pub(crate) const WHY: &str = "the CPUs of this guest share one budget of instructions, so an idle CPU \
                              costs nothing";

/// Passes on what is a decision of the scheduler, and drops times and throughput.
pub(crate) struct Decisions<'o>(&'o mut dyn Output);

impl<'o> Decisions<'o> {
    /// Around an output, which is warned.
    pub(crate) fn of(out: &'o mut dyn Output) -> Self {
        out.warning(Warning::new(
            DECISIONS_ONLY,
            format!("run times and throughput are left out: {WHY}"),
            "compare switches, migrations and placement; for times, use cpus=1 or clock=wall",
        ));
        Self(out)
    }
}

/// Whether a metric counts what a scheduler decided.
pub(crate) fn is_decision(metric: &Metric) -> bool {
    let kinds = ["switches", "migrations", "timeslices", "wakeups"];
    let counts = matches!(metric.unit, Unit::Count | Unit::Fraction);
    // Totals of a trace are known by their names alone.
    let is_time = metric.name.contains("_ns") || metric.name.ends_with("_per_s");
    counts && !is_time && kinds.iter().any(|kind| metric.name.contains(kind))
}

impl Output for Decisions<'_> {
    fn path(&mut self, stream: Stream) -> PathBuf {
        self.0.path(stream)
    }

    fn figure(&mut self, figure: Figure) -> io::Result<()> {
        if is_decision(&figure.metric) { self.0.figure(figure) } else { Ok(()) }
    }

    fn interval(&mut self, _interval: &Interval) {}

    fn note(&mut self, sentence: &str) {
        self.0.note(sentence);
    }

    fn warning(&mut self, warning: Warning) {
        self.0.warning(warning);
    }

    fn stopped(&self) -> bool {
        self.0.stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::Better;

    #[test]
    fn times_and_throughput_are_no_decisions() {
        let is = |name: &str, unit| is_decision(&Metric::new(name, unit, Better::Neither));
        assert!(is("switches_voluntary", Unit::Count) && is("migrations", Unit::Count));
        assert!(!is("time_s", Unit::Seconds) && !is("requests", Unit::Count));
        assert!(!is("switches_per_s", Unit::PerSecond));
        assert!(is("trace_wakeups_left_idle_fraction", Unit::Fraction));
        assert!(!is("trace_wakeups_sum_ns", Unit::Count));
    }
}
