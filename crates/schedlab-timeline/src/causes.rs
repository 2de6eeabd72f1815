//! Why tasks waited for a CPU: each instant of a wait has exactly one cause.
//!
//! The first that holds is the cause ([`WaitCause`]): so the causes of a wait add up to its length, and those of a task
//! to its run delay in the window. The part of a wait before the window is not counted.
//!
//! Throttled times come from an earlier pass over the same part of the trace ([`crate::Throttling`]), since only a
//! refill shows which tasks it found.
//!
//! No event tells that a real-time or deadline task used up its own budget. The order of classes does: the kernel picks
//! no task of a lower class while one of a higher class may run. If a CPU switches to a lower class while a task waits
//! there, that task is throttled (`rt_rq_throttled`, `dl_throttled`). Or the fair server runs, which gives fair tasks
//! their share since Linux 6.12.
//!
//! A task is blamed for the part of a wait that would not have been without it. If the waiting task is throttled later
//! in the same period, others do not make its waits longer: alone, it would use up its budget sooner. So nobody is
//! blamed for its waits between the refill and the throttling ([`CausesAnswer::to_quota`]).
//!
//! Tasks that are alike (allowed CPUs, group, name, class) wait alike on a CPU: times are added up once for each such
//! kind on each CPU. A wait is the difference of two readings. Memory: CPUs times kinds that wait there now, and one
//! entry for each task that waited.

mod blamed;
mod free_time;
mod kinds;
mod wait_cause;

pub use wait_cause::{Parts, WaitCause};

use crate::change::{Change, Switch, concerned};
use crate::conservation::Allowed;
use crate::in_reply::InReply;
use crate::interrupts::Interrupts;
use crate::longest_waits::Longest;
use crate::membership::Membership;
use crate::names::CommId;
use crate::question::Question;
use crate::state::{CpuState, Occupant, State};
use crate::task::{Activity, TaskId};
use crate::throttling::Throttled;
use blamed::Blamed;
use free_time::FreeTime;
use kinds::{Kind, KindId, Kinds};
use schedlab_model::table::{At, Column, Row, column};
use schedlab_model::{Cpu, Groups, Nanos, Need, Span, TraceInfo, Trigger, columns};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// An idle CPU needs less than this to switch to a task that waits on its queue.
const HAND_OVER_MAX: Nanos = Nanos(1_000_000);

/// Asks why tasks waited.
#[derive(Debug)]
pub struct Causes {
    /// Who is on each CPU, and what kind of culprit that is.
    on: Vec<Running>,
    queues: Vec<Vec<Queued>>,
    free: FreeTime,
    allowed: Allowed,
    membership: Membership,
    kinds: Kinds,
    /// By name: whether it is that of a kernel thread, once somebody asked.
    kernel_names: Vec<Option<bool>>,
    /// By task: its wait, if it waits.
    waiting: Vec<Option<Box<Waiting>>>,
    tasks: Vec<Sum>,
    /// By task: what events look up most. Apart from the sums it fits into caches.
    limits: Vec<Limits>,
    blamed: Blamed,
    /// Whether blame is kept for each task that waits, and not for those of a name together.
    each_task: bool,
    /// By task: how long it ran.
    ran: Vec<Nanos>,
    worst: Longest<ExplainedWait>,
    trigger: Option<Trigger>,
    triggered: Option<ExplainedWait>,
    /// Waits that ended with the change seen last.
    ended: Vec<ExplainedWait>,
    turns: Vec<Turn>,
    /// By CPU: tasks without budget, before which it runs tasks of a lower class.
    overtaken: Vec<Vec<TaskId>>,
    interrupts: Interrupts,
    group_names: Vec<String>,
    group_titles: Vec<String>,
}

/// The scheduling classes by the priority that events carry, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Class {
    Deadline,
    RealTime,
    Fair,
}

impl Class {
    fn of(task: TaskId, state: &State) -> Self {
        match state.task(task).prio {
            prio if prio.is_deadline() => Self::Deadline,
            prio if prio.is_real_time() => Self::RealTime,
            _ => Self::Fair,
        }
    }
}

/// Who is on a CPU.
#[derive(Clone, Copy, Debug)]
struct Running {
    occupant: Occupant,
    since: Nanos,
    cause: WaitCause,
    group: Option<u32>,
    is_observed: bool,
    /// Whether an interrupt is handled there, and not by the occupant as its own work.
    is_interrupted: bool,
}

/// Tasks of one kind on one CPU's queue.
#[derive(Clone, Debug)]
struct Queued {
    kind: KindId,
    count: u32,
    /// Up to when `sums` holds, and how long CPUs had been free by then: those that the kind may use, and any.
    at: Nanos,
    free: Nanos,
    any_free: Nanos,
    sums: Parts,
}

