//! Leases on portions: files that name the worker that runs a portion, and since when.
//!
//! A worker takes a lease by making a link, which either succeeds or exists already, also on NFS. The worker
//! renews the lease by writing it again. All times are those of the file system, so clocks of machines need
//! not agree. Another worker may take over a lease that was not renewed for its length. If the first holder
//! still lives, a run is done twice: both results are the same run, and it is counted once.

use crate::store::StoreError;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The claims on the portions of a plan, as one worker sees them.
pub(super) struct Claims {
    folder: PathBuf,
    worker: String,
    lease: Duration,
}

/// A portion that this worker may do. Dropped, it is free again.
pub(super) struct Claim {
    path: PathBuf,
    worker: String,
    lease: Duration,
    renewed: Instant,
}

impl Claims {
    pub(super) fn new(frozen: &Path, worker: &str, lease: Duration) -> Result<Self, StoreError> {
        let folder = frozen.join("claims");
        fs::create_dir_all(&folder).map_err(|e| StoreError::io(&folder, e))?;
        Ok(Self { folder, worker: worker.to_owned(), lease })
    }

    /// Claims a portion; `None` where somebody else has it.
    pub(super) fn take(&self, portion: usize) -> Result<Option<Claim>, StoreError> {
        let path = self.folder.join(portion.to_string());
        if !self.is_free(&path)? {
            return Ok(None);
        }
        let own = self.stamp()?;
        let made = fs::hard_link(&own, &path);
        // What is linked must not be written again through another claim.
        fs::remove_file(&own).map_err(|e| StoreError::io(&own, e))?;
        match made {
            Ok(()) => {
                let (worker, lease) = (self.worker.clone(), self.lease);
                Ok(Some(Claim { path, worker, lease, renewed: Instant::now() }))
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(StoreError::io(&path, error)),
        }
    }

    /// Whether nobody has the claim. One that is too old is removed.
    fn is_free(&self, path: &Path) -> Result<bool, StoreError> {
        let Some(renewed) = changed(path)? else { return Ok(true) };
        let own = self.stamp()?;
        let now = changed(&own)?.unwrap_or(renewed);
        let age = now.duration_since(renewed).unwrap_or_default();
        if age < self.lease {
            fs::remove_file(&own).map_err(|e| StoreError::io(&own, e))?;
            return Ok(false);
        }
        // Only one of several wins the renaming; the others find the claim gone, or a new one.
        let _ = fs::rename(path, &own);
        let _ = fs::remove_file(&own);
        Ok(true)
    }

    /// A new file with the worker's name, stamped with the time of the file system.
    fn stamp(&self) -> Result<PathBuf, StoreError> {
        let path = self.folder.join(format!(".{}", self.worker));
        fs::write(&path, format!("{}\n", self.worker)).map_err(|e| StoreError::io(&path, e))?;
        Ok(path)
    }
}

impl Claim {
    /// Renews it when a good part of the lease has passed, unless somebody else has it by now.
    pub(super) fn renew(&mut self) {
        if self.renewed.elapsed() >= self.lease / 10 && self.is_ours() {
            // A claim that cannot be renewed is taken over in time; the run is then counted once.
            let _ = fs::write(&self.path, format!("{}\n", self.worker));
            self.renewed = Instant::now();
        }
    }

    fn is_ours(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|text| text.trim_end() == self.worker)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.is_ours() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// When a file was last written; `None` where it is gone.
fn changed(path: &Path) -> Result<Option<SystemTime>, StoreError> {
    match fs::metadata(path).and_then(|meta| meta.modified()) {
        Ok(time) => Ok(Some(time)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io(path, error)),
    }
}
