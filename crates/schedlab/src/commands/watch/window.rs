//! What a window tells: the whole machine, its CPUs, and rows by task, command, process or group.

use super::super::trace::input::Head;
use super::super::trace::why::overview::{self, ByCause};
use super::one_by_one;
use crate::json;
use schedlab_model::table::{At, Column, One, Row, Rows, column};
use schedlab_model::{Known, Nanos, Need, Pid, TraceInfo, columns};
use schedlab_record::live::Taken;
use schedlab_timeline::{
    Causes, CausesAnswer, Conservation, Cpus, CpusAnswer, Delays, ExplainedWait, Latency,
    LatencyAnswer, Parts, Question, Reply, State, TaskId, Tasks, TasksAnswer, ThrottlingAnswer,
    WaitCause,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The questions that are asked about each window.
pub(super) type WindowQuestions = (Latency, Tasks, Causes, Cpus, Option<Conservation>);
type Answers = <WindowQuestions as Question>::Answer;

/// What the rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum By {
    /// A row for each task (thread)
    Task,
    /// A row for all tasks of a name
    Command,
    /// A row for all threads of a process
    Process,
    /// A row for all tasks of a control group
    Group,
}

impl By {
    const fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Command => "command",
            Self::Process => "process",
            Self::Group => "group",
        }
    }
}

/// What a task did in a window, or several together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(super) pid: Option<Pid>,
    pub(super) comm: Option<String>,
    pub(super) group: Option<String>,
    /// The same as an index into [`schedlab_model::Groups::names`].
    pub(super) place: Option<u32>,
    /// What people call that group.
    pub(super) group_title: Option<String>,
    pub(super) process: Option<Pid>,
    pub(super) tasks: u64,
    pub(super) delays: Delays,
    pub(super) parts: Parts,
    pub(super) longest: Nanos,
    pub(super) is_open: bool,
    pub(super) ran: Nanos,
    /// CPU time that was lost while they waited; only for the metrics.
    pub(super) lost: Nanos,
    pub(super) wakeups: u64,
    pub(super) switches: u64,
}

impl Row for Entry {
    const ABOUT: &'static str = "What a task did in a window, or several tasks together.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "pid" ["pid"] = row.pid, "The task, or the process with `--by process`.";
            "comm" ["name"] = row.comm.clone(), "Its name at the end of the window; none of a group.";
            "group" = row.group.clone(), "The path of its control group at the end; none of tasks in several groups, or if not known.";
            "group_name" ["group"] = row.group_title.clone(), "What people call that group: its container, systemd unit, or path.";
            "tasks" ["tasks", 5] = row.tasks, "How many tasks these are: those that ran, waited or woke.";
            "waited_ns" ["waited"] @ WaitTime = row.parts.sum(), "How long they waited for a CPU in the window, open waits included.";
            "mostly" ["mostly"] = row.parts.ranked().first().map(|(cause, _)| cause.name()), "The cause of most of it, as in `schedlab why`.";
            "longest_ns" ["longest"] @ WaitTime = row.longest, "The longest wait, its part before the window included; of an open one as much as was seen.";
            "longest_is_open" = row.is_open, "Whether that wait had not ended: it is at least so long.";
            "throttled_ns" ["throttled", 2] @ WaitTime = row.parts.of(WaitCause::Throttled), "How much of the waiting was for a CPU quota.";
            "run_ns" ["run"] @ RunTime = row.ran, "Time in which they ran.";
            "wakeups" ["wakeups", 4] @ Wakeups = row.wakeups, "Wakeups of them.";
            "switches" ["switches", 3] @ Switches = row.switches, "Context switches away from them.";
        };
        columns.extend(
            Delays::columns().into_iter().map(|column| column.of(|row: &Self| &row.delays)),
        );
        columns
    }
}

