//! Run directories: written once under a temporary name, renamed, then only read.
//!
//! ```text
//! RESULTS/
//!   experiment.toml            the file, word for word
//!   runs/0123456789abcdef/     one run, named by its content
//!     manifest.json            spec, place in the experiment, outcome, facts before and after
//!     figures.jsonl            one figure a line
//!     intervals.jsonl          counts and histograms of each interval, one a line
//!     warnings.jsonl           one doubt a line
//!     trace.dat stdout stderr  what the machine wrote, where it did
//! ```
//!
//! A folder that begins with `.tmp-` is a run that was cut off; nobody reads it.

mod manifest;
mod stored;
mod writing;

pub use manifest::{Manifest, SCHEMA};
pub use stored::{StoredRun, StoredRuns, boots, runs_of};
pub use writing::RunWriter;
pub(crate) use writing::write_synced;

use std::io;
use std::path::{Path, PathBuf};

/// Why results can't be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// A file of a run directory is not what we write.
    #[error("{}, line {line}: {why}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// There are no results in a folder.
    #[error("{}: no results there: neither a run (manifest.json) nor an experiment's folder (runs/)", .0.display())]
    Nothing(PathBuf),
}

impl StoreError {
    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.to_owned(), error }
    }
}
