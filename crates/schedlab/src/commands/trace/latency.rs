//! `schedlab trace latency`: how long tasks waited for a CPU.

use super::columns::{self, Rows, Shown, shown};
use super::input::{self, Head, Input, Named, Selection};
use super::ran_instead;
use super::table::Table;
use crate::json;
use schedlab_model::{Context, Cpu, Nanos, Pid};
use schedlab_stats::Histogram;
use schedlab_timeline::{
    Delays, Instead, Latency, LatencyAnswer, LatencyByCpu, Meanwhile, Reply, TaskId, Why, Worst,
    WorstWait,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Options of `schedlab trace latency`.
#[derive(clap::Args)]
#[command(after_help = "\
Wakeup latency: from sched_waking until the task runs (from sched_wakeup if that is missing).
Run delay: all time in which a task was runnable and did not run, after wakeups and preemption.
Percentiles are within 0.4 %; maxima and sums are exact.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    selection: Selection,
    /// Print a row for each of these
    #[arg(long, value_enum, default_value_t = By::Task)]
    by: By,
    /// Print the histograms of all chosen tasks too
    #[arg(long)]
    histogram: bool,
    /// Print the N longest waits: when, where, and which tasks ran instead
    #[arg(long, value_name = "N", default_value_t = 0)]
    worst: usize,
    /// Print at most N rows, longest wait first; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 40)]
    top: usize,
}

/// What a row stands for.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// A thread
    Task,
    /// All threads with the same name
    Comm,
    /// The CPU on which the task ran after the wait
    Cpu,
    /// The control group, with CPU time, lost CPU time and throttling (`record --cgroup`)
    Cgroup,
}

