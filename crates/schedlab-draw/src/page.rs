//! The interactive page: one HTML file that holds the trace as packed columns and the script that
//! draws it. It asks for nothing from outside (its own policy forbids it) and opens from disk.
//!
//! The script is plain modules under `page/`, joined here by leaving out their `import` lines: they
//! run as they stand in the repository. It is no spelling of the scene but a second consumer of the
//! timeline.
//!
//! What the first picture needs stands first: head, coarse columns, script. The script runs while the
//! browser still reads the slices behind it, in parts of some thousand, and draws them as they come.
//! Each part is raw deflate in base64, of columns of LEB128 numbers. A trace that is too large for its
//! slices has parts of columns in their place: a level of detail between the first picture and the slices.

mod anonymous;
mod arguments;
mod columns;
mod pair;
mod power;
mod stack_data;

pub use anonymous::Anonymous;
pub use arguments::{Listening, Said};
pub use columns::{Columns, PageData};
pub use pair::{Pair, Table, pair};

use crate::cause::look;
use crate::colour::{Colour, Theme};
use crate::font::printable;
use crate::svg::base64;
use columns::{COARSE_COLUMNS, Track, coarse, leb128};
use flate2::{Compression, write::DeflateEncoder};
use schedlab_model::{Cpu, CpuSet, Nanos, Span, Topology};
use schedlab_timeline::{
    Cell, ConservationAnswer, Episode, ExplainedWait, State, TaskId, WaitCause,
};
use stack_data::StackData;
use std::fmt::Write as _;
use std::io::Write as _;

/// Colours of frequencies, from the lowest to the highest.
const SPEEDS: usize = 8;

/// Marks beyond these are counted only.
const POINTS_MAX: usize = 100_000;

/// A place that the page lists and can go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// When, on the trace's clock.
    pub span: Span,
    pub cpu: u16,
    /// The text of the note, which the page shows when it is pointed at.
    pub text: String,
    pub story: Option<EpisodePicture>,
}

/// What the page draws of an episode of lost CPU time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpisodePicture {
    /// Since when the first waiter had waited.
    pub since: Nanos,
    /// The task that waited first.
    pub task: TaskId,
    /// CPU time that was lost.
    pub cost: Nanos,
    /// Who woke it, and on which CPU, where a task did.
    pub waker: Option<(TaskId, Cpu)>,
    /// CPUs that were free at some time meanwhile and that the waiter may use.
    pub free: CpuSet,
}

/// The episodes in which CPU time was lost as places, in order of time.
#[must_use]
pub fn notes(found: &ConservationAnswer, state: &State) -> Vec<Note> {
    let mut notes: Vec<Note> = found
        .episodes
        .iter()
        .map(|episode| Note {
            span: Span::new(episode.start, episode.end),
            cpu: episode.overloaded.0,
            text: episode_text(episode, state),
            story: Some(EpisodePicture {
                since: episode.because.waited_since,
                task: episode.task,
                cost: episode.cost,
                waker: episode.because.waker().map(|task| (task, episode.because.waker_cpu)),
                free: episode.idle.clone(),
            }),
        })
        .collect();
    notes.sort_by_key(|note| note.span.start);
    notes
}

/// An episode in sentences, what is seen apart from what is inferred.
#[must_use]
pub fn episode_text(episode: &Episode, state: &State) -> String {
    let others = match episode.others() {
        0 => String::new(),
        1 => " and one other task".to_owned(),
        more => format!(" and {more} other tasks"),
    };
    format!(
        "{} ({}){others} waited on CPU {}. This lost {} of CPU time. Seen: {}. Inferred: {}. It ended when {}.",
        state.name(episode.task),
        state.task(episode.task).pid,
        episode.overloaded,
        crate::duration(episode.cost),
        episode.because.sentence(episode.overloaded, state),
        episode.because.inferred(),
        episode.ended_when()
    )
}

