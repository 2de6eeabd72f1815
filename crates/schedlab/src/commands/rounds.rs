//! Runs that are compared with each other, in rounds: each round has all of them in another order.

use super::load::perform;
use schedlab_experiment::{Hooks, Machines, Place, Plan, Planned, Point, RunId, StoredRun};
use schedlab_stats::Random;
use schedlab_workload::{MachineName, RunSpec};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// What is measured: a machine, and what it does.
#[derive(Clone)]
pub(crate) struct Cell {
    pub(crate) machine: MachineName,
    /// Its repeat is the number of the round.
    pub(crate) spec: RunSpec,
    /// Commands around each run.
    pub(crate) hooks: Hooks,
}

impl Cell {
    fn run(&self, label: &str, block: u32) -> Planned {
        let machine = self.machine.clone();
        let spec = RunSpec { repeat: block, ..self.spec.clone() };
        let hooks = self.hooks.clone();
        let id = RunId::with_hooks(&machine, &spec, &hooks);
        let workload = label.to_owned();
        let point = Point::new();
        Planned { id, workload, point, block, spec, hooks, machine }
    }
}

/// Measures cells as runs of one workload; the runs of each cell in their order, those that failed included, and whether
/// the user stopped it.
pub(crate) fn measure(
    machines: &mut Machines<'_>,
    cells: &[Cell],
    label: &str,
    rounds: Range<u32>,
    folder: &Path,
) -> anyhow::Result<(Vec<Vec<StoredRun>>, bool)> {
    let mut random = Random::new(1);
    let mut plan = Plan { runs: Vec::new() };
    for block in rounds.clone() {
        let mut round: Vec<Planned> = cells.iter().map(|cell| cell.run(label, block)).collect();
        random.shuffle(&mut round);
        plan.runs.extend(round);
    }
    let (runs, tally) = perform(machines, &plan, folder)?;
    let mut found: BTreeMap<RunId, Vec<StoredRun>> = BTreeMap::new();
    runs.into_iter().for_each(|run| found.entry(run.manifest.id.clone()).or_default().push(run));
    let mut of_cells = Vec::new();
    for cell in cells {
        let here = Place::of(&machines.get(&cell.machine)?.facts());
        let of_round = |block| found.get(&cell.run(label, block).id).cloned().unwrap_or_default();
        // Others in the folder are of another kernel that had this name before.
        let is_here = |run: &StoredRun| run.manifest.place.is_near(&here);
        of_cells.push(rounds.clone().flat_map(of_round).filter(is_here).collect());
    }
    Ok((of_cells, tally.stopped))
}
