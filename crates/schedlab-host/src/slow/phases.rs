//! How long tasks compute at a time. Under burns on a grid a task loses the right part of its time only when it
//! computes about as long as a slot, or always: phases of 0.1 ms at 50 % ran 28 % too slow at the default period,
//! and 0.6 % at 200 us. So a node whose busiest thread has short phases gets the period that fits.

use super::Grid;
use schedlab_model::{Nanos, Pid, Warning};
use schedlab_sys::process;
use std::collections::BTreeMap;

/// Phases are short if this many of them fit into a slot.
const SHORT: u64 = 4;
/// Fewer phases, or less CPU time, between two looks tell nothing.
const PHASES: u64 = 200;
const LEAST: Nanos = Nanos::from_millis(50);
/// Looks in a row from the start; later at every Nth reading of the node.
const FIRST: u32 = 8;
const LATER: u32 = 16;
/// Beyond this many threads nobody is asked: each costs two files that are read.
const THREADS: usize = 256;

/// What a thread had done at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Done {
    /// CPU time that the thread had used.
    used: Nanos,
    /// How often it went to sleep by itself.
    slept: u64,
}

/// Follows the threads of a node until it has told what it found.
#[derive(Debug)]
pub(super) struct Phases {
    period: Option<Nanos>,
    before: BTreeMap<Pid, Done>,
    looks: u32,
}

impl Phases {
    /// Watches where burns come with this period; nothing where they come otherwise.
    pub(super) const fn new(period: Option<Nanos>) -> Self {
        Self { period, before: BTreeMap::new(), looks: 0 }
    }

    /// Looks at the processes of node `name`, if it is time to.
    pub(super) fn look(&mut self, name: &str, processes: &[Pid]) -> Option<Warning> {
        let period = self.period?;
        self.looks += 1;
        if self.looks > FIRST && !self.looks.is_multiple_of(LATER) {
            return None;
        }
        let threads: Vec<Pid> = processes.iter().flat_map(|pid| process::threads(*pid)).collect();
        if threads.len() > THREADS {
            return None;
        }
        let of = |thread: Pid| {
            let (used, slept) = (process::ran(thread)?, process::voluntary_switches(thread)?);
            Some((thread, Done { used, slept }))
        };
        let now = threads.into_iter().filter_map(of).collect();
        let phase = busiest(&self.before, &now);
        self.before = now;
        let found = warning(name, phase?, period);
        if found.is_some() {
            self.period = None;
        }
        found
    }
}

/// The mean phase of the thread that used most CPU time between two looks, where it had enough of them.
fn busiest(before: &BTreeMap<Pid, Done>, now: &BTreeMap<Pid, Done>) -> Option<Nanos> {
    let since = |(thread, done): (&Pid, &Done)| {
        let before = before.get(thread)?;
        let used = done.used.0.checked_sub(before.used.0)?;
        Some((used, done.slept.checked_sub(before.slept)?))
    };
    let (used, slept) = now.iter().filter_map(since).max()?;
    (slept >= PHASES && used >= LEAST.0).then(|| Nanos(used / slept))
}

fn warning(name: &str, phase: Nanos, period: Nanos) -> Option<Warning> {
    let fits = Nanos(phase.0 * 2).max(Grid::PERIOD_MIN);
    if phase.0 * SHORT >= period.0 || fits >= period {
        return None;
    }
    let us = |time: Nanos| time.0.div_ceil(1_000);
    let what = format!(
        "node {name} is slower than requested, by up to a third: its busiest thread computes for \
         {} us at a time, and burns come every {} us",
        us(phase),
        us(period)
    );
    Some(Warning::new("phases-short", what, format!("use --period {}us", us(fits))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(all: &[(i32, u64, u64)]) -> BTreeMap<Pid, Done> {
        let one = |&(pid, ms, slept): &(i32, u64, u64)| {
            (Pid(pid), Done { used: Nanos::from_millis(ms), slept })
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn the_busiest_thread_decides_and_a_period_that_fits_is_named() {
        let phase = busiest(
            &done(&[(1, 0, 0), (2, 0, 0)]),
            &done(&[(1, 100, 1_000), (2, 90, 10), (3, 500, 9_000)]),
        );
        assert_eq!(phase, Some(Nanos::from_micros(100)), "thread 3 was not there before");
        let told = warning("n", phase.unwrap(), Grid::PERIOD).unwrap();
        assert!(told.what.contains("100 us at a time") && told.what.contains("every 2000 us"));
        assert_eq!(told.remedy, "use --period 200us");
        let shorter = warning("n", Nanos::from_micros(100), Nanos::from_micros(200));
        assert_eq!(shorter, None, "no shorter period can be had");
        assert_eq!(warning("n", Nanos::from_millis(1), Grid::PERIOD), None);
    }

    #[test]
    fn few_phases_and_little_time_tell_nothing() {
        let before = done(&[(1, 0, 0)]);
        assert_eq!(busiest(&before, &done(&[(1, 900, 20)])), None);
        assert_eq!(busiest(&before, &done(&[(1, 20, 900)])), None);
        assert_eq!(busiest(&before, &done(&[])), None);
    }

    #[test]
    fn methods_without_a_grid_are_not_watched() {
        let us = [Pid(std::process::id().cast_signed())];
        let mut watch = Phases::new(None);
        assert_eq!(watch.look("n", &us), None);
        assert!(watch.before.is_empty());
        let mut watch = Phases::new(Some(Grid::PERIOD));
        assert_eq!(watch.look("n", &us), None);
        assert!(!watch.before.is_empty(), "its threads were read");
    }
}
