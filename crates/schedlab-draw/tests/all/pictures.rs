//! Golden pictures of small inputs, as text.
//!
//! `SCHEDLAB_GOLDEN=write` writes what is drawn now, as SVG to compare and as PNG to look at (into
//! the directory of temporary files); the diff that changes a picture then contains the picture.

use crate::golden::{check, reads_well};
use schedlab_draw::choice::{Choice, choice};
use schedlab_draw::cores::{Cores, Fill, Label, Mark, Marks, Piece, Row, Size, cores, stacked};
use schedlab_draw::flame::{Flame, FlameStacks};
use schedlab_draw::power::{LaneKind, lane};
use schedlab_draw::waiting::{Curve, Level, Running, Tints, waiting};
use schedlab_draw::{Colour, PALETTE, Theme};
use schedlab_model::{Cpu, Nanos, Place, Span};
use schedlab_timeline::{FoldedStack, PowerAnswer, PowerSpan, StackChange, Step, Within};

fn span(start: u64, end: u64) -> Span {
    Span::new(Nanos(start), Nanos(end))
}

fn pieces(list: &[(u64, u64, u32)]) -> Fill {
    let piece = |&(start, end, name): &(u64, u64, u32)| Piece {
        span: span(start * 1_000, end * 1_000),
        colour: Theme::light().tasks[name as usize],
        name: Some(name),
    };
    Fill::Pieces(list.iter().map(piece).collect())
}

fn small() -> Cores {
    let place = |cpu: u16| Place {
        cpu: Cpu(cpu),
        core: u32::from(cpu / 2),
        llc: u32::from(cpu / 4),
        node: u32::from(cpu / 4),
        socket: u32::from(cpu / 4),
    };
    let row = |cpu: u16, list: &[(u64, u64, u32)]| Row {
        cpu: Cpu(cpu),
        place: Some(place(cpu)),
        fill: pieces(list),
    };
    Cores {
        title: "cores of small.dat".into(),
        notes: vec!["8 CPUs, 400 µs; white is idle".into()],
        window: span(0, 400_000),
        origin: Nanos::ZERO,
        rows: vec![
            row(0, &[(0, 120, 0), (130, 250, 1), (260, 400, 0)]),
            row(1, &[(10, 110, 1), (140, 390, 2)]),
            row(2, &[(0, 400, 3)]),
            row(3, &[(200, 201, 4), (202, 203, 5), (203, 204, 4)]),
            row(4, &[]),
            row(5, &[(50, 350, 5)]),
            row(6, &[(100, 130, 6), (300, 400, 6)]),
            row(7, &[(0, 400, 7)]),
        ],
        names: ["ua", "kworker/1:2", "<b>&\"", "שלום", "a\u{7}b", "sh", "make", "cc1plus"]
            .map(String::from)
            .to_vec(),
        legend: (0..8).map(|task| (Theme::light().tasks[task], format!("task {task}"))).collect(),
        marks: vec![
            Marks {
                name: "wakeups".into(),
                colour: Colour::BLACK,
                marks: vec![Mark::Tick { time: Nanos(140_000), cpu: Cpu(1) }],
            },
            Marks {
                name: "migrations".into(),
                colour: Colour::hex(0xc0_00_50),
                marks: vec![
                    Mark::Link { time: Nanos(130_000), from: Cpu(1), to: Cpu(0) },
                    Mark::Link { time: Nanos(300_000), from: Cpu(0), to: Cpu(6) },
                ],
            },
            Marks {
                name: "overloaded".into(),
                colour: Colour::hex(0xc0_00_50),
                marks: vec![Mark::Bar { span: span(130_000, 200_000), cpu: Cpu(2) }],
            },
        ],
        labels: vec![Label { time: Nanos(150_000), cpu: Cpu(4), text: "idle".into() }],
        lanes: vec![],
    }
}

#[test]
fn a_few_cpus_are_rows_of_named_boxes() {
    check("cores-small", &cores(&small(), Size::default(), &Theme::light()));
    check("cores-dark", &cores(&small(), Size { width_px: 700, row_px: None }, &Theme::dark()));
}

