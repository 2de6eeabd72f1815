//! How fast CPUs work: their own speed, which may change, and the busy threads of their core.

use super::{Happening, World};
use crate::policy_view::FULL_SPEED;
use schedlab_model::{Context, Phase, Pid, What};

impl World {
    /// CPUs change their speed while the load runs: each a time since the load began, the CPU, and its speed from then
    /// on in millionths of full speed. Call it before the load begins.
    pub fn set_speeds_over_time(&mut self, changes: &[(u64, usize, u64)]) {
        self.slowing = changes.to_vec();
    }

    /// Each of these changes becomes a mark of a recording. The first has the id `first`, and ids ascend.
    pub(crate) fn mark_speeds(&mut self, first: u32) {
        self.speed_marks = Some(first);
    }

    /// The load begins: changes of speeds are planned.
    pub(super) fn plan_speeds(&mut self) {
        for (number, &(after, cpu, _)) in self.slowing.iter().enumerate() {
            let at = self.scene.now.saturating_add(after);
            self.agenda.post(at, cpu, Happening::Speed(number));
        }
    }

    pub(super) fn change_speed(&mut self, number: usize) {
        let (_, cpu, speed) = self.slowing[number];
        if let Some(first) = self.speed_marks {
            // It concerns the CPU and no task.
            let id = first + number as u32;
            let what = What::Mark { pid: Pid::IDLE, id, phase: Phase::Point, request: 0 };
            self.emit(cpu, Context::HardIrq, what);
        }
        self.scene.hardware.set_speed(cpu, speed);
        self.respeed(cpu);
    }

    /// The kernel's own code changes the frequency of a CPU.
    pub(super) fn change_frequency(&mut self, cpu: usize, khz: u64) {
        self.tell_frequency(cpu, khz);
        self.set_frequency(cpu, khz);
    }

    /// The CPU works in proportion to its frequency.
    pub(super) fn set_frequency(&mut self, cpu: usize, khz: u64) {
        let Some(most) = self.most_frequency(cpu) else { return };
        let frequencies = &mut self.extras.frequencies;
        frequencies.resize(self.scene.cpus.len(), FULL_SPEED);
        frequencies[cpu] = khz * FULL_SPEED / most;
        self.respeed(cpu);
    }

    /// A CPU became busy or idle: the other threads of its core become slower or faster.
    pub(super) fn core_changes(&mut self, cpu: usize) {
        if self.scene.cpus[cpu].running.is_some() {
            self.arm_gaps(cpu);
        }
        if self.config.turns || self.config.smt_speed == FULL_SPEED {
            return;
        }
        for at in 0..self.scene.hardware.siblings(cpu).len() {
            let thread = self.scene.hardware.siblings(cpu)[at];
            self.respeed(thread);
        }
    }

    /// The speed of a CPU now; work under way goes on at it.
    pub(super) fn respeed(&mut self, cpu: usize) {
        let own = self.scene.hardware.speed(cpu);
        let own = match self.extras.frequencies.get(cpu) {
            Some(part) => (own * part / FULL_SPEED).max(1),
            None => own,
        };
        let threads = self.scene.hardware.siblings(cpu);
        let shares = threads
            .iter()
            .any(|&thread| thread != cpu && self.scene.cpus[thread].running.is_some());
        let speed = match shares {
            _ if self.is_in_gap(cpu) || self.stands_still(cpu) => 0,
            true if !self.config.turns => (own * self.config.smt_speed / FULL_SPEED).max(1),
            _ => own,
        };
        let speed = self.extras.bandwidth.as_ref().map_or(speed, |of| of.limited(cpu, speed));
        let speed = self.extras.noise.as_ref().map_or(speed, |_| super::noise::marked(speed));
        if speed == self.speeds[cpu] {
            return;
        }
        // While an operation takes effect its CPU has no piece of work: the next one begins at the new speed.
        let running = self.scene.cpus[cpu].running.filter(|_| self.acting != Some(cpu));
        if let Some(task) = running {
            self.pause(cpu, task);
            self.speeds[cpu] = speed;
            self.go(cpu, task);
        } else {
            self.speeds[cpu] = speed;
        }
    }
}
