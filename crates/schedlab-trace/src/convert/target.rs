//! Where a file goes that takes a while to write: a file that appears when it is whole, or what can only be written
//! to (`-`, a pipe, a device), which gets all of it at the end.

use crate::error::TraceError;
use crate::pipe_input::nameless;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// Writes a file by `write`, which is given another name for it: `to` appears only when it is whole,
/// and nothing stays of what failed. A link is followed; a pipe or a device is never replaced.
///
/// # Errors
/// Those of `write`, or the file cannot be given its name.
pub fn replace<T, E: From<TraceError>>(
    to: &Path,
    write: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    let failed = |error| TraceError::io(to, error);
    match Place::of(to)? {
        Place::File(file) => {
            let part = part_of(&file);
            claim(&part).map_err(failed)?;
            let written = write(&part).and_then(|written| {
                std::fs::rename(&part, &file).map_err(failed)?;
                Ok(written)
            });
            if written.is_err() {
                // What could not be removed was not there.
                let _ = std::fs::remove_file(&part);
            }
            written
        }
        Place::Stream(stream) => {
            let mut whole = nameless().map_err(failed)?;
            let written = write(Path::new(&format!("/proc/self/fd/{}", whole.as_raw_fd())))?;
            pass_on(&mut whole, &stream).map_err(failed)?;
            Ok(written)
        }
    }
}

/// What [`replace`] writes until `to` is whole: for a caller that ends in between and leaves nothing behind. `None` when that
/// has no name.
#[must_use]
pub fn unfinished(to: &Path) -> Option<PathBuf> {
    match Place::of(to).ok()? {
        Place::File(file) => Some(part_of(&file)),
        Place::Stream(_) => None,
    }
}

/// What stands under the target's name.
enum Place {
    /// A file, or nothing yet.
    File(PathBuf),
    /// Something to write to that is no file.
    Stream(PathBuf),
}

/// Links that are followed one after the other, as the kernel does.
const LINKS_MAX: usize = 40;

impl Place {
    fn of(to: &Path) -> Result<Self, TraceError> {
        if to == Path::new("-") {
            return Ok(Self::Stream("/dev/stdout".into()));
        }
        let Ok(meta) = std::fs::metadata(to) else { return Ok(Self::File(followed(to))) };
        if meta.is_dir() {
            let what = "cannot write to a directory: name a file in it";
            return Err(TraceError::io(to, io::Error::new(io::ErrorKind::IsADirectory, what)));
        }
        if !meta.is_file() {
            return Ok(Self::Stream(to.to_owned()));
        }
        Ok(Self::File(std::fs::canonicalize(to).unwrap_or_else(|_| to.to_owned())))
    }
}

/// Where a link leads whose end is not there yet.
fn followed(link: &Path) -> PathBuf {
    let mut path = link.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(next) = std::fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    path
}

/// Where a file is written until it is whole: beside it.
fn part_of(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    file.with_file_name(name)
}

/// Makes an unfinished file. Nobody else does: in a shared folder another user may have planted a link of its name,
/// which is not followed.
fn claim(part: &Path) -> io::Result<()> {
    // What an earlier process of this number left.
    let _ = std::fs::remove_file(part);
    let made = OpenOptions::new().write(true).create_new(true).open(part);
    made.map(drop).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::new(
            error.kind(),
            format!("cannot replace {}: it belongs to another user; remove it", part.display()),
        ),
        _ => error,
    })
}

fn pass_on(whole: &mut File, stream: &Path) -> io::Result<()> {
    let mut out = OpenOptions::new().write(true).open(stream)?;
    whole.rewind()?;
    match io::copy(whole, &mut out) {
        // Who reads it has seen enough, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        copied => copied.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt as _, symlink};

    fn put(to: &Path, text: &str) -> Result<(), TraceError> {
        replace(to, |part| std::fs::write(part, text).map_err(|error| TraceError::io(to, error)))
    }

    #[test]
    fn a_device_stays_a_device_and_a_link_a_link() {
        let dir = tempfile::tempdir().unwrap();
        put(Path::new("/dev/null"), "x").unwrap();
        assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let (file, to_file) = (dir.path().join("a"), dir.path().join("to-a"));
        let (absent, to_absent) = (dir.path().join("b"), dir.path().join("to-b"));
        std::fs::write(&file, "old").unwrap();
        symlink("a", &to_file).unwrap();
        symlink("b", &to_absent).unwrap();
        for (link, end) in [(&to_file, &file), (&to_absent, &absent)] {
            put(link, "new").unwrap();
            assert_eq!(std::fs::read_to_string(end).unwrap(), "new");
            assert!(std::fs::symlink_metadata(link).unwrap().is_symlink());
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4, "nothing else is left");
    }

    #[test]
    fn what_fails_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        std::fs::write(&file, "old").unwrap();
        let failed = replace(&file, |part| {
            std::fs::write(part, "half").unwrap();
            Err::<(), _>(TraceError::Empty { path: part.to_owned() })
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
