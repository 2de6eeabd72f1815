//! Programs of the system that do a part of the work.

use crate::VmError;
use schedlab_model::Pid;
use schedlab_sys::{memory, process, signal};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};

/// Runs a program that ends with us, and with what it started when a signal stops us; what it printed. An
/// error has the last that it said.
///
/// # Errors
/// When the program is missing, fails, or a signal stops us.
pub fn run(command: &mut Command, doing: &str) -> Result<String, VmError> {
    let io = || VmError::io(doing.to_owned());
    let signals = signal::catch().map_err(io())?;
    let mut said = memory::file("stdout").map_err(io())?;
    let mut wrong = memory::file("stderr").map_err(io())?;
    command.stdin(Stdio::null()).stdout(said.try_clone().map_err(io())?);
    command.stderr(wrong.try_clone().map_err(io())?);
    process::die_with_parent(command);
    process::own_session(command);
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            VmError::Missing { what: program.clone(), remedy: format!("{doing} needs it") }
        }
        _ => VmError::io(format!("starting {program}"))(error),
    })?;
    let ended = process::ended(&child).map_err(io())?;
    while !process::poll(&[ended.as_fd(), signals.fd()], None).map_err(io())?[0] {
        if signals.caught().is_some() {
            let _ = process::kill(Pid(-child.id().cast_signed()), 9);
            let _ = child.wait();
            return Err(VmError::Interrupted);
        }
    }
    if child.wait().map_err(io())?.success() {
        return whole(&mut said).map_err(io());
    }
    let said = whole(&mut wrong).map_err(io())?;
    Err(io()(io::Error::other(format!("{program}: {}", cause(&said)))))
}

/// The line that says why a program failed: a full disk makes others fail after it.
fn cause(said: &str) -> &str {
    let is_wrong = |line: &&str| line.starts_with("E:") || line.contains("rror");
    let space = said.lines().find(|line| line.contains("No space left"));
    let last = || said.lines().rfind(is_wrong).or_else(|| said.lines().last());
    space.or_else(last).unwrap_or("it printed nothing")
}

/// The text of a file, from its beginning.
fn whole(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::cause;

    #[test]
    fn the_cause_is_the_full_disk_else_the_last_error() {
        let tar = "tar: a/b: Cannot write: No space left on device\n\
                   tar: Exiting with failure status due to previous errors\n";
        assert_eq!(cause(tar), "tar: a/b: Cannot write: No space left on device");
        assert_eq!(cause("W: old\nE: one\nE: no network\nbye\n"), "E: no network");
        assert_eq!(cause("bye\n"), "bye");
        assert_eq!(cause(""), "it printed nothing");
    }
}
