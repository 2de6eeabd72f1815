//! `schedlab why` without a task: what waiting there was, the worst of it, its cause, and what would help, in one
//! screen.

mod screen;
mod subject;

pub(crate) use screen::first_line;
pub(crate) use subject::asleep;

use screen::Screen;
use subject::{Subject, SubjectFigures};

pub(crate) use super::limits::Limits;

use super::super::input::{self, Head, Input, Named, Selection};
use super::blame::{self, By, Taken};
use super::{locks, requests};
use crate::json;
use schedlab_draw::Belongs;
use schedlab_model::table::Rows;
use schedlab_model::{Conditions, Groups, Nanos, Span, TraceInfo, Trigger, Warning};
use schedlab_timeline::{
    Blame, Causes, CausesAnswer, Chosen, CommId, ExplainedWait, InReply, LockHeld, LocksAnswer,
    Parts, Reply, TaskCauses, TaskId, Throttled, ThrottlingAnswer, WaitCause,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

/// The longest waits, whose causes are kept.
const WORST: usize = 20;
/// The same for a page. It shows the tasks of one name: the longest wait of these should be among the kept ones.
const WORST_OF_PAGE: usize = 4_000;
/// Causes below this share of the waiting are in the JSON only.
const SHARE_MIN: f64 = 0.005;
/// JSON names at most this many tasks that used a quota.
const USERS: usize = 10;

/// Why the tasks of a trace waited, and what the answer rests on.
struct Explained {
    reply: Reply<CausesAnswer>,
    groups: Option<Groups>,
    conditions: Option<Conditions>,
    throttling: ThrottlingAnswer,
    /// By group: throttled times of the whole recording, as the kernel counts them.
    counted: BTreeMap<u32, Counted>,
    /// Whether the trace tells where tasks may run.
    has_affinity: bool,
    trigger: Option<Trigger>,
    belongs: Belongs,
    /// Where the trace tells of locks.
    locks: Option<Reply<LocksAnswer>>,
}

impl Explained {
    /// Where a group has a quota, in two passes: only a refill tells whom it found throttled.
    fn of(input: &Input, by: Option<By>) -> anyhow::Result<Self> {
        let limits = Limits::of(input)?;
        let locks = limits.locks(input)?;
        let Limits { info, throttling } = limits;
        let reply = input.ask(|info| {
            let causes = Causes::new(info, &throttling.spans, WORST);
            if matches!(by, Some(By::Task | By::Process)) { causes.each_task() } else { causes }
        })?;
        let belongs = Belongs::of(&info);
        let counted = counted(input, info.groups.as_ref(), &throttling);
        let throttling = throttling.within(reply.observed);
        let TraceInfo { groups, conditions, affinity, trigger, .. } = info;
        let has_affinity = affinity.is_some();
        Ok(Self {
            reply,
            groups,
            conditions,
            throttling,
            counted,
            has_affinity,
            trigger,
            belongs,
            locks,
        })
    }
}

/// How long a group was throttled between the two readings of the kernel's counter.
struct Counted {
    model: Nanos,
    kernel: Nanos,
    /// By how much the two may differ: no event tells since when a group was throttled at the first reading.
    slack: Nanos,
}

/// [`Counted`] by group; empty if only a part of the trace is asked about.
fn counted(
    input: &Input,
    groups: Option<&Groups>,
    throttling: &ThrottlingAnswer,
) -> BTreeMap<u32, Counted> {
    let is_whole = input.part.from.is_none() && input.part.to.is_none();
    let Some(groups) = groups.filter(|_| is_whole) else { return BTreeMap::new() };
    let one = |group: &u32| {
        let told = groups.throttling(*group)?;
        let began = |one: &&Throttled| one.group == *group && one.span.start <= told.span.start;
        let was_seen = throttling.spans.iter().any(|one| began(&one));
        let period = groups.limit(*group).map_or(Nanos::ZERO, |limit| limit.period);
        let slack = if was_seen { Nanos::ZERO } else { period };
        let model = throttling.ended(*group, told.span);
        Some((*group, Counted { model, kernel: told.throttled, slack }))
    };
    throttling.groups.keys().filter_map(one).collect()
}

/// The answer for a page: the text without the table of tasks, and its worst wait.
pub(crate) struct Answer {
    /// Lines of at most 80 columns.
    pub(crate) text: String,
    /// The longest wait of the tasks that it is about; `None` if nobody waited.
    pub(crate) worst: Option<(TaskId, Span)>,
}

impl Limits {
    /// The question that a page asks in the same pass as its own.
    pub(crate) fn causes(&self) -> Causes {
        Causes::new(&self.info, &self.throttling.spans, WORST_OF_PAGE)
    }

    /// The question for the causes of each wait.
    pub(crate) fn each_cause(&self) -> Causes {
        Causes::new(&self.info, &self.throttling.spans, 0)
    }

    /// What limits the causes of waits.
    pub(crate) fn warnings(&self, input: &Input) -> Vec<Warning> {
        let groups = self.info.groups.as_ref();
        let counted = counted(input, groups, &self.throttling);
        let sums = kernel_sums(groups, &self.throttling, &counted, None);
        limits(self.info.affinity.is_some(), self.is_own(), groups, &sums)
    }

    /// The answer about a part of a trace.
    pub(crate) fn answer(self, input: &Input, reply: &Reply<CausesAnswer>) -> Answer {
        let TraceInfo { groups, conditions, trigger, .. } = self.info;
        let groups = groups.unwrap_or_default();
        let conditions = conditions.as_ref();
        let denied = &subject::doubtful(reply, &groups);
        let subject = Subject::of(reply, denied);
        let screen = Screen { reply, groups: &groups, conditions, input, trigger, denied };
        let text = screen.text(subject.as_ref());
        let worst = subject.filter(|_| !screen.is_calm()).and_then(|subject| {
            let own =
                |wait: &&ExplainedWait| subject.tasks.contains(&wait.task) && !denied.has(wait);
            let worst = subject.wait.as_ref().or(reply.answer.worst.iter().find(own))?;
            Some((worst.task, Span::new(worst.since, worst.until)))
        });
        Answer { text, worst }
    }
}

/// What the kernel counted for the limited groups of a trace, beside the model.
pub(crate) fn sums(input: &Input, observed: Span) -> anyhow::Result<Vec<KernelSum>> {
    let Limits { info, throttling } = Limits::of(input)?;
    let counted = counted(input, info.groups.as_ref(), &throttling);
    let throttling = throttling.within(observed);
    Ok(kernel_sums(info.groups.as_ref(), &throttling, &counted, None))
}

/// How long the chosen tasks of a trace waited, and why.
pub(crate) struct Waited {
    pub(crate) parts: Parts,
    /// By the name of who ran instead.
    pub(crate) culprits: BTreeMap<String, Nanos>,
    /// By what a task is: its name, and who woke it last.
    pub(crate) roles: BTreeMap<String, Nanos>,
    /// By how much the kernel's counters differ from it, summed over tasks where they differ
    /// much.
    pub(crate) off: Nanos,
    /// The length of the trace.
    pub(crate) seconds: f64,
}

/// How long the chosen tasks of a trace waited, and why.
pub(crate) fn waited(input: &Input, selection: &Selection) -> anyhow::Result<Waited> {
    let mut reply = Explained::of(input, None)?.reply;
    narrow(&mut reply, &input.chosen(selection)?);
    Ok(Waited::of(&reply))
}

impl Waited {
    /// That of all tasks of an answer.
    pub(crate) fn of(reply: &Reply<CausesAnswer>) -> Self {
        let mut culprits = BTreeMap::new();
        for row in &reply.answer.blame {
            *culprits.entry(reply.state.name(row.by)).or_default() += row.time;
        }
        let mut roles = BTreeMap::new();
        for row in &reply.answer.tasks {
            let waker = reply.state.task(row.task).waker;
            let woken = if waker.is_some() {
                format!(" (woken by {})", reply.state.name(waker))
            } else {
                String::new()
            };
            let role = format!("{}{woken}", reply.state.name(row.task));
            *roles.entry(role).or_default() += row.parts.sum();
        }
        let seconds = reply.observed.duration().as_secs_f64();
        let off = |row: &TaskCauses| reply.off(row.task)?.waited_off();
        let off = reply.answer.tasks.iter().filter_map(off).fold(Nanos::ZERO, |sum, it| sum + it);
        Self { parts: reply.answer.total, culprits, roles, off, seconds }
    }
}

/// Prints it.
pub(super) fn run(
    input: &Input,
    selection: &Selection,
    by: Option<By>,
    top: Option<usize>,
) -> anyhow::Result<ExitCode> {
    let Explained {
        mut reply,
        groups,
        conditions,
        throttling,
        counted,
        has_affinity,
        trigger,
        belongs,
        mut locks,
    } = Explained::of(input, by)?;
    let chosen = input.chosen(selection)?;
    narrow(&mut reply, &chosen);
    if let Some(locks) = &mut locks {
        locks.answer.about(&chosen);
    }
    let mut warnings = reply.warnings.clone();
    let sums = kernel_sums(groups.as_ref(), &throttling, &counted, Some(&reply));
    warnings.extend(limits(has_affinity, conditions.is_some(), groups.as_ref(), &sums));
    let groups = groups.unwrap_or_default();
    if let Some(by) = by {
        if by == By::Process && !belongs.knows_processes() {
            let file = input.shown();
            anyhow::bail!(
                "{file}: the trace does not hold which threads form a process: `schedlab record` stores it"
            );
        }
        let rows = blame::rows(&reply, by, &belongs);
        return print_blame(input, &reply, &rows, &warnings, &sums, top.unwrap_or(20));
    }
    let denied = subject::doubtful(&reply, &groups);
    let subject = Subject::of(&reply, &denied);
    // A wait that ended the recording, or that did not end, comes before requests. The text alone names a request.
    let has_wait = subject.as_ref().is_some_and(|subject| subject.wait.is_some());
    let request = match has_wait || !input.part.form.is_text() {
        true => None,
        false => requests::slowest(input, &chosen, reply.state.marks(), &throttling.spans)?,
    };
    let tasks = reply.rows(&reply.answer.tasks);
    let blame = reply.rows(&reply.answer.blame);
    let held = locks.as_ref().map_or_else(Vec::new, |locks| locks.rows(&locks.answer.rows));
    let document = Document {
        head: Head::of(&reply),
        waited_ns: reply.answer.total.sum(),
        by_cause: by_cause(&reply.answer.total),
        subject: subject.as_ref().map(|subject| subject.figures(&reply)),
        tasks: Rows::new(&tasks, reply.origin)
            .known(&reply.known)
            .off("waited_ns", |row| Some(row.reply.off(row.task)?.waited_off()?.0 as f64)),
        blame: Rows::new(&blame, reply.origin).known(&reply.known),
        locks: Rows::new(&held, reply.origin).known(&reply.known),
        groups: sums,
    };
    input.part.form.print(&warnings, &document, &document.tasks, || {
        let conditions = conditions.as_ref();
        let reply = &reply;
        let denied = &denied;
        let screen = Screen { reply, groups: &groups, conditions, input, trigger, denied };
        let mut text = request.map_or_else(String::new, |said| wrapped(&said) + "\n");
        text += &screen.text(subject.as_ref());
        if let Some(said) = locks.as_ref().and_then(|locks| locks::said(locks, input)) {
            let _ = write!(text, "\n{}", wrapped(&said));
        }
        let mut table = document.tasks.text(input.part.form.room(), &[]);
        table.all();
        let _ = write!(text, "\n{}", table.print(top.unwrap_or(5)));
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

fn print_blame(
    input: &Input,
    reply: &Reply<CausesAnswer>,
    rows: &[Taken],
    warnings: &[Warning],
    sums: &[KernelSum],
    top: usize,
) -> anyhow::Result<ExitCode> {
    let document = blame::Document::new(reply, rows);
    input.part.form.print(warnings, &document, document.rows(), || {
        let mut table = document.rows().text(input.part.form.room(), &[]);
        table.all();
        let all = reply.answer.total.sum().readable();
        let looked_at = input::looked_at(reply);
        let used = sums.iter().filter(|sum| sum.throttled_ns > Nanos::ZERO);
        let used = used.filter_map(|sum| went_to(&sum.group_name, &sum.used_by));
        let used: String = used.map(|said| wrapped(&said)).collect();
        let said = format!(
            "Tasks waited {all} for a CPU in {looked_at}. Blame is not gain: without one culprit another may run."
        );
        let gap = if used.is_empty() { "" } else { "\n" };
        format!("{}\n{}{gap}{used}", wrapped(&said), table.print(top))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Keeps the chosen tasks alone.
pub(crate) fn narrow(reply: &mut Reply<CausesAnswer>, chosen: &Chosen) {
    if chosen.is_all() {
        return;
    }
    let answer = &mut reply.answer;
    answer.tasks.retain(|row| chosen.has(row.task));
    answer.worst.retain(|wait| chosen.has(wait.task));
    answer.open.retain(|wait| chosen.has(wait.task));
    let tasks = &answer.tasks;
    let is_of = |comm: CommId, group: Option<u32>, task: Option<TaskId>| {
        let is_it = |row: &TaskCauses| row.group == group && row.comms.contains(&comm);
        task.map_or_else(|| tasks.iter().any(is_it), |task| chosen.has(task))
    };
    answer.blame.retain(|row| is_of(row.comm, row.group, row.task));
    answer.to_quota.retain(|(comm, group, task, _)| is_of(*comm, *group, *task));
    answer.total = Parts::default();
    answer.tasks.iter().for_each(|row| answer.total.add(&row.parts));
}

/// What limits the causes.
fn limits(
    has_affinity: bool,
    is_own: bool,
    groups: Option<&Groups>,
    sums: &[KernelSum],
) -> Vec<Warning> {
    let mut found = Vec::new();
    if !has_affinity {
        found.push(Warning::new(
            "affinity-unknown",
            "the trace does not say where tasks may run: `misplaced` includes waits of pinned tasks",
            "",
        ));
    }
    match groups {
        None => found.push(Warning::new(
            "groups-unknown",
            "the trace does not hold control groups: a wait for a CPU quota is `held back` if its CPU \
             idled, and competition otherwise",
            if is_own { "" } else { "`schedlab record` stores groups and their limits" },
        )),
        Some(groups) if groups.limits.is_empty() => found.push(Warning::new(
            "limits-unknown",
            "the trace does not hold the limits of control groups: a wait for a CPU quota is `held back` \
             if its CPU idled, and competition otherwise",
            "",
        )),
        Some(groups) => {
            let is_changed = |group: &u32| groups.limit_changed(*group).is_some();
            let changed = (0..groups.names.len() as u32).filter(is_changed);
            for group in changed {
                let name = &groups.names[group as usize];
                found.push(Warning::new(
                    "limit-changed",
                    format!("the CPU quota of {name} changed while this was recorded: when its tasks were throttled is unknown"),
                    "",
                ));
            }
            found.extend(sums.iter().filter_map(KernelSum::differs));
        }
    }
    found
}

/// What the kernel counted for a limited group, beside the model.
#[derive(Serialize, JsonSchema)]
pub(crate) struct KernelSum {
    /// The group's path.
    group: String,
    /// What people call it.
    group_name: String,
    /// Time in which it was throttled, summed over CPUs, by the model of its budget.
    throttled_ns: Nanos,
    /// The same in the whole recording, counted as the kernel does: when it ends. `null` if the kernel's counter was
    /// not read, and of a part of a trace.
    counted_ns: Option<Nanos>,
    /// By the kernel's counter (`cpu.stat`), which `counted_ns` should equal.
    kernel_throttled_ns: Option<Nanos>,
    #[serde(skip)]
    slack: Nanos,
    /// Who used its quota: its tasks that ran longest; empty in `trace check`.
    used_by: Vec<User>,
}

/// A task that used the quota of its group.
#[derive(Serialize, JsonSchema)]
pub(crate) struct User {
    #[serde(flatten)]
    task: Named,
    run_ns: Nanos,
}

impl std::fmt::Display for KernelSum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let model = self.counted_ns.unwrap_or(self.throttled_ns).readable();
        let name = &self.group_name;
        let kernel = self.kernel_throttled_ns.map_or_else(
            || "did not count it".to_owned(),
            |kernel| format!("counted {}", kernel.readable()),
        );
        write!(f, "{name}: throttled for {model} by the model of its budget; the kernel {kernel}")
    }
}

impl KernelSum {
    fn differs(&self) -> Option<Warning> {
        let model = self.counted_ns?;
        let kernel = self.kernel_throttled_ns?;
        let apart = model.0.abs_diff(kernel.0);
        let limit = (kernel.0.max(model.0) / 50).max(1_000_000) + self.slack.0;
        let group = &self.group_name;
        (apart > limit).then(|| {
            let model = model.readable();
            let kernel = kernel.readable();
            let text = format!(
                "{group}: throttled times are off: the model of its budget has {model}, the kernel counted {kernel}"
            );
            Warning::new("throttling-differs", text, "")
        })
    }
}

fn kernel_sums(
    groups: Option<&Groups>,
    throttling: &ThrottlingAnswer,
    counted: &BTreeMap<u32, Counted>,
    reply: Option<&Reply<CausesAnswer>>,
) -> Vec<KernelSum> {
    let Some(groups) = groups else { return Vec::new() };
    let sum = |(group, throttled): (&u32, &Nanos)| {
        let counted = counted.get(group);
        KernelSum {
            group: groups.names.get(*group as usize).cloned().unwrap_or_default(),
            group_name: groups.title(*group),
            throttled_ns: *throttled,
            counted_ns: counted.map(|counted| counted.model),
            kernel_throttled_ns: counted.map(|counted| counted.kernel),
            slack: counted.map_or(Nanos::ZERO, |counted| counted.slack),
            used_by: reply.map_or_else(Vec::new, |reply| users(*group, groups, reply)),
        }
    };
    throttling.groups.iter().map(sum).collect()
}

/// The tasks of a limited group, and of those below it, that ran longest.
fn users(limited: u32, groups: &Groups, reply: &Reply<CausesAnswer>) -> Vec<User> {
    let Reply { answer, state, .. } = reply;
    let count = groups.names.len() as u32;
    let is_below = |group| groups.chain(group).any(|at| at == limited);
    let below: Vec<bool> = (0..count).map(is_below).collect();
    let is_own = |group: &Option<u32>| group.is_some_and(|group| below[group as usize]);
    let own = (0..).map(TaskId).zip(&answer.groups).filter(|(_, group)| is_own(group));
    let mut own: Vec<(Nanos, TaskId)> = own.map(|(task, _)| (answer.ran(task), task)).collect();
    own.retain(|(ran, _)| *ran > Nanos::ZERO);
    own.sort_unstable_by_key(|(ran, task)| (Reverse(*ran), *task));
    let user = |(run_ns, task): (Nanos, TaskId)| User { task: Named::of(task, state), run_ns };
    own.into_iter().take(USERS).map(user).collect()
}

/// `The quota of /a went to primes (17) 1.20 s, sh (4) 3.00 ms.`; `None` if nobody ran.
fn went_to(name: &str, users: &[User]) -> Option<String> {
    let told = users.iter().take(3);
    let told: Vec<String> =
        told.map(|user| format!("{} {}", user.task, user.run_ns.readable())).collect();
    (!told.is_empty()).then(|| format!("The quota of {name} went to {}.", told.join(", ")))
}

/// `schedlab why --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// How long the chosen tasks waited in sum.
    waited_ns: Nanos,
    /// The same by cause, longest first.
    by_cause: Vec<ByCause>,
    /// What the first line is about; `null` if nobody waited.
    subject: Option<SubjectFigures>,
    /// Tasks that waited, longest in sum first.
    tasks: Rows<'a, InReply<'a, TaskCauses, CausesAnswer>>,
    /// Who ran while others waited, most first.
    blame: Rows<'a, InReply<'a, Blame, CausesAnswer>>,
    /// Waits for locks by lock and holder, those first whose lack of a CPU cost most; empty where the trace tells of none.
    locks: Rows<'a, InReply<'a, LockHeld, LocksAnswer>>,
    /// Groups with a CPU quota.
    groups: Vec<KernelSum>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/why/1";
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct ByCause {
    /// The cause, as in the names of columns.
    cause: &'static str,
    time_ns: Nanos,
    /// Part of all waiting, from 0 to 1.
    share: f64,
}

pub(crate) fn by_cause(parts: &Parts) -> Vec<ByCause> {
    let all = parts.sum().0.max(1) as f64;
    let one = |(cause, time): (WaitCause, Nanos)| ByCause {
        cause: cause.name(),
        time_ns: time,
        share: time.0 as f64 / all,
    };
    parts.ranked().into_iter().map(one).collect()
}

fn part(time: Nanos, all: Nanos) -> f64 {
    time.0 as f64 / all.0.max(1) as f64
}

pub(crate) fn percent(time: Nanos, all: Nanos) -> String {
    match part(time, all) * 100.0 {
        share if share < 1.0 && time > Nanos::ZERO => "<1 %".to_owned(),
        share => format!("{share:.0} %"),
    }
}

/// A paragraph of 80 columns.
pub(crate) fn wrapped(text: &str) -> String {
    const ROOM: usize = 80;
    crate::output::wrapped("", "", text, ROOM) + "\n"
}
