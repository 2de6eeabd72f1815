//! The picture `tasks`: a row for each task, command, process or control group, and what it did over time.
//!
//! A full bar is running, a flat one waiting for a CPU, a thin line sleep; time in which a task
//! could not be woken (`D`), was stopped, or is not known has colours of its own. Arrows go from
//! wakers to the woken. Interrupts and softirqs stand at the upper edge of the task that they
//! interrupted.
//!
//! Rows with more intervals than the picture can show hold a shade for each column and state, so that
//! the picture's size depends on its pixels.

use crate::axis::{TimeAxis, WORDS, frame, heading, legend};
use crate::colour::{Colour, Theme};
use crate::font::shorten;
use crate::scene::{Anchor, PX, Rect, Scene, Stroke, Style, at};
use crate::task_groups::{Belongs, NO_GROUP};
use schedlab_model::{Context, Cpu, Left, Nanos, OtherFormat, Span, Unit, readable};
use schedlab_timeline::{SlicesAnswer, State, TaskId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    /// The task runs on a CPU.
    Running,
    /// It could run, and waits for a CPU.
    Waiting,
    /// It sleeps and no signal can wake it (`D`).
    Blocked,
    /// A signal or a tracer stopped it.
    Stopped,
    /// The task sleeps, so it does not want a CPU.
    Sleeping,
}

impl Doing {
    /// All, those first that are shown where tasks of one row do different things.
    pub(crate) const ALL: [Self; 5] =
        [Self::Running, Self::Waiting, Self::Blocked, Self::Stopped, Self::Sleeping];

    /// What the legend says.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Running => "runs",
            Self::Waiting => "waits for a CPU",
            Self::Blocked => "uninterruptible (D)",
            Self::Stopped => "stopped",
            Self::Sleeping => "sleeps",
        }
    }

    const fn of(left: Left) -> Self {
        match left {
            Left::Blocked => Self::Blocked,
            Left::Stopped | Left::Traced => Self::Stopped,
            _ => Self::Sleeping,
        }
    }

    const fn colour(self, theme: &Theme) -> Colour {
        match self {
            Self::Running => theme.running,
            Self::Waiting => theme.waiting,
            Self::Blocked => theme.moved,
            Self::Stopped => theme.text,
            Self::Sleeping => theme.axis,
        }
    }

    /// Its upper edge and its height, in tenths of a row.
    const fn band(self) -> (i32, i32) {
        match self {
            Self::Running => (1, 8),
            Self::Waiting => (4, 5),
            Self::Blocked | Self::Stopped => (5, 3),
            Self::Sleeping => (6, 1),
        }
    }
}

/// By what rows are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    #[default]
    Task,
    /// A row for all tasks of a name.
    Command,
    /// A row for all threads of a process.
    Process,
    /// A row for all tasks of a control group.
    Group,
}

#[derive(Clone, Debug)]
pub struct Wanted {
    /// By what rows are made.
    pub by: By,
    /// What tasks belong to, for rows by process and by control group.
    pub belongs: Belongs,
    /// Only tasks whose name starts with this text.
    pub target: Option<String>,
    /// How many rows at most; those with the most time of running and waiting.
    pub rows: usize,
}

/// The row of one task, command, process or group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub name: String,
    /// What was done, in order of time, without overlaps; with the CPU where a single task ran.
    pub pieces: Vec<(Span, Doing, Option<Cpu>)>,
}

/// The picture `tasks`, with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tasks {
    /// What the picture is called.
    pub title: String,
    /// Lines under the title, such as the trace, the window and the number of events.
    pub notes: Vec<String>,
    /// What is shown, on the trace's clock.
    pub window: Span,
    /// The instant that is called zero.
    pub origin: Nanos,
    /// The rows, from top to bottom.
    pub rows: Vec<Row>,
    /// Number of rows that the picture has no room for.
    pub more_rows: usize,
    /// Wakeups: when, the waker's row (`None` where an interrupt woke it), the woken's row.
    pub wakes: Vec<(Nanos, Option<usize>, usize)>,
    /// Interrupts and softirqs on rows: whether it is a softirq, when, where.
    pub interrupts: Vec<(bool, Span, usize)>,
}

