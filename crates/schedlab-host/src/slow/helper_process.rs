//! A child process that holds a part of the slowing: hogs, burners, noise. Its end is noticed, since without it
//! CPUs have another speed than was asked for.

use super::{SlowError, journal_kill};
use schedlab_model::Pid;
use schedlab_sys::guard::Guard;
use schedlab_sys::process;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;

/// Dropping it ends the child.
#[derive(Debug)]
pub(super) struct HelperProcess {
    what: String,
    child: Child,
    end: OwnedFd,
}

impl HelperProcess {
    /// Takes over a child that was just started, and journals its end. `what` names it in errors.
    pub(super) fn new(
        what: impl Into<String>,
        mut child: Child,
        guard: &mut Guard,
    ) -> Result<Self, SlowError> {
        let what = what.into();
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

    /// The id of the child process.
    pub(super) fn pid(&self) -> Pid {
        Pid(self.child.id().cast_signed())
    }

    /// Readable when it has ended.
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

    /// Sends it a signal, if it lives.
    pub(super) fn signal(&self, signal: i32) {
        let _ = process::kill(self.pid(), signal);
    }
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
        let mut helper = HelperProcess::new("the noise", child, &mut guard).unwrap();
        assert!(helper.check().is_ok());
        helper.signal(9);
        until(|| process::poll(&[helper.fd()], None).unwrap() == [true]);
        let error = helper.check().unwrap_err().to_string();
        assert!(error.contains("the noise died (exit code 137)"), "{error}");
    }
}