/// A wait that goes on.
#[derive(Clone, Debug)]
struct Waiting {
    since: Nanos,
    parts: Parts,
    /// Where it stands now, and since when.
    place: Place,
    from: Nanos,
    /// Reading of its queue when it came.
    before: Parts,
    /// On whose queue it stood longest so far, and for how long.
    longest: Option<(Cpu, Nanos)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A wakeup has not chosen a CPU yet.
    Nowhere,
    /// Its group's budget is used up; for certain, or not.
    Throttled {
        certain: bool,
    },
    On(Cpu, KindId),
}

/// The waits of one task.
#[derive(Clone, Debug, Default)]
struct Sum {
    waits: u64,
    parts: Parts,
    longest: Nanos,
    /// As what it waited: few, since they change with its name, group and affinity only.
    kinds: Vec<KindId>,
}

/// What holds a task now, and as what it waited last.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    /// Limits that hold it: certain ones, and all.
    held_certainly: u32,
    held: u32,
    /// Limits by which it will be held before their next refill.
    soon: u32,
    /// The CPU that runs tasks of a lower class before it.
    overtaken_on: Option<Cpu>,
    /// The kind of task that it was in its last wait.
    kind: Option<(Kind, KindId)>,
}

/// A task is throttled from, or until, a time; or its budget will be used up before the next refill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    at: Nanos,
    is_begin: bool,
    task: TaskId,
    what: Held,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    Certainly,
    Perhaps,
    /// Not yet, but in this period.
    Soon,
}

/// Turns, latest first.
fn turns(throttled: &[Throttled], groups: Option<&Groups>) -> Vec<Turn> {
    let both = |span: Span, task: TaskId, what: Held| {
        let begin = Turn { at: span.start, is_begin: true, task, what };
        [begin, Turn { at: span.end, is_begin: false, ..begin }]
    };
    let held = |one: &Throttled| {
        both(one.span, one.task, if one.certain { Held::Certainly } else { Held::Perhaps })
    };
    let mut turns: Vec<Turn> = throttled.iter().flat_map(held).collect();
    // A span that ends with the trace does not show a refill. Those of a group are whole periods apart.
    let end = throttled.iter().map(|one| one.span.end).max();
    let mut refills = BTreeMap::<u32, Nanos>::new();
    for one in throttled.iter().filter(|one| one.certain && Some(one.span.end) < end) {
        refills.entry(one.group).or_insert(one.span.end);
    }
    let mut last = BTreeMap::<(TaskId, u32), Nanos>::new();
    for one in throttled {
        let before = last.insert((one.task, one.group), one.span.end).unwrap_or_default();
        let limit = groups.and_then(|groups| groups.limit(one.group));
        let Some(period) = limit.map(|limit| limit.period.0.max(1)) else { continue };
        let start = one.span.start;
        let refill = refills.get(&one.group).copied().unwrap_or(one.span.end);
        // How far into its period the span begins.
        let into = match start >= refill {
            true => (start.0 - refill.0) % period,
            false => period - 1 - (refill.0 - start.0 - 1) % period,
        };
        let refill = Nanos(start.0.saturating_sub(into)).max(before);
        if refill < start {
            turns.extend(both(Span::new(refill, start), one.task, Held::Soon));
        }
    }
    turns.sort_unstable_by(|a, b| b.cmp(a));
    turns
}

/// The waits of a task by cause.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskCauses {
    /// Whose waits these are.
    pub task: TaskId,
    /// Its group at the end, as an index into [`schedlab_model::Groups::names`]; `None` if not known.
    pub group: Option<u32>,
    /// How many waits began or went on in the window; the one that is open at the end included.
    pub(crate) waits: u64,
    /// How long it waited in the window, by cause.
    pub parts: Parts,
    /// Its longest wait; of one that is open, as much as was seen.
    pub longest: Nanos,
    /// Since when it waits, if it still does at the end.
    pub open_since: Option<Nanos>,
    /// The names that it had while it waited, as in [`Blame`].
    pub comms: Vec<CommId>,
}

/// One of the longest waits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExplainedWait {
    /// Who waited.
    pub task: TaskId,
    /// When the wait began.
    pub since: Nanos,
    /// When it ended, or the end of the window.
    pub until: Nanos,
    /// Whether it had not ended.
    pub is_open: bool,
    /// On whose queue it stood longest; `None` if on none.
    pub cpu: Option<Cpu>,
    /// Its causes, as far as it lay in the window.
    pub parts: Parts,
}

/// Who took how much CPU time from whom.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blame {
    /// The name of the tasks that waited.
    pub comm: CommId,
    /// Their group, as an index into [`schedlab_model::Groups::names`]; `None` if not known.
    pub group: Option<u32>,
    /// The task that waited, if it was asked for each ([`Causes::each_task`]).
    pub task: Option<TaskId>,
    /// Who ran on the CPU on whose queue they stood.
    pub by: TaskId,
    /// For how long, counted once for each task that waited.
    pub time: Nanos,
}

