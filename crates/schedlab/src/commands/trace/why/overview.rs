//! `schedlab why` without a task: what waiting there was, the worst of it, its cause, and what would help, in one
//! screen.

use super::super::input::{self, Head, Input, Named, Selection};
use super::blame::{self, By, Taken};
use super::requests;
use crate::json;
use schedlab_draw::Belongs;
use schedlab_model::table::Rows;
use schedlab_model::{
    Conditions, Cpu, CpuSet, Groups, Limit, Nanos, Need, Pid, Prio, Span, TraceInfo, Trigger,
    Warning,
};
use schedlab_timeline::{
    Blame, Causes, CausesAnswer, Chosen, CommId, ExplainedWait, InReply, Parts, Reply, TaskCauses,
    TaskId, Throttled, Throttling, ThrottlingAnswer, WaitCause, WithArguments, is_kernel_thread,
};
use schedlab_trace::Options;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Waits that are kept with their causes.
const WORST: usize = 20;
/// The same for a page: the longest of the tasks that it is about should be among them.
const WORST_OF_PAGE: usize = 4_000;
/// An open wait that is shorter is the end of the recording, and no fault.
const OPEN_MIN: Nanos = Nanos(10_000_000);
/// Of so many open waits the kernel is asked, the longest first.
const ASKED_MAX: usize = 50;
/// Causes below this share of the waiting are in the JSON only.
const SHARE_MIN: f64 = 0.005;
/// If tasks waited for less than this part of all CPUs' time, and none for as long, nothing is wrong.
const CALM_SHARE: f64 = 0.005;
const CALM_WAIT: Nanos = Nanos(5_000_000);
/// JSON names at most this many tasks that used a quota.
const USERS: usize = 10;
/// Who ran for this share of what somebody waited for is named alone.
const MOSTLY: f64 = 0.9;

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
}

