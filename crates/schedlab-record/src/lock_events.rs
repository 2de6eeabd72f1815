//! The events that tell of locks: futex calls, and contention for the kernel's own locks. They are asked for, since they
//! cost: with a tracepoint of any system call on, each call of every task takes a slower way into the kernel.

use super::RecordError;
use super::tracepoints::Tracepoint;
use schedlab_model::{Nanos, Warning};
use schedlab_sys::clock;
use schedlab_sys::futex::{self, Scope};
use schedlab_sys::tracefs::Tracefs;
use schedlab_workload::{Recorded, RecordedLocks};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::sync::atomic::AtomicU64;

const CALLS: &str = "syscalls";
const KERNEL: &str = "lock";
/// `futex_waitv` came with Linux 5.16, contention events with 5.19, `futex_wait`, `futex_wake` and `futex_requeue` with 6.7.
const EVENTS: [(&str, &str); 10] = [
    (CALLS, "sys_enter_futex"),
    (CALLS, "sys_exit_futex"),
    (CALLS, "sys_enter_futex_wait"),
    (CALLS, "sys_exit_futex_wait"),
    (CALLS, "sys_enter_futex_wake"),
    (CALLS, "sys_exit_futex_wake"),
    // Their words are in a list that the event only points to: the calls are counted, so their ends are not needed.
    (CALLS, "sys_enter_futex_waitv"),
    (CALLS, "sys_enter_futex_requeue"),
    (KERNEL, "contention_begin"),
    (KERNEL, "contention_end"),
];
/// Calls of each measurement, of which the fastest of some counts.
const MEASURED: u32 = 200;
const ROUNDS: u32 = 5;

/// What a recorded call costs its task more than one that is not recorded, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallCost {
    pub(crate) futex_ns: f64,
    /// Any other call, of which nothing is recorded.
    pub(crate) other_ns: f64,
}

/// Those of them that are of system calls.
pub(crate) fn calls() -> impl Iterator<Item = (&'static str, &'static str)> {
    EVENTS.into_iter().filter(|(system, _)| *system == CALLS)
}

/// Adds the events that this kernel has; warnings say what is not told without the others.
pub(crate) fn ask(tracefs: &Tracefs, events: &mut Vec<String>) -> Vec<Warning> {
    let has = |(system, name): (&str, &str)| tracefs.event(system, name).is_ok();
    let asked = EVENTS.map(|(system, name)| format!("{system}:{name}?"));
    events.extend(asked.into_iter().filter(|event| !events.contains(event)).collect::<Vec<_>>());
    let mut warnings = Vec::new();
    if !has(EVENTS[0]) {
        warnings.push(Warning::new(
            "no-futex-calls",
            "waits for locks of programs are not recorded, but for those that marks tell of: this kernel has no \
             tracepoints of system calls (CONFIG_FTRACE_SYSCALLS)",
            "",
        ));
    }
    if !has((KERNEL, "contention_begin")) {
        warnings.push(Warning::new(
            "no-contention-events",
            "waits for locks of the kernel are not recorded: this kernel has no lock:contention_begin, which came with \
             Linux 5.19",
            "",
        ));
    }
    warnings
}

/// Measures while `enable` turns an event (system and name) on, then off.
pub(crate) fn measure(
    mut enable: impl FnMut(&str, &str, bool) -> Result<(), RecordError>,
) -> Result<CallCost, RecordError> {
    let word = AtomicU64::new(0);
    let futex = || {
        let _ = black_box(futex::wake(&word, 1, Scope::Private));
    };
    let other = || {
        black_box(std::os::unix::process::parent_id());
    };
    let before = (fastest(futex), fastest(other));
    let both = [EVENTS[0], EVENTS[1]];
    for (system, name) in both {
        enable(system, name, true)?;
    }
    let with = (fastest(futex), fastest(other));
    for (system, name) in both {
        enable(system, name, false)?;
    }
    let more = |with: f64, before: f64| (with - before).max(0.0);
    Ok(CallCost { futex_ns: more(with.0, before.0), other_ns: more(with.1, before.1) })
}

/// CPU time of one call, at best.
fn fastest(call: impl Fn()) -> f64 {
    let round = |_| {
        let began = clock::thread_cpu();
        (0..MEASURED).for_each(|_| call());
        (clock::thread_cpu() - began).0
    };
    (0..ROUNDS).map(round).min().unwrap_or(0) as f64 / f64::from(MEASURED)
}

/// What was recorded of locks. A cost of 0 was not measured.
pub(crate) fn counted(points: &[Tracepoint], summary: &Recorded, cost: CallCost) -> RecordedLocks {
    let events = summary.events();
    let count = |name: &str| events.get(name).copied().unwrap_or(0);
    let entered = calls().filter(|(_, name)| name.starts_with("sys_enter_"));
    let is_one = |name: &str| EVENTS.iter().any(|(_, event)| *event == name);
    let points = points.iter().filter(|point| is_one(&point.name));
    let bytes = points.map(|point| count(&point.name) * point.fixed_len().unwrap_or(0) as u64);
    let ns = |ns: f64| (cost.futex_ns > 0.0).then_some(Nanos(ns.round() as u64));
    RecordedLocks {
        calls: entered.map(|(_, name)| count(name)).sum(),
        contentions: count("contention_begin"),
        bytes: bytes.sum(),
        call_ns: ns(cost.futex_ns),
        other_call_ns: ns(cost.other_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_lacks_is_a_warning_that_says_what_is_not_told() {
        let root = tempfile::tempdir().unwrap();
        let tracefs = Tracefs::at(root.path());
        let asked = |events: &mut Vec<String>| -> Vec<String> {
            ask(&tracefs, events).into_iter().map(|warning| warning.code).collect()
        };
        let mut events = vec!["lock:contention_end?".to_owned()];
        assert_eq!(asked(&mut events), ["no-futex-calls", "no-contention-events"]);
        assert_eq!(events.len(), EVENTS.len(), "each once, and none is indispensable");
        assert!(events.iter().all(|event| event.ends_with('?')));
        for (system, name) in EVENTS {
            let dir = root.path().join("events").join(system).join(name);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("id"), "9").unwrap();
            std::fs::write(dir.join("format"), "").unwrap();
        }
        assert_eq!(asked(&mut events), Vec::<String>::new());
    }
}
