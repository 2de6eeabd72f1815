//! Frequencies, idle states and the interrupts between CPUs: what CPUs and tasks did with them.
//!
//! The events are `power:cpu_frequency` and `power:cpu_idle` (`state`, `cpu_id`), `ipi:ipi_entry` and `ipi_exit`, x86's
//! `irq_vectors:reschedule_*` and `call_function*_*`, and `timer:hrtimer_expire_entry` and `_exit`. What a trace does not
//! hold is absent, not zero. A CPU's frequency is unknown until the first event that names it.
//!
//! Work is time x frequency: cycles, as far as the frequency that the kernel set is the one that the CPU had. Memory: the
//! CPUs and tasks seen, one [`Step`] for each change of frequency up to the limit, and, for pictures
//! ([`Power::with_spans`]), one [`PowerSpan`] for each idle state and each interrupt up to another limit.

use crate::change::{Change, Switch};
use crate::in_reply::InReply;
use crate::known_formats::KnownFormats;
use crate::question::{OtherEvent, Question};
use crate::state::{Occupant, State};
use crate::task::TaskId;
use schedlab_model::table::{Column, Items, Row, column};
use schedlab_model::{Cpu, Nanos, Need, OtherFormat, Span, columns};
use std::collections::BTreeMap;

/// `cpu_idle` tells the end of an idle state by this (`PWR_EVENT_EXIT`, -1 in 32 bits).
const IDLE_EXIT: u64 = u32::MAX as u64;

/// Asks for frequencies, idle states, and the interrupts of IPIs and hrtimers.
#[derive(Clone, Debug)]
pub struct Power {
    formats: KnownFormats<Which>,
    cpus: Vec<CpuTally>,
    tasks: Vec<Work>,
    steps: Vec<Step>,
    limit: usize,
    left_out: u64,
    spans: Vec<PowerSpan>,
    spans_limit: usize,
    has: Has,
}

/// Which of these events were seen.
#[derive(Clone, Copy, Debug, Default)]
struct Has {
    frequency: bool,
    idle: bool,
    ipi: bool,
    timer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Frequency,
    Idle,
    IpiEntry,
    IpiExit,
    TimerEntry,
    TimerExit,
}

impl Which {
    fn of(format: &OtherFormat) -> Option<Self> {
        let name = format.name.as_str();
        let ipi = |end: &str| {
            name.strip_suffix(end).is_some_and(|start| {
                matches!(start, "ipi" | "reschedule") || start.starts_with("call_function")
            })
        };
        Some(match name {
            "cpu_frequency" => Self::Frequency,
            "cpu_idle" => Self::Idle,
            "hrtimer_expire_entry" => Self::TimerEntry,
            "hrtimer_expire_exit" => Self::TimerExit,
            _ if ipi("_entry") => Self::IpiEntry,
            _ if ipi("_exit") => Self::IpiExit,
            _ => return None,
        })
    }
}

/// Time x frequency, in nanoseconds x kilohertz, and the time of which the frequency is known.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    product: u128,
    known: Nanos,
}

/// Handlers of one kind on a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Handled {
    since: Option<Nanos>,
    count: u64,
    time: Nanos,
}

#[derive(Clone, Debug, Default)]
struct CpuTally {
    khz: Option<u64>,
    /// Up to here, the occupant's time is summed.
    summed: Nanos,
    changes: u64,
    lowest: Option<u64>,
    highest: Option<u64>,
    busy: Work,
    idle: Option<(u64, Nanos)>,
    idle_states: BTreeMap<u64, (u64, Nanos)>,
    left_idle: Option<Nanos>,
    exits: u64,
    exit_time: Nanos,
    exit_max: Nanos,
    ipi: Handled,
    timer: Handled,
}

/// How often and how long a CPU was in one idle state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdleState {
    /// The number of the idle state, as the kernel's `cpuidle` has it.
    pub state: u64,
    /// How often it was entered.
    pub entered: u64,
    /// How long the CPU was in it.
    pub time: Nanos,
}

impl Row for IdleState {
    const ABOUT: &'static str = "An idle state of a CPU.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "state" = row.state, "Its number.";
            "entered" = row.entered, "How often the CPU entered it.";
            "time_ns" = row.time, "How long the CPU was in it.";
        }
    }
}

