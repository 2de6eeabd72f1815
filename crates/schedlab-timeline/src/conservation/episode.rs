//! Episodes: stretches in which one overloaded queue has a waiter that a free CPU could serve.

use super::causes::Because;
use super::free_cpus::Step;
use super::matching::PARTS;
use crate::in_reply::InReply;
use crate::task::TaskId;
use schedlab_model::table::{At, Column, Items, Row, column};
use schedlab_model::{Cpu, CpuSet, Nanos, columns};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Tasks of an episode that are kept by name, those that came first.
const TASKS_MAX: usize = 16;

/// A maximal time in which a task waits on one overloaded CPU while a CPU that it may use is free.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Episode {
    /// The time at which the episode began.
    pub start: Nanos,
    /// The time at which the episode ended.
    pub end: Nanos,
    /// The CPU whose queue had the waiter.
    pub overloaded: Cpu,
    /// CPUs that were free at some time meanwhile and that the last waiter may use.
    pub idle: CpuSet,
    /// The task that waited first.
    pub task: TaskId,
    /// Why `task` waited on this CPU: the first decision that another choice would have avoided.
    pub because: Because,
    /// CPU time that was lost: this episode's part of the matching's size over time.
    pub cost: Nanos,
    /// Time that tasks waited in it, summed over tasks.
    pub waited: Nanos,
    /// Who waited how long, the first 16 in order of arrival.
    pub tasks: Vec<Share>,
    /// Number of further tasks that waited, beyond those listed.
    pub more_tasks: u32,
    /// Why no task waits beside a free CPU any more.
    pub(crate) ended: Ended,
}

impl Episode {
    /// How many tasks waited besides the first one.
    #[must_use]
    pub fn others(&self) -> usize {
        let others = self.tasks.iter().filter(|share| share.task != self.task);
        others.count() + self.more_tasks as usize
    }

    /// Why no task waits beside a free CPU any more, in words, behind "it ended when".
    #[must_use]
    pub fn ended_when(&self) -> String {
        self.ended.sentence()
    }
}

/// One task's part of an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// Who waited.
    pub task: TaskId,
    /// How long it waited in the episode.
    pub waited: Nanos,
}

impl<A> Row for InReply<'_, Share, A> {
    const ABOUT: &'static str = "A task's part of an episode.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "pid" = row.pid(row.task), "The task (thread).";
            "comm" = row.name(row.task), "Its name at the end.";
            "waited_ns" @ LostTime = row.waited, "How long it waited.";
        }
    }
}

impl<A> Row for InReply<'_, Episode, A> {
    const ABOUT: &'static str = "An episode of lost CPU time.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "start_ns" = At(row.start), "When it began.";
            "end_ns" = At(row.end), "When it ended.";
            "overloaded_cpu" = row.overloaded, "The CPU whose queue had the waiters.";
            "cost_ns" @ LostTime = row.cost, "CPU time that was lost.";
            "waited_ns" @ LostTime = row.waited, "Time that tasks waited, summed over tasks.";
            "waiting_pid" = row.pid(row.task), "The task that waited first.";
            "waiting_comm" = row.name(row.task), "Its name.";
        };
        columns.push(column(
            "tasks",
            "The tasks that waited, in order of arrival.",
            |row: &Self| Items(row.row.tasks.iter().map(|share| row.with(share)).collect()),
        ));
        columns.extend(columns! { row: Self;
            "more_tasks" = row.more_tasks, "Further tasks that waited.";
            "waker_pid" = row.because.waker().map(|waker| row.pid(waker)), "Who woke the first task; `null` if no task did.";
            "waker_cpu" = row.because.waker().map(|_| row.because.waker_cpu), "The CPU on which it ran.";
            "cause" = row.because.cause.name(), "The decision that another choice would have avoided.";
            "should_run_on_cpu" = row.because.instead, "A free CPU that it may use.";
            "idle_cpus" = row.idle.iter().collect::<Vec<Cpu>>(), "CPUs that were free at some time meanwhile.";
            "ended" = row.ended.name(), "How the episode ended.";
            "ended_cpu" = row.ended.moved_to(), "The CPU to which a waiter moved.";
            "ended_when" = row.ended_when(), "It ended when this happened, in a sentence.";
            "seen" = row.because.sentence(row.overloaded, &row.reply.state), "What the events show, in a sentence.";
            "inferred" = row.because.inferred(), "What follows from it, in a sentence.";
        });
        columns
    }
}

/// How an episode ended, as the events show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The last waiter came to run where it waited.
    Ran,
    /// The last waiter was moved to another CPU.
    Moved(Cpu),
    /// A waiter was moved to this CPU, and no other was free for those that stayed.
    Pulled(Cpu),
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
    /// The CPU to which a waiter moved, if it ended so.
    #[must_use]
    pub(crate) const fn moved_to(self) -> Option<Cpu> {
        match self {
            Self::Moved(cpu) | Self::Pulled(cpu) => Some(cpu),
            _ => None,
        }
    }

    /// A stable name for scripts.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::Moved(_) | Self::Pulled(_) => "moved",
            Self::Cleared => "cpu_cleared",
            Self::Taken => "cpu_taken",
            Self::Open => "window_ended",
            Self::Unknown => "unknown",
        }
    }

    /// In words, behind "it ended when".
    #[must_use]
    pub(crate) fn sentence(self) -> String {
        match self {
            Self::Ran => "the last waiter ran there".to_owned(),
            Self::Moved(to) => format!("the last waiter was moved to CPU {to}"),
            Self::Pulled(to) => {
                format!("a waiter was moved to CPU {to}, and no other CPU was free")
            }
            Self::Cleared => "the task that ran there left the CPU".to_owned(),
            Self::Taken => "no CPU was free any longer".to_owned(),
            Self::Open => "the window ended".to_owned(),
            Self::Unknown => "the trace lost track of the last waiter".to_owned(),
        }
    }
}

