//! A folder for what a command needs only while it runs; what one that was killed left behind goes with the next.

use anyhow::Context as _;
use schedlab_sys::guard::{Guard, Undo};
use schedlab_sys::temporary::{TempDir, folder_in};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where runs are stored: where the user said, or only until the command ends.
#[derive(Debug)]
pub(crate) enum Folder {
    Kept(PathBuf),
    Scratch(Scratch),
}

impl Folder {
    pub(crate) fn of(output: Option<&Path>, purpose: &str) -> anyhow::Result<Self> {
        let Some(path) = output else { return Ok(Self::Scratch(Scratch::new(purpose)?)) };
        std::fs::create_dir_all(path).with_context(|| path.display().to_string())?;
        Ok(Self::Kept(path.to_owned()))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Scratch(scratch) => scratch.path(),
        }
    }
}

/// A folder in the temporary one that only its user can look into, removed with all that is in it when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: TempDir,
    /// Removes it if this process is killed. Without a guard the next command of this kind does.
    _ends: Option<Guard>,
}

impl Scratch {
    /// Makes `schedlab-PURPOSE-PID-RANDOM`, which nobody can have made before. Removes those of this user for the
    /// same purpose whose process is gone.
    ///
    /// # Errors
    /// With the folder's path, if it cannot be made.
    pub(crate) fn new(purpose: &str) -> io::Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "what is in it is checked for its owner")]
        let parent = std::env::temp_dir();
        // Armed first: a guardian takes milliseconds to start, in which the folder would be nobody's.
        let mut ends = Guard::arm().ok();
        let folder = Self::within(&parent, purpose)?;
        if let Some(guard) = &mut ends {
            guard.before(Undo::RemoveTree { path: folder.path().to_owned() })?;
        }
        Ok(Self { folder, _ends: ends })
    }

    fn within(parent: &Path, purpose: &str) -> io::Result<TempDir> {
        let prefix = format!("schedlab-{purpose}-");
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let rest = name.to_str().and_then(|name| name.strip_prefix(&prefix));
            let pid = rest.and_then(|rest| rest.split('-').next()?.parse().ok());
            let gone = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();
            if pid.is_some_and(gone) && is_our_folder(&entry.path()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let named = format!("{prefix}{}-", std::process::id());
        folder_in(parent, &named)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Whether it is a folder, not a link to one, and belongs to this user: another's is not ours to remove.
fn is_our_folder(path: &Path) -> bool {
    let us = schedlab_sys::process::user();
    let ours = |meta: std::fs::Metadata| meta.is_dir() && meta.uid() == us;
    std::fs::symlink_metadata(path).is_ok_and(ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn what_the_killed_left_goes_and_what_others_use_stays() {
        let parent = tempfile::tempdir().unwrap();
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let left = parent.path().join(format!("schedlab-load-{}-x1", gone.id()));
        let used = parent.path().join("schedlab-load-1-x1");
        let other = parent.path().join(format!("schedlab-repeat-{}-x1", gone.id()));
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

    #[test]
    fn what_another_user_planted_is_neither_used_nor_removed() {
        let parent = tempfile::tempdir().unwrap();
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let link = parent.path().join("treasure");
        std::fs::create_dir(&link).unwrap();
        std::fs::write(link.join("kept"), "x").unwrap();
        // A link by the name of a folder that a dead process left, and by the name that was used once.
        let dead = parent.path().join(format!("schedlab-load-{}-x", gone.id()));
        let predictable = parent.path().join(format!("schedlab-load-{}", std::process::id()));
        for name in [&dead, &predictable] {
            std::os::unix::fs::symlink(&link, name).unwrap();
        }
        let planted = parent.path().join(format!("schedlab-load-{}-y", gone.id()));
        std::fs::create_dir(&planted).unwrap();
        let root = std::os::unix::fs::chown(&planted, Some(65_534), Some(65_534)).is_ok();
        let scratch = Scratch::within(parent.path(), "load").unwrap();
        assert!(link.join("kept").exists() && dead.is_symlink() && predictable.is_symlink());
        if root {
            assert!(planted.exists(), "another user's is not ours");
        } else {
            drop(writeln!(
                crate::output::stderr(),
                "MISSING: root; no folder of another user is planted in this test"
            ));
        }
        let meta = std::fs::symlink_metadata(scratch.path()).unwrap();
        assert_eq!(meta.mode() & 0o777, 0o700);
        assert!(meta.is_dir());
    }
}
