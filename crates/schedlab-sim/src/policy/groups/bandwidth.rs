//! Limits of groups (`cpu.max`; Linux 6.1.192, kernel/sched/fair.c: `account_cfs_rq_runtime`, `throttle_cfs_rq`,
//! `do_sched_cfs_period_timer`, `distribute_cfs_runtime`, `do_sched_cfs_slack_timer`).
//!
//! A group has a pool that is filled each period. A CPU takes a slice from it, and is throttled when it has used its
//! slice and the pool is empty. A CPU that has no task left gives back what it took, but for 1 ms.

/// What a group may use: an amount of time in each period, of all CPUs together. In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The quota of each period, in nanoseconds.
    pub quota: u64,
    /// The period, in nanoseconds (`cpu.max`: 100 ms).
    pub period: u64,
    /// How much of it may be saved for later (`cpu.max.burst`).
    pub burst: u64,
    /// When the first period ends; Linux 6.12 draws it, for 6.1 it is 0.
    pub phase: u64,
}

impl Limit {
    /// When the period ends (`hrtimer_forward_now`).
    fn end(&self, now: u64) -> u64 {
        (now + self.period - self.phase) / self.period * self.period + self.phase
    }
}

/// What a CPU keeps when it has no task left (`min_cfs_rq_runtime`).
const KEEPS: i64 = 1_000_000;
/// When time that was given back is handed out (`cfs_bandwidth_slack_period`).
const SLACK: u64 = 5_000_000;
/// How close to the next period that is not worth while (`min_bandwidth_expiration`).
const NEAR: u64 = 2_000_000;

/// What a group has left on one CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    remaining: i64,
    pub(super) throttled: bool,
}

#[derive(Debug)]
pub(super) struct Pool {
    limit: Limit,
    slice: u64,
    runtime: u64,
    /// When the period ends, while it is counted.
    pub(super) ends: Option<u64>,
    idle: bool,
    /// When time that was given back is handed out.
    pub(super) slack: Option<u64>,
    /// Both, as somebody was told last.
    told: [Option<u64>; 2],
    shares: Vec<Share>,
    /// Throttled CPUs, in the order in which they were throttled.
    waiting: Vec<usize>,
}

impl Pool {
    /// Of a limit, handed to CPUs in slices (`sched_cfs_bandwidth_slice_us`).
    pub(super) fn new(limit: Limit, slice: u64, cpus: usize) -> Self {
        let shares = vec![Share::default(); cpus];
        // `__refill_cfs_bandwidth_runtime` as the limit is set.
        let runtime = limit.quota;
        let waiting = Vec::new();
        let ends = None;
        let slack = None;
        let told = [None; 2];
        Self { limit, slice, runtime, ends, idle: false, slack, told, shares, waiting }
    }

    pub(super) fn is_throttled(&self, cpu: usize) -> bool {
        self.shares[cpu].throttled
    }

    /// A task of the group ran on the CPU and slept, at least a period ago.
    pub(super) fn has_run(&mut self, cpu: usize) {
        self.shares[cpu].remaining = KEEPS;
    }

    /// `__assign_cfs_rq_runtime`: whether the CPU has time.
    fn assign(&mut self, cpu: usize, now: u64, target: u64) -> bool {
        let share = &mut self.shares[cpu];
        let wanted = (target as i64 - share.remaining).max(0) as u64;
        if self.ends.is_none() {
            self.ends = Some(self.limit.end(now));
        }
        if self.runtime > 0 {
            let amount = self.runtime.min(wanted);
            self.runtime -= amount;
            self.idle = false;
            share.remaining += amount as i64;
        }
        share.remaining > 0
    }

    /// `account_cfs_rq_runtime`: the CPU used some time; whether it has none left.
    pub(super) fn pays(&mut self, cpu: usize, now: u64, time: u64) -> bool {
        let share = &mut self.shares[cpu];
        share.remaining -= time as i64;
        if share.remaining > 0 || share.throttled {
            return false;
        }
        !self.assign(cpu, now, self.slice)
    }

