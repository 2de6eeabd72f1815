//! Processes: how children end, end with us, and what limits us.

use super::kernel_file;
use schedlab_model::{Comm, Cpu, Nanos, Pid, Prio};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, PoisonError};

/// Makes the command's process die (SIGKILL) when the thread that spawns it dies.
///
/// It follows the *thread*: spawn from one that lives as long as the child shall.
pub fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let before_exec = move || {
        use rustix::process::{Signal, getppid, set_parent_process_death_signal};
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died between fork and here; then nobody would send the signal.
        let orphan =
            getppid().is_none_or(|pid| pid.as_raw_nonzero().get().cast_unsigned() != parent);
        if orphan { Err(io::Error::from_raw_os_error(libc::ESRCH)) } else { Ok(()) }
    };
    // SAFETY: between fork and exec only two system calls are made and nothing is allocated.
    unsafe { command.pre_exec(before_exec) };
}

/// Puts the command into a session of its own, so that terminal signals pass it by.
pub fn own_session(command: &mut Command) {
    // SAFETY: between fork and exec only one system call is made and nothing is allocated.
    unsafe { command.pre_exec(|| rustix::process::setsid().map(|_| ()).map_err(Into::into)) };
}

/// Lets the command, and what it starts, write no file beyond this many bytes: the kernel ends it by SIGXFSZ.
pub fn limit_files(command: &mut Command, bytes: u64) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    let before_exec = move || setrlimit(Resource::Fsize, limit).map_err(Into::into);
    // SAFETY: between fork and exec only one system call is made and nothing is allocated.
    unsafe { command.pre_exec(before_exec) };
}

/// Lets the command keep copies of open descriptors of ours: it holds a lock or a pipe with us until it ends. So does
/// `command` itself.
///
/// # Errors
/// With too many open files.
pub(crate) fn hand_down<'f>(
    command: &mut Command,
    fds: impl Iterator<Item = BorrowedFd<'f>>,
) -> io::Result<()> {
    let copies = fds.map(|fd| fd.try_clone_to_owned()).collect::<io::Result<Vec<OwnedFd>>>()?;
    let keep = move || {
        let inherit = |fd: &OwnedFd| rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty());
        copies.iter().try_for_each(inherit).map_err(Into::into)
    };
    // SAFETY: between fork and exec only system calls are made and nothing is allocated.
    unsafe { command.pre_exec(keep) };
    Ok(())
}

