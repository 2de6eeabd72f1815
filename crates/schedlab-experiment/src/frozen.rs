//! A plan on disk, so that several processes and machines can do its runs without a server.
//!
//! ```text
//! FROZEN/
//!   experiment.toml      the file, word for word
//!   frozen.json          what holds for all runs, and the hash of runs.jsonl
//!   runs.jsonl           one run a line
//!   workers/NAME/        the results of one worker, a folder as `run` makes it
//! ```
//!
//! A run is done when the folder of some worker has it. [`work()`] does the runs of a shard that are not done,
//! [`gather()`] puts the runs of all workers into one folder of results and names those that are missing.

mod gather;
mod work;

pub use gather::{Gathered, gather};
pub use work::{Work, work};

use crate::run_loop::LoopError;
use crate::store::{StoreError, StoredRun, write_synced};
use crate::{Experiment, Hooks, MEASURING, Plan, Planned, Point, RunId};
use schedlab_workload::{MachineName, RunSpec};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The version of the frozen folder.
pub const SCHEMA: &str = "schedlab/frozen/2";

/// A plan that was frozen.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// The folder of the frozen plan.
    pub folder: PathBuf,
    /// The experiment that it was made from.
    pub experiment: Experiment,
    /// Its runs in their order.
    pub plan: Plan,
    head: Head,
}

/// `frozen.json`: a plan, and what its runs are counted and checked by.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Head {
    /// The schema of the file: [`SCHEMA`].
    schema: String,
    /// The version that froze the plan.
    schedlab: String,
    /// The version of measuring: figures of different ones are not compared.
    measuring: u32,
    /// The name of the experiment.
    name: String,
    /// The machine of the experiment, if it is not that of its file.
    machine: Option<String>,
    /// How many runs there are.
    runs: usize,
    /// Of `runs.jsonl`, in hexadecimal digits.
    sha256: String,
}

/// A line of `runs.jsonl`: a run of a frozen plan.
#[derive(schemars::JsonSchema, Serialize, Deserialize)]
pub struct Line {
    /// The run's name: the hash of machine and spec.
    id: RunId,
    /// The machine as it was asked for.
    machine: String,
    /// The label of the workload within its experiment.
    workload: String,
    /// The choice on every axis.
    point: Point,
    /// The block: runs of one block are done close to each other.
    block: u32,
    /// What the machine is asked.
    spec: RunSpec,
    /// What is done before and after the run.
    #[serde(default, skip_serializing_if = "is_none")]
    hooks: Hooks,
}

fn is_none(hooks: &Hooks) -> bool {
    *hooks == Hooks::default()
}

/// Why a frozen plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FrozenError {
    /// The file system refused, or a file is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Runs failed in the loop.
    #[error(transparent)]
    Loop(#[from] LoopError),
    /// It cannot be done as asked; a sentence with what to do.
    #[error("{0}")]
    Refused(String),
}

impl Frozen {
    /// Writes the plan of an experiment into a folder. The same plan may be frozen there already.
    ///
    /// # Errors
    /// When the experiment decides from results how many runs it has, another plan is there, or the
    /// folder cannot be written.
    pub fn freeze(experiment: &Experiment, folder: &Path) -> Result<Self, FrozenError> {
        let plan = Plan::listed(experiment)?;
        let moved = Experiment::parse(&experiment.text, &experiment.path);
        let moved = moved.is_ok_and(|read| read.machines() != experiment.machines());
        let lines = lines(&plan);
        let head = Head {
            schema: SCHEMA.into(),
            schedlab: env!("CARGO_PKG_VERSION").into(),
            measuring: MEASURING,
            name: experiment.name.clone(),
            machine: moved.then(|| experiment.machine.to_string()),
            runs: plan.runs.len(),
            sha256: sha256(lines.as_bytes()),
        };
        if folder.join("frozen.json").exists() {
            let there = Self::read(folder)?;
            if there.head.sha256 == head.sha256 {
                return Ok(there);
            }
            let what = format!(
                "{}: the folder holds another plan: choose another folder",
                folder.display()
            );
            return Err(FrozenError::Refused(what));
        }
        write(folder, &experiment.text, &lines, &head)?;
        Self::read(folder)
    }

