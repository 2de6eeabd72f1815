//! `schedlab trace power`: frequencies and idle states of CPUs, work of tasks.

use super::columns::{self, Rows, Shown, shown};
use super::input::{self, Head, Input, Named};
use super::table::Table;
use crate::json;
use schedlab_model::{Cpu, Nanos, Warning};
use schedlab_timeline::{CpuPower, Power, PowerAnswer, Reply, State, TaskPower};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Options of `schedlab trace power`.
#[derive(clap::Args)]
#[command(after_help = "\
`schedlab record` records the events: cpu_frequency, cpu_idle, IPIs and hrtimers.
Work is run time x frequency. The frequency is the one that the kernel set. The hardware may run at
another one. A CPU's frequency is unknown before its first event.
An idle exit is the part of a wakeup in which the CPU still left its idle state: from sched_waking
to the end of that state.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Print at most N rows, most work first; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Pictures want the steps; here only sums are reported.
    let mut reply = args.input.ask(|_| Power::new(0))?;
    let cpus = &reply.answer.cpus;
    let none = |of: fn(&CpuPower) -> bool| cpus.iter().all(of);
    if none(|cpu| cpu.changes.is_none() && cpu.idle.is_none() && cpu.ipis.is_none()) {
        let what = "frequencies, idle states and IPIs are unknown: the trace holds no such events";
        let remedy = "record with --for power";
        reply.warnings.push(Warning::new("no-power-events", what, remedy));
    } else if none(|cpu| cpu.busy_hz.is_none()) {
        let what = "frequencies and work are unknown: the trace holds no cpu_frequency events";
        reply.warnings.push(Warning::new(
            "no-frequencies",
            what,
            "virtual machines seldom have them",
        ));
    }
    let document = Document::of(&reply);
    columns::print(&args.input.part, &reply.warnings, &document, |document| {
        to_text(document, &reply, args.top)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab trace power --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    #[serde(flatten)]
    head: Head,
    /// Each CPU that was observed.
    cpus: Vec<Row>,
    /// Tasks that ran at a known frequency, most work first.
    tasks: Vec<Worked>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/trace-power/1";
}

impl columns::Answer for Document {
    type Row = Row;

    fn rows(&self) -> Vec<&Row> {
        self.cpus.iter().collect()
    }
}

/// What a CPU did. `null` is what the trace does not hold.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Row {
    /// The CPU.
    cpu: Cpu,
    /// The mean frequency while a task ran, in hertz.
    busy_hz_mean: Option<f64>,
    /// The lowest frequency, in hertz.
    hz_min: Option<u64>,
    /// The highest frequency, in hertz.
    hz_max: Option<u64>,
    /// Changes of frequency.
    frequency_changes: Option<u64>,
    /// Time in which a task ran at a known frequency.
    busy_known_ns: Nanos,
    /// Its idle states by number: how often entered, and for how long.
    idle_states: Option<Vec<Residency>>,
    /// Wakeups whose task waited for this CPU to leave an idle state.
    idle_exits: u64,
    /// How long these tasks waited for that, together.
    idle_exit_ns_sum: Nanos,
    /// The longest of these waits.
    idle_exit_ns_max: Nanos,
    /// IPIs that it handled.
    ipis: Option<u64>,
    /// Time in these.
    ipi_ns: Option<Nanos>,
    /// High-resolution timers that expired on it.
    hrtimers: Option<u64>,
    /// Time in these.
    hrtimer_ns: Option<Nanos>,
}

#[derive(Serialize, JsonSchema)]
struct Residency {
    /// Its number.
    state: u64,
    /// How often the CPU entered it.
    entered: u64,
    /// How long the CPU was in it.
    time_ns: Nanos,
}

/// A task's work.
#[derive(Serialize, JsonSchema)]
struct Worked {
    #[serde(flatten)]
    task: Named,
    /// Time in which it ran at a known frequency.
    run_known_ns: Nanos,
    /// Run time x frequency.
    cycles: f64,
    /// The mean frequency, in hertz.
    hz_mean: f64,
}

