//! Settings that hold during a run: knobs of the machine, and slowed CPUs.

use crate::knobs::Held;
use crate::{load, slow};
use schedlab_model::Warning;
use schedlab_sys::guard::Ends;
use schedlab_workload::metrics::metric;
use schedlab_workload::{Figure, MachineError, Output};
use std::process::Command;
use std::sync::Arc;

/// What holds around a load, into which each of its processes is admitted before it begins.
pub(crate) struct RunSettings {
    pub(crate) held: Held,
    pub(crate) slowed: Option<Slowed>,
    /// What marks all that the run starts, so that it ends if this process is killed.
    pub(crate) ends: Option<Arc<Ends>>,
}

/// CPUs held slow around a run.
pub(crate) struct Slowed {
    pub(crate) held: slow::Slowed,
    /// Iterations of the calibrated loop in a microsecond, from before: work is a part of full speed.
    pub(crate) calibrated: u64,
}

impl RunSettings {
    /// Tells a load child what it cannot measure any more.
    pub(crate) fn tell(&self, command: &mut Command) {
        command.env_remove(load::CALIBRATED);
        self.mark(command);
        if let Some(slowed) = &self.slowed {
            command.env(load::CALIBRATED, slowed.calibrated.to_string());
        }
    }

    /// Marks what a run starts.
    pub(crate) fn mark(&self, command: &mut Command) {
        self.ends.iter().for_each(|ends| ends.mark(command));
    }

    /// Moves a process that has not begun its work to where it shall be.
    pub(crate) fn admit(&self, process: u32) -> std::io::Result<()> {
        self.held.admit(process)?;
        self.slowed.as_ref().map_or(Ok(()), |slowed| slowed.held.admit(process))
    }

    /// Undoes the settings of the run, and passes on the warnings that came up meanwhile.
    pub(crate) fn release(self, out: &mut dyn Output) -> Result<(), MachineError> {
        self.held.release().into_iter().for_each(|warning| out.warning(warning));
        let Some(slowed) = self.slowed else { return Ok(()) };
        let kept = slowed.held.release();
        kept.warnings.into_iter().for_each(|warning| out.warning(warning));
        for failed in kept.failed {
            let remedy = "`schedlab doctor --restore` puts back what was left";
            out.warning(Warning::new("slow-failed", failed, remedy));
        }
        let name = "slow_controller_fraction";
        let value = kept.controller;
        let figure = Figure { metric: metric(name), of: String::new(), value };
        out.figure(figure).map_err(|e| MachineError::io("storing a metric", e))
    }
}
