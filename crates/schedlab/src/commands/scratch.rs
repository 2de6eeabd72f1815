//! A folder for what a command needs only while it runs; what one that was killed left behind goes with the next.

use std::io;
use std::path::{Path, PathBuf};

/// A folder in the temporary one, removed with all that is in it when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes `schedlab-PURPOSE-PID`. Removes those for the same purpose whose process is gone.
    ///
    /// # Errors
    /// With the folder's path, if it can't be made.
    pub(crate) fn new(purpose: &str) -> io::Result<Self> {
        Self::within(&std::env::temp_dir(), purpose)
    }

    fn within(parent: &Path, purpose: &str) -> io::Result<Self> {
        let prefix = format!("schedlab-{purpose}-");
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.strip_prefix(&prefix));
            let gone = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();
            if pid.and_then(|pid| pid.parse().ok()).is_some_and(gone) {
                // Another user's stays: it is not ours to remove.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let folder = parent.join(format!("{prefix}{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|e| io::Error::new(e.kind(), format!("creating {}: {e}", folder.display())))?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_killed_left_goes_and_what_others_use_stays() {
        let parent = tempfile::tempdir().unwrap();
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let left = parent.path().join(format!("schedlab-load-{}", gone.id()));
        let used = parent.path().join("schedlab-load-1");
        let other = parent.path().join(format!("schedlab-repeat-{}", gone.id()));
        for folder in [&left, &used, &other] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("stderr"), "x").unwrap();
        }
        let scratch = Scratch::within(parent.path(), "load").unwrap();
        assert!(!left.exists() && used.exists() && other.exists());
        let own = scratch.path().to_owned();
        assert!(own.is_dir());
        drop(scratch);
        assert!(!own.exists());
    }
}