/// More arrows than this hide the rows.
const ARROWS_MAX: usize = 300;
/// Arrows whose lengths add up to more than this many heights of all rows are a curtain before them.
const ARROWS_INK: usize = 40;
/// Arrows between the same rows are at least so far apart.
const ARROWS_APART: i32 = 4 * PX;
/// Longest name of a row, in pixels.
const NAME_PX: i32 = 150;
const RIGHT_PX: i32 = 18;

/// Makes the rows from what happened; `title`, `notes` and places of time are the caller's.
#[must_use]
pub fn rows(seen: &SlicesAnswer, wanted: &Wanted, state: &State) -> Tasks {
    let lives = lives(seen);
    let shown = |task: TaskId| {
        wanted.target.as_ref().is_none_or(|target| state.name(task).starts_with(target.as_str()))
    };
    let mut groups: BTreeMap<(String, u32), Vec<TaskId>> = BTreeMap::new();
    for &task in lives.keys().filter(|task| shown(**task)) {
        let name = state.name(task);
        let key = match wanted.by {
            By::Task => (format!("{name}:{}", state.task(task).pid), task.0),
            By::Command => (name, 0),
            By::Process => {
                let process = wanted.belongs.process(state.task(task).pid);
                (wanted.belongs.process_name(process, state), process.0.cast_unsigned())
            }
            By::Group => {
                let group = wanted.belongs.group(state.task(task).pid);
                (group.unwrap_or(NO_GROUP).to_owned(), 0)
            }
        };
        groups.entry(key).or_default().push(task);
    }
    let mut made: Vec<(u64, Row, Vec<TaskId>)> = groups
        .into_iter()
        .map(|((name, _), tasks)| {
            let pieces = merged(tasks.iter().map(|task| lives[task].as_slice()));
            let active = |piece: &&(Span, Doing, Option<Cpu>)| piece.1 <= Doing::Waiting;
            let time = pieces.iter().filter(active).map(|piece| piece.0.duration().0).sum();
            (time, Row { name, pieces }, tasks)
        })
        .collect();
    // Who only sleeps is not listed, but who is stuck in another state is.
    let only_sleeps = |piece: &Piece| piece.1 == Doing::Sleeping;
    made.retain(|(_, row, _)| !row.pieces.iter().all(only_sleeps));
    made.sort_by(|a, b| (Reverse(a.0), &a.1.name).cmp(&(Reverse(b.0), &b.1.name)));
    let more_rows = made.len().saturating_sub(wanted.rows.max(1));
    made.truncate(wanted.rows.max(1));
    let row_of: BTreeMap<TaskId, usize> = (0_usize..)
        .zip(&made)
        .flat_map(|(row, made)| made.2.iter().map(move |task| (*task, row)))
        .collect();
    let wakes = seen.wakes.iter().filter_map(|wake| {
        let to = *row_of.get(&wake.task)?;
        let from = match wake.waker.context {
            Context::Task if wake.waker.task.is_some() => Some(*row_of.get(&wake.waker.task)?),
            _ => None,
        };
        Some((wake.at, from, to))
    });
    Tasks {
        title: String::new(),
        notes: Vec::new(),
        window: seen.window,
        origin: seen.window.start,
        wakes: wakes.collect(),
        interrupts: interrupts(seen, state.others(), &row_of),
        rows: made.into_iter().map(|made| made.1).collect(),
        more_rows,
    }
}

type Piece = (Span, Doing, Option<Cpu>);
type Pieces = Vec<Piece>;

