//! Whether a speed is held: the CPU time that a node was granted in each second of the session, by the counter of its
//! own control group, beside what was asked for.
//!
//! A task that sleeps uses less than it may have, and that is no fault. So a second is judged in two ways. In every
//! second the node must not have had more than was asked. In a *busy* second, in which its tasks ran or waited for a
//! CPU all the time on all of its CPUs, it must not have had less either.
//!
//! A method that changes the clock grants all of the CPU time, which does less work. There the CPU time counts by the
//! work that the sentinel does in it.

use super::Speed;
use super::follow::Period;
use schedlab_model::{Nanos, Pid, Warning};
use schedlab_sys::process;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A second is right if what was granted is within this much of what was asked, in parts of full speed; more where
/// periods begin at any time, see [`tolerance`].
const TOLERANCE: f64 = 0.02;
/// How often a node is looked at.
const SECOND: Nanos = Nanos::from_secs(1);
/// A second is busy if tasks ran or waited for this part of it on each CPU.
const BUSY: f64 = 0.97;
/// Beyond this many threads nobody is asked how long it waited: each costs a file that is read.
const THREADS: usize = 256;

/// The work of a second of CPU time, in parts of that before the session.
#[derive(Clone, Copy, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Worked {
    /// How many loops it was read from.
    pub loops: usize,
    /// The median, in parts of the work before the session.
    pub median: f64,
    /// The quantile 0.05, in parts of the work before the session.
    pub low: f64,
    /// The quantile 0.95, in parts of the work before the session.
    pub high: f64,
}

impl std::fmt::Display for Worked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |part: f64| part * 100.0;
        let (median, low, high) = (percent(self.median), percent(self.low), percent(self.high));
        write!(
            f,
            "a second of CPU time did {median:.1} % of the work that it did before (5 to 95 %: {low:.1} to {high:.1} %)"
        )
    }
}

/// What was granted to a node over the session.
#[derive(Clone, Debug, Default, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Proof {
    /// The name of the node.
    pub node: String,
    /// What was granted is CPU time times the work that a second of it does: the method changes the clock.
    pub by_work: bool,
    /// Seconds in which its speed did not change.
    pub seconds: u32,
    /// Those in which it was busy.
    pub busy: u32,
    /// Busy seconds in which it was granted what was asked, to within 2 % of full speed. Under
    /// weights with slices of a period P, to within 2 % + s (1 - s) P / 1 s at speed s.
    pub right: u32,
    /// Seconds in which it was granted more than that.
    pub above: u32,
    /// The least and the most that it was granted in a busy second, in parts of full speed; `None`: it never was busy.
    pub granted: Option<(f64, f64)>,
    /// What it was granted in all busy seconds together, in parts of full speed.
    pub mean: Option<f64>,
    /// What was asked, and what it was granted, in the last second, in parts of full speed.
    pub last: Option<(f64, f64)>,
    /// The work that a second of CPU time did on its CPUs; `None` where it was not measured.
    pub work: Option<Worked>,
    /// The period that was chosen last; `None` where it does not follow the work.
    pub period: Option<Period>,
}

impl Proof {
    /// Whether each second was as asked.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.right == self.busy && self.above == 0
    }

    /// The warning about it; `None` if the speed was held.
    #[must_use]
    pub fn doubt(&self) -> Option<Warning> {
        let remedy =
            "other load, a hypervisor or a second session takes the CPU; see `schedlab doctor`";
        (!self.holds()).then(|| Warning::new("speed-not-held", self.to_string(), remedy))
    }
}