/// Writes the page of a whole trace. Rows are in socket order where `topology` is given; `episodes` are
/// those that it lists, of `episodes_count` in all.
#[must_use]
pub fn page(
    title: &str,
    data: &PageData,
    topology: Option<&Topology>,
    episodes: &[Note],
    episodes_count: u64,
) -> String {
    page_from(title, data, data.window.start, topology, episodes, episodes_count)
}

/// Writes the page of a part of a trace that began at `origin`: its times count from there.
#[must_use]
pub fn page_from(
    title: &str,
    data: &PageData,
    origin: Nanos,
    topology: Option<&Topology>,
    episodes: &[Note],
    episodes_count: u64,
) -> String {
    let mut cpus: Vec<&(u16, Track)> = data.cpus.iter().collect();
    if let Some(topology) = topology {
        let order = topology.socket_order();
        let rank = |cpu: u16| order.iter().position(|other| other.0 == cpu).unwrap_or(usize::MAX);
        cpus.sort_by_key(|(cpu, _)| (rank(*cpu), *cpu));
    }
    let title = printable(title);
    let size = match &data.fine {
        Some((fine, _)) => format!("{} columns", fine.columns),
        None => crate::number_of(data.slices(), "slice"),
    };
    let length = crate::duration(data.window.duration());
    let note = format!("{}, {size}, {length}", crate::number_of(data.cpus.len(), "CPU"));
    let begin = data.window.start;
    let stacks = StackData::of(&data.sleeps, &data.ran_in, begin);
    let page = Page { title: &title, data, cpus: &cpus, origin, topology, stacks: &stacks };
    fill(
        include_str!("../page/page.html"),
        &[
            ("title", &html(&title)),
            ("note", &html(&note)),
            ("css", include_str!("../page/page.css")),
            ("head", &page.head(episodes, episodes_count)),
            ("coarse", &packed(&[&coarse_columns(data, &cpus)])),
            ("script", &script()),
            ("points", &packed(&[&points(data, &cpus)])),
            ("power", &packed(&[&power::bytes(data, &cpus)])),
            ("requests", &packed(&[&stack_data::requests(&data.requests, begin)])),
            ("stacks", &packed(&[&stacks.bytes()])),
            ("parts", &parts(data, &cpus)),
        ],
    )
}

/// Bytes after each other, deflated, as base64.
fn packed(pieces: &[&[u8]]) -> String {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
    for piece in pieces {
        encoder.write_all(piece).expect("a Vec takes all that is written to it");
    }
    base64(&encoder.finish().expect("a Vec takes all that is written to it"))
}

/// The slices, or what stands for them, an element for each part.
fn parts(data: &PageData, cpus: &[&(u16, Track)]) -> String {
    let mut out = String::new();
    let mut add = |pieces: &[&[u8]]| {
        out.push_str("<script type=\"text/plain\" class=\"part\">");
        out.push_str(&packed(pieces));
        out.push_str("</script>\n");
    };
    if data.fine.is_some() {
        for (_, _, bytes) in fine_parts(data, cpus) {
            add(&[&bytes]);
        }
        return out;
    }
    for part in cpus.iter().flat_map(|(_, track)| &track.parts) {
        add(&part.columns.each_ref().map(Vec::as_slice));
    }
    out
}

/// The columns of a page without slices: row, columns, bytes; row -1 is running and waiting tasks.
fn fine_parts(data: &PageData, cpus: &[&(u16, Track)]) -> Vec<(i64, usize, Vec<u8>)> {
    let Some((fine, levels)) = &data.fine else { return Vec::new() };
    let mut parts: Vec<_> = (0_i64..)
        .zip(cpus)
        .map(|(row, (cpu, _))| {
            let cells = fine.rows.iter().find(|(other, _)| other.0 == *cpu);
            let cells = cells.map_or(&[][..], |(_, cells)| cells);
            let mut bytes = Vec::new();
            cells_of(&mut bytes, cells, fine.columns);
            (row, fine.columns, bytes)
        })
        .collect();
    let mut bytes = Vec::new();
    for level in levels {
        leb128(&mut bytes, level.running.0);
    }
    for level in levels {
        leb128(&mut bytes, level.waiting.0);
    }
    parts.push((-1, levels.len(), bytes));
    parts
}

