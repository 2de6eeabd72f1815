//! A task as a state machine: it yields operations and is told how each went.

use schedlab_model::{Nanos, Phase};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
    )*};
}

ids! {
    /// A byte channel (pipe, socket pair, ...) of the workload's plan, by index.
    ChannelId,
    /// A word to wait on: a futex on the host. Holds the time stamp of the last wake.
    WordId,
    /// A mutual exclusion lock.
    LockId,
    /// A barrier with a fixed number of parties.
    BarrierId,
    /// A queue of small values that many push and one drains, without sleeping.
    QueueId,
}

/// An operation. Each may take time; [`Done`] tells how it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Compute: `iterations` of the calibrated loop. Work, never a timed spin.
    Compute {
        /// Iterations of the calibrated loop.
        iterations: u64,
    },
    /// Sleep for a duration.
    Sleep(Nanos),
    /// Sleep until a point in time (the clock of `now`).
    SleepUntil(Nanos),
    /// Wait until the word is woken; returns at once when a wake is pending.
    Wait(WordId),
    /// Wake the word's waiter, leaving `stamp` for it.
    Wake {
        /// The word.
        word: WordId,
        /// Handed to the waiter in [`Done::Woken`].
        stamp: Nanos,
    },
    /// Push a value.
    Push {
        /// The queue.
        queue: QueueId,
        /// The value.
        value: u64,
    },
    /// Take the oldest value, if there is one: [`Done::Popped`].
    Pop(QueueId),
    /// Write a message.
    Send {
        /// The channel.
        channel: ChannelId,
        /// Its length.
        bytes: u32,
    },
    /// Read a message of this length, whole.
    Receive {
        /// The channel.
        channel: ChannelId,
        /// Its length.
        bytes: u32,
    },
    /// Take a lock.
    Lock(LockId),
    /// Give it back.
    Unlock(LockId),
    /// Meet the other parties.
    Meet(BarrierId),
    /// Give up the CPU, staying runnable.
    Yield,
    /// Put a mark on the timeline.
    Mark {
        /// Index into the workload's mark names.
        id: u32,
        /// Begin, end or point.
        phase: Phase,
    },
    /// The task ends.
    Exit,
}

/// How the last operation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// There was none: the task starts.
    Start,
    /// It was performed.
    Ok,
    /// A wait ended; `stamp` was left by the waker.
    Woken {
        /// The waker's stamp.
        stamp: Nanos,
    },
    /// What a pop found.
    Popped(Option<u64>),
    /// The run is being stopped: the operation may not have been performed; exit soon.
    Stopped,
    /// The other side is gone or the system refused (errno).
    Failed(i32),
}

/// A task of a workload.
pub trait Behaviour: Send {
    /// The next operation, given the time and how the last one went. Samples are taken here, so they
    /// mean the same on every machine.
    fn next(&mut self, now: Nanos, last: Done) -> Op;
}
