//! The question behind the picture `cores`: what ran on each CPU, as boxes or as exact shades.
//!
//! A row keeps boxes as long as there are at most `BOXES_PER_COLUMN` for each column of the
//! picture; then it turns into columns. A column sums up the time of each meaning of a colour. So
//! the picture bounds the memory (200 bytes a column and CPU at most), not the trace, and nothing is
//! sampled: a shade is the mean over all that ran. Colours are given at the end (`assign`), when all
//! times are known.
//!
//! `schedlab_timeline::Density` tells who ran longest in a column, for the page's first picture; here a column is
//! the mean of colours, which may be those of parents or priorities, and few slices stay boxes with names.
//!
//! Resources: a switch costs an addition to one column, found by a cursor that only moves forward.

mod legend;

pub use legend::legend_of;

use crate::assign::{Touching, assign};
use crate::colour::{Colour, Theme};
use crate::cores::{Fill, Piece, Row};
use schedlab_model::{Cpu, CpuSet, Kind, Nanos, Span, Topology};
use schedlab_timeline::{
    Change, Chosen, Occupant, OtherEvent, Power, Question, State, Switch, TaskId,
};
use std::collections::BTreeMap;

/// More boxes than this for each column cannot be told apart by eye.
const BOXES_PER_COLUMN: usize = 2;

/// Frequencies in a band of this many hertz have one colour.
const BAND_HZ: u64 = 200_000_000;

/// Meanings that a column tells apart; of more the later ones have a common shade.
const KEYS_PER_COLUMN: usize = 8;

/// What decides the colour of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colouring {
    #[default]
    Pid,
    /// The name of the task's command decides.
    Command,
    /// The task that created it (where that was seen; else itself).
    Parent,
    /// The priority of the task decides.
    Priority,
    /// The NUMA node on which it was first seen to run.
    Node,
    /// The frequency of its CPU (`cpu_frequency`, which the source must be opened to tell), in bands of 200 MHz.
    Frequency,
}

#[derive(Clone, Debug)]
pub struct RowsOptions {
    /// The window, on the trace's clock.
    pub window: Span,
    /// The width of the picture in columns.
    pub columns: u32,
    /// What decides the colour of a task.
    pub colouring: Colouring,
    /// Only tasks whose name starts with this text have colours; all others are [`Theme::other`].
    pub target: Option<String>,
    /// Only these CPUs have rows, and count in sums; `None` is all.
    pub cpus: Option<CpuSet>,
    /// The topology, which [`Colouring::Node`] needs.
    pub topology: Option<Topology>,
    /// For what is unknown, and for others than the target.
    pub theme: Theme,
}

#[derive(Clone, Debug)]
pub struct RowsAnswer {
    /// A row for each observed CPU, in ascending order; places are left out.
    pub rows: Vec<Row>,
    /// Names of pieces, by task number.
    pub names: Vec<String>,
    /// What the colours mean, those with the most time first.
    pub legend: Vec<Entry>,
    /// How many tasks ran in the window.
    pub tasks: usize,
}

/// One meaning of a colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub colour: Colour,
    pub name: String,
    /// How long the tasks of this colour ran, summed over CPUs.
    pub time: Nanos,
}

/// The question: what ran on each CPU.
pub struct Rows {
    options: RowsOptions,
    /// Where columns begin, and the end of the last.
    edges: Vec<u64>,
    cpus: Vec<Track>,
    tasks: Vec<Seen>,
    keys: Keys,
    touching: Touching,
    /// By CPU: its band of frequencies, where known, and since when the time of who is there is not counted yet.
    speeds: Vec<(Option<u64>, Nanos)>,
    /// Colours that other pictures beside this one have given.
    like: Vec<Entry>,
    chosen: Chosen,
}

