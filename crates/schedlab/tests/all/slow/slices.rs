//! Slices under weights: a task that only computes gets long ones, and has the kernel's back at the end.

use super::{
    Stdio, doctor_restores, guardian, has_rights, last_cpu, left, node, signal, slow, until,
};
use schedlab_model::{Nanos, Pid};
use schedlab_sys::{sched, slice};
use std::process::{Child, Command};

fn of(pid: u32) -> Nanos {
    sched::get(Pid(pid.cast_signed())).unwrap().slice
}

fn burn() -> Child {
    Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap()
}

/// Attaches a process at half speed.
fn attach(pid: u32, options: &[&str]) -> Child {
    let (cpu, pid) = (format!("{}=50%", last_cpu()), pid.to_string());
    let arguments = ["attach", "--no-measure", "--cpu", &cpu, "--method", "weight", &pid];
    slow(&[&arguments[..], options].concat()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_task_that_computes_has_long_slices_and_gets_the_kernels_back() {
    let Some(usual) = slice::usual().filter(|_| has_rights()) else {
        missing!("slices of tasks (Linux 6.12), or rights");
        return;
    };
    let mut task = burn();
    for victims in ["session", "session and guardian", "nobody"] {
        let mut session = attach(task.id(), &[]);
        // Other tests may wake tasks there: then it is not the longest period.
        until(|| node(&session)["period"]["period_ns"].as_u64().is_some_and(|ns| ns >= 20_000_000));
        until(|| of(task.id()) >= Nanos::from_millis(10));
        match victims {
            "nobody" => signal(session.id(), "TERM"),
            "session" => signal(session.id(), "KILL"),
            _ => {
                let guardian = guardian(session.id()).unwrap();
                signal(guardian, "KILL");
                signal(session.id(), "KILL");
            }
        }
        session.wait().unwrap();
        until(|| {
            (victims != "session and guardian" || doctor_restores()) && of(task.id()) == usual
        });
        until(|| left(session.id()).is_empty());
    }
    task.kill().unwrap();
    task.wait().unwrap();
}

#[test]
fn a_named_period_gives_slices_from_the_start() {
    if slice::usual().is_none() || !has_rights() {
        missing!("slices of tasks (Linux 6.12), or rights");
        return;
    }
    let mut task = burn();
    let mut session = attach(task.id(), &["--period", "60ms"]);
    until(|| of(task.id()) == Nanos::from_millis(30));
    let id = session.id().to_string();
    let set = super::run(&["set", "all=80%", "--session", &id]);
    assert!(set.status.success(), "{}", super::stderr(&set));
    assert_eq!(of(task.id()), Nanos::from_millis(48));
    signal(session.id(), "TERM");
    session.wait().unwrap();
    until(|| left(session.id()).is_empty());
    task.kill().unwrap();
    task.wait().unwrap();
}
