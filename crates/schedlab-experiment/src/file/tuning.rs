//! The table `[tune]` of an experiment file: how settings are searched for.

use super::axis::point;
use super::decode::{Decoder, Entry, Keys};
use super::metric_names::unmeasured;
use super::{Axis, AxisKind, Point, Varies, Workload};
use crate::run_metrics;
use schedlab_model::{Better, Nanos, Unit};
use schedlab_tune::Method;
use schedlab_workload::{MachineName, metrics};

/// How settings are searched for.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// Measurements of the search, repeats included; those that confirm come on top.
    pub budget: u32,
    /// Points that fill the space; `None`: as many as fit the budget.
    pub(crate) start: Option<u32>,
    /// How points are chosen.
    pub(crate) method: Method,
    /// The metrics to improve; empty: the first of `measure`, else the primary one of the workload.
    pub(crate) goals: Vec<String>,
    /// What has to hold meanwhile.
    pub(crate) limits: Vec<Limit>,
    /// The values in use now, by the names of axes; axes that are not named have their first value.
    pub(crate) default: Point,
    /// Pairs of fresh runs that confirm the result, at most.
    pub confirm: u32,
    /// What cheaper runs look for good settings first.
    pub screen: Option<Screen>,
}

/// Cheaper runs that look for good settings, if a pilot shows that they rank settings alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Screen {
    /// The machine that does them; `None`: the same.
    pub(crate) machine: Option<MachineName>,
    /// Options of the workloads that make runs short.
    pub(crate) options: Point,
    /// The number of cheap measurements.
    pub(crate) budget: u32,
}

/// A bound that a metric has to keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The name of the metric.
    pub(crate) metric: String,
    /// The bound in the metric's unit.
    pub(crate) bound: f64,
    /// Whether values above the bound are wrong; else those below.
    pub(crate) is_upper: bool,
    /// The limit as it was written in the file.
    pub(crate) text: String,
}

pub(super) const KEYS: &[&str] =
    &["budget", "start", "method", "goals", "limits", "default", "confirm", "screen"];
pub(super) const SCREEN_KEYS: &[&str] = &["machine", "options", "budget"];

/// Measurements where the file says nothing.
const BUDGET: u32 = 58;
/// Pairs of fresh runs where the file says nothing.
const CONFIRM: u32 = 20;
/// Pairs from which on ranks can decide.
const CONFIRM_MIN: u64 = 6;

pub(super) fn tuning(
    decoder: &mut Decoder<'_>,
    entry: Entry<'_>,
    axes: &[Axis],
    workloads: &[Workload],
    own_metrics: bool,
) -> Option<Tuning> {
    let mut keys = decoder.table(entry)?;
    let place = keys.place.clone();
    if axes.is_empty() {
        decoder.mistake(&place, "tune", "missing [[axis]]: add the settings to search");
    }
    for (axis, label) in of_work(axes, workloads) {
        let what = format!(
            "'{axis}' sets how much work {label} does, so its values do not compare: use another \
             axis"
        );
        decoder.mistake(&place, "axis.option", what);
    }
    let budget = number(decoder, &mut keys, "budget", 4);
    let start = number(decoder, &mut keys, "start", 2);
    let confirm = number(decoder, &mut keys, "confirm", CONFIRM_MIN);
    let words = [("model", Method::Model), ("grid", Method::Grid), ("random", Method::Random)];
    let method = keys.take("method").and_then(|e| decoder.word(&e, &words));
    let goals = keys.take("goals").map(|e| goals(decoder, e, own_metrics)).unwrap_or_default();
    let limits = keys.take("limits").map(|e| limits(decoder, e)).unwrap_or_default();
    let default = keys.take("default").map(|e| point(decoder, e, axes)).unwrap_or_default();
    let screen = keys.take("screen").and_then(|e| screen(decoder, e));
    decoder.finish(keys, KEYS);
    Some(Tuning {
        budget: budget.unwrap_or(BUDGET),
        start,
        method: method.unwrap_or_default(),
        goals,
        limits,
        default,
        confirm: confirm.unwrap_or(CONFIRM),
        screen,
    })
}

