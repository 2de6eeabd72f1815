//! `--by cgroup`: what the tasks of each control group got, and what they waited for.

use super::columns::{self, Rows, Shown, shown};
use super::input::{self, Head, Input, Selection};
use crate::json;
use anyhow::bail;
use schedlab_model::{Groups, Nanos};
use schedlab_stats::Histogram;
use schedlab_timeline::{
    Conservation, ConservationAnswer, ConservationOptions, Latency, LatencyAnswer, Reply, Tasks,
    TasksAnswer,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

type Answers = (LatencyAnswer, TasksAnswer, ConservationAnswer);

/// Prints the table by group.
pub(super) fn run(input: &Input, selection: &Selection, top: usize) -> anyhow::Result<ExitCode> {
    let options = ConservationOptions::default();
    let mut groups = None;
    let chosen = input.chosen(selection)?;
    let reply = input.ask(|info| {
        groups.clone_from(&info.groups);
        (Latency::new(), Tasks::new(), Conservation::new(options, info).about(chosen))
    })?;
    let Some(groups) = groups else {
        bail!(
            "{}: the trace does not hold the control groups of its tasks: record it with \
             `schedlab record --cgroup`",
            input.file.display()
        );
    };
    let document = Document::of(&reply, &groups, selection);
    columns::print(&input.part, &reply.warnings, &document, |document| {
        to_text(document, &reply, top)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab trace tasks --by cgroup --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    #[serde(flatten)]
    head: Head,
    /// Each group that had a task in the trace, longest run time first.
    groups: Vec<Row>,
    /// Time that the hypervisor took from this machine during the recording, summed over CPUs; `null` if it was not
    /// sampled.
    steal_ns: Option<Nanos>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/trace-groups/1";
}

impl columns::Answer for Document {
    type Row = Row;

    fn rows(&self) -> Vec<&Row> {
        self.groups.iter().collect()
    }
}

/// What the tasks of a control group got. A task counts for the group in which it was last.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Row {
    /// The group's path; `null` for tasks whose group was not seen.
    group: Option<String>,
    /// Tasks of the group in the trace.
    tasks: u64,
    /// Time in which they ran.
    run_ns: Nanos,
    /// How often they waited for a CPU.
    run_delay_count: u64,
    /// Half of these waits are not longer.
    run_delay_ns_p50: Option<u64>,
    /// 99 % of these waits are not longer.
    run_delay_ns_p99: Option<u64>,
    /// The longest of these waits.
    run_delay_ns_max: Option<u64>,
    /// All of these waits together.
    run_delay_ns_sum: u64,
    /// CPU time that was lost while they waited.
    lost_cpu_ns: Nanos,
    /// Time in which the kernel throttled the group, summed over CPUs, in the whole recording; `null` where the kernel
    /// does not count it.
    throttled_ns: Option<Nanos>,
    /// Enforcement periods in which the group was throttled.
    throttled_periods: Option<u64>,
    /// All of its enforcement periods.
    periods: Option<u64>,
}

/// Sums of a group.
#[derive(Default)]
struct Sums {
    tasks: u64,
    ran: Nanos,
    lost: Nanos,
    delay: Histogram,
}

impl Document {
    fn of(reply: &Reply<Answers>, groups: &Groups, selection: &Selection) -> Self {
        let (latency, tasks, conservation) = &reply.answer;
        let mut sums = BTreeMap::<Option<u32>, Sums>::new();
        for row in tasks.rows.iter().filter(|row| selection.keeps(row.pid, &row.comm)) {
            let sum = sums.entry(groups.of(row.pid)).or_default();
            sum.tasks += 1;
            sum.ran += row.ran;
        }
        for row in latency.tasks.iter().filter(|row| selection.keeps(row.pid, &row.comm)) {
            sums.entry(groups.of(row.pid)).or_default().delay.merge(&row.delays.run_delay);
        }
        for (task, lost) in &conservation.by_task {
            let group = groups.of(reply.state.task(*task).pid);
            sums.entry(group).or_default().lost += *lost;
        }
        let mut rows: Vec<Row> =
            sums.into_iter().map(|(group, sums)| Row::of(group, &sums, groups)).collect();
        rows.sort_by(|a, b| b.run_ns.cmp(&a.run_ns).then(a.group.cmp(&b.group)));
        Self { head: Head::of(reply), groups: rows, steal_ns: groups.stolen() }
    }
}

impl Row {
    fn of(group: Option<u32>, sums: &Sums, groups: &Groups) -> Self {
        let throttling = group.and_then(|group| groups.throttling(group));
        let delay = &sums.delay;
        Self {
            group: group.and_then(|group| groups.names.get(group as usize).cloned()),
            tasks: sums.tasks,
            run_ns: sums.ran,
            run_delay_count: delay.count(),
            run_delay_ns_p50: delay.quantile(0.5),
            run_delay_ns_p99: delay.quantile(0.99),
            run_delay_ns_max: delay.max(),
            run_delay_ns_sum: delay.sum(),
            lost_cpu_ns: sums.lost,
            throttled_ns: throttling.map(|all| all.throttled),
            throttled_periods: throttling.map(|all| all.throttled_periods),
            periods: throttling.map(|all| all.periods),
        }
    }
}

static SHOWN: [Shown; 11] = [
    shown("<group", "group"),
    shown("tasks", "tasks"),
    shown("run", "run_ns"),
    shown("3?run delay: waits", "run_delay_count"),
    shown("2?run delay: p50", "run_delay_ns_p50"),
    shown("run delay: p99", "run_delay_ns_p99"),
    shown("run delay: max", "run_delay_ns_max"),
    shown("run delay: sum", "run_delay_ns_sum"),
    shown("lost CPU time", "lost_cpu_ns"),
    shown("throttled: time", "throttled_ns"),
    shown("1?throttled: periods", "throttled_periods"),
];

fn to_text(document: &Document, reply: &Reply<Answers>, top: usize) -> String {
    let mut table = Rows::new(&SHOWN);
    for row in &document.groups {
        let group = row.group.clone().unwrap_or_else(|| "unknown".to_owned());
        table.row(row, &[("group", group)]);
    }
    let mut text = format!(
        "{} control groups in {}\n\n{}",
        document.groups.len(),
        input::looked_at(reply),
        table.text(top)
    );
    match document.steal_ns {
        Some(steal) => {
            let _ = writeln!(text, "\nsteal time of the machine while it was recorded: {steal}");
        }
        None => text += "\nsteal time is unknown: it was not sampled\n",
    }
    text
}
