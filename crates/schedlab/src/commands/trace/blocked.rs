//! Where in the kernel tasks blocked, by their stacks, in words.

use super::input::Named;
use crate::output::folded_table;
use schedlab_model::table::TextTable;
use schedlab_timeline::{Blocked, StackId, Stacks};

pub(super) fn text(stack: Option<StackId>, stacks: &Stacks) -> Option<String> {
    stack.map(|stack| stacks.text(stack).to_owned())
}

/// `, in futex_wait<-do_futex`, where it is known.
pub(super) fn words(stack: Option<StackId>, stacks: &Stacks) -> String {
    text(stack, stacks).map_or_else(String::new, |stack| format!(", in {stack}"))
}

/// Where a task blocked, as a table in lines of `room` characters; empty where nothing is known of it.
pub(super) fn table(who: &Named, blocked: &[Blocked<'_>], room: usize) -> String {
    if blocked.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new(&["off CPU", "times", "<in (called by)"]);
    for of in blocked {
        let stack = of.stack().unwrap_or("unknown: no stack of it").to_owned();
        let time = of.of.time.readable();
        table.row(vec![time, of.of.count.to_string(), stack]);
    }
    let table = folded_table(&table.text(0, room), "in (called by)", room);
    format!("\nwhere {who} blocked:\n\n{table}")
}
