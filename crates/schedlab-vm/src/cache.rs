//! What is kept for later: a folder of the user's cache, with one folder for each kernel, source and QEMU.
//!
//! A kernel is made under a temporary name and renamed when it is complete, so two that make the same
//! one at a time do not disturb each other, and one that is killed leaves no half kernel. What it does
//! leave, [`sweep`] removes.

use crate::VmError;
use schedlab_sys::lock::Lock;
use std::fs::Permissions;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// How names of folders begin that are being made; the process's number ends them.
const MAKING: &str = ".making-";
/// The bits of a mode that let others write.
const OTHERS_WRITE: u32 = 0o022;
/// The folder of a source that is being unpacked, in that source's folder.
pub(crate) const UNPACKING: &str = "unpacking";
/// The lock of a source's folder.
pub(crate) const LOCK: &str = "lock";

/// A folder of the cache, in `$XDG_CACHE_HOME/schedlab`, else below `~/.cache`, else in `/var/cache`. Not in
/// the temporary folder, where another user could plant a kernel.
fn folder(name: &str) -> PathBuf {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let home = || set("HOME").map(|home| home.join(".cache"));
    let above = set("XDG_CACHE_HOME").or_else(home).unwrap_or_else(|| "/var/cache".into());
    above.join("schedlab").join(name)
}

/// Refuses a place in the cache if somebody else could have put something there: programs and kernels from it run as
/// this user. `HOME` may be another user's, as after `su` or `sudo -E`.
///
/// # Errors
/// The place, or a folder of the cache above it, belongs to another user, or others can write to it.
pub fn check(place: &Path) -> Result<(), VmError> {
    let root = folder("");
    let user = schedlab_sys::process::user();
    for folder in place.ancestors().take_while(|folder| folder.starts_with(&root)) {
        let meta = match std::fs::metadata(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            meta => meta.map_err(VmError::io(format!("looking at {}", folder.display())))?,
        };
        let path = folder.display().to_string();
        let owner = meta.uid();
        let remedy = "set XDG_CACHE_HOME to a folder of your own";
        // What root put there could be anywhere.
        if owner != user && owner != 0 {
            let why = format!("it belongs to another user ({owner}): {remedy}");
            return Err(VmError::Cache { path, why });
        }
        if meta.mode() & OTHERS_WRITE != 0 {
            let why = format!("others can write to it: run `chmod go-w {path}`, or {remedy}");
            return Err(VmError::Cache { path, why });
        }
    }
    Ok(())
}

/// Makes a folder of the cache for this user alone, or checks the one that is there.
///
/// # Errors
/// When it cannot be made, or is not to be trusted.
pub(crate) fn make(folder: &Path) -> Result<(), VmError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(VmError::io(format!("making {}", folder.display())))?;
    check(folder)
}

/// The folder of fetched and built kernels.
pub(crate) fn kernels_folder() -> PathBuf {
    folder("kernels")
}

/// The folder of images of kernels' schedulers, for the simulator.
#[must_use]
pub fn images_folder() -> PathBuf {
    folder("images")
}

/// The folder of fetched QEMU programs.
pub(crate) fn emulators_folder() -> PathBuf {
    folder("qemu")
}

/// Where kernels are built: sources and objects, which stay for the next build.
pub(crate) fn builds() -> PathBuf {
    folder("builds")
}

/// Removes what commands left that were killed: folders that they had begun to make or to unpack. What a
/// process makes that lives stays.
pub fn sweep() {
    for folder in [kernels_folder(), images_folder(), emulators_folder()] {
        if check(&folder).is_ok() {
            sweep_folder(&folder);
        }
    }
    if check(&builds()).is_err() {
        return;
    }
    for source in files(&builds(), |_| true) {
        let unpacking = source.join(UNPACKING);
        // Who unpacks holds the lock.
        if unpacking.is_dir()
            && let Ok(_lock) = Lock::take(&source.join(LOCK))
        {
            let _ = std::fs::remove_dir_all(&unpacking);
        }
    }
}

fn sweep_folder(folder: &Path) {
    for left in files(folder, |name| name.starts_with(MAKING)) {
        if !lives(&left) {
            let _ = std::fs::remove_dir_all(&left);
        }
    }
}

/// Where the image of a kernel of our own build lies.
pub(crate) fn built(name: &str) -> PathBuf {
    kernels_folder().join(name).join("vmlinux")
}

/// The images of all kernels in the cache.
pub(crate) fn kernels() -> Vec<PathBuf> {
    let mut all = Vec::new();
    for folder in files(&kernels_folder(), |name| !name.starts_with('.')) {
        if check(&folder).is_err() {
            continue;
        }
        all.extend(files(&folder, |name| name.starts_with("vmlinu")));
    }
    all
}

/// The entries of a folder whose names fit, sorted.
pub fn files(folder: &Path, fits: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let fitting = entries.filter(|entry| entry.file_name().to_str().is_some_and(&fits));
    let mut all: Vec<PathBuf> = fitting.map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// A folder of the cache while it is made. Dropped before `finish`, it goes.
#[derive(Debug)]
pub struct Making {
    temporary: PathBuf,
    wanted: PathBuf,
}

impl Making {
    /// Begins the folder `name` in `folder`. What others began and did not finish before they died is
    /// removed.
    ///
    /// # Errors
    /// When the folder cannot be made or is not to be trusted.
    pub fn begin(folder: &Path, name: &str) -> Result<Self, VmError> {
        make(folder)?;
        sweep_folder(folder);
        let temporary = folder.join(format!("{MAKING}{name}-{}", std::process::id()));
        make(&temporary)?;
        Ok(Self { temporary, wanted: folder.join(name) })
    }

    /// Where to make it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.temporary
    }

    /// Gives `made`, a folder in it, its name. Another that was faster stays.
    pub(crate) fn finish(self, made: &Path) -> Result<PathBuf, VmError> {
        // Files inside have the modes that packages and the umask gave them, so the folder itself is closed to others.
        let closed = std::fs::set_permissions(made, Permissions::from_mode(0o700));
        match closed.and_then(|()| std::fs::rename(made, &self.wanted)) {
            Err(_) if self.wanted.is_dir() => {}
            other => other.map_err(VmError::io(format!("making {}", self.wanted.display())))?,
        }
        Ok(self.wanted.clone())
    }

    /// As `finish`, in the place of one that is there.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn finish_anew(self, made: &Path) -> Result<PathBuf, VmError> {
        if self.wanted.is_dir() {
            let old = self.temporary.join("old");
            // The one that has the old image open keeps it.
            let _ = std::fs::rename(&self.wanted, &old);
        }
        self.finish(made)
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.temporary);
    }
}

/// Whether the process whose number ends the name of `path` lives.
fn lives(path: &Path) -> bool {
    let name = path.to_string_lossy();
    let pid = name.rsplit('-').next().and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| Path::new("/proc").join(pid.to_string()).exists())
}