/// The exit code that a shell would show: the child's own, or 128 + the signal that killed it.
#[must_use]
pub fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// A descriptor that becomes readable when the child ends.
///
/// # Errors
/// Kernels before 5.3 have none.
pub fn ended(child: &Child) -> io::Result<OwnedFd> {
    use rustix::process::{PidfdFlags, pidfd_open};
    let pid = rustix::process::Pid::from_child(child);
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Waits until one of `fds` is readable or `timeout` passed; returns which are.
///
/// # Errors
/// What poll refuses. An interrupting signal is no error: nothing is readable then.
pub fn poll(fds: &[BorrowedFd<'_>], timeout: Option<Nanos>) -> io::Result<Vec<bool>> {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let timeout = timeout.map(|t| Timespec {
        tv_sec: i64::try_from(t.0 / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(t.0 % 1_000_000_000).expect("below a second"),
    });
    match rustix::event::poll(&mut polled, timeout.as_ref()) {
        Ok(_) => Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(rustix::io::Errno::INTR) => Ok(vec![false; fds.len()]),
        Err(error) => Err(error.into()),
    }
}

/// Sends what is written to the standard output to the standard error from now on, also by programs that are started.
/// Returns the old standard output.
///
/// # Errors
/// When a stream is closed.
pub fn divert_stdout() -> io::Result<OwnedFd> {
    let old = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(old)
}

/// Whether the other side of a terminal or a pipe is gone. Reading such a terminal gives nothing, again and again.
///
/// # Errors
/// What poll refuses.
pub fn is_hung_up(fd: BorrowedFd<'_>) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let mut polled = [PollFd::new(&fd, PollFlags::empty())];
    match rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(_) => Ok(polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens without waiting for the other end of a pipe, and reads without waiting.
pub const NONBLOCK: i32 = libc::O_NONBLOCK;

/// Makes a pipe that has a name, for this user only.
///
/// # Errors
/// When there is a file of this name, or the folder cannot be written.
pub fn make_pipe(path: &std::path::Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    Ok(mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?)
}

/// Sends a signal (0: only asks whether it could be sent).
///
/// # Errors
/// `ESRCH` when there is no such process, `EPERM` when it is not ours.
pub fn kill(pid: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes plain numbers.
    let result = unsafe { libc::kill(pid.0, signal) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// When a process started, in clock ticks since boot: with the pid it names a process for good.
/// `None` if there is no such process.
#[must_use]
pub fn start_ticks(pid: Pid) -> Option<u64> {
    stat_field(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?, 22)
}

/// Whether a task (thread) runs or waits for a CPU now; `None` if there is no such task.
#[must_use]
pub fn is_runnable(task: Pid) -> Option<bool> {
    Some(is_runnable_by(&stat_of_task(task)?))
}

/// Of a task (thread) that runs or waits for a CPU now: which CPU, and the kernel's priority. `None` if it sleeps, or is
/// gone.
#[must_use]
pub fn queued(task: Pid) -> Option<(Cpu, Prio)> {
    let stat = stat_of_task(task).filter(|stat| is_runnable_by(stat))?;
    // The kernel takes 100 off: nice values are at 0 to 39, real-time priorities below zero.
    let prio: i16 = text_field(&stat, 18)?.parse().ok()?;
    Some((Cpu(text_field(&stat, 39)?.parse().ok()?), Prio(prio + 100)))
}

/// How many tasks run or wait for a CPU now, this one included; `None` if the kernel does not tell.
#[must_use]
pub fn count_runnable() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// The `stat` of one task. The file directly below `/proc` adds up all threads of a process first: with 10,000 of them
/// it takes a millisecond.
fn stat_of_task(task: Pid) -> Option<String> {
    kernel_file::read(format!("/proc/{task}/task/{task}/stat")).ok()
}

fn is_runnable_by(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}

/// CPU time that a process (all its threads) has used, to the clock tick (10 ms as a rule); `None`
/// if there is no such process.
#[must_use]
pub fn cpu_time(pid: Pid) -> Option<Nanos> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = stat_field(&stat, 14)? + stat_field(&stat, 15)?;
    Some(Nanos(ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second())))
}

/// The CPU time that each process has used, to the clock tick, with that of children which ended and were awaited.
#[derive(Clone, Debug, Default)]
pub struct CpuTimes {
    /// By number and start.
    others: BTreeMap<(u64, u64), (String, Nanos)>,
    /// That of the living descendants of this process.
    pub descendants: Nanos,
}

impl CpuTimes {
    /// Reads a file for each process there is.
    #[must_use]
    pub fn now() -> Self {
        let own = u64::from(std::process::id());
        let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u64>().ok();
        let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(number);
        let read = |pid: u64| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, (stat_field(&stat, 4)?, stat)))
        };
        let all: BTreeMap<u64, (u64, String)> = pids.filter_map(read).collect();
        let mut found = Self::default();
        for (&pid, (_, stat)) in &all {
            let ticks = (14..=17).filter_map(|field| stat_field(stat, field)).sum::<u64>();
            let used = Nanos(ticks * crate::clock::tick().0);
            // A chain of parents ends at process 1, whose parent 0 is not listed; a number that was used again in
            // between could make a ring of it.
            let mut above = std::iter::successors(Some(pid), |pid| Some(all.get(pid)?.0));
            if pid == own {
                continue;
            }
            if above.by_ref().take(1_000).any(|parent| parent == own) {
                found.descendants += used;
                continue;
            }
            let name = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
            let name = name.map_or(String::new(), |(name, _)| name.to_owned());
            let key = (pid, stat_field(stat, 22).unwrap_or(0));
            found.others.insert(key, (name, used));
        }
        found
    }

    /// The name under which processes outside of this one and its descendants used the most CPU time since `before`, and
    /// how much. `None` where none used a clock tick. Of a process that began and ended in between only its parent tells.
    #[must_use]
    pub fn most_of_others(&self, before: &Self) -> Option<(String, Nanos)> {
        let mut names: BTreeMap<&str, u64> = BTreeMap::new();
        for (key, (name, used)) in &self.others {
            let was = before.others.get(key).map_or(Nanos::ZERO, |(_, was)| *was);
            *names.entry(name).or_default() += used.0.saturating_sub(was.0);
        }
        let most = names.into_iter().filter(|(_, used)| *used > 0).max_by_key(|(_, used)| *used);
        most.map(|(name, used)| (name.to_owned(), Nanos(used)))
    }
}

