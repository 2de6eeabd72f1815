//! A real browser under a test's control: headless Chromium, driven over its debugging pipe in real
//! time. Shared by the tests of the page here and in the command (by `#[path]`), and by the benchmark.
//!
//! Descriptors 3 and 4 of the browser are the pipe; a shell joins them to the standard ones.
#![allow(dead_code, reason = "each of its users needs a part")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

const FLAGS: &str = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars \
     --disable-background-networking --disable-component-update --disable-sync";

/// The name of an installed browser; `None`, said aloud, where there is none. In CI that is a failure.
pub(crate) fn find(purpose: &str) -> Option<&'static str> {
    static FOUND: OnceLock<Option<&str>> = OnceLock::new();
    let starts = |name: &&str| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    let found = *FOUND.get_or_init(|| NAMES.into_iter().find(starts));
    if found.is_none() {
        drop(writeln!(
            std::io::stderr(),
            "MISSING: chromium: not in a browser: {purpose} (apt-get install chromium)"
        ));
        assert!(std::env::var_os("CI").is_none(), "CI must have chromium");
    }
    found
}

/// Browsers without a page: to start one takes longer than most tests.
static IDLE: Mutex<Vec<Process>> = Mutex::new(Vec::new());

/// A browser, which ends with its pipe: where this program ends, too. The shell around it then removes its profile.
struct Process {
    shell: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    calls: u64,
    size: (u32, u32),
}

/// A browser with one page.
pub(crate) struct Browser {
    /// Always there, but for the moment of leaving.
    process: Option<Process>,
    session: Option<String>,
    /// What was opened.
    targets: Vec<Value>,
    /// Addresses that the page asked for, itself included.
    pub(crate) requests: Vec<String>,
}

impl Browser {
    /// One whose window has so many pixels; `None`, said aloud, where none is installed. In CI that is a failure.
    pub(crate) fn start(purpose: &str, size: (u32, u32)) -> Option<Self> {
        let name = find(purpose)?;
        let mut idle = IDLE.lock().expect("no test holds it for long");
        let place = idle.iter().position(|process| process.size == size);
        let process = place.map(|place| idle.swap_remove(place));
        drop(idle);
        let process = process.unwrap_or_else(|| Process::start(name, purpose, size));
        let (session, targets, requests) = (None, Vec::new(), Vec::new());
        Some(Self { process: Some(process), session, targets, requests })
    }

    /// Shows a page that stands in a file of its own, which the caller removes; `None` where no browser is installed.
    pub(crate) fn show(name: &str, html: &str) -> Option<(Self, PathBuf)> {
        let mut browser = Self::start(name, (1200, 700))?;
        let pid = std::process::id();
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{pid}-{name}.html"));
        std::fs::write(&file, html).expect("writable");
        browser.open_file(&file);
        Some((browser, file))
    }

