//! From a model to its knobs, and to the policy that schedules its tasks.

use super::name::Model;
use super::tuned::{Tuned, knob};
use crate::Hardware;
use crate::policy::{
    Cfs, CfsKnobs, Classes, Eevdf, Fifo, Group, Groups, Nested, Placer, Policy, SharedFifo,
};
use schedlab_model::Knob;
use schedlab_random::SplitMix64;
use schedlab_workload::knobs;

impl Model {
    /// All knobs with their values: those of the scheduler, then those of real-time tasks and of control groups.
    #[must_use]
    pub fn knobs(&self) -> Vec<Knob> {
        if self.code.is_some() {
            return self.knobs_of_code();
        }
        let mut knobs = self.tuned.knobs();
        let classes = &self.classes;
        let us = |ns: u64| Some((ns / 1_000).to_string());
        let own = match self.kernel {
            super::Kernel::Cfs61 => {
                [("rt_runtime", us(classes.rt_runtime)), ("rt_period", us(classes.rt_period))]
            }
            super::Kernel::Eevdf612 => [
                ("fair_server_runtime", Some(classes.server.runtime.to_string())),
                ("fair_server_period", Some(classes.server.period.to_string())),
            ],
            _ => return knobs,
        };
        let groups = [
            ("bandwidth_slice", us(self.bandwidth_slice)),
            ("cgroup_weight", None),
            ("cgroup_max", None),
            ("cgroup_burst", None),
        ];
        for (name, value) in own.into_iter().chain(groups) {
            let tunable = knobs::tunable(name).expect("the table has it");
            knobs.push(knob(name, value, tunable.unit, tunable.meaning));
        }
        knobs
    }

    /// The policy of the model, for these CPUs; chances come from `seed`. It has control groups, and classes above the fair
    /// ones, where a load has them.
    pub(super) fn policy_of(
        &self,
        hardware: &Hardware,
        seed: u64,
        groups: &[Group],
        above: bool,
    ) -> Box<dyn Policy> {
        if let Some(make) = self.own {
            return make(hardware);
        }
        let fair = match groups {
            [] => self.flat(hardware, seed),
            groups => self.grouped(hardware, seed, groups),
        };
        if above { Box::new(Classes::new(hardware.cpus(), self.classes, fair)) } else { fair }
    }

    fn grouped(&self, hardware: &Hardware, seed: u64, groups: &[Group]) -> Box<dyn Policy> {
        let cpus = hardware.cpus();
        let tick = 1_000_000_000 / self.hz;
        // The groups' schedulers place nothing: all tasks of the machine are placed together.
        let none = || Placer::new(1, self.placement);
        let make = || -> Box<dyn Nested> {
            match self.tuned {
                Tuned::Eevdf(knobs) => Box::new(Eevdf::new(cpus, knobs, none())),
                Tuned::Cfs(knobs) => Box::new(Cfs::new(cpus, knobs, none())),
                _ => Box::new(Cfs::new(cpus, CfsKnobs::of(cpus), none())),
            }
        };
        let placer = Placer::new(cpus, self.placement);
        let slice = self.bandwidth_slice;
        let mut groups = groups.to_vec();
        if let Tuned::Eevdf(_) = self.tuned {
            draw_phases(&mut groups, cpus, seed);
        }
        Box::new(Groups::new(&groups, hardware, tick, seed, slice, placer, &make))
    }

    fn flat(&self, hardware: &Hardware, seed: u64) -> Box<dyn Policy> {
        let cpus = hardware.cpus();
        let tick = 1_000_000_000 / self.hz;
        let placer = Placer::new(cpus, self.placement);
        match self.tuned {
            Tuned::Fifo { slice_ns } => Box::new(Fifo::new(cpus, slice_ns)),
            Tuned::Global { slice_ns } => Box::new(SharedFifo::of_machine(cpus, slice_ns)),
            Tuned::Llc { slice_ns } => Box::new(SharedFifo::of_llcs(hardware, slice_ns)),
            Tuned::Cfs(knobs) => {
                Box::new(Cfs::new(cpus, knobs, placer).balanced(hardware, tick, seed))
            }
            Tuned::Eevdf(knobs) => {
                Box::new(Eevdf::new(cpus, knobs, placer).balanced(hardware, tick, seed))
            }
        }
    }

    /// The model with one knob set.
    ///
    /// # Errors
    /// A sentence: no such knob here, or a value that is wrong.
    pub fn set(&mut self, knob: &str, value: &str) -> Result<(), String> {
        if self.code.is_some() {
            return self.set_in_code(knob, value);
        }
        let linux = self.kernel.is_linux();
        let eevdf = self.kernel == super::Kernel::Eevdf612;
        let microseconds = || -> Result<u64, String> {
            let tunable = knobs::tunable(knob).ok_or("unknown knob")?;
            let text = knobs::read(tunable, value)?;
            let time: i64 = text.parse().map_err(|_| {
                format!("invalid time '{value}': use a number and a unit, as in 3ms")
            })?;
            // -1 is no limit.
            Ok(u64::try_from(time).map_or(u64::MAX, |time| time.saturating_mul(1_000)))
        };
        match knob {
            "bandwidth_slice" if linux => self.bandwidth_slice = microseconds()?.max(1),
            "rt_runtime" if linux && !eevdf => self.classes.rt_runtime = microseconds()?,
            "rt_period" if linux && !eevdf => self.classes.rt_period = microseconds()?.max(1),
            "fair_server_runtime" if eevdf => self.classes.server.runtime = microseconds()? / 1_000,
            "fair_server_period" if eevdf => {
                let period = microseconds()? / 1_000;
                self.classes.server.period = period;
                self.classes.server.deadline = period;
            }
            _ => return self.tuned.set(knob, value),
        }
        Ok(())
    }
}

/// `init_cfs_bandwidth` of Linux 6.12: the periods of each group begin at a time of their own. Under the same seed they do
/// where those of the kernel's code do, which has drawn other numbers before: 16 bytes for each CPU
/// (`prandom_seed_full_state`), one for the root group and one more.
fn draw_phases(groups: &mut [Group], cpus: usize, seed: u64) {
    let mut random = SplitMix64::new(seed);
    for _ in 0..16 * cpus + 2 {
        random.bits();
    }
    for group in groups {
        let part = random.bits() >> 32;
        if let Some(limit) = &mut group.limit {
            limit.phase = (part * limit.period) >> 32;
        }
    }
}
