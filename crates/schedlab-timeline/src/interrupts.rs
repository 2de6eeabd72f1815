//! How much of a task's run time interrupts took: the tracepoints of `irq` and `irq_vectors` whose names end in
//! `_entry` and `_exit`.
//!
//! Run time keeps this time, as perf's does. Nested interrupts count once. As in the kernel's accounting
//! (`irqtime_account_irq`), softirqs that `ksoftirqd` performs are its own work and no interrupt.

use crate::change::Switch;
use crate::known_formats::KnownFormats;
use crate::state::{Occupant, State};
use schedlab_model::{Cpu, Nanos, OtherFormat};

/// Interrupt time of the tasks that run, CPU by CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupts {
    /// By the index that an event carries; learnt as sources learn them.
    edges: KnownFormats<Edge>,
    cpus: Vec<CpuInterrupts>,
    seen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    Entry,
    Exit,
}

#[derive(Clone, Copy, Debug, Default)]
struct CpuInterrupts {
    /// Interrupts that are under way.
    depth: u32,
    /// When the outermost one began.
    since: Nanos,
    /// Whether `depth` is known: since the first entry, or the first switch.
    known: bool,
    /// Since the last switch.
    sum: Nanos,
}

impl Edge {
    fn of(format: &OtherFormat) -> Option<Self> {
        // Perfetto's generic events tell no system.
        let system = matches!(format.system.as_str(), "irq" | "irq_vectors" | "");
        let known = ["irq_handler_", "softirq_"].iter().any(|name| format.name.starts_with(name));
        let edge = match format.name.rsplit_once('_')?.1 {
            "entry" => Self::Entry,
            "exit" => Self::Exit,
            _ => return None,
        };
        (system && (known || format.system == "irq_vectors")).then_some(edge)
    }
}

impl Interrupts {
    /// Whether any interrupt was seen: otherwise they were not recorded.
    pub(crate) const fn seen(&self) -> bool {
        self.seen
    }

    fn here(&mut self, cpu: Cpu) -> &mut CpuInterrupts {
        if cpu.index() >= self.cpus.len() {
            self.cpus.resize(cpu.index() + 1, CpuInterrupts::default());
        }
        &mut self.cpus[cpu.index()]
    }

    /// A tracepoint beyond the scheduler's fired.
    pub(crate) fn other(&mut self, at: Nanos, cpu: Cpu, format: u16, state: &State) {
        let Some(edge) = self.edges.learn(format, state.others(), Edge::of) else { return };
        self.seen = true;
        let from = state.cpu(cpu).map_or(at, |here| here.since).max(state.window().start);
        let here = self.here(cpu);
        match edge {
            Edge::Entry => {
                if here.depth == 0 {
                    here.since = at;
                }
                here.depth += 1;
                here.known = true;
            }
            // It began before anything was seen here, or before the window.
            Edge::Exit if !here.known => {
                here.sum += at - from;
                here.known = true;
            }
            Edge::Exit => {
                here.depth = here.depth.saturating_sub(1);
                if here.depth == 0 {
                    here.sum += at - std::mem::replace(&mut here.since, at);
                }
            }
        }
    }

    /// Whether one is handled on a CPU now.
    pub(crate) fn is_under_way(&self, cpu: Cpu) -> bool {
        self.cpus.get(cpu.index()).is_some_and(|here| here.depth > 0)
    }

    /// Events of a CPU are missing.
    pub(crate) fn lost(&mut self, cpu: Cpu) {
        let sum = self.here(cpu).sum;
        *self.here(cpu) = CpuInterrupts { sum, ..CpuInterrupts::default() };
    }

    /// The CPU's occupant changed: the interrupt time since the last change. No interrupt lasts over a switch, so
    /// one that seems to has lost its exit, and does not count.
    #[inline]
    pub(crate) fn switched(&mut self, switch: &Switch, state: &State) -> Nanos {
        let Some(here) = self.cpus.get_mut(switch.cpu.index()) else { return Nanos::ZERO };
        let known = switch.left.is_some();
        let sum = std::mem::replace(here, CpuInterrupts { known, ..CpuInterrupts::default() }).sum;
        of(switch.was, sum, state)
    }

    /// The same at the end of the window, in which one may still be under way.
    pub(crate) fn open(&mut self, cpu: Cpu, was: Occupant, end: Nanos, state: &State) -> Nanos {
        let Some(here) = self.cpus.get(cpu.index()).copied() else { return Nanos::ZERO };
        let open = if here.depth > 0 { end - here.since } else { Nanos::ZERO };
        of(was, here.sum + open, state)
    }
}

/// What of `sum` is the occupant's interrupt time.
fn of(was: Occupant, sum: Nanos, state: &State) -> Nanos {
    match was {
        Occupant::Task(task) if sum > Nanos::ZERO => {
            if state.is_ksoftirqd(task) {
                Nanos::ZERO
            } else {
                sum
            }
        }
        _ => Nanos::ZERO,
    }
}
