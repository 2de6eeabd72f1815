//! A worker: does portions of a frozen plan into a folder of results of its own.

use super::leases::{Claim, Claims};
use super::{Frozen, FrozenError, are_blocks};
use crate::run_loop::{LoopError, Progress, Tally, keep_experiment, run_with};
use crate::session::{same_conditions, throw_away};
use crate::store::{Place, StoreError, StoredRun, lock};
use crate::{Machines, Plan};
use schedlab_sys::lock::{Lock, LockError};
use schedlab_workload::HOST;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a worker without work looks whether a claim has run out.
const LOOK: Duration = Duration::from_millis(500);

/// Which runs a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All of them, also those that were done on other machines: the machine is then an axis.
    All,
    /// Every `of`-th portion from the one with this index, below `of`.
    Shard {
        /// The number of the shard, from 0.
        index: usize,
        /// Of how many; above 0.
        of: usize,
    },
    /// What nobody else does. A claim that was not renewed for this long may be taken over.
    Claim {
        /// How long a claim holds.
        lease: Duration,
    },
}

/// What a worker is to do.
#[derive(Clone, Debug)]
pub struct Work {
    /// The runs that this worker takes.
    pub share: Share,
    /// The name of its folder; `None`: the host's name with the first free number.
    pub name: Option<String>,
}

/// What a worker reports between runs.
#[derive(Debug)]
pub enum WorkStep<'p> {
    /// It takes a portion.
    Takes {
        /// The number of the portion, from 0.
        portion: usize,
        /// The number of portions.
        of: usize,
    },
    /// Others do all portions that are left; it waits for them, or for their claims to run out.
    Waits {
        /// The number of finished portions.
        portions: usize,
    },
    /// A step of the run loop.
    Run(&'p Progress<'p>),
}

/// Does a share of a frozen plan. What this worker or a portion's mark says is done is not done again.
///
/// # Errors
/// As [`crate::run_plan`]; and when runs of several machines would be mixed, or another worker
/// measures on this machine.
pub fn work(
    machines: &mut Machines<'_>,
    frozen: &Frozen,
    work: &Work,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&WorkStep<'_>),
) -> Result<Tally, FrozenError> {
    let (folder, _lock) = own_folder(frozen, work)?;
    let _measuring = measuring(frozen)?;
    keep_experiment(&folder, &frozen.experiment.text)?;
    same_conditions(machines, &frozen.experiment, &folder)?;
    let mut worker = Worker {
        machines,
        frozen,
        folder,
        share: work.share,
        stop,
        tell,
        tally: Tally::default(),
        is_warm: false,
    };
    match work.share {
        Share::All => {
            if worker.part(&frozen.plan, &mut None)? {
                for portion in 0..frozen.portions.len() {
                    worker.mark(portion)?;
                }
            }
        }
        Share::Shard { index, of } => {
            worker.refuse_mixing()?;
            for portion in (index..frozen.portions.len()).step_by(of) {
                if !frozen.is_done(portion) && !worker.portion(portion, None)? {
                    break;
                }
            }
        }
        Share::Claim { lease } => {
            worker.refuse_mixing()?;
            worker.claim(lease)?;
        }
    }
    Ok(worker.tally)
}

struct Worker<'w, 'm> {
    machines: &'w mut Machines<'m>,
    frozen: &'w Frozen,
    folder: PathBuf,
    share: Share,
    stop: &'w dyn Fn() -> bool,
    tell: &'w mut dyn FnMut(&WorkStep<'_>),
    tally: Tally,
    is_warm: bool,
}

impl Worker<'_, '_> {
    /// Claims portions until all are done.
    fn claim(&mut self, lease: Duration) -> Result<(), FrozenError> {
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let claims = Claims::new(&self.frozen.folder, &name, lease)?;
        let mut failed = BTreeSet::new();
        let mut waits = 0;
        loop {
            let left = (0..self.frozen.portions.len())
                .filter(|p| !self.frozen.is_done(*p) && !failed.contains(p));
            let left: Vec<usize> = left.collect();
            let mut took = false;
            for portion in &left {
                if self.frozen.is_done(*portion) {
                    continue;
                }
                let Some(claim) = claims.take(*portion)? else { continue };
                took = true;
                // It may have been finished between the look and the claim.
                if self.frozen.is_done(*portion) {
                    continue;
                }
                let failures = self.tally.failed.len();
                if !self.portion(*portion, Some(claim))? {
                    return Ok(());
                }
                if self.tally.failed.len() > failures {
                    failed.insert(*portion);
                }
            }
            if left.is_empty() {
                return Ok(());
            }
            if !took {
                if waits != left.len() {
                    waits = left.len();
                    (self.tell)(&WorkStep::Waits { portions: waits });
                }
                std::thread::sleep(LOOK);
            }
            if (self.stop)() {
                self.tally.stopped = true;
                return Ok(());
            }
        }
    }

