//! Merges the CPUs' streams into one, ascending by time; equal times go by lane.
//!
//! A tournament (loser tree) finds the lane whose next event is earliest in log2(lanes) comparisons,
//! and that lane runs as long as it stays ahead of the runner-up: on real traces a CPU logs several
//! events in a row. A lane decodes each event into the batch when its turn has come, so an event is
//! written once, and what is learned on the way (names) is in order. The tournament is one number for
//! each lane, 8 KiB for a thousand CPUs: it stays in the first-level cache.

use crate::spelling::Kept;
use schedlab_model::{Context, Cpu, Event, Nanos, Pid, What};
use std::io;

/// The time of a lane that has ended; events' own are below.
pub(crate) const ENDED: u64 = u64::MAX;

/// Most events that one step of a lane puts: a record's, and the names that it tells before.
pub(crate) const STEP_MAX: usize = 4;

/// Where the merge gets its events from: lanes, each ascending in time.
pub(crate) trait Lanes {
    /// How many there are; may change when the merge restarts.
    fn count(&self) -> usize;

    /// Goes on to a lane's next event, whatever it takes: its time; [`ENDED`] when it has none.
    fn next(&mut self, lane: usize) -> io::Result<u64>;

    /// Puts the event at hand in `lane`, and those after it up to `until` as long as the batch has room.
    /// The time of the event that is at hand then; `None` when [`Self::next`] must find it.
    fn run(&mut self, lane: usize, until: u64, batch: &mut Batch<'_>) -> Option<u64>;
}

/// Events on their way out, in places that are there already.
pub(crate) struct Batch<'a> {
    places: std::slice::IterMut<'a, Event>,
    /// How many places there were.
    size: usize,
    kept: Kept,
}

impl<'a> Batch<'a> {
    fn new(places: &'a mut [Event], kept: Kept) -> Self {
        Self { size: places.len(), places: places.iter_mut(), kept }
    }

    /// Adds an event; there is room for [`STEP_MAX`] unless the batch is full.
    #[inline(always)]
    pub(crate) fn put(&mut self, event: Event) {
        if let Some(place) = self.places.next() {
            *place = event;
        }
    }

    /// Keeps the body of the event that is put next.
    #[cold]
    pub(crate) fn keep(&mut self, body: &[u8]) {
        self.kept.keep(self.count(), body);
    }

    /// Whether no further step fits.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.places.len() < STEP_MAX
    }

    /// How many events were put.
    fn count(&self) -> usize {
        self.size - self.places.len()
    }
}

/// Appends to `out` what `put` puts, at most [`STEP_MAX`] events.
pub(crate) fn append(out: &mut Vec<Event>, put: impl FnOnce(&mut Batch<'_>)) {
    let mut places = [FILLER; STEP_MAX];
    let mut batch = Batch::new(&mut places, Kept::default());
    put(&mut batch);
    let count = batch.count();
    out.extend_from_slice(&places[..count]);
}

/// Stands in a batch where no event was put yet.
pub(crate) const FILLER: Event = Event {
    time: Nanos(0),
    by: Pid(0),
    cpu: Cpu(0),
    context: Context::Task,
    what: What::Lost { count: None },
};

/// Time and lane of a next event in one number, so that comparing is one step and never a tie: the time
/// since [`Merge::base`], and the lane in the low bits. Times at or beyond the horizon are held as that;
/// when such a head wins, the base moves on.
type Head = u64;

/// The merge: whose turn it is.
#[derive(Default)]
pub(crate) struct Merge {
    /// The time of each lane's next event; [`ENDED`] where there is none.
    times: Vec<u64>,
    /// Losers of the tournament, a power of two; `tree[0]` is the winner.
    tree: Vec<Head>,
    /// What heads count from.
    base: u64,
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
            self.times.clear();
            for lane in 0..lanes.count() {
                self.times.push(lanes.next(lane)?);
            }
            self.started = true;
            self.seed();
        }
        // What lies behind the events that are put in place is cut off at the end; filling it costs
        // nothing, since the caller's batch mostly comes back as it went.
        batch.resize(limit + STEP_MAX, FILLER);
        self.kept.clear();
        let mut places = Batch::new(batch, std::mem::take(&mut self.kept));
        while !places.is_full() && self.play(lanes, &mut places)? {
            self.seed();
        }
        let count = places.count();
        self.kept = places.kept;
        batch.truncate(count);
        Ok(count > 0)
    }

    /// The body of the event at `index` of the last batch, if it was kept.
    pub(crate) fn kept(&self, index: usize) -> Option<&[u8]> {
        self.kept.get(index)
    }

    /// Seeds the tournament: counted from the earliest time, so that one head at least is below the
    /// horizon unless all have ended.
    fn seed(&mut self) {
        let size = self.times.len().next_power_of_two().max(2);
        let horizon = horizon(size);
        let earliest = self.times.iter().copied().min().unwrap_or(ENDED);
        // The time of the ended must stay beyond the horizon.
        self.base = earliest.min(ENDED - horizon);
        // Every node of the tournament keeps its loser and passes its winner up.
        let mut winners = vec![0; size];
        for lane in 0..size {
            let time = self.times.get(lane).copied().unwrap_or(ENDED);
            winners.push(head(size, self.base, lane, time));
        }
        self.tree.clear();
        self.tree.resize(size, 0);
        for node in (1..size).rev() {
            let (a, b) = (winners[node * 2], winners[node * 2 + 1]);
            winners[node] = a.min(b);
            self.tree[node] = a.max(b);
        }
        self.tree[0] = winners[1];
    }

    /// Plays until the batch is full, or no head is below the horizon: `true` when the base must move
    /// on for that, `false` when there is nothing left to do.
    fn play(&mut self, lanes: &mut impl Lanes, batch: &mut Batch<'_>) -> io::Result<bool> {
        // For a size that is a constant, no check of an index is left.
        let Self { times, tree, base, .. } = self;
        if let Ok(tree) = <&mut [Head; 2]>::try_from(tree.as_mut_slice()) {
            play(lanes, batch, times, tree, *base)
        } else if let Ok(tree) = <&mut [Head; 8]>::try_from(tree.as_mut_slice()) {
            play(lanes, batch, times, tree, *base)
        } else {
            play(lanes, batch, times, tree, *base)
        }
    }
}

