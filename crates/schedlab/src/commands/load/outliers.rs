//! Runs that lie apart from the others, or fall into two groups: a warning about one figure, told beside it.

use super::show::human;
use schedlab_model::{Metric, Warning};
use schedlab_stats::{Group, Sample, two_groups};

/// With fewer runs the quartiles are single runs, and which lies apart is anybody's guess.
const RUNS_MIN: usize = 5;

/// The warning about a figure whose runs fall into two groups, or of which some lie far from the others (beyond Tukey's
/// fences).
pub(super) fn outliers(metric: &Metric, sample: &Sample) -> Option<Warning> {
    if let Some(groups) = two_groups(sample) {
        let told = |of: Group| format!("{} around {}", of.runs, human(of.centre, metric.unit));
        let [low, high] = groups.map(told);
        let what = format!("the {} runs fall into two groups: {low}, {high}", sample.len());
        let remedy = "compare a run of each (--trace, --output): the median describes neither";
        return Some(Warning::new("two-groups", what, remedy));
    }
    let apart = sample.outliers();
    // Of a count that is the same in most runs, any other would lie apart.
    let alike = sample.quantile(0.25) >= sample.quantile(0.75);
    if sample.len() < RUNS_MIN || alike || apart.is_empty() {
        return None;
    }
    let shown: Vec<String> = apart.iter().map(|value| human(*value, metric.unit)).collect();
    let verb = if apart.len() == 1 { "lies" } else { "lie" };
    let what =
        format!("{} of {} runs {verb} apart: {}", apart.len(), sample.len(), shown.join(", "));
    let remedy = "see what else ran then (--trace, --output), and repeat more often";
    Some(Warning::new("outliers", what, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Better, Unit};

    fn doubt(values: &[f64]) -> Option<Warning> {
        let metric = Metric::new("time_s", Unit::Seconds, Better::Lower);
        outliers(&metric, &Sample::new(values.iter().copied()).unwrap())
    }

    #[test]
    fn a_run_apart_is_told_with_its_value_and_few_runs_are_not_judged() {
        let warning = doubt(&[1.0, 1.01, 0.99, 1.02, 0.98, 7.5]).unwrap();
        assert_eq!(warning.code, "outliers");
        assert_eq!(warning.what, "1 of 6 runs lies apart: 7.50 s");
        assert_eq!(doubt(&[1.0, 1.01, 0.99, 1.02, 0.98, 1.03]), None);
        assert_eq!(doubt(&[1.0, 1.01, 0.99, 7.5]), None);
        let warning = doubt(&[1.0, 1.01, 0.99, 7.5, 7.4, 7.6, 1.0, 7.5]).unwrap();
        assert_eq!(
            warning.what,
            "the 8 runs fall into two groups: 4 around 1.00 s, 4 around 7.50 s"
        );
        assert_eq!(doubt(&[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]), None);
    }
}
