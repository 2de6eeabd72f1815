//! Executors of others: a process that speaks JSON lines, or a shared library with a C function.
//!
//! Over lines (`docs/executors.md`): we write the graph, one job a line, then `{"go":true}`; the process does each job's
//! rounds of work, not before its start time, writes one line per job with its times on CLOCK_MONOTONIC, its thread and
//! the value that the work gave, or with why it was dropped, and `{"done":true}`. What it cannot do it answers as
//! `{"not_offered":"start times"}`. The values prove the work (`asked`). Lines in a file, without values, are what
//! `jobs run --events` reads. A process that has not said it is done within a time is ended, with all that it started.

mod answer;
mod line;
mod request;

use crate::error::While;
use crate::{RigError, Threads};
use answer::{Answer, Ran, read_lines};
pub use line::{Done, Go, Head, Job, Line, NotOffered, SCHEMA, SCHEMA_DEADLINES};
use request::Request;
use schedlab_jobs::executor::{Executor, ExecutorError, ExecutorFigures, Offers, refuse_times};
use schedlab_jobs::run::Run;
use schedlab_model::{Nanos, Pid};
use schedlab_sys::guard::Ends;
use schedlab_sys::{library, process};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// A process that speaks JSON lines.
#[derive(Debug)]
pub struct Lines {
    command: String,
    workers: usize,
    /// Beyond the jobs' own work, one after another.
    patience: Duration,
    threads: Threads,
}

impl Lines {
    /// The command is split at blanks; each run starts it anew. A run that takes longer than its jobs' own work and
    /// `patience` is ended. The workers tell `threads` their thread ids.
    pub fn new(command: &str, workers: usize, patience: Nanos, threads: Threads) -> Self {
        Self { command: command.to_owned(), workers, patience: patience.as_duration(), threads }
    }

    /// Runs the graph; how many values were computed again.
    fn talk(&self, run: &Arc<Run>) -> Result<u32, Fault> {
        let asked = Request::of(run, self.workers);
        let mut words = self.command.split_whitespace();
        let program = words.next().while_doing("missing program: name one after `cmd:`")?;
        let mut command = Command::new(program);
        let _ends = Ends::of(&mut command);
        let mut child = command
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .while_doing(format!("cannot start '{program}'"))?;
        let input = child.stdin.take().while_doing("cannot write to its standard input")?;
        let output = child.stdout.take().while_doing("cannot read its standard output")?;
        let work_ns: u64 = (0..run.graph().len()).map(|node| run.expected_ns(node)).sum();
        let last_start = run.schedule().starts.iter().max().copied().unwrap_or(0);
        let limit = self.patience.saturating_add(Duration::from_nanos(work_ns + last_start));
        let until = Instant::now() + limit;
        let (told, answers) = mpsc::channel();
        let theirs = Arc::clone(run);
        let given = asked.clone();
        // All is written before anything is read: the process answers after `go`. Both may wait for ever, so
        // another thread does: it ends with the pipes.
        let talk = move || {
            let from = schedlab_sys::clock::monotonic().0;
            let written = given.write(&theirs, input).while_doing("it does not take the graph");
            let jobs = theirs.graph().len();
            let read = |base| {
                let answer = read_lines(BufReader::new(output), jobs, Some(given.workers))?;
                Ok::<_, RigError>((from, base, answer))
            };
            // One that says at once what it does not offer does not take the graph.
            let _ = told.send(match written {
                Ok(base) => read(base),
                Err(error) => match read(0) {
                    Ok(said @ (.., Answer { not_offered: Some(_), .. })) => Ok(said),
                    _ => Err(error),
                },
            });
        };
        if let Err(error) = std::thread::Builder::new().name("talk".to_owned()).spawn(talk) {
            end_all(&mut child)?;
            let refused = schedlab_sys::process::thread_refused(&error);
            return Err(refused).while_doing("talking to the executor").map_err(Fault::Error);
        }
        let answer = wait_for(&answers, until, || run.is_stopped());
        if run.is_stopped() {
            end_all(&mut child)?;
            return Err(Fault::Interrupted);
        }
        if let Some(Err(error)) = answer {
            // It may write for ever, or wait for more.
            end_all(&mut child)?;
            return Err(error.into());
        }
        let ended = answer.is_some() && ends(&mut child, until)?;
        if !ended {
            end_all(&mut child)?;
            return Err(too_late(answer.is_some(), limit).into());
        }
        let (from, base, answer) = answer.expect("it came")?;
        takes(&answer)?;
        let status = child.wait().while_doing("its end")?;
        if !status.success() {
            return Err(RigError::wrong(format!("it ended with {status}")).into());
        }
        let when = from..=schedlab_sys::clock::monotonic().0;
        let recomputed = asked.check(run, &answer, base, when)?;
        for (worker, thread) in answer.ran.iter().filter_map(|ran| Some((ran.worker, ran.thread?)))
        {
            self.threads.tell(worker as usize, thread);
        }
        log_on_clock(run, &answer.ran, base);
        answer.gone.iter().for_each(|gone| run.drop_job(gone.job, gone.why));
        Ok(recomputed)
    }
}

