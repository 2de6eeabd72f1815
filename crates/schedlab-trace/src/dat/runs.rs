//! A portion's events lane by lane, and the order of their times.
//!
//! With a thousand lanes, a merge touches another lane's page and reader for each event, and none of them is in
//! a near cache. Here each lane's pages are read into the same window and decoded in a run. Times with
//! the places of their events are then sorted (a radix sort from the lowest digit keeps equal times in the order
//! of lanes). Events stay where they were decoded until somebody wants them in order: [`ByLane`].
//!
//! Names: a record mentions a name by a number ([`Numbers`]).

use super::by_lane::{ByLane, Mentioning, mask_of};
use super::pages::Window;
use crate::merge::{Batch, Out, append};
use crate::name_numbers::Numbers;
use crate::names::{Called, Names, News};
use schedlab_model::{Comm, Event, Pid, What};

/// Bits of a digit at most: its counters and the lines of the cache that are written to stay in a near cache.
const DIGIT: u32 = 9;

/// The events of a portion, one lane after the other.
#[derive(Default)]
pub(super) struct Runs {
    /// What the lane at hand has read of its pages.
    pub(super) window: Window,
    out: Put,
    mentions: Mentions,
    sorted: Vec<u64>,
}

impl Runs {
    /// What takes names, and where events go.
    #[inline(always)]
    pub(super) fn parts(&mut self) -> (&mut Mentions, &mut Put) {
        (&mut self.mentions, &mut self.out)
    }

    /// Forgets what a portion left that was given up.
    pub(super) fn clear(&mut self) {
        self.out.events.clear();
        self.out.times.clear();
        self.out.names.clear();
        self.out.aside = false;
        self.mentions.pair = [0; 2];
    }

    /// A record has been decoded.
    #[inline(always)]
    pub(super) fn step(&mut self) {
        if self.out.aside {
            return self.step_aside();
        }
        if let Some(last) = self.out.events.last_mut() {
            last.names = std::mem::take(&mut self.mentions.pair);
        }
    }

    #[cold]
    #[inline(never)]
    fn step_aside(&mut self) {
        self.out.aside = false;
        for (pid, comm) in self.out.names.drain(..) {
            self.mentions.called(pid, &comm);
        }
        let pair = std::mem::take(&mut self.mentions.pair);
        if let Some(last) = self.out.events.last_mut().filter(|_| pair != [0; 2]) {
            last.names = pair;
        }
    }

    /// How many events there are.
    pub(super) fn count(&self) -> usize {
        self.out.events.len()
    }

    /// Hands all events to `portion`, with their order, and the numbers that were given out for names to `news`; `false`
    /// where the portion is too long for that.
    pub(super) fn hand_over(&mut self, portion: &mut ByLane, news: &mut Vec<News>) -> bool {
        let whole = sort(&mut self.out.times, &mut self.sorted);
        if whole {
            portion.exchange(&mut self.out.events, &mut self.out.times);
            self.mentions.numbers.turn(news);
        }
        whole
    }
}

/// Takes events as they come.
#[derive(Default)]
pub(super) struct Put {
    events: Vec<Mentioning>,
    /// When each happened. To read the times in the events would fetch all of them from a far cache.
    times: Vec<u64>,
    /// What the general path put last.
    general: Vec<Event>,
    /// The names in it.
    names: Vec<(Pid, Comm)>,
    /// Whether the last record took the general path.
    aside: bool,
}

impl Out for Put {
    #[inline(always)]
    fn put(&mut self, event: Event) {
        self.events.push(Mentioning { event, names: [0; 2] });
        self.times.push(event.time.0);
    }

    #[cold]
    #[inline(never)]
    fn aside(&mut self, put: impl FnOnce(&mut Batch<'_>)) {
        self.aside = true;
        append(&mut self.general, put);
        for event in self.general.drain(..) {
            if let What::Comm { pid, comm } = event.what {
                self.names.push((pid, comm));
            } else {
                self.events.push(Mentioning { event, names: [0; 2] });
                self.times.push(event.time.0);
            }
        }
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        false
    }
}

/// Which names the record at hand mentions.
pub(super) struct Mentions {
    numbers: Numbers,
    pair: [u32; 2],
    /// Does not know any name, so that the general path puts each.
    none: Names,
}

impl Default for Mentions {
    fn default() -> Self {
        Self { numbers: Numbers::default(), pair: [0; 2], none: Names::apart() }
    }
}

impl Called for Mentions {
    #[inline(always)]
    fn called(&mut self, pid: Pid, comm: &Comm) -> bool {
        self.pair = [self.pair[1], self.numbers.of(pid.0, comm)];
        false
    }

    fn general(&mut self) -> &mut Names {
        self.none.forget();
        &mut self.none
    }
}

/// Replaces times by keys in the order of time, those of equal times in their own: an event's index is in the low bits.
/// `false` if times lie too far apart for that.
fn sort(times: &mut Vec<u64>, spare: &mut Vec<u64>) -> bool {
    let (first, last) = (times.iter().min().copied(), times.iter().max().copied());
    let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
    let index_bits = mask_of(times.len()).count_ones();
    let bits = u64::BITS - (last - first).leading_zeros();
    if bits + index_bits > u64::BITS {
        return false;
    }
    for (index, time) in (0..).zip(times.iter_mut()) {
        *time = (*time - first) << index_bits | index;
    }
    spare.resize(times.len(), 0);
    for digit in 0..bits.div_ceil(DIGIT) {
        scatter(times, spare, index_bits + digit * DIGIT);
        std::mem::swap(times, spare);
    }
    true
}

/// One pass of the sort: by the digit that begins at bit `shift`.
fn scatter(from: &[u64], to: &mut [u64], shift: u32) {
    const SIZE: usize = 1 << DIGIT;
    let digit = |key: u64| (key >> shift) as usize % SIZE;
    let mut places = [0usize; SIZE];
    from.iter().for_each(|key| places[digit(*key)] += 1);
    let mut next = 0;
    for place in &mut places {
        next += std::mem::replace(place, next);
    }
    for key in from {
        let place = &mut places[digit(*key)];
        if let Some(to) = to.get_mut(*place) {
            *to = *key;
        }
        *place += 1;
    }
}
