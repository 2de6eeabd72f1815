//! Work conservation: every interval in which a task waited on a busy CPU while another, on which it
//! was allowed, had nothing to do.
//!
//! A CPU is *free* when its idle task runs and nobody stands on its queue: an idle CPU with a waiter
//! is handing over, which takes a few microseconds and is no one's fault. A CPU is *overloaded* when a
//! task runs on it and at least one more waits there. A *violation* is a longest interval in which
//! one task waits on one overloaded CPU while at least one CPU that it may use is free.
//!
//! Affinity is not in the events. Where the trace came with it, sums are exact; a new task has its
//! creator's until it is told otherwise. Without it every CPU is taken to be allowed, except to
//! kernel threads that carry their CPU in their name, and the sums are upper bounds.
//!
//! Memory: the worst [`Options::limit`] violations, whatever the length of the trace.

mod because;
mod sums;

pub use because::{Because, Cause};
pub use sums::Sums;

use crate::change::Change;
use crate::question::Question;
use crate::state::{CpuState, Occupant, State};
use crate::task::{Activity, TaskId};
use because::{Near, WakeFacts};
use schedlab_model::{Affinity, Cpu, CpuSet, Nanos, Pid, TraceInfo};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// What counts, and how much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Shorter violations are not counted at all.
    pub min: Nanos,
    /// The most violations that are kept, longest first; all are summed.
    pub limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { min: Nanos::ZERO, limit: 10_000 }
    }
}

/// Asks where work conservation was violated, and why.
#[derive(Debug)]
pub struct Conservation {
    options: Options,
    near: Option<Near>,
    affinity: Option<BTreeMap<Pid, Vec<(Nanos, CpuSet)>>>,
    parents: Vec<TaskId>,
    wakes: Vec<WakeFacts>,
    free: CpuSet,
    /// Few even on a large machine, so that a CPU that becomes free need not look at all others.
    overloaded: CpuSet,
    open: Vec<Open>,
    /// For each task, where its violation stands in `open`, plus one; 0 is none.
    opened: Vec<u32>,
    sums: sums::Integrals,
    worst: BinaryHeap<Reverse<Ranked>>,
    count: u64,
    total: Nanos,
    by_cause: [(u64, Nanos); Cause::ALL.len()],
    by_kernel: Nanos,
    bound_threads: Nanos,
    unknown_affinity: bool,
}

/// A violation that has not ended.
#[derive(Debug)]
struct Open {
    task: TaskId,
    cpu: Cpu,
    start: Nanos,
    idle: CpuSet,
    because: Because,
    /// A kernel thread that belongs to its CPU: nothing is violated, it is only counted apart.
    bound: bool,
}

/// A task waited although it need not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When it began.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// Where the task waited.
    pub overloaded: Cpu,
    /// The CPUs that it was allowed on and that were free at some time meanwhile.
    pub idle: CpuSet,
    /// Who waited.
    pub task: TaskId,
    /// How it came to wait there.
    pub because: Because,
}

/// A violation by its harm: how long it took, earlier ones first among equals.
#[derive(Debug, PartialEq, Eq)]
struct Ranked(Violation);

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |v: &Violation| (v.end - v.start, Reverse(v.start), Reverse(v.task));
        key(&self.0).cmp(&key(&other.0))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub struct ConservationAnswer {
    /// Longest first, at most as many as asked for.
    pub violations: Vec<Violation>,
    /// How many there were.
    pub count: u64,
    /// The sum of their lengths: task-time that was waited for nothing.
    pub total: Nanos,
    /// Whether affinity of every task concerned was known; else `total` is an upper bound.
    pub exact: bool,
    /// How many and how long by cause, in the order of [`Cause::ALL`].
    pub by_cause: [(u64, Nanos); Cause::ALL.len()],
    /// The part of `total` in which a per-CPU kernel thread was what ran instead.
    pub by_kernel_threads: Nanos,
    /// Time per-CPU kernel threads waited while other CPUs were free; not a violation, not in `total`.
    pub bound_threads: Nanos,
    /// The same under other tools' definitions.
    pub sums: Sums,
}

impl Conservation {
    /// With what the source knows of topology and affinity.
    #[must_use]
    pub fn new(options: Options, info: &TraceInfo) -> Self {
        let by_pid = |entries: &Vec<Affinity>| {
            let mut map = BTreeMap::<Pid, Vec<(Nanos, CpuSet)>>::new();
            for entry in entries {
                map.entry(entry.pid).or_default().push((entry.at, entry.allowed.clone()));
            }
            map
        };
        Self {
            options,
            near: info.topology.as_ref().map(Near::new),
            affinity: info.affinity.as_ref().map(by_pid),
            parents: Vec::new(),
            wakes: Vec::new(),
            free: CpuSet::new(),
            overloaded: CpuSet::new(),
            open: Vec::new(),
            opened: Vec::new(),
            sums: sums::Integrals::default(),
            worst: BinaryHeap::new(),
            count: 0,
            total: Nanos::ZERO,
            by_cause: Default::default(),
            by_kernel: Nanos::ZERO,
            bound_threads: Nanos::ZERO,
            unknown_affinity: false,
        }
    }