/// Why a process was ended.
fn too_late(has_answered: bool, limit: Duration) -> RigError {
    let at = if has_answered { "it did not end after its answer" } else { "no answer" };
    let limit = Nanos(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    let own = "the jobs' own work and --patience";
    RigError::wrong(format!("{at} within {limit} ({own}): it was ended"))
}

/// Whether a process takes the run.
fn takes(answer: &Answer) -> Result<(), Fault> {
    match answer.not_offered.as_deref() {
        None => Ok(()),
        Some("start times") => Err(Fault::NotOffered("start times")),
        Some("deadlines") => Err(Fault::NotOffered("deadlines")),
        Some(other) => Err(RigError::wrong(format!("it does not offer {other}")).into()),
    }
}

/// Why a run over lines gave nothing.
enum Fault {
    Interrupted,
    NotOffered(&'static str),
    Error(RigError),
}

impl<E: Into<RigError>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// The answer, if it comes by then and nobody ends the run.
fn wait_for<T>(
    answers: &mpsc::Receiver<T>,
    until: Instant,
    stopped: impl Fn() -> bool,
) -> Option<T> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match answers.recv_timeout(left.min(Duration::from_millis(50))) {
            Ok(answer) => return Some(answer),
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) if left.is_zero() || stopped() => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}

fn ends(child: &mut Child, until: Instant) -> std::io::Result<bool> {
    while child.try_wait()?.is_none() {
        if Instant::now() > until {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(true)
}

/// Kills a process with all that it has started, and takes its end.
fn end_all(child: &mut Child) -> std::io::Result<()> {
    for one in process::family(Pid(child.id().cast_signed())) {
        // It may have ended by itself.
        let _ = process::kill(one, 9);
    }
    child.wait().map(|_| ())
}

impl Executor for Lines {
    fn name(&self) -> String {
        format!("cmd:{}", self.command)
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn offers(&self) -> Offers {
        Offers { dependencies: true, start_times: true, deadlines: true, ..Offers::PLAIN }
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<ExecutorFigures, ExecutorError> {
        refuse_times(self, run)?;
        // It learns how long a job is, and burns the CPU for that.
        if (0..run.graph().len()).any(|node| run.kind(node) != "cpu") {
            let what = "loads other than cpu";
            return Err(ExecutorError::NotOffered { executor: self.name(), what });
        }
        if run.data_bytes() > 0 {
            let what = "data along edges";
            return Err(ExecutorError::NotOffered { executor: self.name(), what });
        }
        match self.talk(run) {
            Ok(recomputed) => run.finish(ExecutorFigures {
                recomputed: Some(recomputed),
                ..ExecutorFigures::default()
            }),
            Err(Fault::Interrupted) => Err(ExecutorError::Interrupted),
            Err(Fault::NotOffered(what)) => {
                Err(ExecutorError::NotOffered { executor: self.name(), what })
            }
            Err(Fault::Error(error)) => {
                let what = error.sentence();
                Err(ExecutorError::Unfinished { executor: self.name(), what })
            }
        }
    }
}

/// Logs what ran in the order in which it ended, on the run's clock; without start times, `base` is the first begin.
fn log_on_clock(run: &Run, ran: &[Ran], base: u64) {
    let mut order: Vec<&Ran> = ran.iter().collect();
    order.sort_by_key(|ran| (ran.end, ran.job));
    let origin = schedlab_sys::clock::monotonic().0.saturating_sub(run.clock().now());
    let first = ran.iter().map(|ran| ran.begin).min().unwrap_or(base);
    let base = if request::has_times(run) { base } else { first };
    run.set_base(base.saturating_sub(origin));
    for Ran { job, worker, begin, end, .. } in order {
        let on_clock = |time: &u64| time.saturating_sub(origin);
        run.log(*job, *worker as usize, on_clock(begin), Some(on_clock(end)));
    }
}

/// Logs what ran in the order in which it ended, relative to the first begin.
fn log(run: &Run, mut events: Vec<Ran>) {
    events.sort_by_key(|ran| (ran.end, ran.job));
    let origin = events.iter().map(|ran| ran.begin).min().unwrap_or(0);
    run.set_base(0);
    for Ran { job, worker, begin, end, .. } in events {
        run.log(job, worker as usize, begin - origin, Some(end - origin));
    }
}

/// Reads the events that an executor wrote, and returns how many workers it had. Workers may have any numbers.
///
/// # Errors
/// When the file cannot be read, a line is none of an executor's, or names a job that the graph has not.
pub fn read_events(file: &Path, run: &Run) -> Result<usize, RigError> {
    let opened =
        schedlab_sys::regular_file::open(file).while_doing(format!("{}", file.display()))?;
    let jobs = run.graph().len();
    let answer = read_lines(BufReader::new(opened), jobs, None)
        .while_doing(format!("{}", file.display()))?;
    let mut events = answer.ran;
    if let Some(stray) = events.iter().find(|ran| ran.job >= jobs) {
        let job = stray.job;
        let what = format!("{}: it ran job {job}, but the graph has {jobs} jobs", file.display());
        return Err(RigError::Wrong(what));
    }
    let workers: BTreeSet<u32> = events.iter().map(|ran| ran.worker).collect();
    let places: BTreeMap<u32, u32> = workers.into_iter().zip(0..).collect();
    events.iter_mut().for_each(|ran| ran.worker = places[&ran.worker]);
    log(run, events);
    Ok(places.len().max(1))
}

/// Between the begin of a run with start times and its first one: workers go to sleep, as those of our pool do.
const PRE_ROLL_NS: u64 = 3_000_000;

std::thread_local! {
    /// The worker that this thread told to be.
    static WORKER: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A shared library with the function `schedlab_execute` (examples/executors/schedlab_executor.h).
#[derive(Debug)]
pub struct Library {
    library: library::Executor,
    name: String,
    workers: usize,
    threads: Threads,
}

impl Library {
    /// Loads it, and so runs the code of the file. The workers tell `threads` their thread ids.
    ///
    /// # Errors
    /// When it cannot be loaded, or has no such function.
    pub fn open(file: &Path, workers: usize, threads: Threads) -> Result<Self, RigError> {
        #[expect(unsafe_code, reason = "the user names the library, and so trusts it")]
        // SAFETY: a library that exports `schedlab_execute` keeps the contract of that function.
        let library = unsafe { library::Executor::open(file) }
            .while_doing(format!("cannot load executor '{}'", file.display()))?;
        Ok(Self { library, name: format!("lib:{}", file.display()), workers, threads })
    }
}

impl Executor for Library {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn offers(&self) -> Offers {
        Offers { start_times: self.library.knows_start_times(), ..Offers::LOOKED_AT }
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<ExecutorFigures, ExecutorError> {
        refuse_times(self, run)?;
        let graph = run.graph();
        let nodes = library::Graph::new((0..graph.len()).map(|node| graph.successors(node)));
        let timed = run.schedule().is_timed();
        let base = run.clock().now() + if timed { PRE_ROLL_NS } else { 0 };
        run.set_base(base);
        // On CLOCK_MONOTONIC, which the library reads as well.
        let origin = schedlab_sys::clock::monotonic().0.saturating_sub(run.clock().now());
        let start = |node| origin + base + run.schedule().start(node);
        let starts: Option<Vec<u64>> = timed.then(|| (0..graph.len()).map(start).collect());
        let jobs = graph.len();
        let workers = self.workers as u32;
        let stray = Mutex::new(None);
        // A panic would end the process: the caller is C.
        let perform = |node: u32, worker: u32| {
            if node < jobs && worker < workers {
                if WORKER.replace(Some(worker)) != Some(worker) {
                    self.threads.tell_own(worker as usize);
                }
                run.perform_in_time(node, worker as usize);
            } else {
                stray.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((node, worker));
            }
        };
        let code = self.library.execute(workers, &nodes, starts.as_deref(), &perform);
        if let Some((node, worker)) = stray.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let what = format!(
                "it ran job {node} on worker {worker}, but the run has {jobs} jobs and {workers} \
                 workers, from 0"
            );
            return Err(ExecutorError::Unfinished { executor: self.name(), what });
        }
        match code {
            0 => run.finish(ExecutorFigures::default()),
            code => Err(ExecutorError::Unfinished {
                executor: self.name(),
                what: format!("it returned {code}"),
            }),
        }
    }
}
