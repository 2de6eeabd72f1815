//! Every change to the machine is undone, even if a process dies.
//!
//! Before each change, how to undo it is written to a journal file. When the work is done the steps
//! are undone in reverse order and the journal goes. When the process dies instead, `kill -9`
//! included, a guardian notices: the same program, re-executed in a session of its own with the
//! hidden first argument [`ARGUMENT`], that does nothing but wait for the end of a pipe that only
//! the guarded process holds open; it then undoes what the journal still lists. A guardian that is
//! killed alone is replaced at once. Should both die, [`restore`] finds journals whose owner is gone.
//!
//! A step must be harmless when its change was never made, and when it is undone twice.

mod ends;
mod guardian;

pub use ends::{Ends, ended, output};

use crate::kernel_file;
use crate::lock::Lock;
use crate::tracefs::Tracefs;
use guardian::Post;
use schedlab_model::Pid;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// First argument of the re-executed program; the second is the journal's path.
pub const ARGUMENT: &str = "__guard";

/// The variable in the environment of commands that end with the process that started them ([`Ends`]).
pub const MARK: &str = "SCHEDLAB_GUARDED";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// Write this into a file (a knob, a limit, a frequency).
    Write { path: PathBuf, content: String },
    /// Let a stopped process go on (SIGCONT).
    Continue {
        /// The id of the process.
        pid: Pid,
        /// The start of the process, see [`crate::process::start_ticks`].
        started: u64,
    },
    /// Kill a process and its threads.
    Kill {
        /// The id of the process.
        pid: Pid,
        /// The start of the process, see [`crate::process::start_ticks`].
        started: u64,
    },
    /// Kill all processes that have this value of [`MARK`] in their environment, wherever they went.
    EndMarked { mark: String },
    /// Remove a folder that we made, with all that is in it.
    RemoveTree { path: PathBuf },
    /// Kill all processes of a control group.
    KillGroup {
        /// The directory of the group.
        path: PathBuf,
    },
    /// Remove an empty directory (a control group); a group whose last task lingers is retried.
    RemoveDir { path: PathBuf },
    /// Remove a file (a socket) that we made.
    RemoveFile { path: PathBuf },
    /// Remove an ftrace instance, wherever tracefs is mounted then.
    RemoveInstance {
        /// Its name below `instances`.
        name: String,
    },
    /// Remove a dynamic event that we defined, wherever tracefs is mounted then.
    RemoveProbe {
        /// The system that it is shown under.
        group: String,
        /// The name of the event within its system, as `dynamic_events` lists it.
        name: String,
    },
    /// Write this into a file of tracefs, wherever that is mounted then.
    WriteTracefs {
        /// The file, relative to the root of tracefs.
        file: String,
        content: String,
    },
    /// Move the processes of one control group to another.
    MoveTasks {
        /// The group to empty.
        from: PathBuf,
        /// The group to which the processes go.
        to: PathBuf,
    },
    /// Move a task back to the control group that it came from. Children that it had meanwhile go with it.
    Return {
        /// The process, or the thread where threads came from different groups.
        pid: Pid,
        /// The start of the process, see [`crate::process::start_ticks`].
        started: u64,
        /// The group that it was moved to.
        from: PathBuf,
        /// The list that it was on: `cgroup.procs`, or the list of threads, of the group where it was.
        to: PathBuf,
    },
    /// Remove a network namespace (`ip netns`) that we made, with the devices in it.
    RemoveNamespace { name: String },
    /// Remove a network device that we made; its peer goes with it.
    RemoveDevice { name: String },
    /// Remove a rule of routing that dropped packets between two addresses.
    RemoveRule { from: std::net::Ipv4Addr, to: std::net::Ipv4Addr },
    /// Give a thread its scheduling attributes back.
    Attributes {
        /// The id of the thread.
        pid: Pid,
        /// The start of the thread, see [`crate::process::start_ticks`].
        started: u64,
        attributes: crate::sched::Attributes,
    },
    /// Give the fair tasks of a control group that have a slice of ours the kernel's own back.
    Slice { group: PathBuf, slice: schedlab_model::Nanos },
    /// Give a thread its allowed CPUs back.
    Affinity {
        /// The id of the thread.
        pid: Pid,
        /// The start of the thread, see [`crate::process::start_ticks`].
        started: u64,
        /// Where it could run.
        cpus: schedlab_model::CpuSet,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Owner { pid: Pid, started: u64 },
    Step { id: u32, undo: Undo },
    Undone { id: u32 },
}

