//! Changes of code that do nothing move results too. A change between two builds counts only beyond them.

use super::{Change, Comparison, Judgement, Row, Verdict};
use crate::analysis::Centre;

/// The centre of the runs of a side, by which changes are judged; `None` without runs.
#[must_use]
pub fn centre_of(values: &[f64]) -> Option<f64> {
    Centre::of(values.iter().copied()).map(|centre| centre.value)
}

impl Judgement {
    /// Widens the intervals of all changes by `band`, the largest relative change that neutral code makes: 0.03 is
    /// 3 %. What the wider interval does not show is not claimed. `note` says so beside each row.
    pub fn widen(&mut self, band: f64, note: &str) {
        for row in std::iter::once(&mut self.whole).chain(&mut self.points) {
            if !row.is_shown(band) {
                row.verdict = Verdict::Undecided;
            }
            row.change = row.change.beside(band);
            note.clone_into(&mut row.note);
        }
        let claims = || self.points.iter().any(|row| row.verdict.is_claim());
        if self.verdict.is_claim() && !self.whole.verdict.is_claim() && !claims() {
            self.verdict = Verdict::Undecided;
        }
        if self.points.is_empty() {
            self.verdict = self.whole.verdict;
        }
    }
}

impl Comparison {
    /// Leaves only those secondary metrics worth a look that change beyond what neutral code does to them, as `band`
    /// tells by the metric's name.
    pub fn look_beyond(&mut self, band: impl Fn(&str) -> Option<f64>) {
        self.look_at
            .retain(|row| band(&row.metric.name).is_none_or(|band| row.beside(band).is_shown()));
    }
}

impl Change {
    /// The interval with a further factor of up to 1 + `band` in either direction.
    fn beside(self, band: f64) -> Self {
        let low = (1.0 + self.low) / (1.0 + band) - 1.0;
        let high = (1.0 + self.high) * (1.0 + band) - 1.0;
        Self { low, high, ..self }
    }

    /// Whether the interval excludes that nothing changes.
    fn is_shown(self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

impl Row {
    /// The change beside what neutral code does.
    fn beside(&self, band: f64) -> Change {
        let Change { low, estimate, high, .. } = self.change;
        // Copies have a verdict on their change, and no interval.
        let change = match low == f64::NEG_INFINITY && high == f64::INFINITY {
            true => Change { low: estimate, high: estimate, ..self.change },
            false => self.change,
        };
        change.beside(band)
    }

    /// Whether the verdict holds beside what neutral code does.
    fn is_shown(&self, band: f64) -> bool {
        let change = self.beside(band);
        match self.verdict {
            Verdict::Undecided => true,
            Verdict::Equivalent => change.low > -self.margin && change.high < self.margin,
            _ => change.is_shown(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Basis, Failures, compare_values};
    use super::*;
    use schedlab_model::{Better, Metric, Unit};

    fn judged(after: f64) -> Judgement {
        let metric = Metric::new("time_s", Unit::Seconds, Better::Lower);
        let values = |centre: f64| -> Vec<f64> {
            (0..8).map(|at| centre * (1.0 + 0.001 * f64::from(at % 4))).collect()
        };
        let whole = compare_values(&metric, &values(1.0), &values(after)).unwrap();
        assert_eq!(whole.basis, Basis::Runs);
        Judgement { verdict: whole.verdict, whole, points: Vec::new(), disagreement: 1.0 }
    }

    #[test]
    fn a_change_counts_beyond_what_neutral_code_does() {
        for (after, band, verdict) in [
            (1.08, 0.05, Verdict::Worse),
            (1.08, 0.10, Verdict::Undecided),
            (0.92, 0.05, Verdict::Better),
            (0.92, 0.10, Verdict::Undecided),
            (1.0, 0.01, Verdict::Equivalent),
            (1.0, 0.10, Verdict::Undecided),
        ] {
            let mut judged = judged(after);
            judged.widen(band, "neutral");
            let found = (judged.verdict, judged.whole.verdict, &*judged.whole.note);
            assert_eq!(found, (verdict, verdict, "neutral"), "{after} beside {band}");
            let Change { low, high, .. } = judged.whole.change;
            assert!(high - low > band, "{low} to {high}");
        }
    }

    #[test]
    fn what_neutral_code_changes_as_much_is_not_worth_a_look() {
        let mut found = Comparison {
            workload: String::new(),
            primary: Vec::new(),
            look_at: vec![judged(1.08).whole, judged(1.02).whole],
            dropped: Vec::new(),
            no_verdict: String::new(),
            failures: Failures::default(),
            noise: String::new(),
            boots: String::new(),
        };
        found.look_beyond(|_| None);
        assert_eq!(found.look_at.len(), 2, "without placebos nothing is left out");
        found.look_beyond(|metric| (metric == "time_s").then_some(0.05));
        assert_eq!(found.look_at, [judged(1.08).whole]);
        let centre = centre_of(&[1.0, 4.0]).unwrap();
        assert!((centre - 2.0).abs() < 1e-12, "geometric, as changes are ratios");
        assert_eq!(centre_of(&[]), None);
    }

    #[test]
    fn copies_without_an_interval_are_judged_by_their_change() {
        let copies = |after: f64, band: f64| {
            let mut judged = judged(after);
            judged.whole.change.low = f64::NEG_INFINITY;
            judged.whole.change.high = f64::INFINITY;
            judged.widen(band, "");
            judged.verdict
        };
        assert_eq!(copies(1.08, 0.05), Verdict::Worse);
        assert_eq!(copies(1.08, 0.10), Verdict::Undecided);
    }
}
