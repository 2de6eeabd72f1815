//! The one run loop: everything that repeats or sweeps goes through here.
//!
//! Runs are done one after another in the plan's order, after those whose machines leave each other's
//! figures as they are (see [`parallel`]). A run whose directory is there already is skipped,
//! which is all that resuming needs. Progress is reported between runs, never during one that drawing could
//! disturb: the callback may draw, and drawing is load.

mod parallel;

use crate::environment::{doubts, is_passing, is_quiet, not_in_force};
use crate::hooks::{Beside, hook, take_figures};
use crate::store::{
    Durable, Manifest, Place, Places, RunWriter, StoreError, StoredRun, lock, write_synced,
};
use crate::{Experiment, Machines, Plan, Planned};
use parallel::Left;
use schedlab_model::{Better, MachineFacts, Metric, Unit};
use schedlab_workload::{Figure, MACHINE, Machine, MachineError, Output as _, Stream};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What the run loop reports between runs.
#[derive(Debug)]
pub enum Progress<'p> {
    /// A run begins. Nothing may be drawn until it ends, but on machines in virtual time.
    Begins {
        /// Which one, from 0, of all runs of the plan.
        index: usize,
        /// The number of runs in the plan.
        total: usize,
        /// The run of the plan.
        run: &'p Planned,
        /// How long the rest will take, judged by the runs that this call has done.
        left: Option<Duration>,
    },
    /// A run ended and is stored.
    Ended {
        /// The run of the plan.
        run: &'p Planned,
        /// What the run measured.
        stored: &'p StoredRun,
    },
    /// A run had a warning, so that its round is done again, on a quiet machine if there is one soon.
    Again {
        /// The attempt that gives way.
        doubtful: &'p StoredRun,
        /// For how long at most the machine is waited for.
        patience: Duration,
    },
    /// A run was there already.
    Skipped {
        /// The run of the plan.
        run: &'p Planned,
    },
    /// A run was there, but a file of it is damaged: its folder was renamed, and the run is done again.
    SetAside {
        /// The run of the plan.
        run: &'p Planned,
        /// Which file, and what is wrong with it.
        error: &'p StoreError,
        /// Where the folder is now.
        folder: &'p Path,
    },
    /// A run could not be done; the loop goes on with the next.
    Failed {
        /// The run of the plan.
        run: &'p Planned,
        /// The reason of the failure.
        error: &'p MachineError,
    },
}

/// How the loop ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of runs that were done and stored.
    pub done: usize,
    /// Number of runs that were there already.
    pub skipped: usize,
    /// Runs that failed, each with why.
    pub failed: Vec<String>,
    /// Whether the user stopped it.
    pub stopped: bool,
    /// In how many further boots of the machine the experiment goes on.
    pub boots_left: u32,
}

impl Tally {
    /// Counts a run that was done and stored.
    fn ended(&mut self, run: &Planned, stored: &StoredRun, work: &Work<'_>) {
        self.done += 1;
        self.stopped |= stored.manifest.interrupted && (work.stop)();
        self.failed.extend(stored.failure().map(|why| run.failed(&why)));
    }

    /// Adds what another call of the loop did.
    pub(crate) fn add(&mut self, other: Self) {
        self.done += other.done;
        self.skipped += other.skipped;
        self.failed.extend(other.failed);
        self.stopped |= other.stopped;
    }
}

/// Why the loop gave up. What was stored until then stays.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// Results cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine cannot do any run of this plan.
    #[error("{0}")]
    Machine(#[from] MachineError),
    /// The machine is set otherwise than when the stored runs were done.
    #[error(
        "{}: its runs were done under other conditions: {what}: undo the change, or use another \
         folder (--output)",
        folder.display()
    )]
    OtherConditions {
        /// The folder of results.
        folder: std::path::PathBuf,
        /// The condition that differs.
        what: String,
    },
    /// The file does not say what is to be found out.
    #[error("{0}")]
    Question(String),
}

/// Does the runs of a plan on their machines and stores each under `results/runs/ID-PLACE`. A run of the
/// plan that was done at another place (another kernel, host or program) is not this one, and stays.
///
/// `stop` tells whether the user wants to stop; it is asked between runs and, by the machine, during them; the run
/// under way is then stored as interrupted, and done again at the next call.
/// Runs that fail are reported and left out: the same call again tries them again.
///
/// # Errors
/// When another process stores runs there, results cannot be stored, or the first run of all fails before anything was measured: then the
/// rest would fail alike.
pub fn run_plan(
    machines: &mut Machines<'_>,
    plan: &Plan,
    results: &Path,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Tally, LoopError> {
    let _lock = lock(results)?;
    run_with(machines, plan, results, stop, progress, RetryOptions::default())
}

/// What is done about a machine that is not quiet.
#[derive(Clone, Copy, Default)]
pub(crate) struct RetryOptions {
    /// Further attempts at a round with a warning.
    pub(crate) retries: u32,
    /// Whether the load in the second before each run is stored.
    pub(crate) looks_before: bool,
}

impl RetryOptions {
    pub(crate) fn of(experiment: &Experiment) -> Self {
        let looks_before = experiment.adjust.iter().any(|name| name == LOAD_BEFORE);
        Self { retries: experiment.retries, looks_before }
    }
}

/// What holds for all runs of a plan.
pub(crate) struct Work<'w> {
    pub(crate) results: &'w Path,
    /// Runs of the plan, those that are done included.
    pub(crate) total: usize,
    pub(crate) care: RetryOptions,
    pub(crate) stop: &'w dyn Fn() -> bool,
}

