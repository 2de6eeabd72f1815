//! Who waits for whom, where nothing can happen any more.

use super::World;
use super::task::{On, TaskState};
use crate::policy_view::TaskId;
use std::fmt;

/// Tasks that sleep for ever: no event is left, and none of them can be woken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Deadlock {
    /// When, in nanoseconds since the simulation began.
    pub(crate) at_ns: u64,
    /// A sentence for each task that sleeps, in order of tasks.
    pub(crate) waits: Vec<String>,
}

/// Tasks that a message names; more are counted.
const NAMED: usize = 8;

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ns, waits } = self;
        let tasks = if waits.len() == 1 { "task sleeps" } else { "tasks sleep" };
        write!(f, "deadlock after {} ns: {} {tasks} and nobody can wake them", at_ns, waits.len())?;
        for wait in waits.iter().take(NAMED) {
            write!(f, "; {wait}")?;
        }
        match waits.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl World {
    pub(super) fn deadlock(&self) -> Deadlock {
        let asleep = (0..self.bodies.len())
            .map(|task| TaskId(task as u32))
            .filter(|&task| self.bodies[task.index()].stand == TaskState::Asleep)
            .filter(|&task| Some(task) != self.starter && Some(task) != self.rcu);
        let waits = asleep.map(|task| self.wait_in_words(task)).collect();
        // The tick may have come once more since.
        let at = self.scene.cpus.iter().map(|cpu| cpu.idle_since).max().unwrap_or(0);
        Deadlock { at_ns: at - self.config.begin_ns, waits }
    }

    fn wait_in_words(&self, task: TaskId) -> String {
        let who = self.name(task);
        let nobody = |what: &str| format!("{who} waits for {what}");
        match self.bodies[task.index()].on {
            Some(On::Lock(lock)) => match self.shared.locks[lock as usize].owner {
                Some(owner) => {
                    format!("{who} waits for lock {lock}, which {} holds", self.name(owner))
                }
                None => nobody(&format!("lock {lock}")),
            },
            Some(On::Word(word)) => nobody(&format!("a wake of word {word}")),
            Some(On::Semaphore(semaphore)) => nobody(&format!("a post of semaphore {semaphore}")),
            Some(On::Barrier(barrier)) => {
                let barrier_ = &self.shared.barriers[barrier as usize];
                let come = barrier_.sleeping.len();
                let parties = barrier_.parties;
                nobody(&format!("barrier {barrier}, to which {come} of {parties} have come"))
            }
            Some(On::Readable(channel)) => nobody(&format!(
                "a message on channel {channel}, which {} can send",
                self.holders(channel, true)
            )),
            Some(On::Writable(channel)) => nobody(&format!(
                "room in channel {channel}, which {} can read",
                self.holders(channel, false)
            )),
            Some(On::Gate | On::AllReady | On::AllEnded | On::Time) | None => nobody("the others"),
        }
    }

    /// The tasks that can still send on a channel, or read from it.
    fn holders(&self, channel: u32, sends: bool) -> String {
        let holds = |task: &usize| {
            let body = &self.bodies[*task];
            let ends = if sends { &body.sends } else { &body.receives };
            body.stand != TaskState::Gone
                && ends.contains(&channel)
                && !body.closed.contains(&channel)
        };
        let mut holders = (0..self.bodies.len()).filter(holds);
        match (holders.next(), holders.count()) {
            (None, _) => "nobody".to_owned(),
            (Some(first), 0) => self.name(TaskId(first as u32)),
            (Some(first), more) => format!("{} and {more} more", self.name(TaskId(first as u32))),
        }
    }

    pub(super) fn name(&self, task: TaskId) -> String {
        format!("{} (pid {})", self.comms[task.index()], self.pid(task))
    }
}
