//! Executors of others: a process that speaks JSON lines, or a shared library with a C function.
//!
//! Over lines (`docs/executors.md`): we write the graph, one job a line, then `{"go":true}`; the process does each job's
//! rounds of work, writes one line per job with its times on CLOCK_MONOTONIC and the value that the work gave, and
//! `{"done":true}`. The values prove the work ([`Asked::check`]). Lines in a file, without values, are what `jobs run
//! --events` reads. A process that has not said it is done within a time is ended, with all that it started.

mod asked;

use asked::Asked;

use anyhow::Context;
use schedlab_jobs::executor::{Executor, ExecutorError, Offers, Told, refuse_times};
use schedlab_jobs::run::Run;
use schedlab_model::{Nanos, Pid};
use schedlab_sys::process;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// A process that speaks JSON lines.
pub(super) struct Lines {
    command: String,
    workers: usize,
    /// Beyond the jobs' own work, one after another.
    patience: Duration,
}

impl Lines {
    /// The command is split at blanks; each run starts it anew.
    pub(super) fn new(command: &str, workers: usize, patience: Nanos) -> Self {
        Self { command: command.to_owned(), workers, patience: patience.as_duration() }
    }

    /// Runs the graph; how many values were computed again.
    fn talk(&self, run: &Arc<Run>) -> Result<u32, Fault> {
        let asked = Asked::of(run, self.workers);
        let mut words = self.command.split_whitespace();
        let program = words.next().context("no program is named")?;
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("`{program}` could not be started"))?;
        let input = child.stdin.take().context("its input is no pipe")?;
        let output = child.stdout.take().context("its output is no pipe")?;
        let work_ns: u64 = (0..run.graph().len()).map(|node| run.expected_ns(node)).sum();
        let limit = self.patience.saturating_add(Duration::from_nanos(work_ns));
        let until = Instant::now() + limit;
        let (told, answers) = mpsc::channel();
        let (theirs, given) = (Arc::clone(run), asked.clone());
        // All is written before anything is read: the process answers after `go`. Both may wait for ever, so
        // another thread does: it ends with the pipes.
        let talk = move || {
            let from = schedlab_sys::clock::monotonic().0;
            let written = given.write(&theirs, input).context("it does not take the graph");
            let jobs = Some((theirs.graph().len(), given.workers));
            let read = || Ok((from, read_lines(BufReader::new(output), jobs)?));
            let _ = told.send(written.and_then(|()| read()));
        };
        if let Err(error) = std::thread::Builder::new().name("talk".to_owned()).spawn(talk) {
            end_all(&mut child)?;
            let error = anyhow::Error::new(schedlab_sys::process::thread_refused(&error));
            return Err(error.context("talking to the executor").into());
        }
        let answer = wait_for(&answers, until, || run.is_stopped());
        if run.is_stopped() {
            end_all(&mut child)?;
            return Err(Fault::Interrupted);
        }
        let ended = answer.is_some() && ends(&mut child, until)?;
        if !ended {
            end_all(&mut child)?;
            let at = if answer.is_some() { "it did not end after its answer" } else { "no answer" };
            let limit = Nanos(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
            return Err(anyhow::anyhow!(
                "{at} within {limit} (the jobs' own work and --patience): it was ended"
            )
            .into());
        }
        let (from, ran) = answer.expect("it came")?;
        let status = child.wait().context("its end")?;
        if !status.success() {
            return Err(anyhow::anyhow!("it ended with {status}").into());
        }
        let recomputed = asked.check(run, &ran, from..=schedlab_sys::clock::monotonic().0)?;
        log(run, ran);
        Ok(recomputed)
    }
}

