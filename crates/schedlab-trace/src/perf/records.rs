//! The records of a perf.data in file order, those inside compressed ones too.
//!
//! A window of the file and, where it is compressed, what is unpacked and not yet read: [`STEP`] bytes, however many
//! a compressed record holds, and a record that straddles. It is read before more is unpacked, so it stays in the
//! second-level cache as the window does.

pub(crate) use super::layout::SAMPLE;
use super::layout::{HEAD, Layout, Ordinary};
use crate::budget::{Budget, Share};
use crate::encoding::Encoding;
use crate::input::Input;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

pub(crate) const MMAP: u32 = 1;
pub(crate) const LOST: u32 = 2;
pub(crate) const COMM: u32 = 3;
pub(crate) const FORK: u32 = 7;
pub(crate) const MMAP2: u32 = 10;
pub(crate) const LOST_SAMPLES: u32 = 13;
pub(crate) const SWITCH_CPU_WIDE: u32 = 15;
pub(crate) const HEADER_ATTR: u32 = 64;
pub(crate) const HEADER_TRACING_DATA: u32 = 66;
pub(crate) const HEADER_BUILD_ID: u32 = 67;
pub(crate) const FINISHED_ROUND: u32 = 68;
pub(crate) const ID_INDEX: u32 = 69;
pub(crate) const AUXTRACE: u32 = 71;
pub(crate) const HEADER_FEATURE: u32 = 80;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

/// Bytes of the file that are read at once: they stay in the second-level cache until they are decoded,
/// and a record, whose size has 16 bits, fits.
const WINDOW: usize = 1 << 17;
/// What one call unpacks at most.
const STEP: usize = 1 << 17;

/// The window of the default level (8 MiB): a stream's first frame may be smaller than those that follow.
const WINDOW_LOG_LEAST: u64 = 23;
/// The same where the first frame says how long it is in place of a window.
const WINDOW_LOG_WHOLE: u64 = 25;

/// Reads records one after the other.
pub(crate) struct Records {
    encoding: Encoding,
    /// What of the file is not yet in the window.
    left: Range<u64>,
    /// Filled up to `end`; what lies behind stays, since clearing it would cost a pass over it.
    window: Vec<u8>,
    at: usize,
    end: usize,
    /// What was unpacked, filled up to `inner_end`.
    inner: Vec<u8>,
    inner_at: usize,
    inner_end: usize,
    /// Where in the window lies what the compressed record at hand still holds; `None`: all was unpacked.
    packed: Option<Range<usize>>,
    zstd: Option<Decoder<'static>>,
    /// What that has of the file's budget.
    share: Share,
    current: Current,
    /// Where reading stopped before its end, and why.
    pub(crate) trouble: Option<(u64, String)>,
}

#[derive(Clone, Copy)]
enum Current {
    Outer { start: usize, end: usize },
    Inner { start: usize, end: usize },
}

impl Records {
    pub(crate) fn new(encoding: Encoding, data: Range<u64>) -> Self {
        Self {
            encoding,
            left: data,
            window: Vec::new(),
            at: 0,
            end: 0,
            inner: Vec::new(),
            inner_at: 0,
            inner_end: 0,
            packed: None,
            zstd: None,
            share: Share::default(),
            current: Current::Outer { start: 0, end: 0 },
            trouble: None,
        }
    }

    /// The current record, head included.
    #[inline]
    pub(crate) fn get(&self) -> &[u8] {
        match self.current {
            Current::Outer { start, end } => &self.window[start..end],
            Current::Inner { start, end } => &self.inner[start..end],
        }
    }

    /// Goes on to the next record; `false` at the end. Its type.
    #[inline]
    pub(crate) fn next(&mut self, input: &Input) -> io::Result<Option<u32>> {
        loop {
            if let Some((kind, size)) = self.head(&self.inner[self.inner_at..self.inner_end]) {
                let start = self.inner_at;
                if size < HEAD {
                    self.stop("a record inside compressed data is shorter than its head");
                    return Ok(None);
                }
                if start + size <= self.inner_end {
                    self.inner_at += size;
                    self.current = Current::Inner { start, end: start + size };
                    return Ok(Some(kind));
                }
            }
            if self.packed.is_none() {
                match self.outer(input)? {
                    Some(COMPRESSED) => self.packed = self.content(),
                    Some(COMPRESSED2) => self.packed = self.sized(),
                    other => return Ok(other),
                }
            }
            if let Err(error) = self.unpack(input) {
                self.stop(&format!("cannot unpack compressed records: {error}"));
                return Ok(None);
            }
        }
    }

