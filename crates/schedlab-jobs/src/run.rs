//! A run: a graph of jobs with start times and load, and the log that every executor fills in the same way.
//!
//! An executor calls `Run::perform` once for every node, from whichever thread; that takes the times,
//! does the work and leaves the proof. What is written is written per node, so threads share nothing.

mod clock;
mod count;
mod dropping;
mod held;
mod watching;

pub use self::clock::Clock;
use self::count::Counted;
pub use self::dropping::{DropReason, Dropped};
pub use self::held::Held;
pub(crate) use self::held::{HELD_NS, lost_in_job};
use self::watching::Watching;
pub use self::watching::{Machine, Slept, Stopped};
use crate::graph::{Graph, Node};
use crate::policy::{Criticality, NEVER, Nanos, StreamId};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// What a job does.
pub trait Work: Send + Sync {
    fn perform(&self, node: Node);

    /// How long that takes, as planned: virtual time and laxity go by it.
    fn expected_ns(&self, node: Node) -> Nanos;

    /// Bytes that it writes, and that each of its successors reads.
    fn data_bytes(&self) -> usize {
        0
    }

    /// What kind of work it is, where there are several: figures are distinguished by it.
    fn kind(&self, _: Node) -> &'static str {
        ""
    }

    /// Computes for about this long: what planning costs beyond its own work. Nothing where the work cannot.
    fn compute(&self, _: Nanos) {}
}

/// What goes on after a job returned: its worker is free, and its successors wait for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// How long it takes.
    pub ns: Nanos,
    /// Whether the job ends in a failure: what depends on it is then dropped.
    pub fails: bool,
}

/// No work at all: what remains is the executor's own cost.
#[derive(Clone, Copy, Debug)]
pub struct NoWork;

impl Work for NoWork {
    fn perform(&self, _: Node) {}

    fn expected_ns(&self, _: Node) -> Nanos {
        0
    }
}

/// When jobs may start and must have started, relative to the base of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Schedule {
    /// Per node, earliest start; empty: all at 0.
    pub starts: Vec<Nanos>,
    /// How long after its start a job may still start; `None`: however long.
    pub life_ns: Option<Nanos>,
    /// The life of each node's job, where lives differ; empty: all have the one above.
    pub lives: Vec<Nanos>,
}

impl Schedule {
    /// Earliest start of a node.
    pub fn start(&self, node: Node) -> Nanos {
        self.starts.get(node as usize).copied().unwrap_or(0)
    }

    /// Latest start of a node.
    pub fn deadline(&self, node: Node) -> Nanos {
        let life = self.lives.get(node as usize).copied().or(self.life_ns);
        life.map_or(NEVER, |life| self.start(node).saturating_add(life))
    }

    /// Whether any job has a deadline.
    pub fn has_deadlines(&self) -> bool {
        self.life_ns.is_some() || !self.lives.is_empty()
    }

    /// Whether it asks for more than "at once, in order".
    pub fn is_timed(&self) -> bool {
        self.starts.iter().any(|&start| start > 0)
    }
}

/// The CPU clock is read once in this many jobs: it takes about as long as all else that a pool does for a job.
const CPU_SAMPLE: u32 = 16;

/// What every job writes. Half a cache line: the next job of a worker most often finds the other half there.
#[derive(Debug, Default)]
#[repr(align(32))]
struct Entry {
    begin: AtomicU64,
    end: AtomicU64,
    hash: AtomicU64,
    runs: AtomicU32,
    worker: AtomicU32,
}

/// What few jobs write.
#[derive(Debug, Default)]
struct Further {
    cpu_ns: AtomicU64,
    /// When its I/O ended; 0: it has none.
    done: AtomicU64,
    /// When it was posted; 0: before the run.
    posted: AtomicU64,
    failed: AtomicBool,
    /// Why it did not run: [`DropReason`].
    drop_reason: AtomicU8,
}