/// What each task did, in order of time.
fn lives(seen: &SlicesAnswer) -> BTreeMap<TaskId, Pieces> {
    let mut lives: BTreeMap<TaskId, Pieces> = BTreeMap::new();
    let mut add = |task: TaskId, from, to, doing, cpu| {
        if task.is_some() && from < to {
            lives.entry(task).or_default().push((Span::new(from, to), doing, cpu));
        }
    };
    for slice in &seen.slices {
        add(slice.task, slice.from, slice.to, Doing::Running, Some(slice.cpu));
    }
    for wait in &seen.waits {
        add(wait.task, wait.from, wait.to, Doing::Waiting, None);
    }
    for sleep in &seen.sleeps {
        add(sleep.task, sleep.from, sleep.to, Doing::of(sleep.left), None);
    }
    for pieces in lives.values_mut() {
        pieces.sort_by_key(|(span, doing, _)| (span.start, *doing));
    }
    lives
}

/// The lives of several tasks as one: at each instant what comes first in [`Doing::ALL`].
fn merged<'a>(lives: impl Iterator<Item = &'a [(Span, Doing, Option<Cpu>)]>) -> Pieces {
    let lives: Vec<&[_]> = lives.collect();
    if let [one] = lives[..] {
        return one.to_vec();
    }
    // When how many more, or fewer, tasks do what.
    let mut edges: Vec<(Nanos, Doing, i32)> = Vec::new();
    for (span, doing, _) in lives.into_iter().flatten() {
        edges.extend([(span.start, *doing, 1), (span.end, *doing, -1)]);
    }
    edges.sort_unstable();
    let mut counts = [0_i32; Doing::ALL.len()];
    let mut pieces: Pieces = Vec::new();
    let mut since = Nanos::ZERO;
    for (at, doing, change) in edges {
        let first = Doing::ALL.into_iter().find(|doing| counts[*doing as usize] > 0);
        if let Some(first) = first.filter(|_| since < at) {
            match pieces.last_mut() {
                Some((span, last, _)) if *last == first && span.end == since => span.end = at,
                _ => pieces.push((Span::new(since, at), first, None)),
            }
        }
        counts[doing as usize] += change;
        since = at;
    }
    pieces
}

/// Interrupts as intervals: from an entry to the exit of the same kind on its CPU.
fn interrupts(
    seen: &SlicesAnswer,
    formats: &[OtherFormat],
    row_of: &BTreeMap<TaskId, usize>,
) -> Vec<(bool, Span, usize)> {
    let mut open: BTreeMap<(Cpu, bool), Nanos> = BTreeMap::new();
    let mut found: Vec<(bool, Span, Cpu)> = Vec::new();
    for &(at, cpu, format) in &seen.others {
        let name = formats.get(usize::from(format)).map_or("", |format| format.name.as_str());
        let (soft, entry) = match name {
            "irq_handler_entry" => (false, true),
            "irq_handler_exit" => (false, false),
            "softirq_entry" => (true, true),
            "softirq_exit" => (true, false),
            _ => continue,
        };
        if entry {
            open.insert((cpu, soft), at);
        } else if let Some(since) = open.remove(&(cpu, soft)) {
            found.push((soft, Span::new(since, at), cpu));
        }
    }
    let mut slices: BTreeMap<Cpu, Vec<(Span, TaskId)>> = BTreeMap::new();
    for slice in &seen.slices {
        let span = Span::new(slice.from, slice.to);
        slices.entry(slice.cpu).or_default().push((span, slice.task));
    }
    let row = |cpu: Cpu, at: Nanos| {
        let here = slices.get(&cpu)?;
        let (span, task) = here.get(here.partition_point(|(span, _)| span.end <= at))?;
        row_of.get(task).copied().filter(|_| span.start <= at)
    };
    let placed =
        found.into_iter().filter_map(|(soft, span, cpu)| Some((soft, span, row(cpu, span.start)?)));
    placed.collect()
}

