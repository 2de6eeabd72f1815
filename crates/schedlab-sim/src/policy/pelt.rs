//! Load averages by the kernel's integer tables (Linux 6.1, kernel/sched/pelt.c and sched-pelt.h).
//!
//! Time counts in periods of 1,024 µs (of 1,024 ns each microsecond). A period that lies 32 periods back counts half.

/// `y^n * 2^32` for n below 32, where `y^32` is one half (`runnable_avg_yN_inv`).
const DECAY: [u32; 32] = [
    0xffff_ffff,
    0xfa83_b2da,
    0xf525_7d14,
    0xefe4_b99a,
    0xeac0_c6e6,
    0xe5b9_06e6,
    0xe0cc_deeb,
    0xdbfb_b796,
    0xd744_fcc9,
    0xd2a8_1d91,
    0xce24_8c14,
    0xc9b9_bd85,
    0xc567_2a10,
    0xc12c_4cc9,
    0xbd08_a39e,
    0xb8fb_af46,
    0xb504_f333,
    0xb123_f581,
    0xad58_3ee9,
    0xa9a1_5ab4,
    0xa5fe_d6a9,
    0xa270_4302,
    0x9ef5_325f,
    0x9b8d_39b9,
    0x9837_f050,
    0x94f4_efa8,
    0x91c3_d373,
    0x8ea4_398a,
    0x8b95_c1e3,
    0x8898_0e80,
    0x85aa_c367,
    0x82cd_8698,
];
/// The sum of all periods that were busy for ever (`LOAD_AVG_MAX`).
const MAX: u64 = 47_742;
const PERIOD: u64 = 1_024;
/// The least sum of the time that an average of 1 stands for (`PELT_MIN_DIVIDER`).
const LEAST_DIVIDER: u64 = MAX - PERIOD;

/// A load after this number of periods (`decay_load`).
fn decay(value: u64, periods: u64) -> u64 {
    if periods > 32 * 63 {
        return 0;
    }
    let factor = u128::from(DECAY[(periods % 32) as usize]);
    ((u128::from(value >> (periods / 32)) * factor) >> 32) as u64
}

/// A signal: of a task, or of all that is queued on a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Average {
    /// Up to when it is accounted, in nanoseconds.
    at: u64,
    /// Microseconds of the current period that have passed.
    part: u64,
    pub(super) load_sum: u64,
    runnable_sum: u64,
    pub(super) util_sum: u64,
    /// Of a task: its weight times the share of time that it was runnable. Of a CPU: the sum over its tasks, those
    /// that sleep included until they fade.
    pub(super) load: u64,
    /// The runnable tasks on average, in 1,024ths; of a task the share of time that it was runnable.
    pub(super) runnable: u64,
    /// The share of time that it ran, in 1,024ths.
    pub(super) util: u64,
}

impl Average {
    /// A task that has just begun: as if it had always been runnable (`init_entity_runnable_average`).
    pub(super) fn of_new(now: u64, weight: u64) -> Self {
        Self { at: now, load: weight, load_sum: MAX - PERIOD, ..Self::default() }
    }

    /// The use that a task is taken to make of its first CPU, whose averages are `cpu`: its part of what is used
    /// there, and at most half of what is free of its `capacity` (`post_init_entity_util_avg`).
    pub(super) fn guess(&mut self, cpu: &Self, capacity: u64, weight: u64) {
        let most = capacity.saturating_sub(cpu.util) / 2;
        let guess = match cpu.util {
            0 => most,
            util => (util * weight / (cpu.load + 1)).min(most),
        };
        self.util = guess;
        self.runnable = guess;
        self.util_sum = guess * self.divider();
        self.runnable_sum = guess * self.divider();
    }

    /// Whether a CPU was busy all the time that counts (`update_idle_rq_clock_pelt`).
    pub(super) fn is_full(&self) -> bool {
        self.util_sum >= ((MAX - PERIOD) << 10) - MAX
    }

    pub(super) fn divider(&self) -> u64 {
        MAX - PERIOD + self.part
    }

    /// What a member's average was is no longer in a queue's. A sum never falls below what the average stands for.
    pub(super) fn lose_load(&mut self, load: u64, sum: u64) {
        self.load = self.load.saturating_sub(load);
        self.load_sum = self.load_sum.saturating_sub(sum).max(self.load * LEAST_DIVIDER);
    }

    pub(super) fn lose_util(&mut self, util: u64, sum: u64) {
        self.util = self.util.saturating_sub(util);
        self.util_sum = self.util_sum.saturating_sub(sum).max(self.util * LEAST_DIVIDER);
    }

    /// In place of what a member's average is, a queue's has this load (`update_tg_cfs_load`).
    pub(super) fn gain_load(&mut self, member: &Self, weight: u64, load: u64, sum: u64) {
        let [load, sum] = [
            load as i64 - member.load as i64,
            (weight * sum) as i64 - (weight * member.load_sum) as i64,
        ];
        self.load = self.load.saturating_add_signed(load);
        self.load_sum = self.load_sum.saturating_add_signed(sum).max(self.load * LEAST_DIVIDER);
    }

