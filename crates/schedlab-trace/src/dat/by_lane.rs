//! The decoded events of a portion, one lane after the other, with the order of their times.
//!
//! The caller gets them in order in blocks that a first-level cache holds. So an event is written once, where it was
//! decoded, and read once. A thread that waits for the caller puts them in order for it instead.
//!
//! Names: in order of time, each first number of a task in the portion, and each that is another than the one before,
//! may be news ([`Met`]).

use crate::decoded_segment::Stretch;
use crate::merge::Out as _;
use crate::names::{Names, News};
use schedlab_model::{Comm, Event, EventSink, Pid, What};

/// Events that are put in order at once.
const BLOCK: usize = 256;

/// An event and the numbers of the names in its record; 0 is none.
#[derive(Clone, Copy)]
pub(super) struct Mentioning {
    pub(super) event: Event,
    pub(super) names: [u32; 2],
}

/// The events of a portion.
#[derive(Default)]
pub(super) struct ByLane {
    events: Vec<Mentioning>,
    /// In the order of time: the index of the event is in the low bits.
    keys: Vec<u64>,
    /// How many events were handed out.
    handed: usize,
}

impl ByLane {
    /// Takes decoded events and their order, and gives memory for others.
    pub(super) fn exchange(&mut self, events: &mut Vec<Mentioning>, keys: &mut Vec<u64>) {
        std::mem::swap(&mut self.events, events);
        std::mem::swap(&mut self.keys, keys);
        events.clear();
        keys.clear();
        self.handed = 0;
    }

    /// Appends the next events to `batch`, about `limit`, with the names among them that `names` did not know; `false`
    /// when none were left.
    pub(super) fn next(
        &mut self,
        limit: usize,
        (met, names): (&mut Met, &mut Names),
        batch: &mut Vec<Event>,
    ) -> bool {
        let rest = self.keys.get(self.handed..).unwrap_or_default();
        let keys = rest.get(..limit).unwrap_or(rest);
        self.handed += keys.len();
        let mask = mask_of(self.events.len());
        batch.reserve(keys.len());
        for key in keys {
            let Some(Mentioning { event, names: numbers }) = self.events.get((key & mask) as usize)
            else {
                continue;
            };
            // One branch, which is hardly ever taken: nobody waits for the event to come from a far cache.
            if met.is_new(numbers[0]) | met.is_new(numbers[1]) {
                let mut tell = |what| match what {
                    What::Comm { pid, comm } if names.changed(pid, &comm) => {
                        batch.push(Event { what, ..*event });
                    }
                    _ => {}
                };
                numbers.iter().filter_map(|number| met.news_of(*number)).for_each(&mut tell);
            }
            batch.push(*event);
        }
        !keys.is_empty()
    }

    /// Puts all events into `stretch` in order.
    pub(super) fn put_in_order(&self, met: &mut Met, stretch: &mut Stretch) {
        let mask = mask_of(self.events.len());
        stretch.clear(self.events.len());
        for key in &self.keys {
            let Some(Mentioning { event, names }) = self.events.get((key & mask) as usize) else {
                continue;
            };
            if met.is_new(names[0]) | met.is_new(names[1]) {
                let news = names.iter().filter_map(|number| met.news_of(*number));
                news.for_each(|what| stretch.name(Event { what, ..*event }));
            }
            stretch.put(*event);
        }
    }

    /// Hands all events to `sink`, with the names among them that `names` did not know.
    pub(super) fn hand_to(
        &mut self,
        (met, names): (&mut Met, &mut Names),
        block: &mut Vec<Event>,
        sink: &mut impl EventSink,
    ) {
        block.clear();
        while self.next(BLOCK, (met, names), block) {
            block.iter().for_each(|event| sink.take(event));
            block.clear();
        }
    }
}

/// Which names were met in order of time.
#[derive(Default)]
pub(super) struct Met {
    /// What each number stands for, and the portion in which its name was the task's last one.
    names: Vec<(Pid, Comm)>,
    last: Vec<u32>,
    /// The number that each task had last, by pid.
    of: Vec<u32>,
    portion: u32,
}

impl Met {
    /// A new portion of a thread begins, for which it gave out these numbers: for each of its portions, in their order.
    pub(super) fn begin(&mut self, news: &[News]) {
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

    /// The name that a number stands for, if it may be news.
    #[cold]
    #[inline(never)]
    fn news_of(&mut self, number: u32) -> Option<What> {
        if !self.is_new(number) {
            return None;
        }
        let (pid, comm) = self.meet(number);
        Some(What::Comm { pid, comm })
    }

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
pub(super) fn mask_of(count: usize) -> u64 {
    (count.max(2) as u64).next_power_of_two() - 1
}