impl Row {
    fn of(cpu: &CpuPower) -> Self {
        let states = |all: &Vec<schedlab_timeline::IdleState>| {
            let one = |of: &schedlab_timeline::IdleState| Residency {
                state: of.state,
                entered: of.entered,
                time_ns: of.time,
            };
            all.iter().map(one).collect()
        };
        Self {
            cpu: cpu.cpu,
            busy_hz_mean: cpu.busy_hz,
            hz_min: cpu.range_hz.map(|range| range.0),
            hz_max: cpu.range_hz.map(|range| range.1),
            frequency_changes: cpu.changes,
            busy_known_ns: cpu.known,
            idle_states: cpu.idle.as_ref().map(states),
            idle_exits: cpu.exits,
            idle_exit_ns_sum: cpu.exit_time,
            idle_exit_ns_max: cpu.exit_max,
            ipis: cpu.ipis.map(|all| all.0),
            ipi_ns: cpu.ipis.map(|all| all.1),
            hrtimers: cpu.timers.map(|all| all.0),
            hrtimer_ns: cpu.timers.map(|all| all.1),
        }
    }
}

impl Worked {
    fn of(task: &TaskPower, state: &State) -> Self {
        let TaskPower { task, known, cycles, mean_hz } = *task;
        Self { task: Named::of(task, state), run_known_ns: known, cycles, hz_mean: mean_hz }
    }
}

impl Document {
    fn of(reply: &Reply<PowerAnswer>) -> Self {
        let answer = &reply.answer;
        let worked = |task| Worked::of(task, &reply.state);
        Self {
            head: Head::of(reply),
            cpus: answer.cpus.iter().map(Row::of).collect(),
            tasks: answer.tasks.iter().map(worked).collect(),
        }
    }
}

static SHOWN: [Shown; 10] = [
    shown("cpu", "cpu"),
    shown("frequency: mean busy", "busy_hz_mean"),
    shown("2?frequency: range", "range"),
    shown("3?frequency: changes", "frequency_changes"),
    shown("<idle states: time (entered)", "idle_states"),
    shown("idle exits: wakeups", "idle_exits"),
    shown("1?idle exits: mean", "idle_exit_mean"),
    shown("idle exits: longest", "idle_exit_ns_max"),
    shown("4?IPIs", "ipis"),
    shown("5?hrtimers", "hrtimers"),
];

fn gigahertz(hz: f64) -> String {
    format!("{:.3} GHz", hz / 1e9)
}

fn to_text(document: &Document, reply: &Reply<PowerAnswer>, top: usize) -> String {
    let mut table = Rows::new(&SHOWN);
    let dash = || "-".to_owned();
    for row in &document.cpus {
        let of =
            |state: &Residency| format!("{}: {} ({})", state.state, state.time_ns, state.entered);
        let states =
            row.idle_states.as_ref().map(|all| all.iter().map(of).collect::<Vec<_>>().join(", "));
        let range = row
            .hz_min
            .zip(row.hz_max)
            .map(|(low, high)| format!("{:.3} to {}", low as f64 / 1e9, gigahertz(high as f64)));
        let mean = row.idle_exit_ns_sum.0.checked_div(row.idle_exits);
        let cells = [
            ("busy_hz_mean", row.busy_hz_mean.map_or_else(dash, gigahertz)),
            ("range", range.unwrap_or_else(dash)),
            ("idle_states", states.filter(|text| !text.is_empty()).unwrap_or_else(dash)),
            ("idle_exit_mean", mean.map_or_else(dash, |mean| Nanos(mean).to_string())),
        ];
        table.row(row, &cells);
    }
    let mut text = format!("{}\n\n{}", input::looked_at(reply), table.text(0));
    if document.tasks.is_empty() {
        return text;
    }
    let mut tasks = Table::new(&["pid", "<comm", "run", "work", "mean frequency"]);
    for (of, task) in document.tasks.iter().zip(&reply.answer.tasks) {
        let (pid, comm) = (reply.state.task(task.task).pid, reply.state.name(task.task));
        let work = format!("{:.3} Gcycles", of.cycles / 1e9);
        let cells =
            [pid.to_string(), comm, of.run_known_ns.to_string(), work, gigahertz(of.hz_mean)];
        tasks.row(cells.to_vec());
    }
    let _ = write!(text, "\nwork, as far as the frequency is known\n\n{}", tasks.text(top));
    text
}
