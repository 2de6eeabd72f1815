//! The interactive page: one HTML file that holds the trace as packed columns and the script that
//! draws it. It asks for nothing from outside (its own policy forbids it) and opens from disk.
//!
//! The script is plain modules under `page/`, joined here by leaving out their `import` lines: they
//! run as they stand in the repository. It is no spelling of the scene but a second consumer of the
//! timeline.
//!
//! Layout of the data, after base64 and raw deflate: for each CPU its slices in order of time, each
//! as LEB128 numbers: gap since the slice before, length, task, how it left, wait before it, and,
//! where that is not 0, who woke it. About 3.5 bytes a slice remain on traces of busy machines.

use crate::font::printable;
use crate::rows::colour_of_pid;
use crate::svg::base64;
use flate2::{Compression, write::DeflateEncoder};
use schedlab_model::{Left, Nanos, Span, Topology};
use schedlab_timeline::{Change, ConservationAnswer, Occupant, Question, State, Switch};
use std::fmt::Write as _;
use std::io::Write as _;

/// The question: every slice of a window, packed. Memory grows by about 8 bytes a slice, up to a limit
/// where one is set.
pub struct Columns {
    window: Span,
    cpus: Vec<Track>,
    /// Bytes that may still come; `None` once they did not suffice.
    room: Option<usize>,
}

/// The slices of one CPU.
#[derive(Clone, Debug, Default)]
struct Track {
    bytes: Vec<u8>,
    count: usize,
    end: u64,
    /// How long the task that runs now waited before, and the task that woke it.
    wait: u64,
    waker: u32,
}

/// A place that the page lists and can go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// When, on the trace's clock.
    pub span: Span,
    /// Where.
    pub cpu: u16,
    /// What is said about it.
    pub text: String,
}

/// The violations of work conservation as places, in order of time.
#[must_use]
pub fn notes(found: &ConservationAnswer, state: &State) -> Vec<Note> {
    let mut notes: Vec<Note> = found
        .violations
        .iter()
        .map(|violation| Note {
            span: Span::new(violation.start, violation.end),
            cpu: violation.overloaded.0,
            text: violation.because.sentence(violation.overloaded, state),
        })
        .collect();
    notes.sort_by_key(|note| note.span.start);
    notes
}

/// What a page shows.
#[derive(Clone, Debug)]
pub struct PageData {
    window: Span,
    cpus: Vec<(u16, Track)>,
    /// Pid, name, colour.
    tasks: Vec<(i32, String, String)>,
    whole: bool,
}

impl Columns {
    /// Asks for the slices of a window (on the trace's clock).
    #[must_use]
    pub const fn new(window: Span) -> Self {
        Self { window, cpus: Vec::new(), room: Some(usize::MAX) }
    }

    /// Gives up, and frees what was kept, once the slices take more than so many bytes before
    /// compression; [`PageData::is_whole`] then says so.
    #[must_use]
    pub const fn at_most(mut self, bytes: usize) -> Self {
        self.room = Some(bytes);
        self
    }

    fn track(&mut self, cpu: usize) -> &mut Track {
        if self.cpus.len() <= cpu {
            self.cpus.resize_with(cpu + 1, Track::default);
        }
        &mut self.cpus[cpu]
    }

    fn add(&mut self, cpu: usize, since: Nanos, at: Nanos, who: Occupant, left: Option<Left>) {
        let (window, Some(room)) = (self.window, self.room) else { return };
        let span = window.intersection(Span::new(since, at));
        let task = match who {
            Occupant::Idle => return,
            Occupant::Task(task) => task.0,
            Occupant::Unknown => 0,
        };
        let track = self.track(cpu);
        let start = (span.start - window.start).0.max(track.end);
        let end = (span.end - window.start).0;
        if end <= start {
            return;
        }
        let before = track.bytes.len();
        let (gap, wait) = (start - track.end, std::mem::take(&mut track.wait));
        track.end = end;
        track.count += 1;
        for number in [gap, end - start, task.into(), code(left), wait] {
            leb128(&mut track.bytes, number);
        }
        if wait > 0 {
            leb128(&mut track.bytes, track.waker.into());
        }
        self.room = room.checked_sub(track.bytes.len() - before);
        if self.room.is_none() {
            self.cpus.clear();
        }
    }
}

