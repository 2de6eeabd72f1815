//! A walk through a page of the ring buffer, record by record.
//!
//! A page is a time, a count of used bytes with two flags for losses, and records. For any
//! lengths, a walk stays inside the page.

use crate::encoding::Encoding;

/// Low bits of `commit`: bytes used by records.
const USED: u64 = (1 << 27) - 1;
/// Events were lost before this page.
const LOST: u64 = 1 << 31;
/// Their number stands behind the used bytes.
const LOST_STORED: u64 = 1 << 30;

/// How pages are laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) encoding: Encoding,
    /// Bytes from one page to the next.
    pub(crate) page_size: usize,
}

impl Layout {
    /// Bytes before the first record.
    fn head(self) -> usize {
        8 + usize::from(self.encoding.long)
    }
}

/// What a walk meets.
pub(crate) trait Visit {
    /// A record: its time (not yet corrected) and its body.
    fn record(&mut self, time: u64, body: &[u8]);
    /// Events are missing before `time`; 0: unknown how many.
    fn lost(&mut self, time: u64, count: u32);
}

/// Where a walk stands in its page, or in a window that holds it ([`Self::moved`]).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    /// The next record's head; offsets count from the start of the page or window.
    at: usize,
    /// Behind the last record.
    end: usize,
    /// The same for [`Self::near`], which reads no big-endian pages: 0 there.
    near_end: usize,
    /// The page says that it holds more than there is.
    cut: bool,
    big_endian: bool,
    /// The time of what was met last.
    pub(crate) time: u64,
}

/// What a walk comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A record: where its body begins, and how long it is.
    Record(Body),
    /// The end of the page.
    End,
    /// The page makes no sense from this offset on.
    Broken(usize),
}

/// Where the body of a record lies in its page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) at: usize,
    pub(crate) length: usize,
}

impl Walk {
    /// Begins at the head of a page, or of what is left of one: how many events were lost before it (0:
    /// not known how many), if any were. `Err`: the offset at which it makes no sense.
    pub(crate) fn begin(page: &[u8], layout: Layout) -> Result<(Self, Option<u32>), usize> {
        let Layout { encoding, .. } = layout;
        let head = layout.head();
        let (Some(stamp), true) = (page.first_chunk::<8>(), page.len() >= head) else {
            return Err(0);
        };
        let time = encoding.u64(*stamp);
        let rest = page.get(8..).unwrap_or_default();
        let commit = if encoding.long == 8 {
            rest.first_chunk().map(|b| encoding.u64(*b))
        } else {
            rest.first_chunk().map(|b| encoding.u32(*b).into())
        };
        let commit = commit.ok_or(8usize)?;
        let used = usize::try_from(commit & USED).expect("27 bits");
        let lost = (commit & LOST != 0).then(|| stored_loss(page, head + used, commit, layout));
        let end = (head + used).min(page.len());
        let cut = head + used > page.len();
        let big_endian = encoding.big_endian;
        let near_end = if big_endian { 0 } else { end };
        Ok((Self { at: head, end, near_end, cut, big_endian, time }, lost))
    }

    /// The same walk, when its page begins at `start` of what will be handed to it.
    pub(crate) fn moved(mut self, start: usize) -> Self {
        self.at += start;
        self.end += start;
        self.near_end += if self.big_endian { 0 } else { start };
        self
    }

    /// Goes on to the next record when it is an ordinary one that follows immediately; else stays. The number
    /// with which it begins is given as well.
    #[inline(always)]
    pub(crate) fn near(&mut self, page: &[u8]) -> Option<(Body, u16)> {
        // The shortest ordinary record has four bytes behind its head.
        let start = u64::from_le_bytes(*page.get(self.at..)?.first_chunk()?);
        let (word, id) = (start as u32, (start >> 32) as u16);
        let (kind, delta) = (word & 31, word >> 5);
        let at = self.at + 4;
        let length = kind as usize * 4;
        if kind.wrapping_sub(1) >= 28 || at + length > self.near_end {
            return None;
        }
        self.at = at + length;
        self.time = self.time.wrapping_add(u64::from(delta));
        Some((Body { at, length }, id))
    }

