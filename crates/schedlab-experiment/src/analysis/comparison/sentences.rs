//! What a comparison found, in sentences.

use super::{Comparison, Judgement, Row, Verdict};
use std::collections::BTreeMap;

/// Points that are named in a sentence; more are counted.
const NAMED_MAX: usize = 3;

impl Comparison {
    /// The answer in a sentence for each primary metric, with how sure it is and what would settle it.
    /// `after` names the second set.
    #[must_use]
    pub fn answer(&self, after: &str) -> String {
        let mut out: Vec<String> = self.primary.iter().map(|j| j.sentence(after)).collect();
        if !self.other_work.is_empty() {
            out = vec![format!("No verdict on {}. {}", self.workload, self.other_work)];
        }
        if !self.boots.is_empty() {
            out.push(format!("This holds {}.", self.boots));
        }
        if !self.dropped.is_empty() {
            let named: Vec<String> = self.dropped.iter().take(NAMED_MAX).map(place).collect();
            let more = if self.dropped.len() > NAMED_MAX { ", ..." } else { "" };
            let count = self.dropped.len();
            out.push(format!(
                "{count} points that only one side has are left out: {}{more}.",
                named.join(", ")
            ));
        }
        out.join(" ")
    }

    /// The secondary metrics worth a look, in a sentence; empty where there are none.
    #[must_use]
    pub fn look_sentence(&self) -> String {
        if self.look_at.is_empty() {
            return String::new();
        }
        let named = self.look_at.iter().take(2 * NAMED_MAX);
        let named: Vec<String> =
            named.map(|r| format!("{} {}", r.metric.name, percent(r.change.estimate))).collect();
        let more = self.look_at.len().saturating_sub(named.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("Look at these, of which nothing is claimed: {}{more}.", named.join(", "))
    }
}

impl Judgement {
    fn sentence(&self, after: &str) -> String {
        let row = &self.whole;
        let (name, workload) = (&row.metric.name, &row.workload);
        let interval = interval(row);
        let count = |verdict: Verdict| self.points.iter().filter(|r| r.verdict == verdict).count();
        let at = |verdict: Verdict| {
            let rows = self.points.iter().filter(|r| r.verdict == verdict);
            let places: Vec<String> =
                rows.filter_map(|r| r.point.as_ref()).take(NAMED_MAX).map(place).collect();
            let more = if count(verdict) > NAMED_MAX { ", ..." } else { "" };
            format!(
                "{} of {} points ({}{more})",
                count(verdict),
                self.points.len(),
                places.join(", ")
            )
        };
        let subject = format!("{after}, {workload}");
        match self.verdict {
            Verdict::Mixed => format!(
                "{subject}: mixed in {name}: better at {}, worse at {}; over all points {interval}.",
                at(Verdict::Better),
                at(Verdict::Worse)
            ),
            verdict if verdict.is_claim() && !row.verdict.is_claim() => {
                format!(
                    "{subject}: {verdict} in {name} at {}; over all points {interval}.",
                    at(verdict)
                )
            }
            Verdict::Equivalent => format!(
                "{subject}: equivalent in {name} within ±{:.0} %: {interval}.",
                row.margin * 100.0
            ),
            Verdict::Undecided => {
                format!("{subject}: undecided in {name}: {interval}. {}", self.settle())
            }
            verdict => format!("{subject}: {verdict} in {name}: {interval}."),
        }
    }

    /// What an undecided row leaves possible, and what would settle it.
    #[must_use]
    pub fn settle(&self) -> String {
        let row = &self.whole;
        if !row.note.is_empty() && row.more_runs.is_none() {
            return format!("{}.", capital(&row.note));
        }
        if self.disagreement <= super::LEVEL {
            return format!("The points disagree (p {:.3}): see each of them.", self.disagreement);
        }
        let largest =
            if row.change.high > -row.change.low { row.change.high } else { row.change.low };
        let more = match row.more_runs {
            Some(0) | None => "More runs narrow it.".to_owned(),
            Some(n) => format!(
                "About {n} more {} a side find a change of {:.0} %.",
                row.basis,
                row.margin * 100.0
            ),
        };
        format!("A change of up to {} is possible. {more}", percent(largest))
    }
}

fn interval(row: &Row) -> String {
    let change = &row.change;
    let ends = match change.low.is_finite() && change.high.is_finite() {
        true => format!("[{} .. {}]", percent(change.low), percent(change.high)),
        false => "without an interval".to_owned(),
    };
    format!("{} {ends}", percent(change.estimate))
}

/// A relative change as it is written.
#[must_use]
pub fn percent(change: f64) -> String {
    if change.is_finite() { format!("{:+.1} %", change * 100.0) } else { "?".into() }
}

fn place(point: &BTreeMap<String, String>) -> String {
    let parts: Vec<String> = point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    parts.join(" ")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().collect::<String>() + chars.as_str())
}
