//! What each task did with its time.

use crate::change::{Change, Moved, Runnable, Switch};
use crate::in_reply::{InReply, by_distance, named};
use crate::interrupts::Interrupts;
use crate::question::{OtherEvent, Question, Reply};
use crate::stacks::{Blocked, BlockedIn, Listener, StackId, Stacks, longest_first};
use crate::state::{Occupant, State};
use crate::task::{Activity, TaskId};
use crate::task_filter::Chosen;
use crate::totals::{About, Total, Totals};
use schedlab_model::Better::Neither;
use schedlab_model::table::{Column, Items, Row, Rows, Share, column};
use schedlab_model::{
    Context, Cpu, Distance, Kind, Left, Nanos, Need, Pid, Topology, Unit, columns, readable,
};
use schedlab_stats::Histogram;
use std::collections::BTreeMap;

/// Asks for run time, slices, switches and migrations of every task.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    rows: Vec<Sums>,
    topology: Option<Topology>,
    interrupts: Interrupts,
    listener: Listener,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    ran: Nanos,
    interrupts: Nanos,
    waited: Nanos,
    asleep: Asleep,
    wakers: BTreeMap<(bool, TaskId), (u64, Nanos)>,
    /// Where it sleeps now, and how long the last sleep was while nothing was known of where.
    stack: Option<StackId>,
    unstacked: Option<Nanos>,
    blocked: BTreeMap<Option<StackId>, (u64, Nanos)>,
    slices: Histogram,
    voluntary: u64,
    involuntary: u64,
    wakeups: u64,
    moved: Migrations,
    moved_for_affinity: u64,
    /// Where the trace holds no `sched_migrate_task`, running elsewhere than before counts instead.
    started_elsewhere: Migrations,
}

/// Time in which a task was not runnable, by how it left its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asleep {
    /// In an interruptible sleep (`S`), an idle kernel thread's (`I`), parked, or otherwise.
    pub sleeping: Nanos,
    /// In an uninterruptible sleep (`D`).
    pub uninterruptible: Nanos,
    /// Stopped by a signal (`T`) or a tracer (`t`).
    pub stopped: Nanos,
}

impl Asleep {
    fn add(&mut self, left: Left, time: Nanos) {
        *match left {
            Left::Blocked => &mut self.uninterruptible,
            Left::Stopped | Left::Traced => &mut self.stopped,
            _ => &mut self.sleeping,
        } += time;
    }
}

/// Time in which a task was not runnable, by who woke it then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffCpu {
    /// The waker; `None` is interrupts, wakers that are not known, and stoppers.
    pub waker: Option<TaskId>,
    /// Whether a stopper woke it: it had waited to be moved, by its affinity or at an exec.
    pub(crate) to_be_moved: bool,
    /// The number of times off the CPU.
    pub count: u64,
    /// How long the task had slept before, summed over its sleeps.
    pub(crate) time: Nanos,
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
    /// Whose times these are.
    pub task: TaskId,
    /// The kernel's number of the task. Pids are used again; `task` is unique.
    pub pid: Pid,
    /// The task's name at the end of the window.
    pub comm: String,
    /// Time it ran, interrupts on its CPU included.
    pub ran: Nanos,
    /// How much of that interrupts took; `None` where the trace holds no `irq_handler_entry`, `softirq_entry` or
    /// `irq_vectors` event.
    pub(crate) interrupts: Option<Nanos>,
    /// Time it was runnable and did not run.
    pub waited: Nanos,
    /// Time it was not runnable, as far as the events tell.
    pub asleep: Asleep,
    /// The time asleep by waker, longest first. A sleep that goes on at the end of the window has
    /// no waker.
    pub woken_by: Vec<OffCpu>,
    /// The time asleep by where the task blocked, longest first; empty where no stack of it is
    /// known.
    pub blocked: Vec<BlockedIn>,
    /// Lengths of the slices in which it ran, in nanoseconds; those cut by the window's ends or by
    /// a loss count with what was seen of them.
    pub(crate) slices: Histogram,
    /// Switches by which it gave up its CPU to sleep, stop or die.
    pub voluntary: u64,
    /// Switches by which it was displaced, or yielded.
    pub involuntary: u64,
    /// Number of wakeups, a first one after fork included.
    pub wakeups: u64,
    /// Moves between CPUs: `sched_migrate_task` events, or, where the trace holds none, starts on
    /// another CPU than the last.
    pub migrations: u64,
    /// How many of them `sched_setaffinity` or an exec asked for; `None` where the trace holds no `sched_migrate_task`.
    pub(crate) migrations_for_affinity: Option<u64>,
    /// Migrations by distance, in the order of [`Distance::ALL`]; `None` without a topology.
    pub(crate) migrations_by: Option<[u64; Distance::ALL.len()]>,
}

