//! The pages of one CPU: fetched by windows, and unpacked where the file is compressed.

use super::walk::Layout;
use crate::budget::{Budget, Share};
use crate::input::Input;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// An unpacked chunk is ten pages when trace-cmd writes it; nobody needs more than this.
const CHUNK_MAX: u64 = 1 << 24;

/// How the file packs the data of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Zlib,
    Zstd,
}

/// Where a CPU's data lies in the file, and how much of it was fetched.
#[derive(Debug)]
pub(crate) struct Feed {
    packing: Packing,
    layout: Layout,
    /// What is still to be fetched.
    left: Range<u64>,
    /// Chunks still to be unpacked.
    chunks: u32,
    window_size: usize,
    /// Where a window ends early, since hardly more is wanted.
    pause: u64,
    /// What was found wrong first.
    pub(crate) trouble: Option<Trouble>,
}

impl Feed {
    /// `window` is how much to fetch at once when nothing is packed, at least a page.
    pub(crate) fn new(packing: Packing, layout: Layout, data: Range<u64>, window: usize) -> Self {
        let pages = (window / layout.page_size).max(1);
        Self {
            packing,
            layout,
            left: data,
            chunks: 0,
            window_size: pages * layout.page_size,
            pause: u64::MAX,
            trouble: None,
        }
    }

    /// A second reader of the same data, one page at a time.
    pub(crate) fn again(&self, data: Range<u64>) -> Self {
        Self::new(self.packing, self.layout, data, self.layout.page_size)
    }

    /// Another reader of the same data, like this one.
    pub(crate) fn twin(&self, data: Range<u64>) -> Self {
        Self::new(self.packing, self.layout, data, self.window_size)
    }

    /// Fetches this number of bytes at once from now on, at least a page.
    pub(crate) fn widen(&mut self, window: usize) {
        self.window_size = (window / self.layout.page_size).max(1) * self.layout.page_size;
    }

    /// Bytes of a page.
    pub(crate) fn page_size(&self) -> usize {
        self.layout.page_size
    }

    /// Whether pages must be unpacked.
    pub(crate) fn is_packed(&self) -> bool {
        self.packing != Packing::None
    }

    /// Goes on where the page lies that begins `left`; nothing may be packed.
    pub(crate) fn seek(&mut self, left: Range<u64>) {
        self.left = left;
    }