/// What one CPU did.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuPower {
    /// The CPU of this row.
    pub(crate) cpu: Cpu,
    /// The mean frequency while a task ran, in hertz; `None` while it is not known.
    pub busy_hz: Option<f64>,
    /// Time in which a task ran at a known frequency.
    pub(crate) known: Nanos,
    /// The lowest and the highest frequency, in hertz.
    pub range_hz: Option<(u64, u64)>,
    /// The number of changes of frequency.
    pub changes: Option<u64>,
    /// The CPU's idle states, by number; `None` if the trace has no events of idle states.
    pub idle: Option<Vec<IdleState>>,
    /// Wakeups whose task waited for this CPU to leave an idle state.
    pub(crate) exits: u64,
    /// The sum of these waits.
    pub(crate) exit_time: Nanos,
    /// The longest of these waits.
    pub(crate) exit_max: Nanos,
    /// IPIs handled, and the time in them.
    pub ipis: Option<(u64, Nanos)>,
    /// Timers expired (hrtimer), and the time in them.
    pub(crate) timers: Option<(u64, Nanos)>,
}

impl Row for CpuPower {
    const ABOUT: &'static str = "What a CPU did. `null` is what the trace does not hold.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "cpu" ["cpu"] = row.cpu, "The CPU.";
        };
        let hertz = |hz: Option<f64>| hz.map_or_else(|| "-".to_owned(), gigahertz);
        columns.extend([
            column(
                "busy_hz_mean",
                "The mean frequency while a task ran, in hertz.",
                |row: &Self| row.busy_hz,
            )
            .needs(Need::CpuMean)
            .title("frequency: mean busy")
            .spelled(move |row: &Self| hertz(row.busy_hz)),
            column("hz_min", "The lowest frequency, in hertz.", |row: &Self| {
                row.range_hz.map(|range| range.0)
            })
            .title("frequency: lowest")
            .rank(8)
            .spelled(move |row: &Self| hertz(row.range_hz.map(|range| range.0 as f64))),
            column("hz_max", "The highest frequency, in hertz.", |row: &Self| {
                row.range_hz.map(|range| range.1)
            })
            .title("frequency: highest")
            .rank(8)
            .spelled(move |row: &Self| hertz(row.range_hz.map(|range| range.1 as f64))),
        ]);
        columns.extend(columns! { row: Self;
            "frequency_changes" ["frequency: changes", 7] = row.changes, "Changes of frequency.";
            "busy_known_ns" @ CpuTime = row.known, "Time in which a task ran at a known frequency.";
        });
        let about = "Its idle states by number: how often entered, and for how long.";
        let states = |row: &Self| row.idle.clone().map(Items);
        columns.push(
            column("idle_states", about, states)
                .title("idle states: time (entered)")
                .spelled(|row: &Self| row.idle.as_deref().map_or_else(|| "-".to_owned(), in_words)),
        );
        columns.extend(columns! { row: Self;
            "idle_exits" ["idle exits: wakeups"] = row.exits, "Wakeups whose task waited for this CPU to leave an idle state.";
            "idle_exit_ns_sum" ["idle exits: sum", 9] = row.exit_time, "How long these tasks waited for that, together.";
            "idle_exit_ns_max" ["idle exits: longest"] = row.exit_max, "The longest of these waits.";
            "ipis" ["IPIs", 6] = row.ipis.map(|all| all.0), "IPIs that it handled.";
            "ipi_ns" = row.ipis.map(|all| all.1), "Time in these.";
            "hrtimers" ["hrtimers", 5] = row.timers.map(|all| all.0), "High-resolution timers that expired on it.";
            "hrtimer_ns" = row.timers.map(|all| all.1), "Time in these.";
        });
        columns
    }
}

/// `2.400 GHz`.
fn gigahertz(hz: f64) -> String {
    format!("{:.3} GHz", hz / 1e9)
}

