//! Axes of an experiment: what is varied, and over which values.

use super::decode::{Decoder, Entry, Keys};
use super::locations::Part;
use crate::Point;
use schedlab_model::Nanos;
use schedlab_workload::MachineName;
use std::ops::Range;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Varies {
    /// An option of the workload, by its long name.
    Option(String),
    /// The axis varies a scheduler knob.
    Knob(String),
    /// What stands in braces in the commands around a run: which sched_ext scheduler, say.
    Hook(String),
    /// The speed of a set of CPUs, as a fraction of full speed: `speed = "0-1"`.
    Speed(String),
    /// The machine: the file's `machine` is an array.
    Machine,
}

impl Varies {
    /// The bare name, as in titles and columns.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Option(name) | Self::Knob(name) | Self::Hook(name) => name,
            Self::Speed(_) => "speed",
            Self::Machine => MACHINE,
        }
    }

    /// The part of runs that a value of the axis becomes; hooks are no machine's business.
    fn part(&self, workload: &str) -> Option<Part> {
        Some(match self {
            Self::Option(name) => Part::Option { label: workload.to_owned(), name: name.clone() },
            Self::Knob(name) => Part::Setting(name.clone()),
            Self::Speed(cpus) => Part::Setting(format!("speed:{cpus}")),
            Self::Machine => Part::Machine,
            Self::Hook(_) => return None,
        })
    }
}

/// One axis: at each point of the experiment it has one of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    pub varies: Varies,
    /// The label of the only workload that it concerns, or empty for all.
    pub(crate) workload: String,
    /// Its values in the file's order, as text with their units. Never empty, no value twice.
    pub values: Vec<String>,
    /// Where it exists only beside a value of another axis.
    pub when: Option<When>,
    /// What the file says the axis is; `None`: what the workload says of the option.
    pub(crate) kind: Option<AxisKind>,
}

/// What an axis is to the question of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AxisKind {
    /// A choice: its values compete over the same work.
    Setting,
    /// How much work is asked for, which nobody chooses.
    Load,
}

/// The condition under which an axis exists: elsewhere it has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    /// The name of an axis before it.
    pub axis: String,
    pub(crate) value: String,
}

impl Axis {
    /// Its name in points: with the label of a workload, where it concerns one alone.
    #[must_use]
    pub fn name(&self) -> String {
        match self.workload.as_str() {
            "" => self.varies.name().to_owned(),
            label => format!("{label}/{}", self.varies.name()),
        }
    }
}

/// The key of the machine in the file, and the name of its axis.
pub(super) const MACHINE: &str = "machine";

const KEYS: [&str; 9] =
    ["option", "knob", "speed", "hook", "workload", "values", "range", "when", "kind"];
const RANGE_KEYS: [&str; 5] = ["from", "to", "step", "count", "log"];
/// More points on one axis than anyone waits for are a slip of the pen.
const VALUES_MAX: u64 = 10_000;

pub(crate) fn axis(decoder: &mut Decoder<'_>, mut keys: Keys<'_>) -> Option<Axis> {
    let place = keys.place.clone();
    let path = keys.path().to_owned();
    let varies: Vec<Varies> = [
        ("option", Varies::Option as fn(String) -> Varies),
        ("knob", Varies::Knob),
        ("speed", Varies::Speed),
        ("hook", Varies::Hook),
    ]
    .into_iter()
    .filter_map(|(name, make)| {
        let entry = keys.take(name)?;
        decoder.text(&entry, "a name").map(make)
    })
    .collect();
    let workload = keys.take("workload").and_then(|e| decoder.text(&e, "a workload's label"));
    let values = keys.take("values").map(|entry| listed(decoder, entry));
    let range = keys.take("range").map(|entry| ranged(decoder, entry));
    let when = keys.take("when").and_then(|entry| when(decoder, entry));
    let kinds = [("setting", AxisKind::Setting), ("load", AxisKind::Load)];
    let kind = keys.take("kind").and_then(|entry| decoder.word(&entry, &kinds));
    decoder.finish(keys, &KEYS);

    let [varies] = <[Varies; 1]>::try_from(varies)
        .map_err(|_| {
            decoder.mistake(&place, &path, "name one thing to vary: option, knob, speed or hook");
        })
        .ok()?;
    let values = match (values, range) {
        (Some(values), None) | (None, Some(values)) => values,
        _ => {
            decoder.mistake(&place, &path, "give either values = [..] or range = { from, to, .. }");
            return None;
        }
    };
    if values.is_empty() {
        return None;
    }
    let axis = made(decoder, varies, workload.unwrap_or_default(), values, &(place, path))?;
    Some(Axis { when, kind, ..axis })
}

