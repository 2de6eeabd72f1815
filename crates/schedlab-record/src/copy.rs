//! Reading a ring file of the spool: record by record, in order of time.
//!
//! Perf records are in order but for those that an interrupt pushed in between (a record takes its
//! time before its place), so a window of them is sorted, and its last few wait for the next one.
//! Pages of ftrace are in order. Memory: one window, for any length of the recording.

use super::RecordError;
use super::sample::{Sample, SampleLayout};
use super::spool::Source;
use super::stacks::Stacks;
use schedlab_model::Nanos;
use schedlab_sys::perf::record;
use schedlab_sys::regular_file;
use schedlab_trace::live::{Piece, walk_page};
use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroU32;
use std::path::Path;

/// Bytes of a window; a record has at most 64 KiB.
const WINDOW: usize = 4 << 20;
/// Records that wait for the next window: more than an interrupt ever logs.
const LATE: usize = 4096;

/// What a ring file holds.
pub(crate) enum Found<'a> {
    /// An event.
    Record(Nanos, &'a [u8]),
    /// The sample of the event before it: its task goes to sleep or wakes another, and its stack is kept.
    Stack(&'a Sample<'a>),
    Lost(Option<NonZeroU32>),
    /// A record of mappings or processes: its kind, all of it, its time.
    Beside(u32, &'a [u8], u64),
}

type Sink<'a> = dyn FnMut(Found<'_>) -> io::Result<()> + 'a;

/// How a ring file is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) source: Source,
    /// Bytes of a page of ftrace.
    pub(crate) page: usize,
    /// Where samples of perf hold stacks.
    pub(crate) stacks: Option<Stacks>,
    pub(crate) samples: SampleLayout,
}

/// Hands all of a ring file to `sink`; `false` when its end is cut. A file that is not there is
/// empty: the CPU went offline before it was opened.
pub(crate) fn read(path: &Path, layout: Layout, sink: &mut Sink<'_>) -> Result<bool, RecordError> {
    let file = match regular_file::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        opened => opened.map_err(RecordError::file(path))?,
    };
    match layout.source {
        Source::Perf => read_records(file, path, layout, sink),
        Source::Ftrace => read_pages(file, layout.page, sink).map_err(RecordError::file(path)),
    }
}

/// A record within a window.
struct At {
    time: Nanos,
    kind: u32,
    start: usize,
    len: usize,
}

fn read_records(
    mut file: File,
    path: &Path,
    layout: Layout,
    sink: &mut Sink<'_>,
) -> Result<bool, RecordError> {
    let mut window = Vec::with_capacity(WINDOW);
    let mut index: Vec<At> = Vec::new();
    loop {
        let read = (&mut file).take((WINDOW - window.len()) as u64).read_to_end(&mut window);
        let last = read.map_err(RecordError::file(path))? == 0;
        let used =
            walk(&window, layout.samples, &mut index).map_err(|offset| RecordError::Spool {
                path: path.to_owned(),
                what: format!("no record at byte {offset} of a window"),
            })?;
        index.sort_by_key(|at| at.time);
        // Copied stacks are long: a window may hold fewer records than wait.
        let keep = if last { 0 } else { LATE.min(index.len() / 2) };
        for at in index.drain(..index.len() - keep) {
            let bytes = &window[at.start..at.start + at.len];
            hand_on(&at, bytes, layout, sink).map_err(RecordError::file(path))?;
        }
        if last {
            return Ok(used == window.len());
        }
        // What waits moves to the front, in the order of time, and is walked again.
        let mut rest: Vec<u8> = Vec::with_capacity(WINDOW);
        for at in index.drain(..) {
            rest.extend_from_slice(&window[at.start..at.start + at.len]);
        }
        rest.extend_from_slice(&window[used..]);
        window = rest;
    }
}

/// Indexes the whole records of a window; returns how many bytes they are, or where nonsense begins.
fn walk(window: &[u8], samples: SampleLayout, index: &mut Vec<At>) -> Result<usize, usize> {
    index.clear();
    let mut start = 0;
    let mut time = Nanos::ZERO;
    while let Some(header) = window.get(start..start + record::HEADER) {
        let kind = u32::from_ne_bytes(header[..4].try_into().expect("four bytes"));
        let len = usize::from(u16::from_ne_bytes(header[6..].try_into().expect("two bytes")));
        if len < record::HEADER {
            return Err(start);
        }
        let Some(body) = window.get(start + record::HEADER..start + len) else { break };
        // A loss carries no time of its own here: it belongs behind what came before it.
        if kind == record::SAMPLE {
            let own = body.get(samples.time_at()..).and_then(|rest| rest.first_chunk());
            time = Nanos(u64::from_ne_bytes(*own.ok_or(start)?));
        } else if samples.has_task && kind != record::LOST {
            // The trailer ends with it.
            let own = body.last_chunk().ok_or(start)?;
            time = Nanos(u64::from_ne_bytes(*own));
        }
        index.push(At { time, kind, start, len });
        start += len;
    }
    Ok(start)
}

