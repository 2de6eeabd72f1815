//! What machines say against a plan before anything runs, with the place in the experiment file.

use crate::file::{FileError, Mistake, Part, nearest};
use crate::hooks::NONE;
use crate::refused_part::blamed;
use crate::run_metrics;
use crate::{Experiment, Machines, Plan, Planned, machine_files};
use schedlab_model::{Fact, Warning};
use schedlab_workload::knobs::{FEATURE, FEATURES};
use schedlab_workload::{HOST, Machine, MachineName, Offers, WorkloadSpec};
use std::collections::BTreeSet;
use std::path::Path;

impl Plan {
    /// Asks the machines about each run of the plan before anything runs.
    ///
    /// Recording that is not offered is a warning, since the figures come all the same; a knob that
    /// is not there or locked is an error, since the experiment would measure something else.
    ///
    /// # Errors
    /// With all that is refused, each at its place in the experiment's file.
    pub fn check(
        &self,
        machines: &mut Machines<'_>,
        experiment: &Experiment,
    ) -> Result<Vec<Warning>, FileError> {
        let mut mistakes: Vec<Mistake> = Vec::new();
        let mut warnings = Vec::new();
        let names: BTreeSet<&MachineName> = self.runs.iter().map(|run| &run.machine).collect();
        for name in names {
            let runs: Vec<&Planned> = self.runs.iter().filter(|run| run.machine == *name).collect();
            let unread = machine_files(name).err();
            let machine = machines.get(name).map_err(|error| error.to_string());
            match unread.map_or(machine, Err) {
                Err(what) => {
                    let value = name.to_string();
                    mistakes.push(experiment.places.mistake(&Part::Machine, &value, what));
                }
                Ok(machine) => {
                    warnings.extend(unrecorded(&runs, machine.offers()));
                    warnings.extend(computed(name, &runs, machine.offers()));
                    let missing = missing(&runs, machine.offers(), experiment, &mut mistakes);
                    refused(&runs, machine, &missing, experiment, &mut mistakes);
                    unmeasured(machine, experiment, &mut mistakes);
                    if name.kind == HOST {
                        missing_programs(&runs, experiment, &mut mistakes);
                    }
                }
            }
        }
        if mistakes.is_empty() {
            return Ok(warnings);
        }
        mistakes.sort_by(|a, b| (a.line, a.column, &a.what).cmp(&(b.line, b.column, &b.what)));
        mistakes.dedup();
        Err(FileError::Wrong { path: experiment.path.clone(), mistakes })
    }
}

/// Programs of commands and hooks that are not there: found before the first run.
fn missing_programs(runs: &[&Planned], experiment: &Experiment, mistakes: &mut Vec<Mistake>) {
    let mut seen = BTreeSet::new();
    for run in runs {
        let hooks = &run.hooks;
        // What is done before a run may make the others.
        let makes = !hooks.before.is_empty() || !hooks.during.is_empty();
        let first = if hooks.before.is_empty() { &hooks.during } else { &hooks.before };
        let mut all = vec![first];
        if let (WorkloadSpec::Command { argv }, false) = (&run.spec.workload, makes) {
            all.push(argv);
        }
        for what in all.into_iter().filter_map(|argv| missing_program(argv)) {
            if seen.insert(what.clone()) {
                let part = Part::Workload(run.workload.clone());
                mistakes.push(experiment.places.mistake(&part, "", what));
            }
        }
    }
}

/// Why a program cannot be started, in a sentence; `None` where it is there.
#[must_use]
pub fn missing_program(argv: &[String]) -> Option<String> {
    let program = argv.first().filter(|program| !program.is_empty() && *program != NONE)?;
    let is_file = |path: &Path| path.is_file();
    let is_there = match program.contains('/') {
        true => is_file(Path::new(program)),
        false => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| is_file(&folder.join(program)))
        }
    };
    (!is_there).then(|| format!("no program '{program}': check its name, or install it"))
}

/// The warning about runs that would be recorded where nothing can be.
fn unrecorded(runs: &[&Planned], offers: &Offers) -> Option<Warning> {
    let Fact::Unknown(why) = &offers.recording else { return None };
    runs.iter().any(|run| run.spec.record.is_some()).then(|| {
        let what = format!("cannot record scheduler events here: {why}");
        Warning::new("no-recording", what, "see `schedlab doctor`")
    })
}

