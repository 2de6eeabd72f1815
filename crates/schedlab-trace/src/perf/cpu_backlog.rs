//! Records that one CPU logged in a round and that the reader has not handed out yet: reduced records, and
//! the bodies of records that take the general path.

use crate::decode::Stamp;
use crate::merge::{Batch, ENDED, Out};
use crate::names::Names;
use crate::plan::Decoder;
use crate::reduced_record::ReducedRecord;
use schedlab_model::{Context, Cpu, Event, Nanos, Pid, What};

/// Records in the order in which they are handed out.
#[derive(Debug, Default)]
pub(crate) struct Held {
    reduced: Vec<ReducedRecord>,
    /// Gists that were handed out.
    at: usize,
    /// Bodies, one after the other.
    bytes: Vec<u8>,
    /// What is no record.
    asides: Vec<What>,
    /// The latest time, and whether an earlier one came after it: a ring is in order but for rare
    /// cases, and looking at all of it again costs a pass over memory.
    last: u64,
    unsorted: bool,
}

/// No body begins here: nobody holds this many bytes.
const ASIDE: u32 = u32::MAX;

/// One thing that was held.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'a> {
    /// The body of an unreduced record.
    Body(&'a [u8]),
    /// A loss or a change of name.
    Aside(What),
}

impl Held {
    #[inline(always)]
    pub(crate) fn hold(&mut self, reduced: ReducedRecord) {
        let time = reduced.time;
        self.unsorted |= time < self.last;
        self.last = self.last.max(time);
        self.reduced.push(reduced);
    }

    /// Holds a record that has none. Rounds are cut long before 4 GiB.
    pub(crate) fn hold_body(&mut self, time: u64, body: &[u8]) {
        let numbers = [self.bytes.len(), body.len()].map(|number| number as u32);
        self.bytes.extend_from_slice(body);
        self.hold(ReducedRecord::elsewhere(sane(time), numbers));
    }

    /// Holds what is no record: a loss or a change of name.
    pub(crate) fn hold_aside(&mut self, time: u64, what: What) {
        let index = self.asides.len() as u32;
        self.asides.push(what);
        self.hold(ReducedRecord::elsewhere(sane(time), [ASIDE, index]));
    }

    /// The records that were not handed out yet.
    fn rest(&mut self) -> &mut [ReducedRecord] {
        self.reduced.get_mut(self.at..).unwrap_or_default()
    }

    /// The time of the latest record that was added.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The time of what is next; `None` when nothing is left.
    #[inline(always)]
    pub(crate) fn time(&self) -> Option<u64> {
        self.reduced.get(self.at).map(|reduced| reduced.time)
    }

    /// What is next, and its time, where all records were held with their bodies.
    pub(crate) fn get(&self) -> Option<(u64, Found<'_>)> {
        let reduced = self.reduced.get(self.at)?;
        Some((reduced.time, self.found(reduced.numbers()?)?))
    }

