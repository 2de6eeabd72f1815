//! What each task did with its time.

use crate::change::{Change, Moved, Switch};
use crate::question::Question;
use crate::state::{Occupant, State};
use crate::task::{Activity, TaskId};
use schedlab_model::{Cpu, Distance, Kind, Nanos, Pid, Topology};
use schedlab_stats::Histogram;

/// Asks for run time, slices, switches and migrations of every task.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    rows: Vec<Sums>,
    topology: Option<Topology>,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    ran: Nanos,
    waited: Nanos,
    slices: Histogram,
    voluntary: u64,
    involuntary: u64,
    wakeups: u64,
    moved: Migrations,
    /// Where the trace holds no `sched_migrate_task`, running elsewhere than before counts instead.
    started_elsewhere: Migrations,
}

/// How often, and how often by each distance.
#[derive(Clone, Copy, Debug, Default)]
struct Migrations {
    count: u64,
    by: [u64; Distance::ALL.len()],
}

impl Migrations {
    fn add(&mut self, distance: Option<Distance>) {
        self.count += 1;
        if let Some(distance) = distance {
            self.by[distance as usize] += 1;
        }
    }
}

/// What one task did within the window.
#[derive(Clone, Debug)]
pub struct TaskRow {
    /// The task.
    pub task: TaskId,
    /// Its pid.
    pub pid: Pid,
    /// Its name at the end.
    pub comm: String,
    /// Time it ran.
    pub ran: Nanos,
    /// Time it was runnable and did not run.
    pub waited: Nanos,
    /// Lengths of the slices in which it ran, in nanoseconds; those cut by the window's ends or by
    /// a loss count with what was seen of them.
    pub slices: Histogram,
    /// Switches by which it gave up its CPU to sleep, stop or die.
    pub voluntary: u64,
    /// Switches by which it was displaced, or yielded.
    pub involuntary: u64,
    /// Wakeups, a first one after fork included.
    pub wakeups: u64,
    /// Moves between CPUs: `sched_migrate_task` events, or, where the trace holds none, starts on
    /// another CPU than the last.
    pub migrations: u64,
    /// Migrations by distance, in the order of [`Distance::ALL`]; all zero without a topology.
    pub migrations_by: [u64; Distance::ALL.len()],
}

/// What all tasks did.
#[derive(Clone, Debug, Default)]
pub struct TasksAnswer {
    /// Longest run time first; ties by pid.
    pub rows: Vec<TaskRow>,
}

impl TasksAnswer {
    /// The same with only the tasks that `keep` chooses.
    #[must_use]
    pub fn only(mut self, keep: impl Fn(Pid, &str) -> bool) -> Self {
        self.rows.retain(|row| keep(row.pid, &row.comm));
        self
    }
}

impl Tasks {
    /// Nothing seen yet; migrations are not told apart by distance.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with migrations by distance in `topology`.
    #[must_use]
    pub fn by_distance(topology: Option<Topology>) -> Self {
        Self { topology, ..Self::default() }
    }

    #[inline]
    fn of(&mut self, task: TaskId) -> &mut Sums {
        if task.index() >= self.rows.len() {
            self.rows.resize_with(task.index() + 1, Sums::default);
        }
        &mut self.rows[task.index()]
    }

    fn distance(&self, from: Cpu, to: Cpu) -> Option<Distance> {
        self.topology.as_ref().and_then(|topology| topology.distance(from, to))
    }

    #[inline]
    fn switch(&mut self, switch: &Switch, state: &State) {
        let from = state.window().start;
        if let Occupant::Task(task) = switch.was {
            let row = self.of(task);
            let ran = switch.at - switch.since.max(from);
            row.ran += ran;
            row.slices.record(ran.0);
        }
        if let (Some(left), true) = (switch.left, switch.prev.is_some()) {
            let row = self.of(switch.prev);
            row.voluntary += u64::from(left.is_voluntary());
            row.involuntary += u64::from(!left.is_voluntary());
        }
        if let Occupant::Task(task) = switch.is {
            if let Some(wait) = switch.wait {
                self.of(task).waited += switch.at - wait.since.max(from);
            }
            if let Some(last) = switch.last_cpu.filter(|last| *last != switch.cpu) {
                let distance = self.distance(last, switch.cpu);
                self.of(task).started_elsewhere.add(distance);
            }
        }
    }
}

impl Question for Tasks {
    type Answer = TasksAnswer;

    #[inline]
    fn see(&mut self, change: &Change, state: &State) {
        match change {
            Change::Switch(switch) => self.switch(switch, state),
            Change::Runnable(runnable) => self.of(runnable.task).wakeups += 1,
            Change::Moved(Moved { task, from, to, .. }) => {
                let distance = self.distance(*from, *to);
                self.of(*task).moved.add(distance);
            }
            Change::Forgotten { at, task, was: Activity::Waiting { .. }, since } => {
                self.of(*task).waited += *at - (*since).max(state.window().start);
            }
            _ => {}
        }
    }

    fn answer(mut self, state: &State) -> TasksAnswer {
        let window = state.window();
        for (id, task) in state.tasks() {
            let open = window.end - task.since.max(window.start);
            match task.activity {
                Activity::Running { .. } => {
                    let row = self.of(id);
                    row.ran += open;
                    row.slices.record(open.0);
                }
                Activity::Waiting { .. } => self.of(id).waited += open,
                _ => {}
            }
        }
        let told = state.seen().contains(Kind::Migrate);
        let named = |(id, sums): (TaskId, Sums)| TaskRow {
            task: id,
            pid: state.task(id).pid,
            comm: state.name(id),
            ran: sums.ran,
            waited: sums.waited,
            slices: sums.slices,
            voluntary: sums.voluntary,
            involuntary: sums.involuntary,
            wakeups: sums.wakeups,
            migrations: if told { sums.moved.count } else { sums.started_elsewhere.count },
            migrations_by: if told { sums.moved.by } else { sums.started_elsewhere.by },
        };
        let seen = |row: &TaskRow| {
            !row.slices.is_empty() || row.waited > Nanos::ZERO || row.wakeups + row.migrations > 0
        };
        let numbered = (0..).map(TaskId).zip(self.rows);
        let mut rows: Vec<TaskRow> = numbered.skip(1).map(named).filter(seen).collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.ran), row.pid));
        TasksAnswer { rows }
    }
}
