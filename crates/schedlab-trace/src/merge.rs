//! Merges the CPUs' streams into one, ascending by time; equal times go by lane.
//!
//! A tournament (loser tree) finds the lane whose next event is earliest in log2(lanes) comparisons.
//! Each event plays anew, also when its lane stays ahead: a loop over a lane's turn saves comparisons, but
//! nobody can guess when it ends, and a wrong guess costs more than all of them. A lane decodes each event
//! into the batch when its turn has come, so an event is written once, and what is learned on the way (names) is
//! in order. The tournament is one number for each lane, 8 KiB for a thousand CPUs: it stays in the
//! first-level cache.

use crate::argument_text::EventBodies;
use schedlab_model::{Context, Cpu, Event, EventSink, Nanos, Pid, What};
use std::io;

/// The time of a lane that has ended; events' own are below.
pub(crate) const ENDED: u64 = u64::MAX;

/// Most events that one step of a lane puts: a record's, and the names that it tells before.
pub(crate) const STEP_MAX: usize = 4;

/// Bytes of bodies that a batch keeps, about: batches wait in line where a thread reads ahead.
const BODIES_MAX: usize = 1 << 20;

/// Where the merge gets its events from: lanes, each ascending in time.
pub(crate) trait Lanes {
    /// How many there are; may change when the merge restarts.
    fn count(&self) -> usize;

    /// Goes on to a lane's next event, reading as far as needed: its time; [`ENDED`] when it has none.
    fn next(&mut self, lane: usize) -> io::Result<u64>;

    /// The time of the event at hand in `lane`; [`ENDED`] when it has none.
    fn time(&self, lane: usize) -> u64;

    /// Puts the event at hand in `lane`. The time of the one that is at hand then; `None` when
    /// [`Self::next`] must find it.
    fn put(&mut self, lane: usize, out: &mut impl Out) -> Option<u64>;
}

/// Where a merge puts its events.
pub(crate) trait Out {
    /// Adds an event. There is room for [`STEP_MAX`] unless it is full.
    fn put(&mut self, event: Event);

    /// Adds what `put` puts, at most [`STEP_MAX`] events: for what is rare, and would otherwise be compiled
    /// for each way out.
    fn aside(&mut self, put: impl FnOnce(&mut Batch<'_>));

    /// Whether no further step fits.
    fn is_full(&self) -> bool;
}

/// The way straight into the one that wants the events.
struct ToSink<'a, S>(&'a mut S);

impl<S: EventSink> Out for ToSink<'_, S> {
    #[inline(always)]
    fn put(&mut self, event: Event) {
        self.0.take(&event);
    }

    #[cold]
    #[inline(never)]
    fn aside(&mut self, put: impl FnOnce(&mut Batch<'_>)) {
        let mut places = [FILLER; STEP_MAX];
        let mut batch = Batch::new(&mut places, EventBodies::default());
        put(&mut batch);
        let count = batch.count();
        places[..count].iter().for_each(|event| self.0.take(event));
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        false
    }
}

/// Events on their way out, in places that are there already.
pub(crate) struct Batch<'a> {
    places: std::slice::IterMut<'a, Event>,
    /// How many places there were.
    size: usize,
    bodies: EventBodies,
}

impl<'a> Batch<'a> {
    fn new(places: &'a mut [Event], bodies: EventBodies) -> Self {
        Self { size: places.len(), places: places.iter_mut(), bodies }
    }

    /// Keeps the body of the event that is put next. With many bytes of bodies the batch is full after it.
    #[cold]
    pub(crate) fn keep(&mut self, body: &[u8]) {
        self.bodies.keep(self.count(), body);
        if self.bodies.size() >= BODIES_MAX && self.places.len() >= STEP_MAX {
            let unused = self.places.len() - 1;
            self.places = std::mem::take(&mut self.places).into_slice()[..1].iter_mut();
            self.size -= unused;
        }
    }

    /// How many events were put.
    fn count(&self) -> usize {
        self.size - self.places.len()
    }
}

impl Out for Batch<'_> {
    #[inline(always)]
    fn put(&mut self, event: Event) {
        if let Some(place) = self.places.next() {
            *place = event;
        }
    }

    #[inline(always)]
    fn aside(&mut self, put: impl FnOnce(&mut Batch<'_>)) {
        put(self);
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.places.len() < STEP_MAX
    }
}

