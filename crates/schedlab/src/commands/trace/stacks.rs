//! `schedlab trace stacks`: time off the CPU by call stack.

use super::form;
use super::input::{self, Head, Input, Selection, Symbols};
use super::running;
use super::stack_form::{StackForm, folded_stacks, micros, notes};
use super::stack_times::{OfRequests, Side, of_requests, within};
use super::why::overview::Limits;
use crate::json;
use schedlab_model::table::Rows;
use schedlab_model::{Nanos, Need, Unit, Warning, readable};
use schedlab_timeline::{
    Causes, FoldedStack, OffCpuAnswer, OffCpuStacks, Question, Reply, RequestStacks, StackChange,
    StackRow, TaskId, stack_changes,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab trace stacks`.
#[derive(clap::Args)]
#[command(after_help = "\
A task is off the CPU from the switch after which it sleeps until it is woken. Then it waits for a
CPU (run delay). Both times go to the stack with which it went to sleep. A task that was displaced
did not go to sleep: its waits are in `schedlab trace latency`, and here with --causes. Then the
sum is all the time off the CPU.

Stacks come from `schedlab record --stacks user,kernel` (without WHOSE: the kernel's functions
alone), from `perf record -g -a -e sched:sched_switch,sched:sched_waking`, or from
`perf sched record -g`. Stacks of wakers come from `schedlab record --stacks user,kernel,waker`.

Examples:
  schedlab trace stacks x.dat --comm postgres
  schedlab trace stacks x.dat --causes                    why they then waited for a CPU
  schedlab trace stacks x.dat --mark request --slowest    what slow requests slept in
  schedlab trace stacks b.dat --minus a.dat               what changed from a.dat to b.dat
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
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    form: StackForm,
}

/// Which time is asked for, and how.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Which {
    /// Show the time on the CPU, from ticks with stacks (`schedlab record --stacks user,kernel,running`)
    #[arg(long, conflicts_with_all = ["wakers", "causes"])]
    pub(crate) running: bool,
    /// Show who ended each sleep too, with the waker's stack if the trace holds it
    #[arg(long)]
    wakers: bool,
    /// Divide waits for a CPU by cause, as `schedlab why` does, and count those of displaced tasks too
    #[arg(long)]
    causes: bool,
    #[command(flatten)]
    requests: OfRequests,
    /// Show how the time changed since FILE, another trace; times are those in a second of each trace
    #[arg(long, value_name = "FILE")]
    pub(crate) minus: Option<PathBuf>,
}

/// The time off the CPU of a trace.
pub(crate) struct OffCpu {
    pub(crate) reply: Reply<OffCpuAnswer>,
    /// How many requests are in it, and of how many.
    requests: Option<(usize, usize)>,
}

/// How they changed from one trace to another.
pub(crate) struct Changed {
    pub(crate) before: Side,
    pub(crate) after: Side,
    pub(crate) stacks: Vec<StackChange>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let input = args.input.clone().with_symbols(&args.symbols);
    if let Some(before) = &args.which.minus {
        return print_change(args, since(before, &input, &args.selection, &args.which)?);
    }
    if args.which.running {
        return running::print(&input, &args.selection, &args.which.requests, &args.form);
    }
    let off_cpu = ask(&input, &args.selection, &args.which)?;
    let reply = &off_cpu.reply;
    if args.form.write("off_cpu", || off_cpu.folded(), reply.observed.duration())? {
        notes(&reply.warnings, &off_cpu.headline())?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = reply.answer.by_name(&reply.state);
    let table = Rows::new(&rows, reply.origin).known(&reply.known);
    let document = Document { head: Head::of(reply), stacks: table };
    let form = args.input.part.form;
    let hidden = args.which.hidden();
    form.print(&reply.warnings, &document, &document.stacks, || {
        let mut table = document.stacks.text(form.room(), &hidden);
        table.first(args.form.top);
        format!("{}\n\n", off_cpu.headline())
            + &folded_stacks(&table.print(args.form.top), form.room())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The times of chosen tasks, by stack.
pub(crate) fn side(input: &Input, selection: &Selection, which: &Which) -> anyhow::Result<Side> {
    if which.running {
        return Ok(running::ask(input, selection, &which.requests)?.side());
    }
    let off_cpu = ask(input, selection, which)?;
    let headline = off_cpu.headline();
    let folded = off_cpu.folded();
    let tasks: Vec<TaskId> = off_cpu.reply.answer.rows.iter().map(|row| row.task).collect();
    Ok(Side::of(off_cpu.reply, tasks.into_iter(), headline, folded))
}

/// The time off the CPU of chosen tasks, by stack.
fn ask(input: &Input, selection: &Selection, which: &Which) -> anyhow::Result<OffCpu> {
    let OffCpu { mut reply, requests } = match &which.requests.mark {
        Some(name) => within_requests(input, selection, name, which)?,
        None => OffCpu { reply: of_all(input, selection, which)?, requests: None },
    };
    if !which.wakers {
        reply.answer = reply.answer.without_wakers();
    }
    let (blocked, waited, unstacked) = reply.answer.sums();
    if unstacked > Nanos::ZERO && unstacked == blocked + waited {
        let what = format!("{}: the trace holds no stacks", input.shown());
        let remedy =
            "record with `schedlab record --stacks user,kernel`, or `perf sched record -g`";
        reply.warnings.push(Warning::new("stacks-missing", what, remedy));
    }
    Ok(OffCpu { reply, requests })
}

/// The same, not only within requests.
fn of_all(
    input: &Input,
    selection: &Selection,
    which: &Which,
) -> anyhow::Result<Reply<OffCpuAnswer>> {
    let question = if which.wakers { OffCpuStacks::by_waker() } else { OffCpuStacks::default() };
    let mut reply = match which.causes {
        false => input.ask_with_stacks(|_| question)?,
        true => with_limits(input, |causes| question.with_causes(causes))?,
    };
    if selection.is_any() {
        reply.answer = reply.answer.only(&input.chosen(selection)?);
    }
    Ok(reply)
}

/// Asks with the causes of waits, for which the limits of groups must be known.
fn with_limits<Q: Question>(
    input: &Input,
    question: impl FnOnce(Causes) -> Q,
) -> anyhow::Result<Reply<Q::Answer>> {
    let limits = Limits::of(input)?;
    let mut reply = input.ask_with_stacks(|_| question(limits.each_cause()))?;
    reply.warnings.extend(limits.warnings(input));
    Ok(reply)
}

/// The same within the requests of a name.
fn within_requests(
    input: &Input,
    selection: &Selection,
    name: &str,
    which: &Which,
) -> anyhow::Result<OffCpu> {
    let chosen = input.chosen(selection)?;
    let question = RequestStacks::new(name, which.requests.slowest).about(chosen);
    let reply = match which.causes {
        false => input.ask_with_stacks(|_| question)?,
        true => with_limits(input, |causes| question.with_causes(causes))?,
    };
    let (reply, requests) = of_requests(input, name, reply)?;
    Ok(OffCpu { reply, requests: Some(requests) })
}

/// How the time changed since another trace.
pub(crate) fn since(
    before: &Path,
    input: &Input,
    selection: &Selection,
    which: &Which,
) -> anyhow::Result<Changed> {
    let after = side(input, selection, which)?;
    let input = Input { file: before.to_owned(), part: input.part.clone() };
    let before = side(&input, selection, which)?;
    let of = |side: &Side| side.observed.duration();
    let stacks = stack_changes(&before.folded, of(&before), &after.folded, of(&after));
    Ok(Changed { before, after, stacks })
}

impl Which {
    /// Columns about what was not asked for.
    fn hidden(&self) -> Vec<&'static str> {
        let wakers = ["woken_by", "waker_stack"].into_iter().filter(|_| !self.wakers);
        wakers.chain(["mostly", "mostly_ns"].into_iter().filter(|_| !self.causes)).collect()
    }
}

impl OffCpu {
    /// The stacks, outermost frame first.
    pub(crate) fn folded(&self) -> Vec<FoldedStack> {
        self.reply.answer.folded(&self.reply.state)
    }

    /// What was looked at, and what of it has no stack.
    pub(crate) fn headline(&self) -> String {
        let reply = &self.reply;
        let (blocked, waited, unstacked) = reply.answer.sums();
        let whole = (blocked + waited).0.max(1) as f64;
        let within = within(self.requests);
        let looked_at = input::looked_at(reply);
        let unstacked = readable(unstacked.0 as f64 / whole, Unit::Fraction);
        let asleep = input::figure(&reply.known, Need::SleepTime, blocked.readable());
        let wait = |time: Nanos| input::figure(&reply.known, Need::WaitTime, time.readable());
        if !reply.answer.by_cause {
            return format!(
                "{looked_at}: {asleep} off CPU{within}, then {} of run delay; {unstacked} of both without a stack",
                wait(waited)
            );
        }
        let all = wait(waited);
        let unslept = wait(reply.answer.unslept());
        format!(
            "{looked_at}: {asleep} blocked, {all} waiting for a CPU, {unslept} of it displaced or new; \
             {unstacked} of all without a stack"
        )
    }
}

impl Changed {
    /// What was looked at in each trace.
    pub(crate) fn headlines(&self) -> [String; 2] {
        let before = format!("before: {}", self.before.headline);
        [before, format!("after: {}", self.after.headline)]
    }
}

/// Prints how the time changed.
fn print_change(args: &Args, mut changed: Changed) -> anyhow::Result<ExitCode> {
    if args.form.folded {
        let mut out = crate::output::stdout();
        for stack in &changed.stacks {
            let before = micros(stack.before);
            let after = micros(stack.after);
            if before + after > 0 {
                writeln!(out, "{} {before} {after}", stack.frames.join(";"))?;
            }
        }
        notes(&changed.before.warnings, &changed.before.headline)?;
        notes(&changed.after.warnings, &changed.after.headline)?;
        return Ok(ExitCode::SUCCESS);
    }
    changed.stacks.sort_by_key(|stack| std::cmp::Reverse(stack.change_ns().unsigned_abs()));
    let headlines = changed.headlines();
    let Changed { before, after, stacks } = changed;
    let stacks = Rows::new(&stacks, after.origin);
    let document = ChangeDocument { before: before.head, after: after.head, stacks };
    let form = args.input.part.form;
    form.print(&[], &document, &document.stacks, || {
        let mut table = document.stacks.text(form.room(), &[]);
        table.first(args.form.top);
        format!("{}\n\n", headlines.join("\n"))
            + &folded_stacks(&table.print(args.form.top), form.room())
    })?;
    if !form.json {
        form::print_named_notes("before", &before.warnings);
        form::print_named_notes("after", &after.warnings);
    }
    Ok(ExitCode::SUCCESS)
}

/// `schedlab trace stacks --minus --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChangeDocument<'a> {
    /// The part of the trace that `--minus` names.
    before: Head,
    /// The part of the other trace.
    after: Head,
    /// Stacks, the largest change first.
    stacks: Rows<'a, StackChange>,
}

impl json::Document for ChangeDocument<'_> {
    const ID: &'static str = "schedlab/trace-stacks-change/1";
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