/// Why tasks waited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CausesAnswer {
    /// Tasks that waited, those that waited longest in sum first.
    pub tasks: Vec<TaskCauses>,
    /// All waits together.
    pub total: Parts,
    /// The longest waits, longest first; open ones count as much as was seen of them.
    pub worst: Vec<ExplainedWait>,
    /// Waits that had not ended, in the order of their tasks.
    pub open: Vec<ExplainedWait>,
    /// The wait that ended the recording.
    pub triggered: Option<ExplainedWait>,
    /// Who ran while others waited, most first.
    pub blame: Vec<Blame>,
    /// How long others ran while tasks waited that would have waited as long without them, for their quota. Each entry
    /// has the name and group of the tasks that waited, the task if it was asked for each, and the time.
    pub to_quota: Vec<(CommId, Option<u32>, Option<TaskId>, Nanos)>,
    /// Whether interrupts were recorded; if not, their time counts for whom they interrupted.
    pub sees_interrupts: bool,
    /// By task: the group at the end.
    pub groups: Vec<Option<u32>>,
    /// By task: how long it ran in the window; shorter than the list of tasks if the last ones did not.
    pub(crate) ran: Vec<Nanos>,
    /// Paths of the groups by their index; empty where the trace does not tell.
    pub(crate) group_names: Vec<String>,
    /// What people call these groups.
    pub(crate) group_titles: Vec<String>,
}

impl CausesAnswer {
    /// How long a task ran.
    #[must_use]
    pub fn ran(&self, task: TaskId) -> Nanos {
        self.ran.get(task.index()).copied().unwrap_or_default()
    }

    /// The path of a group.
    #[must_use]
    pub fn group_name(&self, group: Option<u32>) -> Option<&str> {
        self.group_names.get(group? as usize).map(String::as_str)
    }

    /// What people call a group: its container, its systemd unit, or its path.
    #[must_use]
    pub fn group_title(&self, group: Option<u32>) -> Option<&str> {
        self.group_titles.get(group? as usize).map(String::as_str)
    }
}

impl Row for InReply<'_, TaskCauses, CausesAnswer> {
    const ABOUT: &'static str = "A task that waited for a CPU, and why.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "pid" ["pid"] = row.pid(row.task), "The task (thread).";
            "comm" ["comm"] = row.name(row.task), "Its name at the end.";
            "group" = row.reply.answer.group_name(row.group).map(str::to_owned), "The path of its control group at the end; `null` if not known.";
            "group_name" ["group", 3] = row.reply.answer.group_title(row.group).map(str::to_owned), "What people call that group.";
            "waited_ns" ["waited"] = row.parts.sum(), "How long it waited in the window, open waits included; the columns by cause add up to it.";
            "mostly" ["mostly"] = row.parts.ranked().first().map(|(cause, _)| cause.name()), "The cause of most of it.";
            "mostly_ns" ["of which", 1] = row.parts.ranked().first().map(|(_, time)| *time), "How much that was.";
            "waits" ["waits", 2] = row.waits, "How many waits there were.";
            "longest_ns" ["longest"] = row.longest, "The longest wait; of an open one as much as was seen.";
            "open_since_ns" = row.open_since.map(At), "Since when it waits, if it still did at the end of the window.";
        };
        columns.extend(WaitCause::ALL.into_iter().map(|cause| {
            let name = format!("{}_ns", cause.name());
            column(name, cause.about(), move |row: &Self| row.parts.of(cause)).needs(Need::Queues)
        }));
        let is_time = |column: &Column<Self>| {
            ["waited_ns", "longest_ns", "mostly_ns"].contains(&column.head().name.as_ref())
        };
        columns
            .into_iter()
            .map(|column| if is_time(&column) { column.needs(Need::WaitTime) } else { column })
            .collect()
    }
}

impl Row for InReply<'_, Blame, CausesAnswer> {
    const ABOUT: &'static str = "Who ran on the CPU for which others waited.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "comm" ["waited: comm"] = row.reply.state.names().text(row.comm), "The name of the tasks that waited.";
            "group" = row.reply.answer.group_name(row.group).map(str::to_owned), "The path of their control group; `null` if not known.";
            "group_name" ["waited: group", 2] = row.reply.answer.group_title(row.group).map(str::to_owned), "What people call that group.";
            "by_pid" ["ran: pid"] = row.pid(row.by), "The task that ran.";
            "by_comm" ["ran: comm"] = row.name(row.by), "Its name at the end.";
            "by_group" = row.reply.answer.group_name(row.reply.answer.groups[row.by.index()]).map(str::to_owned), "The path of its control group at the end; `null` if not known.";
            "by_group_name" ["ran: group", 1] = row.reply.answer.group_title(row.reply.answer.groups[row.by.index()]).map(str::to_owned), "What people call that group.";
        }
        .into_iter()
        .chain([column("time_ns", "How long it ran meanwhile, counted once for each task that waited.", |row: &Self| row.time)
            .title("time")
            .needs(Need::Queues)])
        .collect()
    }
}