    /// Opens an address, and waits until the page says (in its body's data) that it is `state`:
    /// `first` when the first picture stands, `ready` when all is read.
    pub(crate) fn open(&mut self, url: &str, state: &str) {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }));
        self.targets.push(target["targetId"].clone());
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", &target);
        self.session = Some(session["sessionId"].as_str().expect("attached").to_owned());
        self.call("Network.enable", &json!({}));
        // Keys reach only what has the focus.
        self.call("Emulation.setFocusEmulationEnabled", &json!({ "enabled": true }));
        self.requests.clear();
        self.call("Page.navigate", &json!({ "url": url }));
        self.wait(state);
    }

    /// Opens a file.
    pub(crate) fn open_file(&mut self, file: &Path) {
        self.open(&format!("file://{}", file.display()), "ready");
    }

    fn wait(&mut self, state: &str) {
        for _ in 0..1_200 {
            let there = self.evaluate(&format!("document.body?.dataset.{state} ?? ''"));
            if there.as_str().is_some_and(|text| !text.is_empty()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let said = self.evaluate("document.getElementById('chosen')?.textContent ?? ''");
        panic!("the page did not come up within a minute: {said}");
    }

    /// What a script comes to; it may be a promise.
    pub(crate) fn evaluate(&mut self, script: &str) -> Value {
        let call = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let mut result = self.call("Runtime.evaluate", &call);
        assert!(result["exceptionDetails"].is_null(), "{result:#}");
        result["result"]["value"].take()
    }

    /// The text of the element with this id.
    pub(crate) fn text(&mut self, id: &str) -> String {
        let said = self.evaluate(&format!("document.getElementById('{id}').textContent"));
        said.as_str().unwrap_or_default().to_owned()
    }

    /// Fingers on the glass: `touchStart`, `touchMove` or `touchEnd`, and where they are.
    pub(crate) fn touch(&mut self, kind: &str, fingers: &[(f64, f64)]) {
        let points = fingers.iter().enumerate();
        let points: Vec<Value> =
            points.map(|(id, (x, y))| json!({ "x": x, "y": y, "id": id })).collect();
        self.call("Input.dispatchTouchEvent", &json!({ "type": kind, "touchPoints": points }));
    }

    /// The mouse: `mousePressed`, `mouseMoved` or `mouseReleased` with its left button down, and
    /// whether Shift is held.
    pub(crate) fn mouse(&mut self, kind: &str, (x, y): (f64, f64), shift: bool) {
        let modifiers = if shift { 8 } else { 0 };
        let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": 1,
            "clickCount": 1, "modifiers": modifiers });
        self.call("Input.dispatchMouseEvent", &event);
    }

    /// From a place to another with the button down.
    pub(crate) fn drag(&mut self, from: (f64, f64), to: (f64, f64), shift: bool) {
        self.mouse("mousePressed", from, shift);
        for step in 1..=4 {
            let part = f64::from(step) / 4.0;
            let between = |a: f64, b: f64| a + (b - a) * part;
            self.mouse("mouseMoved", (between(from.0, to.0), between(from.1, to.1)), shift);
        }
        self.mouse("mouseReleased", to, shift);
    }

    /// A key pressed and let go, as a keyboard sends it.
    pub(crate) fn key(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        let down = json!({ "type": "keyDown", "key": key, "text": text });
        self.call("Input.dispatchKeyEvent", &down);
        self.call("Input.dispatchKeyEvent", &json!({ "type": "keyUp", "key": key }));
    }

    /// A command of the debugging protocol.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        let process = self.process.as_mut().expect("it goes with the last call");
        process.calls += 1;
        let mut message = json!({ "id": process.calls, "method": method, "params": parameters });
        if let Some(session) = &self.session
            && !method.starts_with("Target.")
        {
            message["sessionId"] = json!(session);
        }
        process.to.write_all(format!("{message}\0").as_bytes()).expect("the browser listens");
        process.to.flush().expect("the browser listens");
        loop {
            let mut answer = Vec::new();
            let count = process.from.read_until(0, &mut answer).expect("the browser answers");
            assert!(count > 0, "the browser went away");
            answer.pop();
            let mut answer: Value = serde_json::from_slice(&answer).expect("it speaks JSON");
            if answer["method"] == "Network.requestWillBeSent" {
                let url = answer["params"]["request"]["url"].as_str().unwrap_or_default();
                self.requests.push(url.to_owned());
            }
            if answer["id"] == json!(process.calls) {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }
}

impl Process {
    fn start(name: &str, purpose: &str, size: (u32, u32)) -> Self {
        let pid = std::process::id();
        let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let profile = own.join(format!("browser-{pid}-{purpose}"));
        std::fs::create_dir_all(&profile).expect("writable");
        let profile = profile.display();
        let (width, height) = size;
        let line = format!(
            "{name} {FLAGS} --window-size={width},{height} --user-data-dir='{profile}' \
             --remote-debugging-pipe 3<&0 4>&1 2>/dev/null; rm -rf '{profile}'"
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().expect("there is a shell");
        let to = shell.stdin.take().expect("piped");
        let from = BufReader::new(shell.stdout.take().expect("piped"));
        Self { shell, to, from, calls: 0, size }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // One that a test failed with may not answer.
        if !std::thread::panicking() {
            for target in std::mem::take(&mut self.targets) {
                self.call("Target.closeTarget", &json!({ "targetId": target }));
            }
            IDLE.lock().expect("no test holds it for long").extend(self.process.take());
        }
    }
}
