//! `schedlab trace locality`: who wakes whom, how far wakeups carry tasks, who runs away from home.

use super::input::{self, Input, Machine, Selection};
use super::migrations::distances;
use super::table::{Table, percent};
use schedlab_model::Distance;
use schedlab_timeline::{Locality, LocalityAnswer, LocalityRow, Reply, Woken};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Options of `schedlab trace locality`.
#[derive(clap::Args)]
#[command(after_help = "\
A wakeup counts when the woken task runs, by the distance from where it ran before to where it runs then.
The home of a task is the NUMA node on which it ran longest in this trace.
--pid, --comm and --regex choose whose wakeups are counted: by them and of them.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    selection: Selection,
    /// Rows of each table; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    #[command(flatten)]
    machine: Machine,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let topology = args.machine.topology()?;
    let chosen = args.input.chosen(&args.selection)?;
    let about = input::of_chosen(&chosen);
    let reply = args
        .input
        .ask(|info| Locality::new(topology.or_else(|| info.topology.clone())).about(chosen))?;
    if args.input.part.json {
        input::print_json(to_json(&reply))?;
    } else {
        input::print_text(&to_text(&reply, args.top, &about))?;
        input::print_notes(&reply.warnings);
    }
    Ok(ExitCode::SUCCESS)
}

fn woken_json(woken: &Woken, has_topology: bool) -> Value {
    if !has_topology {
        return json!({ "count": woken.count });
    }
    json!({
        "count": woken.count,
        "from_previous": distances(&woken.from_previous),
        "from_waker": distances(&woken.from_waker),
        "left_llc": woken.left(Distance::Llc),
        "left_node": woken.left(Distance::Node),
        "left_socket": woken.left(Distance::Socket),
    })
}

fn to_json(reply: &Reply<LocalityAnswer>) -> Value {
    let answer = &reply.answer;
    let mut object = input::head("locality", reply);
    let matrix = answer.matrix.iter().map(|(waker, wakee, woken)| {
        json!({
            "waker": waker,
            "wakee": wakee,
            "wakeups": woken_json(woken, answer.has_topology),
        })
    });
    let row = |row: &LocalityRow| {
        json!({
            "pid": row.pid,
            "comm": row.comm,
            "wakeups": woken_json(&row.woken, answer.has_topology),
            "home_node": row.home,
            "home_ns": row.at_home,
            "away_ns": row.away,
        })
    };
    object.insert("topology".into(), json!(answer.has_topology));
    object.insert("matrix".into(), matrix.collect());
    object.insert("tasks".into(), answer.tasks.iter().map(row).collect());
    object.insert("total".into(), woken_json(&answer.total, answer.has_topology));
    object.into()
}

fn to_text(reply: &Reply<LocalityAnswer>, top: usize, about: &str) -> String {
    let answer = &reply.answer;
    let part = |count: u64, woken: &Woken| match answer.has_topology && woken.count > 0 {
        true => format!("{count} ({})", percent(Some(count as f64 / woken.count as f64))),
        false => "-".to_owned(),
    };
    let far = |woken: &Woken| {
        [Distance::Llc, Distance::Node, Distance::Socket]
            .map(|level| part(woken.left(level), woken))
    };
    let mut matrix =
        Table::new(&["<waker", "<wakes", "times", "left LLC", "1?left node", "2?left socket"]);
    for (waker, wakee, woken) in &answer.matrix {
        let waker = waker.clone().unwrap_or_else(|| "(interrupt)".to_owned());
        let mut cells = vec![waker, wakee.clone(), woken.count.to_string()];
        cells.extend(far(woken));
        matrix.row(cells);
    }
    let mut tasks = Table::new(&[
        "pid",
        "<comm",
        "wakeups",
        "left LLC",
        "1?left node",
        "2?left socket",
        "3?home",
        "at home",
        "away",
    ]);
    for row in &answer.tasks {
        let mut cells = vec![row.pid.to_string(), row.comm.clone(), row.woken.count.to_string()];
        cells.extend(far(&row.woken));
        cells.push(row.home.map_or_else(|| "-".to_owned(), |node| format!("node {node}")));
        cells.extend([row.at_home.to_string(), row.away.to_string()]);
        tasks.row(cells);
    }
    let mut text =
        format!("{} wakeups in {}{about}\n", answer.total.count, input::looked_at(reply));
    if !answer.has_topology {
        text += "distances are not known: the trace does not tell the topology (see --topology)\n";
    }
    text + "\n" + &matrix.text(top) + "\n" + &tasks.text(top)
}
