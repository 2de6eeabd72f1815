//! Executors of others: a process that speaks JSON lines, or a shared library with a C function.
//!
//! Over lines: we write the graph, one job a line, then `{"go":true}`; the process runs each job (by burning
//! the CPU for `work_ns`), writes one line per job with its times on CLOCK_MONOTONIC, and `{"done":true}`.
//! The same lines in a file are what `jobs run --events` reads. A process that has not said it is done within a time
//! is ended, with all that it started.

use anyhow::Context;
use schedlab_jobs::executor::{Executor, ExecutorError, Offers, Told, refuse_times};
use schedlab_jobs::run::Run;
use schedlab_model::{Nanos, Pid};
use schedlab_sys::process;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
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

    fn talk(&self, run: &Arc<Run>) -> anyhow::Result<()> {
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
        let (theirs, workers) = (Arc::clone(run), self.workers);
        // All is written before anything is read: the process answers after `go`. Both may wait for ever, so
        // another thread does: it ends with the pipes.
        std::thread::spawn(move || {
            let written =
                write_graph(&theirs, workers, input).context("it does not take the graph");
            let _ = told.send(written.and_then(|()| read_lines(BufReader::new(output))));
        });
        let answer = answers.recv_timeout(limit);
        let ended = answer.is_ok() && ends(&mut child, until)?;
        if !ended {
            end_all(&mut child)?;
            let at = if answer.is_ok() { "it did not end after its answer" } else { "no answer" };
            anyhow::bail!(
                "{at} within {} (the jobs' own work and --patience): it was ended",
                Nanos(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
            );
        }
        let events = answer.expect("it came")?;
        let status = child.wait()?;
        anyhow::ensure!(status.success(), "it ended with {status}");
        log(run, events);
        Ok(())
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
        self.talk(run).map_err(|error| ExecutorError::Unfinished {
            executor: self.name(),
            what: format!("{error:#}"),
        })?;
        Ok(Told::default())
    }
}

fn write_graph(run: &Run, workers: usize, input: impl Write) -> std::io::Result<()> {
    let mut input = BufWriter::new(input);
    let graph = run.graph();
    writeln!(
        input,
        "{}",
        json!({"schema": "schedlab/jobs-lines/1", "workers": workers, "jobs": graph.len()})
    )?;
    for node in 0..graph.len() {
        let after = graph.predecessors(node);
        writeln!(
            input,
            "{}",
            json!({"job": node, "work_ns": run.expected_ns(node), "after": after})
        )?;
    }
    writeln!(input, "{}", json!({"go": true}))?;
    input.flush()
}

struct Ran {
    job: u32,
    worker: u32,
    begin: u64,
    end: u64,
}

fn read_lines(lines: impl BufRead) -> anyhow::Result<Vec<Ran>> {
    let mut all = Vec::new();
    for (number, line) in lines.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let value: Value = serde_json::from_str(&line)
            .with_context(|| format!("line {}: `{line}` is no JSON", number + 1))?;
        if value.get("done").is_some() {
            break;
        }
        let field = |name: &str| {
            value.get(name).and_then(Value::as_u64).with_context(|| {
                format!("line {}: `{name}` is missing, or no whole number", number + 1)
            })
        };
        let ran = Ran {
            job: u32::try_from(field("job")?)?,
            worker: u32::try_from(field("worker")?)?,
            begin: field("begin_ns")?,
            end: field("end_ns")?,
        };
        anyhow::ensure!(ran.end >= ran.begin, "line {}: it ends before it begins", number + 1);
        all.push(ran);
    }
    Ok(all)
}

/// Logs what ran in the order in which it ended, relative to the first begin.
fn log(run: &Run, mut events: Vec<Ran>) {
    events.sort_by_key(|ran| (ran.end, ran.job));
    let origin = events.iter().map(|ran| ran.begin).min().unwrap_or(0);
    run.set_base(0);
    for Ran { job, worker, begin, end } in events {
        if job < run.graph().len() {
            run.log(job, worker as usize, begin - origin, Some(end - origin));
        }
    }
}

/// Reads an executor's own events; how many workers there were.
pub(super) fn read_events(file: &Path, run: &Run) -> anyhow::Result<usize> {
    let opened = std::fs::File::open(file).with_context(|| format!("{}", file.display()))?;
    let events =
        read_lines(BufReader::new(opened)).with_context(|| format!("{}", file.display()))?;
    let workers = events.iter().map(|ran| ran.worker as usize + 1).max().unwrap_or(1);
    log(run, events);
    Ok(workers)
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
        let perform = |node: u32, worker: u32| run.perform(node, worker as usize);
        let code = self.library.execute(self.workers as u32, &begin, &successors, &waits, &perform);
        match code {
            0 => Ok(Told::default()),
            code => Err(ExecutorError::Unfinished {
                executor: self.name(),
                what: format!("it returned {code}"),
            }),
        }
    }
}
