//! A checkout of a user's repository that is ours: revisions are built in it, and theirs stays as it is.

use crate::VmError;
use crate::cache;
use crate::program::run;
use schedlab_sys::lock::Lock;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A checkout that shares its objects with the user's repository, so it has all commits at once. While it lives, nobody else uses it.
#[derive(Debug)]
pub struct Checkout {
    folder: PathBuf,
    _lock: Lock,
}

impl Checkout {
    /// The checkout of the repository in `tree`, made where it is absent.
    ///
    /// # Errors
    /// When git is missing, `tree` is no repository, or somebody else uses the checkout.
    pub fn of(tree: &Path) -> Result<Self, VmError> {
        let at = |error| VmError::io(format!("finding {}", tree.display()))(error);
        let tree = std::fs::canonicalize(tree).map_err(at)?;
        let digest = Sha256::digest(tree.as_os_str().as_encoded_bytes());
        let name: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let folder = cache::builds().join(format!("git-{name}"));
        cache::make(&folder)?;
        let lock = Lock::take(&folder.join(cache::LOCK))
            .map_err(|error| VmError::io("using the checkout")(std::io::Error::other(error)))?;
        let checkout = Self { folder, _lock: lock };
        if !checkout.path().join(".git").is_dir() {
            let mut command = Command::new("git");
            command.args(["clone", "--quiet", "--shared", "--no-checkout"]);
            command.arg(&tree).arg(checkout.path());
            run(&mut command, "copying the repository")?;
        }
        Ok(checkout)
    }

    /// Where the source is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join("checkout")
    }

    /// A folder for what belongs to the checkout.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The commit that a revision of the user's repository names.
    ///
    /// # Errors
    /// When there is none.
    pub fn commit(&self, tree: &Path, revision: &str) -> Result<String, VmError> {
        let mut command = Command::new("git");
        let word = format!("{revision}^{{commit}}");
        command.arg("-C").arg(tree).args(["rev-parse", "--verify", "--quiet", &word]);
        let found = run(&mut command, &format!("looking for the revision '{revision}'"))?;
        Ok(found.trim().to_owned())
    }

    /// Puts the source of a commit into the checkout; files that did not change keep their times.
    ///
    /// # Errors
    /// When git fails.
    pub fn check_out(&self, commit: &str) -> Result<(), VmError> {
        self.git(&["checkout", "--quiet", "--force", "--detach", commit]).map(|_| ())
    }

    /// Runs git in the checkout; returns what git printed on stdout.
    ///
    /// # Errors
    /// When git fails.
    pub fn git(&self, arguments: &[&str]) -> Result<String, VmError> {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.path()).args(arguments);
        run(&mut command, &format!("git {}", arguments.first().copied().unwrap_or_default()))
    }
}
