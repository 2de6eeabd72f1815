//! The picture `wakeup`: one placement on a few CPUs, and the sentence that explains it.
//!
//! What people draw by hand: an arrow from the waker to where the woken task was put, its wait
//! there, the CPU on which it ran before, and what was idle meanwhile.

use crate::assign::{Touching, assign};
use crate::axis::WORDS;
use crate::colour::{Colour, Theme};
use crate::cores::{Cores, Fill, Label, Mark, Marks, Piece, Row, Size, cores};
use crate::scene::Scene;
use schedlab_model::{Cpu, CpuSet, Nanos, Span};
use schedlab_timeline::{Slice, SlicesAnswer, State, TaskId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub struct Wakeup {
    /// What the picture is called.
    pub title: String,
    /// Why the task stood where it stood.
    pub sentence: String,
    /// The instant that is called zero.
    pub origin: Nanos,
    /// The task that waited first.
    pub task: TaskId,
    /// How many other tasks waited there meanwhile.
    pub others: usize,
    pub wait: Span,
    /// The part of the wait in which another CPU was idle and allowed.
    pub needless: Span,
    /// The CPU on whose queue it waited.
    pub cpu: Cpu,
    /// Who woke it, and on which CPU, where a task did.
    pub waker: Option<(TaskId, Cpu)>,
    pub previous: Option<Cpu>,
    /// What was idle and allowed meanwhile.
    pub idle: CpuSet,
}

/// Idle CPUs beyond this many are counted, not drawn.
const IDLE_MAX: usize = 4;
/// Tasks that the legend names.
const TASKS_MAX: usize = 8;

impl Wakeup {
    /// The part of the trace that the picture shows.
    #[must_use]
    pub fn window(&self) -> Span {
        let room = Nanos((self.wait.duration().0 / 3).max(2_000));
        Span::new(self.wait.start.max(self.origin + room) - room, self.wait.end + room)
    }

    /// The CPUs that the picture shows: the waker's, the one waited on, the previous, some idle ones.
    #[must_use]
    pub fn cpus(&self) -> Vec<Cpu> {
        let mut cpus = vec![self.cpu];
        cpus.extend(self.waker.map(|(_, cpu)| cpu));
        cpus.extend(self.previous);
        cpus.extend(self.idle.iter().take(IDLE_MAX));
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// Draws it from what ran in [`Self::window`]; `width_px` pixels wide.
    #[must_use]
    pub fn scene(&self, ran: &SlicesAnswer, state: &State, width_px: i32, theme: &Theme) -> Scene {
        let window = self.window();
        let cpus = self.cpus();
        let names = (0..=state.task_count()).map(|id| match u32::try_from(id).map(TaskId) {
            Ok(task) if task.is_some() => name_of(task, state),
            _ => String::new(),
        });
        let colours = colours(ran, theme);
        let row = |&cpu: &Cpu| Row { cpu, place: None, fill: fill(cpu, ran, &colours, theme) };
        let grey = |slice: &Slice| !slice.task.is_some() && cpus.contains(&slice.cpu);
        let unknown = ran.slices.iter().any(grey);
        let name = state.name(self.task);
        // From a CPU to itself there is no arrow, and so none to explain.
        let waker = self.waker.filter(|&(_, from)| from != self.cpu);
        let wake = waker.map(|(_, from)| Mark::Link { time: self.wait.start, from, to: self.cpu });
        let picture = Cores {
            title: self.title.clone(),
            notes: vec![self.sentence.clone()],
            window,
            origin: self.origin,
            rows: cpus.iter().map(row).collect(),
            names: names.collect(),
            legend: unknown
                .then(|| (theme.unknown, "not known".to_owned()))
                .into_iter()
                .chain(self.tasks(ran, &cpus, &colours, state))
                .collect(),
            marks: vec![
                Marks {
                    name: match self.others {
                        0 => format!("{name} waits"),
                        _ => format!("{name} or another task waits"),
                    },
                    colour: theme.waiting,
                    marks: vec![Mark::Bar { span: self.wait, cpu: self.cpu }],
                },
                Marks {
                    name: "idle, and allowed".into(),
                    // No task has a colour near it.
                    colour: theme.events[2],
                    marks: self.free_bars(ran),
                },
                Marks {
                    name: "wakeup: from the waker to the placement".into(),
                    colour: theme.alarm,
                    marks: wake.into_iter().collect(),
                },
            ],
            labels: self.labels(window, ran),
            lanes: Vec::new(),
        };
        cores(&picture, Size { width_px, row_px: Some(40) }, theme)
    }

    /// The tasks that ran longest on these CPUs: many boxes are too short for a name.
    fn tasks(
        &self,
        ran: &SlicesAnswer,
        cpus: &[Cpu],
        colours: &BTreeMap<TaskId, Colour>,
        state: &State,
    ) -> Vec<(Colour, String)> {
        let Span { start, end } = self.window();
        let mut times: BTreeMap<TaskId, u64> = BTreeMap::new();
        for slice in ran.slices.iter().filter(|slice| cpus.contains(&slice.cpu)) {
            let inside = slice.to.min(end).0.saturating_sub(slice.from.max(start).0);
            if slice.task.is_some() && inside > 0 {
                *times.entry(slice.task).or_default() += inside;
            }
        }
        let mut times: Vec<(TaskId, u64)> = times.into_iter().collect();
        times.sort_by_key(|&(task, time)| (Reverse(time), task));
        let entry = |(task, _): &(TaskId, u64)| (colours[task], name_of(*task, state));
        let mut entries: Vec<(Colour, String)> = times.iter().take(TASKS_MAX).map(entry).collect();
        if times.len() > TASKS_MAX {
            entries.push((WORDS, format!("and {} more tasks", times.len() - TASKS_MAX)));
        }
        entries
    }

    /// The spans in which a CPU that the task may use was idle: no slice covers them.
    fn free(&self, cpu: Cpu, ran: &SlicesAnswer) -> Vec<Span> {
        if !self.idle.contains(cpu) {
            return Vec::new();
        }
        let here = ran.slices.iter().filter(|slice| slice.cpu == cpu);
        let mut taken: Vec<Span> = here.map(|slice| Span::new(slice.from, slice.to)).collect();
        taken.sort_unstable_by_key(|span| span.start);
        let mut free = Vec::new();
        let mut since = self.needless.start;
        for span in taken.into_iter().chain([Span::new(self.needless.end, Nanos::MAX)]) {
            let until = span.start.min(self.needless.end);
            if since < until {
                free.push(Span::new(since, until));
            }
            since = since.max(span.end);
        }
        free
    }

    fn free_bars(&self, ran: &SlicesAnswer) -> Vec<Mark> {
        let cpus = self.cpus().into_iter();
        let bars = |cpu| self.free(cpu, ran).into_iter().map(move |span| Mark::Bar { span, cpu });
        cpus.flat_map(bars).collect()
    }

    fn labels(&self, window: Span, ran: &SlicesAnswer) -> Vec<Label> {
        let mut labels = Vec::new();
        let mut say = |time, cpu, text: &str| {
            labels.push(Label { time, cpu, text: text.to_owned() });
        };
        let previous = self.previous.filter(|&cpu| cpu != self.cpu);
        for cpu in self.cpus() {
            // Words are for a stretch that can be seen; a shorter one has its bar.
            let least = Nanos(window.duration().0 / 50);
            let longest = self.free(cpu, ran).into_iter().max_by_key(|free| free.duration());
            let longest = longest.filter(|free| free.duration() >= least);
            match (previous == Some(cpu), longest) {
                (true, Some(free)) => say(free.start, cpu, "ran here before; idle, and allowed"),
                (true, None) => say(window.start, cpu, "ran here before"),
                (false, Some(free)) => say(free.start, cpu, "idle, and allowed"),
                (false, None) => {}
            }
        }
        labels
    }
}

/// A task with its pid.
fn name_of(task: TaskId, state: &State) -> String {
    format!("{}:{}", state.name(task), state.task(task).pid)
}

fn colours(ran: &SlicesAnswer, theme: &Theme) -> BTreeMap<TaskId, Colour> {
    let known = || ran.slices.iter().filter(|slice| slice.task.is_some());
    let mut times: BTreeMap<TaskId, u64> = BTreeMap::new();
    let mut touching = Touching::new();
    for slice in known() {
        *times.entry(slice.task).or_default() += (slice.to - slice.from).0;
        touching.see(slice.cpu, Span::new(slice.from, slice.to), slice.task.0);
    }
    let tasks: Vec<TaskId> = times.keys().copied().collect();
    let place = |task: u32| {
        let place = tasks.binary_search(&TaskId(task)).unwrap_or(usize::MAX);
        u32::try_from(place).unwrap_or(u32::MAX)
    };
    let sums: Vec<u64> = times.into_values().collect();
    let given = assign(&sums, &touching.pairs(place), &BTreeMap::new(), theme.tasks.len());
    tasks.into_iter().zip(given).map(|(task, colour)| (task, theme.tasks[colour])).collect()
}

fn fill(cpu: Cpu, ran: &SlicesAnswer, colours: &BTreeMap<TaskId, Colour>, theme: &Theme) -> Fill {
    let here = ran.slices.iter().filter(|slice| slice.cpu == cpu);
    let piece = |slice: &Slice| Piece {
        span: Span::new(slice.from, slice.to),
        colour: colours.get(&slice.task).copied().unwrap_or(theme.unknown),
        name: slice.task.is_some().then_some(slice.task.0),
    };
    let mut pieces: Vec<Piece> = here.map(piece).collect();
    pieces.sort_by_key(|piece| piece.span.start);
    Fill::Pieces(pieces)
}
