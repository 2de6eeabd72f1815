//! A session that is kept up while something else runs.

use super::Session;
use schedlab_model::Warning;
use schedlab_sys::clock;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// What became of a session that was kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BackgroundSession {
    /// What went wrong on the way, and what could not be undone.
    pub(crate) failed: Vec<String>,
    pub(crate) warnings: Vec<Warning>,
    /// CPU time of keeping it up, outside of burners, as a part of the time.
    pub(crate) controller: f64,
}

impl Session {
    /// Keeps up what is in force until the other end of `end` is closed, and undoes it then.
    pub(in super::super) fn keep_until(mut self, end: &UnixStream) -> BackgroundSession {
        let began = clock::monotonic();
        let used = clock::thread_cpu();
        let mut failed = Vec::new();
        loop {
            let next = self.tick(&[]);
            match next.and_then(|next| self.wait_for(next, &[end.as_fd()])) {
                Ok(ready) if !ready.first().is_some_and(|ended| *ended) => {}
                // A word is that a process was moved in; the end of them is the end.
                Ok(_) => match (&mut &*end).read(&mut [0; 64]) {
                    Ok(1..) => self.look_now(),
                    _ => break,
                },
                Err(error) => {
                    failed.push(error.to_string());
                    break;
                }
            }
        }
        let time = (clock::monotonic() - began).0.max(1);
        let controller = (clock::thread_cpu() - used).0 as f64 / time as f64;
        if failed.is_empty() {
            failed.extend(self.measure(None).err().map(|error| error.to_string()));
        }
        let warnings = std::mem::take(&mut self.warnings);
        failed.extend(self.finish());
        BackgroundSession { failed, warnings, controller }
    }
}
