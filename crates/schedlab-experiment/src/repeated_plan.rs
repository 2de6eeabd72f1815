//! The runs of two folders once more, pair by pair: sides that were measured one after the other share no drift then.

use crate::store::Places;
use crate::{Experiment, Machines, Plan, Planned, RunId, StoredRuns};
use schedlab_stats::Random;
use std::collections::BTreeSet;
use std::path::Path;

/// Both folders' runs in rounds of random order, and which run is of which side.
#[derive(Debug)]
pub struct RepeatedPlan {
    /// The runs, to be done into a folder of their own.
    pub plan: Plan,
    /// The runs of each side.
    pub sides: [BTreeSet<RunId>; 2],
}

impl RepeatedPlan {
    /// Plans the runs of two folders anew.
    ///
    /// # Errors
    /// What is gone, in a sentence: the file of an experiment, a kernel, a host, a program.
    pub fn of(machines: &mut Machines<'_>, folders: [&StoredRuns; 2]) -> Result<Self, String> {
        let [before, after] = folders.map(|stored| planned(machines, stored));
        let before = before?;
        let after = after?;
        let ids = |runs: &[Planned]| runs.iter().map(|run| run.id.clone()).collect();
        let sides: [BTreeSet<RunId>; 2] = [ids(&before), ids(&after)];
        if !sides[0].is_disjoint(&sides[1]) {
            return Err(
                "both folders ask for the same runs, so what made them differ is gone".into()
            );
        }
        let last = before.iter().chain(&after).map(|run| run.block).max().unwrap_or(0);
        let mut runs = Vec::new();
        for block in 0..=last {
            let of = |run: &&Planned| run.block == block;
            let mut round: Vec<Planned> = before.iter().chain(&after).filter(of).cloned().collect();
            Random::new(u64::from(block)).shuffle(&mut round);
            runs.extend(round);
        }
        Ok(Self { plan: Plan { runs }, sides })
    }
}

/// The runs of a folder's experiment, where the machine and the program are as they were.
fn planned(machines: &mut Machines<'_>, stored: &StoredRuns) -> Result<Vec<Planned>, String> {
    let folder = stored.folder.display();
    let text = stored.experiment.as_deref();
    let text = text.ok_or_else(|| format!("{folder} has no experiment.toml"))?;
    let experiment = Experiment::parse(text, Path::new("experiment.toml"))
        .map_err(|error| format!("{folder}: {error}"))?;
    let plan = Plan::new(&experiment);
    let mut places = Places::default();
    for run in &plan.runs {
        let machine = machines.get(&run.machine).map_err(|error| error.to_string())?;
        let here = places.of(machine, run);
        let Some(old) = stored.runs.iter().find(|old| old.manifest.id == run.id) else { continue };
        if let Some(what) = old.manifest.place.difference(&here) {
            return Err(format!("{folder} cannot be measured again: {what}"));
        }
    }
    Ok(plan.runs)
}
