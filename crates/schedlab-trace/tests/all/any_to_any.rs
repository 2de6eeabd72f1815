//! Every format to every format: what is read out of the target is what is read out of the source, but
//! for what the conversion said that the target cannot hold.

use crate::common::{data, header, peer, small};
use schedlab_model::{
    Clock, Comm, Context, Cpu, CpuSet, Event, EventSource, Nanos, Pid, Prio, Span, TraceInfo, What,
};
use schedlab_trace::dat::{Companion, Compression, Version};
use schedlab_trace::{
    Census, Converted, EventWriter, Options, Target, convert, open, open_bytes, open_with,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const TARGETS: [(&str, Target); 4] = [
    ("v6.dat", Target::Dat(Version::V6, Compression::None)),
    ("v7.dat", Target::Dat(Version::V7, Compression::Zstd)),
    ("x.pftrace", Target::Perfetto),
    ("x.txt", Target::Report),
];

/// What a trace tells, in a form that all formats share.
#[derive(Debug, PartialEq)]
struct Story {
    cpus: String,
    /// By time, then by CPU: nobody says which of two CPUs came first in the same nanosecond.
    events: Vec<(Event, String)>,
    /// Last names.
    names: BTreeMap<Pid, Comm>,
}

impl Story {
    fn sorted(mut self) -> Self {
        self.events.sort_by_key(|(event, _)| (event.time, event.cpu));
        self
    }

    /// With the times by which a target that lies CPU by CPU keeps the order of events at one time.
    fn moved(mut self) -> Self {
        let mut last = (Nanos::ZERO, Cpu(0));
        for (event, _) in &mut self.events {
            if matches!(event.what, What::Lost { .. }) {
                continue;
            }
            event.time = event.time.max(last.0);
            if event.time == last.0 && event.cpu < last.1 {
                event.time += Nanos(1);
            }
            last = (event.time, event.cpu);
        }
        self
    }
}

fn read(path: &Path) -> Story {
    read_in_order(path).sorted()
}

fn read_in_order(path: &Path) -> Story {
    let options = Options { arguments: true, ..Options::default() };
    let mut source = open_with(path, &options).unwrap();
    let (mut events, mut batch) = (Vec::new(), Vec::new());
    let mut names = source.info().comms.clone();
    let mut named = Vec::new();
    while source.next(&mut batch).unwrap() {
        for (index, event) in batch.iter().enumerate() {
            if let What::Comm { pid, comm } = event.what {
                names.insert(pid, comm);
                continue;
            }
            events.push((*event, told(source.as_ref(), index, event)));
            named.extend(pids(&event.what));
        }
    }
    events.retain(|(_, text)| !text.starts_with("task_rename "));
    // Of tasks that no event concerns, only a list of names knows.
    names.retain(|pid, _| named.contains(pid) && !pid.is_idle());
    Story { cpus: source.info().cpus.to_string(), events, names }
}

/// The name and the arguments of what is none of the scheduler's; the numbers of formats differ.
fn told(source: &dyn EventSource, index: usize, event: &Event) -> String {
    let info = source.info();
    match event.what {
        What::Other { format } => {
            let name = info.others.get(usize::from(format)).map_or("?", |other| &other.name);
            format!("{name} {}", plain(&source.arguments(index).unwrap_or_default()))
        }
        What::Mark { id, .. } => info.marks[id as usize].clone(),
        _ => String::new(),
    }
}

/// Numbers in one spelling: Perfetto keeps what they count, not how they were written.
fn plain(arguments: &str) -> String {
    let words = arguments.split_whitespace().map(|word| {
        let (name, value) = word.split_once('=').unwrap_or(("", word));
        let digits = value.strip_prefix("0x").unwrap_or("-");
        let number = u64::from_str_radix(digits, 16).map(|number| number.to_string());
        format!("{name}={}", number.unwrap_or_else(|_| value.to_owned()))
    });
    words.collect::<Vec<_>>().join(" ")
}

fn pids(what: &What) -> Vec<Pid> {
    match *what {
        What::Switch { prev, next, .. } => vec![prev, next],
        What::Waking { pid, .. } | What::Wakeup { pid, .. } => vec![pid],
        _ => Vec::new(),
    }
}

/// Takes out of both what the conversion said to be lost.
fn forgive(story: &mut Story, target: Target, converted: &Converted) {
    let said = |part: &str| converted.warnings.iter().any(|warning| warning.what.contains(part));
    for (event, text) in &mut story.events {
        if said("whether an event came from an interrupt") {
            event.context = Context::Task;
        }
        match &mut event.what {
            What::Lost { count } if said("events were lost: only where") => *count = None,
            What::Switch { left, .. } if said("lose the state of the previous task") => {
                if matches!(left, schedlab_model::Left::Other | schedlab_model::Left::Slept) {
                    *left = schedlab_model::Left::Other;
                }
            }
            What::Other { format } => *format = 0,
            What::Mark { id, .. } => *id = 0,
            What::Lost { .. } => event.by = Pid::IDLE,
            _ => {}
        }
        // Of other buffers only the count is told.
        if text.starts_with("sched_") && said("only counted") || text.starts_with("mark ") {
            text.truncate(5);
        }
    }
    if said("changes of name keep only the last name") || target == Target::Report {
        story.names.clear();
    }
}

fn sources() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let mut all: Vec<PathBuf> = std::fs::read_dir(corpus)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "dat"))
        .collect();
    if let Some(traces) = data("traces") {
        let real = std::fs::read_dir(traces).unwrap().map(|entry| entry.unwrap().path());
        // Two hold no tracepoints.
        let holds = |path: &PathBuf| !path.to_string_lossy().contains("ctx_switch");
        all.extend(real.filter(holds).filter(|path| !path.ends_with("fibo.compressed2.pipe.data")));
    }
    all.sort();
    all
}