    pub(super) fn gain_util(&mut self, member: &Self, util: u64, sum: u64) {
        let [util, sum] = [util as i64 - member.util as i64, sum as i64 - member.util_sum as i64];
        self.util = self.util.saturating_add_signed(util);
        self.util_sum = self.util_sum.saturating_add_signed(sum).max(self.util * LEAST_DIVIDER);
    }

    /// The sums that stand for a task's averages where periods lie as in `queue` (`attach_entity_load_avg`).
    pub(super) fn align(&mut self, queue: &Self, weight: u64) {
        let divider = queue.divider();
        (self.at, self.part) = (queue.at, queue.part);
        self.util_sum = self.util * divider;
        self.runnable_sum = self.runnable * divider;
        let sum = self.load * divider;
        self.load_sum = if weight < sum { sum / weight } else { 1 };
    }

    /// Accounts up to `now`. `load` was queued since the last time (of a task: 1 while it is runnable), each unit of it
    /// counts `weight`, and this many tasks were `runnable`.
    pub(super) fn update(
        &mut self,
        now: u64,
        load: u64,
        runnable: u64,
        running: bool,
        weight: u64,
    ) {
        let delta = now.saturating_sub(self.at) >> 10;
        if delta == 0 {
            return;
        }
        self.at += delta << 10;
        let whole = delta + self.part;
        let periods = whole / PERIOD;
        let mut contribution = delta;
        if periods > 0 {
            self.load_sum = decay(self.load_sum, periods);
            self.runnable_sum = decay(self.runnable_sum, periods);
            self.util_sum = decay(self.util_sum, periods);
            let rest = whole % PERIOD;
            let first = decay(PERIOD - self.part, periods);
            contribution = first + (MAX - decay(MAX, periods) - PERIOD) + rest;
            self.part = rest;
        } else {
            self.part = whole;
        }
        self.load_sum += load * contribution;
        self.runnable_sum += (runnable * contribution) << 10;
        if running {
            self.util_sum += contribution << 10;
        }
        if periods > 0 {
            self.load = weight * self.load_sum / self.divider();
            self.runnable = self.runnable_sum / self.divider();
            self.util = self.util_sum / self.divider();
        }
    }

    /// From now on it is accounted by a clock that shows `there` where the one before shows `here`.
    pub(super) fn change_clock(&mut self, here: u64, there: u64) {
        self.at = self.at.wrapping_add(there.wrapping_sub(here));
    }

    /// A task's load joins a CPU (`attach_entity_load_avg`).
    pub(super) fn attach(&mut self, task: &Self) {
        self.load += task.load;
        self.runnable += task.runnable;
        self.util += task.util;
        self.load_sum += task.load * self.divider();
        self.runnable_sum += task.runnable * self.divider();
        self.util_sum += task.util * self.divider();
    }

    /// A task's load leaves a CPU (`detach_entity_load_avg`).
    pub(super) fn detach(&mut self, task: &Self) {
        self.load = self.load.saturating_sub(task.load);
        self.runnable = self.runnable.saturating_sub(task.runnable);
        self.util = self.util.saturating_sub(task.util);
        self.load_sum = self.load_sum.saturating_sub(task.load * self.divider());
        self.runnable_sum = self.runnable_sum.saturating_sub(task.runnable * self.divider());
        self.util_sum = self.util_sum.saturating_sub(task.util * self.divider());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_024 * 1_024;

    #[test]
    fn the_table_is_a_half_at_32_periods() {
        for (n, value) in DECAY.iter().enumerate() {
            let exact = 0.5_f64.powf(n as f64 / 32.0) * 4_294_967_295.0;
            assert!((f64::from(*value) - exact).abs() < 2.0, "{n}");
        }
        assert_eq!((decay(1_000, 32), decay(1_000, 64), decay(u64::MAX, 2_017)), (499, 249, 0));
    }

    #[test]
    fn a_busy_cpu_approaches_its_load_and_an_idle_one_forgets_it() {
        let mut cpu = Average::default();
        (1..=400).for_each(|n| cpu.update(n * MS, 1_024, 1, true, 1));
        assert!((1_015..=1_024).contains(&cpu.load), "{}", cpu.load);
        assert!((1_015..=1_024).contains(&cpu.util), "{}", cpu.util);
        assert!((1_015..=1_024).contains(&cpu.runnable), "{}", cpu.runnable);
        cpu.update(432 * MS, 0, 0, false, 1);
        assert!((505..=515).contains(&cpu.load), "{}", cpu.load);
    }

    #[test]
    fn a_task_that_runs_4_ms_of_8_has_half_its_weight_as_load() {
        let mut task = Average::of_new(0, 1_024);
        assert_eq!(task.load, 1_024);
        let mut seen = Vec::new();
        for round in 1..=100 {
            task.update((8 * round - 4) * MS, 1, 1, true, 1_024);
            task.update(8 * round * MS, 0, 0, false, 1_024);
            seen.push(task.load);
        }
        let last = seen[99];
        assert!((450..560).contains(&last), "{last}");
    }

    #[test]
    fn what_was_attached_can_be_detached() {
        let mut cpu = Average::default();
        let task = Average::of_new(0, 1_024);
        cpu.attach(&task);
        assert_eq!(cpu.load, 1_024);
        cpu.detach(&task);
        assert_eq!((cpu.load, cpu.load_sum), (0, 0));
    }
}