/// The first time since the base that a head can't hold, for a tournament of `size`.
#[inline(always)]
fn horizon(size: usize) -> u64 {
    u64::MAX >> size.trailing_zeros()
}

#[inline(always)]
fn head(size: usize, base: u64, lane: usize, time: u64) -> Head {
    time.saturating_sub(base).min(horizon(size)) << size.trailing_zeros() | lane as u64
}

/// The rounds of the tournament; see [`Merge::play`].
#[inline(always)]
fn play(
    lanes: &mut impl Lanes,
    batch: &mut Batch<'_>,
    times: &mut [u64],
    tree: &mut [Head],
    base: u64,
) -> io::Result<bool> {
    let size = tree.len();
    let bits = size.trailing_zeros();
    loop {
        let (first, second) = (tree[0], runner_up(tree));
        if first >> bits == horizon(size) {
            return Ok(times.iter().any(|time| *time != ENDED));
        }
        let winner = lane_of(first, size);
        // At equal times the lower lane goes first; what is at the horizon may lie anywhere beyond.
        let tie = u64::from(winner > lane_of(second, size) || second >> bits == horizon(size));
        let until = (base + (second >> bits)).saturating_sub(tie);
        let next = match lanes.run(winner, until, batch) {
            Some(time) => time,
            None => lanes.next(winner)?,
        };
        if let Some(place) = times.get_mut(winner) {
            *place = next;
        }
        replay(tree, head(size, base, winner, next));
        if batch.is_full() {
            return Ok(false);
        }
    }
}

#[inline(always)]
fn lane_of(head: Head, size: usize) -> usize {
    head as usize & (size - 1)
}

/// Plays a lane's next event against the losers on its way up; selections rather than branches.
#[inline(always)]
fn replay(tree: &mut [Head], next: Head) {
    let size = tree.len();
    let mut winner = next;
    let mut node = (lane_of(next, size) + size) / 2;
    for _ in 0..size.trailing_zeros() {
        let loser = tree[node & (size - 1)];
        tree[node & (size - 1)] = loser.max(winner);
        winner = loser.min(winner);
        node /= 2;
    }
    tree[0] = winner;
}

/// The second earliest: whoever lost to the winner itself.
#[inline(always)]
fn runner_up(tree: &[Head]) -> Head {
    let size = tree.len();
    let mut best = Head::MAX;
    let mut node = (lane_of(tree[0], size) + size) / 2;
    for _ in 0..size.trailing_zeros() {
        best = best.min(tree[node & (size - 1)]);
        node /= 2;
    }
    best
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

        fn next(&mut self, lane: usize) -> io::Result<u64> {
            Ok(self.0[lane].first().copied().unwrap_or(ENDED))
        }

        fn run(&mut self, lane: usize, until: u64, batch: &mut Batch<'_>) -> Option<u64> {
            loop {
                let time = Nanos(self.0[lane].remove(0));
                batch.put(Event { time, cpu: Cpu(lane as u16), ..FILLER });
                let next = *self.0[lane].first()?;
                if next > until || batch.is_full() {
                    return Some(next);
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
    fn times_may_lie_further_apart_than_a_head_can_hold() {
        for lanes in [2, 3, 8, 9, 40] {
            let mut lists = vec![vec![]; lanes];
            lists[0] = vec![0, 1 << 63, ENDED - 2];
            lists[1] = vec![1, 1 << 58, 1 << 63, ENDED - 1];
            lists[lanes - 1].extend([ENDED - 1, ENDED - 1]);
            let mut sorted: Vec<(u64, u16)> = (0u16..)
                .zip(&lists)
                .flat_map(|(lane, list)| list.iter().map(move |time| (*time, lane)))
                .collect();
            sorted.sort_unstable();
            assert_eq!(merged(lists, 3), sorted, "{lanes} lanes");
        }
    }

    #[test]
    fn time_that_goes_back_is_raised() {
        let mut events = [3, 2, 5].map(|time| Event { time: Nanos(time), ..FILLER });
        assert_eq!(ascend(&mut events, 3), (5, 1));
        assert_eq!(events[1].time, Nanos(3));
    }
}