impl Entry {
    /// Tasks together.
    pub(super) fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        all.into_iter().for_each(|entry| sum.add(entry));
        sum
    }

    fn add(&mut self, other: &Self) {
        if other.longest > self.longest {
            (self.longest, self.is_open) = (other.longest, other.is_open);
        }
        self.tasks += other.tasks;
        self.delays.merge(&other.delays);
        self.parts.add(&other.parts);
        self.ran += other.ran;
        self.lost += other.lost;
        self.wakeups += other.wakeups;
        self.switches += other.switches;
    }

    /// Removes a wait that has not ended: the kernel says that the task sleeps.
    fn leave_out(&mut self, task: TaskId, denied: &Parts) -> LeftOut {
        let waited_ns = denied.sum();
        self.parts = self.parts.without(denied);
        (self.delays.open, self.delays.open_wakeup) = Default::default();
        self.delays.unfinished = self.delays.unfinished.saturating_sub(1);
        (self.longest, self.is_open) = (self.delays.longest().unwrap_or_default(), false);
        // Most was lost beside that wait: the free CPU is why it is denied.
        self.lost -= waited_ns;
        let pid = self.pid.unwrap_or(Pid::IDLE);
        let comm = self.comm.clone().unwrap_or_default();
        LeftOut { task, pid, comm, waited_ns }
    }

    pub(super) fn name(&self) -> &str {
        self.comm.as_deref().or(self.group_title.as_deref()).unwrap_or("(no group)")
    }

    /// How it is called in a sentence.
    pub(super) fn title(&self) -> String {
        let name = self.name();
        match (self.pid, self.tasks) {
            (Some(pid), _) => format!("{name} ({pid})"),
            (None, 1) => name.to_owned(),
            (None, tasks) => format!("{name} ({tasks} tasks)"),
        }
    }
}

/// A window that has closed.
pub(crate) struct Window {
    /// The causes of all waiting, with the state at the end.
    pub(super) reply: Reply<CausesAnswer>,
    pub(super) cpus: CpusAnswer,
    ran: TasksAnswer,
    all: Delays,
    /// By task, without the waits that are left out.
    pub(super) tasks: Vec<Entry>,
    /// How long they waited, by cause.
    pub(super) waits: Parts,
    pub(super) by: By,
    /// All that the events hold, those that waited longest in sum first.
    recorded: Vec<Entry>,
    pub(super) events: u64,
    /// What to say of CPUs that came into use.
    pub(super) news: Vec<String>,
    late: u64,
    /// Limited groups with the time in which they were throttled, summed over CPUs.
    pub(super) throttled: Vec<Throttled>,
    /// What `why` says first. If some tasks ran one at a time, as behind a lock, and slept for longer than that, or waits
    /// were handovers: which ones these are.
    pub(super) answer: Option<String>,
    /// Those that wait longest first.
    pub(super) left_out: Vec<LeftOut>,
}

