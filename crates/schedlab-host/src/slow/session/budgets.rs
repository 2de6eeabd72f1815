//! How often budgets come in a session: what fits each node, and the change to it.

use super::super::apply::Hold;
use super::super::budget_change::{Change, Lead};
use super::super::{SlowError, Speed, follow, quota};
use super::{Active, Session};
use schedlab_model::{Nanos, Pid};
use schedlab_sys::clock;

impl Session {
    /// Goes on with changes of budgets. Looks wait for them, since a first budget is smaller than later ones.
    pub(super) fn change_budgets(&mut self, now: Nanos) -> Result<Nanos, SlowError> {
        let admitted = self.admitted();
        self.nodes.iter_mut().try_fold(Nanos::MAX, |next, active| {
            Ok(next.min(change_budget(active, admitted, now)?))
        })
    }
}

/// A node under `quota` has a period of its own, which is returned. `how`: as in [`follow::budgets`].
pub(super) fn choose_budget(active: &mut Active, how: (bool, Nanos)) -> Result<Nanos, SlowError> {
    let Hold::Quota(quota) = &mut active.held.hold else { return Ok(Nanos::ZERO) };
    let (found, periods) = (&mut active.found, (quota::PERIOD, quota.period()));
    let seen = (&mut found.seen, &mut found.budgets);
    let Some(period) = follow::budgets(seen, periods, how) else { return Ok(quota.period()) };
    let (to, now) = (period.period_ns, clock::monotonic());
    match active.node.speeds.values().next().filter(|_| to != quota.period()) {
        Some(&Speed::FULL) => quota.pace(to, None)?,
        Some(speed) => {
            let budgets = (now, quota.counted().unwrap_or(0));
            let periods = (quota.period(), to);
            let change = Change::begin(*speed, periods, clock::interrupt(), budgets);
            active.found.change = Some(change);
        }
        None => {}
    }
    active.proof.follows(period);
    Ok(to)
}

/// Goes on with the change of how often a node's budgets come; returns when to go on next.
fn change_budget(
    active: &mut Active,
    admitted: Option<Pid>,
    now: Nanos,
) -> Result<Nanos, SlowError> {
    let Some(mut change) = active.found.change.filter(|_| !active.failed) else {
        return Ok(Nanos::MAX);
    };
    if change.due > now {
        return Ok(change.due);
    }
    let roots: Vec<Pid> = active.roots().into_iter().chain(admitted).collect();
    let used = || active.held.used(&active.held.processes(&roots)).unwrap_or(Nanos::ZERO);
    let Hold::Quota(quota) = &active.held.hold else { return Ok(Nanos::MAX) };
    let at = clock::monotonic();
    let lead = active.found.lead.get_or_insert_with(|| Lead { at, used: used(), more: 0 });
    let write = change.step(at, quota.counted().unwrap_or(0), &used, lead);
    if let (Some(write), Hold::Quota(quota)) = (write, &mut active.held.hold) {
        quota.pace(write.period, Some(write.budget))?;
        // The second under way has a part of a budget too much or too little.
        active.proof.break_off(at);
    }
    active.found.change = Some(change).filter(|_| write.is_none_or(|write| !write.last));
    Ok(active.found.change.map_or(at, |change| change.due))
}