/// Values on axes that exist.
pub(super) fn point(decoder: &mut Decoder<'_>, entry: Entry<'_>, axes: &[Axis]) -> Point {
    let key = entry.key.clone();
    let Some(mut keys) = decoder.table(entry) else { return Point::new() };
    let mut point = Point::new();
    for (name, entry) in keys.rest() {
        let place = entry.place.clone();
        let Some(value) = decoder.scalar(&entry) else { continue };
        let axis = axes.iter().find(|axis| axis.name() == name);
        // A machine has several spellings; the axis holds one.
        let value = match axis.map(|axis| &axis.varies) {
            Some(Varies::Machine) => {
                value.parse::<MachineName>().map_or(value, |machine| machine.to_string())
            }
            _ => value,
        };
        match axis {
            None => decoder.mistake(&place, &key, format!("unknown axis '{name}'")),
            Some(axis) if !axis.values.contains(&value) => {
                let values = axis.values.join(", ");
                let what = format!("unknown value '{value}' of the axis: use {values}");
                decoder.mistake(&place, &key, what);
            }
            Some(_) => drop(point.insert(name, value)),
        }
    }
    point
}

/// `when = { policy = "batch" }`.
fn when(decoder: &mut Decoder<'_>, entry: Entry<'_>) -> Option<When> {
    let place = entry.place.clone();
    let key = entry.key.clone();
    let mut keys = decoder.table(entry)?;
    let mut rest = keys.rest();
    let (Some((axis, entry)), true) = (rest.pop(), rest.is_empty()) else {
        decoder.mistake(&place, &key, "name one axis and its value: when = { NAME = VALUE }");
        return None;
    };
    Some(When { axis, value: decoder.scalar(&entry)? })
}

/// The axis of an array of machines.
pub(super) fn machines(decoder: &mut Decoder<'_>, entry: Entry<'_>) -> Option<Axis> {
    let whole = (entry.place.clone(), entry.key.clone());
    let items = decoder.items(entry, "an array of machines");
    let values = items.iter().filter_map(|item| {
        let text = decoder.text(item, "a machine, such as \"sim:cpus=4\"")?;
        match text.parse::<MachineName>() {
            Ok(machine) => Some((machine.to_string(), item.place.clone())),
            Err(why) => {
                decoder.mistake(&item.place, &item.key, why);
                None
            }
        }
    });
    let values: Vec<Value> = values.collect();
    if values.is_empty() {
        decoder.mistake(&whole.0, &whole.1, "name at least one machine");
        return None;
    }
    made(decoder, Varies::Machine, String::new(), values, &whole)
}

/// A value of an axis and where it is written.
type Value = (String, Range<usize>);

/// An axis of these values, none of which may be there twice. `place` and key are the table's.
fn made(
    decoder: &mut Decoder<'_>,
    varies: Varies,
    workload: String,
    values: Vec<Value>,
    (place, key): &(Range<usize>, String),
) -> Option<Axis> {
    let mut seen = std::collections::BTreeSet::new();
    if let Some((twice, _)) = values.iter().find(|(value, _)| !seen.insert(value.as_str())) {
        decoder.mistake(place, key, format!("the value {twice} is there twice"));
        return None;
    }
    let inside = if varies == Varies::Machine { key.clone() } else { format!("{key}.values") };
    for (value, place) in &values {
        if let Some(part) = varies.part(&workload) {
            decoder.written(part, value, place, &inside);
        }
    }
    let values = values.into_iter().map(|(value, _)| value).collect();
    Some(Axis { varies, workload, values, when: None, kind: None })
}

