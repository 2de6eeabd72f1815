//! `schedlab replay --json`.

use super::predicted::{self, Predicted};
use super::runs::Runs;
use crate::json;
use schedlab_model::{Cpu, Nanos, Pid, Warning};
use schedlab_replay::{Account, Divergence, Inferred, Side, TaskSide, Timer, parting};
use schedlab_stats::Histogram;
use schedlab_workload::demand::Source;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// What `schedlab replay --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    /// How long the recording is.
    duration_ns: Nanos,
    /// Time before this is not judged.
    warm_up_ns: Nanos,
    /// What was assumed of the recorded machine.
    assumed: Vec<String>,
    /// What each task asks for.
    demand: Vec<Task>,
    /// CPU time that all tasks ask for.
    cpu_time_ns: Nanos,
    /// Objects that tasks share, of which both ends are known from recorded calls.
    objects: usize,
    /// Recorded calls that moved data.
    calls: u64,
    /// Calls among them whose object is not known: they are replayed as they were.
    calls_unknown: u64,
    /// The machines: the one that is like the recorded one, and the one that was asked for.
    machines: Vec<String>,
    recorded: Run,
    replayed: Run,
    /// What was asked for; absent if only fidelity was.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<Run>,
    /// What the changed machine will do; empty without a change.
    predicted: Vec<Predicted>,
    /// How well the replay repeats the recording.
    fidelity: Fidelity,
    /// Each task in the judged part.
    tasks: Vec<Row>,
    /// What limits the figures.
    warnings: Vec<Warning>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/replay/1";
}

#[derive(Serialize, JsonSchema)]
struct Task {
    pid: Pid,
    comm: String,
    cpu_time_ns: Nanos,
    /// Waits that another task ended.
    waits_by_task: u64,
    /// Those among them that were for data of an object with known ends.
    waits_on_objects: u64,
    /// Waits that an interrupt ended.
    waits_by_interrupt: u64,
    /// Waits whose end was not seen.
    waits_unseen: u64,
    /// Wakeups that found it awake.
    wakeups_not_asleep: u64,
    /// Whether it computes until the replay ends, as it did when the recording ended.
    is_endless: bool,
    /// The task that woke it most often.
    waker: Option<Pid>,
    /// `none`, `periodic`, `relative` or `unknown`.
    timer: &'static str,
    /// The period, or the length of its sleeps.
    timer_ns: Option<Nanos>,
    /// Whether recorded timers decided that, not the times of wakeups.
    timer_is_recorded: bool,
    /// How much later than asked the kernel may end its sleeps, in the median of its recorded timers.
    timer_slack_ns: Option<Nanos>,
    /// `open`: interrupts keep their times; `closed`: sleeps keep their lengths.
    source: &'static str,
}

/// A run in the judged part.
#[derive(Serialize, JsonSchema)]
struct Run {
    cpu_time_ns: Nanos,
    /// Times that a task was put on a CPU.
    switches: u64,
    run_delay: Delay,
    wakeup_latency: Delay,
    /// Times in which a task waited while a CPU was free.
    episodes: u64,
    /// CPU time lost in them.
    lost_cpu_ns: Nanos,
}

#[derive(Serialize, JsonSchema)]
struct Delay {
    count: u64,
    sum_ns: Nanos,
    p50_ns: Nanos,
    p90_ns: Nanos,
    p99_ns: Nanos,
    max_ns: Nanos,
}

/// Errors of the replay against the recording.
#[derive(Serialize, JsonSchema)]
pub(super) struct Fidelity {
    /// The median of the relative errors of tasks' CPU time, where each task weighs what it ran; 0.01 is 1 %.
    pub(super) cpu_time_error: f64,
    /// The same of the sum of run delays.
    pub(super) run_delay_error: f64,
    /// The relative error of the sum over all tasks.
    pub(super) run_delay_total_error: f64,
    /// Where the replay parts from the recording; absent if nowhere.
    parting: Option<At>,
    /// Where the changed run parts from the replay.
    change_parting: Option<At>,
}

#[derive(Serialize, JsonSchema)]
struct At {
    /// Since the recording began.
    at_ns: Nanos,
    cpu: Cpu,
    /// Who runs there before the change; `null`: nobody.
    first: Option<Pid>,
    second: Option<Pid>,
    /// Switches that agree before.
    agreed: u64,
}

/// One task in all runs.
#[derive(Serialize, JsonSchema)]
struct Row {
    pid: Pid,
    comm: String,
    cpu_time_ns: [Nanos; 2],
    run_delay_ns: [Nanos; 2],
    run_delay_p99_ns: [Nanos; 2],
    /// Absent for a task that computed until it ended: the recording fixes its demand.
    changed_cpu_time_ns: Option<Nanos>,
    changed_run_delay_ns: Option<Nanos>,
    changed_run_delay_p99_ns: Option<Nanos>,
}

pub(super) fn quantile(histogram: &Histogram, q: f64) -> Nanos {
    Nanos(histogram.quantile(q).unwrap_or(0))
}

impl Delay {
    fn of(histogram: &Histogram, sum: Nanos) -> Self {
        Self {
            count: histogram.count(),
            sum_ns: sum,
            p50_ns: quantile(histogram, 0.5),
            p90_ns: quantile(histogram, 0.9),
            p99_ns: quantile(histogram, 0.99),
            max_ns: Nanos(histogram.max().unwrap_or(0)),
        }
    }
}

impl Run {
    fn of(side: &Side) -> Self {
        let wakeup = &side.total.wakeup;
        Self {
            cpu_time_ns: side.ran,
            switches: side.switches,
            run_delay: Delay::of(&side.total.run_delay, side.waited),
            wakeup_latency: Delay::of(wakeup, Nanos(wakeup.sum())),
            episodes: side.lost.count,
            lost_cpu_ns: side.lost.total,
        }
    }
}

