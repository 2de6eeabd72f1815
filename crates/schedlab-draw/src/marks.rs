//! The question behind marks on the rows: wakeups, migrations, overload, and any event by name.
//!
//! Of ticks that fall into one column of one CPU's row only the first is kept, and overload that
//! pauses for less than a column is one bar: marks are bounded by the picture, as its rows are.

use crate::colour::Theme;
use crate::cores::{Mark, Marks};
use schedlab_model::{Cpu, CpuSet, Kind, Nanos, OtherFormat, Span, TraceInfo, fields};
use schedlab_timeline::{Change, Occupant, Question, State, TaskId};
use std::collections::BTreeSet;

/// Links beyond this many cannot be told apart; the rest is counted in the legend.
const LINKS_MAX: usize = 20_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A tick where a woken task was put.
    Wakeups,
    /// A line from row to row.
    Migrations,
    /// A bar while a CPU has more than one runnable task.
    Overload,
    /// Events by name, with conditions.
    Events(EventMark),
}

impl Wanted {
    /// What is marked, if this is a mark of events by name.
    #[must_use]
    pub fn event(&self) -> Option<&EventMark> {
        match self {
            Self::Events(mark) => Some(mark),
            _ => None,
        }
    }
}

/// The tracepoint that stands for what the mark at this place chose: far from those that files have.
pub(crate) fn format(place: usize) -> u16 {
    u16::MAX - u16::try_from(place).unwrap_or(u16::MAX)
}

/// Events to be marked, as typed: `event[:condition[,condition]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventMark {
    /// What was typed, for the legend.
    pub text: String,
    event: String,
    comm: Option<String>,
    pid: Option<i32>,
    cpus: Option<CpuSet>,
    /// What the tracepoint's own fields must be.
    fields: Vec<(String, String)>,
}

impl std::str::FromStr for EventMark {
    type Err = String;

    /// Reads `sched_waking`, `irq_handler_entry:cpu=0-3`, `sched_switch:comm=ua,pid=12`,
    /// `mark/phase 1`, `irq_handler_entry:irq=42`; conditions are `comm=` (how the name begins), `pid=` and
    /// `cpu=` (a list), and any field of a tracepoint beyond the scheduler's.
    fn from_str(text: &str) -> Result<Self, String> {
        let (event, conditions) = match text.split_once(':') {
            Some((event, rest)) if rest.contains('=') => (event, rest),
            Some((_, rest)) => {
                return Err(format!(
                    "invalid condition '{rest}': use comm=NAME, pid=N or cpu=LIST"
                ));
            }
            None => (text, ""),
        };
        let mut mark = Self { text: text.to_owned(), event: event.to_owned(), ..Self::default() };
        for condition in split(conditions) {
            match condition.split_once('=') {
                Some(("comm", name)) => mark.comm = Some(name.to_owned()),
                Some(("pid", pid)) => {
                    mark.pid = Some(
                        pid.parse()
                            .map_err(|_| format!("invalid pid '{pid}': use a whole number"))?,
                    );
                }
                Some(("cpu", list)) => {
                    mark.cpus = Some(list.parse().map_err(|error| format!("{error}"))?);
                }
                Some((name, value)) if !name.is_empty() && !is_ours(event) => {
                    mark.fields.push((name.to_owned(), value.to_owned()));
                }
                _ => {
                    return Err(format!(
                        "invalid condition '{condition}': use comm=NAME, pid=N or cpu=LIST"
                    ));
                }
            }
        }
        Ok(mark)
    }
}

/// Whether an event of this name is one of the timeline's own, whose fields are not at hand.
fn is_ours(event: &str) -> bool {
    event.starts_with("mark")
        || Kind::ALL.iter().any(|kind| *kind != Kind::Other && kind.name() == event)
}

/// Conditions are separated by commas, and CPU lists have commas of their own.
fn split(conditions: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in conditions.split(',').filter(|part| !part.is_empty()) {
        match parts.last_mut() {
            Some(last) if !part.contains('=') => {
                last.push(',');
                last.push_str(part);
            }
            _ => parts.push(part.to_owned()),
        }
    }
    parts
}

