//! What each CPU did with its time.

use crate::change::{Change, Moved, Switch, When};
use crate::in_reply::by_distance;
use crate::question::Question;
use crate::state::{CpuState, Occupant, State};
use crate::task_filter::Chosen;
use crate::totals::{About, Total, Totals};
use schedlab_model::Better::{Lower, Neither};
use schedlab_model::table::{Bound, Column, Row, Share, column};
use schedlab_model::{Cpu, Distance, Nanos, Need, Topology, Unit, columns};

/// Asks for utilisation, idle and overloaded time, and switches of every CPU.
#[derive(Clone, Debug, Default)]
pub struct Cpus {
    rows: Vec<Sums>,
    topology: Option<Topology>,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    busy: Nanos,
    idle: Nanos,
    unknown: Nanos,
    switches: u64,
    voluntary: u64,
    involuntary: u64,
    placed: u64,
    arrived: u64,
    arrived_by: [u64; Distance::ALL.len()],
    overloaded: Nanos,
    overloaded_since: Option<Nanos>,
    waiting_max: u32,
    waited: u128,
    waited_at: Nanos,
    waiting: u32,
}

/// What one CPU did within the window. `busy + idle + unknown` is the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuRow {
    /// Whose figures these are.
    pub cpu: Cpu,
    /// Time a task ran on it.
    pub busy: Nanos,
    /// Time its idle task ran.
    pub idle: Nanos,
    /// Time about which nothing is known.
    pub unknown: Nanos,
    /// `sched_switch` events, those of its idle task included.
    pub switches: u64,
    /// Switches by which a task gave the CPU up to sleep, stop or die.
    pub voluntary: u64,
    /// Switches by which a task was displaced, or yielded.
    pub involuntary: u64,
    /// Number of wakeups that put a task on this CPU.
    pub wakeups: u64,
    /// Number of migrations that put a task on this CPU.
    pub arrivals: u64,
    /// Arrivals by the distance that the task came, in the order of [`Distance::ALL`]; `None`
    /// without a topology.
    pub arrivals_by: Option<[u64; Distance::ALL.len()]>,
    /// Time at least one task ran and at least one more waited.
    pub overloaded: Nanos,
    /// The most tasks that waited at once.
    pub waiting_max: u32,
    /// The sum over its waiting tasks of the time they waited here.
    pub waited: Nanos,
}

impl CpuRow {
    /// The part of the known time in which a task ran (0 ..= 1); `None` when nothing is known.
    #[must_use]
    pub fn utilisation(&self) -> Option<f64> {
        let known = (self.busy + self.idle).0;
        (known > 0).then(|| self.busy.0 as f64 / known as f64)
    }
}

/// What all CPUs did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CpusAnswer {
    /// By number; only CPUs that belong to the trace.
    pub rows: Vec<CpuRow>,
}

impl Cpus {
    /// A question that has seen no event.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A question about CPUs that divides arrivals by their distance in `topology`.
    #[must_use]
    pub fn by_distance(topology: Option<Topology>) -> Self {
        Self { topology, ..Self::default() }
    }

    #[inline]
    fn of(&mut self, cpu: Cpu, state: &State) -> &mut Sums {
        if cpu.index() >= self.rows.len() {
            let start = Sums { waited_at: state.window().start, ..Sums::default() };
            self.rows.resize(cpu.index() + 1, start);
        }
        &mut self.rows[cpu.index()]
    }

    /// A CPU's occupant or queue may be another from `at` on.
    #[inline]
    fn note(&mut self, cpu: Cpu, at: Nanos, state: &State) {
        let Some(here) = state.cpu(cpu) else { return };
        let overloaded = is_overloaded(here);
        let at = at.max(state.window().start);
        let row = self.of(cpu, state);
        row.waited += u128::from(row.waiting) * u128::from((at - row.waited_at).0);
        // A wait of no length, as of a task that runs at once, is no queue.
        if at > row.waited_at {
            row.waiting_max = row.waiting_max.max(row.waiting);
            row.waited_at = at;
        }
        row.waiting = here.waiting;
        match row.overloaded_since {
            None if overloaded => row.overloaded_since = Some(at),
            Some(since) if !overloaded => {
                row.overloaded += at - since;
                row.overloaded_since = None;
            }
            _ => {}
        }
    }

    fn moved(&mut self, moved: &Moved, state: &State) {
        let topology = self.topology.as_ref();
        let distance = topology.and_then(|topology| topology.distance(moved.from, moved.to));
        let row = self.of(moved.to, state);
        row.arrived += 1;
        if let Some(distance) = distance {
            row.arrived_by[distance as usize] += 1;
        }
    }

    #[inline]
    fn spent(&mut self, cpu: Cpu, was: Occupant, since: Nanos, at: Nanos, state: &State) {
        let time = at - since.max(state.window().start);
        let row = self.of(cpu, state);
        match was {
            Occupant::Unknown => row.unknown += time,
            Occupant::Idle => row.idle += time,
            Occupant::Task(_) => row.busy += time,
        }
    }
}

/// Whether at least two tasks want this CPU.
fn is_overloaded(cpu: &CpuState) -> bool {
    cpu.waiting > 0 && matches!(cpu.occupant, Occupant::Task(_))
}

impl Question for Cpus {
    type Answer = CpusAnswer;
    const INLINED: bool = true;

    fn begin(&mut self, state: &State) {
        for (cpu, _) in state.observed_cpus() {
            self.note(cpu, state.window().start, state);
        }
    }

