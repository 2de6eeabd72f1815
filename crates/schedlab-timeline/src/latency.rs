//! How long tasks waited for a CPU.
//!
//! *Wakeup latency*: from `sched_waking` (or `sched_wakeup`, where there is no waking) until the task
//! runs; a first wakeup after fork is one. *Run delay*: every time a task was runnable and did not
//! run, after a wakeup or after being displaced, one sample a wait. A wait counts in the window in
//! which it ends, in its full length. One that has not ended counts in maxima and sums, as much as was seen of it;
//! percentiles and counts are of those that ended.

use crate::change::{Change, Switch, Wait};
use crate::open_waits::Open;
use crate::question::Question;
use crate::state::State;
use crate::task::{Activity, Task, TaskId};
use crate::task_filter::Chosen;
use crate::totals::{self, About, Total, Totals};
use schedlab_model::table::{Column, Row, column};
use schedlab_model::{Cpu, Nanos, Need, Pid, columns};
use schedlab_stats::Histogram;

/// Asks for wakeup latency and run delay of every task.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    tasks: Vec<Waits>,
    /// Waits that are in no histogram yet, in the order of time.
    pending: Vec<Pending>,
    /// The same by task, and where those of each task begin: memory for [`Latency::flush`].
    sorted_ns: Vec<u32>,
    places: Vec<u32>,
}

/// Waits that are gathered before they are recorded, in 6 MiB. Histograms of thousands of tasks are in no near cache: once
/// there, one takes all of its waits. A few at once for each task cost a quarter of a latency table of 1,024 CPUs.
const PENDING: usize = 1 << 19;

#[derive(Clone, Copy, Debug)]
struct Pending {
    /// Twice the task's number, plus one after a wakeup.
    whose: u32,
    wait_ns: u32,
}

/// Asks for the same by the CPU on which tasks ran at last.
#[derive(Clone, Debug, Default)]
pub struct LatencyByCpu {
    cpus: Vec<Waits>,
    chosen: Chosen,
}

/// The waits of one task, apart by how they began: run delay is both together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    woken: Histogram,
    displaced: Histogram,
    open_woken: Open,
    open_displaced: Open,
    pub(crate) unfinished: u64,
}

impl Waits {
    #[inline]
    pub(crate) fn record(&mut self, wait: Wait, at: Nanos) {
        let which = if wait.why.is_wakeup() { &mut self.woken } else { &mut self.displaced };
        which.record((at - wait.since).0);
    }

    /// A task waits at the end of the window.
    pub(crate) fn record_open(&mut self, task: &Task, end: Nanos) {
        let Activity::Waiting { why, .. } = task.activity else { return };
        let which = if why.is_wakeup() { &mut self.open_woken } else { &mut self.open_displaced };
        which.record((end - task.since).0);
        self.unfinished += 1;
    }

    pub(crate) fn delays(self) -> Delays {
        let mut run_delay = self.displaced;
        run_delay.merge(&self.woken);
        let mut open = self.open_displaced;
        open.merge(&self.open_woken);
        Delays {
            wakeup: self.woken,
            run_delay,
            open_wakeup: self.open_woken,
            open,
            unfinished: self.unfinished,
        }
    }
}

/// The number, sum and distribution of waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delays {
    /// Nanoseconds from wakeup to running, one sample a wakeup.
    pub wakeup: Histogram,
    /// Nanoseconds runnable without running, one sample a wait, wakeups included.
    pub run_delay: Histogram,
    /// Wakeups after which the task had not run at the end; in no histogram.
    pub open_wakeup: Open,
    /// All waits that had not ended; in no histogram.
    pub open: Open,
    /// Waits that were not seen to end: still waiting at the end, or lost from sight.
    pub unfinished: u64,
}

impl Delays {
    /// Adds the waits of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.wakeup.merge(&other.wakeup);
        self.run_delay.merge(&other.run_delay);
        self.open_wakeup.merge(&other.open_wakeup);
        self.open.merge(&other.open);
        self.unfinished += other.unfinished;
    }

    /// The longest wait; `None` without any. Of one that had not ended as much as was seen.
    #[must_use]
    pub fn longest(&self) -> Option<Nanos> {
        self.open.longest_with(&self.run_delay).map(Nanos)
    }
}

