//! A trace, and its tables, each made when it is first asked for.

use crate::declared::declared;
use crate::events::Events;
use crate::intervals::Intervals;
use crate::table::Table;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use schedlab_model::table::Rows;
use schedlab_model::{Clock, EventSource, Nanos, Point, Span, TraceInfo, Warning};
use schedlab_timeline::{
    Conservation, ConservationOptions, Cut, Question, Reply, Tasks, WithArguments, ask_within,
    span_of, tells_where_tasks_block,
};
use schedlab_trace::{Options, TraceError, TraceErrorKind};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pyo3::create_exception!(
    schedlab,
    TraceWarning,
    PyUserWarning,
    "What limits the figures of a trace: losses, kinds of events that were not recorded."
);

/// A trace of any format that schedlab reads.
#[pyclass(module = "schedlab", frozen)]
pub(crate) struct Trace {
    path: PathBuf,
    /// As it was asked for.
    part: (Option<String>, Option<String>),
    cut: Cut,
    origin: Nanos,
    has_arguments: bool,
    info: TraceInfo,
    events: Mutex<Option<Py<Table>>>,
    intervals: Mutex<Option<(Py<Table>, Py<Table>)>>,
    episodes: Mutex<Option<Py<Table>>>,
    tasks: Mutex<Option<Py<Table>>>,
    told: Mutex<BTreeSet<String>>,
}

/// Opens a trace. Its tables are read when they are first used.
#[pyfunction]
#[pyo3(signature = (path, *, start = None, end = None, arguments = false))]
pub(crate) fn read(
    py: Python<'_>,
    path: PathBuf,
    start: Option<String>,
    end: Option<String>,
    arguments: bool,
) -> PyResult<Trace> {
    let points = [point("start", start.as_deref())?, point("end", end.as_deref())?];
    py.detach(|| Trace::open(path, points, (start, end), arguments)).map_err(Failure::into)
}

fn point(what: &str, text: Option<&str>) -> PyResult<Option<Point>> {
    let parsed = text.map(|text| text.parse::<Point>()).transpose();
    parsed.map_err(|error| PyValueError::new_err(format!("{what}: {error}")))
}

/// Why a table cannot be had.
enum Failure {
    Trace(TraceError),
    Read(PathBuf, std::io::Error),
    Table(arrow_schema::ArrowError),
    Empty(String),
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl From<arrow_schema::ArrowError> for Failure {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::Table(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Trace(error) if error.kind() == TraceErrorKind::Io => {
                PyOSError::new_err(error.to_string())
            }
            Failure::Trace(error) => PyValueError::new_err(error.to_string()),
            Failure::Read(path, error) => {
                PyOSError::new_err(format!("{}: {error}", path.display()))
            }
            Failure::Table(error) => PyRuntimeError::new_err(error.to_string()),
            Failure::Empty(what) => PyValueError::new_err(what),
        }
    }
}

impl Trace {
    fn open(
        path: PathBuf,
        points: [Option<Point>; 2],
        part: (Option<String>, Option<String>),
        has_arguments: bool,
    ) -> Result<Self, Failure> {
        let mut source = schedlab_trace::open(&path)?;
        let info = source.info().clone();
        // A trace that does not say where it begins is read once for that, if a part of it is wanted.
        let is_part = points.iter().any(Option::is_some);
        let origin = match info.span {
            Some(span) => span.start,
            None if is_part => {
                span_of(&mut *source).map_err(|error| read_error(&path, error))?.start
            }
            None => Nanos::ZERO,
        };
        let [from, to] = points.map(|point| point.map(|point| point.since(origin)));
        if let (Some(from), Some(to)) = (from, to)
            && from >= to
        {
            return Err(Failure::Empty(format!("start {from} is not before end {to}")));
        }
        Ok(Self {
            path,
            part,
            cut: Cut { from, to },
            origin,
            has_arguments,
            info,
            events: Mutex::default(),
            intervals: Mutex::default(),
            episodes: Mutex::default(),
            tasks: Mutex::default(),
            told: Mutex::default(),
        })
    }

    fn options(&self, has_arguments: bool) -> Options {
        Options { arguments: has_arguments, ..Options::all_cpus() }
    }