/// `1: 2.51 ms (7), 2: 900 µs (1)`.
fn in_words(states: &[IdleState]) -> String {
    let one = |of: &IdleState| format!("{}: {} ({})", of.state, of.time.readable(), of.entered);
    match states {
        [] => "-".to_owned(),
        states => states.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

/// What one task did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskPower {
    /// The task of this row.
    pub task: TaskId,
    /// Time in which it ran at a known frequency.
    pub(crate) known: Nanos,
    /// The work of the task in that time, in cycles: time x frequency.
    pub(crate) cycles: f64,
    /// The mean frequency in that time, in hertz.
    pub(crate) mean_hz: f64,
}

impl<A> Row for InReply<'_, TaskPower, A> {
    const ABOUT: &'static str = "The work of a task.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "pid" ["pid"] = row.pid(row.task), "The task (thread).";
            "comm" ["comm"] = row.name(row.task), "Its name at the end.";
            "run_known_ns" ["run"] @ RunTime = row.known, "Time in which it ran at a known frequency.";
        };
        columns.extend([
            column("cycles", "Run time x frequency.", |row: &Self| row.cycles)
                .needs(Need::RunTime)
                .each_ns(|row| row.cycles / row.known.0.max(1) as f64)
                .title("work")
                .spelled(|row: &Self| format!("{:.3} Gcycles", row.cycles / 1e9)),
            column("hz_mean", "The mean frequency, in hertz.", |row: &Self| row.mean_hz)
                .needs(Need::Slices)
                .title("mean frequency")
                .spelled(|row: &Self| gigahertz(row.mean_hz)),
        ]);
        columns
    }
}

/// A CPU's frequency from a time on, for pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When; before the window for the frequency with which it opens.
    pub at: Nanos,
    /// The CPU whose frequency changed.
    pub cpu: Cpu,
    /// The new frequency in hertz.
    pub hz: u64,
}

/// What a CPU was in for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Within {
    /// The handler of an interrupt from another CPU.
    Ipi,
    /// A timer (hrtimer) that expired.
    Timer,
    /// An idle state, by its number.
    Idle(u64),
}

/// An idle state or an interrupt of a CPU, for pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerSpan {
    /// Where it happened.
    pub cpu: Cpu,
    /// From when to when, in the window.
    pub span: Span,
    /// The state in which the CPU was.
    pub what: Within,
}

/// What [`Power`] found in a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PowerAnswer {
    /// The observed CPUs, in ascending order.
    pub cpus: Vec<CpuPower>,
    /// Tasks that ran at a known frequency, most work first.
    pub tasks: Vec<TaskPower>,
    /// Changes of frequency in order of time.
    pub steps: Vec<Step>,
    /// Idle states and interrupts in order of their ends; none unless asked for ([`Power::with_spans`]).
    pub spans: Vec<PowerSpan>,
    /// How many steps and spans were left out, since there were more than the limits.
    pub left_out: u64,
}