/// The question that finds the marked events of a trace.
pub struct Marking {
    window: Span,
    columns: u64,
    layers: Vec<Layer>,
    /// Since when each CPU has more than one runnable task.
    overloaded: Vec<Option<Nanos>>,
    theme: Theme,
}

/// Marks of one kind in the making.
struct Layer {
    wanted: Wanted,
    /// What it matches, where it is an event of another system, or a mark.
    others: BTreeSet<u16>,
    named: BTreeSet<u32>,
    taken: BTreeSet<(u16, u32)>,
    marks: Vec<Mark>,
    left_out: u64,
}

impl Marking {
    /// Asks for marks in a window (on the trace's clock) of a picture with this many columns.
    #[must_use]
    pub fn new(
        window: Span,
        columns: u32,
        wanted: Vec<Wanted>,
        info: &TraceInfo,
        theme: Theme,
    ) -> Self {
        let mut chosen = 0;
        let mut layer = |wanted| {
            let mut layer = Layer::new(wanted, info);
            if let Wanted::Events(mark) = &layer.wanted {
                if mark.has_fields() {
                    layer.others = BTreeSet::from([format(chosen)]);
                }
                chosen += 1;
            }
            layer
        };
        let layers = wanted.into_iter().map(&mut layer).collect();
        Self { window, columns: columns.max(1).into(), layers, overloaded: Vec::new(), theme }
    }

    fn column(&self, time: Nanos) -> u32 {
        let inside = u128::from((time - self.window.start).0) * u128::from(self.columns);
        u32::try_from(inside / u128::from(self.window.duration().0.max(1))).unwrap_or(u32::MAX)
    }

    fn tick(&mut self, layer: usize, time: Nanos, cpu: Cpu) {
        if self.window.contains(time) {
            let column = self.column(time);
            let layer = &mut self.layers[layer];
            if layer.taken.insert((cpu.0, column)) {
                layer.marks.push(Mark::Tick { time, cpu });
            }
        }
    }

    fn link(&mut self, layer: usize, time: Nanos, from: Cpu, to: Cpu) {
        if self.window.contains(time) {
            let layer = &mut self.layers[layer];
            if layer.marks.len() < LINKS_MAX {
                layer.marks.push(Mark::Link { time, from, to });
            } else {
                layer.left_out += 1;
            }
        }
    }

    /// Looks again at a CPU whose queue may have changed.
    fn look(&mut self, layer: usize, cpu: Cpu, now: Nanos, state: &State) {
        let Some(known) = state.cpu(cpu) else { return };
        let runnable = known.waiting + u32::from(matches!(known.occupant, Occupant::Task(_)));
        if self.overloaded.len() <= cpu.index() {
            self.overloaded.resize(cpu.index() + 1, None);
        }
        match (runnable > 1, self.overloaded[cpu.index()]) {
            (true, None) => self.overloaded[cpu.index()] = Some(now),
            (false, Some(since)) => {
                self.overloaded[cpu.index()] = None;
                self.bar(layer, cpu, Span::new(since, now));
            }
            _ => {}
        }
    }

    fn bar(&mut self, layer: usize, cpu: Cpu, span: Span) {
        let span = span.intersection(self.window);
        if span.duration() == Nanos::ZERO {
            return;
        }
        let column = self.window.duration().0 / self.columns;
        let near = |last: &Mark| match last {
            Mark::Bar { span: last, cpu: of } => {
                *of == cpu && span.start.0.saturating_sub(last.end.0) < column
            }
            _ => false,
        };
        let marks = &mut self.layers[layer].marks;
        // Bars of one CPU stand near each other in time, so near the end of the list.
        let recent = marks.len().saturating_sub(64);
        match marks[recent..].iter_mut().rev().find(|last| near(last)) {
            Some(Mark::Bar { span: last, .. }) => last.end = last.end.max(span.end),
            _ => marks.push(Mark::Bar { span, cpu }),
        }
    }

