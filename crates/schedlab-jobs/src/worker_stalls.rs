//! Where a worker was held up: it should have run and did not, by its own looks at the clock.
//!
//! The evidence costs nothing while all is well: a worker looks at the clock at the end of each of its phases anyway.
//! Whether another task had the CPU meanwhile is asked only then, and now and then before: so each answer is about a short
//! time.

use crate::policy::Nanos;

/// Nanoseconds below which a stall is not reported.
pub const HELD_NS: Nanos = 100_000;
/// Kept per worker; later ones are left out.
pub(crate) const HELD_MAX: usize = 1 << 16;

/// The phase in which a worker stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum During {
    /// A job of planned length took a quarter and [`HELD_NS`] longer than that.
    Job,
    /// Awake without a job, between two looks at the clock with nothing to do but one pull (of the tick, which may
    /// take long with many jobs, nothing is said).
    Awake,
    /// A sleep ended later than its timer.
    Timer,
}

/// One stall of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// From when, at the earliest, on the clock of the pool or of the run.
    pub from: Nanos,
    /// The length of the stall, in nanoseconds.
    pub lost_ns: Nanos,
    /// The phase in which the worker was.
    pub during: During,
    /// Run delay of the thread since it was last read: an upper bound for how long other tasks had
    /// its CPU. `None` if the kernel does not count it.
    pub delayed_ns: Option<Nanos>,
}

impl Held {
    /// Whether the machine stopped the worker, rather than a task that ran in its place: most of the time is not
    /// explained by run delay. Where that is not known, nobody is acquitted.
    pub fn by_machine(&self) -> bool {
        self.delayed_ns.is_some_and(|delayed| delayed < self.lost_ns / 2)
    }
}

/// What a job lost that took this long: 0 unless it took a quarter longer than planned.
pub(crate) fn lost_in_job(took_ns: Nanos, planned_ns: Nanos) -> Nanos {
    let much = planned_ns > 0 && took_ns > planned_ns + planned_ns / 4;
    if much { took_ns - planned_ns } else { 0 }
}

/// What a worker keeps of it.
#[derive(Debug)]
pub(crate) struct Watch {
    run_delay: Option<fn() -> Option<Nanos>>,
    last: Option<Nanos>,
}

impl Watch {
    pub(crate) fn start(run_delay: Option<fn() -> Option<Nanos>>) -> Self {
        Self { run_delay, last: run_delay.and_then(|read| read()) }
    }

    /// A watch that read this last.
    pub(crate) fn since(run_delay: fn() -> Option<Nanos>, last: Option<Nanos>) -> Self {
        Self { run_delay: Some(run_delay), last }
    }

    pub(crate) fn last(&self) -> Option<Nanos> {
        self.last
    }

    /// Reads run delay, so that what comes next has little before it.
    pub(crate) fn look(&mut self) -> Option<Nanos> {
        let now = self.run_delay.and_then(|read| read());
        let since = now.zip(self.last).map(|(now, last)| now.saturating_sub(last));
        self.last = now;
        since
    }

    /// Notes a span in `into` if it is long enough.
    pub(crate) fn note(
        &mut self,
        into: &mut Vec<Held>,
        during: During,
        from: Nanos,
        lost_ns: Nanos,
    ) {
        if lost_ns > HELD_NS {
            let delayed_ns = self.look();
            if into.len() < HELD_MAX {
                into.push(Held { from, lost_ns, during, delayed_ns });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_to_blame_goes_by_run_delay_and_is_not_guessed() {
        let held = |delayed_ns| Held { from: 0, lost_ns: 1_000, during: During::Timer, delayed_ns };
        assert!(held(Some(0)).by_machine() && held(Some(499)).by_machine());
        assert!(!held(Some(500)).by_machine() && !held(Some(5_000)).by_machine());
        assert!(!held(None).by_machine());
    }

    #[test]
    fn short_spans_are_not_noted_and_run_delay_counts_from_the_last_look() {
        let mut delays = Vec::new();
        let mut watch = Watch::start(Some(|| Some(7)));
        watch.note(&mut delays, During::Awake, 0, HELD_NS);
        assert!(delays.is_empty());
        watch.note(&mut delays, During::Awake, 5, HELD_NS + 1);
        assert_eq!(delays[0].delayed_ns, Some(0));
        assert_eq!(Watch::start(None).look(), None);
    }
}
