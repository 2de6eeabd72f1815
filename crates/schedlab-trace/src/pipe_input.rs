//! Input that can be read only once: a pipe or the standard input.
//!
//! It is copied into a file without a name, so that windows of it can be read and memory does not grow.

use crate::detect::{Form, SNIFFED, form};
use crate::error::TraceError;
use crate::input::Input;
use crate::new_file::nameless;
use flate2::read::MultiGzDecoder;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek as _};
use std::os::unix::fs::{FileExt as _, MetadataExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What was taken in by this process, by device and number of what it came from: a conversion looks at its
/// source more than once.
static TAKEN: Mutex<BTreeMap<(u64, u64), File>> = Mutex::new(BTreeMap::new());

/// How a file begins that gzip packed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What a gzip file may unpack to: a few bytes can stand for a disk full of zeroes. Texts of traces pack to a tenth.
const UNPACKED: u64 = 64 << 20;
const UNPACKED_PER_BYTE: u64 = 128;

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
                "gzip data unpacks to over 128 times its size: unpack it yourself if you trust it";
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        Ok(read)
    }
}

/// The name that stands for the standard input.
pub(crate) const STDIN: &str = "-";

/// What is at `path`, to be read by windows; `-` is the standard input.
pub(crate) fn input(path: &Path) -> Result<Input, TraceError> {
    let failed = |error| TraceError::io(path, error);
    let file = open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if meta.is_dir() {
        let error =
            io::Error::new(io::ErrorKind::IsADirectory, "is a directory: name a trace file");
        return Err(failed(error));
    }
    let mut magic = [0; 2];
    if meta.is_file() && file.read_at(&mut magic, 0).is_ok_and(|_| magic == GZIP) {
        let left = UNPACKED + UNPACKED_PER_BYTE * meta.len();
        let file = take(Unpacked { inner: MultiGzDecoder::new(file), left }, path, &meta)?;
        let len = file.metadata().map_err(failed)?.len();
        return Ok(Input::file(path, file, len));
    }
    if meta.is_file() {
        return Ok(Input::file(path, file, meta.len()));
    }
    // A pipe cannot be read by windows.
    let file = take(file, path, &meta)?;
    let len = file.metadata().map_err(failed)?.len();
    Ok(Input::file(path, file, len))
}

/// Opens `path`; `-` is the standard input.
fn open(path: &Path) -> io::Result<File> {
    File::open(if path == Path::new(STDIN) { Path::new("/dev/stdin") } else { path })
}

/// All that `pipe` gives, as a file. What is no trace may never end, so the first bytes decide whether the rest is worth
/// its room.
fn take(mut pipe: impl Read, path: &Path, meta: &Metadata) -> Result<File, TraceError> {
    let failed = |error| TraceError::io(path, error);
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (meta.dev(), meta.ino());
    if let Some(file) = taken.get(&key) {
        return file.try_clone().map_err(failed);
    }
    let mut file = nameless().map_err(failed)?;
    for look in [START, TEXT_START] {
        let begun = file.metadata().map_err(failed)?.len();
        io::copy(&mut Read::by_ref(&mut pipe).take(look - begun), &mut file).map_err(failed)?;
        let mut start = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut start)).map_err(failed)?;
        // What has ended is read as any file is.
        let goes_on = start.len() as u64 == look;
        match form(path, &start) {
            Err(error) if goes_on => return Err(error),
            Ok(Form::Text) if goes_on => {}
            _ => break,
        }
    }
    io::copy(&mut pipe, &mut file).map_err(failed)?;
    taken.insert(key, file.try_clone().map_err(failed)?);
    Ok(file)
}

/// Bytes that tell the formats apart.
const START: u64 = SNIFFED as u64;
/// Bytes of a text within which its first event must come: in a web page, some megabytes of script stand before it.
const TEXT_START: u64 = 8 << 20;

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
}
