//! Who plans the jobs of a run, as options.

use crate::commands::UsageError;
use schedlab_jobs::planning::{Planner, Planning};
use schedlab_model::Nanos;

/// How jobs get into the pool.
#[derive(Clone, clap::Args)]
pub(super) struct PlanningArgs {
    /// Plan jobs: ahead (all before the run), by jobs (planning jobs of the pool, one after another), or by posters:N
    /// (N threads outside the pool); for schedlab and virtual only
    #[arg(long, value_name = "ahead|jobs|posters:N", default_value = "ahead", value_parser = planner)]
    plan: Planner,
    /// Plan N jobs at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    plan_chunk: u32,
    /// Plan a chunk this long before its first start time
    #[arg(long, value_name = "TIME", default_value = "5ms")]
    plan_lead: Nanos,
    /// Planning a job computes for this time, in addition to the pool's own work
    #[arg(long, value_name = "TIME", default_value = "0ns")]
    plan_cost: Nanos,
}

fn planner(text: &str) -> Result<Planner, String> {
    match text.split_once(':') {
        None if text == "ahead" => Ok(Planner::Ahead),
        None if text == "jobs" => Ok(Planner::Jobs),
        None if text == "posters" => Ok(Planner::Posters(1)),
        Some(("posters", count)) => match count.parse() {
            Ok(count @ 1..=256) => Ok(Planner::Posters(count)),
            _ => Err("1 to 256 posters are possible".to_owned()),
        },
        _ => Err("use ahead, jobs or posters:N".to_owned()),
    }
}

impl PlanningArgs {
    /// As it was asked for.
    pub(super) fn planning(&self) -> Planning {
        Planning {
            planner: self.plan,
            chunk: self.plan_chunk,
            lead_ns: self.plan_lead.0,
            job_ns: self.plan_cost.0,
        }
    }

    /// Refuses what an executor cannot do.
    pub(super) fn check(&self, executor: &str) -> Result<(), UsageError> {
        if self.plan != Planner::Ahead && !matches!(executor, "schedlab" | "lumiera" | "virtual") {
            return Err(UsageError(format!("{executor} does not offer --plan")));
        }
        if self.plan == Planner::Ahead && self.plan_cost.0 > 0 {
            let what = "--plan-cost is for planning while the run goes on: add --plan jobs";
            return Err(UsageError(what.to_owned()));
        }
        Ok(())
    }
}