/// Where runs go, when they are on disk, and whether the load before each is stored.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'r> {
    pub(crate) results: &'r Path,
    pub(crate) durable: Durable,
    pub(crate) looks_before: bool,
}

/// As [`run_plan`], with care for what disturbs runs.
pub(crate) fn run_with(
    machines: &mut Machines<'_>,
    plan: &Plan,
    results: &Path,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(&Progress<'_>),
    care: RetryOptions,
) -> Result<Tally, LoopError> {
    remove_cut_off(results)?;
    let mut tally = Tally::default();
    let work = Work { results, total: plan.runs.len(), care, stop };
    let mut places = Places::default();
    let mut left = unfinished(plan, machines, &mut places, results, &mut tally, progress)?;
    let together = parallel::take(machines, &mut left)?;
    if let Some(make) = machines.make().filter(|_| !together.is_empty()) {
        parallel::perform(&together, make, &work, &mut tally, progress)?;
    }
    if !tally.stopped {
        one_by_one(&left, machines, places, &work, &mut tally, progress)?;
    }
    Ok(tally)
}

/// The runs of a plan that are still to do. A damaged one is set aside.
fn unfinished<'p>(
    plan: &'p Plan,
    machines: &mut Machines<'_>,
    places: &mut Places,
    results: &Path,
    tally: &mut Tally,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Vec<Left<'p>>, LoopError> {
    let mut left = Vec::new();
    for (index, run) in plan.runs.iter().enumerate() {
        let place = places.of(machines.get(&run.machine)?, run);
        match is_done(results, run, &place) {
            Ok(true) => {
                tally.skipped += 1;
                progress(&Progress::Skipped { run });
                continue;
            }
            Ok(false) => {}
            Err(error) if error.is_damage() => {
                let folder = set_aside(results, run, &place)?;
                progress(&Progress::SetAside { run, error: &error, folder: &folder });
            }
            Err(error) => return Err(error.into()),
        }
        left.push(Left { index, run, place });
    }
    Ok(left)
}

