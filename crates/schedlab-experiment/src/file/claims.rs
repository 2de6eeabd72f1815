//! The tables `[[claim]]` of an experiment file: what the runs should show if a published result holds.

use super::axis::point;
use super::decode::{Decoder, Entry, Keys};
use super::metric_names::unmeasured;
use super::{Axis, Point, Varies, Workload};
use crate::run_metrics;
use schedlab_model::{Nanos, Unit};
use schedlab_workload::MachineName;

/// A published result as a predicate over the runs of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What was published, in a sentence.
    pub(crate) says: String,
    /// The label of the workload whose runs decide.
    pub(crate) workload: String,
    /// The machine whose runs decide; `None` if the machine is an axis and the claim names no machine.
    pub(crate) machine: Option<MachineName>,
    /// The name of the metric.
    pub(crate) metric: String,
    /// The values on some axes, by the names of the axes. Other axes are free: their points are averaged.
    pub(crate) at: Point,
    /// What is judged: a value, a ratio or a slope.
    pub(crate) measure: Measure,
    /// The least value that agrees with the claim: a ratio, or a value in the metric's unit (divided by the
    /// unit of the axis for a slope). Negative infinity without a bound.
    pub(crate) at_least: f64,
    /// The greatest value that agrees with it; infinity without a bound.
    pub(crate) at_most: f64,
    /// Why the bounds are where they are.
    pub(crate) why: String,
}

/// What a claim judges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The value of the metric itself.
    Value,
    /// Its ratio to the metric at another point, block by block.
    Ratio(Point),
    /// By how much it rises per unit of an axis: a straight line through the points of each block.
    Slope(String),
}

pub(super) const KEYS: &[&str] = &[
    "says", "workload", "machine", "metric", "at", "against", "along", "at_least", "at_most", "why",
];

/// Points of the least line with a slope.
pub(super) const POINTS_MIN: usize = 3;

/// The parts of the file that claims refer to.
pub(super) struct FileContext<'f> {
    pub(super) workloads: &'f [Workload],
    pub(super) axes: &'f [Axis],
    pub(super) machine: &'f MachineName,
    /// Whether a hook measures, whose metrics have names of their own.
    pub(super) own_metrics: bool,
}

pub(super) fn claims(
    decoder: &mut Decoder<'_>,
    entry: Entry<'_>,
    around: &FileContext<'_>,
) -> Vec<Claim> {
    let items = decoder.items(entry, "tables [[claim]]");
    let mut claims = Vec::new();
    for item in items {
        let Some(keys) = decoder.table(item) else { continue };
        claims.extend(claim(decoder, keys, around));
    }
    claims
}

fn claim(decoder: &mut Decoder<'_>, mut keys: Keys<'_>, around: &FileContext<'_>) -> Option<Claim> {
    let place = keys.place.clone();
    let says = sentence(decoder, &mut keys, "says", "the published result in a sentence");
    let why = sentence(decoder, &mut keys, "why", "the reason for the bounds");
    let metric = metric(decoder, &mut keys, around);
    let workload = workload(decoder, &mut keys, around);
    let machine = machine(decoder, &mut keys, around);
    let at = keys.take("at").map(|e| point(decoder, e, around.axes)).unwrap_or_default();
    let against = keys.take("against").map(|e| point(decoder, e, around.axes));
    let along = keys.take("along").and_then(|e| along(decoder, &e, around));
    let unit = against.is_none().then(|| metric.as_deref().and_then(run_metrics::find)).flatten();
    let unit = unit.map(|metric| metric.unit);
    let low = keys.take("at_least");
    let high = keys.take("at_most");
    decoder.finish(keys, KEYS);
    let has_bound = low.is_some() || high.is_some();
    let at_least = low.and_then(|e| bound(decoder, &e, unit));
    let at_most = high.and_then(|e| bound(decoder, &e, unit));
    if !has_bound {
        decoder.mistake(&place, "claim", "a claim needs at_least, at_most or both");
    }
    let at_least = at_least.unwrap_or(f64::NEG_INFINITY);
    let at_most = at_most.unwrap_or(f64::INFINITY);
    if at_least > at_most {
        decoder.mistake(&place, "claim", "at_least is greater than at_most");
    }
    if let Some(axis) = against.iter().flat_map(Point::keys).find(|axis| !at.contains_key(*axis)) {
        let what = format!("a ratio needs {axis} at both points: name it in at");
        decoder.mistake(&place, "claim.at", what);
    }
    let measure = match (against, along) {
        (None, None) => Measure::Value,
        (Some(point), None) => Measure::Ratio(point),
        (None, Some(axis)) => Measure::Slope(axis),
        (Some(_), Some(_)) => {
            decoder.mistake(&place, "claim", "give against for a ratio or along for a slope");
            return None;
        }
    };
    let says = says?;
    let why = why?;
    let metric = metric?;
    Some(Claim { says, workload: workload?, machine, metric, at, measure, at_least, at_most, why })
}

