//! `schedlab trace migrations`: how many, how far, by what; and chains of moves.

use super::input::{self, Input, Machine, Selection};
use super::table::Table;
use schedlab_model::{Distance, Warning};
use schedlab_timeline::{
    Hop, Migrations, MigrationsAnswer, Reply, State, WHENS, When, chain_duration,
};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Options of `schedlab trace migrations`.
#[derive(clap::Args)]
#[command(after_help = "\
A move is told by what brought it about: a wakeup that chose another CPU, a fork, or the balancing of a
task that waited. A chain: a move takes a task away from a CPU whose new task came there by the move
before, and so took its place. --pid, --comm and --regex choose whose moves are counted, and the chains
that move one of them.")]
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
    if args.input.part.json {
        input::print_json(to_json(&reply))?;
    } else {
        input::print_text(&to_text(&reply, &about))?;
        input::print_notes(&reply.warnings);
    }
    Ok(ExitCode::SUCCESS)
}

fn hop_json(hop: &Hop, reply: &Reply<MigrationsAnswer>) -> Value {
    let state = &reply.state;
    let moved = &hop.moved;
    json!({
        "at_ns": moved.at - reply.origin,
        "pid": state.task(moved.task).pid,
        "comm": state.name(moved.task),
        "from": moved.from,
        "to": moved.to,
        "by": moved.when.name(),
        "by_cpu": moved.by_cpu,
        "displaced_pid": hop.displaced.map(|task| state.task(task).pid),
    })
}

fn to_json(reply: &Reply<MigrationsAnswer>) -> Value {
    let answer = &reply.answer;
    let mut object = input::head("migrations", reply);
    object.insert("total".into(), json!(answer.total()));
    let by: serde_json::Map<String, Value> = WHENS
        .iter()
        .zip(answer.totals.iter().zip(&answer.counts))
        .map(|(when, (total, counts))| {
            let by_distance = if answer.has_topology { distances(counts) } else { Value::Null };
            (when.name().to_owned(), json!({ "count": total, "by_distance": by_distance }))
        })
        .collect();
    object.insert("by".into(), by.into());
    let chain = |hops: &Vec<Hop>| {
        let hops: Vec<Value> = hops.iter().map(|hop| hop_json(hop, reply)).collect();
        json!({ "hops": hops })
    };
    object.insert("chains".into(), answer.chains.iter().map(chain).collect());
    object.insert("chain_count".into(), json!(answer.chained));
    object.into()
}

/// Counts by distance, by the names that people say.
pub(crate) fn distances(counts: &[u64; Distance::ALL.len()]) -> Value {
    let named = Distance::ALL.into_iter().zip(counts);
    let named = named.map(|(distance, count)| (distance.name().replace(' ', "_"), json!(count)));
    Value::Object(named.collect())
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
        let at = hops.first().map_or(reply.origin, |hop| hop.moved.at) - reply.origin;
        let took = chain_duration(hops);
        let _ = writeln!(text, "\n{} moves in {took}, from {at}:", hops.len());
        for hop in hops {
            let _ = writeln!(text, "    {}", told(hop, &reply.state));
        }
    }
    text
}