/// What the colours mean, numbered in the order in which they were met.
struct Keys {
    numbers: BTreeMap<Key, u32>,
    /// What it is, the first task of it, the time that it ran.
    met: Vec<(Key, TaskId, u64)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    time: u64,
    /// The number of what decides its colour, until that may change.
    key: Option<u32>,
    parent: Option<TaskId>,
    /// The node on which it was first seen, plus one.
    node: u32,
}

#[derive(Debug)]
enum Track {
    Boxes(Vec<Boxed>),
    Columns { sums: Vec<Sum>, cursor: usize },
}

/// A piece whose colour is not given yet.
#[derive(Clone, Copy, Debug)]
struct Boxed {
    span: Span,
    key: u32,
    name: Option<u32>,
}

/// What ran in a column.
#[derive(Clone, Debug, Default)]
struct Sum {
    time: u64,
    /// By the number of its key.
    parts: Vec<(u32, u64)>,
}

impl Rows {
    /// Asks for what ran.
    #[must_use]
    pub fn new(options: RowsOptions) -> Self {
        let columns = u64::from(options.columns.max(1));
        let length = u128::from(options.window.duration().0);
        let edge = |column: u64| {
            let inside = length * u128::from(column) / u128::from(columns);
            options.window.start.0 + u64::try_from(inside).expect("inside of the window")
        };
        let edges = (0..=columns).map(edge).collect();
        let cpus = Vec::new();
        let tasks = Vec::new();
        let speeds = Vec::new();
        let like = Vec::new();
        let keys = Keys::new();
        let touching = Touching::new();
        let chosen = Chosen::all();
        Self { options, edges, cpus, tasks, keys, touching, speeds, like, chosen }
    }

    /// Draws these tasks alone: where others ran, nothing is drawn.
    #[must_use]
    pub fn about(self, chosen: Chosen) -> Self {
        Self { chosen, ..self }
    }

    /// Gives the names of these entries the colours that they have there, so that two pictures
    /// agree.
    #[must_use]
    pub fn like(mut self, entries: &[Entry]) -> Self {
        self.like = entries.to_vec();
        self
    }

    fn add(&mut self, cpu: Cpu, since: Nanos, at: Nanos, who: Occupant, state: &State) {
        if !self.shows(cpu) {
            return;
        }
        let counted = self.speeds.get(cpu.index()).map_or(since, |(_, from)| since.max(*from));
        let span = self.options.window.intersection(Span::new(counted.min(at), at));
        let key = match who {
            Occupant::Task(task) if !self.chosen.has(task) => return,
            Occupant::Task(task) => {
                self.seen(task).time += span.duration().0;
                self.number(task, cpu, state)
            }
            Occupant::Idle => return,
            Occupant::Unknown => UNKNOWN,
        };
        if span.duration() == Nanos::ZERO {
            return;
        }
        self.keys.met[key as usize].2 += span.duration().0;
        self.touching.see(cpu, span, key);
        let columns = self.edges.len() - 1;
        let most = columns * BOXES_PER_COLUMN;
        let name = who.task().map(|task| task.0);
        let track = self.track(cpu);
        if let Track::Boxes(boxes) = track {
            if boxes.len() < most {
                return boxes.push(Boxed { span, key, name });
            }
            let boxes = std::mem::take(boxes);
            *track = Track::Columns { sums: vec![Sum::default(); columns], cursor: 0 };
            for piece in boxes {
                self.shade(cpu, piece.span, piece.key);
            }
        }
        self.shade(cpu, span, key);
    }

