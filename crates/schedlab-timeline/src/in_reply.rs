//! A row with the reply that it belongs to, which knows names and the window: a row of a table without a copy.

use crate::question::Reply;
use crate::state::State;
use crate::task::TaskId;
use schedlab_model::table::{Column, column};
use schedlab_model::{Distance, Pid};
use std::ops::Deref;

/// A row with the reply that it belongs to.
#[derive(Debug)]
#[non_exhaustive]
pub struct InReply<'a, R, A> {
    /// One row of the answer.
    pub row: &'a R,
    /// The whole reply, with names, the window and what is known.
    pub reply: &'a Reply<A>,
}

impl<R, A> Deref for InReply<'_, R, A> {
    type Target = R;
    fn deref(&self) -> &R {
        self.row
    }
}

impl<'a, R, A> InReply<'a, R, A> {
    /// Another row of the same reply.
    pub(crate) fn with<I>(&self, row: &'a I) -> InReply<'a, I, A> {
        InReply { row, reply: self.reply }
    }

    pub(crate) fn pid(&self, task: TaskId) -> Pid {
        self.reply.state.task(task).pid
    }

    /// The name of a task at the end.
    pub(crate) fn name(&self, task: TaskId) -> String {
        self.reply.state.name(task)
    }
}

impl<A> Reply<A> {
    /// Rows of the answer, with the reply.
    #[must_use]
    pub fn rows<'a, R>(&'a self, rows: &'a [R]) -> Vec<InReply<'a, R, A>> {
        rows.iter().map(|row| InReply { row, reply: self }).collect()
    }
}

/// `name (pid)`.
pub(crate) fn named(task: TaskId, state: &State) -> String {
    format!("{} ({})", state.name(task), state.task(task).pid)
}

/// Counts by the nearest level that two CPUs share, in the order of [`Distance::ALL`]; with titles after `group`, where text
/// has them.
pub(crate) fn by_distance<R>(
    name: &str,
    group: Option<&str>,
    counts: impl Fn(&R) -> Option<[u64; Distance::ALL.len()]> + Copy + 'static,
) -> Vec<Column<R>> {
    const LEVELS: [(&str, &str, &str); Distance::ALL.len()] = [
        ("same_CPU", "", "Those on the same CPU."),
        ("same_core", "in core", "Those between CPUs of one core."),
        ("same_LLC", "LLC", "Those between cores of one LLC."),
        ("same_node", "node", "Those between LLCs of one node."),
        ("same_socket", "socket", "Those between nodes of one socket."),
        ("other_socket", "beyond", "Those between sockets."),
    ];
    let one = |(at, (level, title, about)): (usize, (&'static str, &str, &'static str))| {
        let made = column(format!("{name}.{level}"), about, move |row: &R| {
            counts(row).map(|counts| counts[at])
        });
        match group.filter(|_| !title.is_empty()) {
            Some(group) => made.title(format!("{group}: {title}")).rank(10),
            None => made,
        }
    };
    LEVELS.into_iter().enumerate().map(one).collect()
}
