//! Who ran on a CPU while a task waited for it: in words and in JSON.

use super::input::Named;
use schedlab_model::Nanos;
use schedlab_timeline::{Meanwhile, State, TaskId};
use schemars::JsonSchema;
use serde::Serialize;

/// Tasks that are reported by name; the text of more would be no sentence.
const NAMED: usize = 4;

/// What was on the CPU during a wait.
#[derive(Serialize, JsonSchema)]
pub(super) struct Occupancy {
    /// Who ran on that CPU meanwhile, longest first.
    ran_instead: Vec<RanInstead>,
    /// How long that CPU was idle meanwhile.
    idle_ns: Nanos,
    /// For how long it is not known.
    unknown_ns: Nanos,
}

#[derive(Serialize, JsonSchema)]
struct RanInstead {
    #[serde(flatten)]
    task: Named,
    run_ns: Nanos,
}

impl Occupancy {
    pub(super) fn of(meanwhile: &Meanwhile, state: &State) -> Self {
        let ran = meanwhile.ran.iter();
        Self {
            ran_instead: ran
                .map(|(task, time)| RanInstead { task: Named::of(*task, state), run_ns: *time })
                .collect(),
            idle_ns: meanwhile.idle,
            unknown_ns: meanwhile.unknown,
        }
    }
}

/// Each task that ran, with its time as `amount` spells it; `None` if nothing is known of the wait.
fn listed(
    meanwhile: &Meanwhile,
    state: &State,
    amount: impl Fn(Nanos) -> String,
) -> Option<String> {
    let name = |task: TaskId| format!("{} ({})", state.name(task), state.task(task).pid);
    let ran = |(task, time): &(TaskId, Nanos)| format!("{} {}", name(*task), amount(*time));
    let mut parts: Vec<String> = meanwhile.ran.iter().take(NAMED).map(ran).collect();
    let others = meanwhile.ran.get(NAMED..).unwrap_or_default();
    if !others.is_empty() {
        let time = others.iter().fold(Nanos::ZERO, |sum, (_, time)| sum + *time);
        let plural = if others.len() == 1 { "other" } else { "others" };
        parts.push(format!("{} {plural} {}", others.len(), amount(time)));
    }
    for (time, what) in [(meanwhile.idle, "the CPU was idle"), (meanwhile.unknown, "unknown")] {
        if time > Nanos::ZERO {
            parts.push(format!("{what} {}", amount(time)));
        }
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// `meanwhile ua (7) 3.00 ms, the CPU was idle 2.00 µs`.
pub(super) fn in_times(meanwhile: &Meanwhile, state: &State) -> String {
    match listed(meanwhile, state, Nanos::readable) {
        Some(list) => format!("meanwhile {list}"),
        None => "nobody ran".to_owned(),
    }
}

/// `ua (7) 90 %, the CPU was idle 10 %`: shares of the wait.
pub(super) fn in_shares(meanwhile: &Meanwhile, state: &State) -> Option<String> {
    let all = meanwhile.time().0.max(1) as f64;
    listed(meanwhile, state, |time| match time.0 as f64 / all * 100.0 {
        share if share < 1.0 => "under 1 %".to_owned(),
        share => format!("{share:.0} %"),
    })
}
