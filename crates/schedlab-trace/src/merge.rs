//! Merges the CPUs' streams into one, ascending by time; equal times go by lane.
//!
//! Each lane holds a decoded run of one CPU's events. A tournament (loser tree) finds the lane whose
//! next event is earliest in log2(lanes) comparisons (few lanes are simply scanned), and that lane is drained as long as it stays
//! ahead of the runner-up: on real traces a CPU logs several events in a row, so most events cost one
//! comparison and one copy.

use crate::names::Names;
use schedlab_model::{Event, Nanos, What};
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

/// The merge and what it has read ahead: one run of events for each lane.
pub(crate) struct Merge {
    lanes: Vec<Lane>,
    /// Time of each lane's next event; `u64::MAX` when it has ended.
    heads: Vec<u64>,
    /// Losers of the tournament; `tree[0]` is the winner.
    tree: Vec<u32>,
    started: bool,
    names: Names,
}

impl Merge {
    pub(crate) fn new(lanes: usize) -> Self {
        Self {
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            heads: vec![u64::MAX; lanes],
            tree: vec![0; lanes.max(1)],
            started: false,
            names: Names::default(),
        }
    }

    /// Begins anew with `lanes` lanes; what is known of names stays.
    pub(crate) fn restart(&mut self, lanes: usize) {
        self.lanes.resize_with(lanes, Lane::default);
        self.heads.resize(lanes, u64::MAX);
        self.tree.resize(lanes.max(1), 0);
        self.started = false;
    }

    /// Replaces `batch` by up to `limit` events; `false` when none are left.
    pub(crate) fn next(
        &mut self,
        source: &mut impl Refill,
        batch: &mut Vec<Event>,
        limit: usize,
    ) -> io::Result<bool> {
        batch.clear();
        if self.lanes.is_empty() {
            return Ok(false);
        }
        if !self.started {
            self.start(source)?;
        }
        let few = self.lanes.len() <= SCAN_MAX;
        while batch.len() < limit {
            let (winner, runner_up, before) = if few {
                self.scan()
            } else {
                let winner = self.tree[0] as usize;
                let (runner_up, before) = self.runner_up(winner);
                (winner, runner_up, before)
            };
            if self.heads[winner] == u64::MAX {
                break;
            }
            self.drain(winner, runner_up, before, batch, limit);
            let lane = &mut self.lanes[winner];
            if lane.at == lane.events.len() {
                Self::refill(lane, winner, source)?;
            }
            self.heads[winner] = lane.events.get(lane.at).map_or(u64::MAX, |event| event.time.0);
            if !few {
                self.replay(winner);
            }
        }
        Ok(!batch.is_empty())
    }

    /// The earliest lane and the time of the second, by looking at all: no branch to mispredict, which
    /// is faster than the tournament when lanes are few.
    #[inline]
    fn scan(&self) -> (usize, u64, bool) {
        let (mut first, mut second) = ((u64::MAX, 0), (u64::MAX, usize::MAX));
        for (lane, &head) in self.heads.iter().enumerate() {
            let ahead = head < first.0;
            let other = if ahead { first } else { (head, lane) };
            second = if other.0 < second.0 { other } else { second };
            first = if ahead { (head, lane) } else { first };
        }
        (first.1, second.0, first.1 < second.1)
    }

    /// Moves events of `winner` to `batch` while they come before the runner-up's.
    #[inline]
    fn drain(
        &mut self,
        winner: usize,
        runner_up: u64,
        before: bool,
        batch: &mut Vec<Event>,
        limit: usize,
    ) {
        let lane = &mut self.lanes[winner];
        let room = limit - batch.len();
        batch.reserve(room);
        // The first event is the winner's by definition; it may tie with the runner-up.
        let mut taken = 0;
        for event in lane.events[lane.at..].iter().take(room) {
            let time = event.time.0;
            if taken > 0 && (time > runner_up || (time == runner_up && !before)) {
                break;
            }
            taken += 1;
            if let What::Comm { pid, comm } = event.what {
                // Lanes are read ahead in turns, so the same news can come from several.
                if !self.names.changed(pid, u128::from_le_bytes(comm)) {
                    continue;
                }
            }
            batch.push(*event);
        }
        lane.at += taken;
    }

    fn start(&mut self, source: &mut impl Refill) -> io::Result<()> {
        self.started = true;
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            Self::refill(lane, index, source)?;
            self.heads[index] = lane.events.first().map_or(u64::MAX, |event| event.time.0);
        }
        // Play every lane into an empty tree: a lane waits at its first free node.
        let count = self.lanes.len();
        let mut winners = vec![u32::MAX; count * 2];
        for lane in 0..count {
            winners[count + lane] = lane as u32;
        }
        for node in (1..count).rev() {
            let (a, b) = (winners[node * 2], winners[node * 2 + 1]);
            let (win, lose) = if self.beats(a, b) { (a, b) } else { (b, a) };
            winners[node] = win;
            self.tree[node] = lose;
        }
        self.tree[0] = if count == 1 { 0 } else { winners[1] };
        Ok(())
    }

    fn refill(lane: &mut Lane, index: usize, source: &mut impl Refill) -> io::Result<()> {
        lane.events.clear();
        lane.at = 0;
        while lane.events.is_empty() && source.refill(index, &mut lane.events)? {}
        Ok(())
    }

    #[inline]
    fn beats(&self, a: u32, b: u32) -> bool {
        (self.heads[a as usize], a) < (self.heads[b as usize], b)
    }

    #[inline]
    fn replay(&mut self, lane: usize) {
        let mut winner = lane as u32;
        let mut node = (lane + self.lanes.len()) / 2;
        while node > 0 {
            let loser = self.tree[node];
            if self.beats(loser, winner) {
                self.tree[node] = winner;
                winner = loser;
            }
            node /= 2;
        }
        self.tree[0] = winner;
    }

    /// Time of the second earliest lane, and whether the winner goes first when they tie.
    #[inline]
    fn runner_up(&self, winner: usize) -> (u64, bool) {
        let mut best = (u64::MAX, u32::MAX);
        let mut node = (winner + self.lanes.len()) / 2;
        while node > 0 {
            let loser = self.tree[node];
            best = best.min((self.heads[loser as usize], loser));
            node /= 2;
        }
        (best.0, (winner as u32) < best.1)
    }
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
    use schedlab_model::{Context, Cpu, Pid};

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
