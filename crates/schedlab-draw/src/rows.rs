//! The question behind the picture `cores`: what ran on each CPU, as boxes or as exact shades.
//!
//! A row keeps boxes as long as there are at most `BOXES_PER_COLUMN` for each column of the
//! picture; then it turns into columns, in each of which the time and the colour of everything that
//! ran there is summed up. So memory is bounded by the picture (32 bytes a column and CPU), not by
//! the trace, and nothing is sampled: a shade is the mean over all that ran.
//!
//! `schedlab_timeline::Density` tells who ran longest in a column, for the page's first picture; here a column is
//! the mean of colours, which may be those of parents or priorities, and few slices stay boxes with names.
//!
//! Resources: a switch costs an addition to one column, found by a cursor that only moves forward.

use crate::colour::{Colour, Theme, of_name, of_number};
use crate::cores::{Fill, Piece, Row};
use schedlab_model::{Cpu, CpuSet, Kind, Nanos, Pid, Span, Topology};
use schedlab_timeline::{Change, Occupant, Question, State, Switch, TaskId};
use std::collections::BTreeMap;

/// More boxes than this for each column can't be told apart by eye.
const BOXES_PER_COLUMN: usize = 2;

/// What decides the colour of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colouring {
    /// Each pid its own.
    #[default]
    Pid,
    /// The command's name.
    Command,
    /// The task that created it (where that was seen; else itself).
    Parent,
    /// Its priority.
    Priority,
    /// The NUMA node on which it was first seen to run.
    Node,
}

/// What is to be drawn.
#[derive(Clone, Debug)]
pub struct RowsOptions {
    /// The window, on the trace's clock.
    pub window: Span,
    /// Columns of the picture.
    pub columns: u32,
    /// What decides colours.
    pub colouring: Colouring,
    /// Only tasks whose name begins so have colours; all others are [`Theme::other`].
    pub target: Option<String>,
    /// Only these CPUs have rows, and count in sums; `None` is all.
    pub cpus: Option<CpuSet>,
    /// For [`Colouring::Node`].
    pub topology: Option<Topology>,
    /// For what is unknown, and for others than the target.
    pub theme: Theme,
}

/// What ran: the answer.
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
    /// The colour.
    pub colour: Colour,
    /// What has it.
    pub name: String,
    /// How long that ran, summed over CPUs.
    pub time: Nanos,
}

/// The question: what ran on each CPU.
pub struct Rows {
    options: RowsOptions,
    /// Where columns begin, and the end of the last.
    edges: Vec<u64>,
    cpus: Vec<Track>,
    /// By task number.
    tasks: Vec<Seen>,
    /// Time of which nothing is known, summed over CPUs.
    unknown: Nanos,
}

/// What was seen of a task.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    time: u64,
    /// Its colour, until it changes its name.
    colour: Option<Colour>,
    parent: Option<TaskId>,
    /// The node on which it was first seen, plus one.
    node: u32,
}

/// A row in the making.
#[derive(Debug)]
enum Track {
    Boxes(Vec<Piece>),
    Columns { sums: Vec<Sum>, cursor: usize },
}

/// What ran in a column: time, and colours weighed by time.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    time: u64,
    red: u64,
    green: u64,
    blue: u64,
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
        Self { options, edges, cpus: Vec::new(), tasks: Vec::new(), unknown: Nanos::ZERO }
    }

    fn add(&mut self, cpu: Cpu, since: Nanos, at: Nanos, who: Occupant, state: &State) {
        if !self.shows(cpu) {
            return;
        }
        let span = self.options.window.intersection(Span::new(since, at));
        let colour = match who {
            Occupant::Task(task) => {
                self.seen(task).time += span.duration().0;
                self.colour(task, cpu, state)
            }
            Occupant::Idle => return,
            Occupant::Unknown => {
                self.unknown += span.duration();
                self.options.theme.unknown
            }
        };
        if span.duration() == Nanos::ZERO {
            return;
        }
        let columns = self.edges.len() - 1;
        let most = columns * BOXES_PER_COLUMN;
        let name = who.task().map(|task| task.0);
        let track = self.track(cpu);
        if let Track::Boxes(pieces) = track {
            if pieces.len() < most {
                return pieces.push(Piece { span, colour, name });
            }
            let pieces = std::mem::take(pieces);
            *track = Track::Columns { sums: vec![Sum::default(); columns], cursor: 0 };
            for piece in pieces {
                self.shade(cpu, piece.span, piece.colour);
            }
        }
        self.shade(cpu, span, colour);
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

    fn shade(&mut self, cpu: Cpu, span: Span, colour: Colour) {
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
            sums[*cursor].add(end - start, colour);
            start = end;
        }
    }

    fn seen(&mut self, task: TaskId) -> &mut Seen {
        if self.tasks.len() <= task.index() {
            self.tasks.resize_with(task.index() + 1, Seen::default);
        }
        &mut self.tasks[task.index()]
    }

    fn colour(&mut self, task: TaskId, cpu: Cpu, state: &State) -> Colour {
        if let Some(colour) = self.seen(task).colour {
            return colour;
        }
        let node = self.options.topology.as_ref().and_then(|all| all.place(cpu));
        let node = node.map_or(1, |place| place.node + 1);
        let seen = self.seen(task);
        if seen.node == 0 {
            seen.node = node;
        }
        let colour = self.key(task, state).colour(state, &self.options.theme);
        // A priority can change at any switch.
        if self.options.colouring != Colouring::Priority {
            self.seen(task).colour = Some(colour);
        }
        colour
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
        self.unknown = Nanos::ZERO;
        for (cpu, _) in state.observed_cpus() {
            self.add(cpu, self.options.window.start, state.window().end, Occupant::Unknown, state);
        }
    }

    fn legend(&self, state: &State) -> Vec<Entry> {
        let mut sums: BTreeMap<Key, (u64, TaskId)> = BTreeMap::new();
        for (task, _) in state.tasks() {
            let time = self.tasks.get(task.index()).map_or(0, |seen| seen.time);
            if time > 0 {
                sums.entry(self.key(task, state)).or_insert((0, task)).0 += time;
            }
        }
        let entry = |(key, (time, task)): (Key, (u64, TaskId))| Entry {
            colour: key.colour(state, &self.options.theme),
            name: key.name(task, state),
            time: Nanos(time),
        };
        let mut entries: Vec<Entry> = sums.into_iter().map(entry).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.time));
        if self.unknown > Nanos::ZERO {
            let (colour, name) = (self.options.theme.unknown, "not known".to_owned());
            entries.insert(0, Entry { colour, name, time: self.unknown });
        }
        entries
    }
}

