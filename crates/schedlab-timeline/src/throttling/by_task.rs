//! When each task was throttled.

use super::Throttled;
use crate::task::TaskId;
use schedlab_model::Span;
use std::collections::BTreeMap;

/// Whether a task was throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    No,
    /// It may also have waited for other tasks ([`Throttled::certain`]).
    Perhaps,
    Certainly,
}

/// When tasks were throttled: certainly, and perhaps. Each list is in order of time and without overlap, since several
/// groups may hold a task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Throttles(BTreeMap<TaskId, [Vec<Span>; 2]>);

impl Throttles {
    pub(crate) fn of(throttled: &[Throttled]) -> Self {
        let mut all = BTreeMap::<TaskId, [Vec<Span>; 2]>::new();
        for one in throttled {
            all.entry(one.task).or_default()[usize::from(!one.certain)].push(one.span);
        }
        all.values_mut().flatten().for_each(|spans| *spans = merged(spans));
        Self(all)
    }

    /// Tells what a wait of a task was, in order of time and without a gap.
    pub(crate) fn part(&self, task: TaskId, wait: Span, mut tell: impl FnMut(Span, Stopped)) {
        let Some([certainly, perhaps]) = self.0.get(&task) else {
            return tell(wait, Stopped::No);
        };
        parted(wait, certainly, |piece, is_certain| {
            if is_certain {
                return tell(piece, Stopped::Certainly);
            }
            parted(piece, perhaps, |rest, may_be| {
                tell(rest, if may_be { Stopped::Perhaps } else { Stopped::No });
            });
        });
    }
}

/// Spans in order of time, those that overlap as one.
pub(crate) fn merged(spans: &[Span]) -> Vec<Span> {
    let mut sorted = spans.to_vec();
    sorted.sort_unstable_by_key(|span| (span.start, span.end));
    let mut all: Vec<Span> = Vec::new();
    for span in sorted {
        match all.last_mut().filter(|last| span.start <= last.end) {
            Some(last) => last.end = last.end.max(span.end),
            None => all.push(span),
        }
    }
    all
}

/// Tells the pieces of a span, and which of them lie within these.
fn parted(span: Span, within: &[Span], mut tell: impl FnMut(Span, bool)) {
    let mut tell = |piece: Span, is_within| {
        if piece.start < piece.end {
            tell(piece, is_within);
        }
    };
    let first = within.partition_point(|one| one.end <= span.start);
    let mut told = span.start;
    for one in within[first..].iter().take_while(|one| one.start < span.end) {
        let piece = one.intersection(span);
        tell(Span::new(told, piece.start), false);
        tell(piece, true);
        told = piece.end;
    }
    tell(Span::new(told, span.end), false);
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Cpu, Nanos};

    #[test]
    fn each_instant_of_a_wait_is_throttled_certainly_perhaps_or_not() {
        let span = |start, end| Span::new(Nanos(start), Nanos(end));
        let of = |task, span, certain| Throttled { span, task, cpu: Cpu(0), group: 0, certain };
        let task = TaskId(3);
        // Two groups hold it from 10 to 20 and from 15 to 25; it is not certain that another did from 22 to 30.
        let all = [
            of(task, span(10, 20), true),
            of(task, span(15, 25), true),
            of(task, span(22, 30), false),
            of(TaskId(4), span(0, 99), true),
            of(task, span(50, 60), true),
        ];
        let throttles = Throttles::of(&all);
        let parts = |task: TaskId, wait: Span| {
            let mut parts = Vec::new();
            throttles.part(task, wait, |span, stopped| parts.push((span, stopped)));
            parts
        };
        let (no, perhaps, certainly) = (Stopped::No, Stopped::Perhaps, Stopped::Certainly);
        assert_eq!(
            parts(task, span(5, 40)),
            [
                (span(5, 10), no),
                (span(10, 25), certainly),
                (span(25, 30), perhaps),
                (span(30, 40), no)
            ]
        );
        assert_eq!(parts(task, span(12, 18)), [(span(12, 18), certainly)]);
        assert_eq!(parts(task, span(30, 50)), [(span(30, 50), no)]);
        assert_eq!(parts(TaskId(9), span(5, 40)), [(span(5, 40), no)]);
    }
}
