//! What the holders of locks did while others waited, summed by lock and holder.

use super::row::{LockHeld, LockWait};
use super::{LockKind, LockName};
use crate::occupants::Occupants;
use crate::task::{Activity, TaskId, Why};
use crate::throttling::merged;
use crate::why_late::TaskHistories;
use schedlab_model::{Cpu, Nanos, Span};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The sums so far.
pub(super) struct Sums<'a> {
    histories: &'a TaskHistories,
    occupants: Occupants,
    rows: BTreeMap<(LockName, LockKind, Option<TaskId>), Sum>,
    waits: Vec<LockWait>,
}

#[derive(Default)]
struct Sum {
    waits: u64,
    waiters: BTreeSet<TaskId>,
    waited: Nanos,
    parts: Parts,
    /// When the holder had no CPU while a task waited, for which CPU: once for each task that waited.
    stalls: Vec<(Span, Cpu)>,
}

/// What the holder did, in time that tasks waited.
#[derive(Clone, Copy, Default)]
struct Parts {
    ran: Nanos,
    runnable: Nanos,
    displaced: Nanos,
    throttled: Nanos,
    blocked: Nanos,
}

impl<'a> Sums<'a> {
    pub(super) fn new(histories: &'a TaskHistories) -> Self {
        let occupants = histories.occupants();
        Self { histories, occupants, rows: BTreeMap::new(), waits: Vec::new() }
    }

    /// A wait, and who held the lock in which part of it.
    pub(super) fn add(
        &mut self,
        lock: LockName,
        kind: LockKind,
        task: TaskId,
        span: Span,
        holders: &[(Span, Option<TaskId>)],
    ) {
        let mut stalled = Nanos::ZERO;
        let mut longest = None;
        for (part, holder) in holders {
            let sum = self.rows.entry((lock, kind, *holder)).or_default();
            sum.waits += 1;
            sum.waiters.insert(task);
            sum.waited += part.duration();
            let Some(holder) = *holder else { continue };
            longest = longest.max(Some((part.duration(), holder)));
            for (piece, activity) in self.histories.own(holder, *part) {
                let time = piece.duration();
                match activity {
                    Activity::Running { .. } => sum.parts.ran += time,
                    Activity::Sleeping { .. } => sum.parts.blocked += time,
                    Activity::Waiting { cpu, why, .. } => {
                        let throttled = self.histories.throttled(holder, piece);
                        sum.parts.throttled += throttled;
                        sum.parts.runnable += time - throttled;
                        if !matches!(why, Why::Woken | Why::New) {
                            sum.parts.displaced += time - throttled;
                        }
                        stalled += time;
                        sum.stalls.push((piece, cpu));
                    }
                    Activity::New | Activity::Unknown | Activity::Dead => {}
                }
            }
        }
        let holder = longest.map(|(_, holder)| holder);
        self.waits.push(LockWait { lock, kind, task, span, holder, stalled });
    }

    /// Rows that cost most first, and waits in order of time.
    pub(super) fn finish(self) -> (Vec<LockHeld>, Vec<LockWait>) {
        let Self { occupants, rows, mut waits, .. } = self;
        let row = |((lock, kind, holder), sum): ((LockName, LockKind, Option<TaskId>), Sum)| {
            let Sum { waits, waiters, waited, parts, stalls } = sum;
            let Parts { ran, runnable, displaced, throttled, blocked } = parts;
            let (spans, tasks_max) = overlapped(&stalls);
            let stalled = spans.iter().fold(Nanos::ZERO, |sum, (span, _)| sum + span.duration());
            let instead = occupants.during(spans.iter().map(|(span, cpu)| (*cpu, *span)));
            LockHeld {
                lock,
                kind,
                holder,
                waits,
                waiters: waiters.len() as u64,
                waited,
                ran,
                runnable,
                displaced,
                throttled,
                blocked,
                unknown: waited - ran - runnable - throttled - blocked,
                stalled,
                tasks_max,
                instead,
            }
        };
        let mut rows: Vec<LockHeld> = rows.into_iter().map(row).collect();
        rows.sort_by_key(|row| (Reverse(row.cost()), Reverse(row.waited), row.lock, row.holder));
        waits.sort_by_key(|wait| (wait.span.start, wait.span.end, wait.task));
        (rows, waits)
    }
}

/// The spans in which any of these lay, by CPU, and how many lay at one instant at most.
fn overlapped(stalls: &[(Span, Cpu)]) -> (Vec<(Span, Cpu)>, u64) {
    let mut by_cpu = BTreeMap::<Cpu, Vec<Span>>::new();
    let mut edges = Vec::new();
    for (span, cpu) in stalls {
        by_cpu.entry(*cpu).or_default().push(*span);
        edges.extend([(span.start, 1), (span.end, -1)]);
    }
    // An end comes before a begin at the same time.
    edges.sort_unstable();
    let mut depth = 0_i64;
    let mut most = 0_i64;
    for (_, by) in edges {
        depth += by;
        most = most.max(depth);
    }
    let of_cpu = |(cpu, spans): (Cpu, Vec<Span>)| {
        merged(&spans).into_iter().map(move |span| (span, cpu)).collect::<Vec<_>>()
    };
    (by_cpu.into_iter().flat_map(of_cpu).collect(), most.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::Locks;
    use crate::throttling::Throttled;
    use crate::{ask, notation};
    use schedlab_model::Pid;

    #[test]
    fn overlaps_count_once_and_depth_is_of_one_instant() {
        let span = |start, end| Span::new(Nanos(start), Nanos(end));
        let stalls = [
            (span(0, 4), Cpu(0)),
            (span(4, 6), Cpu(0)),
            (span(2, 3), Cpu(0)),
            (span(9, 10), Cpu(1)),
        ];
        let all = vec![(span(0, 6), Cpu(0)), (span(9, 10), Cpu(1))];
        assert_eq!(overlapped(&stalls), (all, 2));
    }

    #[test]
    fn time_in_which_the_holder_was_certainly_throttled_is_told_apart() {
        let text = "
            0 | AAAAHHHHAA
              |     aaaa
            1 | BBBBBBBBBB
            at 1: A marks 0 begin
            at 2: B marks 1 begin
            at 9: A marks 0 end
            at 9: B marks 1 end";
        let mut trace = notation::parse(text).expect("two CPUs");
        trace.info.marks = vec!["lock:l".into(), "lock-wait:l".into()];
        let named = crate::Requests::new("none", 1);
        let a = ask(&mut trace.source(), named).expect("from memory").state.task_of(Pid(1));
        let throttled = |start, end, certain| Throttled {
            span: Span::new(Nanos(start), Nanos(end)),
            task: a.expect("it ran"),
            cpu: Cpu(0),
            group: 0,
            certain,
        };
        // Two groups held it at the same time.
        let spans = [
            throttled(5_000, 7_000, true),
            throttled(6_000, 7_500, true),
            throttled(4_000, 8_000, false),
        ];
        let locks = Locks::new(&trace.info, &spans);
        let reply = ask(&mut trace.source(), locks).expect("from memory");
        let row = &reply.answer.rows[0];
        assert_eq!(
            (row.throttled, row.runnable, row.ran),
            (Nanos(2_500), Nanos(1_500), Nanos(3_000))
        );
        assert_eq!(
            (row.cost(), row.waited, row.unknown),
            (Nanos(4_000), Nanos(7_000), Nanos::ZERO)
        );
    }
}
