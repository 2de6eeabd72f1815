//! Flame graphs of time off the CPU on real recordings: their sums, who ended sleeps, and the change between two traces.

use crate::browser::Browser;
use crate::machines::{must, run as schedlab};
use crate::record_request::compiled;
use crate::user_stacks::app;
use crate::vm_fake::stderr;
use crate::why_live::is_root;
use schedlab_timeline::WaitCause;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Records a command with stacks into FILE; `None` where the right is missing.
fn recorded(dir: &Path, file: &str, stacks: &str, command: &str) -> Option<()> {
    let options = ["record", "-o", file, "--for", "scheduling", "--stacks", stacks];
    let output = schedlab(dir, &[&options[..], &["--", "sh", "-c", command]].concat());
    let said = stderr(&output);
    if said.contains("CAP_PERFMON") || said.contains("CAP_SYS_ADMIN") {
        missing!("the right to record all tasks: flame graphs were not checked");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(())
}

fn json(dir: &Path, arguments: &[&str]) -> Value {
    let output = schedlab(dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn sum(document: &Value, rows: &str, columns: &[&str]) -> u64 {
    let rows = document[rows].as_array().expect("rows are an array");
    let of = |row: &Value| columns.iter().filter_map(|name| row[*name].as_u64()).sum::<u64>();
    rows.iter().map(of).sum()
}

/// Sleeps of a program's threads and children, of a shell, and of programs that it waits for.
fn load(name: &str) -> String {
    format!("./{name}; for i in 1 2 3 4 5 6; do sleep 0.05; done; ./{name}")
}

#[test]
fn a_flame_graph_is_all_the_time_off_the_cpu_and_next_to_none_of_it_has_no_stack() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    if app(dir.path(), "app-sum").is_none() {
        return;
    }
    for stacks in ["user,kernel", "kernel"] {
        if recorded(dir.path(), "x.dat", stacks, &load("app-sum")).is_none() {
            return;
        }
        let names = ["--comm", "app-sum"];
        let ask = |what: &str| {
            json(dir.path(), &[&["trace", what, "x.dat", "--json"], &names[..]].concat())
        };
        let (stacks, tasks) = (ask("stacks"), ask("tasks"));
        let asleep = ["sleep_ns", "uninterruptible_ns", "stopped_ns"];
        let by_task = sum(&tasks, "tasks", &asleep);
        let by_stack = sum(&stacks, "stacks", &["off_cpu_ns"]);
        assert!(by_task > 0 && by_stack.abs_diff(by_task) * 100 <= by_task, "{by_stack} {by_task}");
        // All of these tasks began while they were recorded.
        let both = ["off_cpu_ns", "run_delay_ns"];
        let rows = stacks["stacks"].as_array().expect("rows").iter();
        let bare: Vec<Value> = rows.filter(|row| row["stack"].is_null()).cloned().collect();
        let whole = sum(&stacks, "stacks", &both);
        let bare = sum(&serde_json::json!({ "stacks": bare }), "stacks", &both);
        assert!(bare * 20 <= whole, "{bare} ns of {whole} ns have no stack");
        let told = ["trace", "stacks", "x.dat", "--wakers", "--json"];
        let wakers = json(dir.path(), &[&told[..], &names].concat());
        assert_eq!(sum(&wakers, "stacks", &both), whole, "who ended a sleep does not change it");
        let ask = [&["trace", "stacks", "x.dat", "--folded"], &names[..]].concat();
        let folded = String::from_utf8(schedlab(dir.path(), &ask).stdout).expect("names are UTF-8");
        let micros = |line: &str| line.rsplit_once(' ')?.1.parse::<u64>().ok();
        let in_text: u64 = folded.lines().filter_map(micros).sum();
        assert!(in_text.abs_diff(whole / 1_000) * 100 <= whole / 1_000, "{in_text} µs {whole} ns");
    }
}

/// Two shells that share a CPU displace each other; a child of each sleeps and is woken beside them.
const RIVALS: &str = "for n in 1 2; do taskset -c 0 sh -c 'for i in 1 2 3 4 5 6; do \
    j=0; while [ $j -lt 20000 ]; do j=$((j+1)); done; sleep 0.002; done' & done; wait";

#[test]
fn with_causes_a_flame_graph_is_all_blocking_and_waiting_and_each_wait_has_causes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    if recorded(dir.path(), "x.dat", "kernel", RIVALS).is_none() {
        return;
    }
    let ask = |what: &[&str]| json(dir.path(), &[&["trace"], what, &["x.dat", "--json"]].concat());
    let (stacks, tasks) = (ask(&["stacks", "--causes"]), ask(&["tasks"]));
    let both = ["off_cpu_ns", "run_delay_ns"];
    let whole = sum(&stacks, "stacks", &both);
    let of_tasks = ["sleep_ns", "uninterruptible_ns", "stopped_ns", "wait_ns"];
    let by_task = sum(&tasks, "tasks", &of_tasks);
    assert!(by_task > 0 && whole.abs_diff(by_task) * 100 <= by_task, "{whole} {by_task}");
    let rows = stacks["stacks"].as_array().expect("rows");
    let is_cause = |name: &str| name.ends_with("_ns") && !both.contains(&name);
    for row in rows {
        let causes = row.as_object().expect("a row").iter();
        let causes = causes.filter(|(name, _)| is_cause(name) && *name != "mostly_ns");
        let times: u64 = causes.filter_map(|(_, time)| time.as_u64()).sum();
        assert_eq!(Some(times), row["run_delay_ns"].as_u64(), "{row}");
    }
    let is_rival = |row: &&Value| row["comm"] == "sh" && row["began"] == "displaced";
    assert!(rows.iter().any(|row| is_rival(&row)), "the shells displace each other: {stacks}");
    // Without causes: the same sleeps, and no more.
    let plain = ask(&["stacks"]);
    let blocked = ["off_cpu_ns"];
    assert_eq!(sum(&plain, "stacks", &blocked), sum(&stacks, "stacks", &blocked));
    assert!(sum(&plain, "stacks", &both) < whole, "displaced tasks wait");
    let run = |what: &[&str]| schedlab(dir.path(), &[&["trace", "stacks", "x.dat"], what].concat());
    let text = String::from_utf8_lossy(&run(&["--causes", "--folded"]).stdout).into_owned();
    let micros = |line: &str| line.rsplit_once(' ')?.1.parse::<u64>().ok();
    let in_text: u64 = text.lines().filter_map(micros).sum();
    assert!(in_text.abs_diff(whole / 1_000) * 100 <= whole / 1_000, "{in_text} µs {whole} ns");
    assert!(text.contains("sh;[displaced];"), "{text}");
    // The change from a trace to itself is none, in causes neither.
    let less = run(&["--causes", "--minus", "x.dat", "--folded"]);
    let less = String::from_utf8_lossy(&less.stdout).into_owned();
    assert!(less.contains("sh;[displaced];"), "{less}");
    for line in less.lines() {
        let mut last = line.rsplit(' ');
        assert_eq!(last.next(), last.next(), "{line}");
    }
    must(dir.path(), &["draw", "flame", "x.dat", "--causes", "-o", "x.svg"]);
    let svg = std::fs::read_to_string(dir.path().join("x.svg")).expect("it was written");
    assert!(svg.contains("[displaced]: another task took its CPU"), "{svg}");
}

#[test]
fn who_ended_a_sleep_stands_on_it_with_the_stack_of_that_moment() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    if app(dir.path(), "app-wake").is_none() {
        return;
    }
    if recorded(dir.path(), "x.dat", "user,kernel,waker", &load("app-wake")).is_none() {
        return;
    }
    let ask = ["trace", "stacks", "x.dat", "--wakers", "--json", "--comm", "app-wake"];
    let document = json(dir.path(), &ask);
    let rows = document["stacks"].as_array().expect("rows");
    let of = |row: &Value, column: &str| row[column].as_str().unwrap_or_default().to_owned();
    let sleeps =
        |within: &'static str| rows.iter().filter(move |row| of(row, "stack").contains(within));
    // The child writes while its parent reads.
    let by_child = sleeps("<-hear<-main").any(|row| {
        of(row, "woken_by") == "app-wake" && of(row, "waker_stack").contains("<-tell<-main")
    });
    assert!(by_child, "{rows:?}");
    // A timer ends the others. Whom it interrupts is not told.
    let mut timers = sleeps("<-usleep<-leaf").peekable();
    assert!(timers.peek().is_some(), "{rows:?}");
    for row in timers {
        let (who, stack) = (of(row, "woken_by"), of(row, "waker_stack"));
        assert!(who != "an interrupt" || stack.is_empty(), "{row:?}");
        assert!(!who.starts_with("app-wake"), "{row:?}");
    }
    // Names go along where the target has room for them.
    for target in ["x.txt", "x.csv"] {
        must(dir.path(), &["trace", "convert", "x.dat", target]);
        let text = std::fs::read_to_string(dir.path().join(target)).expect("it was written");
        assert!(text.contains("<-leaf<-middle<-"), "{target} has no names");
    }
    let picture = ["draw", "flame", "x.dat", "--wakers", "--comm", "app-wake", "-o", "wakers.svg"];
    must(dir.path(), &picture);
    let svg = std::fs::read_to_string(dir.path().join("wakers.svg")).expect("it was written");
    assert!(svg.contains("woken by an interrupt"), "{svg}");
}