/// Does runs one after another, round by round. A round with a warning that may pass is done again as a whole, on a quiet
/// machine: one run of a pair alone would be measured at another time than the other, and be the luckier for it.
fn one_by_one(
    runs: &[Left<'_>],
    machines: &mut Machines<'_>,
    mut places: Places,
    work: &Work<'_>,
    tally: &mut Tally,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<(), LoopError> {
    let mut pace = RunTimes::default();
    let mut before = 0;
    let mut patience = QUIET_MAX;
    for round in runs.chunk_by(|a, b| a.run.block == b.run.block) {
        let mut attempt = 0;
        loop {
            let mut ended = Vec::new();
            for (at, Left { index, run, .. }) in round.iter().enumerate() {
                if (work.stop)() {
                    tally.stopped = true;
                    break;
                }
                let left = pace.left(runs.len() - before - at);
                progress(&Progress::Begins { index: *index, total: work.total, run, left });
                let began = Instant::now();
                let done =
                    machines.get(&run.machine).map_err(LoopError::from).and_then(|machine| {
                        // A program may have changed since the loop began.
                        let place = places.of(machine, run);
                        let looks_before = work.care.looks_before;
                        let results = work.results;
                        let durable = Durable::Each;
                        let stored = Stored { results, durable, looks_before };
                        one(machine, run, &place, stored, work.stop, attempt)
                    });
                match done {
                    Ok(stored) => {
                        pace.ended(began.elapsed());
                        progress(&Progress::Ended { run, stored: &stored });
                        ended.push((*run, stored));
                    }
                    // Ctrl-C ended a hook.
                    Err(LoopError::Machine(error)) if (work.stop)() => {
                        progress(&Progress::Failed { run, error: &error });
                        tally.stopped = true;
                        break;
                    }
                    Err(LoopError::Machine(error))
                        if tally.done + tally.skipped + ended.len() > 0 =>
                    {
                        progress(&Progress::Failed { run, error: &error });
                        tally.failed.push(run.failed(&error));
                    }
                    Err(error) => return Err(error),
                }
            }
            let is_doubtful = |stored: &StoredRun| {
                stored.failure().is_none() && stored.warnings.iter().any(is_passing)
            };
            let doubtful = || ended.iter().filter(|(_, stored)| is_doubtful(stored));
            let may_pass = !tally.stopped && attempt < work.care.retries && !(work.stop)();
            if let Some((first, _)) = doubtful().next().filter(|_| may_pass)
                && let machine = machines.get(&first.machine)?
                // Another attempt would be a copy.
                && !machine.offers().repeatable
            {
                if let Some((_, doubtful)) = doubtful().next() {
                    progress(&Progress::Again { doubtful, patience });
                }
                patience = await_quiet(machine, patience, work.stop);
                attempt += 1;
                continue;
            }
            ended.iter().for_each(|(run, stored)| tally.ended(run, stored, work));
            break;
        }
        before += round.len();
        if tally.stopped {
            break;
        }
    }
    Ok(())
}

/// How long the runs of a call took.
#[derive(Default)]
struct RunTimes {
    spent: Duration,
    ended: u32,
}

impl RunTimes {
    fn ended(&mut self, took: Duration) {
        self.spent += took;
        self.ended += 1;
    }

    /// How long so many runs will take; `None` before the first.
    fn left(&self, runs: usize) -> Option<Duration> {
        let runs = u32::try_from(runs).unwrap_or(u32::MAX);
        (self.ended > 0).then(|| self.spent / self.ended * runs)
    }
}

/// How long rounds that are done again wait for a quiet machine, all of a call together.
const QUIET_MAX: Duration = Duration::from_secs(10);
const QUIET_LOOK: Duration = Duration::from_millis(500);

/// Waits until few other tasks are runnable, or the patience is at its end; what is left of it.
fn await_quiet(machine: &mut dyn Machine, patience: Duration, stop: &dyn Fn() -> bool) -> Duration {
    let began = Instant::now();
    while began.elapsed() < patience && !stop() && !is_quiet(&machine.facts()) {
        std::thread::sleep(QUIET_LOOK);
    }
    patience.saturating_sub(began.elapsed())
}

impl Planned {
    /// The sentence about a run that could not be done.
    pub(crate) fn failed(&self, why: &impl std::fmt::Display) -> String {
        format!("{} {}: {why}", self.workload, self.id)
    }
}

/// Performs one run and stores it. A run that failed is stored with the reason.
pub(crate) fn one(
    machine: &mut dyn Machine,
    run: &Planned,
    place: &Place,
    to: Stored<'_>,
    stop: &dyn Fn() -> bool,
    attempt: u32,
) -> Result<StoredRun, LoopError> {
    let name = place.folder(run);
    let failed_before = failed_before(&to.results.join("runs").join(&name));
    let mut writer = RunWriter::create(to.results, &name, stop)?;
    let done = perform(machine, run, place, &mut writer, to.looks_before);
    let repeatable = machine.offers().repeatable;
    let kept = |manifest| Manifest { attempt, failed_before, repeatable, ..manifest };
    let error = match done {
        Ok(manifest) => {
            let folder = writer.finish(&kept(manifest), to.durable)?;
            return Ok(StoredRun::read(&folder)?);
        }
        Err(error) => error,
    };
    // What the machine refuses or the user stops is no attempt.
    if let (MachineError::Load(_) | MachineError::Io { .. }, false) = (&error, stop()) {
        let mut manifest = Manifest::new(run, machine.facts(), place.clone());
        manifest.failure = Some(reason(&error));
        writer.finish(&kept(manifest), to.durable)?;
    }
    Err(error.into())
}

/// How many attempts at the run of this folder failed.
fn failed_before(folder: &Path) -> u32 {
    let Ok(stored) = StoredRun::read(folder) else { return 0 };
    stored.manifest.failed_before + u32::from(stored.failure().is_some())
}

fn reason(error: &MachineError) -> String {
    match error {
        MachineError::Load(what) => what.clone(),
        other => other.to_string(),
    }
}

/// Performs one run with the commands around it.
fn perform(
    machine: &mut dyn Machine,
    run: &Planned,
    place: &Place,
    writer: &mut RunWriter<'_>,
    looks_before: bool,
) -> Result<Manifest, MachineError> {
    let hooks = &run.hooks;
    let folder = writer.folder().to_owned();
    if looks_before {
        // Before the hooks: what they start belongs to the treatment.
        let figure = load_before(machine);
        writer.figure(figure).map_err(|e| MachineError::io("storing a metric", e))?;
    }
    let done = hook(&hooks.before, &folder).and_then(|_| {
        // With what runs beside: a sched_ext scheduler belongs to the machine that is measured.
        let mut beside = Beside::start(hooks, &folder)?;
        let before: MachineFacts = machine.facts();
        let mut manifest = Manifest::new(run, before.clone(), place.clone());
        let began = Instant::now();
        let outcome = machine.run(&run.spec, writer)?;
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let after = machine.facts();
        doubts(&before, &after, took).into_iter().for_each(|warning| writer.warning(warning));
        manifest.ended(&outcome, took, after.load);
        if outcome.exit_code != 0 && !outcome.interrupted {
            let what = format!("the load ended with exit code {}", outcome.exit_code);
            manifest.failure = Some(what);
        } else if let Some(why) = beside.ended_early(hooks, began.elapsed()) {
            manifest.failure = Some(why);
        } else {
            manifest.failure = not_in_force(writer.warnings());
        }
        if manifest.failure.is_some() {
            return Ok(manifest);
        }
        take_figures(&hook(&hooks.metric, &folder)?, hooks, writer)?;
        // Between runs, so that reading disturbs none of them.
        let trace = writer.path(Stream::Trace);
        writer.finish_trace().map_err(|e| MachineError::io("storing the trace", e))?;
        let measures = |metric: &str| machine.measures(metric).is_ok();
        crate::trace_metrics::take_figures(&trace, writer, &measures)
            .map_err(|e| MachineError::io("storing a metric of the trace", e))?;
        Ok(manifest)
    });
    // What was started before is ended after, also where the run failed in between.
    let after = hook(&hooks.after, &folder);
    let manifest = done?;
    after?;
    Ok(manifest)
}

/// The metric of the load before a run.
const LOAD_BEFORE: &str = "load_before";
const BEFORE: Duration = Duration::from_millis(if cfg!(test) { 2 } else { 1_000 });

/// How many CPUs were busy in the second that ends now.
fn load_before(machine: &dyn Machine) -> Figure {
    let first = machine.facts().load;
    let began = Instant::now();
    std::thread::sleep(BEFORE);
    let busy = machine.facts().load.busy_ns.saturating_sub(first.busy_ns) as f64;
    Figure {
        metric: Metric::new(LOAD_BEFORE, Unit::Count, Better::Neither),
        of: MACHINE.to_owned(),
        value: busy / began.elapsed().as_nanos() as f64,
    }
}

/// A run counts as done when its directory is there, it was not interrupted, and it did not fail.
pub(crate) fn is_done(results: &Path, run: &Planned, place: &Place) -> Result<bool, StoreError> {
    let folder = results.join("runs").join(place.folder(run));
    if !folder.is_dir() {
        return Ok(false);
    }
    let stored = StoredRun::read(&folder)?;
    stored.intervals("")?;
    let is_cut = stored.manifest.interrupted && !stored.is_censored();
    Ok(!is_cut && stored.failure().is_none())
}

/// Renames the folder of a damaged run, so that the run can be done again and nothing is lost; its new place.
fn set_aside(results: &Path, run: &Planned, place: &Place) -> Result<PathBuf, StoreError> {
    let runs = results.join("runs");
    let name = place.folder(run);
    let folder = runs.join(&name);
    let free = (1..).map(|n| runs.join(format!(".damaged-{name}-{n}")));
    let target = free.into_iter().find(|path| !path.exists()).expect("numbers do not end");
    fs::rename(&folder, &target).map_err(|e| StoreError::io(&folder, e))?;
    Ok(target)
}

/// Removes what runs left behind that were cut off by a crash.
fn remove_cut_off(results: &Path) -> Result<(), StoreError> {
    let runs = results.join("runs");
    fs::create_dir_all(&runs).map_err(|e| StoreError::io(&runs, e))?;
    for entry in fs::read_dir(&runs).map_err(|e| StoreError::io(&runs, e))? {
        let path = entry.map_err(|e| StoreError::io(&runs, e))?.path();
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with(".tmp-") && !is_written_by_another(&name) {
            fs::remove_dir_all(&path).map_err(|e| StoreError::io(&path, e))?;
        }
    }
    Ok(())
}

/// Whether the process whose number ends the name is alive, and so still writing.
fn is_written_by_another(name: &str) -> bool {
    let Some(pid) = name.rsplit('-').next().and_then(|p| p.parse::<u32>().ok()) else {
        return false;
    };
    pid != std::process::id() && Path::new("/proc").join(pid.to_string()).exists()
}

/// Keeps the experiment file beside its results.
pub(crate) fn keep_experiment(results: &Path, text: &str) -> Result<(), StoreError> {
    fs::create_dir_all(results).map_err(|e| StoreError::io(results, e))?;
    write_synced(&results.join("experiment.toml"), text.as_bytes())
}

#[cfg(test)]
mod tests;
