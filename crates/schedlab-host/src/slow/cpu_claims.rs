//! Which session slows which CPUs. Each session keeps a file of its CPUs and speeds in the guard's directory, so that
//! a second one on the same CPU is noticed: under hogs on one grid the burns of both fall together, and the slower of
//! both speeds holds; other methods multiply.

use super::{SlowError, Speeds, last};
use schedlab_model::{Cpu, CpuSet, Pid, Warning};
use schedlab_sys::guard::{Guard, Undo};
use schedlab_sys::process;
use std::collections::BTreeMap;
use std::path::Path;

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
) -> Result<Option<Warning>, SlowError> {
    let io = |e| SlowError::io("noting which CPUs are slowed", e);
    let us = Pid(std::process::id().cast_signed());
    let path = directory.join(format!("{PREFIX}{us}{SUFFIX}"));
    guard.before(Undo::RemoveFile { path: path.clone() }).map_err(io)?;
    let started = process::start_ticks(us).unwrap_or(0);
    let text = serde_json::to_string(&(started, speeds)).expect("plain values");
    // Plain: the folder of journals is private.
    std::fs::write(&path, text).map_err(io)?;
    let taken = sessions(directory).into_iter().find_map(|(session, theirs)| {
        let both = |cpu: &Cpu| theirs.get(cpu).map(|speed| (session, *cpu, *speed));
        speeds.keys().find_map(both)
    });
    let Some((session, cpu, speed)) = taken else { return Ok(None) };
    let what = format!("session {session} already slows CPU {cpu}, to {speed}");
    match share {
        true => {
            let what = format!("{what}: speeds multiply, or with hogs the slower holds");
            Ok(Some(Warning::new("speed-shared", what, "end one of the sessions")))
        }
        false => Err(SlowError::Usage(format!(
            "{what}: end it (`schedlab slow status`), use another CPU, or add --share"
        ))),
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
    let is_free = |cpu: &Cpu| taken.values().all(|theirs| !theirs.contains_key(cpu));
    let free: CpuSet = allowed.iter().filter(is_free).collect();
    Ok((free.len() >= count).then(|| last(&free, count)))
}

/// The living sessions of other processes, with what each slows.
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
        let mut guard = Guard::arm_with(dir.path(), Path::new("/bin/true")).unwrap();
        let speeds = |cpu: u16| Speeds::from([(Cpu(cpu), Speed::percent(30).unwrap())]);
        let mut claimed = |cpu, share| claim(dir.path(), &speeds(cpu), share, &mut guard);
        assert!(claimed(1, false).unwrap().is_none(), "its own claim is no obstacle");
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let other = Pid(child.id().cast_signed());
        let started = process::start_ticks(other).unwrap();
        let note = |started: u64| {
            let text = serde_json::to_string(&(started, speeds(1))).unwrap();
            std::fs::write(dir.path().join(format!("slow-{other}.cpus")), text).unwrap();
        };
        note(started);
        let refused = claimed(1, false).unwrap_err().to_string();
        assert!(refused.contains(&format!("session {other} already slows CPU 1, to 30%")));
        assert!(claimed(2, false).unwrap().is_none());
        assert!(claimed(1, true).unwrap().unwrap().what.contains("the slower holds"));
        note(started + 1);
        assert!(claimed(1, false).unwrap().is_none(), "the number was used again");
        child.kill().unwrap();
        child.wait().unwrap();
        note(started);
        assert!(claimed(1, false).unwrap().is_none());
    }
}
