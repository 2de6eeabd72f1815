//! What programs write into `trace_marker`, as marks of the trace.
//!
//! An ftrace instance of our own gets a copy of each text (`copy_trace_marker`, Linux 6.16), so nobody else's buffer is
//! read. A thread puts the texts as marks into the spool, where the watch over requests finds them while the recording
//! goes on. What the texts mean is written at [`Said`].

use super::error::{RecordError, tracefs_right, tracefs_write_right};
use super::ftrace::{free_name, read_pages};
use super::mark_file::{self, Marks};
use super::shared::{Shared, be_prompt, spawn};
use super::spool;
use super::tracepoints::Tracepoint;
use schedlab_model::{Cpu, CpuSet, Nanos, Phase, Pid};
use schedlab_sys::guard::{Guard, Undo};
use schedlab_sys::{clock, process, tracefs, tracefs::Tracefs};
use schedlab_trace::live::{Piece, walk_page};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// How often the buffer is looked at.
const LOOK: Nanos = Nanos::from_millis(10);
/// Bytes of each CPU's buffer: some thousand texts between two looks.
const BUFFER_KIB: usize = 512;
/// Different texts beyond these are one mark, [`OTHER`].
const NAMES_MAX: usize = 1_000;
const OTHER: &str = "other texts";
/// Letters of a name.
const LETTERS_MAX: usize = 64;
/// Begins that a task has open at once.
const DEPTH_MAX: usize = 64;

/// Listens until the recording stops.
pub(crate) fn listen(
    cpus: &CpuSet,
    dir: &Path,
    shared: &Arc<Shared>,
) -> Result<JoinHandle<io::Result<()>>, RecordError> {
    let tracefs = Tracefs::open().map_err(|error| tracefs_right(&error))?;
    tracefs.writable().map_err(|error| tracefs_write_right(&error))?;
    let print = u64::from(Tracepoint::of_ftrace(&tracefs, "print")?.id);
    let instances = tracefs.root().join("instances");
    let name = free_name(&instances, "-marks");
    let root = instances.join(&name);
    let mut guard = Guard::arm().map_err(RecordError::io("starting the guardian"))?;
    let noted = guard.before(Undo::RemoveInstance { name });
    noted.map_err(RecordError::io("writing the guard's journal"))?;
    std::fs::create_dir(&root).map_err(|error| tracefs_write_right(&error))?;
    set_up(&root)?;
    let page = tracefs::sub_buffer_bytes(&root).unwrap_or_else(process::page_size);
    let open = |cpu: Cpu| {
        let path = root.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        Ok((cpu, tracefs::open_pipe(&path).map_err(RecordError::file(&path))?))
    };
    let pipes = cpus.iter().map(open).collect::<Result<Vec<_>, RecordError>>()?;
    let mut listener = Listener::new(&spool::written_marks(dir)).map_err(RecordError::file(dir))?;
    shared.heard_until.store(0, Ordering::Release);
    let shared = Arc::clone(shared);
    spawn("marks", move || {
        // The mount, and the instance in it, last as long as the thread.
        let _tracefs = tracefs;
        let _guard = guard;
        let mut pipes = pipes;
        be_prompt();
        loop {
            let last = shared.stop.load(Ordering::Acquire);
            let now = clock::monotonic();
            for (cpu, pipe) in &mut pipes {
                listener.look(*cpu, pipe, page, print)?;
            }
            shared.heard_until.store(now.0, Ordering::Release);
            if last {
                return Ok(());
            }
            std::thread::park_timeout(LOOK.as_duration());
        }
    })
}

/// Has the instance get what is written into the `trace_marker` of the top.
fn set_up(root: &Path) -> Result<(), RecordError> {
    let write = |file: &str, text: &str| {
        let path = root.join(file);
        schedlab_sys::kernel_file::write(&path, text).map_err(RecordError::file(&path))
    };
    if !root.join("options/copy_trace_marker").exists() {
        return Err(RecordError::Unsupported {
            what: "--trace-marker".into(),
            why: "this kernel has no option copy_trace_marker: that takes Linux 6.16 or later"
                .into(),
        });
    }
    write("trace_clock", "mono")?;
    write("buffer_size_kb", &BUFFER_KIB.to_string())?;
    write("options/copy_trace_marker", "1")?;
    write("tracing_on", "1")
}

/// Turns texts into marks.
struct Listener {
    marks: Marks,
    names: File,
    numbers: BTreeMap<String, u32>,
    /// What each task has begun, and not ended.
    begun: BTreeMap<Pid, Vec<u32>>,
    buffer: Vec<u8>,
}