    /// Hardly anything will be wanted that lies behind `offset` in the file.
    pub(crate) fn pause_at(&mut self, offset: u64) {
        self.pause = offset;
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

    /// Replaces the window by the next one; empty at the end.
    pub(crate) fn fill(
        &mut self,
        input: &Input,
        unpacker: &mut Unpacker,
        window: &mut Window,
    ) -> io::Result<()> {
        if self.packing == Packing::None {
            // The old window is overwritten: clearing it would mean to fill it with zeros first.
            if self.left.is_empty() {
                window.bytes.clear();
            } else {
                window.offset = self.left.start;
                if !self.fetch(input, window)? {
                    self.left.end = self.left.start;
                }
            }
            return Ok(());
        }
        window.bytes.clear();
        // A chunk that cannot be unpacked leaves the window empty and is passed over.
        while window.bytes.is_empty() {
            let Some(packed) = self.next(input)? else { break };
            if let Some(trouble) = packed.unpack(input, unpacker, window)? {
                self.trouble.get_or_insert(trouble);
            }
        }
        Ok(())
    }

    /// Whether there is no more.
    pub(crate) fn is_at_end(&self) -> bool {
        self.left.is_empty()
    }

    /// There is no more.
    pub(crate) fn end(&mut self) {
        self.left.end = self.left.start;
    }

    fn cut(&mut self, at: u64) {
        self.trouble.get_or_insert((at, "the file ends inside a CPU's data".into()));
        self.end();
    }

    fn fetch(&mut self, input: &Input, window: &mut Window) -> io::Result<bool> {
        let start = self.left.start;
        let pause =
            if start < self.pause { self.pause } else { start + self.layout.page_size as u64 };
        let left = self.left.end.min(pause) - start;
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(self.window_size);
        // A CPU's data may claim to go on beyond the end of the file.
        let there = usize::try_from(input.len().saturating_sub(start)).unwrap_or(usize::MAX);
        let size = want.min(there);
        if !window.holds(size, input.budget()) {
            window.bytes.clear();
            let refusal = format!("a window of pages needs {}", input.budget().refusal());
            self.trouble.get_or_insert((start, refusal));
            return Ok(false);
        }
        window.bytes.resize(size, 0);
        let count = input.read_at(self.left.start, &mut window.bytes)?;
        window.bytes.truncate(count);
        let end = self.left.start + count as u64;
        self.left.start = end;
        if count < want {
            self.cut(end);
        }
        Ok(count == want)
    }

    /// The next packed chunk, and goes on behind it.
    pub(crate) fn next(&mut self, input: &Input) -> io::Result<Option<Packed>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let Some(left) = self.chunks.checked_sub(1) else {
            self.end();
            return Ok(None);
        };
        self.chunks = left;
        let start = self.left.start;
        let mut sizes = [0; 8];
        if input.read_at(start, &mut sizes)? < 8 {
            self.cut(start);
            return Ok(None);
        }
        let encoding = self.layout.encoding;
        let length = encoding.u32([sizes[0], sizes[1], sizes[2], sizes[3]]);
        let size = u64::from(encoding.u32([sizes[4], sizes[5], sizes[6], sizes[7]]));
        let available = input.len().saturating_sub(start + 8);
        if u64::from(length) > available || size > CHUNK_MAX {
            self.cut(start);
            return Ok(None);
        }
        self.left.start = start + 8 + u64::from(length);
        if self.chunks == 0 {
            self.end();
        }
        let size = usize::try_from(size).expect("checked against the maximum");
        Ok(Some(Packed { packing: self.packing, start, length, size }))
    }
}

/// What was found wrong: the offset in the file, and what.
pub(crate) type Trouble = (u64, String);

/// A packed chunk of pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed {
    packing: Packing,
    /// Where it lies in the file, behind two sizes.
    start: u64,
    length: u32,
    /// The number of bytes after unpacking.
    size: usize,
}

impl Packed {
    /// Replaces the window by what was packed; by nothing if it cannot be unpacked: that is the trouble.
    pub(crate) fn unpack(
        self,
        input: &Input,
        unpacker: &mut Unpacker,
        window: &mut Window,
    ) -> io::Result<Option<Trouble>> {
        let Self { packing, start, length, size } = self;
        window.offset = start;
        window.bytes.clear();
        if !window.holds(size, input.budget()) {
            let refusal = input.budget().refusal();
            return Ok(Some((start, format!("a chunk of {size} bytes needs {refusal}"))));
        }
        let mut packed = std::mem::take(&mut unpacker.packed);
        packed.resize(length as usize, 0);
        let count = input.read_at(start + 8, &mut packed)?;
        let inflated = inflate(unpacker, packing, &packed[..count], size, &mut window.bytes);
        unpacker.packed = packed;
        Ok(inflated.err().map(|error| {
            window.bytes.clear();
            (start, format!("cannot unpack a chunk: {error}"))
        }))
    }
}

/// Some pages in memory.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) bytes: Vec<u8>,
    /// Where they lie in the file, or where their chunk does.
    pub(crate) offset: u64,
    /// What it has of the file's budget.
    share: Share,
}

impl Window {
    /// Makes room for `size` bytes; `false` if the budget has none.
    fn holds(&mut self, size: usize, budget: &Arc<Budget>) -> bool {
        let room = self.share.grow(budget, size as u64);
        if room {
            self.bytes.reserve_exact(size.saturating_sub(self.bytes.len()));
        }
        room
    }
}

/// The page at hand, in a window.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) window: Window,
    page: Range<usize>,
    size: usize,
    packed: bool,
}

impl Pages {
    /// None yet. `packed`: a window's offset is that of its chunk.
    pub(crate) fn new(size: usize, packed: bool) -> Self {
        Self { window: Window::default(), page: 0..0, size, packed }
    }

