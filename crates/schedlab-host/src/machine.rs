//! This Linux as a [`Machine`]: performs a run in a child, with a recorder around it.
//!
//! The child is the program itself, re-executed as a load child (see [`crate::load`]), or the user's
//! command. While it runs this process only waits: for what the child tells, for a signal, for the
//! run's limit. In any case, the child is killed when this thread dies.

mod recording;
mod user_command;

use crate::concurrent_loads::ConcurrentLoads;
use crate::knobs::{self, Held};
use crate::load::{self, LoadRequest, Part};
use crate::load_environment::Sites;
use crate::load_process::LoadProcess;
use crate::load_reports::store;
use crate::run_settings::{RunSettings, Slowed};
use crate::watch::Watch;
use crate::{facts, marks, slow};
use recording::{MarkFiles, RunRecording};
use schedlab_model::{Fact, MachineFacts, Setting, Topology};
use schedlab_record::Recorder;
use schedlab_sys::guard::Ends;
use schedlab_sys::process;
use schedlab_sys::signal::Signals;
use schedlab_workload::plan::Plan;
use schedlab_workload::{
    HOST, Machine, MachineError, Offers, Outcome, Output, Recording, RunSpec, SpeedSettings,
    WorkloadSpec, plans_of,
};
use std::cell::OnceCell;
use std::sync::Arc;

/// The Linux on which schedlab runs, as a machine.
pub struct Host {
    offers: Offers,
    /// Iterations of the calibrated loop in a microsecond at full speed, once it was needed.
    calibrated: Option<u64>,
    /// What speeds are checked against, once one was asked for.
    support: OnceCell<slow::Support>,
    /// Ends what runs started if this process is killed.
    ends: Option<Arc<Ends>>,
}

impl Host {
    /// This machine, with the running program as the load child.
    ///
    /// # Errors
    /// When the program's own path cannot be found out.
    pub fn here() -> std::io::Result<Self> {
        // From here on the program may be replaced.
        process::this_program()?;
        let facts = facts::facts();
        // The one check that a run needs: the others cost every start what only `doctor` asks for.
        let recording = match Recorder::available() {
            Ok(via) => Fact::Known(Recording { via: via.name().to_owned(), warnings: Vec::new() }),
            Err(error) => Fact::Unknown(error.to_string()),
        };
        let offers = Offers {
            machine: HOST.to_owned(),
            // A machine that does not tell its CPUs has one.
            topology: if facts.topology.cpus().is_empty() {
                Topology::flat(1)
            } else {
                facts.topology.clone()
            },
            allowed: facts.allowed.clone(),
            knobs: list_knobs(),
            recording,
            speeds: speeds(),
            commands: Fact::Known(()),
            repeatable: false,
            parallel: false,
        };
        Ok(Self { offers, calibrated: None, support: OnceCell::new(), ends: None })
    }
}

impl Machine for Host {
    fn offers(&self) -> &Offers {
        &self.offers
    }

    fn facts(&self) -> MachineFacts {
        MachineFacts { knobs: list_knobs(), ..facts::facts() }
    }

    fn check(&self, spec: &RunSpec) -> Result<(), MachineError> {
        self.planned(spec).map(drop)
    }

    fn run(&mut self, spec: &RunSpec, out: &mut dyn Output) -> Result<Outcome, MachineError> {
        let plans = self.planned(spec)?;
        let signals =
            schedlab_sys::signal::catch().map_err(|e| MachineError::io("catching signals", e))?;
        // A guest at the user's terminal is recorded, not measured.
        let watch = out.keeps_streams().then(|| Watch::start(&self.offers.topology.cpus()));
        // Speeds are held around the load; what is left are knobs.
        let (speeds, knobs) = SpeedSettings::part(&spec.settings);
        let slowed = self.slow(&speeds, out)?;
        let spec = &RunSpec { settings: knobs, ..spec.clone() };
        if out.keeps_streams() {
            knobs::left_set().into_iter().for_each(|warning| out.warning(warning));
        }
        if self.ends.is_none() {
            // Without one the direct children still die with this process.
            self.ends = Ends::arm().ok().map(Arc::new);
        }
        let settings = RunSettings { held: hold(spec, out)?, slowed, ends: self.ends.clone() };
        let mut recording = RunRecording::start(spec, out)?;
        let mut sites = Sites::default();
        let result = self.perform(spec, &plans, &recording, &settings, &mut sites, signals, out);
        sites.finish().into_iter().for_each(|warning| out.warning(warning));
        let (outcome, marks) = match result {
            Ok(ended) => ended,
            Err(error) => {
                recording.discard();
                return Err(error);
            }
        };
        let ending = recording.recorder.as_ref().and_then(Recorder::ending);
        ending.iter().for_each(|sentence| out.note(sentence));
        settings.release(out)?;
        let (figures, doubts) = watch.map(Watch::finish).unwrap_or_default();
        figures.into_iter().try_for_each(|figure| store(out, figure))?;
        doubts.into_iter().for_each(|doubt| out.warning(doubt));
        recording.finish(&marks, out)?;
        Ok(outcome)
    }
}