impl Window {
    /// `is_asleep`: whether the kernel says that a task neither runs nor waits for a CPU now.
    pub(super) fn of(
        reply: Reply<Answers>,
        throttling: &ThrottlingAnswer,
        info: &TraceInfo,
        taken: &Taken,
        by: By,
        is_asleep: &dyn Fn(Pid) -> bool,
    ) -> Self {
        let mut others = None;
        let reply = reply.map(|(latency, tasks, causes, cpus, lost)| {
            others = Some((latency, tasks, cpus, lost));
            causes
        });
        let (latency, ran, cpus, lost) = others.expect("the reply held them");
        let mut tasks = by_task(&reply, &latency, &ran, info);
        for (task, time) in lost.iter().flat_map(|lost| &lost.by_task) {
            if let Some(entry) = tasks.get_mut(task) {
                entry.lost = *time;
            }
        }
        let groups = info.groups.as_ref();
        let throttled = throttling.groups.iter().filter_map(|(group, time)| {
            let groups = groups?;
            let path = groups.names.get(*group as usize)?;
            let group_name = groups.title(*group);
            Some(Throttled { group: path.clone(), group_name, throttled_ns: *time })
        });
        let length = reply.observed.duration();
        let locked = one_by_one::sentence(&ran, info.processes.as_ref(), &reply.state, length);
        let denied = overview::asleep(&reply, groups, is_asleep);
        let first = overview::first_line(&reply, groups, &denied);
        let recorded = rows(tasks.values(), &reply.state, by);
        let leave_out = |(task, wait)| Some(tasks.get_mut(&task)?.leave_out(task, wait));
        let mut left_out: Vec<LeftOut> = denied.iter().filter_map(leave_out).collect();
        left_out.sort_by_key(|one| Reverse(one.waited_ns));
        let tasks: Vec<Entry> = tasks.into_values().collect();
        let waits = Entry::sum(&tasks).parts;
        // Each handover has a short wait until the next CPU switches; who sleeps longer than others wait is worse off.
        let is_handing_over = waits.of(WaitCause::HandingOver).0 * 2 > waits.sum().0;
        let waited = first.as_ref().map_or(Nanos::ZERO, |first| first.waited);
        let locked = locked.filter(|(_, slept)| is_handing_over || *slept > waited);
        let answer = locked.map(|(said, _)| said).or(first.map(|first| first.said));
        Self {
            throttled: throttled.collect(),
            events: taken.events.len() as u64,
            late: taken.late,
            news: taken.news.clone(),
            all: latency.total,
            reply,
            cpus,
            ran,
            tasks,
            waits,
            by,
            recorded,
            answer,
            left_out,
        }
    }

    /// Rows of another kind.
    pub(super) fn rows_by(&self, by: By) -> Vec<Entry> {
        rows(self.tasks.iter(), &self.reply.state, by)
    }

    /// The tasks of a row.
    pub(super) fn members(&self, row: &Entry, by: By) -> Vec<&Entry> {
        let is_it = |task: &&Entry| match by {
            By::Task => task.pid == row.pid && task.comm == row.comm,
            By::Command => task.comm == row.comm,
            By::Process => task.process == row.pid,
            By::Group => task.group == row.group,
        };
        self.tasks.iter().filter(is_it).collect()
    }

    /// Who ran on the CPU on whose queue some tasks stood, most first. Tasks of one name and group are not told apart.
    pub(super) fn culprits(&self, members: &[&Entry]) -> Vec<(String, Nanos)> {
        let Reply { answer, state, .. } = &self.reply;
        let waited = |comm: &str, group: Option<&str>| {
            let is_it =
                |one: &&Entry| one.comm.as_deref() == Some(comm) && one.group.as_deref() == group;
            members.iter().any(is_it)
        };
        let mut sums = BTreeMap::<String, Nanos>::new();
        for row in &answer.blame {
            if waited(&state.names().text(row.comm), answer.group_name(row.group)) {
                let group = answer.groups.get(row.by.index()).copied().flatten();
                let group = answer.group_title(group).filter(|group| *group != "/");
                let group = group.map(|group| format!(" in {group}")).unwrap_or_default();
                let pid = state.task(row.by).pid;
                *sums.entry(format!("{} ({pid}){group}", state.name(row.by))).or_default() +=
                    row.time;
            }
        }
        most(sums)
    }

    /// The longest waits of some tasks, with their causes.
    pub(super) fn waits_of(&self, members: &[&Entry]) -> Vec<String> {
        let Reply { answer, state, .. } = &self.reply;
        let is_own = |wait: &&ExplainedWait| {
            members.iter().any(|one| one.pid == Some(state.task(wait.task).pid))
        };
        let told = |wait: &ExplainedWait| {
            if self.is_left_out(wait) {
                return format!("{}: left out: it sleeps by /proc", self.spelled(wait));
            }
            let causes = wait.parts.ranked().into_iter().take(2);
            let causes: Vec<String> = causes
                .map(|(cause, time)| format!("{} {}", cause.title(), time.readable()))
                .collect();
            format!("{}: {}", self.spelled(wait), causes.join(", "))
        };
        answer.worst.iter().filter(is_own).map(told).collect()
    }

