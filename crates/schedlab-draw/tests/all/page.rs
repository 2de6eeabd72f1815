//! The interactive page in a real browser: headless Chromium opens it from disk, a driver acts as a
//! person would (`driver.js`), and what the page shows is compared with the timeline.

use schedlab_draw::page::{Columns, EpisodePicture, Note, page};
use schedlab_model::{Cpu, CpuSet, EventSource, Nanos, Span};
use schedlab_timeline::{TaskId, ask, notation, span_of};

use crate::browser::Browser;

/// Two CPUs; `B` waits 3 µs for `A`, and moves.
const TRACE: &str = "
    0 | AAAABBBB..AAAA..
      |  bbb
    1 | ..CC....BBBB..CC
    at 1: A wakes B
    at 3: C marks 0 begin
    A is called <img src=x>
    B is called b&\"b";

fn html() -> String {
    let trace = notation::parse(TRACE).expect("sound notation");
    let span = span_of(&mut trace.source()).expect("in memory");
    let mut info = trace.source().info().clone();
    info.marks = vec!["phase <one>".into()];
    let question = Columns::new(span).with_marks(&info);
    let reply = ask(&mut trace.source(), question).expect("in memory");
    let at = |us: u64| span.start + Nanos(us * 1_000);
    let note = Note {
        span: Span::new(at(4), at(5)),
        cpu: 0,
        text: "CPU 1 idle while b waits <on> 0".into(),
        story: Some(EpisodePicture {
            since: at(4),
            task: TaskId(2),
            cost: Nanos(1_000),
            waker: Some((TaskId(1), Cpu(0))),
            free: [Cpu(1)].into_iter().collect::<CpuSet>(),
        }),
    };
    page("a <test>.dat", &reply.answer, None, &[note], 3)
}

#[test]
fn a_person_finds_their_way_in_a_real_browser() {
    let Some((mut browser, file)) = Browser::show("person", &html()) else { return };
    let result = browser.evaluate(include_str!("driver.js"));
    let text = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
    // What is there equals what the timeline says: A 4 + 4 µs and B 4 µs on CPU 0; C, B, C on CPU 1.
    let rows = serde_json::json!([
        {"cpu": 0, "slices": 3, "busy": 12_000},
        {"cpu": 1, "slices": 3, "busy": 8_000},
    ]);
    assert_eq!(result["rows"], rows);
    assert_eq!(text("colour"), text("expected"), "the first slice has its task's colour");
    assert!(text("hover").starts_with("<img src=x>:1 on CPU 0\nran 4.00 µs"), "{result:#}");
    assert_eq!(text("chosen"), text("hover"));
    assert_eq!(result["found"], 1);
    assert!(
        text("followed").contains("b&\"b:2 on CPU 0") && text("followed").contains("(3000 ns)"),
        "{result:#}"
    );
    assert!(text("followed").contains("woken by <img src=x>:1"), "{result:#}");
    assert_eq!(text("longest"), text("followed"), "the longest wait is B's");
    assert!(result["closer"].as_f64() < Some(0.9), "{result:#}");
    assert_eq!(result["stepped"], true);
    assert_eq!(result["whole"], true);
    assert!(result["wheel"].as_f64() < Some(0.9), "{result:#}");
    assert!(text("link").starts_with("#t="), "{result:#}");
    assert!(result["svg"].as_u64() > Some(2) && result["svgBroken"] == false, "{result:#}");
    assert_eq!(result["requests"], 0, "nothing leaves the page");
    assert_eq!(
        result["scripts"], 9,
        "head, coarse, script, marks, power, requests, stacks, two parts: no name is markup"
    );
    assert_eq!(browser.requests, [format!("file://{}", file.display())], "the page and no more");
    std::fs::remove_file(&file).expect("ours");
    eprintln!("mean frame {} ms, ready after {} ms", result["frameMs"], result["ready"]);
}

