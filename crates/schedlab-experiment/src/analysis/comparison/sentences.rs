//! What a comparison found, in sentences.

use super::{CPU_TIME, Change, Comparison, Judgement, Verdict};
use crate::run_metrics::question;
use std::collections::BTreeMap;
use std::fmt;

/// Points that are named in a sentence; more are counted.
const NAMED_MAX: usize = 3;

impl Comparison {
    /// The answer in a sentence for each primary metric, with how sure it is and what would settle it.
    /// `after` names the second set; the first sentence begins with it.
    #[must_use]
    pub fn answer(&self, after: &str) -> String {
        let subject = format!("{after}, {}", self.workload);
        let mut out: Vec<String> = self.question().into_iter().collect();
        let mut subject_once = Some(subject.as_str());
        let judged = || self.primary.iter().filter(|j| j.whole.metric.name != CPU_TIME);
        if self.verdict() == Verdict::Mixed && judged().all(|j| j.verdict != Verdict::Mixed) {
            let told = judged().filter(|j| j.verdict.is_claim());
            let each: Vec<String> =
                told.map(|j| format!("{} in {}", j.words(), j.whole.metric.name)).collect();
            let subject = subject_once.take().unwrap_or_default();
            out.push(format!("{subject}: mixed: {}.", each.join(", ")));
        }
        for (nth, judged) in self.primary.iter().enumerate() {
            // Of the CPU time that accompanies a time only what is shown is said.
            let is_silent = judged.whole.metric.name == CPU_TIME && judged.cpu_time().is_none();
            if nth == 0 || !is_silent {
                out.push(judged.sentence(subject_once.take()));
            }
        }
        out.extend(Some(self.noise.clone()).filter(|noise| !noise.is_empty()));
        if !self.no_verdict.is_empty() {
            out = vec![format!("{subject}: no verdict. {}", self.no_verdict)];
        } else if self.failures.before + self.failures.after > 0 {
            out.push(self.failures.sentence());
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

    /// What has to be asked before anything can be advised: which direction of a hook's metric is better.
    #[must_use]
    pub(crate) fn question(&self) -> Option<String> {
        self.primary.iter().find_map(|judged| question(&judged.whole.metric))
    }

    /// The verdict of the metric that leads; mixed where another primary metric contradicts it. More CPU time is a cost and
    /// contradicts nothing.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let counts = |judged: &&Judgement| judged.whole.metric.name != CPU_TIME;
        let has = |verdict: Verdict| {
            self.primary.iter().filter(counts).any(|judged| judged.verdict == verdict)
        };
        if has(Verdict::Better) && has(Verdict::Worse) {
            return Verdict::Mixed;
        }
        self.primary.first().map_or(Verdict::Undecided, |judged| judged.verdict)
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
    /// The verdict in words.
    #[must_use]
    pub(crate) fn words(&self) -> String {
        let below = match self.is_below_margin() {
            true => format!(", but below your margin of {:.0} %,", self.whole.margin * 100.0),
            false => String::new(),
        };
        format!("{}{below}", self.verdict)
    }

    /// Whether a difference is shown and lies within the margin.
    #[must_use]
    pub(crate) fn is_below_margin(&self) -> bool {
        let row = &self.whole;
        let is_small = row.change.low > -row.margin && row.change.high < row.margin;
        let is_shown = matches!(self.verdict, Verdict::Better | Verdict::Worse);
        is_shown && is_small && row.verdict == self.verdict
    }

    /// What is beside the change: the mean and the slow runs, the seed, or the drift; empty for nothing.
    fn beside(&self) -> String {
        let row = &self.whole;
        if row.exact {
            return ", exact for this seed".to_owned();
        }
        if row.drift {
            return "; drift is included, since the sides did not run interleaved".to_owned();
        }
        if !row.adjusted.is_empty() {
            return format!(", adjusted for {}", row.adjusted.join(" and "));
        }
        let Some(tail) = &row.tail else { return String::new() };
        format!(
            "; the mean by {}, slow runs {} of {} against {} of {}",
            percent(tail.mean.estimate),
            tail.before,
            tail.of_before,
            tail.after,
            tail.of_after
        )
    }

    /// What runs use of CPU time, in words: more or less; `None` where that is not shown.
    #[must_use]
    pub(crate) fn cpu_time(&self) -> Option<String> {
        let Change { estimate, .. } = self.whole.change;
        let more = if estimate > 0.0 { "more" } else { "less" };
        let size = match estimate {
            more if 1.0 + more >= FACTOR_MIN => percent(more) + " as much",
            little if little.abs() < 0.01 => format!("{:.1} % {more}", little.abs() * 100.0),
            other => format!("{:.0} % {more}", other.abs() * 100.0),
        };
        // Of ranks alone no size is known.
        let is_shown =
            self.verdict.is_claim() && self.verdict != Verdict::Mixed && estimate.is_finite();
        is_shown.then(|| format!("uses {size} CPU time ({})", self.whole.change))
    }

    /// The verdict in a sentence about `subject`; `None`: about that of the sentence before.
    fn sentence(&self, subject: Option<&str>) -> String {
        let cpu_time = self.cpu_time().filter(|_| self.whole.metric.name == CPU_TIME);
        let is_drift = matches!(self.verdict, Verdict::Lower | Verdict::Higher);
        let (link, told) = match cpu_time {
            Some(told) => ("It ", format!("{told}.")),
            None => (if is_drift { "Also " } else { "" }, self.verdict_text()),
        };
        match subject {
            Some(subject) => format!("{subject}: {told}"),
            None if link.is_empty() => capital(&told),
            None => link.to_owned() + &told,
        }
    }

    /// The verdict without what it is about.
    fn verdict_text(&self) -> String {
        let row = &self.whole;
        let name = &row.metric.name;
        let interval = format!("{}{}", row.change, self.beside());
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
        match self.verdict {
            Verdict::Mixed if row.verdict == Verdict::Mixed => {
                format!("mixed in {name}: the typical run changes by {interval}.")
            }
            Verdict::Mixed => format!(
                "mixed in {name}: better at {}, worse at {}; over all points {interval}.",
                at(Verdict::Better),
                at(Verdict::Worse)
            ),
            verdict if verdict.is_claim() && !row.verdict.is_claim() => {
                format!("{verdict} in {name} at {}; over all points {interval}.", at(verdict))
            }
            Verdict::Equivalent => {
                format!("equivalent in {name} within ±{:.0} %: {interval}.", row.margin * 100.0)
            }
            Verdict::Undecided => {
                format!("undecided in {name}: {interval}. {}", self.settle())
            }
            Verdict::Lower | Verdict::Higher => {
                format!("{name} is {}: {interval}.", self.verdict)
            }
            _ => format!("{} in {name}: {interval}.", self.words()),
        }
    }

    /// What an undecided row leaves possible, and what would settle it.
    #[must_use]
    pub(crate) fn settle(&self) -> String {
        let row = &self.whole;
        if !row.note.is_empty() && row.more_runs.is_none() {
            return format!("{}.", capital(row.note.trim_end_matches('.')));
        }
        if self.disagreement <= super::LEVEL {
            return format!("The points disagree (p {:.3}): see each of them.", self.disagreement);
        }
        let largest =
            if row.change.high > -row.change.low { row.change.high } else { row.change.low };
        let more = match row.more_runs {
            None => "Ten times as many runs would not settle it.".to_owned(),
            Some(n) => {
                let side = if row.basis.is_paired() { "" } else { " a side" };
                let n = n.max(1);
                let basis = row.basis;
                format!("About {n} more {basis}{side} settle it in 8 of 10 cases.")
            }
        };
        format!("A change of up to {} is possible. {more}", percent(largest))
    }
}

impl fmt::Display for Change {
    /// The change with its interval, or the bound that it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { low, estimate, high, .. } = *self;
        let text = match (low.is_finite(), high.is_finite()) {
            (true, true) => format!("{} [{}]", spelled(estimate, estimate), self.ends()),
            (true, false) => format!("at least {}", percent(low)),
            (false, true) => format!("at most {}", percent(high)),
            (false, false) if estimate.is_finite() => {
                format!("{} without an interval", percent(estimate))
            }
            (false, false) => "by rank, without a number".to_owned(),
        };
        f.pad(&text)
    }
}

impl Change {
    /// The interval as a cell of a table.
    #[must_use]
    pub fn ends(&self) -> String {
        match (self.low.is_finite(), self.high.is_finite()) {
            (true, true) => {
                let end = |change| spelled(change, self.estimate);
                format!("{} .. {}", end(self.low), end(self.high))
            }
            (true, false) => format!("at least {}", percent(self.low)),
            (false, true) => format!("at most {}", percent(self.high)),
            (false, false) => "none".to_owned(),
        }
    }
}

/// Factors from this one on are written as such: nobody reads +372247 %.
const FACTOR_MIN: f64 = 3.0;

/// A relative change as it is written.
#[must_use]
pub fn percent(change: f64) -> String {
    spelled(change, change)
}

/// A relative change in the way in which `like` is written.
fn spelled(change: f64, like: f64) -> String {
    match change.is_finite() {
        false => "-".into(),
        true if 1.0 + like >= FACTOR_MIN && change > 0.0 => {
            format!("{} times", two_digits(1.0 + change))
        }
        true => format!("{:+.1} %", change * 100.0),
    }
}

/// A number above 1 to two digits: 3.7, 37, 3,700.
fn two_digits(number: f64) -> String {
    let grain = 10f64.powf(number.log10().floor() - 1.0);
    let rounded = (number / grain).round() * grain;
    if rounded < 10.0 {
        return format!("{rounded:.1}");
    }
    let digits = format!("{rounded:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn place(point: &BTreeMap<String, String>) -> String {
    let parts: Vec<String> = point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    parts.join(" ")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().collect::<String>() + chars.as_str())
}
