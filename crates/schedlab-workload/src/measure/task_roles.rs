//! Which task of a plan is what, and what its tasks measured together.

use super::{Moment, Tasks};
use crate::Series;
use crate::plan::{Plan, Task};
use crate::upstream::plat;
use schedlab_model::Nanos;
use schedlab_stats::Histogram;

#[derive(Clone, Debug)]
pub struct Shape {
    pub(crate) roles: Vec<u16>,
    pub(crate) groups: Vec<u32>,
    comms: Vec<String>,
    pub(crate) names: Vec<String>,
}

/// Tasks looked at for the run delay of their role: reading all of a big crew would be load.
const DELAYS_OF: usize = 64;

impl Shape {
    #[must_use]
    pub fn of(plan: &Plan, tasks: &[Task]) -> Self {
        Self {
            roles: tasks.iter().map(|task| task.role).collect(),
            groups: tasks.iter().map(|task| task.group).collect(),
            comms: tasks.iter().map(|task| task.comm.clone()).collect(),
            names: plan.roles.clone(),
        }
    }

    #[must_use]
    pub fn tasks(&self) -> usize {
        self.roles.len()
    }

    #[must_use]
    pub(crate) fn groups(&self) -> u32 {
        self.groups.iter().max().map_or(0, |last| last + 1)
    }

    #[must_use]
    pub fn name(&self, task: usize) -> String {
        format!("{} of group {}", self.names[usize::from(self.roles[task])], self.groups[task])
    }

    /// Samples by series and role, and counters, between two moments.
    pub(crate) fn since(
        &self,
        moment: &Moment,
        before: &Moment,
        plan: &Plan,
    ) -> (Vec<Series>, Vec<(String, u64)>) {
        let mut all: Vec<Series> = Vec::new();
        let twin = |series: usize| plan.in_buckets.iter().any(|(twin, _)| *twin as usize == series);
        for (series, metric) in plan.samples.iter().enumerate().filter(|(at, _)| !twin(*at)) {
            for (role, name) in self.names.iter().enumerate() {
                let mut histogram = Histogram::new();
                for task in (0..self.tasks()).filter(|&t| usize::from(self.roles[t]) == role) {
                    let at = task * plan.samples.len() + series;
                    histogram.merge(&moment.histograms[at].since(&before.histograms[at]));
                }
                if !histogram.is_empty() {
                    all.push(Series { metric: metric.clone(), of: name.clone(), histogram });
                }
            }
        }
        let width = plan.counters.len();
        let sum = |counter: usize| {
            (0..self.tasks())
                .map(|task| task * width + counter)
                .map(|at| moment.counters[at].wrapping_sub(before.counters[at]))
                .sum()
        };
        let counters = plan.counters.iter().enumerate();
        (all, counters.map(|(i, metric)| (metric.name.clone(), sum(i))).collect())
    }

    /// What was recorded in the original's buckets between two moments, by metric.
    pub(crate) fn in_buckets(
        &self,
        moment: &Moment,
        before: &Moment,
        plan: &Plan,
    ) -> Vec<(String, Vec<(u64, u64)>)> {
        let of = |twin: u32| {
            let mut histogram = Histogram::new();
            for task in 0..self.tasks() {
                let at = task * plan.samples.len() + twin as usize;
                histogram.merge(&moment.histograms[at].since(&before.histograms[at]));
            }
            plat::read(&histogram)
        };
        let name = |series: u32| plan.samples[series as usize].name.clone();
        plan.in_buckets.iter().map(|&(twin, series)| (name(series), of(twin))).collect()
    }

    /// Mean run delay per timeslice of each role's tasks.
    pub(crate) fn delays(&self, tasks: &dyn Tasks) -> Vec<(String, Nanos)> {
        let of_role = |role: usize| {
            let those = (0..self.tasks()).filter(|&t| usize::from(self.roles[t]) == role);
            mean_delay(those.take(DELAYS_OF).map(|task| tasks.waited(task)))
        };
        self.names.iter().enumerate().map(|(role, name)| (name.clone(), of_role(role))).collect()
    }
}

/// Run delay for each timeslice, of all tasks together; nothing where the kernel counts neither (a schedstat of
/// zeros).
fn mean_delay(tasks: impl Iterator<Item = (Nanos, u64)>) -> Nanos {
    let (delay, slices) = tasks.fold((0, 0), |(d, s), (delay, slices)| (d + delay.0, s + slices));
    Nanos(delay.checked_div(slices).unwrap_or(0))
}

impl Shape {
    /// A task's name as the plan has it.
    #[must_use]
    pub fn comm(&self, task: usize) -> &str {
        &self.comms[task]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_counts_no_run_delay_gives_none_and_no_division_by_zero() {
        // A kernel without CONFIG_SCHED_INFO has "0 0 0" in every schedstat.
        assert_eq!(mean_delay([(Nanos(0), 0), (Nanos(0), 0)].into_iter()), Nanos(0));
        assert_eq!(mean_delay(std::iter::empty()), Nanos(0));
        assert_eq!(mean_delay([(Nanos(900), 2), (Nanos(100), 3)].into_iter()), Nanos(200));
    }
}
