//! Complete traces are thinned in every way in which a file can be partial. Each figure of each answer is then that of the
//! complete trace, or unknown, or a bound that holds it. The test prints the table of all readers and ways.

use schedlab_model::table::{Bound, Row, Rows};
use schedlab_model::{
    Context, Cover, Cpu, CpuSet, Event, EventSource, Kind, KindSet, Nanos, Phase, Pid, Span, What,
};
use schedlab_timeline::{
    About, Chosen, Everything, Question, Reply, Waited, ask, everything, notation, totals,
};
use schedlab_trace::dat::{Compression, Version};
use schedlab_trace::synthetic::{Plan, Synthetic};
use schedlab_trace::{EventWriter, Part, Target, convert, cut, open};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

type Trace = notation::Trace;
type Answer = <Everything as Question>::Answer;

/// A figure, and how it is bound.
type Figures = BTreeMap<String, (f64, Option<String>)>;

/// A trace with marks at its ends, which no thinning removes: both have the same length.
pub(crate) fn complete(plan: Plan) -> Trace {
    let cpus = CpuSet::first(plan.cpus.into());
    let mut source = Synthetic::new(plan);
    let (mut events, mut batch) = (Vec::new(), Vec::new());
    while source.next(&mut batch).unwrap() {
        events.extend_from_slice(&batch);
    }
    let mut info = source.info().clone();
    info.cpus = cpus;
    info.marks = vec!["end".to_owned()];
    info.kinds = KindSet::ALL;
    let (first, last) = (events[0].time, events[events.len() - 1].time);
    let mark = |time| {
        let what = What::Mark { pid: Pid::IDLE, id: 0, phase: Phase::Point, request: 0 };
        Event { time, by: Pid::IDLE, cpu: Cpu(0), context: Context::Task, what }
    };
    events.insert(0, mark(first - Nanos(1000)));
    events.push(mark(last + Nanos(1000)));
    info.span = Some(Span::new(first - Nanos(1000), last + Nanos(1000)));
    Trace { info, events, tick: Nanos(1) }
}

/// A way in which a trace is partial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Whole,
    Sampled,
    ByTask,
    OneCpu,
    NoWakeups,
    NoWaking,
    NoWakeup,
    OnlySwitches,
    NoMigrations,
    NoSwitches,
    NoFlags,
    Gap,
    GapOfOneCpu,
}

const WAYS: [Way; 13] = [
    Way::Whole,
    Way::Sampled,
    Way::ByTask,
    Way::OneCpu,
    Way::NoWakeups,
    Way::NoWaking,
    Way::NoWakeup,
    Way::OnlySwitches,
    Way::NoMigrations,
    Way::NoSwitches,
    Way::NoFlags,
    Way::Gap,
    Way::GapOfOneCpu,
];

/// A reader, or events from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reader {
    Memory,
    Dat,
    Text,
    Perfetto,
}

const READERS: [Reader; 4] = [Reader::Memory, Reader::Dat, Reader::Text, Reader::Perfetto];

