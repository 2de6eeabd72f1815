//! What the interactive page says on hover equals what `schedlab trace` says of the same file: headless
//! Chromium opens the page, the pointer goes over every slice, and the numbers are added up.

use crate::browser::Browser;
use schedlab_trace::dat::Header;
use schedlab_trace::synthetic::{Plan, Synthetic};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Goes over every slice, reads the tip as a person would, and adds up by task and by CPU.
const DRIVER: &str = r#"
(() => {
  const p = window.schedlabPage, tip = document.getElementById("tip"), canvas = p.canvas, box = canvas.getBoundingClientRect();
  const tasks = {}, cpus = {}, odd = [];
  p.trace.rows.forEach((row, r) => {
    for (let i = 0; i < row.start.length; i++) {
      const length = row.end[i] - row.start[i];
      [p.view.from, p.view.to] = [row.start[i] - length, row.end[i] + length];
      const { rows, rowHeight } = p.painter.layout(p.view);
      canvas.dispatchEvent(new PointerEvent("pointermove", { pointerId: 1, clientX: box.left + rows.left + rows.width / 2,
        clientY: box.top + rows.top + (r + 0.5) * rowHeight }));
      const text = tip.textContent;
      if (text.startsWith("unknown")) continue;
      const said = /^(.*):(-?\d+) on CPU (\d+)\nran [^(]*\((\d+) ns\)(?:.*\nwaited [^(]*\((\d+) ns\))?/.exec(text);
      if (!said) { odd.push(text); continue; }
      const [, name, pid, cpu, ran, waited] = said;
      const task = tasks[pid] ??= { comm: name, ran: 0, waited: 0, longest: 0, slices: 0 };
      task.ran += Number(ran);
      task.slices++;
      task.waited += Number(waited ?? 0);
      task.longest = Math.max(task.longest, Number(waited ?? 0));
      cpus[cpu] = (cpus[cpu] ?? 0) + Number(ran);
    }
  });
  return { tasks, cpus, odd, episodes: document.getElementById("episode-count").textContent };
})()
"#;

/// What `schedlab trace QUESTION FILE --json` says.
fn trace(question: &str, file: &Path) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    let output = command.args(["trace", question, "--json"]).arg(file).output().expect("starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("stdout is JSON")
}

/// What the page of the file says, slice by slice.
fn hovered(browser: &mut Browser, folder: &Path, file: &Path) -> Value {
    let page = folder.join("page.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    let done = command.arg("view").arg(file).arg("-o").arg(&page).status().expect("starts");
    assert!(done.success());
    browser.open_file(&page);
    browser.evaluate(DRIVER)
}

#[test]
fn every_number_on_hover_equals_that_of_schedlab_trace() {
    let Some(mut browser) = Browser::start("numbers", (1200, 700)) else { return };
    let folder = tempfile::tempdir().expect("writable");
    let file = folder.path().join("x.dat");
    let plan = Plan { cpus: 4, tasks_per_cpu: 3, events: 3_000, seed: 7 };
    Synthetic::new(plan).write(&file, Header::default()).expect("writable");
    let page = hovered(&mut browser, folder.path(), &file);
    assert_eq!(page["odd"], serde_json::json!([]), "each tip is understood");

    let tasks = trace("tasks", &file);
    let tasks = tasks["tasks"].as_array().expect("a list");
    let ran: Vec<&Value> = tasks.iter().filter(|task| task["run_ns"] != 0).collect();
    assert!(ran.len() > 8, "a trace worth comparing");
    assert_eq!(page["tasks"].as_object().map(serde_json::Map::len), Some(ran.len()));
    for task in ran {
        let said = &page["tasks"][task["pid"].to_string()];
        assert_eq!(said["comm"], task["comm"]);
        assert_eq!(said["ran"], task["run_ns"], "pid {}", task["pid"]);
    }

    let latency = trace("latency", &file);
    let waited = latency["tasks"].as_array().expect("a list");
    assert!(waited.len() > 8, "a trace worth comparing");
    // The page shows waits that have not ended apart.
    let ended = |task: &&Value| task["unfinished"] == 0 && task["run_delay"]["count"] != 0;
    let waited: Vec<&Value> = waited.iter().filter(ended).collect();
    assert!(waited.len() > 4, "a trace worth comparing");
    for task in waited {
        let (said, delay) = (&page["tasks"][task["pid"].to_string()], &task["run_delay"]);
        assert_eq!(said["waited"], delay["latency_ns_sum"], "pid {}", task["pid"]);
        assert_eq!(said["longest"], delay["latency_ns_max"], "pid {}", task["pid"]);
    }

    for cpu in trace("cpus", &file)["cpus"].as_array().expect("a list") {
        assert_eq!(page["cpus"][cpu["cpu"].to_string()], cpu["busy_ns"], "CPU {}", cpu["cpu"]);
    }
    let count = trace("conservation", &file)["count"].clone();
    let said = page["episodes"].as_str().unwrap_or_default();
    assert!(said.contains(&format!("lost CPU time: {count}")), "{said}; {count}");
}

/// Points at each tracepoint of the first row, then goes to them by the key, and reads what is said.
const POINTER: &str = r#"
(() => {
  const p = window.schedlabPage, tip = document.getElementById("tip"), canvas = p.canvas, box = canvas.getBoundingClientRect();
  const row = p.trace.rows[0], tips = [], chosen = [];
  for (const time of row.points.time) {
    [p.view.from, p.view.to] = [time - 1000, time + 1000];
    const { rows, rowHeight } = p.painter.layout(p.view);
    canvas.dispatchEvent(new PointerEvent("pointermove", { pointerId: 1, clientX: box.left + rows.left + rows.width / 2,
      clientY: box.top + rows.top + 0.5 * rowHeight }));
    tips.push(tip.textContent);
  }
  [p.view.from, p.view.to] = [0, 1000];
  p.last = { time: -1, from: p.view.from, to: p.view.to };
  for (let i = 0; i < 2; i++) {
    document.dispatchEvent(new KeyboardEvent("keydown", { key: "k", bubbles: true }));
    chosen.push(document.getElementById("chosen").textContent);
  }
  return { tips, chosen, markup: tip.childElementCount + document.getElementById("chosen").childElementCount };
})()
"#;

#[test]
fn a_tracepoint_says_its_arguments_when_one_points_at_it() {
    let Some(mut browser) = Browser::start("arguments", (1200, 700)) else { return };
    let folder = tempfile::tempdir().expect("writable");
    let switch = |time: &str, prev: &str, next: &str| {
        format!(
            "<idle>-0 [000] {time}: sched_switch: {prev} prev_prio=120 prev_state=S ==> {next} next_prio=120\n"
        )
    };
    let idle = ("prev_comm=swapper prev_pid=0", "next_comm=swapper next_pid=0");
    let mut text = switch("1.000000", idle.0, "next_comm=disk next_pid=7");
    text += "disk-7 [000] 1.000010: irq_handler_entry: irq=42 name=<b>nvme</b>\n";
    text += "disk-7 [000] 1.000020: irq_handler_exit: irq=42 ret=handled\n";
    text += &switch("1.000100", "prev_comm=disk prev_pid=7", idle.1);
    let file = folder.path().join("x.txt");
    std::fs::write(&file, text).expect("writable");
    let page = folder.path().join("page.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    assert!(
        command.arg("view").arg(&file).arg("-o").arg(&page).status().expect("starts").success()
    );
    browser.open_file(&page);
    let said = browser.evaluate(POINTER);
    let entry = "irq_handler_entry at 0.010000 ms on CPU 0, disk:7\nirq=42 name=<b>nvme</b>";
    let exit = "irq_handler_exit at 0.020000 ms on CPU 0, disk:7\nirq=42 ret=handled";
    for (of, place) in [("tips", 0), ("chosen", 0)] {
        let text = said[of][place].as_str().unwrap_or_default();
        assert!(text.starts_with(entry), "{of}: {said:#}");
        let text = said[of][place + 1].as_str().unwrap_or_default();
        assert!(text.starts_with(exit), "{of}: {said:#}");
    }
    assert_eq!(said["markup"], 0, "arguments are text");
}

#[test]
fn the_page_has_frequencies_and_idle_states() {
    let folder = tempfile::tempdir().unwrap();
    let trace = "../schedlab-trace/tests/partial/perfetto_native_events.pb";
    let page = folder.path().join("x.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    let output = command.args(["view", trace, "-o"]).arg(&page).output().expect("starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("\"power\":{\"counts\":[[1,1]"), "a step and an interval");
}
