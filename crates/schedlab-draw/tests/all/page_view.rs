//! What the page shows of a view, in a real browser: episodes, rows of tasks, dense events, sums, links,
//! narrow windows, and traces that are too large for their slices.

use schedlab_draw::page::{Columns, EpisodePicture, Note, PageData, page};
use schedlab_model::{
    Counted, Cpu, CpuSet, Event, EventSource, Nanos, OtherFormat, Pid, Span, TraceInfo, Warning,
    What,
};
use schedlab_timeline::{TaskId, ask, notation, span_of};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io;

use crate::browser::Browser;

/// Two CPUs; `B` waits 3 µs for `A`, though CPU 1 idles meanwhile, and moves.
const TRACE: &str = "
    0 | AAAABBBB..AAAA..
      |  bbb
    1 | ..CC....BBBB..CC
    at 1: A wakes B";

/// A note about the wait of `B`.
fn note(start: Nanos, from_ns: u64, to_ns: u64) -> Note {
    Note {
        span: Span::new(start + Nanos(from_ns), start + Nanos(to_ns)),
        cpu: 0,
        text: "B waited".into(),
        story: Some(EpisodePicture {
            since: start + Nanos(1_000),
            task: TaskId(2),
            cost: Nanos(to_ns - from_ns),
            waker: Some((TaskId(1), Cpu(1))),
            free: [Cpu(1)].into_iter().collect::<CpuSet>(),
        }),
    }
}

/// The page of a trace in notation, with an episode.
fn html(text: &str, episode: (u64, u64)) -> String {
    let trace = notation::parse(text).expect("sound notation");
    let span = span_of(&mut trace.source()).expect("in memory");
    let reply = ask(&mut trace.source(), Columns::new(span)).expect("in memory");
    page("x.dat", &reply.answer, None, &[note(span.start, episode.0, episode.1)], 1)
}

