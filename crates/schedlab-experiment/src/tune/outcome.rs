//! What a tuning found, as data and in sentences.

use crate::analysis::{Comparison, Judgement, Verdict as Compared, percent};
use crate::{Point, report, run_metrics};
use schedlab_tune::Trial;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What fresh runs say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The setting is better than the default, and keeps the limits.
    Gain,
    /// No setting was shown to beat the default.
    NoGain,
    /// The user stopped it: there is no verdict yet.
    Stopped,
}

/// A setting with what is expected of it.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Member {
    /// The setting of the region.
    pub point: Point,
    /// The goals with the values that the search expects.
    pub(crate) goals: BTreeMap<String, f64>,
}

/// Whether fresh runs of the best setting keep a limit.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize)]
#[schemars(rename = "Kept")]
pub(crate) struct LimitCheck {
    /// The limit as it was written.
    pub(crate) limit: String,
    /// The geometric mean of the metric, in its unit.
    pub(crate) value: f64,
    /// The end of the 95 % bound on the side of the limit, in the metric's unit.
    pub(crate) bound: f64,
    /// Whether that end keeps the limit.
    pub(crate) holds: bool,
}

/// Whether an axis matters, by the points that fill the space.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub(crate) struct Matters {
    /// The name of the axis.
    pub(crate) axis: String,
    /// The chance of such a dependence if the axis does nothing.
    pub(crate) p: f64,
}

/// Neighbouring values of an axis that are about as good as the advised setting, by the model of the search;
/// the other axes stay as advised.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Region {
    /// The name of the axis.
    pub axis: String,
    /// Its value at one end.
    pub from: String,
    /// Its value at the other end.
    pub to: String,
    /// Number of values from one end to the other.
    pub(crate) values: usize,
    /// Number of values of the axis.
    pub(crate) of: usize,
}

/// How well cheaper runs predicted the goal, and which settings they proposed.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub(crate) struct Screening {
    /// Settings of the pilot, which both kinds of runs measured.
    pub(crate) points: usize,
    /// The rank correlation of the first goal between both; absent where too few settings tell.
    pub(crate) correlation: Option<f64>,
    /// The lower end of the one-sided 95 % interval of the correlation, from -1 to 1.
    pub(crate) at_least: Option<f64>,
    /// Whether they rank alike, so that the cheaper runs searched.
    pub(crate) is_used: bool,
    /// Their best settings, which were then measured as all others.
    pub(crate) handed_on: Vec<Point>,
}

/// The result of a tuning.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Tuned {
    /// The verdict of fresh runs.
    pub verdict: Verdict,
    /// Number of measurements of the search.
    pub(crate) trials: usize,
    /// The number of settings among them.
    pub(crate) settings: usize,
    /// The number of measurements that failed.
    pub(crate) failed: usize,
    /// The setting in use before.
    pub(crate) default: Point,
    /// The setting that the search advises; of several goals, the best in all alike.
    pub best: Option<Member>,
    /// Whether the search expects it to keep the limits.
    pub(crate) keeps_limits: bool,
    /// With several goals: settings of which no other one is better in all of them.
    pub(crate) front: Vec<Member>,
    /// The axes that matter, and how much.
    pub(crate) matters: Vec<Matters>,
    /// Values whose first goal is within 1 % of the advised setting's, each with 95 % by the model. Empty
    /// with several goals, with limits, and without a model.
    pub(crate) regions: Vec<Region>,
    /// Number of pairs of fresh runs.
    pub(crate) pairs: usize,
    /// What they say, workload by workload.
    pub(crate) comparisons: Vec<Comparison>,
    /// The limits in them.
    pub(crate) limits: Vec<LimitCheck>,
    /// What cheaper runs were good for, where the file asks for them.
    pub(crate) screening: Option<Screening>,
}

/// The chance at which an axis is said to matter.
pub(super) const ALIVE: f64 = 0.05;

impl Tuned {
    /// A tuning that was stopped after this many measurements.
    pub(super) fn stopped(trials: usize) -> Self {
        Self {
            verdict: Verdict::Stopped,
            trials,
            settings: 0,
            failed: 0,
            default: Point::new(),
            best: None,
            keeps_limits: false,
            front: Vec::new(),
            matters: Vec::new(),
            regions: Vec::new(),
            pairs: 0,
            comparisons: Vec::new(),
            limits: Vec::new(),
            screening: None,
        }
    }

