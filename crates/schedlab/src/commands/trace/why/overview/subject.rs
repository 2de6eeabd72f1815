//! What the answer is about, and which waits it does not take for such.

use super::{ByCause, by_cause};
use schedlab_model::{Groups, Nanos, Pid};
use schedlab_timeline::{CausesAnswer, ExplainedWait, Parts, Reply, TaskCauses, TaskId, WaitCause};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// An open wait that is shorter is the end of the recording, and no fault.
const OPEN_MIN: Nanos = Nanos(10_000_000);
/// Of so many open waits the kernel is asked, the longest first.
const ASKED_MAX: usize = 50;

#[derive(Serialize, JsonSchema)]
pub(super) struct SubjectFigures {
    /// The name of its tasks.
    comm: String,
    /// The pid of each of these tasks (threads).
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
pub(super) struct Subject {
    pub(super) tasks: Vec<TaskId>,
    pub(super) group: Option<u32>,
    pub(super) parts: Parts,
    /// Its wait, if the answer is about a single one.
    pub(super) wait: Option<ExplainedWait>,
    /// Whether that wait ended the recording.
    pub(super) is_trigger: bool,
}

/// How long tasks of one name in one group waited behind whom.
#[derive(Default)]
struct WaitsBehind {
    own: Nanos,
    /// Tasks of other names, or of other groups.
    others: Nanos,
    other_groups: Nanos,
}

impl Subject {
    /// The wait that ended the recording, else the worst open wait if no wait was longer, else the tasks of a name that
    /// waited longest in sum. If most of that was for each other, those whom others made wait longest, if that is a
    /// quarter of it; else those whom tasks of other groups made wait longest, if that is a twentieth of the time.
    pub(super) fn of(reply: &Reply<CausesAnswer>, denied: &Denied) -> Option<Self> {
        let answer = &reply.answer;
        let found = answer
            .triggered
            .as_ref()
            .filter(|wait| answer.tasks.iter().any(|row| row.task == wait.task));
        let worst = answer.worst.iter().find(|wait| !denied.has(wait));
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
        for row in &answer.tasks {
            let waited = denied.rest(row);
            if waited.sum() == Nanos::ZERO {
                continue;
            }
            let key = (row.group, reply.state.task(row.task).comm);
            let (sum, _): &mut (Self, WaitsBehind) = sums.entry(key).or_insert_with(|| {
                let tasks = Vec::new();
                let parts = Parts::default();
                let subject =
                    Self { tasks, group: row.group, parts, wait: None, is_trigger: false };
                (subject, WaitsBehind::default())
            });
            sum.tasks.push(row.task);
            sum.parts.add(&waited);
        }
        // Tasks of a name that stand in each other's way may be the culprits of somebody else.
        for row in &answer.blame {
            let group = answer.groups.get(row.by.index()).copied().flatten();
            let is_own = (group, reply.state.task(row.by).comm) == (row.group, row.comm);
            if let Some((_, behind)) = sums.get_mut(&(row.group, row.comm)) {
                *(if is_own { &mut behind.own } else { &mut behind.others }) += row.time;
                if group != row.group {
                    behind.other_groups += row.time;
                }
            }
        }
        let mut sums: Vec<_> = sums.into_values().collect();
        sums.sort_by_key(|(sum, _)| (Reverse(sum.parts.sum()), sum.tasks[0]));
        let most = sums.first()?.0.parts.sum().0;
        let all = reply.observed.duration().0;
        let is_own_fault =
            |(sum, behind): &(Self, WaitsBehind)| behind.own.0 * 2 > sum.parts.sum().0;
        let mut place = 0;
        if is_own_fault(&sums[0]) {
            let victims = || (0..sums.len()).filter(|at| !is_own_fault(&sums[*at]));
            let by_any = victims().max_by_key(|at| (sums[*at].1.others, Reverse(*at)));
            let by_any = by_any.filter(|at| sums[*at].1.others.0 * 4 >= most);
            let by_groups = || victims().max_by_key(|at| (sums[*at].1.other_groups, Reverse(*at)));
            let by_groups = || by_groups().filter(|at| sums[*at].1.other_groups.0 * 20 >= all);
            place = by_any.or_else(by_groups).unwrap_or(0);
        }
        Some(sums.swap_remove(place).0).filter(|sum| sum.parts.sum() > Nanos::ZERO)
    }

