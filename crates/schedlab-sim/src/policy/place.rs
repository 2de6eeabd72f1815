//! Which CPU a waking task goes to.

use super::Wake;
use crate::scene::Scene;

/// Chooses a CPU for a task that wakes.
#[derive(Debug)]
pub struct Placer {
    cpus: usize,
}

impl Placer {
    /// For so many CPUs.
    #[must_use]
    pub const fn new(cpus: usize) -> Self {
        Self { cpus }
    }

    /// The CPU for a task; `queued` tells how many tasks are runnable on a CPU.
    pub(super) fn select(
        &mut self,
        scene: &Scene,
        wake: &Wake,
        queued: &dyn Fn(usize) -> usize,
    ) -> usize {
        let task = scene.task(wake.task);
        if self.cpus == 1 {
            return 0;
        }
        let load = |cpu: usize| queued(cpu) + scene.cpus[cpu].pending as usize;
        let free = |cpu: &usize| task.may_use(*cpu) && load(*cpu) == 0;
        let near = scene.hardware.llc_of(task.cpu).iter().copied();
        let usable = || (0..self.cpus).filter(|&cpu| task.may_use(cpu));
        if wake.new {
            return usable().min_by_key(|&cpu| load(cpu)).unwrap_or(task.cpu);
        }
        let idle = Some(task.cpu).filter(free).or_else(|| near.clone().find(free));
        let stay = || Some(task.cpu).filter(|&cpu| task.may_use(cpu));
        idle.or_else(stay).or_else(|| usable().next()).unwrap_or(task.cpu)
    }
}