impl Tasks {
    /// Draws it, `width_px` pixels wide.
    #[must_use]
    pub fn scene(&self, width_px: i32, theme: &Theme) -> Scene {
        let mut scene = Scene::new(width_px * PX, 0, &self.title, theme.ground);
        let y = heading(&mut scene, theme, 0, &self.title, &self.notes);
        let count = i32::try_from(self.rows.len().max(1)).unwrap_or(i32::MAX);
        let row = (900 / count).clamp(12, 26) * PX;
        let style = Style::regular(11, theme.muted);
        let widest = self.rows.iter().map(|row| style.width(&row.name)).max().unwrap_or(0);
        let left = widest.min(NAME_PX.min(width_px / 3) * PX) + 14 * PX;
        let width = ((width_px - RIGHT_PX) * PX - left).max(PX);
        let plot = Rect::new(left, y, width, row * count);
        let axis = TimeAxis { window: self.window, origin: self.origin, x: left, width };
        scene.rect(theme.panel, plot);
        axis.draw(&mut scene, plot, theme, "the trace began");
        for (index, of) in self.rows.iter().enumerate() {
            let y = plot.y + row * i32::try_from(index).unwrap_or(0);
            let name = shorten(&of.name, style.size, style.weight, left - 12 * PX);
            scene.text(at(left - 6 * PX, y + row / 2 + 4 * PX), Anchor::End, style, &name);
            Drawing { axis, plot, y, row, theme }.draw(&mut scene, of);
        }
        self.separators(&mut scene, plot, row, theme);
        self.interruptions(&mut scene, &axis, plot, row, theme);
        let left_out = self.arrows(&mut scene, &axis, plot, row, theme);
        for (index, of) in self.rows.iter().enumerate() {
            let y = plot.y + row * i32::try_from(index).unwrap_or(0);
            Drawing { axis, plot, y, row, theme }.cpus(&mut scene, of);
        }
        if self.rows.is_empty() {
            let middle = at(plot.x + plot.w / 2, plot.y + plot.h / 2 + 4 * PX);
            scene.text(middle, Anchor::Middle, style, "No task logged an event in this window");
        }
        frame(&mut scene, theme, plot);
        let corner = at(16 * PX, plot.bottom() + 46 * PX);
        let entries = self.entries(theme, left_out);
        let room = scene.width - 32 * PX;
        scene.height = legend(&mut scene, theme, corner, room, &entries) + 8 * PX;
        scene
    }

    fn separators(&self, scene: &mut Scene, plot: Rect, row: i32, theme: &Theme) {
        let line = |index| {
            let y = plot.y + row * index;
            (at(plot.x, y), at(plot.right(), y))
        };
        let count = i32::try_from(self.rows.len()).unwrap_or(i32::MAX);
        scene.lines(Stroke::solid(theme.grid, PX / 2), (1..count).map(line).collect());
    }

    fn interruptions(
        &self,
        scene: &mut Scene,
        axis: &TimeAxis,
        plot: Rect,
        row: i32,
        theme: &Theme,
    ) {
        for soft in [false, true] {
            let here = self.interrupts.iter().filter(|interrupt| interrupt.0 == soft);
            let mut bars: Vec<Rect> = here
                .map(|(_, span, index)| {
                    let x = axis.place(span.start);
                    let y = plot.y + row * i32::try_from(*index).unwrap_or(0) + row / 10;
                    Rect::new(x, y, (axis.place(span.end) - x).max(PX / 2), row / 4)
                })
                .collect();
            bars.sort_by_key(|bar| (bar.y, bar.x));
            bars.dedup_by_key(|bar| (bar.y, bar.x / (PX / 2)));
            scene.labelled(if soft { "softirq" } else { "interrupt" }, |scene| {
                scene.rects(theme.events[usize::from(soft)], bars);
            });
        }
    }

