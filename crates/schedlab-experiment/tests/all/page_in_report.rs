//! The interactive page inside of a report, in a real browser: headless Chromium opens the report from
//! disk, the page in its frame draws, and nothing is asked for from outside.

use crate::browser::Browser;
use schedlab_draw::{base64, page};
use schedlab_experiment::report::{Report, TracePictures, trace_section};
use schedlab_trace::dat::Header;
use schedlab_trace::synthetic::{Plan, Synthetic};
use sha2::{Digest as _, Sha256};
use std::path::Path;

/// Runs in the frame: says what the page shows. It can reach the report by messages alone.
const INSIDE: &str = r##"
(async () => {
  while (!document.body.dataset.ready) await new Promise((done) => setTimeout(done, 20));
  await new Promise((done) => setTimeout(done, 200));
  const page = window.schedlabPage, trace = page.trace, row = trace.rows[0], slice = row.start.findIndex((_, i) => row.task[i] > 0);
  const length = row.end[slice] - row.start[slice];
  page.go(0, slice);
  [page.view.from, page.view.to] = [row.start[slice] - length, row.end[slice] + length];
  page.now();
  const canvas = document.getElementById("rows"), ratio = canvas.width / canvas.clientWidth;
  const { rows, rowHeight } = page.painter.layout(page.view);
  const time = row.start[slice] + 0.4 * length;
  const x = rows.left + ((time - page.view.from) / (page.view.to - page.view.from)) * rows.width, y = rows.top + rowHeight * 0.8;
  const colour = [...canvas.getContext("2d").getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data].slice(0, 3).join();
  const wanted = [16, 8, 0].map((shift) => (trace.colours[row.task[slice]] >> shift) & 255).join();
  parent.postMessage({ cpus: trace.rows.length, width: canvas.width, colour, wanted, chosen: document.getElementById("chosen").textContent,
    requests: performance.getEntriesByType("resource").length,
    origin: self.origin, broken: document.getElementById("chosen").textContent.includes("could not") }, "*");
})();
"##;

/// Runs in the report: opens what is closed; what the frame said stands in the body's data.
const OUTSIDE: &str = r#"
const frames = document.querySelectorAll("iframe");
addEventListener("message", (event) => {
  document.body.dataset.said = JSON.stringify({ ...event.data, frames: frames.length,
    outer: performance.getEntriesByType("resource").length });
});
for (const details of document.querySelectorAll("details")) details.open = true;
frames[0]?.scrollIntoView();
"#;

fn hash(script: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(script)))
}

/// The report of a small trace.
fn report(folder: &Path, events: u64) -> String {
    let trace = folder.join("a trace.dat");
    let plan = Plan { cpus: 4, tasks_per_cpu: 3, events, seed: 3 };
    Synthetic::new(plan).write(&trace, Header::default()).expect("writable");
    let mut report = Report::new("one run");
    report.add(
        trace_section("what the scheduler did", &trace, TracePictures::of(&[])).expect("readable"),
    );
    report.html()
}

/// The report with both scripts in it, and a policy that allows them beside the page's own.
fn with_scripts(html: &str) -> String {
    let own = hash(&page::script());
    let more = format!("{own} {} {}", hash(INSIDE), hash(OUTSIDE));
    let escaped = INSIDE.replace('&', "&amp;").replace('"', "&quot;").replace('\'', "&#39;");
    let escaped = escaped.replace('<', "&lt;").replace('>', "&gt;");
    let inside = format!("&lt;script type=&quot;module&quot;&gt;{escaped}&lt;/script&gt;");
    assert_eq!(html.matches(&own).count(), 1, "the policy names the script");
    html.replace(&own, &more)
        .replace("&lt;/body&gt;", &format!("{inside}&lt;/body&gt;"))
        .replace("</body>", &format!("<script>{OUTSIDE}</script></body>"))
}

#[test]
fn the_page_in_a_report_draws_and_asks_for_nothing() {
    let Some(mut browser) = Browser::start("report", (1200, 900)) else { return };
    let folder = tempfile::tempdir().expect("writable");
    let html = with_scripts(&report(folder.path(), 4_000));
    let file = folder.path().join("report.html");
    std::fs::write(&file, html).expect("writable");
    browser.open(&format!("file://{}", file.display()), "said");
    let said = browser.evaluate("JSON.parse(document.body.dataset.said)");
    assert_eq!(said["cpus"], 4, "{said:#}");
    assert_eq!(said["colour"], said["wanted"], "a slice has its task's colour: {said:#}");
    assert!(said["width"].as_u64() > Some(500), "{said:#}");
    assert!(said["chosen"].as_str().is_some_and(|text| text.contains("on CPU 0")), "{said:#}");
    assert_eq!(said["requests"], 0, "nothing leaves the page");
    assert_eq!(said["outer"], 0, "nothing leaves the report");
    assert_eq!(said["origin"], "null", "the frame cannot reach the report");
    assert_eq!(said["frames"], 1);
}

#[test]
fn a_page_that_would_be_large_is_left_out_and_the_command_is_told() {
    let folder = tempfile::tempdir().expect("writable");
    let html = report(folder.path(), 1_000_000);
    assert!(!html.contains("<iframe") && !html.contains("script-src"));
    assert!(html.contains("schedlab view &#39;") && html.contains("/a trace.dat&#39;"), "quoted");
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
}

#[test]
fn a_report_without_a_page_allows_no_script() {
    assert!(!Report::new("t").html().contains("script-src"));
}
