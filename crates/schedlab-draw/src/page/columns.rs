//! The question behind the page: every slice of a window as packed columns, the coarse picture that is
//! shown first, and the marks.
//!
//! Resources: about 8 bytes a slice before they are compressed, 16 bytes a coarse column and CPU,
//! 40 bytes a mark, of which the first 100,000 are kept. Where the slices take too much, they become columns in the same pass:
//! 16 bytes each, 8 million of them.

use super::POINTS_MAX;
use super::arguments::Said;
use crate::assign::{Touching, assign};
use crate::colour::Theme;
use crate::levels::Levels;
use crate::task_groups::Belongs;
use crate::waiting::Level;
use schedlab_model::{Cpu, Left, Nanos, Phase, Pid, Span, TraceInfo};
use schedlab_timeline::{
    By, Causes, CausesAnswer, Cell, Change, Checked, Density, DensityAnswer, ExplainedWait,
    Occupant, OffCpuAnswer, OnCpuAnswer, Parts, Power, PowerAnswer, Question, RequestSpansAnswer,
    STACK, State, Switch, TaskId, WaitCause,
};
use std::collections::BTreeMap;

/// Slices of a part: it is unpacked at one go, between two frames of the page.
const SLICES_PER_PART: usize = 16_384;

/// Columns of the coarse picture, over the whole window.
pub(super) const COARSE_COLUMNS: usize = 1_024;

/// Columns of the curve of running and waiting tasks, where there are no slices.
const LEVELS: u32 = 1 << 16;

/// What is kept of who ran.
enum Detail {
    /// Slices, and the bytes that may still come.
    Slices { room: usize },
    /// Columns in their place.
    Columns(Density),
    /// There were too many slices.
    Nothing,
}

/// The question: every slice of a window, packed, up to a limit where one is set.
pub struct Columns {
    window: Span,
    cpus: Vec<Track>,
    coarse: Density,
    points: Points,
    /// By task: how long it ran, and who created it.
    ran: Vec<(u64, TaskId)>,
    touching: Touching,
    causes: Option<Causes>,
    kept: Detail,
    /// How many tasks run and wait, for columns in place of slices.
    levels: Option<Levels>,
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
    /// Why it waited, and on whose queue it stood longest; `None` if nobody asked.
    why: Option<(Parts, Option<Cpu>)>,
}

/// Some slices after each other, a column for each of their numbers, as LEB128.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// Gap since the slice before, length, task, how it left, wait before it, and, where that is
    /// not 0, who woke it and why it waited ([`put_why`]).
    pub(super) columns: [Vec<u8>; 7],
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
    /// Whether [`PageData::with_power`] shows some of them.
    with_power: bool,
}

/// One point of the page, such as a wakeup or a mark.
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

#[derive(Clone, Debug)]
pub struct PageData {
    pub(super) window: Span,
    pub(super) cpus: Vec<(u16, Track)>,
    pub(super) coarse: DensityAnswer,
    pub(super) points: Points,
    pub(super) tasks: Vec<TaskHead>,
    /// Names of processes and of control groups, by the numbers that tasks carry; empty where the trace tells none.
    pub(super) processes: Vec<String>,
    pub(super) groups: Vec<String>,
    /// Frequencies, idle states and interrupts of CPUs.
    pub(super) power: PowerAnswer,
    /// Sleeps with their stacks.
    pub(super) sleeps: OffCpuAnswer,
    /// Ticks with the stacks of the tasks that they met.
    pub(super) ran_in: OnCpuAnswer,
    /// When requests were.
    pub(super) requests: RequestSpansAnswer,
    /// What stands for the slices of a trace that is too large for them.
    pub(super) fine: Option<(DensityAnswer, Vec<Level>)>,
    /// Why tasks waited, in lines for people, and the worst wait.
    pub(super) answer: Option<(String, Option<(TaskId, Span)>)>,
    /// Waits that had not ended.
    pub(super) open: Vec<ExplainedWait>,
    /// By how much run time and waiting of tasks are off, where the kernel counted otherwise.
    pub(super) off: Vec<(TaskId, [Nanos; 2])>,
    causes: Option<CausesAnswer>,
    whole: bool,
    /// By task: how long it ran, and who created it.
    ran: Vec<(u64, TaskId)>,
    touching: Touching,
}

