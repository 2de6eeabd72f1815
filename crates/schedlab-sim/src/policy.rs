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
pub use groups::{Group, Groups, Limit, Nested};
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

/// What a recorded kernel charged a task that ran (`sched_stat_runtime`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The time that the task ran since its last charge, in nanoseconds.
    pub time: u64,
    /// The task's virtual time afterwards, in nanoseconds; `None`: the kernel does not log it.
    pub vruntime: Option<i64>,
}

/// What a kernel, or a model of it, holds of a task: the fields of `sched_entity` by which Linux 6.12 decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Its virtual time in nanoseconds.
    pub vruntime: i64,
    /// Its virtual deadline; relative to its virtual time if `relative`.
    pub deadline: i64,
    /// Its lag; while it runs, the deadline at which it was picked.
    pub vlag: i64,
    /// What it asks for at a time, in nanoseconds.
    pub slice: u64,
    /// It sleeps and has not left the queue.
    pub delayed: bool,
    /// Its deadline is a distance.
    pub relative: bool,
    /// It is in the queue, or runs.
    pub queued: bool,
}

/// What a kernel, or a model of it, holds of a CPU's queue: the fields of `cfs_rq` of Linux 6.12.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Its tasks, the running one and those that have not left it yet included.
    pub nr: u64,
    /// The sum of weight times virtual time from `zero`, without the running task.
    pub sum: i64,
    /// The sum of weights, without the running task.
    pub load: i64,
    /// The virtual time from which `sum` counts.
    pub zero: i64,
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

    /// Whether the last wakeup of `task` placed it in the queue without regard to its past.
    fn placed_anew(&self, task: TaskId) -> bool {
        let _ = task;
        true
    }

    /// `task` becomes runnable on `cpu`.
    fn enqueue(&mut self, scene: &Scene, cpu: usize, task: TaskId, arrival: Arrival);

    /// Whether `task`, which was just enqueued on `cpu`, displaces the task that runs there.
    fn preempts(&mut self, scene: &Scene, cpu: usize, task: TaskId, arrival: Arrival) -> bool;

    /// `task` leaves the queue of `cpu`.
    fn dequeue(&mut self, scene: &Scene, cpu: usize, task: TaskId, departure: Departure);

    /// Who runs on `cpu` from now on; `None`: it becomes idle.
    fn pick(&mut self, scene: &Scene, cpu: usize) -> Option<TaskId>;

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

    /// The tick has come in a recording that the policy follows: what balancing notes of the load, without a move.
    fn observe(&mut self, scene: &Scene) {
        let _ = scene;
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

    /// Whether the policy acts by itself: only then the world asks for alarms, and has it settle.
    fn is_timed(&self) -> bool {
        false
    }

    /// The next alarm that the policy wants to be set. An alarm cannot be taken back; the policy ignores it then.
    fn take_alarm(&mut self) -> Option<Alarm> {
        None
    }

    /// An alarm goes off. CPUs on which another task should run now are added to `kicks`.
    fn alarm(&mut self, scene: &Scene, alarm: Alarm, kicks: &mut Vec<usize>) {
        let _ = (scene, alarm, kicks);
    }

    /// A task came to `cpu`, or another runs there: tasks that are moved because of that.
    fn settle(&mut self, scene: &Scene, cpu: usize, moves: &mut Moves) {
        let _ = (scene, cpu, moves);
    }

    /// Who would run on `cpu` if it looked now; nothing changes. `None`: nobody, or the policy does not tell.
    fn would_pick(&self, cpu: usize) -> Option<TaskId> {
        let _ = cpu;
        None
    }

    /// `task`, which is in the queue of `cpu`, runs there from now on, whomever the policy would pick: a recording
    /// says so. Returns whether the policy can follow a recording.
    fn force(&mut self, scene: &Scene, cpu: usize, task: Option<TaskId>) -> bool {
        let _ = (scene, cpu, task);
        false
    }

    /// From now on a recording tells what tasks are charged: time that passes charges nobody. Returns whether the
    /// policy can do that.
    fn listens(&mut self) -> bool {
        false
    }

    /// Charges the task that runs on `cpu`. Its virtual time becomes the recorded one. Returns how far that lies
    /// beyond the policy's own; `None`: the charge does not tell.
    fn charge(&mut self, scene: &Scene, cpu: usize, charge: Charge) -> Option<i64> {
        let _ = (scene, cpu, charge);
        None
    }

    /// The virtual time of a task before this charge, as the charge tells it.
    fn before(&self, task: TaskId, charge: Charge) -> Option<i64> {
        let _ = (task, charge);
        None
    }

    /// The virtual time of a task.
    fn vruntime(&self, task: TaskId) -> Option<i64> {
        let _ = task;
        None
    }

    /// The nice value of `task`, which is on `cpu`, is another one from now on.
    fn renice(&mut self, scene: &Scene, cpu: usize, task: TaskId) {
        let _ = (scene, cpu, task);
    }

    /// How far the virtual time of the task that runs on `cpu` moves if it leaves the queue and returns at once, as
    /// `sched_setattr` and `sched_move_task` do.
    fn requeue_shift(&self, cpu: usize) -> i64 {
        let _ = cpu;
        0
    }

    /// The task that runs on `cpu` leaves the queue and returns at once.
    fn requeue(&mut self, scene: &Scene, cpu: usize) {
        let _ = (scene, cpu);
    }

    /// Whether `task` sleeps and is still in its queue.
    fn is_delayed(&self, task: TaskId) -> bool {
        let _ = task;
        false
    }

    /// Whether a wakeup places a task beside all that are in the queue, so that their past becomes its own.
    fn places_by_all(&self) -> bool {
        false
    }

    /// All tasks in the queue of `cpu` beside the one that runs, those that sleep among them.
    fn queued(&self, cpu: usize) -> Vec<TaskId> {
        self.waiting(cpu)
    }

    /// `task`, which is in the queue of `cpu`, has this virtual time: a recording says so. `credited`: it was placed
    /// there by the credit of a sleeper, which tells the queue's least virtual time.
    fn adopt(&mut self, cpu: usize, task: TaskId, vruntime: i64, credited: bool) {
        let _ = (cpu, task, vruntime, credited);
    }

    /// What the policy holds of a task; `None`: it holds other things.
    fn held_of(&self, task: TaskId) -> Option<Standing> {
        let _ = task;
        None
    }

    /// What it holds of a task, which is or was on `cpu`, becomes what a recording tells.
    fn take_standing(&mut self, cpu: usize, task: TaskId, standing: &Standing) {
        let _ = (cpu, task, standing);
    }

    /// What the policy holds of the queue of `cpu`; `None`: it holds other things.
    fn queue(&self, cpu: usize) -> Option<Queue> {
        let _ = cpu;
        None
    }

    /// The zero point of the queue of `cpu` becomes the one that a recording tells.
    fn take_zero(&mut self, cpu: usize, zero: i64) {
        let _ = (cpu, zero);
    }

    /// What the policy holds of a task that is queued on `cpu`, in words, for the one that looks for a cause.
    fn standing(&self, cpu: usize, task: TaskId) -> Option<String> {
        let _ = (cpu, task);
        None
    }

    /// The tasks that are runnable on `cpu` beside the one that runs, in no certain order; of a queue that several
    /// CPUs share, those that `cpu` may take.
    fn waiting(&self, cpu: usize) -> Vec<TaskId>;
}
