//! What a demand rests on: how each task's waits ended, and what is not known.

use crate::timers::Timer;
use schedlab_model::{Nanos, Pid, Warning};
use schedlab_workload::demand::{Demand, Source};

/// One task's part of a demand.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Its pid in the demand.
    pub pid: Pid,
    pub comm: String,
    /// CPU time that it asks for.
    pub cpu_time: Nanos,
    /// Waits that another task ended.
    pub by_task: u64,
    /// Those among them that were for bytes of an object, of which the calls were recorded.
    pub on_objects: u64,
    /// Waits that an interrupt ended.
    pub by_interrupt: u64,
    /// Waits whose end was not seen: the task ran again.
    pub unseen: u64,
    /// Wakeups that came while it was not asleep: waits that did not happen.
    pub not_asleep: u64,
    /// Whether it computes until the replay ends: it did so when the recording ended.
    pub is_endless: bool,
    /// Whether it computed until it ended, so that the recording fixes its demand: on another scheduler it would have
    /// computed more or less until then.
    pub is_fixed: bool,
    /// The task that woke it most often, and how often.
    pub waker: Option<(Pid, u64)>,
    /// The pattern of the interrupts that ended the task's waits.
    pub timer: Timer,
    /// Whether recorded timers decided it, not the times of wakeups.
    pub timer_is_recorded: bool,
    /// How much later than asked the kernel may end the task's sleeps, in the median; `None` if no timer was recorded.
    pub slack: Option<Nanos>,
    /// Whether these interrupts come at their recorded times, or after sleeps of the recorded length.
    pub source: Source,
}

impl Account {
    /// Whether it may depend on others in ways that the events do not show: another task ended a wait of it, so at other
    /// times it may have found what it waits for without waiting. Waits for known objects hide nothing.
    #[must_use]
    pub(crate) fn may_hide(&self) -> bool {
        self.by_task > self.on_objects
    }
}

/// What holds for the whole demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// CPU time of all tasks.
    pub cpu_time: Nanos,
    /// Interrupts within bursts, which were subtracted.
    pub interrupts: Nanos,
    /// What switches and wakeups were taken to cost, which was subtracted.
    pub overhead: Nanos,
    /// CPU time on CPUs of unknown speed.
    pub speed_unknown: Nanos,
    /// What the hypervisor took from the CPUs during the recording, within bursts or not; `None` if it was not recorded.
    pub(crate) steal: Option<Nanos>,
    /// CPU time of tasks that are not replayed (the stopper).
    pub(crate) left_out: Nanos,
    /// Recorded calls that moved bytes.
    pub calls: u64,
    /// Calls among them of which the object is not known: they are replayed as they were.
    pub calls_unknown: u64,
    /// Waits for futexes that found the value changed by a wakeup that was seen.
    pub futex_tokens: u64,
    /// Polls for bytes of known objects.
    pub polls: u64,
    /// Objects that are taken as unknown, since with them tasks would wait for each other for ever.
    pub contradictory: u64,
}

/// A demand and what it rests on.
#[derive(Clone, Debug, Default)]
pub struct Inferred {
    pub demand: Demand,
    /// Its tasks, in the demand's order.
    pub accounts: Vec<Account>,
    /// The sums over all tasks.
    pub totals: Totals,
    /// What limits the demand.
    pub warnings: Vec<Warning>,
}
