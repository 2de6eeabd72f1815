//! When what was written is on disk.

use std::fs::File;
use std::io;
use std::path::Path;

/// Writes all of a file system to disk, the one that holds this folder.
///
/// # Errors
/// When the folder is not there, or the system could not write.
pub fn sync(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(folder)?)?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_folder_is_synced_and_one_that_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        super::sync(folder.path()).unwrap();
        assert!(super::sync(&folder.path().join("none")).is_err());
    }
}
