//! `schedlab trace tasks`: what each task did with its time.

use super::form::Text;
use super::input::{self, Head, Input, Machine, Selection};
use crate::json;
use schedlab_model::Need;
use schedlab_model::table::Rows;
use schedlab_timeline::{InReply, Reply, TaskRow, Tasks, TasksAnswer};
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
    /// The control group, with run delay, lost CPU time and throttling
    Cgroup,
}

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
        reply.answer = reply.answer.only(&args.input.chosen(&args.selection)?);
    }
    let rows = reply.rows(&reply.answer.rows);
    let document = Document { head: Head::of(&reply), tasks: reply.table(&rows) };
    let form = args.input.part.form;
    let stacks = rows.iter().any(|row| !row.blocked.is_empty());
    let parts = [(!stacks, "blocked_in"), (topology.is_none(), "migrations_by_distance")];
    let hidden: Vec<&str> = parts.into_iter().filter(|part| part.0).map(|part| part.1).collect();
    form.print(&reply.warnings, &document, &document.tasks, || {
        let mut table = document.tasks.text(form.room(), &hidden);
        table.first(args.top);
        let text = headline(&reply) + &table.print(args.top);
        Text { text, is_touched: table.is_touched(args.top) }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn headline(reply: &Reply<TasksAnswer>) -> String {
    let sum = |of: fn(&TaskRow) -> u64| reply.answer.rows.iter().map(of).sum::<u64>();
    let figure = |need, of| input::figure(&reply.known, need, sum(of));
    format!(
        "{} tasks in {}: {} switches voluntary, {} involuntary, {} migrations\n\n",
        reply.answer.rows.len(),
        input::looked_at(reply),
        figure(Need::AllSwitches, |row| row.voluntary),
        figure(Need::AllSwitches, |row| row.involuntary),
        figure(Need::Migrations, |row| row.migrations),
    )
}

/// `schedlab trace tasks --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// Each chosen task, longest run time first.
    tasks: Rows<'a, InReply<'a, TaskRow, TasksAnswer>>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-tasks/1";
}
