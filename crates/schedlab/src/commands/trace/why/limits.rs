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
        let limits = info.groups.iter().flat_map(|all| &all.limits);
        let throttling = match limits.into_iter().any(|one| one.quota.is_some()) {
            // From the beginning on, whatever part is asked about: what came before shows the budgets.
            true => {
                let mut whole = input.clone();
                whole.part.from = None;
                let first = whole.ask(|info| WithArguments(Throttling::new(info)))?.answer;
                match first.timers.len() {
                    0 | 1 => first,
                    _ => {
                        let ask = |info: &TraceInfo| Throttling::new(info).knowing(&first.timers);
                        whole.ask(|info| WithArguments(ask(info)))?.answer
                    }
                }
            }
            false => ThrottlingAnswer::default(),
        };
        Ok(Self { info, throttling })
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