/// CPU time, to the clock tick, of children of a process that ended and were awaited, with that of
/// theirs; `None` if there is no such process.
#[must_use]
pub fn ended_children_cpu_time(pid: Pid) -> Option<Nanos> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = stat_field(&stat, 16)? + stat_field(&stat, 17)?;
    Some(Nanos(ticks * crate::clock::tick().0))
}

/// Whether `pid` is this process or one from which it descends.
#[must_use]
pub fn is_above_us(pid: Pid) -> bool {
    let parent = |pid: &Pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat_field(&stat, 4).and_then(|parent| i32::try_from(parent).ok()).map(Pid)
    };
    let us = Pid(std::process::id().cast_signed());
    // A number that is used again in between could make a ring of it.
    std::iter::successors(Some(us), parent).take(1_000).any(|one| one == pid)
}

/// All processes that this one can see.
pub fn all() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid))
}

/// A process and all its living descendants, each after its parent. Reads a file for each process there is.
#[must_use]
pub fn family(root: Pid) -> Vec<Pid> {
    let parent = |pid: Pid| -> Option<Pid> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        i32::try_from(stat_field(&stat, 4)?).ok().map(Pid)
    };
    let parents: Vec<(Pid, Pid)> = all().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut family = vec![root];
    let mut at = 0;
    while let Some(&pid) = family.get(at) {
        family.extend(parents.iter().filter(|(_, parent)| *parent == pid).map(|(pid, _)| *pid));
        at += 1;
    }
    family
}

/// For how long a thread has run (`schedstat`); `None` when it is gone, or the kernel does not count it.
#[must_use]
pub fn ran(thread: Pid) -> Option<Nanos> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Nanos)
}

/// How often a thread left the CPU by itself, to sleep or to wait; `None` when it is gone.
#[must_use]
pub fn voluntary_switches(thread: Pid) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// Field `number` (from 1, as in proc(5)) of a `stat` line. The name in it may hold anything, so
/// fields are counted from its closing parenthesis.
fn text_field(stat: &str, number: usize) -> Option<&str> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)
}

/// The same of a field that is a number, and not below zero.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    text_field(stat, number)?.parse().ok()
}

/// The name of a task; `None` if there is no such task.
#[must_use]
pub fn comm(pid: Pid) -> Option<Comm> {
    let bytes = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(comm_of(bytes.strip_suffix(b"\n").unwrap_or(&bytes)))
}

/// The process of a task: the number of its first thread; `None` if there is no such task.
#[must_use]
pub fn process_of(task: Pid) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{task}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok().map(Pid)
}

/// The session of a task, zero of a kernel thread; `None` if there is no such task.
#[must_use]
pub fn session(task: Pid) -> Option<Pid> {
    // SAFETY: it takes a number and gives one.
    let session = unsafe { libc::getsid(task.0) };
    (session >= 0).then_some(Pid(session))
}

/// At most 15 bytes of `name`, padded with NUL.
#[must_use]
pub fn comm_of(name: &[u8]) -> Comm {
    let mut comm = Comm::default();
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len()).min(15);
    comm[..length].copy_from_slice(&name[..length]);
    comm
}

/// All tasks (threads) there are, kernel threads included, in ascending order.
#[must_use]
pub fn tasks() -> Vec<Pid> {
    tasks_with_processes().into_iter().map(|(task, _)| task).collect()
}

/// All tasks of the machine, each with the number of its process: that of the process's first
/// thread.
#[must_use]
pub fn tasks_with_processes() -> Vec<(Pid, Pid)> {
    let number = |entry: &std::fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    let list = |path: &str| std::fs::read_dir(path).into_iter().flatten().flatten();
    let threads = |process: i32| {
        let tasks = list(&format!("/proc/{process}/task")).filter_map(|task| number(&task));
        tasks.map(move |task| (Pid(task), Pid(process))).collect::<Vec<_>>()
    };
    let processes = list("/proc").filter_map(|entry| number(&entry));
    let mut tasks: Vec<(Pid, Pid)> = processes.flat_map(threads).collect();
    tasks.sort_unstable();
    tasks
}

/// The threads of a process; none when it is gone.
#[must_use]
pub fn threads(process: Pid) -> Vec<Pid> {
    let entries = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok().map(Pid);
    entries.flatten().filter_map(number).collect()
}

/// The process of a thread; `None` when it is gone.
#[must_use]
pub fn of_thread(thread: Pid) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok().map(Pid)
}

/// Raises the soft limit of open files to the hard one; returns the limit in force (`None`: none).
pub fn raise_open_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, wanted).is_ok() { limit.maximum } else { limit.current }
}

