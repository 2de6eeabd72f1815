//! `schedlab trace tasks`: what each task did with its time.

use super::input::{self, Head, Input, Machine, Named, Selection};
use super::migrations::Distances;
use super::table::{DISTANCES, Table, percent, time};
use crate::json;
use schedlab_model::{Nanos, Pid};
use schedlab_timeline::{OffCpu, Reply, State, TaskRow, Tasks, TasksAnswer};
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// Options of `schedlab trace tasks`.
#[derive(clap::Args)]
#[command(after_help = "\
A slice is an interval in which a task runs. A switch is voluntary when the task left its CPU to
sleep, stop or die. It is involuntary when the task stayed runnable (a yield included), as the
kernel counts.

Off CPU is time asleep (S, I), uninterruptible (D) and stopped (T, t). \"Ended most by\" names the
waker that ended most of it. A waker is evidence, not proof. Time before the first event of a task
is in no column.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    machine: Machine,
    /// Rows to print, longest run time first; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 40)]
    top: usize,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut topology = args.machine.topology()?;
    let mut reply = args.input.ask(|info| {
        topology = topology.take().or_else(|| info.topology.clone());
        Tasks::by_distance(topology.clone())
    })?;
    if args.selection.is_any() {
        args.selection.check(&reply.state, &args.input.file)?;
        reply.answer = reply.answer.only(|pid, comm| args.selection.keeps(pid, comm));
    }
    if args.input.part.json {
        let row = |row| TaskFigures::of(row, &reply.state);
        let tasks = reply.answer.rows.iter().map(row).collect();
        json::print(&Document { head: Head::of(&reply), tasks })?;
    } else {
        input::print_text(&to_text(&reply, args.top, topology.is_some()))?;
        input::print_notes(&reply.warnings);
    }
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

/// What a task did with its time.
#[derive(Serialize, JsonSchema)]
struct TaskFigures {
    pid: Pid,
    comm: String,
    run_ns: Nanos,
    wait_ns: Nanos,
    /// In an interruptible sleep, an idle kernel thread's, or parked.
    sleep_ns: Nanos,
    /// In an uninterruptible sleep (`D`).
    uninterruptible_ns: Nanos,
    /// Stopped by a signal or a tracer.
    stopped_ns: Nanos,
    /// Who ended its sleeps by a wakeup, the longest sum first; at most 10.
    woken_by: Vec<Woken>,
    /// How often it ran without a break.
    slices: u64,
    slice_ns_p50: Option<u64>,
    slice_ns_p99: Option<u64>,
    slice_ns_max: Option<u64>,
    switches_voluntary: u64,
    switches_involuntary: u64,
    wakeups: u64,
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
    fn of(row: &TaskRow, state: &State) -> Self {
        let wakers = row.woken_by.iter().take(WAKERS_MAX);
        Self {
            pid: row.pid,
            comm: row.comm.clone(),
            run_ns: row.ran,
            wait_ns: row.waited,
            sleep_ns: row.asleep.sleeping,
            uninterruptible_ns: row.asleep.uninterruptible,
            stopped_ns: row.asleep.stopped,
            woken_by: wakers.map(|of| Woken::of(of, state)).collect(),
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

fn to_text(reply: &Reply<TasksAnswer>, top: usize, has_topology: bool) -> String {
    let mut heads = vec![
        "pid",
        "<comm",
        "run",
        "7?of a CPU",
        "wait",
        "8?off CPU: asleep",
        "7?off CPU: D",
        "1?off CPU: stopped",
        "<0?off CPU: ended most by",
        "3?slices: count",
        "1?slices: p50",
        "2?slices: p99",
        "4?slices: max",
        "6?switches: voluntary",
        "switches: involuntary",
        "5?wakeups",
        "migrations: all",
    ];
    heads.extend(DISTANCES.iter().filter(|_| has_topology));
    let mut table = Table::new(&heads);
    let window = reply.observed.duration();
    for row in &reply.answer.rows {
        let share = (window > Nanos::ZERO).then(|| row.ran.0 as f64 / window.0 as f64);
        let mut cells = vec![
            row.pid.to_string(),
            row.comm.clone(),
            row.ran.to_string(),
            percent(share),
            row.waited.to_string(),
            row.asleep.sleeping.to_string(),
            row.asleep.uninterruptible.to_string(),
            row.asleep.stopped.to_string(),
            most(row, &reply.state),
            row.slices.count().to_string(),
            time(row.slices.quantile(0.5)),
            time(row.slices.quantile(0.99)),
            time(row.slices.max()),
            row.voluntary.to_string(),
            row.involuntary.to_string(),
            row.wakeups.to_string(),
            row.migrations.to_string(),
        ];
        let far = row.migrations_by.iter().skip(1).filter(|_| has_topology);
        cells.extend(far.map(ToString::to_string));
        table.row(cells);
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