/// For each row how busy each column was, and who ran longest in it.
fn coarse_columns(data: &PageData, cpus: &[&(u16, Track)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (cpu, _) in cpus {
        let row = data.coarse.rows.iter().find(|(other, _)| other.0 == *cpu);
        cells_of(&mut bytes, row.map_or(&[][..], |(_, cells)| cells), COARSE_COLUMNS);
    }
    bytes
}

/// A byte for each column: how busy it was. Then who ran longest in each: 0 is the same as before.
fn cells_of(bytes: &mut Vec<u8>, cells: &[Cell], columns: usize) {
    let column = |column: usize| cells.get(column).map_or((0, 0), coarse);
    bytes.extend((0..columns).map(|index| column(index).0));
    let mut last = 0;
    for index in 0..columns {
        let (share, top) = column(index);
        // Who would be in an idle column is never seen.
        let top = if share == 0 { last } else { top };
        leb128(bytes, if top == last { 0 } else { u64::from(top) + 1 });
        last = top;
    }
}

/// For each row its marks: gaps, names, phases, tasks, numbers of what was said; then what was said, line by line.
fn points(data: &PageData, cpus: &[&(u16, Track)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (cpu, _) in cpus {
        let found: Vec<_> = data.points.found.iter().filter(|point| point.cpu == *cpu).collect();
        let mut before = 0;
        for point in &found {
            leb128(&mut bytes, point.time - std::mem::replace(&mut before, point.time));
        }
        let columns: [fn(&columns::Point) -> u64; 4] = [
            |point| point.name as u64,
            |point| point.phase.into(),
            |point| point.task.into(),
            |point| point.said.into(),
        ];
        for column in columns {
            for point in &found {
                leb128(&mut bytes, column(point));
            }
        }
    }
    let texts: Vec<String> = data.points.texts.iter().map(|text| printable(text)).collect();
    bytes.extend_from_slice(texts.join("\n").as_bytes());
    bytes
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
/// The modules stand in the order of their needs, as one, in a scope of their own; no module of
/// HTML, since those wait for the whole document.
#[must_use]
pub fn script() -> String {
    let modules = [
        include_str!("../page/data.js"),
        include_str!("../page/points.js"),
        include_str!("../page/requests.js"),
        include_str!("../page/power.js"),
        include_str!("../page/waits.js"),
        include_str!("../page/lanes.js"),
        include_str!("../page/view.js"),
        include_str!("../page/over.js"),
        include_str!("../page/paint.js"),
        include_str!("../page/lists.js"),
        include_str!("../page/events.js"),
        include_str!("../page/flame.js"),
        include_str!("../page/export.js"),
        include_str!("../page/main.js"),
    ];
    let lines = modules.iter().flat_map(|module| module.lines());
    let kept = lines.filter(|line| !line.starts_with("import ") && *line != "// @ts-check");
    let mut script = String::from("(() => {\n\"use strict\";\n");
    for line in kept {
        script.push_str(line.strip_prefix("export ").unwrap_or(line));
        script.push('\n');
    }
    script.push_str("})();\n");
    script
}

/// What the head tells of.
struct Page<'a> {
    title: &'a str,
    data: &'a PageData,
    cpus: &'a [&'a (u16, Track)],
    origin: Nanos,
    topology: Option<&'a Topology>,
    stacks: &'a StackData,
}

impl Page<'_> {
    fn head(&self, episodes: &[Note], episodes_count: u64) -> String {
        let Self { title, data, cpus, origin, stacks, .. } = *self;
        let tasks: Vec<String> = data
            .tasks
            .iter()
            .map(|task| {
                let name = json(&printable(&task.name));
                let colours = task.colours.map(|colour| colour.to_string()).join(",");
                let of = format!("{},{}", task.process, task.group);
                format!("[{},{name},{},{},[{colours}],{of}]", task.pid, task.parent, task.prio)
            })
            .collect();
        let notes: Vec<String> = episodes.iter().map(|note| self.note(note)).collect();
        let fine = data.fine.as_ref().map_or(0, |(fine, _)| fine.columns);
        let list = |names: &[String]| {
            names.iter().map(|name| json(&printable(name))).collect::<Vec<_>>().join(",")
        };
        format!(
            "{{\"title\":{},\"origin\":\"{}\",\"shift\":{},\"span\":{},\"columns\":{COARSE_COLUMNS},\
             \"fine\":{fine},\"cpus\":[{}],\"tasks\":[{}],\"parts\":[{}],\"points\":{},\
             \"power\":{},\"processes\":[{}],\"groups\":[{}],\
             \"themes\":{{\"light\":{},\"dark\":{}}},\
             \"episodes\":[{}],\"episodesCount\":{episodes_count},\"answer\":{},\
             \"causes\":[{}],\"open\":[{}],\"off\":[{}],\"flame\":{},\"requests\":[{},{}]}}",
            json(title),
            origin.0,
            (data.window.start - origin).0,
            data.window.duration().0,
            self.rows().join(","),
            tasks.join(",\n"),
            self.sizes().join(","),
            points_head(data, cpus),
            power::head(data, cpus),
            list(&data.processes),
            list(&data.groups),
            theme(&Theme::light()),
            theme(&Theme::dark()),
            notes.join(","),
            self.answer(),
            causes(),
            self.open(),
            self.off(),
            stacks.head(),
            data.requests.found.len(),
            data.requests.left_out,
        )
    }

    /// Tasks, and by how much their run time and their waiting are off.
    fn off(&self) -> String {
        let one = |(task, [ran, waited]): &(TaskId, [Nanos; 2])| {
            format!("[{},{},{}]", task.0, ran.0, waited.0)
        };
        self.data.off.iter().map(one).collect::<Vec<_>>().join(",")
    }

    /// Waits that had not ended: task, since when, CPU or -1, and causes with their times.
    fn open(&self) -> String {
        let one = |wait: &ExplainedWait| {
            let since = i128::from(wait.since.0) - i128::from(self.data.window.start.0);
            let cpu = wait.cpu.map_or(-1, |cpu| i32::from(cpu.0));
            let pair = |(cause, time): (WaitCause, Nanos)| {
                format!("[{},{}]", columns::number_of(cause), time.0)
            };
            let parts: Vec<String> = wait.parts.ranked().into_iter().map(pair).collect();
            format!("[{},{since},{cpu},[{}]]", wait.task.0, parts.join(","))
        };
        self.data.open.iter().map(one).collect::<Vec<_>>().join(",")
    }

    /// The text of the answer, and whose wait is the worst, from when to when.
    fn answer(&self) -> String {
        let Some((text, worst)) = &self.data.answer else { return "null".to_owned() };
        let at = |time: Nanos| (time - self.data.window.start).0;
        let moment = match worst {
            Some((task, worst)) => {
                // A wait can begin before the part that the page shows.
                let start = worst.start.max(self.data.window.start);
                format!("[{},{},{}]", task.0, at(start), at(worst.end))
            }
            None => "null".to_owned(),
        };
        let lines: Vec<String> = text.lines().map(|line| json(&printable(line))).collect();
        format!("{{\"lines\":[{}],\"worst\":{moment}}}", lines.join(","))
    }

    fn rows(&self) -> Vec<String> {
        let label = |label: Option<u32>| label.map_or("null".to_owned(), |label| label.to_string());
        let row = |(cpu, track): &&(u16, Track)| {
            let place = self.topology.and_then(|all| all.place(Cpu(*cpu)));
            let socket = place.map(|place| place.socket);
            let llc = place.map(|place| place.llc);
            format!(
                "{{\"cpu\":{cpu},\"socket\":{},\"llc\":{},\"count\":{}}}",
                label(socket),
                label(llc),
                track.count
            )
        };
        self.cpus.iter().map(row).collect()
    }

    fn note(&self, note: &Note) -> String {
        let at = |time: Nanos| i128::from(time.0) - i128::from(self.data.window.start.0);
        let story = note.story.as_ref().map_or("null".to_owned(), |story| {
            let (waker, cpu) = story.waker.unwrap_or((TaskId::NONE, Cpu(0)));
            format!(
                "{{\"since\":{},\"task\":{},\"cost\":{},\"waker\":{},\"wakerCpu\":{cpu},\"free\":\"{}\"}}",
                at(story.since),
                story.task.0,
                story.cost.0,
                waker.0,
                story.free
            )
        });
        format!(
            "{{\"start\":{},\"end\":{},\"cpu\":{},\"text\":{},\"story\":{story}}}",
            at(note.span.start),
            at(note.span.end),
            note.cpu,
            json(&printable(&note.text))
        )
    }

    /// Row, slices or columns, and bytes of each part.
    fn sizes(&self) -> Vec<String> {
        let fine = fine_parts(self.data, self.cpus);
        if !fine.is_empty() {
            let size = |(row, columns, bytes): &(i64, usize, Vec<u8>)| {
                format!("[{row},{columns},{}]", bytes.len())
            };
            return fine.iter().map(size).collect();
        }
        let tracks = self.cpus.iter().enumerate();
        let sizes = tracks.flat_map(|(row, (_, track))| {
            let size = |part: &columns::Part| part.columns.iter().map(Vec::len).sum::<usize>();
            track.parts.iter().map(move |part| format!("[{row},{},{}]", part.count, size(part)))
        });
        sizes.collect()
    }
}

