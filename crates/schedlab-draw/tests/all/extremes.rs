//! What traces can be: empty, one CPU, 1,024 CPUs, CPUs with holes in their numbers, names that are
//! markup, nanoseconds long and days long. Each is a readable picture and a page, and nothing that a
//! trace says becomes markup.

use schedlab_draw::cores::{Cores, Fill, Size, cores};
use schedlab_draw::levels::Levels;
use schedlab_draw::page::{Columns, page};
use schedlab_draw::rows::{Colouring, Rows, RowsOptions};
use schedlab_draw::waiting::{Running, Tints, columns, waiting};
use schedlab_draw::{Theme, pdf, png, svg};
use schedlab_model::{
    Clock, Cpu, CpuSet, Event, EventSource, Left, Nanos, Pid, Prio, Span, TraceInfo, Warning, What,
};
use schedlab_timeline::ask;
use std::io;

/// Events in memory.
struct Memory {
    info: TraceInfo,
    events: Vec<Event>,
}

impl EventSource for Memory {
    fn info(&self) -> &TraceInfo {
        &self.info
    }
    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        *batch = std::mem::take(&mut self.events);
        Ok(!batch.is_empty())
    }
    fn warnings(&self) -> &[Warning] {
        &[]
    }
}

/// Names that mean something to somebody who is not a scheduler.
const NAMES: [&[u8]; 6] = [
    b"<script>x",
    b"\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d",
    b"a\x07\x1b[31m",
    b"]]>&amp;'\"",
    b"\xff\xfe",
    b"e\xcc\x81\xe2\x80\xae",
];

/// Each CPU switches between its idle task and a task of its own, the first six with odd names, every `step`
/// nanoseconds.
fn busy(cpus: &[u16], start: u64, step: u64, switches: u64) -> Memory {
    let mut info = TraceInfo::new("test", Clock::Monotonic);
    info.cpus = cpus.iter().map(|&cpu| Cpu(cpu)).collect::<CpuSet>();
    info.span = Some(Span::new(Nanos(start), Nanos(start + step * (switches + 1))));
    for pid in 1..=6_i32 {
        let mut comm = [0; 16];
        let name = NAMES[usize::try_from(pid - 1).expect("positive")];
        comm[..name.len()].copy_from_slice(name);
        info.comms.insert(Pid(pid), comm);
    }
    let mut events = Vec::new();
    for at in 1..=switches {
        for (task, &cpu) in (1..).map(Pid).zip(cpus) {
            let (prev, next) = if at % 2 == 1 { (Pid::IDLE, task) } else { (task, Pid::IDLE) };
            events.push(Event {
                time: Nanos(start + at * step),
                by: prev,
                cpu: Cpu(cpu),
                context: schedlab_model::Context::Task,
                what: What::Switch {
                    prev,
                    prev_prio: Prio::NORMAL,
                    left: Left::Slept,
                    next,
                    next_prio: Prio::NORMAL,
                },
            });
        }
    }
    Memory { info, events }
}

/// Draws everything there is of a trace; returns the two pictures as SVG, and the page.
fn all(make: impl Fn() -> Memory) -> [String; 3] {
    let span = make().info.span.expect("the test says so");
    let theme = Theme::light();
    let rows = Rows::new(RowsOptions {
        window: span,
        columns: Size::default().columns(false),
        colouring: Colouring::Command,
        target: None,
        cpus: None,
        topology: None,
        theme: theme.clone(),
    });
    let levels = Levels::new(span, columns(1200), Vec::new());
    let reply = ask(&mut make(), (rows, levels, Columns::new(span))).expect("in memory");
    let (rows, curves, slices) = reply.answer;
    let picture = Cores {
        title: "<b>extremes</b>".into(),
        notes: vec![],
        window: span,
        origin: span.start,
        rows: rows.rows,
        names: rows.names,
        legend: rows.legend.into_iter().map(|entry| (entry.colour, entry.name)).collect(),
        marks: vec![],
        labels: vec![],
        lanes: vec![],
    };
    let scene = cores(&picture, Size::default(), &theme);
    assert!(pdf(&scene).starts_with(b"%PDF"));
    assert!(png(&scene, 1).is_ok());
    let running =
        Running { title: "w".into(), notes: vec![], window: span, origin: span.start, curves };
    let lines = waiting(&running, 1200, Tints::of(&theme), &theme);
    [svg(&scene), svg(&lines), page("<i>", &slices, None, &[], 0)]
}

fn check_harmless(pictures: &[String; 3]) {
    for text in pictures {
        for bad in ["<script>x", "\u{7}", "\u{1b}", "\u{202e}", "שלום", "<b>", "<i>"] {
            assert!(!text.contains(bad), "{bad:?} came through");
        }
    }
    assert_eq!(pictures[0].matches("<svg").count(), 1);
    let parts = pictures[2].matches("class=\"part\"").count();
    assert_eq!(pictures[2].matches("</script>").count(), 7 + parts, "no name ends a script");
}

