//! How many tasks ran and how many waited, over time. Exact: integrals over the intervals between
//! changes, not samples.

use crate::change::{Change, concerned};
use crate::question::Question;
use crate::state::State;
use crate::task::{Activity, TaskId};
use crate::task_filter::Chosen;
use crate::totals::{About, Total, Totals};
use schedlab_model::Better::{Lower, Neither};
use schedlab_model::table::{At, Column, Row};
use schedlab_model::{Nanos, Need, Span, Unit, columns};

/// Asks for the curve of running and waiting tasks, in bins of equal width, and for how long each
/// number of tasks ran or waited.
#[derive(Clone, Debug)]
pub struct Waiting {
    bins: Vec<Bin>,
    /// The most bins; bins are paired and their width doubled rather than having more.
    limit: usize,
    /// A fixed window has bins of a given width and does not double.
    fixed: Option<Span>,
    width: u64,
    start: Nanos,
    since: Nanos,
    running: u32,
    waiting: u32,
    running_time: Vec<u64>,
    waiting_time: Vec<u64>,
    chosen: Chosen,
    /// What each task does, where only some are counted.
    does: Vec<Does>,
}

/// What a task counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Does {
    #[default]
    Neither,
    Runs,
    Waits,
}

/// One stretch of the curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// The sum over tasks of the nanoseconds that they ran in it.
    pub running_ns: u128,
    /// The sum over tasks of the nanoseconds that they waited in it.
    pub waiting_ns: u128,
    /// Nanoseconds of it that were seen; the last bin may be cut short.
    pub(crate) seen_ns: u64,
    /// The fewest tasks that ran at one time.
    pub(crate) running_min: u32,
    /// The most tasks that ran at one time.
    pub(crate) running_max: u32,
    /// The fewest tasks that waited at one time.
    pub(crate) waiting_min: u32,
    /// The most tasks that waited at one time.
    pub(crate) waiting_max: u32,
}

impl Bin {
    /// The mean number of running tasks.
    #[must_use]
    pub fn running_mean(&self) -> f64 {
        if self.seen_ns == 0 { 0.0 } else { self.running_ns as f64 / self.seen_ns as f64 }
    }

    /// The mean number of waiting tasks.
    #[must_use]
    pub fn waiting_mean(&self) -> f64 {
        if self.seen_ns == 0 { 0.0 } else { self.waiting_ns as f64 / self.seen_ns as f64 }
    }

    fn add(&mut self, ns: u64, running: u32, waiting: u32) {
        if self.seen_ns == 0 {
            (self.running_min, self.waiting_min) = (running, waiting);
        }
        self.seen_ns += ns;
        self.running_ns += u128::from(running) * u128::from(ns);
        self.waiting_ns += u128::from(waiting) * u128::from(ns);
        self.running_min = self.running_min.min(running);
        self.running_max = self.running_max.max(running);
        self.waiting_min = self.waiting_min.min(waiting);
        self.waiting_max = self.waiting_max.max(waiting);
    }

    fn merge(&mut self, next: &Self) {
        if next.seen_ns == 0 {
            return;
        }
        if self.seen_ns == 0 {
            *self = *next;
            return;
        }
        self.seen_ns += next.seen_ns;
        self.running_ns += next.running_ns;
        self.waiting_ns += next.waiting_ns;
        self.running_min = self.running_min.min(next.running_min);
        self.running_max = self.running_max.max(next.running_max);
        self.waiting_min = self.waiting_min.min(next.waiting_min);
        self.waiting_max = self.waiting_max.max(next.waiting_max);
    }
}

/// How many tasks ran and waited, over time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WaitingAnswer {
    /// The first instant of the first bin.
    pub start: Nanos,
    /// The width of a bin.
    pub width: Nanos,
    /// The bins, in order of time.
    pub bins: Vec<Bin>,
    /// Nanoseconds during which exactly *index* tasks ran.
    pub running_time_ns: Vec<u64>,
    /// Nanoseconds during which exactly *index* tasks waited.
    pub waiting_time_ns: Vec<u64>,
    /// CPUs that belong to the trace: no more tasks can run at once.
    pub cpus: usize,
}

