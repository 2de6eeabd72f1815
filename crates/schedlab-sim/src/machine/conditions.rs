//! What a recording on a simulated machine keeps beside its events: knobs, tick, preemption, and how tasks are scheduled.

use super::name::Model;
use crate::{TaskId, World};
use schedlab_model::{Conditions, Nanos, Scheduled};
use schedlab_workload::plan::{Plan, Policy};

/// As `record --for replay` keeps them on Linux.
pub(super) fn of(model: &Model, world: &World, plan: &Plan) -> Conditions {
    let knobs = model.knobs().into_iter().filter_map(|knob| Some((knob.name, knob.value?)));
    let preempt = if model.preempt_kernel { "full" } else { "voluntary" };
    let scheduled = (0..).zip(&plan.tasks).map(|(task, of)| Scheduled {
        pid: world.pid(TaskId(task)),
        at: Nanos::ZERO,
        policy: of.placement.policy.map_or("normal".to_owned(), name),
        nice: of.placement.nice.unwrap_or(0),
        slice: of.placement.slice,
        autogroup: None,
        session: None,
    });
    let mut tasks: Vec<Scheduled> = scheduled.collect();
    tasks.sort_unstable();
    Conditions {
        knobs: knobs.collect(),
        hz: Some(model.hz),
        preempt: Some(preempt.to_owned()),
        tasks,
    }
}

fn name(policy: Policy) -> String {
    match policy {
        Policy::Normal => "normal".to_owned(),
        Policy::Batch => "batch".to_owned(),
        Policy::Idle => "idle".to_owned(),
        Policy::Ext => "ext".to_owned(),
        Policy::Fifo(priority) => format!("fifo:{priority}"),
        Policy::RoundRobin(priority) => format!("rr:{priority}"),
        Policy::Deadline { .. } => "deadline".to_owned(),
    }
}
