//! Which figures of a run a warning concerns, so that it is reported beside them.

use schedlab_model::{Unit, Warning};
use schedlab_workload::Figure;

/// Warnings about how much was done in each second; all others are about the whole run.
const OF_RATES: [&str; 4] = ["overload", "interval-outliers", "warm-up", "no-steady-state"];

/// Whether a figure says how much was done a second.
fn is_rate(figure: &Figure) -> bool {
    figure.of.is_empty() && figure.metric.unit == Unit::PerSecond
}

/// The figures that a warning concerns, by name; none of them for all of the run's.
pub(super) fn concerned(warning: &Warning, figures: &[Figure]) -> Vec<String> {
    if !OF_RATES.contains(&warning.code.as_str()) {
        return Vec::new();
    }
    figures.iter().filter(|f| is_rate(f)).map(|f| f.metric.name.clone()).collect()
}

/// The warnings that stand under the first figure that they concern (its name), or, under `None`, at the
/// head of all; each is a line for people.
pub(super) fn beside(figure: Option<&str>, warnings: &[Warning], figures: &[Figure]) -> String {
    let here =
        |warning: &&Warning| concerned(warning, figures).first().map(String::as_str) == figure;
    let line = |warning: &Warning| format!("    warning: {}; {}\n", warning.what, warning.remedy);
    warnings.iter().filter(here).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Better, Metric};

    #[test]
    fn a_doubt_about_rates_stands_under_the_rate_and_others_at_the_head() {
        let figure = |name: &str, unit| Figure {
            metric: Metric::new(name, unit, Better::Higher),
            of: String::new(),
            value: 1.0,
        };
        let figures = [figure("time_s", Unit::Seconds), figure("requests_per_s", Unit::PerSecond)];
        let warnings = [
            Warning::new("warm-up", "slow at first", "wait"),
            Warning::new("machine-busy", "b", "c"),
        ];
        assert_eq!(beside(None, &warnings, &figures), "    warning: b; c\n");
        let under = beside(Some("requests_per_s"), &warnings, &figures);
        assert_eq!(under, "    warning: slow at first; wait\n");
        assert_eq!(beside(Some("time_s"), &warnings, &figures), "");
        // Without a rate it is not lost.
        assert_eq!(beside(None, &warnings, &figures[..1]).lines().count(), 2);
    }
}
