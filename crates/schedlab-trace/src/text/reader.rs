//! Events of a text, line by line, with bounded memory.

use super::arguments;
use super::line::{Line, Said, missing_column, parse, tells_of_sched};
use crate::budget::Budget;
use crate::buffers::several;
use crate::error::TraceError;
use crate::input::Input;
use crate::merge::ascend;
use crate::names::{self, Names};
use schedlab_model::{
    Clock, Context, Cpu, CpuSet, Event, EventSource, KindSet, Nanos, OtherFormat, Phase, Pid,
    TraceInfo, Unit, Warning, What,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroU32;

/// Bytes read at once; a longer line is no line of a trace.
const WINDOW: usize = 1 << 18;
/// Lines taken for one batch.
const LINES: usize = 1024;
/// Bytes of arguments after which a batch ends.
const ARGUMENTS: usize = 8 << 20;
/// Bytes that a name takes in the trace's info and among those that lines are compared with.
const OF_NAME: u64 = 2;
/// Bytes that a thread takes in the table of processes, or with what it has begun.
const OF_THREAD: u64 = 64 + 4 * OPEN_MAX as u64;
/// Marks that a thread has begun at once, at most.
const OPEN_MAX: usize = 64;
/// Different tracepoints and marks that are distinguished.
const NAMES_MAX: usize = 4096;

/// A text as a source of events.
pub(crate) struct TextReader {
    input: Input,
    /// Where the text begins.
    start: u64,
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
    /// Marks that threads have begun and not ended.
    open: BTreeMap<Pid, Vec<u32>>,
    /// By the name of a scheduler's event: the buffer whose events of that name are reported, once one was met; `""` is
    /// the top one.
    owners: BTreeMap<String, String>,
    /// Whether a line of a further buffer was met.
    has_buffers: bool,
    /// Buffers whose events are reported while further ones hold the same.
    used: BTreeSet<String>,
    /// These further ones.
    counted: BTreeSet<String>,
    last: u64,
    raised: u64,
    /// Lines of the scheduler's events that could not be understood.
    puzzling: u64,
    /// Lines that look like events and are of no known form.
    strange: u64,
    /// Lines of the scheduler's events.
    tally: Tally,
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
            start: offset,
            offset,
            window: Vec::new(),
            at: 0,
            info,
            met: CpuSet::new(),
            warnings: Vec::new(),
            names: Names::default(),
            others: BTreeMap::new(),
            marks: BTreeMap::new(),
            open: BTreeMap::new(),
            owners: BTreeMap::new(),
            has_buffers: false,
            used: BTreeSet::new(),
            counted: BTreeSet::new(),
            last: 0,
            raised: 0,
            puzzling: 0,
            strange: 0,
            tally: Tally::default(),
            ended: false,
            arguments: Vec::new(),
            first: Vec::new(),
        };
        reader.head().map_err(|error| TraceError::io(reader.input.path(), &error))?;
        let mut first = Vec::new();
        let more = reader.fill(&mut first);
        let more = more.map_err(|error| TraceError::io(reader.input.path(), &error))?;
        reader.first = first;
        Ok(more.then_some(reader))
    }

    /// The scheduler's events that the top buffer holds in the first window.
    fn top(&self) -> io::Result<BTreeMap<String, String>> {
        let mut window = vec![0; WINDOW];
        let count = self.input.read_at(self.start, &mut window)?;
        let text = String::from_utf8_lossy(&window[..count]);
        let sched = |said: Said<'_>| match said {
            Said::Event(line) if line.buffer.is_empty() => {
                arguments::what(line.event, line.arguments)
                    .map(|_| (line.event.to_owned(), String::new()))
            }
            _ => None,
        };
        Ok(text.lines().filter_map(parse).filter_map(sched).collect())
    }

    /// Reads what a tracer says of itself in the head.
    fn head(&mut self) -> io::Result<()> {
        let mut window = vec![0; HEAD];
        let count = self.input.read_at(self.offset, &mut window)?;
        let text = String::from_utf8_lossy(&window[..count]);
        self.warnings.extend(latency_found(&text));
        Ok(())
    }

    /// Whether this scheduler's event of this buffer is reported: those of one buffer are, or all would happen twice.
    fn tells(&mut self, event: &str, buffer: &str) -> bool {
        let Some(owner) = self.owners.get(event) else {
            self.owners.insert(event.to_owned(), buffer.to_owned());
            return true;
        };
        if owner == buffer {
            return true;
        }
        if self.counted.len() < NAMES_MAX
            && !self.counted.contains(buffer)
            && self.input.budget().take(OF_NAME * buffer.len() as u64)
        {
            self.used.insert(owner.clone());
            self.counted.insert(buffer.to_owned());
        }
        false
    }

    /// Replaces `batch` by the events of the next lines; `false` at the end.
    fn fill(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        batch.clear();
        self.arguments.clear();
        let mut lines = 0;
        let mut arguments = 0;
        while (lines < LINES && arguments < ARGUMENTS) || batch.is_empty() {
            let Some(end) = self.line()? else { break };
            lines += 1;
            arguments += end - self.at;
            let window = std::mem::take(&mut self.window);
            self.read_line(&String::from_utf8_lossy(&window[self.at..end]), batch)?;
            self.window = window;
            self.at = (end + 1).min(self.window.len());
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

    fn read_line(&mut self, text: &str, batch: &mut Vec<Event>) -> io::Result<()> {
        let said = parse(text);
        self.info.coverage.left_out += u64::from(self.tally.leaves_out(text, said.as_ref()));
        match said {
            Some(Said::Event(line)) => {
                if !line.buffer.is_empty() && !self.has_buffers {
                    self.has_buffers = true;
                    let top = self.top()?;
                    self.owners.extend(top);
                }
                self.event(&line, batch);
            }
            Some(Said::Lost { cpu, count }) => {
                let time = Nanos(self.last);
                let by = Pid::IDLE;
                let cpu = Cpu(cpu);
                let what = What::Lost { count: NonZeroU32::new(count) };
                batch.push(Event { time, by, cpu, context: Context::Task, what });
            }
            Some(Said::Cpus(count)) => self.info.cpus = CpuSet::first(count.into()),
            Some(Said::Puzzle) => self.strange += 1,
            None => {}
        }
        Ok(())
    }

    /// The end of the next line in the window; `None` at the end of the text.
    fn line(&mut self) -> io::Result<Option<usize>> {
        loop {
            let rest = &self.window[self.at..];
            if let Some(length) = memchr::memchr(b'\n', rest) {
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
        let mut by = Pid(line.pid);
        if line.raw && self.last == 0 && batch.is_empty() {
            self.info.clock = Clock::Ticks("unknown".into());
        }
        if let Some(process) = line.process.filter(|process| *process != line.pid && line.pid > 0) {
            let known = self.info.processes.get_or_insert_default();
            if known.contains_key(&by) || self.input.budget().take(OF_THREAD) {
                known.insert(by, Pid(process));
            }
        }
        let told = arguments::what(line.event, line.arguments);
        let told = told.filter(|_| self.tells(line.event, line.buffer));
        // perf does not know the number of a task that ended; its last events name it.
        if by.0 < 0 {
            by = match told {
                Some((What::Switch { prev, .. }, _)) => prev,
                _ => arguments::current(line.event, line.arguments).unwrap_or(by),
            };
        }
        let mut emit = |what| {
            let time = Nanos(line.time);
            let context = line.context;
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
            && let Some(id) = self.mark(name)
        {
            let time = Nanos(line.time);
            let context = line.context;
            let what = What::Mark { pid, id, phase, request };
            return batch.push(Event { time, by, cpu, context, what });
        }
        if matches!(line.event, "tracing_mark_write" | "print")
            && let Some(what) = self.written(by, line.arguments)
        {
            let time = Nanos(line.time);
            let context = line.context;
            return batch.push(Event { time, by, cpu, context, what });
        }
        let owner = self.owners.get(line.event).map_or("", String::as_str);
        if arguments::is_ours(line.event) && line.buffer == owner {
            self.puzzling += 1;
            self.info.coverage.left_out += 1;
        }
        let key = (line.system.to_owned(), line.event.to_owned());
        let format = match self.others.get(&key) {
            Some(format) => *format,
            None => {
                let index = self.info.others.len();
                let length = OF_NAME * (line.system.len() + line.event.len()) as u64;
                let is_kept = index < NAMES_MAX && self.input.budget().take(length);
                let index = if is_kept { index } else { NAMES_MAX };
                let format = u16::try_from(index).expect("bounded");
                if is_kept {
                    let (system, name) = key.clone();
                    self.info.others.push(OtherFormat { system, name });
                    self.others.insert(key, format);
                }
                format
            }
        };
        if line.event == "cpuhp_enter"
            && let Some((cpu, online)) = arguments::hotplug(line.arguments)
        {
            emit(What::Online { cpu, online });
        }
        emit(What::Other { format });
        self.arguments.push((batch.len() - 1, line.arguments.to_owned()));
    }

    /// The number of a mark's name.
    fn mark(&mut self, name: &str) -> Option<u32> {
        let next = self.info.marks.len();
        let id = number(&mut self.marks, name, next, self.input.budget())?;
        if self.info.marks.len() == next && id as usize == next {
            self.info.marks.push(name.to_owned());
        }
        Some(id)
    }

    /// The mark that a thread wrote into `trace_marker`. An end without a name ends what the thread began last.
    fn written(&mut self, by: Pid, text: &str) -> Option<What> {
        // ftrace prints the function that wrote it first.
        let text = text.rsplit_once(": ").map_or(text, |(_, text)| text);
        let (phase, name, request) = arguments::written_mark(text)?;
        let open = self.open.get_mut(&by);
        let id = match (phase, name) {
            (Phase::End, "") => open.and_then(Vec::pop)?,
            (_, name) => self.mark(name)?,
        };
        if phase == Phase::Begin && request == 0 {
            let is_known = self.open.contains_key(&by);
            if is_known || self.input.budget().take(OF_THREAD) {
                let begun = self.open.entry(by).or_default();
                if begun.len() < OPEN_MAX {
                    begun.push(id);
                }
            }
        }
        Some(What::Mark { pid: by, id, phase, request })
    }

    fn report(&mut self) {
        for cpu in self.met.iter() {
            self.info.cpus.insert(cpu);
        }
        self.warnings.extend(self.input.budget().warning(self.input.path()));
        let path = self.input.path().display();
        let raised = std::mem::take(&mut self.raised);
        if raised > 0 {
            let what = format!("{path}: {raised} events are earlier than the event before them");
            let remedy = "each of them got the time of the event before it";
            self.warnings.push(Warning::new("time-goes-back", what, remedy));
        }
        let Tally { spelled, unread, lacks } = std::mem::take(&mut self.tally);
        if unread > 0 {
            let share = schedlab_model::readable(unread as f64 / spelled as f64, Unit::Fraction);
            let what = format!(
                "{path}: {unread} of {spelled} lines with scheduler events ({share}) are not understood: \
                 figures are bounds or unknown"
            );
            let remedy = lacks.map_or_else(String::new, |(what, option)| remedy(what, option));
            self.warnings.push(Warning::new("text-not-understood", what, remedy));
            self.strange = 0;
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
            let used = self.used.iter().map(String::as_str);
            self.warnings.push(several(used, counted.iter().map(String::as_str)));
        }
        let puzzling = std::mem::take(&mut self.puzzling);
        if puzzling > 0 {
            let what = format!("{path}: {puzzling} scheduler events have unknown arguments");
            let remedy = "schedlab only counts them: convert from the binary trace";
            self.warnings.push(Warning::new("text-not-understood", what, remedy));
        }
    }
}

/// The head of a text lies within this many bytes.
const HEAD: usize = 4096;

/// What to do about a column that is missing.
fn remedy(what: &str, option: &str) -> String {
    format!("the lines name no {what}: print the text with `perf script -F +{option}`")
}

/// Lines of the scheduler's events, those among them that gave none, and what the first of those lacks.
#[derive(Default)]
struct Tally {
    spelled: u64,
    unread: u64,
    lacks: Option<(&'static str, &'static str)>,
}

impl Tally {
    /// Counts a line of which this was understood; whether it spells an event of the scheduler and gave none.
    fn leaves_out(&mut self, text: &str, said: Option<&Said<'_>>) -> bool {
        if let Some(Said::Event(line)) = said {
            self.spelled += u64::from(line.event.starts_with("sched_"));
            return false;
        }
        if !tells_of_sched(text) {
            return false;
        }
        self.spelled += 1;
        self.unread += 1;
        self.lacks = self.lacks.or_else(|| missing_column(text));
        true
    }
}

/// Why a text cannot be read as a trace, if most lines of the scheduler's events in its first part give none, or none are
/// there.
pub(crate) fn refusal(start: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(start);
    let mut tally = Tally::default();
    // The first line that is no event, and whether any line says anything or is an event.
    let mut strange = None;
    let mut says = false;
    let mut has_event = false;
    for line in text.lines() {
        let said = parse(line);
        let is_event = matches!(said, Some(Said::Event(_)));
        says |= said.is_some();
        has_event |= is_event;
        if !is_event && !line.starts_with('#') && !line.trim().is_empty() {
            strange = strange.or(Some(line));
        }
        tally.leaves_out(line, said.as_ref());
    }
    let Tally { spelled, unread, lacks } = tally;
    if unread * 2 > spelled {
        let default = || "its lines have columns that schedlab does not know".to_owned();
        return Some(lacks.map_or_else(default, |(what, option)| remedy(what, option)));
    }
    let is_ftrace = text.trim_start_matches('\u{feff}').starts_with("# tracer:");
    let Some(line) = strange else {
        let empty = is_ftrace && !says;
        return empty.then(|| "the buffer was empty: it holds no events".to_owned());
    };
    let words: Vec<&str> = line.split_whitespace().collect();
    let is =
        |of: fn(&u8) -> bool| words.iter().take(3).all(|word| word.bytes().all(|byte| of(&byte)));
    let form = match words[..] {
        [_, _, _, "type:", _] if is(u8::is_ascii_digit) => "raw",
        [pid, cpu, time, ..]
            if is(u8::is_ascii_hexdigit) && [pid.len(), cpu.len(), time.len()] == [8, 8, 16] =>
        {
            "hex"
        }
        _ => return None,
    };
    let remedy = format!(
        "it was printed with ftrace's option `{form}`: `echo no{form} > trace_options`, then read \
         the buffer again"
    );
    (!has_event).then_some(remedy)
}

/// What a latency tracer found: `# latency: 1689 us, ... CPU#0 | ...` and `#    | task: cyclictest-100 (...`.
fn latency_found(head: &str) -> Option<Warning> {
    let tracer = head.lines().find_map(|line| line.strip_prefix("# tracer: "))?.trim();
    let of = head.lines().find_map(|line| line.strip_prefix("# latency: "))?;
    let (latency, rest) = of.split_once(',')?;
    let cpu = rest.split_once("CPU#").map_or("", |parts| parts.1);
    let cpu: String = cpu.chars().take_while(char::is_ascii_digit).collect();
    let task = head.lines().find_map(|line| line.split_once("| task: "))?.1;
    let task = task.split_once(" (").map_or(task, |parts| parts.0);
    let what = format!("the tracer {tracer} found a latency of {latency} of {task} on CPU {cpu}");
    Some(Warning::new("latency-tracer", what, "the text holds the events of this latency only"))
}

/// The number of `name`, a new one where it has none; `None` when there are too many.
fn number(
    known: &mut BTreeMap<String, u32>,
    name: &str,
    next: usize,
    budget: &Budget,
) -> Option<u32> {
    if let Some(id) = known.get(name) {
        return Some(*id);
    }
    let id = u32::try_from(next).ok().filter(|_| next < NAMES_MAX)?;
    budget.take(OF_NAME * name.len() as u64).then_some(())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn opened(text: &str) -> TextReader {
        let input = Input::memory(Path::new("x"), text.as_bytes().to_vec());
        TextReader::open(input).unwrap().expect("it holds events")
    }

    /// All events but names, and the reader at its end.
    fn read(text: &str) -> (Vec<Event>, TextReader) {
        let mut reader = opened(text);
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while reader.next(&mut batch).unwrap() {
            all.extend(batch.iter().filter(|event| !matches!(event.what, What::Comm { .. })));
        }
        (all, reader)
    }

    fn warnings(text: &str) -> Vec<String> {
        read(text).1.warnings().iter().map(|warning| warning.what.clone()).collect()
    }

    fn waking(buffer: &str, time: u32, pid: u32) -> String {
        format!(
            "{buffer} a-1 [000] 1.{time:06}: sched_waking: comm=b pid={pid} prio=120 target_cpu=000\n"
        )
    }

    #[test]
    fn of_several_buffers_the_top_one_tells_the_story() {
        // It comes later than the other, which has the same events.
        let text = waking("one:", 1, 7) + &waking("one:", 2, 7) + &waking("", 3, 8);
        let (events, reader) = read(&text);
        let whats: Vec<What> = events.iter().map(|event| event.what).collect();
        let other = What::Other { format: 0 };
        assert_eq!(whats[..2], [other, other]);
        assert!(matches!(whats[2], What::Waking { pid: Pid(8), .. }), "{whats:?}");
        let said: Vec<&str> = reader.warnings().iter().map(|w| w.what.as_str()).collect();
        assert_eq!(said.len(), 1);
        assert!(
            said[0].contains("of the top buffer are used; the same ones of buffer 'one'"),
            "{said:?}"
        );
    }

    #[test]
    fn without_a_top_buffer_the_first_one_tells_the_story() {
        let text = waking("one:", 1, 7) + &waking("two:", 2, 8) + &waking("one:", 3, 9);
        let (events, reader) = read(&text);
        let is_told = |event: &Event| matches!(event.what, What::Waking { .. });
        assert_eq!(events.iter().map(is_told).collect::<Vec<_>>(), [true, false, true]);
        let what = &reader.warnings()[0].what;
        assert!(what.contains("of buffer 'one' are used; the same ones of buffer 'two'"), "{what}");
    }

    #[test]
    fn what_one_buffer_lacks_another_one_tells() {
        let wakeup = |buffer: &str, time: u32| {
            waking(buffer, time, 7).replace("sched_waking", "sched_wakeup")
        };
        let text = waking("", 1, 7) + &wakeup("one:", 2) + &waking("", 3, 8) + &wakeup("one:", 4);
        let (events, reader) = read(&text);
        let is_wakeup = |event: &Event| matches!(event.what, What::Wakeup { .. });
        assert_eq!(events.iter().map(is_wakeup).collect::<Vec<_>>(), [false, true, false, true]);
        assert!(reader.warnings().is_empty(), "{:?}", reader.warnings());
    }

    #[test]
    fn lines_that_cannot_be_understood_are_counted() {
        let text = waking("", 1, 7);
        assert!(warnings(&text).is_empty());
        let columns = " a-1 [000] yesterday: sched_waking: comm=b\n";
        let both = text.clone() + columns + " a-1 [000] 1.5: sched_waking: nonsense\n";
        assert_eq!(
            warnings(&both),
            [
                "x: 1 of 3 lines with scheduler events (33.3 %) are not understood: figures are bounds or \
                 unknown",
                "x: 1 scheduler events have unknown arguments",
            ]
        );
        let further = text + "one: a-1 [000] 1.5: sched_waking: nonsense\n";
        assert!(warnings(&further).is_empty(), "those of another buffer are not the story");
    }

    #[test]
    fn a_time_that_goes_back_is_raised_and_told() {
        let (events, reader) = read(&(waking("", 5, 7) + &waking("", 3, 7) + &waking("", 6, 7)));
        let times: Vec<u64> = events.iter().map(|event| event.time.0 % 1_000_000).collect();
        assert_eq!(times, [5_000, 5_000, 6_000]);
        assert_eq!(reader.warnings()[0].what, "x: 1 events are earlier than the event before them");
    }

    #[test]
    fn cpus_are_those_that_the_text_names_and_those_that_are_met() {
        let line = |cpu: u32| format!(" a-1 [{cpu:03}] 1.5: irq: x\n");
        let cpus = |text: &str| read(text).1.info().cpus.to_string();
        assert_eq!(cpus(&(line(0) + &line(5))), "0,5");
        assert_eq!(cpus(&("cpus=4\n".to_owned() + &line(5))), "0-3,5");
        assert_eq!(opened(&("cpus=4\n".to_owned() + &line(1))).info().cpus.to_string(), "0-3");
    }

    #[test]
    fn times_without_a_point_are_ticks_if_the_first_one_is() {
        let line = |time| format!(" a-1 [000] {time}: irq: x\n");
        let clock = |text: String| opened(&text).info().clock.clone();
        assert_eq!(clock(line("123456")), Clock::Ticks("unknown".into()));
        let named = Clock::Nanoseconds("unknown".into());
        assert_eq!(clock(line("1.5")), named);
        assert_eq!(clock(line("1.5") + &line("2000000000")), named);
    }

    #[test]
    fn a_loss_has_the_time_of_what_follows_or_of_what_was_last() {
        let lost = "CPU:1 [7 EVENTS DROPPED]\n";
        let (events, _) =
            read(&(lost.to_owned() + &waking("", 5, 7) + lost + &waking("", 9, 7) + lost));
        let is_lost = |event: &&Event| matches!(event.what, What::Lost { .. });
        let times: Vec<(u64, u16)> =
            events.iter().filter(is_lost).map(|e| (e.time.0 - 1_000_000_000, e.cpu.0)).collect();
        assert_eq!(times, [(5_000, 1), (9_000, 1), (9_000, 1)]);
    }

    #[test]
    fn marks_and_tracepoints_have_numbers_by_their_names() {
        let line = |rest: &str| format!(" a-1 [000] 1.5: {rest}\n");
        let marks = line("mark: begin load pid=1") + &line("mark: end load pid=1 request=3");
        let others = line("irq:x: a=1") + &line("block:x: b=2") + &line("irq:x: a=3");
        let (events, reader) = read(&(marks + &line("mark: point warm up pid=1") + &others));
        let whats: Vec<What> = events.iter().map(|event| event.what).collect();
        let mark = |id, phase, request| What::Mark { pid: Pid(1), id, phase, request };
        use schedlab_model::Phase::{Begin, End, Point};
        assert_eq!(whats[..3], [mark(0, Begin, 0), mark(0, End, 3), mark(1, Point, 0)]);
        assert_eq!(whats[3..], [0, 1, 0].map(|format| What::Other { format }));
        assert_eq!(reader.info().marks, ["load", "warm up"]);
        let names: Vec<_> = reader.info().others.iter().map(|other| &*other.system).collect();
        assert_eq!(names, ["irq", "block"]);
    }

    #[test]
    fn other_tracepoints_keep_their_arguments_by_their_place_in_the_batch() {
        let text = waking("", 1, 7) + " a-1 [000] 1.5: irq: a=1 b=2\n a-1 [000] 1.6: irq:\n";
        let mut reader = opened(&text);
        let mut batch = Vec::new();
        assert!(reader.next(&mut batch).unwrap());
        // A name, the wakeup, and both others.
        let told: Vec<_> = (0..batch.len()).map(|index| reader.arguments(index)).collect();
        let told: Vec<_> = told.iter().map(Option::as_deref).collect();
        assert_eq!(told, [None, None, Some("a=1 b=2"), Some("")]);
    }

    #[test]
    fn a_line_that_does_not_end_is_dropped_and_the_last_one_needs_no_end() {
        let long = "x".repeat(3 * WINDOW);
        let (events, _) = read(&(waking("", 1, 7) + &long + "\n" + waking("", 2, 7).trim_end()));
        assert_eq!(events.len(), 2);
    }

    #[test]
    fn names_beyond_a_limit_have_no_number() {
        let (mut known, budget) = (BTreeMap::new(), Budget::new(0));
        assert_eq!(number(&mut known, "last", NAMES_MAX - 1, &budget), Some(NAMES_MAX as u32 - 1));
        assert_eq!(number(&mut known, "more", NAMES_MAX, &budget), None);
        assert_eq!(number(&mut known, "last", NAMES_MAX, &budget), Some(NAMES_MAX as u32 - 1));
    }
}
