//! `schedlab trace locality`: who wakes whom, how far wakeups carry tasks, who runs away from home.

use super::columns;
use super::input::{self, Head, Input, Machine, Selection};
use super::migrations::Distances;
use super::table::{Table, percent};
use crate::json;
use schedlab_model::{Distance, Nanos, Pid};
use schedlab_timeline::{Locality, LocalityAnswer, LocalityRow, Reply, Woken};
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

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let topology = args.machine.topology()?;
    let chosen = args.input.chosen(&args.selection)?;
    let about = input::of_chosen(&chosen);
    let reply = args
        .input
        .ask(|info| Locality::new(topology.or_else(|| info.topology.clone())).about(chosen))?;
    let document = Document::of(&reply);
    columns::print(&args.input.part, &reply.warnings, &document, |_| {
        to_text(&reply, args.top, &about)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab trace locality --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    #[serde(flatten)]
    head: Head,
    /// Whether the topology is known; without it there are counts, but no distances.
    topology: bool,
    /// Who woke whom, by name.
    matrix: Vec<Pair>,
    /// Each task that was woken or ran.
    tasks: Vec<TaskPlaces>,
    /// All wakeups.
    total: Wakeups,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/trace-locality/1";
}

impl columns::Answer for Document {
    type Row = TaskPlaces;

    fn rows(&self) -> Vec<&TaskPlaces> {
        self.tasks.iter().collect()
    }
}

#[derive(Serialize, JsonSchema)]
struct Pair {
    /// `null`: an interrupt.
    waker: Option<String>,
    wakee: String,
    wakeups: Wakeups,
}

/// Where a task was woken and ran.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TaskPlaces {
    /// The task (thread).
    pid: Pid,
    /// Its name at the end.
    comm: String,
    /// Wakeups of this task.
    wakeups: Wakeups,
    /// The NUMA node on which it ran longest.
    home_node: Option<u32>,
    /// Run time on that node.
    home_ns: Nanos,
    /// Run time on other nodes.
    away_ns: Nanos,
}

/// Wakeups, and how far they carried tasks.
#[derive(Serialize, JsonSchema)]
struct Wakeups {
    /// How many.
    count: u64,
    #[serde(flatten)]
    far: Option<Far>,
}

/// How far wakeups carried tasks.
#[derive(Serialize, JsonSchema)]
struct Far {
    /// By what the CPU shares with the one on which the task ran before.
    from_previous: Distances,
    /// By what the CPU shares with the waker's.
    from_waker: Distances,
    /// Those after which the task ran in another LLC than before.
    left_llc: u64,
    /// Those after which it ran on another node.
    left_node: u64,
    /// Those after which it ran on another socket.
    left_socket: u64,
}

impl Wakeups {
    fn of(woken: &Woken, has_topology: bool) -> Self {
        let far = has_topology.then(|| Far {
            from_previous: Distances::of(woken.from_previous),
            from_waker: Distances::of(woken.from_waker),
            left_llc: woken.left(Distance::Llc),
            left_node: woken.left(Distance::Node),
            left_socket: woken.left(Distance::Socket),
        });
        Self { count: woken.count, far }
    }
}

impl Document {
    fn of(reply: &Reply<LocalityAnswer>) -> Self {
        let answer = &reply.answer;
        let wakeups = |woken: &Woken| Wakeups::of(woken, answer.has_topology);
        let pair = |(waker, wakee, woken): &(Option<String>, String, Woken)| Pair {
            waker: waker.clone(),
            wakee: wakee.clone(),
            wakeups: wakeups(woken),
        };
        let task = |row: &LocalityRow| TaskPlaces {
            pid: row.pid,
            comm: row.comm.clone(),
            wakeups: wakeups(&row.woken),
            home_node: row.home,
            home_ns: row.at_home,
            away_ns: row.away,
        };
        Self {
            head: Head::of(reply),
            topology: answer.has_topology,
            matrix: answer.matrix.iter().map(pair).collect(),
            tasks: answer.tasks.iter().map(task).collect(),
            total: wakeups(&answer.total),
        }
    }
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
        text += "distances are unknown: the trace does not hold the topology (see --topology)\n";
    }
    text + "\n" + &matrix.text(top) + "\n" + &tasks.text(top)
}