fn click(browser: &mut Browser, selector: &str) {
    // Sums come a moment after the view has settled.
    for _ in 0..100 {
        if browser.evaluate(&format!("document.querySelector('{selector}') !== null")) == true {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let script = format!(
        "(() => {{ const r = document.querySelector('{selector}').getBoundingClientRect(); \
         return [r.left + r.width / 2, r.top + r.height / 2]; }})()"
    );
    let place = browser.evaluate(&script);
    let at = [0, 1].map(|index| place[index].as_f64().expect("a number"));
    browser.mouse("mousePressed", at.into(), false);
    browser.mouse("mouseReleased", at.into(), false);
}

/// Chooses an option of a select element as a person does.
fn select(browser: &mut Browser, id: &str, value: &str) {
    browser.evaluate(&format!(
        "(() => {{ const s = document.getElementById('{id}'); s.focus(); s.value = '{value}'; \
         s.dispatchEvent(new Event('change')); }})()"
    ));
}

fn width(browser: &mut Browser) -> f64 {
    let width = browser.evaluate("schedlabPage.view.to - schedlabPage.view.from");
    width.as_f64().expect("a number")
}

/// What stands in the browser's address once it has settled.
fn link(browser: &mut Browser) -> String {
    std::thread::sleep(std::time::Duration::from_millis(500));
    browser.evaluate("location.href").as_str().expect("an address").to_owned()
}

#[test]
fn keys_work_after_a_click_on_anything() {
    let Some((mut browser, file)) = Browser::show("clicked", &html(TRACE, (2_000, 4_000))) else {
        return;
    };
    for selector in ["#fit", "#episodes button", "#waits button", "#sums button", "#help", "#rows"]
    {
        click(&mut browser, selector);
        browser.key("f");
        let before = width(&mut browser);
        browser.key("+");
        assert!(width(&mut browser) < before, "after a click on {selector}");
    }
    for (id, value) in [("by", "command"), ("order", "busy"), ("kind", "task"), ("kind", "cpu")] {
        select(&mut browser, id, value);
        browser.key("f");
        let before = width(&mut browser);
        browser.key("+");
        assert!(width(&mut browser) < before, "after a choice of {id}");
    }
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn escape_closes_the_help_before_it_drops_the_choice_and_a_search_without_a_hit_says_so() {
    let Some((mut browser, file)) = Browser::show("faults", &html(TRACE, (2_000, 4_000))) else {
        return;
    };
    browser.key("]");
    let chosen = "schedlabPage.view.slice";
    let slice = browser.evaluate(chosen);
    let is_hidden = "document.getElementById('keys').hidden";
    browser.key("?");
    assert_eq!(browser.evaluate(is_hidden), false);
    browser.key("Escape");
    assert_eq!((browser.evaluate(is_hidden), browser.evaluate(chosen)), (json!(true), slice));
    browser.key("Escape");
    assert_eq!(browser.evaluate(chosen), -1);
    browser.evaluate(
        "(() => { const s = document.getElementById('search'); s.value = 'zz'; \
         s.dispatchEvent(new Event('input')); })()",
    );
    let found = browser.evaluate("document.getElementById('found').textContent");
    assert_eq!(found, "No task has 'zz' in its name or as its pid.");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn two_cpus_fill_the_window_and_labels_are_cut_at_their_end() {
    let Some((mut browser, file)) = Browser::show("few", &html(TRACE, (2_000, 4_000))) else {
        return;
    };
    let filled = browser.evaluate(
        "(() => { const { rows, curve, height } = schedlabPage.painter.layout(schedlabPage.view); \
         return (rows.height + curve.height) / height; })()",
    );
    assert!(filled.as_f64().is_some_and(|part| part > 0.75), "{filled}");
    let label = browser
        .evaluate("schedlabPage.painter.shortened('docker/0123456789abcdef0123456789abcdef', 100)");
    let label = label.as_str().expect("a text");
    assert!(label.starts_with("docker/0") && label.ends_with('…'), "{label}");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn the_answer_comes_first_and_the_window_is_at_the_worst_moment() {
    let trace = notation::parse(TRACE).expect("sound notation");
    let span = span_of(&mut trace.source()).expect("in memory");
    let reply = ask(&mut trace.source(), Columns::new(span)).expect("in memory");
    let answer = "B (2) waited 3 µs, since A (1)\nran <on> its CPU.\n\n  misplaced   3 µs  100 %\n";
    let worst = Span::new(span.start + Nanos(1_000), span.start + Nanos(4_000));
    let data = reply.answer.with_answer(answer.to_owned(), Some((TaskId(2), worst)));
    let html = page("x.dat", &data, None, &[], 0);
    let Some((mut browser, file)) = Browser::show("answer", &html) else { return };
    let told = browser.evaluate(
        "[...document.querySelectorAll('#answer p, #answer li')].map((part) => part.textContent)",
    );
    assert_eq!(
        told,
        json!(["B (2) waited 3 µs, since A (1) ran <on> its CPU.", "misplaced 3 µs 100 %"])
    );
    let window = browser.evaluate("[schedlabPage.view.from, schedlabPage.view.to]");
    let [from, to] = [0, 1].map(|index| window[index].as_f64().expect("a number"));
    assert!(from <= 1_000.0 && to >= 4_000.0 && to - from < 16_000.0, "{from} to {to}");
    browser.key("f");
    assert_eq!(width(&mut browser), 16_000.0, "the way back to the whole");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn episodes_are_listed_by_what_they_cost() {
    let trace = notation::parse(TRACE).expect("sound notation");
    let span = span_of(&mut trace.source()).expect("in memory");
    let reply = ask(&mut trace.source(), Columns::new(span)).expect("in memory");
    let notes = [note(span.start, 1_000, 1_280), note(span.start, 2_000, 4_000)];
    let html = page("x.dat", &reply.answer, None, &notes, 2);
    let Some((mut browser, file)) = Browser::show("costliest", &html) else { return };
    let first = browser.evaluate("document.querySelector('#episodes button').textContent");
    assert_eq!(first, "0.002 ms  B waited");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn the_address_restores_scroll_height_rows_and_colours() {
    let rows: String = (0..200).fold(String::new(), |mut text, cpu| {
        let letter = if cpu < 26 { char::from(b'A' + cpu) } else { '.' };
        writeln!(text, "{cpu} | ..{letter}.{letter}...").expect("a String takes all");
        text
    });
    let Some((mut browser, file)) = Browser::show("restored", &html(&rows, (2_000, 4_000))) else {
        return;
    };
    select(&mut browser, "order", "number");
    select(&mut browser, "by", "command");
    browser.evaluate(
        "(() => { const t = document.getElementById('target'); t.value = 'C'; t.dispatchEvent(new Event('input')); \
         schedlabPage.view.rowHeight = 17; schedlabPage.scroll(40); schedlabPage.paint(); })()",
    );
    browser.key("v");
    let seen = "(() => { const { top, rowHeight, rows, order, by, target, episode } = schedlabPage.view; \
         return [top.toFixed(1), rowHeight, rows, order, by, target, episode, schedlabPage.painter.lanes.kind]; })()";
    let before = browser.evaluate(seen);
    let address = link(&mut browser);
    browser.open(&address, "ready");
    assert_eq!(browser.evaluate(seen), before, "{address}");
    assert_eq!(before[5], "C");
    std::fs::remove_file(&file).expect("ours");
}

/// Colours of the canvas at times (µs) and lanes, `dy` pixels below the lane's upper edge.
fn pixels(browser: &mut Browser, places: &[(f64, f64, f64)]) -> Vec<[i64; 3]> {
    let list: Vec<String> =
        places.iter().map(|(us, lane, dy)| format!("[{us},{lane},{dy}]")).collect();
    let script = format!(
        "(() => {{ const p = schedlabPage, c = p.canvas, ratio = c.width / c.clientWidth; p.now(); \
         const {{ rows, rowHeight }} = p.painter.layout(p.view); \
         return [{}].map(([us, lane, dy]) => {{ \
         const x = rows.left + (us * 1000 - p.view.from) / (p.view.to - p.view.from) * rows.width; \
         const y = rows.top + (lane - p.view.top) * rowHeight + dy; \
         return [...c.getContext('2d').getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data].slice(0, 3); \
         }}); }})()",
        list.join(",")
    );
    let said = browser.evaluate(&script);
    let colour = |value: &Value| [0, 1, 2].map(|index| value[index].as_i64().expect("a byte"));
    said.as_array().expect("a list").iter().map(colour).collect()
}

#[test]
fn an_episode_is_drawn_in_its_place() {
    let Some((mut browser, file)) = Browser::show("story", &html(TRACE, (2_000, 4_000))) else {
        return;
    };
    let before = pixels(&mut browser, &[(3.0, 0.0, 1.0)]);
    browser.key("v");
    assert_eq!(browser.evaluate("schedlabPage.view.episode"), 0);
    let said = browser.text("chosen");
    assert!(said.contains("Episode of 2.00 µs on CPU 0, 2.00 µs of CPU time lost"), "{said}");
    browser.evaluate("(() => { const v = schedlabPage.view; [v.from, v.to] = [0, 16000]; })()");
    // The bracket is the alarm's colour at the upper edge of the row, from the episode's begin to its end.
    let alarm = [192, 0, 80];
    let near = |a: [i64; 3], b: [i64; 3]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 60);
    let after = pixels(&mut browser, &[(3.0, 0.0, 1.0), (6.0, 0.0, 1.0)]);
    assert!(near(after[0], alarm) && !near(before[0], alarm), "{before:?} {after:?}");
    assert!(!near(after[1], alarm), "behind the episode: {after:?}");
    // CPU 1 idles from 4 µs on only: before, `C` runs there. Below the words that lie on its row.
    browser.evaluate("schedlabPage.view.episode = -1");
    let places: Vec<(f64, f64, f64)> =
        (0..12).map(|step| (2.2, 1.0, 22.0 + f64::from(step))).collect();
    let busy = pixels(&mut browser, &places);
    browser.evaluate("schedlabPage.view.episode = 0");
    assert_eq!(pixels(&mut browser, &places), busy, "what is busy is not hatched");
    // A click on the lane above the rows goes there, too.
    browser.key("f");
    browser.evaluate("schedlabPage.view.episode = -1");
    let place = browser.evaluate(
        "(() => { const p = schedlabPage, b = p.canvas.getBoundingClientRect(), l = p.painter.layout(p.view).lane; \
         return [b.left + l.left + 3000 / p.trace.span * l.width, b.top + l.top + l.height / 2]; })()",
    );
    let at = [0, 1].map(|index| place[index].as_f64().expect("a number"));
    browser.mouse("mousePressed", at.into(), false);
    browser.mouse("mouseReleased", at.into(), false);
    assert_eq!(browser.evaluate("schedlabPage.view.episode"), 0);
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn a_free_cpu_is_hatched_while_it_is_free() {
    let trace = "
        0 | AAAABBBB..AAAA..
          |  bbb
        1 | CC......BBBB..CC
        at 1: A wakes B";
    let Some((mut browser, file)) = Browser::show("hatched", &html(trace, (2_000, 4_000))) else {
        return;
    };
    let places: Vec<(f64, f64, f64)> =
        (0..12).map(|step| (3.0, 1.0, 22.0 + f64::from(step))).collect();
    let idle = pixels(&mut browser, &places);
    browser.evaluate("schedlabPage.view.episode = 0");
    assert_ne!(pixels(&mut browser, &places), idle);
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn a_short_episode_is_seen_among_a_thousand_rows() {
    let rows = (0..1024).fold(String::new(), |mut text, cpu| {
        let who = if cpu == 0 { "AA" } else { ".." };
        writeln!(text, "{cpu} | {who}............{who}").expect("a String takes all");
        text
    });
    // As much of it as 16 ms are of ten seconds.
    let Some((mut browser, file)) = Browser::show("thousand", &html(&rows, (8_000, 8_026))) else {
        return;
    };
    let seen = browser.evaluate(
        "(() => { const p = schedlabPage, c = p.canvas, ratio = c.width / c.clientWidth; p.now(); \
         const { lane } = p.painter.layout(p.view), line = c.getContext('2d').getImageData( \
         Math.round(lane.left * ratio), Math.round((lane.top + lane.height / 2) * ratio), Math.round(lane.width * ratio), 1).data; \
         let alarm = 0; for (let i = 0; i < line.length; i += 4) if (line[i] === 192 && line[i + 1] === 0) alarm++; \
         return alarm / ratio; })()",
    );
    assert!(seen.as_f64() >= Some(2.0), "{seen} pixels of the lane");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn rows_of_tasks_tell_states_and_sums() {
    let Some((mut browser, file)) = Browser::show("tasks", &html(TRACE, (2_000, 4_000))) else {
        return;
    };
    select(&mut browser, "kind", "task");
    let told = browser.evaluate(
        "(() => { const { lanes } = schedlabPage.painter; schedlabPage.now(); return lanes.lanes.map(({ name, pieces }) => [name, \
         Array.from(pieces.start).map((start, i) => [start, pieces.end[i], \
         pieces.doing[i]]).filter((piece) => piece[2] < 2)]); })()",
    );
    let b = told.as_array().expect("a list").iter().find(|lane| lane[0] == "B:2");
    let expected = json!([[1_000, 4_000, 1], [4_000, 8_000, 0], [8_000, 12_000, 0]]);
    assert_eq!(b.map(|lane| &lane[1]), Some(&expected), "{told:#}");
    // The colours of the states: B's row at 2 µs waits, at 5 µs runs.
    let lane = told
        .as_array()
        .and_then(|all| all.iter().position(|lane| lane[0] == "B:2"))
        .expect("there");
    let lane = u32::try_from(lane).expect("few").into();
    let seen = pixels(&mut browser, &[(2.2, lane, 4.0), (5.2, lane, 4.0)]);
    assert_eq!(seen, [[213, 94, 0], [0, 114, 178]]);
    // One row for a command with several tasks, and what is selected summed up.
    select(&mut browser, "kind", "cpu");
    browser
        .evaluate("(() => { const p = schedlabPage; p.view.measure = [2000, 6000]; p.sums(); })()");
    let (title, sums) = (browser.text("sums-title"), browser.text("sums"));
    assert_eq!(title, "In the selection of 4.00 µs");
    for sum in ["A:1  2.00 µs", "B:2  2.00 µs, waited 2.00 µs", "C:3  2.00 µs"] {
        assert!(sums.contains(sum), "{sum} in {sums}");
    }
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn sums_of_the_whole_trace_tell_by_how_much_the_kernel_counted_otherwise() {
    let mut trace = notation::parse("tick 10ms\n0 | AAAABBBB\n  |  bbb").expect("sound notation");
    let span = span_of(&mut trace.source()).expect("in memory");
    // Of B; A runs as long as the kernel says.
    let of = |pid, ms| {
        let (from, to) = (Some(span.start), span.end);
        let (ran, waited) = (Nanos::from_millis(ms), Nanos::from_millis(30));
        Counted { pid: Pid(pid), from, to, ran, waited, arrivals: 1 }
    };
    trace.info.counters = Some(vec![of(2, 70)]);
    let reply = ask(&mut trace.source(), Columns::new(span)).expect("in memory");
    let data = reply.answer.with_deviations(&reply.checked);
    let html = page("x.dat", &data, None, &[], 0);
    let Some((mut browser, file)) = Browser::show("off", &html) else { return };
    browser.evaluate("schedlabPage.sums()");
    let whole = browser.text("sums");
    assert!(whole.contains("A:1  40.0 ms"), "{whole}");
    assert!(whole.contains("B:2  40.0 ms ± 30.0 ms, waited 30.0 ms"), "{whole}");
    browser.evaluate("(() => { const p = schedlabPage; p.view.measure = [0, 6e7]; p.sums(); })()");
    let part = browser.text("sums");
    assert!(part.contains("B:2") && !part.contains('±'), "{part}");
    std::fs::remove_file(&file).expect("ours");
}

/// One CPU that runs a task, and fires another tracepoint so often.
struct Dense {
    info: TraceInfo,
    events: Vec<Event>,
}

impl Dense {
    fn new(count: u64, names: &[&str]) -> Self {
        let trace = notation::parse("0 | .AAAAAAAAAAAAAA.").expect("sound notation");
        let (mut source, mut batch, mut events) = (trace.source(), Vec::new(), Vec::new());
        while source.next(&mut batch).expect("in memory") {
            events.append(&mut batch);
        }
        events.retain(|event| !matches!(event.what, What::Other { .. }));
        let mut info = source.info().clone();
        let format = |name: &&str| OtherFormat { system: "irq".into(), name: (*name).into() };
        info.others = names.iter().map(format).collect();
        let (first, last) = (events[0], events[events.len() - 1]);
        let length = (last.time - first.time).0;
        let formats = u64::try_from(names.len()).expect("few");
        events.extend((1..count).map(|index| Event {
            time: first.time + Nanos(length * index / count),
            what: What::Other { format: u16::try_from(index % formats).expect("few") },
            ..first
        }));
        events.sort_by_key(|event| event.time);
        Self { info, events }
    }

    fn page(count: u64, names: &[&str]) -> String {
        let mut source = Self::new(count, names);
        let span = Span::new(source.events[0].time, source.events[source.events.len() - 1].time);
        let question = Columns::new(span).with_marks(&source.info);
        let reply = ask(&mut source, question).expect("in memory");
        page("dense.dat", &reply.answer, None, &[], 0)
    }
}

impl EventSource for Dense {
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

#[test]
fn dense_events_do_not_blacken_the_rows() {
    let html = Dense::page(25_000, &["sched_stat_runtime"]);
    let Some((mut browser, file)) = Browser::show("dense", &html) else { return };
    let dark = browser.evaluate(
        "(() => { const p = schedlabPage, c = p.canvas, ratio = c.width / c.clientWidth; p.now(); \
         const { rows, rowHeight } = p.painter.layout(p.view), all = c.getContext('2d').getImageData( \
         Math.round(rows.left * ratio), Math.round(rows.top * ratio), Math.round(rows.width * ratio), \
         Math.round(rowHeight * ratio)).data; \
         const lines = []; for (let y = 0; y < rowHeight * ratio - 1; y++) { let n = 0; for (let x = 0; \
         x < Math.round(rows.width * ratio); x++) { \
         const at = 4 * (y * Math.round(rows.width * ratio) + x); if (all[at] + all[at + 1] + all[at + 2] < 240) n++; \
         } lines.push(n / rows.width / ratio); } return lines; })()",
    );
    let lines: Vec<f64> =
        dark.as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
    assert!(lines.iter().take(6).any(|share| *share > 0.9), "the band is seen: {lines:?}");
    let black = lines.iter().filter(|share| **share > 0.2).count();
    assert!(black * 4 <= lines.len(), "{black} of {} lines are black: {lines:?}", lines.len());
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn interrupts_are_intervals() {
    let html = Dense::page(9, &["irq_handler_exit", "irq_handler_entry"]);
    let Some((mut browser, file)) = Browser::show("interrupts", &html) else { return };
    let told = browser.evaluate(
        "(() => { const { interrupts, points } = schedlabPage.trace.rows[0]; \
         return [Array.from(interrupts.start), Array.from(interrupts.end), Array.from(points.time), \
         Array.from(points.paired)]; })()",
    );
    // Entries are the odd ones of eight; each goes with the exit behind it, and the last exit with none.
    let time = |index: usize| told[2][index].clone();
    assert_eq!(told[0], json!([time(0), time(2), time(4), time(6)]), "{told}");
    assert_eq!(told[1], json!([time(1), time(3), time(5), time(7)]), "{told}");
    assert_eq!(told[3], json!([1, 1, 1, 1, 1, 1, 1, 1]), "no pennants beside the bars");
    let legend = browser.text("legend");
    assert!(legend.contains("interrupt"), "{legend}");
    std::fs::remove_file(&file).expect("ours");
}

/// A window as wide as a phone, or as a desk's screen.
fn resize(browser: &mut Browser, (width, height): (u32, u32), mobile: bool) {
    let metrics =
        json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile });
    browser.call("Emulation.setDeviceMetricsOverride", &metrics);
}

#[test]
fn nothing_overflows_on_a_phone() {
    let Some((mut browser, file)) = Browser::show("phone", &html(TRACE, (2_000, 4_000))) else {
        return;
    };
    for size in [(390, 844), (320, 568), (844, 390), (1600, 900)] {
        resize(&mut browser, size, size.0 < 900);
        std::thread::sleep(std::time::Duration::from_millis(200));
        let over = browser.evaluate(
            "(() => { const over = []; const wide = document.documentElement.clientWidth, high = innerHeight; \
             for (const e of document.querySelectorAll('header, header *, main, canvas, aside, aside *')) { \
             const r = e.getBoundingClientRect(); \
             if (r.width > 0 && (r.right > wide + 0.5 || r.left < -0.5)) over.push([e.tagName, e.id, r.left, r.right]); } \
             const rows = document.getElementById('rows').getBoundingClientRect(); \
             return { over, scroll: document.documentElement.scrollWidth - wide, rows: [rows.width, rows.height], high }; })()",
        );
        assert_eq!(over["over"], json!([]), "{size:?}");
        assert_eq!(over["scroll"], 0, "{size:?}");
        assert!(over["rows"][1].as_f64() > Some(100.0), "rows have room at {size:?}: {over}");
    }
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn no_label_of_the_axis_lies_on_another_or_leaves_the_picture() {
    let Some((mut browser, file)) = Browser::show("labels", &html(TRACE, (2_000, 4_000))) else {
        return;
    };
    for size in [(390, 844), (1200, 700)] {
        resize(&mut browser, size, false);
        std::thread::sleep(std::time::Duration::from_millis(200));
        let bad = browser.evaluate(
            "(() => { const p = schedlabPage, c = p.painter.context, bad = [], longest = []; const fill = c.fillText.bind(c); \
             p.trace.head.shift = 86400123456789; p.trace.span = 4e9; \
             for (const [from, to] of [[0, 16000], [1234, 1244], [3e9, 3e9 + 700], [1e9, 3e9], [2.5e9, 2.5e9 + 2e5], [0, 4e9]]) { \
             [p.view.from, p.view.to] = [from, to]; const boxes = []; \
             c.fillText = (text, x, y) => { const w = c.measureText(text).width; \
             const left = c.textAlign === 'right' ? x - w : c.textAlign === 'center' ? x - w / 2 : x; boxes.push({ text, \
             left, right: left + w, y }); fill(text, x, y); }; \
             p.painter.axis(p.view, p.painter.layout(p.view), p.painter.tone); c.fillText = fill; \
             boxes.forEach((a, i) => { if (a.left < 0 || a.right > p.canvas.clientWidth) bad.push([a.text, 'outside']); \
             longest.push(a.text.length); \
             boxes.slice(0, i).forEach((b) => { \
             if (Math.abs(a.y - b.y) < 10 && a.left < b.right + 2 && b.left < a.right + 2) bad.push([a.text, b.text]); }); }); \
             if (boxes.length < 3) bad.push(['too few labels', from, to]); } return [bad, Math.max(...longest)]; })()",
        );
        assert_eq!(bad[0], json!([]), "{size:?}");
        assert!(bad[1].as_u64() <= Some(16), "digits that can be read: {bad}");
    }
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn a_trace_too_large_for_its_slices_is_shown_in_columns() {
    let trace = notation::parse(TRACE).expect("sound notation");
    let span = span_of(&mut trace.source()).expect("in memory");
    let question = Columns::new(span).at_most(4).or_columns();
    let data = ask(&mut trace.source(), question).expect("in memory").answer;
    assert!(!data.is_whole());
    assert_eq!((PageData::columns_of(1_024), PageData::columns_of(2)), (8_192, 65_536));
    let html = page("large.dat", &data, None, &[], 0);
    let Some((mut browser, file)) = Browser::show("columns", &html) else { return };
    let seen = browser.evaluate(
        "(() => { const p = schedlabPage; p.now(); const { sums, rows } = p.trace; \
         return [rows[0].share.length, rows[0].count, sums.waiting[sums.waiting.length - 1], \
         sums.running[sums.running.length - 1], \
         Math.round(p.trace.ran[1])]; })()",
    );
    assert_eq!(seen, json!([16_000, 0, 3_000, 20_000, 8_000]), "columns, slices, waited, ran, A");
    // Zoomed in to what the first picture cannot show.
    browser.evaluate("(() => { const v = schedlabPage.view; [v.from, v.to] = [3900, 4100]; })()");
    let told = browser.evaluate(
        "(() => { const p = schedlabPage; return [3950, 4050].map((time) => p.column(p.trace.rows[0], time)); })()",
    );
    assert!(
        told[0].as_str().is_some_and(|text| text.contains("busy 100 %") && text.ends_with("A:1")),
        "{told}"
    );
    assert!(told[1].as_str().is_some_and(|text| text.ends_with("B:2")), "{told}");
    let said = browser.text("chosen");
    assert!(said.contains("--from"), "how to see slices: {said}");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn numbers_of_tasks_change_in_steps_and_are_seen_on_each_ground() {
    let trace = "0 | AAAABBBB....AAAA\n |  bbb";
    let Some((mut browser, file)) = Browser::show("steps", &html(trace, (2_000, 4_000))) else {
        return;
    };
    for scheme in ["light", "dark"] {
        let feature = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.call("Emulation.setEmulatedMedia", &feature);
        std::thread::sleep(std::time::Duration::from_millis(300));
        // Each column of the curve: how far up it is painted, and how its colours differ from the ground.
        let seen = browser.evaluate(
            "(() => { const p = schedlabPage, c = p.canvas, ratio = c.width / c.clientWidth; p.now(); \
             const { curve } = p.painter.layout(p.view), height = Math.round(curve.height * ratio), width = Math.round(curve.width * ratio); \
             const { data } = c.getContext('2d').getImageData(Math.round(curve.left * ratio), Math.round(curve.top * ratio), width, height); \
             const at = (x, y) => [...data.slice(4 * (y * width + x), 4 * (y * width + x) + 3)]; \
             const hex = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)); \
             const theme = p.painter.dark ? p.trace.head.themes.dark : p.trace.head.themes.light; \
             const linear = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; \
             const light = (rgb) => 0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2]) + 0.05; \
             const contrast = (a, b) => Math.max(light(a), light(b)) / Math.min(light(a), light(b)); \
             const heights = new Set(); let least = 21; \
             for (let x = 3; x < width; x += 7) { let filled = 0; \
             for (let y = 0; y < height; y++) if (data[4 * (y * width + x) + 3] === 255 && contrast(at(x, y), hex(theme.ground)) > 2) filled++; \
             heights.add(Math.round(filled / 12)); } \
             for (const time of [1.5, 3.5, 6.5]) { \
             const x = Math.round(time * 1000 / p.trace.span * width); \
             for (const part of time < 4 ? [0.95, 0.55] : [0.95]) { \
             least = Math.min(least, contrast(at(x, Math.round(part * height)), hex(theme.ground))); } } \
             return [heights.size, least, p.painter.dark]; })()",
        );
        assert_eq!(seen[2], scheme == "dark");
        assert!(seen[0].as_u64() <= Some(5), "none, one, two, and an edge of each: {seen}");
        assert!(seen[1].as_f64() >= Some(3.0), "contrast to the ground: {seen}");
    }
    // So they do in the SVG: each line of the curve goes along one axis.
    let slopes = browser.evaluate(
        "[...new DOMParser().parseFromString(schedlabPage.svg(), 'image/svg+xml').querySelectorAll('path')] \
         .map((path) => path.getAttribute('d')).filter((d) => /^M[^h]*L/.test(d)).map((d) => { \
         const points = d.slice(1).replace('z', '').split('L').map((point) => point.split(' ').map(Number)); \
         return points.slice(1).filter(([x, y], i) => x !== points[i][0] && y !== points[i][1]).length; })",
    );
    assert_eq!(slopes, json!([0, 0]), "running, and waiting on top");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn labels_beside_the_rows_are_whole_and_none_lies_on_another() {
    let rows: String = (0..16).fold(String::new(), |mut text, cpu| {
        let letter = char::from(b'A' + cpu);
        writeln!(text, "{cpu} | {letter}{letter}..{letter}...").expect("a String takes all");
        text
    });
    let one = "0 | AAAABBBB....AAAA\n |  bbb\nB is called docker/01234567";
    for (name, text) in [("sixteen", rows.as_str()), ("alone", one)] {
        let Some((mut browser, file)) = Browser::show(name, &html(text, (2_000, 4_000))) else {
            return;
        };
        for (size, kind) in [((390, 844), "cpu"), ((1200, 700), "cpu"), ((390, 844), "task")] {
            resize(&mut browser, size, false);
            select(&mut browser, "kind", kind);
            std::thread::sleep(std::time::Duration::from_millis(200));
            let bad = browser.evaluate(
                "(() => { const p = schedlabPage, c = p.painter.context, boxes = [], bad = []; const fill = c.fillText.bind(c); \
                 c.fillText = (text, x, y) => { const w = c.measureText(text).width; \
                 if (c.textAlign === 'right') boxes.push({ text, left: x - w, y }); fill(text, x, y); }; \
                 p.now(); c.fillText = fill; \
                 boxes.forEach((a, i) => { if (a.left < 0) bad.push([a.text, a.left]); \
                 boxes.slice(0, i).forEach((b) => { if (Math.abs(a.y - b.y) < 9) bad.push([a.text, b.text]); }); }); \
                 return [bad, boxes.length]; })()",
            );
            assert_eq!(bad[0], json!([]), "{name} {size:?} {kind}");
            assert!(bad[1].as_u64() >= Some(2), "there are labels: {bad}");
        }
        std::fs::remove_file(&file).expect("ours");
    }
}

#[test]
fn a_reader_of_screens_hears_the_rows_and_what_is_chosen_by_keys_alone() {
    let Some((mut browser, file)) = Browser::show("heard", &html(TRACE, (2_000, 4_000))) else {
        return;
    };
    // The list of sums is filled a moment after the first picture.
    browser.evaluate("schedlabPage.sums()");
    // The Tab key reaches each control and each list, and none keeps it.
    let mut reached = Vec::new();
    for _ in 0..40 {
        browser.call(
            "Input.dispatchKeyEvent",
            &json!({ "type": "keyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9 }),
        );
        browser.call(
            "Input.dispatchKeyEvent",
            &json!({ "type": "keyUp", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9 }),
        );
        let on = browser.evaluate(
            "document.activeElement.id || document.activeElement.closest('[id]')?.id || ''",
        );
        reached.push(on.as_str().unwrap_or_default().to_owned());
    }
    for id in [
        "kind",
        "order",
        "by",
        "target",
        "search",
        "fit",
        "link",
        "svg",
        "help",
        "rows",
        "sums",
        "events-filter",
        "episodes",
        "waits",
    ] {
        assert!(reached.iter().any(|one| one == id), "{id}: {reached:?}");
    }
    browser.evaluate("document.getElementById('rows').focus()");
    select(&mut browser, "kind", "task");
    browser.key("]");
    browser.key("ArrowDown");
    let tree = browser.call("Accessibility.getFullAXTree", &json!({}));
    let names: Vec<String> = tree["nodes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|node| node["name"]["value"].as_str())
        .map(ToOwned::to_owned)
        .collect();
    let rows = names.iter().find(|name| name.contains("rows of tasks over time"));
    let rows = rows.unwrap_or_else(|| panic!("{names:?}"));
    assert!(rows.starts_with("3 rows of tasks"), "{rows}");
    assert!(rows.contains("Row 3, C:3.") && rows.contains("Chosen: C:3 on CPU 1"), "{rows}");
    assert_eq!(
        browser.evaluate("document.getElementById('chosen').getAttribute('aria-live')"),
        "polite"
    );
    // The list has each key that does something.
    let listed = browser.evaluate(
        "[...document.querySelectorAll('#keys dt')].flatMap((keys) => keys.textContent.trim().split(' '))",
    );
    let listed = listed.as_array().expect("a list").clone();
    for key in [
        "ArrowLeft",
        "ArrowUp",
        "PageUp",
        "[",
        "n",
        "p",
        "w",
        "W",
        "a",
        "u",
        "c",
        "/",
        "v",
        "V",
        "k",
        "K",
        "m",
        "(",
        ")",
        "l",
        "f",
    ] {
        let shown = match key {
            "ArrowLeft" => "←",
            "ArrowUp" => "↑",
            "PageUp" => "PgUp",
            other => other,
        };
        assert!(listed.contains(&json!(shown)), "{key} in {listed:?}");
    }
    std::fs::remove_file(&file).expect("ours");
}