impl Explained {
    /// Where a group has a quota, in two passes: only a refill tells whom it found throttled.
    fn of(input: &Input, by: Option<By>) -> anyhow::Result<Self> {
        let Limits { info, throttling } = Limits::of(input)?;
        let reply = input.ask(|info| {
            let causes = Causes::new(info, &throttling.spans, WORST);
            if matches!(by, Some(By::Task | By::Process)) { causes.each_task() } else { causes }
        })?;
        let belongs = Belongs::of(&info);
        let counted = counted(input, info.groups.as_ref(), &throttling);
        let throttling = throttling.within(reply.observed);
        let TraceInfo { groups, conditions, affinity, trigger, .. } = info;
        let has_affinity = affinity.is_some();
        Ok(Self { reply, groups, conditions, throttling, counted, has_affinity, trigger, belongs })
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

/// What must be known before one may ask why tasks waited.
pub(crate) struct Limits {
    info: TraceInfo,
    throttling: ThrottlingAnswer,
}

/// The answer for a page: the text without the table of tasks, and its worst wait.
pub(crate) struct Answer {
    /// Lines of at most 80 columns.
    pub(crate) text: String,
    /// The longest wait of the tasks that it is about; `None` if nobody waited.
    pub(crate) worst: Option<(TaskId, Span)>,
}

impl Limits {
    /// Asks a trace for them, in a pass of its own if a group has a quota.
    pub(crate) fn of(input: &Input) -> anyhow::Result<Self> {
        let info = input.part.open(&input.file, &Options::default())?.info().clone();
        let limits = info.groups.iter().flat_map(|all| &all.limits);
        let throttling = match limits.into_iter().any(|one| one.quota.is_some()) {
            // From the beginning on, whatever part is asked about: what came before shows the budgets.
            true => {
                let mut whole = input.clone();
                whole.part.from = None;
                let first = whole.ask(|info| WithArguments(Throttling::new(info)))?.answer;
                match first.timers.len() {
                    0 | 1 => first,
                    _ => {
                        let ask = |info: &TraceInfo| Throttling::new(info).knowing(&first.timers);
                        whole.ask(|info| WithArguments(ask(info)))?.answer
                    }
                }
            }
            false => ThrottlingAnswer::default(),
        };
        Ok(Self { info, throttling })
    }

    /// The question that a page asks in the same pass as its own.
    pub(crate) fn causes(&self) -> Causes {
        Causes::new(&self.info, &self.throttling.spans, WORST_OF_PAGE)
    }

    /// The answer about a part of a trace.
    pub(crate) fn answer(self, input: &Input, reply: &Reply<CausesAnswer>) -> Answer {
        let TraceInfo { groups, conditions, trigger, .. } = self.info;
        let (groups, conditions) = (groups.unwrap_or_default(), conditions.as_ref());
        let doubtful = doubtful(reply, &groups);
        let subject = Subject::of(reply, &doubtful);
        let screen = Screen { reply, groups: &groups, conditions, input, trigger, doubtful };
        let text = screen.text(subject.as_ref());
        let worst = subject.filter(|_| !screen.is_calm()).and_then(|subject| {
            let own = |wait: &&ExplainedWait| subject.tasks.contains(&wait.task);
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
    Ok(kernel_sums(info.groups.as_ref(), (&throttling, &counted), None))
}

/// How long the chosen tasks of a trace waited, and why.
pub(crate) struct Waited {
    pub(crate) parts: Parts,
    /// By the name of who ran instead.
    pub(crate) culprits: BTreeMap<String, Nanos>,
    /// By what a task is: its name, and who woke it last.
    pub(crate) roles: BTreeMap<String, Nanos>,
    /// How far the kernel's counters are from it, for tasks where that is much.
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

/// Tasks that still wait by the events, and sleep by what the kernel says now: the longest waits are asked about.
pub(crate) fn asleep(
    reply: &Reply<CausesAnswer>,
    groups: Option<&Groups>,
    is_asleep: &dyn Fn(Pid) -> bool,
) -> BTreeSet<TaskId> {
    let mut open = open_beside(reply, groups);
    open.sort_by_key(|wait| wait.since);
    let asked = open.iter().map(|wait| wait.task).take(ASKED_MAX);
    asked.filter(|task| is_asleep(reply.state.task(*task).pid)).collect()
}

/// Open waits whose end may not have been logged: for most of each its CPU was not busy, no quota held it, and it is most
/// of what the task waited.
fn open_beside<'a>(
    reply: &'a Reply<CausesAnswer>,
    groups: Option<&Groups>,
) -> Vec<&'a ExplainedWait> {
    use WaitCause::{HandingOver, HeldBack, Misplaced, Unknown};
    let is_limited = |group: u32| {
        let chain = groups.into_iter().flat_map(|groups| groups.chain(group));
        let mut limits = chain.filter_map(|at| groups?.limit(at));
        limits.any(|limit| limit.quota.is_some())
    };
    let waited = reply.answer.tasks.iter().map(|row| (row.task, row.parts.sum()));
    let waited: BTreeMap<TaskId, Nanos> = waited.collect();
    let is_beside = |wait: &&ExplainedWait| {
        let beside =
            [Unknown, HeldBack, HandingOver, Misplaced].map(|cause| wait.parts.of(cause).0);
        let group = reply.answer.groups.get(wait.task.index()).copied().flatten();
        let all = waited.get(&wait.task).copied().unwrap_or_default();
        wait.until - wait.since >= OPEN_MIN
            && beside.iter().sum::<u64>() * 2 > wait.parts.sum().0
            && wait.parts.sum().0 * 2 > all.0
            && !group.is_some_and(is_limited)
    };
    reply.answer.open.iter().filter(is_beside).collect()
}

/// What the answer about a window of a stream says first; `None` if tasks hardly waited. It is not about those that
/// are [`asleep`].
pub(crate) fn first_line(
    reply: &Reply<CausesAnswer>,
    groups: Option<&Groups>,
    asleep: &BTreeSet<TaskId>,
) -> Option<Headline> {
    let input = Input::part_of(std::path::Path::new("trace.dat"), None, None);
    let none = Groups::default();
    let groups = groups.unwrap_or(&none);
    let doubtful = asleep.clone();
    let screen = Screen { reply, groups, conditions: None, input: &input, trigger: None, doubtful };
    let subject = Subject::of(reply, &screen.doubtful).filter(|_| !screen.is_calm());
    let (said, waited) = match subject {
        Some(subject) => {
            let each = subject.parts.sum().0 / subject.tasks.len() as u64;
            (screen.headline(&subject), Nanos(each))
        }
        None => (screen.left_out()?, Nanos::ZERO),
    };
    Some(Headline { said: said.trim_end().replace('\n', " "), waited })
}

/// What is said first.
pub(crate) struct Headline {
    /// A sentence or two.
    pub(crate) said: String,
    /// How long each of those waited whom it is about, on average; nothing if it only says what is not known.
    pub(crate) waited: Nanos,
}

/// Tasks that still wait by the events, and came to run meanwhile by the kernel's counters: it did not log these switches
/// (some kernels log nothing while a CPU idles).
fn doubtful(reply: &Reply<CausesAnswer>, groups: &Groups) -> BTreeSet<TaskId> {
    let ran = reply.checked.iter().filter(|one| one.missing() > 0);
    let ran: BTreeSet<Pid> = ran.map(|one| one.counted.pid).collect();
    let open = open_beside(reply, Some(groups)).into_iter().map(|wait| wait.task);
    open.filter(|task| ran.contains(&reply.state.task(*task).pid)).collect()
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
    } = Explained::of(input, by)?;
    let chosen = input.chosen(selection)?;
    narrow(&mut reply, &chosen);
    let mut warnings = reply.warnings.clone();
    let sums = kernel_sums(groups.as_ref(), (&throttling, &counted), Some(&reply));
    warnings.extend(limits(has_affinity, groups.as_ref(), &sums));
    let groups = groups.unwrap_or_default();
    if let Some(by) = by {
        if by == By::Process && !belongs.knows_processes() {
            let file = input.shown();
            anyhow::bail!(
                "{file}: the trace does not hold which threads form a process: `schedlab record` stores it"
            );
        }
        let rows = blame::rows(&reply, by, &belongs);
        return print_blame(input, &reply, &rows, (&warnings, &sums), top.unwrap_or(20));
    }
    let doubtful = doubtful(&reply, &groups);
    let subject = Subject::of(&reply, &doubtful);
    // A wait that ended the recording, or that did not end, comes before requests. The text alone names a request.
    let has_wait = subject.as_ref().is_some_and(|subject| subject.wait.is_some());
    let request = match has_wait || !input.part.form.is_text() {
        true => None,
        false => requests::slowest(input, &chosen, reply.state.marks())?,
    };
    let tasks = reply.rows(&reply.answer.tasks);
    let blame = reply.rows(&reply.answer.blame);
    let document = Document {
        head: Head::of(&reply),
        waited_ns: reply.answer.total.sum(),
        by_cause: by_cause(&reply.answer.total),
        subject: subject.as_ref().map(|subject| subject.told(&reply)),
        tasks: Rows::new(&tasks, reply.origin)
            .known(&reply.known)
            .off("waited_ns", |row| Some(row.reply.off(row.task)?.waited_off()?.0 as f64)),
        blame: Rows::new(&blame, reply.origin).known(&reply.known),
        groups: sums,
    };
    input.part.form.print(&warnings, &document, &document.tasks, || {
        let conditions = conditions.as_ref();
        let reply = &reply;
        let screen = Screen { reply, groups: &groups, conditions, input, trigger, doubtful };
        let mut text = request.map_or_else(String::new, |said| wrapped(&said) + "\n");
        text += &screen.text(subject.as_ref());
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
    (warnings, sums): (&[Warning], &[KernelSum]),
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
fn limits(has_affinity: bool, groups: Option<&Groups>, sums: &[KernelSum]) -> Vec<Warning> {
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
            "`schedlab record` stores groups and their limits",
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
        let (model, kernel) = (self.counted_ns?, self.kernel_throttled_ns?);
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
    (throttling, counted): (&ThrottlingAnswer, &BTreeMap<u32, Counted>),
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
    subject: Option<SubjectTold>,
    /// Tasks that waited, longest in sum first.
    tasks: Rows<'a, InReply<'a, TaskCauses, CausesAnswer>>,
    /// Who ran while others waited, most first.
    blame: Rows<'a, InReply<'a, Blame, CausesAnswer>>,
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

#[derive(Serialize, JsonSchema)]
struct SubjectTold {
    /// The name of its tasks.
    comm: String,
    /// Their pids.
    pids: Vec<schedlab_model::Pid>,
    /// The path of their control group; `null` if not known.
    group: Option<String>,
    /// What people call that group.
    group_name: Option<String>,
    waited_ns: Nanos,
    by_cause: Vec<ByCause>,
    /// How long it waits already, if that is what it is about.
    open_ns: Option<Nanos>,
}

/// Tasks of one name in one group: what the answer is about.
struct Subject {
    tasks: Vec<TaskId>,
    group: Option<u32>,
    parts: Parts,
    /// Its wait, if the answer is about a single one.
    wait: Option<ExplainedWait>,
    /// Whether that wait ended the recording.
    is_trigger: bool,
}

impl Subject {
    /// The wait that ended the recording, else the worst open wait if no wait was longer, else the tasks of a name that
    /// waited longest in sum. If most of that was for each other, those whom others made wait longest, if that is a
    /// quarter of it.
    fn of(reply: &Reply<CausesAnswer>, doubtful: &BTreeSet<TaskId>) -> Option<Self> {
        let answer = &reply.answer;
        let found = answer
            .triggered
            .as_ref()
            .filter(|wait| answer.tasks.iter().any(|row| row.task == wait.task));
        let worst = answer.worst.iter().find(|wait| !doubtful.contains(&wait.task));
        let worst = found.or(worst);
        let is_worth = |wait: &&ExplainedWait| {
            found.is_some() || wait.is_open && wait.until - wait.since >= OPEN_MIN
        };
        if let Some(wait) = worst.filter(is_worth) {
            let row = answer.tasks.iter().find(|row| row.task == wait.task)?;
            return Some(Self {
                tasks: vec![wait.task],
                group: row.group,
                parts: wait.parts,
                wait: Some(wait.clone()),
                is_trigger: found.is_some(),
            });
        }
        let mut sums = BTreeMap::new();
        for row in answer.tasks.iter().filter(|row| !doubtful.contains(&row.task)) {
            let key = (row.group, reply.state.task(row.task).comm);
            let (sum, _): &mut (Self, Nanos) = sums.entry(key).or_insert_with(|| {
                let (tasks, parts) = (Vec::new(), Parts::default());
                let subject =
                    Self { tasks, group: row.group, parts, wait: None, is_trigger: false };
                (subject, Nanos::ZERO)
            });
            sum.tasks.push(row.task);
            sum.parts.add(&row.parts);
        }
        // Tasks of a name that stand in each other's way may be the culprits of somebody else.
        for row in &answer.blame {
            let group = answer.groups.get(row.by.index()).copied().flatten();
            let is_own = (group, reply.state.task(row.by).comm) == (row.group, row.comm);
            if let Some((_, by_others)) = sums.get_mut(&(row.group, row.comm)).filter(|_| !is_own) {
                *by_others += row.time;
            }
        }
        let mut sums: Vec<(Self, Nanos)> = sums.into_values().collect();
        sums.sort_by_key(|(sum, _)| (Reverse(sum.parts.sum()), sum.tasks[0]));
        let (most, own) = sums.first().map(|(sum, by_others)| (sum.parts.sum(), *by_others))?;
        let victim = sums.iter().map(|(_, by_others)| *by_others).max()?;
        let is_led = victim > own && victim.0 * 4 >= most.0;
        let found = sums.into_iter().find(|(_, by_others)| !is_led || *by_others == victim);
        found.map(|(sum, _)| sum).filter(|sum| sum.parts.sum() > Nanos::ZERO)
    }

    fn told(&self, reply: &Reply<CausesAnswer>) -> SubjectTold {
        let state = &reply.state;
        SubjectTold {
            comm: state.name(self.tasks[0]),
            pids: self.tasks.iter().map(|task| state.task(*task).pid).collect(),
            group: reply.answer.group_name(self.group).map(str::to_owned),
            group_name: reply.answer.group_title(self.group).map(str::to_owned),
            waited_ns: self.parts.sum(),
            by_cause: by_cause(&self.parts),
            open_ns: self
                .wait
                .as_ref()
                .filter(|wait| wait.is_open)
                .map(|wait| wait.until - wait.since),
        }
    }
}

/// What the text needs to know.
struct Screen<'a> {
    reply: &'a Reply<CausesAnswer>,
    groups: &'a Groups,
    conditions: Option<&'a Conditions>,
    input: &'a Input,
    trigger: Option<Trigger>,
    /// Tasks that wait by the events alone.
    doubtful: BTreeSet<TaskId>,
}

impl Screen<'_> {
    fn text(&self, subject: Option<&Subject>) -> String {
        let looked_at = input::looked_at(self.reply);
        if self.reply.known.of(Need::WaitTime).is_none() {
            return "Who waited cannot be known of this trace.\n".to_owned();
        }
        let Some(subject) = subject else {
            let left_out = self.left_out().unwrap_or_default();
            return format!("Nobody waited for a CPU in {looked_at}.\n{left_out}");
        };
        if self.is_calm() {
            let all = self.reply.answer.total.sum().readable();
            let most = subject.parts.sum().readable();
            let longest = self.longest().readable();
            let said = format!(
                "Tasks hardly waited: {all} in sum, at most {longest} at once, in {looked_at}. Most of it: {} with {most}.",
                self.who(subject)
            );
            let left_out = self.left_out().unwrap_or_default();
            return format!("{}\n{}{left_out}", wrapped(&said), self.causes(subject));
        }
        let mut text = self.headline(subject);
        if let Some(trigger) = self.trigger.filter(|_| !subject.is_trigger) {
            let waited = (trigger.until - trigger.since).readable();
            text += &wrapped(&format!(
                "The wait of task {}, which ended the recording after {waited}, is not in this answer.",
                trigger.pid
            ));
        }
        let _ = writeln!(text, "\n{}", self.causes(subject));
        let _ = write!(text, "{}", self.advice(subject));
        let all = self.reply.answer.total.sum();
        let count = self.reply.answer.tasks.len();
        let shares: Vec<String> = self
            .reply
            .answer
            .total
            .ranked()
            .into_iter()
            .filter(|(_, time)| part(*time, all) >= SHARE_MIN)
            .map(|(cause, time)| format!("{} {}", cause.title(), percent(time, all)))
            .collect();
        let who = if count == 1 { "1 task".to_owned() } else { format!("All {count} tasks") };
        let summed =
            format!("{who} waited {} in {looked_at}: {}.", all.readable(), shares.join(", "));
        text + "\n" + &wrapped(&summed) + &self.stolen() + &self.left_out().unwrap_or_default()
    }

    /// Says whose waits the answer does not take for such.
    fn left_out(&self) -> Option<String> {
        let tasks = self.reply.answer.tasks.iter();
        let longest = tasks.filter(|row| self.doubtful.contains(&row.task));
        let longest = longest.max_by_key(|row| (row.longest, Reverse(row.task)))?;
        let who = Named::of(longest.task, &self.reply.state);
        let others = match self.doubtful.len() {
            1 => String::new(),
            2 => " Another task is left out for the same reason.".to_owned(),
            more => format!(" {} other tasks are left out for the same reason.", more - 1),
        };
        Some(wrapped(&format!(
            "{who} waits for {} by the events, and is left out: it ran or sleeps by what the kernel says, which did not log \
             the switch.{others}",
            longest.longest.readable()
        )))
    }

    /// How much of competition the hypervisor may have taken: no event tells when it did.
    fn stolen(&self) -> String {
        let parts = &self.reply.answer.total;
        let competition =
            WaitCause::ALL.into_iter().filter(|cause| *cause >= WaitCause::KernelThread);
        let competition = competition.fold(Nanos::ZERO, |sum, cause| sum + parts.of(cause));
        let stolen = self.groups.stolen().unwrap_or_default().min(competition);
        if part(stolen, competition) < SHARE_MIN {
            return String::new();
        }
        wrapped(&format!(
            "Of competition, up to {} was stolen by the hypervisor.",
            stolen.readable()
        ))
    }

    /// The longest wait of all.
    fn longest(&self) -> Nanos {
        let mut worst = self.reply.answer.worst.iter();
        let worst = worst.find(|wait| !self.doubtful.contains(&wait.task));
        worst.map_or(Nanos::ZERO, |wait| wait.until - wait.since)
    }

    /// Whether waiting is no reason to change anything.
    fn is_calm(&self) -> bool {
        let cpus = self.reply.state.observed_cpus().count() as f64;
        let time = self.reply.observed.duration().0 as f64 * cpus;
        let rows = self.reply.answer.tasks.iter();
        let rows = rows.filter(|row| !self.doubtful.contains(&row.task));
        let share = rows.map(|row| row.parts.sum().0).sum::<u64>() as f64 / time.max(1.0);
        share < CALM_SHARE && self.longest() < CALM_WAIT
    }

    fn who(&self, subject: &Subject) -> String {
        let state = &self.reply.state;
        let mut who = match subject.tasks.as_slice() {
            [task] => Named::of(*task, state).to_string(),
            many => format!("{} ({} tasks)", state.name(many[0]), many.len()),
        };
        if let Some(group) =
            self.reply.answer.group_title(subject.group).filter(|name| *name != "/")
        {
            let _ = write!(who, " in {group}");
        }
        who
    }

    fn headline(&self, subject: &Subject) -> String {
        let who = self.who(subject);
        let all = subject.parts.sum();
        let trigger = if subject.is_trigger { ", which ended the recording" } else { "" };
        let waited = match &subject.wait {
            Some(wait) if wait.is_open => {
                let length = (wait.until - wait.since).readable();
                format!("still waits after at least {length}{trigger}")
            }
            Some(wait) => {
                format!("waited {} for a CPU{trigger}", (wait.until - wait.since).readable())
            }
            None => {
                let all = input::figure(&self.reply.known, Need::WaitTime, all.readable());
                format!("waited {all} for a CPU")
            }
        };
        let Some((cause, time)) = subject.parts.ranked().first().copied() else {
            return wrapped(&format!("{who} {waited}."));
        };
        let share = percent(time, all);
        let why = match cause {
            WaitCause::Throttled => match self.limit(subject) {
                Some((name, _)) => {
                    format!("{share} of it because the CPU quota of {name} was used up")
                }
                None if self.is_real_time(subject) => {
                    format!(
                        "{share} of it because the kernel's limit for real-time tasks was reached"
                    )
                }
                None => format!("{share} of it because its own CPU budget was used up"),
            },
            WaitCause::HeldBack | WaitCause::Unknown
                if let Some((name, limit)) = self.limit(subject) =>
            {
                format!(
                    "and the CPU quota of {name} ({} in {}) may be why: what shows that was not logged",
                    limit.quota.unwrap_or_default().readable(),
                    limit.period.readable()
                )
            }
            WaitCause::HeldBack => {
                format!(
                    "{share} of it beside an idle CPU: something that this trace does not hold limits it"
                )
            }
            WaitCause::HandingOver => format!("{share} of it until an idle CPU switched to it"),
            WaitCause::Unknown => format!("of {share} the cause is not known"),
            WaitCause::Offline => format!("{share} of it while its CPU was out of use"),
            WaitCause::Interrupt => format!("{share} of it while its CPU handled interrupts"),
            WaitCause::Pinned => format!(
                "{share} of it while another CPU was free where it may not run, behind {}",
                self.behind(subject, cause)
            ),
            WaitCause::Misplaced => {
                format!(
                    "{share} of it while another CPU was free, behind {}",
                    self.behind(subject, cause)
                )
            }
            _ => format!("{share} of it behind {}", self.behind(subject, cause)),
        };
        wrapped(&format!("{who} {waited}, {why}."))
    }

    /// Who ran instead, most first; with a kind of competition, those of that kind.
    fn culprits(&self, subject: &Subject, cause: Option<WaitCause>) -> Vec<(TaskId, Nanos)> {
        let told = self.reply.answer.tasks.iter().filter(|row| subject.tasks.contains(&row.task));
        let comms: Vec<_> = told.flat_map(|row| row.comms.iter().copied()).collect();
        let rows = self.reply.answer.blame.iter();
        let rows = rows.filter(|row| row.group == subject.group && comms.contains(&row.comm));
        // Those who changed their name while they waited have a row for each.
        let mut sums = BTreeMap::<TaskId, Nanos>::new();
        for row in rows.filter(|row| cause.is_none_or(|cause| self.is_of(row.by, cause, subject))) {
            *sums.entry(row.by).or_default() += row.time;
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(task, time)| (Reverse(*time), *task));
        sums
    }

    /// Whether a task that ran counts for a kind of competition.
    fn is_of(&self, task: TaskId, cause: WaitCause, subject: &Subject) -> bool {
        let state = &self.reply.state;
        let is_kernel = is_kernel_thread(&state.name(task));
        let prio = state.task(task).prio;
        let is_fair = prio.is_fair() && !is_kernel;
        let is_own = self.reply.answer.groups[task.index()] == subject.group;
        match cause {
            WaitCause::KernelThread => is_kernel,
            WaitCause::Deadline => prio.is_deadline() && !is_kernel,
            WaitCause::RealTime => prio.is_real_time() && !is_kernel,
            WaitCause::OwnGroup => is_fair && is_own,
            WaitCause::OtherGroup => is_fair && !is_own,
            WaitCause::Fair => is_fair,
            _ => true,
        }
    }

    /// `hog (17) of /other`, or `others, mostly rustc (3 tasks, 1.20 s)`; tasks of one name together.
    fn behind(&self, subject: &Subject, cause: WaitCause) -> String {
        let state = &self.reply.state;
        let mut by_name = BTreeMap::new();
        let mut all = Nanos::ZERO;
        for (task, time) in self.culprits(subject, Some(cause)) {
            let group = self.reply.answer.groups[task.index()];
            let sum = by_name.entry((state.name(task), group)).or_insert((Nanos::ZERO, Vec::new()));
            sum.0 += time;
            sum.1.push(task);
            all += time;
        }
        let most = by_name.into_iter().max_by_key(|(_, (time, _))| *time);
        let Some(((name, group), (time, tasks))) = most else {
            return "nobody who was seen".to_owned();
        };
        let group = self.reply.answer.group_title(group).filter(|name| *name != "/");
        let is_own = self.reply.answer.groups[tasks[0].index()] == subject.group;
        let of = group.filter(|_| !is_own).map(|name| format!(" of {name}")).unwrap_or_default();
        let count = match tasks.as_slice() {
            [task] => state.task(*task).pid.to_string(),
            many => format!("{} tasks", many.len()),
        };
        if part(time, all) >= MOSTLY {
            return format!("{name} ({count}){of}");
        }
        let others = match cause {
            WaitCause::KernelThread => "kernel threads",
            WaitCause::Deadline => "deadline tasks",
            WaitCause::RealTime => "real-time tasks",
            WaitCause::OwnGroup => "others of its group",
            WaitCause::OtherGroup => "other groups",
            _ => "others",
        };
        format!("{others}, mostly {name}{of} ({count}, {})", time.readable())
    }

    fn is_real_time(&self, subject: &Subject) -> bool {
        self.reply.state.task(subject.tasks[0]).prio.is_real_time()
    }

    /// The nearest quota that holds for the subject: that of fair tasks alone.
    fn limit(&self, subject: &Subject) -> Option<(String, Limit)> {
        let is_fair = self.reply.state.task(subject.tasks[0]).prio.is_fair();
        let group = subject.group.filter(|_| is_fair)?;
        let limited = self
            .groups
            .chain(group)
            .find_map(|at| self.groups.limit(at).filter(|limit| limit.quota.is_some()))?;
        Some((self.groups.title(limited.group), *limited))
    }

    fn causes(&self, subject: &Subject) -> String {
        let all = subject.parts.sum();
        let mut text = String::new();
        for (cause, time) in subject.parts.ranked() {
            if part(time, all) < SHARE_MIN {
                continue;
            }
            let beside = match (cause, self.limit(subject)) {
                (WaitCause::Throttled, Some((name, limit))) => {
                    let quota = limit.quota.unwrap_or_default().readable();
                    format!("{name}: {quota} of each {}", limit.period.readable())
                }
                _ => String::new(),
            };
            let (title, time, share) = (cause.title(), time.readable(), percent(time, all));
            let line = format!("  {title:<30}{time:>9}{share:>6}  {beside}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let ran: Vec<String> = self
            .culprits(subject, None)
            .into_iter()
            .take(3)
            .map(|(task, time)| {
                format!("{} {}", Named::of(task, &self.reply.state), time.readable())
            })
            .collect();
        if !ran.is_empty() {
            let _ = write!(
                text,
                "\n{}",
                wrapped(&format!("On its CPU meanwhile: {}.{}", ran.join(", "), self.interrupts()))
            );
        }
        let throttled = part(subject.parts.of(WaitCause::Throttled), all) >= SHARE_MIN;
        let limit = self.limit(subject).filter(|_| throttled);
        if let Some(said) = limit
            .and_then(|(name, limit)| went_to(&name, &users(limit.group, self.groups, self.reply)))
        {
            text += &wrapped(&said);
        }
        text + &self.offline()
    }

    /// CPUs that went out of use: the others have their work, too.
    fn offline(&self) -> String {
        let all = self.reply.state.cpus().iter().zip((0..).map(Cpu));
        let gone: CpuSet = all.filter(|(here, _)| here.offline).map(|(_, cpu)| cpu).collect();
        let Some(first) = gone.iter().next() else { return String::new() };
        wrapped(&format!(
            "CPU {gone} went offline, and the others have its work. To put it into use: \
             echo 1 > /sys/devices/system/cpu/cpu{first}/online."
        ))
    }

    /// What gives the subject the rights of who runs instead; `None` if it has them.
    fn rights(&self, subject: &Subject, culprit: TaskId) -> Option<String> {
        let state = &self.reply.state;
        let scheduled = |task| self.conditions?.of(state.task(task).pid, state.now());
        let (task, pid) = (subject.tasks[0], state.task(subject.tasks[0]).pid);
        let is_idle = |task| scheduled(task).is_some_and(|one| one.policy == "idle");
        let who = Named::of(task, state);
        if is_idle(task) && !is_idle(culprit) {
            return Some(format!(
                "{who} has the policy SCHED_IDLE: it hardly runs while others want its CPU. For an equal share: \
                 chrt -o -p 0 {pid}."
            ));
        }
        let nice = |task: TaskId| state.task(task).prio.0 - Prio::NORMAL.0;
        let (own, other) = (nice(task), nice(culprit));
        (own > other).then(|| {
            let other_one = Named::of(culprit, state);
            format!(
                "{who} has nice {own}, {other_one} has {other}. For an equal share: renice -n {other} -p {pid}."
            )
        })
    }

    /// Where the time of interrupts is.
    fn interrupts(&self) -> &'static str {
        match self.reply.answer.sees_interrupts {
            true => "",
            false => " Interrupts were not recorded: their time is in it.",
        }
    }

    /// The one thing to change.
    fn advice(&self, subject: &Subject) -> String {
        let file = self.input.shown();
        let state = &self.reply.state;
        let Some((cause, time)) = subject.parts.ranked().first().copied() else {
            return String::new();
        };
        let culprit = self.culprits(subject, Some(cause)).first().map(|(task, _)| *task);
        // A replay takes the first 500 ms as its warm-up.
        let is_short = self.reply.observed.duration() < Nanos::from_millis(1_000);
        let warm_up = if is_short { " --warm-up 0s" } else { "" };
        let pid = state.task(subject.tasks[0]).pid;
        let said = match cause {
            WaitCause::Throttled => match self.limit(subject) {
                Some((name, limit)) => {
                    let quota = limit.quota.unwrap_or_default();
                    let window = self.reply.observed.duration().0.max(1) as f64;
                    let periods = window / limit.period.0.max(1) as f64;
                    let more = Nanos((time.0 as f64 / periods) as u64);
                    format!(
                        "Raise the quota of {name} by up to {} for each {} (cpu.max, in version 1 \
                         cpu.cfs_quota_us), or let its tasks do less: other tasks cost it nothing in \
                         this time.",
                        more.readable(),
                        limit.period.readable()
                    ) + if quota < Nanos::from_millis(5) {
                        " A quota below the 5 ms slice of a CPU makes waits longer."
                    } else {
                        ""
                    }
                }
                None if self.is_real_time(subject) => {
                    "Let it do less, give it a fair policy, or raise the limit: cpu.rt_runtime_us of its group \
                     (version 1), kernel.sched_rt_runtime_us, and since Linux 6.12 the share of fair tasks \
                     (/sys/kernel/debug/sched/fair_server)."
                        .to_owned()
                }
                None => "Raise the runtime of the deadline task (chrt --sched-runtime).".to_owned(),
            },
            WaitCause::HeldBack | WaitCause::Unknown if self.limit(subject).is_some() => {
                "If nr_throttled in cpu.stat of that group grows, it is the quota: raise it (cpu.max, in version 1 \
                 cpu.cfs_quota_us), or let its tasks do less."
                    .to_owned()
            }
            WaitCause::HeldBack => format!(
                "Look for a CPU quota of its control group or container (cpu.stat), real-time throttling, or core \
                 scheduling. `schedlab record` stores the limits of groups, and `schedlab why` then names them. \
                 pid {pid} is one of the tasks."
            ),
            WaitCause::HandingOver => format!(
                "Idle CPUs are slow to wake: `schedlab trace power {file}` shows their idle states."
            ),
            WaitCause::Unknown => "Record again: the notes say what is missing.".to_owned(),
            WaitCause::Interrupt => {
                "Move interrupts to other CPUs (/proc/irq/N/smp_affinity), or make them \
                                     fewer; /proc/interrupts counts them."
                    .to_owned()
            }
            WaitCause::Offline => {
                "Put the CPU into use: /sys/devices/system/cpu/cpuN/online.".to_owned()
            }
            WaitCause::Pinned => {
                let all: CpuSet = state.observed_cpus().map(|(cpu, _)| cpu).collect();
                format!(
                    "Let it use more CPUs: taskset -pc {all} {pid}, or the cpuset of its control group."
                )
            }
            WaitCause::Misplaced => format!(
                "The scheduler left it behind a busy CPU. `schedlab trace conservation {file}` lists the decisions."
            ),
            WaitCause::RealTime | WaitCause::Deadline => match culprit {
                Some(task) => format!(
                    "{} runs before all fair tasks. Give it a fair policy (chrt -o -p 0 {}), another CPU, or less to do.",
                    Named::of(task, state),
                    state.task(task).pid
                ),
                None => String::new(),
            },
            WaitCause::KernelThread => match culprit {
                Some(task) => format!(
                    "A kernel thread ran instead. `schedlab trace why {file} --pid {}` shows what made it run.",
                    state.task(task).pid
                ),
                None => String::new(),
            },
            WaitCause::OwnGroup | WaitCause::OtherGroup | WaitCause::Fair => match culprit {
                Some(task) if cause == WaitCause::OtherGroup => format!(
                    "Give its group more weight (cpu.weight, in version 1 cpu.shares), or move {} to other CPUs.",
                    Named::of(task, state)
                ),
                Some(task) => self.rights(subject, task).unwrap_or_else(|| {
                    format!(
                        "More tasks want a CPU than there are CPUs. To try it with fewer rights for {}: \
                         `schedlab replay {file} --set nice:{}=5{warm_up}`.",
                        Named::of(task, state),
                        state.name(task)
                    )
                }),
                None => String::new(),
            },
            _ => String::new(),
        };
        wrapped(&said)
    }
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

#[cfg(test)]
mod tests {
    use super::{Screen, Subject, doubtful, first_line};
    use crate::commands::trace::input::Input;
    use schedlab_model::{Counted, Event, Groups, Nanos, Pid, What};
    use schedlab_timeline::{Causes, CausesAnswer, Reply, ask, notation};

    const MS: u64 = 1_000_000;

    /// `A` and `B` take turns on CPU 0; `C` is woken on CPU 1, which idles.
    fn reply(c_came_to_run: u64) -> Reply<CausesAnswer> {
        let text =
            "tick 10ms\n0 | AABBAABBAABB\n  | bbaabbaabbaa\n1 | ............\n  |  ccccccccccc";
        let mut trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let (from, to) = (Some(Nanos(0)), Nanos(120 * MS));
        let (pid, ran, waited) = (Pid(3), Nanos(MS), Nanos::ZERO);
        let counted = Counted { pid, from, to, ran, waited, arrivals: c_came_to_run };
        trace.info.counters = Some(vec![counted]);
        ask(&mut trace.source(), Causes::new(&trace.info, &[], 10)).unwrap()
    }

    fn text(reply: &Reply<CausesAnswer>) -> String {
        let (groups, input) = (Groups::default(), Input::part_of("x.dat".as_ref(), None, None));
        let doubtful = doubtful(reply, &groups);
        let subject = Subject::of(reply, &doubtful);
        let conditions = None;
        let screen =
            Screen { reply, groups: &groups, conditions, input: &input, trigger: None, doubtful };
        screen.text(subject.as_ref())
    }

    #[test]
    fn a_wait_that_the_kernel_denies_is_not_what_the_answer_is_about() {
        let text_of = |came_to_run| text(&reply(came_to_run));
        assert!(
            text_of(0).starts_with("C (3) still waits after at least 110 ms"),
            "{}",
            text_of(0)
        );
        let denied = text_of(2);
        assert!(denied.starts_with("A (1)") || denied.starts_with("B (2)"), "{denied}");
        assert!(
            denied.contains("C (3) waits for 110 ms by the events, and is left out"),
            "{denied}"
        );
    }

    #[test]
    fn those_whom_others_make_wait_come_before_those_that_stand_in_their_own_way() {
        let text_of = |rows: &str| {
            let mut trace = notation::parse(rows).unwrap_or_else(|error| panic!("{error}"));
            // Three tasks of one name.
            for pid in 1..=3 {
                let what = What::Comm { pid: Pid(pid), comm: *b"batch\0\0\0\0\0\0\0\0\0\0\0" };
                let first = trace.events[0];
                trace.events.push(Event { what, ..first });
            }
            trace.events.sort_by_key(|event| event.time);
            let causes = Causes::new(&trace.info, &[], 10);
            text(&ask(&mut trace.source(), causes).unwrap())
        };
        let said =
            text_of("tick 10ms\n0 | ABCABCABCD\n  | baabaabaaa\n  | ccbccbccbb\n  | dddddddddc");
        assert!(
            said.starts_with("D (4) waited 90.0 ms for a CPU, 100 % of it behind batch (3"),
            "{said}"
        );
    }

    #[test]
    fn a_window_asks_the_kernel_who_sleeps() {
        let reply = reply(0);
        let said = |asleep: &[i32]| {
            let is_asleep = |pid: Pid| asleep.contains(&pid.0);
            first_line(&reply, None, &super::asleep(&reply, None, &is_asleep)).unwrap().said
        };
        assert!(said(&[]).starts_with("C (3) still waits"), "{}", said(&[]));
        assert!(!said(&[3]).contains("C (3)"), "{}", said(&[3]));
    }
}