#[derive(Clone, Debug, Default)]
pub(super) struct TaskHead {
    pub(super) pid: i32,
    pub(super) name: String,
    /// Who created it; 0 where that was not seen.
    pub(super) parent: u32,
    pub(super) prio: i16,
    /// The number of its process and of its control group; 0 where that is not known.
    pub(super) process: usize,
    pub(super) group: usize,
    /// The place in the palette of its colour by task, command, parent, priority, process and group.
    pub(super) colours: [usize; RULES],
}

/// What can decide a task's colour.
const RULES: usize = 6;

impl Columns {
    /// Asks for the slices of a window (on the trace's clock).
    #[must_use]
    pub fn new(window: Span) -> Self {
        let coarse = Density::new(window, COARSE_COLUMNS, By::Task);
        let cpus = Vec::new();
        let ran = Vec::new();
        let points = Points::default();
        Self {
            window,
            cpus,
            coarse,
            points,
            ran,
            touching: Touching::new(),
            causes: None,
            kept: Detail::Slices { room: usize::MAX },
            levels: None,
        }
    }

    /// Tells of each wait why it was, in the same pass.
    #[must_use]
    pub fn with_causes(self, causes: Causes) -> Self {
        Self { causes: Some(causes), ..self }
    }

    fn ran(&mut self, task: TaskId) -> &mut (u64, TaskId) {
        if self.ran.len() <= task.index() {
            self.ran.resize(task.index() + 1, (0, TaskId::NONE));
        }
        &mut self.ran[task.index()]
    }

    /// What the page says of each task, those before the first included.
    fn tasks(&self, state: &State) -> Vec<TaskHead> {
        let of = |task: TaskId| self.ran.get(task.index()).copied().unwrap_or((0, TaskId::NONE));
        let mut names: BTreeMap<String, u32> = BTreeMap::new();
        let mut heads = vec![TaskHead::default()];
        // Groups by command, parent and priority; those by task are the tasks.
        let mut groups = [const { Vec::new() }; 4];
        for groups in &mut groups {
            groups.push(0_u32);
        }
        for (task, known) in state.tasks() {
            let name = state.name(task);
            let next = u32::try_from(names.len()).unwrap_or(u32::MAX) + 1;
            let command = *names.entry(name.clone()).or_insert(next);
            let parent = of(task).1;
            let prio = u32::try_from(i32::from(known.prio.0) + 32_768).unwrap_or(0);
            let parents = if parent.is_some() { parent } else { task };
            for (groups, group) in groups.iter_mut().zip([task.0, command, parents.0, prio]) {
                groups.push(group);
            }
            let pid = known.pid.0;
            let prio = known.prio.0;
            heads.push(TaskHead { pid, name, parent: parent.0, prio, ..TaskHead::default() });
        }
        for (rule, groups) in groups.iter().enumerate() {
            let colours = colours(groups, &self.ran, &self.touching);
            for (head, colour) in heads.iter_mut().zip(colours).skip(1) {
                head.colours[rule] = colour;
            }
        }
        heads
    }

    /// Asks for user marks and other tracepoints too, by the names that the trace gives them.
    #[must_use]
    pub fn with_marks(mut self, info: &TraceInfo) -> Self {
        let others = info.others.iter().map(|other| other.name.clone());
        self.points.names = info.marks.iter().cloned().chain(others).collect();
        self.points.marks = info.marks.len();
        self
    }

    /// Leaves out the tracepoints that [`PageData::with_power`] shows.
    #[must_use]
    pub const fn without_power(mut self) -> Self {
        self.points.with_power = true;
        self
    }

    /// Gives up, and frees what was kept, once the slices take more than `bytes` bytes before
    /// compression; [`PageData::is_whole`] then says so.
    #[must_use]
    pub fn at_most(self, bytes: usize) -> Self {
        Self { kept: Detail::Slices { room: bytes }, ..self }
    }

    /// Turns to columns where slices take more than that: who ran longest in each and how busy it was.
    #[must_use]
    pub fn or_columns(self) -> Self {
        let levels = Levels::new(self.window, LEVELS, Vec::new());
        Self { levels: Some(levels), ..self }
    }

