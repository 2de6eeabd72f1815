//! The pages of one CPU: fetched by windows, unpacked where the file is compressed, and walked record
//! by record.
//!
//! A page is a time, a count of used bytes with two flags for losses, and records. Whatever its
//! lengths say, a walk stays inside the page.

use crate::encoding::Encoding;
use crate::input::Input;
use std::io;
use std::ops::Range;

/// Low bits of `commit`: bytes used by records.
const USED: u64 = (1 << 27) - 1;
/// Events were lost before this page.
const LOST: u64 = 1 << 31;
/// Their number stands behind the used bytes.
const LOST_STORED: u64 = 1 << 30;
/// An unpacked chunk is ten pages when trace-cmd writes it; nobody needs more than this.
const CHUNK_MAX: u64 = 1 << 24;

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

/// How the file packs the data of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Zlib,
    Zstd,
}

/// What a walk meets.
pub(crate) trait Visit {
    /// A record: its time (not yet corrected) and its body.
    fn record(&mut self, time: u64, body: &[u8]);
    /// Events are missing before `time`; 0: unknown how many.
    fn lost(&mut self, time: u64, count: u32);
}

/// Walks one page, or what is left of it. `Err`: the offset in the page where its records make no
/// sense; all before were visited.
#[inline]
pub(crate) fn walk(page: &[u8], layout: Layout, visit: &mut impl Visit) -> Result<(), usize> {
    if layout.encoding.big_endian {
        walk_as::<true>(page, layout, visit)
    } else {
        walk_as::<false>(page, layout, visit)
    }
}