impl Way {
    fn without(self) -> &'static [Kind] {
        match self {
            Self::NoWakeups => &[Kind::Waking, Kind::Wakeup, Kind::WakeupNew],
            Self::NoWaking => &[Kind::Waking],
            Self::NoWakeup => &[Kind::Wakeup],
            Self::OnlySwitches => &[Kind::Waking, Kind::Wakeup, Kind::WakeupNew, Kind::Migrate],
            Self::NoMigrations => &[Kind::Migrate],
            Self::NoSwitches => &[Kind::Switch],
            _ => &[],
        }
    }

    /// Whether a file of this reader can be partial in this way; the others do not say so.
    fn concerns(self, reader: Reader) -> bool {
        match self {
            Self::Sampled | Self::ByTask => reader == Reader::Memory,
            Self::NoFlags => matches!(reader, Reader::Memory | Reader::Text),
            _ => true,
        }
    }

    fn thin(self, trace: &Trace) -> Trace {
        let mut thin = trace.clone();
        let is_mark = |event: &Event| event.what.kind() == Kind::Mark;
        let (first, last) = (trace.events[0].time, trace.events[trace.events.len() - 1].time);
        let middle = first + Nanos((last - first).0 / 2);
        let hole = Span::new(middle, middle + Nanos::from_micros(1000));
        match self {
            Self::Sampled => {
                let mut number = 0;
                thin.events.retain(|event| {
                    number += u32::from(event.what.kind() == Kind::Switch);
                    event.what.kind() != Kind::Switch || number % 97 == 0
                });
                thin.info.coverage.set(Kind::Switch, Cover::Sampled);
            }
            Self::ByTask => {
                thin.events.retain(|event| is_mark(event) || event.by.0 % 3 == 1);
                for kind in [Kind::Switch, Kind::Waking, Kind::Wakeup, Kind::Migrate] {
                    thin.info.coverage.set(kind, Cover::ByTask);
                }
            }
            Self::OneCpu => {
                thin.events.retain(|event| event.cpu == Cpu(0));
                thin.info.cpus = CpuSet::first(1);
            }
            Self::NoFlags => {
                thin.events.iter_mut().for_each(|event| event.context = Context::Unknown);
            }
            Self::Gap | Self::GapOfOneCpu => {
                let lossy = |event: &Event| self == Self::Gap || event.cpu == Cpu(0);
                let mut blind = CpuSet::new();
                let mut kept = Vec::new();
                for event in &trace.events {
                    if !is_mark(event)
                        && lossy(event)
                        && hole.start <= event.time
                        && event.time < hole.end
                    {
                        blind.insert(event.cpu);
                        continue;
                    }
                    if blind.contains(event.cpu) {
                        blind.remove(event.cpu);
                        let what = What::Lost { count: None };
                        kept.push(Event { what, context: Context::Task, ..*event });
                    }
                    kept.push(*event);
                }
                thin.events = kept;
            }
            _ => {
                let without = self.without();
                thin.events.retain(|event| !without.contains(&event.what.kind()));
            }
        }
        thin
    }

    /// Names of figures that the remaining events determine, so that they must be given, as numbers or as bounds.
    fn determines(self, figure: &str) -> bool {
        let name = figure.rsplit('/').next().unwrap_or_default();
        let ran = ["run_ns", "run_share", "slices", "slice_ns_p50", "slice_ns_p99", "slice_ns_max"];
        let counts = ["switches_voluntary", "switches_involuntary", "migrations"];
        let of_cpu = ["busy_ns", "idle_ns", "utilisation", "switches"];
        let waits = ["wait_ns", "wakeups", "run_delay.latency_ns_sum", "run_delay.latency_ns_max"];
        let is = |all: &[&str]| all.contains(&name);
        match self {
            // A text and a Perfetto trace hold no topology.
            Self::Whole | Self::NoFlags => {
                !["distance", "left_", "away", "lost_"].iter().any(|part| figure.contains(part))
            }
            Self::Sampled => false,
            Self::ByTask => {
                let pid = figure.strip_prefix("tasks/").and_then(|rest| rest.split('/').next());
                let logs =
                    pid.and_then(|pid| pid.parse::<i32>().ok()).is_some_and(|pid| pid % 3 == 1);
                logs && is(&counts[..2])
            }
            Self::OneCpu => is(&of_cpu) && figure.starts_with("cpus/0/"),
            Self::NoSwitches => is(&["wakeups", "migrations"]),
            Self::NoWakeups
            | Self::OnlySwitches
            | Self::NoMigrations
            | Self::NoWaking
            | Self::NoWakeup => is(&ran) || is(&counts) || is(&of_cpu) || is(&["wait_ns"]),
            Self::Gap | Self::GapOfOneCpu => {
                is(&["run_ns", "slice_ns_max"]) || is(&counts) || is(&of_cpu) || is(&waits)
            }
        }
    }
}

