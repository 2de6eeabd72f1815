//! Merges the CPUs' streams into one, ascending by time; equal times go by lane.
//!
//! A tournament (loser tree) finds the lane whose next event is earliest in log2(lanes) comparisons
//! (few lanes are simply scanned), and that lane runs as long as it stays ahead of the runner-up: on
//! real traces a CPU logs several events in a row. A lane decodes each event into the batch when its
//! turn has come, so an event is written once, and what is learned on the way (names) is in order.
//! The tournament is numbers only, a few KiB for a thousand CPUs: it stays in the first-level cache.

use crate::spelling::Kept;
use schedlab_model::{Context, Cpu, Event, Nanos, Pid, What};
use std::io;

/// Up to as many lanes all are looked at for each run.
const SCAN_MAX: usize = 16;

/// The time of a lane that has ended; events' own are below.
pub(crate) const ENDED: u64 = u64::MAX;

/// Most events that one step of a lane puts: a record's, and the names that it tells before.
pub(crate) const STEP_MAX: usize = 4;

/// Where the merge gets its events from: lanes, each ascending in time.
pub(crate) trait Lanes {
    /// How many there are; may change when the merge restarts.
    fn count(&self) -> usize;

    /// The time of a lane's first event; [`ENDED`] when it has none.
    fn first(&mut self, lane: usize) -> io::Result<u64>;

    /// Puts the next event of `lane`, and those after it up to `until` as long as the batch has room.
    /// Returns the time of the event that is next then.
    fn run(&mut self, lane: usize, until: u64, batch: &mut Batch<'_>) -> io::Result<u64>;
}

/// Events on their way out, in places that are there already.
pub(crate) struct Batch<'a> {
    places: &'a mut [Event],
    count: usize,
    kept: Kept,
}

impl Batch<'_> {
    /// Adds an event; there is room for [`STEP_MAX`] unless the batch is full.
    #[inline(always)]
    pub(crate) fn put(&mut self, event: Event) {
        if let Some(place) = self.places.get_mut(self.count) {
            *place = event;
            self.count += 1;
        }
    }

    /// Keeps the body of the event that is put next.
    #[cold]
    pub(crate) fn keep(&mut self, body: &[u8]) {
        self.kept.keep(self.count, body);
    }

    /// Whether no further step fits.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.count + STEP_MAX > self.places.len()
    }
}

