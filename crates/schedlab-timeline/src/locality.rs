//! How far wakeups carry tasks, who wakes whom, and how long tasks run away from home.

use crate::change::{Change, Switch, Wait};
use crate::in_reply::{InReply, by_distance};
use crate::names::CommId;
use crate::question::Question;
use crate::state::{Occupant, State};
use crate::task::{Activity, TaskId};
use crate::task_filter::Chosen;
use crate::totals::{About, Total, Totals};
use schedlab_model::Better::{Lower, Neither};
use schedlab_model::table::{Column, Row, column};
use schedlab_model::{Context, Cpu, Distance, Nanos, Need, Pid, Topology, Unit, columns, readable};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Counts by distance, in the order of [`Distance::ALL`].
pub(crate) type ByDistance = [u64; Distance::ALL.len()];

/// Asks about locality. Without a topology only the matrix of wakers is answered.
#[derive(Clone, Debug)]
pub struct Locality {
    topology: Option<Topology>,
    chosen: Chosen,
    matrix: BTreeMap<(CommId, CommId), Woken>,
    tasks: Vec<Sums>,
    total: Woken,
}

/// Wakeups of one kind. Counted when the woken task runs, at the CPU where it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// The number of wakeups.
    pub count: u64,
    /// By the distance from where the task ran before.
    pub(crate) from_previous: ByDistance,
    /// By the distance from the waker's CPU.
    pub(crate) from_waker: ByDistance,
}

impl Woken {
    fn add(&mut self, from_previous: Option<Distance>, from_waker: Option<Distance>) {
        self.count += 1;
        if let Some(distance) = from_previous {
            self.from_previous[distance as usize] += 1;
        }
        if let Some(distance) = from_waker {
            self.from_waker[distance as usize] += 1;
        }
    }

    /// Wakeups that left the cache, the node or the socket where the task ran before.
    #[must_use]
    pub(crate) fn left(&self, level: Distance) -> u64 {
        let beyond = Distance::ALL.into_iter().zip(self.from_previous);
        beyond.filter(|(distance, _)| *distance > level).map(|(_, count)| count).sum()
    }
}

#[derive(Clone, Debug, Default)]
struct Sums {
    woken: Woken,
    ran: Vec<(u32, Nanos)>,
}

/// The locality of one task's wakeups.
#[derive(Clone, Debug)]
pub struct LocalityRow {
    /// The pid of the task.
    pub(crate) pid: Pid,
    /// The task's name at the end of the window.
    pub(crate) comm: String,
    /// The wakeups of the task.
    pub(crate) woken: Woken,
    /// The node on which it ran longest; `None` without a topology, or when it did not run.
    pub(crate) home: Option<u32>,
    /// Time it ran on that node.
    pub(crate) at_home: Nanos,
    /// Time it ran on other nodes.
    pub(crate) away: Nanos,
}

/// What [`Locality`] found in a trace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LocalityAnswer {
    /// Who wakes whom, by name, most first. `None` as a waker is an interrupt.
    pub matrix: Vec<WokenPair>,
    /// Longest away from home first, then most wakeups that left the LLC; ties by pid.
    pub tasks: Vec<LocalityRow>,
    /// The wakeups of all tasks.
    pub total: Woken,
    /// Whether there was a topology: distances are all zero without.
    pub has_topology: bool,
}

/// Wakeups with what is known of their distance.
#[derive(Clone, Copy, Debug)]
pub struct WokenFar {
    woken: Woken,
    is_known: bool,
}

impl LocalityAnswer {
    /// Wakeups with what is known of their distance.
    #[must_use]
    pub const fn far(&self, woken: Woken) -> WokenFar {
        WokenFar { woken, is_known: self.has_topology }
    }
}

impl WokenFar {
    fn left(&self, level: Distance) -> Option<u64> {
        self.is_known.then(|| self.woken.left(level))
    }

    /// Those that left a level, with their share of all.
    fn left_in_words(&self, level: Distance) -> String {
        match self.left(level).filter(|_| self.woken.count > 0) {
            Some(left) => {
                let share = left as f64 / self.woken.count as f64;
                format!("{left} ({})", readable(share, Unit::Fraction))
            }
            None => "-".to_owned(),
        }
    }
}

impl Row for WokenFar {
    const ABOUT: &'static str = "Wakeups, and how far they carried tasks.";