    /// Goes on to the next record, past extensions of time and padding.
    pub(crate) fn next(&mut self, page: &[u8]) -> Step {
        if self.big_endian { self.next_as::<true>(page) } else { self.next_as::<false>(page) }
    }

    fn next_as<const BIG: bool>(&mut self, page: &[u8]) -> Step {
        let data = page.get(..self.end).unwrap_or_default();
        let number = |at: usize| {
            let bytes = data.get(at..)?.first_chunk()?;
            Some(if BIG { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) })
        };
        while let Some(word) = number(self.at) {
            let start = self.at;
            let (kind, delta) =
                if BIG { (word >> 27, word & 0x7ff_ffff) } else { (word & 31, word >> 5) };
            // A padding without a delta ends the page.
            if kind == 29 && delta == 0 {
                break;
            }
            let body = if matches!(kind, 1..=28) {
                Some(Body { at: start + 4, length: kind as usize * 4 })
            } else {
                let Some(second) = number(start + 4) else { return Step::Broken(start) };
                self.at = start + 8;
                match kind {
                    0 => {
                        let Some(length) = (second as usize).checked_sub(4) else {
                            return Step::Broken(start);
                        };
                        Some(Body { at: start + 8, length })
                    }
                    29 => {
                        self.at += (second as usize).saturating_sub(4);
                        if self.at > self.end {
                            return Step::Broken(start);
                        }
                        self.time = self.time.wrapping_add(u64::from(delta));
                        None
                    }
                    30 => {
                        let delta = u64::from(second) << 27 | u64::from(delta);
                        self.time = self.time.wrapping_add(delta);
                        None
                    }
                    _ => {
                        self.time = absolute(self.time, u64::from(second) << 27 | u64::from(delta));
                        None
                    }
                }
            };
            let Some(body) = body else { continue };
            if body.at + body.length > self.end {
                return Step::Broken(start);
            }
            self.at = (body.at + body.length.next_multiple_of(4)).min(self.end);
            self.time = self.time.wrapping_add(u64::from(delta));
            return Step::Record(body);
        }
        self.at = self.end;
        if self.cut { Step::Broken(self.end) } else { Step::End }
    }
}

/// Walks one page, or what is left of it. `Err`: the offset in the page where its records make no
/// sense; all before were visited.
pub(crate) fn walk(page: &[u8], layout: Layout, visit: &mut impl Visit) -> Result<(), usize> {
    let (mut walk, lost) = Walk::begin(page, layout)?;
    if let Some(count) = lost {
        visit.lost(walk.time, count);
    }
    loop {
        match walk.next(page) {
            Step::Record(Body { at, length }) => visit.record(walk.time, &page[at..at + length]),
            Step::End => return Ok(()),
            Step::Broken(at) => return Err(at),
        }
    }
}

/// An absolute stamp has 59 bits; the five above are the running time's, one more when it wrapped.
fn absolute(time: u64, stamp: u64) -> u64 {
    const LOW: u64 = (1 << 59) - 1;
    let full = time & !LOW | stamp & LOW;
    // A step back by almost the whole range is a carry into the upper bits.
    if full < time && time - full > LOW / 2 { full.wrapping_add(LOW + 1) } else { full }
}

/// How many events a page says were lost; 0 when it does not say.
fn stored_loss(page: &[u8], at: usize, commit: u64, layout: Layout) -> u32 {
    let Some(rest) = page.get(at..).filter(|_| commit & LOST_STORED != 0) else { return 0 };
    let count = if layout.encoding.long == 8 {
        rest.first_chunk().map(|bytes| layout.encoding.u64(*bytes))
    } else {
        rest.first_chunk().map(|bytes| layout.encoding.u32(*bytes).into())
    };
    count.map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX))
}
