//! Where workers were while no job ran on them: every moment of every worker put down to one cause, so that the
//! causes sum to workers times time.
//!
//! At a moment, as many idle workers as there are ready jobs are losing something that a scheduler could have
//! had; each of them has its own reason. The others lose nothing that a scheduler could give: what is planned waits
//! for a predecessor, or there is nothing to do.

use schedlab_model::{Nanos, Span};

/// Why a worker ran no job, or how it ran one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// In a job, on a CPU.
    Job,
    /// In a job, runnable, and some other task had the CPU.
    JobDelayed,
    /// Without a job, runnable, and some other task had the CPU.
    RunDelay,
    /// Awake without a job: taking one, or looking for one.
    Awake,
    /// Asleep: nobody had woken it, or its timer was not over.
    Asleep,
    /// No job was ready for it: what was due waited for predecessors.
    Dependency,
    /// No job was ready for it, and none was due.
    NoWork,
}

impl Cause {
    /// All causes, in the order of the table.
    pub const ALL: [Self; 7] = [
        Self::Job,
        Self::JobDelayed,
        Self::RunDelay,
        Self::Awake,
        Self::Asleep,
        Self::Dependency,
        Self::NoWork,
    ];

    /// Key in JSON, and for people with its underscores as blanks.
    pub fn key(self) -> &'static str {
        match self {
            Self::Job => "in_jobs",
            Self::JobDelayed => "in_jobs_run_delay",
            Self::RunDelay => "run_delay",
            Self::Awake => "awake",
            Self::Asleep => "asleep",
            Self::Dependency => "dependency",
            Self::NoWork => "no_work",
        }
    }
}

/// The intervals that are known of a worker, each list in any order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// The spans in which the worker ran a job.
    pub(crate) jobs: Vec<Span>,
    /// The spans in which the worker was runnable without running, as the kernel says.
    pub(crate) delayed: Vec<Span>,
    /// The spans in which the worker slept.
    pub(crate) asleep: Vec<Span>,
}

/// What is known of the jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    /// Per job, from when it could have begun until it began.
    pub(crate) ready: Vec<Span>,
    /// Per job, from its start time until its last predecessor ended.
    pub(crate) blocked: Vec<Span>,
}

/// A stretch of one worker with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The worker, from 0.
    pub worker: usize,
    pub cause: Cause,
    /// From when to when, on the run's clock.
    pub span: Span,
}

/// All time of all workers within a window.
#[derive(Clone, Debug)]
pub struct Stalls {
    /// From the first begin of a job to the last end, on the run's clock.
    pub window: Span,
    /// Per worker, in order of time, without gaps.
    pub stretches: Vec<Vec<Stall>>,
}

/// What begins or ends at a moment.
#[derive(Clone, Copy)]
enum Edge {
    /// Of a worker, which of its lists.
    Lane(usize, usize),
    Ready,
    Blocked,
}

impl Stalls {
    /// Puts the window down to causes.
    pub(crate) fn of(lanes: &[Lane], demand: &Demand, window: Span) -> Self {
        let mut edges = edges(lanes, demand, window);
        edges.sort_by_key(|&(time, ..)| time);
        let mut state = vec![[0i64; 3]; lanes.len()];
        let mut ready = 0i64;
        let mut blocked = 0i64;
        let mut stalls = Self { window, stretches: vec![Vec::new(); lanes.len()] };
        let mut since = window.start;
        for (time, edge, change) in edges.into_iter().chain([(window.end, Edge::Ready, 0)]) {
            if time > since {
                stalls.pass(Span::new(since, time), &state, ready, blocked);
                since = time;
            }
            match edge {
                Edge::Lane(worker, list) => state[worker][list] += change,
                Edge::Ready => ready += change,
                Edge::Blocked => blocked += change,
            }
        }
        stalls
    }

    fn pass(&mut self, span: Span, state: &[[i64; 3]], mut ready: i64, mut blocked: i64) {
        let mut idle: Vec<(Cause, usize)> = Vec::new();
        for (worker, &[job, delayed, asleep]) in state.iter().enumerate() {
            let cause = match (job > 0, delayed > 0) {
                (true, true) => Cause::JobDelayed,
                (true, false) => Cause::Job,
                (false, true) => Cause::RunDelay,
                _ if asleep > 0 => Cause::Asleep,
                _ => Cause::Awake,
            };
            if job > 0 { self.add(worker, cause, span) } else { idle.push((cause, worker)) }
        }
        // Those that were held up come before those that slept as they should: they are why jobs waited.
        idle.sort_unstable();
        for (cause, worker) in idle {
            let cause = if ready > 0 {
                ready -= 1;
                cause
            } else if blocked > 0 {
                blocked -= 1;
                Cause::Dependency
            } else {
                Cause::NoWork
            };
            self.add(worker, cause, span);
        }
    }

    fn add(&mut self, worker: usize, cause: Cause, span: Span) {
        match self.stretches[worker].last_mut() {
            Some(last) if last.cause == cause => last.span.end = span.end,
            _ => self.stretches[worker].push(Stall { worker, cause, span }),
        }
    }

    /// Time of a cause, over all workers.
    pub fn sum(&self, cause: Cause) -> Nanos {
        let all = self.stretches.iter().flatten().filter(|stall| stall.cause == cause);
        all.map(|stall| stall.span.duration()).fold(Nanos::ZERO, |sum, time| Nanos(sum.0 + time.0))
    }

    /// The longest stretches that a scheduler or the machine is to blame for.
    pub fn longest(&self, count: usize) -> Vec<Stall> {
        let blamed = |stall: &&Stall| (Cause::JobDelayed..=Cause::Asleep).contains(&stall.cause);
        let mut all: Vec<Stall> = self.stretches.iter().flatten().filter(blamed).copied().collect();
        all.sort_by_key(|stall| (std::cmp::Reverse(stall.span.duration()), stall.span.start));
        all.truncate(count);
        all
    }
}

fn edges(lanes: &[Lane], demand: &Demand, window: Span) -> Vec<(Nanos, Edge, i64)> {
    let mut edges = Vec::new();
    let mut add = |spans: &[Span], edge: Edge| {
        for span in spans {
            let from = span.start.max(window.start);
            let to = span.end.min(window.end);
            if from < to {
                edges.push((from, edge, 1));
                edges.push((to, edge, -1));
            }
        }
    };
    for (worker, lane) in lanes.iter().enumerate() {
        let lists = [&lane.jobs, &lane.delayed, &lane.asleep];
        for (list, spans) in lists.into_iter().enumerate() {
            add(spans, Edge::Lane(worker, list));
        }
    }
    add(&demand.ready, Edge::Ready);
    add(&demand.blocked, Edge::Blocked);
    edges
}

#[cfg(test)]
mod tests;
