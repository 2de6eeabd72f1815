//! Where a conversion goes: a file that appears when it is whole, or what can only be written to (`-`, a pipe, a
//! device), which gets all of it at the end.

use crate::error::TraceError;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
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
    let (part, _nameless) = place.part().map_err(|error| TraceError::io(to, error))?;
    let written = write(&part).map_err(|error| error.of(&part, to)).and_then(|written| {
        place.put(&part).map_err(|error| TraceError::io(to, error))?;
        Ok(written)
    });
    if written.is_err() && matches!(place, Place::File(_)) {
        // Nothing half-written stays; what it could not remove was not there.
        let _ = std::fs::remove_file(&part);
    }
    written
}

/// What [`replace`] writes until `to` is whole: for whoever ends in between and leaves nothing behind. `None` where
/// it has no name, and goes by itself.
#[must_use]
pub fn unfinished(to: &Path) -> Option<PathBuf> {
    match Place::of(to).ok()? {
        Place::File(to) => Some(beside(&to)),
        Place::Stream(_) => None,
    }
}

/// The name of an unfinished file.
fn beside(to: &Path) -> PathBuf {
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    to.with_file_name(name)
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

    /// Where it is written until it is whole; a file without a name lives as long as what stands beside its path.
    /// The file is made here and by nobody else: in a shared folder another user may have planted a link of this
    /// name, which is not followed.
    fn part(&self) -> io::Result<(PathBuf, Option<File>)> {
        match self {
            Self::File(to) => {
                let path = beside(to);
                // What an earlier process of this number left.
                let _ = std::fs::remove_file(&path);
                let made = OpenOptions::new().write(true).create_new(true).open(&path);
                made.map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => io::Error::new(
                        error.kind(),
                        format!("{} of another user is in the way: remove it", path.display()),
                    ),
                    _ => error,
                })?;
                Ok((path, None))
            }
            Self::Stream(_) => {
                let file = tempfile::tempfile()?;
                Ok((format!("/proc/self/fd/{}", file.as_raw_fd()).into(), Some(file)))
            }
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
