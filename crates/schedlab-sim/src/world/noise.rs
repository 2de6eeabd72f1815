//! Costs that vary by chance: each piece of work of a CPU but computing, evenly around what it costs. Each CPU has a
//! stream of random numbers of its own.

use super::World;
use super::task::{Act, Phase};
use crate::policy_view::{FULL_SPEED, TaskId};
use schedlab_stats::Random;
use schedlab_workload::Op;

/// What makes costs vary.
pub(super) struct Noise {
    /// By how much at most, in millionths.
    most: u64,
    /// A stream for each CPU.
    dice: Vec<Random>,
}

/// A CPU's speed where costs vary: full speed is marked, so that only then work takes the way that looks at the noise.
pub(super) fn marked(speed: u64) -> u64 {
    if speed == FULL_SPEED { FULL_SPEED + 1 } else { speed }
}

impl World {
    /// Costs vary by up to `most` millionths. Call it before the load begins.
    pub fn set_noise(&mut self, most: u64, seed: u64) {
        if most == 0 {
            return;
        }
        let stream = |cpu: usize| Random::new(seed ^ 0x6e6f_6973_6500_0000 ^ ((cpu as u64) << 8));
        let dice = (0..self.speeds.len()).map(stream).collect();
        self.extras.noise = Some(Noise { most: most.min(FULL_SPEED), dice });
        (0..self.speeds.len()).for_each(|cpu| self.respeed(cpu));
    }

    /// What work of a task becomes by chance.
    pub(super) fn with_noise(&mut self, cpu: usize, task: TaskId, work: u64) -> u64 {
        let Some(noise) = &mut self.extras.noise else { return work };
        let body = &self.bodies[task.index()];
        let computes = matches!(body.act, Act::Op(Op::Compute { .. }));
        if computes && body.phase == Phase::Enter {
            return work;
        }
        let chance = noise.dice[cpu].below(2 * noise.most as usize + 1) as u64;
        let factor = FULL_SPEED - noise.most + chance;
        let work = u128::from(work) * u128::from(factor) / u128::from(FULL_SPEED);
        u64::try_from(work).unwrap_or(u64::MAX)
    }
}
