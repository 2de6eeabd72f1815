//! Network namespaces: sockets that belong to another one.

use crate::process::on_a_thread;
use std::fs::File;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;

/// Does `work` in the network namespace whose file is `path` (`/run/netns/NAME`). It is done on a
/// thread of its own, so that the caller stays where it is; sockets that it makes stay in that
/// namespace, the one that uses them.
///
/// # Errors
/// When the namespace is not there or may not be entered (CAP_SYS_ADMIN), and those of `work`.
pub fn inside<T: Send>(path: &Path, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let file = File::open(path)?;
    on_a_thread(move || {
        enter_file(&file)?;
        work()
    })
}

/// Moves the calling thread into the network namespace whose file is `path`, for good: for one that
/// becomes another program next.
///
/// # Errors
/// When the namespace is not there or may not be entered (CAP_SYS_ADMIN).
pub fn enter(path: &Path) -> io::Result<()> {
    enter_file(&File::open(path)?)
}

/// Does `work` in a network namespace of its own, which is gone when it is done: to try what nobody shall see.
///
/// # Errors
/// Without the right to make one (CAP_SYS_ADMIN), and those of `work`.
pub fn apart<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    on_a_thread(|| {
        unshare()?;
        work()
    })
}

fn unshare() -> io::Result<()> {
    // SAFETY: a new network namespace concerns the calling thread alone, and no memory.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn enter_file(file: &File) -> io::Result<()> {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// A UDP socket here that sends to one in the namespace, at its address `there`: (to read from, to
/// write to).
///
/// # Errors
/// As [`inside`], and what the network refuses.
pub fn udp_into(path: &Path, there: IpAddr) -> io::Result<(UdpSocket, UdpSocket)> {
    let read = inside(path, || UdpSocket::bind((there, 0)))?;
    let any: IpAddr = if there.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    let write = UdpSocket::bind((any, 0))?;
    write.connect(read.local_addr()?)?;
    Ok((read, write))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_inside_and_the_caller_stays() {
        let before = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        match inside(Path::new("/proc/self/ns/net"), || Ok(7)) {
            Ok(number) => assert_eq!(number, 7),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                use std::io::Write as _;
                let _ = writeln!(io::stderr(), "MISSING: CAP_SYS_ADMIN: no namespace was entered");
            }
        }
        assert_eq!(std::fs::read_link("/proc/thread-self/ns/net").unwrap(), before);
        assert!(inside(Path::new("/nowhere"), || Ok(())).is_err());
    }
    #[test]
    fn what_is_tried_apart_is_in_no_namespace_of_ours() {
        let before = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        match apart(|| std::fs::read_link("/proc/thread-self/ns/net")) {
            Ok(other) => assert_ne!(other, before),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        }
        assert_eq!(std::fs::read_link("/proc/thread-self/ns/net").unwrap(), before);
    }
}
