//! The guardian process, and a thread that replaces it if it is killed while its owner lives.

use super::{ARGUMENT, MARK};
use crate::lock::Lock;
use schedlab_model::Pid;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

#[derive(Debug)]
pub(super) struct Post {
    shared: Arc<Shared>,
    /// Closing it ends the thread.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    /// How many replacements the owner has learned of.
    told: u32,
}

#[derive(Debug)]
struct Shared {
    program: PathBuf,
    journal: PathBuf,
    /// Held by the guardian as well.
    locks: Vec<Lock>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    guardian: Option<Child>,
    replaced: u32,
    /// Why there is none any more.
    refused: Option<io::Error>,
}

impl Post {
    /// Starts a guardian of a journal, who holds the locks as well.
    pub(super) fn start(program: &Path, journal: &Path, locks: Vec<Lock>) -> io::Result<Self> {
        let guardian = Some(spawn(program, journal, &locks)?);
        let state = Mutex::new(State { guardian, replaced: 0, refused: None });
        let program = program.to_owned();
        let journal = journal.to_owned();
        let shared = Arc::new(Shared { program, journal, locks, state });
        let (end, stop) = UnixStream::pair()?;
        let watched = Arc::clone(&shared);
        // Where no further thread may be started, the owner's own looks have to do.
        let thread = std::thread::Builder::new().name("guard".into());
        let thread = thread.spawn(move || watched.watch(&stop)).ok();
        Ok(Self { shared, end: Some(end), thread, told: 0 })
    }

    pub(super) fn locks(&self) -> &[Lock] {
        &self.shared.locks
    }

    pub(super) fn guardian(&self) -> Option<Pid> {
        self.shared.state().guardian.as_ref().map(|child| Pid(child.id().cast_signed()))
    }

    /// Whether it was replaced since this was asked last.
    pub(super) fn replaced(&mut self) -> io::Result<bool> {
        self.shared.replace();
        let mut state = self.shared.state();
        if let Some(error) = state.refused.take() {
            return Err(error);
        }
        let before = std::mem::replace(&mut self.told, state.replaced);
        Ok(before != state.replaced)
    }

    /// Lets the guardian go, which undoes what the journal still lists.
    pub(super) fn end(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(mut guardian) = self.shared.state().guardian.take() {
            // The end of its pipe wakes it.
            drop(guardian.stdin.take());
            let _ = guardian.wait();
        }
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The life of the thread.
    fn watch(&self, stop: &UnixStream) {
        loop {
            let ended = self.state().guardian.as_ref().map(crate::process::ended);
            // Kernels before 5.3 cannot tell.
            let Some(Ok(ended)) = ended else { return };
            match crate::process::poll(&[ended.as_fd(), stop.as_fd()], None).as_deref() {
                Ok([_, true]) | Err(_) => return,
                Ok([true, _]) if !self.replace() => return,
                Ok(_) => {}
            }
        }
    }

    /// Replaces a guardian that was killed. Returns whether there is one that may be watched.
    fn replace(&self) -> bool {
        let mut state = self.state();
        let Some(guardian) = &mut state.guardian else { return false };
        match guardian.try_wait() {
            Ok(None) => return true,
            Ok(Some(status)) if status.signal().is_some() => {}
            // One that goes by itself would go again.
            _ => return false,
        }
        match spawn(&self.program, &self.journal, &self.locks) {
            Ok(next) => {
                state.guardian = Some(next);
                state.replaced += 1;
                true
            }
            Err(error) => {
                state.refused = Some(error);
                false
            }
        }
    }
}

fn spawn(program: &Path, journal: &Path, locks: &[Lock]) -> io::Result<Child> {
    let mut command = Command::new(program);
    crate::process::hand_down(&mut command, locks.iter().map(AsFd::as_fd))?;
    command.arg(ARGUMENT).arg(journal);
    // It is none of what an outer run started: the outer guardian must not end it before its work is done.
    command.env_remove(MARK);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    crate::process::own_session(&mut command);
    command.spawn()
}
