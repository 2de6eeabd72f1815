//! Why a trace could not be opened: the file, the place in it, and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file could not be opened as a trace, or a trace could not be written.
///
/// Only what leaves nothing to read is an error; what is wrong inside a trace is a
/// [`schedlab_model::Warning`] of its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system refused.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// Its reason; part of the message, so not told again as its source.
        reason: io::Error,
    },
    /// The file has no bytes.
    #[error("{}: the file is empty (0 bytes): record the trace again", path.display())]
    Empty {
        /// The path of the file.
        path: PathBuf,
    },
    /// No format that is known here.
    #[error(
        "{}: unknown trace format ({seen} at offset 0): use trace.dat, perf.data, Perfetto or \
         ftrace text",
        path.display()
    )]
    Unknown {
        /// The path of the file.
        path: PathBuf,
        /// What the file begins with, in words.
        seen: String,
    },
    /// The right format, but its start cannot be read, so nothing can.
    #[error("{}: {format}: {what} (at offset {offset})", path.display())]
    Broken {
        /// The path of the file.
        path: PathBuf,
        /// The format that it was taken for.
        format: &'static str,
        /// Where reading stopped, in bytes from the start.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A sound file that holds no scheduler trace.
    #[error("{}: {format}: {what}", path.display())]
    NoEvents {
        /// The path of the file.
        path: PathBuf,
        /// The name of the format.
        format: &'static str,
        /// What it holds instead, and how to record what is needed.
        what: String,
    },
    /// Nothing can be written under that name.
    #[error("{}: {what}", path.display())]
    Target {
        /// The file that was asked for.
        path: PathBuf,
        /// Why not, and what can be.
        what: String,
    },
}

impl TraceError {
    /// Wraps an I/O error with the file that it concerns.
    pub fn io(path: &Path, reason: io::Error) -> Self {
        Self::Io { path: path.to_owned(), reason }
    }

    /// This error, naming `to` where it named `part`: `to` was written under the name `part` first.
    #[must_use]
    pub fn of(self, part: &Path, to: &Path) -> Self {
        match self {
            Self::Io { path, reason } if path == part => Self::Io { path: to.to_owned(), reason },
            Self::Target { path, what } if path == part => {
                Self::Target { path: to.to_owned(), what }
            }
            other => other,
        }
    }
}
