//! `schedlab trace check`: what the kernel counted while a trace was recorded, beside what its events say.

use super::input::{self, Head, Input, Selection};
use super::why::overview::{self, KernelSum};
use crate::json;
use anyhow::bail;
use schedlab_model::table::{Column, Rows, Share};
use schedlab_model::{Nanos, Pid, columns};
use schedlab_timeline::{Checked, EveryTask, Reply};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Options of `schedlab trace check`.
#[derive(clap::Args)]
#[command(after_help = "\
`schedlab record` reads the kernel's counters of all tasks and groups at both ends
(/proc/PID/schedstat, cpu.stat). Some kernels log no switch out of an idle CPU; then events lack
switches that the counters have. A task that ended before the end of the recording has no counters.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    selection: Selection,
    /// Print at most N tasks, the largest difference first; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

/// What was compared for a task.
pub(crate) struct Row {
    pid: Pid,
    comm: Option<String>,
    checked: Checked,
}

impl Row {
    fn ran_share(&self) -> Option<Share> {
        share(self.checked.ran_off(), self.checked.counted.ran)
    }

    fn waited_share(&self) -> Option<Share> {
        share(self.checked.waited_off()?, self.checked.counted.waited)
    }
}

fn share(off: Nanos, of: Nanos) -> Option<Share> {
    (of > Nanos::ZERO).then(|| Share(off.0 as f64 / of.0 as f64))
}

impl schedlab_model::table::Row for Row {
    const ABOUT: &'static str =
        "What the kernel counted for a task between two readings, and what the events say.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "pid" ["pid"] = row.pid, "The task (thread).";
            "comm" ["comm"] = row.comm.clone(), "Its name at the end; `null` if no event names it.";
            "kernel_run_ns" ["run: kernel"] = row.checked.counted.ran, "How long it ran, by the kernel's counter.";
            "run_ns" ["run: events"] = row.checked.ran, "How long it ran, by the events.";
            "run_off" ["run: off"] = row.ran_share(), "The difference, as a part of the kernel's.";
            "kernel_wait_ns" ["wait: kernel", 2] = row.checked.counted.waited, "How long it waited for a CPU, by the kernel's counter.";
            "wait_ns" ["wait: events", 2] = row.checked.waited, "How long, by the events; `null` if it waited at the first reading, and where its group has a quota: kernels differ in whether throttled time counts.";
            "wait_off" ["wait: off", 1] = row.waited_share(), "The difference, as a part of the kernel's.";
            "kernel_arrivals" ["switches to it: kernel", 3] = row.checked.counted.arrivals, "How often it came to run, by the kernel's counter.";
            "missing_switches" ["switches to it: missing"] = row.checked.missing(), "How many of these switches the events lack.";
            "is_off" = row.checked.is_off, "Whether a time is off by more than 2 %, and by more than a reading explains.";
        }
    }
}

/// `schedlab trace check --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// Tasks that lived at the end, the largest difference of run time first.
    tasks: Rows<'a, Row>,
    /// How many of them are off by more than 2 %.
    off: usize,
    /// Switches that the events lack, over all of these tasks.
    missing_switches: u64,
    /// Groups with a CPU quota: the model of their budgets beside the kernel's counter.
    groups: Vec<KernelSum>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-check/1";
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut reply = args.input.ask(|_| EveryTask)?;
    let file = args.input.file.display();
    if reply.checked.is_empty() {
        bail!(
            "{file}: nothing to compare with: `schedlab record` stores the kernel's counters of tasks; \
             a part of a trace (--from, --to) and a snapshot have none"
        );
    }
    let chosen = args.input.chosen(&args.selection)?;
    if !chosen.is_all() {
        reply.checked.retain(|one| one.task.is_some_and(|task| chosen.has(task)));
    }
    let groups = overview::sums(&args.input, reply.observed)?;
    let rows: Vec<Row> = reply.checked.iter().map(|checked| row(checked, &reply)).collect();
    let document = Document {
        head: Head::of(&reply),
        tasks: Rows::new(&rows, reply.origin),
        off: reply.checked.iter().filter(|one| one.is_off).count(),
        missing_switches: reply.checked.iter().map(Checked::missing).sum(),
        groups,
    };
    let form = args.input.part.form;
    form.print(&reply.warnings, &document, &document.tasks, || {
        let mut table = document.tasks.text(form.room(), &[]);
        table.all();
        let mut text = headline(&document, &reply) + &table.print(args.top);
        for group in &document.groups {
            let _ = writeln!(text, "{group}");
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

fn row(checked: &Checked, reply: &Reply<()>) -> Row {
    let comm = checked.task.map(|task| reply.state.name(task));
    Row { pid: checked.counted.pid, comm, checked: *checked }
}

fn headline(document: &Document<'_>, reply: &Reply<()>) -> String {
    let all = document.tasks.rows().len();
    let looked_at = input::looked_at(reply);
    let verdict = match (document.off, document.missing_switches) {
        (0, 0) => format!("The events agree with the kernel's counters of {all} tasks"),
        (0, missing) => format!(
            "The times of {all} tasks agree with the kernel's counters; {missing} switches are missing"
        ),
        (off, missing) => format!(
            "The times of {off} of {all} tasks are off by more than 2 %; {missing} switches are missing"
        ),
    };
    format!("{verdict}, in {looked_at}.\n\n")
}
