//! A file read by windows, and numbers read from it in order.
//!
//! No mapping: a mapped file that shrinks kills the process, a short read is only a short read.

use crate::budget::Budget;
use crate::encoding::Encoding;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Bytes that a [`Cursor`] reads at once.
const WINDOW: usize = 1 << 16;

/// Something to read a trace from.
#[derive(Debug)]
pub(crate) struct Input {
    path: PathBuf,
    bytes: Bytes,
    len: u64,
    budget: Arc<Budget>,
}

#[derive(Debug)]
enum Bytes {
    File(File),
    Memory(Arc<Vec<u8>>),
}

impl Input {
    /// A file that can be read by windows, under the name of what it holds.
    pub(crate) fn file(path: &Path, file: File, len: u64) -> Self {
        Self { path: path.to_owned(), bytes: Bytes::File(file), len, budget: Budget::new(len) }
    }

    /// Bytes in memory, under a name for messages.
    pub(crate) fn memory(path: &Path, bytes: Vec<u8>) -> Self {
        let len = bytes.len() as u64;
        let path = path.to_owned();
        let bytes = Bytes::Memory(Arc::new(bytes));
        Self { path, bytes, len, budget: Budget::new(len) }
    }

    /// A part of this input that lies in memory. The budget is that of the whole.
    pub(crate) fn part(&self, bytes: Vec<u8>) -> Self {
        let budget = Arc::clone(&self.budget);
        Self { budget, ..Self::memory(&self.path, bytes) }
    }

    /// The same input once more, without its bytes being copied, for a reader that begins when another one has ended.
    pub(crate) fn again(&self) -> io::Result<Self> {
        let bytes = match &self.bytes {
            Bytes::File(file) => Bytes::File(file.try_clone()?),
            Bytes::Memory(bytes) => Bytes::Memory(Arc::clone(bytes)),
        };
        let path = self.path.clone();
        let len = self.len;
        Ok(Self { path, bytes, len, budget: Budget::new(len) })
    }

    /// A part of this input, to be read from its first byte to its last.
    pub(crate) fn section(&self, at: u64, end: u64) -> io::Result<Section> {
        Ok(Section { input: self.again()?, at, end })
    }

    /// What the file's content may take.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// When the file was changed last; `None` in memory.
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        match &self.bytes {
            Bytes::File(file) => file.metadata().ok()?.modified().ok(),
            Bytes::Memory(_) => None,
        }
    }

    /// The length when it was opened.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `buffer` from `offset` on; fewer bytes than asked for when the file ends.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.bytes {
            Bytes::Memory(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|at| bytes.get(at..));
                let rest = rest.unwrap_or_default();
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
            Bytes::File(file) => {
                let mut done = 0;
                while done < buffer.len() {
                    match file.read_at(&mut buffer[done..], offset.saturating_add(done as u64)) {
                        Ok(0) => break,
                        Ok(count) => done += count,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        // Offsets beyond what the kernel can express lie beyond the end.
                        Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
                        Err(error) => return Err(error),
                    }
                }
                Ok(done)
            }
        }
    }
}

/// A part of an input. One that reaches beyond the end ends there.
pub(crate) struct Section {
    input: Input,
    at: u64,
    end: u64,
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let length = buffer.len().min(left);
        let read = self.input.read_at(self.at, &mut buffer[..length])?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Where reading had to stop, and why.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) offset: u64,
    pub(crate) what: String,
}

/// Reads numbers and texts one after the other.
pub(crate) struct Cursor<'a> {
    input: &'a Input,
    pub(crate) encoding: Encoding,
    offset: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(input: &'a Input, encoding: Encoding, offset: u64) -> Self {
        Self { input, encoding, offset, window: Vec::new(), window_at: 0 }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn seek(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// A complaint about the current place.
    pub(crate) fn stop(&self, what: impl Into<String>) -> Stop {
        Stop { offset: self.offset, what: what.into() }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let have = self.offset.checked_sub(self.window_at).and_then(|at| usize::try_from(at).ok());
        let bytes = have.and_then(|at| self.window.get(at..)).and_then(|w| w.first_chunk::<N>());
        let bytes = match bytes {
            Some(bytes) => *bytes,
            None => {
                self.fill()?;
                *self.window.first_chunk::<N>().ok_or_else(|| self.stop("the file ends here"))?
            }
        };
        self.offset += N as u64;
        Ok(bytes)
    }

    fn fill(&mut self) -> Result<(), Stop> {
        self.window.resize(WINDOW, 0);
        let count = self.input.read_at(self.offset, &mut self.window);
        let count = count.map_err(|error| self.stop(error.to_string()))?;
        self.window.truncate(count);
        self.window_at = self.offset;
        Ok(())
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Stop> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Stop> {
        Ok(self.encoding.u16(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Stop> {
        Ok(self.encoding.u32(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Stop> {
        Ok(self.encoding.u64(self.array()?))
    }

    /// Takes `bytes` of memory from the budget of the file.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Stop> {
        let budget = self.input.budget();
        if budget.take(bytes) { Ok(()) } else { Err(self.stop(budget.refusal())) }
    }

    /// `length` bytes. A length beyond the end of the file or of its budget is refused before memory is taken.
    pub(crate) fn bytes(&mut self, length: u64) -> Result<Vec<u8>, Stop> {
        let left = self.input.len().saturating_sub(self.offset);
        if length > left {
            return Err(
                self.stop(format!("a length of {length} bytes, but only {left} bytes remain"))
            );
        }
        self.take(length)?;
        let length = usize::try_from(length)
            .map_err(|_| self.stop("a length that does not fit into memory"))?;
        let mut bytes = vec![0; length];
        let count = self.input.read_at(self.offset, &mut bytes);
        let count = count.map_err(|error| self.stop(error.to_string()))?;
        if count < length {
            return Err(self.stop("the file became shorter while it was read"));
        }
        self.offset += length as u64;
        Ok(bytes)
    }

    /// Passes over `length` bytes.
    pub(crate) fn skip(&mut self, length: u64) -> Result<(), Stop> {
        let left = self.input.len().saturating_sub(self.offset);
        if length > left {
            return Err(
                self.stop(format!("a length of {length} bytes, but only {left} bytes remain"))
            );
        }
        self.offset += length;
        Ok(())
    }

    /// A text up to its NUL, at most `limit` bytes.
    pub(crate) fn text(&mut self, limit: usize) -> Result<String, Stop> {
        let mut text = Vec::new();
        loop {
            match self.u8()? {
                0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
                _ if text.len() == limit => return Err(self.stop("a name that does not end")),
                byte => text.push(byte),
            }
        }
    }

    /// Refuses anything but `expected`.
    pub(crate) fn expect(&mut self, expected: &[u8]) -> Result<(), Stop> {
        let start = self.offset;
        for &byte in expected {
            if self.u8()? != byte {
                let name = String::from_utf8_lossy(expected);
                let what = format!("missing '{}'", name.trim_end_matches('\0'));
                return Err(Stop { offset: start, what });
            }
        }
        Ok(())
    }
}
