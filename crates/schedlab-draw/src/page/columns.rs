//! The question behind the page: every slice of a window as packed columns, the coarse picture that is
//! shown first, and the marks.
//!
//! Resources: about 8 bytes a slice before they are compressed, 16 bytes a coarse column and CPU,
//! 40 bytes a mark, of which the first 100,000 are kept.

use super::said::Said;
use crate::rows::colour_of_pid;
use schedlab_model::{Cpu, Left, Nanos, Phase, Span, TraceInfo};
use schedlab_timeline::{
    By, Cell, Change, Density, DensityAnswer, Occupant, Question, State, Switch,
};

/// Slices of a part: it is unpacked at one go, between two frames of the page.
const SLICES_PER_PART: usize = 16_384;

/// Columns of the coarse picture, over the whole window.
pub(super) const COARSE_COLUMNS: usize = 1_024;

/// Marks beyond these are counted only.
pub(super) const POINTS_MAX: usize = 100_000;

/// The question: every slice of a window, packed, up to a limit where one is set.
pub struct Columns {
    window: Span,
    cpus: Vec<Track>,
    coarse: Density,
    points: Points,
    /// Bytes that may still come; `None` once they did not suffice.
    room: Option<usize>,
}

/// The slices of one CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    /// Those that are full, and the last.
    pub(super) parts: Vec<Part>,
    pub(super) count: usize,
    end: u64,
    /// How long the task that runs now waited before, and the task that woke it.
    wait: u64,
    waker: u32,
}

/// Some slices after each other, a column for each of their numbers, as LEB128.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// Gap since the slice before, length, task, how it left, wait before it, and, where that is
    /// not 0, who woke it.
    pub(super) columns: [Vec<u8>; 6],
    pub(super) count: usize,
}

/// Marks and other tracepoints.
#[derive(Clone, Debug, Default)]
pub(super) struct Points {
    /// Names of marks by their ids, then those of tracepoints by their formats.
    pub(super) names: Vec<String>,
    marks: usize,
    pub(super) found: Vec<Point>,
    pub(super) left_out: u64,
    /// What tracepoints said, by the numbers that points carry, less 1.
    pub(super) texts: Vec<String>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) cpu: u16,
    pub(super) time: u64,
    pub(super) name: usize,
    pub(super) phase: u8,
    pub(super) task: u32,
    /// The number of what it said; 0 where that is not kept.
    pub(super) said: u32,
}

/// What a page shows.
#[derive(Clone, Debug)]
pub struct PageData {
    pub(super) window: Span,
    pub(super) cpus: Vec<(u16, Track)>,
    pub(super) coarse: DensityAnswer,
    pub(super) points: Points,
    /// Pid, name, colour.
    pub(super) tasks: Vec<(i32, String, String)>,
    whole: bool,
}

impl Columns {
    /// Asks for the slices of a window (on the trace's clock).
    #[must_use]
    pub fn new(window: Span) -> Self {
        let coarse = Density::new(window, COARSE_COLUMNS, By::Task);
        Self { window, cpus: Vec::new(), coarse, points: Points::default(), room: Some(usize::MAX) }
    }

    /// Asks for user marks and other tracepoints too, by the names that the trace gives them.
    #[must_use]
    pub fn with_marks(mut self, info: &TraceInfo) -> Self {
        let others = info.others.iter().map(|other| other.name.clone());
        self.points.names = info.marks.iter().cloned().chain(others).collect();
        self.points.marks = info.marks.len();
        self
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
        let (gap, wait) = (start - track.end, std::mem::take(&mut track.wait));
        track.end = end;
        let numbers = [gap, end - start, task.into(), code(left), wait];
        let bytes = track.push(numbers, track.waker);
        self.room = room.checked_sub(bytes);
        if self.room.is_none() {
            self.cpus.clear();
        }
    }
}

