//! Clocks: one reading each, in nanoseconds.

use rustix::time::{ClockId, clock_gettime};
use schedlab_model::Nanos;

/// `CLOCK_MONOTONIC`: the clock of every trace, mark and sample that schedlab writes.
#[must_use]
pub fn monotonic() -> Nanos {
    read(ClockId::Monotonic)
}

#[must_use]
pub fn thread_cpu() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

/// CPU time of the calling process, all its threads.
#[must_use]
pub fn process_cpu() -> Nanos {
    read(ClockId::ProcessCPUTime)
}

/// CPU time that any process (all its threads) has used, to the nanosecond; `None` when it is gone.
#[must_use]
pub fn cpu_of(process: schedlab_model::Pid) -> Option<Nanos> {
    // The kernel's number of a process's CPU clock: the complement of the pid, and "what the scheduler
    // counted" (2) for all threads.
    let clock = (!process.0 << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let secs = u64::try_from(time.tv_sec).ok()?;
    let nanos = u64::try_from(time.tv_nsec).ok()?;
    (result == 0).then_some(Nanos(secs * 1_000_000_000 + nanos))
}

/// The unit of CPU times in `/proc` (`USER_HZ`): 10 ms as a rule.
#[must_use]
pub fn tick() -> Nanos {
    Nanos(1_000_000_000 / rustix::param::clock_ticks_per_second())
}

/// How often the kernel's timer interrupts a CPU (1 / `CONFIG_HZ`): the resolution of its coarse clocks.
#[must_use]
pub fn interrupt() -> Nanos {
    let time = rustix::time::clock_getres(ClockId::MonotonicCoarse);
    Nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    let secs = u64::try_from(time.tv_sec).expect("these clocks start at zero");
    let nanos = u64::try_from(time.tv_nsec).expect("nanoseconds of a second are not negative");
    Nanos(secs * 1_000_000_000 + nanos)
}

/// Sleeps until `CLOCK_MONOTONIC` shows `until`; returns at once when that has passed. A signal does
/// not cut the sleep short.
pub fn sleep_until(until: Nanos) {
    let request = libc::timespec {
        tv_sec: i64::try_from(until.0 / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(until.0 % 1_000_000_000).expect("below a second"),
    };
    loop {
        // SAFETY: `request` is a valid timespec that outlives the call; a null remainder is allowed
        // with an absolute time.
        let error = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &raw const request,
                std::ptr::null_mut(),
            )
        };
        if error != libc::EINTR {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_of_any_process_can_be_asked() {
        let me = schedlab_model::Pid(std::process::id().cast_signed());
        let before = process_cpu();
        let asked = cpu_of(me).unwrap();
        assert!(before <= asked && asked <= process_cpu());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = schedlab_model::Pid(child.id().cast_signed());
        child.wait().unwrap();
        assert_eq!(cpu_of(pid), None);
    }

    #[test]
    fn a_sleep_ends_after_its_time_and_a_past_one_at_once() {
        let until = monotonic() + Nanos::from_millis(2);
        sleep_until(until);
        assert!(monotonic() >= until);
        sleep_until(Nanos::ZERO);
    }
}