    fn overload(&mut self, layer: usize, change: &Change, state: &State) {
        let now = state.now();
        match *change {
            Change::Switch(switch) => self.look(layer, switch.cpu, now, state),
            Change::Placed { cpu, .. } | Change::Lost { cpu, .. } => {
                self.look(layer, cpu, now, state);
            }
            Change::Runnable(woken) => {
                if let Some(cpu) = woken.last_cpu {
                    self.look(layer, cpu, now, state);
                }
            }
            Change::Moved(_) => {
                for cpu in change.touched(state).into_iter().flatten() {
                    self.look(layer, cpu, now, state);
                }
            }
            _ => {}
        }
    }
}

impl Layer {
    fn new(wanted: Wanted, info: &TraceInfo) -> Self {
        let mut others = BTreeSet::new();
        let mut named = BTreeSet::new();
        if let Wanted::Events(mark @ EventMark { event, .. }) = &wanted {
            for (index, format) in (0_u16..).zip(&info.others) {
                if mark.names(format) {
                    others.insert(index);
                }
            }
            for (id, name) in (0_u32..).zip(&info.marks) {
                if event == "mark" || event.strip_prefix("mark/") == Some(name) {
                    named.insert(id);
                }
            }
        }
        let taken = BTreeSet::new();
        let marks = Vec::new();
        Self { wanted, others, named, taken, marks, left_out: 0 }
    }

    fn name(&self) -> String {
        let name = match &self.wanted {
            Wanted::Wakeups => "wakeup".to_owned(),
            Wanted::Migrations => "migration".to_owned(),
            Wanted::Overload => "overloaded".to_owned(),
            Wanted::Events(mark) => mark.text.clone(),
        };
        match self.left_out {
            0 => name,
            more => format!("{name} (and {more} more)"),
        }
    }

    /// Where and of which task the change is an event that this layer marks.
    fn event(&self, mark: &EventMark, change: &Change, state: &State) -> Option<(Nanos, Cpu)> {
        let is = |name: &str| mark.event == name;
        let last_cpu = |task: TaskId| state.task(task).last_cpu;
        let (at, cpu, task) = match *change {
            Change::Switch(s) if is("sched_switch") => (s.at, s.cpu, s.is.task()),
            Change::Runnable(r) if is("sched_waking") => {
                (r.at, r.last_cpu.unwrap_or(r.waker.cpu), Some(r.task))
            }
            Change::Placed { at, task, cpu, .. } if is("sched_wakeup") => (at, cpu, Some(task)),
            Change::Moved(m) if is("sched_migrate_task") => (m.at, m.to, Some(m.task)),
            Change::Born { at, task, parent } if is("sched_process_fork") => {
                (at, last_cpu(parent)?, Some(task))
            }
            Change::Exiting { at, task } if is("sched_process_exit") => {
                (at, last_cpu(task)?, Some(task))
            }
            Change::Renamed { at, task, .. } if is("comm") => (at, last_cpu(task)?, Some(task)),
            Change::Lost { at, cpu, .. } if is("lost") => (at, cpu, None),
            Change::Mark { at, cpu, task, id, .. } if self.named.contains(&id) => {
                (at, cpu, Some(task))
            }
            Change::Other { at, cpu, format } if self.others.contains(&format) => {
                let on = state.cpu(cpu).and_then(|known| known.occupant.task());
                (at, cpu, on)
            }
            _ => return None,
        };
        mark.admits(cpu, task.filter(|task| task.is_some()), state).then_some((at, cpu))
    }
}

impl EventMark {
    /// Whether it has conditions on the tracepoint's own fields ([`crate::Chosen`] looks at those).
    #[must_use]
    pub fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// Whether a trace that `info` describes to its end can hold such an event.
    #[must_use]
    pub fn is_known(&self, info: &TraceInfo) -> bool {
        match self.event.strip_prefix("mark/") {
            Some(name) => info.marks.iter().any(|mark| mark == name),
            None => is_ours(&self.event) || info.others.iter().any(|format| self.names(format)),
        }
    }

    pub(crate) fn names(&self, format: &OtherFormat) -> bool {
        let full = self.event.split_once('/');
        self.event == format.name
            || full.is_some_and(|(system, name)| system == format.system && name == format.name)
    }

