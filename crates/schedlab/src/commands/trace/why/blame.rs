//! `schedlab why --blame`: who took CPU time from whom, by task, command, process or control group.

use super::super::input::Named;
use crate::json;
use schedlab_draw::Belongs;
use schedlab_model::table::{Column, Row, Rows, Share};
use schedlab_model::{Nanos, columns};
use schedlab_timeline::{CausesAnswer, Checked, Reply, TaskId, WaitCause};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What the rows and columns of the table stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum By {
    /// A thread
    Task,
    /// All threads with the same name
    Comm,
    /// All threads of a process
    Process,
    /// The control group
    Cgroup,
}

/// Who ran while others waited, or what held them back.
#[derive(Debug)]
pub(crate) struct Taken {
    waited: String,
    by: String,
    time: Nanos,
    share: f64,
    /// How far the kernel's counters are from the times of who waited, if that is much.
    off: Option<Nanos>,
}

impl Row for Taken {
    const ABOUT: &'static str =
        "Who ran while others waited, or what held them back; the rows add up to their run delay.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "waited" ["waited"] = row.waited.clone(), "Who waited: a task, a command, a process or a control group.";
            "by" ["because of"] = row.by.clone(), "Who ran on their CPU meanwhile, or in brackets the cause where nobody did.";
            "time_ns" ["time"] = row.time, "How long, counted once for each task that waited.";
            "share" ["share"] = Share(row.share), "Part of all that they waited, from 0 to 1.";
        }
    }
}

/// `schedlab why --blame --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: super::super::input::Head,
    /// Those that waited longest first, and for each the largest share first.
    blame: Rows<'a, Taken>,
}

impl<'a> Document<'a> {
    pub(super) fn new(reply: &Reply<CausesAnswer>, rows: &'a [Taken]) -> Self {
        let head = super::super::input::Head::of(reply);
        let blame = Rows::new(rows, reply.origin);
        Self { head, blame: blame.off("time_ns", |row| Some(row.off?.0 as f64)) }
    }

    pub(super) const fn rows(&self) -> &Rows<'a, Taken> {
        &self.blame
    }
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/why-blame/1";
}

/// The rows, those that waited longest first.
pub(super) fn rows(reply: &Reply<CausesAnswer>, by: By, belongs: &Belongs) -> Vec<Taken> {
    let Reply { answer, state, .. } = reply;
    let group = |group| answer.group_title(group).unwrap_or("(unknown group)").to_owned();
    let task = |task| Named::of(task, state).to_string();
    let process = |task| belongs.process_name(belongs.process(state.task(task).pid), state);
    let waiter = |comm, of, waiter: Option<TaskId>| match (by, waiter) {
        (By::Task, Some(waiter)) => task(waiter),
        (By::Process, Some(waiter)) => process(waiter),
        (By::Cgroup, _) => group(of),
        _ => state.names().text(comm),
    };
    let nobody = |cause: WaitCause| format!("({})", cause.title());
    let mut sums = BTreeMap::<String, BTreeMap<String, Nanos>>::new();
    for row in &answer.blame {
        let culprit = match by {
            By::Task => task(row.by),
            By::Process => process(row.by),
            By::Comm => state.name(row.by),
            By::Cgroup => group(answer.groups[row.by.index()]),
        };
        let waited = waiter(row.comm, row.group, row.task);
        *sums.entry(waited).or_default().entry(culprit).or_default() += row.time;
    }
    for (comm, group, task, time) in &answer.to_quota {
        let row = sums.entry(waiter(*comm, *group, *task)).or_default();
        *row.entry(nobody(WaitCause::Throttled)).or_default() += *time;
    }
    let mut offs = BTreeMap::<String, Nanos>::new();
    for row in &answer.tasks {
        let comm = row.comms.first().copied().unwrap_or(state.task(row.task).comm);
        let waited = waiter(comm, row.group, Some(row.task));
        if let Some(off) = reply.off(row.task).and_then(Checked::waited_off) {
            *offs.entry(waited.clone()).or_default() += off;
        }
        let causes = WaitCause::ALL.into_iter().filter(|cause| !cause.has_culprit());
        for (cause, time) in causes.map(|cause| (cause, row.parts.of(cause))) {
            if time > Nanos::ZERO {
                *sums.entry(waited.clone()).or_default().entry(nobody(cause)).or_default() += time;
            }
        }
    }
    let all = |row: &BTreeMap<String, Nanos>| row.values().fold(Nanos::ZERO, |sum, it| sum + *it);
    let mut groups: Vec<_> = sums.into_iter().collect();
    groups.sort_by_key(|(_, row)| Reverse(all(row)));
    let mut rows = Vec::new();
    for (waited, row) in groups {
        let sum = all(&row).0.max(1) as f64;
        let mut parts: Vec<_> = row.into_iter().collect();
        parts.sort_by_key(|(_, time)| Reverse(*time));
        rows.extend(parts.into_iter().map(|(by, time)| Taken {
            waited: waited.clone(),
            by,
            time,
            share: time.0 as f64 / sum,
            off: offs.get(&waited).copied(),
        }));
    }
    rows
}
