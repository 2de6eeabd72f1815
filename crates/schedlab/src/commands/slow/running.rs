//! The subcommands of `schedlab slow`, of which most are about processes and sessions that run already.

use super::{How, from_options, session, told};
use crate::commands::UsageError;
use crate::json;
use schedlab_host::slow::{Node, Order, Speed, Status, ask, sessions};
use schedlab_model::Pid;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// What is done with what runs.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Slow processes that run already, until Ctrl-C; they run on the CPUs named meanwhile
    Attach {
        #[command(flatten)]
        how: Box<How>,
        /// A process, with its children
        #[arg(long, value_name = "PID")]
        pid: Vec<i32>,
        /// All processes of a control group, by its directory
        #[arg(long, value_name = "DIR")]
        cgroup: Option<PathBuf>,
    },
    /// Change the speed of a node of a running session
    Set {
        /// The node and its new speed, as in small=40% (without a file of nodes the node is `all`)
        #[arg(value_name = "NODE=SPEED")]
        node: String,
        #[command(flatten)]
        which: Which,
    },
    /// A node fails: its tasks stand still
    Fail {
        /// The node
        node: String,
        #[command(flatten)]
        which: Which,
    },
    /// It comes back
    Recover {
        /// The node
        node: String,
        #[command(flatten)]
        which: Which,
    },
    /// End a running session, and undo what it changed
    End {
        #[command(flatten)]
        which: Which,
    },
    /// How true each method is on this machine: figures, verdicts and pictures
    Evaluate(super::evaluation::Args),
    /// What running sessions have in force
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Which session is meant.
#[derive(clap::Args)]
pub(super) struct Which {
    /// The session, by its process, where there are several
    #[arg(long, value_name = "PID")]
    session: Option<u32>,
}

pub(super) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Attach { how, pid, cgroup } => attach(&how, &pid, cgroup),
        Command::Set { node, which } => {
            let wrong =
                || UsageError(format!("'{node}' is not NODE=SPEED: write it as in small=40%"));
            let (name, speed) = node.split_once('=').ok_or_else(wrong)?;
            let speed: Speed = speed.parse().map_err(UsageError)?;
            order(&which, &Order::Set { node: name.to_owned(), speed })
        }
        Command::Fail { node, which } => order(&which, &Order::Fail { node }),
        Command::Recover { node, which } => order(&which, &Order::Recover { node }),
        Command::End { which } => order(&which, &Order::End),
        Command::Evaluate(args) => super::evaluation::run(&args),
        Command::Status { json } => status(json),
    }
}

fn attach(how: &How, pids: &[i32], cgroup: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let attach: Vec<Pid> = pids.iter().copied().map(Pid).collect();
    if let Some(dir) = &cgroup {
        let path = dir.join("cgroup.procs");
        std::fs::metadata(&path).map_err(|error| {
            UsageError(format!("{}: {error}; name the folder of a control group", path.display()))
        })?;
    }
    if attach.is_empty() && cgroup.is_none() {
        anyhow::bail!(UsageError("no process is named: --pid or --cgroup".into()));
    }
    let attach_groups = cgroup.into_iter().collect();
    session(from_options(how, Node { attach, attach_groups, ..Node::default() })?, how)
}

/// The session that is meant: the one there is, or the one that was named.
fn find(which: &Which) -> anyhow::Result<PathBuf> {
    let mut all = sessions().map_err(told)?;
    if let Some(pid) = which.session {
        let name = format!("slow-{pid}.sock");
        all.retain(|path| path.file_name().is_some_and(|file| file.to_string_lossy() == name));
    }
    match (all.len(), all.pop()) {
        (1, Some(path)) => Ok(path),
        (0, _) => anyhow::bail!("no such session runs (`schedlab slow status`)"),
        (count, _) => anyhow::bail!(UsageError(format!(
            "{count} sessions run: say which with --session (`schedlab slow status` lists them)"
        ))),
    }
}

fn order(which: &Which, order: &Order) -> anyhow::Result<ExitCode> {
    ask(&find(which)?, order).map_err(told)?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab slow status --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    /// The sessions that run.
    sessions: Vec<Status>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/slow-status/1";
}

fn status(json: bool) -> anyhow::Result<ExitCode> {
    let mut sessions_now = Vec::new();
    for path in sessions().map_err(told)? {
        // One that ends just now needs no telling.
        sessions_now.extend(ask(&path, &Order::Status).ok().flatten());
    }
    if json {
        json::print(&Document { sessions: sessions_now })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = crate::output::stdout();
    if sessions_now.is_empty() {
        writeln!(out, "no session runs")?;
    }
    for session in &sessions_now {
        writeln!(out, "session {}, method {}", session.pid, session.method)?;
        for node in &session.nodes {
            let speeds: Vec<String> =
                node.speeds.iter().map(|(cpu, speed)| format!("{cpu}={speed}")).collect();
            let failed = if node.failed { ", failed" } else { "" };
            let (name, speeds, tasks) = (&node.name, speeds.join(" "), node.processes.len());
            writeln!(out, "  {name}: CPUs {speeds}, {tasks} processes{failed}")?;
            if let Some((asked, granted)) = node.held.last {
                let (asked, granted) = (asked * 100.0, granted * 100.0);
                writeln!(out, "    asked {asked:.1} %, granted {granted:.1} % in the last second")?;
            }
        }
        for warning in &session.warnings {
            writeln!(out, "  mind: {}", warning.what)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