fn listed(decoder: &mut Decoder<'_>, entry: Entry<'_>) -> Vec<Value> {
    let place = entry.place.clone();
    let key = entry.key.clone();
    let items = decoder.items(entry, "an array of values");
    let value = |item: &Entry<'_>| Some((decoder.scalar(item)?, item.place.clone()));
    let values: Vec<Value> = items.iter().filter_map(value).collect();
    if values.is_empty() {
        decoder.mistake(&place, &key, "an axis needs at least one value");
    }
    values
}

/// A number, or a duration that keeps its unit.
#[derive(Clone, Copy)]
enum Bound {
    Number(f64),
    Time(Nanos),
}

impl Bound {
    fn plain(self) -> f64 {
        match self {
            Self::Number(number) => number,
            Self::Time(time) => time.0 as f64,
        }
    }
}

fn bound(decoder: &mut Decoder<'_>, keys: &mut Keys<'_>, name: &str) -> Option<Bound> {
    let entry = keys.take(name)?;
    if let Some(text) = entry.value.as_str() {
        return match Nanos::from_str(text) {
            Ok(time) => Some(Bound::Time(time)),
            Err(error) => {
                decoder.mistake(&entry.place, &entry.key, error.to_string());
                None
            }
        };
    }
    decoder.number(&entry, "a number, or a duration such as \"0.1ms\"").map(Bound::Number)
}

/// `{ from, to, step }`, `{ from, to, count }`, or `{ from, to, count, log = true }`.
fn ranged(decoder: &mut Decoder<'_>, entry: Entry<'_>) -> Vec<Value> {
    let place = entry.place.clone();
    let key = entry.key.clone();
    let Some(mut keys) = decoder.table(entry) else { return Vec::new() };
    let mistakes = decoder.mistakes.len();
    let from = bound(decoder, &mut keys, "from");
    let to = bound(decoder, &mut keys, "to");
    let step = bound(decoder, &mut keys, "step");
    let count = keys.take("count").and_then(|e| decoder.whole(&e, 2..VALUES_MAX + 1));
    let log = keys.take("log").is_some_and(|e| {
        let flag = e.value.as_bool();
        if flag.is_none() {
            decoder.mistake(&e.place, &e.key, "expected true or false");
        }
        flag.unwrap_or(false)
    });
    decoder.finish(keys, &RANGE_KEYS);
    if decoder.mistakes.len() > mistakes {
        return Vec::new();
    }
    match spread(from, to, step, count, log) {
        Ok(values) => values.into_iter().map(|value| (value, place.clone())).collect(),
        Err(what) => {
            decoder.mistake(&place, &key, what);
            Vec::new()
        }
    }
}

fn spread(
    from: Option<Bound>,
    to: Option<Bound>,
    step: Option<Bound>,
    count: Option<u64>,
    log: bool,
) -> Result<Vec<String>, String> {
    let (Some(from), Some(to)) = (from, to) else {
        return Err("a range needs from and to".into());
    };
    let timed = matches!(from, Bound::Time(_));
    if timed != matches!(to, Bound::Time(_))
        || step.is_some_and(|s| timed != matches!(s, Bound::Time(_)))
    {
        return Err("from, to and step must all be numbers or all be durations".into());
    }
    let low = from.plain();
    let high = to.plain();
    let whole = !timed
        && [Some(from), Some(to), step].into_iter().flatten().all(|b| b.plain().fract() == 0.0);
    if low >= high {
        return Err("from must be less than to".into());
    }
    let values: Vec<f64> = match (step.map(Bound::plain), count, log) {
        (Some(step), None, false) if step > 0.0 => {
            let steps = ((high - low) / step + 1e-9).floor();
            if steps >= VALUES_MAX as f64 {
                return Err(format!("more than {VALUES_MAX} values"));
            }
            (0..).map(f64::from).take_while(|i: &f64| *i <= steps).map(|i| low + i * step).collect()
        }
        (None, Some(count), false) => {
            let last = (count - 1) as f64;
            (0..count).map(|i| low + (high - low) * i as f64 / last).collect()
        }
        (None, Some(count), true) if low > 0.0 => {
            let last = (count - 1) as f64;
            (0..count).map(|i| low * (high / low).powf(i as f64 / last)).collect()
        }
        (_, _, true) if low <= 0.0 => return Err("a log range starts above 0".into()),
        _ => return Err("give step (above 0), or count, or count with log = true".into()),
    };
    let mut texts: Vec<String> =
        values.into_iter().map(|value| spelled(value, timed, whole)).collect();
    // Rounding to what a person can read may make neighbours equal.
    texts.dedup();
    Ok(texts)
}