impl Power {
    /// With at most `limit` steps of frequency.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            formats: KnownFormats::default(),
            cpus: Vec::new(),
            tasks: Vec::new(),
            steps: Vec::new(),
            limit,
            left_out: 0,
            spans: Vec::new(),
            spans_limit: 0,
            has: Has::default(),
        }
    }

    /// The CPU and its frequency in hertz; `None` for a tracepoint that is not about frequency.
    #[must_use]
    pub fn frequency_of(event: &OtherEvent<'_>, state: &State) -> Option<(Cpu, u64)> {
        let format = state.others().get(usize::from(event.format))?;
        let khz = event.number("state").filter(|khz| *khz > 0)?;
        let named = event.number("cpu_id").and_then(|cpu| u16::try_from(cpu).ok()).map(Cpu);
        (format.name == "cpu_frequency").then(|| (named.unwrap_or(event.cpu), khz * 1000))
    }

    /// The question, listing also at most `limit` intervals of idle states and interrupts.
    #[must_use]
    pub const fn with_spans(mut self, limit: usize) -> Self {
        self.spans_limit = limit;
        self
    }

    /// Whether a trace that has these tracepoints can tell anything here.
    #[must_use]
    pub fn knows(formats: &[OtherFormat]) -> bool {
        formats.iter().any(|format| Which::of(format).is_some())
    }

    fn span(&mut self, cpu: Cpu, since: Nanos, at: Nanos, what: Within, state: &State) {
        let since = since.max(state.window().start);
        if self.spans_limit == 0 || since >= at {
            return;
        }
        if self.spans.len() < self.spans_limit {
            self.spans.push(PowerSpan { cpu, span: Span::new(since, at), what });
        } else {
            self.left_out += 1;
        }
    }

    fn here(&mut self, cpu: Cpu) -> &mut CpuTally {
        if cpu.index() >= self.cpus.len() {
            self.cpus.resize(cpu.index() + 1, CpuTally::default());
        }
        &mut self.cpus[cpu.index()]
    }

    /// Sums up the time of a CPU's occupant until `at`.
    fn sum(&mut self, cpu: Cpu, was: Occupant, since: Nanos, at: Nanos, state: &State) {
        let from = since.max(state.window().start);
        let here = self.here(cpu);
        let from = from.max(std::mem::replace(&mut here.summed, at));
        let (Some(khz), Occupant::Task(task)) = (here.khz, was) else { return };
        if at <= from {
            return;
        }
        let time = at - from;
        here.busy.add(time, khz);
        if task.index() >= self.tasks.len() {
            self.tasks.resize(task.index() + 1, Work::default());
        }
        self.tasks[task.index()].add(time, khz);
    }

    fn frequency(&mut self, at: Nanos, cpu: Cpu, khz: u64, state: &State) {
        self.has.frequency = true;
        if let Some(now) = state.cpu(cpu) {
            self.sum(cpu, now.occupant, now.since, at, state);
        }
        let is_open = at >= state.window().start;
        let here = self.here(cpu);
        let changed = here.khz.replace(khz) != Some(khz);
        if is_open {
            here.changes += u64::from(changed);
            here.lowest = Some(here.lowest.map_or(khz, |low| low.min(khz)));
            here.highest = Some(here.highest.map_or(khz, |high| high.max(khz)));
        }
        let step = Step { at, cpu, hz: khz * 1000 };
        if is_open && changed && self.steps.len() >= self.limit {
            self.left_out += 1;
        } else if is_open && changed {
            self.steps.push(step);
        }
    }

    fn idle(&mut self, at: Nanos, cpu: Cpu, entered: u64, state: &State) {
        self.has.idle = true;
        let start = state.window().start;
        if let Some((before, since)) = self.here(cpu).idle.take()
            && at > since.max(start)
        {
            self.here(cpu).idle_states.entry(before).or_default().1 += at - since.max(start);
            self.span(cpu, since, at, Within::Idle(before), state);
        }
        let here = self.here(cpu);
        if entered & IDLE_EXIT == IDLE_EXIT {
            here.left_idle = Some(at);
            return;
        }
        here.idle = Some((entered, at));
        let count = &mut here.idle_states.entry(entered).or_default().0;
        *count += u64::from(at >= start);
    }

    fn switched(&mut self, switch: &Switch, state: &State) {
        let Switch { at, cpu, was, since, wait, .. } = *switch;
        self.sum(cpu, was, since, at, state);
        let here = self.here(cpu);
        // The task waited for the CPU to leave its idle state.
        if was == Occupant::Idle
            && let (Some(wait), Some(left)) = (wait, here.left_idle)
            && wait.why.is_wakeup()
            && wait.since < left
        {
            let time = left - wait.since;
            here.exits += 1;
            here.exit_time += time;
            here.exit_max = here.exit_max.max(time);
        }
        if matches!(switch.is, Occupant::Task(_)) {
            here.left_idle = None;
        }
    }
}

impl Work {
    fn add(&mut self, time: Nanos, khz: u64) {
        self.product += u128::from(time.0) * u128::from(khz);
        self.known += time;
    }

    fn hz(&self) -> Option<f64> {
        (self.known > Nanos::ZERO).then(|| self.product as f64 / self.known.0 as f64 * 1000.0)
    }
}

impl Handled {
    fn entry(&mut self, at: Nanos) {
        self.since = Some(at);
    }

    /// Gives since when the handler ran, where its entry was seen.
    fn exit(&mut self, at: Nanos, start: Nanos) -> Option<Nanos> {
        let since = self.since.take().filter(|_| at >= start)?;
        self.count += 1;
        self.time += at - since.max(start);
        Some(since)
    }
}

impl Question for Power {
    type Answer = PowerAnswer;
    const QUEUES: bool = false;
    const ARGUMENTS: bool = true;

