//! Work conservation: every interval in which a task waited on a busy CPU while another, on which it
//! was allowed, had nothing to do.
//!
//! A CPU is *free* when its idle task runs and nobody stands on its queue: an idle CPU with a waiter
//! is handing over, which takes a few microseconds and is no one's fault. A CPU is *overloaded* when a
//! task runs on it and at least one more waits there. A *violation* is a longest interval in which
//! one task waits on one overloaded CPU while at least one CPU that it may use is free.
//!
//! CPU time that is *lost* at an instant is the size of a maximum matching between free CPUs and tasks that wait on
//! overloaded ones, each with the CPUs that it may use (`matching`): with one free CPU, two that wait lose one.
//!
//! Affinity is not in the events. Where the trace came with it, sums are exact; a new task has its
//! creator's until it is told otherwise. Without it every CPU is taken to be allowed, except to
//! kernel threads that carry their CPU in their name, and the sums are upper bounds.
//!
//! Memory: the worst [`Options::limit`] violations, whatever the length of the trace. Time: a change
//! looks at its own CPUs and tasks alone, however many CPUs there are and violations are open; only
//! when the first CPU that some tasks may use becomes free, or the last is taken, are those that wait
//! looked at, since the violation of each then begins or ends.

mod allowed;
mod because;
mod cores;
mod free;
mod matching;
mod stuck;
mod sums;

pub use because::{Because, Cause};
pub use sums::{Lost, Sums};

use crate::change::{Change, Moved, Runnable, Switch};
use crate::chosen::Chosen;
use crate::question::Question;
use crate::state::{CpuState, Occupant, State};
use crate::task::{Activity, TaskId};
use allowed::{Allowed, ClassId, UNKNOWN};
use because::{Near, WakeFacts};
use cores::Cores;
use free::FreeCpus;
use matching::Matching;
use schedlab_model::{Cpu, CpuSet, Nanos, TraceInfo};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use stuck::{Open, Queue, Stuck};

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
    chosen: Chosen,
    near: Option<Near>,
    allowed: Allowed,
    wakes: Vec<WakeFacts>,
    free: FreeCpus,
    queue: Queue,
    matching: Matching,
    cores: Option<Cores>,
    sums: sums::Integrals,
    lost: sums::Losses,
    worst: BinaryHeap<Reverse<Ranked>>,
    count: u64,
    total: Nanos,
    by_cause: [(u64, Nanos); Cause::ALL.len()],
    by_kernel: Nanos,
    bound_threads: Nanos,
    unknown_affinity: bool,
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

