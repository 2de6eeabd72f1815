//! The table `[short]` of an experiment file: the same experiment at a small size.

use super::claims::POINTS_MIN;
use super::decode::{Decoder, Entry};
use super::{Axis, Claim, Experiment, Measure, Point, Workload};
use schedlab_model::Nanos;
use schedlab_workload::{WorkloadSpec, workloads};
use std::collections::BTreeMap;

/// What is smaller in a short run of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Short {
    /// Runs of each point; `None`: as many as without.
    pub(crate) repeats: Option<u32>,
    /// A run is stopped after this time; `None`: as without.
    pub(crate) time_limit: Option<Nanos>,
    /// Options of the workloads, by their long names.
    pub(crate) options: Point,
    /// The values of some axes, by the names of the axes.
    pub(crate) axes: BTreeMap<String, Vec<String>>,
}

pub(super) const KEYS: &[&str] = &["repeats", "time_limit", "options", "axes"];

pub(super) fn short(
    decoder: &mut Decoder<'_>,
    entry: Entry<'_>,
    axes: &[Axis],
    claims: &[Claim],
) -> Option<Short> {
    let mut keys = decoder.table(entry)?;
    let repeats = keys.take("repeats").and_then(|e| decoder.whole(&e, 1..100_001));
    let time_limit = keys.take("time_limit").and_then(|e| decoder.duration(&e));
    let mut options = Point::new();
    if let Some(mut keys) = keys.take("options").and_then(|e| decoder.table(e)) {
        for (name, entry) in keys.rest() {
            options.extend(decoder.scalar(&entry).map(|value| (name, value)));
        }
    }
    let fewer = keys.take("axes").map(|e| fewer(decoder, e, axes, claims)).unwrap_or_default();
    decoder.finish(keys, KEYS);
    let repeats = repeats.and_then(|n| u32::try_from(n).ok());
    Some(Short { repeats, time_limit, options, axes: fewer })
}

/// Some of the values of some axes: at least those that claims name.
fn fewer(
    decoder: &mut Decoder<'_>,
    entry: Entry<'_>,
    axes: &[Axis],
    claims: &[Claim],
) -> BTreeMap<String, Vec<String>> {
    let Some(mut keys) = decoder.table(entry) else { return BTreeMap::new() };
    let mut fewer = BTreeMap::new();
    for (name, entry) in keys.rest() {
        let place = entry.place.clone();
        let key = entry.key.clone();
        let items = decoder.items(entry, "an array of values of the axis");
        let values: Vec<String> = items.iter().filter_map(|item| decoder.scalar(item)).collect();
        let Some(axis) = axes.iter().find(|axis| axis.name() == name) else {
            decoder.mistake(&place, &key, format!("unknown axis '{name}'"));
            continue;
        };
        if let Some(value) = values.iter().find(|value| !axis.values.contains(value)) {
            let what = format!("unknown value '{value}' of the axis '{name}'");
            decoder.mistake(&place, &key, what);
        }
        if values.is_empty() {
            decoder.mistake(&place, &key, "an axis needs at least one value");
        }
        let is_along =
            |claim: &Claim| matches!(&claim.measure, Measure::Slope(along) if *along == name);
        if values.len() < POINTS_MIN && claims.iter().any(is_along) {
            let what = format!("a claim is about a slope along {name}: keep {POINTS_MIN} values");
            decoder.mistake(&place, &key, what);
        }
        for value in named(claims, &name).filter(|value| !values.contains(value)) {
            let what = format!("a claim is about {name} = {value}: add that value");
            decoder.mistake(&place, &key, what);
        }
        fewer.insert(name, values);
    }
    fewer
}

/// The values that claims name on an axis.
fn named<'c>(claims: &'c [Claim], axis: &'c str) -> impl Iterator<Item = &'c String> {
    let points = claims.iter().flat_map(|claim| {
        let against = match &claim.measure {
            Measure::Ratio(point) => Some(point),
            Measure::Value | Measure::Slope(_) => None,
        };
        std::iter::once(&claim.at).chain(against)
    });
    points.filter_map(move |point| point.get(axis))
}

impl Experiment {
    /// The experiment at the small size of its table `[short]`, under a name that ends in `-short`, without
    /// second attempts. Without that table only the name changes.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        self.name.push_str("-short");
        let Some(short) = self.short.take() else { return self };
        self.repeats = short.repeats.unwrap_or(self.repeats);
        self.time_limit = short.time_limit.or(self.time_limit);
        // A look at the claims: runs with warnings keep them instead of doubling the time.
        self.retries = 0;
        for axis in &mut self.axes {
            if let Some(values) = short.axes.get(&axis.name()) {
                axis.values.clone_from(values);
            }
        }
        for workload in &mut self.workloads {
            put(workload, &short.options);
        }
        self
    }
}