impl std::fmt::Display for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { node, seconds, busy, right, above, .. } = self;
        match self.granted {
            _ if *seconds == 0 => return write!(f, "node {node}: too short to tell"),
            None => write!(f, "node {node}: its tasks did not use all their CPU time")?,
            Some((least, most)) => write!(
                f,
                "node {node}: {} {:.1} to {:.1} % while its tasks always wanted to run; as asked in \
                 {right} of these {busy} seconds",
                if self.by_work { "did the work of" } else { "granted" },
                least * 100.0,
                most * 100.0
            )?,
        }
        match above {
            0 => write!(f, "; more than asked in none of {seconds} seconds")?,
            above => write!(f, "; more than asked in {above} of {seconds} seconds")?,
        }
        if let Some(period) = &self.period {
            write!(f, "; {period}")?;
        }
        self.work.map_or(Ok(()), |work| write!(f, "; {work}"))
    }
}

/// What a node had used at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) at: Nanos,
    /// CPU time of all its tasks, ended ones included.
    pub(super) used: Nanos,
    /// Time for which its threads had run or waited for a CPU; empty where nobody was asked.
    pub(super) wanted: BTreeMap<Pid, Nanos>,
    /// How much of the work at full speed a second of CPU time does: 1 if the method takes time away; `None` where it
    /// is not known, so that the second does not count.
    pub(super) pace: Option<f64>,
}

/// For how long each thread of processes has run or waited for a CPU (`/proc/PID/task/TID/schedstat`).
pub(super) fn wanted(processes: &[Pid]) -> BTreeMap<Pid, Nanos> {
    let threads: Vec<Pid> = processes.iter().flat_map(|pid| process::threads(*pid)).collect();
    if threads.len() > THREADS {
        return BTreeMap::new();
    }
    threads.into_iter().filter_map(|thread| Some((thread, process::wanted_cpu(thread)?))).collect()
}

/// The next whole second of `CLOCK_MONOTONIC`. Slots of hogs begin there, of any period: a second between two
/// of them holds whole slots, and so the right part of the time.
const fn next_second(now: Nanos) -> Nanos {
    Nanos((now.0 / SECOND.0 + 1) * SECOND.0)
}

/// Reads the CPU time of one node, second by second, and adds it to the proof.
#[derive(Debug)]
pub(super) struct Watch {
    proof: Proof,
    before: Option<Reading>,
    due: Nanos,
    /// How often there is a gap, where gaps begin at any time; zero where whole seconds hold whole periods.
    shift: Nanos,
}

impl Watch {
    /// A watch that looks at nothing until it is started.
    pub(super) fn new(node: &str, by_work: bool) -> Self {
        let proof = Proof { node: node.to_owned(), by_work, ..Proof::default() };
        Self { proof, before: None, due: Nanos::MAX, shift: Nanos::ZERO }
    }

    /// Begins with the next look.
    pub(super) const fn start(&mut self, now: Nanos) {
        self.due = next_second(now);
    }

    /// When to look next.
    pub(super) const fn due(&self) -> Nanos {
        self.due
    }

    /// What was found until now.
    pub(super) const fn proof(&self) -> &Proof {
        &self.proof
    }

    /// Notes what work CPU time did until now.
    pub(super) const fn worked(&mut self, work: Option<Worked>) {
        self.proof.work = work;
    }

    /// Notes the period that was chosen.
    pub(super) fn follows(&mut self, period: Period) {
        self.proof.period = Some(period);
    }

    /// Notes that gaps come once in a period, but begin at any time.
    pub(super) const fn shifts(&mut self, period: Nanos) {
        self.shift = period;
    }

    /// The second under way does not count: its speed changes, or the node stands still. The next begins at `now`.
    pub(super) fn break_off(&mut self, now: Nanos) {
        self.before = None;
        if self.due != Nanos::MAX {
            self.due = next_second(now);
        }
    }

    /// Takes a reading, from which the next second is counted.
    pub(super) fn see(&mut self, reading: Reading, speeds: &mut dyn Iterator<Item = Speed>) {
        let all: Vec<f64> = speeds.map(Speed::fraction).collect();
        let (asked, cpus) = (all.iter().sum::<f64>(), all.len() as f64);
        let before = self.before.replace(reading);
        self.due = next_second(self.before.as_ref().map_or(Nanos::ZERO, |now| now.at));
        if let (Some(before), Some(now)) = (before, &self.before) {
            let asked = asked / cpus;
            let asked = (asked, tolerance(asked, self.shift));
            self.proof.judge(&before, now, asked, cpus);
        }
    }
}