/// An episode of a queue that goes on, or that may go on after a short gap. Its memory is used for the queue's next one.
#[derive(Debug)]
struct Growing {
    /// Whether there is one.
    is_on: bool,
    episode: Episode,
    /// In parts of a nanosecond.
    cost: u128,
    /// Waiters that a free CPU could serve now.
    active: u32,
    /// When and where a waiter was moved last.
    moved: Option<(Nanos, Cpu)>,
    step: Step,
}

/// What decides which of two episodes is the worse: the cost, then the waits; earlier ones among equals.
type Severity = (u128, Nanos, Reverse<Nanos>, Reverse<Cpu>);

fn severity(cost: u128, episode: &Episode) -> Severity {
    (cost, episode.waited, Reverse(episode.start), Reverse(episode.overloaded))
}

/// An episode that is ordered by its severity.
#[derive(Debug, PartialEq, Eq)]
struct Ranked(u128, Box<Episode>);

impl Ranked {
    fn severity(&self) -> Severity {
        severity(self.0, &self.1)
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.severity().cmp(&other.severity())
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
    /// By CPU. Behind a pointer, since few CPUs of a large machine have one.
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

    fn growing(&self, cpu: Cpu) -> Option<&Growing> {
        self.growing.get(cpu.index())?.as_deref().filter(|growing| growing.is_on)
    }

    fn growing_mut(&mut self, cpu: Cpu) -> Option<&mut Growing> {
        self.growing.get_mut(cpu.index())?.as_deref_mut().filter(|growing| growing.is_on)
    }

    /// Whether a waiter that comes now continues the queue's episode: `None` when it has none, else whether it does.
    pub(super) fn goes_on(&self, cpu: Cpu, at: Nanos, gap: Nanos) -> Option<bool> {
        let growing = self.growing(cpu)?;
        let Episode { start, end, .. } = growing.episode;
        // One that has no length yet goes on only at its own instant.
        let joins = at - end <= gap && (end > start || at == end);
        Some(growing.active > 0 || joins)
    }

    /// A waiter is added to the queue's episode.
    pub(super) fn join(&mut self, cpu: Cpu) {
        if let Some(growing) = self.growing_mut(cpu) {
            growing.active += 1;
        }
    }

    /// The queue's episode begins with this waiter.
    pub(super) fn begin(&mut self, task: TaskId, cpu: Cpu, step: Step, because: Because) {
        if cpu.index() >= self.growing.len() {
            self.growing.resize_with(cpu.index() + 1, || None);
        }
        let place = &mut self.growing[cpu.index()];
        let tasks = place.as_deref_mut().map(|old| std::mem::take(&mut old.episode.tasks));
        let mut tasks = tasks.unwrap_or_default();
        tasks.clear();
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
            tasks,
            more_tasks: 0,
            ended: Ended::Unknown,
        };
        let growing = Growing { is_on: true, episode, cost: 0, active: 1, moved: None, step };
        match place {
            Some(old) => **old = growing,
            None => *place = Some(Box::new(growing)),
        }
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
        let least = self.least().map_or(0, |least| least.0);
        let Some(growing) = self.growing_mut(cpu) else { return };
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
        if let Ended::Moved(to) = part.ended {
            growing.moved = Some((at, to));
        }
        if growing.active == 0 && episode.end == at {
            episode.ended = match (part.ended, growing.moved) {
                (Ended::Taken, Some((when, to))) if when == at => Ended::Pulled(to),
                (ended, _) => ended,
            };
            if growing.cost >= least {
                episode.idle = idle(growing.step);
            }
        }
    }

    /// The least of those that are kept, once no more are kept than now.
    fn least(&self) -> Option<&Ranked> {
        let full = self.worst.len() >= self.limit;
        self.worst.peek().filter(|_| full).map(|Reverse(least)| least)
    }

    /// The queue's episode is over: counts it, and keeps it where it is one of the worst. Gives its cost and cause.
    pub(super) fn finish(&mut self, cpu: Cpu, min: Nanos) -> Option<Finished> {
        let growing = self.growing.get_mut(cpu.index())?.as_deref_mut()?;
        if !std::mem::take(&mut growing.is_on) {
            return None;
        }
        let Growing { episode, cost, .. } = growing;
        let cost = *cost;
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
        let full = self.worst.len() >= self.limit;
        let least = self.worst.peek().filter(|_| full).map(|Reverse(least)| least.severity());
        let is_worse =
            if full { least.is_some_and(|it| severity(cost, episode) > it) } else { true };
        if counted && is_worse {
            // Most are not among the worst, and these cost no memory of their own.
            let kept = Box::new(episode.clone());
            if full {
                self.worst.pop();
            }
            self.worst.push(Reverse(Ranked(cost, kept)));
        }
        Some(finished)
    }

    /// The CPUs whose queues have one that is not over.
    pub(super) fn unfinished(&self) -> Vec<Cpu> {
        let cpus = (0..=u16::MAX).map(Cpu).take(self.growing.len());
        cpus.filter(|cpu| self.growing(*cpu).is_some()).collect()
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
