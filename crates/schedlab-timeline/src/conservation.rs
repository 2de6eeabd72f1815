//! Work conservation: CPU time that was lost while tasks waited, the episodes in which that happened, and why.
//!
//! A CPU is *free* when its idle task runs, nobody stands on its queue, and no wakeup is on its way to it. An idle CPU
//! with a waiter is handing over, which takes a few microseconds and is nobody's fault. A CPU is *overloaded* when a
//! task runs on it and at least one more waits there. A CPU that runs its stopper is not: the stopper is how the kernel
//! moves tasks. The CPU time that is *lost* at an instant is the size of a maximum matching between free CPUs and tasks
//! that wait on overloaded ones, each with the CPUs that it may use (`matching`).
//!
//! An *episode* is a longest time in which the queue of one overloaded CPU has a waiter that a free CPU could serve.
//! Gaps up to [`Options::gap`] join, and cost nothing. What is lost is divided among the waiters, so the costs of all
//! episodes add up to the sum.
//!
//! A task that is left on the queue of a CPU which goes idle is *throttled*, or held back otherwise: the kernel would
//! run it if it could. It counts as not runnable until it is woken, moved or runs.
//!
//! Affinity is not in the events. Where the trace came with it, a new task has its creator's until the trace says
//! otherwise. Without it every CPU is taken to be allowed, except to kernel threads that carry their CPU in their name.
//! So unknown affinity raises the sum, and CPUs of which nothing is known lower it: [`Lost`] has the bounds.
//!
//! Memory: the costliest [`Options::limit`] episodes, for any length of the trace. Time: a change
//! looks at its own CPUs and tasks alone, however many CPUs there are and waits are open; only
//! when the first CPU that some tasks may use becomes free, or the last is taken, are those that wait
//! looked at, since a part of an episode then begins or ends for each.

mod allowed;
mod causes;
mod cores;
mod episode;
mod free_cpus;
mod known;
mod matching;
mod overloaded;
mod queues;
mod sums;

pub(crate) use allowed::{Allowed, ClassId};
pub use causes::{Because, Cause};
pub use episode::{Episode, Share};
pub use sums::{Lost, Sums};

use crate::change::{Change, Runnable, Switch};
use crate::question::Question;
use crate::state::{CpuState, State};
use crate::task::{Activity, TaskId};
use crate::task_filter::Chosen;
use crate::totals::{About, Total, Totals};
use allowed::UNKNOWN;
use causes::{Near, WakeFacts};
use cores::Cores;
use episode::{Episodes, Part};
use free_cpus::{FreeCpus, Step};
use known::Known;
use matching::Matching;
use overloaded::{Open, Queue, Role, Stuck};
use queues::Queues;
use schedlab_model::Better::Lower;
use schedlab_model::{Cpu, CpuSet, Nanos, Need, TraceInfo};

/// What counts, and how much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Shorter episodes are not counted at all.
    pub min: Nanos,
    /// Gaps up to this length join two episodes of a queue into one. They cost nothing.
    pub gap: Nanos,
    /// The most episodes that are kept, costliest first; all are summed.
    pub limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { min: Nanos::ZERO, gap: Nanos::from_micros(100), limit: 10_000 }
    }
}

/// Asks how much CPU time was lost, where, and why.
#[derive(Debug)]
pub struct Conservation {
    options: Options,
    chosen: Chosen,
    near: Option<Near>,
    allowed: Allowed,
    wakes: Vec<WakeFacts>,
    free: FreeCpus,
    queue: Queue,
    queues: Queues,
    stoppers: Known,
    bound: Known,
    overloaded: CpuSet,
    matching: Matching,
    cores: Option<Cores>,
    episodes: Episodes,
    sums: sums::Integrals,
    lost: sums::Losses,
    answer: ConservationAnswer,
    /// By task: what was lost while it waited, in parts of a nanosecond.
    by_task: Vec<u128>,
}

