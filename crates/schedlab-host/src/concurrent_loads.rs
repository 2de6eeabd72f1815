//! Workloads that run at the same time as the run's own: each in its own load child, which starts and ends with it.
//!
//! A thread per child reads what the child reports, so that no child waits for the parent; all reports are
//! handed on when the run is over. The tasks of these workloads are ready before the run's own workload
//! starts its tasks, and all are released together.

use crate::load::{GO, LoadReport, LoadRequest, Part};
use crate::load_environment::Site;
use crate::load_process::{GRACE, spawn};
use crate::run_settings::RunSettings;
use schedlab_model::{Nanos, Pid, Warning};
use schedlab_sys::signal::Signals;
use schedlab_sys::{clock, process};
use schedlab_workload::measure;
use schedlab_workload::workloads::command;
use schedlab_workload::{Beside, Figure, MachineError, Output, RunSpec, Stream, WorkloadSpec};
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

/// How long a child may take until its tasks are ready.
const READY_WITHIN: Nanos = Nanos::from_secs(125);

/// What is read from a child.
enum Message {
    Report(LoadReport),
    /// A line that is no report.
    Invalid(String),
}

/// A workload beside the run's own.
struct ConcurrentLoad {
    which: Beside,
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Receiver<Message>,
    /// What it told before it was let go.
    early: Vec<Message>,
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
            let (tell, heard) = channel();
            let pipe = BufReader::new(child.stdout.take().expect("it was piped"));
            let which = which.clone();
            let early = Vec::new();
            // Among the others first: it ends with them if nobody can listen to it.
            loads.0.push(ConcurrentLoad { which, child, stdin: Some(stdin), heard, early, marks });
            let listen = move || {
                for line in pipe.lines() {
                    let Ok(line) = line else { return };
                    let told = serde_json::from_str(&line);
                    let told =
                        told.map_or_else(|_| Message::Invalid(line.clone()), Message::Report);
                    if tell.send(told).is_err() {
                        return;
                    }
                }
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
    fn failed(&self, why: &str) -> MachineError {
        MachineError::Load(format!("{}, beside it: {why}", self.which.label))
    }

    fn await_ready(&mut self, signals: Signals) -> Result<(), MachineError> {
        let deadline = clock::monotonic() + READY_WITHIN;
        loop {
            match self.heard.recv_timeout(std::time::Duration::from_millis(100)) {
                Ok(Message::Report(LoadReport::Tasks(_))) => return Ok(()),
                Ok(Message::Report(LoadReport::Failed { option, why })) => {
                    let option = option.map_or(String::new(), |name| format!("option {name}: "));
                    return Err(self.failed(&format!("{option}{why}")));
                }
                Ok(other) => self.early.push(other),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.failed("it ended before its tasks were ready"));
                }
                Err(RecvTimeoutError::Timeout) if signals.caught().is_some() => {
                    return Err(self.failed("interrupted before the tasks were ready"));
                }
                Err(RecvTimeoutError::Timeout) if clock::monotonic() > deadline => {
                    return Err(self.failed(&format!("not ready within {READY_WITHIN}")));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn ask_to_end(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = process::kill(Pid(self.child.id().cast_signed()), 15);
        }
    }

    /// Hands on all that it told; the names of its marks.
    fn hand_on(&mut self, out: &mut dyn Output) -> Result<Vec<String>, MachineError> {
        let deadline = clock::monotonic() + GRACE;
        let mut names = Vec::new();
        let mut ended = false;
        let mut early = std::mem::take(&mut self.early).into_iter();
        loop {
            let heard = match early.next() {
                Some(heard) => heard,
                None => match self.heard.recv_timeout(std::time::Duration::from_millis(200)) {
                    Ok(heard) => heard,
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) if clock::monotonic() > deadline => {
                        let _ = self.child.kill();
                        break;
                    }
                    Err(RecvTimeoutError::Timeout) => continue,
                },
            };
            match heard {
                Message::Invalid(line) => {
                    return Err(self.failed(&format!("invalid line '{line}'")));
                }
                Message::Report(LoadReport::Marks(told)) => names = told,
                Message::Report(LoadReport::Ended { failures, .. }) if failures.is_empty() => {
                    ended = true;
                }
                Message::Report(LoadReport::Ended { failures, .. }) => {
                    return Err(self.failed(&failures.join("; ")));
                }
                Message::Report(LoadReport::Failed { why, .. }) => return Err(self.failed(&why)),
                Message::Report(told) => self.pass(told, out)?,
            }
        }
        if ended { Ok(names) } else { Err(self.failed("it did not end by itself")) }
    }

    fn pass(&self, told: LoadReport, out: &mut dyn Output) -> Result<(), MachineError> {
        let label = &self.which.label;
        let mut tell = |figure: Figure| {
            let of = self.which.of(&figure.of);
            out.figure(Figure { of, ..figure }).map_err(|e| MachineError::io("storing a metric", e))
        };
        match told {
            LoadReport::Interval(interval) => {
                if interval.last {
                    measure::figures(&interval).into_iter().try_for_each(&mut tell)?;
                }
                out.interval_beside(label, &interval);
            }
            LoadReport::Figure(figure) => tell(figure)?,
            LoadReport::Note(sentence) => out.note(&format!("{label}: {sentence}")),
            LoadReport::Warning(warning) => {
                let what = format!("{label}: {}", warning.what);
                out.warning(Warning { what, ..warning });
            }
            LoadReport::Marks(_)
            | LoadReport::Tasks(_)
            | LoadReport::Failed { .. }
            | LoadReport::Ended { .. } => {}
        }
        Ok(())
    }
}

impl Drop for ConcurrentLoad {
    /// Nothing of ours is left running, also after an error.
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        self.marks.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}
