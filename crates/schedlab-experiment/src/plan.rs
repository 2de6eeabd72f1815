//! From an experiment to the runs that answer it, in their order.

use crate::{Axis, Experiment, Hooks, Order, RunId, Varies, Workload, machine_files};
use schedlab_model::Setting;
use schedlab_stats::Random;
use schedlab_workload::{MachineName, RunSpec, WorkloadSpec};
use std::collections::BTreeMap;

/// A choice on every axis, by the axis's name; the values as the file writes them.
pub type Point = BTreeMap<String, String>;

/// One run to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub id: RunId,
    /// The label of its workload.
    pub workload: String,
    /// Where in the experiment it lies.
    pub point: Point,
    /// The block of runs that were done close to each other: the repeat.
    pub block: u32,
    /// What the machine is asked.
    pub spec: RunSpec,
    /// The commands around the run.
    pub hooks: Hooks,
    pub machine: MachineName,
}

/// The runs of an experiment in the order in which they are done.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The runs. Names are unlike each other.
    pub runs: Vec<Planned>,
}

impl Plan {
    /// All runs of an experiment.
    #[must_use]
    pub fn new(experiment: &Experiment) -> Self {
        Self::rounds(experiment, 0, experiment.repeats)
    }

    /// The runs of some rounds (blocks), as many as a stop rule asks for; the order within a round
    /// does not depend on how many rounds there are.
    #[must_use]
    pub(crate) fn rounds(experiment: &Experiment, first: u32, end: u32) -> Self {
        let cells = cells(experiment);
        let mut runs: Vec<Planned> = Vec::with_capacity(cells.len() * (end - first) as usize);
        match experiment.order {
            Order::Listed => {
                for cell in &cells {
                    runs.extend((first..end).map(|block| planned(experiment, cell, block)));
                }
            }
            Order::Interleaved => {
                for block in first..end {
                    let mut round: Vec<Planned> =
                        cells.iter().map(|cell| planned(experiment, cell, block)).collect();
                    generator(experiment.seed, block).shuffle(&mut round);
                    runs.extend(round);
                }
            }
            Order::Shuffled => {
                for block in first..end {
                    runs.extend(cells.iter().map(|cell| planned(experiment, cell, block)));
                }
                generator(experiment.seed, u32::MAX - first).shuffle(&mut runs);
            }
        }
        Self { runs }
    }

    /// The runs of one point, one for each workload: for each axis of the experiment the value by its
    /// index, none where the axis does not exist there.
    #[must_use]
    pub fn at(experiment: &Experiment, values: &[Option<usize>], block: u32) -> Self {
        let run = |workload| {
            let chosen = experiment.axes.iter().zip(values).filter(|(a, _)| concerns(a, workload));
            let choices = chosen.filter_map(|(a, v)| Some((a, a.values[(*v)?].as_str()))).collect();
            planned(experiment, &Cell { workload, choices }, block)
        };
        Self { runs: experiment.workloads.iter().map(run).collect() }
    }
}

fn concerns(axis: &Axis, workload: &Workload) -> bool {
    axis.workload.is_empty() || workload.all().any(|(label, _)| label == axis.workload)
}

/// A seed for each round: each round has an order of its own, which is the same in every execution.
fn generator(seed: u64, block: u32) -> Random {
    Random::new(seed ^ (u64::from(block) << 32))
}

struct Cell<'e> {
    workload: &'e Workload,
    choices: Vec<(&'e Axis, &'e str)>,
}

/// Every workload at every point; an axis that concerns one workload does not multiply the others.
fn cells(experiment: &Experiment) -> Vec<Cell<'_>> {
    let mut cells = Vec::new();
    for workload in &experiment.workloads {
        let mut partial: Vec<Vec<(&Axis, &str)>> = vec![Vec::new()];
        for axis in experiment.axes.iter().filter(|axis| concerns(axis, workload)) {
            partial = partial.into_iter().flat_map(|chosen| longer(chosen, axis)).collect();
        }
        cells.extend(partial.into_iter().map(|choices| Cell { workload, choices }));
    }
    cells
}