    fn track(&mut self, cpu: usize) -> &mut Track {
        if self.cpus.len() <= cpu {
            self.cpus.resize_with(cpu + 1, Track::default);
        }
        &mut self.cpus[cpu]
    }

    fn add(&mut self, cpu: usize, since: Nanos, at: Nanos, who: Occupant, left: Option<Left>) {
        let window = self.window;
        let span = window.intersection(Span::new(since, at));
        if let Occupant::Task(task) = who
            && span.start < span.end
        {
            self.ran(task).0 += span.duration().0;
            self.touching.see(Cpu(u16::try_from(cpu).unwrap_or(u16::MAX)), span, task.0);
        }
        let task = match who {
            Occupant::Idle => return,
            Occupant::Task(task) => task.0,
            Occupant::Unknown => 0,
        };
        match &mut self.kept {
            Detail::Slices { .. } => {}
            Detail::Columns(columns) => {
                let cpu = Cpu(u16::try_from(cpu).unwrap_or(u16::MAX));
                return columns.add(cpu, span, Some(task).filter(|task| *task > 0));
            }
            Detail::Nothing => return,
        }
        let track = self.track(cpu);
        let start = (span.start - window.start).0.max(track.end);
        let end = (span.end - window.start).0;
        if end <= start {
            return;
        }
        let gap = start - track.end;
        let wait = std::mem::take(&mut track.wait);
        track.end = end;
        let numbers = [gap, end - start, task.into(), code(left), wait];
        let why = track.why.take();
        let bytes = track.push(numbers, track.waker, why.as_ref(), Cpu(cpu as u16));
        if let Detail::Slices { room } = &mut self.kept {
            *room = room.saturating_sub(bytes);
        }
    }

    /// Columns, where they are wanted, take over what the slices tell.
    fn give_up(&mut self, state: &State) {
        let tracks = std::mem::take(&mut self.cpus);
        self.kept = Detail::Nothing;
        if self.levels.is_none() {
            return;
        }
        // None is shorter than a nanosecond.
        let most = usize::try_from(self.window.duration().0).unwrap_or(usize::MAX);
        let columns = PageData::columns_of(state.cpus().len()).min(most.max(1));
        let mut columns = Density::new(self.window, columns, By::Task);
        for (cpu, track) in (0..).zip(&tracks) {
            for (span, task) in track.slices(self.window.start) {
                columns.add(Cpu(cpu), span, Some(task).filter(|task| *task > 0));
            }
        }
        self.kept = Detail::Columns(columns);
    }
}

/// The colour of each task whose group has this number, by how long tasks ran and who touches whom.
fn colours(groups: &[u32], ran: &[(u64, TaskId)], touching: &Touching) -> Vec<usize> {
    let mut dense: BTreeMap<u32, u32> = BTreeMap::new();
    for (&group, next) in groups.iter().zip(0..) {
        dense.entry(group).or_insert(next);
    }
    // Numbers without holes, in the order of the groups.
    for (place, next) in dense.values_mut().zip(0..) {
        *place = next;
    }
    let place = |task: u32| {
        let group = groups.get(task as usize).copied().unwrap_or(0);
        dense.get(&group).copied().unwrap_or(0)
    };
    let mut times = vec![0_u64; dense.len()];
    for (task, (time, _)) in (0_u32..).zip(ran) {
        times[place(task) as usize] += time;
    }
    let colours = Theme::light().tasks.len();
    let given = assign(&times, &touching.pairs(place), &BTreeMap::new(), colours);
    (0..groups.len() as u32).map(|task| given[place(task) as usize]).collect()
}

impl Track {
    /// Takes a slice; returns how many bytes it costs.
    fn push(
        &mut self,
        numbers: [u64; 5],
        waker: u32,
        why: Option<&(Parts, Option<Cpu>)>,
        cpu: Cpu,
    ) -> usize {
        if self.parts.last().is_none_or(|part| part.count == SLICES_PER_PART) {
            self.parts.push(Part::default());
        }
        self.count += 1;
        let part = self.parts.last_mut().expect("just pushed");
        part.count += 1;
        let [.., wakers, whys] = &mut part.columns;
        let mut bytes = 0;
        if numbers[4] > 0 {
            bytes += leb128(wakers, waker.into());
            bytes += put_why(whys, numbers[4], why, cpu);
        }
        let all = numbers.into_iter().zip(&mut part.columns);
        bytes + all.map(|(number, column)| leb128(column, number)).sum::<usize>()
    }

