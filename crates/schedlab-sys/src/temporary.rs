//! Folders in the temporary one, which other users share.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
pub use tempfile::TempDir;

/// A new folder that only this user can look into, by a name that nobody can have made before: `prefix` and random
/// letters. It goes with all that is in it when it is dropped.
///
/// # Errors
/// With the parent's path, if the folder cannot be made.
pub fn folder(prefix: &str) -> io::Result<TempDir> {
    #[expect(clippy::disallowed_methods, reason = "what is made there is new and private")]
    let parent = std::env::temp_dir();
    folder_in(&parent, prefix)
}

/// As [`folder`], in a folder of the caller's choice.
///
/// # Errors
/// As [`folder`].
pub fn folder_in(parent: &Path, prefix: &str) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    let made = builder.prefix(prefix).permissions(Permissions::from_mode(0o700)).tempdir_in(parent);
    let told = |e: io::Error| {
        io::Error::new(e.kind(), format!("creating a folder in {}: {e}", parent.display()))
    };
    made.map_err(told)
}