#[test]
fn the_change_between_traces_is_per_second_and_a_trace_less_itself_is_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    if app(dir.path(), "app-change").is_none() {
        return;
    }
    if recorded(dir.path(), "x.dat", "user,kernel", &load("app-change")).is_none() {
        return;
    }
    // Programs of others may be gone when the second of both is read.
    let base = ["trace", "stacks", "x.dat", "--minus", "x.dat", "--comm", "app-change"];
    let document = json(dir.path(), &[&base[..], &["--json"]].concat());
    let rows = document["stacks"].as_array().expect("rows");
    assert!(!rows.is_empty() && rows.iter().all(|row| row["ratio"] == 1.0), "{rows:?}");
    // Two whole numbers stand behind each stack.
    let output = schedlab(dir.path(), &[&base[..], &["--folded"]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut folded: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for line in text.lines() {
        let (rest, after) = line.rsplit_once(' ').expect("the second");
        let (frames, before) = rest.rsplit_once(' ').expect("the first");
        let number = |text: &str| text.parse::<u64>().expect("a whole number");
        folded.insert(frames, (number(before), number(after)));
    }
    assert!(!folded.is_empty() && folded.values().all(|(before, after)| before == after), "{text}");
    // Against a part of the same trace, times are those of a second of each.
    let whole = json(dir.path(), &["trace", "stacks", "x.dat", "--comm", "app-change", "--json"]);
    let length = whole["end_ns"].as_u64().unwrap() - whole["start_ns"].as_u64().unwrap();
    let per_second =
        sum(&whole, "stacks", &["off_cpu_ns", "run_delay_ns"]) as f64 * 1e9 / length as f64;
    let told = sum(&document, "stacks", &["after_ns_per_s"]) as f64;
    assert!((told - per_second).abs() <= per_second * 0.001, "{told} {per_second}");
    must(dir.path(), &["draw", "flame", "x.dat", "--minus", "x.dat", "-o", "change.svg"]);
    let svg = std::fs::read_to_string(dir.path().join("change.svg")).expect("it was written");
    assert!(svg.contains("0.8 to 1.25 times"), "{svg}");
    // The same beside each other on a page.
    must(dir.path(), &["view", "x.dat", "x.dat", "--comm", "app-change", "-o", "pair.html"]);
    let page = std::fs::read_to_string(dir.path().join("pair.html")).expect("it was written");
    let change = page.split("<details id=\"flame\">").nth(1).expect("the change by stack");
    let drawn = change.split("</details>").next().unwrap_or_default();
    assert_eq!(drawn.matches("<svg ").count(), 2, "in both themes");
    assert!(drawn.contains("from x.dat to x.dat") && drawn.contains("sleep"), "{drawn}");
    let refused = schedlab(dir.path(), &[&base[..], &["--pprof", "x.pb.gz"]].concat());
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn the_page_shows_the_time_off_the_cpu_of_all_and_of_the_chosen_task() {
    let Some(mut browser) = Browser::start("flame", (1200, 700)) else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    if app(dir.path(), "app-page").is_none() {
        return;
    }
    if recorded(dir.path(), "x.dat", "user,kernel", &load("app-page")).is_none() {
        return;
    }
    must(dir.path(), &["view", "x.dat", "-o", "x.html"]);
    browser.open_file(&dir.path().join("x.html"));
    let whole = json(dir.path(), &["trace", "stacks", "x.dat", "--json"]);
    let of_app = |row: &&Value| row["comm"] == "app-page";
    let rows: Vec<Value> = whole["stacks"].as_array().expect("rows").clone();
    let app: Vec<Value> = rows.iter().filter(of_app).cloned().collect();
    let columns = ["off_cpu_ns", "run_delay_ns"];
    let times =
        [rows, app].map(|rows| sum(&serde_json::json!({ "stacks": rows }), "stacks", &columns));
    // Of all tasks, then of those of the program, each chosen in turn, in the whole trace.
    let told = browser.evaluate(
        r##"(async () => {
          const p = window.schedlabPage, into = document.getElementById("flame");
          document.getElementById("flame-button").click();
          [p.view.from, p.view.to, p.view.measure] = [0, p.trace.span, null];
          const shown = (task) => {
            [p.view.task, p.view.row, p.view.slice] = [task, -1, -1];
            p.flame();
            const boxes = [...into.querySelectorAll(".boxes div")];
            return { title: into.querySelector("p").textContent, names: boxes.map((box) => box.textContent) };
          };
          const { sleeps: { task }, blocked, waited } = p.stacks, time = (only) => task.reduce((sum, of, i) => sum + (only(of) ? blocked[i] + waited[i] : 0), 0);
          const isApp = (of) => p.trace.head.tasks[of][1] === "app-page", one = task.find(isApp);
          return { all: shown(-1), one: shown(one), times: [time(() => true), time(isApp)] };
        })()"##,
    );
    let names = |of: &str| -> Vec<String> {
        serde_json::from_value(told[of]["names"].clone()).expect("names of boxes")
    };
    assert_eq!(told["times"], serde_json::json!(times), "{told}");
    let (all, one) = (names("all"), names("one"));
    assert!(all.iter().any(|name| name == "app-page") && all.iter().any(|name| name == "sleep"));
    assert_eq!(one.first().map(String::as_str), Some("app-page"), "{one:?}");
    assert!(one.iter().all(|name| name != "sleep") && one.len() > 3, "{one:?}");
    assert!(all.iter().all(|name| !name.starts_with("woken by ")), "nobody asked for wakers");
    // Who ended the sleeps, as the command tells it, and hidden again.
    let told = browser.evaluate(
        r##"(() => {
          const p = window.schedlabPage, into = document.getElementById("flame");
          [p.view.task, p.view.row, p.view.slice] = [-1, -1, -1];
          p.flame();
          const time = document.getElementById("flame-time");
          const turn = (to) => { time.value = to; time.dispatchEvent(new Event("change")); };
          const boxes = () => [...into.querySelectorAll(".boxes div")].map((box) => ({ name: box.textContent, kind: box.className, title: box.title }));
          turn("wakers");
          const shown = boxes();
          turn("off");
          return { shown, hidden: boxes().length };
        })()"##,
    );
    let shown = told["shown"].as_array().expect("boxes");
    let wakers = json(dir.path(), &["trace", "stacks", "x.dat", "--wakers", "--json"]);
    let by: BTreeMap<String, u64> =
        wakers["stacks"].as_array().expect("rows").iter().fold(BTreeMap::new(), |mut by, row| {
            let name = format!("woken by {}", row["woken_by"].as_str().unwrap_or_default());
            *by.entry(name).or_default() += row["off_cpu_ns"].as_u64().unwrap_or_default();
            by
        });
    let is_waker =
        |of: &&Value| of["name"].as_str().is_some_and(|name| name.starts_with("woken by "));
    let found: Vec<&Value> = shown.iter().filter(is_waker).collect();
    assert!(!found.is_empty(), "{told}");
    for of in found {
        assert_eq!(of["kind"], "waker", "{of}");
        let name = of["name"].as_str().unwrap_or_default();
        assert!(by.get(name).is_some_and(|time| *time > 0), "{name}: {by:?}");
    }
    for name in ["woken by an interrupt", "woken by sleep"] {
        assert!(shown.iter().any(|of| of["name"] == name), "{name}: {told}");
    }
    assert_eq!(told["hidden"].as_u64(), Some(all.len() as u64), "{told}");
    // Under other names nothing is told of programs.
    must(dir.path(), &["view", "x.dat", "-o", "other.html", "--anonymise"]);
    browser.open_file(&dir.path().join("other.html"));
    assert_eq!(browser.evaluate("document.getElementById('flame-button').hidden"), true);
}

