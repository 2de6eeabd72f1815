//! A portion's events lane by lane, and then in order.
//!
//! With a thousand lanes, a merge touches another lane's page and reader for each event, and none of them is in
//! a near cache. Here each lane's pages are read into the same window and decoded in a run. Each event goes to the
//! slot of the portion's time in which it lies. A slot fits into a second-level cache: there times with the places
//! of their events are sorted (a radix sort from the lowest digit keeps equal times in the order of lanes), and
//! events go to their places.
//!
//! Names: a record mentions a name by a number ([`Numbers`]). In order of time, each first number of a task in the
//! portion, and each that is another than the one before, may be news.

use super::pages::Window;
use crate::decoded_segment::DecodedSegment;
use crate::merge::{Batch, Out, append};
use crate::name_numbers::Numbers;
use crate::names::{Called, Names, News};
use schedlab_model::{Comm, Event, Pid, What};
use std::ops::Range;

/// Bits of a digit at most: its counters and the lines of the cache that are written to stay in a near cache.
const DIGIT: u32 = 9;

/// Slots of a portion's time: some ten thousand events each, where there are a thousand lanes.
const SLOTS: usize = 64;

/// The events of a portion, one lane after the other.
#[derive(Default)]
pub(super) struct Runs {
    /// What the lane at hand has read of its pages.
    pub(super) window: Window,
    out: Put,
    mentions: Mentions,
    order: Order,
    met: Met,
    news: Vec<News>,
}

impl Runs {
    /// What takes names, and where events go.
    #[inline(always)]
    pub(super) fn parts(&mut self) -> (&mut Mentions, &mut Put) {
        (&mut self.mentions, &mut self.out)
    }

    /// Forgets what a portion left that was given up. The next one has events of about these times.
    pub(super) fn clear(&mut self, times: &Range<u64>) {
        self.out.clear(times);
        self.mentions.pair = [0; 2];
    }

    /// A record has been decoded.
    #[inline(always)]
    pub(super) fn step(&mut self) {
        if self.out.aside {
            return self.step_aside();
        }
        if let Some(last) = self.out.last() {
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
        if let Some(last) = self.out.last().filter(|_| pair != [0; 2]) {
            last.names = pair;
        }
    }

    /// How many events there are.
    pub(super) fn count(&self) -> usize {
        self.out.slots.iter().map(Vec::len).sum()
    }

    /// Puts all events into `segment` in the order of time, and forgets them; `false` where the portion is too long for
    /// that.
    pub(super) fn put_in_order(&mut self, segment: &mut DecodedSegment) -> bool {
        self.mentions.numbers.turn(&mut self.news);
        self.met.begin(&self.news);
        segment.clear(self.count());
        let Self { out, order, met, .. } = self;
        let whole = out.slots.iter().all(|slot| put_slot(slot, order, met, segment));
        out.slots.iter_mut().for_each(Vec::clear);
        whole
    }
}

/// Puts the events of a slot in the order of time; `false` where it is too long for that.
fn put_slot(
    slot: &[Mentioning],
    order: &mut Order,
    met: &mut Met,
    segment: &mut DecodedSegment,
) -> bool {
    let whole = order.sort(slot);
    let mask = mask_of(slot.len());
    for key in &order.keys {
        let index = (key & mask) as usize;
        let Some(Mentioning { event, names }) = slot.get(index) else {
            continue;
        };
        // One branch, which is hardly ever taken: nobody waits for the event to come from a far cache.
        if met.is_new(names[0]) | met.is_new(names[1]) {
            for number in names {
                if met.is_new(*number) {
                    let (pid, comm) = met.meet(*number);
                    segment.name(Event { what: What::Comm { pid, comm }, ..*event });
                }
            }
        }
        segment.put(*event);
    }
    whole
}

/// An event and the numbers of the names in its record; 0 is none.
#[derive(Clone, Copy)]
struct Mentioning {
    event: Event,
    names: [u32; 2],
}

/// Takes events as they come.
pub(super) struct Put {
    /// Those of each slot of time; no event of a slot is earlier than one of the slot before.
    slots: [Vec<Mentioning>; SLOTS],
    /// When the slots begin, and how long they are: a power of two.
    from: u64,
    length: u32,
    /// That of the last event.
    slot: usize,
    /// What the general path put last.
    general: Vec<Event>,
    names: Vec<(Pid, Comm)>,
    /// Whether the last record took the general path.
    aside: bool,
}

impl Default for Put {
    fn default() -> Self {
        let slots = std::array::from_fn(|_| Vec::new());
        let general = Vec::new();
        let names = Vec::new();
        Self { slots, from: 0, length: 0, slot: 0, general, names, aside: false }
    }
}

impl Put {
    fn clear(&mut self, times: &Range<u64>) {
        self.slots.iter_mut().for_each(Vec::clear);
        self.names.clear();
        let slot = times.end.saturating_sub(times.start) / SLOTS as u64;
        let length = u64::BITS - slot.leading_zeros();
        (self.from, self.length, self.aside) = (times.start, length, false);
    }

