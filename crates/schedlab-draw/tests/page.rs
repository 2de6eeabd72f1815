//! The interactive page in a real browser: headless Chromium opens it from disk, a driver acts as a
//! person would (`tests/driver.js`), and what the page shows is compared with the timeline.
#![expect(clippy::print_stderr, reason = "what is missing must be said aloud")]

use schedlab_draw::page::{Columns, Note, page};
use schedlab_model::{Nanos, Span};
use schedlab_timeline::{ask, notation, span_of};
use std::path::Path;
use std::process::Command;

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The first browser that starts; `None`, said aloud, where there is none. In CI that is a failure.
fn browser() -> Option<&'static str> {
    let found = BROWSERS.into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        eprintln!(
            "MISSING: chromium: the page was not tested in a browser (apt-get install chromium)"
        );
        assert!(std::env::var_os("CI").is_none(), "CI must have chromium");
    }
    found
}

/// Two CPUs; `B` waits 3 µs for `A`, and moves.
const TRACE: &str = "
    0 | AAAABBBB..AAAA..
      |  bbb
    1 | ..CC....BBBB..CC
    at 1: A wakes B
    A is called <img src=x>
    B is called b&\"b";

fn html() -> (String, Span) {
    let trace = notation::parse(TRACE).expect("sound notation");
    let span = span_of(&mut trace.source()).expect("in memory");
    let reply = ask(&mut trace.source(), Columns::new(span)).expect("in memory");
    let at = |us: u64| span.start + Nanos(us * 1_000);
    let note = Note {
        span: Span::new(at(4), at(5)),
        cpu: 1,
        text: "CPU 1 idle while b waits <on> 0".into(),
    };
    (page("a <test>.dat", &reply.answer, None, &[note], 3), span)
}

/// What the driver wrote down after opening the page.
fn drive(browser: &str, html: &str, name: &str) -> serde_json::Value {
    let directory =
        std::env::temp_dir().join(format!("schedlab-page-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("writable");
    let file = directory.join("page.html");
    let driver = include_str!("driver.js");
    let html =
        html.replace("</body>", &format!("<script type=\"module\">{driver}</script></body>"));
    std::fs::write(&file, html).expect("writable");
    // Virtual time does not wait for the threads that unpack the data: on a busy machine it can be
    // over before the page is there, and nothing was written. What was written is judged once.
    let mut said = String::new();
    let result = (0..5).find_map(|_| {
        let output = run(browser, &directory, &file);
        let dom = String::from_utf8_lossy(&output.stdout);
        said = format!("{}\n{dom}", String::from_utf8_lossy(&output.stderr));
        let (_, rest) = dom.split_once("<pre id=\"result\">")?;
        rest.split_once("</pre>").map(|(result, _)| result.to_owned())
    });
    std::fs::remove_dir_all(&directory).expect("ours");
    let Some(result) = result else { panic!("the driver wrote nothing:\n{said}") };
    let text = result.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&text).expect("the driver writes JSON")
}

fn run(browser: &str, profile: &Path, file: &Path) -> std::process::Output {
    Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--window-size=1200,700", "--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("it said its version")
}

#[test]
fn a_person_finds_their_way_in_a_real_browser() {
    let Some(browser) = browser() else { return };
    let (html, span) = html();
    let result = drive(browser, &html, "person");
    assert!(result["error"].is_null(), "{result:#}");
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
    assert_eq!(result["scripts"], 3, "head, script and driver: no name became markup");
    assert!(span.duration().0 > 0);
    eprintln!("mean frame {} ms, ready after {} ms", result["frameMs"], result["ready"]);
}