/// Limits how long a real-time thread of this process may run without blocking: at `soft` it gets
/// SIGXCPU, at `hard` SIGKILL.
///
/// # Errors
/// When the limit would have to be raised without the right to.
pub fn limit_realtime(soft: Nanos, hard: Nanos) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let micros = |time: Nanos| Some(time.0 / 1_000);
    Ok(setrlimit(Resource::Rttime, Rlimit { current: micros(soft), maximum: micros(hard) })?)
}

/// The number of the effective user.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether the effective user is root.
#[must_use]
pub fn is_root() -> bool {
    user() == 0
}

/// Bytes of a memory page.
#[must_use]
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// Does `work` on a thread that ends with it, so that the caller stays as it is: what it tries on itself (a
/// policy, a namespace) is gone then.
///
/// # Errors
/// [`thread_refused`] where no further thread may be started, and those of `work`.
pub fn on_a_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, work);
        let thread = thread.map_err(|error| thread_refused(&error))?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    })
}

/// The error of a thread that was not started, with what limits threads.
#[must_use]
pub fn thread_refused(error: &io::Error) -> io::Error {
    let why = format!(
        "cannot start another thread: {error}; raise pids.max of the control group, or `ulimit -u`"
    );
    io::Error::new(error.kind(), why)
}

/// The calling thread's number.
#[must_use]
pub fn thread_id() -> Pid {
    Pid(rustix::thread::gettid().as_raw_nonzero().get())
}

/// The program that runs here, to be started again: its path while that still names the same file, else the
/// file itself. So a build that replaces the program does not change what its children are. Call it early:
/// the first call keeps the file open.
///
/// # Errors
/// When `/proc` is not there.
pub fn this_program() -> io::Result<PathBuf> {
    static KEPT: Mutex<Option<File>> = Mutex::new(None);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let file = match &*kept {
        Some(file) => file,
        None => kept.insert(File::open("/proc/self/exe")?),
    };
    let path = std::env::current_exe()?;
    let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    let own = file.metadata()?;
    if std::fs::metadata(&path).is_ok_and(|now| same(&now, &own)) {
        return Ok(path);
    }
    // Resolved by the child before it closes what it does not inherit.
    Ok(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_used_the_most_of_what_others_used() {
        let times = |all: &[(u64, u64, &str, u64)]| {
            let one = |(pid, start, name, ms): &(u64, u64, &str, u64)| {
                ((*pid, *start), ((*name).to_owned(), Nanos::from_millis(*ms)))
            };
            CpuTimes { others: all.iter().map(one).collect(), descendants: Nanos::ZERO }
        };
        let before = times(&[(5, 1, "make", 500), (6, 2, "cc1", 100), (7, 3, "old", 900)]);
        // Two processes of one name; a number that was used again; one that did nothing.
        let after =
            times(&[(5, 1, "make", 520), (6, 9, "cc1", 15), (8, 9, "cc1", 15), (7, 3, "old", 900)]);
        let most = after.most_of_others(&before);
        assert_eq!(most, Some(("cc1".to_owned(), Nanos::from_millis(30))));
        assert_eq!(before.most_of_others(&before), None);
        assert!(!CpuTimes::now().others.is_empty(), "there are processes besides ours");
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 50 60 0 0 20 0 1 0 777 0";
        assert_eq!(stat_field(stat, 14), Some(50));
        assert_eq!(stat_field(stat, 22), Some(777));
        assert_eq!(stat_field(stat, 99), None);
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let run = |script: &str| Command::new("sh").arg("-c").arg(script).status().unwrap();
        assert_eq!(exit_code(run("exit 7")), 7);
        assert_eq!(exit_code(run("kill -9 $$")), 137);
    }

    #[test]
    fn a_child_that_ended_is_readable() {
        let mut child = Command::new("true").spawn().unwrap();
        let fd = ended(&child).unwrap();
        use std::os::fd::AsFd;
        assert_eq!(poll(&[fd.as_fd()], None).unwrap(), [true]);
        child.wait().unwrap();
    }

    #[test]
    fn a_pipe_without_its_other_end_is_hung_up() {
        use std::os::fd::AsFd;
        let (reader, writer) = std::io::pipe().unwrap();
        assert!(!is_hung_up(reader.as_fd()).unwrap());
        drop(writer);
        assert!(is_hung_up(reader.as_fd()).unwrap());
    }

    #[test]
    fn we_are_among_the_tasks() {
        let me = thread_id();
        assert!(tasks().contains(&me));
        assert!(start_ticks(me).is_some() && comm(me).is_some());
    }
}
