//! `schedlab trace tasks`: what each task did with its time.

use super::blocked::InStack;
use super::columns::{self, Rows, Shown, shown};
use super::input::{self, Head, Input, Machine, Named, Selection};
use super::migrations::Distances;
use super::table::{DISTANCES, percent};
use crate::json;
use schedlab_model::{Nanos, Pid};
use schedlab_timeline::{OffCpu, Reply, Stacks, State, TaskRow, Tasks, TasksAnswer};
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// Options of `schedlab trace tasks`.
#[derive(clap::Args)]
#[command(after_help = "\
A slice is an interval in which a task runs. A switch is voluntary when the task left its CPU to
sleep, stop or die. It is involuntary when the task stayed runnable (a yield included), as the
kernel counts.

Run time holds interrupts too, as perf's does. The column \"in interrupts\" is their part
of it, if the trace holds irq_handler, softirq or irq_vectors events (`schedlab record -e irq`).

Off CPU is time asleep (S, I), uninterruptible (D) and stopped (T, t). \"Ended most by\" names the
waker that ended most of it. A waker is evidence, not proof. \"Most in\" names the kernel function in
which the task blocked longest, if the trace holds stacks (`schedlab record --stacks`). Time before
the first event of a task is in no column.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    machine: Machine,
    /// Print a row for each of these
    #[arg(long, value_enum, default_value_t = By::Task)]
    by: By,
    /// Print at most N rows, longest run time first; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 40)]
    top: usize,
}

/// What a row stands for.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// A thread
    Task,
    /// The control group, with run delay, lost CPU time and throttling (`record --cgroup`)
    Cgroup,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.by == By::Cgroup {
        return super::groups::run(&args.input, &args.selection, args.top);
    }
    let mut topology = args.machine.topology()?;
    let mut reply = args.input.ask_with_stacks(|info| {
        topology = topology.take().or_else(|| info.topology.clone());
        Tasks::by_distance(topology.clone())
    })?;
    if args.selection.is_any() {
        args.selection.check(&reply.state, &args.input.file)?;
        reply.answer = reply.answer.only(|pid, comm| args.selection.keeps(pid, comm));
    }
    let row = |row| TaskFigures::of(row, &reply);
    let tasks = reply.answer.rows.iter().map(row).collect();
    let document = Document { head: Head::of(&reply), tasks };
    columns::print(&args.input.part, &reply.warnings, &document, |document| {
        to_text(document, &reply, args.top, topology.is_some())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab trace tasks --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    #[serde(flatten)]
    head: Head,
    /// Each chosen task, longest run time first.
    tasks: Vec<TaskFigures>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/trace-tasks/1";
}

impl columns::Answer for Document {
    type Row = TaskFigures;

    fn rows(&self) -> Vec<&TaskFigures> {
        self.tasks.iter().collect()
    }
}

/// What a task did with its time.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TaskFigures {
    /// The task (thread).
    pid: Pid,
    /// Its name at the end.
    comm: String,
    /// Time in which it ran, interrupts on its CPU included, as perf counts.
    run_ns: Nanos,
    /// The same as a part of the window.
    run_share: Option<f64>,
    /// How much of its run time interrupts took; `null` where the trace holds no interrupts.
    interrupts_ns: Option<Nanos>,
    /// Time in which it was runnable and did not run.
    wait_ns: Nanos,
    /// In an interruptible sleep, an idle kernel thread's, or parked.
    sleep_ns: Nanos,
    /// In an uninterruptible sleep (`D`).
    uninterruptible_ns: Nanos,
    /// Stopped by a signal or a tracer.
    stopped_ns: Nanos,
    /// Who ended its sleeps by a wakeup, the longest sum first; at most 10.
    woken_by: Vec<Woken>,
    /// Where in the kernel it blocked, the longest sum first; at most 10, and empty where the trace holds no stacks.
    blocked_in: Vec<InStack>,
    /// How often it ran without a break.
    slices: u64,
    /// Half of its slices are not longer.
    slice_ns_p50: Option<u64>,
    /// 99 % of its slices are not longer.
    slice_ns_p99: Option<u64>,
    /// Its longest slice.
    slice_ns_max: Option<u64>,
    /// Switches after which it blocked.
    switches_voluntary: u64,
    /// Switches after which it stayed runnable.
    switches_involuntary: u64,
    /// Wakeups of it.
    wakeups: u64,
    /// Moves to another CPU.
    migrations: u64,
    /// Migrations by what both CPUs share; all 0 if the topology is not known.
    migrations_by_distance: Distances,
}

/// Sleeps that one waker ended. A waker is evidence, not proof.
#[derive(Serialize, JsonSchema)]
struct Woken {
    /// The waker; `null` for interrupts, and for wakers that are not known.
    by: Option<Named>,
    count: u64,
    off_cpu_ns: Nanos,
}

impl Woken {
    fn of(of: &OffCpu, state: &State) -> Self {
        let by = of.waker.map(|waker| Named::of(waker, state));
        Self { by, count: of.count, off_cpu_ns: of.time }
    }
}

