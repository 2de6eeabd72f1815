//! Scheduling policies and affinity, of any thread.

use schedlab_model::{CpuSet, Nanos, Pid};
use serde::{Deserialize, Serialize};
use std::io;

/// The policy of a thread, with the parameters that belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The fair class (`SCHED_OTHER`).
    Normal {
        /// The nice value, from -20 to 19.
        nice: i32,
    },
    /// The fair class for work that never needs to be prompt (`SCHED_BATCH`).
    Batch {
        /// The nice value, from -20 to 19.
        nice: i32,
    },
    /// Runs when nothing else wants to (`SCHED_IDLE`).
    Idle,
    /// Real-time, runs until it blocks (`SCHED_FIFO`).
    Fifo {
        /// The priority, from 1 to 99.
        priority: u32,
    },
    /// Real-time, shared in slices among equals (`SCHED_RR`).
    RoundRobin {
        /// The priority, from 1 to 99.
        priority: u32,
    },
    /// Earliest deadline first (`SCHED_DEADLINE`).
    Deadline {
        /// Budget of each period.
        runtime: Nanos,
        /// The deadline, relative to the start of the period.
        deadline: Nanos,
        period: Nanos,
    },
    /// A BPF scheduler (`SCHED_EXT`).
    Ext {
        /// The nice value, from -20 to 19.
        nice: i32,
    },
}

/// What the kernel knows about a thread's scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// The scheduling policy of the thread.
    pub policy: Policy,
    /// Slice of a fair task (custom since Linux 6.12); zero for the kernel's own choice.
    pub slice: Nanos,
    /// Children start with the normal policy (`SCHED_RESET_ON_FORK`).
    pub reset_on_fork: bool,
    /// Utilisation clamps (0 ..= 1024), where set.
    pub clamp: Option<(u32, u32)>,
}

/// How late the kernel may let timers of the calling thread be, to join wake-ups (`PR_SET_TIMERSLACK`); 50 µs
/// by default. Zero asks for that default.
///
/// # Errors
/// The kernel's.
pub fn set_timer_slack(slack: Nanos) -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(slack.0))?)
}

impl From<Policy> for Attributes {
    fn from(policy: Policy) -> Self {
        Self { policy, slice: Nanos::ZERO, reset_on_fork: false, clamp: None }
    }
}

/// The kernel's `struct sched_attr`, the 56-byte form with utilisation clamps (Linux 5.3).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Raw {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
    util_min: u32,
    util_max: u32,
}

const SIZE: u32 = 56;
/// The 48-byte form that kernels before 5.3 know.
const SIZE_OLD: u32 = 48;
const _: () = assert!(size_of::<Raw>() == SIZE as usize);

const RESET_ON_FORK: u64 = 0x01;
const UTIL_CLAMP: u64 = 0x60;
/// libc does not name it yet.
const SCHED_EXT: u32 = 7;

impl Attributes {
    fn raw(&self) -> Raw {
        let mut raw = Raw { size: SIZE, ..Raw::default() };
        let fair = |raw: &mut Raw, policy: libc::c_int, nice: i32| {
            raw.policy = policy.cast_unsigned();
            raw.nice = nice;
            raw.runtime = self.slice.0;
        };
        match self.policy {
            Policy::Normal { nice } => fair(&mut raw, libc::SCHED_OTHER, nice),
            Policy::Batch { nice } => fair(&mut raw, libc::SCHED_BATCH, nice),
            Policy::Ext { nice } => fair(&mut raw, SCHED_EXT.cast_signed(), nice),
            Policy::Idle => fair(&mut raw, libc::SCHED_IDLE, 0),
            Policy::Fifo { priority } => {
                raw.policy = libc::SCHED_FIFO.cast_unsigned();
                raw.priority = priority;
            }
            Policy::RoundRobin { priority } => {
                raw.policy = libc::SCHED_RR.cast_unsigned();
                raw.priority = priority;
            }
            Policy::Deadline { runtime, deadline, period } => {
                raw.policy = libc::SCHED_DEADLINE.cast_unsigned();
                raw.runtime = runtime.0;
                raw.deadline = deadline.0;
                raw.period = period.0;
            }
        }
        if self.reset_on_fork {
            raw.flags |= RESET_ON_FORK;
        }
        match self.clamp {
            Some((min, max)) => {
                raw.flags |= UTIL_CLAMP;
                raw.util_min = min;
                raw.util_max = max;
            }
            // Without clamps the old form says everything, and every kernel takes it.
            None => raw.size = SIZE_OLD,
        }
        raw
    }

