//! The page of ten million events on 128 CPUs in a real browser, in real time: when the first picture
//! stands (a second is the aim), and how long a frame takes while moving (16.7 ms are 60 a second).
//!
//! A frame's time is told twice: what the script takes, and the distance from one frame of the browser
//! to the next, which is never below 16.7 ms and contains what the browser does with the canvas.
//! `SCHEDLAB_BENCH_EVENTS` asks for another number of events, `SCHEDLAB_BENCH_PAGE` keeps the page in a file.
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads clocks and files; the crate does not"
)]
#![expect(clippy::print_stdout, reason = "a benchmark prints what it found")]

#[path = "../tests/all/browser.rs"]
mod browser;

use browser::Browser;
use schedlab_draw::page::{Columns, page};
use schedlab_timeline::{ask, span_of};
use schedlab_trace::synthetic::{Plan, Synthetic};

/// Moves as a person does who holds a key down, and takes the times: `+`, then to the right, then out
/// again, twice; first with nothing chosen, then while a task is followed.
const MOVE: &str = "(async () => {
    const page = window.schedlabPage, script = [], frames = [];
    const press = (key) => dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true }));
    const frame = () => new Promise(requestAnimationFrame);
    for (const round of [0, 1]) {
        await frame();
        let last = await frame();
        for (let i = 0; i < 160; i++) {
            page.frames.length = 0;
            press(i % 80 < 25 ? '+' : i % 80 < 55 ? 'ArrowRight' : '-');
            const now = await frame();
            frames.push(now - last);
            last = now;
        }
        if (round === 0) { press('f'); press(']'); press('f'); }
    }
    for (const round of [0, 1]) for (let i = 0; i < 160; i++) {
        press(i % 80 < 25 ? '+' : i % 80 < 55 ? 'ArrowRight' : '-');
        const start = performance.now();
        page.now();
        script.push(performance.now() - start);
        await frame();
    }
    const told = (times) => {
        times.sort((a, b) => a - b);
        return [0.5, 0.95, 1].map((part) => times[Math.min(times.length - 1, Math.floor(part * times.length))].toFixed(1));
    };
    const data = document.body.dataset;
    return { first: data.first, ready: data.ready, script: told(script), frames: told(frames) };
})()";

/// Moves while the page still reads, and takes the distances of frames.
const READING: &str = "(async () => {
    const press = (key) => dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true }));
    const times = [];
    let last = await new Promise(requestAnimationFrame);
    for (let i = 0; i < 2000 && !document.body.dataset.ready; i++) {
        press(i % 40 < 15 ? '+' : i % 40 < 25 ? 'ArrowRight' : '-');
        const now = await new Promise(requestAnimationFrame);
        times.push(now - last);
        last = now;
    }
    times.sort((a, b) => a - b);
    return [0.5, 0.95, 1].map((part) => (times[Math.min(times.length - 1, Math.floor(part * times.length))] ?? 0).toFixed(1));
})()";

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the environment and files")]
fn main() {
    let events = std::env::var("SCHEDLAB_BENCH_EVENTS").ok().and_then(|text| text.parse().ok());
    let plan = Plan { cpus: 128, tasks_per_cpu: 3, events: events.unwrap_or(10_000_000), seed: 1 };
    let window = span_of(&mut Synthetic::new(plan.clone())).expect("in memory");
    let reply = ask(&mut Synthetic::new(plan), Columns::new(window)).expect("in memory");
    let html = page("bench", &reply.answer, None, &[], 0);
    println!("{} slices of 128 CPUs, {:.1} MB", reply.answer.slices(), html.len() as f64 / 1e6);
    let own = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = own.join(format!("page-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("writable");
    let kept = std::env::var_os("SCHEDLAB_BENCH_PAGE").map(std::path::PathBuf::from);
    let file = kept.unwrap_or_else(|| folder.join("page.html"));
    std::fs::write(&file, html).expect("writable");
    if let Some(mut browser) = Browser::start("frames", (1600, 900)) {
        browser.open(&format!("file://{}", file.display()), "first");
        let reading = browser.evaluate(READING);
        let told = browser.evaluate(MOVE);
        let text = |key: &str| told[key].as_str().unwrap_or_default().to_owned();
        println!(
            "first picture after {} ms (aim 1000), every slice read after {} ms",
            text("first"),
            text("ready")
        );
        println!(
            "p50, p95, max in ms (aim 16.7): the script {}, from frame to frame {}, while still reading {reading}",
            told["script"], told["frames"]
        );
    }
    let _ = std::fs::remove_dir_all(&folder);
}