    /// Draws the wakeups; returns how many it left out.
    fn arrows(
        &self,
        scene: &mut Scene,
        axis: &TimeAxis,
        plot: Rect,
        row: i32,
        theme: &Theme,
    ) -> usize {
        let middle = |index: usize| plot.y + row * i32::try_from(index).unwrap_or(0) + row / 2;
        let between = self.wakes.iter().filter(|(_, from, to)| *from != Some(*to));
        let mut shown = apart_by(between.clone(), axis, ARROWS_APART);
        shown.sort_by_key(|wake| wake.0);
        let rows = |&(_, from, to): &Wake| from.map_or(1, |from| from.abs_diff(to));
        let most = ARROWS_INK * self.rows.len();
        let ink = shown.iter().map(rows).sum::<usize>();
        // Every n-th stays: what is left is spread over the whole window as all of them are.
        let every = shown.len().div_ceil(ARROWS_MAX).max(ink.div_ceil(most.max(1))).max(1);
        let shown: Vec<Wake> = shown.into_iter().step_by(every).collect();
        let mut lines = Vec::new();
        let mut heads = Vec::new();
        for &(time, from, to) in &shown {
            let x = axis.place(time);
            let end = middle(to);
            let start = from.map_or(end - row * 4 / 10, middle);
            let back = if end > start { -4 * PX } else { 4 * PX };
            lines.push((at(x, start), at(x, end)));
            heads.push([at(x, end), at(x - 2 * PX, end + back), at(x + 2 * PX, end + back)]);
        }
        scene.labelled("wakeups", |scene| {
            scene.lines(Stroke::solid(theme.text.fade(190), PX * 6 / 10), lines);
            for corners in heads {
                scene.area(theme.text, &corners);
            }
        });
        between.count() - shown.len()
    }

    fn entries(&self, theme: &Theme, left_out: usize) -> Vec<(Colour, String)> {
        let has = |doing: &Doing| {
            self.rows.iter().any(|row| row.pieces.iter().any(|piece| piece.1 == *doing))
        };
        let mut entries: Vec<(Colour, String)> = Doing::ALL
            .into_iter()
            .filter(has)
            .map(|doing| (doing.colour(theme), doing.name().to_owned()))
            .collect();
        for (soft, name) in [(false, "interrupt"), (true, "softirq")] {
            if self.interrupts.iter().any(|interrupt| interrupt.0 == soft) {
                entries.push((theme.events[usize::from(soft)], name.to_owned()));
            }
        }
        if !self.wakes.is_empty() {
            entries.push((theme.text, "wakeup, from the waker; short: by an interrupt".to_owned()));
        }
        entries.push((WORDS, "blank: not known".to_owned()));
        if left_out > 0 {
            let what = "wakeups beside those drawn are left out";
            entries.push((WORDS, format!("{} {what}", readable(left_out as f64, Unit::Count))));
        }
        if self.more_rows > 0 {
            entries.push((WORDS, format!("and {} more rows", self.more_rows)));
        }
        entries
    }
}

/// A wakeup: when, the waker's row, the woken's row.
type Wake = (Nanos, Option<usize>, usize);

/// The wakeups, without those that lie closer than `apart` behind one between the same rows.
fn apart_by<'a>(wakes: impl Iterator<Item = &'a Wake>, axis: &TimeAxis, apart: i32) -> Vec<Wake> {
    let mut last: BTreeMap<(Option<usize>, usize), i32> = BTreeMap::new();
    let is_apart = |&&(time, from, to): &&Wake| {
        let x = axis.place(time);
        let free = last.get(&(from, to)).is_none_or(|before| x - before >= apart);
        if free {
            last.insert((from, to), x);
        }
        free
    };
    wakes.filter(is_apart).copied().collect()
}

/// A row while it is being drawn.
struct Drawing<'a> {
    axis: TimeAxis,
    plot: Rect,
    y: i32,
    row: i32,
    theme: &'a Theme,
}

