//! Warnings about answers: what a trace lacks, and what of it contradicts itself.

use crate::state::State;
use schedlab_model::{Kind, Nanos, Unit, Warning, readable};

impl State {
    /// Warnings that concern every answer drawn from this trace; figures are lower bounds then.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut doubt = |code: &str, what: String, remedy: &str| {
            warnings.push(Warning::new(code, what, remedy));
        };
        let seen = self.seen;
        let tally = &self.tally;
        if !seen.contains(Kind::Switch) {
            let what = "run times are unknown: the trace holds no sched_switch";
            doubt("no-switches", what.into(), "record sched_switch");
        } else if !self.sees_wakes()
            && (tally.unwoken > 0
                || !(self.kinds.contains(Kind::Waking) || self.kinds.contains(Kind::Wakeup)))
        {
            let what = "waits are lower bounds: the trace holds no wakeups, so only preempted \
                tasks are seen to wait";
            doubt("no-wakeups", what.into(), "record sched_waking and sched_wakeup as well");
        } else if !seen.contains(Kind::Wakeup) && !self.kinds.contains(Kind::Migrate) {
            let what = "the CPU of a woken task is assumed to be its last one: the trace holds \
                neither sched_wakeup nor sched_migrate_task";
            doubt(
                "no-placements",
                what.into(),
                "record sched_wakeup or sched_migrate_task as well",
            );
        }
        if tally.losses > 0 {
            let what = match tally.lost_events {
                0 => format!("events were lost {} times", tally.losses),
                events => format!("{events} events were lost, {} times", tally.losses),
            };
            let what = what
                + ": the CPUs are unknown until their next switch, and metrics are lower bounds";
            doubt("events-lost", what, "record with larger buffers");
        }
        if tally.out_of_sight > 0 {
            let what = format!(
                "metrics are lower bounds: {} times a task moved to a CPU that the trace does \
                 not cover",
                tally.out_of_sight
            );
            doubt("cpus-unobserved", what, "record all CPUs");
        }
        if tally.overlaps > 0 {
            let what = format!(
                "run times are uncertain: {} times a task began to run while it still ran on \
                 another CPU. The CPUs' clocks disagree, or recording stopped on one CPU earlier",
                tally.overlaps
            );
            let remedy = if self.clock_is_global { "" } else { "record with the clock mono" };
            doubt("clocks-disagree", what, remedy);
        }
        if tally.contradictions > 0 {
            let what = format!(
                "run times are uncertain for {} of CPU time ({}): {} events name a task other than the \
                 one last seen on that CPU. Switches are missing",
                tally.contradicted.readable(),
                self.part_of_cpu_time(tally.contradicted),
                tally.contradictions
            );
            doubt("events-contradict", what, remedy_of_contradictions(tally.losses > 0));
        }
        if tally.unwoken > 0 && self.sees_wakes() {
            let what = format!(
                "some waits are not counted: {} times a task ran without a recorded wakeup",
                tally.unwoken
            );
            doubt("wakeups-missing", what, "");
        }
        warnings
    }
}

impl State {
    /// A time as a part of the time of all observed CPUs.
    fn part_of_cpu_time(&self, time: Nanos) -> String {
        let all = self.window.duration().0 as f64 * self.observed_cpus().count() as f64;
        readable(time.0 as f64 / all, Unit::Fraction)
    }
}

/// Seen without any loss: kernels of some virtual machines run no tracepoint while a secondary CPU idles, so its first
/// switch away from idle reaches neither perf nor ftrace.
fn remedy_of_contradictions(losses: bool) -> &'static str {
    if losses {
        return "record with larger buffers";
    }
    "the trace reports no loss, so the kernel did not log them (some kernels log nothing while a \
     CPU idles)"
}