    /// What of the window was not read yet.
    #[inline]
    fn rest(&self) -> &[u8] {
        &self.window[self.at..self.end]
    }

    /// Hands `hold` the samples that come next, as long as they lie whole in what is in memory and have the
    /// ordinary form of this layout: little-endian, with nothing of a variable length before the body. `false`
    /// leaves the sample.
    #[inline(always)]
    pub(crate) fn samples(&mut self, layout: &Layout, mut hold: impl FnMut(Ordinary<'_>) -> bool) {
        let (bytes, at) = if self.inner_at < self.inner_end {
            (&self.inner[..self.inner_end], &mut self.inner_at)
        } else if self.packed.is_some() {
            return;
        } else {
            (&self.window[..self.end], &mut self.at)
        };
        let mut rest = bytes.get(*at..).unwrap_or_default();
        while let Some(sample) = layout.ordinary_sample(rest)
            && hold(sample)
        {
            rest = rest.get(sample.size..).unwrap_or_default();
        }
        *at = bytes.len() - rest.len();
    }

    #[inline]
    fn head(&self, bytes: &[u8]) -> Option<(u32, usize)> {
        let head = bytes.first_chunk::<HEAD>()?;
        let kind = self.encoding.u32([head[0], head[1], head[2], head[3]]);
        Some((kind, self.encoding.u16([head[6], head[7]]).into()))
    }

    #[inline]
    fn outer(&mut self, input: &Input) -> io::Result<Option<u32>> {
        let whole = |rest: &[u8]| self.head(rest).is_some_and(|(_, size)| size <= rest.len());
        if !whole(self.rest()) && !self.left.is_empty() {
            self.fill(input)?;
        }
        let rest = self.rest();
        if rest.is_empty() {
            return Ok(None);
        }
        let Some((kind, size)) = self.head(rest) else {
            self.stop("the file ends inside a record's head");
            return Ok(None);
        };
        if size < HEAD {
            self.stop("a record is shorter than its head");
            return Ok(None);
        }
        if size > rest.len() {
            self.stop("the file ends inside a record");
            return Ok(None);
        }
        let start = self.at;
        self.at += size;
        self.current = Current::Outer { start, end: self.at };
        if kind == AUXTRACE {
            let size = self.get().get(8..).and_then(|rest| rest.first_chunk());
            let size = size.map_or(0, |bytes| self.encoding.u64(*bytes));
            self.skip(size);
        }
        Ok(Some(kind))
    }

    #[cold]
    fn fill(&mut self, input: &Input) -> io::Result<()> {
        self.window.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        let want = usize::try_from(self.left.end - self.left.start).unwrap_or(usize::MAX);
        let want = want.min(WINDOW);
        let full = self.end + want;
        if self.window.len() < full {
            self.window.resize(full, 0);
        }
        let count = input.read_at(self.left.start, &mut self.window[self.end..full])?;
        self.end += count;
        self.left.start += count as u64;
        if count < want {
            let at = self.left.start;
            self.trouble.get_or_insert((at, "the file ends before its records do".into()));
            self.left.end = at;
        }
        Ok(())
    }

    /// Passes over bytes that follow a record without being part of it.
    fn skip(&mut self, bytes: u64) {
        let here = (self.end - self.at) as u64;
        if bytes <= here {
            self.at += usize::try_from(bytes).expect("it lies in the window");
        } else {
            self.at = self.end;
            self.left.start = self.left.start.saturating_add(bytes - here).min(self.left.end);
        }
    }

    /// The bytes that follow the current record, `size` of them padded to eight; `None` at the end.
    pub(crate) fn payload(&mut self, input: &Input, size: u32) -> io::Result<Option<Vec<u8>>> {
        let start = self.left.start - (self.end - self.at) as u64;
        let padded = u64::from(size).next_multiple_of(8);
        if start + u64::from(size) > input.len() {
            self.stop("the file ends inside its format texts");
            return Ok(None);
        }
        let mut bytes = vec![0; size as usize];
        let count = input.read_at(start, &mut bytes)?;
        bytes.truncate(count);
        self.skip(padded);
        Ok(Some(bytes))
    }

    fn stop(&mut self, what: &str) {
        let at = self.left.start.saturating_sub((self.end - self.at) as u64);
        self.trouble.get_or_insert((at, what.to_owned()));
        self.at = self.end;
        self.left.end = self.left.start;
        self.inner_at = self.inner_end;
        self.packed = None;
    }

    /// What the current record holds.
    fn content(&self) -> Option<Range<usize>> {
        match self.current {
            Current::Outer { start, end } => Some(start + HEAD..end),
            Current::Inner { .. } => None,
        }
    }

    /// The same of the newer kind of compressed record, which says how much of it is data; the rest is padding.
    fn sized(&self) -> Option<Range<usize>> {
        let Range { start, end } = self.content()?;
        let (size, rest) = self.window[start..end].split_first_chunk()?;
        let size = usize::try_from(self.encoding.u64(*size)).unwrap_or(usize::MAX);
        Some(end - rest.len()..end - rest.len() + size.min(rest.len()))
    }

    /// Unpacks a step of the compressed record at hand behind what was unpacked and not yet read, which is less
    /// than a record. One stream runs through all of them.
    fn unpack(&mut self, input: &Input) -> io::Result<()> {
        let Some(packed) = &mut self.packed else { return Ok(()) };
        self.inner.copy_within(self.inner_at..self.inner_end, 0);
        self.inner_end -= self.inner_at;
        self.inner_at = 0;
        if self.inner.len() < self.inner_end + STEP {
            self.inner.resize(self.inner_end + STEP, 0);
        }
        let mut source = InBuffer::around(&self.window[packed.clone()]);
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => {
                none.insert(decoder(&self.window[packed.clone()], input.budget(), &mut self.share)?)
            }
        };
        let places = &mut self.inner[self.inner_end..self.inner_end + STEP];
        let mut target = OutBuffer::around(places);
        zstd.run(&mut source, &mut target)?;
        let read = source.pos();
        let written = target.pos();
        self.inner_end += written;
        packed.start += read;
        // What is left of the output comes with the next step.
        if packed.start >= packed.end && written < STEP {
            self.packed = None;
        }
        Ok(())
    }
}