impl Row for Delays {
    const ABOUT: &'static str = "How long tasks waited.";

    fn columns() -> Vec<Column<Self>> {
        let woken = times(Need::WokenTime, Need::Woken, |row| (&row.wakeup, row.open_wakeup));
        let wakeup = |column: Column<Self>| column.below("wakeup", "wakeup latency");
        let mut columns: Vec<Column<Self>> = woken.into_iter().map(wakeup).collect();
        let all = times(Need::WaitTime, Need::Waits, |row| (&row.run_delay, row.open));
        columns.extend(all.into_iter().map(|column| column.below("run_delay", "run delay")));
        columns.extend(columns! { row: Self;
            "unfinished" = row.unfinished, "Waits that were not seen to end; maxima and sums hold as much of them as was seen.";
        });
        columns
    }
}

/// Waits that ended, and those that did not.
type Both = fn(&Delays) -> (&Histogram, Open);

/// The figures of waits: what their sum and what their distribution needs.
fn times(sum: Need, distribution: Need, of: Both) -> Vec<Column<Delays>> {
    let ended = move |column: Column<Histogram>| column.of(move |row: &Delays| of(row).0);
    let columns = columns! { row: Histogram;
        "count" ["count", 5] = row.count(), "How many waits ended.";
        "latency_ns_p50" ["p50", 6] = row.quantile(0.5).map(Nanos), "Half of them are not longer.";
        "latency_ns_p90" ["p90", 8] = row.quantile(0.9).map(Nanos), "90 % are not longer.";
        "latency_ns_p99" ["p99"] = row.quantile(0.99).map(Nanos), "99 % are not longer.";
        "latency_ns_p999" ["p99.9", 9] = row.quantile(0.999).map(Nanos), "99.9 % are not longer.";
    };
    let max =
        column("latency_ns_max", "The longest wait, open ones included.", move |row: &Delays| {
            let (ended, open) = of(row);
            open.longest_with(ended).map(Nanos)
        });
    let max = max.title("max").at_least(move |row| {
        let (ended, open) = of(row);
        open.longest_ns > ended.max().unwrap_or(0)
    });
    let all =
        column("latency_ns_sum", "All waits together, open ones included.", move |row: &Delays| {
            let (ended, open) = of(row);
            Nanos(open.sum_with(ended))
        });
    let all = all.title("sum").rank(4).at_least(move |row| of(row).1.sum_ns > 0);
    let sums = [max, all];
    let histogram = columns! { row: Histogram;
        "histogram.count" = row.count(), "How many waits.";
        "histogram.sum" = Nanos(row.sum()), "All waits together.";
        "histogram.min" = row.min().map(Nanos), "The shortest wait.";
        "histogram.max" = row.max().map(Nanos), "The longest wait.";
        "histogram.buckets" = row.buckets().map(|of| vec![of.low, of.count]).collect::<Vec<_>>(), "The smallest value of each bucket, and how many.";
    };
    let needs = |column: Column<Delays>| {
        let name = column.head().name.as_ref();
        let bound = [
            "count",
            "latency_ns_max",
            "latency_ns_sum",
            "histogram.count",
            "histogram.sum",
            "histogram.max",
        ];
        let need = if bound.contains(&name) { sum } else { distribution };
        column.needs(need)
    };
    let histogram = histogram.into_iter().map(Column::on_request);
    let columns = columns.into_iter().map(ended).chain(sums).chain(histogram.map(ended));
    columns.map(needs).collect()
}

/// A task, all tasks of a name, tasks that then ran on a CPU, or those of a control group.
#[derive(Clone, Debug)]
pub struct Waited<'a> {
    /// The task (thread).
    pub pid: Option<Pid>,
    /// The name of the task, or of all of them.
    pub comm: Option<&'a str>,
    /// The CPU, where each row is one.
    pub cpu: Option<Cpu>,
    /// Path and name of the control group.
    pub group: Option<(&'a str, String)>,
    /// How long they waited.
    pub delays: &'a Delays,
    /// By how much the sum differs from the kernel's counter, where that is told.
    pub off: Option<Nanos>,
}

