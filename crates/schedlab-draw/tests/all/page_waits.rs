//! Waits on the page, in a real browser: why each was, who ran instead, keys from one to the next, links; and two traces.

use schedlab_draw::page::{Columns, Pair, Table, page, pair};
use schedlab_model::{EventSource as _, Span};
use schedlab_timeline::{Causes, ask, notation, span_of};
use serde_json::json;
use std::time::Duration;

use crate::browser::Browser;

/// `A` waits 6 µs for `B`, `B` 3 µs for `A`, and `E` still waits after 4 µs.
const TRACE: &str = "
    0 | AAAABBBBBBAAAAAA
      |  bbbaaaaaa  eeee
    1 | ..CC....DDDD....
    at 1: A wakes B
    at 12: A wakes E";

/// The page of a trace in notation with its causes, about the wait of `A` from 4 to 10 µs.
fn html(text: &str) -> String {
    let trace = notation::parse(text).expect("sound notation");
    let span = span_of(&mut trace.source()).expect("in memory");
    let causes = Causes::new(trace.source().info(), &[], 8);
    let reply =
        ask(&mut trace.source(), Columns::new(span).with_causes(causes)).expect("in memory");
    let mut data = reply.answer;
    let worst = data.take_causes().expect("asked").worst[0].clone();
    let moment = Span::new(worst.since, worst.until);
    let data = data.with_answer("A waited.\n".to_owned(), Some((worst.task, moment)));
    page("x.dat", &data, None, &[], 0)
}

fn chosen(browser: &mut Browser) -> serde_json::Value {
    browser.evaluate("[schedlabPage.view.row, schedlabPage.view.slice]")
}

