//! `schedlab trace migrations`: how many, how far, by what; and chains of moves.

use super::columns;
use super::input::{self, Head, Input, Machine, Named, Selection};
use super::table::Table;
use crate::json;
use schedlab_model::{Cpu, Distance, Nanos, Pid, Warning};
use schedlab_timeline::{
    Hop, Migrations, MigrationsAnswer, Reply, State, WHENS, When, chain_duration,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Options of `schedlab trace migrations`.
#[derive(clap::Args)]
#[command(after_help = "\
The cause of a move is a wakeup that chose another CPU, a fork, or the balancing of a task that
waited. In a chain, each move takes a task from a CPU to which the move before brought another.
--pid, --comm and --regex choose whose moves are counted, and the chains that move one of them.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    selection: Selection,
    /// Chains to print, longest first
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    #[command(flatten)]
    machine: Machine,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let topology = args.machine.topology()?;
    let chosen = args.input.chosen(&args.selection)?;
    let about = input::of_chosen(&chosen);
    let mut reply = args.input.ask(|info| {
        Migrations::new(topology.or_else(|| info.topology.clone()), args.top).about(chosen)
    })?;
    if reply.answer.untold > 0 {
        let what = format!(
            "the trace holds no sched_migrate_task, but {} times a task ran on another CPU than before: by what \
             it was moved is not known",
            reply.answer.untold
        );
        let remedy =
            "record sched_migrate_task as well; `schedlab trace tasks` counts these by task";
        reply.warnings.push(Warning::new("no-migrations", what, remedy));
    }
    let document = Document::of(&reply);
    columns::print(&args.input.part, &reply.warnings, &document, |_| to_text(&reply, &about))?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab trace migrations --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    #[serde(flatten)]
    head: Head,
    /// All migrations.
    total: u64,
    /// Migrations by what moved the task: `wakeup`, `fork`, `balance`, `asleep`, `running`.
    by: BTreeMap<&'static str, Moves>,
    /// Chains of moves, longest first.
    chains: Vec<Chain>,
    /// How many chains of two moves or more there are.
    chain_count: u64,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/trace-migrations/1";
}

impl columns::Answer for Document {
    type Row = Move;

    fn rows(&self) -> Vec<&Move> {
        self.chains.iter().flat_map(|chain| &chain.hops).collect()
    }
}

#[derive(Serialize, JsonSchema)]
struct Moves {
    count: u64,
    /// By what both CPUs share; `null` if the topology is not known.
    by_distance: Option<Distances>,
}

/// A task displaces a task that displaces a task, and so on.
#[derive(Serialize, JsonSchema)]
struct Chain {
    hops: Vec<Move>,
}

/// A move of a task, in a chain of moves.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Move {
    /// The chain, from 0: the longest.
    chain: usize,
    /// When it moved.
    at_ns: Nanos,
    #[serde(flatten)]
    task: Named,
    /// The CPU that it left.
    from: Cpu,
    /// The CPU to which it moved.
    to: Cpu,
    /// What moved it: `wakeup`, `fork`, `balance`, `asleep` or `running`.
    by: &'static str,
    /// The CPU that moved it.
    by_cpu: Cpu,
    /// The task that had to give way.
    displaced_pid: Option<Pid>,
}

/// Counts by the nearest level that two CPUs share.
#[derive(Serialize, JsonSchema)]
pub(super) struct Distances {
    /// Those on the same CPU.
    #[serde(rename = "same_CPU")]
    same_cpu: u64,
    /// Those between CPUs of one core.
    same_core: u64,
    /// Those between cores of one LLC.
    #[serde(rename = "same_LLC")]
    same_llc: u64,
    /// Those between LLCs of one node.
    same_node: u64,
    /// Those between nodes of one socket.
    same_socket: u64,
    /// Those between sockets.
    other_socket: u64,
}