impl Question for Rows {
    type Answer = RowsAnswer;

    fn see(&mut self, change: &Change, state: &State) {
        match *change {
            Change::Switch(Switch { at, cpu, was, since, .. }) => {
                self.add(cpu, since, at, was, state);
            }
            Change::Renamed { task, .. } => self.seen(task).colour = None,
            Change::Born { task, parent, .. } => self.seen(task).parent = Some(parent),
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
        let legend = self.legend(state);
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
                let fill = track.map_or(Fill::Pieces(Vec::new()), |track| track.fill(&self.edges));
                Row { cpu, place: None, fill }
            })
            .collect();
        RowsAnswer { rows, names, legend, tasks }
    }
}

impl Track {
    fn fill(&mut self, edges: &[u64]) -> Fill {
        match self {
            Self::Boxes(pieces) => Fill::Pieces(std::mem::take(pieces)),
            Self::Columns { sums, .. } => {
                let columns = sums.iter().zip(edges.windows(2));
                Fill::Shades(columns.map(|(sum, edge)| sum.shade(edge[1] - edge[0])).collect())
            }
        }
    }
}

impl Sum {
    fn add(&mut self, time: u64, colour: Colour) {
        // A column would have to last 2 years for this to saturate.
        let weighed = |part: u8| time.saturating_mul(part.into());
        self.time = self.time.saturating_add(time);
        self.red = self.red.saturating_add(weighed(colour.r));
        self.green = self.green.saturating_add(weighed(colour.g));
        self.blue = self.blue.saturating_add(weighed(colour.b));
    }

    /// The mean colour, as opaque as the column was busy; 32 steps each, which the eye can't tell
    /// from more, so that neighbours often are the same.
    fn shade(&self, length: u64) -> Colour {
        let mean = |sum: u64, whole: u64| {
            let part = u8::try_from((sum / whole.max(1)).min(255)).expect("at most 255");
            part & 0xf8 | part >> 5
        };
        let busy = u128::from(self.time) * 255 / u128::from(length.max(1));
        let opacity = u8::try_from(busy.min(255)).expect("at most 255");
        // A column in which anything ran at all is not white.
        let opacity = if self.time > 0 { (opacity & 0xf8 | opacity >> 5).max(16) } else { 0 };
        Colour {
            r: mean(self.red, self.time),
            g: mean(self.green, self.time),
            b: mean(self.blue, self.time),
            a: opacity,
        }
    }
}

/// The colour of a pid, the same in all pictures and on the page.
#[must_use]
pub fn colour_of_pid(pid: Pid) -> Colour {
    of_number(u64::from(pid.0.unsigned_abs()))
}

/// What decides a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// Not its pid, which another task may have had before.
    Task(TaskId),
    Command([u8; 16]),
    Parent(TaskId),
    Priority(i16),
    Node(u32),
    Other,
}

impl Key {
    fn colour(self, state: &State, theme: &Theme) -> Colour {
        match self {
            Self::Task(task) | Self::Parent(task) => colour_of_pid(state.task(task).pid),
            Self::Command(name) => {
                let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
                of_name(&name[..end])
            }
            Self::Priority(prio) => of_number(u64::from(prio.unsigned_abs())),
            Self::Node(node) => of_number(node.into()),
            Self::Other => theme.other,
        }
    }

    fn name(self, task: TaskId, state: &State) -> String {
        match self {
            Self::Task(task) => format!("{}:{}", state.name(task), state.task(task).pid),
            Self::Command(_) => state.name(task),
            Self::Parent(parent) => {
                format!("children of {}:{}", state.name(parent), state.task(parent).pid)
            }
            Self::Priority(prio) => match prio {
                ..0 => "deadline".to_owned(),
                0..100 => format!("real-time {}", 99 - prio),
                _ => format!("nice {}", prio - 120),
            },
            Self::Node(node) => format!("first ran on node {node}"),
            Self::Other => "others".to_owned(),
        }
    }
}