    #[inline]
    fn see(&mut self, change: &Change, state: &State) {
        match *change {
            Change::Switch(Switch { at, cpu, was, since, prev, left, .. }) => {
                self.spent(cpu, was, since, at, state);
                // A discovered or forgotten occupant is no switch of the kernel's.
                let row = self.of(cpu, state);
                row.switches += u64::from(left.is_some());
                if let Some(left) = left.filter(|_| prev.is_some()) {
                    row.voluntary += u64::from(left.is_voluntary());
                    row.involuntary += u64::from(!left.is_voluntary());
                }
            }
            Change::Placed { cpu, .. } => self.of(cpu, state).placed += 1,
            Change::Runnable(_) => {
                if let [Some(cpu), _] = change.touched(state) {
                    self.of(cpu, state).placed += u64::from(state.wakes_are_placed);
                }
            }
            Change::Moved(moved) => {
                self.moved(&moved, state);
                // The wakeup chose that CPU; the one that it was taken to choose before was not.
                if moved.when == When::Waking {
                    self.of(moved.to, state).placed += 1;
                    if let Some(queue) = moved.queue.filter(|_| state.wakes_are_placed) {
                        let before = self.of(queue, state);
                        before.placed = before.placed.saturating_sub(1);
                    }
                }
            }
            _ => {}
        }
        for cpu in change.touched(state).into_iter().flatten() {
            self.note(cpu, change.at(), state);
        }
    }

    fn answer(mut self, state: &State) -> CpusAnswer {
        let window = state.window();
        let has_topology = self.topology.is_some();
        let mut rows = Vec::new();
        for (cpu, here) in state.observed_cpus() {
            self.spent(cpu, here.occupant, here.since, window.end, state);
            self.note(cpu, window.end, state);
            let sums = self.of(cpu, state);
            let still = sums.overloaded_since.map_or(Nanos::ZERO, |since| window.end - since);
            rows.push(CpuRow {
                cpu,
                busy: sums.busy,
                idle: sums.idle,
                unknown: sums.unknown,
                switches: sums.switches,
                voluntary: sums.voluntary,
                involuntary: sums.involuntary,
                wakeups: sums.placed,
                arrivals: sums.arrived,
                arrivals_by: has_topology.then_some(sums.arrived_by),
                overloaded: sums.overloaded + still,
                waiting_max: sums.waiting_max,
                waited: Nanos(u64::try_from(sums.waited).unwrap_or(u64::MAX)),
            });
        }
        CpusAnswer { rows }
    }
}

impl Row for CpuRow {
    const ABOUT: &'static str = "What a CPU did with its time.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "cpu" ["cpu"] = row.cpu, "The CPU.";
            "busy_ns" ["busy"] @ CpuTime = row.busy, "Time in which a task ran.";
            "idle_ns" ["idle"] @ CpuTime = row.idle, "Time in which the idle task ran.";
            "unknown_ns" ["unknown"] = row.unknown, "Time of which nothing is known.";
        };
        let utilisation =
            column("utilisation", "Busy time as a part of busy and idle time.", |row: &Self| {
                row.utilisation().map(Share)
            });
        // What is not known may have been busy or idle.
        let apart = |row: &Self| {
            let all = (row.busy + row.idle + row.unknown).0;
            Bound::Within(row.unknown.0 as f64 / all.max(1) as f64)
        };
        let utilisation = utilisation.title("utilisation").needs(Need::CpuTime).bounded(apart);
        columns.push(utilisation.each_ns(|row| 1.0 / (row.busy + row.idle).0.max(1) as f64));
        columns.extend(columns! { row: Self;
            "switches" ["switches: all", 9] @ CpuSwitches = row.switches, "Context switches, those of the idle task included.";
            "wakeups" ["wakeups", 8] @ CpuWakeups = row.wakeups, "Wakeups that put a task here.";
            "switches_voluntary" ["switches: voluntary", 6] @ CpuSwitches = row.voluntary, "Switches of tasks that blocked.";
            "switches_involuntary" ["switches: involuntary", 5] @ CpuSwitches = row.involuntary, "Switches of tasks that stayed runnable.";
            "arrivals" ["migrations: to here", 7] @ Arrivals = row.arrivals, "Migrations to this CPU.";
        });
        let by =
            by_distance("arrivals_by_distance", Some("migrations"), |row: &Self| row.arrivals_by);
        columns.extend(by.into_iter().map(|column| column.needs(Need::Arrivals)));
        columns.extend(columns! { row: Self;
            "overloaded_ns" ["overloaded"] @ Queues = row.overloaded, "How long one task ran here and at least one more waited.";
            "waiting_max" ["queue max", 4] @ QueueLength = row.waiting_max, "The most tasks that waited here at once.";
            "wait_ns" ["waited here", 3] @ Queues = row.waited, "How long tasks waited here, summed over the tasks.";
        });
        columns
    }
}

impl Totals for Cpus {
    fn totals() -> Vec<Total> {
        vec![
            Total::level(
                "utilisation",
                Unit::Fraction,
                Neither,
                "Busy time of all CPUs as a part of their busy and idle time.",
            )
            .needs(Need::Machine),
            Total::sum(
                "overloaded_ns",
                Lower,
                "Time in which a task ran on a CPU and at least one more waited there, summed over CPUs.",
            )
            .needs(Need::Queues),
        ]
    }

    fn question(about: &About<'_>) -> Self {
        Self::by_distance(about.topology.clone())
    }

    fn values(answer: &CpusAnswer, _: &Chosen) -> Vec<Option<f64>> {
        let time =
            |of: fn(&CpuRow) -> Nanos| answer.rows.iter().map(|row| of(row).0).sum::<u64>() as f64;
        let busy = time(|row| row.busy);
        let idle = time(|row| row.idle);
        let known = busy + idle;
        vec![(known > 0.0).then(|| busy / known), Some(time(|row| row.overloaded))]
    }
}