    fn wants(&mut self, format: u16, state: &State) -> bool {
        self.formats.learn(format, state.others(), Which::of).is_some()
    }

    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        let Some(which) = self.formats.get(event.format) else { return };
        let at = event.at;
        let start = state.window().start;
        let named = event.number("cpu_id").and_then(|cpu| u16::try_from(cpu).ok()).map(Cpu);
        match (which, event.number("state")) {
            (Which::Frequency, Some(khz)) if khz > 0 => {
                self.frequency(at, named.unwrap_or(event.cpu), khz, state);
            }
            (Which::Idle, Some(entered)) => {
                self.idle(at, named.unwrap_or(event.cpu), entered, state);
            }
            (Which::Frequency | Which::Idle, _) => {}
            (Which::IpiEntry, _) => self.here(event.cpu).ipi.entry(at),
            (Which::TimerEntry, _) => self.here(event.cpu).timer.entry(at),
            (Which::IpiExit, _) => {
                self.has.ipi = true;
                if let Some(since) = self.here(event.cpu).ipi.exit(at, start) {
                    self.span(event.cpu, since, at, Within::Ipi, state);
                }
            }
            (Which::TimerExit, _) => {
                self.has.timer = true;
                if let Some(since) = self.here(event.cpu).timer.exit(at, start) {
                    self.span(event.cpu, since, at, Within::Timer, state);
                }
            }
        }
    }

    fn begin(&mut self, state: &State) {
        let at = state.window().start;
        for (cpu, here) in (0..=u16::MAX).map(Cpu).zip(&mut self.cpus) {
            here.lowest = here.khz;
            here.highest = here.khz;
            self.steps.extend(here.khz.map(|khz| Step { at, cpu, hz: khz * 1000 }));
        }
    }

    fn see(&mut self, change: &Change, state: &State) {
        match change {
            Change::Switch(switch) => self.switched(switch, state),
            Change::Lost { cpu, .. } => {
                let here = self.here(*cpu);
                (here.idle, here.left_idle) = (None, None);
                (here.ipi.since, here.timer.since) = (None, None);
            }
            _ => {}
        }
    }

    fn answer(mut self, state: &State) -> PowerAnswer {
        let end = state.window().end;
        let has = self.has;
        let mut cpus = Vec::new();
        for (cpu, now) in state.observed_cpus() {
            self.sum(cpu, now.occupant, now.since, end, state);
            if let Some((entered, _)) = self.here(cpu).idle {
                let exit = entered | IDLE_EXIT;
                self.idle(end, cpu, exit, state);
            }
            cpus.push(self.here(cpu).row(cpu, has));
        }
        let tasks = (0..).map(TaskId).zip(&self.tasks);
        let mut tasks: Vec<TaskPower> = tasks
            .filter_map(|(task, work)| {
                let known = work.known;
                let mean_hz = work.hz()?;
                // 1 ns x 1 kHz is a millionth of a cycle.
                Some(TaskPower { task, known, cycles: work.product as f64 / 1e6, mean_hz })
            })
            .collect();
        tasks.sort_by(|a, b| b.cycles.total_cmp(&a.cycles).then(a.task.cmp(&b.task)));
        let Self { steps, spans, left_out, .. } = self;
        PowerAnswer { cpus, tasks, steps, spans, left_out }
    }
}

impl CpuTally {
    fn row(&self, cpu: Cpu, has: Has) -> CpuPower {
        let states = self.idle_states.iter().map(|(state, (entered, time))| IdleState {
            state: *state,
            entered: *entered,
            time: *time,
        });
        let handled = |seen: bool, all: Handled| seen.then_some((all.count, all.time));
        CpuPower {
            cpu,
            busy_hz: self.busy.hz(),
            known: self.busy.known,
            range_hz: self.lowest.zip(self.highest).map(|(low, high)| (low * 1000, high * 1000)),
            changes: has.frequency.then_some(self.changes),
            idle: has.idle.then(|| states.collect()),
            exits: self.exits,
            exit_time: self.exit_time,
            exit_max: self.exit_max,
            ipis: handled(has.ipi, self.ipi),
            timers: handled(has.timer, self.timer),
        }
    }
}
