//! What a conversion loses: fields that the target format cannot hold, and values that were filled in.

use schedlab_model::{Left, Warning, What};

/// A sentence about what a target cannot hold.
pub(crate) fn cannot_hold(what: impl Into<String>, remedy: &str) -> Warning {
    Warning::new("target-cannot-hold", what, remedy)
}

/// Tracepoints beyond the scheduler's whose arguments the source could not tell.
pub(crate) fn arguments_left_out(others: u64) -> Vec<Warning> {
    if others == 0 {
        return Vec::new();
    }
    let what =
        format!("{others} events of other tracepoints lose their arguments and keep their names");
    vec![cannot_hold(what, "this format does not hold them: convert from the recorded trace")]
}

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
    pub(crate) fn warnings(&self) -> impl Iterator<Item = Warning> {
        let sentences = [
            (self.prios, "migrations and exits get priority 120: events do not hold theirs"),
            (
                self.files,
                "executed programs get the names of their tasks: events do not hold paths",
            ),
            (
                self.states,
                "some switches lose the state of the previous task: schedlab does not know that \
                 state",
            ),
        ];
        let met = sentences.into_iter().filter(|(count, _)| *count > 0);
        met.map(|(count, what)| cannot_hold(format!("{count} {what}"), ""))
    }
}