    /// Whether the conditions on fields hold for these arguments: as numbers, where both are.
    pub(crate) fn holds(&self, arguments: &str) -> bool {
        let told = fields(arguments);
        self.fields.iter().all(|(name, value)| {
            told.iter().any(|(field, found)| {
                let same = || number(found).zip(number(value)).is_some_and(|(a, b)| a == b);
                field == name && (found == value || same())
            })
        })
    }

    fn admits(&self, cpu: Cpu, task: Option<TaskId>, state: &State) -> bool {
        let named = |name: &String| task.is_some_and(|task| state.name(task).starts_with(name));
        let is = |pid: i32| task.is_some_and(|task| state.task(task).pid.0 == pid);
        self.comm.as_ref().is_none_or(named)
            && self.pid.is_none_or(is)
            && self.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu))
    }
}

/// A number as tracepoints spell them.
fn number(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(i128::from),
        None => text.parse().ok(),
    }
}

impl Question for Marking {
    type Answer = Vec<Marks>;

    fn begin(&mut self, state: &State) {
        for layer in 0..self.layers.len() {
            if self.layers[layer].wanted == Wanted::Overload {
                for index in 0..state.cpus().len() {
                    let cpu = Cpu(u16::try_from(index).unwrap_or(u16::MAX));
                    self.look(layer, cpu, self.window.start, state);
                }
            }
        }
    }

    fn see(&mut self, change: &Change, state: &State) {
        for layer in 0..self.layers.len() {
            match (&self.layers[layer].wanted, change) {
                (Wanted::Wakeups, Change::Placed { at, cpu, .. }) => self.tick(layer, *at, *cpu),
                (Wanted::Migrations, Change::Moved(moved)) => {
                    self.link(layer, moved.at, moved.from, moved.to);
                }
                (Wanted::Overload, change) => self.overload(layer, change, state),
                (Wanted::Events(mark), change) => {
                    if let Some((at, cpu)) = self.layers[layer].event(mark, change, state) {
                        self.tick(layer, at, cpu);
                    }
                }
                _ => {}
            }
        }
    }

    fn answer(mut self, state: &State) -> Vec<Marks> {
        let end = state.window().end;
        for layer in 0..self.layers.len() {
            if self.layers[layer].wanted == Wanted::Overload {
                for index in 0..self.overloaded.len() {
                    if let Some(since) = self.overloaded[index].take() {
                        let cpu = Cpu(u16::try_from(index).unwrap_or(u16::MAX));
                        self.bar(layer, cpu, Span::new(since, end));
                    }
                }
            }
        }
        let theme = self.theme;
        let colour = |index: usize, wanted: &Wanted| match wanted {
            Wanted::Wakeups => theme.text,
            Wanted::Migrations => theme.moved,
            // Not that of violations, which lie within overload.
            Wanted::Overload => theme.waiting,
            Wanted::Events(_) => theme.events[index % theme.events.len()],
        };
        let layers = self.layers.into_iter().enumerate();
        layers
            .map(|(index, layer)| Marks {
                name: layer.name(),
                colour: colour(index, &layer.wanted),
                marks: layer.marks,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_an_event_and_conditions() {
        let mark: EventMark = "sched_switch:comm=ua,cpu=0-3,8,pid=12".parse().unwrap();
        assert_eq!(mark.event, "sched_switch");
        assert_eq!((mark.comm.as_deref(), mark.pid), (Some("ua"), Some(12)));
        assert_eq!(mark.cpus.unwrap().to_string(), "0-3,8");
        assert!("x:y".parse::<EventMark>().is_err());
        assert!("x:pid=a".parse::<EventMark>().is_err());
        assert!("x:cpu=3-1".parse::<EventMark>().is_err());
        let mark: EventMark = "irq/entry:irq=42,name=a disk,cpu=1".parse().unwrap();
        assert!(mark.has_fields() && mark.holds("irq=0x2a name=a disk x=1"));
        assert!(!mark.holds("irq=43 name=a disk") && !mark.holds("name=a disk"));
        assert!("sched_waking:prio=1".parse::<EventMark>().is_err(), "not at hand");
        assert_eq!("mark/a b".parse::<EventMark>().unwrap().event, "mark/a b");
    }
}
