//! A child process that holds a part of the slowing: hogs, burners, noise. Its end is noticed, since without it
//! CPUs have another speed than was asked for.

use super::{SlowError, journal_kill};
use schedlab_model::Pid;
use schedlab_sys::guard::Guard;
use schedlab_sys::process;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ChildStdin, Command, Stdio};

/// What a child prints once it does its work; anything else says why it cannot.
const READY: &str = "ready";

/// Dropping it ends the child.
#[derive(Debug)]
pub(super) struct HelperProcess {
    what: String,
    child: Child,
    end: OwnedFd,
}

impl HelperProcess {
    /// Starts a child that prints nothing.
    pub(super) fn start(
        what: impl Into<String>,
        mut command: Command,
        guard: &mut Guard,
    ) -> Result<Self, SlowError> {
        let what = what.into();
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn();
        Self::new(
            what.clone(),
            child.map_err(|e| SlowError::io(format!("starting {what}"), e))?,
            guard,
        )
    }

    /// Starts a child, and returns once it has called [`ready`]. Until then nothing is slowed.
    pub(super) fn start_ready(
        what: impl Into<String>,
        mut command: Command,
        guard: &mut Guard,
    ) -> Result<(Self, ChildStdin), SlowError> {
        let what = what.into();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn();
        let mut child = child.map_err(|e| SlowError::io(format!("starting {what}"), e))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (orders, answers) = pipes.expect("both were asked to be pipes");
        let helper = Self::new(what.clone(), child, guard)?;
        let mut answer = String::new();
        let read = BufReader::new(answers).read_line(&mut answer);
        read.map_err(|e| SlowError::io(format!("waiting for {what}"), e))?;
        match answer.trim_end() {
            READY => Ok((helper, orders)),
            "" => Err(SlowError::Failed(format!("{what} died while starting"))),
            why => Err(SlowError::Failed(format!("{what}: {why}"))),
        }
    }

    /// Takes over a child that was just started, and journals its end. `what` names it in errors.
    fn new(what: String, mut child: Child, guard: &mut Guard) -> Result<Self, SlowError> {
        let watched = journal_kill(guard, &child).and_then(|()| {
            process::ended(&child).map_err(|e| SlowError::io(format!("watching {what}"), e))
        });
        match watched {
            Ok(end) => Ok(Self { what, child, end }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    pub(super) fn pid(&self) -> Pid {
        Pid(self.child.id().cast_signed())
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    /// Says that it ended, if it did: it was killed, by a limit of its own or by hand.
    pub(super) fn check(&mut self) -> Result<(), SlowError> {
        match self.child.try_wait().ok().flatten().map(process::exit_code) {
            None => Ok(()),
            Some(code) => Err(SlowError::Failed(format!(
                "speeds are no longer as requested: {} died (exit code {code})",
                self.what
            ))),
        }
    }

    pub(super) fn signal(&self, signal: i32) {
        let _ = process::kill(self.pid(), signal);
    }
}

/// Tells the parent that the child does its work, or why it cannot. Gives what was started if the child goes on.
pub(super) fn ready<T>(started: Result<T, SlowError>) -> Option<T> {
    let mut stdout = std::io::stdout();
    let told = match &started {
        Ok(_) => writeln!(stdout, "{READY}"),
        Err(error) => writeln!(stdout, "{error}"),
    };
    started.ok().filter(|_| told.and_then(|()| stdout.flush()).is_ok())
}

impl Drop for HelperProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow::until;

    #[test]
    fn one_that_was_killed_is_told_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut guard = Guard::arm_with(dir.path(), std::path::Path::new("/bin/true")).unwrap();
        let child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let mut helper = HelperProcess::new("the noise".to_owned(), child, &mut guard).unwrap();
        assert!(helper.check().is_ok());
        helper.signal(9);
        until(|| process::poll(&[helper.fd()], None).unwrap() == [true]);
        let error = helper.check().unwrap_err().to_string();
        assert!(error.contains("the noise died (exit code 137)"), "{error}");
    }
}
