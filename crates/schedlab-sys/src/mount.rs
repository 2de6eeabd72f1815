//! Mounting the kernel's own file systems, as the first process of a machine does.

use std::io;
use std::path::Path;

/// Mounts the file system `kind` (`proc`, `sysfs`, `tmpfs`, ...) at `place`, which is made if needed.
///
/// # Errors
/// When the folder can't be made, or the kernel refuses: it has no such file system, or we have no right.
pub fn mount(kind: &str, place: &Path) -> io::Result<()> {
    use rustix::mount::{MountFlags, mount};
    std::fs::create_dir_all(place)?;
    Ok(mount(kind, place, kind, MountFlags::empty(), None::<&std::ffi::CStr>)?)
}