/// What [`Conservation`] found in a trace.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConservationAnswer {
    /// Costliest first, at most as many as asked for.
    pub episodes: Vec<Episode>,
    /// How many there were.
    pub count: u64,
    /// The sum of their costs: CPU time that was lost.
    pub total: Nanos,
    /// Time that tasks waited in them, summed over tasks.
    pub waited: Nanos,
    /// CPU time that was lost on the whole machine, with bounds. A choice of tasks and `--min` do
    /// not change it.
    pub lost: Lost,
    /// How many and how much CPU time by cause, in the order of [`Cause::ALL`].
    pub by_cause: [(u64, Nanos); Cause::ALL.len()],
    /// The part of `total` in which a per-CPU kernel thread was what ran instead when the episode began.
    pub by_kernel_threads: Nanos,
    /// Time per-CPU kernel threads waited behind other tasks; not in `total`.
    pub bound_threads: Nanos,
    /// The loss as other tools define it.
    pub sums: Sums,
    /// What was lost while a task waited, however short its episode, in order of tasks. Each is rounded down.
    pub by_task: Vec<(TaskId, Nanos)>,
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
            queues: Queues::default(),
            stoppers: Known::default(),
            bound: Known::default(),
            overloaded: CpuSet::new(),
            episodes: Episodes::new(options.limit),
            sums: sums::Integrals::default(),
            lost: sums::Losses::default(),
            answer: ConservationAnswer::default(),
            by_task: Vec::new(),
        }
    }

    /// Episodes of these tasks only, in the list and in the sums. The others still compete for free CPUs. [`Lost`] and
    /// the definitions of others ([`Sums`]) go on to look at the whole machine.
    #[must_use]
    pub fn about(self, chosen: Chosen) -> Self {
        Self { chosen, ..self }
    }

    /// A CPU that a task on an overloaded one may use is free from now on.
    fn begin(
        &mut self,
        class: ClassId,
        stuck: &mut Stuck,
        at: Nanos,
        freed_late: bool,
        state: &State,
    ) {
        let Stuck { task, cpu, role, .. } = *stuck;
        stuck.open = Some(Open { start: at, served: self.matching.served(class, at) });
        if role != Role::Counts {
            return;
        }
        match self.episodes.goes_on(cpu, at, self.options.gap) {
            Some(true) => return self.episodes.join(cpu),
            Some(false) => self.finish(cpu),
            None => {}
        }
        let wake = self.wakes.get(task.index()).copied().unwrap_or_default();
        let allowed = self.allowed.masks[class as usize].as_ref();
        let usable = causes::Usable { free: self.free.now(), allowed };
        let begun = causes::Begun { at, freed_late, usable, near: self.near.as_ref() };
        let because = causes::explain(state, task, cpu, &begun, &wake);
        self.episodes.begin(task, cpu, self.free.step(), because);
    }

    /// A task is no longer served by a free CPU, or waits no longer.
    fn close(&mut self, class: ClassId, stuck: &mut Stuck, at: Nanos, ended: episode::Ended) {
        let Some(open) = stuck.open.take() else { return };
        let Stuck { task, cpu, role, .. } = *stuck;
        match role {
            Role::Bound | Role::Competes => {}
            Role::Counts => {
                let cost = self.matching.served(class, at) - open.served;
                let part = Part { task, since: open.start, cost, ended };
                if task.index() >= self.by_task.len() {
                    self.by_task.resize(task.index() + 1, 0);
                }
                self.by_task[task.index()] += cost;
                let free = &self.free;
                let mask = &self.allowed.masks[class as usize];
                let idle = |from: Step| match mask {
                    Some(mask) => free.during(from).intersection(mask),
                    None => free.during(from),
                };
                self.episodes.leave(cpu, at, &part, idle);
            }
        }
    }

    /// The episode of a queue is over.
    fn finish(&mut self, cpu: Cpu) {
        let Some(finished) = self.episodes.finish(cpu, self.options.min) else { return };
        if !finished.counted {
            return;
        }
        let answer = &mut self.answer;
        answer.count += 1;
        answer.total += finished.cost;
        answer.waited += finished.waited;
        let of_cause = &mut answer.by_cause[finished.because.cause as usize];
        of_cause.0 += 1;
        of_cause.1 += finished.cost;
        if finished.because.kernel_thread {
            answer.by_kernel_threads += finished.cost;
        }
    }

    /// A CPU's occupant or queue may be another.
    fn note(&mut self, cpu: Cpu, at: Nanos, state: &State) -> Flip {
        let Some(here) = state.cpu(cpu) else { return Flip::default() };
        self.sums.note(cpu, here);
        self.lost.note(cpu, here);
        let is_overloaded = self.is_overloaded(here, state);
        let overloaded = self.overloaded.contains(cpu) != is_overloaded;
        if is_overloaded {
            self.overloaded.insert(cpu);
        } else {
            self.overloaded.remove(cpu);
        }
        let is_free = self.queues.is_free(cpu, here);
        let free = self.free.set(cpu, is_free);
        if free {
            self.queue.count(cpu, is_free);
            if is_free {
                self.matching.free(cpu, at);
            } else {
                self.matching.take(cpu, at);
            }
            if let Some(cores) = &mut self.cores {
                cores.set(cpu, is_free, at);
            }
        }
        Flip { free, overloaded }
    }

    /// Whether tasks wait for another that runs there.
    fn is_overloaded(&mut self, here: &CpuState, state: &State) -> bool {
        here.waiting > 0
            && here
                .occupant
                .task()
                .is_some_and(|task| !self.stoppers.has(task, state, State::is_stopper))
    }

    /// Ends what does not hold any longer, begins what holds from now on.
    fn review(&mut self, at: Nanos, touched: [Option<Cpu>; 3], named: [TaskId; 2], state: &State) {
        self.free.advance();
        for task in named {
            self.release(task, at, state);
        }
        let flips = touched.map(|cpu| cpu.map(|cpu| (cpu, self.note(cpu, at, state))));
        let flips = || flips.into_iter().flatten();
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
                    (true, None) => self.begin(class, stuck, at, true, state),
                    (true, Some(_)) => {}
                    (false, _) => self.close(class, stuck, at, episode::Ended::Taken),
                }
            }
            self.queue.give_back(class, tasks);
        }
    }

    /// The overloaded CPU on which a task waits and could run at once.
    fn stuck_on(&self, task: TaskId, state: &State) -> Option<Cpu> {
        match state.task(task).activity {
            Activity::Waiting { cpu, placed: true, .. } => {
                Some(cpu).filter(|cpu| self.overloaded.contains(*cpu) && !self.queues.is_held(task))
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
            let ended = ended(stuck.cpu, task, state);
            self.count_bound(&stuck, at);
            self.close(class, &mut stuck, at, ended);
            self.compete(class, stuck.competes, at, Matching::leave);
        }
    }

    /// A kernel thread that belongs to its CPU waits no longer.
    fn count_bound(&mut self, stuck: &Stuck, at: Nanos) {
        if let Some(since) = stuck.bound_since {
            self.answer.bound_threads += at - since;
        }
    }

    /// A task begins or ceases to compete for free CPUs.
    fn compete(
        &mut self,
        class: ClassId,
        competes: bool,
        at: Nanos,
        change: fn(&mut Matching, ClassId, Nanos),
    ) {
        if competes {
            change(&mut self.matching, class, at);
            if let Some(cores) = &mut self.cores {
                change(&mut cores.matching, class, at);
            }
        }
    }

    fn role(&self, class: ClassId, task: TaskId, is_bound: bool) -> Role {
        match self.chosen.has(task) {
            _ if class == UNKNOWN && is_bound => Role::Bound,
            true => Role::Counts,
            false => Role::Competes,
        }
    }

    /// Takes in a task that waits on an overloaded CPU from now on.
    fn hold(&mut self, task: TaskId, at: Nanos, state: &State) {
        if self.queue.cpu_of(task).is_some() {
            return;
        }
        let Some(cpu) = self.stuck_on(task, state) else { return };
        let class = self.allowed.class_of(task, state);
        let is_bound = self.bound.has(task, state, causes::is_bound);
        let role = self.role(class, task, is_bound);
        let competes = role != Role::Bound && !self.allowed.has_only(class, cpu);
        self.compete(class, competes, at, Matching::wait);
        let bound_since = is_bound.then_some(at);
        let mut stuck = Stuck { task, cpu, role, competes, bound_since, open: None };
        if self.queue.has_free(class) {
            self.begin(class, &mut stuck, at, false, state);
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
            let was_open = stuck.open.is_some();
            let joined = was_open && self.queue.has_free(is) && stuck.role == Role::Counts;
            if joined {
                // So that its episode does not end in between.
                self.episodes.join(stuck.cpu);
            }
            self.close(was, &mut stuck, at, episode::Ended::Taken);
            self.compete(was, stuck.competes, at, Matching::leave);
            if stuck.role == Role::Bound {
                stuck.role = self.role(is, task, true);
            }
            stuck.competes = stuck.role != Role::Bound && !self.allowed.has_only(is, stuck.cpu);
            self.compete(is, stuck.competes, at, Matching::wait);
            if joined {
                stuck.open = Some(Open { start: at, served: self.matching.served(is, at) });
            } else if self.queue.has_free(is) {
                self.begin(is, &mut stuck, at, true, state);
            }
            self.queue.insert(is, stuck);
        }
    }
}

