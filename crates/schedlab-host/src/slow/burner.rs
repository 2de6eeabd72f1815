//! Tasks that burn one CPU for ever: the fair counterweight of `weight`, and the filler of gaps.
//!
//! `quota` and `stop` leave a CPU idle while the slowed tasks wait. Then it sleeps deeply, its clock may fall, and
//! what it runs next begins slowly. A filler of the class `SCHED_IDLE` keeps the CPU awake and gives way at once. The
//! CPU draws the power of a busy one all the time, and an SMT sibling runs slower beside it.
//!
//! A class counts only among the tasks of one group. The kernel makes a group of each session of processes
//! (`sched_autogroup_enabled`), of the weight of any other. So a filler has a control group that is idle itself; without
//! root it stays in our session, beside the commands.

use super::child_entry::{Entry, enter};
use super::group::{Group, Weights, write};
use super::helper_process::{HelperProcess, ready};
use super::node_groups::{GroupNeeds, NodeGroups};
use super::{SlowError, Support};
use schedlab_model::{Cpu, CpuSet, Pid};
use schedlab_sys::guard::Guard;
use schedlab_sys::process;
use schedlab_sys::sched::Policy;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

pub(super) fn start(
    groups: &[PathBuf],
    cpu: Cpu,
    guard: &mut Guard,
) -> Result<HelperProcess, SlowError> {
    let command = Entry::Burn { groups: groups.to_vec(), cpu }.helper()?;
    HelperProcess::start_ready(format!("the burner of CPU {cpu}"), command, guard)
        .map(|(burner, _)| burner)
}

/// Makes the control groups of fillers. None without root.
pub(super) fn idle_groups(support: &Support, guard: &mut Guard) -> Result<Vec<PathBuf>, SlowError> {
    let name = format!("schedlab-{}-filler", std::process::id());
    let wants = GroupNeeds { cpu: true, ..GroupNeeds::default() };
    let zone = match support.root && support.cpu_group.is_some() {
        true => NodeGroups::create(&name, &wants, support, guard)?,
        false => NodeGroups::default(),
    };
    if let Some(group) = &zone.cpu {
        make_idle(group)?;
    }
    Ok(zone.groups)
}

/// Makes the tasks of a group give way to those of all others; before Linux 5.15 they get next to nothing.
fn make_idle(group: &Group) -> Result<(), SlowError> {
    let idle = group.dir.join("cpu.idle");
    if idle.exists() {
        return write(&idle, "1");
    }
    let weights = Weights::of(group.version);
    weights.write(&group.dir, weights.least)
}

pub(super) fn fill(
    cpu: Cpu,
    groups: &[PathBuf],
    guard: &mut Guard,
) -> Result<HelperProcess, SlowError> {
    let mut command = Entry::Fill { groups: groups.to_vec(), cpu }.command()?;
    // No signal of the terminal reaches it, and its session is that of the commands.
    command.process_group(0);
    process::die_with_parent(&mut command);
    HelperProcess::start(format!("the filler of CPU {cpu}"), command, guard)
}

pub(super) fn filler(groups: &[PathBuf], cpu: Cpu) -> i32 {
    let idle = schedlab_sys::sched::set(Pid(0), &Policy::Idle.into()).is_ok();
    // As a fair task it would take half of the CPU.
    if !idle || enter(groups, &CpuSet::from_iter([cpu])).is_err() {
        return 1;
    }
    burn()
}

fn burn() -> ! {
    let mut value = 0u64;
    loop {
        value = std::hint::black_box(value.wrapping_mul(3).wrapping_add(1));
    }
}

pub(super) fn child(groups: &[PathBuf], cpu: Cpu) -> i32 {
    match ready(enter(groups, &CpuSet::from_iter([cpu]))) {
        Some(()) => burn(),
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_sys::cgroup::Version;

    #[test]
    fn a_group_of_fillers_is_idle_or_of_the_least_weight() {
        let dir = tempfile::tempdir().unwrap();
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        crate::slow::group::fake(dir.path(), &["cpu.shares", "cpu.weight"]);
        let group = |version| Group { version, dir: dir.path().to_owned() };
        make_idle(&group(Version::V1)).unwrap();
        make_idle(&group(Version::V2)).unwrap();
        assert_eq!((read("cpu.shares"), read("cpu.weight")), ("2".to_owned(), "1".to_owned()));
        crate::slow::group::fake(dir.path(), &["cpu.idle"]);
        make_idle(&group(Version::V2)).unwrap();
        assert_eq!(read("cpu.idle"), "1");
    }
}
