//! Tasks of a load: forked processes, and what a task can learn about itself as it ends.

use rustix::process::{Pid as RawPid, WaitOptions};
use schedlab_model::{Nanos, Pid, Usage};
use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that forked; the child's number.
    Parent(Pid),
    /// The new process. It has the one thread that forked, and dies with its parent.
    Child,
}

/// Forks. The child gets SIGKILL when the forking thread ends.
///
/// # Errors
/// `EBUSY` when this process has other threads: their locks would stay locked in the child. What
/// fork refuses: `EAGAIN` at the limit of processes, `ENOMEM`.
pub fn fork() -> io::Result<Side> {
    if threads()? != 1 {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    let parent = std::process::id();
    // SAFETY: this is the only thread, so that the child's memory is whole and no lock is held.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            use rustix::process::{Signal, getppid, set_parent_process_death_signal};
            let armed = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
            let alive =
                getppid().is_some_and(|pid| pid.as_raw_nonzero().get().cast_unsigned() == parent);
            if armed && alive { Ok(Side::Child) } else { exit_now(1) }
        }
        pid => Ok(Side::Parent(Pid(pid))),
    }
}

/// How many threads this process has. The links of the folder tell, where it counts them (one for each
/// thread beside the two of any folder): nothing is allocated then, and a parent of thousands touches
/// less of its memory between two forks.
fn threads() -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    match std::fs::metadata("/proc/self/task")?.nlink() {
        links @ 3.. => Ok(links - 2),
        _ => Ok(std::fs::read_dir("/proc/self/task")?.count() as u64),
    }
}

/// Ends the process at once: no destructors, no buffers, as a forked child must.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes a plain number and does not return.
    unsafe { libc::_exit(code) }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// The process that ended.
    pub pid: Pid,
    /// Its exit code, or 128 + the signal that killed it.
    pub code: i32,
}

/// Reaps a child that ended; with `block` waits until one has. `None`: none has (or there are none).
///
/// # Errors
/// What wait refuses; an interrupting signal is `None`.
pub fn reap(block: bool) -> io::Result<Option<Reaped>> {
    let options = if block { WaitOptions::empty() } else { WaitOptions::NOHANG };
    match rustix::process::wait(options) {
        Ok(Some((pid, status))) => {
            let signal = || 128 + status.terminating_signal().unwrap_or(0);
            let code = status.exit_status().unwrap_or_else(signal);
            Ok(Some(Reaped { pid: Pid(pid.as_raw_nonzero().get()), code }))
        }
        Ok(None) | Err(rustix::io::Errno::CHILD | rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Names the calling thread (15 bytes are kept).
pub fn name_self(name: &str) {
    let mut bytes = [0; 16];
    for (to, byte) in bytes[..15].iter_mut().zip(name.bytes().filter(|&byte| byte != 0)) {
        *to = byte;
    }
    let name = std::ffi::CStr::from_bytes_until_nul(&bytes).expect("the last one is NUL");
    // A task that cannot be named runs as well.
    let _ = rustix::thread::set_name(name);
}

/// The signal that makes a blocked system call of a task return, so that it can see that it shall
/// stop. It is sent again until the task has.
pub const NUDGE: i32 = libc::SIGUSR1;

/// Lets [`NUDGE`] interrupt system calls of this process and do nothing else.
///
/// # Errors
/// When the signal cannot be caught.
pub fn catch_nudges() -> io::Result<()> {
    interrupt_on(NUDGE)
}

fn interrupt_on(signal: i32) -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: an all-zero sigaction is a valid value: no flags (so system calls are interrupted).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the action is valid and its handler does nothing.
    let result = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Nudges a thread of this process, or a child process by its only thread.
pub fn nudge(process: Pid, thread: Pid) {
    // SAFETY: tgkill takes plain numbers; a task that is gone is an error that nobody minds.
    unsafe { libc::syscall(libc::SYS_tgkill, process.0, thread.0, NUDGE) };
}

/// Lets SIGCHLD interrupt system calls of this process, so that a wait ends when a child does.
///
/// # Errors
/// When the signal cannot be caught.
pub fn catch_children() -> io::Result<()> {
    interrupt_on(libc::SIGCHLD)
}

/// Sleeps for a time; a signal cuts it short.
pub fn sleep(time: Nanos) {
    let request = rustix::time::Timespec {
        tv_sec: i64::try_from(time.0 / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(time.0 % 1_000_000_000).expect("below a second"),
    };
    // What is left of it does not matter: the one that was interrupted looks at the clock.
    let _ = rustix::thread::nanosleep(&request);
}

/// What the kernel counted for the calling thread so far. `migrations`: also read the longer file
/// that has them (some 20 µs).
#[must_use]
pub fn usage(migrations: bool) -> Usage {
    // The kernel accounts a task at ticks and switches; getrusage does not. Reading the task's clock does.
    thread_time();
    let raw = rusage(libc::RUSAGE_THREAD);
    let (run_delay, timeslices) = schedstat("/proc/thread-self/schedstat").unwrap_or_default();
    Usage {
        user: time(raw.ru_utime),
        system: time(raw.ru_stime),
        voluntary: number(raw.ru_nvcsw),
        involuntary: number(raw.ru_nivcsw),
        run_delay,
        timeslices,
        migrations: if migrations { migrations_of("/proc/thread-self/sched") } else { None },
    }
}

/// CPU time of the calling thread, to the nanosecond.
fn thread_time() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let whole = u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000;
    Nanos(whole + u64::try_from(time.tv_nsec).unwrap_or(0))
}

fn rusage(of: i32) -> libc::rusage {
    // SAFETY: an all-zero rusage is a valid value.
    let mut raw: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one rusage.
    unsafe { libc::getrusage(of, &raw mut raw) };
    raw
}

fn time(t: libc::timeval) -> Nanos {
    Nanos(u64::try_from(t.tv_sec * 1_000_000_000 + t.tv_usec * 1_000).unwrap_or(0))
}

fn number(count: libc::c_long) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

/// What the kernel counted for whole processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Time in user mode.
    pub user: Nanos,
    /// Time in the kernel.
    pub system: Nanos,
    /// Number of switches after which a task slept.
    pub voluntary: u64,
    /// Number of switches after which a task stayed runnable.
    pub involuntary: u64,
    /// Number of page faults without I/O.
    pub faults_minor: u64,
    /// Page faults that had to wait for a disk.
    pub faults_major: u64,
}

impl Resources {
    /// What this process has used so far, all its threads.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self::new(&rusage(libc::RUSAGE_SELF))
    }

    /// What its children have used that ended and were awaited, with theirs in turn.
    #[must_use]
    pub fn of_children() -> Self {
        Self::new(&rusage(libc::RUSAGE_CHILDREN))
    }

    fn new(raw: &libc::rusage) -> Self {
        Self {
            user: time(raw.ru_utime),
            system: time(raw.ru_stime),
            voluntary: number(raw.ru_nvcsw),
            involuntary: number(raw.ru_nivcsw),
            faults_minor: number(raw.ru_minflt),
            faults_major: number(raw.ru_majflt),
        }
    }

    /// What was used since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            user: self.user - before.user,
            system: self.system - before.system,
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
            faults_minor: self.faults_minor.saturating_sub(before.faults_minor),
            faults_major: self.faults_major.saturating_sub(before.faults_major),
        }
    }
}