    /// Does a portion and marks it as done; whether to go on.
    fn portion(&mut self, portion: usize, mut claim: Option<Claim>) -> Result<bool, FrozenError> {
        (self.tell)(&WorkStep::Takes { portion, of: self.frozen.portions.len() });
        let plan = self.frozen.portion(portion);
        let is_whole = self.part(&plan, &mut claim)?;
        if self.tally.stopped {
            return Ok(false);
        }
        if is_whole {
            self.mark(portion)?;
        }
        Ok(true)
    }

    /// Marks a portion as done by this worker.
    fn mark(&self, portion: usize) -> Result<(), StoreError> {
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy();
        self.frozen.mark_done(portion, &name)
    }

    /// Does some runs; whether all of them are there.
    fn part(&mut self, plan: &Plan, claim: &mut Option<Claim>) -> Result<bool, FrozenError> {
        self.warm_up(plan)?;
        let tell = &mut *self.tell;
        let mut progress = |progress: &Progress<'_>| {
            if let Some(claim) = claim {
                claim.renew();
            }
            tell(&WorkStep::Run(progress));
        };
        let retries = self.frozen.experiment.retries;
        let done = run_with(self.machines, plan, &self.folder, self.stop, &mut progress, retries);
        let done = match done {
            // A portion that fails as a whole is none of the others' fault, once one has succeeded.
            Err(LoopError::Machine(error)) if self.tally.done + self.tally.skipped > 0 => {
                Tally { failed: vec![error.to_string()], ..Tally::default() }
            }
            other => other?,
        };
        let is_whole = done.failed.is_empty() && !done.stopped;
        self.tally.add(done);
        Ok(is_whole)
    }

    /// Throws away the runs that the experiment has for it, once for each worker.
    fn warm_up(&mut self, plan: &Plan) -> Result<(), FrozenError> {
        let count = self.frozen.experiment.warm_up;
        if count > 0 && !self.is_warm && !plan.runs.is_empty() {
            throw_away(self.machines, count, &plan.runs, &self.folder, self.stop)?;
        }
        self.is_warm = true;
        Ok(())
    }

    /// Refuses to share measurements between machines that differ, where machines are no blocks.
    fn refuse_mixing(&mut self) -> Result<(), FrozenError> {
        if are_blocks(&self.frozen.experiment) || self.share == Share::All {
            return Ok(());
        }
        for folder in self.frozen.workers()? {
            let Some(other) = first_run(&folder) else { continue };
            let name = other.manifest.machine.parse().map_err(FrozenError::Refused)?;
            let here = Place::of(&self.machines.get(&name).map_err(LoopError::from)?.facts());
            let there = other.manifest.place();
            if !here.is_near(&there) {
                return Err(FrozenError::Refused(format!(
                    "{} was at work here (Linux {}), and this is {} (Linux {}): their runs would be mixed. Write \
                     hosts = \"blocks\" into the experiment and freeze it again, or let each machine do all runs \
                     (work without --shard and --claim)",
                    there.host, there.kernel.0, here.host, here.kernel.0
                )));
            }
        }
        Ok(())
    }
}

/// A run of a worker's.
fn first_run(folder: &Path) -> Option<StoredRun> {
    let entries = std::fs::read_dir(folder.join("runs")).ok()?;
    let mut folders = entries.flatten().map(|entry| entry.path());
    folders.find_map(|path| {
        let is_run = !path.file_name()?.to_string_lossy().starts_with('.');
        StoredRun::read(&path).ok().filter(|_| is_run)
    })
}

/// The folder of this worker, which it alone writes.
fn own_folder(frozen: &Frozen, work: &Work) -> Result<(PathBuf, Lock), FrozenError> {
    let workers = frozen.folder.join("workers");
    let host = host();
    if let Some(name) = &work.name {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
            let what = format!(
                "'{}' cannot name a worker: use letters, digits, '-', '_' and '.'",
                name.escape_default()
            );
            return Err(FrozenError::Refused(what));
        }
        let folder = workers.join(name);
        let lock = lock(&folder)?;
        return Ok((folder, lock));
    }
    if let Share::Shard { index, of } = work.share {
        let folder = workers.join(format!("{host}-shard-{}-of-{of}", index + 1));
        let lock = lock(&folder)?;
        return Ok((folder, lock));
    }
    for number in 1.. {
        let folder = workers.join(format!("{host}-{number}"));
        match lock(&folder) {
            Err(StoreError::Locked { .. }) => {}
            other => return Ok((folder, other?)),
        }
    }
    unreachable!("numbers do not end")
}

/// Two that measure on one machine at the same time would disturb each other.
fn measuring(frozen: &Frozen) -> Result<Option<Lock>, FrozenError> {
    if !frozen.plan.runs.iter().any(|run| run.machine.kind == HOST) {
        return Ok(None);
    }
    let folder = frozen.folder.join("claims");
    std::fs::create_dir_all(&folder).map_err(|e| StoreError::io(&folder, e))?;
    match Lock::take(&folder.join(format!(".measures-on-{}", host()))) {
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