/// What all tasks did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TasksAnswer {
    /// Longest run time first; ties by pid.
    pub rows: Vec<TaskRow>,
    /// The stacks by their numbers.
    pub stacks: Stacks,
}

impl TasksAnswer {
    /// The answer about chosen tasks alone.
    #[must_use]
    pub fn only(mut self, chosen: &Chosen) -> Self {
        self.rows.retain(|row| chosen.has(row.task));
        self
    }
}

/// Tasks after which memory is given back.
const GIVEN_BACK: usize = 1 << 14;

/// Wakers that are named for each task.
const WAKERS_MAX: usize = 10;

impl<A> Row for InReply<'_, OffCpu, A> {
    const ABOUT: &'static str = "Sleeps that one waker ended. A waker is evidence, not proof.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "by.pid" = row.waker.map(|task| row.pid(task)), "The waker; `by` is `null` for interrupts, and for wakers that are not known.";
            "by.comm" = row.waker.map(|task| row.name(task)), "Its name at the end.";
            "to_be_moved" = row.to_be_moved, "Whether these sleeps waited for the stopper to move the task, by its affinity or at an exec; `by` is `null` then.";
            "count" = row.count, "How many sleeps it ended.";
            "off_cpu_ns" = row.time, "How long these were.";
        }
    }
}

impl Row for InReply<'_, TaskRow, TasksAnswer> {
    const ABOUT: &'static str = "What a task did with its time.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "pid" ["pid"] = row.pid, "The task (thread).";
            "comm" ["comm"] = row.comm.clone(), "Its name at the end.";
            "run_ns" ["run"] @ RunTime = row.ran, "Time in which it ran, interrupts on its CPU included, as perf counts.";
        };
        let share = column("run_share", "The same as a part of the window.", |row: &Self| {
            row.part_of_window()
        });
        let share = share.title("of a CPU").rank(3).needs(Need::RunTime);
        columns.push(share.each_ns(|row| 1.0 / row.reply.observed.duration().0.max(1) as f64));
        columns.extend(columns! { row: Self;
            "interrupts_ns" ["in interrupts", 1] @ RunTime = row.interrupts, "How much of its run time interrupts took; `null` where the trace holds no interrupts.";
            "wait_ns" ["wait"] @ WaitTime = row.waited, "Time in which it was runnable and did not run.";
            "sleep_ns" ["off CPU: asleep", 2] @ SleepTime = row.asleep.sleeping, "In an interruptible sleep, an idle kernel thread's, or parked.";
            "uninterruptible_ns" ["off CPU: D", 3] @ SleepTime = row.asleep.uninterruptible, "In an uninterruptible sleep (`D`).";
            "stopped_ns" ["off CPU: stopped", 9] @ SleepTime = row.asleep.stopped, "Stopped by a signal or a tracer.";
        });
        columns.extend([
            column(
                "woken_by",
                "Who ended its sleeps by a wakeup, the longest sum first; at most 10.",
                |row: &Self| {
                    Items(row.row.woken_by.iter().take(WAKERS_MAX).map(|of| row.with(of)).collect())
                },
            )
            .title("off CPU: ended most by")
            .needs(Need::Wakers)
            .rank(10)
            .spelled(Self::woken_most_by),
            column(
                "blocked_in",
                "Where in the kernel it blocked, the longest sum first; at most 10, and empty where the trace holds no stacks.",
                |row: &Self| Items(Blocked::all(&row.row.blocked, &row.reply.answer.stacks)),
            )
            .title("off CPU: most in")
            .needs(Need::SleepTime)
            .rank(10)
            .spelled(Self::blocked_most_in),
        ]);
        columns.extend(columns! { row: Self;
            "slices" ["slices: count", 7] @ Slices = row.slices.count(), "How often it ran without a break.";
            "slice_ns_p50" ["slices: p50", 9] @ Slices = row.slices.quantile(0.5).map(Nanos), "Half of its slices are not longer.";
            "slice_ns_p99" ["slices: p99", 8] @ Slices = row.slices.quantile(0.99).map(Nanos), "99 % of its slices are not longer.";
            "slice_ns_max" ["slices: max", 6] @ LongestSlice = row.slices.max().map(Nanos), "Its longest slice.";
            "switches_voluntary" ["switches: voluntary", 4] @ Switches = row.voluntary, "Switches after which it blocked.";
            "switches_involuntary" ["switches: involuntary"] @ Switches = row.involuntary, "Switches after which it stayed runnable.";
            "wakeups" ["wakeups", 5] @ Wakeups = row.wakeups, "Wakeups of it.";
            "migrations" ["migrations: all"] @ Migrations = row.migrations, "Moves to another CPU.";
            "migrations_for_affinity" ["migrations: asked for", 10] @ Migrations = row.migrations_for_affinity, "Those that the stopper did since `sched_setaffinity` or an exec asked for them; `null` where the trace does not tell.";
        });
        let by = by_distance("migrations_by_distance", Some("migrations"), |row: &Self| {
            row.migrations_by
        });
        columns.extend(by.into_iter().map(|column| column.needs(Need::Migrations)));
        columns
    }
}