/// To three significant digits, so that a log range reads `100us`, `215us`, `464us`, `1ms`. A range
/// between whole numbers keeps to whole numbers: there is no 1.8th group.
fn spelled(value: f64, timed: bool, whole: bool) -> String {
    if whole {
        return format!("{}", value.round());
    }
    let digits = value.abs().max(1e-300).log10().floor();
    if timed {
        let grain = 10f64.powf(digits - 2.0);
        return Nanos(((value / grain).round() * grain).round() as u64).to_string();
    }
    let decimals = (2.0 - digits).clamp(0.0, 300.0) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(
        from: f64,
        to: f64,
        step: Option<f64>,
        count: Option<u64>,
        log: bool,
    ) -> Result<Vec<String>, String> {
        let [from, to] = [from, to].map(|number| Some(Bound::Number(number)));
        spread(from, to, step.map(Bound::Number), count, log)
    }

    fn times(
        from: u64,
        to: u64,
        step: Option<u64>,
        count: Option<u64>,
        log: bool,
    ) -> Result<Vec<String>, String> {
        let time = |ns| Bound::Time(Nanos(ns));
        spread(Some(time(from)), Some(time(to)), step.map(time), count, log)
    }

    #[test]
    fn a_range_goes_in_steps_up_to_its_end() {
        assert_eq!(numbers(1.0, 7.0, Some(3.0), None, false).unwrap(), ["1", "4", "7"]);
        assert_eq!(numbers(1.0, 6.9, Some(3.0), None, false).unwrap(), ["1", "4"]);
        assert_eq!(numbers(0.1, 0.3, Some(0.1), None, false).unwrap(), ["0.1", "0.2", "0.3"]);
        assert_eq!(times(1_000, 3_000, Some(1_000), None, false).unwrap(), ["1us", "2us", "3us"]);
    }

    #[test]
    fn a_range_has_so_many_values_at_equal_distances_or_ratios() {
        assert_eq!(numbers(1.0, 2.0, None, Some(3), false).unwrap(), ["1", "2"], "whole numbers");
        assert_eq!(numbers(1.0, 2.5, None, Some(4), false).unwrap(), ["1", "1.5", "2", "2.5"]);
        assert_eq!(numbers(2.0, 32.0, None, Some(3), true).unwrap(), ["2", "8", "32"]);
        let decade = times(100_000, 1_000_000, None, Some(4), true).unwrap();
        assert_eq!(decade, ["100us", "215us", "464us", "1ms"]);
    }

    #[test]
    fn a_range_that_cannot_be_gone_through_is_refused() {
        let most = VALUES_MAX as f64;
        assert_eq!(numbers(1.0, most, Some(1.0), None, false).unwrap().len(), 10_000);
        let many = numbers(0.0, most, Some(1.0), None, false);
        assert_eq!(many, Err("more than 10000 values".to_owned()));
        let step = "give step (above 0), or count, or count with log = true";
        for given in [
            numbers(1.0, 2.0, Some(0.0), None, false),
            numbers(1.0, 2.0, Some(1.0), Some(3), false),
            numbers(1.0, 2.0, Some(1.0), None, true),
            numbers(1.0, 2.0, None, None, true),
        ] {
            assert_eq!(given, Err(step.to_owned()));
        }
        let above = Err("a log range starts above 0".to_owned());
        assert_eq!(numbers(-1.0, 2.0, None, Some(3), true), above);
        assert_eq!(numbers(0.0, 2.0, None, None, true), above);
        assert_eq!(
            numbers(1.0, 1.0, Some(1.0), None, false),
            Err("from must be less than to".into())
        );
        let mixed = spread(
            Some(Bound::Number(1.0)),
            Some(Bound::Number(2.0)),
            Some(Bound::Time(Nanos(1))),
            None,
            false,
        );
        assert_eq!(mixed, Err("from, to and step must all be numbers or all be durations".into()));
        assert_eq!(
            spread(Some(Bound::Number(1.0)), None, None, Some(3), false),
            Err("a range needs from and to".into())
        );
    }

    #[test]
    fn values_have_three_digits() {
        let plain = |value| spelled(value, false, false);
        assert_eq!(
            [plain(0.0), plain(0.012_345), plain(1.5), plain(99.96)],
            ["0", "0.0123", "1.5", "100"]
        );
        assert_eq!([plain(-0.25), plain(1_234.5), plain(12.34)], ["-0.25", "1234", "12.3"]);
        assert_eq!([spelled(1.8, false, true), spelled(2.2, false, true)], ["2", "2"]);
        assert_eq!([spelled(123_456.0, true, false), spelled(7.0, true, false)], ["123us", "7ns"]);
    }

    #[test]
    fn an_axis_is_named_by_what_it_varies_and_its_workload() {
        let axis = |varies, workload: &str| {
            Axis { varies, workload: workload.into(), values: Vec::new(), when: None, kind: None }
                .name()
        };
        assert_eq!(axis(Varies::Option("tasks".into()), "cpu"), "cpu/tasks");
        assert_eq!(axis(Varies::Hook("s".into()), ""), "s");
        assert_eq!(
            [axis(Varies::Speed("0-1".into()), ""), axis(Varies::Machine, "")],
            ["speed", "machine"]
        );
    }

    fn axes(text: &str) -> Result<Vec<Axis>, String> {
        let text = format!("[workload]\nname = \"cpu\"\n[[axis]]\n{text}\n");
        let read = crate::Experiment::parse(&text, std::path::Path::new("x.toml"));
        read.map(|experiment| experiment.axes).map_err(|error| error.to_string())
    }

    #[test]
    fn an_axis_varies_one_thing_over_values_or_a_range() {
        let values = |text: &str| axes(text).unwrap().remove(0).values;
        assert_eq!(values("knob = \"k\"\nvalues = [1, \"b\", true]"), ["1", "b", "true"]);
        assert_eq!(
            values("knob = \"k\"\nrange = { from = 1, to = 3, count = 3 }"),
            ["1", "2", "3"]
        );
        assert_eq!(
            axes("speed = \"0-1\"\nvalues = [\"50%\"]").unwrap()[0].varies,
            Varies::Speed("0-1".into())
        );
        for (text, what) in [
            ("knob = \"k\"\noption = \"o\"\nvalues = [1]", "name one thing to vary"),
            ("values = [1]", "name one thing to vary"),
            ("knob = \"k\"", "give either values = [..] or range"),
            (
                "knob = \"k\"\nvalues = [1]\nrange = { from = 1, to = 2, count = 2 }",
                "give either values",
            ),
            ("knob = \"k\"\nvalues = [1, 2, 1]", "axis: the value 1 is there twice"),
            ("knob = \"k\"\nrange = { from = 1, to = 3, count = 1 }", "from 2 to 10000"),
            (
                "knob = \"k\"\nrange = { from = 1, to = 3, count = 3, log = 1 }",
                "expected true or false",
            ),
            ("knob = \"k\"\nrange = { from = \"x\", to = 3, count = 3 }", "axis.range.from"),
        ] {
            let found = axes(text).unwrap_err();
            assert!(found.contains(what), "{text}: {found}");
        }
    }
}
