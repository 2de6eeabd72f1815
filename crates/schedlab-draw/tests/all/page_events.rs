//! What the page lists and shows beside slices, in a real browser: events page by page, rows by process and by control
//! group, frequencies, idle states and timers.

use schedlab_draw::Belongs;
use schedlab_draw::page::{Columns, PageData, page};
use schedlab_model::{Clock, Cpu, EventSource, Groups, Member, Nanos, Pid, Span, TraceInfo};
use schedlab_timeline::{PowerAnswer, PowerSpan, State, Step, Within, ask, notation, span_of};
use serde_json::{Value, json};

use crate::browser::Browser;

/// Two CPUs; `B` waits 3 µs for `A`, and moves.
const TRACE: &str = "
    0 | AAAABBBB..AAAA..
      |  bbb
    1 | ..CC....BBBB..CC
    at 1: A wakes B";

/// The page of a trace in notation, with what `more` adds.
fn html(text: &str, more: impl Fn(PageData, &State) -> PageData) -> String {
    let trace = notation::parse(text).expect("sound notation");
    let span = span_of(&mut trace.source()).expect("in memory");
    let question = Columns::new(span).with_marks(trace.source().info());
    let reply = ask(&mut trace.source(), question).expect("in memory");
    let data = more(reply.answer.clone(), &reply.state);
    page("x.dat", &data, None, &[], 0)
}

/// The lines of the list of events.
fn lines(browser: &mut Browser) -> Vec<String> {
    browser.evaluate("schedlabPage.events.show(schedlabPage.view)");
    let said = browser
        .evaluate("[...document.querySelectorAll('#events li')].map((line) => line.textContent)");
    let line = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    said.as_array().expect("a list").iter().map(line).collect()
}

fn filter(browser: &mut Browser, text: &str) {
    browser.evaluate(&format!(
        "(() => {{ const f = document.getElementById('events-filter'); f.value = '{text}'; \
         f.dispatchEvent(new Event('input')); }})()"
    ));
}

fn select(browser: &mut Browser, id: &str, value: &str) {
    browser.evaluate(&format!(
        "(() => {{ const s = document.getElementById('{id}'); s.value = '{value}'; \
         s.dispatchEvent(new Event('change')); }})()"
    ));
}