impl WaitingAnswer {
    /// The bins, each with the time at which it begins.
    #[must_use]
    pub fn placed(&self) -> Vec<PlacedBin> {
        let start = |at: u64| Nanos(self.start.0.saturating_add(at.saturating_mul(self.width.0)));
        self.bins
            .iter()
            .zip(0..)
            .map(|(bin, at)| PlacedBin { start: start(at), bin: *bin })
            .collect()
    }

    /// All bins together: the means and extremes of the window.
    #[must_use]
    pub fn total(&self) -> Bin {
        self.bins.iter().fold(Bin::default(), |mut total, bin| {
            total.merge(bin);
            total
        })
    }
}

impl Row for Bin {
    const ABOUT: &'static str = "How many tasks ran and waited: the mean over the time, and extremes at some instant of it.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "running_mean" ["running: mean"] @ Running = row.running_mean(), "Mean number of tasks that ran.";
            "running_min" ["running: min", 9] @ Running = row.running_min, "The fewest tasks that ran at an instant.";
            "running_max" ["running: max", 8] @ Running = row.running_max, "The most tasks that ran at an instant.";
            "waiting_mean" ["waiting: mean"] @ Waiting = row.waiting_mean(), "Mean number of tasks that waited.";
            "waiting_min" ["waiting: min", 7] @ Waiting = row.waiting_min, "The fewest tasks that waited at an instant.";
            "waiting_max" ["waiting: max", 6] @ Waiting = row.waiting_max, "The most tasks that waited at an instant.";
            "seen_ns" = Nanos(row.seen_ns), "Time that was observed.";
        }
    }
}

/// A bin with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedBin {
    /// Where it begins.
    pub start: Nanos,
    /// Which tasks ran and waited in it.
    pub bin: Bin,
}

impl Row for PlacedBin {
    const ABOUT: &'static str = "A stretch of time: how many tasks ran and waited.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "start_ns" ["from"] = At(row.start), "Where it begins.";
        };
        columns.extend(Bin::columns().into_iter().map(|column| column.of(|row: &Self| &row.bin)));
        columns
    }
}

/// The width with which bins begin when the window's length is not known.
const FIRST_WIDTH: u64 = 1024;