/// Choices with each value of one more axis; as they are where the axis does not exist.
fn longer<'e>(chosen: Vec<(&'e Axis, &'e str)>, axis: &'e Axis) -> Vec<Vec<(&'e Axis, &'e str)>> {
    let is_met =
        |when: &crate::When| chosen.iter().any(|(a, v)| a.name() == when.axis && *v == when.value);
    if !axis.when.as_ref().is_none_or(is_met) {
        return vec![chosen];
    }
    let with = |value: &'e String| {
        let mut more = chosen.clone();
        more.push((axis, value.as_str()));
        more
    };
    axis.values.iter().map(with).collect()
}

fn planned(experiment: &Experiment, cell: &Cell<'_>, block: u32) -> Planned {
    let mut workload = cell.workload.spec.clone();
    let mut beside = cell.workload.beside.clone();
    let mut settings = experiment.settings.clone();
    let mut hooks = experiment.hooks.clone();
    let mut machine = experiment.machine.clone();
    let mut point = Point::new();
    for (axis, value) in &cell.choices {
        let other = beside.iter_mut().find(|b| b.label == axis.workload);
        let other = other.filter(|_| axis.workload != cell.workload.label);
        let name = axis.varies.name();
        let key = other.as_ref().map_or(name.to_owned(), |b| format!("{}/{name}", b.label));
        point.insert(key, (*value).to_owned());
        match &axis.varies {
            Varies::Option(name) => {
                set_option(other.map_or(&mut workload, |b| &mut b.workload), name, value);
            }
            Varies::Knob(name) => set_knob(&mut settings, name, value),
            Varies::Hook(name) => hooks.put(name, value),
            Varies::Speed(cpus) => set_knob(&mut settings, &format!("speed:{cpus}"), value),
            Varies::Machine => machine = value.parse().expect("the file was checked"),
        }
    }
    // `Plan::check` reports a file that cannot be read.
    settings.extend(machine_files(&machine).unwrap_or_default());
    let spec = RunSpec {
        workload,
        beside,
        settings,
        record: experiment.record.clone(),
        seed: experiment.seed.wrapping_add(u64::from(block)),
        repeat: block,
        time_limit: experiment.time_limit,
    };
    let id = RunId::with_hooks(&machine, &spec, &hooks);
    let workload = cell.workload.label.clone();
    Planned { id, workload, point, block, spec, hooks, machine }
}

fn set_option(workload: &mut WorkloadSpec, name: &str, value: &str) {
    match workload {
        WorkloadSpec::Builtin { options, .. } => {
            options.insert(name.to_owned(), value.to_owned());
        }
        WorkloadSpec::Command { argv } => {
            let place = format!("{{{name}}}");
            for argument in argv {
                *argument = argument.replace(&place, value);
            }
        }
    }
}