/// A decoder for the stream that begins with `frame` (RFC 8878). What it remembers of the unpacked bytes, 128 MiB at
/// most, comes out of the budget; a later frame must not ask for more.
fn decoder(frame: &[u8], budget: &Arc<Budget>, share: &mut Share) -> io::Result<Decoder<'static>> {
    let byte = |at: usize| u64::from(frame.get(at).copied().unwrap_or(0));
    // Behind the magic: what the head has, then a window of 2^(10 + e) bytes and eighths of it.
    let is_whole = byte(4) >> 5 & 1 == 1;
    let log = match is_whole {
        true => WINDOW_LOG_WHOLE,
        false => 10 + (byte(5) >> 3) + u64::from(byte(5) & 7 > 0),
    };
    let log = u32::try_from(log.max(WINDOW_LOG_LEAST)).unwrap_or(u32::MAX);
    if log > 27 || !share.grow(budget, 1 << log) {
        return Err(io::Error::other(format!("a window of 2^{log} bytes: {}", budget.refusal())));
    }
    let mut decoder = Decoder::new()?;
    decoder.set_parameter(DParameter::WindowLogMax(log))?;
    Ok(decoder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn record(kind: u32, content: &[u8]) -> Vec<u8> {
        let size = u16::try_from(HEAD + content.len()).unwrap();
        [&kind.to_le_bytes()[..], &[0, 0], &size.to_le_bytes(), content].concat()
    }

    /// Kinds of records with their sizes.
    type Kinds = Vec<(u32, usize)>;

    /// All records, and where and why reading stopped.
    fn read(bytes: Vec<u8>) -> (Kinds, Option<(u64, String)>) {
        let input = Input::memory(Path::new("x"), bytes);
        let mut records = Records::new(Encoding::default(), 0..input.len());
        let mut found = Vec::new();
        while let Some(kind) = records.next(&input).unwrap() {
            found.push((kind, records.get().len()));
        }
        assert_eq!(records.next(&input).unwrap(), None, "the end stays the end");
        (found, records.trouble)
    }

    #[test]
    fn what_a_processor_traced_by_itself_is_passed_over() {
        // It lies behind its record, within what is read at once, at its end, or far beyond.
        for size in [0, 8, 100, WINDOW - 24, WINDOW - 23, WINDOW, WINDOW + 1, 3 * WINDOW] {
            let head = record(AUXTRACE, &(size as u64).to_le_bytes());
            let bytes = [head, vec![0xff; size], record(FINISHED_ROUND, &[])].concat();
            let (found, trouble) = read(bytes);
            assert_eq!(found, [(AUXTRACE, 16), (FINISHED_ROUND, 8)], "{size} bytes");
            assert_eq!(trouble, None, "{size} bytes");
        }
        let beyond = record(AUXTRACE, &u64::MAX.to_le_bytes());
        assert_eq!(read([beyond, record(COMM, &[])].concat()), (vec![(AUXTRACE, 16)], None));
    }

    #[test]
    fn the_bytes_behind_a_record_are_handed_out_and_their_padding_passed_over() {
        let bytes = [record(HEADER_TRACING_DATA, &[5, 0, 0, 0]), b"abcde".to_vec(), vec![0xff; 3]];
        let bytes = [bytes.concat(), record(FINISHED_ROUND, &[])].concat();
        let input = Input::memory(Path::new("x"), bytes);
        let mut records = Records::new(Encoding::default(), 0..input.len());
        assert_eq!(records.next(&input).unwrap(), Some(HEADER_TRACING_DATA));
        assert_eq!(records.payload(&input, 5).unwrap().as_deref(), Some(&b"abcde"[..]));
        assert_eq!(records.next(&input).unwrap(), Some(FINISHED_ROUND));
        assert_eq!(records.payload(&input, 0).unwrap(), Some(Vec::new()), "up to the end");
        assert_eq!(records.payload(&input, 1).unwrap(), None);
        let (at, what) = records.trouble.clone().unwrap();
        assert_eq!((at, what.as_str()), (input.len(), "the file ends inside its format texts"));
    }

    #[test]
    fn the_place_where_records_make_no_sense_is_told() {
        let sound = || record(COMM, &[0; 24]);
        let short = [COMM.to_le_bytes(), [0, 0, 7, 0]].concat();
        let long = record(COMM, &[0; 24])[..31].to_vec();
        for (bytes, what) in [
            (short, "a record is shorter than its head"),
            (long, "the file ends inside a record"),
            (vec![0; 7], "the file ends inside a record's head"),
        ] {
            let (found, trouble) = read([sound(), bytes].concat());
            assert_eq!(found, [(COMM, 32)], "{what}");
            assert_eq!(trouble, Some((32, what.to_owned())));
        }
    }

    #[test]
    fn a_file_that_is_shorter_than_its_head_says_is_told() {
        let input = Input::memory(Path::new("x"), record(COMM, &[0; 24]));
        let mut records = Records::new(Encoding::default(), 0..1_000);
        assert_eq!(records.next(&input).unwrap(), Some(COMM));
        assert_eq!(records.next(&input).unwrap(), None);
        let ends = (32, "the file ends before its records do".to_owned());
        assert_eq!(records.trouble, Some(ends));
    }

    #[test]
    fn both_kinds_of_compressed_records_hold_records_across_their_ends() {
        let inner = [record(COMM, &[1; 24]), record(FORK, &[2; 40]), record(LOST, &[])].concat();
        let (first, second) = inner.split_at(50);
        let pack = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).unwrap();
        // The newer kind says how much of it is data: what lies behind is padding.
        let sized = |packed: Vec<u8>| {
            let size = (packed.len() as u64).to_le_bytes().to_vec();
            record(COMPRESSED2, &[size, packed, vec![0xff; 5]].concat())
        };
        let all = vec![(COMM, 32), (FORK, 48), (LOST, 8), (FINISHED_ROUND, 8)];
        let end = record(FINISHED_ROUND, &[]);
        let old = [record(COMPRESSED, &pack(first)), record(COMPRESSED, &pack(second))].concat();
        assert_eq!(read([old, end.clone()].concat()), (all.clone(), None));
        let new = [sized(pack(first)), sized(pack(second))].concat();
        assert_eq!(read([new, end.clone()].concat()), (all, None));
        let (found, trouble) = read([record(COMPRESSED, &[0xff; 20]), end].concat());
        assert!(found.is_empty() && trouble.unwrap().1.starts_with("cannot unpack"));
        let lies = pack(&[COMM.to_le_bytes(), [0, 0, 7, 0]].concat());
        let (found, trouble) = read(record(COMPRESSED, &lies));
        assert!(found.is_empty() && trouble.unwrap().1.contains("shorter than its head"));
    }
}