#[test]
fn an_empty_trace_is_a_picture() {
    let pictures = all(|| Memory { events: vec![], ..busy(&[], 0, 1, 0) });
    check_harmless(&pictures);
    assert!(pictures[0].contains("No CPU logged"));
}

#[test]
fn one_cpu_and_nanoseconds_are_readable() {
    let pictures = all(|| busy(&[0], 1_000, 3, 10));
    check_harmless(&pictures);
    assert!(pictures[0].contains("[ns]"), "the axis counts nanoseconds");
    assert!(pictures[0].contains("CPU 0"));
}

#[test]
fn a_thousand_cpus_fit_and_their_numbers_do_not_overlap() {
    let cpus: Vec<u16> = (0..1024).collect();
    let pictures = all(|| busy(&cpus, 0, 1_000_000, 40));
    check_harmless(&pictures);
    let height = pictures[0].split("height=\"").nth(1).and_then(|rest| rest.split('"').next());
    let height: f64 = height.and_then(|text| text.parse().ok()).expect("a number");
    assert!(height < 2_400.0, "{height} pixels");
    let labels = pictures[0].lines().filter(|line| line.contains("font-size=\"900\"")).count();
    assert!((64..=300).contains(&labels), "{labels} numbers on 1,024 rows");
}

#[test]
fn holes_in_the_numbers_are_not_rows() {
    let cpus = [0, 7, 300, 65_535];
    let pictures = all(|| busy(&cpus, 5, 1_000, 9));
    check_harmless(&pictures);
    for cpu in cpus {
        assert!(pictures[0].contains(&format!("CPU {cpu}<")), "CPU {cpu} has a row");
    }
    assert_eq!(pictures[0].matches(">CPU ").count(), 4);
}

#[test]
fn days_and_the_end_of_time_are_readable() {
    let day = 86_400_000_000_000;
    let pictures = all(|| busy(&[0, 1], 0, day, 3));
    check_harmless(&pictures);
    assert!(pictures[0].contains("[s]"));
    check_harmless(&all(|| busy(&[0], u64::MAX - 100, 9, 10)));
    check_harmless(&all(|| busy(&[0], 0, u64::MAX / 20, 10)));
}

#[test]
fn without_a_switch_nothing_is_known_and_nothing_is_called_idle() {
    let mut source = busy(&[0, 1], 0, 1_000, 9);
    for event in &mut source.events {
        (event.by, event.what) = (Pid::IDLE, What::Other { format: 0 });
    }
    let span = Span::new(Nanos(0), Nanos(10_000));
    let theme = Theme::light();
    let rows = Rows::new(RowsOptions {
        window: span,
        columns: 100,
        colouring: Colouring::Pid,
        target: None,
        cpus: None,
        topology: None,
        theme: theme.clone(),
    });
    let answer = ask(&mut source, rows).expect("in memory").answer;
    assert_eq!(answer.rows.len(), 2);
    for row in &answer.rows {
        let Fill::Pieces(pieces) = &row.fill else { panic!("one piece") };
        assert_eq!(pieces.len(), 1, "{row:?}");
        assert_eq!((pieces[0].colour, pieces[0].span.start), (theme.unknown, span.start));
    }
}

#[test]
fn a_picture_is_bounded_by_its_pixels() {
    let few = all(|| busy(&[0, 1], 0, 1_000, 4_000));
    let many = all(|| busy(&[0, 1], 0, 1_000, 80_000));
    assert!(many[0].len() < few[0].len() * 3 / 2, "{} and {} bytes", few[0].len(), many[0].len());
    assert!(many[1].len() < few[1].len() * 3 / 2);
}

#[test]
fn a_dense_row_has_exactly_the_time_that_ran() {
    // Every column of the picture holds as much running as idling: all shades are half.
    let span = Span::new(Nanos(0), Nanos(1_000 * 2_000));
    let rows = Rows::new(RowsOptions {
        window: span,
        columns: 100,
        colouring: Colouring::Pid,
        target: None,
        cpus: None,
        topology: None,
        theme: Theme::light(),
    });
    let mut source = busy(&[0], 0, 1_000, 1_999);
    let answer = ask(&mut source, rows).expect("in memory").answer;
    let Fill::Shades(shades) = &answer.rows[0].fill else { panic!("2,000 boxes in 100 columns") };
    assert_eq!(shades.len(), 100);
    for shade in &shades[1..] {
        assert!((120..=136).contains(&shade.a), "{shade:?} is not half");
    }
    // The first entry is the time before the first switch, of which nothing is known.
    assert_eq!(answer.legend[1].time, Nanos(1_000_000));
}