impl Causes {
    /// A question that knows when tasks were throttled, and keeps the `worst` longest waits.
    #[must_use]
    pub fn new(info: &TraceInfo, throttled: &[Throttled], worst: usize) -> Self {
        let allowed = Allowed::new(info.affinity.as_ref());
        let groups = info.groups.as_ref();
        let count = groups.map_or(0, |groups| groups.names.len() as u32);
        let turns = turns(throttled, groups);
        Self {
            on: Vec::new(),
            queues: Vec::new(),
            free: FreeTime::new(&allowed),
            allowed,
            membership: Membership::new(info.groups.as_ref()),
            kinds: Kinds::default(),
            kernel_names: Vec::new(),
            waiting: Vec::new(),
            tasks: Vec::new(),
            limits: Vec::new(),
            blamed: Blamed::default(),
            each_task: false,
            ran: Vec::new(),
            worst: Longest::new(worst),
            trigger: info.trigger,
            triggered: None,
            ended: Vec::new(),
            turns,
            overtaken: Vec::new(),
            interrupts: Interrupts::default(),
            group_names: groups.map(|groups| groups.names.clone()).unwrap_or_default(),
            group_titles: (0..count).filter_map(|at| Some(groups?.title(at))).collect(),
        }
    }

    /// Keeps blame for each task that waits: memory for each pair of tasks that met.
    #[must_use]
    pub fn each_task(self) -> Self {
        Self { each_task: true, ..self }
    }

    /// The waits that ended with the change seen last.
    #[must_use]
    pub fn ended(&self) -> &[ExplainedWait] {
        &self.ended
    }

    fn grow(&mut self, state: &State) {
        for (cpu, here) in state.cpus().iter().enumerate().skip(self.on.len()) {
            self.on.push(Running {
                occupant: Occupant::Unknown,
                since: state.window().start,
                cause: WaitCause::Unknown,
                group: None,
                is_observed: here.observed,
                is_interrupted: false,
            });
            self.queues.push(Vec::new());
            self.overtaken.push(Vec::new());
            self.free.add_cpu(Cpu(cpu as u16), &self.allowed);
        }
    }

