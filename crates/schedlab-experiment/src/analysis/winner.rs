//! The setting to take home: the best choice on the knob axes of an experiment, over all loads together.

use super::{Cells, Choice, Map, MapError, Noise, ValueGrid};
use crate::{Experiment, Varies};
use schedlab_model::{Better, Metric, Setting};
use std::collections::BTreeMap;

/// A setting that is better than others for sure, and those that may be as good.
#[derive(Clone, Debug, PartialEq)]
pub struct Winner {
    /// The label of the workload.
    pub workload: String,
    /// The knobs of the best point measured, those that are the same at all points included.
    pub settings: Vec<Setting>,
    /// How many of all settings are not told apart from the winner, itself included.
    pub rivals: usize,
    /// How many settings there are.
    pub of: usize,
}

/// The winner of a workload; `None` where the experiment has no knob axis, or the runs show no difference
/// between its settings: then there is nothing to take home.
///
/// Settings are compared at equal load: each value is taken relative to the mean of its load (the choice on
/// all axes that are no knobs), and a setting's value in a block is the geometric mean over the loads.
///
/// # Errors
/// When the runs cannot tell differences from luck at all.
pub(crate) fn winner(
    experiment: &Experiment,
    cells: &Cells<'_>,
    workload: &str,
    metric: &Metric,
) -> Result<Option<Winner>, MapError> {
    let knobs: Vec<&str> = experiment
        .axes
        .iter()
        .filter(|axis| axis.values.len() > 1)
        .filter_map(|axis| match &axis.varies {
            Varies::Knob(name) => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let settings = by_setting(cells, workload, &metric.name, &knobs);
    // Runs that failed or were cut off would leave the best ones of a bad setting.
    if cells.of(workload).any(super::Cell::is_short) {
        return Ok(None);
    }
    if knobs.is_empty() || settings.len() < 2 || metric.better == Better::Neither {
        return Ok(None);
    }
    let row = settings.values().cloned().collect();
    let plane = ValueGrid {
        columns: (0..settings.len()).map(|i| i.to_string()).collect(),
        rows: vec![String::new()],
        cells: vec![row],
        ..ValueGrid::default()
    };
    let lower = metric.better == Better::Lower;
    let noise = experiment.noise.map_or(Noise::Measured, Noise::Given);
    let map = Map::new(&plane, noise, lower, Choice::Cells)?;
    if map.flat.len() == settings.len() {
        return Ok(None);
    }
    let values = settings.keys().nth(map.best[0].1).expect("the best is one of them");
    let mut all = experiment.settings.clone();
    all.retain(|s| !knobs.contains(&s.knob.as_str()));
    let chosen = knobs.iter().zip(values);
    all.extend(chosen.map(|(k, v)| Setting { knob: (*k).to_owned(), value: v.clone() }));
    let rivals = map.flat.len();
    let of = settings.len();
    Ok(Some(Winner { workload: workload.to_owned(), settings: all, rivals, of }))
}

/// A choice on the knob axes, then a block.
type BySetting = BTreeMap<Vec<String>, BTreeMap<u32, f64>>;

/// The values of each choice on the knob axes, by block: those blocks in which it ran under every load.
fn by_setting(cells: &Cells<'_>, workload: &str, metric: &str, knobs: &[&str]) -> BySetting {
    // By load: logarithms.
    let mut loads: BTreeMap<Vec<(&String, &String)>, BySetting> = BTreeMap::new();
    for cell in cells.of(workload) {
        let load = cell.point.iter().filter(|(axis, _)| !knobs.contains(&axis.as_str())).collect();
        let choice = |knob: &&str| cell.point.get(*knob).cloned().unwrap_or_default();
        let values = cell.values(metric).into_iter().filter(|(_, v)| *v > 0.0);
        let logs = values.map(|(block, value)| (block, value.ln())).collect();
        loads.entry(load).or_default().insert(knobs.iter().map(choice).collect(), logs);
    }
    let mut sums: BTreeMap<Vec<String>, BTreeMap<u32, (f64, usize)>> = BTreeMap::new();
    for settings in loads.values() {
        let all: Vec<f64> = settings.values().flat_map(|b| b.values().copied()).collect();
        let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
        for (setting, blocks) in settings {
            for (block, log) in blocks {
                let sum = sums.entry(setting.clone()).or_default().entry(*block).or_default();
                *sum = (sum.0 + log - mean, sum.1 + 1);
            }
        }
    }
    let whole =
        |(sum, count): (f64, usize)| (count == loads.len()).then(|| (sum / count as f64).exp());
    sums.into_iter()
        .map(|(setting, blocks)| {
            let values = blocks.into_iter().filter_map(|(block, sum)| Some((block, whole(sum)?)));
            (setting, values.collect())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::{Plan, StoredRun, run_plan, runs_of};
    use schedlab_model::{Better, Unit};
    use schedlab_workload::{RunSpec, WorkloadSpec};
    use std::path::Path;

    const TEXT: &str = "repeats = 6\nknobs = { autogroup = 0 }\n[workload]\nname = \"hackbench\"\n\
        [[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"2ms\", \"4ms\"]\n[[axis]]\noption = \"groups\"\nvalues = [1, 8]\n";

    fn run(time: fn(&RunSpec, usize) -> f64) -> (Experiment, Vec<StoredRun>) {
        let results = tempfile::tempdir().unwrap();
        let experiment = Experiment::parse(TEXT, Path::new("x.toml")).unwrap();
        let mut fake = Fake::new();
        fake.time = time;
        let plan = Plan::new(&experiment);
        run_plan(
            &mut crate::Machines::one(&mut fake),
            &plan,
            results.path(),
            &|| false,
            &mut |_| (),
        )
        .unwrap();
        (experiment, runs_of(results.path()).unwrap().runs)
    }

    fn found((experiment, runs): &(Experiment, Vec<StoredRun>)) -> Option<Winner> {
        let metric = Metric::new("time_s", Unit::Seconds, Better::Lower);
        winner(experiment, &Cells::new(runs), "hackbench", &metric).unwrap()
    }

    /// A few percent that differ from run to run.
    fn jitter(n: usize) -> f64 {
        1.0 + (n * 7 % 11) as f64 / 300.0
    }

    fn load(spec: &RunSpec) -> f64 {
        let WorkloadSpec::Builtin { options, .. } = &spec.workload else { unreachable!() };
        options["groups"].parse().unwrap()
    }

    #[test]
    fn the_best_setting_over_all_loads_is_named_with_those_as_good() {
        // 4 ms costs a fifth more, at eight times the load as well.
        let runs = run(|spec, n| {
            let slow = spec.settings.iter().any(|s| s.value == "4ms");
            load(spec) * jitter(n) * if slow { 1.2 } else { 1.0 }
        });
        let winner = found(&runs).unwrap();
        assert_eq!((winner.rivals, winner.of), (2, 3), "{winner:?}");
        assert_eq!(winner.settings[0], Setting { knob: "autogroup".into(), value: "0".into() });
        assert!(winner.settings.iter().any(|s| s.knob == "slice" && s.value != "4ms"));
        assert!(winner.settings.iter().all(|s| s.knob != "groups"), "nobody sets the load");
    }

    #[test]
    fn without_a_difference_there_is_no_winner() {
        assert_eq!(found(&run(|spec, n| load(spec) * jitter(n))), None);
    }
}
