//! The machines of a plan, by their names.

use schedlab_workload::{Machine, MachineError, MachineName};
use std::collections::BTreeMap;

/// Makes the machine of a name, or says why it cannot. Threads that do runs at the same time each
/// make machines of their own.
pub(crate) type Make = dyn Fn(&MachineName) -> Result<Box<dyn Machine>, MachineError> + Sync;

/// The machines of a plan. Each is made once, when a run first needs it.
pub struct Machines<'m>(Source<'m>);

enum Source<'m> {
    One(&'m mut dyn Machine),
    Made { make: &'m Make, made: BTreeMap<MachineName, Box<dyn Machine>> },
}

impl<'m> Machines<'m> {
    /// One machine for all runs, under any name. Its runs are done one after another.
    #[must_use]
    pub fn one(machine: &'m mut dyn Machine) -> Self {
        Self(Source::One(machine))
    }

    /// Machines that `make` makes.
    #[must_use]
    pub fn made_by(make: &'m Make) -> Self {
        Self(Source::Made { make, made: BTreeMap::new() })
    }

    /// The machine of a name.
    ///
    /// # Errors
    /// When it is not made yet and cannot be made.
    pub fn get(&mut self, name: &MachineName) -> Result<&mut (dyn Machine + '_), MachineError> {
        match &mut self.0 {
            Source::One(machine) => Ok(&mut **machine),
            Source::Made { make, made } => {
                if !made.contains_key(name) {
                    made.insert(name.clone(), make(name)?);
                }
                Ok(made.get_mut(name).expect("it was just made").as_mut())
            }
        }
    }

    /// What makes further machines, if anything does.
    pub(crate) fn make(&self) -> Option<&'m Make> {
        match &self.0 {
            Source::One(_) => None,
            Source::Made { make, .. } => Some(*make),
        }
    }
}
