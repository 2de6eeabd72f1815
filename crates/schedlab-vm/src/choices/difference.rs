//! How often choices of each class have each answer, on two kernels and on placebos of the first one.
//!
//! A kernel is one value: the share of its choices of a class that have the answer yes, over all its starts, on the
//! scale on which shares of any size vary alike (arc sine of the square root). The kernels that differ from the
//! first side in neutral code tell how much this value varies. The second side differs if its value is outside of
//! all of theirs, and is less likely than 1 in 20 to come from them: by the prediction interval of Student's t, with
//! Holm's correction for the number of classes.

use super::{Choice, Class};
use schedlab_stats::{holm, t_cdf};
use std::collections::{BTreeMap, BTreeSet};

/// The chance that a kernel which differs in neutral code only is called different in any class.
const LEVEL: f64 = 0.05;
/// A class counts if a kernel has at least this number of choices of it.
const LEAST: usize = 20;
/// Kernels that tell how much neutral code changes.
const KERNELS: usize = 4;

/// How many choices of a class have the answer yes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Number of choices that have the answer yes.
    pub yes: usize,
    /// Number of all choices of the class.
    pub all: usize,
}

impl Answers {
    /// The share of those with the answer yes.
    #[must_use]
    pub(crate) fn share(self) -> f64 {
        self.yes as f64 / self.all.max(1) as f64
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self { yes: self.yes + other.yes, all: self.all + other.all }
    }

    /// The share on a scale on which its variance depends on the number of choices alone (Anscombe, "The
    /// transformation of Poisson, binomial and negative-binomial data", Biometrika 1948).
    fn angle(self) -> f64 {
        ((self.yes as f64 + 0.375) / (self.all as f64 + 0.75)).sqrt().asin()
    }

    /// The variance of the angle if each choice were drawn alone.
    fn variance(self) -> f64 {
        1.0 / (4.0 * self.all as f64 + 2.0)
    }
}

/// A class of choices on both sides, and what neutral code makes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The choices that are compared.
    pub class: Class,
    /// Those of the first side.
    pub before: Answers,
    /// Those of the second side.
    pub after: Answers,
    /// Those of each kernel that differs from the first side in neutral code.
    pub placebos: Vec<Answers>,
    /// By how many times the spread of the neutral kernels the second side differs from their mean; positive: it has
    /// the answer yes more often.
    pub distance: f64,
    /// The chance of such a distance in any class without a difference; 1 where the second side is no further away
    /// than a neutral kernel.
    pub p: f64,
}

impl Difference {
    /// Whether the second side differs by more than neutral code makes likely.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.p < LEVEL
    }

    /// Whether the second side has the answer yes more often.
    #[must_use]
    pub fn is_more(&self) -> bool {
        self.distance > 0.0
    }
}

/// The choices of one kernel, a list for each start.
pub type Starts = Vec<Vec<Choice>>;

/// All classes that have enough choices on both sides, in order.
#[must_use]
pub fn differences(before: &Starts, after: &Starts, placebos: &[Starts]) -> Vec<Difference> {
    let placebos: Vec<OfKernel> = placebos.iter().map(answers).collect();
    judge(&answers(before), &answers(after), &placebos)
}

/// What a kernel answered in each class.
pub type OfKernel = BTreeMap<Class, Answers>;

/// The same from how often each kernel had which answer.
#[must_use]
pub fn judge(before: &OfKernel, after: &OfKernel, placebos: &[OfKernel]) -> Vec<Difference> {
    let classes: BTreeSet<Class> = before.keys().chain(after.keys()).copied().collect();
    let of = |class: Class| {
        let get = |all: &OfKernel| all.get(&class).copied().unwrap_or_default();
        compared(class, get(before), get(after), placebos.iter().map(get).collect())
    };
    let mut found: Vec<Difference> = classes.into_iter().filter_map(of).collect();
    let p: Vec<f64> = found.iter().map(|one| one.p).collect();
    for (one, p) in found.iter_mut().zip(holm(&p)) {
        one.p = p;
    }
    found
}