    /// Writes some units of it into another folder, as a plan of its own.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn write_part(&self, units: &[Vec<usize>], folder: &Path) -> Result<(), FrozenError> {
        let plan = self.plan.part(units);
        let lines = lines(&plan);
        let runs = plan.runs.len();
        let sha256 = sha256(lines.as_bytes());
        let head = Head { runs, sha256, ..self.head.clone() };
        write(folder, &self.experiment.text, &lines, &head)
    }

    /// Reads a frozen plan.
    ///
    /// # Errors
    /// When the folder holds none, a file was changed, or another version of schedlab would run or
    /// name its runs otherwise.
    pub fn read(folder: &Path) -> Result<Self, FrozenError> {
        let refused = |what: &str| FrozenError::Refused(format!("{}: {what}", folder.display()));
        let text = read(&folder.join("frozen.json"))?;
        let head: Head = serde_json::from_str(&text).map_err(|error| StoreError::Malformed {
            path: folder.join("frozen.json"),
            line: error.line(),
            why: error.to_string(),
        })?;
        if head.schema != SCHEMA || head.measuring != MEASURING {
            return Err(refused(&format!(
                "schedlab {} froze this plan and measures differently: use that version on all \
                 machines",
                head.schedlab
            )));
        }
        let lines = read(&folder.join("runs.jsonl"))?;
        if sha256(lines.as_bytes()) != head.sha256 {
            return Err(refused(
                "runs.jsonl was changed after it was written: freeze the plan again",
            ));
        }
        let path = folder.join("experiment.toml");
        // Its name may be that of the file that it was read from.
        let named = folder.join(format!("{}.toml", head.name));
        let mut experiment = Experiment::parse(&read(&path)?, &named)
            .map_err(|error| FrozenError::Refused(error.to_string()))?;
        experiment.path = path;
        if let Some(machine) = &head.machine {
            experiment.put_on(machine.parse().map_err(FrozenError::Refused)?);
        }
        let other =
            "this version of schedlab gives runs other names: use the version that froze the plan";
        let runs: Option<Vec<Planned>> = lines.lines().map(planned).collect();
        let plan = Plan { runs: runs.ok_or_else(|| refused(other))? };
        Ok(Self { folder: folder.to_owned(), experiment, plan, head })
    }

    /// Whether both are the same plan.
    #[must_use]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.head.sha256 == other.head.sha256
    }

    /// Those of some units that none of these workers has done as a whole.
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub fn unfinished(
        &self,
        mut units: Vec<Vec<usize>>,
        workers: &[PathBuf],
    ) -> Result<Vec<Vec<usize>>, StoreError> {
        for worker in workers {
            let there = run_folders(worker)?;
            let has = |index: &usize| {
                there.get(self.plan.runs[*index].id.as_str()).is_some_and(|folders| {
                    let is_whole = |run: StoredRun| !run.manifest.interrupted;
                    folders.iter().any(|folder| StoredRun::read(folder).is_ok_and(is_whole))
                })
            };
            units.retain(|unit| !unit.iter().all(has));
        }
        Ok(units)
    }

    /// The folders of results of all workers, sorted.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn workers(&self) -> Result<Vec<PathBuf>, StoreError> {
        let folder = self.folder.join("workers");
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io(&folder, error)),
        };
        let mut all = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| StoreError::io(&folder, e))?;
            if !entry.file_name().to_string_lossy().starts_with('.') {
                all.push(entry.path());
            }
        }
        all.retain(|path| path.join("runs").is_dir());
        all.sort();
        Ok(all)
    }
}

/// The folders of runs of a worker, by the ids of the runs; none where there is no worker.
fn run_folders(worker: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>, StoreError> {
    let inside = worker.join("runs");
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let entries = match std::fs::read_dir(&inside) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(StoreError::io(&inside, error)),
    };
    for entry in entries {
        let path = entry.map_err(|e| StoreError::io(&inside, e))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let id = name.split('-').next().unwrap_or_default();
        if !name.starts_with('.') {
            found.entry(id.to_owned()).or_default().push(path);
        }
    }
    Ok(found)
}

fn write(folder: &Path, experiment: &str, lines: &str, head: &Head) -> Result<(), FrozenError> {
    let workers = folder.join("workers");
    std::fs::create_dir_all(&workers).map_err(|e| StoreError::io(&workers, e))?;
    write_synced(&folder.join("experiment.toml"), experiment.as_bytes())?;
    write_synced(&folder.join("runs.jsonl"), lines.as_bytes())?;
    let mut text = serde_json::to_string_pretty(head).expect("it is plain values");
    text.push('\n');
    // Last: a folder that has it is complete.
    Ok(write_synced(&folder.join("frozen.json"), text.as_bytes())?)
}

/// The runs of a plan, one a line.
fn lines(plan: &Plan) -> String {
    let line = |run: &Planned| {
        let Planned { id, workload, point, block, spec, hooks, machine } = run.clone();
        let line = Line { id, machine: machine.to_string(), workload, point, block, spec, hooks };
        serde_json::to_string(&line).expect("runs are plain values") + "\n"
    };
    plan.runs.iter().map(line).collect()
}

/// A line as a run; `None` where its name is not the hash of its content.
fn planned(line: &str) -> Option<Planned> {
    let Line { id, machine, workload, point, block, spec, hooks } =
        serde_json::from_str(line).ok()?;
    let machine: MachineName = machine.parse().ok()?;
    let is_same = RunId::with_hooks(&machine, &spec, &hooks) == id;
    is_same.then_some(Planned { id, workload, point, block, spec, hooks, machine })
}

fn read(path: &Path) -> Result<String, StoreError> {
    schedlab_sys::regular_file::text(path).map_err(|e| StoreError::io(path, e))
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
