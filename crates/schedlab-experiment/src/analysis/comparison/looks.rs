//! Looks at runs that are still being added, and what each may spend of the level.

use super::LEVEL;
use serde::{Deserialize, Serialize};

/// The looks at the runs of a folder. Each verdict on more runs than before is a look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looks {
    /// Repeats at each planned look, ascending; empty: one look was planned, whenever it comes.
    pub planned: Vec<u32>,
    /// Repeats at each look so far.
    pub taken: Vec<u32>,
}

impl Looks {
    /// Counts a look at `repeats` repeats; `false` if no repeats were added since the last one.
    pub fn take(&mut self, repeats: u32) -> bool {
        let is_new = self.taken.last().is_none_or(|last| repeats > *last);
        if is_new {
            self.taken.push(repeats);
        }
        is_new
    }

    /// The level of the latest look.
    #[must_use]
    pub(crate) fn level(&self) -> f64 {
        look_level(&self.planned, self.taken.len().saturating_sub(1))
    }

    /// A sentence for a report: which look this is, and the chance of a false claim over all looks. Empty if one look
    /// was planned and this is it.
    #[must_use]
    pub(crate) fn sentence(&self) -> String {
        let taken = self.taken.len();
        let planned = self.planned.len();
        let spent: f64 = (0..taken).map(|index| look_level(&self.planned, index)).sum();
        if taken <= planned && planned > 1 {
            return format!(
                "This is look {taken} of {planned} planned ones; all of them together make a false claim in at most \
                 {:.0} % of experiments.",
                LEVEL * 100.0
            );
        }
        if taken <= planned.max(1) {
            return String::new();
        }
        format!(
            "Runs were added after a verdict: this is look {taken}. All looks together make a false claim in at \
             most {:.1} % of experiments. Plan looks to stay at {:.0} % (stop.looks).",
            spent * 100.0,
            LEVEL * 100.0
        )
    }
}

/// The level that a look may spend, so that all planned looks together spend [`LEVEL`]: the increments of
/// Pocock-like spending (Lan and DeMets, "Discrete sequential boundaries for clinical trials",
/// Biometrika 1983), each look tested at its own increment. The sum bounds the chance of a false claim
/// without any assumption on how looks depend on each other. Looks that nobody planned spend a half, a quarter,
/// an eighth ... of [`LEVEL`] more, so that the sum stays below twice [`LEVEL`].
#[must_use]
pub fn look_level(planned: &[u32], index: usize) -> f64 {
    let looks = planned.len().max(1);
    if index >= looks {
        let beyond = i32::try_from(index - looks + 1).unwrap_or(i32::MAX);
        return LEVEL / 2.0_f64.powi(beyond);
    }
    let Some(most) = planned.last().map(|most| f64::from(*most)) else { return LEVEL };
    let all = |runs: u32| LEVEL * (1.0 + (std::f64::consts::E - 1.0) * f64::from(runs) / most).ln();
    all(planned[index]) - index.checked_sub(1).map_or(0.0, |before| all(planned[before]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planned_looks_together_spend_the_level_and_others_at_most_as_much_again() {
        let planned = [6, 10, 20, 40];
        let all: Vec<f64> = (0..4).map(|index| look_level(&planned, index)).collect();
        assert!((all.iter().sum::<f64>() - LEVEL).abs() < 1e-12, "{all:?}");
        assert!(all.iter().all(|level| *level > 0.005), "{all:?}");
        let more: f64 = (4..60).map(|index| look_level(&planned, index)).sum();
        assert!(more <= LEVEL, "{more}");
        assert_eq!(look_level(&[], 0), LEVEL);
        assert_eq!(look_level(&[], 1), LEVEL / 2.0);
    }

    #[test]
    fn only_more_repeats_are_another_look_and_the_sentence_tells_what_all_spent() {
        let mut looks = Looks { planned: vec![6, 10], taken: Vec::new() };
        assert_eq!(looks.level(), look_level(&[6, 10], 0), "before the first look");
        assert!(looks.take(6) && !looks.take(6));
        assert!(looks.sentence().contains("look 1 of 2"), "{}", looks.sentence());
        assert!(looks.take(10) && looks.take(15));
        assert!(looks.sentence().contains("at most 7.5 %"), "{}", looks.sentence());
        let mut alone = Looks::default();
        alone.take(5);
        assert_eq!(alone.sentence(), "");
    }
}