    fn shows(&self, cpu: Cpu) -> bool {
        self.options.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu))
    }

    fn track(&mut self, cpu: Cpu) -> &mut Track {
        if self.cpus.len() <= cpu.index() {
            self.cpus.resize_with(cpu.index() + 1, || Track::Boxes(Vec::new()));
        }
        &mut self.cpus[cpu.index()]
    }

    fn shade(&mut self, cpu: Cpu, span: Span, key: u32) {
        let Self { edges, cpus, .. } = self;
        let Track::Columns { sums, cursor } = &mut cpus[cpu.index()] else { return };
        // Intervals of a CPU come in order, but for what a loss takes back.
        if span.start.0 < edges[*cursor] {
            *cursor = edges.partition_point(|&edge| edge <= span.start.0) - 1;
        }
        let mut start = span.start.0;
        while start < span.end.0 {
            while edges[*cursor + 1] <= start {
                *cursor += 1;
            }
            let end = span.end.0.min(edges[*cursor + 1]);
            sums[*cursor].add(end - start, key);
            start = end;
        }
    }

    fn seen(&mut self, task: TaskId) -> &mut Seen {
        if self.tasks.len() <= task.index() {
            self.tasks.resize_with(task.index() + 1, Seen::default);
        }
        &mut self.tasks[task.index()]
    }

    /// The number of what decides the colour of a task now.
    fn number(&mut self, task: TaskId, cpu: Cpu, state: &State) -> u32 {
        if self.options.colouring == Colouring::Frequency {
            let band = self.speeds.get(cpu.index()).and_then(|(band, _)| *band);
            return self.keys.number(band.map_or(Key::NoSpeed, Key::Speed), task);
        }
        if let Some(key) = self.seen(task).key {
            return key;
        }
        let node = self.options.topology.as_ref().and_then(|all| all.place(cpu));
        let node = node.map_or(1, |place| place.node + 1);
        let seen = self.seen(task);
        if seen.node == 0 {
            seen.node = node;
        }
        let key = self.keys.number(self.key(task, state), task);
        // A priority can change at any switch.
        if self.options.colouring != Colouring::Priority {
            self.seen(task).key = Some(key);
        }
        key
    }

    /// What decides the colour of a task.
    fn key(&self, task: TaskId, state: &State) -> Key {
        let name = || state.names().comm(state.task(task).comm);
        if let Some(target) = &self.options.target
            && !name().starts_with(target.as_bytes())
        {
            return Key::Other;
        }
        match self.options.colouring {
            Colouring::Pid => Key::Task(task),
            Colouring::Command => Key::Command(name()),
            Colouring::Parent => Key::Parent(self.ancestor(task)),
            Colouring::Priority => Key::Priority(state.task(task).prio.0),
            Colouring::Node => {
                Key::Node(self.tasks.get(task.index()).map_or(0, |seen| seen.node.max(1) - 1))
            }
            // `number` knows the CPU.
            Colouring::Frequency => Key::NoSpeed,
        }
    }

    /// The parent where it was seen to create the task, else the task itself.
    fn ancestor(&self, task: TaskId) -> TaskId {
        self.tasks.get(task.index()).and_then(|seen| seen.parent).unwrap_or(task)
    }

    /// Without a single switch, other events tell who was current at instants, not what was between.
    fn nothing_known(&mut self, state: &State) {
        self.cpus.clear();
        self.tasks.clear();
        self.keys = Keys::new();
        for (cpu, _) in state.observed_cpus() {
            self.add(cpu, self.options.window.start, state.window().end, Occupant::Unknown, state);
        }
    }

    /// The colour of each key, by number.
    fn colours(&self, state: &State) -> Vec<Colour> {
        let theme = &self.options.theme;
        let named =
            |key: &Key| !matches!(key, Key::Unknown | Key::Other | Key::NoSpeed | Key::Speed(_));
        let bands = || self.keys.met.iter().filter_map(|met| met.0.band());
        let low = bands().min().unwrap_or(0);
        let high = bands().max().unwrap_or(0);
        let bands = (high - low) as usize + 1;
        // Those that need one of the palette, and their places among these.
        let wants: Vec<usize> =
            (0..self.keys.met.len()).filter(|&key| named(&self.keys.met[key].0)).collect();
        let place =
            |key: u32| wants.binary_search(&(key as usize)).map_or(u32::MAX, |place| place as u32);
        let times: Vec<u64> = wants.iter().map(|&key| self.keys.met[key].2).collect();
        let mut fixed = BTreeMap::new();
        for (place, &key) in wants.iter().enumerate().filter(|_| !self.like.is_empty()) {
            let (key, task, _) = &self.keys.met[key];
            let name = key.name(*task, state);
            let same = self.like.iter().find(|entry| entry.name == name);
            let colour = same
                .and_then(|entry| theme.tasks.iter().position(|colour| *colour == entry.colour));
            fixed.extend(colour.map(|colour| (place, colour)));
        }
        let given = assign(&times, &self.touching.pairs(place), &fixed, theme.tasks.len());
        let colour = |number: usize| match self.keys.met[number].0 {
            Key::Unknown | Key::NoSpeed => theme.unknown,
            Key::Speed(band) => theme.speed((band - low) as usize, bands),
            Key::Other => theme.other,
            _ => theme.tasks[given[place(number as u32) as usize]],
        };
        (0..self.keys.met.len()).map(colour).collect()
    }

    fn legend(&self, colours: &[Colour], state: &State) -> Vec<Entry> {
        let met = self.keys.met.iter().zip(colours).filter(|(met, _)| met.2 > 0);
        let entry = |(&(key, task, time), &colour): (&(Key, TaskId, u64), &Colour)| Entry {
            colour,
            name: key.name(task, state),
            time: Nanos(time),
        };
        // What is not known stands first: it says how much the rest is worth. Then those that are not the target,
        // whose colour is none of the palette. Frequencies have an order of their own.
        let rank = |key: Key| match key {
            Key::Unknown | Key::NoSpeed => 0,
            Key::Other => 1,
            _ => 2,
        };
        let mut entries: Vec<(u8, Option<u64>, Entry)> =
            met.map(|met| (rank(met.0.0), met.0.0.band(), entry(met))).collect();
        entries.sort_by_key(|(rank, band, entry)| {
            (*rank, std::cmp::Reverse(*band), std::cmp::Reverse(entry.time))
        });
        entries.into_iter().map(|(.., entry)| entry).collect()
    }
}

