//! Conditions for scripts: `time_s > +3%`. They read the intervals of the table.

use super::{Change, Comparison, Row, Verdict};
use schedlab_model::percentage;
use std::str::FromStr;

/// A condition on the change of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct FailIf {
    /// The name of the metric.
    pub metric: String,
    /// Whether more is the failure.
    pub(crate) above: bool,
    /// The relative change beyond which the condition fails: 0.03 is 3 %.
    pub(crate) change: f64,
}

/// Why a text is not a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid condition '{0}': use METRIC > +N% or METRIC < -N%, as in 'time_s > +3%'")]
pub struct FailIfError(String);

impl FromStr for FailIf {
    type Err = FailIfError;
    fn from_str(text: &str) -> Result<Self, FailIfError> {
        let wrong = || FailIfError(text.to_owned());
        let at = text.find(['<', '>']).ok_or_else(wrong)?;
        let (metric, rest) = text.split_at(at);
        let change = percentage(&rest[1..]).ok_or_else(wrong)?;
        let metric = metric.trim().to_owned();
        if metric.is_empty() {
            return Err(wrong());
        }
        Ok(Self { metric, above: rest.starts_with('>'), change: change / 100.0 })
    }
}

/// The interval of a change. Copies have none: what they show is the change itself.
fn bounds(row: &Row) -> (f64, f64) {
    let Change { estimate, low, high, .. } = row.change;
    let has_none = !low.is_finite() && !high.is_finite();
    match row.verdict {
        Verdict::Undecided | Verdict::Mixed => (low, high),
        _ if has_none => (estimate, estimate),
        _ => (low, high),
    }
}

impl FailIf {
    /// `Some(true)` when the change at some point, or over all points, lies beyond the condition for sure:
    /// the whole interval of a row of the table does. `Some(false)` when no row's interval reaches beyond
    /// it. `None` when the runs cannot tell, the sides did different work, or there are no such rows.
    #[must_use]
    pub fn check(&self, comparisons: &[Comparison]) -> Option<bool> {
        if comparisons.iter().any(|comparison| !comparison.no_verdict.is_empty()) {
            return None;
        }
        let rows: Vec<&Row> = comparisons.iter().flat_map(Comparison::rows).collect();
        self.check_rows(&rows)
    }

    /// As [`FailIf::check`], of rows; `None` if the rows do not decide.
    #[must_use]
    pub fn check_rows(&self, rows: &[&Row]) -> Option<bool> {
        let mut sure = true;
        let mut any = false;
        for row in rows.iter().filter(|row| row.metric.name == self.metric) {
            any = true;
            let (low, high) = bounds(row);
            let (least, most) = if self.above { (low, high) } else { (-high, -low) };
            let limit = if self.above { self.change } else { -self.change };
            if least > limit {
                return Some(true);
            }
            sure &= most <= limit;
        }
        (any && sure).then_some(false)
    }
}
