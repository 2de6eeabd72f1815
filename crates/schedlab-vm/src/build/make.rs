//! make, which ends with us and with all that it started.

use super::source_tree::SourceTree;
use crate::VmError;
use schedlab_model::{Nanos, Pid};
use schedlab_sys::{clock, process, signal};
use std::io::{PipeReader, Read as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// How much of what a build says is kept.
const KEPT: usize = 1 << 16;

/// Runs make as `make ARGUMENTS`. Its input is a pipe that only we write to: when that closes, since
/// we ended in any way, all processes of the session are killed.
const SCRIPT: &str = "exec 3<&0
(read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 &
exec nice make \"$@\" </dev/null 3<&-";

/// What programs print when the disk is full.
const FULL: &str = "No space left";

/// What would differ between builds of the same source.
const FIXED: [&str; 5] = [
    "KBUILD_BUILD_TIMESTAMP=2024-01-01",
    "KBUILD_BUILD_USER=schedlab",
    "KBUILD_BUILD_HOST=vm",
    "KBUILD_BUILD_VERSION=1",
    "LOCALVERSION=",
];

/// Runs make until it ends; Ctrl-C and the limit end it with all that it started.
pub(super) fn make(
    workshop: &SourceTree,
    what: &[&str],
    flags: &[String],
    until: Nanos,
) -> Result<(), VmError> {
    let mut command = start(workshop.tree());
    command.arg(format!("O={}", workshop.objects().display())).args(what).args(flags).args(FIXED);
    finish(command, workshop.tree(), until)
}

/// Runs make in a folder that has a makefile of its own; Ctrl-C and the limit end it with all that it started.
///
/// # Errors
/// The line that says why make failed; or the limit or a signal ended it.
pub fn make_in(folder: &Path, what: &[&str], until: Nanos) -> Result<(), VmError> {
    let mut command = start(folder);
    command.args(what);
    finish(command, folder, until)
}

/// make in a folder, on all CPUs.
fn start(folder: &Path) -> Command {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "sh", &format!("-j{cpus}"), "-C"]).arg(folder);
    command
}

fn finish(mut command: Command, folder: &Path, until: Nanos) -> Result<(), VmError> {
    // Both go into one pipe of ours: if we die, what make started ends at its next line at the latest.
    let (said, pipe) = std::io::pipe().map_err(VmError::io("making a pipe"))?;
    let other = pipe.try_clone().map_err(VmError::io("making a pipe"))?;
    command.stdin(Stdio::piped()).stdout(pipe).stderr(other);
    process::die_with_parent(&mut command);
    process::own_session(&mut command);
    let mut child = Group(command.spawn().map_err(VmError::io("starting make"))?);
    // It holds the other ends of the pipe.
    drop(command);
    let text = listen(said, until)?;
    let status = child.0.wait().map_err(VmError::io("awaiting make"))?;
    if status.success() {
        return Ok(());
    }
    // Files are named as they are in the tree.
    let text = String::from_utf8_lossy(&text).replace(&format!("{}/", folder.display()), "");
    Err(VmError::io("building the kernel")(failure(&text)))
}

/// Why make failed. A full disk is no fault of the source.
fn failure(text: &str) -> std::io::Error {
    let cause = cause(text).to_owned();
    match cause.contains(FULL) {
        true => std::io::Error::new(std::io::ErrorKind::StorageFull, cause),
        false => std::io::Error::other(cause),
    }
}

/// What make says until it ends: the last of it.
fn listen(mut said: PipeReader, until: Nanos) -> Result<Vec<u8>, VmError> {
    let signals = signal::catch().map_err(VmError::io("catching signals"))?;
    let mut text: Vec<u8> = Vec::new();
    loop {
        if signals.caught().is_some() {
            return Err(VmError::Interrupted);
        }
        if clock::monotonic() > until {
            let what = "the build did not end in time: raise --time-limit".to_owned();
            return Err(VmError::Guest { what, console: Vec::new() });
        }
        let ready = process::poll(&[said.as_fd(), signals.fd()], Some(Nanos::from_millis(500)))
            .map_err(VmError::io("waiting for make"))?;
        if ready[0] {
            let mut buffer = [0; 4096];
            match said.read(&mut buffer).map_err(VmError::io("reading from make"))? {
                0 => return Ok(text),
                read => text.extend_from_slice(&buffer[..read]),
            }
            if text.len() > 2 * KEPT {
                text.drain(..KEPT);
            }
        }
    }
}

/// The line that says why make failed: the first one of the most telling kind.
fn cause(text: &str) -> &str {
    // The compiler's; those of Kconfig and make for files that a tree lacks; any other.
    let kinds = [FULL, "error: ", "can't open file", "No rule to make target", "error", "Error "];
    let found = kinds.iter().find_map(|kind| text.lines().find(|line| line.contains(kind)));
    found.or_else(|| text.lines().last()).unwrap_or("it printed nothing").trim()
}

/// The leader of a session. Dropping it kills all of the session.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // One process of it waits for us, so its number is not another group's.
        let _ = process::kill(Pid(-self.0.id().cast_signed()), 9);
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::{cause, failure};
    use crate::VmError;

    #[test]
    fn a_full_disk_is_named_before_what_it_breaks() {
        let text =
            "  CC x.o\ncc: error: y\nfatal: /c/x.o: No space left on device\nmake: *** [x]\n";
        assert_eq!(cause(text), "fatal: /c/x.o: No space left on device");
        assert_eq!(cause("  CC x.o\nx.c:1: error: y\nmake: ***\n"), "x.c:1: error: y");
        assert_eq!(cause(""), "it printed nothing");
        let is_of_the_kernel = |text| VmError::io("x")(failure(text)).is_of_the_kernel();
        assert!(!is_of_the_kernel(text) && is_of_the_kernel("x.c:1: error: y\n"));
    }

    #[test]
    fn the_compilers_first_error_is_the_cause_else_the_file_that_a_tree_lacks() {
        let text = "a.h:3: warning: error code\nx.c:7:2: error: 'f' undeclared\ny.c:1:1: error: z\nmake: *** [x]\n";
        assert_eq!(cause(text), "x.c:7:2: error: 'f' undeclared");
        let text = "init/Kconfig:9: can't open file \"rust/Kconfig\"\nmake[1]: *** [Makefile:9: x] Error 1\n\
            make: Leaving directory '/x'\n";
        assert_eq!(cause(text), "init/Kconfig:9: can't open file \"rust/Kconfig\"");
    }
}
