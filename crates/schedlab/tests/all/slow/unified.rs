//! Machines whose only hierarchy is the unified one (cgroup version 2), without any controller: every group there can
//! be entered, left, frozen and counted. Where this machine mounts it beside others, a mount namespace shows it alone.

use super::task::{Group, Killed};
use super::{Stdio, has_rights, last_cpu, left, node, run, signal, slow, stderr, until};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

/// Shows the unified hierarchy alone at its usual place, then becomes the command that follows.
const ALONE: &str = r#"set -e
    awk '$3 == "cgroup" || $3 == "cgroup2" {print $2}' /proc/mounts | while read -r at; do umount "$at"; done
    ! grep -q ' /sys/fs/cgroup tmpfs' /proc/mounts || umount /sys/fs/cgroup
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    exec "$0" "$@""#;

/// The same command line where version 2 is all there is.
pub(super) fn alone(command: &Command) -> Command {
    let mut alone = Command::new("unshare");
    alone.args(["--mount", "sh", "-c", ALONE]).arg(command.get_program()).args(command.get_args());
    alone.stdin(Stdio::null());
    alone
}

/// A group of the unified hierarchy, when it can be shown alone.
pub(super) fn group() -> Option<Group> {
    let shown = alone(&Command::new("true")).status().is_ok_and(|status| status.success());
    let at = ["unified", ""]
        .into_iter()
        .find(|at| Path::new("/sys/fs/cgroup").join(at).join("cgroup.controllers").exists());
    let group = at.filter(|_| shown).and_then(|at| Group::new(at, "unified"));
    if group.is_none() {
        missing!("cgroup version 2 and a mount namespace; no session is tried there");
    }
    group
}

#[test]
fn each_task_returns_to_its_group_of_version_2() {
    let Some(group) = group().filter(|_| has_rights()) else { return };
    let mut victim = Command::new("sh");
    victim.args(["-c", "sleep 600 & echo; wait"]).stdout(Stdio::piped());
    let mut victim = Killed(victim.spawn().unwrap());
    BufReader::new(victim.0.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let shell = victim.0.id().to_string();
    let family = || schedlab_sys::process::family(schedlab_model::Pid(victim.0.id().cast_signed()));
    until(|| family().len() == 2);
    let child = family()[1].to_string();
    // The shell alone has a group of its own; its child is elsewhere.
    group.take("cgroup.procs", &shell);
    let of = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let before = (of(&shell), of(&child));
    assert_ne!(before.0, before.1);
    let speed = format!("{}=50%", last_cpu());
    for (method, end) in [("stop-group", "INT"), ("stop", "KILL"), ("hogs", "INT")] {
        let attach =
            ["attach", "--no-measure", "--method", method, "--cpu", &speed, "--pid", &shell];
        let mut session = alone(&slow(&attach)).stderr(Stdio::null()).spawn().unwrap();
        let inside = |pid: &str| {
            let name = format!("0::/schedlab-{}-", session.id());
            of(pid).lines().any(|line| line.starts_with(&name))
        };
        until(|| inside(&shell) && inside(&child) && node(&session).is_object());
        signal(session.id(), end);
        session.wait().unwrap();
        until(|| left(session.id()).is_empty() && (of(&shell), of(&child)) == before);
    }
    signal(child.parse().unwrap(), "KILL");
}

#[test]
fn a_node_of_version_2_stands_still_and_goes_on() {
    let Some(_group) = group().filter(|_| has_rights()) else { return };
    let cpu = format!("{}=50%", last_cpu());
    let burns = ["--no-measure", "--cpu", &cpu, "--", "sh", "-c", "while :; do :; done"];
    let mut session = alone(&slow(&burns)).stderr(Stdio::null()).spawn().unwrap();
    let order = |what: &str| {
        let id = session.id().to_string();
        let done = run(&[what, "all", "--session", &id]);
        assert!(done.status.success(), "{what}: {}", stderr(&done));
    };
    until(|| node(&session).is_object());
    order("fail");
    // Frozen by the group: its processes still are what they were, not stopped ones.
    let frozen = |is: &str| {
        let groups = left(session.id());
        let mut states =
            groups.iter().map(|dir| std::fs::read_to_string(dir.join("cgroup.events")));
        states.any(|state| state.is_ok_and(|state| state.contains(is)))
    };
    until(|| frozen("frozen 1"));
    order("recover");
    until(|| frozen("frozen 0") && !frozen("frozen 1"));
    signal(session.id(), "INT");
    session.wait().unwrap();
    until(|| left(session.id()).is_empty());
}