#[test]
fn events_are_listed_in_order_of_time_and_filtered() {
    let Some((mut browser, file)) = Browser::show("list", &html(TRACE, |data, _| data)) else {
        return;
    };
    let all = lines(&mut browser);
    let expected = [
        "0.000000 ms  CPU 0  switch  idle → A:1",
        "0.001000 ms  CPU 0  wakeup  B:2 by A:1",
        "0.002000 ms  CPU 1  switch  idle → C:3",
        "0.004000 ms  CPU 0  switch  A:1 (slept) → B:2",
    ];
    for line in expected {
        assert!(all.iter().any(|one| one == line), "{line} in {all:#?}");
    }
    let times: Vec<&str> = all.iter().filter_map(|line| line.split(' ').next()).collect();
    assert!(times.is_sorted(), "{all:#?}");
    filter(&mut browser, "wakeup B:2");
    assert_eq!(lines(&mut browser), ["0.001000 ms  CPU 0  wakeup  B:2 by A:1"]);
    filter(&mut browser, "switch -a:1 cpu 0 ");
    let left = lines(&mut browser);
    assert!(
        !left.is_empty() && left.iter().all(|line| line.contains("CPU 0  switch")),
        "{left:#?}"
    );
    assert!(!left.iter().any(|line| line.contains("A:1")), "{left:#?}");
    filter(&mut browser, "nothing of this");
    assert_eq!(lines(&mut browser), ["no event fits"]);
    // Only what is seen, and a click goes there.
    filter(&mut browser, "");
    browser.evaluate("[schedlabPage.view.from, schedlabPage.view.to] = [3500, 6000]");
    let seen = lines(&mut browser);
    assert_eq!(
        seen,
        [
            "0.004000 ms  CPU 0  switch  A:1 (slept) → B:2",
            "0.004000 ms  CPU 1  switch  C:3 (slept) → idle"
        ]
    );
    browser.evaluate("document.querySelector('#events button').click()");
    let chosen = browser.text("chosen");
    assert!(chosen.starts_with("A:1 on CPU 0"), "{chosen}");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn the_list_of_events_turns_its_pages_without_gap_or_overlap() {
    let row = "AB".repeat(100);
    let Some((mut browser, file)) =
        Browser::show("pages", &html(&format!("0 | {row}"), |data, _| data))
    else {
        return;
    };
    let mut pages = vec![lines(&mut browser)];
    let turn = |browser: &mut Browser, id: &str| {
        browser.evaluate(&format!("document.getElementById('{id}').click()"));
        lines(browser)
    };
    for _ in 0..20 {
        let next = turn(&mut browser, "events-on");
        if pages.last() == Some(&next) {
            break;
        }
        pages.push(next);
    }
    assert!(pages.len() > 3, "{} pages", pages.len());
    let all: Vec<&String> = pages.iter().flatten().collect();
    let mut different = all.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), all.len(), "no event is listed twice");
    let switches = all.iter().filter(|line| line.contains("switch")).count();
    assert_eq!(switches, 201, "each switch of 200 slices, and the last one's end");
    let before = turn(&mut browser, "events-back");
    assert!(before.last() < pages.last().and_then(|page| page.first()), "{before:#?}");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn threads_of_a_process_and_tasks_of_a_group_share_a_row() {
    let mut info = TraceInfo::new("test", Clock::Monotonic);
    info.processes = Some([(Pid(2), Pid(1))].into_iter().collect());
    let member = |pid, group| Member { pid: Pid(pid), at: Nanos::ZERO, group };
    let members = vec![member(1, 0), member(3, 1)];
    let names = vec!["/a.slice".into(), "/b<i>.slice".into()];
    info.groups = Some(Groups { names, members, ..Groups::default() });
    let html_of = html(TRACE, |data, state| data.with_owners(&Belongs::of(&info), state));
    let Some((mut browser, file)) = Browser::show("owners", &html_of) else { return };
    let lanes = "schedlabPage.painter.lanes.lanes.map((lane) => lane.name)";
    select(&mut browser, "kind", "process");
    select(&mut browser, "order", "number");
    assert_eq!(browser.evaluate(lanes), json!(["A:1", "C:3"]));
    select(&mut browser, "kind", "group");
    assert_eq!(
        browser.evaluate(lanes),
        json!(["/a.slice", "/b<i>.slice", "control group not known"])
    );
    // A process has one colour, and another one another.
    select(&mut browser, "by", "process");
    let colours = browser.evaluate("[...schedlabPage.trace.colours]");
    assert_eq!(colours[1], colours[2], "{colours}");
    assert_ne!(colours[1], colours[3], "{colours}");
    std::fs::remove_file(&file).expect("ours");
    // What the trace does not tell cannot be chosen.
    let Some((mut browser, file)) = Browser::show("nothing", &html(TRACE, |data, _| data)) else {
        return;
    };
    let closed = "[...document.querySelectorAll('option:disabled')].map((option) => option.value)";
    let closed = browser.evaluate(closed);
    assert_eq!(closed, json!(["process", "group", "request", "process", "group", "frequency"]));
    std::fs::remove_file(&file).expect("ours");
}

/// CPU 0 has 1 GHz, from 8 µs on 2 GHz; it idles in state 2, and a timer expires.
fn power(start: Nanos) -> PowerAnswer {
    let at = |us: u64| start + Nanos(us * 1_000);
    let step = |us, hz| Step { at: at(us), cpu: Cpu(0), hz };
    let span = |from, to, what| PowerSpan { cpu: Cpu(0), span: Span::new(at(from), at(to)), what };
    PowerAnswer {
        steps: vec![step(0, 1_000_000_000), step(8, 2_000_000_000)],
        spans: vec![span(8, 10, Within::Idle(2)), span(12, 13, Within::Timer)],
        ..PowerAnswer::default()
    }
}

