//! What each CPU logged and was not handed out yet: bodies as they came, and when each was logged.
//!
//! perf dumps each CPU's ring in turn and marks the end of a round; events of a round are never older
//! than the newest of the round before the last. So when a round ends, all up to the newest event of
//! the one before it is due. A segment is what one CPU logged in one round; segments are handed out as
//! they are, and their memory is used again.
//!
//! Memory: two rounds of bodies (what the rings hold, twice), whatever the file's size; a file that
//! marks no rounds is cut into pieces of [`BYTES_MAX`] or [`COUNT_MAX`], whichever comes first.

use super::held::{Found, Held};
use super::layout::When;
use crate::merge::Out;
use crate::names::Names;
use crate::plan::Decoder;
use schedlab_model::{Cpu, What};

/// Records after which a round is taken to end.
const COUNT_MAX: usize = 1 << 22;
/// Bytes of bodies after which it is.
const BYTES_MAX: usize = 1 << 28;

/// Everything that waits.
#[derive(Default)]
pub(super) struct Rounds {
    pub(super) lanes: Vec<Lane>,
    /// The newest event so far.
    newest: u64,
    /// The newest event when the last round ended.
    before: u64,
    /// All up to here can be handed out now.
    pub(super) due: u64,
    /// Records and bytes of the round that is being read.
    count: usize,
    bytes: usize,
}

/// What waits of one CPU.
#[derive(Default)]
pub(super) struct Lane {
    /// In order of time; the second after the first.
    front: Segment,
    back: Segment,
    /// What the present round brought.
    fresh: Segment,
}

/// What one CPU logged in one round.
#[derive(Default)]
struct Segment {
    bytes: Vec<u8>,
    held: Held,
    /// The latest time, and whether an earlier one came after it: a ring is in order but for rare
    /// cases, and looking at all of it again costs a pass over memory.
    last: u64,
    unsorted: bool,
}

impl Rounds {
    /// Takes in a sample.
    #[inline]
    pub(super) fn sample(&mut self, cpu: u16, time: u64, body: &[u8]) {
        self.newest = self.newest.max(time);
        self.count += 1;
        self.bytes += body.len();
        self.lane(cpu).fresh.hold(time, body);
    }

    /// Takes in a sample whose body is `length` bytes from the start of `bytes`, unless its CPU is none or new,
    /// or the round is full: whether it did.
    #[inline(always)]
    pub(super) fn ordinary(&mut self, when: When, bytes: &[u8], length: usize) -> bool {
        let full = self.is_full();
        let Some(lane) = self.lanes.get_mut(when.cpu as usize).filter(|_| !full) else {
            return false;
        };
        self.newest = self.newest.max(when.time);
        self.count += 1;
        self.bytes += length;
        lane.fresh.hold_from(when.time, bytes, length);
        true
    }

    /// Takes in what is no sample.
    pub(super) fn aside(&mut self, cpu: u16, time: u64, what: What) {
        self.newest = self.newest.max(time);
        self.count += 1;
        self.lane(cpu).fresh.hold_aside(time, what);
    }

    #[inline]
    fn lane(&mut self, cpu: u16) -> &mut Lane {
        if usize::from(cpu) >= self.lanes.len() {
            self.lanes.resize_with(usize::from(cpu) + 1, Lane::default);
        }
        &mut self.lanes[usize::from(cpu)]
    }

    /// Whether the round is as large as one may be.
    pub(super) fn is_full(&self) -> bool {
        self.count >= COUNT_MAX || self.bytes >= BYTES_MAX
    }

    /// The round is over, and all up to the end of the one before is due; all there is when `ended`.
    pub(super) fn close(&mut self, ended: bool) {
        self.due = if ended { u64::MAX } else { self.before };
        self.before = self.newest;
        (self.count, self.bytes) = (0, 0);
        for lane in &mut self.lanes {
            lane.close();
        }
    }

    /// Raises what is older than `time` to it: it came too late. How many there were.
    pub(super) fn raise(&mut self, time: u64) -> u64 {
        let segments = self.lanes.iter_mut().flat_map(|lane| [&mut lane.front, &mut lane.back]);
        segments.map(|segment| segment.held.raise(time)).sum()
    }
}

impl Lane {
    /// The time of what is next; `None` when nothing waits, or another segment's turn has come.
    #[inline]
    pub(super) fn time(&self) -> Option<u64> {
        self.front.held.time()
    }

    /// Goes on to the second segment when the first one is through.
    pub(super) fn turn(&mut self) {
        if self.time().is_none() {
            std::mem::swap(&mut self.front, &mut self.back);
            self.back.clear();
        }
    }

