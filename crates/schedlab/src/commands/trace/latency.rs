//! `schedlab trace latency`: how long tasks waited for a CPU.

use super::form::Text;
use super::groups;
use super::input::{self, Head, Input, Named, Selection};
use super::ran_instead::{self, Occupancy};
use crate::json;
use crate::output::folded;
use schedlab_model::table::{One, Rows, TextTable};
use schedlab_model::{Context, Cpu, Nanos, Need, Pid, Trigger};
use schedlab_stats::Histogram;
use schedlab_timeline::{
    ByGroup, Checked, Chosen, Delays, Latency, LatencyAnswer, LatencyByCpu, Meanwhile, OfGroup,
    RanInstead, Reply, State, TaskId, Waited, Why, Worst, WorstWait,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Options of `schedlab trace latency`.
#[derive(clap::Args)]
#[command(after_help = "\
Wakeup latency: from sched_waking until the task runs (from sched_wakeup if that is missing).
Run delay: all time in which a task was runnable and did not run, after wakeups and preemption.
Percentiles are within 0.4 %; maxima and sums are exact. A wait that has not ended counts in
maxima and sums, as much as was seen of it.")]
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
    /// The control group in which the task was; `trace tasks --by cgroup` has CPU time and throttling
    Cgroup,
}

impl By {
    /// The columns that say nothing of such rows.
    const fn hidden(self) -> &'static [&'static str] {
        match self {
            Self::Task => &["cpu", "group_name"],
            Self::Comm => &["pid", "cpu", "group_name"],
            Self::Cpu => &["pid", "comm", "group_name"],
            Self::Cgroup => &["pid", "comm", "cpu"],
        }
    }
}

/// Path and name of a control group, where it is known, and how long its tasks waited.
type OfNames = (Option<(String, String)>, Delays);

/// All that is asked in one pass.
struct Answer {
    latency: LatencyAnswer,
    cpus: Option<Vec<(Cpu, Delays)>>,
    /// By path and name of the control group, longest single wait first.
    groups: Option<Vec<OfNames>>,
    worst: Vec<(WorstWait, Meanwhile)>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let chosen = args.input.chosen(&args.selection)?;
    let mut reply = answer(args, &chosen)?;
    if !chosen.is_all() {
        let latency = std::mem::take(&mut reply.answer.latency);
        reply.answer.latency = latency.only(&chosen);
    }
    let comms = reply.answer.latency.by_comm();
    let lines = Lines::of(&reply, &comms);
    let document = Document::of(&reply, &lines, args);
    let other = document.comms.as_ref().or(document.cpus.as_ref()).or(document.groups.as_ref());
    let rows = other.unwrap_or(&document.tasks);
    let form = args.input.part.form;
    let trigger = match form.is_text() {
        true => schedlab_trace::open(&args.input.file)?.info().trigger,
        false => None,
    };
    form.print(&reply.warnings, &document, rows, || {
        to_text(rows, &reply, args, form.room(), trigger)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// One pass over the trace; the table alone is worth a loop of its own with each reader.
fn answer(args: &Args, chosen: &Chosen) -> anyhow::Result<Reply<Answer>> {
    let by_cpu = (args.by == By::Cpu).then(LatencyByCpu::new);
    let worst = (args.worst > 0).then(|| Worst::new(args.worst));
    let by_group = args.by == By::Cgroup;
    if by_cpu.is_none() && worst.is_none() && !by_group {
        let reply = args.input.ask_straight(Latency::new())?;
        let cpus = None;
        let groups = None;
        let worst = Vec::new();
        return Ok(reply.map(|latency| Answer { latency, cpus, groups, worst }));
    }
    let groups = match by_group {
        true => Some(groups::of(&args.input)?),
        false => None,
    };
    let by_cpu = by_cpu.map(|question| question.about(chosen.clone()));
    let worst = worst.map(|question| question.about(chosen.clone()));
    let by_group = groups.as_ref().map(|groups| ByGroup::new(Some(groups), chosen.clone()));
    let reply = args.input.ask(|_| (Latency::new(), by_cpu, by_group, worst))?;
    let waits = reply.answer.3.as_deref().unwrap_or_default();
    let meanwhile = match waits.is_empty() {
        true => Vec::new(),
        false => args.input.ask(|_| RanInstead::of(waits))?.answer,
    };
    Ok(reply.map(|(latency, cpus, by_group, worst)| {
        let worst = worst.unwrap_or_default().into_iter().zip(meanwhile).collect();
        let named = |(group, got): (Option<u32>, OfGroup)| {
            let names =
                groups.as_ref().zip(group).map(|(groups, group)| groups::named(groups, group));
            (names, got.delays)
        };
        let mut groups: Option<Vec<_>> = by_group.map(|all| all.into_iter().map(named).collect());
        if let Some(groups) = &mut groups {
            groups.retain(|(_, delays)| !delays.run_delay.is_empty() || delays.unfinished > 0);
            groups.sort_by_key(|(_, delays)| std::cmp::Reverse(delays.longest()));
        }
        Answer { latency, cpus, groups, worst }
    }))
}

/// The rows of all forms of the answer.
struct Lines<'a> {
    tasks: Vec<Waited<'a>>,
    comms: Vec<Waited<'a>>,
    cpus: Option<Vec<Waited<'a>>>,
    groups: Option<Vec<Waited<'a>>>,
}

impl<'a> Lines<'a> {
    fn of(reply: &'a Reply<Answer>, comms: &'a [(String, Delays)]) -> Self {
        let answer = &reply.answer;
        let line =
            |delays| Waited { pid: None, comm: None, cpu: None, group: None, delays, off: None };
        let tasks = answer.latency.tasks.iter();
        let tasks = tasks.map(|task| Waited {
            pid: Some(task.pid),
            comm: Some(&task.comm),
            off: reply.off(task.task).and_then(Checked::waited_off),
            ..line(&task.delays)
        });
        let mut off_of = BTreeMap::<&str, Nanos>::new();
        for task in &answer.latency.tasks {
            if let Some(off) = reply.off(task.task).and_then(Checked::waited_off) {
                *off_of.entry(&task.comm).or_default() += off;
            }
        }
        let comms = comms.iter().map(|(comm, delays)| Waited {
            comm: Some(comm),
            off: off_of.get(comm.as_str()).copied(),
            ..line(delays)
        });
        let cpus = answer.cpus.as_ref().map(|cpus| {
            cpus.iter().map(|(cpu, delays)| Waited { cpu: Some(*cpu), ..line(delays) }).collect()
        });
        let groups = answer.groups.as_ref().map(|groups| {
            let of = |(names, delays): &'a OfNames| Waited {
                group: names.as_ref().map(|(path, name)| (path.as_str(), name.clone())),
                ..line(delays)
            };
            groups.iter().map(of).collect()
        });
        Self { tasks: tasks.collect(), comms: comms.collect(), cpus, groups }
    }
}

/// `schedlab trace latency --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// Each chosen task, longest wait first.
    tasks: Rows<'a, Waited<'a>>,
    /// All chosen tasks together.
    total: One<'a, Delays>,
    /// All tasks of a name together, with `--by comm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    comms: Option<Rows<'a, Waited<'a>>>,
    /// By the CPU on which tasks ran after the wait, with `--by cpu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpus: Option<Rows<'a, Waited<'a>>>,
    /// By the control group in which the task was when the wait ended, with `--by cgroup`, longest wait first.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Rows<'a, Waited<'a>>>,
    /// The longest single waits, with `--worst`.
    #[serde(skip_serializing_if = "Option::is_none")]
    worst: Option<Vec<LongWait>>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-latency/1";
}

