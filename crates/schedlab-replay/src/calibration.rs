//! How far predictions were from what real kernels then did, and the bands that follow for other predictions.
//!
//! A [`Pair`] is a load that was recorded under one setting, predicted under another, and run under that too. Its error is
//! the logarithm of truth over prediction. Errors grow with the predicted change, so a score is the error over that
//! change plus a tenth. The band is the 90 % quantile of the scores (split conformal prediction: Lei, G'Sell, Rinaldo,
//! Tibshirani and Wasserman, "Distribution-Free Predictive Inference for Regression", JASA 113, 2018). Its coverage is
//! counted on loads that had no part in the quantile.

use std::collections::BTreeSet;

/// One figure of a load in four runs. Values below 1 count as 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    pub load: String,
    /// The name of the figure: `run_delay_mean` and the like.
    pub figure: String,
    pub recorded: f64,
    /// What its replay has under the recorded setting.
    pub replayed: f64,
    /// What its replay has under the other setting.
    pub changed: f64,
    /// What the run under the other setting had.
    pub truth: f64,
}

/// What the error of a prediction is divided by, beside the predicted change.
const LEAST: f64 = 0.1;
/// The part of pairs that a band is made to hold.
const PART: f64 = 0.9;

fn log(over: f64, under: f64) -> f64 {
    (over.max(1.0) / under.max(1.0)).ln()
}

impl Pair {
    /// The recorded value, changed by as much as the replay changes.
    #[must_use]
    pub(crate) fn predicted(&self) -> f64 {
        self.recorded.max(1.0) * log(self.changed, self.replayed).exp()
    }

    /// The logarithm of truth over prediction.
    #[must_use]
    pub fn error(&self) -> f64 {
        log(self.truth, self.predicted())
    }

    /// The error of "nothing changes".
    #[must_use]
    pub fn error_of_no_change(&self) -> f64 {
        log(self.truth, self.recorded)
    }

    fn score(&self) -> f64 {
        self.error().abs() / width(self.changed, self.replayed)
    }
}

fn width(changed: f64, replayed: f64) -> f64 {
    LEAST + log(changed, replayed).abs()
}

/// 1 minus the sum of errors over that of "nothing changes": 1 is perfect, 0 is no better than that.
#[must_use]
pub fn skill(pairs: &[&Pair]) -> f64 {
    let sum = |of: fn(&Pair) -> f64| pairs.iter().map(|pair| of(pair).abs()).sum::<f64>();
    1.0 - sum(Pair::error) / sum(Pair::error_of_no_change)
}

/// The score that 90 % of pairs do not exceed, and of one more; `None` of none.
#[must_use]
pub fn quantile(pairs: &[&Pair]) -> Option<f64> {
    let mut scores: Vec<f64> = pairs.iter().map(|pair| pair.score()).collect();
    scores.sort_by(f64::total_cmp);
    let rank = ((scores.len() + 1) as f64 * PART).ceil() as usize;
    scores.get(rank.saturating_sub(1).min(scores.len().saturating_sub(1))).copied()
}

/// How many pairs lie within the band that the other loads' pairs give, of how many.
#[must_use]
pub fn held_out(pairs: &[&Pair]) -> (usize, usize) {
    let loads: BTreeSet<&str> = pairs.iter().map(|pair| pair.load.as_str()).collect();
    let mut inside = 0;
    for load in loads {
        let (own, others): (Vec<&Pair>, Vec<&Pair>) =
            pairs.iter().copied().partition(|pair| pair.load == load);
        let bound = quantile(&others).unwrap_or(0.0);
        inside += own.iter().filter(|pair| pair.score() <= bound).count();
    }
    (inside, pairs.len())
}

/// How far predictions of a figure were from the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    pub figure: &'static str,
    pub quantile: f64,
    /// The part of held-out pairs that lay within.
    pub coverage: f64,
}

/// The bands from `examples/evidence/counterfactuals/pairs.csv`, which a test computes again.
pub const BANDS: [Band; 4] = [
    Band { figure: "run_delay_mean", quantile: 4.205, coverage: 0.893 },
    Band { figure: "run_delay_p50", quantile: 2.558, coverage: 0.900 },
    Band { figure: "run_delay_p99", quantile: 6.698, coverage: 0.900 },
    Band { figure: "switches_per_s", quantile: 4.917, coverage: 0.896 },
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    pub band: Band,
    /// The value that the figure is predicted to have, in its own unit.
    pub value: f64,
    /// The lower end of the band.
    pub low: f64,
    /// The upper end of the band.
    pub high: f64,
}

impl Band {
    /// What a figure will be, by its value in the recording, in the replay and in the changed replay.
    #[must_use]
    pub fn predict(self, recorded: f64, replayed: f64, changed: f64) -> Prediction {
        let value = recorded.max(1.0) * log(changed, replayed).exp();
        let factor = (self.quantile * width(changed, replayed)).exp();
        Prediction { band: self, value, low: value / factor, high: value * factor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(load: &str, changed: f64, truth: f64) -> Pair {
        let figure = "run_delay_mean".to_owned();
        Pair { load: load.to_owned(), figure, recorded: 100.0, replayed: 50.0, changed, truth }
    }

    #[test]
    fn a_prediction_is_the_recorded_value_changed_as_the_replay_changes() {
        let exact = pair("a", 100.0, 200.0);
        assert!((exact.predicted() - 200.0).abs() < 1e-9 && exact.error().abs() < 1e-12);
        let off = pair("a", 100.0, 400.0);
        assert!((skill(&[&exact]) - 1.0).abs() < 1e-12);
        // Errors of 0 and ln 2, against ln 2 and ln 4.
        assert!((skill(&[&exact, &off]) - (1.0 - 1.0 / 3.0)).abs() < 1e-12);
        assert!(skill(&[&pair("a", 100.0, 100.0)]).is_infinite());
    }

    #[test]
    fn a_band_is_made_from_other_loads_and_holds_what_it_predicts() {
        let pairs: Vec<Pair> = (0..20)
            .map(|at| pair(if at < 10 { "a" } else { "b" }, 100.0, 200.0 + f64::from(at % 10)))
            .collect();
        let all: Vec<&Pair> = pairs.iter().collect();
        let (inside, of) = held_out(&all);
        assert_eq!((inside, of), (20, 20), "the two loads have equal errors");
        let far: Vec<Pair> = (0..10).map(|_| pair("c", 100.0, 2_000.0)).collect();
        let both: Vec<&Pair> = pairs.iter().chain(&far).collect();
        assert_eq!(held_out(&both).0, 20, "the third load is outside, and widens the others' band");
        let band = Band { quantile: quantile(&all).unwrap(), ..BANDS[0] };
        let told = band.predict(100.0, 50.0, 100.0);
        assert!(told.low < 200.0 && told.high > 208.0 && told.high < 210.0, "{told:?}");
        assert_eq!(quantile(&[]), None);
    }
}