    /// Where a task may run: `None` when that is not known.
    fn allowed(&self, task: TaskId, state: &State) -> Option<&CpuSet> {
        let affinity = self.affinity.as_ref()?;
        let mut at = task;
        // Each creator is older, so this ends; a depth beyond this is no real family.
        for _ in 0..64 {
            if let Some(masks) = affinity.get(&state.task(at).pid) {
                let after = masks.partition_point(|(since, _)| *since <= state.now());
                return masks.get(after.saturating_sub(1)).map(|(_, allowed)| allowed);
            }
            at = self.parents.get(at.index()).copied().filter(|parent| parent.is_some())?;
        }
        None
    }

    /// Whether a task waits on this overloaded CPU while another that it may use is free.
    fn waits_for_nothing(&self, task: TaskId, cpu: Cpu, state: &State) -> bool {
        let waits_here = matches!(state.task(task).activity,
            Activity::Waiting { cpu: queue, placed: true, .. } if queue == cpu);
        waits_here
            && self.sums.is_overloaded(cpu)
            && match self.allowed(task, state) {
                Some(allowed) => self.free.intersects(allowed),
                None => !self.free.is_empty(),
            }
    }

    fn is_open(&self, task: TaskId) -> bool {
        self.opened.get(task.index()).is_some_and(|at| *at != 0)
    }

    fn consider(&mut self, task: TaskId, cpu: Cpu, at: Nanos, state: &State) {
        if self.is_open(task) || !self.waits_for_nothing(task, cpu, state) {
            return;
        }
        let allowed = self.allowed(task, state);
        let (known, idle) = match allowed {
            Some(allowed) => (true, self.free.intersection(allowed)),
            None => (false, self.free.clone()),
        };
        let bound = !known && because::is_bound(state, task);
        self.unknown_affinity |= !known && !bound;
        let wake = self.wakes.get(task.index()).copied().unwrap_or_default();
        let because = because::explain(state, task, cpu, at, &wake);
        self.open.push(Open { task, cpu, start: at, idle, because, bound });
        if task.index() >= self.opened.len() {
            self.opened.resize(task.index() + 1, 0);
        }
        self.opened[task.index()] = self.open.len() as u32;
    }

    /// Takes a violation out of those that are open.
    fn take(&mut self, index: usize) -> Open {
        let open = self.open.swap_remove(index);
        self.opened[open.task.index()] = 0;
        if let Some(other) = self.open.get(index) {
            self.opened[other.task.index()] = index as u32 + 1;
        }
        open
    }

    /// A CPU that became free is one more for every violation whose task may use it.
    fn joins(&mut self, cpu: Cpu, state: &State) {
        for i in 0..self.open.len() {
            let allowed = self.allowed(self.open[i].task, state);
            if allowed.is_none_or(|allowed| allowed.contains(cpu)) {
                self.open[i].idle.insert(cpu);
            }
        }
    }

    fn close(&mut self, open: Open, at: Nanos) {
        let length = at - open.start;
        if length == Nanos::ZERO || length < self.options.min {
            return;
        }
        if open.bound {
            self.bound_threads += length;
            return;
        }
        self.count += 1;
        self.total += length;
        let of_cause = &mut self.by_cause[open.because.cause as usize];
        of_cause.0 += 1;
        of_cause.1 += length;
        if open.because.kernel_thread {
            self.by_kernel += length;
        }
        let least = self.worst.peek().map(|Reverse(Ranked(worst))| worst.end - worst.start);
        if self.worst.len() >= self.options.limit && least.is_none_or(|least| length <= least) {
            return;
        }
        let Open { task, cpu: overloaded, start, idle, because, .. } = open;
        self.worst.push(Reverse(Ranked(Violation {
            start,
            end: at,
            overloaded,
            idle,
            task,
            because,
        })));
        if self.worst.len() > self.options.limit {
            self.worst.pop();
        }
    }

