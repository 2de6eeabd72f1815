//! The view over windows of a simulated stream, on terminals that exist only here.

use super::super::window::WindowQuestions;
use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use schedlab_model::{
    Clock, Context, Cpu, CpuSet, Event, Groups, Left, Member, Prio, TraceInfo, What,
};
use schedlab_record::live::Taken;
use schedlab_timeline::{Causes, Cpus, Latency, Tasks, WaitCause, Windows, notation};

/// Each CPU has this many tasks, each in a group of its own, which take turns.
fn window(cpus: u16, tasks: u16) -> Window {
    let mut info = TraceInfo::new("x", Clock::Monotonic);
    info.cpus = CpuSet::first(cpus.into());
    let count = u32::from(cpus) * u32::from(tasks);
    let pid =
        |cpu: u16, turn: u16| Pid(1_000 + i32::from(cpu) * i32::from(tasks) + i32::from(turn));
    info.groups = Some(Groups {
        names: (0..count).map(|group| format!("/kubepods.slice/pod{group:04}/web")).collect(),
        members: (0..count)
            .map(|group| Member { pid: Pid(1_000 + group as i32), at: Nanos::ZERO, group })
            .collect(),
        titles: (0..count).map(|group| (group, format!("shop/cart-{group}"))).collect(),
        ..Groups::default()
    });
    let (prio, context, mut events) = (Prio::NORMAL, Context::Task, Vec::new());
    for cpu in 0..cpus {
        let mut put = |time: u64, by, what| {
            events.push(Event { time: Nanos(time), by, cpu: Cpu(cpu), context, what });
        };
        for turn in 0..tasks {
            let wakeup = What::Wakeup { pid: pid(cpu, turn), prio, cpu: Cpu(cpu), new: false };
            put(u64::from(turn), Pid::IDLE, wakeup);
        }
        let mut prev = Pid::IDLE;
        for turn in 0..200_u16 {
            let next = pid(cpu, turn % tasks);
            let left = Left::Preempted;
            let switch = What::Switch { prev, prev_prio: prio, left, next, next_prio: prio };
            put(1_000 + u64::from(turn) * 4_000_000, prev, switch);
            prev = next;
        }
    }
    events.sort_by_key(|event| event.time);
    close(&info, events, &|_| false)
}

/// The window of a second that these events are.
fn close(info: &TraceInfo, events: Vec<Event>, is_asleep: &dyn Fn(Pid) -> bool) -> Window {
    let second = Nanos::from_secs(1);
    let mut windows = Windows::new(info, Nanos::ZERO);
    let (throttling, reply) =
        windows.close(&events, &|_| None, second, |told| -> WindowQuestions {
            let causes = Causes::new(info, &told.spans, 200);
            (Latency::new(), Tasks::new(), causes, Cpus::new(), None)
        });
    let taken = Taken { events, ..Taken::default() };
    Window::of(reply, &throttling, info, &taken, By::Group, is_asleep)
}

/// What a terminal shows.
fn shown(view: &mut View, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}