/// The number of [`Key::Unknown`].
const UNKNOWN: u32 = 0;

impl Keys {
    fn new() -> Self {
        let mut keys = Self { numbers: BTreeMap::new(), met: Vec::new() };
        keys.number(Key::Unknown, TaskId::NONE);
        keys
    }

    fn number(&mut self, key: Key, task: TaskId) -> u32 {
        let next = u32::try_from(self.met.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.met.push((key, task, 0));
        }
        number
    }
}

impl Question for Rows {
    type Answer = RowsAnswer;
    const ARGUMENTS: bool = true;

    fn wants(&mut self, format: u16, state: &State) -> bool {
        let name = state.others().get(usize::from(format)).map(|format| format.name.as_str());
        self.options.colouring == Colouring::Frequency && name == Some("cpu_frequency")
    }

    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        let Some((cpu, hz)) = Power::frequency_of(event, state) else { return };
        let band = Some(hz / BAND_HZ);
        let at = event.at;
        if self.speeds.get(cpu.index()).is_some_and(|(before, _)| *before == band) {
            return;
        }
        if let Some(here) = state.cpu(cpu) {
            self.add(cpu, here.since, at, here.occupant, state);
        }
        if cpu.index() >= self.speeds.len() {
            self.speeds.resize(cpu.index() + 1, (None, Nanos::ZERO));
        }
        self.speeds[cpu.index()] = (band, at);
    }

    fn see(&mut self, change: &Change, state: &State) {
        match *change {
            Change::Switch(Switch { at, cpu, was, since, .. }) => {
                self.add(cpu, since, at, was, state);
            }
            Change::Renamed { task, .. } => self.seen(task).key = None,
            Change::Born { task, parent, .. } => {
                let seen = self.seen(task);
                seen.parent = Some(parent);
                seen.key = None;
            }
            _ => {}
        }
    }

    fn answer(mut self, state: &State) -> RowsAnswer {
        if state.seen().contains(Kind::Switch) {
            for (cpu, known) in state.observed_cpus() {
                self.add(cpu, known.since, state.window().end, known.occupant, state);
            }
        } else {
            self.nothing_known(state);
        }
        let colours = self.colours(state);
        let legend = self.legend(&colours, state);
        let names = std::iter::once(String::new())
            .chain(state.tasks().map(|(task, _)| state.name(task)))
            .collect();
        let tasks = self.tasks.iter().filter(|seen| seen.time > 0).count();
        let mut tracks = std::mem::take(&mut self.cpus);
        let rows = state
            .observed_cpus()
            .filter(|(cpu, _)| self.shows(*cpu))
            .map(|(cpu, _)| {
                let track = tracks.get_mut(cpu.index());
                let fill = track
                    .map_or(Fill::Pieces(Vec::new()), |track| track.fill(&self.edges, &colours));
                Row { cpu, place: None, fill }
            })
            .collect();
        RowsAnswer { rows, names, legend, tasks }
    }
}

