//! The comparison of placements, and their score beside naive rules.

use super::{Follower, Kind};
use crate::policy::Wake;
use crate::policy_view::TaskId;

/// History that load averages need before placements are scored, in nanoseconds.
pub const HISTORY_NS: u64 = 1_000_000_000;

/// The naive rules, by name.
const RULES: [&str; 3] = ["previous CPU", "waker's CPU", "first idle CPU"];

/// What the policy and the naive rules said of a wakeup.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    model: usize,
    naive: [usize; 3],
    new: bool,
    /// Whether the task may use more than one CPU.
    choice: bool,
}

/// How placements compare: of the wakeups where there was a choice and the naive rules disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// The number of wakeups that count.
    pub counted: u64,
    /// Number of counted wakeups where the policy chose the recorded CPU.
    pub model: u64,
    /// Number of counted wakeups where each naive rule chose it: the previous CPU, the waker's, the
    /// first idle one.
    pub naive: [u64; 3],
    /// Wakeups in the first second, in which load averages are being rebuilt.
    pub early: u64,
    /// Wakeups of tasks that may use one CPU only.
    pub bound: u64,
    /// Number of wakeups on which the naive rules agree; they are not counted.
    pub agreed: u64,
    /// Number of first wakeups after a fork; they are not counted.
    pub new: u64,
    /// Wakeups of tasks that had not left their queue, or that may use one CPU only: the kernel did not ask for a CPU.
    pub stayed: u64,
}

impl Score {
    /// The naive rule that is right most often: its name, and how often.
    #[must_use]
    pub fn best_naive(&self) -> (&'static str, u64) {
        let rules = RULES.iter().copied().zip(self.naive);
        rules.fold(
            ("", 0),
            |best, rule| if best.0.is_empty() || rule.1 > best.1 { rule } else { best },
        )
    }

    /// (model - best naive) / (1 - best naive); `None`: nothing counted, or the naive rule is always right.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        let naive = self.best_naive().1;
        let room = self.counted.checked_sub(naive).filter(|room| *room > 0)?;
        Some((self.model as f64 - naive as f64) / room as f64)
    }
}

impl Follower<'_> {
    /// Asks the policy and the naive rules where a waking task goes.
    pub(super) fn asks(&mut self, wake: &Wake) -> Asked {
        let model = self.policy.select(&self.scene, wake);
        let view = self.scene.task(wake.task);
        let cpus = 0..self.scene.cpus.len();
        let usable = cpus.clone().filter(|&cpu| view.may_use(cpu)).count();
        let idle = |&cpu: &usize| {
            view.may_use(cpu) && self.current[cpu].is_some_and(schedlab_model::Pid::is_idle)
        };
        let first = cpus.clone().find(idle).unwrap_or(view.cpu);
        let naive = [view.cpu, wake.cpu, first];
        Asked { model, naive, new: wake.new, choice: usable > 1 && cpus.len() > 1 }
    }

    /// The recording says where the task went.
    pub(super) fn judge_placement(&mut self, cpu: usize, task: TaskId, asked: &Asked, to: usize) {
        if self.scene.cpus.len() == 1 {
            return;
        }
        let early = self.began.is_some_and(|began| self.scene.now < began + HISTORY_NS);
        let score = &mut self.comparison.score;
        match asked {
            Asked { choice: false, .. } => score.bound += 1,
            Asked { new: true, .. } => score.new += 1,
            _ if early => score.early += 1,
            Asked { naive: [a, b, c], .. } if a == b && b == c => score.agreed += 1,
            Asked { model, naive, .. } => {
                score.counted += 1;
                score.model += u64::from(*model == to);
                for (right, rule) in score.naive.iter_mut().zip(naive) {
                    *right += u64::from(*rule == to);
                }
            }
        }
        if asked.choice && early {
            self.count(Kind::Placement).skipped += 1;
        } else if asked.choice && asked.model == to {
            self.count(Kind::Placement).same += 1;
        } else if asked.choice {
            let name = self.name(task);
            let words = |cpu: usize| format!("{name} wakes on CPU {cpu}");
            let (recorded, model) = (words(to), words(asked.model));
            self.differs(cpu, Kind::Placement, recorded, model);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_is_the_part_of_the_room_above_the_best_naive_rule() {
        let score = Score { counted: 100, model: 90, naive: [60, 80, 10], ..Score::default() };
        assert_eq!(score.best_naive(), ("waker's CPU", 80));
        assert!((score.value().unwrap() - 0.5).abs() < 1e-9);
        let worse = Score { model: 70, ..score };
        assert!((worse.value().unwrap() + 0.5).abs() < 1e-9);
        assert_eq!(Score::default().value(), None);
        assert_eq!(Score { naive: [100, 0, 0], ..score }.value(), None);
    }
}