fn set_knob(settings: &mut Vec<Setting>, knob: &str, value: &str) {
    settings.retain(|s| s.knob != knob);
    settings.push(Setting { knob: knob.to_owned(), value: value.to_owned() });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn experiment(order: &str) -> Experiment {
        let text = format!(
            "order = \"{order}\"\nrepeats = 3\n[[workload]]\nname = \"hackbench\"\n[[workload]]\nname = \"schbench\"\n\
             [[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"3ms\"]\n\
             [[axis]]\noption = \"groups\"\nworkload = \"hackbench\"\nvalues = [1, 2, 4]\n"
        );
        Experiment::parse(&text, Path::new("x.toml")).unwrap()
    }

    #[test]
    fn points_are_all_combinations_and_an_axis_of_one_workload_does_not_multiply_the_other() {
        let plan = Plan::new(&experiment("interleaved"));
        assert_eq!(plan.runs.len(), 3 * (2 * 3 + 2));
        let ids: std::collections::BTreeSet<_> = plan.runs.iter().map(|r| &r.id).collect();
        assert_eq!(ids.len(), plan.runs.len(), "names are unlike each other");
    }

    #[test]
    fn interleaved_rounds_hold_every_point_once_in_orders_of_their_own() {
        let plan = Plan::new(&experiment("interleaved"));
        let rounds: Vec<&[Planned]> = plan.runs.chunks(8).collect();
        let order = |round: &[Planned]| -> Vec<String> {
            round.iter().map(|r| format!("{}{:?}", r.workload, r.point)).collect()
        };
        for (block, round) in rounds.iter().enumerate() {
            assert!(round.iter().all(|r| r.block as usize == block));
            let mut all = order(round);
            all.sort();
            all.dedup();
            assert_eq!(all.len(), 8);
        }
        assert_ne!(order(rounds[0]), order(rounds[1]), "rounds are shuffled unlike each other");
        assert_eq!(plan, Plan::new(&experiment("interleaved")), "and alike in every execution");
    }

    #[test]
    fn a_run_is_another_one_if_the_file_of_its_machine_says_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.toml");
        let text = format!(
            "machine = [\"sim:machine={}\", \"sim\"]\n[[workload]]\nname = \"hackbench\"\n",
            file.display()
        );
        let ids = |said: &str| {
            std::fs::write(&file, said).unwrap();
            let plan = Plan::new(&Experiment::parse(&text, Path::new("x.toml")).unwrap());
            let texts = plan.runs.iter().map(|run| run.spec.settings.clone()).collect::<Vec<_>>();
            (plan.runs.into_iter().map(|run| run.id).collect::<Vec<_>>(), texts)
        };
        let (one, texts) = ids("cpus = 2");
        assert_eq!((texts[0][0].value.as_str(), texts[1].len()), ("cpus = 2", 0));
        let (other, _) = ids("cpus = 4");
        assert_ne!(one[0], other[0]);
        assert_eq!(one[1], other[1]);
    }

    #[test]
    fn more_rounds_do_not_change_those_before() {
        let few = Plan::new(&experiment("interleaved"));
        let more = Plan::rounds(&experiment("interleaved"), 0, 5);
        assert_eq!(few.runs, more.runs[..few.runs.len()]);
    }

    #[test]
    fn what_runs_beside_is_in_each_run_and_may_have_an_axis_of_its_own() {
        let text = "[[workload]]\nname = \"schbench\"\n[[workload.beside]]\nlabel = \"noise\"\nname = \"cpu\"\n\
                    options = { tasks = 1 }\n[[axis]]\noption = \"tasks\"\nworkload = \"noise\"\nvalues = [1, 4]\n\
                    [[axis]]\noption = \"message-threads\"\nvalues = [1, 2]\n";
        let plan = Plan::new(&Experiment::parse(text, Path::new("x.toml")).unwrap());
        assert_eq!(plan.runs.len(), 4);
        for run in &plan.runs {
            let tasks = match &run.spec.beside[0].workload {
                WorkloadSpec::Builtin { name, options } if name == "cpu" => &options["tasks"],
                other => panic!("{other:?}"),
            };
            assert_eq!(*tasks, run.point["noise/tasks"]);
            let WorkloadSpec::Builtin { options, .. } = &run.spec.workload else { panic!() };
            assert_eq!(options["message-threads"], run.point["message-threads"]);
            assert!(!options.contains_key("tasks"));
        }
    }

    #[test]
    fn an_axis_with_a_condition_multiplies_only_the_points_that_meet_it() {
        let text = "[[workload]]\nname = \"hackbench\"\n[[axis]]\nknob = \"policy\"\nvalues = [\"normal\", \"batch\"]\n\
                    [[axis]]\nknob = \"slice\"\nwhen = { policy = \"batch\" }\nvalues = [\"1ms\", \"3ms\"]\n";
        let plan = Plan::new(&Experiment::parse(text, Path::new("x.toml")).unwrap());
        assert_eq!(plan.runs.len(), 3);
        let normal = plan.runs.iter().find(|run| run.point["policy"] == "normal").unwrap();
        assert!(!normal.point.contains_key("slice") && normal.spec.settings.len() == 1);
    }

    #[test]
    fn a_commands_value_goes_into_its_arguments() {
        let text = "[workload]\ncommand = [\"make\", \"-j{jobs}\"]\n[[axis]]\noption = \"jobs\"\nvalues = [1, 8]\n";
        let plan = Plan::new(&Experiment::parse(text, Path::new("x.toml")).unwrap());
        let argvs: Vec<_> = plan.runs.iter().map(|r| &r.spec.workload).collect();
        assert!(
            argvs.contains(&&WorkloadSpec::Command { argv: vec!["make".into(), "-j8".into()] })
        );
    }
}
