//! What made the noise of runs, as far as they stored it.

use crate::StoredRun;
use crate::analysis::{Cell, Cells};
use schedlab_model::{Metric, Unit, readable};
use schedlab_workload::MACHINE;
use std::collections::BTreeMap;

/// Parts of the time below this are not told.
const LEAST: f64 = 0.01;

/// How much of a time was waiting, and what else used the CPUs meanwhile, in a sentence; empty where nothing is known.
pub(super) fn sentence(cells: &[(Cells<'_>, Cells<'_>)], label: &str, metric: &Metric) -> String {
    if metric.name != "time_s" {
        return String::new();
    }
    let sides = cells.iter().flat_map(|(a, b)| [a, b]);
    let runs = || sides.clone().flat_map(|side| side.of(label)).flat_map(Cell::all);
    let mean = |name: &str| {
        let all: Vec<f64> = runs().filter_map(|run| run.value(name)).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let Some(time) = mean("time_s").filter(|time| *time > 0.0) else { return String::new() };
    // What else ran was counted from before a run to after it.
    let watched = runs().map(|run| run.manifest.took_ns as f64 / 1e9).sum::<f64>();
    let watched = (watched / runs().count().max(1) as f64).max(time);
    let cpus = runs().map(|run| run.manifest.facts.online.len()).max().unwrap_or(1).max(1) as f64;
    let mut parts = Vec::new();
    // Of one thread the wait is a part of the time; of many it is a sum.
    if let Some(delay) = mean("main_run_delay_s").filter(|delay| *delay > LEAST * time) {
        let [delay, time] = [delay, time].map(|value| readable(value, Unit::Seconds));
        parts.push(format!("{delay} of {time} waiting for a CPU"));
    }
    for (name, what) in
        [("others_cpu_s", "other programs used"), ("steal_s", "the hypervisor took")]
    {
        let used = mean(&format!("{MACHINE}/{name}")).map(|used| used / (watched * cpus));
        if let Some(part) = used.filter(|part| *part > LEAST) {
            let most = if name == "others_cpu_s" { most(runs()) } else { None };
            let most = most.map_or(String::new(), |who| format!(", {who} the most"));
            parts.push(format!("{what} {:.0} % of the CPU time{most}", part * 100.0));
        }
    }
    if parts.is_empty() { String::new() } else { format!("The noise: {}.", parts.join("; ")) }
}

/// The program beside the runs that used the most CPU time, by name.
fn most<'r>(runs: impl Iterator<Item = &'r StoredRun>) -> Option<String> {
    let mut names: BTreeMap<&str, f64> = BTreeMap::new();
    for figure in runs.flat_map(|run| &run.figures) {
        let name = figure.of.strip_prefix(MACHINE).and_then(|rest| rest.strip_prefix('/'));
        if let Some(name) = name.filter(|_| figure.metric.name == "others_cpu_s") {
            *names.entry(name).or_default() += figure.value;
        }
    }
    let most = names.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    most.map(|(name, _)| name.to_owned())
}