/// Hands on what a record says: its event and the stack behind it, a loss, or a mapping.
fn hand_on(at: &At, record: &[u8], layout: Layout, sink: &mut Sink<'_>) -> io::Result<()> {
    let body = &record[record::HEADER..];
    match at.kind {
        record::SAMPLE => {
            let Some(sample) = Sample::parse(body, layout.samples) else { return Ok(()) };
            sink(Found::Record(sample.time, sample.raw))?;
            match layout.stacks.is_some_and(|stacks| stacks.are_kept_of(&sample)) {
                true => sink(Found::Stack(&sample)),
                false => Ok(()),
            }
        }
        record::LOST => {
            let Some(count) = body.get(8..).and_then(|rest| rest.first_chunk()) else {
                return Ok(());
            };
            let count = u32::try_from(u64::from_ne_bytes(*count)).unwrap_or(u32::MAX);
            sink(Found::Lost(NonZeroU32::new(count)))
        }
        kind if layout.samples.has_task => sink(Found::Beside(kind, record, at.time.0)),
        _ => Ok(()),
    }
}

fn read_pages(mut file: File, page: usize, sink: &mut Sink<'_>) -> io::Result<bool> {
    let mut bytes = vec![0; page];
    loop {
        match read_full(&mut file, &mut bytes)? {
            0 => return Ok(true),
            count if count < page => return Ok(false),
            _ => {}
        }
        let mut result = Ok(());
        let walked = walk_page(&bytes, &mut |piece| {
            if result.is_ok() {
                result = sink(match piece {
                    Piece::Record(time, body) => Found::Record(time, body),
                    Piece::Lost(count) => Found::Lost(count),
                });
            }
        });
        result?;
        // A page that makes no sense further in: what follows on it is missing.
        if walked.is_err() {
            sink(Found::Lost(None))?;
        }
    }
}

/// Fills the buffer as far as the file goes.
fn read_full(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(time: u64, raw: &[u8]) -> Vec<u8> {
        let mut body = time.to_ne_bytes().to_vec();
        body.extend(u32::try_from(raw.len()).unwrap().to_ne_bytes());
        body.extend(raw);
        framed(record::SAMPLE, &body)
    }

    fn framed(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = u16::try_from(record::HEADER + body.len()).unwrap();
        [kind.to_ne_bytes().as_slice(), &[0, 0], &size.to_ne_bytes(), body].concat()
    }

    fn all(bytes: &[u8]) -> Result<(Vec<(u64, usize)>, bool), RecordError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        std::fs::write(&path, bytes).unwrap();
        let mut seen = Vec::new();
        let samples = SampleLayout::default();
        let layout = Layout { source: Source::Perf, page: 4096, stacks: None, samples };
        let whole = read(&path, layout, &mut |piece| {
            seen.push(match piece {
                Found::Record(time, body) => (time.0, body.len()),
                Found::Lost(count) => (0, count.map_or(0, |count| count.get() as usize)),
                Found::Stack(_) | Found::Beside(..) => return Ok(()),
            });
            Ok(())
        })?;
        Ok((seen, whole))
    }

    #[test]
    fn records_that_an_interrupt_pushed_in_are_put_in_order_and_a_loss_stays_where_it_was() {
        let lost = framed(record::LOST, &[9u64.to_ne_bytes(), 5u64.to_ne_bytes()].concat());
        let bytes = [sample(10, b"a"), sample(30, b"ccc"), lost, sample(20, b"bb")].concat();
        assert_eq!(all(&bytes).unwrap(), (vec![(10, 1), (20, 2), (30, 3), (0, 5)], true));
    }

    #[test]
    fn a_ring_file_longer_than_a_window_comes_out_whole_and_in_order() {
        let count = 2 * WINDOW as u64 / 100;
        let pairs =
            (0..count / 2).flat_map(|i| [sample(2 * i + 1, &[7; 80]), sample(2 * i, &[7; 80])]);
        let (seen, whole) = all(&pairs.collect::<Vec<_>>().concat()).unwrap();
        assert!(whole && seen.len() as u64 == count / 2 * 2);
        assert!(seen.iter().zip(0..).all(|((time, _), index)| *time == index));
    }

    #[test]
    fn long_records_of_which_a_window_holds_few_come_out_whole_and_in_order() {
        let count = 3 * WINDOW as u64 / 60_000 / 2 * 2;
        let all: Vec<_> = (0..count).map(|i| sample(i ^ 1, &[7; 60_000])).collect();
        let (seen, whole) = self::all(&all.concat()).unwrap();
        assert_eq!((seen.len() as u64, whole), (count, true));
        assert!(seen.iter().zip(0..).all(|((time, _), index)| *time == index));
    }

    #[test]
    fn a_cut_record_is_told_and_nonsense_is_an_error() {
        let bytes = [sample(1, b"a"), sample(2, b"b")].concat();
        assert_eq!(all(&bytes[..bytes.len() - 1]).unwrap(), (vec![(1, 1)], false));
        assert!(all(&[0; 64]).is_err());
    }
}
