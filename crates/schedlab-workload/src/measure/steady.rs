//! Whether a run was steady: its warm-up, and seconds unlike the others.

use crate::Figure;
use schedlab_model::{Better, Metric, Unit, Warning};
use schedlab_stats::{Sample, Steady};

/// How long the run warmed up by the rates of its seconds, of which `left_out` are not among them; and
/// what is to be done where that was not enough.
pub(super) fn warm_up(rates: &[f64], left_out: f64) -> (Option<Figure>, Option<Warning>) {
    match schedlab_stats::warm_up(rates) {
        Steady::TooFew => (None, None),
        Steady::Never => {
            let what = format!("no steady state was reached in {} s", rates.len());
            let remedy = "measure for longer, and leave the beginning out (--warmup)";
            (None, Some(Warning::new("no-steady-state", what, remedy)))
        }
        Steady::From { skip, before, after } => {
            let metric = Metric::new("warm_up_s", Unit::Seconds, Better::Neither);
            let value = left_out + skip as f64;
            let apart = after > 0.0 && ((before - after) / after).abs() > 0.05;
            let warning = (skip > 0 && apart).then(|| {
                let percent = (before / after - 1.0) * 100.0;
                let what = format!(
                    "the first {skip} s of those measured were {percent:+.0} % from the rest"
                );
                Warning::new("warm-up", what, format!("leave {value:.0} s out (--warmup)"))
            });
            (Some(Figure { metric, of: String::new(), value }), warning)
        }
    }
}

/// The fewest seconds of which some can be said to lie apart.
const SECONDS_MIN: usize = 8;

/// The warning about a rate of which some seconds lie far from the others (beyond Tukey's fences), the
/// warm-up aside, which has a warning of its own.
pub(super) fn seconds_apart(rates: &[f64]) -> Option<Warning> {
    let skip = match schedlab_stats::warm_up(rates) {
        Steady::From { skip, .. } => skip,
        Steady::TooFew | Steady::Never => 0,
    };
    let steady = &rates[skip..];
    let sample = Sample::new(steady.iter().copied()).ok()?;
    let apart = sample.outliers();
    // If the rate is the same in most seconds, every other second would count as an outlier.
    let alike = sample.quantile(0.25) >= sample.quantile(0.75);
    if steady.len() < SECONDS_MIN || alike || apart.is_empty() {
        return None;
    }
    let at = |value: &f64| skip + steady.iter().position(|rate| rate == value).unwrap_or(0) + 1;
    let shown: Vec<String> =
        apart.iter().take(5).map(|value| format!("{value:.0} in second {}", at(value))).collect();
    let more = if apart.len() > shown.len() { ", ..." } else { "" };
    let what = format!(
        "{} of {} seconds lie apart from a median of {:.0}: {}{more}",
        apart.len(),
        steady.len(),
        sample.median(),
        shown.join(", ")
    );
    let remedy = "see what else ran then (--trace), and repeat it (--repeat 10)";
    Some(Warning::new("interval-outliers", what, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_is_a_figure_and_a_slow_one_a_warning() {
        let mut rates = vec![100.0; 20];
        rates[0] = 20.0;
        let (figure, warning) = warm_up(&rates, 2.0);
        assert_eq!(figure.map(|figure| figure.value), Some(3.0));
        assert!(warning.unwrap().remedy.contains("3 s"));
        let (figure, warning) = warm_up(&[100.0; 20], 0.0);
        assert_eq!((figure.map(|figure| figure.value), warning), (Some(0.0), None));
        let climbing: Vec<f64> = (0..20).map(f64::from).collect();
        let (figure, warning) = warm_up(&climbing, 0.0);
        assert!(figure.is_none());
        assert_eq!(warning.unwrap().code, "no-steady-state");
        assert_eq!(warm_up(&[1.0; 3], 0.0), (None, None));
    }

    #[test]
    fn seconds_that_lie_apart_are_told_with_their_place() {
        let mut rates: Vec<f64> = (0..12).map(|n| 100.0 + f64::from(n % 4)).collect();
        assert_eq!(seconds_apart(&rates), None);
        rates[6] = 12.0;
        let doubt = seconds_apart(&rates).unwrap();
        assert_eq!(doubt.code, "interval-outliers");
        assert_eq!(doubt.what, "1 of 12 seconds lie apart from a median of 101: 12 in second 7");
        assert!(!doubt.remedy.is_empty());
        assert_eq!(seconds_apart(&rates[..7]), None, "too few");
        // The warm-up of a longer run has its own warning.
        let mut slow: Vec<f64> = (0..30).map(|n| 100.0 + f64::from(n % 4)).collect();
        slow[0] = 5.0;
        assert_eq!(seconds_apart(&slow), None);
    }
}
