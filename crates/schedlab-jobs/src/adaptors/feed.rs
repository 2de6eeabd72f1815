//! Feeds the jobs of a run to our pool as its planning says.

use super::pace::plan_by_posters;
use crate::graph::Node;
use crate::planning::{Planner, Planning, plan_range};
use crate::policy::{JobId, Nanos};
use crate::pool::{Handle, PostError, Runner};
use crate::run::Run;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How soon a poster sees that the user ended the run.
const LOOK: Duration = Duration::from_millis(20);

/// A job of the pool.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Node(Node),
    /// Plans the chunk of this number.
    Chunk(u32),
}

#[derive(Default)]
struct Planned {
    /// By node: chunks are planned in their order, since jobs wait for those of earlier ones.
    ids: Vec<JobId>,
    refused: Option<String>,
}

struct Inner {
    run: Arc<Run>,
    planning: Planning,
    planned: Mutex<Planned>,
    further: Condvar,
}

/// The state of planning, shared by all that plan.
#[derive(Clone)]
pub(super) struct Feed(Arc<Inner>);

impl Feed {
    pub(super) fn new(run: Arc<Run>, planning: Planning) -> Self {
        let planned = Mutex::default();
        let further = Condvar::new();
        Self(Arc::new(Inner { run, planning, planned, further }))
    }

    /// Plans all, or begins to. Returns when all is planned, or when the pool's jobs go on with it.
    pub(super) fn begin<R>(&self, pool: &Handle<R>) -> Result<(), String>
    where
        R: Runner<Job = Order>,
    {
        let Inner { run, planning, .. } = &*self.0;
        match planning.planner {
            Planner::Ahead => {
                let all = 0..run.graph().len();
                let none = |_| -> JobId { unreachable!("all predecessors are in the plan") };
                let plan = plan_range(run, run.base(), all, none, Order::Node);
                let ids = pool.plan(plan).map_err(|error| error.to_string())?;
                self.0.planned.lock().unwrap_or_else(PoisonError::into_inner).ids = ids;
                Ok(())
            }
            Planner::Jobs => {
                let first = planning.posting(run, run.base(), 0, Order::Chunk(0));
                pool.post(first).map(drop).map_err(|error| error.to_string())
            }
            Planner::Posters(threads) => {
                plan_by_posters(run, planning, threads, |chunk| self.plan(chunk, pool))
            }
        }
    }

    /// Plans a chunk when those before it are planned; false when the run has ended or the pool refuses it.
    fn plan<R: Runner<Job = Order>>(&self, chunk: u32, pool: &Handle<R>) -> bool {
        let Inner { run, planning, planned, further, .. } = &*self.0;
        run.compute(planning.cost_ns(run, chunk));
        let range = planning.range(run, chunk);
        let mut planned = planned.lock().unwrap_or_else(PoisonError::into_inner);
        while planned.ids.len() < range.start as usize {
            if run.is_stopped() || planned.refused.is_some() {
                return false;
            }
            let waited = further.wait_timeout(planned, LOOK);
            planned = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let ids = &planned.ids;
        let plan = plan_range(run, run.base(), range.clone(), |p| ids[p as usize], Order::Node);
        let now: Nanos = run.clock().now().max(1);
        range.for_each(|node| run.set_posted(node, now));
        match pool.plan(plan) {
            Ok(new) => planned.ids.extend(new),
            // The user's end of the run closes the pool.
            Err(PostError::Closed) => return false,
            Err(error) => planned.refused = Some(error.to_string()),
        }
        further.notify_all();
        planned.refused.is_none()
    }

    /// As a job of the pool: plans a chunk and posts the job that plans the next one.
    pub(super) fn plan_and_post_next<R>(&self, chunk: u32, pool: &Handle<R>) -> bool
    where
        R: Runner<Job = Order>,
    {
        let Inner { run, planning, planned, .. } = &*self.0;
        if run.is_stopped() || !self.plan(chunk, pool) {
            return false;
        }
        let next = chunk + 1;
        if next == planning.chunks(run) {
            return true;
        }
        let posted = pool.post(planning.posting(run, run.base(), next, Order::Chunk(next)));
        if let Err(error) = &posted {
            let mut planned = planned.lock().unwrap_or_else(PoisonError::into_inner);
            planned.refused = Some(error.to_string());
        }
        posted.is_ok()
    }

    /// Why not all jobs were planned, if so.
    pub(super) fn all_planned(&self) -> Result<(), String> {
        let planned = self.0.planned.lock().unwrap_or_else(PoisonError::into_inner);
        match &planned.refused {
            Some(why) => Err(format!("planning stopped after {} jobs: {why}", planned.ids.len())),
            None => Ok(()),
        }
    }
}