/// Why a run over lines gave nothing.
enum Fault {
    Interrupted,
    Error(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Fault {
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

/// Whether a process ends by then.
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
        Offers { dependencies: true, ..Offers::PLAIN }
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<Told, ExecutorError> {
        refuse_times(self, run)?;
        // It is told how long a job is, and burns the CPU for that.
        if (0..run.graph().len()).any(|node| run.kind(node) != "cpu") {
            let what = "loads other than cpu";
            return Err(ExecutorError::NotOffered { executor: self.name(), what });
        }
        match self.talk(run) {
            Ok(recomputed) => Ok(Told { recomputed: Some(recomputed), ..Told::default() }),
            Err(Fault::Interrupted) => Err(ExecutorError::Interrupted),
            Err(Fault::Error(error)) => {
                let what = format!("{error:#}");
                Err(ExecutorError::Unfinished { executor: self.name(), what })
            }
        }
    }
}

struct Ran {
    job: u32,
    worker: u32,
    begin: u64,
    end: u64,
    /// What its work gave; none in events that were written by themselves.
    value: Option<u64>,
}

/// The lines of an executor. With the numbers of jobs and workers that it was given, each line must keep to them.
fn read_lines(lines: impl BufRead, given: Option<(u32, usize)>) -> anyhow::Result<Vec<Ran>> {
    let mut all = Vec::new();
    for (number, line) in lines.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let at = || format!("line {}", number + 1);
        let value: Value = serde_json::from_str(&line)
            .with_context(|| format!("{}: `{line}` is no JSON", at()))?;
        if value.get("done").is_some() {
            break;
        }
        all.push(one_line(&value, given).with_context(at)?);
    }
    Ok(all)
}

fn one_line(line: &Value, given: Option<(u32, usize)>) -> anyhow::Result<Ran> {
    let field = |name: &str| {
        let value = line.get(name).and_then(Value::as_u64);
        value.with_context(|| format!("`{name}` is missing, or no whole number"))
    };
    let value = line.get("value").map(|value| {
        let value = value.as_str().and_then(|text| u64::from_str_radix(text, 16).ok());
        value.context("`value` is no text of up to 16 hexadecimal digits")
    });
    let ran = Ran {
        job: u32::try_from(field("job")?)?,
        worker: u32::try_from(field("worker")?)?,
        begin: field("begin_ns")?,
        end: field("end_ns")?,
        value: value.transpose()?,
    };
    let Ran { job, worker, begin, end, value } = &ran;
    anyhow::ensure!(end >= begin, "job {job} ends before it begins");
    if let Some((jobs, workers)) = given {
        anyhow::ensure!(*job < jobs, "there is no job {job}: there are {jobs}");
        anyhow::ensure!(
            (*worker as usize) < workers,
            "there is no worker {worker}: there are {workers}"
        );
        anyhow::ensure!(value.is_some(), "`value` is missing: what the job's work gave");
    }
    Ok(ran)
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

/// Reads an executor's own events; how many workers there were. They may have any numbers.
pub(super) fn read_events(file: &Path, run: &Run) -> anyhow::Result<usize> {
    let opened = std::fs::File::open(file).with_context(|| format!("{}", file.display()))?;
    let jobs = run.graph().len();
    let mut events =
        read_lines(BufReader::new(opened), None).with_context(|| format!("{}", file.display()))?;
    if let Some(stray) = events.iter().find(|ran| ran.job >= jobs) {
        let job = stray.job;
        anyhow::bail!("{}: it ran a job {job}, but the graph has {jobs}", file.display());
    }
    let workers: BTreeSet<u32> = events.iter().map(|ran| ran.worker).collect();
    let places: BTreeMap<u32, u32> = workers.into_iter().zip(0..).collect();
    events.iter_mut().for_each(|ran| ran.worker = places[&ran.worker]);
    log(run, events);
    Ok(places.len().max(1))
}

/// A shared library with the function `schedlab_execute` (examples/executors/schedlab_executor.h).
pub(super) struct Library {
    library: schedlab_sys::library::Executor,
    name: String,
    workers: usize,
}

impl Library {
    /// Loads it.
    pub(super) fn open(file: &Path, workers: usize) -> anyhow::Result<Self> {
        let library = schedlab_sys::library::Executor::open(file)
            .with_context(|| format!("{}: is no executor", file.display()))?;
        Ok(Self { library, name: format!("lib:{}", file.display()), workers })
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
        Offers::PLAIN
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<Told, ExecutorError> {
        refuse_times(self, run)?;
        let graph = run.graph();
        let (mut begin, mut successors, mut waits) = (vec![0u32], Vec::new(), Vec::new());
        for node in 0..graph.len() {
            successors.extend_from_slice(graph.successors(node));
            begin.push(successors.len() as u32);
            waits.push(graph.predecessors(node).len() as u32);
        }
        run.set_base(run.clock().now());
        let (jobs, workers) = (graph.len(), self.workers as u32);
        let stray = Mutex::new(None);
        // A panic would end the process: the caller is C.
        let perform = |node: u32, worker: u32| {
            if node < jobs && worker < workers {
                run.perform(node, worker as usize);
            } else {
                stray.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((node, worker));
            }
        };
        let code = self.library.execute(workers, &begin, &successors, &waits, &perform);
        if let Some((node, worker)) = stray.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let what = format!(
                "it performed job {node} on worker {worker}; there are {jobs} jobs and {workers} workers, from 0 on"
            );
            return Err(ExecutorError::Unfinished { executor: self.name(), what });
        }
        match code {
            0 => run.told(Told::default()),
            code => Err(ExecutorError::Unfinished {
                executor: self.name(),
                what: format!("it returned {code}"),
            }),
        }
    }
}