/// All that is asked in one pass.
struct Answer {
    latency: LatencyAnswer,
    cpus: Option<Vec<(Cpu, Delays)>>,
    worst: Vec<(WorstWait, Meanwhile)>,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.by == By::Cgroup {
        return super::groups::run(&args.input, &args.selection, args.top);
    }
    let mut reply = answer(args)?;
    if args.selection.is_any() {
        args.selection.check(&reply.state, &args.input.file)?;
        let latency = std::mem::take(&mut reply.answer.latency);
        reply.answer.latency = latency.only(|pid, comm| args.selection.keeps(pid, comm));
    }
    let document = Document::of(&reply, args);
    columns::print(&args.input.part, &reply.warnings, &document, |document| {
        to_text(document, &reply, args)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// One pass over the trace; the table alone is worth a loop of its own with each reader.
fn answer(args: &Args) -> anyhow::Result<Reply<Answer>> {
    let by_cpu = (args.by == By::Cpu).then(LatencyByCpu::new);
    let worst = (args.worst > 0).then(|| Worst::new(args.worst));
    if by_cpu.is_none() && worst.is_none() {
        let reply = args.input.ask_straight(Latency::new())?;
        return Ok(reply.map(|latency| Answer { latency, cpus: None, worst: Vec::new() }));
    }
    let chosen = args.input.chosen(&args.selection)?;
    let by_cpu = by_cpu.map(|question| question.about(chosen.clone()));
    let worst = worst.map(|question| question.about(chosen));
    let reply = args.input.ask(|_| (Latency::new(), by_cpu, worst))?;
    let waits = reply.answer.2.as_deref().unwrap_or_default();
    let meanwhile = match waits.is_empty() {
        true => Vec::new(),
        false => args.input.ask(|_| Instead::of(waits))?.answer,
    };
    Ok(reply.map(|(latency, cpus, worst)| {
        let worst = worst.unwrap_or_default().into_iter().zip(meanwhile).collect();
        Answer { latency, cpus, worst }
    }))
}

/// `schedlab trace latency --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    #[serde(flatten)]
    head: Head,
    /// Each chosen task, longest wait first.
    tasks: Vec<Row>,
    /// All chosen tasks together.
    total: DelayFigures,
    /// All tasks of a name together, with `--by comm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    comms: Option<Vec<Row>>,
    /// By the CPU on which tasks ran after the wait, with `--by cpu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpus: Option<Vec<Row>>,
    /// The longest single waits, with `--worst`.
    #[serde(skip_serializing_if = "Option::is_none")]
    worst: Option<Vec<LongWait>>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/trace-latency/1";
}

impl columns::Answer for Document {
    type Row = Row;

    fn rows(&self) -> Vec<&Row> {
        let (comms, cpus) = (self.comms.as_deref(), self.cpus.as_deref());
        comms.or(cpus).unwrap_or(&self.tasks).iter().collect()
    }
}

/// How long a task, all tasks of a name, or tasks that then ran on a CPU waited.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Row {
    /// The task (thread); none for a name or a CPU.
    pid: Option<Pid>,
    /// Its name at the end; none for a CPU.
    comm: Option<String>,
    /// The CPU, with `--by cpu`.
    cpu: Option<Cpu>,
    #[serde(flatten)]
    delays: DelayFigures,
}

/// How long tasks waited.
#[derive(Serialize, JsonSchema)]
struct DelayFigures {
    /// Wakeup latency: from the waking until the task ran.
    wakeup: HistogramFigures,
    /// Run delay: each time that a task was runnable and did not run.
    run_delay: HistogramFigures,
    /// Waits that were not seen to end; no other column includes them.
    unfinished: u64,
}

/// Figures of a histogram; `null` where there is none.
#[derive(Serialize, JsonSchema)]
struct HistogramFigures {
    /// How many waits.
    count: u64,
    /// Half of them are not longer.
    latency_ns_p50: Option<u64>,
    /// 90 % are not longer.
    latency_ns_p90: Option<u64>,
    /// 99 % are not longer.
    latency_ns_p99: Option<u64>,
    /// 99.9 % are not longer.
    latency_ns_p999: Option<u64>,
    /// The longest wait.
    latency_ns_max: Option<u64>,
    /// All waits together.
    latency_ns_sum: u64,
    /// With `--histogram`.
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<Histogram>,
}

/// A single long wait.
#[derive(Serialize, JsonSchema)]
struct LongWait {
    #[serde(flatten)]
    task: Named,
    start_ns: Nanos,
    end_ns: Nanos,
    /// The CPU on which the task ran after the wait.
    cpu: Cpu,
    /// Why the task was runnable: `woken`, `new`, `preempted` or `yielded`.
    why: &'static str,
    /// Who woke it; `null` for an interrupt.
    waker_pid: Option<Pid>,
    #[serde(flatten)]
    meanwhile: ran_instead::Told,
}

impl DelayFigures {
    fn of(delays: &Delays, with_histogram: bool) -> Self {
        let figures = |histogram: &Histogram| HistogramFigures {
            count: histogram.count(),
            latency_ns_p50: histogram.quantile(0.5),
            latency_ns_p90: histogram.quantile(0.9),
            latency_ns_p99: histogram.quantile(0.99),
            latency_ns_p999: histogram.quantile(0.999),
            latency_ns_max: histogram.max(),
            latency_ns_sum: histogram.sum(),
            histogram: with_histogram.then(|| histogram.clone()),
        };
        Self {
            wakeup: figures(&delays.wakeup),
            run_delay: figures(&delays.run_delay),
            unfinished: delays.unfinished,
        }
    }
}

impl Document {
    fn of(reply: &Reply<Answer>, args: &Args) -> Self {
        let Answer { latency, cpus, worst } = &reply.answer;
        let figures = |delays: &Delays| DelayFigures::of(delays, args.histogram);
        let row =
            |delays: &Delays| Row { pid: None, comm: None, cpu: None, delays: figures(delays) };
        let tasks = latency.tasks.iter().map(|task| Row {
            pid: Some(task.pid),
            comm: Some(task.comm.clone()),
            ..row(&task.delays)
        });
        let comms = || {
            let all = latency.by_comm().into_iter();
            all.map(|(comm, delays)| Row { comm: Some(comm), ..row(&delays) }).collect()
        };
        let cpus = cpus.as_ref().map(|cpus| {
            cpus.iter().map(|(cpu, delays)| Row { cpu: Some(*cpu), ..row(delays) }).collect()
        });
        let worst = || worst.iter().map(|(wait, other)| LongWait::of(wait, other, reply)).collect();
        Self {
            head: Head::of(reply),
            tasks: tasks.collect(),
            total: figures(&latency.total),
            comms: (args.by == By::Comm).then(comms),
            cpus,
            worst: (args.worst > 0).then(worst),
        }
    }
}

impl LongWait {
    fn of(wait: &WorstWait, meanwhile: &Meanwhile, reply: &Reply<Answer>) -> Self {
        let state = &reply.state;
        Self {
            task: Named::of(wait.task, state),
            start_ns: wait.since - reply.origin,
            end_ns: wait.at - reply.origin,
            cpu: wait.cpu,
            why: match wait.why {
                Why::Woken => "woken",
                Why::New => "new",
                Why::Preempted => "preempted",
                Why::Yielded => "yielded",
            },
            waker_pid: wait.waker.is_some().then(|| state.task(wait.waker).pid),
            meanwhile: ran_instead::Told::of(meanwhile, state),
        }
    }
}

static SHOWN: [Shown; 12] = [
    shown("6?wakeup latency: wakeups", "wakeup.count"),
    shown("5?wakeup latency: p50", "wakeup.latency_ns_p50"),
    shown("3?wakeup latency: p90", "wakeup.latency_ns_p90"),
    shown("wakeup latency: p99", "wakeup.latency_ns_p99"),
    shown("1?wakeup latency: p99.9", "wakeup.latency_ns_p999"),
    shown("wakeup latency: max", "wakeup.latency_ns_max"),
    shown("7?run delay: waits", "run_delay.count"),
    shown("4?run delay: p50", "run_delay.latency_ns_p50"),
    shown("run delay: p99", "run_delay.latency_ns_p99"),
    shown("2?run delay: p99.9", "run_delay.latency_ns_p999"),
    shown("run delay: max", "run_delay.latency_ns_max"),
    shown("8?run delay: sum", "run_delay.latency_ns_sum"),
];

/// The columns that name a row.
static BY_TASK: [Shown; 2] = [shown("pid", "pid"), shown("<comm", "comm")];
static BY_COMM: [Shown; 1] = [shown("<comm", "comm")];
static BY_CPU: [Shown; 1] = [shown("cpu", "cpu")];

fn to_text(document: &Document, reply: &Reply<Answer>, args: &Args) -> String {
    let Answer { latency, worst, .. } = &reply.answer;
    let named = match args.by {
        By::Task => &BY_TASK[..],
        By::Comm => &BY_COMM,
        By::Cpu => &BY_CPU,
        // It has a table of its own.
        By::Cgroup => &[],
    };
    let mut table = Rows::new(named.iter().chain(&SHOWN));
    let total = |name| (name, "total".to_owned());
    let none = ("pid", String::new());
    table.row(&document.total, &[none, total("comm"), total("cpu")]);
    for row in columns::Answer::rows(document) {
        table.row(row, &[]);
    }
    let at_least = if input::is_lower_bound(&reply.warnings) { " (lower bounds)" } else { "" };
    let mut text =
        format!("wakeup latency, then run delay{at_least}, in {}\n\n", input::looked_at(reply));
    text += &table.text(if args.top == 0 { 0 } else { args.top + 1 });
    if latency.total.unfinished > 0 {
        let _ =
            writeln!(text, "{} waits had not ended and are not counted", latency.total.unfinished);
    }
    if args.histogram {
        for (name, histogram) in
            [("wakeup latency", &latency.total.wakeup), ("run delay", &latency.total.run_delay)]
        {
            let _ = write!(text, "\n{name}\n{}", histogram_text(histogram));
        }
    }
    if args.worst > 0 {
        text.push('\n');
        for (wait, meanwhile) in worst {
            let _ = writeln!(text, "{}", wait_text(wait, meanwhile, reply));
        }
    }
    text
}

/// A row for each octave of the histogram, with a bar.
fn histogram_text(histogram: &Histogram) -> String {
    let mut octaves = std::collections::BTreeMap::<u32, u64>::new();
    for bucket in histogram.buckets() {
        *octaves.entry(bucket.low.max(1).ilog2()).or_default() += bucket.count;
    }
    let most = octaves.values().copied().max().unwrap_or(1);
    let mut table = Table::new(&["from", "to", "waits", "<"]);
    let (first, last) = (octaves.keys().next().copied(), octaves.keys().last().copied());
    for octave in first.unwrap_or(1)..=last.unwrap_or(0) {
        let count = octaves.get(&octave).copied().unwrap_or(0);
        let low = if octave == 0 { 0 } else { 1_u64 << octave };
        let high = 2_u64.checked_shl(octave).filter(|high| *high > 0).unwrap_or(u64::MAX);
        let bar = (count as f64 / most as f64 * 50.0).ceil() as usize;
        let bar = "#".repeat(bar);
        table.row(vec![Nanos(low).to_string(), Nanos(high).to_string(), count.to_string(), bar]);
    }
    table.text(0)
}

fn wait_text(wait: &WorstWait, meanwhile: &Meanwhile, reply: &Reply<Answer>) -> String {
    let state = &reply.state;
    let name = |task: TaskId| format!("{} ({})", state.name(task), state.task(task).pid);
    let why = match (wait.why, wait.waker_context) {
        (Why::Preempted | Why::Yielded, _) => "displaced".to_owned(),
        (_, Context::Task) if wait.waker.is_some() => format!("woken by {}", name(wait.waker)),
        _ => "woken by an interrupt".to_owned(),
    };
    let instead = ran_instead::in_times(meanwhile, state);
    format!(
        "{} at {}: {} on CPU {}, {why}\n    {instead}",
        wait.at - wait.since,
        input::at(reply.origin, wait.since),
        name(wait.task),
        wait.cpu
    )
}
