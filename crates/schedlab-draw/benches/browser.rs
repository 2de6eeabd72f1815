//! The page of ten million events on 128 CPUs in a real browser, in real time: when the first picture
//! stands (a second is the aim), and how long a frame takes while moving (16.7 ms are 60 a second).
//!
//! Chromium is driven over its debugging pipe (descriptors 3 and 4; a shell joins them to the
//! standard ones). `SCHEDLAB_BENCH_EVENTS` asks for another number of events.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints what it found")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the environment and files")]

use schedlab_draw::page::{Columns, page};
use schedlab_timeline::{ask, span_of};
use schedlab_trace::synthetic::{Plan, Synthetic};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Moves as a person does, a frame at a time, and takes the times of what was painted.
const MOVE: &str = "(async () => {
    while (!document.body.dataset.ready) await new Promise((done) => setTimeout(done, 20));
    const page = window.schedlabPage, times = [];
    const press = (key) => dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true }));
    for (let i = 0; i < 120; i++) {
        press(i % 40 < 20 ? '+' : i % 40 < 30 ? 'ArrowRight' : 'f');
        const start = performance.now();
        page.now();
        times.push(performance.now() - start);
        await new Promise(requestAnimationFrame);
    }
    times.sort((a, b) => a - b);
    return [Number(document.body.dataset.ready), times[60], times[118], times[119]].join(' ');
})()";

fn main() {
    let events = std::env::var("SCHEDLAB_BENCH_EVENTS").ok().and_then(|text| text.parse().ok());
    let plan = Plan { cpus: 128, tasks_per_cpu: 3, events: events.unwrap_or(10_000_000), seed: 1 };
    let window = span_of(&mut Synthetic::new(plan.clone())).expect("in memory");
    let reply = ask(&mut Synthetic::new(plan), Columns::new(window)).expect("in memory");
    let html = page("bench", &reply.answer, None, &[], 0);
    println!("{} slices of 128 CPUs, {:.1} MB", reply.answer.slices(), html.len() as f64 / 1e6);
    let folder = std::env::temp_dir().join(format!("schedlab-browser-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("writable");
    std::fs::write(folder.join("page.html"), html).expect("writable");
    match Browser::start(&folder) {
        Some(mut browser) => {
            let times = browser.evaluate(&folder.join("page.html"));
            let numbers: Vec<f64> = times.split(' ').filter_map(|n| n.parse().ok()).collect();
            let [ready, median, high, worst] = numbers[..] else { panic!("{times}") };
            println!("first picture after {ready:.0} ms (aim 1000)");
            println!(
                "frames: median {median:.1} ms, 99th of 100 {high:.1} ms, worst {worst:.1} ms (aim 16.7)"
            );
        }
        None => eprintln!("MISSING: chromium: nothing was measured (apt-get install chromium)"),
    }
    let _ = std::fs::remove_dir_all(&folder);
}

struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    calls: u64,
}

impl Browser {
    fn start(profile: &Path) -> Option<Self> {
        Command::new("chromium").arg("--version").output().ok()?;
        let line = format!(
            "exec chromium --headless --no-sandbox --disable-gpu --window-size=1600,900 \
             --user-data-dir='{}' --remote-debugging-pipe 3<&0 4>&1 2>/dev/null",
            profile.display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let (to, from) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
        Some(Self { child, to, from, calls: 0 })
    }

    /// Opens a page and gives back what the script comes to.
    fn evaluate(&mut self, file: &Path) -> String {
        let url = format!("file://{}", file.display());
        let target = self.call(None, "Target.createTarget", &json!({ "url": url }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call(None, "Target.attachToTarget", &target);
        let session = session["sessionId"].as_str().expect("attached").to_owned();
        // Until the page is there, the script would run in an empty one.
        let there = json!({ "expression": "document.body?.dataset.ready ?? ''" });
        let mut waited = 0;
        while self.call(Some(&session), "Runtime.evaluate", &there)["result"]["value"]
            .as_str()
            .is_none_or(str::is_empty)
        {
            std::thread::sleep(std::time::Duration::from_millis(50));
            waited += 1;
            assert!(waited < 1_200, "the page did not come up within a minute");
        }
        let script = json!({ "expression": MOVE, "awaitPromise": true, "returnByValue": true });
        let result = self.call(Some(&session), "Runtime.evaluate", &script);
        result["result"]["value"].as_str().map_or_else(|| result.to_string(), str::to_owned)
    }

    fn call(&mut self, session: Option<&str>, method: &str, parameters: &Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": parameters });
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("the browser listens");
        self.to.flush().expect("the browser listens");
        loop {
            let mut answer = Vec::new();
            let count = self.from.read_until(0, &mut answer).expect("the browser answers");
            assert!(count > 0, "the browser went away");
            answer.pop();
            let answer: Value = serde_json::from_slice(&answer).expect("it speaks JSON");
            if answer["id"] == json!(self.calls) {
                return answer["result"].clone();
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
