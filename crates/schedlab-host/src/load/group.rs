//! Control groups that tasks of a load run in.

use schedlab_model::Pid;
use schedlab_sys::kernel_file;
use std::io;
use std::path::Path;

/// Moves the calling thread into the group of a folder.
pub(super) fn join(folder: &Path) -> io::Result<()> {
    let thread: Pid = schedlab_sys::process::thread_id();
    let write = |name: &str| kernel_file::write(folder.join(name), format!("{thread}"));
    // Threads of one process may be in different groups where the group is threaded, or of version 1.
    first_of(folder, &["cgroup.threads", "tasks"], write).or_else(|_| {
        first_of(folder, &["cgroup.procs"], |name| kernel_file::write(folder.join(name), "0"))
    })
}

fn first_of(
    folder: &Path,
    names: &[&str],
    write: impl Fn(&str) -> io::Result<()>,
) -> io::Result<()> {
    match names.iter().find(|name| folder.join(name).exists()) {
        Some(name) => write(name),
        // ENOENT, as a number, so that it survives the way out of a task.
        None => Err(io::Error::from_raw_os_error(2)),
    }
}
