//! Load control: where a worker without work goes, given how far away the next start is.
//!
//! One start time at a time is *tended*: the first worker that can, sleeps exactly until then.
//! Later ones are scattered behind it, so that they do not all come at once.

use super::{Nanos, Policy};

/// How far away the next start is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// Nothing is planned, or farther away than the sleep horizon.
    Idle,
    /// Between the work horizon and the sleep horizon.
    Work,
    /// Between the near horizon and the work horizon.
    Near,
    /// Nearer than the near horizon.
    Imminent,
    /// The next start is due.
    Due,
}

/// What a worker that found no job does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capacity {
    /// The worker pulls a job now.
    Dispatch,
    /// Stay awake and ask again.
    Spin,
    /// Sleep exactly until the next start.
    TendNext,
    /// Sleep until soon after the next start.
    NearTime,
    /// Sleep until some time behind the next start, within the sleep horizon.
    WorkTime,
    /// The worker is not needed.
    Idle,
}

/// Decides which worker waits for the next start.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadControl {
    /// The start that somebody sleeps for, and which worker.
    tended: Option<(Nanos, usize)>,
}

impl LoadControl {
    /// Sorts the time to the next start into a distance.
    pub(crate) fn distance(policy: &Policy, now: Nanos, head: Option<Nanos>) -> Distance {
        let Some(head) = head else { return Distance::Idle };
        match head.saturating_sub(now) {
            0 => Distance::Due,
            d if d <= policy.near_horizon_ns => Distance::Imminent,
            d if d <= policy.work_horizon_ns => Distance::Near,
            d if d <= policy.sleep_horizon_ns => Distance::Work,
            _ => Distance::Idle,
        }
    }

    /// What a worker is to do: one that comes from work (outgoing) is kept near the next start, one
    /// that comes from sleep (incoming) is sent away sooner.
    pub(crate) fn classify(
        &self,
        policy: &Policy,
        now: Nanos,
        head: Option<Nanos>,
        from_work: bool,
    ) -> Capacity {
        let tended = self.tended.is_some_and(|(tended, _)| head == Some(tended));
        match (Self::distance(policy, now, head), from_work) {
            (Distance::Due, _) => Capacity::Dispatch,
            (Distance::Imminent, _) => Capacity::Spin,
            (Distance::Near, _) if tended => Capacity::NearTime,
            (Distance::Near, _) => Capacity::TendNext,
            (Distance::Work | Distance::Idle, true) if tended || head.is_none() => {
                Capacity::WorkTime
            }
            (Distance::Work | Distance::Idle, true) => Capacity::TendNext,
            // With notifications a sleeper can be called, so a distant head may be tended as well.
            (Distance::Work | Distance::Idle, false) if policy.notify && head.is_some() => {
                if tended { Capacity::Idle } else { Capacity::TendNext }
            }
            (Distance::Work | Distance::Idle, false) => Capacity::Idle,
        }
    }

    /// How long to sleep; marks the head as tended where that is the answer.
    pub(crate) fn delay(
        &mut self,
        policy: &Policy,
        now: Nanos,
        head: Option<Nanos>,
        capacity: Capacity,
        worker: usize,
    ) -> Nanos {
        let distance = head.map_or(0, |head| head.saturating_sub(now));
        match capacity {
            Capacity::Dispatch | Capacity::Spin => 0,
            Capacity::TendNext => {
                self.tended = head.map(|head| (head, worker));
                // The last stretch is spun for: a timer is late by its slack and a wake-up.
                distance.saturating_sub(policy.near_horizon_ns)
            }
            Capacity::NearTime => {
                let range = distance.clamp(policy.near_horizon_ns, policy.work_horizon_ns);
                distance + scatter(now, worker, range)
            }
            Capacity::WorkTime | Capacity::Idle => {
                let range = policy.sleep_horizon_ns;
                distance.min(policy.sleep_horizon_ns) + scatter(now, worker, range)
            }
        }
    }

    /// Notes that a worker is awake: no start is left to its care any more.
    pub(crate) fn untend(&mut self, worker: usize) {
        self.tended = self.tended.filter(|&(_, tender)| tender != worker);
    }
}

/// A number below `range` that differs between workers and moments.
fn scatter(now: Nanos, worker: usize, range: Nanos) -> Nanos {
    let mixed = (now / 1000 + worker as u64 * 0x9e37).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    mixed % range.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    #[test]
    fn the_table_of_the_original_holds_without_notifications() {
        use Capacity::*;
        let policy = Policy { notify: false, ..Policy::new(4) };
        let at = |head_us: Option<u64>, tended: bool, from_work| {
            let head = head_us.map(|us| 1_000_000 + us * US);
            let load = LoadControl { tended: head.filter(|_| tended).map(|h| (h, 0)) };
            load.classify(&policy, 1_000_000, head, from_work)
        };
        let row = |head| {
            [(false, false), (true, false), (false, true), (true, true)]
                .map(|(t, w)| at(head, t, w))
        };
        assert_eq!(row(None), [Idle, Idle, WorkTime, WorkTime]);
        assert_eq!(row(Some(21_000)), [Idle, Idle, TendNext, WorkTime]);
        assert_eq!(row(Some(10_000)), [Idle, Idle, TendNext, WorkTime]);
        assert_eq!(row(Some(1_000)), [TendNext, NearTime, TendNext, NearTime]);
        assert_eq!(row(Some(20)), [Spin; 4]);
        assert_eq!(row(Some(0)), [Dispatch; 4]);
    }

    #[test]
    fn scatter_stays_within_its_range_and_fills_it() {
        let drawn: Vec<_> = (0..1000).map(|i| scatter(i * 7_919, i as usize % 8, 100)).collect();
        assert!(drawn.iter().all(|&d| d < 100));
        assert!((0..10).all(|tenth| drawn.iter().filter(|&&d| d / 10 == tenth).count() > 50));
    }
}