#[test]
fn a_wait_tells_its_causes_who_ran_instead_and_what_put_it_there() {
    let Some((mut browser, file)) = Browser::show("explained", &html(TRACE)) else { return };
    // Before any key: two CPUs have rows of tasks, and the wait of the answer is chosen.
    assert_eq!(browser.evaluate("schedlabPage.view.rows"), "task");
    let said = browser.text("wait");
    for part in [
        "Waited 6.00 µs for a CPU, because:",
        "misplaced  4.00 µs, 67 %",
        "competition  2.00 µs, 33 %",
        "Displaced on CPU 0 by B:2; it waited on CPU 0.",
        "Ran on CPU 0 instead:",
        "B:2  6.00 µs, 100 %",
        "By command: B 6.00 µs.",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let legend = browser.text("legend");
    assert!(legend.contains("misplaced: Another CPU was free where the task may run"), "{legend}");
    // The piece of the row has the colour of the longest cause, below the words and beside the lines of its pattern.
    let seen = browser.evaluate(
        "(() => { const p = schedlabPage, c = p.canvas, ratio = c.width / c.clientWidth; p.now(); \
         const { rows, rowHeight } = p.painter.layout(p.view), lane = p.chosenLane(); \
         const x = rows.left + (8000 - p.view.from) / (p.view.to - p.view.from) * rows.width; \
         const line = c.getContext('2d').getImageData(Math.round(x * ratio), Math.round((rows.top + (lane + 0.5) * rowHeight) * ratio), 40, 1).data; \
         const found = new Set(); for (let i = 0; i < line.length; i += 4) found.add([...line.slice(i, i + 3)].join()); \
         return [...found]; })()",
    );
    let colours = seen.as_array().expect("a list");
    assert!(colours.contains(&json!("192,0,32")), "misplaced: {seen}");
    assert!(colours.len() > 1, "a pattern as well: {seen}");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn keys_go_to_longer_and_shorter_waits_to_the_waker_and_to_the_culprit() {
    let Some((mut browser, file)) = Browser::show("wait-keys", &html(TRACE)) else { return };
    browser.key("c");
    assert_eq!(chosen(&mut browser), json!([0, 1]), "B ran while A waited");
    // The wait of B.
    assert!(browser.text("wait").contains("Waited 3.00 µs for a CPU"), "{}", browser.text("wait"));
    assert!(browser.text("wait").contains("Woken by A:1 on CPU 0"), "{}", browser.text("wait"));
    browser.key("w");
    let open = browser.text("wait");
    assert!(open.contains("Waited at least 4.00 µs for a CPU and still waits"), "{open}");
    browser.key("w");
    assert!(browser.text("wait").contains("Waited 6.00 µs"), "{}", browser.text("wait"));
    browser.key("w");
    assert_eq!(browser.text("chosen"), "This is the longest wait.");
    browser.key("W");
    browser.key("W");
    browser.key("u");
    assert_eq!(chosen(&mut browser), json!([0, 0]), "A woke B");
    browser.key("a");
    assert_eq!(chosen(&mut browser), json!([0, 2]), "the wait of the answer");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn a_link_restores_an_open_wait_the_rows_and_the_filter_of_events() {
    let Some((mut browser, file)) = Browser::show("wait-link", &html(TRACE)) else { return };
    browser.key("W");
    browser.evaluate(
        "(() => { const f = document.getElementById('events-filter'); f.value = 'switch -idle'; \
         f.dispatchEvent(new Event('input')); })()",
    );
    std::thread::sleep(Duration::from_millis(500));
    let said = browser.text("wait");
    assert!(said.contains("still waits"), "{said}");
    let seen = "[schedlabPage.view.from, schedlabPage.view.to, schedlabPage.view.rows, schedlabPage.view.order, \
                document.getElementById('events-filter').value]";
    let before = browser.evaluate(seen);
    let address = browser.evaluate("location.href");
    browser.open(address.as_str().expect("an address"), "ready");
    assert_eq!((browser.evaluate(seen), browser.text("wait")), (before, said), "{address}");
    // Rows of CPUs that somebody chose stay, although rows of tasks come first here.
    browser.evaluate(
        "(() => { const s = document.getElementById('kind'); s.value = 'cpu'; s.dispatchEvent(new Event('change')); })()",
    );
    std::thread::sleep(Duration::from_millis(500));
    let address = browser.evaluate("location.href");
    browser.open(address.as_str().expect("an address"), "ready");
    assert_eq!(browser.evaluate("schedlabPage.view.rows"), "cpu", "{address}");
    std::fs::remove_file(&file).expect("ours");
}

#[test]
fn the_band_over_cpus_shows_waits_where_they_are_and_a_click_chooses_one() {
    let Some((mut browser, file)) = Browser::show("wait-band", &html(TRACE)) else { return };
    browser.evaluate(
        "(() => { const s = document.getElementById('kind'); s.value = 'cpu'; s.dispatchEvent(new Event('change')); \
         schedlabPage.choose(-1, -1); })()",
    );
    browser.key("f");
    let colours = browser.evaluate(
        "(() => { const p = schedlabPage, c = p.canvas, ratio = c.width / c.clientWidth; p.now(); \
         const { waits } = p.painter.layout(p.view); return [7, 11].map((us) => { \
         const x = waits.left + us * 1000 / p.trace.span * waits.width; \
         return [...c.getContext('2d').getImageData(Math.round(x * ratio), Math.round((waits.top + waits.height - 4) * ratio), 12, 1).data]; }) \
         .map((line) => line.some((byte, i) => i % 4 === 0 && line[i + 3] > 0 && byte === 192 && line[i + 1] === 0)); })()",
    );
    assert_eq!(colours, json!([true, false]), "at 7 µs A is misplaced, at 11 µs nobody waits");
    let place = browser.evaluate(
        "(() => { const p = schedlabPage, b = p.canvas.getBoundingClientRect(), w = p.painter.layout(p.view).waits; \
         return [b.left + w.left + 13000 / p.trace.span * w.width, b.top + w.top + w.height / 2]; })()",
    );
    let at = [0, 1].map(|index| place[index].as_f64().expect("a number"));
    browser.mouse("mousePressed", at.into(), false);
    browser.mouse("mouseReleased", at.into(), false);
    assert!(browser.text("wait").contains("still waits"), "{}", browser.text("wait"));
    std::fs::remove_file(&file).expect("ours");
}

/// Two traces of the same roles; the second begins its request 3 µs later.
fn two() -> String {
    let trace = |text: &str| {
        let mut trace = notation::parse(text).expect("sound notation");
        trace.info.marks = vec!["request".to_owned()];
        let span = span_of(&mut trace.source()).expect("in memory");
        let question = Columns::new(span).with_marks(&trace.info);
        let reply = ask(&mut trace.source(), question).expect("in memory");
        page("x.dat", &reply.answer, None, &[], 0)
    };
    let rows =
        vec![["competition".to_owned(), "1 ms".to_owned(), "2 ms".to_owned(), "+1 ms".to_owned()]];
    pair(&Pair {
        names: ["a.dat".to_owned(), "b.dat".to_owned()],
        pages: [
            trace("0 | AAAABBBB........\n at 2: A marks 0 begin\n at 3: A marks 0 end"),
            trace("0 | BBBBAAAAAACC....\n at 5: A marks 0 begin\n at 6: A marks 0 end"),
        ],
        difference: "Tasks waited 1 ms more per second in B: competition +1 ms.".to_owned(),
        tables: vec![Table { head: "by cause".to_owned(), rows }],
        flames: Vec::new(),
    })
}

/// The window of which a page tells the document after what was done; `None` where it tells nothing.
fn window(browser: &mut Browser, side: usize) -> Option<[f64; 2]> {
    let mut seen = serde_json::Value::Null;
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(100));
        let before =
            std::mem::replace(&mut seen, browser.evaluate(&format!("window.windows[{side}]")));
        // It has settled.
        if !seen.is_null() && seen == before {
            break;
        }
    }
    let [from, to] = [0, 1].map(|index| seen[index].as_f64());
    Some([from?, to?])
}

#[test]
fn two_traces_zoom_together_from_the_instant_at_which_they_are_aligned() {
    let Some((mut browser, file)) = Browser::show("pair", &two()) else { return };
    let said = browser.evaluate("document.body.innerText");
    let said = said.as_str().expect("a text");
    assert!(
        said.contains("Tasks waited 1 ms more per second in B") && said.contains("+1 ms"),
        "{said}"
    );
    browser.evaluate(
        "(() => { window.windows = [null, null]; \
         addEventListener('message', ({ source, data }) => { const at = source === frames[0] ? 0 : 1; \
         if (data?.schedlab?.window) window.windows[at] = data.schedlab.window; }); })()",
    );
    // By the first request of each.
    let options =
        browser.evaluate("[...document.getElementById('align').options].map((one) => one.value)");
    assert_eq!(options, json!(["worst", "begin", "chosen", "mark request"]));
    assert_eq!(
        browser.evaluate("document.getElementById('align').value"),
        "begin",
        "none has a worst wait"
    );
    browser.evaluate(
        "(() => { const s = document.getElementById('align'); s.value = 'mark request'; s.dispatchEvent(new Event('change')); })()",
    );
    // The wheel over the first page, then at the same place of the second one, which looks there already.
    let mut wheel = |id: &str, by: i32| {
        let place = browser.evaluate(&format!(
            "(() => {{ const r = document.getElementById('{id}').getBoundingClientRect(); \
             return [r.left + 300, r.top + r.height / 2]; }})()"
        ));
        let at = [0, 1].map(|index| place[index].as_f64().expect("a number"));
        browser.evaluate("window.windows = [null, null]");
        // A page that is not laid out yet does not feel the wheel.
        let told = (0..4).find_map(|_| {
            browser.call(
                "Input.dispatchMouseEvent",
                &json!({ "type": "mouseWheel", "x": at[0], "y": at[1], "deltaX": 0, "deltaY": by }),
            );
            window(&mut browser, usize::from(id == "b"))
        });
        told.expect("a window")
    };
    let first = wheel("a", -500);
    let second = wheel("b", -100);
    let [long, short] = [first, second].map(|[from, to]| to - from);
    assert!(long < 8_000.0 && short < long, "{first:?} and {second:?}");
    // The whole was 16 µs: so far to the right is the pointer, of 1.
    let part = first[0] / (16_000.0 - long);
    let expected = first[0] + 3_000.0 + part * (long - short);
    assert!((second[0] - expected).abs() < 5.0, "{expected}: {first:?} and {second:?}");
    std::fs::remove_file(&file).expect("ours");
}