impl Ranked {
    fn harm(&self) -> (Nanos, Reverse<Nanos>, Reverse<TaskId>) {
        let Violation { start, end, task, .. } = self.0;
        (end - start, Reverse(start), Reverse(task))
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

/// What was found.
#[derive(Clone, Debug)]
pub struct ConservationAnswer {
    /// Longest first, at most as many as asked for.
    pub violations: Vec<Violation>,
    /// How many there were.
    pub count: u64,
    /// The sum of their lengths: task-time that was waited for nothing.
    pub total: Nanos,
    /// CPU time that was lost, on the whole machine and whichever tasks are asked about.
    pub lost: Lost,
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
        let allowed = Allowed::new(info.affinity.as_ref());
        Self {
            options,
            chosen: Chosen::all(),
            near: info.topology.as_ref().map(Near::new),
            queue: Queue::new(&allowed.masks),
            matching: Matching::new(&allowed.masks),
            cores: info.topology.as_ref().and_then(|it| Cores::new(it, &allowed.masks)),
            allowed,
            wakes: Vec::new(),
            free: FreeCpus::default(),
            sums: sums::Integrals::default(),
            lost: sums::Losses::default(),
            worst: BinaryHeap::new(),
            count: 0,
            total: Nanos::ZERO,
            by_cause: Default::default(),
            by_kernel: Nanos::ZERO,
            bound_threads: Nanos::ZERO,
            unknown_affinity: false,
        }
    }

    /// Violations of these tasks only, in the list and in the sums; the definitions of others ([`Sums`]) go on
    /// to look at the whole machine.
    #[must_use]
    pub fn about(self, chosen: Chosen) -> Self {
        Self { chosen, ..self }
    }

    /// A violation of a task that waits on an overloaded CPU begins.
    fn begin(
        &mut self,
        class: ClassId,
        stuck: &mut Stuck,
        (at, freed_late): (Nanos, bool),
        state: &State,
    ) {
        let Stuck { task, cpu, counts, .. } = *stuck;
        if !counts {
            return;
        }
        let known = class != UNKNOWN;
        let bound = !known && because::is_bound(state, task);
        self.unknown_affinity |= !known && !bound;
        let wake = self.wakes.get(task.index()).copied().unwrap_or_default();
        let because = because::explain(state, task, cpu, (at, freed_late), &wake);
        let (step, earlier) = (self.free.step(), CpuSet::new());
        stuck.open = Some(Open { start: at, step, earlier, because, bound });
    }

    /// The CPUs that a task of `class` may use and that were free while `open` was.
    fn idle_during(&self, class: ClassId, open: &Open) -> CpuSet {
        let free = self.free.during(open.step);
        let idle = match &self.allowed.masks[class as usize] {
            Some(allowed) => free.intersection(allowed),
            None => free,
        };
        if open.earlier.is_empty() {
            return idle;
        }
        idle.iter().chain(open.earlier.iter()).collect()
    }

    /// Its violation, if one is open, ends.
    fn close(&mut self, class: ClassId, stuck: &mut Stuck, at: Nanos) {
        let Some(open) = stuck.open.take() else { return };
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
        let harm = (length, Reverse(open.start), Reverse(stuck.task));
        let least = self.worst.peek().map(|Reverse(least)| least.harm());
        if self.worst.len() >= self.options.limit && least.is_none_or(|least| harm < least) {
            return;
        }
        let idle = self.idle_during(class, &open);
        let Stuck { task, cpu: overloaded, .. } = *stuck;
        let Open { start, because, .. } = open;
        let violation = Violation { start, end: at, overloaded, idle, task, because };
        self.worst.push(Reverse(Ranked(violation)));
        if self.worst.len() > self.options.limit {
            self.worst.pop();
        }
    }

    /// A CPU's occupant or queue may be another.
    fn note(&mut self, cpu: Cpu, state: &State) -> Flip {
        let Some(here) = state.cpu(cpu) else { return Flip::default() };
        let was_overloaded = self.sums.is_overloaded(cpu);
        self.sums.note(cpu, here);
        self.lost.note(cpu, here);
        let overloaded = self.sums.is_overloaded(cpu) != was_overloaded;
        let is_free = is_free(here);
        let free = self.free.set(cpu, is_free);
        if free {
            self.queue.count(cpu, is_free);
            if is_free {
                self.matching.free(cpu);
            } else {
                self.matching.take(cpu);
            }
            if let Some(cores) = &mut self.cores {
                cores.set(cpu, is_free);
            }
        }
        Flip { free, overloaded }
    }

    /// Ends what does not hold any longer, begins what holds from now on.
    fn review(&mut self, at: Nanos, touched: [Option<Cpu>; 2], named: [TaskId; 2], state: &State) {
        self.free.advance();
        let flips = touched.map(|cpu| cpu.map(|cpu| (cpu, self.note(cpu, state))));
        let flips = || flips.into_iter().flatten();
        for task in named {
            self.release(task, at, state);
        }
        for (cpu, _) in flips().filter(|(_, flip)| flip.overloaded) {
            state.waiters(cpu).for_each(|task| self.release(task, at, state));
        }
        if self.allowed.turned(state.now()) {
            self.sort_anew(at, state);
        }
        for (cpu, _) in flips().filter(|(_, flip)| flip.free) {
            self.turn_classes(cpu, at, state);
        }
        for task in named {
            self.hold(task, at, state);
        }
        for (cpu, _) in flips().filter(|(_, flip)| flip.overloaded) {
            state.waiters(cpu).for_each(|task| self.hold(task, at, state));
        }
    }

    /// The classes for which a CPU was the first that became free, or the last that was taken.
    fn turn_classes(&mut self, cpu: Cpu, at: Nanos, state: &State) {
        for nth in 0.. {
            let Some(class) = self.queue.nth(nth, cpu) else { return };
            let Some((mut tasks, is_open)) = self.queue.turn(class) else { continue };
            for stuck in &mut tasks {
                match (is_open, &stuck.open) {
                    (true, None) => self.begin(class, stuck, (at, true), state),
                    (true, Some(_)) => {}
                    (false, _) => self.close(class, stuck, at),
                }
            }
            self.queue.give_back(class, tasks);
        }
    }

    /// The overloaded CPU on which a task waits.
    fn stuck_on(&self, task: TaskId, state: &State) -> Option<Cpu> {
        match state.task(task).activity {
            Activity::Waiting { cpu, placed: true, .. } => {
                Some(cpu).filter(|cpu| self.sums.is_overloaded(*cpu))
            }
            _ => None,
        }
    }

    /// Lets go of a task that does not wait on its overloaded CPU any longer.
    fn release(&mut self, task: TaskId, at: Nanos, state: &State) {
        let cpu = self.queue.cpu_of(task);
        if cpu.is_some()
            && cpu != self.stuck_on(task, state)
            && let Some((class, mut stuck)) = self.queue.remove(task)
        {
            self.close(class, &mut stuck, at);
            self.compete(class, stuck.competes, Matching::leave);
        }
    }

    /// A task begins or ceases to compete for free CPUs.
    fn compete(&mut self, class: ClassId, competes: bool, change: fn(&mut Matching, ClassId)) {
        if competes {
            change(&mut self.matching, class);
            if let Some(cores) = &mut self.cores {
                change(&mut cores.matching, class);
            }
        }
    }

    /// Whether another CPU than the one on which it waits could serve a task of a class.
    fn competes(&self, class: ClassId, task: TaskId, cpu: Cpu, state: &State) -> bool {
        let bound = class == UNKNOWN && because::is_bound(state, task);
        !bound && !self.allowed.has_only(class, cpu)
    }

    /// Takes in a task that waits on an overloaded CPU from now on.
    fn hold(&mut self, task: TaskId, at: Nanos, state: &State) {
        if self.queue.cpu_of(task).is_some() {
            return;
        }
        let Some(cpu) = self.stuck_on(task, state) else { return };
        let class = self.allowed.class_of(task, state);
        let competes = self.competes(class, task, cpu, state);
        self.compete(class, competes, Matching::wait);
        let mut stuck = Stuck { task, cpu, competes, counts: self.chosen.has(task), open: None };
        if self.queue.has_free(class) {
            self.begin(class, &mut stuck, (at, false), state);
        }
        self.queue.insert(class, stuck);
    }

    /// The trace told another affinity of some task: rare, so all that wait are looked at.
    fn sort_anew(&mut self, at: Nanos, state: &State) {
        for (was, task) in self.queue.tasks() {
            let is = self.allowed.class_of(task, state);
            if is == was {
                continue;
            }
            let Some((_, mut stuck)) = self.queue.remove(task) else { continue };
            let earlier = stuck.open.as_ref().map(|open| self.idle_during(was, open));
            match (self.queue.has_free(is), &mut stuck.open) {
                (true, Some(open)) => {
                    open.earlier = earlier.unwrap_or_default();
                    open.step = self.free.step();
                }
                (true, None) => self.begin(is, &mut stuck, (at, true), state),
                (false, _) => self.close(was, &mut stuck, at),
            }
            self.compete(was, stuck.competes, Matching::leave);
            stuck.competes = self.competes(is, task, stuck.cpu, state);
            self.compete(is, stuck.competes, Matching::wait);
            self.queue.insert(is, stuck);
        }
    }
}

/// What became another about a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Flip {
    free: bool,
    overloaded: bool,
}

