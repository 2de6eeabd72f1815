//! What recorded tasks demanded: bursts of CPU time between the points at which they block.
//!
//! A demand says nothing about who ran where. It holds what each task asked for, who ended its waits, and the times of
//! interrupts. `schedlab-replay` infers it from a trace; the workload `replay` performs it on any machine. Its written form is
//! text with a line per step.
//!
//! Each task has one semaphore that only this task takes from. So the order in which tasks run cannot change which
//! waits end: a demand that was performed once can always be performed to its end. Objects are channels of bytes with
//! one reader each: a reader that finds bytes does not wait. A writer waits for room, so in another order writers and
//! readers may wait for each other for ever, as the recorded programs may.

mod text;

use schedlab_model::{Cpu, CpuSet, Nanos, Pid, Prio};

/// A step of a recorded task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Time on a CPU.
    Run(Nanos),
    /// Wakes another task: an index into [`Demand::actors`].
    Post(u32),
    /// Waits until another task posts.
    Wait,
    Interrupt {
        /// When it came, since the demand began.
        at: Nanos,
        /// How long the task had slept then.
        slept: Nanos,
    },
    /// Starts another task: an index into [`Demand::actors`].
    Fork(u32),
    /// Has this priority from now on.
    Prio(Prio),
    /// Runs until the demand's end: the recording ended before the task did.
    Endless,
    /// Puts bytes into an object, and waits for room.
    Put {
        /// An index into [`Demand::objects`].
        object: u32,
        /// The number of bytes that it adds, 1 or more.
        bytes: u32,
    },
    /// Takes bytes out of an object, and waits until they are there.
    Take {
        /// An index into [`Demand::objects`].
        object: u32,
        /// The number of bytes that it removes, 1 or more.
        bytes: u32,
    },
    /// Time on a CPU within the calls that put and take. A machine on which these calls take time does not add it.
    InCall(Nanos),
}

/// What writers and one reader share: bytes, and how many there is room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Object {
    /// It has the room of a pipe.
    #[default]
    Pipe,
    /// It has the room of a UNIX stream socket.
    Socket,
    /// It has the room of a TCP connection: more was seen in it than a UNIX socket holds.
    Large,
}

impl Object {
    const ALL: [(Self, &str); 3] =
        [(Self::Pipe, "pipe"), (Self::Socket, "socket"), (Self::Large, "large")];

    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(object, _)| *object == self).map_or("", |(_, name)| name)
    }

    /// The object of a name; `None` if there is none.
    #[must_use]
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(object, _)| *object)
    }
}

impl Step {
    /// Time on a CPU that it asks for.
    #[must_use]
    pub const fn cpu_time(&self) -> Nanos {
        match self {
            Self::Run(time) | Self::InCall(time) => *time,
            _ => Nanos::ZERO,
        }
    }
}

/// How a task's waits for interrupts are performed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The interrupts keep their times: arrivals come from outside.
    #[default]
    Open,
    /// The sleeps keep their lengths: the next request follows the answer.
    Closed,
}

/// A policy that a priority does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `SCHED_BATCH`: it does not displace others.
    Batch,
    /// `SCHED_IDLE`: it runs if no other wants to.
    Idle,
    /// `SCHED_RR`: equals share in slices.
    RoundRobin,
}

impl Class {
    const ALL: [(Self, &str); 3] =
        [(Self::Batch, "batch"), (Self::Idle, "idle"), (Self::RoundRobin, "rr")];

    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(class, _)| *class == self).map_or("", |(_, name)| name)
    }

    /// The class of a policy's name (`batch`, `rr:5`); `None` if the priority tells the policy.
    #[must_use]
    pub fn of(policy: &str) -> Option<Self> {
        let name = policy.split(':').next()?;
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(class, _)| *class)
    }
}

/// A recorded task, and what it asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Its pid; no other actor has it.
    pub pid: Pid,
    pub comm: String,
    /// Its priority at the beginning.
    pub prio: Prio,
    /// Its policy where the priority does not tell it.
    pub class: Option<Class>,
    /// The slice that it asked for; `None`: the machine's.
    pub slice: Option<Nanos>,
    /// The control group or session that it shared CPUs in; `None`: none.
    pub group: Option<String>,
    /// Where it may run; `None`: anywhere.
    pub cpus: Option<CpuSet>,
    /// Where it was at the beginning.
    pub cpu: Cpu,
    /// Whether another task starts it ([`Step::Fork`]).
    pub forked: bool,
    /// How its waits for interrupts are performed.
    pub source: Source,
    /// What it does. It ends after the last step.
    pub steps: Vec<Step>,
}

impl Actor {
    /// Time on a CPU that it asks for.
    #[must_use]
    pub fn cpu_time(&self) -> Nanos {
        Nanos(self.steps.iter().map(|step| step.cpu_time().0).sum())
    }
}

/// What recorded tasks demanded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// When it began, on the clock of its trace.
    pub start: Nanos,
    pub length: Nanos,
    /// The tasks, by their numbers.
    pub actors: Vec<Actor>,
    /// What they share, by its number.
    pub objects: Vec<Object>,
}

impl Demand {
    /// Checks that steps name tasks that exist, that each forked task is started once and no other is, and that as many
    /// posts as waits are there. Of each object one task takes, and as many bytes as are put.
    ///
    /// # Errors
    /// The first mistake, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        let mut balance = vec![0_i64; self.actors.len()];
        let mut started = vec![0_u32; self.actors.len()];
        for (index, actor) in self.actors.iter().enumerate() {
            for step in &actor.steps {
                let named = match step {
                    Step::Post(task) | Step::Fork(task) => *task as usize,
                    _ => index,
                };
                if named >= self.actors.len() {
                    return Err(format!(
                        "task {} names task number {named}, which does not exist",
                        actor.pid
                    ));
                }
                match step {
                    Step::Post(_) => balance[named] += 1,
                    Step::Wait => balance[index] -= 1,
                    Step::Fork(_) => started[named] += 1,
                    _ => {}
                }
            }
        }
        for (index, actor) in self.actors.iter().enumerate() {
            if balance[index] < 0 {
                let missing = -balance[index];
                return Err(format!(
                    "task {} waits {missing} times for a wakeup that no task gives",
                    actor.pid
                ));
            }
            if started[index] != u32::from(actor.forked) {
                let times = started[index];
                return Err(format!("task {} is started {times} times", actor.pid));
            }
        }
        self.check_objects()
    }

    fn check_objects(&self) -> Result<(), String> {
        let mut balance = vec![0_i64; self.objects.len()];
        let mut reader: Vec<Option<usize>> = vec![None; self.objects.len()];
        for (index, actor) in self.actors.iter().enumerate() {
            for step in &actor.steps {
                let (Step::Put { object, .. } | Step::Take { object, .. }) = *step else {
                    continue;
                };
                let at = object as usize;
                if at >= self.objects.len() {
                    return Err(format!(
                        "task {} names object number {at}, which does not exist",
                        actor.pid
                    ));
                }
                match *step {
                    Step::Take { bytes, .. } => {
                        balance[at] -= i64::from(bytes);
                        if *reader[at].get_or_insert(index) != index {
                            return Err(format!("more than one task takes from object {at}"));
                        }
                    }
                    Step::Put { bytes, .. } => balance[at] += i64::from(bytes),
                    _ => {}
                }
            }
        }
        match balance.iter().position(|balance| *balance != 0) {
            None => Ok(()),
            Some(at) => Err(format!("object {at}: {} bytes more are put than taken", balance[at])),
        }
    }
}
