//! `schedlab trace migrations`: how many, how far, by what; and chains of moves.

use super::columns;
use super::input::{self, Head, Input, Machine, Named, Selection};
use super::table::Table;
use crate::json;
use schedlab_model::{Cpu, Distance, Nanos, Pid, Warning};
use schedlab_timeline::{Hop, Migrations, MigrationsAnswer, Reply, WHENS, When};
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
    /// Print at most N chains, longest first
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
            "the cause of {} moves is unknown: the trace holds no sched_migrate_task, but tasks \
             ran on another CPU than before",
            reply.answer.untold
        );
        let remedy =
            "record sched_migrate_task as well; `schedlab trace tasks` counts these by task";
        reply.warnings.push(Warning::new("no-migrations", what, remedy));
    }
    let document = Document::of(&reply);
    columns::print(&args.input.part, &reply.warnings, &document, |document| {
        to_text(document, &(input::looked_at(&reply) + &about), reply.origin)
    })?;
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
    /// What happened, in a sentence.
    said: String,
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

    /// The counts in the order of [`Distance::ALL`].
    const fn counts(&self) -> [u64; Distance::ALL.len()] {
        let Self { same_cpu, same_core, same_llc, same_node, same_socket, other_socket } = *self;
        [same_cpu, same_core, same_llc, same_node, same_socket, other_socket]
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
            said: hop.sentence(state),
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

fn to_text(document: &Document, looked_at: &str, origin: Nanos) -> String {
    let heads: Vec<&str> = ["<moved by", "times"]
        .into_iter()
        .chain(Distance::ALL.iter().skip(1).map(|distance| distance.name()))
        .collect();
    let mut table = Table::new(&heads);
    let mut has_topology = false;
    for name in WHENS.map(When::name) {
        let Some(Moves { count, by_distance }) = document.by.get(name) else { continue };
        has_topology |= by_distance.is_some();
        let counts = by_distance.as_ref().map(Distances::counts);
        let mut cells = vec![name.to_owned(), count.to_string()];
        cells.extend((1..Distance::ALL.len()).map(|distance| {
            counts.map_or_else(|| "-".to_owned(), |counts| counts[distance].to_string())
        }));
        table.row(cells);
    }
    let Document { total, chain_count, .. } = document;
    let mut text = format!(
        "{total} migrations in {looked_at}, {chain_count} chains of two moves or more\n\n{}",
        table.text(0)
    );
    if !has_topology {
        text += "\ndistances are unknown: the trace does not hold the topology (see --topology)\n";
    }
    for Chain { hops } in &document.chains {
        let [first, .., last] = &hops[..] else { continue };
        let (took, at) = (last.at_ns - first.at_ns, input::at(origin, origin + first.at_ns));
        let _ = writeln!(text, "\n{} moves in {took}, from {at}:", hops.len());
        for hop in hops {
            let _ = writeln!(text, "    {}", hop.said);
        }
    }
    text
}
