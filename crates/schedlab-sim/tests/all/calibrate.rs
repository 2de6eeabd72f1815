//! Costs are found again: the machine is the model itself with other costs than the search begins with.

use schedlab_sim::calibrate::{number, probes, solve};
use schedlab_sim::{Costs, Model, Simulated};
use schedlab_workload::{Machine, MachineError, Observed};

fn model(name: &str, costs: &str) -> Model {
    Model::of(&name.parse().unwrap(), Costs::preset(costs)).unwrap()
}

fn measured(truth: &Model) -> Vec<Option<f64>> {
    let mut machine = Simulated::new(truth.clone());
    let mut run = |spec: &_| {
        let mut observed = Observed::default();
        machine.run(spec, &mut observed)?;
        Ok::<_, MachineError>(observed)
    };
    probes(truth.kernel).iter().map(|probe| number(probe, 1, &mut run).unwrap()).collect()
}

#[test]
fn small_runs_give_the_costs_back() {
    let truth = model("sim:kernel=cfs-6.1", "icount-6.1");
    let from = truth.clone().with_costs(Costs::USUAL);
    let found = solve(&from, &probes(truth.kernel), &measured(&truth), 1).unwrap();
    let near = |names: &[&str], percent: u64| {
        let sum = |costs: &Costs| names.iter().map(|name| costs.get(name).unwrap()).sum::<u64>();
        let (truth, found) = (sum(&truth.costs), sum(&found.costs));
        assert!(found.abs_diff(truth) * 100 <= truth * percent, "{names:?}: {found}, not {truth}");
    };
    // `copy_kib` and `syscall` are no probe's: what they are wrong by is in the others.
    near(&["send_pipe", "receive_pipe"], 3);
    near(&["block", "wake", "switch", "switch_process"], 10);
    // What a waker does after a wakeup that displaces it counts for the woken task: no value gives the reader's number.
    near(&["send_socket", "receive_socket", "slab_step"], 12);
    near(&["fork"], 5);
    near(&["prepare"], 5);
    near(&["exit"], 5);
    for name in ["sleep", "tick", "eventfd", "multiply_1000", "idle_exit", "timer"] {
        near(&[name], 10);
    }
    near(&["post", "wait"], 10);
    // Its number has rests of what displaces a few of the readers, and of what they share with other costs.
    near(&["first_read"], 30);
    assert_eq!(found.parameters(), probes(truth.kernel).len() - 1, "each other number is visible");
    let file = found.file("the model", "usual");
    assert_eq!(Costs::parse(&file).unwrap(), found.costs, "{file}");
}

#[test]
fn a_number_that_the_runs_do_not_show_leaves_its_cost_alone() {
    let model = model("sim:kernel=eevdf-6.12", "icount-6.12");
    let all = probes(model.kernel);
    let found = solve(&model, &all, &vec![None; all.len()], 1).unwrap();
    assert_eq!((found.costs, found.parameters()), (model.costs, 0));
    assert!(found.file("it", "usual").contains("fork: not measured"));
}

#[test]
fn a_number_that_the_model_cannot_give_leaves_its_cost_alone() {
    let truth = model("sim:kernel=cfs-6.1", "icount-6.1");
    let mut numbers = measured(&truth);
    let all = probes(truth.kernel);
    let first_read = all.iter().position(|probe| probe.name == "first read").unwrap();
    numbers[first_read] = Some(1.0);
    let from = truth.clone().with_costs(Costs::USUAL);
    let found = solve(&from, &all, &numbers, 1).unwrap();
    assert_eq!(found.costs.first_read, Costs::USUAL.first_read);
    assert!(found.found[first_read].is_beyond, "{found:?}");
    assert_eq!(found.parameters(), all.len() - 2, "{found:?}");
    let file = found.file("it", "usual");
    let line =
        "first_read: left alone. The model cannot give 1 ns for a reader's way to its first sleep.";
    assert!(file.contains(line), "{file}");
}
