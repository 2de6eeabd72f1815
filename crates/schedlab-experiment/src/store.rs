//! Run directories: written once under a temporary name, renamed, then only read.
//!
//! ```text
//! RESULTS/
//!   experiment.toml            the file, word for word
//!   looks.json                 planned looks, and the repeats at each look that was taken
//!   runs/0123456789abcdef-01234567/  one run, named by its content and the place where it was done
//!     manifest.json            spec, place in the experiment, outcome, facts before and after
//!     figures.jsonl            one figure a line
//!     intervals.jsonl          counts and histograms of each interval, one a line
//!     warnings.jsonl           one warning a line
//!     trace.dat stdout stderr  what the machine wrote, where it did
//! ```
//!
//! A folder that begins with `.tmp-` is a run that was cut off; nobody reads it. One that begins with
//! `.damaged-` is a run that could not be read and was set aside. One that begins with `.failed-` is an attempt that
//! failed and was done again. `.lock` is there while runs are being done.

mod looks;
mod manifest;
mod place;
mod stored;
mod writing;

pub(crate) use looks::{keep_looks, looks_of};
pub use manifest::{Manifest, SCHEMA};
pub(crate) use place::Places;
use place::place_axes;
pub(crate) use place::{MEASURING, name_places};
pub use place::{Place, mixed_versions};
pub(crate) use stored::boots;
pub use stored::{StoredRun, StoredRuns, runs_of};
pub(crate) use writing::write_synced;
pub(crate) use writing::{Durable, RunWriter};
pub use writing::{FigureLine, IntervalLine};

use schedlab_sys::lock::{Lock, LockError};
use std::io;
use std::path::{Path, PathBuf};

/// Why results cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A system call failed.
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
        /// The path of the file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A run was written by another version of schedlab.
    #[error(
        "{}: schema is '{found}', this schedlab reads '{SCHEMA}': do the runs again in another folder (--output)",
        path.display()
    )]
    Version {
        /// The path of the manifest.
        path: PathBuf,
        /// The schema that it names.
        found: String,
    },
    /// Another process does runs into the same folder.
    #[error("{}: {by} stores runs there: wait for its end, or choose another folder", folder.display())]
    Locked {
        folder: PathBuf,
        /// The process that stores runs there, in words.
        by: String,
    },
    /// There are no results in a folder.
    #[error("{}: no results there: {}", .0.display(), instead(.0))]
    Nothing(PathBuf),
}

impl StoreError {
    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.to_owned(), error }
    }

    /// Whether a file of a run is missing or not what we wrote: then the run can be done again.
    #[must_use]
    pub(crate) fn is_damage(&self) -> bool {
        use io::ErrorKind::{InvalidData, NotFound};
        match self {
            Self::Malformed { .. } => true,
            Self::Io { error, .. } => matches!(error.kind(), NotFound | InvalidData),
            Self::Version { .. } | Self::Locked { .. } | Self::Nothing(_) => false,
        }
    }
}

/// What to name instead of a folder without results: a folder of `run -o` holds one folder for each experiment.
fn instead(folder: &Path) -> String {
    let below = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<String> = below
        .filter(|path| path.join("runs").is_dir())
        .map(|path| path.display().to_string())
        .collect();
    found.sort();
    match found.as_slice() {
        [] => "use the folder of a run (manifest.json) or of an experiment (runs/)".to_owned(),
        _ => format!("use {}", found.join(" or ")),
    }
}

/// Makes a folder of results this process's own, as long as the lock lives: two that do the runs of one plan
/// would do them twice.
pub(crate) fn lock(results: &Path) -> Result<Lock, StoreError> {
    std::fs::create_dir_all(results).map_err(|e| StoreError::io(results, e))?;
    Lock::take(&results.join(".lock")).map_err(|error| match error {
        LockError::Held { by, .. } => StoreError::Locked { folder: results.to_owned(), by },
        LockError::Io { path, error } => StoreError::Io { path, error },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_experiments_names_those_that_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let nothing = StoreError::Nothing(folder.path().to_owned());
        assert!(nothing.to_string().ends_with("or of an experiment (runs/)"), "{nothing}");
        std::fs::create_dir_all(folder.path().join("slice/runs")).unwrap();
        let instead = format!("no results there: use {}/slice", folder.path().display());
        assert!(nothing.to_string().ends_with(&instead), "{nothing}");
    }
}
