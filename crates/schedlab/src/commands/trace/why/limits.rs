//! What must be known before one may ask why tasks waited: the trace's groups, and when their quotas were used up.

use crate::commands::trace::input::Input;
use schedlab_model::TraceInfo;
use schedlab_timeline::{
    Locks, LocksAnswer, Reply, Throttling, ThrottlingAnswer, WithArguments, tells_of_locks,
};
use schedlab_trace::Options;

/// What must be known before one may ask why tasks waited.
pub(crate) struct Limits {
    pub(super) info: TraceInfo,
    pub(super) throttling: ThrottlingAnswer,
}

impl Limits {
    /// Asks a trace for them, in a pass of its own if a group has a quota.
    pub(crate) fn of(input: &Input) -> anyhow::Result<Self> {
        let info = input.part.open(&input.file, &Options::default())?.info().clone();
        let throttling = throttling(input, &info)?;
        Ok(Self { info, throttling })
    }

    /// Whether `schedlab record` made the trace: what it could store is there, and what is not could not be had.
    pub(crate) fn is_own(&self) -> bool {
        self.info.conditions.is_some()
    }

    /// Whether the trace tells which threads form a process.
    pub(crate) fn knows_processes(&self) -> bool {
        self.info.processes.is_some()
    }

    /// Who waited for locks; `None` if the trace holds nothing that tells.
    pub(crate) fn locks(&self, input: &Input) -> anyhow::Result<Option<Reply<LocksAnswer>>> {
        // A text learns its tracepoints on the way: asking costs it a pass that seldom tells anything.
        if !tells_of_locks(&self.info) {
            return Ok(None);
        }
        self.ask_locks(input).map(Some)
    }

    /// The same, whatever the trace seems to hold.
    pub(crate) fn ask_locks(&self, input: &Input) -> anyhow::Result<Reply<LocksAnswer>> {
        input.ask(|info| Locks::new(info, &self.throttling.spans))
    }
}

/// What the limits of groups did; without a pass over the trace where no group has a quota.
fn throttling(input: &Input, info: &TraceInfo) -> anyhow::Result<ThrottlingAnswer> {
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