    /// When each slice was, and whose; 0 is not known.
    fn slices(&self, start: Nanos) -> impl Iterator<Item = (Span, u32)> {
        let numbers = self.parts.iter().flat_map(|part| {
            let [gaps, lengths, tasks, ..] = &part.columns;
            numbers(gaps).zip(numbers(lengths)).zip(numbers(tasks))
        });
        numbers.scan(start, |end, ((gap, length), task)| {
            let from = *end + Nanos(gap);
            *end = from + Nanos(length);
            Some((Span::new(from, *end), u32::try_from(task).unwrap_or(0)))
        })
    }
}

/// Set where a task ran on another CPU than it had waited on; that CPU follows.
const ELSEWHERE: u64 = 64;
/// Several causes: so many more follow, each with its time. The first one has what the others leave of the wait.
const SEVERAL: u64 = 16;
/// The first one has less: its time follows, too.
const IN_PART: u64 = 32;

/// Writes why a wait was: 0 if nobody asked, the number of its one cause from 1 on, or [`SEVERAL`] and how many there
/// are, then each with its time. Nothing is allocated: this happens for each wait.
fn put_why(bytes: &mut Vec<u8>, wait: u64, why: Option<&(Parts, Option<Cpu>)>, cpu: Cpu) -> usize {
    let before = bytes.len();
    let Some((parts, queue)) = why else { return leb128(bytes, 0) };
    let queue = queue.filter(|queue| *queue != cpu);
    let elsewhere = if queue.is_some() { ELSEWHERE } else { 0 };
    let times = WaitCause::ALL.map(|cause| parts.of(cause).0);
    let count = times.iter().filter(|time| **time > 0).count() as u64;
    let largest = (0..times.len()).max_by_key(|place| (times[*place], times.len() - place));
    let largest = largest.unwrap_or(0);
    let in_part = times.iter().sum::<u64>() != wait;
    match count {
        1 if !in_part => {
            leb128(bytes, elsewhere + number_of(WaitCause::ALL[largest]));
        }
        _ => {
            let flags = if in_part { elsewhere + IN_PART } else { elsewhere };
            leb128(bytes, flags + SEVERAL + count);
            if count > 0 {
                leb128(bytes, number_of(WaitCause::ALL[largest]));
            }
            if in_part && count > 0 {
                leb128(bytes, times[largest]);
            }
            for (place, time) in times.into_iter().enumerate() {
                if place != largest && time > 0 {
                    leb128(bytes, number_of(WaitCause::ALL[place]));
                    leb128(bytes, time);
                }
            }
        }
    }
    if let Some(queue) = queue {
        leb128(bytes, queue.0.into());
    }
    bytes.len() - before
}

