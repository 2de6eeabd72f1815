//! A worker: does runs of a frozen plan into a folder of results of its own.

use super::{Frozen, FrozenError};
use crate::run_loop::{LoopError, Progress, Tally};
use crate::session::run_part;
use crate::store::{Place, StoreError, StoredRun, lock};
use crate::{Hosts, Machines, Shard};
use schedlab_sys::lock::{Lock, LockError};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Default)]
pub struct Work {
    /// The part of the plan; `None`: all of it.
    pub shard: Option<Shard>,
    /// The name of its folder; `None`: the name of the host, and the shard.
    pub name: Option<String>,
}

/// Does the runs of a frozen plan that are not done, or those of a shard. Where machines may not share the
/// runs, a worker without a shard does all of them: the machine is then an axis.
///
/// # Errors
/// As [`crate::run_plan`]; and when runs of several machines would be mixed, or another worker
/// measures on this machine.
pub fn work(
    machines: &mut Machines<'_>,
    frozen: &Frozen,
    work: &Work,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&Progress<'_>),
) -> Result<Tally, FrozenError> {
    let (folder, _lock) = own_folder(frozen, work)?;
    let _measuring = measuring(frozen)?;
    let may_share = frozen.experiment.may_be_shared();
    let mut others = frozen.workers()?;
    others.retain(|other| *other != folder && (may_share || work.shard.is_some()));
    if frozen.experiment.hosts != Hosts::Blocks {
        others.iter().try_for_each(|other| refuse_mixing(machines, other))?;
    }
    let units = frozen.plan.units();
    let units = if let Some(shard) = work.shard { shard.of_units(units) } else { units };
    let plan = frozen.plan.part(&frozen.unfinished(units, &others)?);
    Ok(run_part(machines, &frozen.experiment, &plan, &folder, stop, tell)?)
}

/// Refuses to share measurements between machines that differ, where machines are no blocks.
fn refuse_mixing(machines: &mut Machines<'_>, worker: &Path) -> Result<(), FrozenError> {
    let Some(other) = first_run(worker) else { return Ok(()) };
    let name = other.manifest.machine.parse().map_err(FrozenError::Refused)?;
    let here = Place::of(&machines.get(&name).map_err(LoopError::from)?.facts());
    let there = other.manifest.place;
    if here.is_near(&there) {
        return Ok(());
    }
    Err(FrozenError::Refused(format!(
        "{} was at work here (Linux {}), and this is {} (Linux {}): their runs would be mixed. Write \
         hosts = \"blocks\" into the experiment and freeze it again, or let each machine do all runs \
         (without --shard)",
        there.host, there.kernel.0, here.host, here.kernel.0
    )))
}

/// A run of a worker's.
fn first_run(worker: &Path) -> Option<StoredRun> {
    let folders = super::run_folders(worker).ok()?;
    folders.into_values().flatten().find_map(|folder| StoredRun::read(&folder).ok())
}

/// The folder of this worker, which it alone writes.
fn own_folder(frozen: &Frozen, work: &Work) -> Result<(PathBuf, Lock), FrozenError> {
    let name = match (&work.name, work.shard) {
        (Some(name), _) => name.clone(),
        (None, Some(shard)) => format!("{}-shard-{}-of-{}", host(), shard.index + 1, shard.of),
        (None, None) => host(),
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
        let what = format!(
            "'{}' cannot name a worker: use letters, digits, '-', '_' and '.'",
            name.escape_default()
        );
        return Err(FrozenError::Refused(what));
    }
    let folder = frozen.folder.join("workers").join(name);
    let lock = lock(&folder)?;
    Ok((folder, lock))
}

/// Two that measure on one machine at the same time would disturb each other.
fn measuring(frozen: &Frozen) -> Result<Option<Lock>, FrozenError> {
    if !frozen.experiment.measures_its_host() {
        return Ok(None);
    }
    match Lock::take(&frozen.folder.join("workers").join(format!(".measures-on-{}", host()))) {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ LockError::Held { .. }) => Err(FrozenError::Refused(format!(
            "another worker measures on this machine, and two would disturb each other: {error}"
        ))),
        Err(LockError::Io { path, error }) => Err(StoreError::io(&path, error).into()),
    }
}

/// The host's name, as a part of a file's name.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let name: String = name.trim().chars().map(plain).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}