fn answers(starts: &Starts) -> OfKernel {
    let mut all = OfKernel::new();
    for choice in starts.iter().flatten() {
        let Some(yes) = choice.answer() else { continue };
        for class in choice.classes() {
            let one = all.entry(class).or_default();
            *one = one.and(Answers { yes: usize::from(yes), all: 1 });
        }
    }
    all
}

/// One class. `p` is not corrected yet.
fn compared(
    class: Class,
    before: Answers,
    after: Answers,
    placebos: Vec<Answers>,
) -> Option<Difference> {
    let is_enough = |answers: &Answers| answers.all >= LEAST;
    if !is_enough(&before) || !is_enough(&after) {
        return None;
    }
    let neutral = placebos.iter().copied().filter(is_enough).chain([before]);
    let neutral: Vec<Answers> = neutral.collect();
    let angles: Vec<f64> = neutral.iter().map(|one| one.angle()).collect();
    let count = angles.len() as f64;
    let mean = angles.iter().sum::<f64>() / count;
    let degrees = (count - 1.0).max(1.0);
    let between = angles.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / degrees;
    // Neutral kernels that happen to agree vary no less than single choices do.
    let single = neutral.iter().map(|one| one.variance()).sum::<f64>() / count;
    let own = between.max(after.variance().max(single));
    let distance = (after.angle() - mean) / (own + between.max(single) / count).sqrt();
    let outside = angles.iter().all(|one| after.angle() > *one)
        || angles.iter().all(|one| after.angle() < *one);
    let is_told = outside && neutral.len() >= KERNELS;
    let p = if is_told { 2.0 * t_cdf(-distance.abs(), degrees) } else { 1.0 };
    Some(Difference { class, before, after, placebos, distance, p })
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Occasion, Ran, Situation};
    use super::*;
    use schedlab_model::{Cpu, Nanos};

    /// `yes` of 100 wakeups preempt.
    fn kernel(yes: usize) -> Starts {
        let one = |index: usize| {
            let asked = Occasion::Woken { task: "1".into(), by: None };
            let waiting = ["1".to_owned()].into();
            let cpu = Cpu(0);
            let ran = Ran::default();
            let situation = Situation { cpu, current: "0".into(), ran, waiting, asked };
            let next = if index < yes { "1" } else { "0" };
            Choice { at: Nanos(0), situation, next: next.into(), longest: false }
        };
        vec![(0..50).map(one).collect(), (50..100).map(one).collect()]
    }

    fn shown(after: usize, placebos: &[usize]) -> Vec<bool> {
        let placebos: Vec<Starts> = placebos.iter().map(|yes| kernel(*yes)).collect();
        let found = differences(&kernel(20), &kernel(after), &placebos);
        found.iter().map(Difference::is_shown).collect()
    }

    #[test]
    fn what_neutral_code_makes_too_is_no_difference() {
        let placebos = [17, 19, 20, 22, 24, 18, 21, 20];
        // All wakeups, and those of the one step of time.
        assert_eq!(shown(45, &placebos), [true, true]);
        assert_eq!(shown(3, &placebos), [true, true]);
        assert_eq!(shown(28, &placebos), [false, false]);
        // One placebo that does the same is enough.
        assert_eq!(shown(45, &[17, 19, 20, 22, 24, 18, 46, 20]), [false, false]);
        // Placebos that agree say no more than the number of choices does.
        assert_eq!(shown(26, &[20; 8]), [false, false]);
        assert_eq!(shown(99, &[20, 20]), [false, false]);
        assert_eq!(shown(99, &[]), [false, false]);
    }

    #[test]
    fn a_difference_has_both_sides_and_its_direction() {
        let placebos: Vec<Starts> = [19, 21, 22, 18].map(kernel).into();
        let found = differences(&kernel(20), &kernel(60), &placebos);
        let kinds: Vec<Kind> = found.iter().map(|one| one.class.kind).collect();
        assert_eq!(kinds, [Kind::Wakeup; 2]);
        let all = &found[0];
        assert_eq!((all.class.case, all.is_more()), (None, true));
        assert_eq!(all.before, Answers { yes: 20, all: 100 });
        assert_eq!(all.after, Answers { yes: 60, all: 100 });
        assert!((all.after.share() - 0.6).abs() < 1e-12 && all.placebos.len() == 4);
    }
}