/// A single long wait.
#[derive(Serialize, JsonSchema)]
struct LongWait {
    #[serde(flatten)]
    task: Named,
    start_ns: Nanos,
    end_ns: Nanos,
    /// Whether it had not ended: then it is longer.
    is_open: bool,
    /// The CPU on which the task ran after the wait; of an open one, where it waits.
    cpu: Cpu,
    /// Why the task was runnable: `woken`, `new`, `displaced`, `displaced_in_kernel` or `yielded`.
    why: &'static str,
    /// Who woke it; `null` for an interrupt.
    waker_pid: Option<Pid>,
    #[serde(flatten)]
    meanwhile: Occupancy,
}

impl<'a> Document<'a> {
    fn of(reply: &'a Reply<Answer>, lines: &'a Lines<'a>, args: &Args) -> Self {
        let Answer { latency, worst, .. } = &reply.answer;
        let known = &reply.known;
        let rows = |lines: &'a [Waited<'a>]| {
            let rows = Rows::new(lines, reply.origin).with(args.histogram).known(known);
            rows.off("run_delay.latency_ns_sum", |row| Some(row.off?.0 as f64))
        };
        let worst = || worst.iter().map(|(wait, other)| LongWait::of(wait, other, reply)).collect();
        Self {
            head: Head::of(reply),
            tasks: rows(&lines.tasks),
            total: One::new(&latency.total, reply.origin, args.histogram).known(known),
            comms: (args.by == By::Comm).then(|| rows(&lines.comms)),
            cpus: lines.cpus.as_deref().map(rows),
            groups: lines.groups.as_deref().map(rows),
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
            is_open: wait.is_open,
            cpu: wait.cpu,
            why: wait.why.name(),
            waker_pid: wait.waker.is_some().then(|| state.task(wait.waker).pid),
            meanwhile: Occupancy::of(meanwhile, state),
        }
    }
}

