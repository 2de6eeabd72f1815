//! Policies: who runs where, and for how long.
//!
//! The world calls a policy at the points where a kernel would: a task wakes, a task leaves, a CPU needs its next
//! task, the tick comes. The policy keeps the runqueues. It sees the machine as a [`Scene`] and changes nothing there.

mod balance;
mod cfs;
mod classes;
mod eevdf;
mod fifo;
mod groups;
mod ordered;
mod pelt;
mod place;
mod shared_queues;
mod weight;

pub use cfs::{Cfs, CfsKnobs};
pub use classes::{ClassKnobs, Classes};
pub use eevdf::{Eevdf, EevdfKnobs};
pub use fifo::Fifo;
pub use groups::{Buddies, Choice, Group, Groups, Limit, Nested};
pub use place::{Placer, PlacerKnobs};
pub use shared_queues::SharedFifo;

use crate::policy_view::{Scene, TaskId};

/// How a task came to a CPU's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Its first wakeup after its fork.
    New,
    /// It woke, and stays on the CPU where it last was.
    Woken,
    /// It woke on another CPU than before.
    WokenElsewhere,
    /// It was moved while it was runnable.
    Moved,
}

/// Why a task leaves its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The task sleeps until a wakeup.
    Sleeps,
    /// The task ends for good.
    Ends,
    /// It goes to another CPU, still runnable.
    Moves,
}

/// A wakeup, before a CPU is chosen.
#[derive(Clone, Copy, Debug)]
pub struct Wake {
    pub task: TaskId,
    pub cpu: usize,
    /// The task that wakes it; `None`: an interrupt.
    pub waker: Option<TaskId>,
    /// Whether this is its first wakeup after its fork.
    pub new: bool,
    /// Whether the waker says that it will sleep soon (`WF_SYNC`).
    pub sync: bool,
}

/// A runnable task that a policy moved between the queues of two CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub task: TaskId,
    pub from: usize,
    pub to: usize,
}

/// A CPU from which a task is pushed to another, also the one that runs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Push {
    /// The CPU that is to give a task away.
    pub from: usize,
    pub to: usize,
}

/// A time at which a policy wants to act by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alarm {
    /// When, in nanoseconds; not before now.
    pub at: u64,
    pub cpu: usize,
    /// Which of the policy's alarms it is, as the policy numbers them.
    pub what: u64,
}

/// What balancing did, and what it asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Tasks that were moved; each is in its new queue already.
    pub done: Vec<Move>,
    /// CPUs from which a task is to be pushed.
    pub pushes: Vec<Push>,
}

/// A scheduler.
///
/// A task that is enqueued stays with the policy until it is dequeued, also while it runs. `pick` says who runs from
/// now on; the task that ran before is still in the queue unless it was dequeued.
pub trait Policy {
    /// The CPU on which a waking task becomes runnable: one that it may use.
    fn select(&mut self, scene: &Scene, wake: &Wake) -> usize;

    /// `parent`, running on `cpu`, made `child`, whose first wakeup follows.
    fn fork(&mut self, scene: &Scene, cpu: usize, parent: Option<TaskId>, child: TaskId) {
        let _ = (scene, cpu, parent, child);
    }

    /// `task` begins on `cpu` before all others, and forks them. It was forked itself, and has run since.
    fn leads(&mut self, scene: &Scene, cpu: usize, task: TaskId) {
        let _ = (scene, cpu, task);
    }

    /// `task` becomes runnable on `cpu`.
    fn enqueue(&mut self, scene: &Scene, cpu: usize, task: TaskId, arrival: Arrival);

    /// Whether `task`, which was just enqueued on `cpu`, displaces the task that runs there.
    fn preempts(&mut self, scene: &Scene, cpu: usize, task: TaskId, arrival: Arrival) -> bool;

    /// `task` leaves the queue of `cpu`.
    fn dequeue(&mut self, scene: &Scene, cpu: usize, task: TaskId, departure: Departure);

    /// Who runs on `cpu` from now on; `None`: it becomes idle.
    fn pick(&mut self, scene: &Scene, cpu: usize) -> Option<TaskId>;

    /// [`Policy::pick`] for a class above: where another task runs next, all groups above it are put back and picked anew,
    /// also those that the task before is in (`put_prev_set_next_task`). If nobody can run, the task before stays where it is
    /// until another runs.
    fn pick_anew(&mut self, scene: &Scene, cpu: usize) -> Option<TaskId> {
        self.pick(scene, cpu)
    }

    /// The scheduler tick on a busy CPU; whether its task is displaced.
    fn tick(&mut self, scene: &Scene, cpu: usize) -> bool;

    /// The task that runs on `cpu` yields.
    fn yields(&mut self, scene: &Scene, cpu: usize);

    /// `cpu` is about to become idle: tasks that are moved to it, or to others.
    fn pull(&mut self, scene: &Scene, cpu: usize, moves: &mut Moves) {
        let _ = (scene, cpu, moves);
    }

    /// The tick has come on all busy CPUs: tasks that are moved to balance the load.
    fn balance(&mut self, scene: &Scene, moves: &mut Moves) {
        let _ = (scene, moves);
    }

    /// The task that is pushed off a CPU. One that waits is in its new queue afterwards; the one that runs is moved by
    /// the world.
    fn push(&mut self, scene: &Scene, push: Push) -> Option<TaskId> {
        let _ = (scene, push);
        None
    }

    /// Whether each fair task gets a CPU within some time: only then the task that began a load can end it.
    fn serves_all(&self) -> bool {
        false
    }

    /// Whether limits hold up all tasks of `cpu`.
    fn is_held_up(&self, cpu: usize) -> bool {
        let _ = cpu;
        false
    }

    /// Whether the policy acts by itself: only then the world asks for alarms, and has it settle.
    fn is_timed(&self) -> bool {
        false
    }

    /// The next alarm that the policy wants to be set. An alarm cannot be cancelled: the policy ignores one that it no
    /// longer needs.
    fn take_alarm(&mut self) -> Option<Alarm> {
        None
    }

    /// An alarm goes off. CPUs on which another task should run now are added to `kicks`. Whether it still counts.
    fn alarm(&mut self, scene: &Scene, alarm: Alarm, kicks: &mut Vec<usize>) -> bool {
        let _ = (scene, alarm, kicks);
        false
    }

    /// The time of the next alarm of a CPU that still counts.
    fn next_alarm(&self, scene: &Scene, cpu: usize) -> Option<u64> {
        let _ = (scene, cpu);
        None
    }

    /// A task came to `cpu`, or another runs there: tasks that are moved because of that.
    fn settle(&mut self, scene: &Scene, cpu: usize, moves: &mut Moves) {
        let _ = (scene, cpu, moves);
    }

    /// Time that what runs on a CPU was charged since the last call, in nanoseconds: a server of fair tasks, or a limited
    /// group, pays it.
    fn charged(&mut self, cpu: usize) -> u64 {
        let _ = cpu;
        0
    }

    /// Another class takes `cpu`, or the CPU leaves the group: the task that ran waits in its queue.
    fn put_back(&mut self, scene: &Scene, cpu: usize) {
        let _ = (scene, cpu);
    }
}