    /// Who woke some tasks, and how often.
    pub(super) fn wakers(&self, members: &[&Entry]) -> Vec<(String, u64)> {
        let state = &self.reply.state;
        let mut sums = BTreeMap::<String, u64>::new();
        for row in
            self.ran.rows.iter().filter(|row| members.iter().any(|one| one.pid == Some(row.pid)))
        {
            for of in &row.woken_by {
                let name = match of.waker {
                    Some(task) => format!("{} ({})", state.name(task), state.task(task).pid),
                    None => "an interrupt".to_owned(),
                };
                *sums.entry(name).or_default() += of.count;
            }
        }
        most(sums)
    }

    pub(super) const fn known(&self) -> &Known {
        &self.reply.known
    }

    /// Events that were lost in the window, or in one before, where a CPU did not switch since.
    pub(super) const fn is_partial(&self) -> bool {
        self.reply.known.gaps
    }

    /// The longest wait that the kernel does not deny.
    pub(super) fn worst(&self) -> Option<&ExplainedWait> {
        self.reply.answer.worst.iter().find(|wait| !self.is_left_out(wait))
    }

    pub(super) fn is_left_out(&self, wait: &ExplainedWait) -> bool {
        wait.is_open && self.left_out.iter().any(|one| one.task == wait.task)
    }

    /// `left out: web (123) seems to wait, but sleeps by /proc`.
    pub(super) fn note(&self) -> Option<String> {
        let LeftOut { pid, comm, .. } = self.left_out.first()?;
        let others = self.left_out.len() - 1;
        let (others, seem) = match others {
            0 => (String::new(), "seems to wait, but sleeps"),
            1 => (" and another task".to_owned(), "seem to wait, but sleep"),
            _ => (format!(" and {others} others"), "seem to wait, but sleep"),
        };
        Some(format!("left out: {comm} ({pid}){others} {seem} by /proc"))
    }

    /// How much of the CPUs' known time tasks ran.
    pub(super) fn busy(&self) -> Option<f64> {
        let sum = |of: fn(&schedlab_timeline::CpuRow) -> Nanos| -> u64 {
            self.cpus.rows.iter().map(|row| of(row).0).sum()
        };
        let busy = sum(|row| row.busy);
        let idle = sum(|row| row.idle);
        (busy + idle > 0).then(|| busy as f64 / (busy + idle) as f64)
    }

    /// A line for people, and the answer below it where tasks waited much.
    pub(super) fn line(&self, began: Nanos) -> String {
        let end = (self.reply.observed.end - began).readable();
        let busy = self.busy().map_or("?".to_owned(), |part| format!("{:.0}", part * 100.0));
        let mut text = format!("{end:>8}  CPUs {busy:>3} %  waited {}", self.waited());
        if let Some(wait) = self.worst() {
            let _ = write!(text, "; worst {}", self.spelled(wait));
        }
        if let Some(top) = self.rows_by(self.by).first().filter(|top| top.parts.sum() > Nanos::ZERO)
        {
            let _ = write!(text, "; most {} {}", top.title(), top.parts.sum().readable());
        }
        if self.is_partial() {
            text += "; events were lost: at least that";
        }
        if let Some(note) = self.note() {
            let _ = write!(text, "; {note}");
        }
        text.push('\n');
        if let Some(answer) = &self.answer {
            let _ = writeln!(text, "          {answer}");
        }
        text
    }

    /// `1.20 s: throttled 95 %, competition 3 %`.
    pub(super) fn waited(&self) -> String {
        let all = self.waits.sum();
        let shares: Vec<String> = self
            .waits
            .ranked()
            .into_iter()
            .take(3)
            .map(|(cause, time)| format!("{} {}", cause.title(), overview::percent(time, all)))
            .collect();
        let all = super::super::trace::input::figure(self.known(), Need::WaitTime, all.readable());
        if shares.is_empty() { all } else { format!("{all}: {}", shares.join(", ")) }
    }

