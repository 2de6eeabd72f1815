//! The picture `tasks`: what each task did, and who woke it.

use schedlab_draw::tasks::{By, Doing, Row, Tasks, Wanted, rows};
use schedlab_draw::{Belongs, Item, Theme, svg};
use schedlab_model::{Clock, Cpu, Groups, Member, Nanos, Pid, Span, TraceInfo};
use schedlab_timeline::{Slices, ask, notation, span_of};

use crate::golden;

/// `B` waits 3 µs for `A`, which woke it, and moves.
const TRACE: &str = "
    0 | AAAABBBB..AAAA..
      |  bbb
    1 | ..CC....BBBB..CC
    at 1: A wakes B";

fn picture(by: By, target: Option<&str>, count: usize) -> Tasks {
    picture_of(by, target, count, &TraceInfo::new("test", Clock::Monotonic))
}

/// The same, with what `info` tells of processes and groups.
fn picture_of(by: By, target: Option<&str>, count: usize, info: &TraceInfo) -> Tasks {
    let trace = notation::parse(TRACE).expect("sound notation");
    let belongs = Belongs::of(info);
    let wanted = Wanted { by, belongs, target: target.map(str::to_owned), rows: count };
    let reply = ask(&mut trace.source(), Slices::new(1_000).with_sleeps()).expect("in memory");
    let span = span_of(&mut trace.source()).expect("in memory");
    let made = rows(&reply.answer, &wanted, &reply.state);
    assert_eq!(made.window.duration(), span.duration());
    Tasks { title: "tasks of a test".into(), window: span, origin: span.start, ..made }
}

/// Microseconds since the begin, what, and the CPU.
fn told(picture: &Tasks, row: &Row) -> Vec<(u64, u64, Doing, Option<u16>)> {
    let at = |time: Nanos| (time - picture.window.start).0 / 1_000;
    let piece = |&(span, doing, cpu): &(Span, Doing, Option<Cpu>)| {
        (at(span.start), at(span.end), doing, cpu.map(|cpu| cpu.0))
    };
    row.pieces.iter().map(piece).collect()
}

#[test]
fn a_row_tells_what_a_task_did_and_who_woke_it() {
    let picture = picture(By::Task, None, 10);
    let row =
        |name: &str| picture.rows.iter().position(|row| row.name.starts_with(name)).expect("there");
    let b = told(&picture, &picture.rows[row("B")]);
    let expected = [
        (1, 4, Doing::Waiting, None),
        (4, 8, Doing::Running, Some(0)),
        (8, 12, Doing::Running, Some(1)),
    ];
    let active: Vec<_> = b.iter().filter(|piece| piece.2 <= Doing::Waiting).copied().collect();
    assert_eq!(active, expected, "{b:?}");
    let wakes: Vec<_> = picture.wakes.iter().filter(|wake| wake.1 == Some(row("A"))).collect();
    assert_eq!(wakes.len(), 1, "{:?}", picture.wakes);
    assert_eq!((wakes[0].0 - picture.window.start, wakes[0].2), (Nanos(1_000), row("B")));
    // The longest first: A ran 8 µs; B ran as long and waited 3 µs more.
    assert_eq!((row("B"), row("A"), row("C")), (0, 1, 2));
}

#[test]
fn rows_are_those_of_the_target_and_no_more_than_asked_for() {
    assert_eq!(picture(By::Task, Some("C"), 10).rows.len(), 1);
    let few = picture(By::Task, None, 2);
    assert_eq!((few.rows.len(), few.more_rows), (2, 1));
    assert_eq!(picture(By::Command, None, 10).rows.len(), 3, "each has a name of its own");
    let svg = svg(&few.scene(700, &Theme::light()));
    assert!(svg.contains(">and 1 more rows<") && svg.contains(">waits for a CPU<"), "{svg}");
}

#[test]
fn many_intervals_are_a_picture_bounded_by_its_pixels() {
    let row = |count: u64| {
        let piece = |index: u64| {
            let doing = if index.is_multiple_of(2) { Doing::Running } else { Doing::Waiting };
            (Span::new(Nanos(index * 100), Nanos(index * 100 + 100)), doing, None)
        };
        let pieces = (0..count).map(piece).collect();
        let picture = Tasks {
            rows: vec![Row { name: "busy".into(), pieces }],
            window: Span::new(Nanos::ZERO, Nanos(count * 100)),
            origin: Nanos::ZERO,
            wakes: Vec::new(),
            ..picture(By::Task, None, 10)
        };
        svg(&picture.scene(500, &Theme::light())).len()
    };
    let (few, many) = (row(5_000), row(200_000));
    assert!(many < few * 3 / 2, "{few} and {many} bytes");
}

#[test]
fn many_wakeups_are_arrows_over_the_whole_window() {
    const ROWS: usize = 20;
    let row = |index: usize| Row { name: format!("task {index}"), pieces: Vec::new() };
    let wake = |index: usize| {
        (Nanos(index as u64 * 100), Some(index % ROWS), (index * 7 + index / ROWS) % ROWS)
    };
    let picture = Tasks {
        rows: (0..ROWS).map(row).collect(),
        window: Span::new(Nanos::ZERO, Nanos(1_000_000)),
        origin: Nanos::ZERO,
        wakes: (0..10_000).map(wake).collect(),
        interrupts: Vec::new(),
        ..picture(By::Task, None, 10)
    };
    let scene = picture.scene(1_000, &Theme::light());
    let arrows: Vec<i32> = scene
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Group { label, items, .. } if label == "wakeups" => items.first(),
            _ => None,
        })
        .flat_map(|item| match item {
            Item::Lines { lines, .. } => lines.iter().map(|(from, _)| from.x).collect(),
            _ => Vec::new(),
        })
        .collect();
    assert!((50..=300).contains(&arrows.len()), "{} arrows", arrows.len());
    for quarter in 0..4 {
        let from = 100_000 * quarter / 4 + if quarter == 0 { 0 } else { 2_000 };
        let here = arrows.iter().filter(|x| (from..100_000 * (quarter + 1) / 4).contains(*x));
        let share = here.count() * 100 / arrows.len();
        assert!((10..40).contains(&share), "quarter {quarter} has {share} %");
    }
}

#[test]
fn tasks_are_drawn_as_before() {
    golden::check("tasks", &picture(By::Task, None, 10).scene(700, &Theme::light()));
    golden::check("tasks-dark", &picture(By::Command, None, 10).scene(380, &Theme::dark()));
}

#[test]
fn threads_of_a_process_and_tasks_of_a_group_share_a_row() {
    let mut info = TraceInfo::new("test", Clock::Monotonic);
    info.processes = Some([(Pid(2), Pid(1)), (Pid(3), Pid(9))].into_iter().collect());
    let member = |pid, group| Member { pid: Pid(pid), at: Nanos::ZERO, group };
    let members = vec![member(1, 0), member(3, 0)];
    info.groups = Some(Groups { names: vec!["/a.slice".into()], members, ..Groups::default() });
    let names = |by| -> Vec<String> {
        picture_of(by, None, 10, &info).rows.into_iter().map(|row| row.name).collect()
    };
    // A has B as a thread; the first thread of C's process never ran.
    assert_eq!(names(By::Process), ["A:1", "process 9"]);
    // B waits beside running, so the row without a group has more time than that of A and C.
    assert_eq!(names(By::Group), ["unknown control group", "/a.slice"]);
    let rows = picture_of(By::Process, None, 10, &info);
    // A runs to 4, B to 12, and A again to 14: the row runs while one of them does.
    assert_eq!(told(&rows, &rows.rows[0])[0], (0, 14, Doing::Running, None));
}