/// The thinned trace as the reader gives it.
fn read(reader: Reader, way: Way, trace: &Trace, folder: &Path) -> Reply<Answer> {
    let thin = way.thin(trace);
    if reader == Reader::Memory {
        return answers(&mut thin.source());
    }
    let whole = folder.join("whole.dat");
    // Which CPUs are covered is a cut's to say.
    let written = if way == Way::OneCpu { trace } else { &thin };
    let mut writer = EventWriter::create(&whole, &written.info).unwrap();
    writer.events(&written.events).unwrap();
    writer.finish().unwrap();
    let dat = folder.join("thin.dat");
    let cpus = (way == Way::OneCpu).then(|| CpuSet::first(1));
    let part = Part { cpus, ..Part::default() };
    cut(&whole, &dat, Version::V6, Compression::None, &part).unwrap();
    let file = match reader {
        Reader::Memory | Reader::Dat => dat,
        Reader::Perfetto => {
            let file = folder.join("thin.pftrace");
            convert(&dat, &file, Target::Perfetto).unwrap();
            file
        }
        Reader::Text => {
            let file = folder.join("thin.txt");
            convert(&dat, &file, Target::Report).unwrap();
            if matches!(way, Way::NoFlags | Way::OneCpu) {
                let text = std::fs::read_to_string(&file).unwrap();
                // A file of one CPU in tracefs does not say how many there are.
                let lines = text.lines().filter(|line| !line.starts_with("cpus="));
                let bare = |line: &str| match way {
                    Way::NoFlags => line
                        .replace("] ..... ", "] ")
                        .replace("] ..h.. ", "] ")
                        .replace("] ..s.. ", "] "),
                    _ => line.to_owned(),
                };
                let text: String = lines.map(|line| bare(line) + "\n").collect();
                std::fs::write(&file, text).unwrap();
            }
            file
        }
    };
    answers(&mut *open(&file).unwrap())
}

fn answers(source: &mut dyn EventSource) -> Reply<Answer> {
    let info = source.info().clone();
    let about = About {
        topology: info.topology.clone(),
        info: &info,
        chosen: Chosen::all(),
        min: Nanos::ZERO,
    };
    ask(source, everything(&about)).unwrap()
}

fn put<R: Row>(out: &mut Figures, name: &str, key: &str, rows: &Rows<'_, R>) {
    for row in serde_json::to_value(rows).unwrap().as_array().unwrap() {
        flatten(out, &format!("{name}/{}", row[key]), "", row);
    }
}

/// The numbers of a row by their names.
fn flatten(out: &mut Figures, place: &str, below: &str, row: &Value) {
    for (name, value) in row.as_object().unwrap() {
        let full = format!("{below}{name}");
        if value.is_object() {
            flatten(out, place, &format!("{full}."), value);
        } else if let Some(number) = value.as_f64() {
            let bound = row.get(format!("{name}_bound")).and_then(Value::as_str);
            out.insert(format!("{place}/{full}"), (number, bound.map(str::to_owned)));
        }
    }
}

fn figures(reply: &Reply<Answer>) -> Figures {
    let (latency, _, cpus, waiting, ..) = &reply.answer;
    let (known, origin) = (&reply.known, reply.origin);
    let mut out = Figures::new();
    let line = |pid, delays| Waited { pid, comm: None, cpu: None, group: None, delays, off: None };
    let mut waits: Vec<_> =
        latency.tasks.iter().map(|row| line(Some(row.pid), &row.delays)).collect();
    waits.push(line(None, &latency.total));
    put(&mut out, "latency", "pid", &Rows::new(&waits, origin).known(known));
    let of_tasks = reply.clone().map(|answer| answer.1);
    let rows = of_tasks.rows(&of_tasks.answer.rows);
    put(&mut out, "tasks", "pid", &Rows::new(&rows, origin).known(known));
    put(&mut out, "cpus", "cpu", &Rows::new(&cpus.rows, origin).known(known));
    let total = [waiting.total()];
    put(&mut out, "waiting", "seen_ns", &Rows::new(&total, origin).known(known));
    let values = schedlab_timeline::total_values(&reply.answer, &Chosen::all(), known);
    for (total, value) in totals().into_iter().zip(values) {
        let bound = match total.need.and_then(|need| known.of(need)) {
            Some(Bound::AtLeast) => Some("at_least".to_owned()),
            Some(Bound::AtMost) => Some("at_most".to_owned()),
            Some(Bound::Within(apart)) => Some(format!("within {apart}")),
            _ => None,
        };
        if let Some(value) = value {
            out.insert(format!("totals/{}", total.name), (value, bound));
        }
    }
    // How many waits were not seen to end is said about the file, not about what happened.
    out.retain(|name, _| {
        !["unfinished", "/pid", "/cpu", "seen_ns"].iter().any(|end| name.ends_with(end))
            && name != "totals/tasks"
    });
    out
}

/// Figures equal, bounded, unknown and wrong; and of those that are determined, how many were given.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    equal: u64,
    bounded: u64,
    unknown: u64,
    wrong: u64,
    determined: u64,
    given: u64,
}

