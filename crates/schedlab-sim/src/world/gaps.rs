//! Gaps: times in which interrupts or the hypervisor have a CPU and its task does nothing.
//!
//! The clock of the runqueue goes on in a gap, the clock by which tasks are charged stands still ([`crate::Scene`],
//! `task_clock`). What else happens to the CPU meanwhile waits for the gap's end: interrupts are off, or the CPU does
//! not exist. A CPU that idles has no gaps: nothing would wait for them but a wakeup. Load averages by interrupts are
//! left out (`update_irq_load_avg`).
//!
//! Where a kernel's own code decides, it learns of a gap at its end: of an interrupt that took so long, and of what the
//! hypervisor took. Its configuration says who is charged for that.

use super::{Happening, World};

/// What takes a CPU from its tasks, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub cpu: usize,
    /// The time from one gap to the next, in nanoseconds; more than 0.
    pub period: u64,
    /// How long each gap is, in nanoseconds; less than the period.
    pub length: u64,
    /// When the first gap begins, in nanoseconds on the world's clock.
    pub first: u64,
    /// Whether the hypervisor takes it; otherwise it is an interrupt.
    pub is_steal: bool,
}

/// A source of gaps, and whether its next one is planned.
pub(super) struct Source {
    gap: Gap,
    armed: bool,
}

impl World {
    /// Interrupts, or the hypervisor, take CPUs from their tasks. Call it before the load begins.
    pub fn set_gaps(&mut self, gaps: &[Gap]) {
        self.extras.gaps = gaps.iter().map(|&gap| Source { gap, armed: false }).collect();
    }

    /// Time that interrupts and the hypervisor have taken from tasks of a CPU, in nanoseconds, all of a gap under way
    /// included.
    #[must_use]
    pub fn gone_ns(&self, cpu: usize) -> u64 {
        self.scene.cpus[cpu].gone
    }

    pub(super) fn is_in_gap(&self, cpu: usize) -> bool {
        self.scene.cpus[cpu].gap_until > self.scene.now
    }

    /// A CPU became busy: its next gaps are planned.
    pub(super) fn arm_gaps(&mut self, cpu: usize) {
        let now = self.scene.now;
        for (number, source) in self.extras.gaps.iter_mut().enumerate() {
            if source.gap.cpu == cpu && !std::mem::replace(&mut source.armed, true) {
                let Gap { period, first, .. } = source.gap;
                let past = now.saturating_sub(first);
                let at = first + past.div_ceil(period.max(1)) * period;
                self.agenda.post(at, cpu, Happening::Gap(number));
            }
        }
    }

    /// A gap begins, or the one under way becomes longer.
    pub(super) fn gap(&mut self, number: usize) {
        let Gap { cpu, period, length, is_steal, .. } = self.extras.gaps[number].gap;
        if self.scene.cpus[cpu].running.is_none() {
            self.extras.gaps[number].armed = false;
            return;
        }
        self.agenda.post(self.scene.now + period, cpu, Happening::Gap(number));
        let from = self.time_of(cpu);
        let of = &mut self.scene.cpus[cpu];
        of.gap_until = of.gap_until.max(from) + length;
        of.gone += length;
        let until = of.gap_until;
        self.agenda.post(until, cpu, Happening::GapEnds(cpu));
        self.respeed(cpu);
        self.keep_gap_for_code(cpu, length, is_steal);
    }

    pub(super) fn gap_ends(&mut self, cpu: usize) {
        if !self.is_in_gap(cpu) {
            self.respeed(cpu);
            self.look(cpu);
            self.comes_back(cpu);
        }
    }

    /// Whether something waits for the end of its CPU's gap.
    pub(super) fn is_put_off(&mut self, happening: Happening) -> bool {
        let cpu = match self.cpu_of(happening) {
            Some(cpu) if !matches!(happening, Happening::Alarm(_)) => cpu,
            _ => return false,
        };
        let waits = self.is_in_gap(cpu);
        if waits {
            self.agenda.post(self.scene.cpus[cpu].gap_until, cpu, happening);
        }
        waits
    }

    /// The CPU at which something happens; `None` if that is no single one, or the world's own affair.
    pub(super) fn cpu_of(&self, happening: Happening) -> Option<usize> {
        match happening {
            Happening::Timer(task, ..) => Some(self.scene.tasks[task.index()].cpu),
            Happening::Arrive(cpu, _) | Happening::Resched(cpu) | Happening::TickOf(cpu) => {
                Some(cpu)
            }
            Happening::Push(push) => Some(push.from),
            Happening::Alarm(alarm) => Some(alarm.cpu),
            Happening::Clock { cpu, .. } | Happening::Interrupt(cpu) | Happening::WayOut(cpu) => {
                Some(cpu)
            }
            _ => None,
        }
    }
}
