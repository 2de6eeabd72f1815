//! Where a conversion goes: a file that appears when it is whole, or what can only be written to (`-`, a pipe, a
//! device), which gets all of it at the end.

use crate::error::TraceError;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Writes a file by `write`, which is given another name beside it: `to` appears only when it is whole,
/// and nothing stays of what failed. A link is followed; a pipe or a device is never replaced.
///
/// # Errors
/// Those of `write`, or the file can't be given its name.
pub fn replace<T>(
    to: &Path,
    write: impl FnOnce(&Path) -> Result<T, TraceError>,
) -> Result<T, TraceError> {
    let place = Place::of(to)?;
    let part = place.part();
    let written = write(&part).map_err(|error| error.of(&part, to)).and_then(|written| {
        place.put(&part).map_err(|error| TraceError::io(to, error))?;
        Ok(written)
    });
    if written.is_err() || matches!(place, Place::Stream(_)) {
        // Nothing half-written stays; what it could not remove was not there.
        let _ = std::fs::remove_file(&part);
    }
    written
}

/// What [`replace`] writes until `to` is whole: for whoever ends in between and leaves nothing behind.
#[must_use]
pub fn unfinished(to: &Path) -> Option<PathBuf> {
    Some(Place::of(to).ok()?.part())
}

/// What stands under the target's name.
enum Place {
    /// A file, or nothing yet.
    File(PathBuf),
    /// Something to write to that is no file.
    Stream(PathBuf),
}

impl Place {
    fn of(to: &Path) -> Result<Self, TraceError> {
        if to == Path::new("-") {
            return Ok(Self::Stream("/dev/stdout".into()));
        }
        let Ok(meta) = std::fs::metadata(to) else { return Ok(Self::File(to.to_owned())) };
        if meta.is_dir() {
            let what = "is a directory: name a file in it";
            return Err(TraceError::io(to, io::Error::new(io::ErrorKind::IsADirectory, what)));
        }
        if !meta.is_file() {
            return Ok(Self::Stream(to.to_owned()));
        }
        Ok(Self::File(std::fs::canonicalize(to).unwrap_or_else(|_| to.to_owned())))
    }

    /// Where it is written until it is whole.
    fn part(&self) -> PathBuf {
        let id = std::process::id();
        match self {
            Self::File(to) => {
                let mut name = to.file_name().unwrap_or_default().to_owned();
                name.push(format!(".{id}.part"));
                to.with_file_name(name)
            }
            Self::Stream(_) => std::env::temp_dir().join(format!("schedlab-{id}.part")),
        }
    }

    fn put(&self, part: &Path) -> io::Result<()> {
        match self {
            Self::File(to) => std::fs::rename(part, to),
            Self::Stream(to) => {
                let mut stream = OpenOptions::new().write(true).open(to)?;
                match io::copy(&mut File::open(part)?, &mut stream) {
                    // Who reads it has seen enough, as `head` does.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                    copied => copied.map(drop),
                }
            }
        }
    }
}
