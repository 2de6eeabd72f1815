//! The tables of an experiment file, one function each.

use super::axis::{self, MACHINE as MACHINE_KEY, axis};
use super::claims::{self, FileContext};
use super::decode::{Decoder, Entry, Keys};
use super::locations::Part;
use super::metric_names::{DIRECTIONS, UNITS, unmeasured};
use super::short;
use super::tuning::{self, tuning};
use super::{Claim, Drawing, Experiment, Hooks, Hosts, Order, Short, StopRule, Varies, Workload};
use crate::analysis::PRIORS;
use schedlab_model::{Better, Metric, Setting, Unit};
use schedlab_workload::{Beside, MACHINE, MachineName, RecordSpec, WorkloadSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

const ROOT: &[&str] = &[
    "name",
    "title",
    "question",
    "machine",
    "repeats",
    "boots",
    "order",
    "hosts",
    "warm_up",
    "seed",
    "time_limit",
    "measure",
    "noise",
    "draw",
    "retries",
    "allow_failures",
    "adjust",
    "workload",
    "axis",
    "knobs",
    "record",
    "stop",
    "tune",
    "hooks",
    "claim",
    "short",
];
const WORKLOAD: &[&str] = &["name", "command", "label", "options", "beside"];
const BESIDE: &[&str] = &["name", "command", "label", "options"];
const RECORD: &[&str] = &["events", "ring"];
const STOP: &[&str] = &["width", "budget", "repeats_max", "looks"];
const METRIC_HOOK: &[&str] = &["command", "name", "unit", "better"];
const HOOKS: &[&str] = &["before", "after", "during", "may_end", "ready", "metric"];

/// All tables with their keys; the JSON schema is tested against it.
pub(super) const KEYS: &[(&str, &[&str])] = &[
    ("", ROOT),
    ("workload", WORKLOAD),
    ("workload.beside", BESIDE),
    ("axis", &["option", "knob", "speed", "hook", "workload", "values", "range", "when", "kind"]),
    ("record", RECORD),
    ("stop", STOP),
    ("claim", claims::KEYS),
    ("short", short::KEYS),
    ("tune", tuning::KEYS),
    ("tune.screen", tuning::SCREEN_KEYS),
    ("hooks", HOOKS),
    ("hooks.metric", METRIC_HOOK),
];

pub(super) fn experiment(
    decoder: &mut Decoder<'_>,
    mut keys: Keys<'_>,
    stem: &str,
    (text, path): (&str, &Path),
) -> Option<Experiment> {
    let name = keys.take("name").and_then(|e| name(decoder, &e)).unwrap_or_else(|| stem.to_owned());
    let title = keys.take("title").and_then(|e| decoder.text(&e, "a text"));
    let question = keys.take("question").and_then(|e| decoder.text(&e, "a text"));
    let (machine, machines) = machine(decoder, &mut keys);
    let repeats = whole(decoder, &mut keys, "repeats", 1, 100_000);
    let boots = boots(decoder, &mut keys, machines.is_some());
    let warm_up = whole(decoder, &mut keys, "warm_up", 0, 1_000).unwrap_or(0);
    let retries = whole(decoder, &mut keys, "retries", 0, 100).unwrap_or(1);
    let allow_failures = keys.take("allow_failures").and_then(|e| flag(decoder, &e));
    let adjust = keys.take("adjust").map(|e| adjust(decoder, e)).unwrap_or_default();
    let seed = keys.take("seed").and_then(|e| decoder.whole(&e, 0..1 << 63)).unwrap_or(1);
    let order = keys.take("order").and_then(|e| order(decoder, &e));
    let hosts = keys.take("hosts").and_then(|e| hosts(decoder, &e));
    let time_limit = keys.take("time_limit").and_then(|e| time_limit(decoder, &e));
    let (measure, measured_at) = measure(decoder, &mut keys);
    let noise = keys.take("noise").and_then(|e| noise(decoder, &e));
    let drawn = keys.take("draw");
    let place = drawn.as_ref().map(|e| (e.place.clone(), e.key.clone()));
    let draw = drawn.map(|e| drawings(decoder, e)).unwrap_or_default();
    let traced = [("cores", Drawing::Cores), ("waiting", Drawing::Waiting)];
    let unrecorded = traced.iter().find(|(_, picture)| draw.contains(picture));
    let unrecorded = unrecorded.zip(place).map(|((word, _), (place, key))| (*word, place, key));
    let settings = keys.take("knobs").map(|e| knobs(decoder, e)).unwrap_or_default();
    let record = keys.take("record").and_then(|e| record(decoder, e));
    if let Some((word, place, key)) = unrecorded.filter(|_| record.is_none()) {
        let what = format!("picture '{word}' needs a trace: add record = true");
        decoder.mistake(&place, &key, what);
    }
    let stop = keys.take("stop").map(|e| stop(decoder, e, (repeats, boots))).unwrap_or_default();
    // The first look is what every point gets.
    let repeats = stop.looks.first().copied().or(repeats).unwrap_or(1);
    let hooks = keys.take("hooks").map(|e| hooks(decoder, e)).unwrap_or_default();
    // What a hook measures has names of its own.
    if let Some(place) = measured_at.filter(|_| hooks.metric.is_empty()) {
        unmeasured(decoder, &place, "measure", &measure);
    }
    let tuned = keys.take("tune");
    let workloads = workloads(decoder, &mut keys)?;
    let mut axes = axes(decoder, &mut keys, &workloads, &hooks);
    axes.splice(0..0, machines);
    let own_metrics = !hooks.metric.is_empty();
    let tune = tuned.and_then(|e| tuning(decoder, e, &axes, &workloads, own_metrics));
    let around = FileContext { workloads: &workloads, axes: &axes, machine: &machine, own_metrics };
    let (claims, short) = claimed(decoder, &mut keys, &around);
    decoder.finish(keys, ROOT);
    Some(Experiment {
        title: title.unwrap_or_else(|| name.clone()),
        name,
        question: question.unwrap_or_default(),
        machine,
        workloads,
        axes,
        settings,
        repeats,
        boots,
        order: order.unwrap_or_default(),
        hosts: hosts.unwrap_or_default(),
        warm_up,
        seed,
        time_limit,
        record,
        measure,
        noise,
        stop,
        tune,
        hooks,
        draw,
        retries,
        allow_failures: allow_failures.unwrap_or(false),
        adjust,
        claims,
        short,
        text: text.to_owned(),
        path: path.to_owned(),
        places: std::mem::take(&mut decoder.places),
    })
}

/// The claims, and the small size at which they are tried.
fn claimed(
    decoder: &mut Decoder<'_>,
    keys: &mut Keys<'_>,
    around: &FileContext<'_>,
) -> (Vec<Claim>, Option<Short>) {
    let claims = keys.take("claim").map(|e| claims::claims(decoder, e, around)).unwrap_or_default();
    let short = keys.take("short").and_then(|e| short::short(decoder, e, around.axes, &claims));
    (claims, short)
}

/// What comparisons are adjusted by: only what the treatment cannot change.
fn adjust(decoder: &mut Decoder<'_>, entry: Entry<'_>) -> Vec<String> {
    let names = PRIORS.map(|(name, _)| name);
    let expected = format!("an array of {}", names.join(", "));
    let mut found: Vec<String> = Vec::new();
    for item in decoder.items(entry, &expected) {
        let Some(name) = decoder.text(&item, &expected) else { continue };
        if !names.contains(&name.as_str()) {
            let what = format!(
                "expected one of {}, found '{name}': what the axis may change cannot be adjusted for, since that takes \
                 its effect away",
                names.join(", ")
            );
            decoder.mistake(&item.place, &item.key, what);
        } else if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// The metrics that matter, and where they are written.
fn measure(
    decoder: &mut Decoder<'_>,
    keys: &mut Keys<'_>,
) -> (Vec<String>, Option<std::ops::Range<usize>>) {
    let Some(entry) = keys.take("measure") else { return Default::default() };
    let place = entry.place.clone();
    decoder.written(Part::Measure, "", &place, &entry.key);
    (decoder.texts(entry, "an array of metric names"), Some(place))
}

/// The machine, and the axis of several.
fn machine(decoder: &mut Decoder<'_>, keys: &mut Keys<'_>) -> (MachineName, Option<super::Axis>) {
    let Some(entry) = keys.take(MACHINE_KEY) else { return (MachineName::default(), None) };
    if matches!(entry.value, toml::de::DeValue::Array(_)) {
        let axis = axis::machines(decoder, entry);
        let first = axis.as_ref().and_then(|axis| axis.values.first()?.parse().ok());
        return (first.unwrap_or_default(), axis);
    }
    decoder.written(Part::Machine, "", &entry.place, &entry.key);
    let text = decoder.text(&entry, "a machine, such as \"host\", or an array of machines");
    let read = text.and_then(|text| {
        let read = text.parse();
        read.map_err(|why: String| decoder.mistake(&entry.place, &entry.key, why)).ok()
    });
    (read.unwrap_or_default(), None)
}

fn time_limit(decoder: &mut Decoder<'_>, entry: &Entry<'_>) -> Option<schedlab_model::Nanos> {
    decoder.written(Part::TimeLimit, "", &entry.place, &entry.key);
    decoder.duration(entry)
}

fn order(decoder: &mut Decoder<'_>, entry: &Entry<'_>) -> Option<Order> {
    let words = [
        ("interleaved", Order::Interleaved),
        ("shuffled", Order::Shuffled),
        ("listed", Order::Listed),
    ];
    decoder.word(entry, &words)
}

fn hosts(decoder: &mut Decoder<'_>, entry: &Entry<'_>) -> Option<Hosts> {
    decoder.word(entry, &[("apart", Hosts::Apart), ("blocks", Hosts::Blocks)])
}

/// In how many boots: a boot is one machine's.
fn boots(decoder: &mut Decoder<'_>, keys: &mut Keys<'_>, several: bool) -> u32 {
    let Some(entry) = keys.take("boots") else { return 1 };
    let boots = decoder.whole(&entry, 1..1_001).and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
    if several && boots > 1 {
        let what = "boots are counted on one machine: name one machine, or leave boots out";
        decoder.mistake(&entry.place, &entry.key, what);
    }
    boots
}

fn whole(
    decoder: &mut Decoder<'_>,
    keys: &mut Keys<'_>,
    key: &str,
    min: u64,
    max: u64,
) -> Option<u32> {
    let entry = keys.take(key)?;
    decoder.whole(&entry, min..max + 1).and_then(|n| u32::try_from(n).ok())
}

/// The relative standard deviation of a run: a fraction.
fn noise(decoder: &mut Decoder<'_>, entry: &Entry<'_>) -> Option<f64> {
    let expected = "a fraction above 0 and below 1, such as 0.02 for 2 % a run";
    let noise = decoder.number(entry, expected)?;
    if noise <= 0.0 || noise >= 1.0 {
        let what = format!("expected {expected}, found {noise}");
        decoder.mistake(&entry.place, &entry.key, what);
        return None;
    }
    Some(noise)
}

fn name(decoder: &mut Decoder<'_>, entry: &Entry<'_>) -> Option<String> {
    let name = decoder.text(entry, "a name")?;
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(fine) {
        let what = format!("invalid name '{name}': use letters, digits, '-' and '_'");
        decoder.mistake(&entry.place, &entry.key, what);
        return None;
    }
    Some(name)
}

fn workloads(decoder: &mut Decoder<'_>, keys: &mut Keys<'_>) -> Option<Vec<Workload>> {
    let Some(entry) = keys.take("workload") else {
        decoder.mistake(
            &(0..0),
            "workload",
            "an experiment needs a [workload] with a name or a command",
        );
        return None;
    };
    let tables = match &entry.value {
        toml::de::DeValue::Array(_) => decoder.items(entry, "tables [[workload]]"),
        _ => vec![entry],
    };
    let mut labels = BTreeSet::new();
    let mut workloads = Vec::new();
    for table in tables {
        let place = table.place.clone();
        let Some(keys) = decoder.table(table) else { continue };
        let Some(workload) = workload(decoder, keys) else { continue };
        if !labels.insert(workload.label.clone()) {
            let what =
                format!("two workloads have the name '{}': give this one a label", workload.label);
            decoder.mistake(&place, "workload.label", what);
        }
        workloads.push(workload);
    }
    (!workloads.is_empty()).then_some(workloads)
}

fn workload(decoder: &mut Decoder<'_>, mut keys: Keys<'_>) -> Option<Workload> {
    let beside = keys.take("beside").map(|e| beside(decoder, e)).unwrap_or_default();
    let (label, spec) = load(decoder, keys, "workload", WORKLOAD)?;
    Some(Workload { label, spec, beside })
}

/// What runs at the same time as a workload.
fn beside(decoder: &mut Decoder<'_>, entry: Entry<'_>) -> Vec<Beside> {
    let tables = match &entry.value {
        toml::de::DeValue::Array(_) => decoder.items(entry, "tables [[workload.beside]]"),
        _ => vec![entry],
    };
    let mut all: Vec<Beside> = Vec::new();
    for table in tables {
        let place = table.place.clone();
        let Some(keys) = decoder.table(table) else { continue };
        let Some((label, workload)) = load(decoder, keys, "workload.beside", BESIDE) else {
            continue;
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if !label.chars().all(fits) {
            let what = format!("invalid label '{label}': use letters, digits, '-' and '_'");
            decoder.mistake(&place, "workload.beside.label", what);
        }
        if label == MACHINE {
            let what =
                format!("invalid label '{MACHINE}': metrics of the machine itself have this label");
            decoder.mistake(&place, "workload.beside.label", what);
        }
        if all.iter().any(|other| other.label == label) {
            let what = format!("two workloads have the name '{label}': give this one a label");
            decoder.mistake(&place, "workload.beside.label", what);
        }
        all.push(Beside { label, workload });
    }
    all
}

/// A label and what is run under it.
fn load(
    decoder: &mut Decoder<'_>,
    mut keys: Keys<'_>,
    path: &str,
    known: &[&str],
) -> Option<(String, WorkloadSpec)> {
    let place = keys.place.clone();
    let name = keys.take("name").and_then(|e| decoder.text(&e, "a workload's name"));
    let command = keys.take("command").map(|e| decoder.texts(e, "an array: program and arguments"));
    let label = keys.take("label").and_then(|e| decoder.text(&e, "a label"));
    let given = keys.take("options");
    let has_options = given.is_some();
    let (options, places) = given.map(|e| options(decoder, e)).unwrap_or_default();
    decoder.finish(keys, known);
    let spec = match (name, command) {
        (Some(name), None) => WorkloadSpec::Builtin { name, options },
        (None, Some(argv)) if !argv.is_empty() && !has_options => WorkloadSpec::Command { argv },
        (None, Some(argv)) if !argv.is_empty() => {
            let what = "a command has its options in the array itself";
            decoder.mistake(&place, &format!("{path}.options"), what);
            return None;
        }
        _ => {
            let what = "needs either a name or a command (an array)";
            decoder.mistake(&place, path, what);
            return None;
        }
    };
    let label = label.unwrap_or_else(|| match &spec {
        WorkloadSpec::Builtin { name, .. } => name.clone(),
        WorkloadSpec::Command { argv } => argv[0].rsplit('/').next().unwrap_or_default().to_owned(),
    });
    decoder.written(Part::Workload(label.clone()), "", &place, path);
    for (name, place) in places {
        let key = format!("{path}.options.{name}");
        decoder.written(Part::Option { label: label.clone(), name }, "", &place, &key);
    }
    Some((label, spec))
}

/// Options with their values, and where each is written.
type Options = (BTreeMap<String, String>, Vec<(String, Range<usize>)>);

fn options(decoder: &mut Decoder<'_>, entry: Entry<'_>) -> Options {
    let Some(mut keys) = decoder.table(entry) else { return Options::default() };
    let rest = keys.rest();
    let places = rest.iter().map(|(name, e)| (name.clone(), e.place.clone())).collect();
    let value = |(name, e): (String, Entry<'_>)| decoder.scalar(&e).map(|value| (name, value));
    (rest.into_iter().filter_map(value).collect(), places)
}

fn axes(
    decoder: &mut Decoder<'_>,
    keys: &mut Keys<'_>,
    workloads: &[Workload],
    hooks: &Hooks,
) -> Vec<super::Axis> {
    let Some(entry) = keys.take("axis") else { return Vec::new() };
    let items = decoder.items(entry, "tables [[axis]]");
    let mut axes: Vec<super::Axis> = Vec::new();
    for item in items {
        let place = item.place.clone();
        let Some(keys) = decoder.table(item) else { continue };
        let Some(axis) = axis(decoder, keys) else { continue };
        if axes.iter().any(|a| a.varies == axis.varies && a.workload == axis.workload) {
            decoder.mistake(&place, "axis", format!("'{}' is varied twice", axis.varies.name()));
        }
        let labels: Vec<&str> =
            workloads.iter().flat_map(|w| w.all().map(|(label, _)| label)).collect();
        if !axis.workload.is_empty() && !labels.contains(&axis.workload.as_str()) {
            let what = format!("unknown workload '{}': use {}", axis.workload, labels.join(", "));
            decoder.mistake(&place, "axis.workload", what);
        }
        if let Varies::Hook(name) = &axis.varies
            && !hooks
                .all()
                .iter()
                .any(|(_, h)| h.iter().any(|a| a.contains(&format!("{{{name}}}"))))
        {
            let what = format!("no hook has {{{name}}} to put the value in");
            decoder.mistake(&place, "axis.hook", what);
        }
        let named = |spec: &WorkloadSpec, name: &str| match spec {
            WorkloadSpec::Command { argv } => {
                argv.iter().any(|a| a.contains(&format!("{{{name}}}")))
            }
            WorkloadSpec::Builtin { .. } => true,
        };
        // Without a label it concerns the workloads, not what runs beside them.
        let concerned = |w: &Workload| -> Vec<(String, WorkloadSpec)> {
            let here = |(index, (label, _)): &(usize, (&str, &WorkloadSpec))| {
                axis.workload == *label || (axis.workload.is_empty() && *index == 0)
            };
            let found = w.all().enumerate().filter(here);
            found.map(|(_, (label, spec))| (label.to_owned(), spec.clone())).collect()
        };
        if let Varies::Option(name) = &axis.varies
            && let Some((label, _)) =
                workloads.iter().flat_map(concerned).find(|(_, spec)| !named(spec, name))
        {
            let what = format!("the command '{label}' has no {{{name}}} to put the value in");
            decoder.mistake(&place, "axis.option", what);
        }
        if let Some(when) = &axis.when
            && !axes.iter().any(|a| a.name() == when.axis && a.values.contains(&when.value))
        {
            let what = format!("no earlier axis has '{}' as a value of {}", when.value, when.axis);
            decoder.mistake(&place, "axis.when", what);
        }
        axes.push(axis);
    }
    axes
}

fn knobs(decoder: &mut Decoder<'_>, entry: Entry<'_>) -> Vec<Setting> {
    let Some(mut keys) = decoder.table(entry) else { return Vec::new() };
    let rest = keys.rest();
    rest.into_iter()
        .filter_map(|(knob, e)| {
            decoder.written(Part::Setting(knob.clone()), "", &e.place, &e.key);
            decoder.scalar(&e).map(|value| Setting { knob, value })
        })
        .collect()
}

/// `record = true`, or a table.
fn record(decoder: &mut Decoder<'_>, entry: Entry<'_>) -> Option<RecordSpec> {
    decoder.written(Part::Record, "", &entry.place, &entry.key);
    if let Some(flag) = entry.value.as_bool() {
        return flag.then(RecordSpec::default);
    }
    let mut keys = decoder.table(entry)?;
    let events = keys.take("events").map(|e| decoder.texts(e, "an array of tracepoints"));
    let ring = keys.take("ring").and_then(|e| {
        let text = decoder.text(&e, "a size as text, such as \"8MiB\"")?;
        match text.parse::<schedlab_model::Bytes>() {
            Ok(bytes) => Some(bytes.0),
            Err(error) => {
                decoder.mistake(&e.place, &e.key, error.to_string());
                None
            }
        }
    });
    decoder.finish(keys, RECORD);
    let events = events.unwrap_or_default();
    let ring_bytes = ring.unwrap_or(0);
    Some(RecordSpec { events, ring_bytes, ..RecordSpec::default() })
}

fn stop(
    decoder: &mut Decoder<'_>,
    entry: Entry<'_>,
    (repeats, boots): (Option<u32>, u32),
) -> StopRule {
    let Some(mut keys) = decoder.table(entry) else { return StopRule::default() };
    let place = keys.place.clone();
    let width = keys.take("width").and_then(|e| {
        let expected = "a fraction between 0 and 1, such as 0.02 for 2 %";
        let width = decoder.number(&e, expected)?;
        if width <= 0.0 || width >= 1.0 {
            decoder.mistake(&e.place, &e.key, format!("expected {expected}, found {width}"));
            return None;
        }
        Some(width)
    });
    let budget = keys.take("budget").and_then(|e| decoder.duration(&e));
    let repeats_max =
        whole(decoder, &mut keys, "repeats_max", u64::from(repeats.unwrap_or(1)), 100_000);
    let looks = keys.take("looks").map(|e| looks(decoder, e)).unwrap_or_default();
    decoder.finish(keys, STOP);
    if repeats_max.is_some() && width.is_none() {
        decoder.mistake(
            &place,
            "stop.repeats_max",
            "has no effect without a width: add width, or leave it out",
        );
    }
    if let Some(first) = looks.first() {
        if width.is_some() {
            let what = "excludes width: use one of the two";
            decoder.mistake(&place, "stop.looks", what);
        }
        if boots > 1 {
            let what = "excludes boots: the runs of one boot are not independent";
            decoder.mistake(&place, "stop.looks", what);
        }
        if repeats.is_some_and(|repeats| repeats != *first) {
            let what = format!("begins with {first}, which repeats must be: leave out repeats");
            decoder.mistake(&place, "stop.looks", what);
        }
    }
    StopRule { width, budget, repeats_max, looks }
}

/// Repeats at each look: ascending, from 2 on.
fn looks(decoder: &mut Decoder<'_>, entry: Entry<'_>) -> Vec<u32> {
    let place = entry.place.clone();
    let key = entry.key.clone();
    let expected = "ascending whole numbers from 2 on, such as [6, 10, 20, 40]";
    let items = decoder.items(entry, expected);
    let found: Vec<u32> = items
        .iter()
        .filter_map(|item| decoder.whole(item, 2..100_001))
        .filter_map(|number| u32::try_from(number).ok())
        .collect();
    if !found.is_sorted_by(|a, b| a < b) {
        decoder.mistake(&place, &key, format!("expected {expected}"));
    }
    found
}

fn hooks(decoder: &mut Decoder<'_>, entry: Entry<'_>) -> Hooks {
    let Some(mut keys) = decoder.table(entry) else { return Hooks::default() };
    let mut take = |name: &str| {
        let entry = keys.take(name)?;
        Some(decoder.texts(entry, "an array: program and arguments"))
    };
    let hooks = Hooks {
        before: take("before").unwrap_or_default(),
        after: take("after").unwrap_or_default(),
        during: take("during").unwrap_or_default(),
        ready: take("ready").unwrap_or_default(),
        ..Hooks::default()
    };
    let place = keys.place.clone();
    let measured = keys.take("metric").map(|entry| metric_hook(decoder, entry));
    let (metric, declared) = measured.unwrap_or_default();
    let may_end = keys.take("may_end").and_then(|e| flag(decoder, &e)).unwrap_or(false);
    let hooks = Hooks { metric, declared, may_end, ..hooks };
    decoder.finish(keys, HOOKS);
    if !hooks.ready.is_empty() && hooks.during.is_empty() {
        decoder.mistake(
            &place,
            "hooks.ready",
            "has no effect without 'during': add it, or leave this out",
        );
    }
    hooks
}

fn flag(decoder: &mut Decoder<'_>, entry: &Entry<'_>) -> Option<bool> {
    let flag = entry.value.as_bool();
    if flag.is_none() {
        decoder.mistake(&entry.place, &entry.key, "expected true or false");
    }
    flag
}

/// The command that measures, and what the file says of the metric that it prints.
fn metric_hook(decoder: &mut Decoder<'_>, entry: Entry<'_>) -> (Vec<String>, Option<Metric>) {
    if !matches!(entry.value, toml::de::DeValue::Table(_)) {
        return (decoder.texts(entry, "an array: program and arguments"), None);
    }
    let Some(mut keys) = decoder.table(entry) else { return Default::default() };
    let place = keys.place.clone();
    let path = keys.path().to_owned();
    let command = keys.take("command").map(|e| decoder.texts(e, "an array: program and arguments"));
    let name = keys.take("name").and_then(|e| decoder.text(&e, "the name of a metric"));
    let unit = keys.take("unit").and_then(|e| decoder.word(&e, &UNITS));
    let better = keys.take("better").and_then(|e| decoder.word(&e, &DIRECTIONS));
    decoder.finish(keys, METRIC_HOOK);
    let (Some(command), Some(name)) = (command, name) else {
        decoder.mistake(&place, &path, "needs a command and the name of the metric that it prints");
        return Default::default();
    };
    let metric = Metric::new(name, unit.unwrap_or(Unit::Count), better.unwrap_or(Better::Neither));
    (command, Some(metric))
}

fn drawings(decoder: &mut Decoder<'_>, entry: Entry<'_>) -> Vec<Drawing> {
    let words = [
        ("map", Drawing::Map),
        ("curves", Drawing::Curves),
        ("switches", Drawing::Switches),
        ("cores", Drawing::Cores),
        ("waiting", Drawing::Waiting),
    ];
    let items = decoder.items(entry, "an array of pictures");
    items.iter().filter_map(|item| decoder.word(item, &words)).collect()
}

#[cfg(test)]
mod tests;
