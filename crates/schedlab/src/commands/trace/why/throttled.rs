//! When the groups' quotas stopped tasks: a pass of its own, before one may ask why tasks waited.

use crate::commands::trace::input::Input;
use schedlab_model::TraceInfo;
use schedlab_timeline::{Throttled, Throttling, ThrottlingAnswer, WithArguments};
use schedlab_trace::Options;

/// What the limits of groups did; without a pass over the trace where no group has a quota.
pub(super) fn throttling(input: &Input, info: &TraceInfo) -> anyhow::Result<ThrottlingAnswer> {
    let mut limits = info.groups.iter().flat_map(|all| &all.limits);
    if limits.all(|one| one.quota.is_none()) {
        return Ok(ThrottlingAnswer::default());
    }
    // From the beginning on, whatever part is asked about: what came before shows the budgets.
    let mut whole = input.clone();
    whole.part.from = None;
    let first = whole.ask(|info| WithArguments(Throttling::new(info)))?.answer;
    if first.timers.len() <= 1 {
        return Ok(first);
    }
    let ask = |info: &TraceInfo| Throttling::new(info).knowing(&first.timers);
    Ok(whole.ask(|info| WithArguments(ask(info)))?.answer)
}

/// When tasks were throttled, in order of time.
pub(super) fn throttled(input: &Input) -> anyhow::Result<Vec<Throttled>> {
    let info = input.part.open(&input.file, &Options::default())?.info().clone();
    Ok(throttling(input, &info)?.spans)
}