impl Host {
    /// Runs the workload, with those that run at the same time.
    fn perform(
        &self,
        spec: &RunSpec,
        plans: &[Option<Plan>],
        recording: &RunRecording,
        settings: &RunSettings,
        sites: &mut Sites,
        signals: Signals,
        out: &mut dyn Output,
    ) -> Result<(Outcome, MarkFiles), MachineError> {
        let marks = recording.marks_path();
        let path = marks.as_deref();
        let program =
            process::this_program().map_err(|e| MachineError::io("finding this program", e))?;
        let plan_of = |index: usize| plans.get(index).and_then(Option::as_ref);
        let beside = spec.beside.iter().zip(1..);
        let beside = beside
            .map(|(which, index)| sites.prepare(plan_of(index), &format!("-{}", which.label)))
            .collect::<Result<_, _>>()?;
        let own = sites.prepare(plan_of(0), "")?;
        let mut loads =
            ConcurrentLoads::start(&program, spec, beside, path, settings, signals, out)?;
        let (outcome, names) = match &spec.workload {
            WorkloadSpec::Builtin { name, .. } => {
                let part = if loads.is_empty() { Part::Alone } else { Part::Among };
                let spec = RunSpec { beside: Vec::new(), ..spec.clone() };
                let request = LoadRequest { spec, part, site: own };
                let mut load = LoadProcess::start(&program, &request, name, path, settings, out)?;
                let outcome = load.follow(signals, || loads.go(), out)?;
                (outcome, load.reports.mark_names.take().unwrap_or_default())
            }
            WorkloadSpec::Command { argv } => {
                loads.go();
                let argv = user_command::under_settings(&program, argv, &spec.settings);
                let launched = !spec.settings.is_empty();
                let outcome = user_command::run(
                    &argv,
                    launched,
                    spec.time_limit,
                    signals,
                    recording,
                    settings,
                    out,
                )?;
                (outcome, Vec::new())
            }
        };
        let of_commands = marks.as_deref().map(marks::of_commands).unwrap_or_default();
        let mut files: MarkFiles = marks.map(|path| (path, names)).into_iter().collect();
        files.extend(of_commands);
        files.extend(loads.finish(out)?);
        Ok((outcome, files))
    }

    /// Checks a spec; the plans of its workloads, not calibrated.
    fn planned(&self, spec: &RunSpec) -> Result<Vec<Option<Plan>>, MachineError> {
        let plans = plans_of(spec, &self.offers)?;
        let (speeds, knobs) = SpeedSettings::part(&spec.settings);
        if !knobs.is_empty() {
            knobs::check(&knobs).map_err(|error| not_set(&error))?;
        }
        if !speeds.is_empty() {
            let support = self.support.get_or_init(slow::Support::here);
            slow::check(&speeds, support).map_err(|error| not_slowed(&error))?;
        }
        Ok(plans)
    }

    /// Slows CPUs as the settings say. The loop is calibrated before, once for all runs, so that their
    /// work is the same.
    fn slow(
        &mut self,
        speeds: &[Setting],
        out: &mut dyn Output,
    ) -> Result<Option<Slowed>, MachineError> {
        if speeds.is_empty() {
            return Ok(None);
        }
        let calibrated = *self.calibrated.get_or_insert_with(load::calibrate);
        let held = slow::hold(speeds).map_err(|e| not_slowed(&e))?;
        let Some(held) = held else { return Ok(None) };
        held.warnings.iter().cloned().for_each(|warning| out.warning(warning));
        Ok(Some(Slowed { held, calibrated }))
    }
}

fn list_knobs() -> Vec<schedlab_model::Knob> {
    knobs::Tree::here().map(|tree| tree.list()).unwrap_or_default()
}

/// The methods by which a CPU can be slowed here.
fn speeds() -> Fact<Vec<String>> {
    let support = slow::Support::here();
    let mut whys = Vec::new();
    let mut names = Vec::new();
    for (method, name, _) in slow::METHODS {
        match slow::offered(name, &support) {
            Ok(()) => names.push(method.to_string()),
            Err(why) => whys.push(why.to_string()),
        }
    }
    if names.is_empty() { Fact::Unknown(whys.join("; ")) } else { Fact::Known(names) }
}

/// Makes the settings that the machine has; a command gets them from its launcher.
fn hold(spec: &RunSpec, out: &mut dyn Output) -> Result<Held, MachineError> {
    if matches!(spec.workload, WorkloadSpec::Command { .. }) {
        return Ok(Held::default());
    }
    let (held, warnings) = Held::make(&spec.settings).map_err(|e| not_set(&e))?;
    warnings.into_iter().for_each(|warning| out.warning(warning));
    Ok(held)
}

fn not_slowed(error: &slow::SlowError) -> MachineError {
    let machine = HOST.to_owned();
    let what = "slow CPUs".to_owned();
    MachineError::NotOffered { machine, what, why: error.to_string() }
}

fn not_set(error: &knobs::KnobError) -> MachineError {
    let machine = HOST.to_owned();
    let what = "make the settings of the run".to_owned();
    MachineError::NotOffered { machine, what, why: error.to_string() }
}