    /// A CPU's occupant or queue may be another.
    fn note(&mut self, cpu: Cpu, state: &State) -> Flip {
        let Some(here) = state.cpu(cpu) else { return Flip::None };
        self.sums.note(cpu, here);
        match (self.overloaded.contains(cpu), self.sums.is_overloaded(cpu)) {
            (false, true) => self.overloaded.insert(cpu),
            (true, false) => self.overloaded.remove(cpu),
            _ => {}
        }
        let (was, is) = (self.free.contains(cpu), is_free(here));
        match (was, is) {
            (false, true) => {
                self.free.insert(cpu);
                Flip::Freed
            }
            (true, false) => {
                self.free.remove(cpu);
                Flip::Taken
            }
            _ => Flip::None,
        }
    }

    /// Ends what does not hold any longer, begins what holds from now on.
    fn review(&mut self, at: Nanos, touched: [Option<Cpu>; 2], flips: [Flip; 2], state: &State) {
        let mut taken = touched.iter().zip(flips).filter(|(_, flip)| *flip == Flip::Taken);
        let taken = [taken.next(), taken.next()].map(|cpu| cpu.and_then(|(cpu, _)| *cpu));
        let mut i = 0;
        while i < self.open.len() {
            let Open { task, cpu, ref idle, .. } = self.open[i];
            // Only a free CPU that the task may use ends its violation by being taken.
            let lost = taken.into_iter().flatten().any(|cpu| idle.contains(cpu));
            let concerned = lost || touched.contains(&Some(cpu));
            if concerned && !self.waits_for_nothing(task, cpu, state) {
                let open = self.take(i);
                self.close(open, at);
            } else {
                i += 1;
            }
        }
        if self.free.is_empty() {
            return;
        }
        if flips.contains(&Flip::Freed) {
            for (cpu, _) in touched.iter().zip(flips).filter(|(_, flip)| *flip == Flip::Freed) {
                if let Some(cpu) = cpu {
                    self.joins(*cpu, state);
                }
            }
            let overloaded = std::mem::take(&mut self.overloaded);
            for cpu in overloaded.iter() {
                self.consider_all(cpu, at, state);
            }
            self.overloaded = overloaded;
        } else {
            for cpu in touched.into_iter().flatten() {
                self.consider_all(cpu, at, state);
            }
        }
    }

    fn consider_all(&mut self, cpu: Cpu, at: Nanos, state: &State) {
        if self.sums.is_overloaded(cpu) {
            for task in state.waiters(cpu) {
                self.consider(task, cpu, at, state);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flip {
    None,
    Freed,
    Taken,
}

fn is_free(cpu: &CpuState) -> bool {
    cpu.occupant == Occupant::Idle && cpu.waiting == 0
}

impl Question for Conservation {
    type Answer = ConservationAnswer;

    fn begin(&mut self, state: &State) {
        let at = state.window().start;
        self.sums.since = at;
        for index in 0..state.cpus().len() {
            let cpu = Cpu(u16::try_from(index).expect("a CPU's number has 16 bits"));
            self.note(cpu, state);
        }
        self.review(at, [None, None], [Flip::Freed, Flip::None], state);
    }

    fn see(&mut self, change: &Change, state: &State) {
        match change {
            Change::Runnable(runnable) => {
                let task = runnable.task.index();
                if task >= self.wakes.len() {
                    self.wakes.resize(task + 1, WakeFacts::default());
                }
                self.wakes[task] =
                    WakeFacts::gather(state, runnable, &self.free, self.near.as_ref());
            }
            Change::Moved(moved) => {
                if let Some(facts) = self.wakes.get_mut(moved.task.index()) {
                    facts.moved = Some(*moved);
                }
            }
            Change::Born { task, parent, .. } => {
                if task.index() >= self.parents.len() {
                    self.parents.resize(task.index() + 1, TaskId::NONE);
                }
                self.parents[task.index()] = *parent;
            }
            _ => {}
        }
        let touched = change.touched(state);
        if touched == [None, None] {
            return;
        }
        self.sums.advance(change.at());
        let flips = touched.map(|cpu| cpu.map_or(Flip::None, |cpu| self.note(cpu, state)));
        self.review(change.at(), touched, flips, state);
    }

    fn answer(mut self, state: &State) -> ConservationAnswer {
        let end = state.window().end;
        self.sums.advance(end);
        for open in std::mem::take(&mut self.open) {
            self.close(open, end);
        }
        let mut violations: Vec<Ranked> = self.worst.into_iter().map(|ranked| ranked.0).collect();
        violations.sort_by(|a, b| b.cmp(a));
        ConservationAnswer {
            violations: violations.into_iter().map(|ranked| ranked.0).collect(),
            count: self.count,
            total: self.total,
            exact: self.affinity.is_some() && !self.unknown_affinity,
            by_cause: self.by_cause,
            by_kernel_threads: self.by_kernel,
            bound_threads: self.bound_threads,
            sums: self.sums.sums,
        }
    }
}