    /// Goes on to the next page of the window; `false` at its end. The last page may be cut.
    pub(crate) fn turn(&mut self) -> bool {
        let start = self.page.end;
        self.page = start..(start + self.size).min(self.window.bytes.len());
        !self.page.is_empty()
    }

    /// Whether windows are unpacked chunks.
    pub(crate) fn is_packed(&self) -> bool {
        self.packed
    }

    /// Begins with a new window.
    pub(crate) fn rewind(&mut self) {
        self.page = 0..0;
    }

    /// Is through with the window, whose bytes are overwritten by the next one's.
    pub(crate) fn leave(&mut self) {
        self.page = self.window.bytes.len()..self.window.bytes.len();
    }

    /// The page at hand.
    #[inline]
    pub(crate) fn page(&self) -> &[u8] {
        self.window.bytes.get(self.page.clone()).unwrap_or_default()
    }

    /// Where in the window the page begins.
    #[inline]
    pub(crate) fn start(&self) -> usize {
        self.page.start
    }

    /// Where the page lies in the file (where its chunk lies, when packed).
    pub(crate) fn offset(&self) -> u64 {
        self.window.offset + if self.packed { 0 } else { self.page.start as u64 }
    }
}

/// What unpacking needs again and again; one for each thread, since it is large.
#[derive(Default)]
pub(crate) struct Unpacker {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    packed: Vec<u8>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Encoding;
    use std::path::Path;

    const LAYOUT: Layout =
        Layout { encoding: Encoding { big_endian: false, long: 8 }, page_size: 64 };

    fn input(bytes: Vec<u8>) -> Input {
        Input::memory(Path::new("x"), bytes)
    }

    /// Where windows lie and how long they are, up to the end.
    fn windows(feed: &mut Feed, input: &Input) -> Vec<(u64, usize)> {
        let (mut window, mut unpacker) = (Window::default(), Unpacker::default());
        let mut all = Vec::new();
        feed.start(input).unwrap();
        loop {
            feed.fill(input, &mut unpacker, &mut window).unwrap();
            if window.bytes.is_empty() {
                assert!(feed.is_at_end());
                return all;
            }
            all.push((window.offset, window.bytes.len()));
        }
    }

    #[test]
    fn data_is_fetched_by_windows_of_whole_pages() {
        let file = input(vec![0; 1_000]);
        let feed = |window| Feed::new(Packing::None, LAYOUT, 100..300, window);
        assert_eq!(windows(&mut feed(130), &file), [(100, 128), (228, 72)]);
        assert_eq!(windows(&mut feed(1), &file), [(100, 64), (164, 64), (228, 64), (292, 8)]);
        let mut wide = feed(1);
        wide.widen(200);
        assert_eq!(windows(&mut wide, &file), [(100, 192), (292, 8)]);
        let mut one = wide.again(100..200);
        assert_eq!(windows(&mut one, &file), [(100, 64), (164, 36)]);
        assert_eq!(windows(&mut wide.twin(100..300), &file), [(100, 192), (292, 8)]);
        assert!(wide.trouble.is_none() && !wide.is_packed());
    }

    #[test]
    fn behind_a_pause_windows_are_single_pages() {
        let file = input(vec![0; 1_000]);
        let mut feed = Feed::new(Packing::None, LAYOUT, 100..400, 128);
        feed.pause_at(200);
        let expected = [(100, 100), (200, 64), (264, 64), (328, 64), (392, 8)];
        assert_eq!(windows(&mut feed, &file), expected);
        feed.seek(300..400);
        feed.pause_at(u64::MAX);
        assert_eq!(windows(&mut feed, &file), [(300, 100)]);
    }

    #[test]
    fn data_that_ends_early_is_trouble() {
        let mut feed = Feed::new(Packing::None, LAYOUT, 100..300, 128);
        assert_eq!(windows(&mut feed, &input(vec![0; 250])), [(100, 128), (228, 22)]);
        let trouble = Some((250, "the file ends inside a CPU's data".to_owned()));
        assert_eq!(feed.trouble, trouble);
    }

