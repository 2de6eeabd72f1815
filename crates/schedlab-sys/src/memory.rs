//! Where memory comes from and whether it stays.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// The largest NUMA node + 1 that a mask of ours can hold; the kernel's own limit.
const NODES: usize = 1024;
/// The number of words in the mask.
const WORDS: usize = NODES / 64;

/// Pages that the calling thread touches first come from these NUMA nodes alone, from now on
/// (`set_mempolicy`, `MPOL_BIND`).
///
/// # Errors
/// `EINVAL` for a node that is not there or has no memory, `ENOSYS` on a kernel without NUMA.
pub fn bind(nodes: &[u32]) -> io::Result<()> {
    let mut mask = [0_u64; WORDS];
    for &node in nodes {
        let word = mask.get_mut(node as usize / 64).ok_or(io::ErrorKind::InvalidInput)?;
        *word |= 1 << (node % 64);
    }
    // SAFETY: the mask has as many bits as it says; the kernel only reads it. It counts one bit less
    // than it is asked to.
    let result = unsafe {
        libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_BIND, mask.as_ptr(), NODES + 1)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Locks all memory of this process, what it will have later included, so that no page has to be
/// fetched.
///
/// # Errors
/// `ENOMEM` or `EPERM` beyond `RLIMIT_MEMLOCK`.
pub fn lock_pages() -> io::Result<()> {
    use rustix::mm::{MlockAllFlags, mlockall};
    Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?)
}

/// A file that lies in memory and has no name: it goes with the last process that has it open.
///
/// # Errors
/// Without memory or descriptors.
pub fn file(label: &str) -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(memfd_create(label, MemfdFlags::CLOEXEC)?.into())
}

/// A path by which other processes of this user open `file` while this process has it open.
#[must_use]
pub fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_file_in_memory_is_read_and_written_by_its_path() {
        let file = file("test").unwrap();
        let path = path_of(&file);
        std::fs::write(&path, "written").unwrap();
        let read = std::process::Command::new("cat").arg(&path).output().unwrap().stdout;
        assert_eq!(read, b"written");
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn memory_is_bound_to_a_node_that_is_there_and_to_no_other() {
        let tried = std::thread::spawn(|| (bind(&[0]), bind(&[1000]), bind(&[5000])));
        let (there, absent, too_large) = tried.join().unwrap();
        match there {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                drop(writeln!(
                    std::io::stderr(),
                    "MISSING: this kernel has no NUMA; not checked: binding memory to a node"
                ));
            }
            there => there.unwrap(),
        }
        assert!(absent.is_err());
        assert_eq!(too_large.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