#[test]
fn frequencies_idle_states_and_timers_are_seen_listed_and_told() {
    let start = notation::parse(TRACE).expect("sound notation");
    let start = span_of(&mut start.source()).expect("in memory").start;
    let html_of = html(TRACE, |data, _| data.with_power(power(start)));
    let Some((mut browser, file)) = Browser::show("power", &html_of) else { return };
    let events = lines(&mut browser).join("\n");
    for line in [
        "0.000000 ms  CPU 0  frequency  1.00 GHz",
        "0.008000 ms  CPU 0  frequency  2.00 GHz",
        "0.008000 ms  CPU 0  idle state 2",
        "0.012000 ms  CPU 0  timer",
    ] {
        assert!(events.contains(line), "{line} in {events}");
    }
    let legend = browser.text("legend");
    for words in ["timer (hrtimer)", "idle state", "frequency 2.00 GHz", "1.00 GHz"] {
        assert!(legend.contains(words), "{words} in {legend}");
    }
    assert!(!legend.contains("IPI"), "none was seen: {legend}");
    select(&mut browser, "by", "frequency");
    // Low in the row, under the names, and above the strips: the lowest frequency, the highest, and one that is not known.
    let seen = browser.evaluate(
        "(() => { const p = schedlabPage, c = p.canvas, ratio = c.width / c.clientWidth; p.now(); \
         const { rows, rowHeight } = p.painter.layout(p.view); \
         return [[1.4, 0], [11.4, 0], [2.6, 1]].map(([us, lane]) => { \
         const x = rows.left + (us * 1000 - p.view.from) / (p.view.to - p.view.from) * rows.width; \
         const y = rows.top + (lane - p.view.top) * rowHeight + 4; \
         const [r, g, b] = c.getContext('2d').getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data; \
         return (r << 16) | (g << 8) | b; }); })()",
    );
    let tones = browser.evaluate(
        "(() => { const { speeds, unknown } = schedlabPage.painter.tone; return [speeds[0], speeds[speeds.length - 1], unknown]; })()",
    );
    assert_eq!(seen, tones);
    let told = browser.evaluate(
        "(() => { const p = schedlabPage, b = p.canvas.getBoundingClientRect(), { rows, rowHeight } = p.painter.layout(p.view); \
         const x = b.left + rows.left + 9000 / (p.view.to - p.view.from) * rows.width, y = b.top + rows.top + rowHeight / 2; \
         p.canvas.dispatchEvent(new PointerEvent('pointermove', { pointerId: 1, clientX: x, clientY: y })); \
         return document.getElementById('tip').textContent; })()",
    );
    assert_eq!(told, "frequency 2.00 GHz\nidle state 2, 2.00 µs");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn dense_interrupts_leave_the_rows_as_they_are() {
    let start = notation::parse(TRACE).expect("sound notation");
    let start = span_of(&mut start.source()).expect("in memory").start;
    let dense = |what: fn(u64) -> Within| PowerAnswer {
        spans: (0..8_000)
            .map(|at| {
                let from = start + Nanos(at * 2);
                let span = Span::new(from, from + Nanos(1));
                PowerSpan { cpu: Cpu(0), span, what: what(at) }
            })
            .collect(),
        ..PowerAnswer::default()
    };
    let row = "(() => { const p = schedlabPage, c = p.canvas, ratio = c.width / c.clientWidth; p.now(); \
         const { rows, rowHeight } = p.painter.layout(p.view); \
         const x = Math.round((rows.left + 2600 / p.trace.span * rows.width) * ratio); \
         return [...c.getContext('2d').getImageData(x, Math.round((rows.top + 3) * ratio), 1, Math.round((rowHeight - 6) * ratio)).data].join(); })()";
    let mut seen = Vec::new();
    let none: fn(u64) -> PowerAnswer = |_| PowerAnswer::default();
    let timers = dense(|at| if at % 2 == 0 { Within::Timer } else { Within::Ipi });
    for (name, power) in [("quiet", none(0)), ("timers", timers)] {
        let page = html(TRACE, |data, _| data.with_power(power.clone()));
        let Some((mut browser, file)) = Browser::show(name, &page) else { return };
        seen.push(browser.evaluate(row));
        std::fs::remove_file(&file).expect("ours");
    }
    assert_eq!(seen[0], seen[1], "no band lies over the row");
}