impl Drawing<'_> {
    fn draw(&self, scene: &mut Scene, row: &Row) {
        if self.has_shades(row) {
            return self.shades(scene, row, self.columns());
        }
        for doing in Doing::ALL.into_iter().rev() {
            let here = row.pieces.iter().filter(|piece| piece.1 == doing);
            let rects = here.clone().map(|(span, ..)| {
                let x = self.axis.place(span.start);
                // Running is seen, however short.
                let least = if doing == Doing::Running { PX / 2 } else { PX / 10 };
                self.rect(doing, x, (self.axis.place(span.end) - x).max(least))
            });
            scene.rects(doing.colour(self.theme), rects.collect());
        }
        // Where a task goes on without a pause, a line tells the slices apart.
        let follows = |two: &&[Piece]| {
            two[0].1 == Doing::Running
                && two[1].1 == Doing::Running
                && two[0].0.end == two[1].0.start
        };
        let edges = row.pieces.windows(2).filter(follows).map(|two| {
            let x = self.axis.place(two[1].0.start);
            let whole = self.rect(Doing::Running, 0, 1);
            (at(x, whole.y), at(x, whole.bottom()))
        });
        scene.lines(Stroke::solid(self.theme.panel, PX * 8 / 10), edges.collect());
    }

    /// On which CPUs a task ran, where there is room; on plates, so that no arrow crosses the words.
    fn cpus(&self, scene: &mut Scene, row: &Row) {
        if self.has_shades(row) {
            return;
        }
        let colour = Doing::Running.colour(self.theme);
        let style = Style::regular(10, colour.ink());
        for (span, _, cpu) in row.pieces.iter().filter(|piece| piece.1 == Doing::Running) {
            let Some(cpu) = cpu else { continue };
            let x = self.axis.place(span.start);
            let name = format!("CPU {cpu}");
            let width = style.width(&name);
            if self.axis.place(span.end) - x > width + 11 * PX {
                let base = self.y + self.row / 2 + 4 * PX;
                scene.rect(colour, Rect::new(x + 5 * PX, base - 9 * PX, width + 4 * PX, 11 * PX));
                scene.text(at(x + 7 * PX, base), Anchor::Start, style, &name);
            }
        }
    }

    fn has_shades(&self, row: &Row) -> bool {
        row.pieces.len() > 2 * self.columns()
    }

    fn columns(&self) -> usize {
        usize::try_from(self.plot.w / PX).unwrap_or(1).max(1)
    }

    fn rect(&self, doing: Doing, x: i32, w: i32) -> Rect {
        let (top, height) = doing.band();
        Rect::new(x, self.y + self.row * top / 10, w, (self.row * height / 10).max(PX / 2))
    }

    /// For each column and state a box, as opaque as the state filled the column.
    fn shades(&self, scene: &mut Scene, row: &Row, columns: usize) {
        let mut boxes: BTreeMap<Colour, Vec<Rect>> = BTreeMap::new();
        let length = self.axis.window.duration().0.max(1);
        let edge = |column: usize| {
            let inside = u128::from(length) * column as u128 / columns as u128;
            self.axis.window.start.0 + u64::try_from(inside).expect("inside of the window")
        };
        let mut next = 0;
        for column in 0..columns {
            let from = edge(column);
            let to = edge(column + 1);
            let mut sums = [0_u64; Doing::ALL.len()];
            while let Some((span, doing, _)) = row.pieces.get(next) {
                if span.start.0 >= to {
                    break;
                }
                sums[*doing as usize] += span.end.0.min(to).saturating_sub(span.start.0.max(from));
                if span.end.0 > to {
                    break;
                }
                next += 1;
            }
            let x = self.axis.place(Nanos(from));
            let w = self.axis.place(Nanos(to)) - x;
            for doing in Doing::ALL.into_iter().rev().filter(|doing| sums[*doing as usize] > 0) {
                let share = u128::from(sums[doing as usize]) * 255 / u128::from((to - from).max(1));
                let share = (u8::try_from(share.min(255)).expect("at most 255") & 0xf8).max(32);
                boxes
                    .entry(doing.colour(self.theme).fade(share))
                    .or_default()
                    .push(self.rect(doing, x, w));
            }
        }
        for (colour, rects) in boxes {
            scene.rects(colour, rects);
        }
    }
}