impl Listener {
    fn new(marks: &Path) -> io::Result<Self> {
        Ok(Self {
            marks: Marks::append(marks)?,
            // Plain: the spool is private.
            names: File::create(mark_file::names(marks))?,
            numbers: BTreeMap::new(),
            begun: BTreeMap::new(),
            buffer: Vec::new(),
        })
    }

    fn look(&mut self, cpu: Cpu, pipe: &mut File, page: usize, print: u64) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(page, 0);
        while read_pages(pipe, &mut buffer, page)? > 0 {
            let mut heard = Ok(());
            // A page that makes no sense further in tells what it tells.
            let _ = walk_page(&buffer, &mut |piece| {
                if let (Piece::Record(time, body), Ok(())) = (piece, &heard) {
                    heard = self.record(time, cpu, body, print);
                }
            });
            heard?;
        }
        self.buffer = buffer;
        Ok(())
    }

    /// A record of ftrace's `print`: the common fields, an address, the text.
    fn record(&mut self, time: Nanos, cpu: Cpu, body: &[u8], print: u64) -> io::Result<()> {
        let id = body.first_chunk().map(|id| u64::from(u16::from_ne_bytes(*id)));
        let pid = body.get(4..).and_then(|rest| rest.first_chunk());
        let text = body.get(8 + size_of::<usize>()..);
        let (true, Some(pid), Some(text)) = (id == Some(print), pid, text) else { return Ok(()) };
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        self.hear(time, cpu, Pid(i32::from_ne_bytes(*pid)), &String::from_utf8_lossy(text))
    }

    fn hear(&mut self, time: Nanos, cpu: Cpu, pid: Pid, text: &str) -> io::Result<()> {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let said = Said::parse(line);
            let open = self.begun.entry(pid).or_default();
            let id = match (said.name, said.phase) {
                (None, _) => match open.pop() {
                    Some(id) => id,
                    // Its begin was before the recording.
                    None => continue,
                },
                (Some(name), phase) => {
                    let id = self.number(name)?;
                    let open = self.begun.entry(pid).or_default();
                    if phase == Phase::Begin && said.request == 0 && open.len() < DEPTH_MAX {
                        open.push(id);
                    }
                    id
                }
            };
            self.marks.put_on(cpu, time, pid, id, said.phase, said.request);
        }
        Ok(())
    }

    /// The number of a name. The name is in its file before a mark has the number.
    fn number(&mut self, name: &str) -> io::Result<u32> {
        let full = self.numbers.len() >= NAMES_MAX && !self.numbers.contains_key(name);
        let name = if full { OTHER } else { name };
        let clean = |letter: char| if letter.is_control() { ' ' } else { letter };
        let name: String = name.chars().take(LETTERS_MAX).map(clean).collect();
        if let Some(number) = self.numbers.get(&name) {
            return Ok(*number);
        }
        let number = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        writeln!(self.names, "{name}")?;
        self.numbers.insert(name, number);
        Ok(number)
    }
}

/// What a line says.
///
/// - `B|PID|NAME` begins and `E|PID` ends what the same task began last, `S|PID|NAME|COOKIE` begins and
///   `F|PID|NAME|COOKIE` ends with a number, `I|PID|NAME` happens: Android's convention, which Perfetto shares.
/// - `begin NAME [NUMBER]` and `end NAME [NUMBER]`.
/// - Any other text happens, and is its own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said<'a> {
    /// `None` ends what the task began last.
    name: Option<&'a str>,
    phase: Phase,
    /// The number of the request; 0 if there is none.
    request: u32,
}

impl<'a> Said<'a> {
    fn parse(line: &'a str) -> Self {
        let line = line.trim();
        let parts: Vec<&str> = line.splitn(4, '|').collect();
        let number = |text: &str| text.parse::<u64>().ok().map(request);
        let said = |name, phase, request| Self { name: Some(name), phase, request };
        match parts[..] {
            ["E", ..] if parts.len() <= 3 => Self { name: None, phase: Phase::End, request: 0 },
            ["B", _, name, ..] => said(name, Phase::Begin, 0),
            ["I", _, name, ..] => said(name, Phase::Point, 0),
            ["S", _, name, cookie] => said(name, Phase::Begin, number(cookie).unwrap_or(0)),
            ["F", _, name, cookie] => said(name, Phase::End, number(cookie).unwrap_or(0)),
            _ => {
                let words: Vec<&str> = line.split_whitespace().collect();
                match words[..] {
                    ["begin", name] => said(name, Phase::Begin, 0),
                    ["end", name] => said(name, Phase::End, 0),
                    ["begin", name, of] if number(of).is_some() => {
                        said(name, Phase::Begin, number(of).unwrap_or(0))
                    }
                    ["end", name, of] if number(of).is_some() => {
                        said(name, Phase::End, number(of).unwrap_or(0))
                    }
                    _ => said(line, Phase::Point, 0),
                }
            }
        }
    }
}