impl Waiting {
    /// A question with between `limit / 2` and `limit` bins over the window, however long it is;
    /// `limit` is at least 2.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            bins: Vec::new(),
            limit: limit.max(2),
            fixed: None,
            width: FIRST_WIDTH,
            start: Nanos::ZERO,
            since: Nanos::ZERO,
            running: 0,
            waiting: 0,
            running_time: Vec::new(),
            waiting_time: Vec::new(),
            chosen: Chosen::all(),
            does: Vec::new(),
        }
    }

    /// How many of these tasks run and wait.
    #[must_use]
    pub fn about(self, chosen: Chosen) -> Self {
        Self { chosen, ..self }
    }

    /// Bins that cut `window` (in the trace's own time) into `count` equal parts, as the columns of
    /// a picture do; the width is rounded up to whole nanoseconds. What lies outside is left out.
    #[must_use]
    pub fn within(window: Span, count: usize) -> Self {
        let count = count.max(1);
        let mut question = Self::new(count);
        question.width = window.duration().0.div_ceil(count as u64).max(1);
        question.fixed = Some(window);
        question
    }

    /// Puts the counts that held from `since` until `at` into their bins.
    #[inline]
    fn advance(&mut self, at: Nanos) {
        if at <= self.since {
            return;
        }
        let mut from = self.since;
        let mut to = at;
        self.since = at;
        if let Some(window) = self.fixed {
            (from, to) = (from.max(window.start), to.min(window.end));
        }
        if to <= from {
            return;
        }
        let ns = (to - from).0;
        add_at(&mut self.running_time, self.running, ns);
        add_at(&mut self.waiting_time, self.waiting, ns);
        let mut offset = (from - self.start).0;
        let end = (to - self.start).0;
        while self.fixed.is_none() && (end - 1) / self.width >= self.limit as u64 {
            self.double();
        }
        while offset < end {
            let index = (offset / self.width) as usize;
            let stop = ((index as u64 + 1) * self.width).min(end);
            if index >= self.bins.len() {
                self.bins.resize(index + 1, Bin::default());
            }
            self.bins[index].add(stop - offset, self.running, self.waiting);
            offset = stop;
        }
    }

    fn double(&mut self) {
        self.width *= 2;
        let half = self.bins.len().div_ceil(2);
        for i in 0..half {
            let mut bin = self.bins[2 * i];
            if let Some(next) = self.bins.get(2 * i + 1) {
                bin.merge(next);
            }
            self.bins[i] = bin;
        }
        self.bins.truncate(half);
    }

    #[inline]
    fn take(&mut self, state: &State) {
        (self.running, self.waiting) = (state.running(), state.waiting());
    }

    /// Of the tasks that a change concerns, counts those that were chosen.
    fn note(&mut self, at: Nanos, tasks: [TaskId; 3], state: &State) {
        for task in tasks.into_iter().filter(|task| task.is_some()) {
            if !self.chosen.has(task) {
                continue;
            }
            let does = Does::of(state.task(task).activity);
            if task.index() >= self.does.len() {
                self.does.resize(task.index() + 1, Does::Neither);
            }
            if self.does[task.index()] == does {
                continue;
            }
            self.advance(at);
            let was = std::mem::replace(&mut self.does[task.index()], does);
            self.running =
                self.running + u32::from(does == Does::Runs) - u32::from(was == Does::Runs);
            self.waiting =
                self.waiting + u32::from(does == Does::Waits) - u32::from(was == Does::Waits);
        }
    }
}

impl Does {
    const fn of(activity: Activity) -> Self {
        match activity {
            Activity::Running { .. } => Self::Runs,
            Activity::Waiting { .. } => Self::Waits,
            _ => Self::Neither,
        }
    }
}

fn add_at(times: &mut Vec<u64>, index: u32, ns: u64) {
    let index = index as usize;
    if index >= times.len() {
        times.resize(index + 1, 0);
    }
    times[index] += ns;
}

impl Question for Waiting {
    type Answer = WaitingAnswer;
    const INLINED: bool = true;

    fn begin(&mut self, state: &State) {
        self.since = state.window().start;
        self.start = self.fixed.map_or(self.since, |window| window.start);
        if self.chosen.is_all() {
            return self.take(state);
        }
        for (task, _) in state.tasks() {
            self.note(self.since, [task, TaskId::NONE, TaskId::NONE], state);
        }
    }

    #[inline]
    fn see(&mut self, change: &Change, state: &State) {
        if !self.chosen.is_all() {
            return self.note(change.at(), concerned(change), state);
        }
        if state.running() != self.running || state.waiting() != self.waiting {
            self.advance(change.at());
            self.take(state);
        }
    }

    fn answer(mut self, state: &State) -> WaitingAnswer {
        self.advance(state.window().end);
        WaitingAnswer {
            start: self.start,
            width: Nanos(self.width),
            bins: self.bins,
            running_time_ns: self.running_time,
            waiting_time_ns: self.waiting_time,
            cpus: state.observed_cpus().count(),
        }
    }
}

impl Totals for Waiting {
    fn totals() -> Vec<Total> {
        let level = |name, about| Total::level(name, Unit::Count, Neither, about);
        vec![
            level("running_mean", "Mean number of tasks that run.").needs(Need::Running),
            Total { better: Lower, ..level("waiting_mean", "Mean number of tasks that wait.") }
                .needs(Need::Waiting),
        ]
    }

    fn question(about: &About<'_>) -> Self {
        Self::new(2).about(about.chosen.clone())
    }

    fn values(answer: &WaitingAnswer, _: &Chosen) -> Vec<Option<f64>> {
        let all = answer.total();
        vec![Some(all.running_mean()), Some(all.waiting_mean())]
    }
}