    /// `check_cfs_rq_runtime` and `throttle_cfs_rq`: whether the CPU is throttled from now on.
    pub(super) fn throttles(&mut self, cpu: usize, now: u64) -> bool {
        let share = &self.shares[cpu];
        if share.throttled || share.remaining > 0 || self.assign(cpu, now, 1) {
            return false;
        }
        self.shares[cpu].throttled = true;
        self.waiting.push(cpu);
        true
    }

    /// `return_cfs_rq_runtime`: the CPU has no task left.
    pub(super) fn returns(&mut self, cpu: usize, now: u64) {
        let share = &mut self.shares[cpu];
        let slack = share.remaining - KEEPS;
        if slack <= 0 || share.throttled {
            return;
        }
        share.remaining -= slack;
        self.runtime += slack as u64;
        let soon = self.ends.is_some_and(|ends| ends < now + SLACK + NEAR);
        if self.runtime > self.slice && !self.waiting.is_empty() && !soon {
            self.slack = self.slack.or(Some(now + SLACK));
        }
    }

    /// When the period ends and when time that was given back is handed out, as far as that is news.
    pub(super) fn news(&mut self) -> [Option<u64>; 2] {
        let now = [self.ends, self.slack];
        let told = std::mem::replace(&mut self.told, now);
        [0, 1].map(|which| now[which].filter(|_| now[which] != told[which]))
    }

    /// `distribute_cfs_runtime`: CPUs that may run again.
    fn distribute(&mut self) -> Vec<usize> {
        let mut free = Vec::new();
        for cpu in std::mem::take(&mut self.waiting) {
            let share = &mut self.shares[cpu];
            let wanted = (1 - share.remaining).max(0) as u64;
            let amount = wanted.min(self.runtime);
            self.runtime -= amount;
            share.remaining += amount as i64;
            if share.remaining > 0 {
                share.throttled = false;
                free.push(cpu);
            } else {
                self.waiting.push(cpu);
            }
        }
        free
    }

    /// `do_sched_cfs_period_timer`: CPUs that may run again.
    pub(super) fn next_period(&mut self, now: u64) -> Vec<usize> {
        let Limit { quota, burst, .. } = self.limit;
        self.runtime = (self.runtime + quota).min(quota + burst);
        let throttled = !self.waiting.is_empty();
        if self.idle && !throttled {
            self.ends = None;
            return Vec::new();
        }
        self.ends = Some(self.limit.end(now));
        self.idle = !throttled;
        self.distribute()
    }

    /// `do_sched_cfs_slack_timer`: CPUs that may run again.
    pub(super) fn hands_out(&mut self, now: u64) -> Vec<usize> {
        self.slack = None;
        let soon = self.ends.is_some_and(|ends| ends < now + NEAR);
        match !soon && self.runtime > self.slice {
            true => self.distribute(),
            false => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_cpu_takes_slices_until_the_pool_is_empty() {
        let limit = Limit { quota: 12 * MS, period: 100 * MS, burst: 0, phase: 0 };
        let mut pool = Pool::new(limit, 5 * MS, 2);
        assert!(!pool.pays(0, 0, 0));
        assert_eq!(pool.ends, Some(100 * MS));
        assert!(!pool.pays(0, 5 * MS, 5 * MS));
        assert!(!pool.pays(1, 5 * MS, 0));
        // CPU 0 has 5 ms, CPU 1 the 2 ms that were left.
        assert!(pool.pays(1, 7 * MS, 2 * MS) && pool.throttles(1, 7 * MS));
        // CPU 0 idles with 4 ms: it gives back 3, which are less than a slice.
        assert!(!pool.pays(0, 8 * MS, MS));
        pool.returns(0, 8 * MS);
        assert_eq!((pool.runtime, pool.slack), (3 * MS, None));
        assert_eq!(pool.next_period(100 * MS), [1]);
        // The pool never has more than the quota: 3 and 12 ms make 12, of which CPU 1 got a nanosecond.
        assert_eq!((pool.runtime, pool.ends), (12 * MS - 1, Some(200 * MS)));
        assert!(!pool.is_throttled(1));
        assert!(pool.next_period(200 * MS).is_empty() && pool.next_period(300 * MS).is_empty());
        assert_eq!(pool.ends, None);
    }
}