    /// The result in sentences, the verdict first.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let (Some(best), false) = (&self.best, self.verdict == Verdict::Stopped) else {
            return vec![format!("No answer yet: {} measurements are done.", self.trials)];
        };
        let setting = spelled(&best.point);
        let default = spelled(&self.default);
        let mut out = vec![match self.verdict {
            Verdict::Gain => {
                let below =
                    if self.is_below_margin() { ", but by less than your margin" } else { "" };
                format!("{setting} beats the default ({default}){below}.")
            }
            _ if !self.keeps_limits => {
                format!("No setting is expected to keep the limits; {setting} comes nearest.")
            }
            _ if self.comparisons.iter().any(|found| !found.no_verdict.is_empty()) => {
                format!(
                    "No verdict on {setting} against the default ({default}): fresh runs failed."
                )
            }
            _ if self.limits.iter().any(|kept| !kept.holds) => {
                format!("{setting} is not shown to keep the limits; the default is ({default}).")
            }
            _ => format!("No setting is shown to beat the default ({default})."),
        }];
        if best.point == self.default {
            out.push(
                "The search advises the default itself, so nothing was left to confirm.".into(),
            );
        } else if self.keeps_limits {
            let name = format!("{setting} against the default, {} fresh pairs", self.pairs);
            out.extend(self.comparisons.iter().map(|found| found.answer(&name)));
        }
        for kept in &self.limits {
            let word = if kept.holds { "holds" } else { "is not shown to hold" };
            let readable = |value| match run_metrics::find(
                kept.limit.split(['<', '>']).next().unwrap_or("").trim(),
            ) {
                Some(found) => report::readable(value, found.unit),
                None => format!("{value}"),
            };
            out.push(format!(
                "The limit {} {word}: the mean is {}, its 95 % bound {}.",
                kept.limit,
                readable(kept.value),
                readable(kept.bound)
            ));
        }
        let failed = if self.failed > 0 {
            format!(", {} of which failed", self.failed)
        } else {
            String::new()
        };
        out.push(format!(
            "The search measured {} settings in {} measurements{failed}.",
            self.settings, self.trials
        ));
        out.extend(self.screening.as_ref().map(|found| self.screened(found)));
        out.extend(self.matter());
        out.extend(self.region());
        if !self.front.is_empty() {
            out.push("No other setting is better in all goals than one of these:".into());
            out.extend(self.front.iter().map(|member| {
                let goals = member.goals.iter().map(|(name, value)| {
                    let unit = run_metrics::find(name).map(|found| found.unit);
                    let text =
                        unit.map_or_else(|| format!("{value:.4}"), |u| report::readable(*value, u));
                    format!("{name} {text}")
                });
                format!("  {}: {}", spelled(&member.point), goals.collect::<Vec<_>>().join(", "))
            }));
        }
        out
    }

    /// Whether each metric that is better is better by less than the margin.
    fn is_below_margin(&self) -> bool {
        let judged = self.comparisons.iter().flat_map(|found| &found.primary);
        let mut better = judged.filter(|j| j.verdict == Compared::Better);
        better.all(Judgement::is_below_margin)
    }

    /// What transferred from the cheaper runs.
    fn screened(&self, found: &Screening) -> String {
        let Some((correlation, least)) = found.correlation.zip(found.at_least) else {
            return "The cheaper runs were not used: too few settings could be measured with both."
                .into();
        };
        let alike = format!(
            "The cheaper runs rank {} settings with a correlation of {correlation:.2} (above {least:.2} with 95 %)",
            found.points
        );
        let best = self.best.as_ref().map(|best| &best.point);
        match (found.is_used, found.handed_on.iter().position(|point| Some(point) == best)) {
            (false, _) => format!("{alike}, too little to rely on: they were not used."),
            (true, Some(place)) => {
                format!("{alike}. Their choice number {} is the advised setting.", place + 1)
            }
            (true, None) => format!(
                "{alike}. None of the {} settings that they chose is the advised one.",
                found.handed_on.len()
            ),
        }
    }

    fn region(&self) -> Option<String> {
        let part = |found: &Region| match found.values {
            1 => format!("{} only at {}", found.axis, found.from),
            all if all == found.of => format!("{} at any value", found.axis),
            _ => format!("{} from {} to {}", found.axis, found.from, found.to),
        };
        let parts: Vec<String> = self.regions.iter().map(part).collect();
        (!parts.is_empty()).then(|| {
            format!(
                "By the model, within 1 % of the advised setting, each axis by itself and each value with \
                 95 %: {}.",
                parts.join("; ")
            )
        })
    }

    fn matter(&self) -> Option<String> {
        let names = |alive: bool| -> Vec<&str> {
            let of = self.matters.iter().filter(|found| (found.p <= ALIVE) == alive);
            of.map(|found| found.axis.as_str()).collect()
        };
        let alive = names(true);
        let dead = names(false);
        let level = percent(ALIVE).trim_start_matches('+').to_owned();
        match (&alive[..], &dead[..]) {
            ([], []) => None,
            ([], dead) => {
                Some(format!("Not shown to matter: {} (tests at {level}).", dead.join(", ")))
            }
            (alive, []) => {
                Some(format!("These axes matter: {} (tests at {level}).", alive.join(", ")))
            }
            (alive, dead) => Some(format!(
                "These axes matter: {}; not shown to: {} (tests at {level}).",
                alive.join(", "),
                dead.join(", ")
            )),
        }
    }
}

/// The number of different settings among the measurements.
pub(super) fn settings(told: &[Trial]) -> usize {
    told.iter().map(|trial| &trial.point).collect::<BTreeSet<_>>().len()
}

/// A setting as it is written.
fn spelled(point: &Point) -> String {
    let parts: Vec<String> = point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    parts.join(" ")
}
