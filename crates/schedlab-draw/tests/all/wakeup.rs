//! The picture of one placement: what it says of CPUs of which nothing is known, and of those that idled.

use crate::golden;
use schedlab_draw::wakeup::Wakeup;
use schedlab_draw::{Scene, Theme, svg};
use schedlab_model::{Cpu, CpuSet, EventSource, Nanos, Span};
use schedlab_timeline::{Slices, TaskId, ask, notation, span_of};

/// B waits on CPU 0 from 10 to 14 µs, though CPU 1 idles, on which it ran before.
fn picture(trace: &str, waker: Cpu) -> String {
    svg(&scene(trace, waker, &Theme::light()))
}

fn scene(trace: &str, waker: Cpu, theme: &Theme) -> Scene {
    let trace = notation::parse(trace).expect("sound notation");
    let start = span_of(&mut trace.source()).expect("in memory").start;
    let at = |us: u64| start + Nanos(us * 1_000);
    let reply = ask(&mut trace.source(), Slices::new(100)).expect("in memory");
    let wakeup = Wakeup {
        title: "a placement".into(),
        sentence: "B waited".into(),
        origin: start,
        task: TaskId(2),
        others: 0,
        wait: Span::new(at(10), at(14)),
        needless: Span::new(at(11), at(14)),
        cpu: Cpu(0),
        waker: Some((TaskId(1), waker)),
        previous: Some(Cpu(1)),
        idle: [Cpu(1)].into_iter().collect::<CpuSet>(),
    };
    assert_eq!(trace.source().info().cpus.iter().count(), 3, "CPU 2 is there, too");
    wakeup.scene(&reply.answer, &reply.state, 900, theme)
}

#[test]
fn a_placement_is_drawn_as_before() {
    const TRACE: &str = "
        0 | AAAAAAAAAAAAAABBBBBB
          |           bbbb
        1 | BBBB.........???....
        2 | CCCCCCCCCCCCCCCCCCCC";
    golden::check("wakeup", &scene(TRACE, Cpu(2), &Theme::light()));
    golden::check("wakeup-dark", &scene(TRACE, Cpu(2), &Theme::dark()));
}

/// `#d1d5db`, of what is not known.
fn grey(svg: &str) -> String {
    let colour = Theme::light().unknown;
    let hex = format!("#{:02x}{:02x}{:02x}", colour.r, colour.g, colour.b);
    assert!(!svg.is_empty());
    hex
}

#[test]
fn grey_is_explained_where_it_is_seen() {
    let svg = picture(
        "
        0 | AAAAAAAAAAAAAABBBBBB
          |           bbbb
        1 | BBBB.........???....
        2 | ....................",
        Cpu(0),
    );
    assert!(svg.contains(&grey(&svg)) && svg.contains(">not known<"), "{svg}");
    assert!(svg.contains(">ran here before; idle, and allowed<"), "{svg}");
}

#[test]
fn a_cpu_is_called_idle_only_where_nothing_ran() {
    let busy = picture(
        "
        0 | AAAAAAAAAAAAAABBBBBB
          |           bbbb
        1 | BBBB.....CCCCCCC....
        2 | ....................",
        Cpu(0),
    );
    assert!(busy.contains(">ran here before<") && !busy.contains("idle, and allowed"), "{busy}");
    let partly = |row: &str| {
        let trace = format!(
            "
        0 | AAAAAAAAAAAAAABBBBBB
          |           bbbb
        1 | {row}
        2 | ...................."
        );
        let svg = picture(&trace, Cpu(0));
        let at = svg.find(">ran here before; idle, and allowed<").expect("it was idle for a while");
        let x = svg[..at].rfind(" x=\"").expect("a text has a place") + 4;
        svg[x..].split('"').next().expect("a value").to_owned()
    };
    // The words stand where the CPU is idle, not where the wait begins.
    assert_ne!(partly("BBBB.....CCCC......."), partly("BBBB.........CC....."));
}

#[test]
fn grey_of_a_cpu_that_is_not_shown_is_not_in_the_legend() {
    let svg = picture(
        "
        0 | AAAAAAAAAAAAAABBBBBB
          |           bbbb
        1 | BBBB................
        2 | ....??????????......",
        Cpu(0),
    );
    assert!(!svg.contains(">not known<") && !svg.contains(">CPU 2<"), "{svg}");
    assert!(svg.contains(">CPU 0<") && svg.contains(">CPU 1<"), "{svg}");
}

#[test]
fn the_arrow_of_the_wakeup_is_explained_where_there_is_one() {
    let trace = "
        0 | AAAAAAAAAAAAAABBBBBB
          |           bbbb
        1 | BBBB................
        2 | ....................";
    assert!(!picture(trace, Cpu(0)).contains(">wakeup: from"), "from a CPU to itself");
    assert!(picture(trace, Cpu(1)).contains(">wakeup: from the waker to the placement<"));
}