    /// Chunks of packed pages with their number before them, from offset 10 on, and where they end.
    fn packed(packing: Packing, chunks: &[&[u8]], size: u32) -> (Input, std::ops::Range<u64>) {
        let mut bytes = vec![0; 10];
        bytes.extend(u32::try_from(chunks.len()).unwrap().to_le_bytes());
        for chunk in chunks {
            let packed = match packing {
                Packing::Zstd => zstd::bulk::compress(chunk, 1).unwrap(),
                _ => {
                    let mut zlib =
                        flate2::read::ZlibEncoder::new(*chunk, flate2::Compression::fast());
                    let mut out = Vec::new();
                    io::Read::read_to_end(&mut zlib, &mut out).unwrap();
                    out
                }
            };
            bytes.extend(u32::try_from(packed.len()).unwrap().to_le_bytes());
            bytes.extend(size.to_le_bytes());
            bytes.extend(packed);
        }
        let end = bytes.len() as u64;
        (input(bytes), 10..end)
    }

    #[test]
    fn packed_chunks_are_unpacked_one_after_the_other() {
        for packing in [Packing::Zlib, Packing::Zstd] {
            let (file, data) = packed(packing, &[&[1; 128], &[2; 64]], 128);
            let mut feed = Feed::new(packing, LAYOUT, data, 4096);
            let lengths: Vec<usize> = windows(&mut feed, &file).iter().map(|w| w.1).collect();
            assert_eq!((lengths, feed.is_packed()), (vec![128, 64], true), "{packing:?}");
            assert_eq!(feed.trouble, None);
        }
    }

    #[test]
    fn a_chunk_that_cannot_be_unpacked_is_passed_over_and_told() {
        let (file, data) = packed(Packing::Zstd, &[&[1; 128], &[2; 64]], 128);
        let mut bytes = vec![0; usize::try_from(file.len()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        bytes[22] ^= 0xff;
        let mut feed = Feed::new(Packing::Zstd, LAYOUT, data.clone(), 4096);
        assert_eq!(windows(&mut feed, &input(bytes.clone())).len(), 1);
        let (at, what) = feed.trouble.unwrap();
        assert!(at == 14 && what.starts_with("cannot unpack a chunk: "), "{at}: {what}");
        // Cut inside of the second chunk, and inside of the number of chunks.
        bytes[22] ^= 0xff;
        let cut = |length: usize| {
            let mut feed = Feed::new(Packing::Zstd, LAYOUT, data.clone(), 4096);
            let count = windows(&mut feed, &input(bytes[..length].to_vec())).len();
            (count, feed.trouble.map(|(_, what)| what.contains("the file ends")))
        };
        assert_eq!(cut(bytes.len()), (2, None));
        let ends = [cut(bytes.len() - 1), cut(13)];
        assert_eq!(ends, [(1, Some(true)), (0, Some(true))]);
    }

    #[test]
    fn no_chunk_is_unpacked_that_is_larger_than_any() {
        let most = u32::try_from(CHUNK_MAX).unwrap();
        for (size, count) in [(most, 1), (most + 1, 0)] {
            let (file, data) = packed(Packing::Zlib, &[&[1; 128]], size);
            let mut feed = Feed::new(Packing::Zlib, LAYOUT, data, 4096);
            assert_eq!(windows(&mut feed, &file).len(), count);
        }
    }

    #[test]
    fn pages_of_a_window_follow_each_other_and_the_last_may_be_cut() {
        let walk = |packed: bool| {
            let mut pages = Pages::new(64, packed);
            pages.window = Window { bytes: vec![0; 150], offset: 1_000, ..Window::default() };
            let mut all = Vec::new();
            while pages.turn() {
                all.push((pages.start(), pages.offset(), pages.page().len()));
            }
            assert!(!pages.turn() && pages.page().is_empty());
            pages.rewind();
            assert!(pages.turn() && pages.start() == 0);
            pages.leave();
            assert!(!pages.turn());
            all
        };
        assert_eq!(walk(false), [(0, 1_000, 64), (64, 1_064, 64), (128, 1_128, 22)]);
        assert_eq!(walk(true), [(0, 1_000, 64), (64, 1_000, 64), (128, 1_000, 22)], "its chunk's");
    }
}
