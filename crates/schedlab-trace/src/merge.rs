//! Merges the CPUs' streams into one, ascending by time; equal times go by lane.
//!
//! Each lane holds a decoded run of one CPU's events. A tournament (loser tree) finds the lane whose
//! next event is earliest in log2(lanes) comparisons (few lanes are simply scanned), and that lane is
//! drained as long as it stays ahead of the runner-up: on real traces a CPU logs several events in a
//! row, so most events cost one comparison and one copy.

use crate::names::Names;
use schedlab_model::{Context, Cpu, Event, Nanos, Pid, What};
use std::io;

/// Up to as many lanes all are looked at for each run.
const SCAN_MAX: usize = 16;

/// Where lanes get their events from.
pub(crate) trait Refill {
    /// Appends the next events of `lane`, ascending in time; `false` when there are no more.
    fn refill(&mut self, lane: usize, out: &mut Vec<Event>) -> io::Result<bool>;
}

#[derive(Default)]
struct Lane {
    events: Vec<Event>,
    at: usize,
}

impl Lane {
    /// The time of the next event, [`ENDED`] when there is none.
    #[inline]
    fn time(&self) -> u64 {
        self.events.get(self.at).map_or(ENDED, |event| event.time.0)
    }
}

/// Time and lane of a next event in one number, so that comparing is one step and never a tie.
type Head = u128;

fn head(lane: usize, time: u64) -> Head {
    u128::from(time) << 32 | lane as u128
}

/// The lane of a head.
fn lane_of(head: Head) -> usize {
    (head & 0xffff_ffff) as usize
}

/// The time of a head.
fn time_of(head: Head) -> u64 {
    (head >> 32) as u64
}

/// The time of a lane that has ended.
const ENDED: u64 = u64::MAX;

/// Stands in a batch where no event was put yet.
const FILLER: Event = Event {
    time: Nanos(0),
    by: Pid(0),
    cpu: Cpu(0),
    context: Context::Task,
    what: What::Lost { count: None },
};

/// The merge and what it has read ahead: one run of events for each lane.
pub(crate) struct Merge {
    lanes: Vec<Lane>,
    /// The time of each lane's next event, when lanes are few.
    heads: Vec<u64>,
    /// Losers of the tournament, when they are many; `tree[0]` is the winner.
    tree: Vec<Head>,
    started: bool,
    names: Names,
}

impl Merge {
    pub(crate) fn new(lanes: usize) -> Self {
        let names = Names::default();
        let mut merge =
            Self { lanes: Vec::new(), heads: Vec::new(), tree: Vec::new(), started: false, names };
        merge.restart(lanes);
        merge
    }

    /// Begins anew with `lanes` lanes; what is known of names stays.
    pub(crate) fn restart(&mut self, lanes: usize) {
        self.lanes.resize_with(lanes, Lane::default);
        self.heads.resize(lanes, 0);
        self.tree.resize(lanes, 0);
        self.started = false;
    }

    /// Replaces `batch` by up to `limit` events; `false` when none are left.
    pub(crate) fn next(
        &mut self,
        source: &mut impl Refill,
        batch: &mut Vec<Event>,
        limit: usize,
    ) -> io::Result<bool> {
        if self.lanes.is_empty() {
            batch.clear();
            return Ok(false);
        }
        if !self.started {
            self.start(source)?;
        }
        // What lies behind the events that are put in place is cut off at the end; filling it costs
        // nothing, since the caller's batch mostly comes back as it went.
        batch.resize(limit, FILLER);
        let mut count = 0;
        if self.lanes.len() <= SCAN_MAX {
            while count < limit {
                let (winner, first, second) = scan(&self.heads);
                if first == ENDED {
                    break;
                }
                count += self.drain(winner, second.saturating_sub(1), &mut batch[count..]);
                self.heads[winner] = self.head_after(winner, source)?;
            }
        } else {
            while count < limit {
                let (first, second) = (self.tree[0], self.runner_up());
                if time_of(first) == ENDED {
                    break;
                }
                let winner = lane_of(first);
                // At equal times the lower lane goes first.
                let tie = u64::from(winner > lane_of(second));
                let until = time_of(second).saturating_sub(tie);
                count += self.drain(winner, until, &mut batch[count..]);
                let next = self.head_after(winner, source)?;
                self.replay(head(winner, next));
            }
        }
        batch.truncate(count);
        Ok(count > 0)
    }

    /// The time of a lane's next event.
    #[inline]
    fn head_after(&mut self, index: usize, source: &mut impl Refill) -> io::Result<u64> {
        let lane = &mut self.lanes[index];
        if lane.at == lane.events.len() {
            Self::refill(lane, index, source)?;
        }
        Ok(lane.time())
    }

    /// Moves events of `winner` to `batch`: its first, and those up to `until`. Returns how many.
    #[inline(always)]
    fn drain(&mut self, winner: usize, until: u64, batch: &mut [Event]) -> usize {
        let lane = &mut self.lanes[winner];
        let mut count = 0;
        let mut taken = 0;
        for (event, place) in lane.events[lane.at..].iter().zip(0..batch.len()) {
            if place > 0 && event.time.0 > until {
                break;
            }
            taken += 1;
            if let What::Comm { pid, comm } = event.what {
                // Lanes are read ahead in turns, so the same news can come from several.
                if !self.names.changed(pid, u128::from_le_bytes(comm)) {
                    continue;
                }
            }
            batch[count] = *event;
            count += 1;
        }
        lane.at += taken;
        count
    }