/// The number of a request by a program's own number, which may be 0 and longer.
const fn request(number: u64) -> u32 {
    let folded = (number ^ (number >> 32)) as u32;
    if folded == 0 { u32::MAX } else { folded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_begins_and_ends_by_androids_convention_and_in_words() {
        let said = |name, phase, request| Said { name, phase, request };
        use Phase::{Begin, End, Point};
        for (line, expected) in [
            ("B|17|frame 3", said(Some("frame 3"), Begin, 0)),
            ("E|17", said(None, End, 0)),
            ("E", said(None, End, 0)),
            ("S|17|load|5\n", said(Some("load"), Begin, 5)),
            ("F|17|load|5", said(Some("load"), End, 5)),
            ("F|17|load|0", said(Some("load"), End, u32::MAX)),
            ("I|17|vsync", said(Some("vsync"), Point, 0)),
            ("begin request 7", said(Some("request"), Begin, 7)),
            ("end request 7", said(Some("request"), End, 7)),
            ("begin request", said(Some("request"), Begin, 0)),
            ("begin to see clearly", said(Some("begin to see clearly"), Point, 0)),
            (
                "hit latency threshold (9 > 5)",
                said(Some("hit latency threshold (9 > 5)"), Point, 0),
            ),
        ] {
            assert_eq!(Said::parse(line), expected, "{line}");
        }
    }

    /// A record of `print` as the kernel writes it.
    fn print(pid: i32, text: &str) -> Vec<u8> {
        let head = [5u16.to_ne_bytes().as_slice(), &[0, 0], &pid.to_ne_bytes()].concat();
        [head, vec![0; size_of::<usize>()], text.as_bytes().to_vec(), vec![b'\n', 0, 9]].concat()
    }

    #[test]
    fn texts_become_marks_and_an_end_without_a_name_ends_what_its_task_began_last() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("heard");
        let mut listener = Listener::new(&path).unwrap();
        let mut write = |us: u64, pid: i32, text: &str| {
            let at = Nanos::from_micros(us);
            listener.record(at, Cpu(3), &print(pid, text), 5).unwrap();
        };
        write(1, 7, "B|7|outer");
        write(2, 8, "B|8|other");
        write(3, 7, "B|7|inner");
        write(4, 7, "E|7");
        write(5, 7, "E|7");
        write(6, 9, "E|9");
        let names = std::fs::read_to_string(mark_file::names(&path)).unwrap();
        assert_eq!(names, "outer\nother\ninner\n");
        let marks = mark_file::read(&path).unwrap();
        let ends: Vec<_> = marks
            .iter()
            .filter(|mark| mark.phase == Phase::End)
            .map(|mark| (mark.time, mark.cpu, mark.pid, mark.id))
            .collect();
        let at = Nanos::from_micros;
        assert_eq!(ends, [(at(4), Cpu(3), Pid(7), 2), (at(5), Cpu(3), Pid(7), 0)]);
        assert_eq!(marks.len(), 5, "an end whose begin nobody saw is left out");
        listener.record(at(9), Cpu(0), &print(7, "B|7|x")[..9], 5).unwrap();
        listener.record(at(9), Cpu(0), &print(7, "B|7|x"), 6).unwrap();
        assert_eq!(mark_file::read(&path).unwrap().len(), 5, "what is cut, and what is no text");
    }

    #[test]
    fn names_are_few_and_short_whatever_programs_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("heard");
        let mut listener = Listener::new(&path).unwrap();
        for number in 0..2 * NAMES_MAX {
            let text = format!("point {number} {}", "long ".repeat(40));
            listener.hear(Nanos(1), Cpu(0), Pid(7), &text).unwrap();
        }
        let names = std::fs::read_to_string(mark_file::names(&path)).unwrap();
        assert_eq!(names.lines().count(), NAMES_MAX + 1);
        assert!(names.lines().all(|name| name.len() <= LETTERS_MAX) && names.contains(OTHER));
        assert_eq!(mark_file::read(&path).unwrap().len(), 2 * NAMES_MAX);
    }
}
