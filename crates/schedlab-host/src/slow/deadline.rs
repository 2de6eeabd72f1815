//! Burners of `SCHED_DEADLINE`: each has the runtime (1 - s) P in every period P, and the kernel itself keeps
//! to it. A burner computes for ever and is taken off its CPU when its runtime is used up.
//!
//! The kernel admits a deadline task only where it may run on all CPUs of its *root domain* (the CPUs between
//! which tasks are balanced), so a burner that is bound to one CPU needs a root domain of that CPU alone. Where
//! there is none (a machine of one CPU has one, an isolated partition is one), it is made for the session:
//!
//! - version 1: a cpuset of the CPU, one of the rest, and no balancing in the root cpuset;
//! - version 2: the node's group becomes a partition, so that nobody else runs on its CPU.
//!
//! Unbound burners wander between CPUs and are off by several percent, so this method needs nodes of one CPU.
//! `auto` never chooses it, since it ends balancing between that CPU and the others. Periods begin when a
//! burner is admitted and cannot be put in step, unlike the hogs' grid.

use super::group;
use super::node_groups::{self, GroupNeeds};
use super::{SlowError, Speed, Support};
use schedlab_model::{Cpu, CpuSet, Nanos, Pid};
use schedlab_sys::cgroup::{Hierarchy, Version};
use schedlab_sys::clock;
use schedlab_sys::guard::Guard;
use schedlab_sys::sched::{self, Policy};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What a burner had just before is given back at the end of its period: admission is tried for this long.
const PATIENCE: Nanos = Nanos::from_millis(500);

/// What was being done when it failed, and the error.
pub(super) type Ready = Result<(), (String, std::io::Error)>;

/// Whether deadline tasks may be bound to this CPU, as it is.
fn is_alone(cpu: Cpu) -> bool {
    sched::takes_deadlines_on(&CpuSet::from_iter([cpu])).is_ok()
}

/// Version 1: ends balancing between the CPUs of a plan's nodes and the rest of the machine, which keeps its own.
pub(super) fn isolate(
    cpus: &CpuSet,
    support: &Support,
    guard: &mut Guard,
) -> Result<(), SlowError> {
    let hierarchy = hierarchy(support)?;
    if hierarchy.version == Version::V2 || cpus.iter().all(is_alone) {
        return Ok(());
    }
    let rest: CpuSet = support.online.iter().filter(|cpu| !cpus.contains(*cpu)).collect();
    if !rest.is_empty() {
        let dir = hierarchy.group().join(format!("schedlab-{}-rest", std::process::id()));
        node_groups::make(hierarchy, &dir, &GroupNeeds::default(), guard)?;
        node_groups::bind(hierarchy, &support.parent(hierarchy), &dir, &rest)?;
    }
    let balance = hierarchy.mount.join("cpuset.sched_load_balance");
    // The one that has ended it already, another session or the administrator, begins it again.
    if std::fs::read_to_string(&balance).is_ok_and(|now| now.trim() == "0") {
        return Ok(());
    }
    let written = guard.write(&balance, "0");
    written.map(|_| ()).map_err(|e| SlowError::io(format!("writing 0 to {}", balance.display()), e))
}

/// Version 2: makes a node's group a partition. Returns the group that its burner enters.
pub(super) fn partition(
    cpu: Cpu,
    node: Option<&Path>,
    support: &Support,
    guard: &mut Guard,
) -> Result<Option<PathBuf>, SlowError> {
    let hierarchy = hierarchy(support)?;
    let Some(node) = node.filter(|_| hierarchy.version == Version::V2) else { return Ok(None) };
    if !is_alone(cpu) {
        let file = node.join("cpuset.cpus.partition");
        group::write(&file, "root")?;
        let state = std::fs::read_to_string(&file).unwrap_or_default();
        if state.trim() != "root" {
            return Err(SlowError::Missing(format!(
                "cannot make CPU {cpu} a separate root domain, which a deadline burner needs: \
                 '{}'; use --method hogs",
                state.trim()
            )));
        }
    }
    // A group of its own, so that it is not taken for a task of the node; without controllers.
    let dir = node.join("burner");
    node_groups::make(hierarchy, &dir, &GroupNeeds::default(), guard)?;
    Ok(Some(dir))
}

