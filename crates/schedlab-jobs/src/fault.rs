//! Fixes that a model takes out, to prove that it finds what they prevent. In a usual build all of them are in, at no
//! cost.

/// A fix of a defect that the pool once had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fix {
    /// A holder of the token that takes in a message late decides again who must wake.
    DecideAgain,
    /// A tender that is called away tends no more.
    Untend,
    /// A job ends when its function has returned and its completion was called, not at the first of the two.
    EndsOnce,
    /// A completion that is dropped without a word fails its job.
    DropFails,
    /// A panic in the user's notice does not end the worker.
    NoticeContained,
    /// A job that failed is remembered, so that a dependent that is planned later is dropped.
    FailuresKept,
    /// A worker of a pool that was closed sleeps no more.
    ClosedIsAwake,
    /// A worker can be called from the moment on at which it can sleep.
    KnownBeforeItRuns,
}

#[cfg(loom)]
std::thread_local! {
    static OUT: std::cell::Cell<Option<Fix>> = const { std::cell::Cell::new(None) };
}

/// Takes a fix out, or none, for what runs on this thread of the system: a model.
#[cfg(loom)]
pub fn take_out(fix: Option<Fix>) {
    OUT.set(fix);
}

/// Whether the model has taken this fix out.
#[cfg(loom)]
pub fn is_out(fix: Fix) -> bool {
    OUT.get() == Some(fix)
}

/// Never, outside a model.
#[cfg(not(loom))]
#[inline]
pub fn is_out(_: Fix) -> bool {
    false
}