/// What repeats mean where the same run has the same result each time.
fn computed(name: &MachineName, runs: &[&Planned], offers: &Offers) -> Option<Warning> {
    let repeats = runs.iter().any(|run| run.spec.repeat > 0);
    (offers.repeatable && repeats).then(|| {
        let what = format!(
            "{name} gives the same result for the same run: repeats differ only by their seed and by the phase of \
             the tick at which they begin"
        );
        let remedy = "read an interval as the range over seeds and phases, not as chance";
        Warning::new("repeats-computed", what, remedy)
    })
}

/// The settings that the machine does not have at all; each becomes a mistake.
fn missing(
    runs: &[&Planned],
    offers: &Offers,
    experiment: &Experiment,
    mistakes: &mut Vec<Mistake>,
) -> BTreeSet<String> {
    let settings = runs.iter().flat_map(|run| &run.spec.settings);
    let wanted: BTreeSet<(&str, &str)> =
        settings.map(|setting| (setting.knob.as_str(), setting.value.as_str())).collect();
    let mut missing = BTreeSet::new();
    for (knob, value) in wanted {
        if missing.contains(knob) {
            continue;
        }
        if let Some(what) = not_offered(knob, offers) {
            missing.insert(knob.to_owned());
            mistakes.push(experiment.places.mistake(&Part::Setting(knob.to_owned()), value, what));
        }
    }
    missing
}

/// The name of the knob that a setting sets. A single switch is set through the file that holds all of them.
#[must_use]
pub fn knob_of(setting: &str) -> &str {
    if setting.starts_with(FEATURE) { FEATURES } else { setting }
}

/// Why a setting cannot be made on a machine at all.
fn not_offered(setting: &str, offers: &Offers) -> Option<String> {
    if setting.starts_with(MachineName::FILE) {
        return None;
    }
    if setting.starts_with("speed:") {
        // A speed of CPUs is no knob of the kernel, but held around the run.
        let Fact::Unknown(why) = &offers.speeds else { return None };
        return Some(format!("cannot slow CPUs here: {why}"));
    }
    let name = knob_of(setting);
    match offers.knobs.iter().find(|knob| knob.name == name) {
        Some(knob) if knob.writable => None,
        Some(knob) => Some(format!("cannot set knob {name} here: {}", knob.why_not)),
        None => {
            let names: Vec<&str> = offers.knobs.iter().map(|knob| knob.name.as_str()).collect();
            let instead = match nearest(name, &names) {
                Some(near) => format!("; did you mean {near}?"),
                None if names.is_empty() => ", which has no knobs".to_owned(),
                None => format!(": use {}", names.join(", ")),
            };
            Some(format!("unknown knob {name} on {}{instead}", offers.machine))
        }
    }
}

/// Metrics of the experiment that the machine's clock does not carry. What a hook measures is its own.
fn unmeasured(machine: &dyn Machine, experiment: &Experiment, mistakes: &mut Vec<Mistake>) {
    for name in experiment.measure.iter().filter(|name| run_metrics::find(name).is_some()) {
        if let Err(why) = machine.measures(name) {
            let what = format!("{} does not measure {name}: {why}", machine.offers().machine);
            mistakes.push(experiment.places.mistake(&Part::Measure, "", what));
        }
    }
}

/// What the machine says against the runs of the first block: those of the others differ in their
/// seed only. Settings that are known to be missing are left out, so that nothing is reported twice.
fn refused(
    runs: &[&Planned],
    machine: &dyn Machine,
    missing: &BTreeSet<String>,
    experiment: &Experiment,
    mistakes: &mut Vec<Mistake>,
) {
    let first = runs.iter().map(|run| run.block).min();
    for run in runs.iter().filter(|run| Some(run.block) == first) {
        let mut spec = run.spec.clone();
        spec.settings.retain(|setting| !missing.contains(&setting.knob));
        if let Err(error) = machine.check(&spec) {
            let (part, value) = blamed(machine, &spec, &run.workload, &error);
            let what = match &part {
                Part::Workload(label) => format!("{label}: {error}"),
                _ => error.to_string(),
            };
            mistakes.push(experiment.places.mistake(&part, &value, what));
        }
    }
}

#[cfg(test)]
mod tests;
