//! The steps of a task once it is known which calls move bytes of an object: without the waits that the object makes
//! superfluous, and with the bytes.

use crate::object_events::CallOutcome;
use crate::objects::Found;
use schedlab_model::Nanos;
use schedlab_workload::demand::Step;
use std::collections::BTreeMap;

/// A step that an object makes superfluous, if the call is known to move bytes of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Within {
    pub(crate) step: usize,
    pub(crate) call: u32,
    pub(crate) what: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The wait of the call, or the wakeup that ended it.
    Wait,
    /// Time within the call before it slept: the machine that replays adds its own.
    Before,
    /// Time within the call.
    Time,
}

/// Bytes of writes that waited for room, which stand behind the call's last wait: before it the call may have woken a
/// task that must poll before it reads.
#[derive(Debug, Default)]
struct Late {
    /// How many waits each call has left.
    waits: BTreeMap<u32, usize>,
    puts: BTreeMap<u32, Step>,
}

impl Late {
    fn of(steps: &[Step], within: &[Within]) -> Self {
        let mut waits = BTreeMap::new();
        let is_wait = |one: &&Within| {
            let waits = matches!(steps.get(one.step), Some(Step::Wait | Step::Interrupt { .. }));
            one.what == Part::Wait && waits
        };
        for one in within.iter().filter(is_wait) {
            *waits.entry(one.call).or_default() += 1;
        }
        Self { waits, puts: BTreeMap::new() }
    }

    /// Whether a call's bytes are kept until its last wait.
    fn keeps(&mut self, call: u32, put: Step) -> bool {
        let is_late = self.waits.contains_key(&call);
        if is_late {
            self.puts.insert(call, put);
        }
        is_late
    }

    /// A wait of a call is over: its bytes, if it is the last.
    fn waited(&mut self, call: u32) -> Option<Step> {
        let left = self.waits.get_mut(&call)?;
        *left = left.saturating_sub(1);
        if *left == 0 { self.puts.remove(&call) } else { None }
    }
}

/// The steps, with what calls did to objects; and the time that is subtracted beside.
pub(crate) fn resolve(all: &[Step], within: &[Within], found: &Found) -> (Vec<Step>, Nanos) {
    let mut steps = Vec::with_capacity(all.len());
    let mut late = Late::of(all, within);
    let mut within = within.iter().peekable();
    let mut less = 0;
    for (at, step) in all.iter().enumerate() {
        let own = within.next_if(|one| one.step == at).filter(|own| found.is_known(own.call));
        let moves = |call: u32| match found.fates[call as usize] {
            CallOutcome::Moves { object, bytes } => Some((object, bytes)),
            CallOutcome::AsRecorded | CallOutcome::Moved => None,
        };
        let step = match (*step, own) {
            (Step::Post(_), Some(Within { what: Part::Wait, .. })) => None,
            (_, Some(Within { what: Part::Wait, call, .. })) => late.waited(*call),
            (Step::Run(time), Some(Within { what: Part::Before, .. })) => {
                less += time.0;
                None
            }
            (Step::Run(time), Some(Within { what: Part::Time, .. })) => Some(Step::InCall(time)),
            (Step::Put { object: call, .. }, _) => moves(call)
                .map(|(object, bytes)| Step::Put { object, bytes })
                .filter(|put| !late.keeps(call, *put)),
            (Step::Take { object: call, .. }, _) => {
                moves(call).map(|(object, bytes)| Step::Take { object, bytes })
            }
            (step, _) => Some(step),
        };
        match (steps.last_mut(), step) {
            (_, None) => {}
            (Some(Step::Run(before)), Some(Step::Run(time)))
            | (Some(Step::InCall(before)), Some(Step::InCall(time))) => before.0 += time.0,
            (_, Some(step)) => steps.push(step),
        }
    }
    (steps, Nanos(less))
}
