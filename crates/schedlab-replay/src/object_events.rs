//! What calls do to objects in the order of the trace, and what becomes of each call.

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectEvent {
    /// A call that may write begins: another task may read its bytes before it ends.
    Begins(u32),
    /// The task of a call goes to sleep in it.
    Sleeps(u32),
    /// A call that moved bytes ends.
    Moves(u32),
}

/// What became of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    /// It is replayed as it was: its wait, if it had one, ended as recorded.
    #[default]
    AsRecorded,
    Moves {
        object: u32,
        bytes: u32,
    },
    /// Its bytes are moved where the task polled for them.
    Moved,
}
