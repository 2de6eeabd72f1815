//! `schedlab trace conservation`: the episodes in which CPU time was lost while tasks waited, and why.

use super::episode;
use super::input::{self, Head, Input, Selection};
use crate::json;
use crate::output::folded;
use schedlab_model::table::{Rows, TextTable};
use schedlab_model::{Known, Nanos, Need, Unit, readable};
use schedlab_timeline::{
    Cause, Conservation, ConservationAnswer, ConservationOptions, Episode, InReply, Reply,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Options of `schedlab trace conservation`.
#[derive(clap::Args)]
#[command(after_help = "\
CPU time is lost while a CPU is free and a task that may use that CPU waits on another one.
An episode is a stretch of time in which one queue has such a waiter. Its cost is its part of the
lost CPU time. A CPU is free if it idles, no task waits there, and no wakeup is on its way to it.

\"seen\" comes from events, \"inferred\" does not. A cause that no event shows is 'unexplained'.
Per-CPU kernel threads that wait are in no episode; they are summed apart.
--pid, --comm and --regex choose whose waits make episodes.

The definitions of other tools ignore affinity and cover the whole machine:
  schedviz  wall: some CPU idle, some overloaded; cpu and thread: the lesser of both, integrated
  systing   wall: some CPU with two runnable tasks while another is idle, hand-overs included")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Leave out episodes shorter than this
    #[arg(long, value_name = "TIME", default_value = "0")]
    min: Nanos,
    /// Join episodes of a queue if the gap between them is at most this
    #[arg(long, value_name = "TIME", default_value = "100us")]
    gap: Nanos,
    /// Sum by this definition
    #[arg(long, value_enum, default_value_t = Definition::Schedlab)]
    definition: Definition,
    #[command(flatten)]
    selection: Selection,
    /// Print at most N rows, costliest first; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Keep at most N episodes, costliest first; the sums count all
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    keep: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Definition {
    /// CPU time that was lost, with affinity
    Schedlab,
    /// Wall time with an idle and an overloaded CPU
    Schedviz,
    /// Wall time with a queue of two while another CPU is idle
    Systing,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = ConservationOptions { min: args.min, gap: args.gap, limit: args.keep };
    let chosen = args.input.chosen(&args.selection)?;
    let about = input::of_chosen(&chosen);
    let reply = args.input.ask(|info| Conservation::new(options, info).about(chosen))?;
    let episodes = reply.rows(&reply.answer.episodes);
    let document = Document::of(
        &reply,
        Rows::new(&episodes, reply.origin).known(&reply.known),
        args.definition,
    );
    let form = args.input.part.form;
    form.print(&reply.warnings, &document, &document.episodes, || {
        to_text(&document, args, &(input::looked_at(&reply) + &about))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn total(answer: &ConservationAnswer, definition: Definition) -> Nanos {
    match definition {
        Definition::Schedlab => answer.total,
        Definition::Schedviz => answer.sums.schedviz_wall,
        Definition::Systing => answer.sums.systing,
    }
}

/// `schedlab trace conservation --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// The costliest episodes, costliest first.
    episodes: Rows<'a, InReply<'a, Episode, ConservationAnswer>>,
    /// How many episodes there are; `null`, as the figures below, if the trace does not tell.
    count: Option<u64>,
    /// The sum by the definition that was chosen.
    total_ns: Option<Nanos>,
    /// Time that tasks waited in the episodes, summed over tasks.
    waited_ns: Option<Nanos>,
    /// CPU time that was lost on the whole machine.
    lost: Option<LostFigures>,
    /// Episodes by cause.
    by_cause: Option<BTreeMap<&'static str, CauseFigures>>,
    /// Of the episodes' cost, the part in which a per-CPU kernel thread ran instead.
    by_kernel_threads_ns: Option<Nanos>,
    /// How long per-CPU kernel threads themselves waited; no episode.
    bound_threads_ns: Option<Nanos>,
    /// The sums of other tools' definitions.
    definitions: Option<Definitions>,
    /// How exact the sums are.
    #[serde(skip)]
    known: Known,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-conservation/1";
}

/// CPU time that was lost while tasks waited, by maximum matching of tasks and idle CPUs.
#[derive(Serialize, JsonSchema)]
struct LostFigures {
    cpu_ns: Nanos,
    /// Less is not possible, for any affinity of tasks whose affinity is unknown.
    cpu_ns_low: Nanos,
    /// More is not possible, for any state of the CPUs that are unknown.
    cpu_ns_high: Nanos,
    /// The same of whole idle cores; `null` if the topology is not known.
    core_ns: Option<Nanos>,
    /// Whether the affinity of all tasks is known.
    affinity_known: bool,
}

#[derive(Serialize, JsonSchema)]
struct CauseFigures {
    count: u64,
    /// CPU time that was lost.
    total_ns: Nanos,
}

/// Sums of other tools' definitions.
#[derive(Serialize, JsonSchema)]
struct Definitions {
    schedviz_wall_ns: Nanos,
    schedviz_cpu_ns: Nanos,
    schedviz_thread_ns: Nanos,
    systing_wall_ns: Nanos,
}

impl<'a> Document<'a> {
    fn of(
        reply: &Reply<ConservationAnswer>,
        episodes: Rows<'a, InReply<'a, Episode, ConservationAnswer>>,
        definition: Definition,
    ) -> Self {
        let answer = &reply.answer;
        let by_cause = Cause::ALL.into_iter().zip(answer.by_cause);
        let lost = &answer.lost;
        let sums = &answer.sums;
        let known = reply.known;
        let time = |time: Nanos| known.of(Need::LostTime).map(|_| time);
        let exactly = known.of(Need::Episodes).is_some();
        Self {
            head: Head::of(reply),
            episodes,
            count: exactly.then_some(answer.count),
            total_ns: time(total(answer, definition)),
            waited_ns: time(answer.waited),
            lost: known.of(Need::LostTime).map(|_| LostFigures {
                cpu_ns: lost.cpus,
                cpu_ns_low: lost.low,
                cpu_ns_high: lost.high,
                core_ns: lost.cores,
                affinity_known: lost.affinity_known,
            }),
            by_cause: exactly.then(|| {
                let figures = |(count, total_ns)| CauseFigures { count, total_ns };
                by_cause.map(|(cause, of)| (cause.name(), figures(of))).collect()
            }),
            by_kernel_threads_ns: exactly.then_some(answer.by_kernel_threads),
            bound_threads_ns: time(answer.bound_threads),
            definitions: known.of(Need::LostTime).map(|_| Definitions {
                schedviz_wall_ns: sums.schedviz_wall,
                schedviz_cpu_ns: sums.schedviz_cpu,
                schedviz_thread_ns: sums.schedviz_thread,
                systing_wall_ns: sums.systing,
            }),
            known,
        }
    }
}

/// The sum in words; up to where it was looked for.
fn summed(document: &Document<'_>, definition: Definition) -> String {
    let sum = |time: Option<Nanos>| {
        input::figure(&document.known, Need::LostTime, time.unwrap_or_default().readable())
    };
    let total = sum(document.total_ns);
    let waited = sum(document.waited_ns);
    let count = document.count.map_or_else(|| "an unknown number of".to_owned(), |n| n.to_string());
    let plural = if document.count == Some(1) { "" } else { "s" };
    match definition {
        Definition::Schedlab if document.count == Some(0) => {
            "No work-conservation violations in ".to_owned()
        }
        Definition::Schedlab => format!(
            "{total} of CPU time lost in {count} episode{plural}, in which tasks waited {waited}; in "
        ),
        Definition::Schedviz => {
            format!("{total} in which a CPU was idle while another was overloaded (SchedViz); in ")
        }
        Definition::Systing => {
            format!(
                "{total} in which a CPU was idle while another had two runnable tasks (systing); in "
            )
        }
    }
}

/// CPU time that was lost on the whole machine, as an interval where not all is known.
fn lost(figures: &LostFigures) -> String {
    let LostFigures { cpu_ns, cpu_ns_low: low, cpu_ns_high: high, core_ns, .. } = figures;
    let cores =
        core_ns.map_or(String::new(), |cores| format!("; {} of whole cores", cores.readable()));
    let unknown = (low < cpu_ns, cpu_ns < high);
    let low = low.readable();
    let high = high.readable();
    let why = match unknown {
        (false, false) => String::new(),
        (true, false) => format!(", at least {low}: some tasks may have been pinned"),
        (false, true) => format!(", at most {high}: some CPUs are not known for a time"),
        (true, true) => {
            format!(", between {low} and {high}: affinity and what some CPUs did are not all known")
        }
    };
    format!("CPU time lost on the whole machine: {}{cores}{why}\n", cpu_ns.readable())
}

fn to_text(document: &Document<'_>, args: &Args, looked_at: &str) -> String {
    let room = args.input.part.form.room();
    let mut text = format!("{}{looked_at}\n", summed(document, args.definition));
    if args.definition != Definition::Schedlab {
        text += "this definition ignores affinity, so it includes pinned tasks that waited\n";
    }
    text += &document.lost.as_ref().map_or_else(String::new, lost);
    if document.head.is_lower_bound() {
        text += "events are missing (see the notes), so some waits are not seen: this may be too little\n";
    }
    if let Some(by_cause) = document.by_cause.as_ref().filter(|_| document.count > Some(0)) {
        let _ = write!(text, "\n{}", causes(by_cause, room));
    }
    if let Some(sums) = &document.definitions {
        text += &others(document, sums);
    }
    let episodes = document.episodes.rows();
    let shown = if args.top == 0 { episodes.len() } else { args.top };
    for one in episodes.iter().take(shown) {
        text += &folded(&episode::to_text(one), 6, room);
    }
    if episodes.len() > shown {
        let more = document.count.unwrap_or(episodes.len() as u64) - shown as u64;
        let _ = writeln!(text, "... and {more} cheaper ones (--top 0 shows all that were kept)");
    }
    text
}

/// What other definitions say, and what per-CPU kernel threads have to do with it.
fn others(document: &Document<'_>, sums: &Definitions) -> String {
    let sum = |time: Option<Nanos>| time.map_or_else(|| "unknown".to_owned(), Nanos::readable);
    format!(
        "\nlost in episodes that began with a per-CPU kernel thread: {}\n\
         per-CPU kernel threads themselves waited: {} (in no episode)\n\
         schedviz: {} wall, {} of CPUs, {} of threads\n\
         systing: {} wall\n\n",
        sum(document.by_kernel_threads_ns),
        sum(document.bound_threads_ns),
        sums.schedviz_wall_ns.readable(),
        sums.schedviz_cpu_ns.readable(),
        sums.schedviz_thread_ns.readable(),
        sums.systing_wall_ns.readable()
    )
}

/// How many episodes each cause has, and its share of the cost of all.
fn causes(by_cause: &BTreeMap<&'static str, CauseFigures>, room: usize) -> String {
    let mut causes = TextTable::new(&["<cause", "episodes", "lost", "share"]);
    let all = Nanos(by_cause.values().map(|cause| cause.total_ns.0).sum());
    for name in Cause::ALL.map(Cause::name) {
        let Some(CauseFigures { count, total_ns }) = by_cause.get(name) else { continue };
        if *count > 0 {
            let share = readable(total_ns.0 as f64 / all.0 as f64, Unit::Fraction);
            causes.row(vec![name.replace('_', " "), count.to_string(), total_ns.readable(), share]);
        }
    }
    causes.text(0, room)
}
