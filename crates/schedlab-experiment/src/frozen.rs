//! A plan on disk, so that several processes and machines can do its runs without a server.
//!
//! ```text
//! FROZEN/
//!   experiment.toml      the file, word for word
//!   frozen.json          what holds for all runs, and the hash of runs.jsonl
//!   runs.jsonl           one run a line, portion by portion
//!   claims/7             the lease of portion 7: who does it; its time of change is when it was renewed
//!   done/7               portion 7 is done; inside stands by whom
//!   workers/NAME/        the results of one worker, a folder as `run` makes it
//! ```
//!
//! A portion is what a worker takes at once: a block of measurements, so that what is compared is
//! measured on one machine, or some runs of machines that do not disturb each other. [`work()`] does
//! portions, [`gather()`] puts the runs of all workers into one folder of results.

mod gather;
mod leases;
mod work;

pub use gather::{Gathered, gather};
pub use work::{Share, Work, WorkStep, work};

use crate::run_loop::LoopError;
use crate::store::{StoreError, write_synced};
use crate::{Experiment, Hooks, Hosts, MEASURING, Plan, Planned, Point, RunId};
use schedlab_workload::{MachineName, RunSpec};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The version of the frozen folder.
pub const SCHEMA: &str = "schedlab/frozen/1";
/// Runs of a portion on machines that do not disturb each other.
const TOGETHER: usize = 32;

/// A plan that was frozen.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// The folder of the frozen plan.
    pub folder: PathBuf,
    /// The experiment that it was made from.
    pub experiment: Experiment,
    /// Its runs in their order.
    pub plan: Plan,
    /// The runs of each portion, as indices into the plan.
    pub portions: Vec<Vec<usize>>,
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
    /// How many portions they are in.
    portions: usize,
    /// Of `runs.jsonl`, in hexadecimal digits.
    sha256: String,
}

/// A line of `runs.jsonl`: a run of a frozen plan.
#[derive(schemars::JsonSchema, Serialize, Deserialize)]
pub struct Line {
    /// The portion, from 0.
    portion: usize,
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
    /// Writes the plan of an experiment into a folder. `parallel` tells which machines do not disturb
    /// each other's runs. The same plan may be frozen there already.
    ///
    /// # Errors
    /// When the experiment decides from results how many runs it has, another plan is there, or the
    /// folder cannot be written.
    pub fn freeze(
        experiment: &Experiment,
        parallel: &dyn Fn(&MachineName) -> bool,
        folder: &Path,
    ) -> Result<Self, FrozenError> {
        refuse_open(experiment)?;
        let plan = Plan::new(experiment);
        let portions = portions(&plan, parallel);
        let mut lines = String::new();
        for (portion, index) in
            portions.iter().enumerate().flat_map(|(p, r)| r.iter().map(move |i| (p, *i)))
        {
            let text = serde_json::to_string(&line(portion, &plan.runs[index]));
            lines += &text.expect("runs are plain values");
            lines.push('\n');
        }
        let moved = Experiment::parse(&experiment.text, &experiment.path);
        let moved = moved.is_ok_and(|read| read.machines() != experiment.machines());
        let head = Head {
            schema: SCHEMA.into(),
            schedlab: env!("CARGO_PKG_VERSION").into(),
            measuring: MEASURING,
            name: experiment.name.clone(),
            machine: moved.then(|| experiment.machine.to_string()),
            runs: plan.runs.len(),
            portions: portions.len(),
            sha256: sha256(lines.as_bytes()),
        };
        let path = folder.join("frozen.json");
        if path.exists() {
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
        for part in ["claims", "done", "workers"] {
            let path = folder.join(part);
            std::fs::create_dir_all(&path).map_err(|e| StoreError::io(&path, e))?;
        }
        write_synced(&folder.join("experiment.toml"), experiment.text.as_bytes())?;
        write_synced(&folder.join("runs.jsonl"), lines.as_bytes())?;
        let mut text = serde_json::to_string_pretty(&head).expect("it is plain values");
        text.push('\n');
        // Last: a folder that has it is complete.
        write_synced(&path, text.as_bytes())?;
        Self::read(folder)
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
        let (mut runs, mut portions) = (Vec::new(), vec![Vec::new(); head.portions]);
        for (index, line) in lines.lines().enumerate() {
            let (portion, run) = planned(line).ok_or_else(|| {
                refused(
                    "this version of schedlab gives runs other names: use the version that \
                    froze the plan",
                )
            })?;
            portions
                .get_mut(portion)
                .ok_or_else(|| refused("runs.jsonl names too many portions"))?
                .push(index);
            runs.push(run);
        }
        Ok(Self { folder: folder.to_owned(), experiment, plan: Plan { runs }, portions, head })
    }

    /// Whether both are the same plan.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.head.sha256 == other.head.sha256
    }

