//! `schedlab trace power`: frequencies and idle states of CPUs, work of tasks.

use super::input::{self, Head, Input, Selection};
use crate::json;
use schedlab_model::Warning;
use schedlab_model::table::Rows;
use schedlab_timeline::{CpuPower, InReply, Power, PowerAnswer, TaskPower};
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
    #[command(flatten)]
    selection: Selection,
    /// Print at most N rows, most work first; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Pictures want the steps; here only sums are reported.
    let mut reply = args.input.ask(|_| Power::new(0))?;
    let chosen = args.input.chosen(&args.selection)?;
    reply.answer.tasks.retain(|row| chosen.has(row.task));
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
    let tasks = reply.rows(&reply.answer.tasks);
    let document = Document {
        head: Head::of(&reply),
        cpus: Rows::new(&reply.answer.cpus, reply.origin).known(&reply.known),
        tasks: Rows::new(&tasks, reply.origin).known(&reply.known),
    };
    let form = args.input.part.form;
    form.print(&reply.warnings, &document, &document.cpus, || {
        let mut cpus = document.cpus.text(form.room(), &[]);
        cpus.all();
        let mut text = format!("{}\n\n{}", input::looked_at(&reply), cpus.print(0));
        if !tasks.is_empty() {
            let mut tasks = document.tasks.text(form.room(), &[]);
            tasks.all();
            let known = "work, as far as the frequency is known";
            let _ = write!(text, "\n{known}\n\n{}", tasks.print(args.top));
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab trace power --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// Each CPU that was observed.
    cpus: Rows<'a, CpuPower>,
    /// Tasks that ran at a known frequency, most work first.
    tasks: Rows<'a, InReply<'a, TaskPower, PowerAnswer>>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-power/1";
}
