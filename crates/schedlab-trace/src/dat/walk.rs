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
        let word = start as u32;
        let id = (start >> 32) as u16;
        let kind = word & 31;
        let delta = word >> 5;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of 64 bytes.
    fn layout(big_endian: bool, long: u8) -> Layout {
        Layout { encoding: Encoding { big_endian, long }, page_size: 64 }
    }

    const LITTLE: Layout =
        Layout { encoding: Encoding { big_endian: false, long: 8 }, page_size: 64 };

    /// A little-endian page that begins at 1000, with these words and flags for losses.
    fn page(words: &[u32], flags: u64) -> Vec<u8> {
        let commit = (words.len() as u64 * 4) | flags;
        let mut page = [1_000_u64, commit].map(u64::to_le_bytes).concat();
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        page.resize(64, 0);
        page
    }

    /// The head of a record: its kind, or its length in words, and the time since the one before.
    fn head(kind: u32, delta: u32) -> u32 {
        delta << 5 | kind
    }

    /// Times and bodies of records; a loss is its number.
    #[derive(Debug, Default, PartialEq)]
    struct Met(Vec<(u64, Vec<u8>)>, Vec<(u64, u32)>);

    impl Visit for Met {
        fn record(&mut self, time: u64, body: &[u8]) {
            self.0.push((time, body.to_vec()));
        }

        fn lost(&mut self, time: u64, count: u32) {
            self.1.push((time, count));
        }
    }

    fn walked(page: &[u8], layout: Layout) -> (Result<(), usize>, Met) {
        let mut met = Met::default();
        (walk(page, layout, &mut met), met)
    }

    /// Times of all records of a sound page.
    fn times(words: &[u32]) -> Vec<u64> {
        let (result, met) = walked(&page(words, 0), LITTLE);
        assert_eq!(result, Ok(()));
        met.0.into_iter().map(|(time, _)| time).collect()
    }

    #[test]
    fn records_are_short_or_say_their_length() {
        let words = [head(1, 5), 0x11, head(2, 7), 0x22, 0x23, head(0, 1), 4 + 3, 0x33];
        let (result, met) = walked(&page(&words, 0), LITTLE);
        assert_eq!(result, Ok(()));
        let expected = vec![
            (1_005, vec![0x11, 0, 0, 0]),
            (1_012, vec![0x22, 0, 0, 0, 0x23, 0, 0, 0]),
            (1_013, vec![0x33, 0, 0]),
        ];
        assert_eq!(met, Met(expected, vec![]));
    }

    #[test]
    fn extensions_stamps_and_padding_move_the_time() {
        let record = |delta| [head(1, delta), 0];
        let with = |words: &[u32]| times(&[words, &record(3)].concat());
        assert_eq!(with(&[head(30, 2), 1]), [1_000 + (1 << 27) + 2 + 3], "an extension");
        assert_eq!(with(&[head(31, 9), 1]), [(1 << 27) + 9 + 3], "an absolute stamp");
        assert_eq!(with(&[head(29, 6), 8, 0xffff]), [1_009], "padding of 4 bytes");
        assert_eq!(with(&[head(29, 0), 8, 0xffff]), [0; 0], "padding to the end of the page");
    }

    #[test]
    fn a_stamp_has_the_upper_bits_of_the_time_before() {
        const LOW: u64 = (1 << 59) - 1;
        assert_eq!(absolute(3 << 59 | 5, 9), 3 << 59 | 9);
        assert_eq!(absolute(3 << 59 | 9, 5), 3 << 59 | 5, "a step back");
        assert_eq!(absolute(3 << 59 | LOW, 5), 4 << 59 | 5, "a carry");
        assert_eq!(absolute(LOW / 2, 0), 0, "half of the range is a step back still");
        assert_eq!(absolute(LOW / 2 + 1, 1), 1);
        assert_eq!(absolute(LOW / 2 + 1, 0), LOW + 1);
    }

    #[test]
    fn a_page_that_makes_no_sense_says_where() {
        let broken = |words: &[u32]| walked(&page(words, 0), LITTLE).0;
        assert_eq!(broken(&[head(1, 5), 0, head(2, 5), 0]), Err(24), "a record beyond the end");
        assert_eq!(broken(&[head(0, 1), 3]), Err(16), "a length below its own");
        assert_eq!(broken(&[head(0, 1), 4]), Ok(()));
        assert_eq!(broken(&[head(0, 1), 5]), Err(16));
        assert_eq!(broken(&[head(29, 1), 8]), Err(16), "padding beyond the end");
        assert_eq!(broken(&[head(29, 1), 4]), Ok(()));
        assert_eq!(broken(&[head(1, 5), 0, head(30, 5)]), Err(24), "half an extension");
        assert_eq!(walked(&page(&[], 0)[..15], LITTLE).0, Err(0), "half a head");
        assert_eq!(walked(&page(&[], 0)[..16], LITTLE).0, Ok(()));
    }

    #[test]
    fn a_page_that_is_cut_is_walked_as_far_as_it_goes() {
        let whole = page(&[head(1, 5), 0, head(1, 5), 0], 0);
        let cut = |length: usize| {
            let (result, met) = walked(&whole[..length], LITTLE);
            (result, met.0.len())
        };
        assert_eq!([cut(32), cut(31), cut(24)], [(Ok(()), 2), (Err(24), 1), (Err(24), 1)]);
        assert_eq!(cut(20), (Err(16), 0));
    }

    #[test]
    fn losses_before_a_page_have_a_number_where_it_is_stored() {
        let lost = |flags: u64, behind: u32| {
            let mut bytes = page(&[head(1, 5), 0], flags);
            bytes[24..28].copy_from_slice(&behind.to_le_bytes());
            walked(&bytes, LITTLE).1.1
        };
        assert_eq!(lost(0, 77), []);
        assert_eq!(lost(1 << 31, 77), [(1_000, 0)]);
        assert_eq!(lost(1 << 31 | 1 << 30, 77), [(1_000, 77)]);
        assert_eq!(lost(1 << 30, 77), [], "a number alone is no loss");
        let mut far = page(&[head(1, 5), 0], 1 << 31 | 1 << 30);
        far[28] = 1;
        assert_eq!(walked(&far, LITTLE).1.1, [(1_000, u32::MAX)]);
    }

    #[test]
    fn either_byte_order_and_both_sizes_of_a_long_tell_the_same() {
        let expected = Met(vec![(1_005, vec![0, 0, 0, 1])], vec![(1_000, 77)]);
        let flags = 1_u32 << 31 | 1 << 30 | 8;
        let mut small = 1_000_u64.to_be_bytes().to_vec();
        small.extend([flags, 1 << 27 | 5, 1, 77].into_iter().flat_map(u32::to_be_bytes));
        small.resize(64, 0);
        assert_eq!(walked(&small, layout(true, 4)), (Ok(()), expected));
        let mut little = 1_000_u64.to_le_bytes().to_vec();
        little.extend([flags, head(1, 5), 1 << 24, 77].into_iter().flat_map(u32::to_le_bytes));
        little.resize(64, 0);
        let expected = Met(vec![(1_005, vec![0, 0, 0, 1])], vec![(1_000, 77)]);
        assert_eq!(walked(&little, layout(false, 4)), (Ok(()), expected));
    }

    #[test]
    fn ordinary_records_that_follow_are_found_at_one_go() {
        let mut words = vec![head(1, 5), 0x1234, head(28, 7)];
        words.extend([0x55; 28]);
        words.push(head(29, 1));
        let long = [1_000_u64, 4 * 32].map(u64::to_le_bytes).concat();
        let mut bytes: Vec<u8> = long;
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let begin = |layout| Walk::begin(&bytes, layout).unwrap().0;
        let mut walk = begin(LITTLE);
        assert_eq!(walk.near(&bytes), Some((Body { at: 20, length: 4 }, 0x1234)));
        assert_eq!(walk.time, 1_005);
        assert_eq!(walk.near(&bytes), Some((Body { at: 28, length: 112 }, 0x55)));
        assert_eq!((walk.near(&bytes), walk.time), (None, 1_012), "padding goes the long way");
        // Where the page lies in a window makes no difference.
        let window = [vec![0xff; 10], bytes.clone()].concat();
        let mut walk = begin(LITTLE).moved(10);
        assert_eq!(walk.near(&window), Some((Body { at: 30, length: 4 }, 0x1234)));
        let next = walk.next(&window);
        assert_eq!(next, Step::Record(Body { at: 38, length: 112 }));
        assert_eq!(begin(layout(true, 8)).moved(10).near(&window), None, "big-endian");
    }
}
