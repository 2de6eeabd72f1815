//! Input that can be read only once: a pipe, the standard input, or what a file holds packed.
//!
//! It is copied into a file without a name, so that windows of it can be read and memory does not grow.

use crate::detect::{Form, SNIFFED, form};
use crate::error::TraceError;
use crate::input::Input;
use crate::new_file::nameless;
use crate::{packed, perf};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What was taken in by this process: a conversion looks at its source more than once.
static TAKEN: Mutex<BTreeMap<Source, File>> = Mutex::new(BTreeMap::new());

/// What it came from. A file may be written anew meanwhile, or another one get its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Source {
    device: u64,
    number: u64,
    /// Length and time of the last change, seconds and nanoseconds; of a pipe none.
    version: Option<(u64, i64, i64)>,
}

impl Source {
    fn of(meta: &Metadata) -> Self {
        let version = meta.is_file().then(|| (meta.len(), meta.ctime(), meta.ctime_nsec()));
        Self { device: meta.dev(), number: meta.ino(), version }
    }
}

/// The name that stands for the standard input.
pub(crate) const STDIN: &str = "-";

/// What is at `path`, to be read by windows; `-` is the standard input.
pub(crate) fn input(path: &Path) -> Result<Input, TraceError> {
    let failed = |error| TraceError::io(path, &error);
    let file = open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if meta.is_dir() {
        let Some(file) = perf::joined(path)? else {
            let what = "is a directory: name a trace file";
            return Err(failed(io::Error::new(io::ErrorKind::IsADirectory, what)));
        };
        let len = file.metadata().map_err(failed)?.len();
        return Ok(Input::file(path, file, len));
    }
    let bytes: Box<dyn Read> = if meta.is_file() {
        let input = Input::file(path, file, meta.len());
        match packed::unpacked(&input)? {
            Some(bytes) => bytes,
            None => return Ok(input),
        }
    } else {
        Box::new(file)
    };
    // Neither a pipe nor what is packed can be read by windows.
    let file = take(bytes, path, &meta)?;
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
    let failed = |error| TraceError::io(path, &error);
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = Source::of(meta);
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
