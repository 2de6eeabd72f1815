//! Which part of a trace is kept: a span of time, some CPUs, some tasks.

use crate::dat::{Companion, Header, Piece};
use crate::decode::Stamp;
use crate::names::Names;
use crate::plan::Decoder;
use schedlab_model::{AtStart, Cpu, CpuSet, Does, Event, Nanos, Pid, Span, What};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

/// Selects what a copy of a trace keeps: a time span, CPUs, tasks. The default keeps everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Only events of this time, on the trace's clock.
    pub span: Option<Span>,
    /// Only events that these CPUs logged.
    pub cpus: Option<CpuSet>,
    /// Only events that name one of these tasks, or fired while one of them ran.
    pub tasks: Option<BTreeSet<Pid>>,
    /// Who ran and waited at the start of the time.
    pub at_start: Option<AtStart>,
}

impl Part {
    /// Whether nothing is left out.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an event belongs to the chosen part.
    #[must_use]
    pub(crate) fn holds(&self, event: &Event) -> bool {
        let chosen = |tasks: &BTreeSet<Pid>| {
            is_about(event, tasks) || matches!(event.what, What::Lost { .. })
        };
        self.holds_place(event.time, event.cpu) && self.tasks.as_ref().is_none_or(chosen)
    }

    /// Leaves of a state what concerns the part.
    fn limit(&self, at: &mut AtStart) {
        let is_kept = |cpu: Cpu| self.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu));
        at.idle.retain(|cpu| is_kept(*cpu) && self.tasks.is_none());
        at.tasks.retain(|task| {
            let is_here = match task.does {
                Does::Run(cpu) | Does::Wait(cpu, ..) => is_kept(cpu),
                Does::New | Does::Sleep(_) => true,
            };
            is_here && self.tasks.as_ref().is_none_or(|tasks| tasks.contains(&task.pid))
        });
    }

    fn holds_place(&self, time: Nanos, cpu: Cpu) -> bool {
        self.span.is_none_or(|span| span.start <= time && time < span.end)
            && self.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu))
    }

    /// Makes the head of a file say that it holds this part.
    pub(crate) fn tell(&self, header: &mut Header) {
        if self.is_whole() {
            return;
        }
        // They count what the whole trace holds.
        header.cpustat.clear();
        let companion = header.companion.get_or_insert_with(Companion::default);
        companion.span = self.span.or(companion.span);
        if self.at_start.is_some() {
            companion.at_start.clone_from(&self.at_start);
        }
        if let Some(at) = &mut companion.at_start {
            self.limit(at);
        }
        companion.observed = self.cpus.clone().or_else(|| companion.observed.take());
        if let Some(tasks) = &self.tasks {
            companion.only = Some(tasks.clone());
        }
        companion.chosen = self.tasks.as_ref().map(BTreeSet::len).or(companion.chosen);
    }
}

/// Whether an event names one of the tasks, or fired while one of them ran.
fn is_about(event: &Event, tasks: &BTreeSet<Pid>) -> bool {
    let named = match event.what {
        What::Switch { prev, next, .. } => [prev, next],
        What::Waking { pid, .. }
        | What::Wakeup { pid, .. }
        | What::Migrate { pid, .. }
        | What::Exit { pid }
        | What::Comm { pid, .. }
        | What::Mark { pid, .. } => [pid; 2],
        What::Fork { child } => [child; 2],
        What::Exec { old } => [old; 2],
        What::Lost { .. } | What::Online { .. } | What::Other { .. } => [event.by; 2],
    };
    tasks.contains(&event.by) || named.iter().any(|pid| tasks.contains(pid))
}

/// Decides which records belong to a part.
pub(crate) struct Choice<'p> {
    part: &'p Part,
    /// From the times of the records to those of the trace's clock.
    clock: Box<dyn Fn(usize, Cpu, Nanos) -> Nanos + 'p>,
    decoder: Decoder,
    names: Names,
    events: Vec<Event>,
    /// Losses of each buffer and CPU since its last record that was kept.
    lost: BTreeMap<(usize, Cpu), Option<NonZeroU32>>,
}

/// What to do with a piece.
pub(crate) enum Taken {
    /// It does not belong to the part.
    Not,
    /// The record belongs to the selection.
    Yes,
    /// It does, and events before it are missing; how many, where it is known.
    AfterLoss(Option<NonZeroU32>),
}

impl<'p> Choice<'p> {
    /// Of records with this head, whose times `clock` corrects.
    pub(crate) fn new(
        part: &'p Part,
        header: &Header,
        clock: impl Fn(usize, Cpu, Nanos) -> Nanos + 'p,
    ) -> Self {
        let formats = header.formats.iter().map(|(system, text)| (system.as_str(), text.as_str()));
        let decoder = Decoder::new(header.encoding, formats.filter(|_| part.tasks.is_some()));
        let names = Names::default();
        let events = Vec::new();
        let lost = BTreeMap::new();
        Self { part, clock: Box::new(clock), decoder, names, events, lost }
    }

    /// Takes in the next piece of a CPU.
    pub(crate) fn take(&mut self, buffer: usize, cpu: Cpu, piece: Piece<'_>) -> Taken {
        if self.part.is_whole() {
            return Taken::Yes;
        }
        let place = (buffer, cpu);
        let (time, body) = match piece {
            // Where it lies is known with the next record.
            Piece::Lost(count) => {
                let before = self.lost.remove(&place);
                let sum = before.map_or(count, |before| before?.checked_add(count?.get()));
                self.lost.insert(place, sum);
                return Taken::Not;
            }
            Piece::Record(time, body) => (time, body),
        };
        if !self.part.holds_place((self.clock)(buffer, cpu, time), cpu) {
            self.lost.remove(&place);
            return Taken::Not;
        }
        if let Some(tasks) = &self.part.tasks {
            self.events.clear();
            let stamp = Stamp { time: time.0, cpu };
            self.decoder.decode_to(stamp, body, &mut self.names, &mut self.events);
            // A name comes from a record about something else.
            let mut events = self.events.iter().filter(|e| !matches!(e.what, What::Comm { .. }));
            if !events.any(|event| is_about(event, tasks)) {
                return Taken::Not;
            }
        }
        self.lost.remove(&place).map_or(Taken::Yes, Taken::AfterLoss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Context, Prio};

    #[test]
    fn an_event_belongs_to_a_task_that_it_names_or_that_ran() {
        let part = Part { tasks: Some([Pid(7)].into()), ..Part::default() };
        let wakeup = What::Wakeup { pid: Pid(7), prio: Prio::NORMAL, cpu: Cpu(1), new: false };
        let event = |by, what| Event {
            time: Nanos(5),
            by: Pid(by),
            cpu: Cpu(0),
            context: Context::Task,
            what,
        };
        assert!(part.holds(&event(1, wakeup)));
        assert!(part.holds(&event(7, What::Other { format: 0 })));
        assert!(!part.holds(&event(1, What::Other { format: 0 })));
        assert!(part.holds(&event(1, What::Lost { count: None })), "a loss concerns all");
    }

    #[test]
    fn the_end_of_the_time_is_outside() {
        let part = Part { span: Some(Span::new(Nanos(5), Nanos(9))), ..Part::default() };
        let holds = [4, 5, 8, 9].map(|time| part.holds_place(Nanos(time), Cpu(0)));
        assert_eq!(holds, [false, true, true, false]);
    }
}
