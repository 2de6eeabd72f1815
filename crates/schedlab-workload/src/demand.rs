//! What recorded tasks demanded: bursts of CPU time between the points at which they block.
//!
//! A demand says nothing about who ran where. It holds what each task asked for, who ended its waits, and the times of
//! interrupts. `schedlab-replay` infers it from a trace; the workload `replay` performs it on any machine. Its written form is
//! text with a line per step.
//!
//! Each task has one semaphore that only this task takes from. So the order in which tasks run cannot change which
//! waits end: a demand that was performed once can always be performed to its end.

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
    /// Waits for an interrupt.
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

    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
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
    /// The name of the task.
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
        let time = |step: &Step| if let Step::Run(time) = step { time.0 } else { 0 };
        Nanos(self.steps.iter().map(time).sum())
    }
}

/// What recorded tasks demanded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// When it began, on the clock of its trace.
    pub start: Nanos,
    /// How long it was recorded.
    pub length: Nanos,
    /// The tasks, by their numbers.
    pub actors: Vec<Actor>,
}

impl Demand {
    /// Checks that steps name tasks that exist, that each forked task is started once and no other is, and that as many
    /// posts as waits are there.
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
        Ok(())
    }
}
