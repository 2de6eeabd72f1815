//! Where a source is built: its tree, its objects, and who uses it now.
//!
//! One build of a source at a time; others wait. Objects stay, so the next build compiles what changed.
//! A patch is applied to the tree for one build. A copy of it lies beside the tree meanwhile: if the
//! build is killed, the next one takes the patch out, or unpacks the source anew.

use crate::VmError;
use crate::cache;
use crate::kernel::debian;
use crate::program::run;
use schedlab_model::Nanos;
use schedlab_sys::lock::{Lock, LockError};
use schedlab_sys::{clock, process, regular_file, signal};
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A source while it is built.
#[derive(Debug)]
pub struct SourceTree {
    folder: PathBuf,
    tree: PathBuf,
    _lock: Lock,
}

impl SourceTree {
    /// Waits until no other build uses this source, and fetches it where it is not there yet.
    ///
    /// # Errors
    /// When the source cannot be had, or another build of it goes on beyond `until`.
    pub fn enter(source: &str, own: Option<&Path>, until: Nanos) -> Result<Self, VmError> {
        if own.is_none() && !source.starts_with("linux-source-") {
            return Err(VmError::Missing {
                what: format!("the source {source}"),
                remedy: "name a tree with a Kconfig, or a package such as linux-source-6.12"
                    .to_owned(),
            });
        }
        let own = own.map(std::fs::canonicalize).transpose();
        let own = own.map_err(VmError::io(source.to_owned()))?;
        let folder = cache::builds().join(match &own {
            Some(tree) => format!("tree-{}", short_hash(tree)),
            None => source.to_owned(),
        });
        let objects = folder.join("objects");
        cache::make(&objects)?;
        let lock = await_lock(&folder.join(cache::LOCK), until)?;
        let tree = own.clone().unwrap_or_else(|| folder.join(source));
        let workshop = Self { folder, tree, _lock: lock };
        if own.is_none() {
            workshop.restore();
            workshop.fetch(source)?;
        }
        Ok(workshop)
    }

    /// The folder of the source.
    #[must_use]
    pub fn tree(&self) -> &Path {
        &self.tree
    }

    /// The folder that holds all that is made of the source.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of the objects.
    pub(super) fn objects(&self) -> PathBuf {
        self.folder.join("objects")
    }

    /// Applies a patch until this is dropped.
    pub(super) fn apply(&mut self, patch: &Path) -> Result<(), VmError> {
        let copy = self.copy();
        let text = regular_file::read(patch, regular_file::TEXT_MAX)
            .map_err(VmError::io(format!("reading {}", patch.display())))?;
        // Plain: the folder of the build, which only this user can write to.
        std::fs::write(&copy, text).map_err(VmError::io(format!("writing {}", copy.display())))?;
        run(&mut self.patch(&[]), "applying the patch").map(|_| ())
    }

    fn copy(&self) -> PathBuf {
        self.folder.join("applied.patch")
    }

    fn patch(&self, how: &[&str]) -> Command {
        let mut command = Command::new("patch");
        let input = format!("--input={}", self.copy().display());
        command.args(["-p1", "--force", "--no-backup-if-mismatch", "--reject-file=-", &input]);
        command.args(how).current_dir(&self.tree);
        command
    }

    /// Reverts the patch that a build applied. If that fails, removes the tree.
    fn restore(&self) {
        if !self.copy().is_file() {
            return;
        }
        let tried = run(&mut self.patch(&["--reverse", "--dry-run"]), "looking for the patch");
        let undone = tried.and_then(|_| run(&mut self.patch(&["--reverse"]), "undoing the patch"));
        if undone.is_ok() || std::fs::remove_dir_all(&self.tree).is_ok() {
            let _ = std::fs::remove_file(self.copy());
        }
    }

    /// Unpacks Debian's source, under another name until it is complete.
    fn fetch(&self, package: &str) -> Result<(), VmError> {
        let at = self.folder.join(cache::UNPACKING);
        let _ = std::fs::remove_dir_all(&at);
        if self.tree.is_dir() {
            return Ok(());
        }
        std::fs::create_dir(&at).map_err(VmError::io(format!("making {}", at.display())))?;
        let fetched = unpack(package, &at).and_then(|tree| {
            std::fs::rename(&tree, &self.tree).map_err(VmError::io("keeping the source"))
        });
        let _ = std::fs::remove_dir_all(&at);
        fetched
    }
}

impl Drop for SourceTree {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Takes the lock, when the one that has it is done.
fn await_lock(path: &Path, until: Nanos) -> Result<Lock, VmError> {
    let signals = signal::catch().map_err(VmError::io("catching signals"))?;
    loop {
        match Lock::take(path) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Io { error, .. }) => {
                return Err(VmError::io(format!("locking {}", path.display()))(error));
            }
            Err(held @ LockError::Held { .. }) if clock::monotonic() > until => {
                let what = format!("{held}: wait for that build, or raise --time-limit");
                return Err(VmError::Busy(what));
            }
            Err(LockError::Held { .. }) => {}
        }
        let _ = process::poll(&[signals.fd()], Some(Nanos::from_millis(200)));
        if signals.caught().is_some() {
            return Err(VmError::Interrupted);
        }
    }
}

fn short_hash(path: &Path) -> String {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Debian's source, unpacked in `at`.
fn unpack(package: &str, at: &Path) -> Result<PathBuf, VmError> {
    debian::download_source(package, at)?;
    let missing =
        |remedy: &str| VmError::Missing { what: package.to_owned(), remedy: remedy.to_owned() };
    let Some(archive) = cache::files(at, |name| name.ends_with(".deb")).pop() else {
        return Err(missing("apt-get fetched nothing: run apt-get update"));
    };
    let unpacked = at.join("package");
    run(Command::new("dpkg").arg("-x").arg(&archive).arg(&unpacked), "unpacking the source")?;
    let sources = cache::files(&unpacked.join("usr/src"), |name| name.contains(".tar."));
    let Some(tar) = sources.first() else {
        return Err(missing("the package does not hold a source"));
    };
    run(Command::new("tar").arg("-xf").arg(tar).current_dir(at), "unpacking the source")?;
    Ok(at.join(package))
}