/// How far a second may be off. One that begins in the midst of a period holds a part of a gap more or less: at most
/// s (1 - s) of a period.
fn tolerance(asked: f64, shift: Nanos) -> f64 {
    TOLERANCE + asked * (1.0 - asked) * shift.0 as f64 / SECOND.0 as f64
}

impl Proof {
    /// Judges the time between two readings.
    fn judge(
        &mut self,
        before: &Reading,
        now: &Reading,
        (asked, tolerance): (f64, f64),
        cpus: f64,
    ) {
        let wall = (now.at - before.at).0 as f64;
        let Some(pace) = now.pace.filter(|_| wall >= SECOND.0 as f64 / 2.0) else { return };
        let granted = (now.used.0 - before.used.0.min(now.used.0)) as f64 / wall / cpus * pace;
        // A thread that came meanwhile counts from its beginning, one that ended not at all: then it looks less busy.
        let since = |thread: &Pid| before.wanted.get(thread).map_or(0, |wanted| wanted.0);
        let wanted: u64 = now.wanted.iter().map(|(thread, w)| w.0 - since(thread).min(w.0)).sum();
        let busy = wanted as f64 >= BUSY * wall * cpus;
        self.seconds += 1;
        self.last = Some((asked, granted));
        self.above += u32::from(granted > asked + tolerance);
        if busy {
            let sum = self.mean.unwrap_or(0.0) * f64::from(self.busy) + granted;
            self.busy += 1;
            self.mean = Some(sum / f64::from(self.busy));
            self.right += u32::from((granted - asked).abs() <= tolerance);
            let (least, most) = self.granted.unwrap_or((granted, granted));
            self.granted = Some((least.min(granted), most.max(granted)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings a second apart, of a node of one CPU: (used, wanted) in milliseconds of each second.
    fn seen(asked: u32, seconds: &[(u64, u64)]) -> Proof {
        let seconds: Vec<_> = seconds.iter().map(|(used, wanted)| (*used, *wanted, None)).collect();
        worked(asked, &seconds)
    }

    /// The same with the work of a second of CPU time, for methods that change the clock.
    fn worked(asked: u32, seconds: &[(u64, u64, Option<f64>)]) -> Proof {
        let by_work = seconds.iter().any(|(.., pace)| pace.is_some());
        let mut watch = Watch::new("n", by_work);
        let ms = Nanos::from_millis;
        let (mut used, mut wanted) = (0, 0);
        for (second, (more_used, more_wanted, pace)) in
            [(0, 0, None)].iter().chain(seconds).enumerate()
        {
            (used, wanted) = (used + more_used, wanted + more_wanted);
            let at = Nanos::from_secs(second as u64 + 1);
            let wanted = BTreeMap::from([(Pid(1), ms(wanted))]);
            let pace = if by_work { *pace } else { Some(1.0) };
            let reading = Reading { at, used: ms(used), wanted, pace };
            watch.see(reading, &mut std::iter::once(Speed::percent(asked).unwrap()));
        }
        watch.proof().clone()
    }

    #[test]
    fn a_busy_second_must_be_granted_what_was_asked_and_no_second_more() {
        let held = seen(30, &[(297, 1000), (304, 999), (300, 1000)]);
        assert!(held.holds() && held.doubt().is_none());
        assert_eq!((held.seconds, held.busy, held.right, held.above), (3, 3, 3, 0));
        assert!(held.to_string().contains("29.7 to 30.4 %"), "{held}");
        assert!(held.mean.is_some_and(|mean| (mean - 0.901 / 3.0).abs() < 1e-9), "{held:?}");
        // It sleeps: less is no fault, more is.
        let sleeps = seen(30, &[(100, 400), (310, 700)]);
        assert!(sleeps.holds() && sleeps.granted.is_none(), "{sleeps:?}");
        let above = seen(30, &[(100, 400), (700, 700)]);
        assert_eq!((above.holds(), above.above), (false, 1));
        assert!(above.doubt().unwrap().what.contains("in 1 of 2 seconds"), "{above}");
        // Something else takes the CPU from it.
        let below = seen(30, &[(300, 1000), (150, 1000)]);
        assert_eq!((below.busy, below.right, below.holds()), (2, 1, false));
        assert_eq!(below.last, Some((0.3, 0.15)));
    }

    #[test]
    fn under_a_clock_cpu_time_counts_by_the_work_that_it_did() {
        let all = |pace| (1000, 1000, pace);
        let held = worked(50, &[all(None), all(Some(0.49)), all(Some(0.51))]);
        assert_eq!((held.seconds, held.busy, held.right, held.above), (2, 2, 2, 0), "{held:?}");
        assert!(held.to_string().contains("did the work of 49.0 to 51.0 %"), "{held}");
        // A turbo, or a driver that does as it likes.
        let fast = worked(50, &[all(Some(0.5)), all(Some(0.99))]);
        assert_eq!((fast.right, fast.above, fast.holds()), (1, 1, false));
        assert!(fast.doubt().unwrap().what.contains("more than asked in 1 of 2"), "{fast}");
        // The nearest level of the hardware is another speed.
        assert!(!worked(70, &[all(Some(0.75))]).holds());
        // Other load has half of the CPU.
        assert!(!worked(50, &[(500, 1000, Some(0.5))]).holds());
        // It sleeps, and frozen tasks do not wait for a CPU.
        assert!(worked(25, &[(500, 500, Some(0.5))]).holds());
        let unknown = worked(50, &[all(None), all(Some(0.5)), all(None)]);
        assert_eq!((unknown.seconds, unknown.right), (1, 1), "nobody measured the others");
    }

    #[test]
    fn a_second_may_hold_a_part_of_a_gap_more_or_less_where_gaps_begin_at_any_time() {
        let granted = |ms, shift| {
            let mut watch = Watch::new("n", false);
            watch.shifts(Nanos::from_millis(shift));
            let reading = |second: u64, ms: u64| Reading {
                at: Nanos::from_secs(second),
                used: Nanos::from_millis(ms),
                wanted: BTreeMap::from([(Pid(1), Nanos::from_secs(second))]),
                pace: Some(1.0),
            };
            let half = || std::iter::once(Speed::percent(50).unwrap());
            watch.see(reading(1, 0), &mut half());
            watch.see(reading(2, ms), &mut half());
            watch.proof().holds()
        };
        assert!(granted(519, 0) && !granted(521, 0) && !granted(479, 0));
        assert!(granted(544, 100) && !granted(546, 100) && granted(456, 100) && !granted(454, 100));
    }

    #[test]
    fn a_second_in_which_the_speed_changed_does_not_count() {
        let mut watch = Watch::new("n", false);
        let reading = |second, used| Reading {
            at: Nanos::from_secs(second),
            used: Nanos::from_millis(used),
            wanted: BTreeMap::new(),
            pace: Some(1.0),
        };
        let speed = |percent| std::iter::once(Speed::percent(percent).unwrap());
        watch.see(reading(1, 0), &mut speed(20));
        watch.break_off(Nanos::from_millis(1_500));
        watch.see(reading(2, 900), &mut speed(90));
        assert_eq!(watch.proof().seconds, 0);
        watch.see(reading(3, 1_800), &mut speed(90));
        assert_eq!((watch.proof().seconds, watch.proof().above), (1, 0));
        assert_eq!(watch.proof().to_string().matches("did not use all").count(), 1);
    }
}