/// The number of a cause in the page: its place in [`WaitCause::ALL`], from 1 on.
pub(super) const fn number_of(cause: WaitCause) -> u64 {
    cause as u64 + 1
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

    /// Whether a tracepoint is shown by itself: those of frequencies, idle states, IPIs and timers make intervals.
    fn shows(&self, format: u16, state: &State) -> bool {
        let format = state.others().get(usize::from(format));
        format.is_none_or(|one| {
            // Stacks belong to switches, which the rows show.
            let is_power = self.with_power && Power::knows(std::slice::from_ref(one));
            one.name != STACK && !is_power
        })
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
            Change::Other { at, cpu, format } if self.shows(format, state) => {
                let task = state.cpu(cpu).and_then(|known| known.occupant.task());
                let name = self.marks + usize::from(format);
                let task = task.map_or(0, |task| task.0);
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
        Some(Left::Displaced) => 2,
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

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let ends = bytes.chunk_by(|byte, _| *byte > 127);
    ends.map(|one| one.iter().rev().fold(0, |sum, byte| sum << 7 | u64::from(byte & 127)))
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
        self.causes.begin(state);
        self.levels.begin(state);
    }

    fn see(&mut self, change: &Change, state: &State) {
        self.coarse.see(change, state);
        self.causes.see(change, state);
        self.levels.see(change, state);
        if let Change::Born { task, parent, .. } = *change {
            self.ran(task).1 = parent;
        }
        let Change::Switch(Switch { at, cpu, was, since, left, is, wait, .. }) = *change else {
            return self.points.see(self.window, change, state);
        };
        self.add(cpu.index(), since, at, was, left);
        if matches!(self.kept, Detail::Slices { room: 0 }) {
            self.give_up(state);
        }
        // Columns do not tell why tasks waited.
        if !matches!(self.kept, Detail::Slices { .. }) {
            return;
        }
        let waker = is.task().filter(|_| wait.is_some_and(|wait| wait.why.is_wakeup()));
        let waker = waker.map_or(0, |task| state.task(task).waker.0);
        let mut ended = self.causes.iter().flat_map(Causes::ended);
        let ended = ended.find(|wait| Some(wait.task) == is.task()).cloned();
        let track = self.track(cpu.index());
        track.wait = wait.map_or(0, |wait| (at - wait.since).0);
        track.waker = waker;
        track.why = ended.map(|wait| (wait.parts, wait.cpu));
    }

    fn answer(mut self, state: &State) -> PageData {
        let (whole, fine) = match std::mem::replace(&mut self.kept, Detail::Nothing) {
            // The last slices are still to come.
            slices @ Detail::Slices { .. } => {
                self.kept = slices;
                (true, None)
            }
            // They end the last one of each CPU themselves.
            Detail::Columns(columns) => {
                let levels = self.levels.take().answer(state).into_iter().flatten().next();
                let levels = levels.map_or_else(Vec::new, |all| all.levels);
                (false, Some((columns.answer(state), levels)))
            }
            Detail::Nothing => (false, None),
        };
        for (cpu, known) in state.observed_cpus() {
            self.add(cpu.index(), known.since, state.window().end, known.occupant, None);
        }
        let tasks = self.tasks(state);
        let cpus = state
            .observed_cpus()
            .map(|(cpu, _)| (cpu.0, std::mem::take(self.track(cpu.index()))))
            .collect();
        let mut causes = self.causes.answer(state);
        let open = causes.as_mut().map(|causes| std::mem::take(&mut causes.open));
        PageData {
            window: self.window,
            cpus,
            coarse: self.coarse.answer(state),
            points: self.points,
            tasks,
            processes: Vec::new(),
            groups: Vec::new(),
            power: PowerAnswer::default(),
            sleeps: OffCpuAnswer::default(),
            ran_in: OnCpuAnswer::default(),
            requests: RequestSpansAnswer::default(),
            fine,
            answer: None,
            off: Vec::new(),
            open: open.unwrap_or_default(),
            causes,
            whole,
            ran: self.ran,
            touching: self.touching,
        }
    }
}

impl PageData {
    /// A page without CPUs, and one task.
    #[cfg(test)]
    pub(super) fn named(window: Span, name: &str) -> Self {
        let tasks = vec![TaskHead { pid: 1, name: name.to_owned(), ..TaskHead::default() }];
        let coarse = DensityAnswer::default();
        let points = Points::default();
        Self {
            window,
            cpus: Vec::new(),
            coarse,
            points,
            tasks,
            processes: Vec::new(),
            groups: Vec::new(),
            power: PowerAnswer::default(),
            sleeps: OffCpuAnswer::default(),
            ran_in: OnCpuAnswer::default(),
            requests: RequestSpansAnswer::default(),
            fine: None,
            answer: None,
            off: Vec::new(),
            open: Vec::new(),
            causes: None,
            whole: true,
            ran: Vec::new(),
            touching: Touching::new(),
        }
    }

    /// Lets rows and colours be by process and by control group, as far as the trace tells them. `state` is the one of
    /// the same pass.
    #[must_use]
    pub fn with_owners(mut self, belongs: &Belongs, state: &State) -> Self {
        let mut pids = vec![None];
        pids.extend(state.tasks().map(|(_, task)| Some(task.pid)));
        if belongs.knows_processes() {
            let process = |pid: Pid| belongs.process(pid);
            let (numbers, all) = numbered(pids.iter().map(|pid| pid.map(process)));
            self.processes = all.iter().map(|one| belongs.process_name(*one, state)).collect();
            self.own(4, &numbers, |head, number| head.process = number);
        }
        if belongs.knows_groups() {
            let group = |pid: Pid| belongs.group(pid);
            let (numbers, all) = numbered(pids.iter().map(|pid| pid.and_then(group)));
            self.groups = all.iter().map(|one| (*one).to_owned()).collect();
            self.own(5, &numbers, |head, number| head.group = number);
        }
        self
    }

    /// Gives each task its number and the colour of its number by a rule.
    fn own(&mut self, rule: usize, numbers: &[u32], set: fn(&mut TaskHead, usize)) {
        let colours = colours(numbers, &self.ran, &self.touching);
        for ((head, number), colour) in self.tasks.iter_mut().zip(numbers).zip(colours) {
            set(head, *number as usize);
            head.colours[rule] = colour;
        }
    }

    /// Shows flame graphs of the sleeps that the answer holds one by one, if any has a stack.
    #[must_use]
    pub fn with_sleeps(mut self, answer: OffCpuAnswer) -> Self {
        if answer.sleeps.found.iter().any(|sleep| sleep.stack.is_some()) {
            self.sleeps = answer;
        }
        self
    }

    /// Shows flame graphs of where tasks ran, of the ticks that the answer holds one by one.
    #[must_use]
    pub fn with_ticks(mut self, answer: OnCpuAnswer) -> Self {
        self.ran_in = answer;
        self
    }

    /// Shows rows of requests.
    #[must_use]
    pub fn with_requests(mut self, answer: RequestSpansAnswer) -> Self {
        self.requests = answer;
        self
    }

    /// Shows frequencies, idle states and interrupts between and within CPUs: those of the same window.
    #[must_use]
    pub fn with_power(mut self, power: PowerAnswer) -> Self {
        self.power = power;
        self
    }

    /// Hands out why tasks waited, if [`Columns::with_causes`] asked for it.
    #[must_use]
    pub const fn take_causes(&mut self) -> Option<CausesAnswer> {
        self.causes.take()
    }

    /// Shows first why tasks waited, and begins at the worst wait.
    #[must_use]
    pub fn with_answer(mut self, text: String, worst: Option<(TaskId, Span)>) -> Self {
        self.answer = Some((text, worst));
        self
    }

    /// Marks sums over the whole trace with ± where the kernel counted otherwise.
    #[must_use]
    pub fn with_deviations(mut self, checked: &[Checked]) -> Self {
        let of = |one: &Checked| {
            let off = [one.ran_off(), one.waited_off().unwrap_or_default()];
            one.task.filter(|_| one.is_off).map(|task| (task, off))
        };
        self.off = checked.iter().filter_map(of).collect();
        self
    }

    /// Shows what tracepoints said, too: those of the same pass.
    #[must_use]
    pub fn with_arguments(mut self, said: Said) -> Self {
        let marks = self.points.marks;
        let start = self.window.start;
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

    /// How many columns a page of this many CPUs holds for each: 8 million in all, so that the page
    /// stays below 60 MB; at least those of the first picture.
    #[must_use]
    pub fn columns_of(cpus: usize) -> usize {
        ((8 << 20) / cpus.max(1)).clamp(COARSE_COLUMNS, 1 << 16)
    }

    /// Whether every slice is there: not so where there were more than [`Columns::at_most`].
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.whole
    }

    #[must_use]
    pub fn slices(&self) -> usize {
        self.cpus.iter().map(|(_, track)| track.count).sum()
    }

    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }
}

/// Numbers for what is met, from 1 on in order of first appearance; 0 is for nothing.
fn numbered<T: Ord + Copy>(all: impl Iterator<Item = Option<T>>) -> (Vec<u32>, Vec<T>) {
    let mut known = BTreeMap::new();
    let mut order = Vec::new();
    let number = |one: Option<T>| {
        one.map_or(0, |one| {
            *known.entry(one).or_insert_with(|| {
                order.push(one);
                u32::try_from(order.len()).unwrap_or(u32::MAX)
            })
        })
    };
    let numbers = all.map(number).collect();
    (numbers, order)
}

#[cfg(test)]
pub(super) mod tests;
