//! The subcommands of `schedlab slow`, of which most are about processes and sessions that run already.

use super::{Slowing, failure, from_options, is_speed, note, placed, session};
use crate::commands::UsageError;
use crate::commands::trace::form::print_text;
use crate::json;
use crate::output::folded;
use schedlab_host::slow::{
    Found, Node, Order, OthersSession, Speed, Status, Target, ask, sessions, sessions_of_others,
};
use schedlab_model::Pid;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// What is done with what runs.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Slow running processes until Ctrl-C; until then they run only on the chosen CPUs
    #[command(after_help = "\
Examples:
  schedlab slow attach 40% unit:nginx           a unit of systemd; schedlab chooses the CPU
  schedlab slow attach 40% container:4f5e       a container, by the start of its ID
  schedlab slow attach --cpu 1=40% postgres     all processes with that name, with children
  schedlab slow attach --cpu 1=40% 1234         a process, with its children")]
    Attach {
        #[command(flatten)]
        how: Box<Slowing>,
        /// A speed such as 40% unless --cpu gives one; unit:NAME, container:ID, a name, or a pid
        #[arg(value_name = "SPEED|TARGET")]
        what: Vec<String>,
        /// A process with its children
        #[arg(long, value_name = "PID")]
        pid: Vec<i32>,
        /// All processes of the control group in DIR
        #[arg(long, value_name = "DIR")]
        cgroup: Option<PathBuf>,
    },
    /// Change the speed of a node of a running session
    Set {
        /// A node and its new speed, as in small=40% (without a file of nodes, the node is `all`)
        #[arg(value_name = "NODE=SPEED")]
        node: String,
        #[command(flatten)]
        which: Which,
    },
    /// Let a node fail: its tasks stop
    Fail {
        /// The node
        node: String,
        #[command(flatten)]
        which: Which,
    },
    /// Let a failed node recover
    Recover {
        /// The node
        node: String,
        #[command(flatten)]
        which: Which,
    },
    /// Cut the link of two nodes
    Cut {
        /// The first node
        a: String,
        /// The second node
        b: String,
        #[command(flatten)]
        which: Which,
    },
    /// Heal the link of two nodes
    Heal {
        /// The first node
        a: String,
        /// The second node
        b: String,
        #[command(flatten)]
        which: Which,
    },
    /// Change rate, delay and loss of the link of two nodes, both ways
    Link {
        /// The first node
        a: String,
        /// The second node
        b: String,
        /// Bits per second, as in 1Mbit [default: as fast as the machine copies]
        #[arg(long)]
        rate: Option<String>,
        /// Delay of each packet, as in 20ms
        #[arg(long)]
        delay: Option<String>,
        /// Share of packets that are lost, as in 1%
        #[arg(long)]
        loss: Option<String>,
        #[command(flatten)]
        which: Which,
    },
    /// End a running session and undo its changes
    End {
        #[command(flatten)]
        which: Which,
    },
    /// Measure how accurate each method is on this machine: metrics, verdicts and pictures
    Evaluate(super::evaluation::Args),
    /// Print what running sessions have in force
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Which session is meant.
#[derive(clap::Args)]
pub(super) struct Which {
    /// Pid of the session, if there are several
    #[arg(long, value_name = "PID")]
    session: Option<u32>,
}

pub(super) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Attach { how, what, pid, cgroup } => attach(*how, &what, &pid, cgroup),
        Command::Set { node, which } => {
            let wrong =
                || UsageError(format!("invalid speed '{node}': use NODE=SPEED, as in small=40%"));
            let (name, speed) = node.split_once('=').ok_or_else(wrong)?;
            let speed: Speed = speed.parse().map_err(UsageError)?;
            order(&which, &Order::Set { node: name.to_owned(), speed })
        }
        Command::Fail { node, which } => order(&which, &Order::Fail { node }),
        Command::Recover { node, which } => order(&which, &Order::Recover { node }),
        Command::Cut { a, b, which } => order(&which, &Order::Cut { between: (a, b) }),
        Command::Heal { a, b, which } => order(&which, &Order::Heal { between: (a, b) }),
        Command::Link { a, b, rate, delay, loss, which } => {
            order(&which, &Order::Link { between: (a, b), rate, delay, loss })
        }
        Command::End { which } => order(&which, &Order::End),
        Command::Evaluate(args) => super::evaluation::run(&args),
        Command::Status { json } => status(json),
    }
}

