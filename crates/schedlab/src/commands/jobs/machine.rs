//! What the rig found out about the machine and about workers, as text.

use super::table;
use schedlab_jobs::rig::{Cause as WaitedFor, Wait, waits_of};
use schedlab_jobs::run::{Held, Run};
use schedlab_rig::recording::LONGEST;
use schedlab_rig::{Cause, Jitter, MachineStalls, Stalls};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;

/// A job that begins so long after it was due is late.
const LATE_NS: u64 = 1_000_000;

/// Jobs that were late, by what they waited for longest.
#[derive(Clone, Serialize, JsonSchema)]
pub(super) struct Late {
    /// Their number.
    jobs: usize,
    /// Jobs for which all workers were in jobs.
    busy: usize,
    /// Jobs for which a worker was woken and did not run yet, or a job before took longer than planned.
    kernel: usize,
    /// Jobs for which a worker was awake without a job.
    pool: usize,
    /// Jobs that waited at all while a worker slept and nobody was on the way: the pool must have none.
    lost: usize,
    lost_ns_max: u64,
}

impl Late {
    pub(super) fn of(run: &Run) -> Option<Self> {
        let waits = waits_of(run)?;
        let ran: BTreeSet<_> = run.spans().iter().map(|span| span.node).collect();
        let is_late = |(node, wait): &&(u32, Wait)| wait.sum() > LATE_NS || !ran.contains(node);
        let mut by = [0; WaitedFor::ALL.len()];
        waits.iter().filter(is_late).for_each(|(_, wait)| by[wait.cause() as usize] += 1);
        let lost = || waits.iter().map(|(_, wait)| wait.of(WaitedFor::Lost)).filter(|&ns| ns > 0);
        let [busy, kernel, pool, _] = by;
        let jobs = by.iter().sum();
        let lost_ns_max = lost().max().unwrap_or(0);
        Some(Self { jobs, busy, kernel, pool, lost: lost().count(), lost_ns_max })
    }

    pub(super) fn text(&self) -> String {
        let row = |name: &str, count: usize| vec![name.to_owned(), count.to_string()];
        table::columns(&[
            row("jobs late by over 1 ms", self.jobs),
            row("  by busy workers", self.busy),
            row("  by the kernel", self.kernel),
            row("  by the pool", self.pool),
        ])
    }
}

/// The finding that a due job waited while a worker slept and nobody was on the way.
pub(super) fn lost(executor: &str, late: Option<&Late>) -> String {
    late.filter(|late| late.lost > 0).map_or_else(String::new, |late| {
        let jobs = late.lost;
        let time = table::time(late.lost_ns_max as f64);
        format!("{executor} lost {jobs} due jobs, for up to {time}: a worker slept, and none was woken\n")
    })
}

fn maybe(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| table::time(ns as f64))
}

/// Rows for a table: name, value.
pub(super) fn jitter(jitter: &Jitter) -> Vec<Vec<String>> {
    let figures = jitter.figures();
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let share = |part: f64| format!("{:.2} %", 100.0 * part);
    vec![
        row("timers late, p50", maybe(figures.timer_late_ns_p50)),
        row("timers late, p99", maybe(figures.timer_late_ns_p99)),
        row("timers later than 0.5 ms", share(figures.timer_late_beyond_500us)),
        row("longest pause", maybe(figures.pause_ns_max)),
        row("taken by others", share(figures.taken)),
    ]
}

/// Rows for a table: name, value.
pub(super) fn witness(witness: &MachineStalls) -> Vec<Vec<String>> {
    let count = |all: &[Held]| {
        let sum: u64 = all.iter().map(|held| held.lost_ns).sum();
        format!("{}, {}", all.len(), table::time(sum as f64))
    };
    let MachineStalls { shadow, calm, stopped, held, .. } = witness;
    let stopped_in = if witness.known { count(stopped) } else { "not offered".to_owned() };
    let row = |name: &str, value: String| vec![format!("  {name}"), value];
    let aside = 100.0 * witness.share_aside();
    let outside = format!("{} jobs ({aside:.2} % set aside)", shadow.lateness_ns.len());
    vec![
        vec!["the machine stopped workers in jobs".to_owned(), stopped_in],
        row("longest", maybe(stopped.iter().map(|held| held.lost_ns).max())),
        row("stolen, says the hypervisor", maybe(witness.steal_ns)),
        vec!["held up by other tasks".to_owned(), count(held)],
        vec!["outside the shadow of stalls".to_owned(), outside],
        row("lateness p50", maybe(shadow.lateness(0.5))),
        row("lateness p99", maybe(shadow.lateness(0.99))),
        row("lateness max", maybe(shadow.lateness(1.0))),
        row("p99 without other tasks' shadow as well", maybe(calm.lateness(0.99))),
    ]
}

/// Where all time of all workers went: time, and the concurrency that was lost to it.
pub(super) fn stalls(stalls: &Stalls, base: u64) -> String {
    let window = stalls.window.duration().0.max(1) as f64;
    let head = ["where the workers were", "time", "concurrency"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    let mut row = |name: &str, ns: u64| {
        let share = format!("{:.3}", ns as f64 / window);
        rows.push(vec![format!("  {name}"), table::time(ns as f64), share]);
    };
    for cause in Cause::ALL {
        row(&cause.key().replace('_', " "), stalls.sum(cause).0);
    }
    row("sum", Cause::ALL.into_iter().map(|cause| stalls.sum(cause).0).sum());
    let mut text = table::columns(&rows);
    for stall in stalls.longest(LONGEST) {
        let at = stall.span.start.0 as f64 - base as f64;
        let took = table::time(stall.span.duration().0 as f64);
        let cause = stall.cause.key().replace('_', " ");
        let worker = stall.worker;
        let at = table::time(at);
        let _ = writeln!(text, "  worker {worker}, at {at}: {took} of {cause}");
    }
    text
}