    fn columns() -> Vec<Column<Self>> {
        wakeups(|row: &Self| *row)
    }
}

fn wakeups<R>(of: impl Fn(&R) -> WokenFar + Copy + 'static) -> Vec<Column<R>> {
    let count = column("count", "How many.", move |row: &R| of(row).woken.count);
    let mut columns = vec![count.title("wakeups")];
    let far = |counts: fn(&Woken) -> ByDistance| {
        move |row: &R| Some(counts(&of(row).woken)).filter(|_| of(row).is_known)
    };
    columns.extend(by_distance("from_previous", None, far(|woken| woken.from_previous)));
    columns.extend(by_distance("from_waker", None, far(|woken| woken.from_waker)));
    let left = |name: &'static str, title: &'static str, rank, level, about: &'static str| {
        column(name, about, move |row: &R| of(row).left(level))
            .title(title)
            .rank(rank)
            .spelled(move |row: &R| of(row).left_in_words(level))
    };
    let about = [
        "Those after which the task ran in another LLC than before.",
        "Those after which it ran on another node.",
        "Those after which it ran on another socket.",
    ];
    columns.extend([
        left("left_llc", "left LLC", 0, Distance::Llc, about[0]),
        left("left_node", "left node", 9, Distance::Node, about[1]),
        left("left_socket", "left socket", 8, Distance::Socket, about[2]),
    ]);
    columns.into_iter().map(|column| column.needs(Need::WokenTime)).collect()
}

impl Row for InReply<'_, LocalityRow, LocalityAnswer> {
    const ABOUT: &'static str = "Where a task was woken and ran.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "pid" ["pid"] = row.pid, "The task (thread).";
            "comm" ["comm"] = row.comm.clone(), "Its name at the end.";
        };
        let wakeups = wakeups(|row: &Self| row.reply.answer.far(row.woken));
        columns.extend(wakeups.into_iter().map(|column| column.below("wakeups", "")));
        columns.extend(columns! { row: Self;
            "home_node" ["home", 7] @ Slices = row.home, "The NUMA node on which it ran longest.";
            "home_ns" ["at home"] @ RunTime = row.at_home, "Run time on that node.";
            "away_ns" ["away"] @ RunTime = row.away, "Run time on other nodes.";
        });
        columns
    }
}

/// Who woke whom, by name.
pub type WokenPair = (Option<String>, String, Woken);

impl Row for InReply<'_, WokenPair, LocalityAnswer> {
    const ABOUT: &'static str = "Who woke whom.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "waker" ["waker"] @ Wakers = row.0.clone(), "The waker; `null` is an interrupt, or is not known.";
            "wakee" ["wakes"] = row.1.clone(), "The task that it woke.";
        };
        let wakeups = wakeups(|row: &Self| row.reply.answer.far(row.2));
        columns.extend(wakeups.into_iter().map(|column| column.below("wakeups", "")));
        columns
    }
}

impl Locality {
    /// With what is known of the machine.
    #[must_use]
    pub fn new(topology: Option<Topology>) -> Self {
        let (chosen, matrix, tasks, total) = Default::default();
        Self { topology, chosen, matrix, tasks, total }
    }

    /// Wakeups of these tasks and by them, and a row for each of them.
    #[must_use]
    pub fn about(self, chosen: Chosen) -> Self {
        Self { chosen, ..self }
    }

    fn of(&mut self, task: TaskId) -> &mut Sums {
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, Sums::default);
        }
        &mut self.tasks[task.index()]
    }

    fn ran(&mut self, task: TaskId, cpu: Cpu, time: Nanos) {
        let Some(node) = self.topology.as_ref().and_then(|t| t.place(cpu)).map(|place| place.node)
        else {
            return;
        };
        let ran = &mut self.of(task).ran;
        match ran.iter_mut().find(|(other, _)| *other == node) {
            Some((_, sum)) => *sum += time,
            None => ran.push((node, time)),
        }
    }

    fn woken(&mut self, task: TaskId, cpu: Cpu, state: &State) {
        let known = state.task(task);
        let by_task = known.waker_context == Context::Task && known.waker.is_some();
        let concerned = self.chosen.has(task) || (by_task && self.chosen.has(known.waker));
        if !concerned {
            return;
        }
        let distance = |from: Option<Cpu>| self.topology.as_ref()?.distance(from?, cpu);
        let from_previous = distance(known.woken_from);
        let from_waker = distance(Some(known.waker_cpu));
        // The empty name stands for an interrupt: who was interrupted woke nobody.
        let waker = if by_task { state.task(known.waker).comm } else { CommId::UNKNOWN };
        self.matrix.entry((waker, known.comm)).or_default().add(from_previous, from_waker);
        self.total.add(from_previous, from_waker);
        self.of(task).woken.add(from_previous, from_waker);
    }
}