/// Gives a workload those of the options that it has.
fn put(workload: &mut Workload, short: &Point) {
    let WorkloadSpec::Builtin { name, options } = &mut workload.spec else { return };
    let Ok(known) = workloads::find(name) else { return };
    let fits = |(option, _): &(&String, &String)| known.options.iter().any(|o| o.name == **option);
    options
        .extend(short.iter().filter(fits).map(|(option, value)| (option.clone(), value.clone())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileError;
    use std::path::Path;

    const FILE: &str = "repeats = 9\n[[workload]]\nname = \"hackbench\"\n[[workload]]\nname = \"cpu\"\n\
        [[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"2ms\", \"4ms\"]\n\
        [[claim]]\nsays = \"s\"\nwhy = \"w\"\nmetric = \"time_s\"\nworkload = \"hackbench\"\n\
        at = { slice = \"1ms\" }\nagainst = { slice = \"4ms\" }\nat_least = 1.1\n";

    fn parse(short: &str) -> Result<Experiment, FileError> {
        Experiment::parse(&format!("{FILE}[short]\n{short}"), Path::new("x.toml"))
    }

    #[test]
    fn a_short_run_has_fewer_points_runs_and_loops_and_a_folder_of_its_own() {
        let text = "repeats = 3\noptions = { loops = 20 }\naxes = { slice = [\"1ms\", \"4ms\"] }\n";
        let whole = parse(text).unwrap();
        let short = whole.clone().shortened();
        assert_eq!((short.name.as_str(), short.repeats, short.retries), ("x-short", 3, 0));
        assert_eq!(short.axes[0].values, ["1ms", "4ms"]);
        let options = |workload: &Workload| match &workload.spec {
            WorkloadSpec::Builtin { options, .. } => options.clone(),
            WorkloadSpec::Command { .. } => panic!("it is a workload of ours"),
        };
        assert_eq!(options(&short.workloads[0])["loops"], "20");
        assert!(options(&short.workloads[1]).is_empty(), "cpu has no loops");
        assert_eq!(short.claims, whole.claims);
    }

    #[test]
    fn a_short_run_keeps_the_points_of_the_claims() {
        let wrong =
            parse("axes = { slice = [\"1ms\", \"3ms\"], x = [1] }\n").unwrap_err().to_string();
        for part in [
            "short.axes.slice: unknown value '3ms' of the axis 'slice'",
            "short.axes.slice: a claim is about slice = 4ms: add that value",
            "short.axes.x: unknown axis 'x'",
        ] {
            assert!(wrong.contains(part), "{part}: {wrong}");
        }
    }

    #[test]
    fn what_a_short_run_does_not_say_stays_as_it_is() {
        let long = Experiment::parse(
            &format!("retries = 2\ntime_limit = \"9s\"\n{FILE}"),
            Path::new("x.toml"),
        )
        .unwrap();
        let none = long.clone().shortened();
        assert_eq!((none.name.as_str(), none.repeats, none.retries), ("x-short", 9, 2));
        let text = format!("time_limit = \"9s\"\n{FILE}[short]\n");
        let empty = Experiment::parse(&text, Path::new("x.toml")).unwrap().shortened();
        assert_eq!((empty.repeats, empty.retries, empty.time_limit), (9, 0, long.time_limit));
        let limit = parse("time_limit = \"2s\"\n").unwrap().shortened().time_limit;
        assert_eq!(limit, Some(Nanos::from_millis(2_000)));
    }

    #[test]
    fn a_slope_needs_three_values_in_a_short_run_too() {
        let slope = FILE
            .replace("against = { slice = \"4ms\" }", "along = \"slice\"")
            .replace("at = { slice = \"1ms\" }\n", "");
        let mistakes = |axes: &str| {
            let text = format!("{slope}[short]\naxes = {{ slice = [{axes}] }}\n");
            Experiment::parse(&text, Path::new("x.toml")).err().map(|error| error.to_string())
        };
        assert_eq!(mistakes("\"1ms\", \"2ms\", \"4ms\""), None);
        let two = mistakes("\"1ms\", \"2ms\"").unwrap();
        assert!(two.contains("a claim is about a slope along slice: keep 3 values"), "{two}");
        let empty = parse("axes = { slice = [] }\n").unwrap_err().to_string();
        assert!(empty.contains("short.axes.slice: an axis needs at least one value"), "{empty}");
    }
}