    /// The runs of a portion as a plan of its own.
    #[must_use]
    pub fn portion(&self, portion: usize) -> Plan {
        let runs = self.portions[portion].iter().map(|index| self.plan.runs[*index].clone());
        Plan { runs: runs.collect() }
    }

    /// Whether a portion is marked as done.
    #[must_use]
    pub fn is_done(&self, portion: usize) -> bool {
        self.done(portion).exists()
    }

    /// Marks a portion as done by somebody.
    ///
    /// # Errors
    /// When the mark cannot be written.
    pub fn mark_done(&self, portion: usize, by: &str) -> Result<(), StoreError> {
        let folder = self.folder.join("done");
        std::fs::create_dir_all(&folder).map_err(|e| StoreError::io(&folder, e))?;
        write_synced(&self.done(portion), format!("{by}\n").as_bytes())
    }

    fn done(&self, portion: usize) -> PathBuf {
        self.folder.join("done").join(portion.to_string())
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

/// A frozen plan has a fixed number of runs.
fn refuse_open(experiment: &Experiment) -> Result<(), FrozenError> {
    let stop = &experiment.stop;
    let open = [
        (stop.width.is_some() || stop.budget.is_some() || !stop.looks.is_empty(), "[stop]"),
        (experiment.boots > 1, "boots"),
        (experiment.tune.is_some(), "[tune]"),
    ];
    match open.iter().find(|(is_there, _)| *is_there) {
        None => Ok(()),
        Some((_, key)) => Err(FrozenError::Refused(format!(
            "{}: a frozen plan lists all its runs, but {key} chooses runs from results: leave \
             {key} out",
            experiment.path.display()
        ))),
    }
}

/// Blocks of measurements, and this many runs of other machines.
fn portions(plan: &Plan, parallel: &dyn Fn(&MachineName) -> bool) -> Vec<Vec<usize>> {
    let together: BTreeSet<&MachineName> = plan
        .runs
        .iter()
        .map(|run| &run.machine)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .filter(|m| parallel(m))
        .collect();
    let (mut portions, mut free) = (Vec::new(), Vec::new());
    let mut blocks: std::collections::BTreeMap<u32, Vec<usize>> = std::collections::BTreeMap::new();
    for (index, run) in plan.runs.iter().enumerate() {
        match together.contains(&run.machine) && run.hooks == Hooks::default() {
            true => free.push(index),
            false => blocks.entry(run.block).or_default().push(index),
        }
    }
    portions.extend(blocks.into_values());
    portions.extend(free.chunks(TOGETHER).map(<[usize]>::to_vec));
    portions
}

fn line(portion: usize, run: &Planned) -> Line {
    let Planned { id, workload, point, block, spec, hooks, machine } = run.clone();
    Line { portion, id, machine: machine.to_string(), workload, point, block, spec, hooks }
}

/// A line as a run; `None` where its name is not the hash of its content.
fn planned(line: &str) -> Option<(usize, Planned)> {
    let Line { portion, id, machine, workload, point, block, spec, hooks } =
        serde_json::from_str(line).ok()?;
    let machine: MachineName = machine.parse().ok()?;
    let is_same = RunId::with_hooks(&machine, &spec, &hooks) == id;
    is_same.then_some((portion, Planned { id, workload, point, block, spec, hooks, machine }))
}

fn read(path: &Path) -> Result<String, StoreError> {
    std::fs::read_to_string(path).map_err(|e| StoreError::io(path, e))
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the runs of several hosts belong together as blocks.
pub(crate) fn are_blocks(experiment: &Experiment) -> bool {
    experiment.hosts == Hosts::Blocks
}

#[cfg(test)]
mod tests;