    #[inline(always)]
    fn last(&mut self) -> Option<&mut Mentioning> {
        self.slots[self.slot % SLOTS].last_mut()
    }

    /// Keeps an event that mentions no name so far.
    #[inline(always)]
    fn keep(&mut self, event: Event) {
        let slot = event.time.0.saturating_sub(self.from) >> self.length;
        self.slot = (slot as usize).min(SLOTS - 1);
        self.slots[self.slot].push(Mentioning { event, names: [0; 2] });
    }
}

impl Out for Put {
    #[inline(always)]
    fn put(&mut self, event: Event) {
        self.keep(event);
    }

    #[cold]
    #[inline(never)]
    fn aside(&mut self, put: impl FnOnce(&mut Batch<'_>)) {
        self.aside = true;
        append(&mut self.general, put);
        // Its memory comes back.
        let mut general = std::mem::take(&mut self.general);
        for event in general.drain(..) {
            if let What::Comm { pid, comm } = event.what {
                self.names.push((pid, comm));
            } else {
                self.keep(event);
            }
        }
        self.general = general;
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

/// Puts events in order.
#[derive(Default)]
struct Order {
    /// The time of each event since the first one, and in the low bits its index.
    keys: Vec<u64>,
    spare: Vec<u64>,
}

impl Order {
    /// Has keys of all events in the order of time, those of equal times in their own. `false` if times lie too far
    /// apart for that.
    fn sort(&mut self, events: &[Mentioning]) -> bool {
        let Self { keys, spare } = self;
        let times = || events.iter().map(|one| one.event.time.0);
        let (first, last) =
            times().fold((u64::MAX, 0), |(first, last), time| (time.min(first), time.max(last)));
        let index_bits = mask_of(events.len()).count_ones();
        let bits = u64::BITS - last.saturating_sub(first).leading_zeros();
        keys.clear();
        if bits + index_bits > u64::BITS {
            return false;
        }
        keys.extend((0..).zip(times()).map(|(index, time)| (time - first) << index_bits | index));
        spare.resize(keys.len(), 0);
        // As few passes as may be, and digits as short as they may then be.
        let passes = bits.div_ceil(DIGIT);
        let digit = bits.div_ceil(passes.max(1));
        for pass in 0..passes {
            scatter(keys, spare, index_bits + pass * digit, digit);
            std::mem::swap(keys, spare);
        }
        true
    }
}

/// One pass of the sort: by the digit of `bits` bits that begins at bit `shift`.
fn scatter(from: &[u64], to: &mut [u64], shift: u32, bits: u32) {
    const SIZE: usize = 1 << DIGIT;
    let mask = (1 << bits) - 1;
    let digit = |key: u64| (key >> shift) as usize & (mask % SIZE);
    let mut places = [0u32; SIZE];
    from.iter().for_each(|key| places[digit(*key)] += 1);
    let mut next = 0;
    for place in places.iter_mut().take(mask + 1) {
        next += std::mem::replace(place, next);
    }
    for key in from {
        let place = &mut places[digit(*key)];
        if let Some(to) = to.get_mut(*place as usize) {
            *to = *key;
        }
        *place += 1;
    }
}
