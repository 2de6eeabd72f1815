//! Events of a text, line by line, with bounded memory.

use super::arguments;
use super::line::{Line, Said, parse};
use crate::error::TraceError;
use crate::input::Input;
use crate::merge::ascend;
use crate::names::{self, Names};
use schedlab_model::{
    Clock, Context, Cpu, CpuSet, Event, EventSource, KindSet, Nanos, OtherFormat, Pid, TraceInfo,
    Warning, What,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroU32;

/// Bytes read at once; a longer line is no line of a trace.
const WINDOW: usize = 1 << 18;
/// Lines taken for one batch.
const LINES: usize = 1024;
/// Different tracepoints and marks that are distinguished.
const NAMES_MAX: usize = 4096;

/// A text as a source of events.
pub(crate) struct TextReader {
    input: Input,
    offset: u64,
    window: Vec<u8>,
    at: usize,
    /// Its CPUs are those that the text names in its head; without such a line nobody knows them before the end.
    info: TraceInfo,
    /// CPUs of the lines so far.
    met: CpuSet,
    warnings: Vec<Warning>,
    names: Names,
    others: BTreeMap<(String, String), u16>,
    marks: BTreeMap<String, u32>,
    /// The buffer whose scheduler events tell the story, once one was met: `""` is the top one.
    story: Option<String>,
    /// Further buffers with scheduler events.
    counted: BTreeSet<String>,
    last: u64,
    raised: u64,
    /// Lines of the scheduler's events that could not be understood.
    puzzling: u64,
    /// Lines that look like events and are of no known form.
    strange: u64,
    ended: bool,
    /// Arguments of tracepoints beyond the scheduler's, by their place in the last batch, ascending.
    arguments: Vec<(usize, String)>,
    /// Read ahead when the text was recognised.
    first: Vec<Event>,
}

impl TextReader {
    /// Opens a text; `Ok(None)` when it holds no event in any known spelling.
    pub(crate) fn open(input: Input) -> Result<Option<Self>, TraceError> {
        Self::open_at(input, 0)
    }

    /// Opens the text that begins at `offset`, as in a trace.dat of a latency tracer.
    pub(crate) fn open_at(input: Input, offset: u64) -> Result<Option<Self>, TraceError> {
        let mut info = TraceInfo::new("ftrace text", Clock::Nanoseconds("unknown".into()));
        info.kinds = KindSet::ALL;
        let mut reader = Self {
            input,
            offset,
            window: Vec::new(),
            at: 0,
            info,
            met: CpuSet::new(),
            warnings: Vec::new(),
            names: Names::default(),
            others: BTreeMap::new(),
            marks: BTreeMap::new(),
            story: None,
            counted: BTreeSet::new(),
            last: 0,
            raised: 0,
            puzzling: 0,
            strange: 0,
            ended: false,
            arguments: Vec::new(),
            first: Vec::new(),
        };
        let mut first = Vec::new();
        reader.story = reader.top().map_err(|error| TraceError::io(reader.input.path(), error))?;
        let more = reader.fill(&mut first);
        let more = more.map_err(|error| TraceError::io(reader.input.path(), error))?;
        reader.first = first;
        Ok(more.then_some(reader))
    }

    /// The top buffer, when it tells of the scheduler in the first window.
    fn top(&self) -> io::Result<Option<String>> {
        let mut window = vec![0; WINDOW];
        let count = self.input.read_at(self.offset, &mut window)?;
        let text = String::from_utf8_lossy(&window[..count]);
        let sched = |said: Said<'_>| match said {
            Said::Event(line) => {
                line.buffer.is_empty() && arguments::what(line.event, line.arguments).is_some()
            }
            _ => false,
        };
        Ok(text.lines().filter_map(parse).any(sched).then(String::new))
    }

    /// Whether a scheduler event of this buffer is reported: those of one buffer are, or all would happen twice.
    fn tells(&mut self, buffer: &str) -> bool {
        if self.story.as_deref() == Some(buffer) {
            return true;
        }
        if self.story.is_none() {
            self.story = Some(buffer.to_owned());
            return true;
        }
        if self.counted.len() < NAMES_MAX && !self.counted.contains(buffer) {
            self.counted.insert(buffer.to_owned());
        }
        false
    }

    /// Replaces `batch` by the events of the next lines; `false` at the end.
    fn fill(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        batch.clear();
        self.arguments.clear();
        let mut lines = 0;
        while lines < LINES || batch.is_empty() {
            let Some(end) = self.line()? else { break };
            let bytes = self.window[self.at..end].to_vec();
            self.at = (end + 1).min(self.window.len());
            lines += 1;
            let text = String::from_utf8_lossy(&bytes);
            match parse(&text) {
                Some(Said::Event(line)) => self.event(&line, batch),
                Some(Said::Lost { cpu, count }) => {
                    let (time, by, cpu) = (Nanos(self.last), Pid::IDLE, Cpu(cpu));
                    let what = What::Lost { count: NonZeroU32::new(count) };
                    batch.push(Event { time, by, cpu, context: Context::Task, what });
                }
                Some(Said::Cpus(count)) => self.info.cpus = CpuSet::first(count.into()),
                Some(Said::Puzzle) => self.strange += 1,
                None => {}
            }
        }
        // A loss is reported before the events that follow it, whose time is not known yet.
        let mut next = None;
        for event in batch.iter_mut().rev() {
            match (event.what, next) {
                (What::Lost { .. }, Some(time)) => event.time = time,
                _ => next = Some(event.time),
            }
        }
        let (last, raised) = ascend(batch, self.last);
        self.last = last;
        self.raised += raised;
        Ok(!batch.is_empty())
    }

    /// The end of the next line in the window; `None` at the end of the text.
    fn line(&mut self) -> io::Result<Option<usize>> {
        loop {
            let rest = &self.window[self.at..];
            if let Some(length) = rest.iter().position(|&byte| byte == b'\n') {
                return Ok(Some(self.at + length));
            }
            if self.ended {
                return Ok((!rest.is_empty()).then_some(self.window.len()));
            }
            // A line without an end is dropped, so that the window stays what it is.
            let keep = if rest.len() > WINDOW { 0 } else { rest.len() };
            self.window.drain(..self.window.len() - keep);
            self.at = 0;
            self.window.resize(keep + WINDOW, 0);
            let count = self.input.read_at(self.offset, &mut self.window[keep..])?;
            self.window.truncate(keep + count);
            self.offset += count as u64;
            self.ended = count == 0;
        }
    }

    fn event(&mut self, line: &Line<'_>, batch: &mut Vec<Event>) {
        let cpu = Cpu(line.cpu);
        self.met.insert(cpu);
        let by = Pid(line.pid);
        if line.raw && self.last == 0 && batch.is_empty() {
            self.info.clock = Clock::Ticks("unknown".into());
        }
        let told = arguments::what(line.event, line.arguments);
        let told = told.filter(|_| self.tells(line.buffer));
        let mut emit = |what| {
            let (time, context) = (Nanos(line.time), line.context);
            batch.push(Event { time, by, cpu, context, what });
        };
        if let Some((what, named)) = told {
            for (pid, comm) in named.into_iter().flatten() {
                let comm = names::comm(comm.as_bytes());
                if self.names.changed(pid, &comm) {
                    emit(What::Comm { pid, comm });
                }
            }
            return emit(what);
        }
        if line.event == crate::mark::NAME
            && line.buffer.is_empty()
            && let Some((phase, name, pid, request)) = arguments::mark(line.arguments)
        {
            let next = self.info.marks.len();
            if let Some(id) = number(&mut self.marks, name, next) {
                if self.info.marks.len() == next && id as usize == next {
                    self.info.marks.push(name.to_owned());
                }
                return emit(What::Mark { pid, id, phase, request });
            }
        }
        let story = self.story.as_deref().unwrap_or_default();
        if arguments::is_ours(line.event) && line.buffer == story {
            self.puzzling += 1;
        }
        let key = (line.system.to_owned(), line.event.to_owned());
        let format = match self.others.get(&key) {
            Some(format) => *format,
            None => {
                let index = self.info.others.len().min(NAMES_MAX);
                let format = u16::try_from(index).expect("bounded");
                if index < NAMES_MAX {
                    let (system, name) = key.clone();
                    self.info.others.push(OtherFormat { system, name });
                    self.others.insert(key, format);
                }
                format
            }
        };
        emit(What::Other { format });
        self.arguments.push((batch.len() - 1, line.arguments.to_owned()));
    }

    fn report(&mut self) {
        for cpu in self.met.iter() {
            self.info.cpus.insert(cpu);
        }
        let path = self.input.path().display();
        let raised = std::mem::take(&mut self.raised);
        if raised > 0 {
            let what = format!("{path}: {raised} events are earlier than the event before them");
            let remedy = "each of them got the time of the event before it";
            self.warnings.push(Warning::new("time-goes-back", what, remedy));
        }
        let strange = std::mem::take(&mut self.strange);
        if strange > 0 {
            let what =
                format!("{path}: {strange} lines look like events, but have unknown columns");
            let remedy = "schedlab skips them: print the text with the default columns of its tool";
            self.warnings.push(Warning::new("text-not-understood", what, remedy));
        }
        if !self.counted.is_empty() {
            let counted = std::mem::take(&mut self.counted);
            let used = self.story.as_deref().unwrap_or_default();
            self.warnings.push(crate::buffers::several(used, counted.iter().map(String::as_str)));
        }
        let puzzling = std::mem::take(&mut self.puzzling);
        if puzzling > 0 {
            let what = format!("{path}: {puzzling} scheduler events have unknown arguments");
            let remedy = "schedlab only counts them: convert from the binary trace";
            self.warnings.push(Warning::new("text-not-understood", what, remedy));
        }
    }
}

/// The number of `name`, a new one where it has none; `None` when there are too many.
fn number(known: &mut BTreeMap<String, u32>, name: &str, next: usize) -> Option<u32> {
    if let Some(id) = known.get(name) {
        return Some(*id);
    }
    let id = u32::try_from(next).ok().filter(|_| next < NAMES_MAX)?;
    known.insert(name.to_owned(), id);
    Some(id)
}

impl EventSource for TextReader {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        if !self.first.is_empty() {
            batch.clear();
            std::mem::swap(batch, &mut self.first);
            return Ok(true);
        }
        let more = self.fill(batch)?;
        if !more {
            self.report();
        }
        Ok(more)
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        let found = self.arguments.binary_search_by_key(&index, |(at, _)| *at).ok()?;
        Some(self.arguments[found].1.as_str().into())
    }
}