fn score(score: &mut Score, way: Way, truth: &Figures, thin: &Figures) -> Vec<String> {
    let mut wrong = Vec::new();
    let names: std::collections::BTreeSet<&String> = truth.keys().chain(thin.keys()).collect();
    for name in names {
        let told = thin.get(name);
        // A row that a trace does not have has nothing in it.
        let is = truth.get(name).map_or(0.0, |figure| figure.0);
        let determined = way.determines(name) && truth.contains_key(name);
        score.determined += u64::from(determined);
        score.given += u64::from(determined && told.is_some());
        let Some((value, bound)) = told else {
            score.unknown += 1;
            continue;
        };
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
        // A CPU is busy, idle or unknown; the table tells how long it is unknown beside the others.
        if name.ends_with("/unknown_ns") {
            continue;
        }
        let beside = |ends: &str| thin.get(&name.replace(ends, "unknown_ns")).map(|told| told.0);
        let unknown = match name.rsplit('/').next() {
            Some("busy_ns") => beside("busy_ns"),
            Some("idle_ns") => beside("idle_ns"),
            Some("utilisation") if name.starts_with("cpus") => {
                beside("utilisation").map(|ns| ns / 1e6)
            }
            _ if name == "totals/utilisation" => {
                let all = thin.iter().filter(|(name, _)| name.ends_with("/unknown_ns"));
                Some(all.map(|(_, told)| told.0).sum::<f64>() / 1e6)
            }
            _ => None,
        };
        if bound.is_none() && unknown.is_some_and(|unknown| (value - is).abs() <= unknown) {
            if near(*value, is) {
                score.equal += 1;
            } else {
                score.bounded += 1;
            }
            continue;
        }
        let (counts, holds) = match bound.as_deref() {
            None => (&mut score.equal, near(*value, is)),
            Some("at_least") => (&mut score.bounded, *value <= is || near(*value, is)),
            Some("at_most") => (&mut score.bounded, *value >= is || near(*value, is)),
            Some(within) => {
                let apart: f64 = within.trim_start_matches("within ").parse().unwrap();
                (&mut score.bounded, (value - is).abs() <= apart + 1e-9)
            }
        };
        if holds {
            *counts += 1;
        } else {
            score.wrong += 1;
            wrong.push(format!("{name}: {value} ({bound:?}), and it is {is}"));
        }
    }
    wrong
}

#[test]
fn no_figure_of_a_thinned_trace_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let mut scores = BTreeMap::<(Reader, Way), Score>::new();
    let mut wrong = Vec::new();
    for seed in 0..10_u64 {
        let cpus = [2, 1, 4, 2, 8, 3, 2, 4, 6, 2][seed as usize];
        let tasks_per_cpu = [3, 4, 2, 6, 3, 1, 8, 5, 3, 2][seed as usize];
        let plan = Plan { cpus, tasks_per_cpu, events: 1500, seed };
        let trace = complete(plan);
        let truth = figures(&answers(&mut trace.source()));
        for (reader, way) in READERS.iter().flat_map(|r| WAYS.iter().map(move |w| (*r, *w))) {
            if !way.concerns(reader) {
                continue;
            }
            let thin = figures(&read(reader, way, &trace, folder.path()));
            let sum = scores.entry((reader, way)).or_default();
            let found = score(sum, way, &truth, &thin);
            wrong.extend(
                found.iter().take(4).map(|what| format!("{reader:?} {way:?} {seed}: {what}")),
            );
        }
    }
    let mut table = String::from("reader    way            equal bounded unknown wrong  given\n");
    for ((reader, way), sum) in &scores {
        let share = sum.given as f64 / sum.determined.max(1) as f64 * 100.0;
        let (reader, way) = (format!("{reader:?}"), format!("{way:?}"));
        let Score { equal, bounded, unknown, wrong, .. } = sum;
        let _ = writeln!(
            table,
            "{reader:<9} {way:<13} {equal:>6} {bounded:>7} {unknown:>7} {wrong:>5} {share:>5.1}%"
        );
    }
    drop(std::io::stderr().write_all(table.as_bytes()));
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}\n{table}",
        wrong.len(),
        wrong[..wrong.len().min(40)].join("\n")
    );
    for ((reader, way), sum) in &scores {
        assert!(sum.given * 10 >= sum.determined * 9, "{reader:?} {way:?}: {sum:?}\n{table}");
    }
}
