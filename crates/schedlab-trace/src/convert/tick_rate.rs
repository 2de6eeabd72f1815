//! How many ticks a second a counter counts, by what the kernel says of run times in nanoseconds.

use super::{ConvertOptions, open_whole};
use crate::error::TraceError;
use schedlab_model::{Clock, EventSource, Nanos, Pid, What};
use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;
use std::path::Path;

/// Intervals that are kept; more do not make the rate more exact.
const ENOUGH: usize = 1 << 16;

/// An interval of fewer ticks tells no rate: one more or less would change it. Jiffies have no longer ones.
const LEAST: u64 = 1000;

/// Ticks and nanoseconds of one interval.
type Interval = (u64, u64);

/// How many ticks a second the clock of the trace `from` counts: `sched_stat_runtime` tells in nanoseconds how long a task
/// ran since its switch or since the last such event. The median by length is taken, because the kernel
/// leaves out interrupts.
///
/// # Errors
/// The source is no trace, its clock counts nanoseconds, or no such event lies beside switches.
pub fn tick_hz(from: &Path) -> Result<NonZeroU64, TraceError> {
    let mut source = open_whole(from, &ConvertOptions::default())?;
    let refused = |what: &str| TraceError::target(from, what);
    if !matches!(source.info().clock, Clock::Ticks(_)) {
        return Err(refused("its clock counts nanoseconds, not ticks: leave --tick-hz out"));
    }
    let intervals = intervals(source.as_mut()).map_err(|error| TraceError::io(from, &error))?;
    let what = "no sched_stat_runtime beside sched_switch tells the rate: give --tick-hz a number";
    rate(intervals).ok_or_else(|| refused(what))
}

fn intervals(source: &mut dyn EventSource) -> io::Result<Vec<Interval>> {
    let mut since = BTreeMap::<Pid, Nanos>::new();
    let mut found = Vec::new();
    let mut batch = Vec::new();
    while found.len() < ENOUGH && source.next(&mut batch)? {
        for (index, event) in batch.iter().enumerate() {
            match event.what {
                What::Switch { prev, next, .. } => {
                    since.remove(&prev);
                    since.insert(next, event.time);
                }
                What::Lost { .. } => since.clear(),
                What::Other { format }
                    if source.info().others[usize::from(format)].name == "sched_stat_runtime" =>
                {
                    let text = source.arguments(index).unwrap_or_default();
                    let Some((pid, ns)) = runtime(&text) else { continue };
                    let from = since.get_mut(&pid);
                    found.extend(from.map(|from| (event.time.0 - from.0, ns)));
                    since.entry(pid).and_modify(|from| *from = event.time);
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

/// Task and nanoseconds of `comm=a pid=7 runtime=1234 [ns]`.
fn runtime(text: &str) -> Option<(Pid, u64)> {
    let told = schedlab_model::fields(text);
    let of = |key: &str| {
        let (_, value) = told.iter().find(|(name, _)| *name == key)?;
        value.split(' ').next()
    };
    Some((Pid(of("pid")?.parse().ok()?), of("runtime")?.parse().ok()?))
}

/// The ratio of the interval in the middle of all ticks.
fn rate(mut intervals: Vec<Interval>) -> Option<NonZeroU64> {
    intervals.retain(|(ticks, ns)| *ticks >= LEAST && *ns > 0);
    let hz = |(ticks, ns): &Interval| u128::from(*ticks) * 1_000_000_000 / u128::from(*ns);
    intervals.sort_by_key(hz);
    let all: u128 = intervals.iter().map(|(ticks, _)| u128::from(*ticks)).sum();
    let mut passed = 0;
    let middle = intervals.iter().find(|(ticks, _)| {
        passed += u128::from(*ticks);
        2 * passed >= all
    });
    NonZeroU64::new(u64::try_from(hz(middle?)).ok()?)
}
