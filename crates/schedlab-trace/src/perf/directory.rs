//! The folder that `perf record --threads` writes: `data` is a perf.data, and `data.0`, `data.1` ... hold further records,
//! those of one thread each.
//!
//! It is joined into one file without a name: that of `data`, then all records once more by about their time, then the
//! places of the features. What lies in the wrong order after that is put right as in any perf.data.

use super::head::Head;
use super::records::{self, Records};
use super::{MAGIC_BIG, MAGIC_LITTLE};
use crate::budget::on_disk;
use crate::encoding::Encoding;
use crate::error::TraceError;
use crate::input::Input;
use crate::new_file::nameless;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// Where the head says where the records begin and how long they are.
const DATA_AT: u64 = 40;
/// Bytes of records after which a round ends: more than what one thread's buffers hold of a moment.
const ROUND: usize = 16 << 20;
/// A record that says that a round ended: its type, no flags, its size.
const ROUND_END: [u8; 8] = [68, 0, 0, 0, 0, 0, 8, 0];
const ROUND_END_BIG: [u8; 8] = [0, 0, 0, 68, 0, 0, 0, 8];
/// The features that a head can have, and what the place of each takes.
const PLACES: u64 = 256 * 16;

/// The records of one file.
struct Stream {
    input: Input,
    records: Records,
    kind: u32,
    /// That of the record at hand, or of the last one that had one.
    time: u64,
}

impl Stream {
    /// Goes on; `None` at the end.
    fn next(&mut self, head: &Head) -> io::Result<Option<u64>> {
        let Some(kind) = self.records.next(&self.input)? else { return Ok(None) };
        let record = self.records.get();
        let time = match kind {
            records::SAMPLE => head
                .layout(record)
                .and_then(|layout| layout.sample(record, head.encoding))
                .map_or(0, |(when, _)| when.time),
            _ => head.layouts.first().map_or(0, |of| of.trailer(record, head.encoding).time),
        };
        // What perf writes by itself has no time.
        let has_time = kind < records::HEADER_ATTR;
        self.kind = kind;
        self.time = if has_time { self.time.max(time) } else { self.time };
        Ok(Some(self.time))
    }
}

/// What a folder of perf holds, as one file; `None` if the folder is none of perf.
pub(crate) fn joined(folder: &Path) -> Result<Option<File>, TraceError> {
    let path = folder.join("data");
    let failed = |error| TraceError::io(&path, &error);
    let Some(main) = regular(&path).map_err(failed)? else { return Ok(None) };
    let mut magic = [0; 8];
    main.read_at(0, &mut magic).map_err(failed)?;
    if magic != MAGIC_LITTLE && magic != MAGIC_BIG {
        return Ok(None);
    }
    let encoding = Encoding { big_endian: magic == MAGIC_BIG, long: 8 };
    let mut head = Head::new(encoding);
    let range = head
        .read(&main)
        .map_err(|stop| TraceError::broken(&path, "perf.data", stop.offset, &stop.what))?;
    let end = range.end;
    let mut streams = vec![Records::new(encoding, range)];
    let mut inputs = vec![main.again().map_err(failed)?];
    loop {
        let next = folder.join(format!("data.{}", streams.len() - 1));
        let Some(input) = regular(&next).map_err(|error| TraceError::io(&next, &error))? else {
            break;
        };
        streams.push(Records::new(encoding, 0..input.len()));
        inputs.push(input);
    }
    let streams = inputs.into_iter().zip(streams);
    let streams = streams.map(|(input, records)| Stream { input, records, kind: 0, time: 0 });
    join(&main, end, &head, streams.collect()).map(Some).map_err(failed)
}

/// The file at `path`; `None` if there is none.
fn regular(path: &Path) -> io::Result<Option<Input>> {
    let meta = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        meta => meta?,
    };
    // A FIFO would wait for its writer.
    match meta.is_file() {
        true => Ok(Some(Input::file(path, File::open(path)?, meta.len()))),
        false => Ok(None),
    }
}

fn join(main: &Input, end: u64, head: &Head, mut streams: Vec<Stream>) -> io::Result<File> {
    let mut out = BufWriter::with_capacity(1 << 17, nameless()?);
    io::copy(&mut main.section(0, main.len())?, &mut out)?;
    let start = out.stream_position()?;
    let encoding = head.encoding;
    let round_end = if encoding.big_endian { ROUND_END_BIG } else { ROUND_END };
    let mut order = BinaryHeap::new();
    for (index, stream) in streams.iter_mut().enumerate() {
        order.extend(stream.next(head)?.map(|time| Reverse((time, index))));
    }
    // Compressed records can stand for a disk full of them.
    let mut room = on_disk(streams.iter().map(|stream| stream.input.len()).sum());
    let mut round = 0;
    while let Some(Reverse((_, index))) = order.pop() {
        let stream = &mut streams[index];
        // The payload of an AUXTRACE record is not copied, so its size would name other records.
        if !matches!(stream.kind, records::FINISHED_ROUND | records::AUXTRACE) {
            let record = stream.records.get();
            room = room.checked_sub(record.len() as u64).ok_or_else(|| {
                let what = "the records of the folder unpack to over 128 times their size";
                io::Error::new(io::ErrorKind::InvalidData, what)
            })?;
            out.write_all(record)?;
            round += record.len();
        }
        if round >= ROUND {
            out.write_all(&round_end)?;
            round = 0;
        }
        order.extend(stream.next(head)?.map(|time| Reverse((time, index))));
    }
    if streams.iter().any(|stream| stream.records.trouble.is_some()) {
        // A record without a size: the reader stops there and warns, as it does in a single file.
        out.write_all(&[0; 8])?;
    }
    let length = out.stream_position()? - start;
    io::copy(&mut main.section(end, main.len())?.take(PLACES), &mut out)?;
    out.seek(SeekFrom::Start(DATA_AT))?;
    out.write_all(&[encoding.put_u64(start), encoding.put_u64(length)].concat())?;
    out.into_inner().map_err(io::IntoInnerError::into_error)
}
