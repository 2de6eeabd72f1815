//! Files that hold a trace packed: gzip, a zip archive, and what `atrace -z` prints.
//!
//! No length in them is trusted: what they unpack to has a limit, and a place beyond the file is its end.

use crate::budget::on_disk;
use crate::detect::{SNIFFED, is_trace};
use crate::error::TraceError;
use crate::input::Input;
use flate2::Crc;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use std::io::{self, Read};

const GZIP: &[u8] = b"\x1f\x8b";
const ZIP: &[u8] = b"PK\x03\x04";
/// After this line comes what `atrace -z` packed by zlib.
const ATRACE: &[u8] = b"TRACE:\n";

/// What is unpacked of a member of an archive to see whether it is a trace.
const LOOK: u64 = 1 << 16;
/// Members of an archive that are looked at.
const MEMBERS: usize = 1000;

/// The bytes of the trace that `input` holds packed; `None` if it is not packed.
pub(crate) fn unpacked(input: &Input) -> Result<Option<Box<dyn Read>>, TraceError> {
    let mut start = [0; SNIFFED];
    let failed = |error| TraceError::io(input.path(), &error);
    let count = input.read_at(0, &mut start).map_err(failed)?;
    let start = &start[..count];
    let whole = |at: usize| input.section(at as u64, input.len());
    let inside: Box<dyn Read> = if start.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(whole(0).map_err(failed)?))
    } else if start.starts_with(ZIP) {
        member(input)?
    } else if let Some(at) = after_atrace(start) {
        Box::new(ZlibDecoder::new(whole(at).map_err(failed)?))
    } else {
        return Ok(None);
    };
    Ok(Some(Box::new(Unpacked { inner: inside, left: on_disk(input.len()) })))
}

/// Where the packed bytes of `atrace -z` begin.
fn after_atrace(start: &[u8]) -> Option<usize> {
    let at = start.windows(ATRACE.len()).position(|window| window == ATRACE)? + ATRACE.len();
    let head = u16::from_be_bytes(*start.get(at..)?.first_chunk()?);
    (start[..at].is_ascii() && head >> 8 & 0xf == 8 && head % 31 == 0).then_some(at)
}

/// Unpacked bytes up to a limit.
struct Unpacked<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            let what =
                "packed data unpacks to over 128 times its size: unpack it yourself if you trust it";
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        Ok(read)
    }
}

/// Bytes whose checksum is known.
struct Summed<R> {
    inner: R,
    sum: Crc,
    expected: u32,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.sum.update(&buffer[..read]);
        if read == 0 && !buffer.is_empty() && self.sum.sum() != self.expected {
            let what = "the archive is damaged: its checksum is that of other bytes";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(read)
    }
}

/// A file in a zip archive, as the archive's directory at its end tells it.
struct Member {
    name: String,
    flags: u16,
    method: u16,
    checksum: u32,
    packed: u32,
    at: u32,
}

impl Member {
    /// Reads an entry and gives what follows it.
    fn parse(entry: &[u8]) -> Option<(Self, &[u8])> {
        let u16_at = |at| Some(u16::from_le_bytes(*entry.get(at..)?.first_chunk()?));
        let u32_at = |at| Some(u32::from_le_bytes(*entry.get(at..)?.first_chunk()?));
        let head = entry.strip_prefix(b"PK\x01\x02")?.get(42..)?;
        let [name, extra, comment] = [u16_at(28)?, u16_at(30)?, u16_at(32)?].map(usize::from);
        let member = Self {
            name: String::from_utf8_lossy(head.get(..name)?).escape_debug().to_string(),
            flags: u16_at(8)?,
            method: u16_at(10)?,
            checksum: u32_at(16)?,
            packed: u32_at(20)?,
            at: u32_at(42)?,
        };
        Some((member, head.get(name + extra + comment..)?))
    }