#[test]
fn the_page_shows_causes_running_tasks_and_requests_as_the_commands_count_them() {
    let Some(mut browser) = Browser::start("flame-causes", (1200, 700)) else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(app) = compiled(dir.path(), "record_request/app.c") else { return };
    let app = app.to_str().expect("a path of letters");
    let requests = [format!("{app}:work"), format!("{app}:order_begin($arg1)..order_end($arg1)")];
    let spin = "j=0; while [ $j -lt 300000 ]; do j=$((j+1)); done";
    let beside = format!("taskset -c 0 sh -c '{spin}' & taskset -c 0 {app} sleep; wait");
    let mut options = vec!["record", "-o", "x.dat", "--stacks", "user,kernel,running"];
    options.extend(requests.iter().flat_map(|request| ["--request", request]));
    options.extend(["--", "sh", "-c", &beside]);
    let output = schedlab(dir.path(), &options);
    if !output.status.success() && !is_root() {
        missing!("root: requests and stacks together were not checked");
        return;
    }
    assert!(output.status.success(), "{}", stderr(&output));
    must(dir.path(), &["view", "x.dat", "-o", "x.html"]);
    browser.open_file(&dir.path().join("x.html"));
    let told = browser.evaluate(
        r##"(() => {
          const p = window.schedlabPage, { trace } = p, ask = (id, value) => {
            const select = document.getElementById(id);
            select.value = value;
            select.dispatchEvent(new Event("change"));
          };
          document.getElementById("flame-button").click();
          Object.assign(p.view, { from: 0, to: trace.span, measure: null, task: -1, row: -1, slice: -1 });
          const causes = (frame, sums = {}) => {
            if (frame.kind === "cause") sums[frame.name] = (sums[frame.name] ?? 0) + frame.time;
            for (const one of frame.called.values()) causes(one, sums);
            return sums;
          };
          const within = [...document.getElementById("flame-requests").options].map(({ value, textContent }) => [value, textContent]);
          const found = [];
          for (const [value, label] of within) for (const time of ["off", "causes", "running"]) {
            ask("flame-requests", value);
            ask("flame-time", time);
            const root = p.flame(), title = document.getElementById("flame-title").textContent;
            found.push({ label, time, whole: root.time, ticks: root.ticks, causes: causes(root), title });
          }
          p.view.rows = "request";
          p.changed();
          const { lanes } = p.painter.lanes, names = trace.head.points.names, { start, end, name } = trace.requests;
          const lengths = {}, rows = {};
          name.forEach((of, i) => (lengths[names[of]] ??= []).push(end[i] - start[i]));
          for (const lane of lanes) rows[lane.name.replace(/ \d+$/, "")] = (rows[lane.name.replace(/ \d+$/, "")] ?? 0) + lane.requests.length;
          return { found, lengths, rows, kinds: [...document.getElementById("kind").options].filter(({ disabled }) => !disabled).map(({ value }) => value) };
        })()"##,
    );
    let found = told["found"].as_array().expect("pictures");
    assert_eq!(found.len(), 3 * 5, "all time, two names, and the slowest of each: {told}");
    assert!(told["kinds"].as_array().expect("kinds").contains(&"request".into()), "{told}");
    let mut causes_met = 0;
    for picture in found {
        let text = |key: &str| picture[key].as_str().expect("a text");
        let mut ask = vec!["trace", "stacks", "x.dat", "--json"];
        let label = text("label");
        let name = label.split('\'').nth(1);
        ask.extend(name.iter().flat_map(|name| ["--mark", *name]));
        ask.extend(label.contains("slowest").then_some("--slowest"));
        match text("time") {
            "causes" => ask.push("--causes"),
            "running" => ask.push("--running"),
            _ => {}
        }
        let command = json(dir.path(), &ask);
        let whole = sum(&command, "stacks", &["off_cpu_ns", "run_delay_ns", "run_ns"]);
        assert_eq!(picture["whole"].as_u64(), Some(whole), "{ask:?} {picture}");
        if text("time") == "running" {
            assert_eq!(picture["ticks"].as_u64(), Some(sum(&command, "stacks", &["ticks"])));
        }
        if text("time") == "causes" {
            causes_met += same_causes(&picture["causes"], &command);
        }
    }
    assert!(causes_met > 2, "{told}");
    for name in ["work", "order_begin..order_end"] {
        let mark = told["lengths"].as_object().expect("names").keys().find(|of| of.contains(name));
        let mark = mark.unwrap_or_else(|| panic!("{name}: {told}"));
        let why = json(dir.path(), &["trace", "why", "x.dat", "--mark", mark, "--json"]);
        let lengths = told["lengths"][mark].as_array().expect("lengths");
        assert_eq!(Some(lengths.len() as u64), why["requests"].as_u64(), "{mark}");
        assert_eq!(told["rows"][mark].as_u64(), why["requests"].as_u64(), "{mark}");
    }
}

/// Compares the causes that a page shows with those of the command; gives how many there are.
fn same_causes(shown: &Value, command: &Value) -> usize {
    let shown: BTreeMap<String, u64> = serde_json::from_value(shown.clone()).expect("times");
    let of_command = WaitCause::ALL.iter().map(|cause| {
        let column = format!("{}_ns", cause.name());
        (cause.title().to_owned(), sum(command, "stacks", &[&column]))
    });
    let told: BTreeMap<String, u64> = of_command.filter(|(_, time)| *time > 0).collect();
    // Where switches were not logged, some waits end without a slice on the page.
    if !command["warnings"].to_string().contains("events-contradict") {
        assert_eq!(shown, told);
    }
    for (cause, time) in &told {
        let of_page = shown.get(cause).copied().unwrap_or_default();
        let is_near = of_page.abs_diff(*time) * 20 <= told.values().sum();
        assert!(is_near, "{cause}: {of_page} of {time} ns, {shown:?} {told:?}");
    }
    shown.len()
}