/// `screen = { machine = "sim:cpus=8" }`, or `{ options = { runtime = "1s" } }`.
fn screen(decoder: &mut Decoder<'_>, entry: Entry<'_>) -> Option<Screen> {
    let place = entry.place.clone();
    let key = entry.key.clone();
    let mut keys = decoder.table(entry)?;
    let machine = keys.take("machine").and_then(|entry| {
        let text = decoder.text(&entry, "a machine, such as \"sim:cpus=4\"")?;
        let read = text.parse::<MachineName>();
        read.map_err(|why| decoder.mistake(&entry.place, &entry.key, why)).ok()
    });
    let mut options = Point::new();
    if let Some(mut keys) = keys.take("options").and_then(|entry| decoder.table(entry)) {
        for (name, entry) in keys.rest() {
            options.extend(decoder.scalar(&entry).map(|value| (name, value)));
        }
    }
    let budget = number(decoder, &mut keys, "budget", 4).unwrap_or(BUDGET);
    decoder.finish(keys, SCREEN_KEYS);
    if machine.is_none() && options.is_empty() {
        let what = "name what makes these runs cheaper: machine = \"sim:..\", or options = { .. }";
        decoder.mistake(&place, &key, what);
        return None;
    }
    Some(Screen { machine, options, budget })
}

/// Axes that ask a workload for more or less work: the least work is always done first.
fn of_work<'f>(axes: &'f [Axis], workloads: &'f [Workload]) -> Vec<(&'f str, &'f str)> {
    let mut found = Vec::new();
    for axis in axes.iter().filter(|axis| axis.kind != Some(AxisKind::Setting)) {
        let Varies::Option(name) = &axis.varies else { continue };
        for Workload { label, spec, .. } in workloads {
            let is_meant = axis.workload.is_empty() || axis.workload == *label;
            let is_load = axis.kind == Some(AxisKind::Load) || metrics::work(spec, name).is_some();
            if is_meant && is_load {
                found.push((name.as_str(), label.as_str()));
            }
        }
    }
    found
}

fn number(decoder: &mut Decoder<'_>, keys: &mut Keys<'_>, key: &str, least: u64) -> Option<u32> {
    let entry = keys.take(key)?;
    decoder.whole(&entry, least..10_001).and_then(|n| u32::try_from(n).ok())
}

fn goals(decoder: &mut Decoder<'_>, entry: Entry<'_>, own_metrics: bool) -> Vec<String> {
    let place = entry.place.clone();
    let key = entry.key.clone();
    let names = decoder.texts(entry, "an array of metric names");
    if !own_metrics {
        unmeasured(decoder, &place, &key, &names);
    }
    for name in &names {
        if run_metrics::find(name).is_some_and(|metric| metric.better == Better::Neither) {
            let what = format!(
                "'{name}' does not have a better direction: use another metric (docs/metrics.md)"
            );
            decoder.mistake(&place, &key, what);
        }
    }
    names
}

fn limits(decoder: &mut Decoder<'_>, entry: Entry<'_>) -> Vec<Limit> {
    let key = entry.key.clone();
    let expected = "an array of limits such as \"wakeup_latency_ns_p99 < 300us\"";
    let items = decoder.items(entry, expected);
    let read = |item: &Entry<'_>, decoder: &mut Decoder<'_>| {
        let text = decoder.text(item, expected)?;
        match limit(&text) {
            Ok(limit) => Some(limit),
            Err(what) => {
                decoder.mistake(&item.place, &key, what);
                None
            }
        }
    };
    items.iter().filter_map(|item| read(item, decoder)).collect()
}