/// Wakers that are named for each task.
const WAKERS_MAX: usize = 10;

impl TaskFigures {
    fn of(row: &TaskRow, reply: &Reply<TasksAnswer>) -> Self {
        let state = &reply.state;
        let wakers = row.woken_by.iter().take(WAKERS_MAX);
        let window = reply.observed.duration();
        Self {
            pid: row.pid,
            comm: row.comm.clone(),
            run_ns: row.ran,
            run_share: (window > Nanos::ZERO).then(|| row.ran.0 as f64 / window.0 as f64),
            interrupts_ns: row.interrupts,
            wait_ns: row.waited,
            sleep_ns: row.asleep.sleeping,
            uninterruptible_ns: row.asleep.uninterruptible,
            stopped_ns: row.asleep.stopped,
            woken_by: wakers.map(|of| Woken::of(of, state)).collect(),
            blocked_in: InStack::all(&row.blocked, &reply.answer.stacks),
            slices: row.slices.count(),
            slice_ns_p50: row.slices.quantile(0.5),
            slice_ns_p99: row.slices.quantile(0.99),
            slice_ns_max: row.slices.max(),
            switches_voluntary: row.voluntary,
            switches_involuntary: row.involuntary,
            wakeups: row.wakeups,
            migrations: row.migrations,
            migrations_by_distance: Distances::of(row.migrations_by),
        }
    }
}

/// Who ended most of a task's time off the CPU, and its share.
fn most(row: &TaskRow, state: &State) -> String {
    let all: u64 = row.woken_by.iter().map(|of| of.time.0).sum();
    let Some(first) = row.woken_by.first().filter(|_| all > 0) else { return "-".to_owned() };
    let share = percent(Some(first.time.0 as f64 / all as f64));
    match first.waker {
        Some(waker) => format!("{} ({}) {share}", state.name(waker), state.task(waker).pid),
        None => format!("interrupts {share}"),
    }
}

/// The function in which a task blocked longest, and its share.
fn most_in(row: &TaskRow, stacks: &Stacks) -> String {
    let all: u64 = row.blocked.iter().map(|of| of.time.0).sum();
    let first = row.blocked.first().filter(|_| all > 0);
    let Some((first, stack)) = first.and_then(|first| Some((first, first.stack?))) else {
        return "-".to_owned();
    };
    let function = stacks.text(stack).split("<-").next().unwrap_or_default();
    format!("{function} {}", percent(Some(first.time.0 as f64 / all as f64)))
}

static SHOWN: [Shown; 19] = [
    shown("pid", "pid"),
    shown("<comm", "comm"),
    shown("run", "run_ns"),
    shown("7?of a CPU", "run_share"),
    shown("9?in interrupts", "interrupts_ns"),
    shown("wait", "wait_ns"),
    shown("8?off CPU: asleep", "sleep_ns"),
    shown("7?off CPU: D", "uninterruptible_ns"),
    shown("1?off CPU: stopped", "stopped_ns"),
    shown("<0?off CPU: ended most by", "woken_by"),
    shown("<0?off CPU: most in", "blocked_in"),
    shown("3?slices: count", "slices"),
    shown("1?slices: p50", "slice_ns_p50"),
    shown("2?slices: p99", "slice_ns_p99"),
    shown("4?slices: max", "slice_ns_max"),
    shown("6?switches: voluntary", "switches_voluntary"),
    shown("switches: involuntary", "switches_involuntary"),
    shown("5?wakeups", "wakeups"),
    shown("migrations: all", "migrations"),
];

/// By distance, where the topology is known.
static SHOWN_FAR: [Shown; 5] = [
    shown(DISTANCES[0], "migrations_by_distance.same_core"),
    shown(DISTANCES[1], "migrations_by_distance.same_LLC"),
    shown(DISTANCES[2], "migrations_by_distance.same_node"),
    shown(DISTANCES[3], "migrations_by_distance.same_socket"),
    shown(DISTANCES[4], "migrations_by_distance.other_socket"),
];

fn to_text(
    document: &Document,
    reply: &Reply<TasksAnswer>,
    top: usize,
    has_topology: bool,
) -> String {
    let has_stacks = document.tasks.iter().any(|task| !task.blocked_in.is_empty());
    let shown = SHOWN.iter().filter(|shown| has_stacks || !shown.is("blocked_in"));
    let mut table = Rows::new(shown.chain(SHOWN_FAR.iter().filter(|_| has_topology)));
    for (figures, row) in document.tasks.iter().zip(&reply.answer.rows) {
        let blocked = most_in(row, &reply.answer.stacks);
        table.row(figures, &[("woken_by", most(row, &reply.state)), ("blocked_in", blocked)]);
    }
    let sum = |of: fn(&TaskRow) -> u64| reply.answer.rows.iter().map(of).sum::<u64>();
    format!(
        "{} tasks in {}: {} switches voluntary, {} involuntary, {} migrations\n\n{}",
        reply.answer.rows.len(),
        input::looked_at(reply),
        sum(|row| row.voluntary),
        sum(|row| row.involuntary),
        sum(|row| row.migrations),
        table.text(top)
    )
}
