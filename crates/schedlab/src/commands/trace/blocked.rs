//! Where in the kernel tasks blocked, by their stacks: in words and in JSON.

use super::input::Named;
use super::table::Table;
use schedlab_model::Nanos;
use schedlab_timeline::{BlockedIn, StackId, Stacks};
use schemars::JsonSchema;
use serde::Serialize;

/// Stacks that are reported.
const MAX: usize = 10;

/// Sleeps that began in one place.
#[derive(Serialize, JsonSchema)]
pub(super) struct InStack {
    /// The function that waited and its callers, `<-` between them; `null` where the trace holds no stack of it.
    stack: Option<String>,
    count: u64,
    off_cpu_ns: Nanos,
}

impl InStack {
    /// The longest.
    pub(super) fn all(blocked: &[BlockedIn], stacks: &Stacks) -> Vec<Self> {
        let one = |of: &BlockedIn| Self {
            stack: text(of.stack, stacks),
            count: of.count,
            off_cpu_ns: of.time,
        };
        blocked.iter().take(MAX).map(one).collect()
    }
}

/// A stack as text.
pub(super) fn text(stack: Option<StackId>, stacks: &Stacks) -> Option<String> {
    stack.map(|stack| stacks.text(stack).to_owned())
}

/// `, in futex_wait<-do_futex`, where it is known.
pub(super) fn words(stack: Option<StackId>, stacks: &Stacks) -> String {
    text(stack, stacks).map_or_else(String::new, |stack| format!(", in {stack}"))
}

/// Where a task blocked, as a table; empty where nothing is known of it.
pub(super) fn table(who: &Named, blocked: &[InStack]) -> String {
    if blocked.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["off CPU", "times", "<in (called by)"]);
    for of in blocked {
        let stack = of.stack.clone().unwrap_or_else(|| "unknown: no stack of it".to_owned());
        table.row(vec![of.off_cpu_ns.to_string(), of.count.to_string(), stack]);
    }
    format!("\nwhere {who} blocked:\n\n{}", table.text(0))
}
