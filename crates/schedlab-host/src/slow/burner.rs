//! A fair task that burns one CPU for ever: the counterweight of `weight`.

use super::entry::{Entry, enter};
use super::{SlowError, journal_kill};
use schedlab_model::{Cpu, CpuSet};
use schedlab_sys::guard::Guard;
use schedlab_sys::process;
use std::path::PathBuf;
use std::process::Child;

/// A burner, as a child process. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Burner(Child);

impl Burner {
    /// Starts a burner in control groups, bound to a CPU, and journals its end.
    pub(super) fn start(
        groups: &[PathBuf],
        cpu: Cpu,
        guard: &mut Guard,
    ) -> Result<Self, SlowError> {
        let mut command = Entry::Burn { groups: groups.to_vec(), cpu }.command()?;
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        process::own_session(&mut command);
        process::die_with_parent(&mut command);
        let child = command.spawn().map_err(|e| SlowError::io("starting a burner", e))?;
        journal_kill(guard, &child)?;
        Ok(Self(child))
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The life of the child.
pub(super) fn child(groups: &[PathBuf], cpu: Cpu) -> i32 {
    if enter(groups, &CpuSet::from_iter([cpu])).is_err() {
        return 1;
    }
    let mut value = 0u64;
    loop {
        value = std::hint::black_box(value.wrapping_mul(3).wrapping_add(1));
    }
}