/// How a wait on a queue ended.
fn ended(queue: Cpu, task: TaskId, state: &State) -> episode::Ended {
    use episode::Ended;
    match state.task(task).activity {
        Activity::Running { cpu } if cpu == queue => Ended::Ran,
        Activity::Waiting { cpu, .. } if cpu == queue => Ended::Cleared,
        Activity::Running { cpu } | Activity::Waiting { cpu, .. } => Ended::Moved(cpu),
        _ => Ended::Unknown,
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
        | Change::Moved(crate::change::Moved { task, .. })
        | Change::Forgotten { task, .. } => [task, TaskId::NONE],
        _ => [TaskId::NONE; 2],
    }
}

impl Question for Conservation {
    type Answer = ConservationAnswer;

    fn begin(&mut self, state: &State) {
        let at = state.window().start;
        self.sums.since = at;
        self.lost.since = at;
        self.queues.begin(state);
        for index in 0..state.cpus().len() {
            let cpu = Cpu(u16::try_from(index).expect("a CPU's number has 16 bits"));
            self.review(at, [Some(cpu), None, None], [TaskId::NONE; 2], state);
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
        let pending = self.queues.see(change, state);
        let [first, second] = change.touched(state);
        let touched = [first, second, pending];
        let named = named(change);
        let concerns = |task: &TaskId| self.queue.cpu_of(*task).is_some();
        let still = touched == [None; 3] && !named.iter().any(concerns);
        if still && !self.allowed.turns_by(state.now()) {
            return;
        }
        // A loss takes effect earlier, but what was added up until now stays.
        let at = change.at().max(self.lost.since);
        self.sums.advance(at);
        self.lost.advance(at, &self.matching, self.cores.as_ref());
        self.place(change, state);
        self.review(at, touched, named, state);
    }

    fn answer(mut self, state: &State) -> ConservationAnswer {
        let end = state.window().end;
        self.sums.advance(end);
        self.lost.advance(end, &self.matching, self.cores.as_ref());
        self.free.advance();
        for (class, mut stuck) in self.queue.drain() {
            self.count_bound(&stuck, end);
            self.close(class, &mut stuck, end, episode::Ended::Open);
        }
        for cpu in self.episodes.unfinished() {
            self.finish(cpu);
        }
        let affinity_known = self.allowed.is_told() && !self.lost.unknown_affinity();
        let whole = |parts: u128| Nanos(u64::try_from(parts / matching::PARTS).unwrap_or(u64::MAX));
        let lost = (0..).map(TaskId).zip(&self.by_task).filter(|(_, parts)| **parts > 0);
        ConservationAnswer {
            by_task: lost.map(|(task, parts)| (task, whole(*parts))).collect(),
            episodes: self.episodes.into_worst(),
            lost: self.lost.sum(affinity_known, self.cores.is_some()),
            sums: self.sums.sums,
            ..self.answer
        }
    }
}

impl Conservation {
    /// Keeps what was true where a task was put, before the state of the queues is looked at anew.
    fn place(&mut self, change: &Change, state: &State) {
        let (task, cpu) = match *change {
            Change::Placed { task, cpu, .. } => (task, cpu),
            Change::Moved(moved) => (moved.task, moved.to),
            Change::Runnable(Runnable { task, .. }) => match state.task(task).activity {
                Activity::Waiting { cpu, placed: true, .. } => (task, cpu),
                _ => return,
            },
            _ => return,
        };
        if let (Some(facts), Some(here)) = (self.wakes.get_mut(task.index()), state.cpu(cpu)) {
            facts.put(change.at(), cpu, here);
        }
    }
}

impl Totals for Conservation {
    fn totals() -> Vec<Total> {
        let mut totals = vec![
            Total::count("episodes", Lower, "Episodes of lost CPU time.").needs(Need::Episodes),
            Total::sum("lost_cpu_time_ns", Lower, "CPU time that was lost while tasks waited.")
                .needs(Need::LostTime),
        ];
        totals.extend(Cause::ALL.into_iter().map(|cause| {
            let name = format!("lost_{}_ns", cause.name());
            let about = "The part of it with the cause that the name tells.";
            Total::sum(&name, Lower, about).needs(Need::Episodes)
        }));
        totals
    }

    fn question(about: &About<'_>) -> Self {
        let options = Options { min: about.min, limit: 0, ..Options::default() };
        Self::new(options, about.info).about(about.chosen.clone())
    }

    fn values(answer: &ConservationAnswer, _: &Chosen) -> Vec<Option<f64>> {
        let lost = std::iter::once(answer.total).chain(answer.by_cause.map(|(_, time)| time));
        let lost = lost.map(|time| Some(time.0 as f64));
        std::iter::once(Some(answer.count as f64)).chain(lost).collect()
    }
}
