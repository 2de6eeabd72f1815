//! A task as a state machine: it yields operations and learns how each went.

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
    /// Memory that is worked on.
    BlockId,
    /// A counting semaphore, 0 at first.
    SemaphoreId,
    /// A place that tasks may move to: an index into the plan's `places`.
    PlaceId,
    /// Tasks that are started by others: an index into the plan's `forks`.
    ForkId,
    /// A series of samples of the plan, by index.
    SampleId,
    /// A counter of the plan, by index.
    CounterId,
    /// A number that is set from outside while the workload runs (a target rate).
    DialId,
}

/// What is done to memory in one sweep, after STREAM (J. McCalpin): the arrays are a, b and c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// `c = a`: 16 bytes an element.
    Copy,
    /// `b = s * c`: 16 bytes an element.
    Scale,
    /// `c = a + b`: 24 bytes an element.
    Add,
    /// `a = b + s * c`: 24 bytes an element.
    Triad,
}

/// An operation. Each may take time; [`Done`] says how it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Compute: `iterations` of the calibrated loop. Work, never a timed spin.
    Compute {
        /// Iterations of the calibrated loop.
        iterations: u64,
    },
    /// Multiply the block's matrices of whole numbers, naively.
    Multiply {
        /// A block of matrices.
        block: BlockId,
        /// The number of repetitions.
        times: u32,
    },
    /// Write a byte over the first `bytes` of a block.
    Fill {
        /// The block of pages to use.
        block: BlockId,
        bytes: u32,
    },
    /// Touch this many bytes of a block one after another, from its beginning again at its end.
    Walk {
        /// The block of pages to use.
        block: BlockId,
        bytes: u64,
        writes: bool,
    },
    /// Follow a block's chain of pointers for this many steps, each of which waits for the one before.
    Chase {
        /// The chain to follow.
        block: BlockId,
        steps: u64,
    },
    /// One sweep over the block's arrays.
    Stream {
        /// A block of arrays.
        block: BlockId,
        sweep: Sweep,
    },
    /// Allocate memory, write to all of it and free what was allocated last.
    Allocate {
        bytes: u32,
    },
    Sleep(Nanos),
    /// Sleep until a point in time (the clock of `now`).
    SleepUntil(Nanos),
    /// Wait until the word is woken; returns at once when a wake is pending.
    Wait(WordId),
    /// The same, but no longer than until a point in time (the clock of `now`): [`Done::Woken`], or [`Done::Ok`] where
    /// the time has come first.
    WaitUntil {
        word: WordId,
        /// The end of the wait.
        until: Nanos,
    },
    /// Wake the word's waiter, leaving `stamp` for it.
    Wake {
        word: WordId,
        /// Handed to the waiter in [`Done::Woken`].
        stamp: Nanos,
    },
    /// Push a value: [`Done::Pushed`], or [`Done::Full`].
    Push {
        queue: QueueId,
        value: u64,
    },
    /// Take a value, if there is one: [`Done::Popped`].
    Pop(QueueId),
    /// Write a message. The machine stamps it with the time that [`Behaviour::next`] got.
    Send {
        /// The channel to send over.
        channel: ChannelId,
        /// The length of the message in bytes.
        bytes: u32,
    },
    /// Read a message of this length, whole: [`Done::Received`], or [`Done::Closed`].
    Receive {
        channel: ChannelId,
        /// The length of the message in bytes.
        bytes: u32,
    },
    /// This task sends no more on the channel; when none does, its reader learns that.
    Close(ChannelId),
    /// Take a lock, asleep while another holds it.
    Lock(LockId),
    /// Take a lock, spinning while another holds it.
    Spin(LockId),
    /// Give back a lock, however it was taken.
    Unlock(LockId),
    /// Take the lock of the CPU this task is on, spinning while another holds it; a task that was
    /// moved meanwhile tries again on its new CPU.
    LockCpu,
    /// Give back the lock taken last by [`Op::LockCpu`].
    UnlockCpu,
    Meet(BarrierId),
    /// Add one to a semaphore and wake who waits for it.
    Post(SemaphoreId),
    /// Take one from a semaphore, asleep while there is none.
    AwaitPost(SemaphoreId),
    /// Run where and how the plan's place says, from now on.
    Place(PlaceId),
    /// Start one more task of this fork. [`Done::Full`] if as many are alive as the plan allows.
    Fork(ForkId),
    /// Give up the CPU, staying runnable.
    Yield,
    /// Ends the task for good.
    Exit,
}

