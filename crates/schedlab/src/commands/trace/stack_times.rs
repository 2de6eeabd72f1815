//! Times by stack, off the CPU or on it: what pictures, changes and requests need of both.

use super::input::{Head, Input};
use super::why::check_mark;
use anyhow::bail;
use schedlab_model::{Nanos, Span, Warning};
use schedlab_timeline::{FoldedStack, Reply, TaskId, WithinRequests};
use std::collections::BTreeSet;

/// Which requests are asked about.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct OfRequests {
    /// Count only requests, which marks of this name enclose: the time of the task that ended each
    #[arg(long, value_name = "NAME")]
    pub(super) mark: Option<String>,
    /// Count only the slowest 1 % of these requests
    #[arg(long, requires = "mark")]
    pub(super) slowest: bool,
}

/// The times of a trace by stack, whichever they are.
pub(crate) struct Side {
    /// What was looked at, and what of it has no stack.
    pub(crate) headline: String,
    pub(crate) folded: Vec<FoldedStack>,
    /// How many tasks have a stack.
    pub(crate) tasks: usize,
    pub(crate) cpus: usize,
    pub(crate) origin: Nanos,
    pub(crate) observed: Span,
    pub(crate) warnings: Vec<Warning>,
    pub(super) head: Head,
}

impl Side {
    pub(super) fn of<A>(
        reply: Reply<A>,
        tasks: impl Iterator<Item = TaskId>,
        headline: String,
        folded: Vec<FoldedStack>,
    ) -> Self {
        let head = Head::of(&reply);
        let tasks = tasks.collect::<BTreeSet<_>>().len();
        let cpus = reply.state.observed_cpus().count();
        let Reply { origin, observed, warnings, .. } = reply;
        Self { headline, folded, tasks, cpus, origin, observed, warnings, head }
    }
}

/// The times within requests, how many requests are in them, and of how many; an error if there are none.
pub(super) fn of_requests<A>(
    input: &Input,
    name: &str,
    reply: Reply<WithinRequests<A>>,
) -> anyhow::Result<(Reply<A>, (usize, usize))> {
    check_mark(input, name, reply.state.marks())?;
    let requests = reply.answer.requests;
    let of = reply.answer.of;
    if of == 0 {
        let file = input.shown();
        bail!("{file}: no request '{name}' begins and ends in this part of the trace");
    }
    Ok((reply.map(|answer| answer.times), (requests, of)))
}

/// So many requests, of how many, for a headline.
pub(super) fn within(requests: Option<(usize, usize)>) -> String {
    requests.map_or_else(String::new, |(some, of)| format!(" within {some} of {of} requests"))
}