fn key(view: &mut View, code: KeyCode) -> Option<Do> {
    view.key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn a_hundred_cpus_and_a_thousand_groups_fit_each_terminal() {
    for size in [(80, 24), (200, 50)] {
        let mut view = View::new(By::Group, true, Pid(1));
        assert!(shown(&mut view, size).contains("The first window has not ended yet."));
        view.take(window(100, 10));
        let text = shown(&mut view, size);
        for word in ["100 CPUs", "1000 tasks", "tenths of their time busy", "GROUP", "h help"] {
            assert!(text.contains(word), "{word} at {size:?}:\n{text}");
        }
        assert_eq!(text.matches('#').count(), 101, "a mark for each CPU and its meaning:\n{text}");
        let has_room = size.0 > 150;
        assert_eq!(
            text.contains("MOSTLY") && text.contains("competition: other groups  "),
            has_room
        );
        let rows = text.lines().filter(|line| line.starts_with("shop/cart-")).count();
        assert!(rows >= usize::from(size.1) - 16, "{rows} rows at {size:?}:\n{text}");
        // The last row can be reached.
        key(&mut view, KeyCode::Char('N'));
        key(&mut view, KeyCode::End);
        assert!(shown(&mut view, size).contains("shop/cart-999 "), "{size:?}");
        key(&mut view, KeyCode::Enter);
        let text = shown(&mut view, size);
        assert!(text.contains("shop/cart-999") && text.contains("Who ran on its CPU"), "{text}");
    }
}

#[test]
fn a_few_cpus_have_bars_and_every_line_fits() {
    for size in [(80, 24), (200, 50), (40, 12)] {
        let mut view = View::new(By::Command, false, Pid(1));
        view.take(window(4, 3));
        let text = shown(&mut view, size);
        assert!(text.contains("  0 [|||||||||100%]") || size.0 < 80, "{size:?}:\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= size.0.into()), "{text}");
        assert_eq!(key(&mut view, KeyCode::Char('q')), Some(Do::Quit));
    }
}

/// Tasks of one process that hand on to each other every millisecond, from `next` to `next`, on two CPUs.
fn handing_on(next: impl Fn(i32) -> i32) -> Window {
    let mut info = TraceInfo::new("x", Clock::Monotonic);
    info.cpus = CpuSet::first(2);
    info.processes = Some((1..8).map(|thread| (Pid(100 + thread), Pid(100))).collect());
    let (prio, context, mut events) = (Prio::NORMAL, Context::Task, Vec::new());
    let mut now = Pid(100);
    for turn in 0..1_000_u64 {
        let (cpu, other) = (Cpu((turn % 2) as u16), Cpu(((turn + 1) % 2) as u16));
        let then = Pid(100 + next(turn as i32));
        let mut put = |after: u64, cpu, by, what| {
            events.push(Event { time: Nanos(turn * 1_000_000 + after), by, cpu, context, what });
        };
        let switch =
            |prev, left, next| What::Switch { prev, prev_prio: prio, left, next, next_prio: prio };
        put(1_000, cpu, Pid::IDLE, switch(Pid::IDLE, Left::Preempted, now));
        put(996_000, cpu, now, What::Waking { pid: then, prio, last_cpu: other });
        put(997_000, cpu, now, What::Wakeup { pid: then, prio, cpu: other, new: false });
        put(998_000, cpu, now, switch(now, Left::Slept, Pid::IDLE));
        now = then;
    }
    close(&info, events, &|_| false)
}

#[test]
fn the_first_line_says_which_time_all_figures_cover_paused_or_not() {
    let mut view = View::new(By::Command, false, Pid(1));
    view.take(window(4, 3));
    let text = shown(&mut view, (80, 24));
    assert!(text.starts_with("schedlab watch  last 1.00 s: 4 CPUs "), "{text}");
    assert!(!text.contains("LOST"), "{text}");
    key(&mut view, KeyCode::Char(' '));
    let text = shown(&mut view, (80, 24));
    assert!(text.starts_with("PAUSED  last 1.00 s: 4 CPUs "), "{text}");
    let (first, _) = text.split_once('\n').unwrap();
    assert!(first.ends_with(" events"), "{first}");
    key(&mut view, KeyCode::Char('h'));
    assert!(shown(&mut view, (80, 24)).contains("cover the time that the\nfirst line names"));
}

#[test]
fn tasks_behind_a_lock_are_named_and_a_dispatcher_with_its_workers_is_not() {
    let convoy = handing_on(|turn| (turn + 1) % 8);
    let answer = convoy.answer.as_deref().unwrap_or_default();
    assert!(answer.starts_with("8 tasks of ") && answer.contains("as behind a lock"), "{answer}");
    let mut view = View::new(By::Command, false, Pid(1));
    view.take(convoy);
    assert!(shown(&mut view, (80, 24)).contains("one at a time"));
    // The first task hands out, and gets back.
    let star = handing_on(|turn| if turn % 2 == 0 { 1 + turn / 2 % 7 } else { 0 });
    assert_eq!(star.answer, None);
    let pair = handing_on(|turn| (turn + 1) % 2);
    assert_eq!(pair.answer, None);
}

/// `A` and `B` take turns on CPU 0; `C` is woken on CPU 1, which idles.
fn beside_an_idle_cpu(is_asleep: bool) -> Window {
    let text = "tick 10ms\n0 | AABBAABBAABB\n  | bbaabbaabbaa\n1 | ............\n  |  ccccccccccc";
    let trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}"));
    close(&trace.info, trace.events, &|pid| is_asleep && pid == Pid(3))
}

#[test]
fn a_wait_that_the_kernel_denies_is_in_no_figure_of_the_view() {
    let shown = |is_asleep, keys: &[KeyCode]| {
        let mut view = View::new(By::Task, false, Pid(99));
        view.take(beside_an_idle_cpu(is_asleep));
        for code in keys {
            key(&mut view, *code);
        }
        shown(&mut view, (80, 24))
    };
    let top = |text: &str| {
        let rows = text.lines().skip_while(|line| !line.starts_with("TASK"));
        rows.take(2).last().unwrap_or_default().to_owned()
    };
    let believed = shown(false, &[]);
    assert!(believed.contains("waited 1.99 s") && !believed.contains("left out"), "{believed}");
    assert!(top(&believed).starts_with("C (3) "), "{believed}");
    let denied = shown(true, &[]);
    assert!(denied.contains("waited 1.00 s   worst ≥ 900 ms A (1)\n"), "{denied}");
    assert!(denied.contains("\nleft out: C (3) seems to wait, but sleeps by /proc\n"), "{denied}");
    assert!(top(&denied).starts_with("A (1) "), "{denied}");
    let one = shown(true, &[KeyCode::Char('N'), KeyCode::End, KeyCode::Enter]);
    assert!(one.contains("C (3): left out: it sleeps by /proc"), "{one}");
}

#[test]
fn lines_leave_a_denied_wait_out_and_json_names_it_beside_the_figures_of_the_events() {
    let window = beside_an_idle_cpu(true);
    let line = window.line(Nanos::ZERO);
    assert!(line.contains("waited 1.00 s: ") && line.contains("; left out: C (3) seems"), "{line}");
    let document = serde_json::to_value(window.document(0, false)).unwrap();
    assert_eq!(document["left_out"][0]["pid"], 3);
    assert_eq!(document["worst"]["pid"], 3);
    assert_eq!(document["waited_ns"], 1_990_000_000_u64);
}

#[test]
fn other_waits_of_a_task_stay_when_the_kernel_denies_one() {
    // `A` has `C` wait for 40 ms; later `C` is woken on a CPU that idles.
    let text = "tick 10ms\n0 | AAAACCAAAAAA\n  | cccc\n1 | BBBBB.......\n  |        ccccc";
    let trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let close = |asleep| close(&trace.info, trace.events.clone(), &|pid| asleep && pid == Pid(3));
    let (ms, row) = (Nanos::from_millis, |window: &Window| {
        let rows = window.rows_by(By::Task);
        rows.into_iter().find(|row| row.pid == Some(Pid(3))).expect("C")
    });
    let (believed, denied) = (close(false), close(true));
    let (all, rest) = (row(&believed), row(&denied));
    assert_eq!((all.parts.sum(), all.longest, all.is_open), (ms(970), ms(930), true));
    assert_eq!((rest.parts.sum(), rest.longest, rest.is_open), (ms(40), ms(40), false));
    assert_eq!(rest.parts.ranked(), [(WaitCause::Fair, ms(40))]);
    assert_eq!((rest.delays.longest(), rest.delays.unfinished), (Some(ms(40)), 0));
    let worst = denied.worst().expect("a wait");
    assert_eq!((worst.until - worst.since, worst.is_open), (ms(40), false));
    let said = denied.answer.as_deref().expect("it waited");
    assert!(said.starts_with("C (3) waited 40.0 ms for a CPU"), "{said}");
    let document = serde_json::to_value(denied.document(0, false)).unwrap();
    assert_eq!(document["left_out"][0]["waited_ns"], 930_000_000);
    // The figures of the events have both.
    assert_eq!(document["rows"][0]["waited_ns"], 970_000_000);
}

#[test]
fn who_is_parked_with_its_cpu_does_not_wait_for_it() {
    // `C` is woken on CPU 1 once that is out of use: the kernel's `cpuhp/1`, whose switches perf events do not tell.
    let text = "tick 10ms\n0 | AAAAAAAAAA\n1 | BB........\n  |    ccccccc";
    let mut trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let what = What::Online { cpu: Cpu(1), online: false };
    let off = Event { time: Nanos::from_millis(25), cpu: Cpu(0), what, ..trace.events[0] };
    for event in &mut trace.events {
        if matches!(event.what, What::Waking { .. } | What::Wakeup { .. }) {
            (event.cpu, event.by) = (Cpu(0), Pid(1));
        }
    }
    trace.events.push(off);
    trace.events.sort_by_key(|event| event.time);
    let said = |is_parked| {
        let window = close(&trace.info, trace.events.clone(), &|pid| is_parked && pid == Pid(3));
        window.answer.unwrap_or_default()
    };
    assert!(said(false).starts_with("C (3) still waits"), "{}", said(false));
    assert_eq!(said(true), "");
}

#[test]
fn a_cpu_that_is_out_of_use_is_shown_as_off() {
    let text = "tick 10ms\n0 | AAAAAAAAAA\n1 | ..........";
    let mut trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let what = What::Online { cpu: Cpu(1), online: false };
    trace.events.insert(1, Event { what, ..trace.events[0] });
    trace.events.retain(|event| event.cpu == Cpu(0));
    let mut view = View::new(By::Task, false, Pid(99));
    view.take(close(&trace.info, trace.events, &|_| false));
    let text = shown(&mut view, (80, 24));
    assert!(text.contains("  1 [          off]"), "{text}");
}