/// A graph to be run once, and the log of it.
pub struct Run {
    graph: Arc<Graph>,
    schedule: Schedule,
    work: Box<dyn Work>,
    clock: Clock,
    base: AtomicU64,
    /// Reads the CPU time of the calling thread, where that is wanted.
    cpu_clock: Option<fn() -> Nanos>,
    /// Looks for jobs that were held up, where that is wanted.
    watching: Option<Watching>,
    /// Whether the user has ended the run.
    stop: Option<fn() -> bool>,
    /// Per node; empty: all normal.
    criticality: Vec<Criticality>,
    /// Per node; empty: all in the first one.
    streams: Vec<StreamId>,
    /// Per node; empty: none.
    io: Vec<Option<Io>>,
    /// Whether some of that fails.
    fails: bool,
    dropped: Mutex<Dropped>,
    /// The sleeps of each worker, if the executor tells.
    sleeps: Mutex<Option<Vec<Vec<Slept>>>>,
    entries: Vec<Entry>,
    further: Vec<Further>,
    /// How many jobs ran, by worker.
    counted: Counted,
}

/// What the log holds about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Span {
    /// The job that ran.
    pub node: Node,
    /// Who ran it, from 0.
    pub worker: u32,
    /// When, on the run's clock.
    pub begin: Nanos,
    /// The end of the job on the run's clock, in nanoseconds.
    pub end: Nanos,
    /// CPU time used, 0 where that was not measured.
    pub(crate) cpu_ns: Nanos,
    /// When its successors could start: `end`, or the end of its I/O.
    pub done: Nanos,
}

/// What is wrong with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// A job did not run.
    #[error("job {0} did not run")]
    Missing(Node),
    /// A job ran more than once.
    #[error("job {0} ran {1} times")]
    Repeated(Node, u32),
    /// Workers ran more jobs than the log has: some ran twice at the same moment.
    #[error("workers ran {0} jobs, but the log holds {1}: a job ran twice at the same moment")]
    Counted(u64, u64),
    /// A job began before its predecessor had ended.
    #[error("job {1} began {2} ns before its predecessor {0} had ended")]
    Early(Node, Node, Nanos),
    /// A job began before its start time.
    #[error("job {0} began {1} ns before its start time")]
    BeforeStart(Node, Nanos),
    /// A job ran though a predecessor did not.
    #[error("job {1} ran, but its predecessor {0} did not")]
    Orphan(Node, Node),
    /// Other jobs failed than those that were to fail.
    #[error("{0} jobs failed by the log, but the executor reports {1}")]
    Failed(u64, u64),
    /// Other jobs are missing than those that were dropped.
    #[error("{0} jobs did not run, but {1} were dropped")]
    Dropped(u64, u64),
    /// A job computed another hash than its predecessors give.
    #[error("the hash of job {0} is wrong")]
    NodeHash(Node),
    /// The hash over the graph is not what the graph says.
    #[error("the hash over the graph is {0:016X}, not {1:016X}")]
    Hash(u64, u64),
}

impl Run {
    /// A run that has not begun.
    pub fn new(graph: Graph, schedule: Schedule, work: Box<dyn Work>, clock: Clock) -> Self {
        let jobs = graph.len() as usize;
        let entries = std::iter::repeat_with(Entry::default).take(jobs).collect();
        let further = std::iter::repeat_with(Further::default).take(jobs).collect();
        let base = AtomicU64::new(clock.now());
        let dropped = Mutex::default();
        Self {
            graph: Arc::new(graph),
            schedule,
            work,
            clock,
            base,
            cpu_clock: None,
            watching: None,
            stop: None,
            criticality: Vec::new(),
            streams: Vec::new(),
            io: Vec::new(),
            fails: false,
            dropped,
            sleeps: Mutex::default(),
            entries,
            further,
            counted: Counted::default(),
        }
    }

    /// The run with each job in a stream, in order of nodes.
    #[must_use]
    pub(crate) fn with_streams(mut self, streams: Vec<StreamId>) -> Self {
        self.streams = streams;
        self
    }

    /// The run with jobs that end later than they return, in order of nodes.
    #[must_use]
    pub fn with_io(mut self, io: Vec<Option<Io>>) -> Self {
        self.fails = io.iter().flatten().any(|io| io.fails);
        self.io = io;
        self
    }