/// A step that can be undone before the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(u32);

/// The list of what must be undone, with its guardian. Dropping it undoes everything.
#[derive(Debug)]
pub struct Guard {
    journal: File,
    path: PathBuf,
    steps: Vec<(u32, Undo)>,
    next: u32,
    post: Post,
}

impl Guard {
    /// Opens a journal and starts the guardian.
    ///
    /// # Errors
    /// When the journal cannot be written or the program not be re-executed.
    pub fn arm() -> io::Result<Self> {
        Self::arm_with(&directory()?, &crate::process::this_program()?)
    }

    /// As [`Guard::arm`], with the journal's directory and the program that answers to [`ARGUMENT`].
    ///
    /// # Errors
    /// As [`Guard::arm`].
    pub fn arm_with(directory: &Path, program: &Path) -> io::Result<Self> {
        Self::arm_keeping(directory, program, Vec::new())
    }

    /// As [`Guard::arm_with`], with locks that are held until everything is undone: by the guardian if this
    /// process dies.
    ///
    /// # Errors
    /// As [`Guard::arm`].
    pub fn arm_keeping(directory: &Path, program: &Path, locks: Vec<Lock>) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let pid = Pid(std::process::id().cast_signed());
        let started = crate::process::start_ticks(pid).unwrap_or(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("{pid}-{started}-{count}.journal"));
        // Started before the journal exists: if this process is killed in between, nobody else would remove the journal.
        // A guardian without a journal has nothing to do.
        let post = Post::start(program, &path, locks)?;
        let journal = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
        let mut guard = Self { journal, path, steps: Vec::new(), next: 0, post };
        guard.append(&Line::Owner { pid, started })?;
        let files: Vec<PathBuf> =
            guard.post.locks().iter().map(|lock| lock.path().to_owned()).collect();
        // First on the list, so undone last, by the one that holds the lock then.
        for path in files {
            guard.before(Undo::RemoveFile { path })?;
        }
        Ok(guard)
    }

    /// Whether the guardian was killed and replaced since this was asked last.
    ///
    /// # Errors
    /// When it could not be started again.
    pub fn replaced(&mut self) -> io::Result<bool> {
        self.post.replaced()
    }

    /// The id of the guardian process; `None` if nothing was armed.
    #[must_use]
    pub fn guardian(&self) -> Option<Pid> {
        self.post.guardian()
    }

    /// Notes how to undo a change that is about to be made.
    ///
    /// # Errors
    /// When the journal cannot be written: then do not make the change.
    pub fn before(&mut self, undo: Undo) -> io::Result<StepId> {
        let id = self.next;
        self.append(&Line::Step { id, undo: undo.clone() })?;
        self.next += 1;
        self.steps.push((id, undo));
        Ok(StepId(id))
    }

    /// Writes `content` into a file after noting what it held.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn write(&mut self, path: &Path, content: &str) -> io::Result<StepId> {
        let old = std::fs::read_to_string(path)?.trim_end().to_owned();
        let step = self.before(Undo::Write { path: path.to_owned(), content: old })?;
        kernel_file::write(path, content)?;
        Ok(step)
    }

    /// A value of [`MARK`] for commands: while this lives, all that have it are killed if this process dies. It is as
    /// long for every process, so that a command finds its stack at the same place each time.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn end_marked(&mut self) -> io::Result<(StepId, String)> {
        // Two guards of one process have different marks.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        let started = crate::process::start_ticks(Pid(pid.cast_signed())).unwrap_or(0);
        let mark = format!("{pid:010}-{started:020}-{count:010}");
        let step = self.before(Undo::EndMarked { mark: mark.clone() })?;
        Ok((step, mark))
    }

    /// Takes a step off the list: what it would undo may stay.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn forget(&mut self, step: StepId) -> io::Result<()> {
        self.steps.retain(|(id, _)| *id != step.0);
        self.append(&Line::Undone { id: step.0 })
    }

    /// Undoes one step now.
    ///
    /// # Errors
    /// When it could not be undone; it then stays on the list.
    pub fn undo(&mut self, step: StepId) -> io::Result<()> {
        let Some(at) = self.steps.iter().position(|(id, _)| *id == step.0) else { return Ok(()) };
        self.steps[at].1.perform()?;
        self.steps.remove(at);
        self.append(&Line::Undone { id: step.0 })
    }

    /// Undoes everything, last change first, and ends the guardian. Returns what could not be
    /// undone; it then stays in the journal for [`restore`].
    pub fn finish(mut self) -> Vec<(Undo, io::Error)> {
        self.undo_all()
    }

    fn undo_all(&mut self) -> Vec<(Undo, io::Error)> {
        let mut failed = Vec::new();
        for (id, undo) in std::mem::take(&mut self.steps).into_iter().rev() {
            match undo.perform() {
                Ok(()) => {
                    let _ = self.append(&Line::Undone { id });
                }
                Err(error) => failed.push((undo, error)),
            }
        }
        if failed.is_empty() {
            let _ = std::fs::remove_file(&self.path);
        }
        self.post.end();
        failed
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_string(line).map_err(io::Error::other)?;
        text.push('\n');
        // One write: a process that dies leaves whole lines.
        self.journal.write_all(text.as_bytes())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.undo_all();
    }
}