/// How the last operation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// There was none: the task starts.
    Start,
    /// The operation was performed.
    Ok,
    /// A wait ended; `stamp` was left by the waker.
    Woken {
        /// The time at which the waker stamped the message.
        stamp: Nanos,
    },
    /// A pop found nothing.
    Empty,
    /// A pop found a value.
    Popped {
        value: u64,
        /// Whether it is the first of those that lay there when the queue was looked at.
        first: bool,
    },
    /// A push went in; this many values lie there now.
    Pushed {
        /// How many, this one included.
        depth: u64,
    },
    /// A push found no room.
    Full,
    /// A message was read.
    Received {
        /// When it was sent; zero where it is too short to say so.
        stamp: Nanos,
    },
    /// All senders of the channel have closed it or are gone.
    Closed,
    /// The run is being stopped: the operation may not have been performed; exit soon.
    Stopped,
    /// The other side is gone or the system refused (errno).
    Failed(i32),
}

/// Where a behaviour puts its samples, and what it learns from outside. On the host these are words
/// in shared memory that only this task writes: no lock is taken and nothing allocated.
pub trait Instruments {
    /// A sample of a series: nanoseconds, or a plain number where the series says so.
    fn sample(&mut self, series: SampleId, value: u64);
    /// Adds to a counter of the task.
    fn count(&mut self, counter: CounterId, by: u64);
    /// The dial as it stands now.
    fn dial(&self, dial: DialId) -> u64;
    /// Puts a mark on the timeline, where one is recorded: `id` counts the plan's `marks`. Each costs
    /// a recording about a microsecond, so what is marked lasts longer by far.
    fn mark(&mut self, at: Nanos, id: u32, phase: Phase) {
        self.mark_request(at, id, phase, 0);
    }
    /// The same for one of many requests that overlap, or that another task ends: the begin and the end of
    /// `request` carry the same number. 0 is none.
    fn mark_request(&mut self, _at: Nanos, _id: u32, _phase: Phase, _request: u32) {}
    /// When all tasks will be stopped (the clock of `now`), where that is known once they start.
    fn until(&self) -> Option<Nanos> {
        None
    }
}

pub trait Behaviour: Send {
    /// The next operation, given the time and how the last one went. Samples are taken here, so they
    /// mean the same on every machine.
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op;

    /// The task's whole life as one loop, where asking for each operation would disturb what is
    /// measured. It performs the operations that [`Self::next`] yields, in the same order; a machine
    /// may take either.
    fn whole(&self) -> Option<Loop> {
        None
    }

    /// The task anew, for those that others start again and again ([`Op::Fork`]).
    fn again(&self) -> Option<Box<dyn Behaviour>> {
        None
    }
}

/// A life that is nothing but messages. The ends of its channels are closed when it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loop {
    /// A message to every channel in turn, round after round.
    Send {
        /// The channels to send over, in turn.
        channels: Vec<ChannelId>,
        /// Length of each message.
        bytes: u32,
        rounds: u64,
        /// Whether a message says when it was sent (where it is long enough to).
        stamped: bool,
        /// Marks the begin and the end of each round in a recording.
        mark: Option<u32>,
    },
    /// Messages from one channel until all have come or its senders are gone.
    Receive {
        channel: ChannelId,
        /// Length of each message.
        bytes: u32,
        messages: u64,
        /// Takes how long each message was under way.
        latency: Option<SampleId>,
        counter: CounterId,
    },
}
