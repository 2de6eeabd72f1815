//! `schedlab trace migrations`: how many, how far, by what; and chains of moves.

use super::input::{self, Head, Input, Machine, Selection};
use crate::json;
use crate::output::folded;
use schedlab_model::table::{One, Rows, TextTable};
use schedlab_model::{Distance, Need, Warning};
use schedlab_timeline::{
    ChainedHop, InReply, MOVED_BY, Migrations, MigrationsAnswer, Moves, Reply,
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
    /// Print at most N chains, longest first
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    #[command(flatten)]
    machine: Machine,
}

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
    let answer = &reply.answer;
    let hops = answer.hops();
    let moves = answer.moves();
    let hops = reply.rows(&hops);
    let all = Rows::new(&hops, reply.origin);
    let chains: Vec<&[Hop<'_>]> = hops.chunk_by(|a, b| a.row.0 == b.row.0).collect();
    let document = Document {
        head: Head::of(&reply),
        total: reply.known.of(Need::Migrations).map(|_| answer.total()),
        by: MOVED_BY
            .into_iter()
            .zip(&moves)
            .map(|(by, of)| (by, One::new(of, reply.origin, false).known(&reply.known)))
            .collect(),
        chains: chains.iter().map(|hops| Chain { hops: Rows::new(hops, reply.origin) }).collect(),
        chain_count: reply.known.of(Need::Episodes).map(|_| answer.chained),
    };
    let form = args.input.part.form;
    form.print(&reply.warnings, &document, &all, || {
        to_text(&reply, &moves, &chains, &about, form.room())
    })?;
    Ok(ExitCode::SUCCESS)
}

type Hop<'a> = InReply<'a, ChainedHop, MigrationsAnswer>;

/// `schedlab trace migrations --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// All migrations; `null` if the trace does not tell.
    total: Option<u64>,
    /// Migrations by what moved the task: `wakeup`, `fork`, `balance`, `asleep`, `running`, `affinity`.
    by: BTreeMap<&'static str, One<'a, Moves>>,
    /// Chains of moves, longest first.
    chains: Vec<Chain<'a>>,
    /// How many chains of two moves or more there are; `null` if the trace does not tell.
    chain_count: Option<u64>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-migrations/1";
}

/// A task displaces a task that displaces a task, and so on.
#[derive(Serialize, JsonSchema)]
struct Chain<'a> {
    hops: Rows<'a, Hop<'a>>,
}

fn to_text(
    reply: &Reply<MigrationsAnswer>,
    moves: &[Moves],
    chains: &[&[Hop<'_>]],
    about: &str,
    room: usize,
) -> String {
    let levels = Distance::ALL.iter().skip(1).map(|distance| distance.name());
    let mut table =
        TextTable::new(&["<moved by", "times"].into_iter().chain(levels).collect::<Vec<_>>());
    for (by, of) in MOVED_BY.into_iter().zip(moves) {
        let mut cells = vec![by.to_owned(), of.count.to_string()];
        cells.extend((1..Distance::ALL.len()).map(|at| {
            of.by_distance.map_or_else(|| "-".to_owned(), |counts| counts[at].to_string())
        }));
        table.row(cells);
    }
    let answer = &reply.answer;
    let mut text = format!(
        "{} migrations in {}{about}, {} chains of two moves or more\n\n{}",
        input::figure(&reply.known, Need::Migrations, answer.total()),
        input::looked_at(reply),
        input::figure(&reply.known, Need::Episodes, answer.chained),
        table.text(0, room)
    );
    if !answer.has_topology {
        text += "\ndistances are unknown: the trace does not hold the topology (see --topology)\n";
    }
    for hops in chains {
        let [first, .., last] = hops else { continue };
        let first = first.row.1.moved.at;
        let last = last.row.1.moved.at;
        let took = (last - first).readable();
        let at = input::at(reply.origin, first);
        let _ = writeln!(text, "\n{} moves in {took}, from {at}:", hops.len());
        for hop in *hops {
            text += &folded(&format!("    {}", hop.row.1.sentence(&reply.state)), 8, room);
        }
    }
    text
}