impl Undo {
    /// Puts things back. What is already gone needs no undoing.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn perform(&self) -> io::Result<()> {
        let result = match self {
            Self::Write { path, content } => kernel_file::write(path, content),
            Self::Continue { pid, started } => signal(*pid, *started, libc::SIGCONT),
            Self::Kill { pid, started } => signal(*pid, *started, libc::SIGKILL),
            Self::EndMarked { mark } => end_marked(mark),
            Self::RemoveTree { path } => remove_tree(path),
            Self::KillGroup { path } => kill_group(path),
            Self::RemoveDir { path } => remove_dir(path),
            Self::RemoveFile { path } => std::fs::remove_file(path),
            Self::RemoveInstance { name } => Tracefs::open()
                .and_then(|tracefs| remove_dir(&tracefs.root().join("instances").join(name))),
            Self::RemoveProbe { group, name } => Tracefs::open().and_then(|tracefs| {
                let removed = || match tracefs.define(&format!("-:{group}/{name}")) {
                    // A killed owner's events end a moment after it.
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(false),
                    result => result.map(|()| true),
                };
                match patiently(removed)? {
                    true => Ok(()),
                    false => Err(io::Error::from_raw_os_error(libc::EBUSY)),
                }
            }),
            Self::WriteTracefs { file, content } => Tracefs::open()
                .and_then(|tracefs| kernel_file::write(tracefs.root().join(file), content)),
            Self::MoveTasks { from, to } => move_tasks(from, to),
            Self::Return { pid, started, from, to } => give_back(*pid, *started, from, to),
            Self::RemoveNamespace { name } => ip(&["netns", "del", name]),
            Self::RemoveDevice { name } => ip(&["link", "del", name]),
            Self::RemoveRule { from, to } => {
                let from = from.to_string();
                let to = to.to_string();
                ip(&["rule", "del", "from", &from, "to", &to, "blackhole"])
            }
            Self::Attributes { pid, started, attributes } => {
                same(*pid, *started).and_then(|()| crate::sched::set(*pid, attributes))
            }
            Self::Slice { group, slice } => {
                crate::slice::give(group, &[*slice], schedlab_model::Nanos::ZERO)
            }
            Self::Affinity { pid, started, cpus } => {
                same(*pid, *started).and_then(|()| crate::sched::set_affinity(*pid, cpus))
            }
        };
        match result {
            Err(error) if is_gone(&error) => Ok(()),
            other => other,
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    error.kind() == io::ErrorKind::NotFound
        || matches!(code, Some(libc::ESRCH | libc::ENODEV | libc::ENOENT))
}

/// Runs `ip` of iproute2; `ENOENT` when what it was to remove is gone.
fn ip(arguments: &[&str]) -> io::Result<()> {
    let mut command = Command::new("ip");
    let output = command.args(arguments).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(())
    } else if said.contains("Cannot find device") || said.contains("No such file") {
        Err(io::Error::from_raw_os_error(libc::ENOENT))
    } else {
        Err(io::Error::other(format!("ip {}: {}", arguments.join(" "), said.trim())))
    }
}