/// A text that a claim must have.
fn sentence(
    decoder: &mut Decoder<'_>,
    keys: &mut Keys<'_>,
    key: &str,
    what: &str,
) -> Option<String> {
    let Some(entry) = keys.take(key) else {
        let place = keys.place.clone();
        decoder.mistake(&place, &format!("claim.{key}"), format!("a claim needs {what}"));
        return None;
    };
    decoder.text(&entry, what)
}

fn metric(
    decoder: &mut Decoder<'_>,
    keys: &mut Keys<'_>,
    around: &FileContext<'_>,
) -> Option<String> {
    let place = keys.take("metric").map(|entry| (entry.place.clone(), entry));
    let Some((place, entry)) = place else {
        let place = keys.place.clone();
        decoder.mistake(&place, "claim.metric", "a claim needs a metric (docs/metrics.md)");
        return None;
    };
    let name = decoder.text(&entry, "the name of a metric")?;
    if !around.own_metrics {
        unmeasured(decoder, &place, "claim.metric", std::slice::from_ref(&name));
    }
    Some(name)
}

/// The workload by its label; the only one if the claim names none.
fn workload(
    decoder: &mut Decoder<'_>,
    keys: &mut Keys<'_>,
    around: &FileContext<'_>,
) -> Option<String> {
    let labels: Vec<&str> = around.workloads.iter().map(|w| w.label.as_str()).collect();
    let Some(entry) = keys.take("workload") else {
        let [only] = labels[..] else {
            let what = format!("name one of the workloads {}", labels.join(", "));
            let place = keys.place.clone();
            decoder.mistake(&place, "claim.workload", what);
            return None;
        };
        return Some(only.to_owned());
    };
    let label = decoder.text(&entry, "a workload's label")?;
    if !labels.contains(&label.as_str()) {
        let what = format!("unknown workload '{label}': use {}", labels.join(", "));
        decoder.mistake(&entry.place, &entry.key, what);
    }
    Some(label)
}

/// The machine: the one of the claim, else the one of the file unless the machine is an axis.
fn machine(
    decoder: &mut Decoder<'_>,
    keys: &mut Keys<'_>,
    around: &FileContext<'_>,
) -> Option<MachineName> {
    let axis = around.axes.iter().find(|axis| axis.varies == Varies::Machine);
    let Some(entry) = keys.take("machine") else {
        return axis.is_none().then(|| around.machine.clone());
    };
    let text = decoder.text(&entry, "a machine, such as \"host\"")?;
    let named = match text.parse::<MachineName>() {
        Ok(named) => named,
        Err(why) => {
            decoder.mistake(&entry.place, &entry.key, why);
            return None;
        }
    };
    let is_there = match axis {
        Some(axis) => axis.values.contains(&named.to_string()),
        None => named == *around.machine,
    };
    if !is_there {
        let what = format!("unknown machine '{named}': name a machine of this experiment");
        decoder.mistake(&entry.place, &entry.key, what);
    }
    Some(named)
}

fn along(decoder: &mut Decoder<'_>, entry: &Entry<'_>, around: &FileContext<'_>) -> Option<String> {
    let name = decoder.text(entry, "the name of an axis")?;
    let axis = around.axes.iter().find(|axis| axis.name() == name);
    if axis.is_none_or(|axis| axis.values.len() < POINTS_MIN) {
        let what = format!("unknown axis '{name}': use an axis with {POINTS_MIN} values or more");
        decoder.mistake(&entry.place, &entry.key, what);
    }
    Some(name)
}

