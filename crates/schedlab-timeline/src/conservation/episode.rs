//! Episodes: stretches in which one overloaded queue has a waiter that a free CPU could serve.

use super::because::Because;
use super::free::Step;
use super::matching::PARTS;
use crate::task::TaskId;
use schedlab_model::{Cpu, CpuSet, Nanos};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Tasks of an episode that are kept by name, those that came first.
const TASKS_MAX: usize = 16;

/// A maximal time in which a task waits on one overloaded CPU while a CPU that it may use is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Episode {
    /// When it began.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// The CPU whose queue had the waiter.
    pub overloaded: Cpu,
    /// CPUs that were free at some time meanwhile and that the last waiter may use.
    pub idle: CpuSet,
    /// Who waited first.
    pub task: TaskId,
    /// How that one came to wait there: the first decision that another choice would have avoided.
    pub because: Because,
    /// CPU time that was lost: this episode's part of the matching's size over time.
    pub cost: Nanos,
    /// Time that tasks waited in it, summed over tasks.
    pub waited: Nanos,
    /// Who waited how long, the first [`Episode::TASKS_MAX`] in order of arrival.
    pub tasks: Vec<Share>,
    /// Further tasks that waited.
    pub more_tasks: u32,
    /// How it ended.
    pub ended: Ended,
}

impl Episode {
    /// Tasks of an episode that are kept by name.
    pub const TASKS_MAX: usize = TASKS_MAX;

    /// How many tasks waited besides the first one.
    #[must_use]
    pub fn others(&self) -> usize {
        let others = self.tasks.iter().filter(|share| share.task != self.task);
        others.count() + self.more_tasks as usize
    }
}

/// One task's part of an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Who.
    pub task: TaskId,
    /// How long it waited in the episode.
    pub waited: Nanos,
}

/// How an episode ended, as the events show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The last waiter came to run where it waited.
    Ran,
    /// The last waiter was moved to another CPU.
    Moved(Cpu),
    /// The task that ran there left the CPU, before the last waiter ran.
    Cleared,
    /// No CPU that the waiters may use was free any longer.
    Taken,
    /// The window ended first.
    Open,
    /// What became of the last waiter is not known.
    Unknown,
}

impl Ended {
    /// A stable name for scripts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::Moved(_) => "moved",
            Self::Cleared => "cpu_cleared",
            Self::Taken => "cpu_taken",
            Self::Open => "window_ended",
            Self::Unknown => "unknown",
        }
    }

    /// In words, behind "it ended when".
    #[must_use]
    pub fn sentence(self) -> String {
        match self {
            Self::Ran => "the last waiter ran there".to_owned(),
            Self::Moved(to) => format!("the last waiter was moved to CPU {to}"),
            Self::Cleared => "the task that ran there left the CPU".to_owned(),
            Self::Taken => "no CPU was free any longer".to_owned(),
            Self::Open => "the window ended".to_owned(),
            Self::Unknown => "the last waiter was lost sight of".to_owned(),
        }
    }
}

/// An episode of a queue that goes on, or that may go on after a short gap.
#[derive(Debug)]
pub(super) struct Growing {
    episode: Episode,
    /// In parts of a nanosecond.
    cost: u128,
    /// Waiters that a free CPU could serve now.
    active: u32,
    pub(super) step: Step,
}

/// By its cost, then by its waits; earlier ones first among equals.
#[derive(Debug, PartialEq, Eq)]
struct Ranked(u128, Box<Episode>);