/// `ESRCH` unless `pid` is still the process that started at `started`: the kernel reuses pids.
fn same(pid: Pid, started: u64) -> io::Result<()> {
    match crate::process::start_ticks(pid) {
        Some(ticks) if ticks == started => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

fn signal(pid: Pid, started: u64, signal: i32) -> io::Result<()> {
    same(pid, started)?;
    crate::process::kill(pid, signal)
}

fn members(group: &Path) -> io::Result<Vec<i32>> {
    let text = std::fs::read_to_string(group.join("cgroup.procs"))?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Kills until the group is empty: a process may fork while it is being looked at.
fn kill_group(group: &Path) -> io::Result<()> {
    // Only where the kernel has it: nothing is made.
    let kill = OpenOptions::new().write(true).open(group.join("cgroup.kill"));
    if kill.and_then(|mut file| file.write_all(b"1")).is_ok() {
        return Ok(());
    }
    let empty = || {
        let pids = members(group)?;
        for pid in &pids {
            let _ = crate::process::kill(Pid(*pid), libc::SIGKILL);
        }
        Ok(pids.is_empty())
    };
    match patiently(empty)? {
        true => Ok(()),
        false => Err(io::Error::other("cannot kill its processes")),
    }
}

/// Kills until none is left that has the mark: a process may fork while it is being looked at.
fn end_marked(mark: &str) -> io::Result<()> {
    let wanted = format!("{MARK}={mark}\0");
    let wanted = wanted.as_bytes();
    let own = std::process::id().to_string();
    let is_marked = |environment: &[u8]| environment.windows(wanted.len()).any(|w| w == wanted);
    let ended = || {
        let mut is_none_left = true;
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(pid) = name.parse::<i32>() else { continue };
            // Another user's cannot be read, and one that ended has none.
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            if name != own && is_marked(&environment) {
                is_none_left = false;
                let _ = crate::process::kill(Pid(pid), libc::SIGKILL);
            }
        }
        Ok(is_none_left)
    };
    match patiently(ended)? {
        true => Ok(()),
        false => Err(io::Error::other("cannot kill all that a command started")),
    }
}

/// Removes a folder while those that write into it may still be ending.
fn remove_tree(path: &Path) -> io::Result<()> {
    let gone = || match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(error) => Err(error),
        Ok(()) => Ok(true),
    };
    patiently(gone).map(|_| ())
}

/// How long what is under way may take: a killed task ends when it gets a CPU, and on a machine that stalls, or
/// under real-time tasks, it waits for one.
const PATIENCE: Duration = Duration::from_secs(15);

/// Tries until it is done; whether it was, in the end.
fn patiently(mut done: impl FnMut() -> io::Result<bool>) -> io::Result<bool> {
    let began = Instant::now();
    loop {
        if done()? {
            return Ok(true);
        }
        if began.elapsed() > PATIENCE {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn move_tasks(from: &Path, to: &Path) -> io::Result<()> {
    let empty = || {
        // One that ended meanwhile needs no moving; if the kernel refuses all that are left, so be it.
        let moved = |pid: i32| match kernel_file::write(to.join("cgroup.procs"), pid.to_string()) {
            Err(error) => is_gone(&error),
            Ok(()) => true,
        };
        Ok(!members(from)?.into_iter().any(moved))
    };
    // Whether it is empty is seen when it is removed.
    patiently(empty).map(|_| ())
}

/// Moves a task to where it was, with the descendants that are where it was moved to.
fn give_back(pid: Pid, started: u64, from: &Path, to: &Path) -> io::Result<()> {
    same(pid, started)?;
    // Before the move: the kernel tells parents as long as they live.
    let children = crate::process::family(pid);
    kernel_file::write(to, pid.to_string())?;
    let list = to.with_file_name("cgroup.procs");
    let inside = members(from).unwrap_or_default();
    let all = children.into_iter().filter(|child| *child != pid && inside.contains(&child.0));
    // One that ended meanwhile needs no moving.
    all.for_each(|child| drop(kernel_file::write(&list, child.to_string())));
    Ok(())
}

fn remove_dir(path: &Path) -> io::Result<()> {
    let removed = || match std::fs::remove_dir(path) {
        // A killed task lingers for a moment.
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(false),
        result => result.map(|()| true),
    };
    match patiently(removed)? {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EBUSY)),
    }
}

/// Where journals live: `/run/schedlab` for root, else the user's runtime directory, else a
/// directory of the user's own under `/tmp`.
///
/// # Errors
/// When it cannot be made, or belongs to somebody else.
pub fn directory() -> io::Result<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let path = match std::env::var_os("XDG_RUNTIME_DIR") {
        _ if user == 0 && Path::new("/run").is_dir() => PathBuf::from("/run/schedlab"),
        Some(dir) if user != 0 => Path::new(&dir).join("schedlab"),
        _ => {
            #[expect(clippy::disallowed_methods, reason = "the folder is checked for its owner")]
            let shared = std::env::temp_dir();
            shared.join(format!("schedlab-{user}"))
        }
    };
    own(&path, user).map(|()| path)
}

/// Makes a folder for a user alone, or checks one that is there: another user who made it first, or who can write
/// to it, could have us undo what never was.
fn own(path: &Path, user: u32) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let there = std::fs::symlink_metadata(path)?;
    let wrong = match () {
        () if !there.is_dir() => "is not a folder",
        () if there.uid() != user => "belongs to another user",
        () if there.mode() & 0o022 != 0 => "can be written by other users",
        () => return Ok(()),
    };
    let what = format!("{} {wrong}: remove it, then start again", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

/// The guardian's life: waits for the end of standard input, then undoes what the journal lists.
/// Call it when the first argument is [`ARGUMENT`]; `journal` is the second.
///
/// # Errors
/// In a program whose file has capabilities: a journal that does not lie in [`directory`].
pub fn guardian(journal: &Path) -> io::Result<()> {
    if crate::capability::is_from_file() && journal.parent() != Some(directory()?.as_path()) {
        let what = format!("{} is not in the folder of journals", journal.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE] {
        let _ = crate::signal::ignore(signal);
    }
    let mut byte = [0];
    // Nothing is ever written: a read returns at the end of the pipe, when its owner is gone.
    while io::stdin().read(&mut byte).is_ok_and(|count| count > 0) {}
    let _ = undo_journal(journal);
    Ok(())
}

/// What [`restore`] did with one journal.
#[derive(Debug)]
pub struct Restored {
    pub journal: PathBuf,
    /// How many steps were undone.
    pub undone: usize,
    pub failed: Vec<(Undo, io::Error)>,
}

/// Undoes what dead owners left in the journals of `directory`. Journals of living owners are left; an owner that
/// lies in a control group which it froze itself is thawed.
///
/// # Errors
/// When the directory cannot be listed.
pub fn restore(directory: &Path) -> io::Result<Vec<Restored>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if is_journal(&path) {
            match owner_lives(&path) {
                false => all.push(undo_journal(&path)?),
                true => all.extend(thaw(&path)?),
            }
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            // Who was killed before its guardian knew of a lock leaves a file that nobody holds.
            drop(Lock::take(&path));
        }
    }
    Ok(all)
}

/// An owner that lies in a group which it froze itself cannot thaw it: that is done for it. The step stays in its
/// journal, where it is harmless.
fn thaw(path: &Path) -> io::Result<Option<Restored>> {
    let lines = read_journal(path)?;
    let owner = lines.iter().find_map(|line| match line {
        Line::Owner { pid, .. } => Some(pid.0),
        _ => None,
    });
    let mut restored = Restored { journal: path.to_owned(), undone: 0, failed: Vec::new() };
    for line in lines {
        let Line::Step { undo: undo @ Undo::Write { .. }, .. } = line else { continue };
        let Undo::Write { path, content } = &undo else { continue };
        let file = path.file_name().unwrap_or_default();
        let frozen = (file == "freezer.state" || file == "cgroup.freeze")
            && std::fs::read_to_string(path).is_ok_and(|now| now.trim() != content);
        let group = path.parent().unwrap_or(Path::new(""));
        let holds_owner = members(group).is_ok_and(|all| owner.is_some_and(|it| all.contains(&it)));
        if frozen && holds_owner {
            match undo.perform() {
                Ok(()) => restored.undone += 1,
                Err(error) => restored.failed.push((undo, error)),
            }
        }
    }
    Ok((restored.undone > 0 || !restored.failed.is_empty()).then_some(restored))
}

/// How many journals of dead owners there are.
#[must_use]
pub fn leftovers(directory: &Path) -> usize {
    let paths = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|e| e.path());
    paths.filter(|path| is_journal(path) && !owner_lives(path)).count()
}