impl Reply<TasksAnswer> {
    /// Rows of the answer as a table: what the trace cannot tell is unknown, and times that the kernel counted otherwise
    /// say how far they are off.
    #[must_use]
    pub fn table<'a>(
        &self,
        rows: &'a [InReply<'a, TaskRow, TasksAnswer>],
    ) -> Rows<'a, InReply<'a, TaskRow, TasksAnswer>> {
        Rows::new(rows, self.origin)
            .known(&self.known)
            .off("run_ns", |row| Some(row.reply.off(row.task)?.ran_off().0 as f64))
            .off("wait_ns", |row| Some(row.reply.off(row.task)?.waited_off()?.0 as f64))
    }
}

impl InReply<'_, TaskRow, TasksAnswer> {
    fn part_of_window(&self) -> Option<Share> {
        let window = self.reply.observed.duration();
        (window > Nanos::ZERO).then(|| Share(self.ran.0 as f64 / window.0 as f64))
    }

    /// Who ended most of its time off the CPU, and the share of that.
    fn woken_most_by(&self) -> String {
        let times = self.woken_by.iter().map(|of| of.time);
        most(times, || match self.woken_by.first()?.waker {
            Some(waker) => Some(named(waker, &self.reply.state)),
            None if self.woken_by.first()?.to_be_moved => Some("moves by affinity".to_owned()),
            None => Some("interrupts".to_owned()),
        })
    }

    /// The function in which it blocked longest, and the share of that.
    fn blocked_most_in(&self) -> String {
        most(self.blocked.iter().map(|of| of.time), || {
            let stack = self.reply.answer.stacks.text(self.blocked.first()?.stack?);
            Some(stack.split("<-").next().unwrap_or_default().to_owned())
        })
    }
}

/// What the first and longest of some times is called, with its share of all.
fn most(times: impl Iterator<Item = Nanos> + Clone, name: impl Fn() -> Option<String>) -> String {
    let all: u64 = times.clone().map(|time| time.0).sum();
    let first = times.map(|time| time.0).next().filter(|_| all > 0);
    let named = first.and_then(|first| Some((first, name()?)));
    named.map_or_else(
        || "-".to_owned(),
        |(first, name)| format!("{name} {}", readable(first as f64 / all as f64, Unit::Fraction)),
    )
}