#[test]
fn what_is_read_after_a_conversion_is_what_was_read_before() {
    let dir = tempfile::tempdir().unwrap();
    for source in sources() {
        let before = read(&source);
        assert!(!before.events.is_empty(), "{}", source.display());
        for (name, target) in TARGETS {
            let path = dir.path().join(name);
            let converted = convert(&source, &path, target).unwrap();
            let (mut truth, mut after) = (read_in_order(&source), read(&path));
            let kept = "this keeps the order of events at one time";
            if converted.warnings.iter().any(|warning| warning.what.contains(kept)) {
                truth = truth.moved();
            }
            truth = truth.sorted();
            forgive(&mut truth, target, &converted);
            forgive(&mut after, target, &converted);
            let what = format!("{} to {name}: {:?}", source.display(), converted.warnings);
            assert_eq!(truth.cpus, after.cpus, "{what}");
            assert_eq!(truth.events.len(), after.events.len(), "{what}");
            for (a, b) in truth.events.iter().zip(&after.events) {
                assert_eq!(a, b, "{what}");
            }
            assert_eq!(truth.names, after.names, "{what}");
        }
    }
}

/// A text, converted to `ending` and read again.
fn through(text: &str, ending: &str) -> (Story, Story, Converted) {
    let dir = tempfile::tempdir().unwrap();
    let (source, path) = (dir.path().join("a.txt"), dir.path().join(ending));
    std::fs::write(&source, text).unwrap();
    let converted = convert(&source, &path, Target::by_name(&path).unwrap()).unwrap();
    (read(&source), read(&path), converted)
}

#[test]
fn a_tracepoint_with_a_long_name_is_a_line_that_reads_back() {
    let text = "a-1 [000] 1.000000001: sched_wake_idle_without_ipi: cpu=0\n";
    let (before, after, _) = through(text, "b.txt");
    assert_eq!(before, after);
    assert_eq!(after.events[0].1, "sched_wake_idle_without_ipi cpu=0");
}

#[test]
fn ticks_of_a_counter_are_not_read_back_as_time() {
    let dir = tempfile::tempdir().unwrap();
    let (source, path) = (dir.path().join("a.txt"), dir.path().join("b.txt"));
    std::fs::write(&source, "a-1 [000] 123456: irq: cpu=0\na-1 [000] 5000000123: irq: cpu=0\n")
        .unwrap();
    convert(&source, &path, Target::Report).unwrap();
    for path in [&source, &path] {
        let source = open_with(path, &Options::default()).unwrap();
        assert_eq!(source.info().clock, Clock::Ticks("unknown".into()), "{}", path.display());
    }
    assert_eq!(read(&source), read(&path));
}

#[test]
fn scheduler_events_of_further_buffers_are_counted_and_happen_once() {
    let line = "<idle>-0 [001] 5.000000001: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 \
                prev_state=R ==> next_comm=a next_pid=7 next_prio=120";
    let text = format!("one:          {line}\n              {line}\none:         {line}\n");
    for ending in ["b.txt", "b.pftrace", "b.dat"] {
        let (before, after, converted) = through(&text, ending);
        let kinds = |story: &Story| {
            story
                .events
                .iter()
                .filter(|(event, _)| matches!(event.what, What::Switch { .. }))
                .count()
        };
        assert_eq!((kinds(&before), kinds(&after)), (1, 1), "{ending}");
        assert_eq!(after.events.len(), 3, "{ending}");
        let said = "the top buffer are used; the same ones of buffer 'one' are only counted";
        assert!(converted.warnings.iter().any(|warning| warning.what.contains(said)), "{ending}");
    }
}