impl Track {
    fn fill(&mut self, edges: &[u64], colours: &[Colour]) -> Fill {
        match self {
            Self::Boxes(boxes) => {
                let piece = |&Boxed { span, key, name }: &Boxed| Piece {
                    span,
                    colour: colours[key as usize],
                    name,
                };
                Fill::Pieces(std::mem::take(boxes).iter().map(piece).collect())
            }
            Self::Columns { sums, .. } => {
                let columns = sums.iter().zip(edges.windows(2));
                let shade = |(sum, edge): (&Sum, &[u64])| sum.shade(edge[1] - edge[0], colours);
                Fill::Shades(columns.map(shade).collect())
            }
        }
    }
}

impl Sum {
    fn add(&mut self, time: u64, key: u32) {
        self.time = self.time.saturating_add(time);
        let last = self.parts.len() == KEYS_PER_COLUMN;
        match self.parts.iter_mut().find(|part| part.0 == key) {
            Some(part) => part.1 = part.1.saturating_add(time),
            // Later ones only make the column stronger, in the shade of the others.
            None if last => {}
            None => self.parts.push((key, time)),
        }
    }

    /// The mean colour, as opaque as the column was busy; 32 steps each, which the eye cannot tell
    /// from more, so that neighbours often are the same.
    fn shade(&self, length: u64, colours: &[Colour]) -> Colour {
        let whole = self.parts.iter().map(|part| u128::from(part.1)).sum::<u128>().max(1);
        let mean = |channel: fn(&Colour) -> u8| {
            let weighed = |&(key, time): &(u32, u64)| {
                u128::from(time) * u128::from(channel(&colours[key as usize]))
            };
            let sum: u128 = self.parts.iter().map(weighed).sum();
            let part = u8::try_from((sum / whole).min(255)).expect("at most 255");
            part & 0xf8 | part >> 5
        };
        let busy = u128::from(self.time) * 255 / u128::from(length.max(1));
        let opacity = u8::try_from(busy.min(255)).expect("at most 255");
        // A column in which anything ran at all is not white.
        let opacity = if self.time > 0 { (opacity & 0xf8 | opacity >> 5).max(16) } else { 0 };
        Colour { r: mean(|c| c.r), g: mean(|c| c.g), b: mean(|c| c.b), a: opacity }
    }
}

/// What decides a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Unknown,
    /// Not its pid, which another task may have had before.
    Task(TaskId),
    Command([u8; 16]),
    Parent(TaskId),
    Priority(i16),
    Node(u32),
    /// A band of [`BAND_HZ`] of the CPU's frequency.
    Speed(u64),
    NoSpeed,
    Other,
}

