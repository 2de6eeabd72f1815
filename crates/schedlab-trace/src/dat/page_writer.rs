//! Packs records into ring-buffer pages, as the kernel does.
//!
//! The buffer always has the size of a page, so that a record is one check of bounds and plain stores. A vector that
//! grew field by field took two fifths more instructions (callgrind).

use crate::encoding::Encoding;
use std::io;

/// The time delta of a record has 27 bits.
const DELTA_LIMIT: u64 = 1 << 27;
/// A time extend has 32 more; beyond that a new page carries the full time.
const EXTEND_LIMIT: u64 = 1 << 59;
/// Type of a record that moves the time on.
const TIME_EXTEND: u32 = 30;
/// Largest body, in words, whose length fits the type field.
const INLINE_WORDS: usize = 28;
/// Bit of `commit`: events were lost before this page.
const LOST: u64 = 1 << 31;
/// Bit of `commit`: their number stands behind the records.
const LOST_STORED: u64 = 1 << 30;

/// The longest body that is written into a page in place, in bytes.
pub(crate) const SHORT: usize = 64;

/// The longest body that a page of this size holds: behind the page's head and that of a long record. A
/// lost count before such a record has a page of its own.
pub(crate) fn longest_body(encoding: Encoding, page_size: usize) -> usize {
    page_size - 8 - usize::from(encoding.long) - 8
}

