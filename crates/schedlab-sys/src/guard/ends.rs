//! Programs that end with the process that started them.

use super::{Guard, MARK, StepId};
use crate::{process, signal};
use schedlab_model::{Nanos, Pid};
use std::io;
use std::os::fd::AsFd;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long a program may take to end after a signal was passed on to it.
const GRACE: Nanos = Nanos::from_secs(2);

/// The guard of all marks, and how many there are: it ends with the last of them.
static SHARED: Mutex<Option<(Guard, usize)>> = Mutex::new(None);

fn shared() -> MutexGuard<'static, Option<(Guard, usize)>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A mark for commands. While this lives, all that they started is killed if this process dies. Afterwards it may
/// go on.
#[derive(Debug)]
pub struct Ends {
    step: StepId,
    mark: String,
}

impl Ends {
    /// Makes a mark.
    ///
    /// # Errors
    /// When the journal cannot be written or the program not be re-executed.
    pub fn arm() -> io::Result<Self> {
        let mut shared = shared();
        let (guard, marks) = match &mut *shared {
            Some(armed) => armed,
            None => shared.insert((Guard::arm()?, 0)),
        };
        let (step, mark) = match guard.end_marked() {
            Ok(made) => made,
            Err(error) => {
                if *marks == 0 {
                    *shared = None;
                }
                return Err(error);
            }
        };
        *marks += 1;
        Ok(Self { step, mark })
    }

    /// Makes a command, and all that it starts, end if this process dies. Without a guard (no journal can be written)
    /// the kernel ends the command itself, and `None` is given.
    pub fn of(command: &mut Command) -> Option<Self> {
        let ends = Self::arm().ok();
        ends.iter().for_each(|ends| ends.mark(command));
        process::die_with_parent(command);
        ends
    }

    /// Marks what a command starts.
    pub fn mark(&self, command: &mut Command) {
        command.env(MARK, &self.mark);
    }

    /// Kills all that has the mark.
    pub fn kill(&self) {
        if let Some((guard, _)) = &mut *shared() {
            // A step that stays on the list is undone with it.
            let _ = guard.undo(self.step);
        }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        let mut shared = shared();
        let Some((guard, marks)) = &mut *shared else { return };
        let _ = guard.forget(self.step);
        *marks -= 1;
        if *marks == 0 {
            *shared = None;
        }
    }
}

/// Runs a program to its end and returns what it printed, as [`ended`] does.
///
/// # Errors
/// When it cannot be started.
pub fn output(command: &mut Command) -> io::Result<Output> {
    ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

/// Runs a program to its end. What it prints goes where the command says.
///
/// The program does not outlive this process. A signal that comes meanwhile is passed on. If the program does not end
/// soon after that, it is killed with all that it started.
///
/// # Errors
/// When it cannot be started.
pub fn ended(command: &mut Command) -> io::Result<Output> {
    let signals = signal::catch()?;
    // What puts things back after a signal runs to its end.
    let heeds = signals.caught().is_none();
    let ends = Ends::of(command);
    // Its end is that of all who could still print.
    let (done, end) = io::pipe()?;
    let child = command.spawn()?;
    let pid = Pid(child.id().cast_signed());
    std::thread::scope(|scope| {
        let wait = move || {
            let _end = end;
            child.wait_with_output()
        };
        let waiter = std::thread::Builder::new().spawn_scoped(scope, wait);
        let waiter = waiter.map_err(|error| {
            ends.iter().for_each(Ends::kill);
            let _ = process::kill(pid, 9);
            process::thread_refused(&error)
        })?;
        let both = [done.as_fd(), signals.fd()];
        let asked = loop {
            let ready = process::poll(if heeds { &both } else { &both[..1] }, None)?;
            if ready[0] {
                break None;
            } else if let Some(signal) = signals.caught().filter(|_| heeds) {
                break Some(signal);
            }
        };
        if let Some(signal) = asked {
            // It may be gone by now.
            let _ = process::kill(pid, signal);
            if !process::poll(&both[..1], Some(GRACE))?[0] {
                ends.iter().for_each(Ends::kill);
                let _ = process::kill(pid, 9);
            }
        }
        waiter.join().unwrap_or_else(|_| Err(io::Error::other("waiting for it panicked")))
    })
}