    fn open(&self, input: &Input) -> Result<Box<dyn Read>, TraceError> {
        let refused = |what: &str| refused(input, &format!("{}: {what}", self.name));
        // The lengths of the names before the bytes stand once more, and need not be the same.
        let mut head = [0; 30];
        let failed = |error| TraceError::io(input.path(), &error);
        let count = input.read_at(self.at.into(), &mut head).map_err(failed)?;
        if count < head.len() || !head.starts_with(ZIP) || self.packed == u32::MAX {
            return Err(refused("its place in the archive is not valid, or beyond 4 GiB"));
        }
        let length = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
        let at = u64::from(self.at) + 30 + length(26) + length(28);
        let section = input.section(at, at + u64::from(self.packed)).map_err(failed)?;
        match (self.flags & 1, self.method) {
            (0, 0) => Ok(self.summed(section)),
            (0, 8) => Ok(self.summed(DeflateDecoder::new(section))),
            (0, _) => Err(refused("it is packed by another method than deflate: unpack it first")),
            _ => Err(refused("it is encrypted: unpack it first")),
        }
    }

    fn summed(&self, inner: impl Read + 'static) -> Box<dyn Read> {
        Box::new(Summed { inner, sum: Crc::new(), expected: self.checksum })
    }

    /// Whether its first bytes are those of a trace.
    fn is_trace(&self, input: &Input) -> bool {
        let mut start = Vec::new();
        let read = self.open(input).map(|member| member.take(LOOK).read_to_end(&mut start));
        read.is_ok() && is_trace(&start)
    }
}

fn refused(input: &Input, what: &str) -> TraceError {
    TraceError::no_events(input.path(), "zip archive", what)
}

/// The only file of an archive, or the only one of its files that is a trace.
fn member(input: &Input) -> Result<Box<dyn Read>, TraceError> {
    let directory = directory(input).map_err(|error| TraceError::io(input.path(), &error))?;
    let directory = directory.ok_or_else(|| refused(input, "its directory is missing or cut"))?;
    let mut members = Vec::new();
    let mut entry = directory.as_slice();
    while let Some((member, next)) = Member::parse(entry).filter(|_| members.len() < MEMBERS) {
        members.push(member);
        entry = next;
    }
    if Member::parse(entry).is_some() {
        return Err(refused(input, "it holds over 1000 files: unpack the trace"));
    }
    members.retain(|member| !member.name.ends_with('/'));
    if members.len() > 1 {
        members.retain(|member| member.is_trace(input));
    }
    match &members[..] {
        [only] => only.open(input),
        [] => {
            Err(refused(input, "none of its files begins as a trace: unpack it if one does later"))
        }
        [first, second, ..] => {
            let count = members.len();
            let first = &first.name;
            let second = &second.name;
            let what = format!("it holds {count} traces ({first}, {second}): unpack one of them");
            Err(refused(input, &what))
        }
    }
}

/// The directory of an archive: the end of the file says where it is, behind which a comment may follow.
fn directory(input: &Input) -> io::Result<Option<Vec<u8>>> {
    const END: usize = 22;
    let from = input.len().saturating_sub((END + usize::from(u16::MAX)) as u64);
    let mut tail = Vec::new();
    input.section(from, input.len())?.read_to_end(&mut tail)?;
    let Some(at) = tail.windows(END).rposition(|end| end.starts_with(b"PK\x05\x06")) else {
        return Ok(None);
    };
    let word = |at: usize| u64::from(u32::from_le_bytes([0, 1, 2, 3].map(|byte| tail[at + byte])));
    let length = word(at + 12);
    let start = word(at + 16);
    if start + length > input.len() || !input.budget().take(length) {
        return Ok(None);
    }
    let mut directory = Vec::new();
    input.section(start, start + length)?.read_to_end(&mut directory)?;
    Ok(Some(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacking_ends_with_an_error_at_its_limit() {
        let mut unpacked = Vec::new();
        let whole = Unpacked { inner: [7; 100].as_slice(), left: 100 }.read_to_end(&mut unpacked);
        assert_eq!((whole.unwrap(), unpacked), (100, vec![7; 100]));
        let error = io::copy(&mut Unpacked { inner: io::repeat(0), left: 100 }, &mut io::sink());
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn what_atrace_packed_begins_behind_its_line() {
        assert_eq!(after_atrace(b"capturing trace... done\nTRACE:\n\x78\x9c..."), Some(31));
        assert_eq!(after_atrace(b"TRACE:\n\x78\x9c"), Some(7));
        assert_eq!(after_atrace(b"TRACE:\n# tracer: nop\n"), None);
        assert_eq!(after_atrace(b"TRACE:\n\x78"), None);
    }
}
