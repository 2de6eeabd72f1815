//! The commands of nodes.

use super::super::child_entry::Entry;
use super::super::node_view::Shown;
use super::super::{SlowError, journal_kill};
use super::Active;
use crate::net::Namespace;
use schedlab_model::{CpuSet, Pid};
use schedlab_sys::guard::Guard;
use schedlab_sys::process;
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

pub(super) struct Running {
    pub(super) child: Child,
    pub(super) ended: OwnedFd,
    pub(super) code: Option<i32>,
}

impl Active {
    pub(super) fn is_done(&mut self) -> bool {
        for running in &mut self.commands {
            if running.code.is_none() {
                running.code = running.child.try_wait().ok().flatten().map(process::exit_code);
            }
        }
        self.commands.iter().all(|running| running.code.is_some())
    }

    /// The first processes of its commands, and those that were attached, live, and stay in the groups where they are.
    pub(super) fn roots(&self) -> Vec<Pid> {
        let commands = self.commands.iter().map(|running| Pid(running.child.id().cast_signed()));
        // A number may be another process's by now.
        let lives = |(pid, began): &(Pid, u64)| process::start_ticks(*pid) == Some(*began);
        let attached = self.attached.iter().filter(|one| lives(one)).map(|(pid, _)| *pid);
        commands.chain(attached).collect()
    }

    /// All of its processes; `admitted` is one that was moved in by the one that holds the session.
    pub(super) fn processes(&self, admitted: Option<Pid>) -> Vec<Pid> {
        let roots: Vec<Pid> = self.roots().into_iter().chain(admitted).collect();
        self.held.processes(&roots)
    }
}

/// Starts a command in a node. It dies with us, unless it is to be kept.
pub(super) fn launch(
    argv: &[String],
    active: &Active,
    addresses: &[(String, String)],
    keep: bool,
    guard: &mut Guard,
) -> Result<Running, SlowError> {
    let cpus = if active.bound { active.node.cpus() } else { CpuSet::new() };
    let network = active.network.as_ref();
    let groups = active.held.groups.clone();
    let shown = active.shown.as_ref().map(Shown::places).unwrap_or_default();
    let mut command =
        Entry::Exec { groups, cpus, network: network.map(Namespace::path), shown }.command()?;
    command.args(argv).stdin(Stdio::inherit());
    command.env("SCHEDLAB_NODE", &active.node.name).envs(addresses.iter().cloned());
    if let Some(network) = network {
        command.env("SCHEDLAB_ADDRESS", network.there.to_string());
        command.env("SCHEDLAB_HOST", network.here.to_string());
    }
    if !keep {
        process::die_with_parent(&mut command);
    }
    let child = command.spawn().map_err(|e| SlowError::io(format!("starting '{}'", argv[0]), e))?;
    if !keep {
        journal_kill(guard, &child)?;
    }
    let ended = process::ended(&child).map_err(|e| SlowError::io("watching the command", e))?;
    Ok(Running { child, ended, code: None })
}
