//! A graph of jobs that a plan hands to an executor, or whose workers its tasks are.

use schedlab_jobs::graph::{Graph, Rules, Shape};
use schedlab_jobs::load::{self, Arrivals, Burner, Length, Load};
use schedlab_jobs::policy::Policy;
use schedlab_jobs::run::{Clock, Run, Schedule};
use schedlab_model::Nanos;

/// What the executor is asked to do. Its workers are the tasks of the plan.
#[derive(Clone, Debug)]
pub struct Jobs {
    pub(crate) shape: Shape,
    /// Jobs, the widest level, and how nodes are hashed.
    pub(crate) rules: Rules,
    /// Which executor: schedlab, lumiera, rayon, tokio, channel or serial.
    pub executor: String,
    /// What a job spends its time with.
    pub load: load::Mix<load::Kind>,
    /// Length of a job of weight 1.
    pub time: Nanos,
    /// How lengths scatter around it.
    pub length: Length,
    pub(crate) arrivals: Arrivals,
    /// How late a job may start before it is dropped.
    pub(crate) life: Option<Nanos>,
    /// How late the kernel may let a worker's timer be; of schedlab and lumiera alone.
    pub timer_slack: Nanos,
    /// The rules of lumiera, with the number of workers of any.
    pub policy: Policy,
    /// The seed of lengths and arrivals.
    pub seed: u64,
}

impl Jobs {
    /// The graph. Rules that weigh nothing would make jobs of no length: then all weigh 1.
    #[must_use]
    pub fn graph(&self) -> Graph {
        let graph = self.shape.build(&self.rules);
        if graph.weight_sum() == 0 { graph.with_weight(1) } else { graph }
    }

    #[must_use]
    pub fn schedule(&self, graph: &Graph) -> Schedule {
        let starts = self.arrivals.starts(graph, self.seed);
        Schedule { starts, life_ns: self.life.map(|life| life.0), ..Schedule::default() }
    }

    /// The run on a simulated machine, which computes the times: the clock stands still until the machine sets it.
    #[must_use]
    pub(crate) fn computed(&self) -> Run {
        let graph = self.graph();
        let planned = Burner::planned(self.load);
        let load = Load::new(&graph, planned, self.time.0, self.length, self.seed);
        let schedule = self.schedule(&graph);
        Run::new(graph, schedule, Box::new(load), Clock::still())
    }
}