impl Distances {
    /// Of counts in the order of [`Distance::ALL`].
    pub(super) const fn of(counts: [u64; Distance::ALL.len()]) -> Self {
        let [same_cpu, same_core, same_llc, same_node, same_socket, other_socket] = counts;
        Self { same_cpu, same_core, same_llc, same_node, same_socket, other_socket }
    }
}

impl Move {
    fn of(chain: usize, hop: &Hop, reply: &Reply<MigrationsAnswer>) -> Self {
        let state = &reply.state;
        let moved = &hop.moved;
        Self {
            chain,
            at_ns: moved.at - reply.origin,
            task: Named::of(moved.task, state),
            from: moved.from,
            to: moved.to,
            by: moved.when.name(),
            by_cpu: moved.by_cpu,
            displaced_pid: hop.displaced.map(|task| state.task(task).pid),
        }
    }
}

impl Document {
    fn of(reply: &Reply<MigrationsAnswer>) -> Self {
        let answer = &reply.answer;
        let by = WHENS.iter().zip(answer.totals.iter().zip(answer.counts)).map(
            |(when, (count, counts))| {
                let by_distance = answer.has_topology.then(|| Distances::of(counts));
                (when.name(), Moves { count: *count, by_distance })
            },
        );
        let chain = |(at, hops): (usize, &Vec<Hop>)| Chain {
            hops: hops.iter().map(|hop| Move::of(at, hop, reply)).collect(),
        };
        Self {
            head: Head::of(reply),
            total: answer.total(),
            by: by.collect(),
            chains: answer.chains.iter().enumerate().map(chain).collect(),
            chain_count: answer.chained,
        }
    }
}

fn told(hop: &Hop, state: &State) -> String {
    let moved = &hop.moved;
    let name = |task| format!("{} ({})", state.name(task), state.task(task).pid);
    let how = match moved.when {
        When::Waking if moved.by.is_some() => format!("woken by {}", name(moved.by)),
        When::Waking => format!("woken from CPU {}", moved.by_cpu),
        When::Fork => "placed at its fork".to_owned(),
        When::Waiting => format!("balanced by CPU {}", moved.by_cpu),
        When::Asleep => "moved in its sleep".to_owned(),
        When::Running => "moved while it ran".to_owned(),
    };
    let displaced = hop.displaced.map(|task| format!(", displaced {}", name(task)));
    let displaced = displaced.unwrap_or_default();
    format!("{}: {} -> {}, {how}{displaced}", name(moved.task), moved.from, moved.to)
}

fn to_text(reply: &Reply<MigrationsAnswer>, about: &str) -> String {
    let answer = &reply.answer;
    let heads: Vec<&str> = ["<moved by", "times"]
        .into_iter()
        .chain(Distance::ALL.iter().skip(1).map(|distance| distance.name()))
        .collect();
    let mut table = Table::new(&heads);
    for (when, (total, counts)) in WHENS.iter().zip(answer.totals.iter().zip(&answer.counts)) {
        let mut cells = vec![when.name().to_owned(), total.to_string()];
        cells.extend(counts.iter().skip(1).map(|count| match answer.has_topology {
            true => count.to_string(),
            false => "-".to_owned(),
        }));
        table.row(cells);
    }
    let mut text = format!(
        "{} migrations in {}{about}, {} chains of two moves or more\n\n{}",
        answer.total(),
        input::looked_at(reply),
        answer.chained,
        table.text(0)
    );
    if !answer.has_topology {
        text +=
            "\ndistances are not known: the trace does not tell the topology (see --topology)\n";
    }
    for hops in &answer.chains {
        let at = hops.first().map_or(reply.origin, |hop| hop.moved.at);
        let at = input::at(reply.origin, at);
        let took = chain_duration(hops);
        let _ = writeln!(text, "\n{} moves in {took}, from {at}:", hops.len());
        for hop in hops {
            let _ = writeln!(text, "    {}", told(hop, &reply.state));
        }
    }
    text
}
