//! Capabilities of the program's file (`setcap`), in force only around the calls that need them.
//!
//! Who may start such a file has its capabilities, for any command and any path. So [`lower`] takes them out of the
//! effective set before anything else happens, and gives up those that no call needs. [`with`] raises them around one call:
//! the kernel keeps the sets for each thread, so no other thread has them meanwhile. A program that is started gets none,
//! since nothing is inheritable.

use rustix::process::{getegid, geteuid, getgid, getuid};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::io;
use std::marker::PhantomData;

/// What a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// To open perf events of all tasks and to map their rings: `CAP_PERFMON`, `CAP_IPC_LOCK`.
    PerfEvents,
    /// To look into tracefs: `CAP_DAC_READ_SEARCH`. It opens every file, so no path of a user's choice may be near.
    Tracefs,
}

impl Need {
    const ALL: CapabilitySet = Self::PerfEvents.set().union(Self::Tracefs.set());

    const fn set(self) -> CapabilitySet {
        match self {
            Self::PerfEvents => CapabilitySet::PERFMON.union(CapabilitySet::IPC_LOCK),
            Self::Tracefs => CapabilitySet::DAC_READ_SEARCH,
        }
    }
}

/// Whether the program's file gave this process rights that its user does not have.
#[must_use]
pub fn is_from_file() -> bool {
    // SAFETY: it takes a number and returns one.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    // A security module may set the flag for root as well, whose rights are root's own.
    secure && !getuid().is_root()
}

/// Takes the capabilities of the program's file out of force. Call it before any thread is started.
///
/// # Errors
/// A set-user-ID or set-group-ID program: its user and group cannot be lowered in the same way.
pub fn lower() -> io::Result<()> {
    if !is_from_file() {
        return Ok(());
    }
    if getuid() != geteuid() || getgid() != getegid() {
        let what = "the file of this program has a set-user-ID or set-group-ID bit: remove it by `chmod ug-s`";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    let held = capabilities(None)?.permitted;
    let effective = CapabilitySet::empty();
    let inheritable = CapabilitySet::empty();
    let permitted = held.intersection(Need::ALL);
    Ok(set_capabilities(None, CapabilitySets { effective, permitted, inheritable })?)
}

/// Does `act` with the capabilities in force that it needs, as far as the program's file has them. Start no thread and no
/// program in it.
pub fn with<T>(need: Need, act: impl FnOnce() -> T) -> T {
    let _raised = if is_from_file() { Raised::new(need.set()).ok() } else { None };
    act()
}

/// Whether the calling thread has a capability in force, by its number (`CAP_SYS_NICE` is 23).
#[must_use]
pub fn has(number: u32) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.bits() >> number & 1 == 1)
}

/// How to get a capability of this name, such as `SYS_NICE`: root that lacks it is root of a container.
#[must_use]
pub fn remedy(name: &str) -> String {
    match geteuid().is_root() {
        true => format!("root lacks CAP_{name} here: start the container with `--cap-add {name}`"),
        false => "run as root".to_owned(),
    }
}

/// Capabilities of this thread that are in force until this is dropped.
struct Raised {
    before: CapabilitySets,
    /// Another thread has sets of its own.
    _thread: PhantomData<*const ()>,
}

impl Raised {
    fn new(wanted: CapabilitySet) -> io::Result<Self> {
        let before = capabilities(None)?;
        let effective = before.effective.union(before.permitted.intersection(wanted));
        set_capabilities(None, CapabilitySets { effective, ..before })?;
        Ok(Self { before, _thread: PhantomData })
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        set_capabilities(None, self.before).expect("a thread may always lower its capabilities");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::on_a_thread;
    use std::io::Write as _;

    fn effective() -> CapabilitySet {
        capabilities(None).unwrap().effective
    }

    fn lowered() -> io::Result<CapabilitySets> {
        let sets = capabilities(None)?;
        set_capabilities(None, CapabilitySets { effective: CapabilitySet::empty(), ..sets })?;
        Ok(sets)
    }

    #[test]
    fn what_is_raised_is_raised_in_one_thread_and_until_the_call_returns() {
        let perfmon = CapabilitySet::PERFMON;
        if !capabilities(None).unwrap().permitted.contains(perfmon) {
            let _ = writeln!(std::io::stderr(), "MISSING: CAP_PERFMON; raising it is not tested");
            return;
        }
        on_a_thread(|| {
            lowered()?;
            let other = rustix::thread::gettid();
            on_a_thread(|| {
                let raised = Raised::new(perfmon)?;
                assert_eq!(effective(), perfmon);
                assert_eq!(capabilities(Some(other))?.effective, CapabilitySet::empty());
                drop(raised);
                assert_eq!(effective(), CapabilitySet::empty());
                Ok(())
            })
        })
        .unwrap();
    }

    #[test]
    fn a_call_that_panics_leaves_nothing_raised() {
        on_a_thread(|| {
            let sets = lowered()?;
            let call = std::panic::catch_unwind(|| {
                let _raised = Raised::new(sets.permitted);
                panic!("a call");
            });
            assert!(call.is_err());
            assert_eq!(effective(), CapabilitySet::empty());
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_program_without_capabilities_of_its_own_is_left_as_it_is() {
        let before = capabilities(None).unwrap();
        assert!(!is_from_file());
        lower().unwrap();
        assert_eq!(capabilities(None).unwrap(), before);
        assert_eq!(has(38), before.effective.contains(CapabilitySet::PERFMON));
    }
}