impl Track {
    /// Takes a slice; returns how many bytes it costs.
    fn push(&mut self, numbers: [u64; 5], waker: u32) -> usize {
        if self.parts.last().is_none_or(|part| part.count == SLICES_PER_PART) {
            self.parts.push(Part::default());
        }
        self.count += 1;
        let part = self.parts.last_mut().expect("just pushed");
        part.count += 1;
        let waker = (numbers[4] > 0).then_some(waker.into());
        let all = numbers.into_iter().chain(waker);
        all.zip(&mut part.columns).map(|(number, column)| leb128(column, number)).sum()
    }
}

impl Points {
    fn push(&mut self, window: Span, at: Nanos, point: Point) {
        if point.name >= self.names.len() || at < window.start || at > window.end {
            return;
        }
        if self.found.len() == POINTS_MAX {
            self.left_out += 1;
        } else {
            self.found.push(Point { time: (at - window.start).0, ..point });
        }
    }

    fn see(&mut self, window: Span, change: &Change, state: &State) {
        match *change {
            Change::Mark { at, cpu, task, id, phase, .. } => {
                let name = usize::try_from(id).unwrap_or(usize::MAX);
                let name = if name < self.marks { name } else { usize::MAX };
                let phase = match phase {
                    Phase::Begin => 0,
                    Phase::End => 1,
                    Phase::Point => 2,
                };
                self.push(
                    window,
                    at,
                    Point { cpu: cpu.0, time: 0, name, phase, task: task.0, said: 0 },
                );
            }
            Change::Other { at, cpu, format } => {
                let task = state.cpu(cpu).and_then(|known| known.occupant.task());
                let (name, task) =
                    (self.marks + usize::from(format), task.map_or(0, |task| task.0));
                self.push(window, at, Point { cpu: cpu.0, time: 0, name, phase: 2, task, said: 0 });
            }
            _ => {}
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

/// Writes a number, seven bits a byte, the low ones first; returns how many bytes it took.
pub(super) fn leb128(bytes: &mut Vec<u8>, mut number: u64) -> usize {
    let before = bytes.len();
    while number > 127 {
        bytes.push((number & 127) as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes.len() - before
}

/// A coarse column: how busy, of 255, and who ran longest; grey where that is not known.
pub(super) fn coarse(cell: &Cell) -> (u8, u32) {
    let (part, task) =
        if cell.busy >= cell.unknown { (cell.busy, cell.top) } else { (cell.unknown, 0) };
    // What was there is never rounded away.
    (((part >> 8) as u8).max(u8::from(part > 0)), task)
}

impl Question for Columns {
    type Answer = PageData;

    fn begin(&mut self, state: &State) {
        self.coarse.begin(state);
    }

    fn see(&mut self, change: &Change, state: &State) {
        self.coarse.see(change, state);
        let Change::Switch(Switch { at, cpu, was, since, left, is, wait, .. }) = *change else {
            return self.points.see(self.window, change, state);
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
        PageData {
            window: self.window,
            cpus,
            coarse: self.coarse.answer(state),
            points: self.points,
            tasks,
            whole: self.room.is_some(),
        }
    }
}

impl PageData {
    /// A page without CPUs, and one task.
    #[cfg(test)]
    pub(super) fn named(window: Span, name: &str) -> Self {
        let tasks = vec![(1, name.to_owned(), "000000".to_owned())];
        let (coarse, points) = (DensityAnswer::default(), Points::default());
        Self { window, cpus: Vec::new(), coarse, points, tasks, whole: true }
    }

    /// Shows what tracepoints said, too: those of the same pass.
    #[must_use]
    pub fn with_arguments(mut self, said: Said) -> Self {
        let (marks, start) = (self.points.marks, self.window.start);
        let mut told = said.events.iter();
        for point in self.points.found.iter_mut().filter(|point| point.name >= marks) {
            // Both stand in the order of the trace; a point of another window is none of the page's.
            let place = (Cpu(point.cpu), start + Nanos(point.time));
            let number = told.find(|(cpu, at, _)| (*cpu, *at) == place).map(|found| found.2);
            point.said = number.unwrap_or(0);
        }
        self.points.texts = said.texts;
        self
    }

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
}
