//! What is known of a trace at its end, and warnings about what it lacks and what of it contradicts itself.

use crate::state::State;
use schedlab_model::{Cover, Cpu, CpuSet, Kind, Known, Nanos, Unit, Warning, readable};

impl State {
    /// What is known of the trace: what its reader said, and what was met on the way.
    #[must_use]
    pub(crate) fn known(&self) -> Known {
        let tally = &self.tally;
        let best = |a: Cover, b: Cover| if a == Cover::Absent { b } else { a };
        // A kind that nobody saw was not recorded, unless nothing happened that it would have told.
        let missed_wakes = tally.unwoken > 0 && !self.sees_wakes();
        let wakings = self.cover(Kind::Waking, self.seen.contains(Kind::Wakeup) || missed_wakes);
        let wakeups = self.cover(Kind::Wakeup, self.seen.contains(Kind::Waking) || missed_wakes);
        let migrations = self.cover(Kind::Migrate, tally.unmoved > 0);
        Known {
            switches: self.cover(Kind::Switch, true),
            wakings,
            wakes: best(wakings, wakeups),
            placements: best(wakeups, migrations),
            migrations,
            gaps: tally.losses > 0 || self.coverage.left_out > 0,
            parts: self.named_unseen().next().is_some(),
            unwoken: tally.unwoken > 0 || tally.unborn > 0,
            contradicted: tally.contradicted,
            ticks: self.ticks.is_some(),
            overlaps: tally.overlaps > 0,
            contexts: tally.no_context == 0,
            misplaced: match wakeups {
                Cover::Absent => tally.misplaced,
                _ => Nanos::ZERO,
            },
        }
    }

    /// How much of a kind the trace holds; `missed` if its absence would have been noticed.
    fn cover(&self, kind: Kind, missed: bool) -> Cover {
        match self.coverage.of(kind) {
            _ if !self.kinds.contains(kind) => Cover::Absent,
            Cover::Unsaid | Cover::Complete if missed && !self.seen.contains(kind) => Cover::Absent,
            Cover::Unsaid => Cover::Complete,
            told => told,
        }
    }

    /// CPUs on which tasks were and that the trace does not cover.
    fn named_unseen(&self) -> impl Iterator<Item = Cpu> {
        let numbered = (0..=u16::MAX).map(Cpu).zip(&self.cpus);
        numbered.filter(|(_, cpu)| cpu.named && !cpu.observed).map(|(cpu, _)| cpu)
    }

    /// Warnings that concern every answer drawn from this trace.
    #[must_use]
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut doubt = |code: &str, what: String, remedy: &str| {
            warnings.push(Warning::new(code, what, remedy));
        };
        let known = self.known();
        let tally = &self.tally;
        if tally.losses > 0 {
            let what = match tally.lost_events {
                0 => format!("events were lost {} times", tally.losses),
                events => format!("{events} events were lost, {} times", tally.losses),
            };
            let blind = self.cpus.iter().filter(|cpu| cpu.blind && !cpu.offline);
            let unseen = blind.fold(tally.unseen, |sum, cpu| sum + (self.window.end - cpu.since));
            let what = format!(
                "{what}: who ran is unknown for {} of CPU time ({}), sums are lower bounds, and percentiles \
                 are unknown",
                unseen.readable(),
                self.part_of_cpu_time(unseen)
            );
            doubt("events-lost", what, "record with larger buffers");
        }
        if let Some(clock) = &self.ticks {
            let what = format!("times are ticks of the clock {clock}, and their length is unknown");
            let remedy = "record with the clock mono, or convert the trace with --tick-hz";
            doubt("clock-not-time", what, remedy);
        }
        // The reader says which switches there are; all else follows from that.
        if matches!(known.switches, Cover::Sampled | Cover::ByTask) {
            return warnings;
        }
        if known.switches == Cover::Absent {
            let what = "run times are unknown: the trace holds no sched_switch";
            doubt("no-switches", what.into(), "record sched_switch");
        } else if known.wakes == Cover::Absent {
            let what = "waits are lower bounds: the trace holds no wakeups, so only preempted \
                tasks are seen to wait";
            doubt("no-wakeups", what.into(), "record sched_waking and sched_wakeup as well");
        } else if known.placements == Cover::Absent {
            let what = "who waits on which CPU is unknown: the trace holds neither sched_wakeup \
                nor sched_migrate_task";
            let remedy = "record sched_wakeup or sched_migrate_task as well";
            doubt("no-placements", what.into(), remedy);
        }
        if known.parts {
            let cpus: CpuSet = self.observed_cpus().map(|(cpu, _)| cpu).collect();
            let unseen: CpuSet = self.named_unseen().collect();
            let s = |set: &CpuSet| if set.len() == 1 { "" } else { "s" };
            let what = format!(
                "figures of tasks are lower bounds: the trace covers CPU{} {cpus} only, and tasks were \
                 on CPU{} {unseen} too",
                s(&cpus),
                s(&unseen)
            );
            doubt("cpus-unobserved", what, "record all CPUs");
        }
        if !known.contexts {
            let what = "who woke a task is unknown: the text has no column of flags, so an interrupt \
                may have woken it";
            let remedy = "read the recorded file, or print the flags (`trace-cmd report -l`)";
            doubt("no-contexts", what.into(), remedy);
        }
        if tally.overlaps > 0 {
            let what = format!(
                "run times are uncertain: {} times ({} of the switches) a task began to run while it still \
                 ran on another CPU. The CPUs' clocks disagree, or recording stopped on one CPU earlier",
                tally.overlaps,
                part(tally.overlaps, tally.switches)
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
            doubt("events-contradict", what, remedy_of_contradictions(&known));
        }
        if tally.unwoken > 0 && self.sees_wakes() {
            let what = format!(
                "some waits are not counted: {} times ({} of all) a task began to run without a recorded \
                 wakeup",
                tally.unwoken,
                part(tally.unwoken, tally.arrivals)
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

/// A number as a part of all.
fn part(some: u64, all: u64) -> String {
    readable(some as f64 / all.max(some).max(1) as f64, Unit::Fraction)
}

/// Seen without any loss: kernels of some virtual machines run no tracepoint while a secondary CPU idles, so its first
/// switch away from idle reaches neither perf nor ftrace. The kernel is to blame only if nothing else explains it.
fn remedy_of_contradictions(known: &Known) -> &'static str {
    match known {
        Known { gaps: true, .. } => "record with larger buffers",
        Known { parts: true, .. } => "record all CPUs",
        _ => {
            "the trace reports no loss, so the kernel did not log them (some kernels log nothing while a \
             CPU idles)"
        }
    }
}