    /// What is next, and its time.
    pub(super) fn get(&mut self) -> Option<(u64, Found<'_>)> {
        self.turn();
        self.front.held.get(&self.front.bytes)
    }

    /// Passes over what is next.
    pub(super) fn pass(&mut self) {
        self.front.held.pass();
    }

    /// Decodes what is next; see [`Held::put`].
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        cpu: Cpu,
        decoder: &Decoder,
        names: &mut Names,
        out: &mut impl Out,
    ) -> Option<u64> {
        self.front.held.put(&self.front.bytes, cpu, decoder, names, out)
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.fresh.unsorted) {
            self.fresh.held.sort();
        }
        let Some(first) = self.fresh.held.time() else { return };
        self.turn();
        if self.time().is_none() {
            std::mem::swap(&mut self.front, &mut self.fresh);
        } else if self.back.held.time().is_none() && self.front.last <= first {
            std::mem::swap(&mut self.back, &mut self.fresh);
        } else {
            self.join();
        }
        self.fresh.clear();
    }

    /// Something came that is older than what waits already: all of it is put in order again.
    #[cold]
    fn join(&mut self) {
        let mut all = Segment::default();
        for part in [&mut self.front, &mut self.back, &mut self.fresh] {
            while let Some((time, found)) = part.held.get(&part.bytes) {
                match found {
                    Found::Body(body) => all.hold(time, body),
                    Found::Aside(what) => all.hold_aside(time, what),
                }
                part.held.pass();
            }
        }
        all.held.sort();
        self.front = all;
        self.back.clear();
    }
}

impl Segment {
    #[inline]
    fn hold(&mut self, time: u64, body: &[u8]) {
        // Rounds are cut long before 32 bits are used up.
        self.held.hold(time, self.bytes.len(), body, body.len());
        self.bytes.extend_from_slice(body);
        self.came(time);
    }

    /// Holds the first `length` of these bytes, which there are. A copy of a size that is known is a few
    /// instructions, so more is copied than asked for where that is possible.
    #[inline(always)]
    fn hold_from(&mut self, time: u64, bytes: &[u8], length: usize) {
        const USUAL: usize = 80;
        match bytes.first_chunk::<USUAL>().filter(|_| length <= USUAL) {
            Some(chunk) => {
                let start = self.bytes.len();
                self.held.hold(time, start, chunk, length);
                self.bytes.extend_from_slice(chunk);
                self.bytes.truncate(start + length);
                self.came(time);
            }
            None => self.hold(time, &bytes[..length]),
        }
    }

    fn hold_aside(&mut self, time: u64, what: What) {
        self.held.hold_aside(time, what);
        self.came(time);
    }

    #[inline]
    fn came(&mut self, time: u64) {
        self.unsorted |= time < self.last;
        self.last = self.last.max(time);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.held.clear();
        (self.last, self.unsorted) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times in the order in which they are handed out, by round.
    fn handed(rounds: &[&[u64]]) -> Vec<Vec<u64>> {
        let mut all = Rounds::default();
        let mut out = Vec::new();
        for round in rounds.iter().copied().chain([&[][..]]) {
            for time in round {
                all.sample(0, *time, &time.to_le_bytes());
            }
            all.close(out.len() == rounds.len());
            let mut now = Vec::new();
            let due = all.due;
            if let Some(lane) = all.lanes.first_mut() {
                while let Some((time, found)) = lane.get().filter(|(time, _)| *time <= due) {
                    let Found::Body(body) = found else { panic!("a sample") };
                    assert_eq!(body, time.to_le_bytes(), "each has its own body");
                    now.push(time);
                    lane.pass();
                }
            }
            out.push(now);
        }
        out
    }

    #[test]
    fn a_round_is_due_when_the_next_one_has_ended() {
        assert_eq!(
            handed(&[&[1, 2], &[3, 5], &[4, 6]]),
            [vec![], vec![1, 2], vec![3, 4, 5], vec![6]]
        );
    }

    #[test]
    fn what_comes_out_of_order_is_sorted_within_what_still_waits() {
        assert_eq!(handed(&[&[5, 3], &[4, 9, 8]]), [vec![], vec![3, 4, 5], vec![8, 9]]);
        // 1 is later than the end of its round allows: it comes at once, for the reader to raise.
        assert_eq!(handed(&[&[5], &[6], &[1, 7]])[2..], [vec![1, 6], vec![7]]);
    }
}