fn attach(
    mut how: Slowing,
    what: &[String],
    pids: &[i32],
    cgroup: Option<PathBuf>,
) -> anyhow::Result<ExitCode> {
    let mut attach: Vec<Pid> = pids.iter().copied().map(Pid).collect();
    let mut attach_groups = Vec::new();
    let mut asked = Vec::new();
    for word in what {
        if is_speed(word) {
            asked.push(word.as_str());
            continue;
        }
        let target: Target = word.parse().map_err(UsageError)?;
        let found = target.find().map_err(failure)?;
        note(&said(&target, &found));
        attach.extend(found.processes);
        attach_groups.extend(found.groups);
    }
    if let Some(dir) = &cgroup {
        let path = dir.join("cgroup.procs");
        std::fs::metadata(&path).map_err(|error| {
            UsageError(format!("{}: {error}; name the folder of a control group", path.display()))
        })?;
    }
    attach_groups.extend(cgroup);
    if attach.is_empty() && attach_groups.is_empty() {
        anyhow::bail!(UsageError(
            "missing process: use unit:NAME, container:ID, a name or a process number".into()
        ));
    }
    match (&asked[..], how.cpu.is_empty()) {
        ([], _) => {}
        ([speed], true) => how.cpu = placed(speed, "what is attached")?,
        ([_], false) => {
            anyhow::bail!(UsageError(
                "two speeds are given: leave out --cpu or the other one".into()
            ))
        }
        _ => anyhow::bail!(UsageError("two speeds are given: use one".into())),
    }
    session(from_options(&how, Node { attach, attach_groups, ..Node::default() })?, &how)
}

/// Names the processes behind a target, so that the user sees when they are not the intended ones.
fn said(target: &Target, found: &Found) -> String {
    let pids: Vec<String> = found.processes.iter().map(ToString::to_string).collect();
    let groups: Vec<String> = found.groups.iter().map(|dir| dir.display().to_string()).collect();
    match groups.is_empty() {
        true => format!("{target}: processes {}", pids.join(" ")),
        false => format!("{target}: the control group {}", groups.join(", ")),
    }
}

/// The session that is meant: the one there is, or the one that was named.
fn find(which: &Which) -> anyhow::Result<Pid> {
    let mut all = sessions().map_err(failure)?;
    all.retain(|pid| which.session.is_none_or(|wanted| i64::from(wanted) == i64::from(pid.0)));
    match (all.len(), all.pop()) {
        (1, Some(session)) => Ok(session),
        (0, _) => anyhow::bail!("this session does not run: `schedlab slow status` lists sessions"),
        (count, _) => anyhow::bail!(UsageError(format!(
            "{count} sessions run: choose one with --session (`schedlab slow status` lists them)"
        ))),
    }
}

fn order(which: &Which, order: &Order) -> anyhow::Result<ExitCode> {
    ask(find(which)?, order).map_err(failure)?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab slow status --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    /// The sessions that run.
    sessions: Vec<Status>,
    /// Those of other users.
    others: Vec<OthersSession>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/slow-status/1";
}

fn status(json: bool) -> anyhow::Result<ExitCode> {
    let mut sessions_now = Vec::new();
    for session in sessions().map_err(failure)? {
        // One that ends just now needs no telling.
        sessions_now.extend(ask(session, &Order::Status).ok().flatten());
    }
    let others = sessions_of_others().map_err(failure)?;
    if json {
        json::print(&Document { sessions: sessions_now, others })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    if sessions_now.is_empty() && others.is_empty() {
        writeln!(text, "no session runs")?;
    }
    for session in &sessions_now {
        writeln!(text, "session {}, method {}", session.pid, session.method)?;
        for node in &session.nodes {
            let speeds: Vec<String> =
                node.speeds.iter().map(|(cpu, speed)| format!("{cpu}={speed}")).collect();
            let failed = if node.failed { ", failed" } else { "" };
            let name = &node.name;
            let speeds = speeds.join(" ");
            let tasks = node.processes.len();
            writeln!(text, "  {name}: CPUs {speeds}, {tasks} processes{failed}")?;
            if let Some(period) = &node.period {
                writeln!(text, "    {period}")?;
            }
        }
        for pair in &session.cut {
            writeln!(text, "  cut: {pair}")?;
        }
        for warning in &session.warnings {
            writeln!(text, "  mind: {}", warning.what)?;
        }
    }
    for OthersSession { pid, owner, cpus } in &others {
        writeln!(text, "session {pid} of {owner}: CPUs {cpus}")?;
    }
    print_text(&folded(&text, 4, crate::output::room()))?;
    Ok(ExitCode::SUCCESS)
}
