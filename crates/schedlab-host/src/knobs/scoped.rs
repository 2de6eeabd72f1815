//! Settings that are restored when a value is dropped.

use super::{Changes, KnobError, Tree};
use schedlab_model::{Setting, Warning};
use schedlab_sys::guard::Guard;

/// Settings of the machine that hold until this is dropped, even if a process dies.
#[derive(Debug, Default)]
pub(crate) struct Held {
    guard: Option<Guard>,
    changes: Changes,
}

impl Held {
    /// Checks and makes settings of this machine, under a guard of their own. Those of tasks are left
    /// to the load: see [`take_on`]. Also returns what the kernel made of them otherwise than asked.
    ///
    /// # Errors
    /// For the first setting that cannot be made; nothing is changed then.
    pub(crate) fn make(settings: &[Setting]) -> Result<(Self, Vec<Warning>), KnobError> {
        if settings.is_empty() {
            return Ok((Self::default(), Vec::new()));
        }
        let mut changes = here()?.resolve(settings)?;
        if !changes.needs_guard() {
            return Ok((Self { guard: None, changes }, Vec::new()));
        }
        let mut guard = changes.arm()?;
        let warnings = changes.make(&mut guard)?;
        Ok((Self { guard: Some(guard), changes }, warnings))
    }

    /// Moves a process that has not begun its work into the load's control group, where there is one.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn admit(&self, process: u32) -> std::io::Result<()> {
        match self.changes.task.group() {
            Some(group) => {
                schedlab_sys::kernel_file::write(group.join("cgroup.procs"), process.to_string())
            }
            None => Ok(()),
        }
    }

    /// Puts everything back now. Returns which knobs somebody else changed meanwhile, and what could not be
    /// put back: it stays in the guard's journal.
    #[must_use]
    pub(crate) fn release(self) -> Vec<Warning> {
        let changed = self.changes.changed();
        let failed = self.guard.map(Guard::finish).unwrap_or_default();
        let warning = |(undo, error): (schedlab_sys::guard::Undo, std::io::Error)| {
            let what = format!("a setting was not undone: {undo:?}: {error}");
            Warning::new("knob-left", what, "run `schedlab doctor --restore`")
        };
        changed.into_iter().chain(failed.into_iter().map(warning)).collect()
    }
}

/// Takes on, in the calling thread, what settings say of tasks: what it starts from now on inherits
/// that. For load children.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn take_on(settings: &[Setting]) -> Result<(), KnobError> {
    if settings.is_empty() {
        return Ok(());
    }
    here()?.resolve(settings)?.task.take_on()
}

/// Checks settings against this kernel: names, values, ranges and rights. It changes nothing.
///
/// # Errors
/// For the first setting that cannot be made.
pub(crate) fn check(settings: &[Setting]) -> Result<(), KnobError> {
    here()?.resolve(settings).map(drop)
}

fn here() -> Result<Tree, KnobError> {
    Tree::here().map_err(|e| KnobError::Refused {
        name: "any".into(),
        place: "/proc/sys/kernel/osrelease".into(),
        why: e.to_string(),
    })
}