    fn from_raw(raw: &Raw) -> io::Result<Self> {
        let nice = raw.nice;
        let policy = match raw.policy.cast_signed() {
            libc::SCHED_OTHER => Policy::Normal { nice },
            libc::SCHED_BATCH => Policy::Batch { nice },
            libc::SCHED_IDLE => Policy::Idle,
            libc::SCHED_FIFO => Policy::Fifo { priority: raw.priority },
            libc::SCHED_RR => Policy::RoundRobin { priority: raw.priority },
            libc::SCHED_DEADLINE => Policy::Deadline {
                runtime: Nanos(raw.runtime),
                deadline: Nanos(raw.deadline),
                period: Nanos(raw.period),
            },
            7 => Policy::Ext { nice },
            other => return Err(io::Error::other(format!("unknown scheduling policy {other}"))),
        };
        let fair = !matches!(policy, Policy::Deadline { .. });
        Ok(Self {
            policy,
            slice: if fair { Nanos(raw.runtime) } else { Nanos::ZERO },
            reset_on_fork: raw.flags & RESET_ON_FORK != 0,
            clamp: (raw.size >= SIZE && raw.util_max > 0).then_some((raw.util_min, raw.util_max)),
        })
    }
}

/// Sets the attributes of a thread (0: the calling one).
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE`, and as root in a control group without real-time runtime;
/// `EINVAL` for values that this kernel does not take; `EBUSY` when a deadline cannot be admitted.
pub fn set(thread: Pid, attributes: &Attributes) -> io::Result<()> {
    let raw = attributes.raw();
    // SAFETY: `raw` is a sched_attr whose `size` field tells its length; the kernel only reads it.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setattr, thread.0, &raw const raw, 0 as libc::c_uint)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The attributes of a thread (0: the calling one).
///
/// # Errors
/// `ESRCH` when there is no such thread.
pub fn get(thread: Pid) -> io::Result<Attributes> {
    let mut raw = Raw::default();
    // SAFETY: the kernel writes at most `SIZE` bytes into `raw`, which is that long.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            thread.0,
            &raw mut raw,
            SIZE as libc::c_uint,
            0 as libc::c_uint,
        )
    };
    if result == 0 { Attributes::from_raw(&raw) } else { Err(io::Error::last_os_error()) }
}

/// Tries `SCHED_DEADLINE` on a short-lived thread.
///
/// # Errors
/// As [`set`]: `EPERM` without the right or bound to a part of a root domain, `EBUSY` when the
/// bandwidth is given away, `EINVAL` where the kernel has none.
pub fn takes_deadlines() -> io::Result<()> {
    attempt(None, deadline())
}

/// Whether a deadline task may be bound to `cpus`: tried on a thread that ends then.
///
/// # Errors
/// As [`takes_deadlines`]; `EPERM` where they are a part of a root domain only.
pub fn takes_deadlines_on(cpus: &CpuSet) -> io::Result<()> {
    attempt(Some(cpus.clone()), deadline())
}

/// The least that is worth trying.
fn deadline() -> Attributes {
    let ms = Nanos::from_millis;
    Policy::Deadline { runtime: ms(1), deadline: ms(100), period: ms(100) }.into()
}

/// Tries utilisation clamps that change nothing, on a short-lived thread.
///
/// # Errors
/// `EOPNOTSUPP` where the kernel was built without them, `E2BIG` where it is older than 5.3.
pub fn takes_clamps() -> io::Result<()> {
    attempt(None, Attributes { clamp: Some((0, 1024)), ..get(Pid(0))? })
}

fn attempt(cpus: Option<CpuSet>, attributes: Attributes) -> io::Result<()> {
    crate::process::on_a_thread(|| {
        cpus.map_or(Ok(()), |cpus| set_affinity(Pid(0), &cpus))?;
        set(Pid(0), &attributes)
    })
}

/// The largest CPU number + 1 that a mask of ours can hold.
const MASK_BITS: usize = 65_536;

/// Where a thread (0: the calling one) may run.
///
/// # Errors
/// `ESRCH` when there is no such thread.
pub fn affinity(thread: Pid) -> io::Result<CpuSet> {
    let mut bits = 1024;
    loop {
        let mut words = vec![0u64; bits / 64];
        // SAFETY: the kernel writes at most the given number of bytes, and `words` has that many.
        let result = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                thread.0,
                words.len() * 8,
                words.as_mut_ptr(),
            )
        };
        if result >= 0 {
            return Ok(CpuSet::from_words(&words));
        }
        let error = io::Error::last_os_error();
        // A machine that may have more CPUs than the mask holds says EINVAL.
        if error.raw_os_error() != Some(libc::EINVAL) || bits >= MASK_BITS {
            return Err(error);
        }
        bits *= 4;
    }
}

/// Binds a thread (0: the calling one) to `cpus`.
///
/// # Errors
/// `EINVAL` when none of them is online and allowed by the control group; `EPERM` for a thread of
/// another user.
pub fn set_affinity(thread: Pid, cpus: &CpuSet) -> io::Result<()> {
    let words = cpus.words();
    // SAFETY: the kernel reads the given number of bytes, and `words` has that many.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, thread.0, words.len() * 8, words.as_ptr())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The CPU on which the caller runs just now.
#[must_use]
pub fn current_cpu() -> schedlab_model::Cpu {
    let cpu = rustix::thread::sched_getcpu();
    schedlab_model::Cpu(u16::try_from(cpu).unwrap_or(u16::MAX))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
mod tests {
    use super::*;

    const SELF: Pid = Pid(0);

    #[test]
    fn the_timer_slack_of_a_thread_is_what_was_set() {
        std::thread::spawn(|| {
            set_timer_slack(Nanos(7_000)).unwrap();
            assert_eq!(rustix::thread::current_timer_slack().unwrap(), 7_000);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_can_be_bound_and_asked() {
        std::thread::spawn(|| {
            let all = affinity(SELF).unwrap();
            let one: CpuSet = all.iter().take(1).collect();
            set_affinity(SELF, &one).unwrap();
            assert_eq!(affinity(SELF).unwrap(), one);
            assert!(one.contains(current_cpu()));
            assert!(set_affinity(SELF, &CpuSet::new()).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn attributes_survive_the_kernel() {
        std::thread::spawn(|| {
            let batch = Attributes::from(Policy::Batch { nice: 7 });
            set(SELF, &batch).unwrap();
            assert_eq!(get(SELF).unwrap().policy, batch.policy);
            let wrong = Attributes::from(Policy::Fifo { priority: 200 });
            assert!(set(SELF, &wrong).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_was_tried_leaves_the_caller_as_it_was() {
        let before = get(SELF).unwrap();
        for tried in [takes_deadlines(), takes_clamps()] {
            // Either it is had, or the kernel says why not.
            assert!(tried.as_ref().map_err(io::Error::raw_os_error) != Err(None), "{tried:?}");
        }
        assert_eq!(get(SELF).unwrap(), before);
    }

    #[test]
    fn every_policy_is_read_back_from_its_raw_form() {
        for policy in [
            Policy::Normal { nice: -3 },
            Policy::Batch { nice: 19 },
            Policy::Idle,
            Policy::Fifo { priority: 1 },
            Policy::RoundRobin { priority: 99 },
            Policy::Deadline { runtime: Nanos(1), deadline: Nanos(2), period: Nanos(3) },
            Policy::Ext { nice: 0 },
        ] {
            let attributes = Attributes { reset_on_fork: true, ..policy.into() };
            assert_eq!(Attributes::from_raw(&attributes.raw()).unwrap(), attributes);
        }
        assert!(Attributes::from_raw(&Raw { policy: 42, ..Raw::default() }).is_err());
    }
}