impl Tasks {
    /// Migrations are counted together. [`Self::by_distance`] counts them by distance.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A question about tasks that divides migrations by their distance in `topology`.
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
        let interrupts = self.interrupts.switched(switch, state);
        if let Occupant::Task(task) = switch.was {
            let row = self.of(task);
            let ran = switch.at - switch.since.max(from);
            row.ran += ran;
            row.interrupts += interrupts;
            row.slices.record(ran.0);
        }
        if let (Some(left), true) = (switch.left, switch.prev.is_some()) {
            let row = self.of(switch.prev);
            row.unstacked = None;
            row.voluntary += u64::from(left.is_voluntary());
            row.involuntary += u64::from(!left.is_voluntary());
            self.listener.left(switch.cpu, switch.prev);
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

impl Tasks {
    fn woken(&mut self, woken: &Runnable, state: &State) {
        let row = self.of(woken.task);
        row.wakeups += 1;
        let Some((since, left)) = woken.slept else { return };
        let time = woken.at - since.max(state.window().start);
        row.asleep.add(left, time);
        row.unstacked = Some(time);
        if let Some(stack) = row.stack.take() {
            row.blocked_in(stack, time);
        }
        let by_task = woken.waker.context == Context::Task;
        let waker = if by_task { woken.waker.task } else { TaskId::NONE };
        let to_be_moved = waker.is_some() && state.is_stopper(waker);
        let waker = if to_be_moved { TaskId::NONE } else { waker };
        let of_waker = self.of(woken.task).wakers.entry((to_be_moved, waker)).or_default();
        of_waker.0 += 1;
        of_waker.1 += time;
    }
}

impl Sums {
    fn blocked_in(&mut self, stack: StackId, time: Nanos) {
        self.unstacked = None;
        let sum = self.blocked.entry(Some(stack)).or_default();
        *sum = (sum.0 + 1, sum.1 + time);
    }
}

fn by_waker(wakers: BTreeMap<(bool, TaskId), (u64, Nanos)>) -> Vec<OffCpu> {
    let told = |((to_be_moved, waker), (count, time)): ((bool, TaskId), _)| OffCpu {
        waker: Some(waker).filter(|waker| waker.is_some()),
        to_be_moved,
        count,
        time,
    };
    let mut all: Vec<OffCpu> = wakers.into_iter().map(told).collect();
    all.sort_by_key(|of| (std::cmp::Reverse(of.time), of.waker, of.to_be_moved));
    all
}

impl Question for Tasks {
    type Answer = TasksAnswer;
    const INLINED: bool = true;

    fn wants(&mut self, format: u16, state: &State) -> bool {
        self.listener.wants(format, state)
    }

    fn begin(&mut self, state: &State) {
        // Stacks from before the window are those of tasks that sleep when it opens.
        for (id, task) in state.tasks() {
            if let (false, Some(row)) =
                (matches!(task.activity, Activity::Sleeping { .. }), self.rows.get_mut(id.index()))
            {
                row.stack = None;
            }
        }
    }

    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        let Some((task, stack)) = self.listener.sleeper_stack(event, state) else { return };
        let sleeps = matches!(state.task(task).activity, Activity::Sleeping { .. });
        let row = self.of(task);
        // Another CPU may have woken it before the stack was logged.
        match row.unstacked {
            _ if sleeps => row.stack = Some(stack),
            Some(time) => row.blocked_in(stack, time),
            None => {}
        }
    }

    #[inline]
    fn see(&mut self, change: &Change, state: &State) {
        match change {
            Change::Switch(switch) => self.switch(switch, state),
            Change::Runnable(runnable) => self.woken(runnable, state),
            Change::Moved(Moved { task, from, to, for_affinity, .. }) => {
                let distance = self.distance(*from, *to);
                let row = self.of(*task);
                row.moved.add(distance);
                row.moved_for_affinity += u64::from(*for_affinity);
            }
            Change::Forgotten { at, task, was: Activity::Waiting { .. }, since } => {
                self.of(*task).waited += *at - (*since).max(state.window().start);
            }
            Change::Other { at, cpu, format } => self.interrupts.other(*at, *cpu, *format, state),
            Change::Lost { cpu, .. } => self.interrupts.lost(*cpu),
            _ => {}
        }
    }

    fn answer(mut self, state: &State) -> TasksAnswer {
        let window = state.window();
        for (id, task) in state.tasks() {
            let open = window.end - task.since.max(window.start);
            match task.activity {
                Activity::Running { cpu } => {
                    let task = Occupant::Task(id);
                    let interrupts = self.interrupts.open(cpu, task, window.end, state);
                    let row = self.of(id);
                    row.interrupts += interrupts;
                    row.ran += open;
                    row.slices.record(open.0);
                }
                Activity::Waiting { .. } => self.of(id).waited += open,
                Activity::Sleeping { left } => {
                    let row = self.of(id);
                    row.asleep.add(left, open);
                    if let Some(stack) = row.stack.take() {
                        row.blocked_in(stack, open);
                    }
                }
                _ => {}
            }
        }
        let interrupts = self.interrupts.seen();
        let told = state.seen().contains(Kind::Migrate);
        let has_topology = self.topology.is_some();
        let named = |(id, sums): (TaskId, Sums)| TaskRow {
            task: id,
            pid: state.task(id).pid,
            comm: state.name(id),
            ran: sums.ran,
            interrupts: interrupts.then_some(sums.interrupts),
            waited: sums.waited,
            asleep: sums.asleep,
            woken_by: by_waker(sums.wakers),
            blocked: longest_first(sums.blocked),
            slices: sums.slices,
            voluntary: sums.voluntary,
            involuntary: sums.involuntary,
            wakeups: sums.wakeups,
            migrations: if told { sums.moved.count } else { sums.started_elsewhere.count },
            migrations_for_affinity: told.then_some(sums.moved_for_affinity),
            migrations_by: has_topology.then_some(if told {
                sums.moved.by
            } else {
                sums.started_elsewhere.by
            }),
        };
        let seen = |row: &TaskRow| {
            // Who only sleeps is not listed, but who is stuck in another state is.
            let stuck = row.asleep.uninterruptible + row.asleep.stopped;
            if !state.logs(row.task) {
                return false;
            }
            !row.slices.is_empty()
                || row.waited + stuck > Nanos::ZERO
                || row.wakeups + row.migrations > 0
        };
        // From the last one on, so that sums give back their memory as rows take theirs.
        let mut rows = Vec::new();
        while let Some(sums) = self.rows.pop() {
            let id = TaskId(self.rows.len() as u32);
            rows.extend(id.is_some().then(|| named((id, sums))).filter(&seen));
            if self.rows.len().is_multiple_of(GIVEN_BACK) {
                self.rows.shrink_to_fit();
            }
        }
        rows.sort_unstable_by_key(|row: &TaskRow| (std::cmp::Reverse(row.ran), row.pid, row.task));
        TasksAnswer { rows, stacks: self.listener.stacks }
    }
}

impl Totals for Tasks {
    fn totals() -> Vec<Total> {
        vec![
            Total::level("tasks", Unit::Count, Neither, "Tasks in the trace."),
            Total::count("switches_voluntary", Neither, "Context switches of tasks that blocked.")
                .needs(Need::AllSwitches),
            Total::count(
                "switches_involuntary",
                Neither,
                "Context switches of tasks that stayed runnable.",
            )
            .needs(Need::AllSwitches),
        ]
    }

    fn question(about: &About<'_>) -> Self {
        Self::by_distance(about.topology.clone())
    }

    fn values(answer: &TasksAnswer, chosen: &Chosen) -> Vec<Option<f64>> {
        let rows = || answer.rows.iter().filter(|row| chosen.has(row.task));
        let sum = |of: fn(&TaskRow) -> u64| Some(rows().map(of).sum::<u64>() as f64);
        vec![Some(rows().count() as f64), sum(|row| row.voluntary), sum(|row| row.involuntary)]
    }
}