    /// The run, taking the CPU time of each job by this clock.
    #[must_use]
    pub fn with_cpu_clock(mut self, clock: fn() -> Nanos) -> Self {
        self.cpu_clock = Some(clock);
        self
    }

    /// The run, looking for jobs that were held up ([`Run::held`]) and for workers that could not run
    /// (`Run::stopped`). A thread reads its run delay when it begins its first job, after 0.1 ms without one, and
    /// once in `look_ns` of planned work.
    #[must_use]
    pub fn with_machine(mut self, machine: Machine, look_ns: Nanos) -> Self {
        self.watching = Some(Watching::new(machine, look_ns));
        self
    }

    /// Jobs that took a quarter and 0.1 ms longer than planned, each with its worker. Empty without
    /// [`Run::with_machine`].
    pub fn held(&self) -> Vec<(usize, Held)> {
        self.watching.as_ref().map_or_else(Vec::new, Watching::held)
    }

    /// Times in which workers without a job could not run. Empty without [`Run::with_machine`].
    pub(crate) fn stopped(&self) -> Vec<Stopped> {
        self.watching.as_ref().map_or_else(Vec::new, Watching::stopped)
    }

    /// The files by which the kernel would tell of such times, and that it does not have; `None`: nobody looked.
    pub fn missing(&self) -> Option<Vec<&'static str>> {
        self.watching.as_ref().map(Watching::missing)
    }

    /// Keeps the sleeps of each worker, on the run's clock, if the run is watched.
    pub(crate) fn set_sleeps(&self, sleeps: Vec<Vec<Slept>>) {
        *self.sleeps.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(sleeps);
    }

    /// The sleeps of each worker; `None`: the executor does not tell.
    pub(crate) fn sleeps(&self) -> Option<Vec<Vec<Slept>>> {
        self.sleeps.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Whether somebody looks at the machine meanwhile.
    pub(crate) fn is_watched(&self) -> bool {
        self.watching.is_some()
    }

    /// The run, asking `stop` before each job whether the user has ended it: the remaining jobs
    /// then do nothing.
    #[must_use]
    pub fn with_stop(mut self, stop: fn() -> bool) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Whether the user has ended the run.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop())
    }

    /// The run with how much each job matters, in order of nodes.
    #[must_use]
    pub fn with_criticality(mut self, criticality: Vec<Criticality>) -> Self {
        self.criticality = criticality;
        self
    }

    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The graph, to be kept.
    pub(crate) fn shared_graph(&self) -> Arc<Graph> {
        Arc::clone(&self.graph)
    }

    /// When jobs may start.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Planned length of a job.
    pub fn expected_ns(&self, node: Node) -> Nanos {
        self.work.expected_ns(node)
    }

    /// Bytes that each job writes and each of its successors reads.
    pub fn data_bytes(&self) -> usize {
        self.work.data_bytes()
    }

    /// What kind of work a job does.
    pub fn kind(&self, node: Node) -> &'static str {
        self.work.kind(node)
    }

    /// How much a job matters.
    pub fn criticality(&self, node: Node) -> Criticality {
        self.criticality.get(node as usize).copied().unwrap_or_default()
    }

    /// Whether no job matters more or less than another.
    pub(crate) fn is_normal(&self) -> bool {
        self.criticality.iter().all(|&criticality| criticality == Criticality::Normal)
    }

    /// The stream of a job.
    pub fn stream(&self, node: Node) -> StreamId {
        self.streams.get(node as usize).copied().unwrap_or_default()
    }

    /// What goes on after a job returned; `None` if the job ends when it returns.
    pub fn io(&self, node: Node) -> Option<Io> {
        self.io.get(node as usize).copied().flatten()
    }

    /// Whether some jobs end later than they return.
    pub fn has_io(&self) -> bool {
        self.io.iter().any(Option::is_some)
    }

    /// Whether some jobs fail.
    pub fn has_failures(&self) -> bool {
        self.fails
    }

    /// Computes for about `ns` nanoseconds, as planning does.
    pub(crate) fn compute(&self, ns: Nanos) {
        if ns > 0 {
            self.work.compute(ns);
        }
    }

    /// Notes that a job was given to the executor at `time`, on the run's clock.
    pub(crate) fn set_posted(&self, node: Node, time: Nanos) {
        self.further[node as usize].posted.store(time, Relaxed);
    }

    /// When a job was given to the executor; `None`: before the run.
    pub fn posted(&self, node: Node) -> Option<Nanos> {
        let posted = self.further[node as usize].posted.load(Relaxed);
        (posted > 0).then_some(posted)
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The moment to which the schedule is relative.
    pub fn base(&self) -> Nanos {
        self.base.load(Relaxed)
    }

    /// Sets the base: the executor decides when the run begins.
    pub fn set_base(&self, base: Nanos) {
        self.base.store(base, Relaxed);
    }

    /// Does the job of a node on a worker, and logs it; nothing once the run was ended.
    pub(crate) fn perform(&self, node: Node, worker: usize) {
        self.perform_io(node, worker);
    }

    /// As [`Run::perform`]; what goes on after the job, if anything does. [`Run::end_io`] tells its end.
    pub(crate) fn perform_io(&self, node: Node, worker: usize) -> Option<Io> {
        if self.is_stopped() {
            return None;
        }
        let cpu_clock = self.cpu_clock.filter(|_| node.is_multiple_of(CPU_SAMPLE));
        if cpu_clock.is_none() && self.watching.is_none() {
            return self.perform_timed(node, worker).1;
        }
        self.perform_watched(node, worker, cpu_clock)
    }

    /// Begin, and what goes on after the job.
    fn perform_timed(&self, node: Node, worker: usize) -> (Nanos, Option<Io>) {
        let begin = self.clock.now();
        self.work.perform(node);
        // What is logged is no part of the job: between two looks at the clock it would wait for both.
        let end = self.clock.now();
        let io = self.io(node);
        if io.is_some() {
            self.log_return(node, worker, begin, end);
        } else {
            self.log(node, worker, begin, Some(end));
        }
        (begin, io)
    }

    /// Looks at what else is wanted of the job: its CPU time, and whether it was held up.
    #[cold]
    fn perform_watched(
        &self,
        node: Node,
        worker: usize,
        cpu_clock: Option<fn() -> Nanos>,
    ) -> Option<Io> {
        if let Some(watching) = &self.watching {
            watching.begin(worker, self.clock.now());
        }
        let cpu_before = cpu_clock.map(|clock| clock());
        let (begin, io) = self.perform_timed(node, worker);
        if let (Some(clock), Some(before)) = (cpu_clock, cpu_before) {
            self.further[node as usize].cpu_ns.store(clock() - before, Relaxed);
        }
        if let Some(watching) = &self.watching {
            let took_ns = self.entries[node as usize].end.load(Relaxed).saturating_sub(begin);
            watching.end(worker, begin, took_ns, self.work.expected_ns(node));
        }
        io
    }

    /// Logs a job that was run elsewhere, or in virtual time, from and until then; `None` is now.
    pub fn log(&self, node: Node, worker: usize, begin: Nanos, end: Option<Nanos>) {
        // A predecessor that has not run yet holds 0 here, so order is part of the proof.
        self.log_hash(node);
        let entry = &self.entries[node as usize];
        self.log_begin(entry, worker, begin);
        entry.end.store(end.unwrap_or_else(|| self.clock.now()), Relaxed);
    }

    /// Logs a job that returned, and whose I/O goes on.
    pub(crate) fn log_return(&self, node: Node, worker: usize, begin: Nanos, end: Nanos) {
        let entry = &self.entries[node as usize];
        self.log_begin(entry, worker, begin);
        entry.end.store(end, Relaxed);
        self.further[node as usize].done.store(NEVER, Relaxed);
    }

    /// Adding with a lock takes 9 ns, since it waits for the stores before it. So a job that two workers run at the same
    /// moment may be counted once here; [`Counted`] has both.
    fn log_begin(&self, entry: &Entry, worker: usize, begin: Nanos) {
        entry.begin.store(begin, Relaxed);
        entry.worker.store(worker as u32, Relaxed);
        entry.runs.store(entry.runs.load(Relaxed) + 1, Relaxed);
        self.counted.add(worker);
    }

    /// The I/O of a job ended then, well or not; `None` is now.
    pub(crate) fn end_io(&self, node: Node, fails: bool, time: Option<Nanos>) {
        let further = &self.further[node as usize];
        if fails {
            further.failed.store(true, Relaxed);
        } else {
            self.log_hash(node);
        }
        further.done.store(time.unwrap_or_else(|| self.clock.now()), Relaxed);
    }

    /// When the successors of a job could start.
    fn done(&self, node: Node) -> Nanos {
        match self.further[node as usize].done.load(Relaxed) {
            0 => self.entries[node as usize].end.load(Relaxed),
            done => done,
        }
    }

    fn has_failed(&self, node: Node) -> bool {
        self.further[node as usize].failed.load(Relaxed)
    }

    fn log_hash(&self, node: Node) {
        let hash = self.graph.node_hash(node, |p| self.entries[p as usize].hash.load(Relaxed));
        self.entries[node as usize].hash.store(hash, Relaxed);
    }

    /// What the log holds, in order of nodes; jobs that did not run are left out.
    pub fn spans(&self) -> Vec<Span> {
        let ran = |(node, entry): (usize, &Entry)| {
            (entry.runs.load(Relaxed) > 0).then(|| Span {
                node: node as Node,
                worker: entry.worker.load(Relaxed),
                begin: entry.begin.load(Relaxed),
                end: entry.end.load(Relaxed),
                cpu_ns: self.further[node].cpu_ns.load(Relaxed),
                done: self.done(node as Node),
            })
        };
        self.entries.iter().enumerate().filter_map(ran).collect()
    }

    /// Proof of work: every job ran exactly once, after its predecessors, and the hash agrees. Of jobs with
    /// deadlines, as many did not run as the executor says it dropped, and nothing that depends on them ran.
    ///
    /// # Errors
    /// The first flaw that is found.
    pub fn verify(&self) -> Result<(), Flaw> {
        let mut missing = None;
        let mut count = 0;
        for node in 0..self.graph.len() {
            let entry = &self.entries[node as usize];
            match entry.runs.load(Relaxed) {
                1 => self.verify_order(node, entry)?,
                0 => (missing, count) = (missing.or(Some(node)), count + 1),
                runs => return Err(Flaw::Repeated(node, runs)),
            }
        }
        let ran = u64::from(self.graph.len()) - count;
        let counted = self.counted.sum();
        if ran != counted {
            return Err(Flaw::Counted(counted, ran));
        }
        let dropped = self.dropped().jobs();
        let failed = (0..self.graph.len()).filter(|&node| self.has_failed(node)).count() as u64;
        match missing {
            Some(node) if dropped == 0 || !(self.schedule.has_deadlines() || failed > 0) => {
                Err(Flaw::Missing(node))
            }
            _ if count != dropped => Err(Flaw::Dropped(count, dropped)),
            _ if failed != self.dropped().failed => {
                Err(Flaw::Failed(failed, self.dropped().failed))
            }
            Some(_) => self.verify_nodes(),
            None if failed > 0 => self.verify_nodes(),
            None => {
                let of = |node: Node| self.entries[node as usize].hash.load(Relaxed);
                let hash = self.graph.fold_exits(of);
                let expected = self.graph.hash();
                if hash == expected { Ok(()) } else { Err(Flaw::Hash(hash, expected)) }
            }
        }
    }

    fn verify_order(&self, node: Node, entry: &Entry) -> Result<(), Flaw> {
        let begin = entry.begin.load(Relaxed);
        let start = match self.schedule.start(node) {
            0 => 0,
            start => self.base() + start,
        };
        if begin < start {
            return Err(Flaw::BeforeStart(node, start - begin));
        }
        for &p in self.graph.predecessors(node) {
            let before = &self.entries[p as usize];
            let ended_badly = before.runs.load(Relaxed) == 0 && self.dropped().jobs() > 0;
            if ended_badly || self.has_failed(p) {
                return Err(Flaw::Orphan(p, node));
            }
            let end = self.done(p);
            if begin < end {
                return Err(Flaw::Early(p, node, end - begin));
            }
        }
        Ok(())
    }

    /// Where the exits are not all there, each node's own hash takes the place of the graph's.
    fn verify_nodes(&self) -> Result<(), Flaw> {
        for (node, entry) in (0..self.graph.len()).zip(&self.entries) {
            let right = entry.hash.load(Relaxed) == self.graph.expected(node);
            if entry.runs.load(Relaxed) > 0 && !self.has_failed(node) && !right {
                return Err(Flaw::NodeHash(node));
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("nodes", &self.graph.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Rules, Shape};

    fn run(shape: Shape) -> Run {
        let graph = shape.build(&Rules { nodes: 40, fan: 4, ..Rules::default() });
        Run::new(graph, Schedule::default(), Box::new(NoWork), Clock::start())
    }

    #[test]
    fn a_run_in_order_is_proved() {
        let run = run(Shape::Stencil);
        (0..40).for_each(|node| run.perform(node, 0));
        assert_eq!(run.verify(), Ok(()));
    }

    #[test]
    fn what_is_left_out_repeated_or_early_is_found() {
        let missing = run(Shape::Isolated);
        (1..40).for_each(|node| missing.perform(node, 0));
        assert_eq!(missing.verify(), Err(Flaw::Missing(0)));
        let repeated = run(Shape::Isolated);
        (0..40).chain([7]).for_each(|node| repeated.perform(node, 0));
        assert_eq!(repeated.verify(), Err(Flaw::Repeated(7, 2)));
        let at_once = run(Shape::Isolated);
        (0..40).chain([7]).for_each(|node| at_once.perform(node, usize::from(node == 7)));
        at_once.entries[7].runs.store(1, Relaxed);
        assert_eq!(at_once.verify(), Err(Flaw::Counted(41, 40)));
        let early = run(Shape::Stencil);
        (0..40).for_each(|node| early.log(node, 0, 100, Some(200)));
        assert_eq!(early.verify(), Err(Flaw::Early(0, 4, 100)));
        let disordered = run(Shape::Chain);
        (0..40)
            .rev()
            .for_each(|node| disordered.log(node, 0, u64::from(node), Some(u64::from(node))));
        assert!(matches!(disordered.verify(), Err(Flaw::Hash(..))));
    }

    #[test]
    fn what_was_dropped_must_be_what_is_missing_and_nothing_may_depend_on_it() {
        let run = |ran: &[Node], missed: u64| {
            let graph = Shape::Chain.build(&Rules { nodes: 4, ..Rules::default() });
            let schedule = Schedule { starts: Vec::new(), life_ns: Some(5), ..Schedule::default() };
            let run = Run::new(graph, schedule, Box::new(NoWork), Clock::start());
            ran.iter().for_each(|&node| run.perform(node, 0));
            run.set_dropped(Dropped { missed, ..Dropped::default() });
            run
        };
        assert_eq!(run(&[0, 1], 2).verify(), Ok(()));
        assert_eq!(run(&[0, 1], 1).verify(), Err(Flaw::Dropped(2, 1)));
        assert_eq!(run(&[0, 1, 2, 3], 1).verify(), Err(Flaw::Dropped(0, 1)));
        assert_eq!(run(&[0, 1], 0).verify(), Err(Flaw::Missing(2)));
        assert_eq!(run(&[0, 2], 2).verify(), Err(Flaw::Orphan(1, 2)));
        let changed = run(&[0, 1], 2);
        changed.entries[1].hash.fetch_add(1, Relaxed);
        assert_eq!(changed.verify(), Err(Flaw::NodeHash(1)));
        // Without deadlines nothing may be dropped.
        let graph = Shape::Chain.build(&Rules { nodes: 2, ..Rules::default() });
        let all = Run::new(graph, Schedule::default(), Box::new(NoWork), Clock::start());
        all.set_dropped(Dropped { missed: 2, ..Dropped::default() });
        assert_eq!(all.verify(), Err(Flaw::Missing(0)));
    }
}