impl Ranked {
    fn harm(&self) -> (u128, Nanos, Reverse<Nanos>, Reverse<Cpu>) {
        (self.0, self.1.waited, Reverse(self.1.start), Reverse(self.1.overloaded))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.harm().cmp(&other.harm())
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// All episodes: those that grow, by queue, and the worst of those that are over.
#[derive(Debug, Default)]
pub(super) struct Episodes {
    growing: Vec<Option<Box<Growing>>>,
    worst: BinaryHeap<Reverse<Ranked>>,
    limit: usize,
    /// Cost of all that are over, in parts; and in nanoseconds, as handed out.
    parts: u128,
    handed: u64,
}

/// One waiter's part, when it ends.
pub(super) struct Part {
    pub(super) task: TaskId,
    pub(super) since: Nanos,
    pub(super) cost: u128,
    pub(super) ended: Ended,
}

impl Episodes {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Whether a waiter that comes now continues the queue's episode: `None` when it has none, else whether it does.
    pub(super) fn goes_on(&self, cpu: Cpu, at: Nanos, gap: Nanos) -> Option<bool> {
        let growing = self.growing.get(cpu.index())?.as_ref()?;
        let Episode { start, end, .. } = growing.episode;
        // One that has no length yet goes on only at its own instant.
        let joins = at - end <= gap && (end > start || at == end);
        Some(growing.active > 0 || joins)
    }

    /// A waiter is added to the queue's episode.
    pub(super) fn join(&mut self, cpu: Cpu) {
        if let Some(Some(growing)) = self.growing.get_mut(cpu.index()) {
            growing.active += 1;
        }
    }

    /// The queue's episode begins with this waiter.
    pub(super) fn begin(&mut self, task: TaskId, cpu: Cpu, step: Step, because: Because) {
        if cpu.index() >= self.growing.len() {
            self.growing.resize_with(cpu.index() + 1, || None);
        }
        let start = because.start;
        let episode = Episode {
            start,
            end: start,
            overloaded: cpu,
            idle: CpuSet::new(),
            task,
            because,
            cost: Nanos::ZERO,
            waited: Nanos::ZERO,
            tasks: Vec::new(),
            more_tasks: 0,
            ended: Ended::Unknown,
        };
        let growing = Growing { episode, cost: 0, active: 1, step };
        self.growing[cpu.index()] = Some(Box::new(growing));
    }

    /// A waiter leaves its queue's episode at `at`. When it was the last one of an episode that may be kept, `idle` is
    /// asked for the CPUs that were free from a step on.
    pub(super) fn leave(
        &mut self,
        cpu: Cpu,
        at: Nanos,
        part: &Part,
        idle: impl FnOnce(Step) -> CpuSet,
    ) {
        let least = self.worst.peek().filter(|_| self.worst.len() >= self.limit);
        let least = least.map_or(0, |Reverse(least)| least.0);
        let Some(Some(growing)) = self.growing.get_mut(cpu.index()) else { return };
        let episode = &mut growing.episode;
        growing.active -= 1;
        growing.cost += part.cost;
        let waited = at - part.since;
        if waited == Nanos::ZERO {
            // It only passed by at this instant.
        } else if let Some(share) = episode.tasks.iter_mut().find(|share| share.task == part.task) {
            share.waited += waited;
        } else if episode.tasks.len() < TASKS_MAX {
            episode.tasks.push(Share { task: part.task, waited });
        } else {
            episode.more_tasks += 1;
        }
        episode.waited += waited;
        if waited > Nanos::ZERO {
            episode.end = episode.end.max(at);
        }
        if growing.active == 0 && episode.end == at {
            episode.ended = part.ended;
            if growing.cost >= least {
                episode.idle = idle(growing.step);
            }
        }
    }

    /// The queue's episode is over: counts it, and keeps it where it is one of the worst. Gives its cost and cause.
    pub(super) fn finish(&mut self, cpu: Cpu, min: Nanos) -> Option<Finished> {
        let growing = self.growing.get_mut(cpu.index())?.take()?;
        let Growing { mut episode, cost, .. } = *growing;
        self.parts += cost;
        // Whole nanoseconds of the sum so far: so the costs of all add up to the sum.
        let whole = u64::try_from((self.parts + PARTS / 2) / PARTS).unwrap_or(u64::MAX);
        episode.cost = Nanos(whole - self.handed);
        self.handed = whole;
        let length = episode.end - episode.start;
        let counted = length > Nanos::ZERO && length >= min;
        let finished = Finished {
            counted,
            cost: episode.cost,
            waited: episode.waited,
            because: episode.because,
        };
        if counted {
            let ranked = Ranked(cost, Box::new(episode));
            let least = self.worst.peek();
            if self.worst.len() < self.limit || least.is_some_and(|Reverse(least)| ranked > *least)
            {
                self.worst.push(Reverse(ranked));
            }
            if self.worst.len() > self.limit {
                self.worst.pop();
            }
        }
        Some(finished)
    }

    /// The CPUs whose queues have one that is not over.
    pub(super) fn unfinished(&self) -> Vec<Cpu> {
        let numbered = (0..=u16::MAX).map(Cpu).zip(&self.growing);
        numbered.filter(|(_, growing)| growing.is_some()).map(|(cpu, _)| cpu).collect()
    }

    /// The worst, costliest first.
    pub(super) fn into_worst(self) -> Vec<Episode> {
        let mut worst: Vec<Ranked> = self.worst.into_iter().map(|ranked| ranked.0).collect();
        worst.sort_by(|a, b| b.cmp(a));
        worst.into_iter().map(|ranked| *ranked.1).collect()
    }
}

/// What is counted of an episode that is over.
pub(super) struct Finished {
    pub(super) counted: bool,
    pub(super) cost: Nanos,
    pub(super) waited: Nanos,
    pub(super) because: Because,
}
