//! Reading tracefs: where it is mounted, or by a mount of our own that nobody else sees.

use crate::capability::{self, Need};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// A mounted tracefs that is open for reading.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// Holds a mount of our own; it is gone when this is dropped.
    _mount: Option<OwnedFd>,
}

/// Where systems mount it.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The number by which the kernel tells it from other file systems.
const MAGIC: rustix::fs::FsWord = 0x7472_6163;

impl Tracefs {
    /// The tracefs of this machine. Where none is mounted (or not for us), one is mounted detached
    /// from the file tree: it has no path, and goes when this value does.
    ///
    /// # Errors
    /// Without a readable mount and without `CAP_SYS_ADMIN`; or a kernel without tracing.
    pub fn open() -> io::Result<Self> {
        let mounted = PLACES.map(Path::new).into_iter().find(|place| is_tracefs(place));
        if let Some(place) = mounted {
            return Ok(Self::at(place));
        }
        use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
        let context = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_create(&context)?;
        let flags = FsMountFlags::FSMOUNT_CLOEXEC;
        let mount = rustix::mount::fsmount(&context, flags, MountAttrFlags::empty())?;
        // The mount has no path; the link of its descriptor serves as one, in every thread of ours.
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        if !is_tracefs(&root) {
            return Err(io::Error::other("tracefs is mounted, but does not show events"));
        }
        Ok(Self { root, _mount: Some(mount) })
    }

    /// A tracefs (or a tree that looks like one) at a path.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), _mount: None }
    }

    /// The path of its root, valid in this process.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether instances can be made and files be written, by opening one for writing: a locked
    /// kernel refuses that, even if the file's mode allows it.
    ///
    /// # Errors
    /// The refusal: `EACCES`, `EPERM`, or `EROFS` on a read-only mount.
    pub fn writable(&self) -> io::Result<()> {
        std::fs::OpenOptions::new().write(true).open(self.root.join("tracing_on"))?;
        use rustix::fs::{Access, AtFlags, CWD, accessat};
        accessat(CWD, self.root.join("instances"), Access::WRITE_OK, AtFlags::EACCESS)?;
        Ok(())
    }

    /// Adds a dynamic event, or takes one away (`-:GROUP/EVENT`), beside those that are there.
    ///
    /// # Errors
    /// What the kernel refuses, or a kernel without dynamic events.
    pub fn define(&self, event: &str) -> io::Result<()> {
        // Opened to truncate, the file would take all events away.
        let path = self.root.join("dynamic_events");
        let mut file = std::fs::OpenOptions::new().append(true).open(path)?;
        io::Write::write_all(&mut file, format!("{event}\n").as_bytes())
    }

    /// The text of a file below the root.
    ///
    /// # Errors
    /// I/O, naming the file.
    pub fn read(&self, file: &str) -> io::Result<String> {
        // Format texts are ASCII; what is not is replaced rather than refused.
        let opened = look(&self.root, file, |path| std::fs::File::open(path));
        let bytes = opened
            .and_then(slurp)
            .map_err(|error| io::Error::new(error.kind(), format!("tracefs {file}: {error}")))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The number and format text of an event.
    ///
    /// # Errors
    /// `NotFound` when this kernel has no such event.
    pub fn event(&self, system: &str, name: &str) -> io::Result<(u64, String)> {
        let id = self.read(&format!("events/{system}/{name}/id"))?;
        let id = id.trim().parse().map_err(|_| {
            io::Error::other(format!(
                "tracefs events/{system}/{name}/id holds an invalid number: {id}"
            ))
        })?;
        Ok((id, self.read(&format!("events/{system}/{name}/format"))?))
    }

    /// The systems that have an event of this name, sorted.
    #[must_use]
    pub fn systems_of(&self, name: &str) -> Vec<String> {
        self.names("events", |system| format!("events/{system}/{name}/id"))
    }

    /// The names of a system's events, sorted; empty when there is no such system.
    #[must_use]
    pub fn events(&self, system: &str) -> Vec<String> {
        self.names(&format!("events/{system}"), |name| format!("events/{system}/{name}/id"))
    }

    /// The names in a folder for which a file is there, sorted.
    fn names(&self, folder: &str, file: impl Fn(&str) -> String) -> Vec<String> {
        let entries = look(&self.root, folder, |path| std::fs::read_dir(path));
        let mut names: Vec<String> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| look(&self.root, &file(name), Path::exists))
            .collect();
        names.sort_unstable();
        names
    }
}

/// Looks at what is below `root`. Where the program's file has the right to look into tracefs, it is in force meanwhile: only
/// if `root` is one, and if no part of `below`, which may hold a user's word, leads out of it.
fn look<T>(root: &Path, below: &str, at: impl FnOnce(&Path) -> T) -> T {
    let path = root.join(below);
    let inside = Path::new(below).components().all(|part| matches!(part, Component::Normal(_)));
    let is_one = || rustix::fs::statfs(root).is_ok_and(|found| found.f_type == MAGIC);
    if inside && capability::is_from_file() && capability::with(Need::Tracefs, is_one) {
        return capability::with(Need::Tracefs, || at(&path));
    }
    at(&path)
}

/// Reads with a large buffer: some files here give their content to one read only, for any
/// length (`header_page`), so a reader that begins small gets a part and an end.
fn slurp(mut file: std::fs::File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(bytes),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Opens a pipe of tracefs for reading what is there without waiting for more.
///
/// # Errors
/// What the kernel refuses.
pub fn open_pipe(path: &Path) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Bytes of a page of an instance's ring buffer, where it can be asked (since Linux 6.8).
#[must_use]
pub fn sub_buffer_bytes(instance: &Path) -> Option<usize> {
    let text = std::fs::read_to_string(instance.join("buffer_subbuf_size_kb")).ok()?;
    Some(text.trim().parse::<usize>().ok()? << 10)
}

fn is_tracefs(place: &Path) -> bool {
    look(place, "events/header_page", Path::exists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_by_their_files() {
        let root = tempfile::tempdir().unwrap();
        let event = root.path().join("events/sched/sched_switch");
        std::fs::create_dir_all(&event).unwrap();
        std::fs::create_dir_all(root.path().join("events/sched/no_event")).unwrap();
        std::fs::write(event.join("id"), "372\n").unwrap();
        std::fs::write(event.join("format"), "name: sched_switch\n").unwrap();
        let tracefs = Tracefs::at(root.path());
        assert_eq!(tracefs.events("sched"), ["sched_switch"]);
        let found = tracefs.event("sched", "sched_switch").unwrap();
        assert_eq!(found, (372, "name: sched_switch\n".to_owned()));
        let missing = tracefs.event("sched", "nothing").unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(tracefs.events("irq").is_empty());
        assert_eq!(tracefs.systems_of("sched_switch"), ["sched"]);
        assert!(tracefs.systems_of("no_event").is_empty());
    }

    #[test]
    fn a_dynamic_event_stands_beside_those_that_are_there() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("dynamic_events");
        let tracefs = Tracefs::at(root.path());
        assert!(tracefs.define("t:a/b sched_switch").is_err(), "a kernel without them");
        std::fs::write(&file, "p:others/probe here\n").unwrap();
        tracefs.define("t:a/b sched_switch").unwrap();
        let all = std::fs::read_to_string(&file).unwrap();
        assert_eq!(all, "p:others/probe here\nt:a/b sched_switch\n");
    }
}