/// The tasks that a change put on a queue or took from one.
fn named(change: &Change) -> [TaskId; 2] {
    match *change {
        Change::Switch(Switch { prev, is, .. }) => [prev, is.task().unwrap_or(TaskId::NONE)],
        Change::Runnable(Runnable { task, .. })
        | Change::Placed { task, .. }
        | Change::Moved(Moved { task, .. })
        | Change::Forgotten { task, .. } => [task, TaskId::NONE],
        _ => [TaskId::NONE; 2],
    }
}

fn is_free(cpu: &CpuState) -> bool {
    cpu.occupant == Occupant::Idle && cpu.waiting == 0
}

impl Question for Conservation {
    type Answer = ConservationAnswer;

    fn begin(&mut self, state: &State) {
        let at = state.window().start;
        self.sums.since = at;
        self.lost.since = at;
        for index in 0..state.cpus().len() {
            let cpu = Cpu(u16::try_from(index).expect("a CPU's number has 16 bits"));
            self.review(at, [Some(cpu), None], [TaskId::NONE; 2], state);
        }
    }

    fn see(&mut self, change: &Change, state: &State) {
        match change {
            Change::Runnable(runnable) => {
                let task = runnable.task.index();
                if task >= self.wakes.len() {
                    self.wakes.resize(task + 1, WakeFacts::default());
                }
                self.wakes[task] =
                    WakeFacts::gather(state, runnable, self.free.now(), self.near.as_ref());
            }
            Change::Moved(moved) => {
                if let Some(facts) = self.wakes.get_mut(moved.task.index()) {
                    facts.moved = Some(*moved);
                }
            }
            Change::Born { task, parent, .. } => self.allowed.born(*task, *parent),
            _ => {}
        }
        let touched = change.touched(state);
        let named = named(change);
        let concerns = |task: &TaskId| self.queue.cpu_of(*task).is_some();
        let still = touched == [None, None] && !named.iter().any(concerns);
        if still && !self.allowed.turns_by(state.now()) {
            return;
        }
        self.sums.advance(change.at());
        self.lost.advance(change.at(), &self.matching, self.cores.as_ref());
        self.review(change.at(), touched, named, state);
    }

    fn answer(mut self, state: &State) -> ConservationAnswer {
        let end = state.window().end;
        self.sums.advance(end);
        self.lost.advance(end, &self.matching, self.cores.as_ref());
        self.free.advance();
        for (class, mut stuck) in self.queue.drain() {
            self.close(class, &mut stuck, end);
        }
        let mut violations: Vec<Ranked> = self.worst.into_iter().map(|ranked| ranked.0).collect();
        violations.sort_by(|a, b| b.cmp(a));
        let affinity_known = self.allowed.is_told() && !self.lost.unknown_affinity();
        ConservationAnswer {
            lost: self.lost.told(affinity_known, self.cores.is_some()),
            violations: violations.into_iter().map(|ranked| ranked.0).collect(),
            count: self.count,
            total: self.total,
            exact: self.allowed.is_told() && !self.unknown_affinity,
            by_cause: self.by_cause,
            by_kernel_threads: self.by_kernel,
            bound_threads: self.bound_threads,
            sums: self.sums.sums,
        }
    }
}
