//! The machine's own jitter, to stand beside lateness: how late timers are, and for how long a thread that
//! does nothing but look at the clock is stopped (by other tasks, interrupts, or the hypervisor).

use schedlab_jobs::pool::OnStart;
use schedlab_jobs::profile::quantile;
use schedlab_model::Nanos;
use schedlab_sys::clock::{monotonic, sleep_until};
use schedlab_sys::process::thread_refused;
use schemars::JsonSchema;
use serde::Serialize;
use std::io;

/// From one timer to the next.
const STEP: Nanos = Nanos(200_000);
/// Looking at the clock takes tens of nanoseconds: longer than this, somebody else had the CPU.
const PAUSE_NS: u64 = 5_000;

/// A start may be so late at most, in one of a hundred cases: the mark that lateness is held against.
const MARK_NS: u64 = 500_000;

/// What the machine does to threads that do nothing. In nanoseconds, ascending.
#[derive(Clone, Debug)]
pub struct Jitter {
    timer_ns: Vec<u64>,
    pause_ns: Vec<u64>,
    /// Time looked at the clock, over all threads.
    looked_ns: u64,
}

/// The machine's own jitter, in figures.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Jitter")]
pub struct Figures {
    /// How late a timer was that was asked for on time, in nanoseconds: the median.
    pub timer_late_ns_p50: Option<u64>,
    /// What 99 of 100 timers did not exceed.
    pub timer_late_ns_p99: Option<u64>,
    /// The lateness of the latest timer, in nanoseconds.
    pub timer_late_ns_max: Option<u64>,
    /// The share of timers that were later than 0.5 ms, from 0 to 1.
    pub timer_late_beyond_500us: f64,
    /// How often a thread that only looks at the clock was stopped.
    pub(crate) pauses: usize,
    /// The longest such stop, in nanoseconds.
    pub pause_ns_max: Option<u64>,
    /// The share of time that others took, from 0 to 1.
    pub taken: f64,
}

impl Jitter {
    /// Measures with `threads` threads at once, placed like the workers: half of the time by
    /// timers, half by looking.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn probe(threads: usize, time: Nanos, place: &OnStart) -> io::Result<Self> {
        let each = Nanos(time.0 / 2);
        let probes = (0..threads).map(|number| {
            let place = place.clone();
            let life = move || {
                place(number);
                (timers(each), pauses(each))
            };
            std::thread::Builder::new().name("probe".to_owned()).spawn(life)
        });
        let probes: Vec<_> =
            probes.collect::<Result<_, _>>().map_err(|error| thread_refused(&error))?;
        let mut all = Self { timer_ns: Vec::new(), pause_ns: Vec::new(), looked_ns: 0 };
        for (timers, (pauses, looked_ns)) in
            probes.into_iter().filter_map(|probe| probe.join().ok())
        {
            all.timer_ns.extend(timers);
            all.pause_ns.extend(pauses);
            all.looked_ns += looked_ns;
        }
        all.timer_ns.sort_unstable();
        all.pause_ns.sort_unstable();
        Ok(all)
    }

    /// The share of time that others took, from 0 to 1.
    fn taken(&self) -> f64 {
        self.pause_ns.iter().sum::<u64>() as f64 / self.looked_ns.max(1) as f64
    }

    /// The share of timers that missed the mark by themselves, from 0 to 1.
    fn beyond_mark(&self) -> f64 {
        let beyond = self.timer_ns.len() - self.timer_ns.partition_point(|&late| late <= MARK_NS);
        beyond as f64 / self.timer_ns.len().max(1) as f64
    }

    pub fn figures(&self) -> Figures {
        Figures {
            timer_late_ns_p50: quantile(&self.timer_ns, 0.5),
            timer_late_ns_p99: quantile(&self.timer_ns, 0.99),
            timer_late_ns_max: self.timer_ns.last().copied(),
            timer_late_beyond_500us: self.beyond_mark(),
            pauses: self.pause_ns.len(),
            pause_ns_max: self.pause_ns.last().copied(),
            taken: self.taken(),
        }
    }
}

fn timers(time: Nanos) -> Vec<u64> {
    let begin = monotonic();
    let due = (1..=time.0 / STEP.0).map(|step| Nanos(begin.0 + step * STEP.0));
    due.map(|due| {
        sleep_until(due);
        monotonic().0.saturating_sub(due.0)
    })
    .collect()
}

/// The pauses, and for how long it really looked: the last pause may end long after that was to be over.
fn pauses(time: Nanos) -> (Vec<u64>, u64) {
    let begin = monotonic().0;
    let mut last = begin;
    let end = begin + time.0;
    let mut pauses = Vec::new();
    while last < end {
        let now = monotonic().0;
        if now - last >= PAUSE_NS {
            pauses.push(now - last);
        }
        last = now;
    }
    (pauses, last - begin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_probe_counts_its_timers_and_its_share_is_a_share() {
        let jitter = Jitter::probe(2, Nanos(8_000_000), &(Arc::new(|_| {}) as OnStart)).unwrap();
        assert_eq!(jitter.timer_ns.len(), 2 * 20);
        let long = jitter.pause_ns.iter().all(|&pause| pause >= PAUSE_NS);
        assert!(long && (0.0..=1.0).contains(&jitter.taken()), "{}", jitter.taken());
        let of = |pause_ns: Vec<u64>| Jitter { timer_ns: Vec::new(), pause_ns, looked_ns: 100_000 };
        assert!((of(vec![5_000, 20_000]).taken() - 0.25).abs() < 1e-12);
        let timers = Jitter { timer_ns: vec![1, 2, 500_000, 500_001], ..of(Vec::new()) };
        assert!((timers.beyond_mark() - 0.25).abs() < 1e-12);
    }
}