impl Row for Waited<'_> {
    const ABOUT: &'static str = "How long tasks waited: one, all of a name, those that then ran on a CPU, those of a control group.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "pid" ["pid"] = row.pid, "The task (thread); none for a name or a CPU.";
            "comm" ["comm"] = row.comm.map(str::to_owned), "Its name at the end; none for a CPU.";
            "cpu" ["cpu"] = row.cpu, "The CPU, with `--by cpu`.";
        };
        columns.extend([
            column("group", "The path of the control group, with `--by cgroup`.", |row: &Self| {
                row.group.as_ref().map(|(path, _)| (*path).to_owned())
            }),
            column("group_name", "What people call it.", |row: &Self| {
                row.group.as_ref().map(|(_, name)| name.clone())
            })
            .title("group")
            .spelled(|row| {
                row.group.as_ref().map_or_else(|| "unknown".to_owned(), |it| it.1.clone())
            }),
        ]);
        columns
            .extend(Delays::columns().into_iter().map(|column| column.of(|row: &Self| row.delays)));
        columns
    }
}

/// The waits of one task.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LatencyRow {
    /// Whose delays these are.
    pub task: TaskId,
    /// The pid of the task.
    pub pid: Pid,
    /// The task's name at the end of the window.
    pub comm: String,
    /// The waits of the task.
    pub delays: Delays,
}

/// The waits of all tasks that waited.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LatencyAnswer {
    /// Longest single wait first; ties by pid.
    pub tasks: Vec<LatencyRow>,
    /// The waits of all tasks together.
    pub total: Delays,
}

impl LatencyAnswer {
    /// The waits of all tasks of a name together; longest single wait first, ties by name.
    #[must_use]
    pub fn by_comm(&self) -> Vec<(String, Delays)> {
        let mut sums = std::collections::BTreeMap::<&str, Delays>::new();
        for row in &self.tasks {
            sums.entry(&row.comm).or_default().merge(&row.delays);
        }
        let mut rows: Vec<_> = sums.into_iter().map(|(comm, sum)| (comm.to_owned(), sum)).collect();
        rows.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.longest()));
        rows
    }

    /// The answer about chosen tasks alone, with the total of those.
    #[must_use]
    pub fn only(mut self, chosen: &Chosen) -> Self {
        self.tasks.retain(|row| chosen.has(row.task));
        self.total = Delays::default();
        for row in &self.tasks {
            self.total.merge(&row.delays);
        }
        self
    }
}

impl Latency {
    /// A question that has seen no event.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    // Apart, so that `see` is small enough to be compiled into each place that tells a change: most are none of its
    // business and then cost nothing.
    #[inline(never)]
    fn add(&mut self, task: TaskId, wait_ns: u64, woken: bool) {
        let (Ok(wait_ns), Some(whose)) = (u32::try_from(wait_ns), task.0.checked_mul(2)) else {
            return self.add_strange(task, wait_ns, woken);
        };
        if self.pending.len() >= PENDING {
            self.flush();
        }
        self.pending.push(Pending { whose: whose + u32::from(woken), wait_ns });
    }

    /// A wait was not seen to end.
    #[cold]
    fn unfinished(&mut self, task: TaskId) {
        self.of(task).unfinished += 1;
    }

    /// A wait of more than four seconds.
    #[cold]
    fn add_strange(&mut self, task: TaskId, wait_ns: u64, woken: bool) {
        let waits = self.of(task);
        (if woken { &mut waits.woken } else { &mut waits.displaced }).record(wait_ns);
    }

    /// Records what is pending: a counting sort by task.
    #[inline(never)]
    fn flush(&mut self) {
        let Some(last) = self.pending.iter().map(|pending| pending.whose).max() else { return };
        self.of(TaskId(last / 2));
        let Self { tasks, pending, sorted_ns, places } = self;
        places.clear();
        places.resize(last as usize + 2, 0);
        for Pending { whose, .. } in &*pending {
            places[*whose as usize + 1] += 1;
        }
        let mut next = 0;
        for place in &mut *places {
            next += *place;
            *place = next;
        }
        sorted_ns.resize(pending.len(), 0);
        // Afterwards a place is where its waits end.
        for Pending { whose, wait_ns } in pending.drain(..) {
            let place = &mut places[whose as usize];
            sorted_ns[*place as usize] = wait_ns;
            *place += 1;
        }
        let mut rest = sorted_ns.as_slice();
        let mut from = 0;
        for (whose, end) in places.iter().enumerate().take(last as usize + 1) {
            let (waits_ns, behind) = rest.split_at((end - from) as usize);
            (rest, from) = (behind, *end);
            if !waits_ns.is_empty() {
                let waits = &mut tasks[whose / 2];
                let histogram =
                    if whose % 2 == 1 { &mut waits.woken } else { &mut waits.displaced };
                histogram.record_all(waits_ns.iter().map(|wait| u64::from(*wait)));
            }
        }
    }