/// Appends to `out` what `put` puts, at most [`STEP_MAX`] events.
pub(crate) fn append(out: &mut Vec<Event>, put: impl FnOnce(&mut Batch<'_>)) {
    let mut places = [FILLER; STEP_MAX];
    let mut batch = Batch::new(&mut places, EventBodies::default());
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
pub(crate) struct Merge {
    /// Losers of the tournament, a power of two; `tree[0]` is the winner.
    tree: Vec<Head>,
    /// What heads count from.
    base: u64,
    /// Events at or after this time stay where they are; [`ENDED`]: none does.
    until: u64,
    started: bool,
    /// Bodies of the last batch's events, where they are kept.
    bodies: EventBodies,
}

impl Default for Merge {
    /// Nothing was merged yet, and all will be.
    fn default() -> Self {
        Self {
            tree: Vec::new(),
            base: 0,
            until: ENDED,
            started: false,
            bodies: EventBodies::default(),
        }
    }
}

impl Merge {
    /// Begins anew: all lanes are looked at again.
    pub(crate) fn restart(&mut self) {
        self.started = false;
    }

    /// Goes on with lanes that stand at their next event, up to `until`.
    pub(crate) fn resume(&mut self, lanes: &impl Lanes, until: u64) {
        (self.started, self.until) = (true, until);
        self.seed(lanes);
    }

    /// Replaces `batch` by about `limit` events; `false` when none are left.
    pub(crate) fn next(
        &mut self,
        lanes: &mut impl Lanes,
        batch: &mut Vec<Event>,
        limit: usize,
    ) -> io::Result<bool> {
        self.start(lanes)?;
        // What lies behind the events that are put in place is cut off at the end; filling it costs
        // nothing, since the caller's batch mostly comes back as it went.
        batch.resize(limit + STEP_MAX, FILLER);
        self.bodies.clear();
        let mut places = Batch::new(batch, std::mem::take(&mut self.bodies));
        self.fill(lanes, &mut places)?;
        let count = places.count();
        self.bodies = places.bodies;
        batch.truncate(count);
        Ok(count > 0)
    }

    /// Hands all events that are left to `sink`.
    pub(crate) fn drain(
        &mut self,
        lanes: &mut impl Lanes,
        sink: &mut impl EventSink,
    ) -> io::Result<()> {
        self.start(lanes)?;
        self.fill(lanes, &mut ToSink(sink))
    }

    /// Puts events until `out` is full, or none is left.
    #[inline(always)]
    pub(crate) fn fill(&mut self, lanes: &mut impl Lanes, out: &mut impl Out) -> io::Result<()> {
        while self.play(lanes, out)? {
            self.seed(lanes);
        }
        Ok(())
    }

    fn start(&mut self, lanes: &mut impl Lanes) -> io::Result<()> {
        if !self.started {
            for lane in 0..lanes.count() {
                lanes.next(lane)?;
            }
            self.started = true;
            self.seed(lanes);
        }
        Ok(())
    }

    /// The body of the event at `index` of the last batch, if it was kept.
    pub(crate) fn body(&self, index: usize) -> Option<&[u8]> {
        self.bodies.get(index)
    }

    /// The bodies of the last batch's events.
    pub(crate) const fn bodies(&mut self) -> &mut EventBodies {
        &mut self.bodies
    }

    /// Seeds the tournament: counted from the earliest time, so that one head at least is below the
    /// horizon unless all have ended.
    fn seed(&mut self, lanes: &impl Lanes) {
        let count = lanes.count();
        let size = count.next_power_of_two().max(2);
        let earliest = (0..count).map(|lane| lanes.time(lane)).min().unwrap_or(ENDED);
        // The time of the ended must stay beyond the horizon.
        self.base = earliest.min(ENDED - horizon(size));
        // Every node of the tournament keeps its loser and passes its winner up.
        let mut winners = vec![0; size];
        for lane in 0..size {
            let time = if lane < count { lanes.time(lane) } else { ENDED };
            winners.push(head(size, self.base, lane, time));
        }
        self.tree.clear();
        self.tree.resize(size, 0);
        for node in (1..size).rev() {
            let a = winners[node * 2];
            let b = winners[node * 2 + 1];
            winners[node] = a.min(b);
            self.tree[node] = a.max(b);
        }
        self.tree[0] = winners[1];
    }

    /// Plays until `out` is full, or no head is below the horizon or the end: `true` when the base must move on
    /// for that, `false` when there is nothing left to do.
    #[inline(always)]
    fn play(&mut self, lanes: &mut impl Lanes, out: &mut impl Out) -> io::Result<bool> {
        let Self { tree, base, until, .. } = self;
        let tree = tree.as_mut_slice();
        let base = *base;
        let until = *until;
        let size = tree.len();
        let beyond = head(size, base, 0, until);
        while !out.is_full() {
            let first = tree[0];
            if first >= beyond {
                return Ok((0..lanes.count()).any(|lane| lanes.time(lane) < until));
            }
            let winner = lane_of(first, size);
            let next = match lanes.put(winner, out) {
                Some(time) => time,
                None => lanes.next(winner)?,
            };
            // For a size that is a constant, no check of an index is left.
            if let Ok(tree) = <&mut [Head; 8]>::try_from(&mut *tree) {
                replay(tree, head(8, base, winner, next));
            } else if let Ok(tree) = <&mut [Head; 2]>::try_from(&mut *tree) {
                replay(tree, head(2, base, winner, next));
            } else {
                replay(tree, head(size, base, winner, next));
            }
        }
        Ok(false)
    }
}

/// The first time since the base that a head cannot hold, for a tournament of `size`.
#[inline(always)]
fn horizon(size: usize) -> u64 {
    u64::MAX >> size.trailing_zeros()
}

#[inline(always)]
fn head(size: usize, base: u64, lane: usize, time: u64) -> Head {
    time.saturating_sub(base).min(horizon(size)) << size.trailing_zeros() | lane as u64
}

#[inline(always)]
fn lane_of(head: Head, size: usize) -> usize {
    head as usize & (size - 1)
}

/// Tournament tree: compares the lane's next event with the loser stored at each level up to the
/// root. Selects instead of branching.
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
            Ok(self.time(lane))
        }

        fn time(&self, lane: usize) -> u64 {
            self.0[lane].first().copied().unwrap_or(ENDED)
        }

        fn put(&mut self, lane: usize, batch: &mut impl Out) -> Option<u64> {
            let time = Nanos(self.0[lane].remove(0));
            batch.put(Event { time, cpu: Cpu(lane as u16), ..FILLER });
            self.0[lane].first().copied()
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
    fn a_batch_is_full_when_its_bodies_take_many_bytes() {
        let mut places = [FILLER; 64];
        let mut batch = Batch::new(&mut places, EventBodies::default());
        while !batch.is_full() {
            batch.keep(&[0; 256 << 10]);
            batch.put(FILLER);
        }
        assert_eq!(batch.count(), 8);
        assert_eq!(batch.bodies.get(7).map(<[u8]>::len), Some(128 << 10), "the rest is cut off");
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
