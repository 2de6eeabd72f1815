//! A task as the world drives it: what it does now, and how far it has come.

use crate::policy_view::{Class, TaskId};
use schedlab_workload::{Behaviour, Done, Op};
use std::collections::VecDeque;

/// What a task has used since it began. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskUsage {
    /// Time on a CPU outside the kernel.
    pub user_ns: u64,
    /// Time on a CPU in the kernel: calls, switches, wakeups, interrupts.
    pub system_ns: u64,
    /// Time runnable without running.
    pub run_delay_ns: u64,
    /// How often it began to run.
    pub(crate) timeslices: u64,
    /// Number of switches away after which it slept or ended.
    pub(crate) voluntary: u64,
    /// Number of switches away after which it stayed runnable.
    pub(crate) involuntary: u64,
    /// The number of moves between CPUs.
    pub migrations: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskState {
    /// It has not been started, or waits to be started again.
    Unborn,
    Queued,
    /// The task runs on a CPU.
    Running,
    /// The task sleeps until a wakeup.
    Asleep,
    /// It was woken, and the interrupt is on its way.
    Arriving,
    /// The task has ended for good.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It asks for its next operation once the time has passed.
    Ask,
    /// The operation takes effect once the time has passed.
    Enter,
    /// The call has found that it must sleep, and does so once the time has passed.
    Blocking,
}

/// What a task performs: an operation of its behaviour, or a step of the start of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Op(Op),
    /// The starter forks a task of the plan.
    Spawn(TaskId),
    /// The starter waits until all tasks are ready.
    AwaitReady,
    /// The starter tells that all tasks are ready.
    Begin,
    /// The starter lets all tasks go.
    OpenGate,
    /// The starter waits until all tasks have ended.
    AwaitEnd,
    /// A new task prepares itself, then waits for the gate.
    Prepare,
    /// The kernel's RCU thread ends a grace period, and sleeps.
    EndGrace,
}

impl Act {
    /// Whether it is performed outside the kernel, where a task can be displaced at any time.
    pub(super) fn is_user(self) -> bool {
        matches!(
            self,
            Self::Op(
                Op::Compute { .. }
                    | Op::Multiply { .. }
                    | Op::Fill { .. }
                    | Op::Walk { .. }
                    | Op::Chase { .. }
                    | Op::Stream { .. }
                    | Op::Allocate { .. }
                    | Op::Push { .. }
                    | Op::Pop(_)
                    | Op::Spin(_)
                    | Op::LockCpu
                    | Op::UnlockCpu
            )
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    Gate,
    AllReady,
    AllEnded,
    Time,
    Word(u32),
    Readable(u32),
    Writable(u32),
    Lock(u32),
    Barrier(u32),
    Semaphore(u32),
}

/// How a task goes on after a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resume {
    /// It tries its operation again.
    Retry,
    /// The operation is over, and went so.
    With(Done),
}

/// A task's body. Fields come in the order in which they are used: by each operation, by each switch, seldom.
#[repr(C)]
pub(super) struct Body {
    /// Work of the phase that is left, in nanoseconds at full speed.
    pub(super) left: u64,
    pub(super) act: Act,
    pub(super) phase: Phase,
    pub(super) stand: TaskState,
    /// Whether it slept in the current write.
    pub(super) waited: bool,
    /// Whether it is in a call whose end is reported as an event.
    pub(super) in_call: bool,
    /// Whether it was released and has not yet done what it does only once.
    pub(super) fresh: bool,
    pub(super) spinning: bool,
    /// Whether it runs as a fair task, and has yet to ask for its class.
    pub(super) is_plain: bool,
    /// Whether its sleep has an end, in a kernel's own code.
    pub(super) is_timed: bool,
    /// Whether it was never woken since its fork.
    pub(super) newborn: bool,
    /// Whether its last wakeup put it on another CPU.
    pub(super) woke_elsewhere: bool,
    /// Bytes of the current message that have been moved.
    pub(super) moved: u32,
    pub(super) on: Option<On>,
    pub(super) asked_at: u64,
    /// When the sleep that it is about to begin ends.
    pub(super) until: Option<u64>,
    /// Since when it is on a CPU, and for how long it was on one before.
    pub(super) on_since: u64,
    pub(super) counted: u64,
    /// When something was last told of it, in a kernel's own code.
    pub(super) told: u64,
    /// What its recorded call takes.
    pub(super) call_work: u64,
    /// What a kernel's own code took of what the costs of its calls contain, or its recorded bursts: its next calls take
    /// less by that, those of a recorded task and its work.
    pub(super) prepaid: u64,
    /// What the behaviour learns next.
    pub(super) done: Done,
    /// `None`: it starts the others.
    pub(super) behaviour: Option<Box<dyn Behaviour>>,
    /// An operation that the behaviour gave and that has not begun.
    pub(super) kept: Option<Op>,
    pub(super) usage: TaskUsage,
    /// Since when it has waited or run.
    pub(super) since: u64,
    /// Counts sleeps, so that a timer of an earlier one is known.
    pub(super) sleeps: u64,
    pub(super) last_ran: Option<usize>,
    /// Values taken from a stack, to be handed out.
    pub(super) batch: VecDeque<u64>,
    pub(super) cpu_lock: Option<usize>,
    /// The class that it asks for once it runs, where a policy decides.
    pub(super) own_class: Class,
    /// The group of forks that it belongs to.
    pub(super) fork: Option<u32>,
    pub(super) sends: Vec<u32>,
    pub(super) receives: Vec<u32>,
    pub(super) closed: Vec<u32>,
    pub(super) after_stop: u32,
    pub(super) ended_at: Option<u64>,
    /// Whether an error ended its operations, and which.
    pub(super) error: Option<i32>,
}

impl Body {
    /// The part of a cost that the kernel's code took before.
    #[inline]
    pub(super) fn take_prepaid(&mut self, cost: u64) -> u64 {
        let taken = self.prepaid.min(cost);
        self.prepaid -= taken;
        taken
    }

    pub(super) fn new(behaviour: Option<Box<dyn Behaviour>>) -> Self {
        Self {
            behaviour,
            stand: TaskState::Unborn,
            phase: Phase::Ask,
            act: Act::Prepare,
            left: 0,
            kept: None,
            done: Done::Start,
            asked_at: 0,
            until: None,
            on_since: 0,
            counted: 0,
            told: 0,
            is_timed: false,
            is_plain: false,
            own_class: Class::Normal,
            on: None,
            sleeps: 0,
            moved: 0,
            waited: false,
            in_call: false,
            call_work: 0,
            prepaid: 0,
            batch: VecDeque::new(),
            cpu_lock: None,
            spinning: false,
            fork: None,
            sends: Vec::new(),
            receives: Vec::new(),
            closed: Vec::new(),
            after_stop: 0,
            usage: TaskUsage::default(),
            since: 0,
            ended_at: None,
            fresh: false,
            newborn: true,
            woke_elsewhere: false,
            last_ran: None,
            error: None,
        }
    }
}