    fn found(&self, [start, length]: [u32; 2]) -> Option<Found<'_>> {
        if start == ASIDE {
            return self.asides.get(length as usize).map(|what| Found::Aside(*what));
        }
        let rest = self.bytes.get(start as usize..)?;
        rest.get(..length as usize).map(Found::Body)
    }

    /// Passes over what is next.
    pub(crate) fn pass(&mut self) {
        self.at += 1;
    }

    /// Raises the times before `time` to it; how many there were. In order before, in order after.
    pub(crate) fn raise(&mut self, time: u64) -> u64 {
        let rest = self.rest();
        let late = rest.partition_point(|reduced| reduced.time < time);
        rest[..late].iter_mut().for_each(|reduced| reduced.time = time);
        late as u64
    }

    /// Puts all that is left in order of time, where it is not.
    pub(crate) fn sort(&mut self) {
        if std::mem::take(&mut self.unsorted) {
            self.rest().sort_by_key(|reduced| reduced.time);
        }
    }

    /// Adds all that is left of another.
    pub(crate) fn append(&mut self, other: &Self) {
        for reduced in other.reduced.get(other.at..).unwrap_or_default() {
            match reduced.numbers().map(|numbers| other.found(numbers)) {
                None => self.hold(*reduced),
                Some(Some(Found::Body(body))) => self.hold_body(reduced.time, body),
                Some(Some(Found::Aside(what))) => self.hold_aside(reduced.time, what),
                Some(None) => {}
            }
        }
    }

    /// Bytes of memory that it has, whether it holds something or not.
    pub(crate) fn room(&self) -> usize {
        self.reduced.capacity() * size_of::<ReducedRecord>()
            + self.bytes.capacity()
            + self.asides.capacity() * size_of::<What>()
    }

    pub(crate) fn clear(&mut self) {
        self.reduced.clear();
        self.bytes.clear();
        self.asides.clear();
        self.at = 0;
        (self.last, self.unsorted) = (0, false);
    }

    /// Puts the event of what is next. The time of what follows; `None` when nothing is left.
    #[inline(always)]
    pub(crate) fn put(
        &mut self,
        cpu: Cpu,
        decoder: &Decoder,
        names: &mut Names,
        out: &mut impl Out,
    ) -> Option<u64> {
        let reduced = self.reduced.get(self.at)?;
        if !reduced.put(cpu, names, out) {
            out.aside(|batch| self.put_found(reduced, cpu, decoder, names, batch));
        }
        self.at += 1;
        self.time()
    }

    /// What cannot be reduced.
    #[cold]
    #[inline(never)]
    fn put_found(
        &self,
        reduced: &ReducedRecord,
        cpu: Cpu,
        decoder: &Decoder,
        names: &mut Names,
        batch: &mut Batch<'_>,
    ) {
        let ReducedRecord { time, .. } = *reduced;
        let what = match reduced.numbers().and_then(|numbers| self.found(numbers)) {
            Some(Found::Body(body)) => {
                return decoder.decode_any(Stamp { time, cpu }, body, names, batch);
            }
            Some(Found::Aside(what)) => what,
            None => return,
        };
        let (by, news) = match what {
            What::Comm { pid, comm } => (pid, names.changed(pid, &comm)),
            What::Switch { prev, .. } => (prev, true),
            _ => (Pid::IDLE, true),
        };
        if news {
            batch.put(Event { time: Nanos(time), by, cpu, context: Context::Task, what });
        }
    }
}

/// The time of the ended is nobody's.
#[inline(always)]
pub(crate) fn sane(time: u64) -> u64 {
    time.min(ENDED - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(times: &[u64]) -> Held {
        let mut held = Held::default();
        times.iter().for_each(|time| held.hold_body(*time, &time.to_le_bytes()));
        held
    }

    /// The times of all that is left, each with its own body.
    fn times(held: &mut Held) -> Vec<u64> {
        let mut times = Vec::new();
        while let Some((time, found)) = held.get() {
            match found {
                Found::Body(body) => assert_eq!(body.len(), 8, "at {time}"),
                Found::Aside(_) => {}
            }
            times.push(time);
            held.pass();
        }
        times
    }

    #[test]
    fn what_is_left_is_put_in_order_once() {
        let mut all = held(&[4, 9, 7, 9]);
        assert_eq!(all.last(), 9, "the latest, not the newest");
        all.pass();
        all.sort();
        assert_eq!((all.time(), times(&mut all)), (Some(7), vec![7, 9, 9]));
        assert_eq!(all.time(), None);
    }

    #[test]
    fn times_before_an_instant_are_raised_to_it_and_counted() {
        let mut all = held(&[1, 5, 6, 9]);
        assert_eq!(all.raise(6), 2);
        assert_eq!(times(&mut all), [6, 6, 6, 9]);
        assert_eq!(all.raise(100), 0, "all was handed out");
    }

    #[test]
    fn what_is_left_of_another_is_added_with_bodies_and_losses() {
        let mut one = held(&[3]);
        let mut other = held(&[1, 2]);
        other.hold_aside(4, What::Lost { count: None });
        other.pass();
        one.append(&other);
        one.sort();
        let (time, Found::Body(body)) = one.get().unwrap() else { panic!("a body") };
        assert_eq!((time, body), (2, &2_u64.to_le_bytes()[..]));
        one.pass();
        one.pass();
        assert!(matches!(one.get(), Some((4, Found::Aside(What::Lost { count: None })))));
    }

    #[test]
    fn what_was_cleared_begins_anew() {
        let mut all = held(&[9, 3]);
        all.pass();
        all.clear();
        assert_eq!((all.time(), all.last()), (None, 0));
        all.hold_body(5, &[0; 8]);
        assert_eq!(times(&mut all), [5]);
    }

    #[test]
    fn no_event_has_the_time_of_the_end() {
        assert_eq!([sane(0), sane(ENDED - 1), sane(ENDED)], [0, ENDED - 1, ENDED - 1]);
        assert_eq!(held(&[u64::MAX]).time(), Some(ENDED - 1));
    }
}
