//! A scheduler of one's own: a task that wakes goes to the CPU with the fewest, and each CPU runs who came last. The example
//! runs a load under it and under `kernel=fifo`, and writes a trace of each, for `schedlab trace compare fifo.dat newest.dat`
//! and `schedlab draw cores newest.dat`.

#![expect(clippy::print_stdout, reason = "an example prints what it found")]

use schedlab_sim::policy::{Arrival, Departure, Policy, Wake};
use schedlab_sim::{Model, Scene, Simulated, TaskId};
use schedlab_trace::EventWriter;
use schedlab_workload::{Machine as _, Observed, RecordSpec, RunSpec, WorkloadSpec};
use std::error::Error;

/// The tasks of each CPU; the one that came last runs.
pub(crate) struct Newest(Vec<Vec<TaskId>>);

impl Policy for Newest {
    fn select(&mut self, scene: &Scene, wake: &Wake) -> usize {
        let usable = (0..self.0.len()).filter(|&cpu| scene.task(wake.task).may_use(cpu));
        usable.min_by_key(|&cpu| self.0[cpu].len()).unwrap_or(0)
    }
    fn enqueue(&mut self, _: &Scene, cpu: usize, task: TaskId, _: Arrival) {
        self.0[cpu].push(task);
    }
    fn preempts(&mut self, _: &Scene, _: usize, _: TaskId, _: Arrival) -> bool {
        true
    }
    fn dequeue(&mut self, _: &Scene, cpu: usize, task: TaskId, _: Departure) {
        self.0[cpu].retain(|queued| *queued != task);
    }
    fn pick(&mut self, _: &Scene, cpu: usize) -> Option<TaskId> {
        self.0[cpu].last().copied()
    }
    fn tick(&mut self, _: &Scene, _: usize) -> bool {
        false
    }
    fn yields(&mut self, _: &Scene, cpu: usize) {
        self.0[cpu].rotate_right(1);
    }
}

/// This machine with the scheduler.
pub(crate) fn newest(machine: Model) -> Simulated {
    Simulated::new(machine).with_policy(|hardware| Box::new(Newest(vec![vec![]; hardware.cpus()])))
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let machine = Model::of(&"sim:kernel=fifo,cpus=4".parse()?, None)?;
    let options = [("groups".to_owned(), "2".to_owned())].into();
    let load = WorkloadSpec::Builtin { name: "hackbench".to_owned(), options };
    let load = RunSpec { record: Some(RecordSpec::default()), ..RunSpec::of(load) };
    for (name, mut machine) in
        [("fifo", Simulated::new(machine.clone())), ("newest", newest(machine))]
    {
        let mut told = Observed::default();
        machine.run(&load, &mut told)?;
        println!("{name}: {:.1} ms", told.figures["time_s"] * 1e3);
        let info = told.info.ok_or("the run was recorded")?;
        EventWriter::write_all(format!("{name}.dat").as_ref(), &info, &told.events)?;
    }
    Ok(())
}
