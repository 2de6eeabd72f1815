//! The pages of one CPU: fetched by windows, and unpacked where the file is compressed.

use super::walk::Layout;
use crate::input::Input;
use std::io;
use std::ops::Range;

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
                if !self.fetch(input, &mut window.bytes)? {
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

    fn fetch(&mut self, input: &Input, window: &mut Vec<u8>) -> io::Result<bool> {
        let start = self.left.start;
        let pause =
            if start < self.pause { self.pause } else { start + self.layout.page_size as u64 };
        let left = self.left.end.min(pause) - start;
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(self.window_size);
        window.resize(want, 0);
        let count = input.read_at(self.left.start, window)?;
        window.truncate(count);
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
        let mut packed = std::mem::take(&mut unpacker.packed);
        window.offset = start;
        window.bytes.clear();
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
