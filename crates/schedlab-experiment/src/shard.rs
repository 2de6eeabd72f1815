//! Parts of a plan that are the same wherever they are computed, so that several machines can share its runs.
//!
//! What is dealt out is a unit: a block of measurements, so that what is compared is measured on one machine, or one
//! simulated run.

use crate::frozen::FrozenError;
use crate::session::run_part;
use crate::store::lock;
use crate::{Experiment, Hooks, Hosts, Machines, Plan, Planned, Progress, Tally};
use schedlab_workload::HOST;
use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

/// Machines of this kind do not disturb each other, and give the same figures everywhere.
const SIMULATED: &str = "sim";

/// Every `of`-th unit of a plan, from the one with this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The number of the shard, from 0; below `of`.
    pub(crate) index: usize,
    /// The number of shards; above 0.
    pub(crate) of: usize,
}

impl FromStr for Shard {
    type Err = String;

    /// Reads `2/8`: the second of eight.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write I/N, such as 2/8, with I from 1 to N";
        let (number, of) = text.split_once('/').ok_or(form)?;
        let (number, of): (usize, usize) = number.parse().ok().zip(of.parse().ok()).ok_or(form)?;
        match (1..=of).contains(&number) {
            true => Ok(Self { index: number - 1, of }),
            false => Err(form.to_owned()),
        }
    }
}

impl Plan {
    /// All runs of an experiment that knows beforehand which they are.
    ///
    /// # Errors
    /// When the experiment decides from results how many runs it has.
    pub fn listed(experiment: &Experiment) -> Result<Self, FrozenError> {
        let stop = &experiment.stop;
        let open = [
            (stop.width.is_some() || stop.budget.is_some() || !stop.looks.is_empty(), "[stop]"),
            (experiment.boots > 1, "boots"),
            (experiment.tune.is_some(), "[tune]"),
        ];
        match open.iter().find(|(is_there, _)| *is_there) {
            None => Ok(Self::new(experiment)),
            Some((_, key)) => Err(FrozenError::Refused(format!(
                "{}: several machines can share a fixed list of runs only, but {key} chooses runs from \
                 results: leave {key} out",
                experiment.path.display()
            ))),
        }
    }

    /// The runs of each unit, as indices into the plan: blocks first, then simulated runs one by one.
    #[must_use]
    pub fn units(&self) -> Vec<Vec<usize>> {
        let mut blocks: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let mut single = Vec::new();
        for (index, run) in self.runs.iter().enumerate() {
            match run.is_simulated() {
                true => single.push(vec![index]),
                false => blocks.entry(run.block).or_default().push(index),
            }
        }
        blocks.into_values().chain(single).collect()
    }

    /// Some of the runs, by their indices.
    pub(crate) fn part(&self, units: &[Vec<usize>]) -> Self {
        Self { runs: units.iter().flatten().map(|index| self.runs[*index].clone()).collect() }
    }

    /// The runs of a shard.
    #[must_use]
    pub fn shard(&self, shard: Shard) -> Self {
        self.part(&shard.of_units(self.units()))
    }
}

/// Does a shard of an experiment; results go under `results`, and what is there already counts.
///
/// # Errors
/// As [`crate::run_plan`], and [`Plan::listed`].
pub fn run_shard(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    shard: Shard,
    results: &Path,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Tally, FrozenError> {
    let plan = Plan::listed(experiment)?.shard(shard);
    let _lock = lock(results)?;
    Ok(run_part(machines, experiment, &plan, results, stop, progress)?)
}

impl Shard {
    pub(crate) fn of_units(self, units: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
        units.into_iter().skip(self.index).step_by(self.of).collect()
    }
}

impl Planned {
    /// Whether the run gives the same figures on any machine.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.machine.kind == SIMULATED && self.hooks == Hooks::default()
    }
}

impl Experiment {
    /// Whether its runs measure the machine on which they are done.
    #[must_use]
    pub fn measures_its_host(&self) -> bool {
        self.machines().iter().any(|machine| machine.kind == HOST)
    }

    /// Whether several machines may share its runs; otherwise each of them does all.
    #[must_use]
    pub fn may_be_shared(&self) -> bool {
        !self.measures_its_host() || self.hosts == Hosts::Blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        Plan::listed(&Experiment::parse(text, Path::new("x.toml")).unwrap()).unwrap()
    }

    const FOUR: &str = "repeats = 2\n[workload]\nname = \"cpu\"\n[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"2ms\"]\n";

    #[test]
    fn shards_are_written_from_one() {
        assert_eq!("2/8".parse(), Ok(Shard { index: 1, of: 8 }));
        for wrong in ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_block_of_measurements_is_one_unit_and_a_simulated_run_is_one() {
        let sizes =
            |text: &str| -> Vec<usize> { plan(text).units().iter().map(Vec::len).collect() };
        assert_eq!(sizes(FOUR), [2, 2]);
        assert_eq!(sizes(&format!("machine = \"sim:cpus=1\"\n{FOUR}")), [1, 1, 1, 1]);
        let hooked = format!("machine = \"sim:cpus=1\"\n{FOUR}[hooks]\nbefore = [\"true\"]\n");
        assert_eq!(sizes(&hooked), [2, 2], "a hook may do anything");
    }

    #[test]
    fn shards_hold_each_run_once_and_more_shards_than_units_are_empty() {
        let plan = plan(&format!("machine = \"sim:cpus=1\"\n{FOUR}"));
        for of in 1..6 {
            let parts = (0..of).flat_map(|index| plan.shard(Shard { index, of }).runs);
            let mut ids: Vec<_> = parts.map(|run| run.id).collect();
            ids.sort();
            let mut all: Vec<_> = plan.runs.iter().map(|run| run.id.clone()).collect();
            all.sort();
            assert_eq!(ids, all, "{of} shards");
        }
    }

    #[test]
    fn what_decides_from_results_how_many_runs_there_are_is_refused() {
        for open in ["boots = 2\n", "[stop]\nwidth = 0.1\n", "[stop]\nlooks = [5, 6]\n"] {
            let text = match open.starts_with('[') {
                true => format!("{FOUR}{open}").replace("repeats = 2\n", ""),
                false => format!("{open}{FOUR}"),
            };
            let experiment = Experiment::parse(&text, Path::new("x.toml")).unwrap();
            let refused = Plan::listed(&experiment).unwrap_err().to_string();
            assert!(refused.contains("chooses runs from results"), "{refused}");
        }
    }
}
