//! Who was on each CPU in a window, and what was there during the waits of some tasks.
//!
//! Memory: one entry for each time that a task ran, or that a CPU was unknown, in the window.

use crate::ran_instead::Meanwhile;
use crate::state::Occupant;
use crate::task::TaskId;
use schedlab_model::{Cpu, Nanos, Span};
use std::collections::BTreeMap;

/// Who was on each CPU.
#[derive(Clone, Debug, Default)]
pub struct Occupants {
    /// By CPU, in order of time and without overlap. Between them the CPU idled.
    cpus: Vec<Vec<(Span, Occupant)>>,
}

impl Occupants {
    /// A CPU had this occupant for a while; it was not idle. In any order.
    pub(crate) fn add(&mut self, cpu: Cpu, span: Span, who: Occupant) {
        if cpu.index() >= self.cpus.len() {
            self.cpus.resize(cpu.index() + 1, Vec::new());
        }
        self.cpus[cpu.index()].push((span, who));
    }

    /// Sorts the occupants by time, after all were added.
    pub(crate) fn sort(&mut self) {
        for cpu in &mut self.cpus {
            cpu.sort_unstable_by_key(|(span, _)| span.start);
        }
    }

    /// What was on CPUs during waits for them, summed.
    #[must_use]
    pub fn during(&self, waits: impl IntoIterator<Item = (Cpu, Span)>) -> Meanwhile {
        let mut ran = BTreeMap::<TaskId, Nanos>::new();
        let mut idle = Nanos::ZERO;
        let mut unknown = Nanos::ZERO;
        for (cpu, span) in waits {
            let mut free = span.duration();
            for (time, who) in self.within(cpu, span) {
                match who {
                    Occupant::Task(task) => *ran.entry(task).or_default() += time,
                    Occupant::Unknown => unknown += time,
                    Occupant::Idle => continue,
                }
                free -= time;
            }
            idle += free;
        }
        Meanwhile::of(ran, idle, unknown)
    }

    /// The occupants of a CPU in a part of the window, and for how long.
    fn within(&self, cpu: Cpu, part: Span) -> impl Iterator<Item = (Nanos, Occupant)> + '_ {
        let all = self.cpus.get(cpu.index()).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|(span, _)| span.end <= part.start);
        let here = all[first..].iter().take_while(move |(span, _)| span.start < part.end);
        here.map(move |(span, who)| (span.intersection(part).duration(), *who))
    }
}