/// How a slice ended, as the script numbers it.
const fn code(left: Option<Left>) -> u64 {
    match left {
        None | Some(Left::Other) => 0,
        Some(Left::Preempted) => 1,
        Some(Left::Yielded) => 2,
        Some(Left::Slept | Left::IdleSleep | Left::Parked) => 3,
        Some(Left::Blocked) => 4,
        Some(Left::Stopped | Left::Traced) => 5,
        Some(Left::Dead) => 6,
    }
}

fn leb128(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 127 {
        bytes.push((number & 127) as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
}

impl Question for Columns {
    type Answer = PageData;

    fn see(&mut self, change: &Change, state: &State) {
        let Change::Switch(Switch { at, cpu, was, since, left, is, wait, .. }) = *change else {
            return;
        };
        self.add(cpu.index(), since, at, was, left);
        let waker = is.task().filter(|_| wait.is_some_and(|wait| wait.why.is_wakeup()));
        let waker = waker.map_or(0, |task| state.task(task).waker.0);
        let track = self.track(cpu.index());
        (track.wait, track.waker) = (wait.map_or(0, |wait| (at - wait.since).0), waker);
    }

    fn answer(mut self, state: &State) -> PageData {
        for (cpu, known) in state.observed_cpus() {
            self.add(cpu.index(), known.since, state.window().end, known.occupant, None);
        }
        let unknown = (0, String::new(), "d1d5db".to_owned());
        let task = |task| {
            let pid = state.task(task).pid;
            let colour = colour_of_pid(pid);
            let hex = format!("{:02x}{:02x}{:02x}", colour.r, colour.g, colour.b);
            (pid.0, state.name(task), hex)
        };
        let tasks = std::iter::once(unknown).chain(state.tasks().map(|(id, _)| task(id))).collect();
        let cpus = state
            .observed_cpus()
            .map(|(cpu, _)| (cpu.0, std::mem::take(self.track(cpu.index()))))
            .collect();
        PageData { window: self.window, cpus, tasks, whole: self.room.is_some() }
    }
}

impl PageData {
    /// Whether every slice is there: not so where there were more than [`Columns::at_most`].
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.whole
    }

    /// How many slices the page holds.
    #[must_use]
    pub fn slices(&self) -> usize {
        self.cpus.iter().map(|(_, track)| track.count).sum()
    }

    /// How many CPUs it shows.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }
}

/// Writes the page. Rows are in socket order where `topology` is given; `violations` are those that it
/// lists, of `violations_count` in all.
#[must_use]
pub fn page(
    title: &str,
    data: &PageData,
    topology: Option<&Topology>,
    violations: &[Note],
    violations_count: u64,
) -> String {
    let mut cpus: Vec<&(u16, Track)> = data.cpus.iter().collect();
    if let Some(topology) = topology {
        let order = topology.socket_order();
        let rank = |cpu: u16| order.iter().position(|other| other.0 == cpu).unwrap_or(usize::MAX);
        cpus.sort_by_key(|(cpu, _)| (rank(*cpu), *cpu));
    }
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::new(6));
    for (_, track) in &cpus {
        packed.write_all(&track.bytes).expect("a Vec takes all that is written to it");
    }
    let packed = packed.finish().expect("a Vec takes all that is written to it");
    let title = printable(title);
    let note = format!(
        "{} CPUs, {} slices, {}",
        data.cpus.len(),
        data.slices(),
        crate::duration(data.window.duration())
    );
    fill(
        include_str!("../page/page.html"),
        &[
            ("title", &html(&title)),
            ("note", &html(&note)),
            ("css", include_str!("../page/page.css")),
            ("head", &head(&title, data, &cpus, topology, (violations, violations_count))),
            ("data", &base64(&packed)),
            ("script", &script()),
        ],
    )
}

/// Puts values into the places `{{name}}`; what a value says is never looked at again.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("the template closes its places");
        out.push_str(before);
        let value = values.iter().find(|(other, _)| *other == name);
        out.push_str(value.expect("the template names known places").1);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The text of the page's one script element, to the byte: a document that holds the page in a frame,
