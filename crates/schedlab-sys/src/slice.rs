//! Slices of fair tasks: for how long one runs before it is another one's turn. A task may have one of its own since
//! Linux 6.12; its children inherit it.

use crate::sched::{self, Attributes, Policy};
use schedlab_model::{Nanos, Pid};
use std::io;
use std::path::Path;

/// The shortest and the longest slice that the kernel gives.
pub const RANGE: std::ops::RangeInclusive<Nanos> =
    Nanos::from_micros(100)..=Nanos::from_millis(100);

/// Times that a group is looked through: a task that was just looked at may have made another one.
const LOOKS: usize = 8;

/// The slice of a task that nobody gave another; `None` where the kernel takes none.
#[must_use]
pub fn usual() -> Option<Nanos> {
    let read = || {
        sched::set(Pid(0), &Policy::Normal { nice: 0 }.into())?;
        Ok(sched::get(Pid(0))?.slice)
    };
    crate::process::on_a_thread(read).ok().filter(|slice| *slice > Nanos::ZERO)
}

/// Gives each fair task of a control group, and of those below it, that has one of the slices `instead_of` another; zero
/// stands for the kernel's own.
///
/// # Errors
/// When the group cannot be read, or the kernel refuses: `EPERM` for tasks of other users without `CAP_SYS_NICE`.
pub fn give(group: &Path, instead_of: &[Nanos], slice: Nanos) -> io::Result<()> {
    for _ in 0..LOOKS {
        if !give_once(group, instead_of, slice)? {
            break;
        }
    }
    Ok(())
}

/// Returns whether a task got it.
fn give_once(group: &Path, instead_of: &[Nanos], slice: Nanos) -> io::Result<bool> {
    let list = ["tasks", "cgroup.threads"].map(|list| group.join(list));
    let list = list.iter().find(|list| list.exists()).unwrap_or(&list[0]);
    let mut given = false;
    for thread in std::fs::read_to_string(list)?.lines().filter_map(|line| line.parse().ok()) {
        given |= give_one(Pid(thread), Some(instead_of), slice)?;
    }
    for entry in std::fs::read_dir(group)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            given |= give_once(&entry.path(), instead_of, slice)?;
        }
    }
    Ok(given)
}

/// Gives a fair task a slice, if it has one of those `instead_of` (`None`: any). Returns whether it did; one that has ended
/// needs none.
///
/// # Errors
/// The kernel's, as for [`give`].
pub fn give_one(thread: Pid, instead_of: Option<&[Nanos]>, slice: Nanos) -> io::Result<bool> {
    let given = || {
        let now = sched::get(thread)?;
        let fair = matches!(now.policy, Policy::Normal { .. } | Policy::Batch { .. });
        let known = instead_of.is_none_or(|slices| slices.contains(&now.slice));
        if !fair || now.slice == slice || !known {
            return Ok(false);
        }
        // Clamps that are not named stay as they are.
        sched::set(thread, &Attributes { slice, clamp: None, ..now }).map(|()| true)
    };
    match given() {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        given => given,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// A group that lists this thread.
    fn group(list: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let thread = rustix::thread::gettid().as_raw_pid();
        std::fs::write(dir.path().join(list), format!("{thread}\n999999999\n")).unwrap();
        dir
    }

    fn ours() -> Nanos {
        sched::get(Pid(0)).unwrap().slice
    }

    #[test]
    fn tasks_of_a_group_get_a_slice_and_only_those_that_have_one_of_the_named() {
        let Some(usual) = usual() else {
            drop(writeln!(std::io::stderr(), "MISSING: slices of tasks (Linux 6.12)"));
            return;
        };
        let long = Nanos::from_millis(50);
        let other = Nanos::from_millis(7);
        std::thread::scope(|scope| {
            let body = || {
                let top = tempfile::tempdir().unwrap();
                std::fs::write(top.path().join("tasks"), "").unwrap();
                let below = group("cgroup.threads");
                std::os::unix::fs::symlink(below.path(), top.path().join("not-followed")).unwrap();
                give(top.path(), &[usual], long).unwrap();
                assert_eq!(ours(), usual);
                for dir in [group("tasks"), below] {
                    give(dir.path(), &[usual], long).unwrap();
                    assert_eq!(ours(), long);
                    let child = std::thread::Builder::new().spawn(ours).unwrap();
                    assert_eq!(child.join().unwrap(), long, "inherited");
                    give(dir.path(), &[usual, other], other).unwrap();
                    assert_eq!(ours(), long, "somebody else gave it");
                    give(dir.path(), &[other, long], Nanos::ZERO).unwrap();
                    assert_eq!(ours(), usual);
                }
                assert!(give(Path::new("/nowhere"), &[usual], long).is_err());
            };
            std::thread::Builder::new().spawn_scoped(scope, body).unwrap().join().unwrap();
        });
    }
}