/// `METRIC < VALUE` or `METRIC > VALUE`.
fn limit(text: &str) -> Result<Limit, String> {
    let at = text.find(['<', '>']);
    let at = at.ok_or_else(|| format!("invalid limit '{text}': use METRIC < VALUE"))?;
    let metric = text[..at].trim();
    let value = text[at + 1..].trim();
    let unit = run_metrics::find(metric).map(|metric| metric.unit);
    let unit = unit
        .ok_or_else(|| format!("unknown metric '{metric}': docs/metrics.md lists all metrics"))?;
    let time = value.parse::<Nanos>().ok();
    let bound = match (unit, value.parse::<f64>().ok(), time) {
        (_, Some(number), _) => Some(number),
        (Unit::Nanoseconds, _, Some(time)) => Some(time.0 as f64),
        (Unit::Seconds, _, Some(time)) => Some(time.as_secs_f64()),
        _ => None,
    };
    let bound = bound.filter(|bound| *bound > 0.0);
    let bound = bound
        .ok_or_else(|| format!("invalid value '{value}' of {metric}: use a number above 0"))?;
    let is_upper = text[at..].starts_with('<');
    Ok(Limit { metric: metric.to_owned(), bound, is_upper, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, FileError};
    use std::path::Path;

    const AXIS: &str = "[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"2ms\"]\n";

    fn parse(axes: &str, tune: &str) -> Result<Tuning, Vec<String>> {
        let text = format!("[workload]\nname = \"hackbench\"\n{axes}[tune]\n{tune}\n");
        match Experiment::parse(&text, Path::new("x.toml")) {
            Ok(experiment) => Ok(experiment.tune.expect("the file has one")),
            Err(FileError::Wrong { mistakes, .. }) => {
                Err(mistakes.iter().map(ToString::to_string).collect())
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[track_caller]
    fn refused(tune: &str, what: &str) {
        let found = parse(AXIS, tune).unwrap_err();
        assert!(found.len() == 1 && found[0].contains(what), "{tune}: {found:?}");
    }

    #[test]
    fn a_search_has_a_usual_size_and_each_key_of_it_is_taken_over() {
        let usual = parse(AXIS, "").unwrap();
        assert_eq!((usual.budget, usual.confirm, usual.start), (58, 20, None));
        assert_eq!((usual.method, usual.screen), (Method::default(), None));
        let own = "budget = 9\nconfirm = 6\nstart = 2\nmethod = \"random\"\ngoals = [\"time_s\"]\n\
                   default = { slice = \"2ms\" }\nlimits = [\"time_s < 2s\"]\n\
                   screen = { machine = \"sim:cpus=4\", options = { loops = 3 }, budget = 4 }";
        let own = parse(AXIS, own).unwrap();
        assert_eq!((own.budget, own.confirm, own.start), (9, 6, Some(2)));
        assert_eq!((own.method, own.goals), (Method::Random, vec!["time_s".to_owned()]));
        assert_eq!(own.default, Point::from([("slice".to_owned(), "2ms".to_owned())]));
        assert_eq!(own.limits[0].bound, 2.0);
        let screen = own.screen.unwrap();
        assert_eq!(
            (screen.machine.unwrap().to_string().as_str(), screen.budget),
            ("sim:cpus=4", 4)
        );
        assert_eq!(screen.options, Point::from([("loops".to_owned(), "3".to_owned())]));
        assert_eq!(parse(AXIS, "method = \"grid\"").unwrap().method, Method::Grid);
    }

    #[test]
    fn a_search_that_is_too_small_is_refused() {
        refused("budget = 3", "tune.budget: expected a whole number from 4 to 10000");
        refused("start = 1", "tune.start: expected a whole number from 2 to 10000");
        refused("confirm = 5", "tune.confirm: expected a whole number from 6 to 10000");
        refused("budget = 10001", "tune.budget: expected");
        assert_eq!(parse(AXIS, "budget = 10000").unwrap().budget, 10_000);
        refused("screen = { budget = 4 }", "name what makes these runs cheaper");
        refused("screen = { machine = \"sim\", budget = 3 }", "from 4 to 10000");
        assert!(parse(AXIS, "screen = { options = { loops = 3 } }").unwrap().screen.is_some());
    }

    #[test]
    fn what_sets_how_much_work_is_done_is_not_searched() {
        let groups = "[[axis]]\noption = \"groups\"\nvalues = [1, 2]\n";
        let found = parse(groups, "").unwrap_err();
        assert!(found[0].contains("'groups' sets how much work hackbench does"), "{found:?}");
        let other = "[[axis]]\noption = \"pipe\"\nvalues = [true, false]\n";
        assert!(parse(other, "").is_ok(), "it is no work of this workload");
        let found = parse("", "").unwrap_err();
        assert!(found[0].contains("missing [[axis]]: add the settings to search"), "{found:?}");
    }

    #[test]
    fn goals_are_metrics_with_a_better_direction() {
        refused("goals = [\"time\"]", "unknown metric 'time'");
        let neither = run_metrics::all().into_iter().find(|name| {
            run_metrics::find(name).is_some_and(|metric| metric.better == Better::Neither)
        });
        let name = neither.expect("some only describe");
        refused(&format!("goals = [\"{name}\"]"), "does not have a better direction");
    }

    #[test]
    fn a_limit_is_a_bound_in_the_unit_of_its_metric() {
        let of = |text: &str| limit(text).map(|limit| (limit.metric, limit.bound, limit.is_upper));
        let found = |metric: &str, bound, is_upper| Ok((metric.to_owned(), bound, is_upper));
        assert_eq!(of("time_s < 2"), found("time_s", 2.0, true));
        assert_eq!(of("time_s>2ms"), found("time_s", 0.002, false));
        let p99 = "wakeup_latency_ns_p99";
        assert_eq!(of(&format!("{p99} < 300us")), found(p99, 300_000.0, true));
        assert_eq!(of(&format!("{p99} < 7")), found(p99, 7.0, true));
        for (text, what) in [
            ("time_s 2", "use METRIC < VALUE"),
            ("time < 2", "unknown metric 'time'"),
            ("time_s < 0", "use a number above 0"),
            ("time_s < -1", "use a number above 0"),
            ("migrations < 2ms", "invalid value '2ms' of migrations"),
        ] {
            let why = of(text).unwrap_err();
            assert!(why.contains(what), "{text}: {why}");
        }
        refused("limits = [\"time_s\"]", "tune.limits: invalid limit 'time_s'");
    }
}