/// whose policy the frame inherits, can allow this script by its hash and no other.
///
/// The modules stand in the order of their needs, as one.
#[must_use]
pub fn script() -> String {
    let modules = [
        include_str!("../page/data.js"),
        include_str!("../page/view.js"),
        include_str!("../page/paint.js"),
        include_str!("../page/export.js"),
        include_str!("../page/main.js"),
    ];
    let lines = modules.iter().flat_map(|module| module.lines());
    let kept = lines.filter(|line| !line.starts_with("import ") && *line != "// @ts-check");
    let mut script = String::from("\n");
    for line in kept {
        script.push_str(line.strip_prefix("export ").unwrap_or(line));
        script.push('\n');
    }
    script
}

fn head(
    title: &str,
    data: &PageData,
    cpus: &[&(u16, Track)],
    topology: Option<&Topology>,
    (violations, violations_count): (&[Note], u64),
) -> String {
    let mut out = String::new();
    let place = |cpu: u16| topology.and_then(|all| all.place(schedlab_model::Cpu(cpu)));
    let label = |label: Option<u32>| label.map_or("null".to_owned(), |label| label.to_string());
    let rows: Vec<String> = cpus
        .iter()
        .map(|(cpu, track)| {
            let place = place(*cpu);
            format!(
                "{{\"cpu\":{cpu},\"socket\":{},\"llc\":{},\"bytes\":{},\"count\":{}}}",
                label(place.map(|place| place.socket)),
                label(place.map(|place| place.llc)),
                track.bytes.len(),
                track.count
            )
        })
        .collect();
    let tasks: Vec<String> = data
        .tasks
        .iter()
        .map(|(pid, name, colour)| format!("[{pid},{},\"{colour}\"]", json(&printable(name))))
        .collect();
    let notes: Vec<String> = violations
        .iter()
        .map(|note| {
            let at = |time: Nanos| (time - data.window.start).0;
            format!(
                "{{\"start\":{},\"end\":{},\"cpu\":{},\"text\":{}}}",
                at(note.span.start),
                at(note.span.end),
                note.cpu,
                json(&printable(&note.text))
            )
        })
        .collect();
    write!(
        out,
        "{{\"title\":{},\"origin\":\"{}\",\"span\":{},\"cpus\":[{}],\"tasks\":[{}],\
         \"violations\":[{}],\"violationsCount\":{violations_count}}}",
        json(title),
        data.window.start.0,
        data.window.duration().0,
        rows.join(","),
        tasks.join(",\n"),
        notes.join(",")
    )
    .expect("a String takes all that is written to it");
    out
}

/// A JSON string that can stand inside of a script element: no `<`, no control characters.
fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '<' | '>' | '&' | '\0'..' ' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(character)).expect("a String takes all");
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

fn html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_leb128() {
        let mut bytes = Vec::new();
        for number in [0, 127, 128, 300, u64::MAX] {
            leb128(&mut bytes, number);
        }
        assert_eq!(bytes[..6], [0, 127, 128, 1, 0xac, 2]);
        assert_eq!(bytes.len(), 6 + 10);
    }

    #[test]
    fn the_modules_join_into_one_script() {
        let script = script();
        assert!(
            !script.lines().any(|line| line.starts_with("import") || line.starts_with("export"))
        );
        assert!(!script.contains("</script"), "it would end itself");
        // Top-level names must be unique: two modules share one scope here.
        let mut names: Vec<&str> = script
            .lines()
            .filter_map(|line| {
                let line = line.strip_prefix("async ").unwrap_or(line);
                let rest = ["function ", "const ", "class "]
                    .iter()
                    .find_map(|word| line.strip_prefix(word))?;
                rest.split(|c: char| !c.is_alphanumeric()).next()
            })
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a name is defined twice");
    }

    #[test]
    fn names_cannot_leave_their_place() {
        let data = PageData {
            window: Span::new(Nanos(5), Nanos(10)),
            cpus: vec![],
            tasks: vec![(1, "</script><b>\"\\\n\u{202e}{{data}}".into(), "000000".into())],
            whole: true,
        };
        let note = Note { span: data.window, cpu: 0, text: "</script>".into() };
        let page = page("</title><script>alert(1)</script>{{css}}", &data, None, &[note], 1);
        assert_eq!(page.matches("</script>").count(), 3, "three elements of ours");
        assert!(!page.contains("<script>alert") && !page.contains('\u{202e}'));
        assert!(page.contains("{{data}}"), "values are not looked at again");
        assert!(
            !page.contains("http://")
                || page.matches("http://").count() == page.matches("http://www.w3.org/").count()
        );
    }
}
