//! `schedlab trace stacks`: time off the CPU by call stack.

use super::input::{self, Head, Input, Selection, Symbols};
use super::pprof;
use crate::commands::result_file::save;
use crate::json;
use schedlab_model::table::Rows;
use schedlab_model::{Need, Unit, Warning, readable};
use schedlab_timeline::{OffCpuAnswer, OffCpuStacks, Reply, StackRow};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab trace stacks`.
#[derive(clap::Args)]
#[command(after_help = "\
A task is off the CPU from the switch after which it sleeps until it is woken. Then it waits for a
CPU (run delay). Both times go to the stack with which it went to sleep. A task that was displaced
did not go to sleep: its waits are in `schedlab trace latency`.

Stacks come from `schedlab record --stacks user,kernel` (without WHOSE: the kernel's functions
alone), from `perf record -g -a -e sched:sched_switch,sched:sched_waking`, or from
`perf sched record -g`.

Examples:
  schedlab trace stacks x.dat --comm postgres
  schedlab trace stacks perf.data --folded > off.folded   for speedscope, inferno, flamegraph.pl
  schedlab trace stacks x.dat --pprof off.pb.gz           for go tool pprof
  schedlab draw flame perf.data -o off.svg")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    symbols: Symbols,
    /// Print a line for each stack, outermost function first, with its microseconds
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    folded: bool,
    /// Write the stacks to FILE for pprof (`go tool pprof FILE`), and print no table
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "csv", "folded"])]
    pprof: Option<PathBuf>,
    /// Print at most N rows, longest time first; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 40)]
    top: usize,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let input = args.input.clone().with_symbols(&args.symbols);
    let reply = ask(&input, &args.selection)?;
    if args.folded {
        return folded(&reply);
    }
    if let Some(path) = &args.pprof {
        let stacks = reply.answer.folded(&reply.state);
        save(path, &pprof::profile(&stacks, reply.observed.duration().0)?)?;
        notes(&reply)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = reply.answer.by_name(&reply.state);
    let table = Rows::new(&rows, reply.origin).known(&reply.known);
    let document = Document { head: Head::of(&reply), stacks: table };
    let form = args.input.part.form;
    form.print(&reply.warnings, &document, &document.stacks, || {
        let mut table = document.stacks.text(form.room(), &[]);
        table.first(args.top);
        format!("{}\n\n", headline(&reply)) + &table.print(args.top)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The time off the CPU of chosen tasks, by stack.
pub(crate) fn ask(input: &Input, selection: &Selection) -> anyhow::Result<Reply<OffCpuAnswer>> {
    let mut reply = input.ask_with_stacks(|_| OffCpuStacks::default())?;
    if selection.is_any() {
        reply.answer = reply.answer.only(&input.chosen(selection)?);
    }
    let (blocked, waited, unstacked) = reply.answer.sums();
    if unstacked > schedlab_model::Nanos::ZERO && unstacked == blocked + waited {
        let what = format!("{}: the trace holds no stacks", input.shown());
        let remedy =
            "record with `schedlab record --stacks user,kernel`, or `perf sched record -g`";
        reply.warnings.push(Warning::new("stacks-missing", what, remedy));
    }
    Ok(reply)
}

/// What was looked at, and what of it has no stack.
pub(crate) fn headline(reply: &Reply<OffCpuAnswer>) -> String {
    let (blocked, waited, unstacked) = reply.answer.sums();
    let whole = (blocked + waited).0.max(1) as f64;
    format!(
        "{}: {} off CPU, then {} of run delay; {} of both without a stack",
        input::looked_at(reply),
        input::figure(&reply.known, Need::SleepTime, blocked.readable()),
        input::figure(&reply.known, Need::WaitTime, waited.readable()),
        readable(unstacked.0 as f64 / whole, Unit::Fraction),
    )
}

/// The form that tools for flame graphs read. Its notes go to stderr.
fn folded(reply: &Reply<OffCpuAnswer>) -> anyhow::Result<ExitCode> {
    let mut out = crate::output::stdout();
    for stack in reply.answer.folded(&reply.state) {
        // A sleep of less is none for tools that read whole numbers.
        let micros = (stack.time.0 + 500) / 1_000;
        if micros > 0 {
            writeln!(out, "{} {micros}", stack.frames.join(";"))?;
        }
    }
    notes(reply)?;
    Ok(ExitCode::SUCCESS)
}

/// What a table would say around itself.
fn notes(reply: &Reply<OffCpuAnswer>) -> std::io::Result<()> {
    let mut err = crate::output::stderr();
    for warning in &reply.warnings {
        writeln!(err, "schedlab: {warning}")?;
    }
    writeln!(err, "schedlab: {}", headline(reply))
}

/// `schedlab trace stacks --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// Sleeps by command and stack, longest time first.
    stacks: Rows<'a, StackRow>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-stacks/1";
}
