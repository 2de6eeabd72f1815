//! Parts of a trace, each of which begins where the one before ends: what they tell adds up to what the whole tells.

use crate::thinning::complete;
use schedlab_model::{CpuSet, Nanos, Span};
use schedlab_timeline::{Cut, EveryTask, Latency, Reply, Tasks, ask, ask_within};
use schedlab_timeline::{LatencyAnswer, TasksAnswer};
use schedlab_trace::dat::{Compression, Version};
use schedlab_trace::synthetic::Plan;
use schedlab_trace::{EventWriter, Part, Target, convert, cut, open};
use std::collections::BTreeMap;
use std::path::Path;

type Told = Reply<(TasksAnswer, LatencyAnswer)>;

fn told(path: &Path) -> Told {
    ask(&mut *open(path).unwrap(), (Tasks::new(), Latency::new())).unwrap()
}

/// Run time, run delay, sleep, wakeups, migrations and switches away of each task; and of all waits the number, the sum and
/// the longest.
type Sums = (BTreeMap<i32, [u64; 6]>, (u64, u64, u64));

fn add(sums: &mut Sums, told: &Told) {
    let (tasks, latency) = &told.answer;
    for row in &tasks.rows {
        let of = sums.0.entry(row.pid.0).or_default();
        let asleep = row.asleep.sleeping + row.asleep.uninterruptible + row.asleep.stopped;
        let told = [
            row.ran.0,
            row.waited.0,
            asleep.0,
            row.wakeups,
            row.migrations,
            row.voluntary + row.involuntary,
        ];
        of.iter_mut().zip(told).for_each(|(sum, told)| *sum += told);
    }
    let delays = &latency.total.run_delay;
    let (count, sum, max) = &mut sums.1;
    *count += delays.count();
    *sum += delays.sum();
    *max = (*max).max(delays.max().unwrap_or(0));
}

#[test]
fn figures_of_parts_add_up_to_those_of_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, text) = (dir.path().join("whole.dat"), dir.path().join("whole.txt"));
    let mut open_at_a_cut = 0;
    for (seed, cpus, tasks_per_cpu) in [(1, 2, 4), (2, 1, 6), (3, 4, 3), (4, 3, 2)] {
        let trace = complete(Plan { cpus, tasks_per_cpu, events: 3000, seed });
        let mut writer = EventWriter::create(&whole, &trace.info).unwrap();
        writer.events(&trace.events).unwrap();
        writer.finish().unwrap();
        convert(&whole, &text, Target::Report).unwrap();
        // A part that is all of it: its last event lies before its end.
        let span = told(&whole).observed;
        let all = Some(Span::new(span.start, Nanos(span.end.0 + 1)));
        let part = Part { span: all, ..Part::default() };
        let path = dir.path().join("all.dat");
        cut(&whole, &path, Version::V6, Compression::None, &part).unwrap();
        let mut expected = Sums::default();
        add(&mut expected, &told(&path));
        for file in [&whole, &text] {
            let span = told(file).observed;
            let mut sums = Sums::default();
            let bounds: Vec<Nanos> =
                (0..=7).map(|part| span.start + Nanos(span.duration().0 * part / 7)).collect();
            for ends in bounds.windows(2) {
                let (from, mut to) = (ends[0], ends[1]);
                if to == span.end {
                    to = Nanos(to.0 + 1);
                }
                let before = Cut { from: None, to: Some(from - span.start) };
                let state = ask_within(&mut *open(file).unwrap(), before, EveryTask).unwrap().state;
                let at_start = (from > span.start).then(|| state.at_start());
                open_at_a_cut += u64::from(state.waiting());
                let part = Part { span: Some(Span::new(from, to)), at_start, ..Part::default() };
                let path = dir.path().join("part.dat");
                cut(file, &path, Version::V6, Compression::None, &part).unwrap();
                let told = told(&path);
                assert!(told.warnings.is_empty(), "{:?}", told.warnings);
                add(&mut sums, &told);
            }
            // Who does nothing has no row in a part.
            expected.0.retain(|_, told| *told != [0; 6]);
            sums.0.retain(|_, told| *told != [0; 6]);
            assert_eq!(sums, expected, "seed {seed}, {}", file.display());
        }
    }
    assert!(open_at_a_cut > 20, "{open_at_a_cut} tasks waited where a part begins");
}

#[test]
fn of_a_part_of_some_cpus_only_their_state_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole.dat");
    let trace = complete(Plan { cpus: 4, tasks_per_cpu: 3, events: 3000, seed: 5 });
    let mut writer = EventWriter::create(&whole, &trace.info).unwrap();
    writer.events(&trace.events).unwrap();
    writer.finish().unwrap();
    let span = told(&whole).observed;
    let from = span.start + Nanos(span.duration().0 / 2);
    let before = Cut { from: None, to: Some(from - span.start) };
    let state = ask_within(&mut *open(&whole).unwrap(), before, EveryTask).unwrap().state;
    let part = Part {
        span: Some(Span::new(from, span.end)),
        cpus: Some(CpuSet::first(1)),
        at_start: Some(state.at_start()),
        tasks: None,
    };
    let path = dir.path().join("part.dat");
    cut(&whole, &path, Version::V7, Compression::Zstd, &part).unwrap();
    let info = open(&path).unwrap().info().clone();
    let kept = info.at_start.unwrap();
    assert!(kept.idle.iter().all(|cpu| cpu.0 == 0));
    use schedlab_model::Does::{Run, Wait};
    let places = kept.tasks.iter().filter_map(|task| match task.does {
        Run(cpu) | Wait(cpu, ..) => Some(cpu.0),
        _ => None,
    });
    assert!(places.clone().count() > 0 && places.clone().all(|cpu| cpu == 0));
}