    fn start(&mut self, source: &mut impl Refill) -> io::Result<()> {
        self.started = true;
        let count = self.lanes.len();
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            Self::refill(lane, index, source)?;
            self.heads[index] = lane.time();
        }
        // Every node of the tournament keeps its loser and passes its winner up.
        let mut winners = vec![0; count];
        winners.extend((0..count).map(|lane| head(lane, self.heads[lane])));
        for node in (1..count).rev() {
            let (a, b) = (winners[node * 2], winners[node * 2 + 1]);
            winners[node] = a.min(b);
            self.tree[node] = a.max(b);
        }
        self.tree[0] = winners[1];
        Ok(())
    }

    fn refill(lane: &mut Lane, index: usize, source: &mut impl Refill) -> io::Result<()> {
        lane.events.clear();
        lane.at = 0;
        while lane.events.is_empty() && source.refill(index, &mut lane.events)? {}
        Ok(())
    }

    /// Plays a lane's next event against the losers on its way up; selections rather than branches.
    #[inline]
    fn replay(&mut self, next: Head) {
        let mut winner = next;
        let mut node = (lane_of(next) + self.lanes.len()) / 2;
        while node > 0 {
            let loser = self.tree[node];
            self.tree[node] = loser.max(winner);
            winner = loser.min(winner);
            node /= 2;
        }
        self.tree[0] = winner;
    }

    /// The second earliest: whoever lost to the winner itself.
    #[inline]
    fn runner_up(&self) -> Head {
        let mut best = Head::MAX;
        let mut node = (lane_of(self.tree[0]) + self.lanes.len()) / 2;
        while node > 0 {
            best = best.min(self.tree[node]);
            node /= 2;
        }
        best
    }
}

/// The lane of the earliest time (the lowest of equal ones), that time, and the second earliest. By
/// looking at all: no branch to mispredict, which is faster than the tournament when lanes are few.
#[inline]
fn scan(heads: &[u64]) -> (usize, u64, u64) {
    let (mut winner, mut first, mut second) = (0, ENDED, ENDED);
    for (lane, &time) in heads.iter().enumerate() {
        let earlier = time < first;
        second = second.min(first.max(time));
        winner = if earlier { lane } else { winner };
        first = first.min(time);
    }
    (winner, first, second)
}

/// Makes the times from `from` on ascend: a time before its predecessor's is raised to it. Returns
/// the last time and how many were raised. Per-CPU clocks are monotonic but for rare steps.
pub(crate) fn ascend(events: &mut [Event], from: u64) -> (u64, u64) {
    let mut last = from;
    let mut raised = 0;
    for event in events {
        if event.time.0 < last {
            event.time = Nanos(last);
            raised += 1;
        }
        last = event.time.0;
    }
    (last, raised)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Lists(Vec<Vec<Vec<u64>>>);

    impl Refill for Lists {
        fn refill(&mut self, lane: usize, out: &mut Vec<Event>) -> io::Result<bool> {
            if self.0[lane].is_empty() {
                return Ok(false);
            }
            let cpu = Cpu(lane as u16);
            out.extend(self.0[lane].remove(0).into_iter().map(|time| Event {
                time: Nanos(time),
                by: Pid(0),
                cpu,
                context: Context::Task,
                what: What::Lost { count: None },
            }));
            Ok(true)
        }
    }

    fn merged(lists: Vec<Vec<Vec<u64>>>, limit: usize) -> Vec<(u64, u16)> {
        let mut merge = Merge::new(lists.len());
        let mut source = Lists(lists);
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while merge.next(&mut source, &mut batch, limit).unwrap() {
            assert!(batch.len() <= limit);
            all.extend(batch.iter().map(|event| (event.time.0, event.cpu.0)));
        }
        assert!(batch.is_empty());
        all
    }

    #[test]
    fn events_come_by_time_and_equal_times_by_lane() {
        let lists = vec![vec![vec![1, 5], vec![5, 9]], vec![], vec![vec![], vec![1, 5, 6]]];
        for limit in [1, 2, 3, 100] {
            assert_eq!(
                merged(lists.clone(), limit),
                [(1, 0), (1, 2), (5, 0), (5, 0), (5, 2), (6, 2), (9, 0)]
            );
        }
        assert_eq!(merged(vec![], 10), []);
    }

    #[test]
    fn any_number_of_lanes_merges_like_a_sort() {
        for lanes in 1..20u64 {
            let mut state = lanes;
            let mut lists = Vec::new();
            for _ in 0..lanes {
                let mut list: Vec<u64> = (0..30)
                    .map(|_| {
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695);
                        state >> 58
                    })
                    .collect();
                list.sort_unstable();
                lists.push(list.chunks(7).map(<[u64]>::to_vec).collect::<Vec<_>>());
            }
            let mut sorted: Vec<(u64, u16)> = lists
                .iter()
                .enumerate()
                .flat_map(|(lane, list)| list.iter().flatten().map(move |t| (*t, lane as u16)))
                .collect();
            sorted.sort_unstable();
            assert_eq!(merged(lists, 16), sorted, "{lanes} lanes");
        }
    }

    #[test]
    fn time_that_goes_back_is_raised() {
        let mut merge = Lists(vec![vec![vec![3, 2, 5]]]);
        let mut events = Vec::new();
        merge.refill(0, &mut events).unwrap();
        assert_eq!(ascend(&mut events, 3), (5, 1));
        assert_eq!(events[1].time, Nanos(3));
    }
}