fn is_journal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "journal")
}

fn owner_lives(journal: &Path) -> bool {
    // A journal that was just made has its owner in its name before it has it in a line.
    let name = journal.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut parts = name.splitn(3, '-').map(str::parse::<u64>);
    if let (Some(Ok(pid)), Some(Ok(started))) = (parts.next(), parts.next())
        && i32::try_from(pid).is_ok_and(|pid| same(Pid(pid), started).is_ok())
    {
        return true;
    }
    let lines = read_journal(journal).unwrap_or_default();
    lines.iter().any(|line| match line {
        Line::Owner { pid, started } => same(*pid, *started).is_ok(),
        _ => false,
    })
}

fn read_journal(path: &Path) -> io::Result<Vec<Line>> {
    let lines = BufReader::new(File::open(path)?).lines();
    // A last line that was cut by a crash belongs to a change that was never made.
    Ok(lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok()).collect())
}

fn undo_journal(path: &Path) -> io::Result<Restored> {
    let mut steps = Vec::new();
    for line in read_journal(path)? {
        match line {
            Line::Owner { .. } => {}
            Line::Step { id, undo } => steps.push((id, undo)),
            Line::Undone { id } => steps.retain(|(step, _)| *step != id),
        }
    }
    let mut restored = Restored { journal: path.to_owned(), undone: 0, failed: Vec::new() };
    for (_, undo) in steps.into_iter().rev() {
        match undo.perform() {
            Ok(()) => restored.undone += 1,
            Err(error) => restored.failed.push((undo, error)),
        }
    }
    if restored.failed.is_empty() {
        match std::fs::remove_file(path) {
            // Two may undo one journal at once, the guardian and the one that looks for leftovers.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(restored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_without_a_line_yet_belongs_to_the_one_in_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let pid = Pid(std::process::id().cast_signed());
        let started = crate::process::start_ticks(pid).unwrap();
        let mine = format!("{pid}-{started}-7.journal");
        let dead = format!("{pid}-1-7.journal");
        for name in [&mine, &dead] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        restore(dir.path()).unwrap();
        assert!(dir.path().join(mine).exists() && !dir.path().join(dead).exists());
    }

    #[test]
    fn a_folder_that_others_made_or_can_write_is_refused() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        let dir = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let at = |name: &str| dir.path().join(name);
        let refused = |name: &str| own(&at(name), user).unwrap_err().to_string();
        own(&at("new"), user).unwrap();
        own(&at("new"), user).unwrap();
        let mode = std::fs::metadata(at("new")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        symlink(at("new"), at("link")).unwrap();
        assert!(refused("link").contains("is not a folder"));
        std::fs::create_dir(at("open")).unwrap();
        std::fs::set_permissions(at("open"), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(refused("open").contains("written by other users"));
        std::fs::create_dir(at("theirs")).unwrap();
        match chown(at("theirs"), Some(65_534), None) {
            Ok(()) => assert!(refused("theirs").contains("another user")),
            Err(_) => drop(writeln!(
                std::io::stderr(),
                "MISSING: root; no folder of another user is planted in this test"
            )),
        }
    }

    /// `cat` reads to the end of its input and goes, as the guardian does when all is well.
    fn guard(dir: &Path) -> Guard {
        Guard::arm_with(dir, Path::new("/bin/true")).unwrap()
    }

    fn journals(dir: &Path) -> usize {
        std::fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn changes_are_undone_in_reverse_order_and_the_journal_goes() {
        let dir = tempfile::tempdir().unwrap();
        let work = tempfile::tempdir().unwrap();
        let knob = work.path().join("knob");
        std::fs::write(&knob, "old\n").unwrap();
        let mut guard = guard(dir.path());
        guard.write(&knob, "new").unwrap();
        guard.write(&knob, "newer").unwrap();
        assert_eq!(std::fs::read_to_string(&knob).unwrap(), "newer");
        assert!(guard.finish().is_empty());
        assert_eq!(std::fs::read_to_string(&knob).unwrap(), "old");
        assert_eq!(journals(dir.path()), 0);
    }

    #[test]
    fn a_journal_is_undone_once_its_owner_is_dead_even_if_its_last_line_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let work = tempfile::tempdir().unwrap();
        let a = work.path().join("a");
        let b = work.path().join("b");
        let gone = work.path().join("gone");
        for file in [&a, &b] {
            std::fs::write(file, "new").unwrap();
        }
        let step = |id, path: &Path| Line::Step {
            id,
            undo: Undo::Write { path: path.to_owned(), content: "old".into() },
        };
        let dead = Line::Owner { pid: Pid(1), started: u64::MAX };
        let lines = [dead, step(0, &a), step(1, &b), Line::Undone { id: 1 }, step(3, &gone)];
        let mut text: String =
            lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
        text.push_str("{\"step\":{\"id\":2,\"un");
        std::fs::write(dir.path().join("1-2-0.journal"), text).unwrap();
        let restored = restore(dir.path()).unwrap();
        assert_eq!((restored.len(), restored[0].undone), (1, 2));
        assert_eq!(std::fs::read_to_string(&a).unwrap(), "old");
        assert_eq!(std::fs::read_to_string(&b).unwrap(), "new");
        assert!(!gone.exists(), "what is gone is not made");
        assert_eq!(journals(dir.path()), 0);
    }

    #[test]
    fn the_journal_of_a_living_owner_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let guard = guard(dir.path());
        assert!(restore(dir.path()).unwrap().is_empty());
        assert_eq!(journals(dir.path()), 1);
        drop(guard);
    }

    #[test]
    fn a_process_is_only_touched_if_it_is_still_the_same() {
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        let pid = Pid(child.id().cast_signed());
        let started = crate::process::start_ticks(pid).unwrap();
        Undo::Kill { pid, started: started + 1 }.perform().unwrap();
        assert!(child.try_wait().unwrap().is_none());
        Undo::Kill { pid, started }.perform().unwrap();
        assert_eq!(crate::process::exit_code(child.wait().unwrap()), 137);
        Undo::Kill { pid, started }.perform().unwrap();
    }
}