#[test]
fn lanes_stand_below_what_ran() {
    let at = |us: u64| Nanos(us * 1_000);
    let step = |us, cpu, hz| Step { at: at(us), cpu: Cpu(cpu), hz };
    let span =
        |cpu, from, to, what| PowerSpan { cpu: Cpu(cpu), span: Span::new(at(from), at(to)), what };
    let found = PowerAnswer {
        steps: vec![
            step(0, 0, 1_200_000_000),
            step(0, 5, 2_600_000_000),
            step(130, 0, 3_400_000_000),
            step(260, 0, 800_000_000),
        ],
        spans: vec![
            span(3, 0, 190, Within::Idle(3)),
            span(4, 0, 60, Within::Idle(1)),
            span(2, 150, 153, Within::Timer),
            span(6, 298, 300, Within::Ipi),
            span(6, 140, 298, Within::Idle(2)),
        ],
        ..PowerAnswer::default()
    };
    for (name, theme, width_px) in
        [("cores-lanes", Theme::light(), 1200), ("cores-lanes-dark", Theme::dark(), 700)]
    {
        let kinds = [LaneKind::Frequency, LaneKind::Idle, LaneKind::Interrupts];
        let lanes = kinds.map(|kind| lane(kind, &found, small().window, &theme)).to_vec();
        let pieces: Vec<usize> = lanes.iter().map(|lane| lane.pieces.len()).collect();
        assert_eq!(pieces, [4, 3, 2], "a frequency lasts to the end of the window");
        let picture = Cores { lanes, marks: vec![], labels: vec![], ..small() };
        check(name, &cores(&picture, Size { width_px, row_px: None }, &theme));
    }
}

#[test]
fn dense_rows_are_shades() {
    let row = |cpu: u16| {
        let shade = |column: u32| {
            let busy = u8::try_from((column * 7 + u32::from(cpu) * 31) % 256).expect("a byte");
            PALETTE[usize::from(cpu) % 5].fade(busy & 0xe0)
        };
        Row { cpu: Cpu(cpu * 3), place: None, fill: Fill::Shades((0..200).map(shade).collect()) }
    };
    let dense = Cores {
        title: "dense".into(),
        notes: vec![],
        window: span(0, 3_600_000_000_000),
        origin: Nanos::ZERO,
        rows: (0..40).map(row).collect(),
        names: vec![],
        legend: vec![],
        marks: vec![],
        labels: vec![],
        lanes: vec![],
    };
    check("cores-dense", &cores(&dense, Size { width_px: 500, row_px: None }, &Theme::light()));
}

#[test]
fn traces_stand_under_each_other_on_one_axis() {
    let mut short = small();
    short.window.end = Nanos(200_000);
    short.rows.truncate(2);
    let size = Size { width_px: 700, row_px: Some(16) };
    check("cores-stacked", &stacked(&[small(), short], size, &Theme::light()));
}

#[test]
fn functions_stand_on_their_callers() {
    let stack = |frames: &str, us: u64| FoldedStack {
        frames: frames.split(';').map(str::to_owned).collect(),
        time: Nanos(us * 1_000),
    };
    let flame = |stacks: FlameStacks| Flame {
        title: "Off-CPU time".into(),
        notes: vec!["1.00 s of 4 CPUs: 900 ms off CPU, then 100 ms of run delay".into()],
        stacks,
    };
    let stacks = FlameStacks::Times(vec![
        stack("server;main;serve;accept;do_syscall_64;inet_csk_accept", 400_000),
        stack("server;main;serve;accept;do_syscall_64;inet_csk_accept;[run delay]", 60_000),
        stack("server;main;serve;std::vector<int>::reserve;page_fault", 90_000),
        stack("server;[cut];worker;pthread_cond_wait;futex_wait", 200_000),
        stack("server;[cut];worker;pthread_cond_wait;futex_wait;[run delay]", 40_000),
        stack("logger;[no stack]", 210_000),
    ]);
    let drawn = flame(stacks);
    check("flame", &drawn.scene(900, &Theme::light()));
    check("flame-dark", &drawn.scene(600, &Theme::dark()));
    let stacks = FlameStacks::Times(vec![
        stack("server;main;lock;woken by server;main;unlock;futex_wake", 300_000),
        stack("server;main;lock;woken by worker;[cut];work;unlock;futex_wake", 200_000),
        stack("server;main;lock;[run delay]", 100_000),
        stack("server;main;read;woken by an interrupt", 400_000),
    ]);
    check("flame-wakers", &flame(stacks).scene(900, &Theme::light()));
    let ran = FlameStacks::Running(vec![
        stack("server;main;serve;parse", 600_000),
        stack("server;main;serve;[cut];inflate", 250_000),
        stack("logger;[no tick]", 150_000),
    ]);
    let ran = Flame {
        title: "On-CPU time".into(),
        notes: vec!["1.00 s of 4 CPUs: 1.00 s on CPU, divided by 250 ticks".into()],
        stacks: ran,
    };
    check("flame-running", &ran.scene(900, &Theme::light()));
    let change = |frames: &str, before: u64, after: u64| StackChange {
        frames: frames.split(';').map(str::to_owned).collect(),
        before: Nanos(before * 1_000),
        after: Nanos(after * 1_000),
    };
    let changes = flame(FlameStacks::Changes(vec![
        change("server;main;serve;accept", 400_000, 420_000),
        change("server;main;serve;accept;[run delay]", 60_000, 30_000),
        change("server;main;lock;futex_wait", 90_000, 240_000),
        change("server;main;read", 90_000, 140_000),
        change("server;main;log", 90_000, 60_000),
        change("server;main;retry", 0, 80_000),
        change("server;main;gone", 50_000, 0),
    ]));
    for (name, theme) in [("", Theme::light()), ("-dark", Theme::dark()), ("-grey", Theme::grey())]
    {
        check(&format!("flame-change{name}"), &changes.scene(900, &theme));
    }
}