/// Run delay and number of timeslices of a thread of this or another process; `None` if the kernel
/// does not count them, or if there is no such thread.
#[must_use]
pub fn run_delay(process: Pid, thread: Pid) -> Option<(Nanos, u64)> {
    schedstat(&format!("/proc/{process}/task/{thread}/schedstat"))
}

thread_local! {
    static SCHEDSTAT: Option<std::fs::File> = std::fs::File::open("/proc/thread-self/schedstat").ok();
}

/// Run delay of the calling thread over its life, read from a file that stays open: a few
/// microseconds. `None` if the kernel does not count it.
#[must_use]
pub fn own_run_delay() -> Option<Nanos> {
    let mut text = [0; 80];
    let length = SCHEDSTAT
        .with(|file| std::os::unix::fs::FileExt::read_at(file.as_ref()?, &mut text, 0).ok())?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    text.split_whitespace().nth(1)?.parse().ok().map(Nanos)
}

fn schedstat(path: &str) -> Option<(Nanos, u64)> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut fields = text.split_whitespace().skip(1).map(str::parse::<u64>);
    Some((Nanos(fields.next()?.ok()?), fields.next()?.ok()?))
}

fn migrations_of(path: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with("se.nr_migrations"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// Whether a process or task of that number is there (it may have ended and not been reaped).
#[must_use]
pub fn exists(pid: Pid) -> bool {
    RawPid::from_raw(pid.0).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

/// How many processes and threads this user may still start, as far as the limits tell: the
/// smallest of what `RLIMIT_NPROC`, the control group and the system leave. `None`: no limit known.
#[must_use]
pub fn tasks_left() -> Option<u64> {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let threads_max = number("/proc/sys/kernel/threads-max");
    let pid_max = number("/proc/sys/kernel/pid_max");
    let running = std::fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split_whitespace().nth(3)?.split('/').nth(1)?.parse::<u64>().ok())?;
    let system = threads_max.into_iter().chain(pid_max).min()?.saturating_sub(running);
    Some(system.min(group_left().unwrap_or(u64::MAX)))
}

fn group_left() -> Option<u64> {
    let group = crate::cgroup::here("pids")?.group();
    let number =
        |name: &str| std::fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    Some(number("pids.max")?.saturating_sub(number("pids.current")?))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_shared_its_cpu_has_waited_and_is_told_so() {
        let cpus = crate::sched::affinity(Pid(0)).unwrap();
        let burn = move || {
            let one = cpus.iter().take(1).collect();
            crate::sched::set_affinity(Pid(0), &one).unwrap();
            let before = own_run_delay()?;
            let end = crate::clock::monotonic() + Nanos::from_millis(60);
            while crate::clock::monotonic() < end {}
            Some((before, own_run_delay()?))
        };
        let both =
            [burn.clone(), burn].map(std::thread::spawn).map(|thread| thread.join().unwrap());
        let Some(both) = both.into_iter().collect::<Option<Vec<_>>>() else {
            use std::io::Write;
            let _ = writeln!(io::stderr(), "MISSING: /proc/thread-self/schedstat: not checked");
            return;
        };
        assert!(both.iter().all(|(before, after)| after > before), "{both:?}");
    }

    #[test]
    fn cpu_time_grows_between_two_ticks() {
        let used = || {
            let usage = usage(false);
            usage.user + usage.system
        };
        let mut before = used();
        for _ in 0..50 {
            // Some 50 us of work, far less than a tick.
            (0..100_000_u64).fold(0, |sum, n| std::hint::black_box(sum + n));
            let after = used();
            assert!(after > before, "{before}");
            before = after;
        }
    }

    #[test]
    fn a_thread_learns_what_the_kernel_counted() {
        std::thread::sleep(std::time::Duration::from_millis(1));
        let usage = usage(true);
        assert!(usage.voluntary >= 1, "{usage:?}");
    }

    #[test]
    fn a_process_with_threads_does_not_fork() {
        // The test harness has several threads.
        let error = fork().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBUSY));
    }
}