/// Refuses a body of `length` bytes where the longest is shorter.
pub(crate) fn check_body(length: usize, longest: usize) -> io::Result<()> {
    if length <= longest {
        return Ok(());
    }
    let what = format!("a record of {length} bytes does not fit a page");
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// One page being filled.
pub(super) struct PageWriter {
    encoding: Encoding,
    /// As long as a page and a short body; what lies from `at` on is rubbish until the page is taken.
    page: Vec<u8>,
    /// Bytes of a page.
    size: usize,
    /// Where the next record begins.
    at: usize,
    /// Bytes up to which records may reach.
    limit: usize,
    time: u64,
    lost: Option<u32>,
    used: bool,
}

impl PageWriter {
    pub(super) fn new(encoding: Encoding, page_size: usize) -> Self {
        let page = vec![0; page_size + SHORT];
        let size = page_size;
        let limit = size;
        let time = 0;
        let lost = None;
        let used = false;
        let mut page = Self { encoding, page, size, at: 0, limit, time, lost, used };
        page.clear();
        page
    }

    /// Bytes before the first record: time and `commit`.
    fn head(&self) -> usize {
        8 + usize::from(self.encoding.long)
    }

    /// The longest body that fits a page of its own.
    pub(super) fn longest_body(&self) -> usize {
        longest_body(self.encoding, self.size)
    }

    fn clear(&mut self) {
        self.at = self.head();
        self.page[..self.at].fill(0);
        self.limit = self.size;
        self.lost = None;
        self.used = false;
    }

    /// Whether the page has neither a record nor a loss.
    pub(super) fn is_empty(&self) -> bool {
        !self.used
    }

    /// Marks the still empty page: `count` events were lost before it (0: unknown how many).
    pub(super) fn lost(&mut self, count: u32) {
        debug_assert!(self.at == self.head(), "a loss belongs before a page's records");
        self.lost = Some(self.lost.unwrap_or(0).saturating_add(count));
        self.used = true;
        if count > 0 {
            self.limit = self.size - usize::from(self.encoding.long);
        }
    }

    /// Adds a record; `false` when it needs a new page (then nothing was written).
    #[inline]
    pub(super) fn push(&mut self, time: u64, body: &[u8]) -> bool {
        let first = self.at == self.head();
        let delta = if first { 0 } else { time.wrapping_sub(self.time) };
        let words = body.len().div_ceil(4).max(1);
        // Time that goes back wraps to a large delta.
        if first || delta >= DELTA_LIMIT || words > INLINE_WORDS {
            return self.push_any(time, delta, body);
        }
        let end = self.at + 4 + words * 4;
        if end > self.limit {
            return false;
        }
        self.put(words as u32, delta as u32);
        self.put_body(body, end);
        self.time = time;
        true
    }

    /// Adds a record and gives the place for its body of `length` bytes, a multiple of four up to [`SHORT`]; bytes of the
    /// place beyond them may be written too. `None`: nothing was done, and it is a case for [`Self::push`].
    #[inline(always)]
    pub(super) fn short(&mut self, time: u64, length: usize) -> Option<&mut [u8; SHORT]> {
        let first = self.at == self.head();
        let delta = time.wrapping_sub(self.time);
        let end = self.at + 4 + length;
        if first || delta >= DELTA_LIMIT || end > self.limit {
            return None;
        }
        self.put((length / 4) as u32, delta as u32);
        let at = std::mem::replace(&mut self.at, end);
        self.time = time;
        self.page[at..].first_chunk_mut()
    }

    /// The same for what is rare: the first record of a page, a long record, a long time.
    #[cold]
    fn push_any(&mut self, time: u64, delta: u64, body: &[u8]) -> bool {
        // Time that goes back begins a page as well.
        if delta >= EXTEND_LIMIT {
            return false;
        }
        let words = body.len().div_ceil(4).max(1);
        let inline = words <= INLINE_WORDS;
        let extend = if delta >= DELTA_LIMIT { 8 } else { 0 };
        let end = self.at + extend + if inline { 4 } else { 8 } + words * 4;
        if end > self.limit {
            return false;
        }
        if self.at == self.head() {
            let stamp = self.encoding.put_u64(time);
            self.page[..8].copy_from_slice(&stamp);
        }
        let mut delta = u32::try_from(delta).unwrap_or(u32::MAX);
        if extend > 0 {
            let whole = time - self.time;
            self.put(TIME_EXTEND, (whole & (DELTA_LIMIT - 1)) as u32);
            self.put_u32(u32::try_from(whole >> 27).expect("below the limit of 59 bits"));
            delta = 0;
        }
        if inline {
            self.put(u32::try_from(words).expect("at most 28"), delta);
        } else {
            self.put(0, delta);
            self.put_u32(u32::try_from(words * 4 + 4).expect("fits a page"));
        }
        self.put_body(body, end);
        self.time = time;
        self.used = true;
        true
    }

    /// Fills up to `end`, where the record ends, with the body and zeros.
    #[inline]
    fn put_body(&mut self, body: &[u8], end: usize) {
        let (to, rest) = self.page[self.at..end].split_at_mut(body.len());
        to.copy_from_slice(body);
        rest.fill(0);
        self.at = end;
    }

    /// The finished page, padded to its size; the writer begins a new one.
    pub(super) fn take(&mut self, out: &mut Vec<u8>) {
        let head = self.head();
        let mut commit = (self.at - head) as u64;
        if let Some(count) = self.lost {
            commit |= LOST;
            if count > 0 {
                commit |= LOST_STORED;
                self.put_long(u64::from(count));
            }
        }
        let long = self.encoding.long;
        if long == 8 {
            self.page[8..16].copy_from_slice(&self.encoding.put_u64(commit));
        } else {
            let commit = u32::try_from(commit).expect("only 32 bits are used");
            self.page[8..12].copy_from_slice(&self.encoding.put_u32(commit));
        }
        if self.at == head {
            // A page needs a time even if it holds no record, only the note of a loss.
            let stamp = self.encoding.put_u64(self.time);
            self.page[..8].copy_from_slice(&stamp);
        }
        self.page[self.at..self.size].fill(0);
        out.extend_from_slice(&self.page[..self.size]);
        self.clear();
    }

    fn put(&mut self, kind: u32, delta: u32) {
        let word = if self.encoding.big_endian { kind << 27 | delta } else { kind | delta << 5 };
        self.put_u32(word);
    }

    fn put_u32(&mut self, value: u32) {
        let bytes = self.encoding.put_u32(value);
        self.page[self.at..self.at + 4].copy_from_slice(&bytes);
        self.at += 4;
    }

    fn put_long(&mut self, value: u64) {
        if self.encoding.long == 8 {
            let bytes = self.encoding.put_u64(value);
            self.page[self.at..self.at + 8].copy_from_slice(&bytes);
            self.at += 8;
        } else {
            self.put_u32(u32::try_from(value).unwrap_or(u32::MAX));
        }
    }
}
