//! Tasks that burn one CPU for ever: the fair counterweight of `weight`, and the filler of gaps.
//!
//! `quota` and `stop` leave a CPU idle while the slowed tasks wait. Then it sleeps deeply, its clock may fall, and
//! what it runs next begins slowly. A filler of the class `SCHED_IDLE` keeps the CPU awake and gives way at once. The
//! CPU draws the power of a busy one all the time, and an SMT sibling runs slower beside it.

use super::SlowError;
use super::aide::Aide;
use super::entry::{Entry, enter};
use schedlab_model::{Cpu, CpuSet, Pid};
use schedlab_sys::guard::Guard;
use schedlab_sys::sched::Policy;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

const READY: &str = "ready";

/// Starts a burner in control groups, bound to a CPU.
pub(super) fn start(groups: &[PathBuf], cpu: Cpu, guard: &mut Guard) -> Result<Aide, SlowError> {
    let mut command = Entry::Burn { groups: groups.to_vec(), cpu }.helper()?;
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().map_err(|e| SlowError::io("starting a burner", e))?;
    let answers = child.stdout.take().expect("it was asked to be a pipe");
    let burner = Aide::new(format!("the burner of CPU {cpu}"), child, guard)?;
    // Until it is in its group nothing is slowed: whoever measures or starts now would not see it.
    let mut answer = String::new();
    let read = BufReader::new(answers).read_line(&mut answer);
    read.map_err(|e| SlowError::io("waiting for a burner", e))?;
    match answer.trim_end() {
        READY => Ok(burner),
        "" => Err(SlowError::Failed(format!("the burner of CPU {cpu} died while it started"))),
        why => Err(SlowError::Failed(format!("the burner of CPU {cpu}: {why}"))),
    }
}

/// Starts a filler, bound to a CPU.
pub(super) fn fill(cpu: Cpu, guard: &mut Guard) -> Result<Aide, SlowError> {
    let mut command = Entry::Fill { cpu }.helper()?;
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    let child = command.spawn().map_err(|e| SlowError::io("starting a filler", e))?;
    Aide::new(format!("the filler of CPU {cpu}"), child, guard)
}

/// The life of a filler.
pub(super) fn filler(cpu: Cpu) -> i32 {
    let idle = schedlab_sys::sched::set(Pid(0), &Policy::Idle.into()).is_ok();
    // As a fair task it would take half of the CPU.
    if !idle || enter(&[], &CpuSet::from_iter([cpu])).is_err() {
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