#[test]
fn what_is_known_beside_the_events_is_kept_or_said() {
    let Some(source) = data("traces/local_2cpu_zstd.perf.data") else { return };
    let dir = tempfile::tempdir().unwrap();
    let census = |path: &Path| Census::of(open(path).unwrap().as_mut()).unwrap();
    let whole = census(&source);
    let first = read(&source).events[0].0.time;
    assert_eq!(whole.span.unwrap().start, first, "names told before it observe nothing");
    for name in ["v6.dat", "v7.dat", "x.pftrace", "x.txt", "x.csv"] {
        let path = dir.path().join(name);
        let target = TARGETS.iter().find(|target| target.0 == name).map(|target| target.1);
        let target = target.or_else(|| Target::by_name(&path)).unwrap();
        let converted = convert(&source, &path, target).unwrap();
        let said =
            |part: &str| converted.warnings.iter().any(|warning| warning.what.contains(part));
        let lost = !name.ends_with(".dat");
        for part in
            ["the clock's name (perf)", "the kernel (6.18.44", "how the CPUs share hardware"]
        {
            assert_eq!(said(part), lost, "{name}: {part}: {converted:?}");
        }
        if name != "x.csv" {
            assert_eq!(census(&path).span, whole.span, "{name}");
        }
    }
}

#[test]
fn a_time_that_was_observed_is_kept_in_a_trace_dat_and_said_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let mut header = header(Version::V6, Compression::None, 3);
    let span = Span::new(Nanos(1), Nanos(400_000_000_000));
    header.companion = Some(Companion { span: Some(span), ..Companion::default() });
    let (source, path) = (dir.path().join("a.dat"), dir.path().join("b.dat"));
    std::fs::write(&source, small(&header)).unwrap();
    convert(&source, &path, TARGETS[1].1).unwrap();
    for path in [&source, &path] {
        assert_eq!(open(path).unwrap().info().span, Some(span));
    }
    let cut = std::fs::read(&source).unwrap();
    let cut = open_bytes(Path::new("cut"), cut[..cut.len() - 4096].to_vec()).unwrap();
    assert!(cut.info().span.is_none_or(|known| known.end < span.end), "not what was cut off");
    let converted = convert(&source, &dir.path().join("x.txt"), Target::Report).unwrap();
    let said = |part: &str| converted.warnings.iter().any(|warning| warning.what.contains(part));
    assert!(said("nothing happened in the 999ns before and the"), "{converted:?}");
}

#[test]
fn events_at_one_time_on_several_cpus_keep_their_order_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    // Cause before effect at one instant, from the higher CPU to the lower one and back.
    let what = |pid| What::Wakeup { pid: Pid(pid), prio: Prio::NORMAL, cpu: Cpu(0), new: false };
    let event = |(cpu, pid): (u16, i32)| Event {
        time: Nanos(1_000_000_000),
        by: Pid(1),
        cpu: Cpu(cpu),
        context: Context::Task,
        what: what(pid),
    };
    let order = [(3, 11), (0, 12), (2, 13), (1, 14), (1, 15), (3, 16), (0, 17)];
    let mut info = TraceInfo::new("test", Clock::Monotonic);
    info.cpus = CpuSet::first(4);
    let source = dir.path().join("a.dat");
    let mut writer = EventWriter::create(&source, &info).unwrap();
    writer.events(&order.map(event)).unwrap();
    writer.finish().unwrap();
    let woken = |path: &Path| -> Vec<i32> {
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        let mut source = open(path).unwrap();
        while source.next(&mut batch).unwrap() {
            all.extend(batch.iter().filter_map(|event| match event.what {
                What::Wakeup { pid, .. } => Some(pid.0),
                _ => None,
            }));
        }
        all
    };
    let wanted: Vec<i32> = order.iter().map(|&(_, pid)| pid).collect();
    assert_eq!(woken(&source), wanted);
    for ending in ["b.dat", "b.pftrace", "b.txt"] {
        let path = dir.path().join(ending);
        convert(&source, &path, Target::by_name(&path).unwrap()).unwrap();
        assert_eq!(woken(&path), wanted, "{ending}");
    }
    let Some((out, _)) = peer("trace-cmd", &["report", "-N", "-i"], &source) else { return };
    let theirs: Vec<i32> = out
        .lines()
        .filter_map(|line| line.split_once(" pid=")?.1.split(' ').next()?.parse().ok())
        .collect();
    assert_eq!(theirs, wanted, "{out}");
}

#[test]
fn events_that_are_moved_to_keep_their_order_are_counted() {
    let text = "a-1 [001] 1.000001: irq: a=1\na-2 [000] 1.000001: irq: a=2\na-2 [001] 1.000001: irq: a=3\n";
    for ending in ["b.dat", "b.pftrace"] {
        let (_, _, converted) = through(text, ending);
        let said = "2 events are written up to 1ns later";
        assert!(converted.warnings.iter().any(|warning| warning.what.contains(said)), "{ending}");
    }
}
