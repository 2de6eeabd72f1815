//! `--by cgroup`: what the tasks of each control group got, and what they waited for.

use super::input::{self, Head, Input, Selection};
use crate::json;
use anyhow::Context as _;
use schedlab_model::table::{Column, Rows};
use schedlab_model::{Groups, Nanos, Throttling, columns};
use schedlab_stats::Histogram;
use schedlab_timeline::{
    ByGroup, Conservation, ConservationAnswer, ConservationOptions, OfGroup, Reply,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;

type Answers = (BTreeMap<Option<u32>, OfGroup>, ConservationAnswer);

/// The control groups of a trace; fails if the trace does not hold them.
pub(super) fn of(input: &Input) -> anyhow::Result<Groups> {
    let groups = schedlab_trace::open(&input.file)?.info().groups.clone();
    groups.with_context(|| {
        format!(
            "{}: the trace does not hold the control groups of its tasks: record it with \
             `schedlab record`",
            input.file.display()
        )
    })
}

/// Path and name of a group.
pub(super) fn named(groups: &Groups, group: u32) -> (String, String) {
    let path = groups.names.get(group as usize).cloned().unwrap_or_default();
    (path, groups.title(group))
}

/// Prints the table by group.
pub(super) fn run(input: &Input, selection: &Selection, top: usize) -> anyhow::Result<ExitCode> {
    let options = ConservationOptions::default();
    let groups = of(input)?;
    let chosen = input.chosen(selection)?;
    let reply = input.ask(|info| {
        let conservation = Conservation::new(options, info).about(chosen.clone());
        (ByGroup::new(Some(&groups), chosen), conservation)
    })?;
    let rows = rows(&reply, &groups);
    let head = Head::of(&reply);
    let steal_ns = groups.stolen();
    let off = |off: Nanos| Some(off.0 as f64).filter(|off| *off > 0.0);
    let told = Rows::new(&rows, reply.origin)
        .known(&reply.known)
        .off("run_ns", move |row| off(row.off[0]))
        .off("run_delay_ns_sum", move |row| off(row.off[1]));
    let document = Document { head, groups: told, steal_ns };
    let form = input.part.form;
    form.print(&reply.warnings, &document, &document.groups, || {
        let mut text = document.groups.text(form.room(), &[]);
        for row in &rows {
            let unknown = if row.group.is_none() { &[("group_name", "unknown")][..] } else { &[] };
            text.row(row, unknown);
        }
        let steal = match steal_ns {
            Some(steal) => {
                format!("steal time of the machine while it was recorded: {}", steal.readable())
            }
            None => "steal time is unknown: it was not sampled".to_owned(),
        };
        let count = rows.len();
        let looked_at = input::looked_at(&reply);
        format!("{count} control groups in {looked_at}\n\n{}\n{steal}\n", text.print(top))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab trace tasks --by cgroup --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// Each group that had a task in the trace, longest run time first.
    groups: Rows<'a, Row>,
    /// Time that the hypervisor took from this machine during the recording, summed over CPUs; `null` if it was not
    /// sampled.
    steal_ns: Option<Nanos>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-groups/1";
}

/// What the tasks of a control group got.
#[derive(Default)]
pub(crate) struct Row {
    /// Path and name.
    group: Option<(String, String)>,
    tasks: u64,
    ran: Nanos,
    delay: Histogram,
    lost: Nanos,
    throttling: Option<Throttling>,
    /// By how much the kernel's counters of its tasks differ at most: run time and waiting.
    off: [Nanos; 2],
}

impl schedlab_model::table::Row for Row {
    const ABOUT: &'static str = "What the tasks of a group got while they were in it; lost CPU time counts for a task's last group.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "group" ["group: path", 10] = row.group.as_ref().map(|(path, _)| path.clone()), "The group's path; `null` for tasks whose group was not seen.";
            "group_name" ["group: name"] = row.group.as_ref().map(|(_, name)| name.clone()), "What people call it: its container, systemd unit, or path.";
            "tasks" ["tasks"] = row.tasks, "Tasks of the group in the trace.";
            "run_ns" ["run"] @ RunTime = row.ran, "Time in which they ran.";
            "run_delay_count" ["run delay: waits", 7] @ WaitTime = row.delay.count(), "How often they waited for a CPU.";
            "run_delay_ns_p50" ["run delay: p50", 8] @ Waits = row.delay.quantile(0.5).map(Nanos), "Half of these waits are not longer.";
            "run_delay_ns_p99" ["run delay: p99"] @ Waits = row.delay.quantile(0.99).map(Nanos), "99 % of these waits are not longer.";
            "run_delay_ns_max" ["run delay: max"] @ WaitTime = row.delay.max().map(Nanos), "The longest of these waits.";
            "run_delay_ns_sum" ["run delay: sum", 3] @ WaitTime = Nanos(row.delay.sum()), "All of these waits together.";
            "lost_cpu_ns" ["lost CPU time", 2] @ LostTime = row.lost, "CPU time that was lost while they waited.";
            "throttled_ns" ["throttled: time", 1] = row.throttling.map(|all| all.throttled), "Time in which the kernel throttled the group, summed over CPUs, in the whole recording; `null` where the kernel does not count it.";
            "throttled_periods" ["throttled: periods", 9] = row.throttling.map(|all| all.throttled_periods), "Enforcement periods in which the group was throttled.";
            "periods" = row.throttling.map(|all| all.periods), "All of its enforcement periods.";
        }
    }
}

/// A row for each group of a chosen task, longest run time first.
fn rows(reply: &Reply<Answers>, groups: &Groups) -> Vec<Row> {
    let (by_group, conservation) = &reply.answer;
    let mut lost = BTreeMap::<Option<u32>, Nanos>::new();
    for (task, time) in &conservation.by_task {
        *lost.entry(groups.of(reply.state.task(*task).pid)).or_default() += *time;
    }
    let mut off = BTreeMap::<Option<u32>, [Nanos; 2]>::new();
    for one in reply.checked.iter().filter(|one| one.is_off) {
        let [ran, waited] = off.entry(groups.of(one.counted.pid)).or_default();
        *ran += one.ran_off();
        *waited += one.waited_off().unwrap_or_default();
    }
    let row = |(group, got): (&Option<u32>, &OfGroup)| Row {
        group: group.map(|group| named(groups, group)),
        tasks: got.tasks,
        ran: got.ran,
        delay: got.delays.run_delay.clone(),
        lost: lost.get(group).copied().unwrap_or_default(),
        throttling: group.and_then(|group| groups.throttling(group)),
        off: off.get(group).copied().unwrap_or_default(),
    };
    let mut rows: Vec<Row> = by_group.iter().map(row).collect();
    rows.sort_by(|a, b| b.ran.cmp(&a.ran).then(a.group.cmp(&b.group)));
    rows
}
