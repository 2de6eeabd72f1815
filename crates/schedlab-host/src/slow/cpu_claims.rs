//! Which session slows which CPUs. Each session keeps a file of its CPUs and speeds in the guard's directory, so that
//! a second one on the same CPU is noticed: under hogs on one grid the burns of both fall together, and the slower of
//! both speeds holds; other methods multiply.
//!
//! That directory is private. So a session also listens on an abstract socket that nobody connects to, whose name says
//! its CPUs: the kernel lists the name for all users (`/proc/net/unix`), and takes it away with the process.

use super::{SlowError, Speeds, last};
use schedlab_model::{Cpu, CpuSet, Pid, Warning};
use schedlab_sys::guard::{Guard, Undo};
use schedlab_sys::{process, regular_file};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::linux::fs::MetadataExt as _;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

/// What the name of a session's socket begins with; its process and its CPUs follow.
const SOCKET: &str = "schedlab-slow/";
/// Bytes of CPUs in the name: it holds 107 in all.
const CPUS_MAX: usize = 80;

const PREFIX: &str = "slow-";
const SUFFIX: &str = ".cpus";

/// Claims CPUs for this process's session. Its own file is there before the others are read, so of two that start at
/// once each sees the other.
///
/// # Errors
/// [`SlowError::Usage`] if another session slows one of the CPUs, unless `share` is set: then it is a warning.
pub(super) fn claim(
    directory: &Path,
    speeds: &Speeds,
    share: bool,
    guard: &mut Guard,
) -> Result<(Option<Warning>, Option<UnixListener>), SlowError> {
    let io = |e| SlowError::io("noting which CPUs are slowed", e);
    let us = Pid(std::process::id().cast_signed());
    let path = directory.join(format!("{PREFIX}{us}{SUFFIX}"));
    guard.before(Undo::RemoveFile { path: path.clone() }).map_err(io)?;
    let started = process::start_ticks(us).unwrap_or(0);
    let text = serde_json::to_string(&(started, speeds)).expect("plain values");
    // Plain: the folder of journals is private.
    std::fs::write(&path, text).map_err(io)?;
    let announced = announce(us, &speeds.keys().copied().collect());
    let own = sessions(directory);
    let taken = own.iter().find_map(|(session, theirs)| {
        let both = |cpu: &Cpu| theirs.get(cpu).map(|speed| (session, *cpu, *speed));
        speeds.keys().find_map(both)
    });
    let (what, end) = match taken {
        Some((session, cpu, speed)) => {
            let what = format!("session {session} already slows CPU {cpu}, to {speed}");
            (what, format!("end it (`schedlab slow end --session {session}`)"))
        }
        None => {
            let others = of_others(&own);
            let taken = others.iter().find_map(|(session, theirs)| {
                let cpu = speeds.keys().find(|cpu| theirs.contains(**cpu))?;
                Some((session, cpu))
            });
            let Some((session, cpu)) = taken else { return Ok((None, announced)) };
            let what = format!("session {session} of {} already slows CPU {cpu}", owner(*session));
            (what, "ask them to end it".to_owned())
        }
    };
    match share {
        true => {
            let what = format!("{what}: speeds multiply, or with hogs the slower holds");
            let warning = Warning::new("speed-shared", what, "end one of the sessions");
            Ok((Some(warning), announced))
        }
        false => Err(SlowError::Usage(format!("{what}: {end}, use another CPU, or add --share"))),
    }
}

/// The last CPUs that we may use and that no other session slows; `None` where there are fewer.
///
/// # Errors
/// When the guard's directory cannot be used.
pub fn free(allowed: &CpuSet, count: usize) -> Result<Option<CpuSet>, SlowError> {
    let directory = schedlab_sys::guard::directory()
        .map_err(|e| SlowError::io("finding which CPUs are slowed", e))?;
    let taken = sessions(&directory);
    let others = of_others(&taken);
    let is_free = |cpu: &Cpu| {
        taken.values().all(|theirs| !theirs.contains_key(cpu))
            && others.values().all(|theirs| !theirs.contains(*cpu))
    };
    let free: CpuSet = allowed.iter().filter(is_free).collect();
    Ok((free.len() >= count).then(|| last(&free, count)))
}

/// Tells all users which CPUs a session slows, for as long as the socket is open. `None` where the kernel refuses: then
/// nobody else is told.
fn announce(session: Pid, cpus: &CpuSet) -> Option<UnixListener> {
    let cpus: String = cpus.to_string().chars().take(CPUS_MAX).collect();
    // What is cut off may be half of a number.
    let cpus = if cpus.len() < CPUS_MAX { &*cpus } else { cpus.rsplit_once(',')?.0 };
    let address = SocketAddr::from_abstract_name(format!("{SOCKET}{session}/{cpus}")).ok()?;
    UnixListener::bind_addr(&address).ok()
}

/// A session of another user. It takes no orders from this user.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct OthersSession {
    /// The pid of the session.
    pub pid: Pid,
    /// Whose it is, as in `user root`.
    pub owner: String,
    /// The CPUs that it slows.
    pub cpus: CpuSet,
}