    #[inline]
    fn of(&mut self, task: TaskId) -> &mut Waits {
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, Waits::default);
        }
        &mut self.tasks[task.index()]
    }
}

impl Question for Latency {
    type Answer = LatencyAnswer;
    const INLINED: bool = true;
    const QUEUES: bool = false;

    #[inline]
    fn see(&mut self, change: &Change, _: &State) {
        match *change {
            Change::Switch(Switch { at, is, wait: Some(wait), .. }) => {
                if let Some(task) = is.task() {
                    self.add(task, (at - wait.since).0, wait.why.is_wakeup());
                }
            }
            Change::Forgotten { task, was: Activity::Waiting { .. }, .. } => {
                self.unfinished(task);
            }
            _ => {}
        }
    }

    fn answer(mut self, state: &State) -> LatencyAnswer {
        self.flush();
        let end = state.window().end;
        for (id, task) in state.tasks() {
            if matches!(task.activity, Activity::Waiting { .. }) {
                self.of(id).record_open(task, end);
            }
        }
        let mut answer = LatencyAnswer::default();
        for (id, waits) in (0..).map(TaskId).zip(self.tasks) {
            let delays = waits.delays();
            if delays.run_delay.is_empty() && delays.unfinished == 0 {
                continue;
            }
            answer.total.merge(&delays);
            let pid = state.task(id).pid;
            answer.tasks.push(LatencyRow { task: id, pid, comm: state.name(id), delays });
        }
        answer.tasks.sort_by_key(|row| (std::cmp::Reverse(row.delays.longest()), row.pid));
        answer
    }
}

impl LatencyByCpu {
    /// A question that has seen no event.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits of these tasks only.
    #[must_use]
    pub fn about(self, chosen: Chosen) -> Self {
        Self { chosen, ..self }
    }
}

impl Question for LatencyByCpu {
    /// Each CPU's waits, by number; those that did not end belong to no CPU.
    type Answer = Vec<(Cpu, Delays)>;
    const QUEUES: bool = false;

    fn see(&mut self, change: &Change, _: &State) {
        if let Change::Switch(Switch { at, cpu, is, wait: Some(wait), .. }) = *change {
            if !is.task().is_some_and(|task| self.chosen.has(task)) {
                return;
            }
            if cpu.index() >= self.cpus.len() {
                self.cpus.resize_with(cpu.index() + 1, Waits::default);
            }
            self.cpus[cpu.index()].record(wait, at);
        }
    }

    fn answer(mut self, state: &State) -> Self::Answer {
        self.cpus.resize_with(state.cpus().len(), Waits::default);
        let waits =
            |(cpu, _): (Cpu, _)| (cpu, std::mem::take(&mut self.cpus[cpu.index()]).delays());
        state.observed_cpus().map(waits).collect()
    }
}

impl Totals for Latency {
    fn totals() -> Vec<Total> {
        let wakeup = Total::times(
            "wakeup_latency",
            "From the wakeup of a task to the first moment in which it runs.",
            Need::WokenTime,
            Need::Woken,
        );
        let all = Total::times(
            "run_delay",
            "Each stretch in which a task was runnable and did not run.",
            Need::WaitTime,
            Need::Waits,
        );
        [wakeup, all].concat()
    }

    fn question(_: &About<'_>) -> Self {
        Self::new()
    }

    fn values(answer: &LatencyAnswer, chosen: &Chosen) -> Vec<Option<f64>> {
        let mut some = Delays::default();
        let total = match chosen.is_all() {
            true => &answer.total,
            false => {
                let rows = answer.tasks.iter().filter(|row| chosen.has(row.task));
                rows.for_each(|row| some.merge(&row.delays));
                &some
            }
        };
        let wakeup = totals::times(&total.wakeup, total.open_wakeup);
        wakeup.chain(totals::times(&total.run_delay, total.open)).collect()
    }
}
