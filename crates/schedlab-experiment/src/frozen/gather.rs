//! From the folders of workers to one folder of results, each run once.

use super::{Frozen, FrozenError, run_folders};
use crate::run_loop::keep_experiment;
use crate::session::count_look;
use crate::store::{Place, StoreError, StoredRun, lock};
use crate::{Hosts, Planned};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The runs of all workers, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// The number of runs of the plan.
    pub planned: usize,
    /// Runs of the plan that were done on some machine.
    pub done: usize,
    /// The runs of the plan that nobody has done, each in words.
    pub missing: Vec<String>,
    /// Executions of a run that was there already: counted once.
    pub twice: usize,
    /// Runs of blocks that another machine did as well: left out, so that each block is of one machine.
    pub left_out: usize,
    /// Runs that cannot be read, each with why.
    pub damaged: Vec<String>,
    /// The machines that did runs, in words, with how many of them count.
    pub machines: BTreeMap<String, usize>,
}

impl Gathered {
    /// Whether all runs of the plan are there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty()
    }
}

/// Puts the runs that workers did in `folders`, all frozen from one plan, into `results`. Each run is
/// counted once: by its name and, unless machines are blocks, by where it was done.
///
/// # Errors
/// When the folders hold several plans, or something cannot be read or written.
pub fn gather(folders: &[impl AsRef<Path>], results: &Path) -> Result<Gathered, FrozenError> {
    let all = folders.iter().map(|folder| Frozen::read(folder.as_ref()));
    let all: Vec<Frozen> = all.collect::<Result<_, _>>()?;
    let Some(first) = all.first() else {
        return Err(FrozenError::Refused("no results to gather".to_owned()));
    };
    if let Some(other) = all.iter().find(|other| !first.is_same(other)) {
        let a = first.folder.display();
        let b = other.folder.display();
        return Err(FrozenError::Refused(format!(
            "{a} and {b} are different plans: gather each on its own"
        )));
    }
    let mut told = Gathered { planned: first.plan.runs.len(), ..Gathered::default() };
    let ids: BTreeSet<&str> = first.plan.runs.iter().map(|run| run.id.as_str()).collect();
    let mut found: BTreeMap<String, StoredRun> = BTreeMap::new();
    for frozen in &all {
        for worker in frozen.workers()? {
            read_worker(&worker, &ids, &mut found, &mut told)?;
        }
    }
    let mut runs: Vec<StoredRun> = found.into_values().collect();
    let mut left_out = Vec::new();
    if first.experiment.hosts == Hosts::Blocks {
        left_out = take_other_machines(&mut runs);
        told.left_out = left_out.len();
    }
    let done: BTreeSet<&str> = runs.iter().map(|run| run.manifest.id.as_str()).collect();
    let is_missing = |run: &&Planned| !done.contains(run.id.as_str());
    told.missing = first.plan.runs.iter().filter(is_missing).map(in_words).collect();
    told.done = done.len();
    for run in &runs {
        *told.machines.entry(machine(&run.manifest.place)).or_default() += 1;
    }
    let _lock = lock(results)?;
    keep_experiment(results, &first.experiment.text)?;
    let inside = results.join("runs");
    for run in &left_out {
        // From when less of the plan was done. The worker has it still.
        take_back(&run.folder, &inside)?;
    }
    for run in &runs {
        put(&run.folder, &inside)?;
    }
    if told.is_whole() {
        count_look(results)?;
    }
    Ok(told)
}

fn in_words(run: &Planned) -> String {
    let point = run.point.iter().map(|(axis, value)| format!(" {axis}={value}"));
    format!("{} {}{} block {}", run.id, run.workload, point.collect::<String>(), run.block + 1)
}

fn machine(place: &Place) -> String {
    format!("{}, Linux {}", place.host, place.kernel.0)
}

/// The finished runs of a worker. Of two executions of a run the one that began first counts: which one
/// is better must not decide.
fn read_worker(
    worker: &Path,
    ids: &BTreeSet<&str>,
    found: &mut BTreeMap<String, StoredRun>,
    told: &mut Gathered,
) -> Result<(), StoreError> {
    let mut folders = run_folders(worker)?;
    folders.retain(|id, _| ids.contains(id.as_str()));
    for folder in folders.into_values().flatten() {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let run = match StoredRun::read(&folder) {
            Ok(run) => run,
            Err(error) if error.is_damage() => {
                told.damaged.push(error.to_string());
                continue;
            }
            Err(error) => return Err(error),
        };
        if run.manifest.interrupted {
            continue;
        }
        match found.entry(name) {
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(run);
            }
            std::collections::btree_map::Entry::Occupied(mut there) => {
                told.twice += 1;
                if run.manifest.started_at < there.get().manifest.started_at {
                    there.insert(run);
                }
            }
        }
    }
    Ok(())
}

/// Keeps the runs of one machine in each block: the one that did most of it, then the first. Returns
/// the runs of the others.
fn take_other_machines(runs: &mut Vec<StoredRun>) -> Vec<StoredRun> {
    let block = |run: &StoredRun| (run.manifest.block, run.manifest.machine.clone());
    let host = |run: &StoredRun| run.manifest.place.host();
    let mut blocks: BTreeMap<(u32, String), BTreeMap<Place, (usize, String)>> = BTreeMap::new();
    for run in runs.iter() {
        let began = &run.manifest.started_at;
        let hosts = blocks.entry(block(run)).or_default();
        let (count, first) = hosts.entry(host(run)).or_insert((0, began.clone()));
        *count += 1;
        if began < first {
            first.clone_from(began);
        }
    }
    let best = |hosts: BTreeMap<Place, (usize, String)>| {
        let order = |(count, began): (usize, String)| (usize::MAX - count, began);
        hosts.into_iter().min_by_key(|(_, of)| order(of.clone())).map(|(host, _)| host)
    };
    let chosen: BTreeMap<_, _> =
        blocks.into_iter().map(|(block, hosts)| (block, best(hosts))).collect();
    let is_chosen =
        |run: &StoredRun| chosen.get(&block(run)).is_some_and(|best| *best == Some(host(run)));
    let (kept, others) = std::mem::take(runs).into_iter().partition(is_chosen);
    *runs = kept;
    others
}

/// Removes a run of the same name, if one is there.
fn take_back(run: &Path, runs: &Path) -> Result<(), StoreError> {
    let target = runs.join(run.file_name().unwrap_or_default());
    match fs::remove_dir_all(&target) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io(&target, error))
        }
        _ => Ok(()),
    }
}

/// Puts a run into a folder of runs, unless it is there: by links where the file system has them.
fn put(run: &Path, runs: &Path) -> Result<(), StoreError> {
    let name = run.file_name().unwrap_or_default().to_string_lossy();
    let target = runs.join(&*name);
    if target.is_dir() {
        return Ok(());
    }
    let temporary = runs.join(format!(".tmp-{name}-{}", std::process::id()));
    fs::create_dir_all(&temporary).map_err(|e| StoreError::io(&temporary, e))?;
    for entry in fs::read_dir(run).map_err(|e| StoreError::io(run, e))? {
        let entry = entry.map_err(|e| StoreError::io(run, e))?;
        let from = entry.path();
        let to = temporary.join(entry.file_name());
        // Files of a run are written once, so two names of one file are safe.
        if fs::hard_link(&from, &to).is_err() {
            // Plain: the folder is hidden until it is whole.
            fs::copy(&from, &to).map_err(|e| StoreError::io(&from, e))?;
        }
    }
    fs::rename(&temporary, &target).map_err(|e| StoreError::io(&target, e))
}
