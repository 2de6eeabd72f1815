//! The causes of waits, kept for questions about parts of them.

use crate::causes::{ExplainedWait, Parts, WaitCause};
use crate::task::TaskId;
use schedlab_model::{Nanos, Span};

/// Waits with their causes, those of each task in order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct CausedWaits(Vec<Vec<CausedWait>>);

#[derive(Clone, Debug)]
struct CausedWait {
    span: Span,
    parts: Vec<(WaitCause, Nanos)>,
}

impl CausedWaits {
    pub(crate) fn add(&mut self, wait: &ExplainedWait) {
        if self.0.len() <= wait.task.index() {
            self.0.resize_with(wait.task.index() + 1, Vec::new);
        }
        let span = Span::new(wait.since, wait.until);
        self.0[wait.task.index()].push(CausedWait { span, parts: wait.parts.ranked() });
    }

    /// Of the wait of a task whose part `piece` is: when it ends, and the causes of its part `within`.
    pub(crate) fn at(&self, task: TaskId, piece: Span, within: Span) -> (Nanos, Parts) {
        let waits = self.0.get(task.index()).map_or(&[][..], |waits| waits);
        let wait = waits.get(waits.partition_point(|wait| wait.span.end <= piece.start));
        let mut parts = Parts::default();
        let Some(wait) = wait.filter(|wait| wait.span.start <= piece.start) else {
            parts.count(WaitCause::Unknown, piece.duration());
            return (piece.end, parts);
        };
        let inside = wait.span.intersection(within);
        match wait.parts.as_slice() {
            all if inside == wait.span => {
                all.iter().for_each(|(cause, time)| parts.count(*cause, *time));
            }
            [(cause, _)] => parts.count(*cause, inside.duration()),
            _ => parts.count(WaitCause::Unknown, inside.duration()),
        }
        (wait.span.end, parts)
    }
}
