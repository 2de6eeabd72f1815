//! When the tick comes, from what it does.

use schedlab_model::{Event, What};

/// A displacement that comes so soon after a wakeup on the same CPU may be the wakeup's, in nanoseconds.
const AFTER_WAKEUP: u64 = 300_000;
/// Displacements by ticks lie so close behind their tick, in nanoseconds: the handler, and the end of a system call.
const BEHIND: u64 = 40_000;
/// Displacements that are needed.
const ENOUGH: usize = 3;

/// The phase of the tick: the remainder of its times by `tick_ns`.
///
/// Displacements that no wakeup explains come from ticks. The phase is the earliest remainder of the closest crowd of
/// them. `None`: there are fewer than three, or less than half of them agree.
#[must_use]
pub fn phase(events: &[Event], tick_ns: u64) -> Option<u64> {
    let mut woken = std::collections::BTreeMap::new();
    let mut rests = Vec::new();
    for event in events {
        let at = event.time.0;
        match event.what {
            What::Wakeup { cpu, .. } => {
                woken.insert(cpu, at);
            }
            What::Switch { prev, left, .. } if !prev.is_idle() && left.is_runnable() => {
                let explained = woken.get(&event.cpu).is_some_and(|wake| at - wake < AFTER_WAKEUP);
                if !explained {
                    rests.push(at % tick_ns);
                }
            }
            _ => {}
        }
    }
    rests.sort_unstable();
    let crowd = |from: u64| {
        rests.iter().filter(|&&rest| (rest + tick_ns - from) % tick_ns < BEHIND).count()
    };
    let best = rests.iter().copied().max_by_key(|&from| crowd(from))?;
    let agree = crowd(best);
    (agree >= ENOUGH && 2 * agree >= rests.len()).then_some(best)
}
