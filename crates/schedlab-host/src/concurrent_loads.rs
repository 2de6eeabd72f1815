//! Workloads that run at the same time as the run's own: each in its own load child, which starts and ends with it.
//!
//! A thread per child reads what the child reports, so that no child waits for the parent; all reports are
//! handed on when the run is over. The tasks of these workloads are ready before the run's own workload
//! starts its tasks, and all are released together.

use crate::load::{GO, LoadReport, LoadRequest, Part};
use crate::load_environment::Site;
use crate::load_process::{GRACE, LoadChild, spawn};
use crate::load_reports::LoadReports;
use crate::run_settings::RunSettings;
use schedlab_model::Nanos;
use schedlab_sys::signal::Signals;
use schedlab_sys::{clock, process};
use schedlab_workload::workloads::command;
use schedlab_workload::{Beside, MachineError, Output, RunSpec, Stream, WorkloadSpec};
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

/// How long a child may take until its tasks are ready.
const READY_WITHIN: Nanos = Nanos::from_secs(125);

/// A workload beside the run's own.
struct ConcurrentLoad {
    which: Beside,
    child: LoadChild,
    stdin: Option<ChildStdin>,
    reports: LoadReports,
    lines: Receiver<String>,
    /// Lines from before it was let go.
    early: Vec<String>,
    marks: Option<PathBuf>,
}

/// All of them. Dropping it kills what still runs.
#[derive(Default)]
pub(crate) struct ConcurrentLoads(Vec<ConcurrentLoad>);

impl ConcurrentLoads {
    /// Starts them, each with what was made for it, and waits until their tasks are ready.
    pub(crate) fn start(
        program: &Path,
        spec: &RunSpec,
        sites: Vec<Site>,
        marks: Option<&Path>,
        settings: &RunSettings,
        signals: Signals,
        out: &mut dyn Output,
    ) -> Result<Self, MachineError> {
        let mut loads = Self::default();
        for ((index, which), site) in spec.beside.iter().enumerate().zip(sites) {
            let request = LoadRequest { spec: alone(spec, which), part: Part::Beside, site };
            let marks = marks.map(|path| path.with_extension(format!("marks-{index}")));
            let stderr = out.path(Stream::Stderr).with_extension(format!("beside-{index}"));
            let (mut child, stdin) = spawn(program, &request, marks.as_deref(), &stderr, settings)?;
            let (sender, lines) = channel();
            let pipe = BufReader::new(child.0.stdout.take().expect("it was piped"));
            // Among the others first: it ends with them if nobody can listen to it.
            loads.0.push(ConcurrentLoad {
                which: which.clone(),
                child,
                stdin: Some(stdin),
                reports: LoadReports::new("", Some(which.clone())),
                lines,
                early: Vec::new(),
                marks,
            });
            let listen = move || {
                let mut lines = pipe.lines().map_while(Result::ok);
                // When nobody receives, the run is over.
                let _ = lines.try_for_each(|line| sender.send(line));
            };
            let listener = std::thread::Builder::new().name("listener".into()).spawn(listen);
            listener.map_err(|error| {
                let doing = "starting a thread that listens to a load beside";
                MachineError::io(doing, process::thread_refused(&error))
            })?;
        }
        loads.0.iter_mut().try_for_each(|one| one.await_ready(signals))?;
        Ok(loads)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lets all of these loads begin.
    pub(crate) fn go(&mut self) {
        for one in &mut self.0 {
            if let Some(stdin) = &mut one.stdin {
                let _ = stdin.write_all(GO);
            }
        }
    }

    /// Ends them and hands on what they told. Returns their marks: the file and the names.
    pub(crate) fn finish(
        mut self,
        out: &mut dyn Output,
    ) -> Result<Vec<(PathBuf, Vec<String>)>, MachineError> {
        // All are asked before any is awaited: they end at the same time.
        self.0.iter_mut().for_each(ConcurrentLoad::ask_to_end);
        let mut marks = Vec::new();
        for mut one in std::mem::take(&mut self.0) {
            let names = one.hand_on(out)?;
            let label = &one.which.label;
            let names = names.into_iter().map(|name| format!("{label}:{name}")).collect();
            marks.extend(one.marks.take().map(|path| (path, names)));
        }
        Ok(marks)
    }
}

/// The spec of a load child that performs `which`.
fn alone(spec: &RunSpec, which: &Beside) -> RunSpec {
    RunSpec {
        workload: workload(which),
        beside: Vec::new(),
        // What limits the run limits its own workload, whose end is the end of all.
        time_limit: None,
        record: None,
        ..spec.clone()
    }
}

/// What a load child performs: a command too is a workload to it.
pub(crate) fn workload(which: &Beside) -> WorkloadSpec {
    match &which.workload {
        WorkloadSpec::Command { argv } => command::of(argv),
        builtin => builtin.clone(),
    }
}

impl ConcurrentLoad {
    fn await_ready(&mut self, signals: Signals) -> Result<(), MachineError> {
        let deadline = clock::monotonic() + READY_WITHIN;
        let failed = |why: &str| Err(self.reports.error(why));
        loop {
            match self.lines.recv_timeout(std::time::Duration::from_millis(100)) {
                Ok(line) => match serde_json::from_str(&line) {
                    Ok(LoadReport::Tasks(_)) => return Ok(()),
                    Ok(LoadReport::Failed { option, why }) => {
                        let option =
                            option.map_or(String::new(), |name| format!("option {name}: "));
                        return failed(&format!("{option}{why}"));
                    }
                    _ => self.early.push(line),
                },
                Err(RecvTimeoutError::Disconnected) => {
                    return failed("it ended before its tasks were ready");
                }
                Err(RecvTimeoutError::Timeout) if signals.caught().is_some() => {
                    return failed("interrupted before the tasks were ready");
                }
                Err(RecvTimeoutError::Timeout) if clock::monotonic() > deadline => {
                    return failed(&format!("not ready within {READY_WITHIN}"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn ask_to_end(&mut self) {
        if matches!(self.child.0.try_wait(), Ok(None)) {
            let _ = process::kill(self.child.pid(), 15);
        }
    }

    /// Hands on all that it reports; the names of its marks.
    fn hand_on(&mut self, out: &mut dyn Output) -> Result<Vec<String>, MachineError> {
        let deadline = clock::monotonic() + GRACE;
        for line in std::mem::take(&mut self.early) {
            self.reports.line(line.as_bytes(), out)?;
        }
        loop {
            match self.lines.recv_timeout(std::time::Duration::from_millis(200)) {
                Ok(line) => self.reports.line(line.as_bytes(), out)?,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if clock::monotonic() > deadline => {
                    self.child.kill();
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        match self.reports.ended()? {
            Some(ended) if ended.failures.is_empty() => {
                Ok(self.reports.mark_names.take().unwrap_or_default())
            }
            Some(ended) => Err(self.reports.error(&ended.failures.join("; "))),
            None => Err(self.reports.error("it did not end by itself")),
        }
    }
}

impl Drop for ConcurrentLoad {
    fn drop(&mut self) {
        // Before its file goes, which it could make again.
        self.child.kill();
        self.marks.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}
