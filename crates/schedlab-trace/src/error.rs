//! Why a trace could not be opened: the file, the place in it, and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file could not be opened as a trace, or a trace could not be written.
///
/// Only what leaves nothing to read is an error; what is wrong inside a trace is a
/// [`schedlab_model::Warning`] of its source.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", path.display())]
pub struct TraceError {
    kind: TraceErrorKind,
    path: PathBuf,
    message: String,
}

/// What kind of failure a [`TraceError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceErrorKind {
    /// The operating system refused.
    Io,
    /// The file has no bytes.
    Empty,
    /// The file has no format that this crate knows.
    Unknown,
    /// The right format, but its start cannot be read, so nothing can.
    Broken,
    /// A sound file that holds no scheduler trace.
    NoEvents,
    /// Nothing can be written under that name.
    Target,
}

impl TraceError {
    /// Wraps an I/O error with the file that it concerns.
    pub fn io(path: &Path, reason: &io::Error) -> Self {
        Self::new(TraceErrorKind::Io, path, reason.to_string())
    }

    /// The kind of failure; the message says the rest.
    #[must_use]
    pub const fn kind(&self) -> TraceErrorKind {
        self.kind
    }

    fn new(kind: TraceErrorKind, path: &Path, message: String) -> Self {
        Self { kind, path: path.to_owned(), message }
    }

    pub(crate) fn empty(path: &Path) -> Self {
        let message = "the file is empty (0 bytes): record the trace again".to_owned();
        Self::new(TraceErrorKind::Empty, path, message)
    }

    /// `seen` says in words what the file begins with.
    pub(crate) fn unknown(path: &Path, seen: &str) -> Self {
        let message = format!(
            "unknown trace format ({seen} at offset 0): use trace.dat, perf.data, Perfetto or ftrace text"
        );
        Self::new(TraceErrorKind::Unknown, path, message)
    }

    /// Reading stopped at `offset`, in bytes from the start; `what` is wrong there.
    pub(crate) fn broken(path: &Path, format: &str, offset: u64, what: &str) -> Self {
        let message = format!("{format}: {what} (at offset {offset})");
        Self::new(TraceErrorKind::Broken, path, message)
    }

    /// `what` says what the file holds instead, and how to record what is needed.
    pub(crate) fn no_events(path: &Path, format: &str, what: &str) -> Self {
        Self::new(TraceErrorKind::NoEvents, path, format!("{format}: {what}"))
    }

    /// `what` says why the file cannot be written, and what can be.
    pub(crate) fn target(path: &Path, what: &str) -> Self {
        Self::new(TraceErrorKind::Target, path, what.to_owned())
    }

    /// This error, naming `to` where it named `part`: `to` was written under the name `part` first.
    #[must_use]
    pub fn of(self, part: &Path, to: &Path) -> Self {
        match self.kind {
            TraceErrorKind::Io | TraceErrorKind::Target if self.path == part => {
                Self { path: to.to_owned(), ..self }
            }
            _ => self,
        }
    }
}
