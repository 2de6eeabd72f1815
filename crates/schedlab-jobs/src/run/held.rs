//! Where a job was held up: it took longer than planned. Whether another task had the CPU meanwhile is asked only then,
//! and now and then before: so each answer is about a short time.

use crate::policy::Nanos;

/// Nanoseconds below which a stall is not reported.
pub(crate) const HELD_NS: Nanos = 100_000;
/// Kept of a run; later ones are left out.
pub(super) const HELD_MAX: usize = 1 << 16;

/// One stall of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// From when, at the earliest, on the clock of the run.
    pub from: Nanos,
    /// The length of the stall, in nanoseconds.
    pub lost_ns: Nanos,
    /// Run delay of the thread since it was last read: an upper bound for how long other tasks had
    /// its CPU. `None` if the kernel does not count it.
    pub(crate) delayed_ns: Option<Nanos>,
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

/// What a thread keeps of it.
#[derive(Debug)]
pub(super) struct Watch {
    run_delay: fn() -> Option<Nanos>,
    last: Option<Nanos>,
}

impl Watch {
    /// A watch that read this last.
    pub(super) fn since(run_delay: fn() -> Option<Nanos>, last: Option<Nanos>) -> Self {
        Self { run_delay, last }
    }

    pub(super) fn last(&self) -> Option<Nanos> {
        self.last
    }

    /// Reads run delay, so that what comes next has little before it.
    pub(super) fn look(&mut self) -> Option<Nanos> {
        let now = (self.run_delay)();
        let since = now.zip(self.last).map(|(now, last)| now.saturating_sub(last));
        self.last = now;
        since
    }

    /// What a job lost that began at `from`, if that is worth a word.
    pub(super) fn note(&mut self, from: Nanos, took_ns: Nanos, planned_ns: Nanos) -> Option<Held> {
        let lost_ns = lost_in_job(took_ns, planned_ns);
        (lost_ns > HELD_NS).then(|| Held { from, lost_ns, delayed_ns: self.look() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_to_blame_goes_by_run_delay_and_is_not_guessed() {
        let held = |delayed_ns| Held { from: 0, lost_ns: 1_000, delayed_ns };
        assert!(held(Some(0)).by_machine() && held(Some(499)).by_machine());
        assert!(!held(Some(500)).by_machine() && !held(Some(5_000)).by_machine());
        assert!(!held(None).by_machine());
    }

    #[test]
    fn short_spans_are_not_noted_and_run_delay_counts_from_the_last_look() {
        let mut watch = Watch::since(|| Some(7), Some(5));
        assert_eq!(watch.note(0, 2 * HELD_NS, HELD_NS), None);
        let held = watch.note(3, 2 * HELD_NS + 1, HELD_NS);
        assert_eq!(held, Some(Held { from: 3, lost_ns: HELD_NS + 1, delayed_ns: Some(2) }));
        assert_eq!((watch.look(), Watch::since(|| None, Some(1)).look()), (Some(0), None));
    }
}
