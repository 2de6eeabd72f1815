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
use super::group::write;
use super::helper_process::HelperProcess;
use super::node_groups::{Wants, Zone};
use super::{SlowError, Support};
use schedlab_model::{Cpu, CpuSet, Pid};
use schedlab_sys::cgroup::Version;
use schedlab_sys::guard::Guard;
use schedlab_sys::process;
use schedlab_sys::sched::Policy;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

const READY: &str = "ready";

/// Starts a burner in control groups, bound to a CPU.
pub(super) fn start(
    groups: &[PathBuf],
    cpu: Cpu,
    guard: &mut Guard,
) -> Result<HelperProcess, SlowError> {
    let mut command = Entry::Burn { groups: groups.to_vec(), cpu }.helper()?;
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().map_err(|e| SlowError::io("starting a burner", e))?;
    let answers = child.stdout.take().expect("it was asked to be a pipe");
    let burner = HelperProcess::new(format!("the burner of CPU {cpu}"), child, guard)?;
    // Until it is in its group nothing is slowed: the one that measures or starts now would not see it.
    let mut answer = String::new();
    let read = BufReader::new(answers).read_line(&mut answer);
    read.map_err(|e| SlowError::io("waiting for a burner", e))?;
    match answer.trim_end() {
        READY => Ok(burner),
        "" => Err(SlowError::Failed(format!("the burner of CPU {cpu} died while it started"))),
        why => Err(SlowError::Failed(format!("the burner of CPU {cpu}: {why}"))),
    }
}

/// Makes the control groups of fillers. None without root.
pub(super) fn idle_groups(support: &Support, guard: &mut Guard) -> Result<Vec<PathBuf>, SlowError> {
    let name = format!("schedlab-{}-filler", std::process::id());
    let wants = Wants { cpu: true, ..Wants::default() };
    let zone = match support.root && support.cpu_group.is_some() {
        true => Zone::create(&name, &wants, support, guard)?,
        false => Zone::default(),
    };
    if let Some((version, dir)) = &zone.cpu {
        make_idle(*version, dir)?;
    }
    Ok(zone.groups)
}

/// Makes the tasks of a group give way to those of all others; before Linux 5.15 they get next to nothing.
fn make_idle(version: Version, dir: &Path) -> Result<(), SlowError> {
    let idle = dir.join("cpu.idle");
    if idle.exists() {
        return write(&idle, "1");
    }
    match version {
        Version::V1 => write(&dir.join("cpu.shares"), "2"),
        Version::V2 => write(&dir.join("cpu.weight"), "1"),
    }
}

/// Starts a filler in control groups, bound to a CPU.
pub(super) fn fill(
    cpu: Cpu,
    groups: &[PathBuf],
    guard: &mut Guard,
) -> Result<HelperProcess, SlowError> {
    let mut command = Entry::Fill { groups: groups.to_vec(), cpu }.command()?;
    // No signal of the terminal reaches it, and its session is that of the commands.
    command.process_group(0);
    process::die_with_parent(&mut command);
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    let child = command.spawn().map_err(|e| SlowError::io("starting a filler", e))?;
    HelperProcess::new(format!("the filler of CPU {cpu}"), child, guard)
}

/// The life of a filler.
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

/// The life of the child.
pub(super) fn child(groups: &[PathBuf], cpu: Cpu) -> i32 {
    let entered = enter(groups, &CpuSet::from_iter([cpu]));
    let told = match &entered {
        Ok(()) => writeln!(std::io::stdout(), "{READY}"),
        Err(error) => writeln!(std::io::stdout(), "{error}"),
    };
    if entered.is_err() || told.is_err() {
        return 1;
    }
    burn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_fillers_is_idle_or_of_the_least_weight() {
        let dir = tempfile::tempdir().unwrap();
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        crate::slow::group::fake(dir.path(), &["cpu.shares", "cpu.weight"]);
        make_idle(Version::V1, dir.path()).unwrap();
        make_idle(Version::V2, dir.path()).unwrap();
        assert_eq!((read("cpu.shares"), read("cpu.weight")), ("2".to_owned(), "1".to_owned()));
        crate::slow::group::fake(dir.path(), &["cpu.idle"]);
        make_idle(Version::V2, dir.path()).unwrap();
        assert_eq!(read("cpu.idle"), "1");
    }
}