    /// `≥ 61.2 ms web (123)`.
    pub(super) fn spelled(&self, wait: &ExplainedWait) -> String {
        let state = &self.reply.state;
        let length = wait.until - wait.since;
        let pid = state.task(wait.task).pid;
        let open = if wait.is_open { "≥ " } else { "" };
        format!("{open}{} {} ({pid})", length.readable(), state.name(wait.task))
    }

    /// The rows as CSV, with a first line of names.
    pub(super) fn csv(&self, top: usize, has_head: bool) -> String {
        let end = self.reply.observed.end;
        let gaps = self.is_partial();
        let rows = Rows::new(shown(&self.recorded, top), Nanos::ZERO).and([
            column(
                "window_end_ns",
                "When the window ended, on the trace's clock.",
                move |_: &Entry| At(end),
            ),
            column("is_partial", "Whether events were lost.", move |_: &Entry| gaps),
        ]);
        let text = rows.csv(false);
        match text.split_once('\n') {
            Some((_, rest)) if has_head => rest.to_owned(),
            _ => text,
        }
    }

    pub(super) fn document(&self, top: usize, histogram: bool) -> Document<'_> {
        let Self { reply, recorded, .. } = self;
        let rows = shown(recorded, top);
        let worst = reply.answer.worst.first().map(|wait| Worst {
            pid: reply.state.task(wait.task).pid,
            comm: reply.state.name(wait.task),
            waited_ns: wait.until - wait.since,
            is_open: wait.is_open,
            by_cause: overview::by_cause(&wait.parts),
        });
        Document {
            head: Head::of(reply),
            answer: self.answer.as_deref(),
            events: self.events,
            late: self.late,
            waited_ns: reply.answer.total.sum(),
            by_cause: overview::by_cause(&reply.answer.total),
            worst,
            waits: One::new(&self.all, reply.origin, histogram).known(&reply.known),
            cpus: Rows::new(&self.cpus.rows, reply.origin).known(&reply.known),
            by: self.by.name(),
            rows: Rows::new(rows, reply.origin).with(histogram).known(&reply.known),
            rows_left_out: recorded.len() - rows.len(),
            left_out: &self.left_out,
            throttled: &self.throttled,
        }
    }
}

/// The largest first.
fn most<T: Ord + Copy>(sums: BTreeMap<String, T>) -> Vec<(String, T)> {
    let mut all: Vec<_> = sums.into_iter().collect();
    all.sort_by_key(|(name, sum)| (Reverse(*sum), name.clone()));
    all
}

fn shown(rows: &[Entry], top: usize) -> &[Entry] {
    let count = if top == 0 { rows.len() } else { top.min(rows.len()) };
    &rows[..count]
}

/// What each task did.
fn by_task(
    reply: &Reply<CausesAnswer>,
    latency: &LatencyAnswer,
    ran: &TasksAnswer,
    info: &TraceInfo,
) -> BTreeMap<TaskId, Entry> {
    let mut entries = BTreeMap::<TaskId, Entry>::new();
    for row in &latency.tasks {
        entries.entry(row.task).or_default().delays = row.delays.clone();
    }
    for row in &ran.rows {
        let entry = entries.entry(row.task).or_default();
        entry.ran = row.ran;
        entry.wakeups = row.wakeups;
        entry.switches = row.voluntary + row.involuntary;
    }
    for row in &reply.answer.tasks {
        let entry = entries.entry(row.task).or_default();
        entry.parts = row.parts;
        entry.longest = row.longest;
        let open = row.open_since.map(|since| reply.observed.end - since);
        entry.is_open = open == Some(row.longest);
    }
    let named = |(task, entry): (TaskId, Entry)| {
        let pid = reply.state.task(task).pid;
        let group = reply.answer.groups.get(task.index()).copied().flatten();
        let entry = Entry {
            pid: Some(pid),
            comm: Some(reply.state.name(task)),
            group: reply.answer.group_name(group).map(str::to_owned),
            group_title: reply.answer.group_title(group).map(str::to_owned),
            place: group,
            process: Some(
                info.processes.as_ref().and_then(|all| all.get(&pid)).copied().unwrap_or(pid),
            ),
            tasks: 1,
            ..entry
        };
        (task, entry)
    };
    entries.into_iter().map(named).collect()
}

