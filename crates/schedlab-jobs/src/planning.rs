//! How the jobs of a run get into the pool: all before it begins, or in chunks while it goes on, by planning jobs of the
//! pool itself or by threads beside it. The one that plans too slowly posts jobs after their start time.

use crate::graph::Node;
use crate::policy::{Criticality, JobId, Nanos, Plan, Posting};
use crate::run::Run;
use std::ops::Range;

/// Who plans the jobs of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planner {
    /// The caller, before the run begins.
    #[default]
    Ahead,
    /// Jobs of the pool: each plans a chunk and posts the job that plans the next one (Lumiera's way). They are compulsory.
    Jobs,
    /// This many threads beside the pool, which take chunks in turn.
    Posters(usize),
}

/// Who plans, how much at once and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planning {
    /// Who plans the jobs of the run.
    pub planner: Planner,
    /// Jobs that are planned at once, at least 1.
    pub chunk: u32,
    /// Nanoseconds before the first start time of a chunk at which the chunk is planned.
    pub lead_ns: Nanos,
    /// What planning a job takes beyond the pool's own work.
    pub job_ns: Nanos,
}

impl Default for Planning {
    fn default() -> Self {
        Self { planner: Planner::Ahead, chunk: 64, lead_ns: 5_000_000, job_ns: 0 }
    }
}

impl Planning {
    /// How many chunks a run has.
    pub(crate) fn chunks(&self, run: &Run) -> u32 {
        run.graph().len().div_ceil(self.chunk.max(1))
    }

    /// The jobs of a chunk.
    pub(crate) fn range(&self, run: &Run, chunk: u32) -> Range<Node> {
        let size = self.chunk.max(1);
        (chunk * size)..((chunk + 1).saturating_mul(size)).min(run.graph().len())
    }

    /// When a chunk is to be planned.
    pub(crate) fn due(&self, run: &Run, base: Nanos, chunk: u32) -> Nanos {
        let first = self.range(run, chunk).map(|node| run.schedule().start(node)).min();
        (base + first.unwrap_or(0)).saturating_sub(self.lead_ns)
    }

    /// What planning a chunk takes beyond the pool's own work.
    pub(crate) fn cost_ns(&self, run: &Run, chunk: u32) -> Nanos {
        let Range { start, end } = self.range(run, chunk);
        self.job_ns.saturating_mul(Nanos::from(end - start))
    }

    /// The job that plans a chunk.
    pub(crate) fn posting<J>(&self, run: &Run, base: Nanos, chunk: u32, job: J) -> Posting<J> {
        let criticality = Criticality::Compulsory;
        Posting { criticality, ..Posting::new(job, self.due(run, base, chunk)) }
    }
}

/// All jobs of a run as a plan, its schedule moved to `base`.
pub fn plan_of(run: &Run, base: Nanos) -> Plan<Node> {
    let none = |_| -> JobId { unreachable!("all predecessors are in the plan") };
    plan_range(run, base, 0..run.graph().len(), none, |node| node)
}

/// Some jobs of a run as a plan, its schedule moved to `base`. `id` names the jobs before the range, which were posted
/// already.
pub(crate) fn plan_range<J>(
    run: &Run,
    base: Nanos,
    range: Range<Node>,
    id: impl Fn(Node) -> JobId,
    job: impl Fn(Node) -> J,
) -> Plan<J> {
    let mut plan = Plan::default();
    let schedule = run.schedule();
    let first = range.start;
    for node in range {
        let deadline = schedule.deadline(node).saturating_add(base);
        let posting = Posting::new(job(node), base + schedule.start(node)).deadline(deadline);
        let criticality = run.criticality(node);
        let expected_ns = run.expected_ns(node);
        let to = plan.add(Posting { expected_ns, criticality, ..posting });
        for &p in run.graph().predecessors(node) {
            if p < first {
                plan.after(id(p), to);
            } else {
                plan.link(p - first, to);
            }
        }
    }
    plan
}
