//! `schedlab trace locality`: who wakes whom, how far wakeups carry tasks, who runs away from home.

use super::input::{self, Head, Input, Machine, Selection};
use crate::json;
use schedlab_model::table::{One, Rows};
use schedlab_timeline::{InReply, Locality, LocalityAnswer, LocalityRow, WokenFar, WokenPair};
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// Options of `schedlab trace locality`.
#[derive(clap::Args)]
#[command(after_help = "\
A wakeup counts when the woken task runs. Its distance is from the CPU where the task ran before
to the CPU where it runs then. The home of a task is the NUMA node on which it ran longest.
--pid, --comm and --regex choose whose wakeups are counted: by them and of them.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    selection: Selection,
    /// Print at most N rows of each table; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    #[command(flatten)]
    machine: Machine,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let topology = args.machine.topology()?;
    let chosen = args.input.chosen(&args.selection)?;
    let about = input::of_chosen(&chosen);
    let reply = args
        .input
        .ask(|info| Locality::new(topology.or_else(|| info.topology.clone())).about(chosen))?;
    let answer = &reply.answer;
    let matrix = reply.rows(&answer.matrix);
    let tasks = reply.rows(&answer.tasks);
    let total = answer.far(answer.total);
    let document = Document {
        head: Head::of(&reply),
        topology: answer.has_topology,
        matrix: Rows::new(&matrix, reply.origin).known(&reply.known),
        tasks: Rows::new(&tasks, reply.origin).known(&reply.known),
        total: One::new(&total, reply.origin, false).known(&reply.known),
    };
    let form = args.input.part.form;
    form.print(&reply.warnings, &document, &document.tasks, || {
        let mut matrix = document.matrix.text(form.room(), &[]);
        for row in document.matrix.rows() {
            let interrupt = if row.0.is_none() { &[("waker", "(interrupt)")][..] } else { &[] };
            matrix.row(row, interrupt);
        }
        let mut tasks = document.tasks.text(form.room(), &[]);
        tasks.all();
        let unknown = if answer.has_topology {
            ""
        } else {
            "distances are unknown: the trace does not hold the topology (see --topology)\n"
        };
        let count = answer.total.count;
        let looked_at = input::looked_at(&reply);
        let matrix = matrix.print(args.top);
        let tasks = tasks.print(args.top);
        format!("{count} wakeups in {looked_at}{about}\n{unknown}\n{matrix}\n{tasks}")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab trace locality --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// Whether the topology is known; without it there are counts, but no distances.
    topology: bool,
    /// Who woke whom, by name.
    matrix: Rows<'a, InReply<'a, WokenPair, LocalityAnswer>>,
    /// Each task that was woken or ran.
    tasks: Rows<'a, InReply<'a, LocalityRow, LocalityAnswer>>,
    /// All wakeups.
    total: One<'a, WokenFar>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-locality/1";
}