    fn sum_of(&mut self, task: TaskId) -> &mut Sum {
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, Sum::default);
        }
        &mut self.tasks[task.index()]
    }

    fn limits_of(&mut self, task: TaskId) -> &mut Limits {
        if task.index() >= self.limits.len() {
            self.limits.resize_with(task.index() + 1, Limits::default);
        }
        &mut self.limits[task.index()]
    }

    /// Brings the sums of a CPU's queue up to `now`.
    fn settle(&mut self, cpu: Cpu, now: Nanos) {
        let on = self.on[cpu.index()];
        for queued in &mut self.queues[cpu.index()] {
            let time = now - queued.at;
            let kind = self.kinds.get(queued.kind);
            let free = self.free.of(kind.allowed, now);
            let any_free = self.free.any(now);
            let usable = free - queued.free;
            let unusable = (any_free - queued.any_free) - usable;
            (queued.at, queued.free, queued.any_free) = (now, free, any_free);
            if time == Nanos::ZERO {
                continue;
            }
            match on.occupant {
                Occupant::Unknown => queued.sums.count(on.cause, time),
                Occupant::Idle => queued.sums.count(WaitCause::HandingOver, time),
                Occupant::Task(_) if on.is_interrupted => {
                    queued.sums.count(WaitCause::Interrupt, time);
                }
                Occupant::Task(by) => {
                    queued.sums.count(WaitCause::Misplaced, usable);
                    queued.sums.count(WaitCause::Pinned, unusable);
                    let cause = match (on.cause, kind.group, on.group) {
                        (WaitCause::Fair, Some(own), Some(its)) if own == its => {
                            WaitCause::OwnGroup
                        }
                        (WaitCause::Fair, Some(_), Some(_)) => WaitCause::OtherGroup,
                        (cause, ..) => cause,
                    };
                    queued.sums.count(cause, time - usable - unusable);
                    let all = Nanos(time.0 * u64::from(queued.count));
                    let by = if kind.is_held_soon { TaskId::NONE } else { by };
                    self.blamed.count(queued.kind, by, all);
                }
            }
        }
    }

    /// A CPU is free if it idles and nobody is about to run there.
    fn update_free(&mut self, cpu: Cpu, now: Nanos) {
        let on = self.on[cpu.index()];
        let is_free =
            on.occupant == Occupant::Idle && on.is_observed && self.queues[cpu.index()].is_empty();
        self.free.set(cpu, is_free, now);
    }

    /// The waiters of other CPUs see the CPUs that become free through [`FreeTime`]; those of this CPU through
    /// `settle`.
    fn occupy(&mut self, switch: &Switch, state: &State) {
        let Switch { at, cpu, is, left, .. } = *switch;
        self.settle(cpu, at);
        let was = self.on[cpu.index()];
        self.count_run(&was, at, state);
        if was.occupant == Occupant::Idle {
            // Without a logged switch, it is known to have idled until its last event only.
            let idle_until = match left {
                Some(_) => at,
                None => state.silent_since(cpu).max(was.since).min(at),
            };
            let waiters: Vec<TaskId> = state.waiters(cpu).chain(is.task()).collect();
            for task in waiters {
                self.held_back(task, was.since, idle_until, state);
                self.idled_perhaps(task, idle_until, at);
            }
        }
        self.on[cpu.index()] = self.running(&state.cpus()[cpu.index()], state);
    }

    /// Adds the time in which a task ran in the window.
    fn count_run(&mut self, on: &Running, until: Nanos, state: &State) {
        let Occupant::Task(task) = on.occupant else { return };
        if task.index() >= self.ran.len() {
            self.ran.resize(task.index() + 1, Nanos::ZERO);
        }
        self.ran[task.index()] += until - on.since.max(state.window().start);
    }

    /// Who is on a CPU, and what that is to those that wait there.
    fn running(&mut self, here: &CpuState, state: &State) -> Running {
        let CpuState { occupant, since, observed: is_observed, .. } = *here;
        let (cause, group) = match occupant {
            Occupant::Task(task) => self.culprit(task, state),
            _ if here.offline => (WaitCause::Offline, None),
            _ => (WaitCause::Unknown, None),
        };
        // No interrupt lasts over a switch.
        Running { occupant, since, cause, group, is_observed, is_interrupted: false }
    }

    /// An interrupt may have begun or ended on a CPU. Softirqs that `ksoftirqd` performs are its own work.
    fn interrupted(&mut self, cpu: Cpu, at: Nanos, state: &State) {
        let is_work = |task| state.is_ksoftirqd(task);
        let is_interrupted = self.interrupts.is_under_way(cpu)
            && !self.on[cpu.index()].occupant.task().is_some_and(is_work);
        if self.on[cpu.index()].is_interrupted != is_interrupted {
            self.settle(cpu, at);
            self.on[cpu.index()].is_interrupted = is_interrupted;
        }
    }

    /// What a task is to those that wait for it.
    fn culprit(&mut self, task: TaskId, state: &State) -> (WaitCause, Option<u32>) {
        let comm = state.task(task).comm;
        let place = comm.0 as usize;
        if place >= self.kernel_names.len() {
            self.kernel_names.resize(place + 1, None);
        }
        let is_kernel = *self.kernel_names[place]
            .get_or_insert_with(|| is_kernel_thread(&state.names().text(comm)));
        let cause = match Class::of(task, state) {
            _ if is_kernel => WaitCause::KernelThread,
            Class::Deadline => WaitCause::Deadline,
            Class::RealTime => WaitCause::RealTime,
            Class::Fair => WaitCause::Fair,
        };
        (cause, self.membership.of(task, state))
    }

    /// A task stood beside an idle CPU from `idle` until `at`: longer than a switch takes, it was not handed over.
    fn held_back(&mut self, task: TaskId, idle: Nanos, at: Nanos, state: &State) {
        let Some(Some(wait)) = self.waiting.get_mut(task.index()) else { return };
        if !matches!(wait.place, Place::On(..)) {
            return;
        }
        let beside = at - idle.max(wait.from);
        if beside > HAND_OVER_MAX {
            // A deadline or real-time task that does not run beside an idle CPU has used up its own budget.
            let has_budget = Class::of(task, state) < Class::Fair;
            let cause = if has_budget { WaitCause::Throttled } else { WaitCause::HeldBack };
            wait.parts.move_to(cause, WaitCause::HandingOver, beside);
        }
    }

    /// From `idle` until `at` nobody knows whether a CPU still idled beside a task, or ran it already.
    fn idled_perhaps(&mut self, task: TaskId, idle: Nanos, at: Nanos) {
        if let Some(Some(wait)) = self.waiting.get_mut(task.index())
            && matches!(wait.place, Place::On(..))
        {
            let beside = at - idle.max(wait.from);
            wait.parts.move_to(WaitCause::Unknown, WaitCause::HandingOver, beside);
        }
    }

    /// A task may wait, elsewhere, or no longer.
    fn follow(&mut self, task: TaskId, at: Nanos, state: &State) {
        let known = state.task(task);
        self.end_overtaking(task, known.activity);
        let Activity::Waiting { cpu, placed, .. } = known.activity else {
            return self.end(task, at, state, false);
        };
        let limits = *self.limits_of(task);
        let certain = limits.held_certainly + u32::from(limits.overtaken_on.is_some());
        let place = match (certain, limits.held, placed) {
            (0, 0, true) => Place::On(cpu, self.kind_of(task, &limits, state)),
            (0, 0, false) => Place::Nowhere,
            (certain, ..) => Place::Throttled { certain: certain > 0 },
        };
        if task.index() >= self.waiting.len() {
            self.waiting.resize_with(task.index() + 1, || None);
        }
        match &self.waiting[task.index()] {
            Some(wait) if wait.since == known.since => {
                let stays = match (wait.place, place) {
                    // Its kind may have changed; that does not matter until it moves, except for blame.
                    (Place::On(old, before), Place::On(new, now)) => {
                        let is_held_soon = |kind| self.kinds.get(kind).is_held_soon;
                        old == new && is_held_soon(before) == is_held_soon(now)
                    }
                    (old, new) => old == new,
                };
                if stays {
                    return;
                }
                self.leave(task, at, state);
            }
            // A wait that began anew without an end.
            Some(_) => self.end(task, at, state, false),
            None => {}
        }
        if self.waiting[task.index()].is_none() {
            let from = at.max(state.window().start);
            self.sum_of(task).waits += 1;
            self.waiting[task.index()] = Some(Box::new(Waiting {
                since: known.since,
                parts: Parts::default(),
                place: Place::Nowhere,
                from,
                before: Parts::default(),
                longest: None,
            }));
        }
        self.enter(task, place, at);
    }

    fn kind_of(&mut self, task: TaskId, limits: &Limits, state: &State) -> KindId {
        let group = self.membership.of(task, state);
        let allowed = self.allowed.class_of(task, state);
        let class = Class::of(task, state);
        let one = self.each_task.then_some(task);
        let comm = state.task(task).comm;
        let is_held_soon = limits.soon > 0;
        let kind = Kind { allowed, group, comm, class, task: one, is_held_soon };
        if let Some((last, number)) = limits.kind
            && last == kind
        {
            return number;
        }
        let number = self.kinds.number(kind);
        self.limits_of(task).kind = Some((kind, number));
        let kinds = &mut self.sum_of(task).kinds;
        if !kinds.contains(&number) {
            kinds.push(number);
        }
        number
    }

    /// A waiting task comes to a place.
    fn enter(&mut self, task: TaskId, place: Place, at: Nanos) {
        let mut before = Parts::default();
        if let Place::On(cpu, kind) = place {
            self.settle(cpu, at);
            let free = self.free.of(self.kinds.get(kind).allowed, at);
            let any_free = self.free.any(at);
            let queue = &mut self.queues[cpu.index()];
            match queue.iter_mut().find(|queued| queued.kind == kind) {
                Some(queued) => {
                    queued.count += 1;
                    before = queued.sums;
                }
                None => {
                    queue.push(Queued { kind, count: 1, at, free, any_free, sums: before });
                }
            }
            self.update_free(cpu, at);
        }
        if let Some(wait) = &mut self.waiting[task.index()] {
            wait.place = place;
            wait.from = at;
            wait.before = before;
        }
    }

    /// A waiting task leaves its place: what it spent there is known now.
    fn leave(&mut self, task: TaskId, at: Nanos, state: &State) {
        let Some(Some(wait)) = self.waiting.get(task.index()) else { return };
        let place = wait.place;
        let from = wait.from;
        let before = wait.before;
        let mut spent = Parts::default();
        match place {
            Place::Nowhere => spent.count(WaitCause::HandingOver, at - from),
            Place::Throttled { certain: true } => spent.count(WaitCause::Throttled, at - from),
            Place::Throttled { certain: false } => spent.count(WaitCause::Unknown, at - from),
            Place::On(cpu, kind) => {
                self.settle(cpu, at);
                let on = self.on[cpu.index()];
                if on.occupant == Occupant::Idle {
                    self.held_back(task, on.since, at, state);
                }
                let queue = &mut self.queues[cpu.index()];
                if let Some(place) = queue.iter().position(|queued| queued.kind == kind) {
                    spent = queue[place].sums.without(&before);
                    queue[place].count -= 1;
                    if queue[place].count == 0 {
                        queue.swap_remove(place);
                    }
                }
                self.update_free(cpu, at);
            }
        }
        if let Some(Some(wait)) = self.waiting.get_mut(task.index()) {
            wait.parts.add(&spent);
            if let Place::On(cpu, _) = place
                && wait.longest.is_none_or(|(_, time)| at - from > time)
            {
                wait.longest = Some((cpu, at - from));
            }
            wait.place = Place::Nowhere;
            wait.from = at;
        }
    }

    /// A task waits no longer, or the window ends.
    fn end(&mut self, task: TaskId, at: Nanos, state: &State, is_open: bool) {
        self.leave(task, at, state);
        let waiting = self.waiting.get_mut(task.index());
        let Some(wait) = waiting.and_then(Option::take) else { return };
        let sum = self.sum_of(task);
        sum.parts.add(&wait.parts);
        sum.longest = sum.longest.max(at - wait.since);
        let Waiting { since, parts, longest, .. } = *wait;
        let cpu = longest.map(|(cpu, _)| cpu);
        let until = at;
        let explained = ExplainedWait { task, since, until, is_open, cpu, parts };
        self.worst.offer(task, since, until, || explained.clone());
        let ended_it = self.trigger.is_some_and(|trigger| {
            let is_it = trigger.pid == state.task(task).pid;
            is_it && since <= trigger.until && until >= trigger.since
        });
        if ended_it {
            self.triggered = Some(explained.clone());
        }
        self.ended.push(explained);
    }

    /// From `until` on it is not known whether a task waited: if that is in the past, neither are the causes before.
    fn lose(&mut self, task: TaskId, until: Nanos, state: &State) {
        let Some(Some(wait)) = self.waiting.get(task.index()) else { return };
        let waited = until - wait.since.max(state.window().start);
        self.leave(task, state.now(), state);
        if let Some(Some(wait)) = self.waiting.get_mut(task.index())
            && wait.parts.sum() > waited
        {
            wait.parts = Parts::default();
            wait.parts.count(WaitCause::Unknown, waited);
        }
    }

    /// A CPU switched: tasks of a higher class that wait there have no budget.
    fn overtake(&mut self, cpu: Cpu, at: Nanos, state: &State) {
        let before = std::mem::take(&mut self.overtaken[cpu.index()]);
        let queue = &self.queues[cpu.index()];
        let has_others = || queue.iter().any(|one| self.kinds.get(one.kind).class < Class::Fair);
        if before.is_empty() && !has_others() {
            return;
        }
        let now: Vec<TaskId> = match self.on[cpu.index()].occupant {
            Occupant::Task(by) => {
                let class = Class::of(by, state);
                state.waiters(cpu).filter(|task| Class::of(*task, state) < class).collect()
            }
            // Nobody runs before them, and they have no budget yet.
            Occupant::Idle => before.clone(),
            Occupant::Unknown => Vec::new(),
        };
        for task in &now {
            self.limits_of(*task).overtaken_on = Some(cpu);
        }
        for task in before.iter().filter(|task| !now.contains(task)) {
            self.limits_of(*task).overtaken_on = None;
        }
        self.overtaken[cpu.index()].clone_from(&now);
        for task in before.into_iter().chain(now) {
            self.follow(task, at, state);
        }
    }

    /// A task that no longer waits on the CPU where others ran before it may have budget again.
    fn end_overtaking(&mut self, task: TaskId, activity: Activity) {
        let Some(on) = self.limits.get(task.index()).and_then(|limits| limits.overtaken_on) else {
            return;
        };
        if !matches!(activity, Activity::Waiting { cpu, .. } if cpu == on) {
            self.limits[task.index()].overtaken_on = None;
            self.overtaken[on.index()].retain(|other| *other != task);
        }
    }

    /// Tasks that begin or cease to be throttled before `until`.
    fn turn(&mut self, until: Nanos, state: &State) {
        while let Some(turn) = self.turns.last().copied().filter(|turn| turn.at < until) {
            self.turns.pop();
            let limits = self.limits_of(turn.task);
            let step = |count: &mut u32| {
                *count = if turn.is_begin { *count + 1 } else { count.saturating_sub(1) };
            };
            match turn.what {
                Held::Soon => step(&mut limits.soon),
                Held::Perhaps => step(&mut limits.held),
                Held::Certainly => {
                    step(&mut limits.held);
                    step(&mut limits.held_certainly);
                }
            }
            if turn.task.index() <= state.task_count() {
                // One that is throttled since before the window waits in it from its start on, and nobody waits before
                // what began last.
                let since = state.window().start.max(state.task(turn.task).since);
                self.follow(turn.task, turn.at.max(since), state);
            }
        }
    }
}

