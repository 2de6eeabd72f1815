//! Files that a user names, and files in folders of others: only regular ones, up to a size.
//!
//! A FIFO would wait for a writer for ever, and a device such as `/dev/zero` has no end. A pipe that the shell hands
//! over (`/dev/stdin`, `<(command)`) is read too: it has a writer. Traces are not read here: `schedlab-trace` reads
//! them by windows, and pipes by design.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Bytes of the largest text: an experiment, a table of costs, the metrics of a run.
pub const TEXT_MAX: u64 = 256 << 20;
/// Bytes of the largest program or kernel.
pub const PROGRAM_MAX: u64 = 2 << 30;

/// Where the descriptors lie that this process was handed.
const HANDED: [&str; 3] = ["/dev/stdin", "/dev/fd", "/proc/self/fd"];

/// Opens a regular file, or a pipe that this process was handed, to read it.
///
/// # Errors
/// Those of open(2); the file is a folder, a FIFO, a device or a socket.
pub fn open(path: &Path) -> io::Result<File> {
    let is_handed = HANDED.iter().any(|handed| path.starts_with(handed));
    // Opening a FIFO would wait. A regular file is read as ever.
    let flags = libc::O_NOCTTY | if is_handed { 0 } else { libc::O_NONBLOCK };
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    let is_read = kind.is_file() || is_handed && kind.is_fifo();
    if !is_read {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

/// All bytes of a regular file with at most `limit` of them.
///
/// # Errors
/// As [`open`]; those of read(2); the file is larger.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    if size <= limit {
        bytes.reserve_exact(usize::try_from(size).unwrap_or(0));
        // Files of the kernel have no size, and a file may grow.
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    }
    if size.max(bytes.len() as u64) > limit {
        let what = format!("larger than {} MiB", limit >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// The text of a regular file with at most [`TEXT_MAX`] bytes.
///
/// # Errors
/// As [`read`]; the file is not UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    let bytes = read(path, TEXT_MAX)?;
    String::from_utf8(bytes).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_or_never_begins_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
        for path in [fifo.as_path(), Path::new("/dev/zero")] {
            let error = text(path).unwrap_err();
            assert_eq!(error.to_string(), "not a regular file", "{}", path.display());
        }
        // A pipe that was handed over has a writer, and ends with it.
        let (read, write) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&write, b"handed").unwrap();
        drop(write);
        let number = std::os::fd::AsRawFd::as_raw_fd(&read);
        assert_eq!(text(Path::new(&format!("/dev/fd/{number}"))).unwrap(), "handed");
        assert_eq!(text(dir.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(text(&dir.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_ends_where_it_may() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"four");
        assert_eq!(read(&path, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(text(&path).unwrap(), "four");
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(text(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        // A file of holes takes no room on the disk.
        File::options().write(true).open(&path).unwrap().set_len(TEXT_MAX + 1).unwrap();
        assert_eq!(text(&path).unwrap_err().to_string(), "larger than 256 MiB");
        // What has no size of its own is read all the same.
        assert!(!text(Path::new("/proc/self/status")).unwrap().is_empty());
    }
}