/// The window, in ns since the trace began, and what is chosen.
const VIEW: &str = "[schedlabPage.view.from, schedlabPage.view.to, schedlabPage.view.task, \
     schedlabPage.view.row, schedlabPage.view.slice]";

/// What [`VIEW`] says of the window.
fn window(browser: &mut Browser) -> (f64, f64) {
    let view = browser.evaluate(VIEW);
    (view[0].as_f64().expect("a number"), view[1].as_f64().expect("a number"))
}

#[test]
fn two_fingers_zoom_and_one_moves() {
    let Some((mut browser, file)) = Browser::show("touch", &html()) else { return };
    let (from, to) = window(&mut browser);
    // Apart to twice the distance: half of the time is seen, around what is between the fingers.
    browser.touch("touchStart", &[(300.0, 200.0), (500.0, 200.0)]);
    browser.touch("touchMove", &[(250.0, 200.0), (550.0, 200.0)]);
    browser.touch("touchMove", &[(200.0, 200.0), (600.0, 200.0)]);
    browser.touch("touchEnd", &[]);
    let (near_from, near_to) = window(&mut browser);
    let part = (near_to - near_from) / (to - from);
    assert!((0.45..0.55).contains(&part), "{part} of the window");
    // One finger to the left: later times come.
    browser.touch("touchStart", &[(600.0, 200.0)]);
    browser.touch("touchMove", &[(550.0, 200.0)]);
    browser.touch("touchMove", &[(500.0, 200.0)]);
    browser.touch("touchEnd", &[]);
    let (moved_from, moved_to) = window(&mut browser);
    assert!(moved_from > near_from, "{moved_from} after {near_from}");
    assert!((moved_to - moved_from - (near_to - near_from)).abs() < 1.0, "as wide as before");
    // A tap chooses what is under it.
    browser.touch("touchStart", &[(150.0, 200.0)]);
    browser.touch("touchEnd", &[]);
    let chosen = browser.evaluate("document.getElementById('chosen').textContent");
    assert!(chosen.as_str().is_some_and(|text| text.contains("on CPU 0")), "{chosen}");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn the_keyboard_alone_suffices_and_the_address_restores_the_view() {
    let Some((mut browser, file)) = Browser::show("keys", &html()) else { return };
    let text = |browser: &mut Browser| browser.text("chosen");
    // Search, go to the task, to its next slice (on the other CPU), and closer.
    for key in ["/", "b", "&", "Enter"] {
        browser.key(key);
    }
    assert!(text(&mut browser).contains("b&\"b:2 on CPU 0"), "{}", text(&mut browser));
    browser.key("n");
    assert!(text(&mut browser).contains("b&\"b:2 on CPU 1"), "{}", text(&mut browser));
    browser.key("p");
    browser.key("ArrowDown");
    assert!(text(&mut browser).contains("on CPU 1"), "{}", text(&mut browser));
    browser.key("+");
    // Measured from this slice's begin to the begin of the next on this row.
    for key in ["[", "m", "]", "m"] {
        browser.key(key);
    }
    let measured = browser.evaluate("schedlabPage.view.measure");
    assert!(measured[0].as_f64() < measured[1].as_f64(), "{measured}");
    browser.key("f");
    browser.key("v");
    assert!(text(&mut browser).contains("on CPU 0"), "the episode's place: {}", text(&mut browser));
    browser.key("]");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let view = browser.evaluate(VIEW);
    assert!(view[2].as_i64() > Some(0) && view[4].as_i64() >= Some(0), "{view}");
    let link = browser.evaluate("location.href");
    browser.open(link.as_str().expect("an address"), "ready");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let restored = browser.evaluate(VIEW);
    assert_eq!(restored.as_array().map(|all| &all[2..]), view.as_array().map(|all| &all[2..]));
    for index in [0, 1] {
        let (was, is) = (view[index].as_f64().unwrap(), restored[index].as_f64().unwrap());
        assert!((was - is).abs() <= 2.0, "{view} and {restored}");
    }
    assert_eq!(browser.evaluate("schedlabPage.view.measure"), measured.clone(), "measured too");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn marks_stand_on_their_rows_and_tell_themselves() {
    let Some((mut browser, file)) = Browser::show("marks", &html()) else { return };
    browser.key("k");
    let chosen = "document.getElementById('chosen').textContent";
    let said = browser.evaluate(chosen);
    let said = said.as_str().unwrap_or_default();
    assert!(said.starts_with("phase <one> begin at 0.003000 ms on CPU 1, C:3"), "{said}");
    // The pennant is there, and a hover over it tells it.
    let hover = browser.evaluate(
        "(() => { const p = schedlabPage, c = p.canvas, box = c.getBoundingClientRect(), row = p.trace.rows[1]; \
         p.now(); const { rows, rowHeight } = p.painter.layout(p.view); \
         const x = rows.left + (row.points.time[0] - p.view.from) / (p.view.to - p.view.from) * rows.width, y = rows.top + rowHeight; \
         const ratio = c.width / c.clientWidth; \
         const pixel = [...c.getContext('2d').getImageData(Math.round((x + 2) * ratio), Math.round((y + 2) * ratio), 1, 1).data]; \
         c.dispatchEvent(new PointerEvent('pointermove', { pointerId: 1, clientX: box.left + x, clientY: box.top + y + 4 })); \
         return [document.getElementById('tip').textContent, pixel]; })()",
    );
    let tip = hover[0].as_str().unwrap_or_default();
    assert!(tip.starts_with("phase <one> begin at 0.003000 ms on CPU 1"), "{hover}");
    assert!(tip.contains("C:3 on CPU 1\nran 2.00 µs"), "{hover}");
    assert_eq!(hover[1], serde_json::json!([17, 24, 39, 255]), "the pennant's colour");
    let svg = browser.evaluate("schedlabPage.svg()");
    assert!(svg.as_str().is_some_and(|svg| svg.contains("phase &#60;one&#62; begin at")), "{svg}");
    std::fs::remove_file(&file).expect("ours");
}

/// Where a box of the page's layout stands in the window: left, top, width, height.
fn place(browser: &mut Browser, name: &str) -> [f64; 4] {
    let script = format!(
        "(() => {{ const p = schedlabPage, b = p.canvas.getBoundingClientRect(), l = p.painter.layout(p.view).{name}; \
         return [b.left + l.left, b.top + l.top, l.width, l.height]; }})()"
    );
    let place = browser.evaluate(&script);
    [0, 1, 2, 3].map(|index| place[index].as_f64().expect("a number"))
}

#[test]
fn dragging_the_minimap_moves_the_window_along() {
    let Some((mut browser, file)) = Browser::show("minimap", &html()) else { return };
    browser.evaluate("(() => { const p = schedlabPage; p.view.from = 0; p.view.to = p.trace.span / 4; p.now(); })()");
    let [left, top, width, height] = place(&mut browser, "mini");
    let span = browser.evaluate("schedlabPage.trace.span").as_f64().expect("a number");
    let y = top + height / 2.0;
    browser.drag((left + width / 4.0, y), (left + width / 2.0, y), false);
    let (from, to) = window(&mut browser);
    let middle = (from + to) / 2.0 / span;
    assert!(
        (0.49..0.51).contains(&middle),
        "the window's middle is where the pointer is: {middle}"
    );
    assert!(
        ((to - from) / span - 0.25).abs() < 0.01,
        "as wide as before: {from} to {to} of {span}"
    );
    // Beyond the end it stays inside of the trace.
    browser.drag((left + width / 2.0, y), (left + width - 1.0, y), false);
    let (from, to) = window(&mut browser);
    assert!((to - span).abs() < 1.0 && ((to - from) / span - 0.25).abs() < 0.01, "{from} to {to}");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn dragging_with_shift_measures_and_does_not_move() {
    let Some((mut browser, file)) = Browser::show("measure", &html()) else { return };
    let before = window(&mut browser);
    let [left, top, width, height] = place(&mut browser, "rows");
    let y = top + height / 2.0;
    browser.drag((left + width / 4.0, y), (left + width * 3.0 / 4.0, y), true);
    let measure = browser.evaluate("schedlabPage.view.measure");
    let [a, b] = [0, 1].map(|index| measure[index].as_f64().expect("a number"));
    let half = (before.1 - before.0) / 2.0;
    assert!(((b - a) / half - 1.0).abs() < 0.01, "{a} to {b} is half of {before:?}");
    assert!(((a - before.0) / half - 0.5).abs() < 0.01, "from a quarter on: {a}");
    assert_eq!(window(&mut browser), before, "the window stays");
    // Without Shift the same movement drags the window's content.
    browser.key("+");
    let near = window(&mut browser);
    browser.drag((left + width / 2.0, y), (left + width * 3.0 / 8.0, y), false);
    let moved = window(&mut browser);
    assert!(((moved.0 - near.0) / (near.1 - near.0) - 0.125).abs() < 0.01, "{near:?} to {moved:?}");
    std::fs::remove_file(&file).expect("ours");
}

/// With the mouse, where it stands: what is chosen is told above the list, which moves it.
fn click_first_episode(browser: &mut Browser) {
    let button = browser.evaluate(
        "(() => { const b = document.querySelector('#episodes button'); b.scrollIntoView(); \
         const r = b.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()",
    );
    let at = [0, 1].map(|index| button[index].as_f64().expect("a number"));
    browser.mouse("mousePressed", at.into(), false);
    browser.mouse("mouseReleased", at.into(), false);
}

#[test]
fn a_click_in_the_list_of_episodes_goes_to_its_place() {
    let Some((mut browser, file)) = Browser::show("episode", &html()) else { return };
    let whole = window(&mut browser);
    let said = browser.evaluate("document.querySelector('#episodes button').textContent");
    assert_eq!(said, "0.004 ms  CPU 1 idle while b waits <on> 0");
    click_first_episode(&mut browser);
    // Closer than the whole: 1 µs is an eighth of what is seen, in its middle.
    assert_eq!((whole, window(&mut browser)), ((0.0, 16_000.0), (500.0, 8_500.0)));
    // From elsewhere, closer still: there, without going out again.
    browser.evaluate("[schedlabPage.view.from, schedlabPage.view.to] = [12000, 16000]");
    click_first_episode(&mut browser);
    assert_eq!(window(&mut browser), (2_500.0, 6_500.0));
    let chosen = browser.evaluate("document.getElementById('chosen').textContent");
    assert!(chosen.as_str().is_some_and(|text| text.starts_with("b&\"b:2 on CPU 0")), "{chosen}");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn the_waiting_curve_is_piled_as_the_timeline_says() {
    let Some((mut browser, file)) = Browser::show("curve", &html()) else { return };
    // Colours at a time (µs) and a height (tasks). Two CPUs, at most 2 run while 1 waits: 3 and 8 % above.
    let pixels = browser.evaluate(
        "(() => { const p = schedlabPage, c = p.canvas, ratio = c.width / c.clientWidth; p.now(); \
         const box = p.painter.layout(p.view).curve; \
         return [[1.6, 0.4], [1.6, 1.6], [2.6, 1.6], [2.6, 2.6], [5.6, 0.4], [5.6, 1.6], [1.6, 2.6]].map(([us, tasks]) => { \
           const x = box.left + (us * 1000 - p.view.from) / (p.view.to - p.view.from) * box.width; \
           const y = box.top + box.height * (1 - tasks / (3 * 1.08)); \
           const [r, g, b, a] = c.getContext('2d').getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data; \
           return a < 20 ? 'nothing' : b > r ? 'running' : 'waiting'; }); })()",
    );
    let expected = ["running", "waiting", "running", "waiting", "running", "nothing", "nothing"];
    assert_eq!(pixels, serde_json::json!(expected));
    std::fs::remove_file(&file).expect("ours");
}