/// Appends to `out` what `put` puts, at most [`STEP_MAX`] events.
pub(crate) fn append(out: &mut Vec<Event>, put: impl FnOnce(&mut Batch<'_>)) {
    let mut places = [FILLER; STEP_MAX];
    let mut batch = Batch { places: &mut places, count: 0, kept: Kept::default() };
    put(&mut batch);
    let count = batch.count;
    out.extend_from_slice(&places[..count]);
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

/// Stands in a batch where no event was put yet.
pub(crate) const FILLER: Event = Event {
    time: Nanos(0),
    by: Pid(0),
    cpu: Cpu(0),
    context: Context::Task,
    what: What::Lost { count: None },
};

/// The merge: whose turn it is.
#[derive(Default)]
pub(crate) struct Merge {
    /// How many lanes there are.
    count: usize,
    /// The time of each lane's next event, when lanes are few; [`ENDED`] where there is none.
    heads: [u64; SCAN_MAX],
    /// Losers of the tournament, when they are many; `tree[0]` is the winner.
    tree: Vec<Head>,
    started: bool,
    /// Bodies of the last batch's events, where they are kept.
    kept: Kept,
}

impl Merge {
    /// Begins anew: all lanes are looked at again.
    pub(crate) fn restart(&mut self) {
        self.started = false;
    }

    /// Replaces `batch` by about `limit` events; `false` when none are left.
    pub(crate) fn next(
        &mut self,
        lanes: &mut impl Lanes,
        batch: &mut Vec<Event>,
        limit: usize,
    ) -> io::Result<bool> {
        if !self.started {
            self.start(lanes)?;
        }
        // What lies behind the events that are put in place is cut off at the end; filling it costs
        // nothing, since the caller's batch mostly comes back as it went.
        batch.resize(limit + STEP_MAX, FILLER);
        self.kept.clear();
        let mut places = Batch { places: batch, count: 0, kept: std::mem::take(&mut self.kept) };
        match self.count {
            0 => {}
            1..=4 => self.few::<4>(lanes, &mut places)?,
            5..=8 => self.few::<8>(lanes, &mut places)?,
            9..=SCAN_MAX => self.few::<SCAN_MAX>(lanes, &mut places)?,
            _ => self.many(lanes, &mut places)?,
        }
        let Batch { count, kept, .. } = places;
        self.kept = kept;
        batch.truncate(count);
        Ok(count > 0)
    }

    /// The body of the event at `index` of the last batch, if it was kept.
    pub(crate) fn kept(&self, index: usize) -> Option<&[u8]> {
        self.kept.get(index)
    }

    /// `COUNT`: lanes, rounded up so that looking at all is a fixed sequence.
    fn few<const COUNT: usize>(
        &mut self,
        lanes: &mut impl Lanes,
        batch: &mut Batch<'_>,
    ) -> io::Result<()> {
        let mut heads: [u64; COUNT] = std::array::from_fn(|lane| self.heads[lane]);
        while !batch.is_full() {
            let (winner, first, second) = scan(&heads);
            if first == ENDED {
                break;
            }
            heads[winner] = lanes.run(winner, second.saturating_sub(1), batch)?;
        }
        self.heads[..COUNT].copy_from_slice(&heads);
        Ok(())
    }

    #[inline]
    fn many(&mut self, lanes: &mut impl Lanes, batch: &mut Batch<'_>) -> io::Result<()> {
        while !batch.is_full() {
            let (first, second) = (self.tree[0], self.runner_up());
            if time_of(first) == ENDED {
                break;
            }
            let winner = lane_of(first);
            // At equal times the lower lane goes first; nobody runs into the time of the ended.
            let tie = u64::from(winner > lane_of(second) || time_of(second) == ENDED);
            let next = lanes.run(winner, time_of(second).saturating_sub(tie), batch)?;
            self.replay(head(winner, next));
        }
        Ok(())
    }

    fn start(&mut self, lanes: &mut impl Lanes) -> io::Result<()> {
        let count = lanes.count();
        self.count = count;
        self.heads = [ENDED; SCAN_MAX];
        // Every node of the tournament keeps its loser and passes its winner up.
        let mut winners = vec![0; count];
        for lane in 0..count {
            let time = lanes.first(lane)?;
            winners.push(head(lane, time));
            if let Some(place) = self.heads.get_mut(lane) {
                *place = time;
            }
        }
        self.started = true;
        self.tree.clear();
        self.tree.resize(count, 0);
        for node in (1..count).rev() {
            let (a, b) = (winners[node * 2], winners[node * 2 + 1]);
            winners[node] = a.min(b);
            self.tree[node] = a.max(b);
        }
        if count > 0 {
            self.tree[0] = winners[1];
        }
        Ok(())
    }

    /// Plays a lane's next event against the losers on its way up; selections rather than branches.
    #[inline]
    fn replay(&mut self, next: Head) {
        let mut winner = next;
        let mut node = (lane_of(next) + self.tree.len()) / 2;
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
        let mut node = (lane_of(self.tree[0]) + self.tree.len()) / 2;
        while node > 0 {
            best = best.min(self.tree[node]);
            node /= 2;
        }
        best
    }
}

/// The lane of the earliest time (the lowest of equal ones), that time, and the second earliest. By
/// looking at all: no branch to mispredict, which is faster than the tournament when lanes are few.
#[inline(always)]
fn scan<const COUNT: usize>(heads: &[u64; COUNT]) -> (usize, u64, u64) {
    let (mut winner, mut first, mut second) = (0, heads[0], ENDED);
    for (lane, &time) in heads.iter().enumerate().skip(1) {
        let earlier = time < first;
        let later = if earlier { first } else { time };
        second = if later < second { later } else { second };
        winner = if earlier { lane } else { winner };
        first = if earlier { time } else { first };
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

    struct Lists(Vec<Vec<u64>>);

    impl Lanes for Lists {
        fn count(&self) -> usize {
            self.0.len()
        }

        fn first(&mut self, lane: usize) -> io::Result<u64> {
            Ok(self.0[lane].first().copied().unwrap_or(ENDED))
        }

        fn run(&mut self, lane: usize, until: u64, batch: &mut Batch<'_>) -> io::Result<u64> {
            loop {
                let time = Nanos(self.0[lane].remove(0));
                batch.put(Event { time, cpu: Cpu(lane as u16), ..FILLER });
                let next = self.first(lane)?;
                if next > until || batch.is_full() {
                    return Ok(next);
                }
            }
        }
    }

    fn merged(lists: Vec<Vec<u64>>, limit: usize) -> Vec<(u64, u16)> {
        let mut merge = Merge::default();
        let mut source = Lists(lists);
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while merge.next(&mut source, &mut batch, limit).unwrap() {
            assert!(batch.len() <= limit + STEP_MAX);
            all.extend(batch.iter().map(|event| (event.time.0, event.cpu.0)));
        }
        assert!(batch.is_empty());
        all
    }

    #[test]
    fn events_come_by_time_and_equal_times_by_lane() {
        let lists = vec![vec![1, 5, 5, 9], vec![], vec![1, 5, 6]];
        for limit in [1, 2, 3, 100] {
            assert_eq!(
                merged(lists.clone(), limit),
                [(1, 0), (1, 2), (5, 0), (5, 0), (5, 2), (6, 2), (9, 0)]
            );
        }
        assert_eq!(merged(vec![], 10), []);
        assert_eq!(merged(vec![vec![], vec![]], 10), []);
    }

    #[test]
    fn any_number_of_lanes_merges_like_a_sort() {
        for lanes in 1..40u64 {
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
                lists.push(list);
            }
            let mut sorted: Vec<(u64, u16)> = lists
                .iter()
                .enumerate()
                .flat_map(|(lane, list)| list.iter().map(move |t| (*t, lane as u16)))
                .collect();
            sorted.sort_unstable();
            assert_eq!(merged(lists, 16), sorted, "{lanes} lanes");
        }
    }

    #[test]
    fn time_that_goes_back_is_raised() {
        let mut events = [3, 2, 5].map(|time| Event { time: Nanos(time), ..FILLER });
        assert_eq!(ascend(&mut events, 3), (5, 1));
        assert_eq!(events[1].time, Nanos(3));
    }
}