impl Question for Locality {
    type Answer = LocalityAnswer;

    fn see(&mut self, change: &Change, state: &State) {
        let Change::Switch(Switch { at, cpu, was, since, is, wait, .. }) = *change else { return };
        if let Occupant::Task(task) = was {
            self.ran(task, cpu, at - since.max(state.window().start));
        }
        if let (Some(Wait { why, .. }), Occupant::Task(task)) = (wait, is)
            && why.is_wakeup()
        {
            self.woken(task, cpu, state);
        }
    }

    fn answer(mut self, state: &State) -> LocalityAnswer {
        let window = state.window();
        for (id, task) in state.tasks() {
            if let Activity::Running { cpu } = task.activity {
                self.ran(id, cpu, window.end - task.since.max(window.start));
            }
        }
        let row = |(id, sums): (TaskId, Sums)| {
            let home = sums.ran.iter().max_by_key(|(node, time)| (*time, Reverse(*node))).copied();
            let all = sums.ran.iter().fold(Nanos::ZERO, |sum, (_, time)| sum + *time);
            let at_home = home.map_or(Nanos::ZERO, |(_, time)| time);
            LocalityRow {
                pid: state.task(id).pid,
                comm: state.name(id),
                woken: sums.woken,
                home: home.map(|(node, _)| node),
                at_home,
                away: all - at_home,
            }
        };
        let chosen = &self.chosen;
        let numbered = (0..).map(TaskId).zip(self.tasks).skip(1);
        let numbered = numbered.filter(|(id, _)| chosen.has(*id));
        let seen = |row: &LocalityRow| row.woken.count > 0 || row.home.is_some();
        let mut tasks: Vec<LocalityRow> = numbered.map(row).filter(seen).collect();
        tasks.sort_by_key(|row| {
            (Reverse(row.away), Reverse(row.woken.left(Distance::Llc)), row.pid)
        });
        let named = |((waker, wakee), woken): ((CommId, CommId), Woken)| {
            let waker = (waker != CommId::UNKNOWN).then(|| state.names().text(waker));
            (waker, state.names().text(wakee), woken)
        };
        let mut matrix: Vec<_> = self.matrix.into_iter().map(named).collect();
        matrix.sort_by_key(|(_, _, woken)| Reverse(woken.count));
        LocalityAnswer { matrix, tasks, total: self.total, has_topology: self.topology.is_some() }
    }
}

impl Totals for Locality {
    fn totals() -> Vec<Total> {
        let left = |name, about| Total::count(name, Neither, about).needs(Need::WokenTime);
        vec![
            left("wakeups", "Wakeups whose task then ran."),
            left(
                "wakeups_left_llc",
                "Wakeups after which the task ran in another LLC than before.",
            ),
            left(
                "wakeups_left_node",
                "Wakeups after which the task ran on another node than before.",
            ),
            left(
                "wakeups_left_socket",
                "Wakeups after which the task ran on another socket than before.",
            ),
            Total::sum(
                "away_from_home_ns",
                Lower,
                "Run time on other nodes than the one on which a task ran longest.",
            )
            .needs(Need::RunTime),
        ]
    }

    fn question(about: &About<'_>) -> Self {
        Self::new(about.topology.clone()).about(about.chosen.clone())
    }

    fn values(answer: &LocalityAnswer, _: &Chosen) -> Vec<Option<f64>> {
        let far = |level| answer.has_topology.then(|| answer.total.left(level) as f64);
        let away = || answer.tasks.iter().map(|row| row.away.0).sum::<u64>() as f64;
        vec![
            Some(answer.total.count as f64),
            far(Distance::Llc),
            far(Distance::Node),
            far(Distance::Socket),
            answer.has_topology.then(away),
        ]
    }
}