    /// The table of events, and what was found wrong.
    fn read_events(&self) -> Result<(Table, Vec<Warning>), Failure> {
        let failed = |error| read_error(&self.path, error);
        let mut trace = schedlab_trace::Trace::open(&self.path, &self.options(self.has_arguments))?;
        let at = |point: Option<Nanos>| point.map(|since| self.origin + since);
        let window = Span::new(
            at(self.cut.from).unwrap_or(Nanos::ZERO),
            at(self.cut.to).unwrap_or(Nanos::MAX),
        );
        let mut events = Events::new(trace.info(), window, self.has_arguments);
        let mut batch = Vec::new();
        'reading: while trace.next(&mut batch).map_err(failed)? {
            for (index, event) in batch.iter().enumerate() {
                if events.is_over(event.time) {
                    break 'reading;
                }
                let arguments = self.has_arguments.then(|| trace.arguments(index)).flatten();
                events.put(event, trace.info(), arguments.map(Cow::into_owned))?;
            }
        }
        Ok((events.table()?, trace.warnings().to_vec()))
    }

    /// One pass of the state machine.
    fn ask<Q: Question>(
        &self,
        question: impl FnOnce(&TraceInfo) -> Q,
    ) -> Result<Reply<Q::Answer>, Failure> {
        let mut source = schedlab_trace::open_with(&self.path, &self.options(false))?;
        let question = question(source.info());
        ask_within(&mut *source, self.cut, question).map_err(|error| read_error(&self.path, error))
    }

    /// The table of episodes, costliest first.
    fn ask_episodes(&self) -> Result<(Table, Vec<Warning>), Failure> {
        let options = ConservationOptions { limit: usize::MAX, ..ConservationOptions::default() };
        let reply = self.ask(|info| Conservation::new(options, info))?;
        let rows = reply.rows(&reply.answer.episodes);
        Ok((declared(&Rows::new(&rows, reply.origin).known(&reply.known))?, reply.warnings.clone()))
    }

    /// The table of what each task did, longest run time first.
    fn ask_tasks(&self) -> Result<(Table, Vec<Warning>), Failure> {
        let tasks = |info: &TraceInfo| Tasks::by_distance(info.topology.clone());
        let has_stacks = self.info.others.iter().any(|one| tells_where_tasks_block(&one.name));
        let reply = match has_stacks {
            true => self.ask(|info| WithArguments(tasks(info)))?,
            false => self.ask(tasks)?,
        };
        let rows = reply.rows(&reply.answer.rows);
        Ok((declared(&reply.table(&rows))?, reply.warnings.clone()))
    }

    /// A table that is kept once it was made; what limits it is said then.
    fn kept(
        &self,
        py: Python<'_>,
        place: &Mutex<Option<Py<Table>>>,
        make: impl FnOnce(&Self) -> Result<(Table, Vec<Warning>), Failure> + Send,
    ) -> PyResult<Py<Table>> {
        if let Some(table) = &*held(place) {
            return Ok(table.clone_ref(py));
        }
        let (table, warnings) = py.detach(|| make(self))?;
        self.warn(py, &warnings)?;
        let table = Py::new(py, table)?;
        *held(place) = Some(table.clone_ref(py));
        Ok(table)
    }

    /// Says what limits the tables, once each.
    fn warn(&self, py: Python<'_>, warnings: &[Warning]) -> PyResult<()> {
        let category = py.get_type::<TraceWarning>();
        for warning in warnings {
            let text = format!("{}: {warning}", self.path.display());
            let is_new = held(&self.told).insert(text.clone());
            if let (true, Ok(text)) = (is_new, CString::new(text.replace('\0', "\\0"))) {
                PyErr::warn(py, &category, &text, 2)?;
            }
        }
        Ok(())
    }

    fn intervals(&self, py: Python<'_>) -> PyResult<(Py<Table>, Py<Table>)> {
        if let Some((slices, waits)) = &*held(&self.intervals) {
            return Ok((slices.clone_ref(py), waits.clone_ref(py)));
        }
        let (slices, waits, warnings) = py.detach(|| {
            let mut intervals = Intervals::new();
            let reply = self.ask(|_| schedlab_timeline::Intervals::new(|it| intervals.put(it)))?;
            let (slices, waits) = intervals.tables()?;
            Ok::<_, Failure>((slices, waits, reply.warnings))
        })?;
        self.warn(py, &warnings)?;
        let slices = Py::new(py, slices)?;
        let waits = Py::new(py, waits)?;
        *held(&self.intervals) = Some((slices.clone_ref(py), waits.clone_ref(py)));
        Ok((slices, waits))
    }
}

fn read_error(path: &Path, error: std::io::Error) -> Failure {
    Failure::Read(path.to_owned(), error)
}

/// What a lock holds; a thread that panicked while it held it left nothing half done.
fn held<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[pymethods]
impl Trace {
    /// Every event, with the columns of `schedlab trace convert FILE.csv`.
    #[getter]
    fn events(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.kept(py, &self.events, Self::read_events)
    }

    /// Who ran where, from when until when; without a pid, nothing is known of the CPU.
    #[getter]
    fn slices(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        Ok(self.intervals(py)?.0)
    }

    /// Who waited for a CPU, from when until when, and why.
    #[getter]
    fn waits(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        Ok(self.intervals(py)?.1)
    }

    /// Episodes of lost CPU time, costliest first, as `schedlab trace conservation` finds them.
    #[getter]
    fn episodes(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.kept(py, &self.episodes, Self::ask_episodes)
    }

    /// What each task did with its time, longest run time first, as `schedlab trace tasks` tells it.
    #[getter]
    fn tasks(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.kept(py, &self.tasks, Self::ask_tasks)
    }

    /// Pictures of the trace, made by `schedlab draw`.
    #[getter]
    fn plot<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("schedlab._plot")?.getattr("Plot")?.call1((this,))
    }

    /// The file.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Where the part that was asked for starts and ends.
    #[getter]
    fn part(&self) -> (Option<String>, Option<String>) {
        self.part.clone()
    }

    /// The format as people name it.
    #[getter]
    fn format(&self) -> String {
        self.info.format.clone()
    }

    /// The clock of all times.
    #[getter]
    fn clock(&self) -> String {
        match &self.info.clock {
            Clock::Monotonic => "mono".to_owned(),
            Clock::Nanoseconds(name) | Clock::Ticks(name) => name.clone(),
        }
    }

    /// The kernel that was traced, where the trace tells.
    #[getter]
    fn kernel(&self) -> Option<String> {
        self.info.kernel.clone()
    }

    /// The CPUs that were observed, where the trace tells.
    #[getter]
    fn cpus(&self) -> Vec<u16> {
        self.info.cpus.iter().map(|cpu| cpu.0).collect()
    }

    /// What limits the tables that were read so far.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        held(&self.told).iter().cloned().collect()
    }

    fn __repr__(&self) -> String {
        format!("<schedlab.Trace {}: {}>", self.path.display(), self.info.format)
    }
}
