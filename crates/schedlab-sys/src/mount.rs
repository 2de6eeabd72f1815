//! Mounting the kernel's own file systems, as the first process of a machine does.

use std::io;
use std::path::Path;

/// Mounts the file system `kind` (`proc`, `sysfs`, `tmpfs`, ...) at `place`, which is made if needed.
///
/// # Errors
/// When the folder cannot be made, or the kernel refuses: it has no such file system, or we have no right.
pub fn mount(kind: &str, place: &Path) -> io::Result<()> {
    use rustix::mount::{MountFlags, mount};
    std::fs::create_dir_all(place)?;
    Ok(mount(kind, place, kind, MountFlags::empty(), None::<&std::ffi::CStr>)?)
}

/// Shows files in place of others to this process and to those that it starts: (file, in place of this one). It gets a
/// mount namespace of its own; mounts of the machine still come in, and none of its own go out. With several threads, only
/// the calling one sees them.
///
/// # Errors
/// Without CAP_SYS_ADMIN, or when a file is not there.
pub fn show(places: &[(std::path::PathBuf, std::path::PathBuf)]) -> io::Result<()> {
    use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
    // SAFETY: a new mount namespace concerns no memory.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    places.iter().try_for_each(|(file, place)| Ok(mount_bind(file, place)?))
}