/// A bound: a number, or a duration if the metric is a time and no ratio is judged.
fn bound(decoder: &mut Decoder<'_>, entry: &Entry<'_>, unit: Option<Unit>) -> Option<f64> {
    let expected = "a number, or a duration as text if the metric is a time";
    let Some(text) = entry.value.as_str() else { return decoder.number(entry, expected) };
    let time = text.parse::<Nanos>().ok();
    let bound = match (unit, time) {
        (Some(Unit::Nanoseconds), Some(time)) => Some(time.0 as f64),
        (Some(Unit::Seconds), Some(time)) => Some(time.as_secs_f64()),
        _ => None,
    };
    if bound.is_none() {
        decoder.mistake(&entry.place, &entry.key, format!("expected {expected}, found '{text}'"));
    }
    bound
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, FileError};
    use std::path::Path;

    const HEAD: &str = "[workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\n\
         values = [\"1ms\", \"4ms\"]\n[[axis]]\noption = \"groups\"\nvalues = [1, 2, 8]\n";

    fn parse(claim: &str) -> Result<Vec<Claim>, Vec<String>> {
        let text = format!("{HEAD}[[claim]]\n{claim}");
        match Experiment::parse(&text, Path::new("x.toml")) {
            Ok(experiment) => Ok(experiment.claims),
            Err(FileError::Wrong { mistakes, .. }) => {
                Err(mistakes.iter().map(ToString::to_string).collect())
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_claim_has_a_statement_a_metric_a_bound_and_its_reason() {
        let claims = parse(
            "says = \"a short slice costs time\"\nwhy = \"the figure shows a tenth\"\n\
             metric = \"time_s\"\nat = { slice = \"1ms\" }\nagainst = { slice = \"4ms\" }\nat_least = 1.1\n",
        );
        let claim = &claims.unwrap()[0];
        assert_eq!((claim.workload.as_str(), claim.at_least), ("hackbench", 1.1));
        assert_eq!(claim.machine, Some(MachineName::default()));
        let point = Point::from([("slice".to_owned(), "4ms".to_owned())]);
        assert_eq!(claim.measure, Measure::Ratio(point));
        assert_eq!(claim.at_most, f64::INFINITY);
    }

    #[test]
    fn bounds_of_times_may_have_their_unit() {
        let slope = "says = \"s\"\nwhy = \"w\"\nmetric = \"time_s\"\nalong = \"groups\"\n";
        let claims = parse(&format!("{slope}at_least = \"2ms\"\nat_most = 0.1\n")).unwrap();
        assert_eq!((claims[0].at_least, claims[0].at_most), (0.002, 0.1));
        assert_eq!(claims[0].measure, Measure::Slope("groups".into()));
        let ratio = "says = \"s\"\nwhy = \"w\"\nmetric = \"time_s\"\nat = { groups = 2 }\n\
                     against = { groups = 1 }\n";
        let found = parse(&format!("{ratio}at_least = \"2ms\"\n")).unwrap_err();
        assert!(found[0].contains("claim.at_least: expected a number"), "{found:?}");
    }

    #[test]
    fn each_mistake_of_a_claim_is_named_at_its_place() {
        let found = parse(
            "says = \"s\"\nmetric = \"time\"\nat = { slize = \"1ms\", groups = 3 }\n\
             machine = \"sim:cpus=2\"\nworkload = \"x\"\n",
        )
        .unwrap_err();
        for part in [
            "claim.why: a claim needs the reason",
            "claim.metric: unknown metric 'time'",
            "unknown axis 'slize'",
            "unknown value '3' of the axis: use 1, 2, 8",
            "unknown machine 'sim:cpus=2'",
            "unknown workload 'x': use hackbench",
            "needs at_least, at_most or both",
        ] {
            assert!(found.iter().any(|mistake| mistake.contains(part)), "{part}: {found:#?}");
        }
        let free = "says = \"s\"\nwhy = \"w\"\nmetric = \"time_s\"\nagainst = { groups = 1 }\nat_most = 1\n";
        let found = parse(free).unwrap_err();
        assert!(found[0].contains("claim.at: a ratio needs groups at both points"), "{found:?}");
        let both = "says = \"s\"\nwhy = \"w\"\nmetric = \"time_s\"\nat_least = 2\nat_most = 1\n";
        let found = parse(both).unwrap_err();
        assert!(found[0].contains("at_least is greater than at_most"), "{found:?}");
    }
}