#[test]
fn nothing_is_a_picture_too() {
    let empty =
        Cores { rows: vec![], legend: vec![], marks: vec![], window: span(5, 5), ..small() };
    check("cores-empty", &cores(&empty, Size::default(), &Theme::light()));
    let empty = Running {
        title: "waiting".into(),
        notes: vec![],
        window: span(0, 0),
        origin: Nanos::ZERO,
        curves: vec![Curve { name: String::new(), cpus: 0, levels: vec![] }],
    };
    let theme = Theme::light();
    check("waiting-empty", &waiting(&empty, 600, Tints::of(&theme), &theme));
}

#[test]
fn a_choice_of_two_schedulers_is_a_picture() {
    let of = Choice {
        title: "First choice that only 6.12 makes: CPU 0 at 12.3 ms".into(),
        asked:
            "task 0 went to sleep; tasks 1, 2 and 7 had waited on this CPU for 3 ms, 2 ms and 1 ms"
                .into(),
        current: "0".into(),
        waiting: ["1", "2", "7"].map(String::from).to_vec(),
        sides: vec![
            ("vm:kernel=debian-6.1".into(), vec![("1".into(), 3), ("2".into(), 1)]),
            ("vm:kernel=debian-6.12".into(), vec![("7".into(), 1)]),
        ],
    };
    check("choice", &choice(&of, &Theme::light()));
    check("choice-dark", &choice(&of, &Theme::dark()));
}

fn curve(name: &str, cpus: u32) -> Curve {
    let level = |column: u64| {
        let running = u64::from(cpus).min(column / 10);
        let waiting = (column / 10).saturating_sub(u64::from(cpus)) + column % 30 / 20;
        Level {
            running: Nanos(running * 10_000),
            waiting: Nanos(waiting * 10_000),
            waiting_max: u32::try_from(waiting).expect("few"),
            most: u32::try_from(running + waiting + column % 7 / 5).expect("few"),
        }
    };
    Curve { name: name.into(), cpus, levels: (0..100).map(level).collect() }
}

#[test]
fn waiting_is_piled_on_running() {
    let theme = Theme::light();
    let running = Running {
        title: "running and waiting".into(),
        notes: vec!["8 CPUs".into()],
        window: span(0, 1_000_000),
        origin: Nanos::ZERO,
        curves: vec![curve("", 8), curve("socket 0", 4), curve("socket 1", 4)],
    };
    check("waiting", &waiting(&running, 900, Tints::of(&theme), &theme));
    let dark = Theme::dark();
    reads_well("waiting in the dark", &waiting(&running, 900, Tints::of(&dark), &dark));
    let one = Running { curves: vec![curve("", 8)], ..running };
    check("waiting-green", &waiting(&one, 600, Tints::green_and_red(), &theme));
}
