//! Who ran where, who waited where and since when: the state machine over scheduler events, and the
//! questions that one pass over a trace can answer.
//!
//! Events go in ([`schedlab_model::EventSource`], in order of time), [`State`] holds what is true now,
//! and each event that alters something reaches a [`Question`]. A tuple of
//! questions is a question, so one pass answers many:
//!
//! ```
//! use schedlab_timeline::{ask, notation, Cpus, Latency};
//!
//! // A line per CPU, a column per microsecond; lower case waits. `B` waits 2 µs for `A`.
//! let trace = notation::parse(
//!     "0 | AAAABB..
//!        |   bb",
//! ).unwrap();
//! let reply = ask(&mut trace.source(), (Latency::new(), Cpus::new())).unwrap();
//! let (latency, cpus) = reply.answer;
//! assert_eq!(latency.total.wakeup.max(), Some(2_000));
//! assert_eq!(cpus.rows[0].idle.0, 2_000);
//! ```
//!
//! Invariants: no I/O and no clock here; a task is in one place at a time and a CPU's time is
//! conserved (running + idle + unknown = observed), even if events contradict it; what contradicts
//! itself is counted ([`Tally`]) and never fatal. Memory is bounded by the tasks and CPUs seen,
//! never by the length of the trace.
//!
//! Resources: an event is 40 bytes read once; a switch touches one CPU entry, two task entries and
//! one page of the pid table, a wakeup one of each. No hashing, no allocation once a task is known.
#![warn(missing_docs)]

mod all_questions;
mod at_start;
mod by_group;
mod caused_waits;
mod causes;
mod change;
mod check;
mod conservation;
mod cpus;
mod density;
mod first_difference;
mod idle_departures;
mod in_reply;
mod interrupts;
mod intervals;
mod known_formats;
mod latency;
mod locality;
mod locks;
mod longest_waits;
mod membership;
mod migrations;
mod missing_events;
mod names;
pub mod notation;
mod occupants;
mod off_cpu;
mod on_cpu;
mod open_waits;
mod pids;
mod power;
mod question;
mod queue;
mod ran_instead;
mod requests;
mod slices;
mod stack_change;
mod stacks;
mod state;
mod step;
mod task;
mod task_filter;
mod task_life;
mod tasks;
#[cfg(test)]
mod tests;
mod throttling;
mod totals;
mod waiting;
mod wake;
mod warnings;
mod why_late;
mod windows;

pub use all_questions::{Everything, everything, total_values, totals};
pub use by_group::{ByGroup, InGroups, OfGroup};
pub use causes::{
    Blame, Causes, CausesAnswer, ExplainedWait, Parts, TaskCauses, WaitCause, is_kernel_thread,
};
pub use change::{Change, Moved, Runnable, Switch, Wait, Waker};
pub use check::Checked;
pub use conservation::{
    Because, Cause, Conservation, ConservationAnswer, Episode, Lost,
    Options as ConservationOptions, Share, Sums,
};
pub use cpus::{CpuRow, Cpus, CpusAnswer};
pub use density::{By, Cell, Density, DensityAnswer};
pub use first_difference::{Decided, Decision, FirstDifference, first_difference};
pub use idle_departures::{Departures, DeparturesAnswer};
pub use in_reply::InReply;
pub use intervals::{Interval, Intervals};
pub use latency::{Delays, Latency, LatencyAnswer, LatencyByCpu, LatencyRow, Waited};
pub use locality::{Locality, LocalityAnswer, LocalityRow, Woken, WokenFar, WokenPair};
pub use locks::{
    HELD, LockHeld, LockName, LockWait, Locks, LocksAnswer, WAITED_FOR, tells_of_locks,
};
pub use longest_waits::{Worst, WorstWait};
pub use migrations::{ChainedHop, Hop, MOVED_BY, Migrations, MigrationsAnswer, Moves};
pub use names::{CommId, Names};
pub use occupants::Occupants;
pub use off_cpu::{
    CUT, FoldedStack, NO_STACK, OffCpuAnswer, OffCpuCauses, OffCpuStack, OffCpuStacks, RUN_DELAY,
    Sleep, Sleeps, StackRow, Unslept, UnsleptWait, WOKEN_BY, WokenBy,
};
pub use on_cpu::{NO_TICK, OnCpuAnswer, OnCpuStack, OnCpuStacks, RunningStackRow, Tick, Ticks};
pub use open_waits::Open;
pub use power::{CpuPower, IdleState, Power, PowerAnswer, PowerSpan, Step, TaskPower, Within};
pub use question::{
    Cut, OtherEvent, Question, Reply, WithArguments, ask, ask_all, ask_within, span_of,
};
pub use ran_instead::{Meanwhile, RanInstead};
pub use requests::{
    Composition, Part, REQUESTS_MIN, Request, RequestCauses, RequestRunning, RequestSpan,
    RequestSpans, RequestSpansAnswer, RequestStacks, Requests, RequestsAnswer, WithinRequests,
};
pub use slices::{SleepSlice, Slice, Slices, SlicesAnswer, WaitSlice, WakeMark};
pub use stack_change::{StackChange, stack_changes};
pub use stacks::{Blocked, BlockedIn, STACK, StackId, Stacks, tells_where_tasks_block};
pub use state::{CpuState, Occupant, State, Tally};
pub use task::{Activity, Task, TaskId, Why};
pub use task_filter::{Chosen, EveryTask};
pub use tasks::{Asleep, OffCpu, TaskRow, Tasks, TasksAnswer};
pub use throttling::{Throttled, Throttling, ThrottlingAnswer};
pub use totals::{About, Total};
pub use waiting::{Bin, PlacedBin, Waiting, WaitingAnswer};
pub use why_late::{Doing, Spent, WhyLate, WhyLateAnswer};
pub use windows::Windows;

/// The examples of README.md are tested with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
