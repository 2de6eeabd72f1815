//! The question behind the picture `waiting`: time run and time waited in each column, for the
//! machine and, where parts of it are named, for each part.
//!
//! `schedlab_timeline::Waiting` answers the same for a table, of the whole machine and for equal spans of
//! time; this one has the picture's columns and sockets, and keeps the peaks that a line must show.

use crate::waiting::{Curve, Level};
use schedlab_model::{Cpu, CpuSet, Nanos, Span};
use schedlab_timeline::{Activity, Change, Occupant, Question, State};

/// The question: how many tasks ran and waited, as exact sums for each column.
pub struct Levels {
    window: Span,
    edges: Vec<u64>,
    machine: Track,
    parts: Vec<(String, CpuSet, Track)>,
    /// What each CPU adds to its part now.
    loads: Vec<Load>,
}

/// The columns of the machine, or of a part.
struct Track {
    levels: Vec<Level>,
    cursor: usize,
    since: u64,
    now: Load,
}

/// How many tasks run and wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    running: u32,
    waiting: u32,
}

impl Levels {
    /// Asks about `columns` equal parts of a window (on the trace's clock), and about named parts
    /// of the machine (`socket 0`) beside the whole.
    #[must_use]
    pub fn new(window: Span, columns: u32, parts: Vec<(String, CpuSet)>) -> Self {
        let columns = u64::from(columns.max(1));
        let length = u128::from(window.duration().0);
        let edge = |column: u64| {
            let inside = length * u128::from(column) / u128::from(columns);
            window.start.0 + u64::try_from(inside).expect("inside of the window")
        };
        let edges: Vec<u64> = (0..=columns).map(edge).collect();
        let track = || Track {
            levels: vec![Level::default(); edges.len() - 1],
            cursor: 0,
            since: window.start.0,
            now: Load::default(),
        };
        let machine = track();
        let parts = parts.into_iter().map(|(name, cpus)| (name, cpus, track())).collect();
        Self { window, edges, machine, parts, loads: Vec::new() }
    }

    /// Looks again at a CPU whose load may have changed.
    fn look(&mut self, cpu: Cpu, state: &State) {
        let Some(known) = state.cpu(cpu) else { return };
        let running = u32::from(matches!(known.occupant, Occupant::Task(_)));
        let load = Load { running, waiting: known.waiting };
        if self.loads.len() <= cpu.index() {
            self.loads.resize(cpu.index() + 1, Load::default());
        }
        let was = std::mem::replace(&mut self.loads[cpu.index()], load);
        if was == load {
            return;
        }
        let now = state.now().min(self.window.end).0;
        for (_, _, part) in self.parts.iter_mut().filter(|(_, cpus, _)| cpus.contains(cpu)) {
            part.advance(now, &self.edges);
            part.now.running = part.now.running + load.running - was.running;
            part.now.waiting = part.now.waiting + load.waiting - was.waiting;
        }
    }
}

impl Track {
    fn advance(&mut self, now: u64, edges: &[u64]) {
        while self.since < now {
            while edges[self.cursor + 1] <= self.since {
                self.cursor += 1;
            }
            let end = now.min(edges[self.cursor + 1]);
            let length = end - self.since;
            let level = &mut self.levels[self.cursor];
            level.running += Nanos(length.saturating_mul(self.now.running.into()));
            level.waiting += Nanos(length.saturating_mul(self.now.waiting.into()));
            level.waiting_max = level.waiting_max.max(self.now.waiting);
            level.most = level.most.max(self.now.running + self.now.waiting);
            self.since = end;
        }
    }
}

impl Question for Levels {
    type Answer = Vec<Curve>;

    fn begin(&mut self, state: &State) {
        self.machine.now = Load { running: state.running(), waiting: state.waiting() };
        for index in 0..if self.parts.is_empty() { 0 } else { state.cpus().len() } {
            self.look(Cpu(u16::try_from(index).unwrap_or(u16::MAX)), state);
        }
    }

    fn see(&mut self, change: &Change, state: &State) {
        self.machine.advance(state.now().min(self.window.end).0, &self.edges);
        self.machine.now = Load { running: state.running(), waiting: state.waiting() };
        if self.parts.is_empty() {
            return;
        }
        let cpus = match *change {
            Change::Switch(switch) => [Some(switch.cpu), switch.wait.map(|wait| wait.cpu)],
            Change::Runnable(woken) => [woken.last_cpu, Some(woken.waker.cpu)],
            Change::Placed { cpu, from, .. } => [Some(cpu), from],
            Change::Moved(_) => change.touched(state),
            Change::Forgotten {
                was: Activity::Running { cpu } | Activity::Waiting { cpu, .. },
                ..
            } => [Some(cpu), None],
            Change::Lost { cpu, .. } => [Some(cpu), None],
            _ => [None, None],
        };
        for cpu in cpus.into_iter().flatten() {
            self.look(cpu, state);
        }
    }

    fn answer(mut self, state: &State) -> Vec<Curve> {
        let end = state.window().end.min(self.window.end).0;
        let count = |cpus: usize| u32::try_from(cpus).unwrap_or(u32::MAX);
        self.machine.advance(end, &self.edges);
        let cpus = count(state.observed_cpus().count());
        let mut curves = vec![Curve { name: String::new(), cpus, levels: self.machine.levels }];
        for (name, cpus, mut part) in self.parts {
            part.advance(end, &self.edges);
            // A topology can know CPUs that the trace never saw: nothing can run there.
            let seen = state.observed_cpus().filter(|(cpu, _)| cpus.contains(*cpu)).count();
            curves.push(Curve { name, cpus: count(seen), levels: part.levels });
        }
        curves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_timeline::{ask, notation, span_of};

    #[test]
    fn columns_sum_up_what_ran_and_waited_and_parts_add_up_to_the_machine() {
        let text = "
            0 | AAAABBBB..AA
              |  bbb
            1 | ..CC....BB..
            at 1: A wakes B";
        let trace = notation::parse(text).unwrap();
        let span = span_of(&mut trace.source()).unwrap();
        let parts = ["0", "1-7"].map(|list| (list.to_owned(), list.parse().unwrap())).to_vec();
        let reply = ask(&mut trace.source(), Levels::new(span, 12, parts)).unwrap();
        let [machine, zero, one] = &reply.answer[..] else { panic!("three curves") };
        assert_eq!(machine.cpus, 2);
        assert_eq!((zero.cpus, one.cpus), (1, 1), "CPUs that the trace has");
        assert!(machine.lost() >= Nanos(3_000));
        for (index, level) in machine.levels.iter().enumerate() {
            let a = zero.levels[index];
            let b = one.levels[index];
            assert_eq!(level.running, a.running + b.running, "column {index}");
            assert_eq!(level.waiting, a.waiting + b.waiting, "column {index}");
        }
        assert_eq!(zero.levels[2].waiting, Nanos(1_000), "B waits on CPU 0");
        // A mean over all of it hides that three tasks were runnable at once.
        let reply = ask(&mut trace.source(), Levels::new(span, 1, Vec::new())).unwrap();
        let whole = &reply.answer[0].levels[0];
        assert!((whole.running + whole.waiting).0 < 2 * span.duration().0);
        assert_eq!((whole.most, whole.waiting_max), (3, 1));
    }
}