/// Whether a task has one of the names that the kernel gives to its threads. Events do not tell which tasks are such.
#[must_use]
pub fn is_kernel_thread(name: &str) -> bool {
    const PREFIXES: [&str; 12] = [
        "kworker/",
        "ksoftirqd/",
        "migration/",
        "rcu",
        "cpuhp/",
        "irq/",
        "kswapd",
        "kcompactd",
        "khugepaged",
        "kthreadd",
        "ktimers/",
        "kdamond",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

impl Question for Causes {
    type Answer = CausesAnswer;

    fn begin(&mut self, state: &State) {
        let start = state.window().start;
        self.grow(state);
        for (cpu, here) in state.observed_cpus() {
            self.on[cpu.index()] = self.running(here, state);
        }
        self.turn(start, state);
        let waiting: Vec<TaskId> = state
            .tasks()
            .filter(|(_, task)| matches!(task.activity, Activity::Waiting { .. }))
            .map(|(id, _)| id)
            .collect();
        waiting.into_iter().for_each(|task| self.follow(task, start, state));
        for (cpu, _) in state.observed_cpus() {
            self.update_free(cpu, start);
        }
    }

    fn see(&mut self, change: &Change, state: &State) {
        // A loss takes effect earlier, but nothing was seen since.
        let at = state.now();
        self.ended.clear();
        if state.cpus().len() > self.on.len() {
            self.grow(state);
        }
        self.turn(at, state);
        match change {
            Change::Born { task, parent, .. } => {
                self.membership.born(*task, *parent, state);
                self.allowed.born(*task, *parent);
            }
            Change::Switch(switch) => {
                self.interrupts.switched(switch, state);
                self.occupy(switch, state);
            }
            Change::Other { cpu, format, .. } => {
                self.interrupts.other(at, *cpu, *format, state);
                self.interrupted(*cpu, at, state);
            }
            Change::Lost { cpu, .. } => {
                self.interrupts.lost(*cpu);
                self.interrupted(*cpu, at, state);
            }
            Change::Forgotten { at: until, task, .. } => self.lose(*task, *until, state),
            _ => {}
        }
        for task in concerned(change).into_iter().filter(|task| task.is_some()) {
            self.follow(task, at, state);
        }
        if let Change::Switch(Switch { cpu, .. }) = *change {
            self.overtake(cpu, at, state);
            self.update_free(cpu, at);
        }
        // A task that leaves its CPU waits before it is throttled.
        self.turn(at + Nanos(1), state);
    }

    fn answer(mut self, state: &State) -> CausesAnswer {
        let end = state.window().end;
        self.turn(end, state);
        let open: Vec<TaskId> = state
            .tasks()
            .map(|(id, _)| id)
            .filter(|id| self.waiting.get(id.index()).is_some_and(Option::is_some))
            .collect();
        // Those that run now.
        for on in self.on.clone() {
            self.count_run(&on, end, state);
        }
        self.ended.clear();
        for task in &open {
            self.end(*task, end, state, true);
        }
        let mut answer =
            CausesAnswer { open: std::mem::take(&mut self.ended), ..CausesAnswer::default() };
        let sums = std::mem::take(&mut self.tasks);
        for (task, sum) in (0..).map(TaskId).zip(sums).filter(|(_, sum)| sum.waits > 0) {
            let Sum { waits, parts, longest, kinds, .. } = sum;
            let mut comms: Vec<CommId> =
                kinds.iter().map(|kind| self.kinds.get(*kind).comm).collect();
            comms.dedup();
            answer.total.add(&parts);
            let open_since = open.binary_search(&task).ok().map(|_| state.task(task).since);
            let group = self.membership.of(task, state);
            answer.tasks.push(TaskCauses { task, group, waits, parts, longest, open_since, comms });
        }
        answer.tasks.sort_by_key(|row| (Reverse(row.parts.sum()), row.task));
        answer.worst = self.worst.into_vec();
        let of = |((kind, by), time)| {
            let Kind { comm, group, task, .. } = self.kinds.get(kind);
            ((comm, group, task, by), time)
        };
        let mut blame: Vec<(_, Nanos)> = self.blamed.into_sums().map(of).collect();
        blame.sort_unstable_by_key(|one| one.0);
        blame.dedup_by(|next, one| {
            let same = next.0 == one.0;
            one.1 += if same { next.1 } else { Nanos::ZERO };
            same
        });
        for ((comm, group, task, by), time) in blame {
            match by {
                TaskId::NONE => answer.to_quota.push((comm, group, task, time)),
                by => answer.blame.push(Blame { comm, group, task, by, time }),
            }
        }
        answer.blame.sort_by_key(|row| (Reverse(row.time), row.comm, row.group, row.by));
        answer.ran = self.ran;
        answer.triggered = self.triggered;
        answer.sees_interrupts = self.interrupts.seen();
        answer.group_names = self.group_names;
        answer.group_titles = self.group_titles;
        let last = state.task_count() as u32;
        answer.groups = (0..=last).map(|task| self.membership.of(TaskId(task), state)).collect();
        answer
    }
}