impl Key {
    const fn band(self) -> Option<u64> {
        match self {
            Self::Speed(band) => Some(band),
            _ => None,
        }
    }

    fn name(self, task: TaskId, state: &State) -> String {
        match self {
            Self::Unknown => "not known".to_owned(),
            Self::Task(task) => format!("{}:{}", state.name(task), state.task(task).pid),
            Self::Command(name) => {
                let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
                match &name[..end] {
                    [] => state.name(task),
                    name => String::from_utf8_lossy(name).into_owned(),
                }
            }
            Self::Parent(parent) => {
                format!("children of {}:{}", state.name(parent), state.task(parent).pid)
            }
            Self::Priority(prio) => priority(prio),
            Self::Node(node) => format!("first ran on node {node}"),
            Self::Speed(band) => {
                let ghz = |band: u64| (band * BAND_HZ) as f64 / 1e9;
                format!("{:.1} to {:.1} GHz", ghz(band), ghz(band + 1))
            }
            Self::NoSpeed => "unknown frequency".to_owned(),
            Self::Other => "other than the target".to_owned(),
        }
    }
}

/// A priority of the kernel in words.
pub(crate) fn priority(prio: i16) -> String {
    match prio {
        ..0 => "deadline".to_owned(),
        0..100 => format!("real-time {}", 99 - prio),
        _ => format!("nice {}", prio - 120),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::EventSource as _;
    use schedlab_timeline::{ask, notation, span_of};

    fn legend(text: &str, columns: u32, like: &[Entry]) -> Vec<Entry> {
        let trace = notation::parse(text).unwrap();
        let options = RowsOptions {
            window: span_of(&mut trace.source()).unwrap(),
            columns,
            colouring: Colouring::Command,
            target: None,
            cpus: None,
            topology: None,
            theme: Theme::light(),
        };
        assert!(trace.source().info().cpus.iter().count() > 0);
        ask(&mut trace.source(), Rows::new(options).like(like)).unwrap().answer.legend
    }

    const TRACE: &str = "
        0 | AAABBBAAABBBCCDDEEFFGGHHIIJJKK
        1 | LLMMNNOOPPLLMMNNOOPP..........
        A is called ua
        B is called kworker/93:1";

    #[test]
    fn who_is_not_the_target_is_in_the_legend_before_the_targets_tasks() {
        let trace = notation::parse(TRACE).unwrap();
        let options = RowsOptions {
            window: span_of(&mut trace.source()).unwrap(),
            columns: 100,
            colouring: Colouring::Pid,
            target: Some("ua".into()),
            cpus: None,
            topology: None,
            theme: Theme::light(),
        };
        let legend = ask(&mut trace.source(), Rows::new(options)).unwrap().answer.legend;
        let place = |colour| legend.iter().position(|entry| entry.colour == colour);
        let target = legend.iter().position(|entry| entry.name.starts_with("ua"));
        assert!(place(Theme::light().other) < target && target.is_some(), "{legend:?}");
    }

    #[test]
    fn commands_of_a_picture_have_colours_of_their_own() {
        for columns in [1_000, 3] {
            let legend = legend(TRACE, columns, &[]);
            assert_eq!(legend.len(), 16);
            let mut colours: Vec<Colour> = legend.iter().map(|entry| entry.colour).collect();
            colours.sort_unstable();
            colours.dedup();
            assert_eq!(colours.len(), 16, "in {columns} columns");
        }
    }

    #[test]
    fn a_name_has_its_colour_in_each_trace_of_a_picture() {
        let first = legend(TRACE, 1_000, &[]);
        let second =
            legend("0 | CCCCCBAAD\nA is called ua\nB is called kworker/93:1", 1_000, &first);
        for entry in &second {
            let same = first.iter().find(|other| other.name == entry.name).expect("in both");
            assert_eq!(entry.colour, same.colour, "{}", entry.name);
        }
    }
}
