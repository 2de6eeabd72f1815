//! What can be read only once: a pipe, the standard input. It is taken in whole, into a file without a name,
//! so that it can be read by windows and memory does not grow with it.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What was taken in by this process, by device and number of what it came from: a conversion looks at its
/// source more than once.
static TAKEN: Mutex<BTreeMap<(u64, u64), File>> = Mutex::new(BTreeMap::new());

/// The name that stands for the standard input.
pub(crate) const STDIN: &str = "-";

/// Opens `path`; `-` is the standard input.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::open(if path == Path::new(STDIN) { Path::new("/dev/stdin") } else { path })
}

/// All that `pipe` gives, as a file.
pub(crate) fn take(mut pipe: File, meta: &Metadata) -> io::Result<File> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (meta.dev(), meta.ino());
    if let Some(file) = taken.get(&key) {
        return file.try_clone();
    }
    let mut file = nameless()?;
    io::copy(&mut pipe, &mut file)?;
    taken.insert(key, file.try_clone()?);
    Ok(file)
}

/// A file in the temporary folder, without a name there, that goes when it is closed.
fn nameless() -> io::Result<File> {
    tempfile::tempfile().map_err(|error| {
        let what = format!("a pipe is kept in the temporary folder while it is read: {error}");
        io::Error::new(error.kind(), what)
    })
}