/// The sessions of other users that run. Those in another network namespace, such as a container's, stay unseen.
///
/// # Errors
/// When the guard's directory cannot be used.
pub fn sessions_of_others() -> Result<Vec<OthersSession>, SlowError> {
    let directory = schedlab_sys::guard::directory()
        .map_err(|e| SlowError::io("finding running sessions", e))?;
    let one = |(pid, cpus)| OthersSession { pid, owner: owner(pid), cpus };
    Ok(of_others(&sessions(&directory)).into_iter().map(one).collect())
}

/// Who runs a process, as in `user root`; a user without a name has a number.
fn owner(session: Pid) -> String {
    let Ok(process) = std::fs::metadata(format!("/proc/{session}")) else {
        return "another user".to_owned();
    };
    let users = regular_file::text(Path::new("/etc/passwd")).unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(process.st_uid())).then_some(name)
    });
    name.map_or_else(|| format!("user {}", process.st_uid()), |name| format!("user {name}"))
}

/// The sessions that are none of `own` and not this one, with the CPUs of each: those of other users.
fn of_others(own: &BTreeMap<Pid, Speeds>) -> BTreeMap<Pid, CpuSet> {
    let us = Pid(std::process::id().cast_signed());
    let text = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let one = |line: &str| {
        let name = line.split_once(&format!("@{SOCKET}"))?.1;
        let (session, cpus) = name.split_once('/')?;
        Some((Pid(session.parse().ok()?), cpus.trim_end_matches('@').parse().ok()?))
    };
    let is_other = |(session, _): &(Pid, CpuSet)| *session != us && !own.contains_key(session);
    text.lines().filter_map(one).filter(is_other).collect()
}

/// The living sessions of other processes of this user, with what each slows.
pub(super) fn sessions(directory: &Path) -> BTreeMap<Pid, Speeds> {
    let us = Pid(std::process::id().cast_signed());
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX));
        let Some(pid) = pid.and_then(|pid| pid.parse().ok()).map(Pid).filter(|pid| *pid != us)
        else {
            continue;
        };
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let Ok((started, speeds)) = serde_json::from_str::<(u64, Speeds)>(&text) else {
            continue;
        };
        // What a dead one left is put back with the rest of its journal.
        if process::start_ticks(pid) == Some(started) {
            all.insert(pid, speeds);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow::Speed;

    #[test]
    fn a_cpu_of_a_living_session_is_taken_and_one_of_a_dead_session_is_free() {
        let dir = tempfile::tempdir().unwrap();
        // CPUs that no session on this machine slows, of another process either.
        let mut guard = Guard::arm_with(dir.path(), Path::new("/bin/true")).unwrap();
        let speeds = |cpu: u16| Speeds::from([(Cpu(cpu), Speed::percent(30).unwrap())]);
        let mut claimed = |cpu, share| {
            claim(dir.path(), &speeds(cpu), share, &mut guard).map(|(warning, _)| warning)
        };
        assert!(claimed(901, false).unwrap().is_none(), "its own claim is no obstacle");
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let other = Pid(child.id().cast_signed());
        let started = process::start_ticks(other).unwrap();
        let note = |started: u64| {
            let text = serde_json::to_string(&(started, speeds(901))).unwrap();
            std::fs::write(dir.path().join(format!("slow-{other}.cpus")), text).unwrap();
        };
        note(started);
        let refused = claimed(901, false).unwrap_err().to_string();
        assert!(refused.contains(&format!("session {other} already slows CPU 901, to 30%")));
        assert!(claimed(902, false).unwrap().is_none());
        assert!(claimed(901, true).unwrap().unwrap().what.contains("the slower holds"));
        note(started + 1);
        assert!(claimed(901, false).unwrap().is_none(), "the number was used again");
        child.kill().unwrap();
        child.wait().unwrap();
        note(started);
        assert!(claimed(901, false).unwrap().is_none());
    }

    #[test]
    fn a_session_of_another_user_is_seen_without_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut guard = Guard::arm_with(dir.path(), Path::new("/bin/true")).unwrap();
        // CPUs that no test slows.
        let speeds = Speeds::from([(Cpu(1_001), Speed::percent(30).unwrap())]);
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let other = Pid(child.id().cast_signed());
        let theirs = announce(other, &CpuSet::from_iter([Cpu(1_000), Cpu(1_001)])).unwrap();
        let refused = claim(dir.path(), &speeds, false, &mut guard).unwrap_err().to_string();
        let says = format!("session {other} of {} already slows CPU 1001", owner(other));
        assert!(refused.contains(&says), "{refused}");
        let shared = claim(dir.path(), &speeds, true, &mut guard).unwrap().0.unwrap();
        assert_eq!(shared.code, "speed-shared");
        drop(theirs);
        let free = claim(dir.path(), &speeds, false, &mut guard).unwrap();
        assert!(free.0.is_none(), "the end of a session is the end of its claim");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