fn hierarchy(support: &Support) -> Result<&Hierarchy, SlowError> {
    let none =
        || SlowError::Missing("deadline needs the cpuset controller, which is not mounted".into());
    support.cpuset_group.as_ref().ok_or_else(none)
}

pub(super) fn settle(cpu: Cpu, speed: Speed, period: Nanos) -> Ready {
    sched::set_affinity(Pid(0), &CpuSet::from_iter([cpu]))
        .map_err(|error| (format!("binding a burner to CPU {cpu}"), error))?;
    admit(speed, period).map_err(|error| {
        let why = match error.raw_os_error() {
            Some(1) => {
                "it shares its root domain with other CPUs, perhaps by a cpuset that spans them"
            }
            Some(16) => "other deadline tasks and the fair server have the bandwidth",
            _ => "the kernel refuses deadline tasks",
        };
        (format!("making a deadline burner on CPU {cpu} ({why}; use --method hogs)"), error)
    })
}

pub(super) fn burn(cpu: Cpu, stored: &AtomicU32, period: Nanos, stop: &AtomicBool) {
    let mut millionths = stored.load(Ordering::Acquire);
    while !stop.load(Ordering::Relaxed) {
        let now = stored.load(Ordering::Acquire);
        let speed = Speed::from_millionths(now).unwrap_or(Speed::FULL);
        if now != millionths {
            millionths = now;
            if let Err(error) = admit(speed, period) {
                // The last word of a child whose end the session notices.
                let _ = writeln!(
                    std::io::stderr(),
                    "schedlab: CPU {cpu}: the kernel refuses a deadline burner for {speed}: {error}"
                );
                std::process::exit(1);
            }
        }
        if speed == Speed::FULL {
            std::thread::park();
        } else {
            // The runtime that is used up is all that ends a burn; the loop only looks for a new speed.
            for _ in 0..64 {
                std::hint::black_box(clock::monotonic());
            }
        }
    }
}

/// Asks for the runtime of a speed; full speed asks for none.
fn admit(speed: Speed, period: Nanos) -> std::io::Result<()> {
    let policy = policy(speed, period);
    let until = clock::monotonic() + PATIENCE;
    loop {
        match sched::set(Pid(0), &policy.into()) {
            Err(error) if error.raw_os_error() == Some(16) && clock::monotonic() < until => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

fn policy(speed: Speed, period: Nanos) -> Policy {
    if speed == Speed::FULL {
        return Policy::Normal { nice: 0 };
    }
    Policy::Deadline { runtime: Nanos(speed.lost(period.0)), deadline: period, period }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
mod tests {
    use super::*;

    #[test]
    fn a_burner_has_what_is_missing_to_the_speed() {
        let period = Nanos::from_millis(2);
        let wanted = Policy::Deadline { runtime: Nanos(1_500_000), deadline: period, period };
        assert_eq!(policy(Speed::percent(25).unwrap(), period), wanted);
        assert_eq!(policy(Speed::FULL, period), Policy::Normal { nice: 0 });
    }

    #[test]
    fn a_cpu_that_shares_its_root_domain_is_refused_by_name() {
        let all = sched::affinity(Pid(0)).unwrap();
        let cpu = all.iter().last().unwrap();
        if is_alone(cpu) {
            drop(writeln!(
                std::io::stderr(),
                "MISSING: a root domain of several CPUs; no refusal of a burner is tested"
            ));
            return;
        }
        let half = Speed::percent(50).unwrap();
        let settled = std::thread::spawn(move || settle(cpu, half, Nanos::from_millis(2)));
        let (doing, error) = settled.join().unwrap().unwrap_err();
        match error.raw_os_error() {
            Some(1) => {
                assert!(
                    doing.contains(&format!("CPU {cpu} (it shares its root domain")),
                    "{doing}"
                );
            }
            _ => drop(writeln!(
                std::io::stderr(),
                "MISSING: SCHED_DEADLINE ({error}); its refusal is not tested"
            )),
        }
    }
}