impl At {
    fn of(parting: Divergence) -> Self {
        let Divergence { at, cpu, first, second, agreed } = parting;
        Self { at_ns: at, cpu, first, second, agreed }
    }
}

pub(super) fn timer(timer: Timer) -> (&'static str, Option<Nanos>) {
    match timer {
        Timer::None => ("none", None),
        Timer::Periodic(period) => ("periodic", Some(period)),
        Timer::Relative(sleep) => ("relative", Some(sleep)),
        Timer::Unknown => ("unknown", None),
    }
}

pub(super) const fn source(source: Source) -> &'static str {
    match source {
        Source::Open => "open",
        Source::Closed => "closed",
    }
}

impl Task {
    fn of(account: &Account) -> Self {
        let (timer, timer_ns) = timer(account.timer);
        Self {
            pid: account.pid,
            comm: account.comm.clone(),
            cpu_time_ns: account.cpu_time,
            waits_by_task: account.by_task,
            waits_on_objects: account.on_objects,
            waits_by_interrupt: account.by_interrupt,
            waits_unseen: account.unseen,
            wakeups_not_asleep: account.not_asleep,
            is_endless: account.is_endless,
            waker: account.waker.map(|(pid, _)| pid),
            timer,
            timer_ns,
            timer_is_recorded: account.timer_is_recorded,
            timer_slack_ns: account.slack,
            source: source(account.source),
        }
    }
}

fn error(is: Nanos, was: Nanos) -> f64 {
    is.0.abs_diff(was.0) as f64 / was.0.max(1) as f64
}

/// Differences below this are no parting: timestamps of different clocks and roundings of files differ by less.
pub(super) const WITHIN: Nanos = Nanos(100);

impl Fidelity {
    pub(super) fn of(runs: &Runs) -> Self {
        let was = &runs.recorded;
        let is = &runs.replayed.side;
        let of = |figure: &dyn Fn(&TaskSide) -> Nanos| {
            let errors = was.tasks.iter().filter(|(_, task)| figure(task) > Nanos::ZERO);
            let error = |(key, task): (_, &TaskSide)| {
                (error(is.tasks.get(key).map_or(Nanos::ZERO, figure), figure(task)), task.ran)
            };
            weighted_median(errors.map(error).collect())
        };
        let changed = runs.changed.as_ref();
        Self {
            cpu_time_error: of(&|task| task.ran),
            run_delay_error: of(&|task| task.waited),
            run_delay_total_error: error(is.waited, was.waited),
            parting: parting(was, is, WITHIN).map(At::of),
            change_parting: changed.and_then(|run| parting(is, &run.side, WITHIN)).map(At::of),
        }
    }
}

/// The value up to which half of the weight lies; 0 without any. Hundreds of tasks that hardly ran hide nothing.
fn weighted_median(mut all: Vec<(f64, Nanos)>) -> f64 {
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = all.iter().map(|(_, weight)| weight.0).sum::<u64>() / 2;
    let mut below = 0;
    let upper = all.iter().find(|(_, weight)| {
        below += weight.0;
        below > half
    });
    upper.or(all.last()).map_or(0.0, |(value, _)| *value)
}

/// Tasks whose CPU time no replay offers: they computed until they ended, so the recording decides it.
pub(super) fn fixed(inferred: &Inferred) -> BTreeSet<Pid> {
    let fixed = inferred.accounts.iter().filter(|account| account.is_fixed);
    fixed.map(|account| account.pid).collect()
}

impl Document {
    pub(super) fn of(inferred: &Inferred, runs: &Runs) -> Self {
        let none = TaskSide::default();
        let fixed = fixed(inferred);
        let row = |(key, was): (&(String, Pid), &TaskSide)| {
            let is = runs.replayed.side.tasks.get(key).unwrap_or(&none);
            let changed = runs.changed.as_ref().map(|run| run.side.tasks.get(key).unwrap_or(&none));
            let p99 = |task: &TaskSide| quantile(&task.delays.run_delay, 0.99);
            Row {
                pid: key.1,
                comm: was.comm.clone(),
                cpu_time_ns: [was.ran, is.ran],
                run_delay_ns: [was.waited, is.waited],
                run_delay_p99_ns: [p99(was), p99(is)],
                changed_cpu_time_ns: changed
                    .filter(|_| !fixed.contains(&key.1))
                    .map(|task| task.ran),
                changed_run_delay_ns: changed.map(|task| task.waited),
                changed_run_delay_p99_ns: changed.map(p99),
            }
        };
        let changed = runs.changed.as_ref();
        let machines = std::iter::once(&runs.replayed).chain(changed);
        Self {
            duration_ns: inferred.demand.length,
            warm_up_ns: runs.cut.from.unwrap_or_default(),
            assumed: runs.assumed.clone(),
            demand: inferred.accounts.iter().map(Task::of).collect(),
            cpu_time_ns: inferred.totals.cpu_time,
            objects: inferred.demand.objects.len(),
            calls: inferred.totals.calls,
            calls_unknown: inferred.totals.calls_unknown,
            machines: machines.map(|run| run.machine.to_string()).collect(),
            recorded: Run::of(&runs.recorded),
            replayed: Run::of(&runs.replayed.side),
            changed: changed.map(|run| Run::of(&run.side)),
            predicted: predicted::of(runs),
            fidelity: Fidelity::of(runs),
            tasks: runs.recorded.tasks.iter().map(row).collect(),
            warnings: inferred.warnings.clone(),
        }
    }
}