#[inline]
fn walk_as<const BIG: bool>(
    page: &[u8],
    layout: Layout,
    visit: &mut impl Visit,
) -> Result<(), usize> {
    let head = layout.head();
    let (Some(stamp), true) = (page.first_chunk::<8>(), page.len() >= head) else {
        return Err(0);
    };
    let mut time = layout.encoding.u64(*stamp);
    let commit = if layout.encoding.long == 8 {
        page.get(8..).and_then(|rest| rest.first_chunk()).map(|b| layout.encoding.u64(*b))
    } else {
        page.get(8..).and_then(|rest| rest.first_chunk()).map(|b| layout.encoding.u32(*b).into())
    };
    let commit = commit.ok_or(8usize)?;
    let used = usize::try_from(commit & USED).expect("27 bits");
    if commit & LOST != 0 {
        visit.lost(time, stored_loss(page, head + used, commit, layout));
    }
    let end = (head + used).min(page.len());
    let mut data = &page[head..end];
    let place = |rest: &[u8]| end - rest.len();
    while let Some((word, rest)) = data.split_first_chunk::<4>() {
        let word = if BIG { u32::from_be_bytes(*word) } else { u32::from_le_bytes(*word) };
        let (kind, delta) =
            if BIG { (word >> 27, word & 0x7ff_ffff) } else { (word & 31, word >> 5) };
        if matches!(kind, 1..=28) {
            let (body, rest) = rest.split_at_checked(kind as usize * 4).ok_or(place(data))?;
            time = time.wrapping_add(u64::from(delta));
            visit.record(time, body);
            data = rest;
            continue;
        }
        // A padding without a delta ends the page.
        if kind == 29 && delta == 0 {
            break;
        }
        let (second, rest) = rest.split_first_chunk::<4>().ok_or(place(data))?;
        let second = if BIG { u32::from_be_bytes(*second) } else { u32::from_le_bytes(*second) };
        match kind {
            0 => {
                let length = (second as usize).checked_sub(4).ok_or(place(data))?;
                let (body, after) = rest.split_at_checked(length).ok_or(place(data))?;
                time = time.wrapping_add(u64::from(delta));
                visit.record(time, body);
                data = after.get(length.next_multiple_of(4) - length..).unwrap_or_default();
            }
            29 => {
                time = time.wrapping_add(u64::from(delta));
                data = rest.get((second as usize).saturating_sub(4)..).ok_or(place(data))?;
            }
            30 => {
                time = time.wrapping_add(u64::from(second) << 27 | u64::from(delta));
                data = rest;
            }
            _ => {
                time = absolute(time, u64::from(second) << 27 | u64::from(delta));
                data = rest;
            }
        }
    }
    if head + used > page.len() { Err(page.len()) } else { Ok(()) }
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

/// Where a CPU's data lies in the file, and a window of it.
#[derive(Debug)]
pub(crate) struct Pages {
    packing: Packing,
    layout: Layout,
    /// What is still to be fetched.
    left: Range<u64>,
    /// Chunks still to be unpacked.
    chunks: u32,
    window: Vec<u8>,
    /// Where the window lies in the file.
    window_at: u64,
    /// What of the window was handed out.
    at: usize,
    packed: Vec<u8>,
    window_size: usize,
    /// What was found wrong: the offset in the file, and what.
    pub(crate) trouble: Option<(u64, String)>,
}

impl Pages {
    /// `window` is how much to fetch at once when nothing is packed, at least a page.
    pub(crate) fn new(packing: Packing, layout: Layout, data: Range<u64>, window: usize) -> Self {
        let pages = (window / layout.page_size).max(1);
        Self {
            packing,
            layout,
            left: data,
            chunks: 0,
            window: Vec::new(),
            window_at: 0,
            at: 0,
            packed: Vec::new(),
            window_size: pages * layout.page_size,
            trouble: None,
        }
    }

    /// A second reader of the same data, one page at a time.
    pub(crate) fn again(&self, data: Range<u64>) -> Self {
        Self::new(self.packing, self.layout, data, self.layout.page_size)
    }

    /// Whether pages must be unpacked.
    pub(crate) fn is_packed(&self) -> bool {
        self.packing != Packing::None
    }

    /// Reads the head of a packed CPU's data.
    pub(crate) fn start(&mut self, input: &Input) -> io::Result<()> {
        if self.packing == Packing::None || self.left.is_empty() {
            return Ok(());
        }
        let mut count = [0; 4];
        if input.read_at(self.left.start, &mut count)? < 4 {
            self.cut(self.left.start);
            return Ok(());
        }
        self.chunks = self.layout.encoding.u32(count);
        self.left.start += 4;
        Ok(())
    }

    /// The next page, and where it lies in the file (where its chunk lies, when packed). The last one
    /// may be cut. `None` at the end.
    #[inline]
    pub(crate) fn next(
        &mut self,
        input: &Input,
        unpacker: &mut Unpacker,
    ) -> io::Result<Option<(&[u8], u64)>> {
        if self.at == self.window.len() && !self.advance(input, unpacker)? {
            return Ok(None);
        }
        let start = self.at;
        self.at = (start + self.layout.page_size).min(self.window.len());
        let offset = match self.packing {
            Packing::None => self.window_at + start as u64,
            Packing::Zlib | Packing::Zstd => self.window_at,
        };
        Ok(Some((&self.window[start..self.at], offset)))
    }

    /// Goes on to the next window; `false` at the end.
    fn advance(&mut self, input: &Input, unpacker: &mut Unpacker) -> io::Result<bool> {
        self.at = 0;
        if self.packing == Packing::None {
            // The old window is overwritten: clearing it would mean to fill it with zeros first.
            if self.left.is_empty() {
                self.window.clear();
            } else {
                self.window_at = self.left.start;
                if !self.fetch(input)? {
                    self.left.end = self.left.start;
                }
            }
            return Ok(!self.window.is_empty());
        }
        self.window.clear();
        // A chunk that can't be unpacked leaves the window empty and is passed over.
        while self.window.is_empty() && !self.left.is_empty() {
            self.window_at = self.left.start;
            if !self.unpack(input, unpacker)? {
                self.left.end = self.left.start;
            }
        }
        Ok(!self.window.is_empty())
    }

    fn cut(&mut self, at: u64) {
        self.trouble.get_or_insert((at, "the file ends inside a CPU's data".into()));
        self.left.end = self.left.start;
    }

    fn fetch(&mut self, input: &Input) -> io::Result<bool> {
        let left = self.left.end - self.left.start;
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(self.window_size);
        self.window.resize(want, 0);
        let count = input.read_at(self.left.start, &mut self.window)?;
        self.window.truncate(count);
        let end = self.left.start + count as u64;
        self.left.start = end;
        if count < want {
            self.cut(end);
        }
        Ok(count == want)
    }

    fn unpack(&mut self, input: &Input, unpacker: &mut Unpacker) -> io::Result<bool> {
        self.window.clear();
        let Some(left) = self.chunks.checked_sub(1) else { return Ok(false) };
        self.chunks = left;
        let start = self.left.start;
        let mut sizes = [0; 8];
        if input.read_at(start, &mut sizes)? < 8 {
            self.cut(start);
            return Ok(false);
        }
        let encoding = self.layout.encoding;
        let packed = encoding.u32([sizes[0], sizes[1], sizes[2], sizes[3]]);
        let size = u64::from(encoding.u32([sizes[4], sizes[5], sizes[6], sizes[7]]));
        let available = input.len().saturating_sub(start + 8);
        if u64::from(packed) > available || size > CHUNK_MAX {
            self.cut(start);
            return Ok(false);
        }
        self.packed.resize(packed as usize, 0);
        let count = input.read_at(start + 8, &mut self.packed)?;
        let size = usize::try_from(size).expect("checked against the maximum");
        match inflate(unpacker, self.packing, &self.packed[..count], size, &mut self.window) {
            Ok(()) => self.left.start = start + 8 + u64::from(packed),
            Err(error) => {
                self.window.clear();
                self.trouble.get_or_insert((start, format!("a chunk can't be unpacked: {error}")));
                self.left.start = start + 8 + u64::from(packed);
            }
        }
        Ok(self.chunks > 0)
    }
}

/// What unpacking needs again and again; one for each thread, since it is large.
#[derive(Default)]
pub(crate) struct Unpacker {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

/// Unpacks into `out` at most `size` bytes, which the caller has bounded.
pub(crate) fn inflate(
    unpacker: &mut Unpacker,
    packing: Packing,
    packed: &[u8],
    size: usize,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    use std::io::Read;
    out.clear();
    match packing {
        Packing::None => out.extend_from_slice(packed),
        Packing::Zlib => {
            let zlib = flate2::read::ZlibDecoder::new(packed);
            zlib.take(size as u64).read_to_end(out)?;
        }
        Packing::Zstd => {
            let zstd = match &mut unpacker.zstd {
                Some(zstd) => zstd,
                none => none.insert(zstd::bulk::Decompressor::new()?),
            };
            out.reserve(size);
            zstd.decompress_to_buffer(packed, out)?;
        }
    }
    Ok(())
}