/// Causes of waits in the order of their numbers, with their colours on light and dark ground.
fn causes() -> String {
    let one = |cause: WaitCause| {
        let (light, dark, pattern) = look(cause);
        format!(
            "{{\"title\":{},\"about\":{},\"culprit\":{},\"pattern\":\"{}\",\"light\":{},\"dark\":{}}}",
            json(cause.title()),
            json(cause.about()),
            cause.has_culprit(),
            pattern.name(),
            hex(&light),
            hex(&dark)
        )
    };
    WaitCause::ALL.map(one).join(",")
}

fn hex(colour: &Colour) -> String {
    format!("\"#{:02x}{:02x}{:02x}\"", colour.r, colour.g, colour.b)
}

/// Colours by their roles.
fn theme(theme: &Theme) -> String {
    let list = |colours: &[Colour]| colours.iter().map(hex).collect::<Vec<_>>().join(",");
    let roles = [
        ("ground", theme.panel),
        ("text", theme.text),
        ("muted", theme.muted),
        ("grid", theme.grid),
        ("axis", theme.axis),
        ("unknown", theme.unknown),
        ("running", theme.running),
        ("waiting", theme.waiting),
        ("alarm", theme.alarm),
        ("moved", theme.moved),
        ("other", theme.other),
    ];
    let roles = roles.map(|(role, colour)| format!("\"{role}\":{}", hex(&colour))).join(",");
    let speeds: Vec<Colour> = (0..SPEEDS).map(|step| theme.speed(step, SPEEDS)).collect();
    format!(
        "{{{roles},\"tasks\":[{}],\"events\":[{}],\"speeds\":[{}]}}",
        list(theme.tasks),
        list(&theme.events),
        list(&speeds)
    )
}

/// What marks are called, and how many each row has.
fn points_head(data: &PageData, cpus: &[&(u16, Track)]) -> String {
    let points = &data.points;
    let count = |cpu: u16| points.found.iter().filter(|point| point.cpu == cpu).count();
    let counts: Vec<String> = cpus.iter().map(|(cpu, _)| count(*cpu).to_string()).collect();
    let names: Vec<String> = points.names.iter().map(|name| json(&printable(name))).collect();
    format!(
        "{{\"names\":[{}],\"counts\":[{}],\"leftOut\":{}}}",
        names.join(","),
        counts.join(","),
        points.left_out
    )
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
mod tests;