/// Rows of a kind, those that waited longest in sum first.
fn rows<'a>(tasks: impl Iterator<Item = &'a Entry>, state: &State, by: By) -> Vec<Entry> {
    let mut sums = BTreeMap::<(Option<Pid>, Option<&str>), Entry>::new();
    for task in tasks {
        let key = match by {
            By::Task => (task.pid, task.comm.as_deref()),
            By::Command => (None, task.comm.as_deref()),
            By::Process => (task.process, None),
            By::Group => (None, task.group.as_deref()),
        };
        let sum = sums.entry(key).or_insert_with(|| {
            let process = task.process.and_then(|process| state.task_of(process));
            let comm = match by {
                By::Task | By::Command => task.comm.clone(),
                By::Process => process.map(|first| state.name(first)).or_else(|| task.comm.clone()),
                By::Group => None,
            };
            let group = task.group.clone();
            let group_title = task.group_title.clone();
            Entry { pid: key.0, comm, group, group_title, ..Entry::default() }
        });
        if sum.group != task.group {
            (sum.group, sum.group_title) = (None, None);
        }
        sum.add(task);
    }
    let mut rows: Vec<Entry> = sums.into_values().collect();
    rows.sort_by_key(|row| (Reverse(row.parts.sum()), Reverse(row.ran)));
    rows
}

/// A line of `schedlab watch --json`: a window.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// Who waited longest, and why, in a sentence; or which tasks ran one at a time, as behind a lock, if they slept for
    /// longer than that; else `null`.
    answer: Option<&'a str>,
    /// Scheduler events whose time is in the window.
    events: u64,
    /// Events that came after their window had closed, and count in this one.
    late: u64,
    /// How long tasks waited for a CPU in sum.
    waited_ns: Nanos,
    /// The same by cause, longest first.
    by_cause: Vec<ByCause>,
    /// The longest wait; `null` if nobody waited.
    worst: Option<Worst>,
    /// All waits that ended in the window.
    waits: One<'a, Delays>,
    /// How long each CPU worked, idled and was overloaded.
    cpus: Rows<'a, schedlab_timeline::CpuRow>,
    /// What the rows are: `task`, `command`, `process` or `group`.
    by: &'static str,
    /// Longest wait in sum first.
    rows: Rows<'a, Entry>,
    /// How many more rows there are: `--top 0` prints all.
    rows_left_out: usize,
    /// Tasks that wait by the events and sleep by what the kernel says: `answer` leaves these waits out, all other figures
    /// have them.
    left_out: &'a [LeftOut],
    /// Groups with a CPU quota.
    throttled: &'a [Throttled],
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/watch/1";
}

#[derive(Serialize, JsonSchema)]
struct Worst {
    pid: Pid,
    comm: String,
    /// Its length, the part before the window included; of an open wait as much as was seen.
    waited_ns: Nanos,
    /// Whether it had not ended.
    is_open: bool,
    /// Its causes, as far as it lay in the window.
    by_cause: Vec<ByCause>,
}

/// A task that waits by the events and sleeps by what the kernel says.
#[derive(Serialize, JsonSchema)]
pub(super) struct LeftOut {
    #[serde(skip)]
    task: TaskId,
    pid: Pid,
    comm: String,
    /// How much of that wait lies in the window.
    waited_ns: Nanos,
}

/// A group with a CPU quota.
#[derive(Serialize, JsonSchema)]
pub(super) struct Throttled {
    /// Its path.
    group: String,
    /// What people call it.
    pub(super) group_name: String,
    /// Time in which it was throttled, summed over CPUs, by the model of its budget.
    pub(super) throttled_ns: Nanos,
}