    pub(super) fn figures(&self, reply: &Reply<CausesAnswer>) -> SubjectFigures {
        let state = &reply.state;
        SubjectFigures {
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

/// Waits that have not ended by the events, and that the kernel denies: the causes of each, by task.
#[derive(Default)]
pub(crate) struct Denied(BTreeMap<TaskId, Parts>);

impl Denied {
    fn of<'a>(waits: impl Iterator<Item = &'a ExplainedWait>) -> Self {
        Self(waits.map(|wait| (wait.task, wait.parts)).collect())
    }

    /// Whether a wait is one of them.
    pub(crate) fn has(&self, wait: &ExplainedWait) -> bool {
        wait.is_open && self.0.contains_key(&wait.task)
    }

    /// The causes of the other waits of a task.
    pub(super) fn rest(&self, row: &TaskCauses) -> Parts {
        self.0.get(&row.task).map_or(row.parts, |denied| row.parts.without(denied))
    }

    /// Each of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TaskId, &Parts)> {
        self.0.iter().map(|(task, parts)| (*task, parts))
    }
}

/// Waits of tasks that sleep by what the kernel says now: it is asked about the longest.
pub(crate) fn asleep(
    reply: &Reply<CausesAnswer>,
    groups: Option<&Groups>,
    is_asleep: &dyn Fn(Pid) -> bool,
) -> Denied {
    let mut open = open_beside(reply, groups);
    open.sort_by_key(|wait| wait.since);
    let asked = open.into_iter().take(ASKED_MAX);
    Denied::of(asked.filter(|wait| is_asleep(reply.state.task(wait.task).pid)))
}

/// Open waits whose end may not have been logged: for most of each its CPU was not busy, or out of use, and no quota held
/// it.
fn open_beside<'a>(
    reply: &'a Reply<CausesAnswer>,
    groups: Option<&Groups>,
) -> Vec<&'a ExplainedWait> {
    use WaitCause::{HandingOver, HeldBack, Misplaced, Offline, Unknown};
    let has_quota = |group: u32| groups.is_some_and(|groups| groups.quota(group).is_some());
    let is_beside = |wait: &&ExplainedWait| {
        let beside = [Unknown, Offline, HeldBack, HandingOver, Misplaced]
            .map(|cause| wait.parts.of(cause).0);
        let group = reply.answer.groups.get(wait.task.index()).copied().flatten();
        wait.until - wait.since >= OPEN_MIN
            && beside.iter().sum::<u64>() * 2 > wait.parts.sum().0
            && !group.is_some_and(has_quota)
    };
    reply.answer.open.iter().filter(is_beside).collect()
}

/// Waits of tasks that came to run meanwhile by the kernel's counters: it did not log these switches (some kernels log
/// nothing while a CPU idles). Nobody knows which switches: so each is most of what its task waited.
pub(super) fn doubtful(reply: &Reply<CausesAnswer>, groups: &Groups) -> Denied {
    let ran = reply.checked.iter().filter(|one| one.missing() > 0);
    let ran: BTreeSet<Pid> = ran.map(|one| one.counted.pid).collect();
    let waited = reply.answer.tasks.iter().map(|row| (row.task, row.parts.sum()));
    let waited: BTreeMap<TaskId, Nanos> = waited.collect();
    let is_it = |wait: &&ExplainedWait| {
        let all = waited.get(&wait.task).copied().unwrap_or_default();
        wait.parts.sum().0 * 2 > all.0 && ran.contains(&reply.state.task(wait.task).pid)
    };
    Denied::of(open_beside(reply, Some(groups)).into_iter().filter(is_it))
}
