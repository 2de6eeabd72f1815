//! What kernel-like records and lines must state and events do not say: filled in, and told.

use super::cannot_hold;
use schedlab_model::{Left, Warning, What};

/// What was filled in so far.
#[derive(Default)]
pub(crate) struct Unknown {
    prios: u64,
    files: u64,
    states: u64,
}

impl Unknown {
    pub(crate) fn see(&mut self, what: &What) {
        match what {
            What::Migrate { .. } | What::Exit { .. } => self.prios += 1,
            What::Exec { .. } => self.files += 1,
            What::Switch { left: Left::Other, .. } => self.states += 1,
            _ => {}
        }
    }

    /// A sentence for each, if there was any.
    pub(crate) fn told(&self) -> impl Iterator<Item = Warning> {
        let sentences = [
            (self.prios, "migrations and exits say priority 120: events do not hold theirs"),
            (self.files, "executed programs are named by their tasks: events do not hold paths"),
            (self.states, "switches in a state unknown here lose which it was"),
        ];
        let met = sentences.into_iter().filter(|(count, _)| *count > 0);
        met.map(|(count, what)| cannot_hold(format!("{count} {what}"), ""))
    }
}
