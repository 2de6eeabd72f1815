//! A portion's events lane by lane, and then in order.
//!
//! With a thousand lanes, a merge touches another lane's page and reader for each event, and none of them is in
//! a near cache. Here each lane's pages are read into the same window and decoded in a run. Times with
//! the places of their events are then sorted (a radix sort from the lowest digit keeps equal times in the order
//! of lanes), and events go to their places.
//!
//! Names: a record mentions a name by a number ([`Numbers`]). In order of time, each first number of a task in the
//! portion, and each that is another than the one before, may be news.

use super::pages::Window;
use crate::decoded_segment::Stretch;
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
    keys: Vec<u64>,
    sorted: Vec<u64>,
    met: Met,
    news: Vec<News>,
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

    /// Puts all events into `stretch` in the order of time, and forgets them; `false` where the portion is too long for
    /// that.
    pub(super) fn put_in_order(&mut self, stretch: &mut Stretch) -> bool {
        self.mentions.numbers.turn(&mut self.news);
        self.met.begin(&self.news);
        let whole = sort(&self.out.events, &mut self.keys, &mut self.sorted);
        if whole {
            let mask = mask_of(self.out.events.len());
            stretch.clear(self.out.events.len());
            for key in &self.keys {
                let index = (key & mask) as usize;
                let Some(Mentioning { event, names }) = self.out.events.get(index) else {
                    continue;
                };
                // One branch, which is hardly ever taken: nobody waits for the event to come from a far cache.
                if self.met.is_new(names[0]) | self.met.is_new(names[1]) {
                    for number in names {
                        if self.met.is_new(*number) {
                            let (pid, comm) = self.met.meet(*number);
                            stretch.name(Event { what: What::Comm { pid, comm }, ..*event });
                        }
                    }
                }
                stretch.put(*event);
            }
        }
        self.out.events.clear();
        whole
    }
}

/// An event and the numbers of the names in its record; 0 is none.
#[derive(Clone, Copy)]
struct Mentioning {
    event: Event,
    names: [u32; 2],
}

/// Takes events as they come.
#[derive(Default)]
pub(super) struct Put {
    events: Vec<Mentioning>,
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

/// Which names were met in order of time.
#[derive(Default)]
struct Met {
    /// What each number stands for, and the portion in which its name was the task's last one.
    names: Vec<(Pid, Comm)>,
    last: Vec<u32>,
    /// The number that each task had last, by pid.
    of: Vec<u32>,
    portion: u32,
}

impl Met {
    /// A new portion begins, for which these numbers were given out.
    fn begin(&mut self, news: &[News]) {
        for &News { number, pid, comm } in news {
            let number = number as usize;
            if number >= self.names.len() {
                self.names.resize(number + 1, (Pid::IDLE, [0; 16]));
                self.last.resize(number + 1, 0);
            }
            (self.names[number], self.last[number]) = ((Pid(pid), comm), 0);
        }
        self.portion = self.portion.wrapping_add(1).max(1);
        // No name is none that is new.
        match self.last.first_mut() {
            Some(none) => *none = self.portion,
            None => self.last.push(self.portion),
        }
    }

    /// Whether it is another name than the task had before in the portion, or its first one.
    #[inline(always)]
    fn is_new(&self, number: u32) -> bool {
        self.last.get(number as usize).is_some_and(|last| *last != self.portion)
    }

    #[cold]
    #[inline(never)]
    fn meet(&mut self, number: u32) -> (Pid, Comm) {
        let (pid, comm) = self.names[number as usize];
        let index = pid.0.cast_unsigned() as usize;
        if index >= self.of.len() {
            crate::names::reach(&mut self.of, index);
        }
        let before = std::mem::replace(&mut self.of[index], number);
        if let Some(last) = self.last.get_mut(before as usize).filter(|_| before != 0) {
            *last = 0;
        }
        self.last[number as usize] = self.portion;
        (pid, comm)
    }
}

/// Covers the indices below `count`.
fn mask_of(count: usize) -> u64 {
    (count.max(2) as u64).next_power_of_two() - 1
}

/// Keys of all events in the order of time, those of equal times in their own: an event's index is in the low bits.
/// `false` if times lie too far apart for that.
fn sort(events: &[Mentioning], keys: &mut Vec<u64>, spare: &mut Vec<u64>) -> bool {
    let times = || events.iter().map(|one| one.event.time.0);
    let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let index_bits = mask_of(events.len()).count_ones();
    let bits = u64::BITS - (last - first).leading_zeros();
    keys.clear();
    if bits + index_bits > u64::BITS {
        return false;
    }
    keys.extend((0..).zip(times()).map(|(index, time)| (time - first) << index_bits | index));
    spare.resize(keys.len(), 0);
    let digits = bits.div_ceil(DIGIT);
    for digit in 0..digits {
        let shift = index_bits + digit * DIGIT;
        scatter(keys, spare, shift);
        std::mem::swap(keys, spare);
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
