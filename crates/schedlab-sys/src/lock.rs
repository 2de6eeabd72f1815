//! A lock that ends with the processes that hold it, however they end.
//!
//! It is a file under `flock`, which the kernel releases with the last descriptor of its owner. The
//! file says who that is. It is removed when the lock is released; one that `kill -9` left is taken over.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Characters of a command line that are shown.
const SHOWN: usize = 120;

/// A lock that this process holds until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else has it.
    #[error("{} is locked by {by}", path.display())]
    Held {
        path: PathBuf,
        /// Who, in words: `process 1234 (schedlab run x.toml)`.
        by: String,
    },
    /// A system call failed.
    #[error("{}: {error}", path.display())]
    Io {
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
}

impl Lock {
    /// Takes the lock of a file, which is made where it is absent; does not wait.
    ///
    /// # Errors
    /// When somebody else has it, or the file cannot be made.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let io = |error| LockError::Io { path: path.to_owned(), error };
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let mut file = options.custom_flags(libc::O_NOFOLLOW).open(path).map_err(io)?;
            match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(LockError::Held { path: path.to_owned(), by: holder(&mut file) });
                }
                Err(error) => return Err(io(error.into())),
            }
            // Who held it before may have removed the file after we opened it.
            if is_at(&file, path) {
                file.set_len(0).and_then(|()| file.write_all(own_name().as_bytes())).map_err(io)?;
                return Ok(Self { file, path: path.to_owned() });
            }
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before it is released: nobody else can have taken it.
        if is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether the path still leads to the open file.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), std::fs::symlink_metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (there.dev(), there.ino())
}

/// This process in words.
fn own_name() -> String {
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    format!("{} {}", std::process::id(), words.join(" "))
}

/// Who wrote into a lock, in words without control characters.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(plain).take(SHOWN).collect();
    match (read, text.split_once(' ')) {
        (Ok(_), Some((pid, words))) => format!("process {pid} ({words})"),
        _ => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_one_holder_who_is_named_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        let first = Lock::take(&path).unwrap();
        let refused = Lock::take(&path).unwrap_err().to_string();
        let name = format!("is locked by process {} (", std::process::id());
        assert!(refused.contains(&name), "{refused}");
        drop(first);
        assert!(!path.exists());
        drop(Lock::take(&path).unwrap());
    }

    #[test]
    fn a_file_that_a_dead_holder_left_is_taken_over_and_one_of_another_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        std::fs::write(&path, "1 somebody who was killed, with a long name\n").unwrap();
        let lock = Lock::take(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(&std::process::id().to_string()), "{text}");
        assert!(!text.contains("somebody"), "{text}");
        std::fs::remove_file(&path).unwrap();
        let other = Lock::take(&path).unwrap();
        drop(lock);
        assert!(path.exists());
        drop(other);
        assert!(!path.exists());
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        let aim = folder.path().join("aim");
        std::os::unix::fs::symlink(&aim, &path).unwrap();
        assert!(matches!(Lock::take(&path), Err(LockError::Io { .. })));
        assert!(!aim.exists());
    }
}