fn to_text<'a>(
    rows: &Rows<'_, Waited<'a>>,
    reply: &'a Reply<Answer>,
    args: &Args,
    room: usize,
    trigger: Option<Trigger>,
) -> Text {
    let Answer { latency, worst, .. } = &reply.answer;
    let mut table = rows.text(room, args.by.hidden());
    let total =
        Waited { pid: None, comm: None, cpu: None, group: None, delays: &latency.total, off: None };
    let titles = [("pid", ""), ("comm", "total"), ("cpu", "total"), ("group_name", "total")];
    table.row(&total, &titles);
    table.first(args.top);
    let mut text = format!("wakeup latency, then run delay, in {}\n\n", input::looked_at(reply));
    text += &table.print(if args.top == 0 { 0 } else { args.top + 1 });
    let is_touched = table.is_touched(args.top);
    text += &open(latency, &reply.state);
    if let Some(trigger) = trigger {
        let at = input::at(reply.origin, trigger.since);
        let pid = trigger.pid;
        let length = (trigger.until - trigger.since).readable();
        let _ =
            writeln!(text, "The recording ended after {length} of a wait of task {pid} at {at}");
    }
    if args.histogram && reply.known.of(Need::Waits).is_some() {
        for (name, histogram) in
            [("wakeup latency", &latency.total.wakeup), ("run delay", &latency.total.run_delay)]
        {
            let _ = write!(text, "\n{name}\n{}", histogram_text(histogram, room));
        }
    }
    if args.worst > 0 {
        text.push('\n');
        for (wait, meanwhile) in worst {
            text += &folded(&wait_text(wait, meanwhile, reply), 6, room);
        }
    }
    Text { text, is_touched }
}

/// The longest wait that had not ended.
fn open(latency: &LatencyAnswer, state: &State) -> String {
    let count = latency.total.unfinished;
    let Some(row) = latency.tasks.iter().max_by_key(|row| row.delays.open.longest_ns) else {
        return String::new();
    };
    let count = match count {
        0 => return String::new(),
        1 => "1 wait was not seen to end".to_owned(),
        many => format!("{many} waits were not seen to end"),
    };
    match Nanos(row.delays.open.longest_ns) {
        Nanos::ZERO => format!("{count}\n"),
        longest => {
            let who = Named::of(row.task, state);
            format!("{count}; the longest: {who} waits for at least {}\n", longest.readable())
        }
    }
}

/// What all tasks of a trace waited, as a table in lines of `room` characters.
pub(crate) fn total(answer: &LatencyAnswer, room: usize) -> String {
    let delays = &answer.total;
    let row = [Waited { pid: None, comm: None, cpu: None, group: None, delays, off: None }];
    let rows = Rows::new(&row, Nanos::ZERO);
    let mut table = rows.text(room, &["pid", "comm", "cpu", "group_name"]);
    table.all();
    table.print(0)
}

/// A row for each octave of the histogram, with a bar.
fn histogram_text(histogram: &Histogram, room: usize) -> String {
    let mut octaves = BTreeMap::<u32, u64>::new();
    for bucket in histogram.buckets() {
        *octaves.entry(bucket.low.max(1).ilog2()).or_default() += bucket.count;
    }
    let most = octaves.values().copied().max().unwrap_or(1);
    let mut table = TextTable::new(&["from", "to", "waits", "<"]);
    let first = octaves.keys().next().copied();
    let last = octaves.keys().last().copied();
    for octave in first.unwrap_or(1)..=last.unwrap_or(0) {
        let count = octaves.get(&octave).copied().unwrap_or(0);
        let low = if octave == 0 { 0 } else { 1_u64 << octave };
        let high = 2_u64.checked_shl(octave).filter(|high| *high > 0).unwrap_or(u64::MAX);
        let bar = (count as f64 / most as f64 * 50.0).ceil() as usize;
        let bar = "#".repeat(bar);
        let time = |ns: u64| Nanos(ns).readable();
        table.row(vec![time(low), time(high), count.to_string(), bar]);
    }
    table.text(0, room)
}

fn wait_text(wait: &WorstWait, meanwhile: &Meanwhile, reply: &Reply<Answer>) -> String {
    let state = &reply.state;
    let name = |task: TaskId| format!("{} ({})", state.name(task), state.task(task).pid);
    let why = match (wait.why, wait.waker_context) {
        (Why::Displaced, _) => "displaced".to_owned(),
        (Why::Preempted, _) => "displaced in the kernel".to_owned(),
        (Why::Yielded, _) => "after its yield".to_owned(),
        (_, Context::Task) if wait.waker.is_some() => format!("woken by {}", name(wait.waker)),
        (_, Context::Unknown) => "woken, by whom is unknown".to_owned(),
        _ => "woken by an interrupt".to_owned(),
    };
    let instead = ran_instead::in_times(meanwhile, state);
    let (least, why) = match wait.is_open {
        true => ("at least ", format!("{why}, and still waits")),
        false => ("", why),
    };
    format!(
        "{least}{} at {}: {} on CPU {}, {why}\n    {instead}",
        (wait.at - wait.since).readable(),
        input::at(reply.origin, wait.since),
        name(wait.task),
        wait.cpu
    )
}
