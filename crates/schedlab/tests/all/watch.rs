//! `schedlab watch`: its windows are what a trace of the same events says, and its conditions decide the exit code.

use crate::machines::cluster::ports;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn schedlab() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether this machine lets us read the scheduler's events.
pub(crate) fn may_watch() -> bool {
    let output = schedlab().args(["doctor", "--json"]).output().expect("the built command starts");
    let doctor: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = doctor["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == "record").expect("a check of record");
    if check["verdict"] != "yes" {
        missing!("watch: {}", check["found"]);
    }
    check["verdict"] == "yes"
}

/// Processes that come and go, sleep, and want more CPUs than there are.
const BUSY: &str = "for i in 1 2 3 4; do (while :; do sleep 0.004; /bin/true; done) & done; \
                    for i in 1 2; do (while :; do :; done) & done";

/// Watches while such processes live.
fn watch(dir: &Path, options: &[&str]) -> Output {
    watch_beside(BUSY, dir, options)
}

/// Watches while a load of bash runs: jobs, which end with it.
fn watch_beside(load: &str, dir: &Path, options: &[&str]) -> Output {
    crate::machine_lock::share();
    let script = format!(
        "{{ {load}\n}} >/dev/null 2>&1; \"$@\"; code=$?; \
         kill $(jobs -p) 2>/dev/null; wait 2>/dev/null; exit $code"
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script, "watch", env!("CARGO_BIN_EXE_schedlab"), "watch"]).args(options);
    command.current_dir(dir).stdin(Stdio::null()).output().expect("bash starts")
}

fn lines(output: &Output) -> Vec<Value> {
    let all = text(&output.stdout);
    all.lines().map(|line| plain(serde_json::from_str(line).expect("an object a line"))).collect()
}

/// What the kept trace says of a window.
fn of_file(dir: &Path, words: &[&str], window: &Value) -> Value {
    plain(of_trace("x.dat", dir, words, window))
}

/// What a trace says of a window.
fn of_trace(file: &str, dir: &Path, words: &[&str], window: &Value) -> Value {
    let origin: u64 = window["origin_ns"].as_str().expect("a text").parse().expect("a number");
    let at = |key: &str| {
        let time = origin + window[key].as_u64().expect("a time");
        format!("@{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)
    };
    let (from, to) = (at("start_ns"), at("end_ns"));
    let mut command = schedlab();
    command.args(words).args([file, "--json", "--from", &from, "--to", &to]).current_dir(dir);
    let output = command.output().expect("the built command starts");
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Without what says how exact a figure is: a window says that of itself, and a part of a file of the whole file.
fn plain(value: Value) -> Value {
    match value {
        Value::Array(all) => all.into_iter().map(plain).collect(),
        Value::Object(all) => {
            let figures = all.into_iter().filter(|(key, _)| !key.ends_with("_bound"));
            figures.map(|(key, value)| (key, plain(value))).collect()
        }
        other => other,
    }
}

/// Rows by pid.
fn by_pid<'a>(rows: &'a Value, keys: &[&str]) -> Vec<(i64, Vec<&'a Value>)> {
    let rows = rows.as_array().expect("rows").iter();
    let told = |row: &'a Value| {
        let figures: Vec<&Value> =
            keys.iter().map(|key| row.pointer(key).expect("a figure")).collect();
        (row["pid"].as_i64().expect("a pid"), figures)
    };
    let mut all: Vec<_> = rows.map(told).collect();
    all.sort_by_key(|(pid, figures)| {
        (*pid, figures.iter().map(ToString::to_string).collect::<Vec<_>>())
    });
    all
}

/// To the nanosecond and the bucket. Reading the kernel's formats anew, another merge and one pass over a file.
fn agree(via: &str, load: &str, (count, waits_min): (usize, u64)) {
    let time = format!("{}ms", 400 * count);
    let dir = tempfile::tempdir().unwrap();
    let options = [
        "--time",
        &time,
        "--interval",
        "400ms",
        "--json",
        "--histogram",
        "--top",
        "0",
        "--by",
        "task",
    ];
    let more = ["--keep", "x.dat", "--via", via, "--ring", "64MiB"];
    let output = watch_beside(load, dir.path(), &[&options[..], &more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("no event was lost"), "{}", text(&output.stderr));
    let windows = lines(&output);
    assert_eq!(windows.len(), count, "{}", text(&output.stdout));
    for window in &windows {
        assert_eq!(window["late"], 0);
        let latency =
            of_file(dir.path(), &["trace", "latency", "--histogram", "--top", "0"], window);
        for kind in ["wakeup", "run_delay"] {
            assert_eq!(window["waits"][kind], latency["total"][kind], "{kind}");
            let count = window["waits"][kind]["count"].as_u64().expect("a count");
            assert!(count > waits_min, "{kind}: {count}");
        }
        let waits = ["/wakeup/histogram", "/run_delay/histogram", "/unfinished"];
        let waited = |rows| {
            let all = by_pid(rows, &waits).into_iter();
            all.filter(|(_, f)| f[1]["count"] != 0 || *f[2] != 0).collect::<Vec<_>>()
        };
        assert_eq!(waited(&window["rows"]), waited(&latency["tasks"]));
        let tasks = of_file(dir.path(), &["trace", "tasks", "--top", "0"], window);
        let ran = |rows| {
            let all = by_pid(rows, &["/run_ns", "/wakeups"]).into_iter();
            all.filter(|(_, f)| *f[0] != 0 || *f[1] != 0).collect::<Vec<_>>()
        };
        assert_eq!(ran(&window["rows"]), ran(&tasks["tasks"]));
        let cpus = of_file(dir.path(), &["trace", "cpus"], window);
        let cpu = |rows: &Value| -> Vec<Vec<Value>> {
            let keys = ["cpu", "busy_ns", "idle_ns", "unknown_ns", "switches"];
            let rows = rows.as_array().expect("rows").iter();
            rows.map(|row| keys.iter().map(|key| row[*key].clone()).collect()).collect()
        };
        assert_eq!(cpu(&window["cpus"]), cpu(&cpus["cpus"]));
        let why = of_file(dir.path(), &["why"], window);
        assert_eq!(window["waited_ns"], why["waited_ns"]);
        assert_eq!(window["by_cause"], why["by_cause"]);
        let causes = |rows| {
            let all = by_pid(rows, &["/waited_ns", "/longest_ns"]).into_iter();
            all.filter(|(_, f)| *f[0] != 0).collect::<Vec<_>>()
        };
        assert_eq!(causes(&window["rows"]), causes(&why["tasks"]));
    }
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["x.dat"], "nothing else is left");
}

#[test]
fn each_window_is_what_the_kept_trace_says_of_that_time() {
    if may_watch() {
        agree("auto", BUSY, (5, 50));
        agree("perf", BUSY, (5, 50));
    }
}

/// What people run: benchmarks of the scheduler, a compiler, a web server with its clients. Those that this machine has.
fn known_loads() -> Vec<String> {
    let [port] = ports();
    let client = format!(
        "import urllib.request as r; [r.urlopen(\"http://127.0.0.1:{port}/\").read() for _ in range(50)]"
    );
    let page = format!(
        "python3 -m http.server --bind 127.0.0.1 {port} &\n(while :; do python3 -c '{client}'; done) &"
    );
    let compile = "(while :; do echo 'int f(int a) { return a * a; } int main(void) { return f(2); }' | \
                   cc -O2 -x c -o /dev/null -; done) &";
    let own = |workload: &str| format!("{} load {workload} &", env!("CARGO_BIN_EXE_schedlab"));
    let loads = [
        // Large messages, so that a debug build of the watcher keeps up.
        (own("hackbench --groups 1 --fds 2 --datasize 1000000 --duration 30s"), None),
        (own("schbench --runtime 30s"), None),
        (compile.to_owned(), Some("cc")),
        (page, Some("python3")),
    ];
    let has = |tool: &str| crate::machines::has(tool, "windows of a known load");
    loads.into_iter().filter(|(_, tool)| tool.is_none_or(has)).map(|(load, _)| load).collect()
}

#[test]
fn windows_of_known_loads_are_what_their_trace_says() {
    if !may_watch() {
        return;
    }
    for load in known_loads() {
        agree("auto", &load, (2, 5));
    }
}

/// Events of another instance, each with a time of its own; another reader and another state.
#[test]
fn windows_are_what_a_recording_beside_says() {
    if !may_watch() {
        return;
    }
    for load in known_loads() {
        // A debug build may fall behind.
        let whole = (0..3).any(|_| agree_beside(&load));
        assert!(whole, "events were lost each time: {load}");
    }
}

/// False if either lost events.
fn agree_beside(load: &str) -> bool {
    crate::machine_lock::share();
    let dir = tempfile::tempdir().unwrap();
    let options =
        ["--time", "1200ms", "--interval", "400ms", "--json", "--ring", "64MiB", "--keep", "x.dat"];
    // The recording ends when the watch has, and the load after it.
    let script = format!(
        "{{ {load}\n}} >/dev/null 2>&1; \"$1\" record --ring 64MiB -o y.dat >/dev/null 2> recorded & \
         recording=$!; until [ -e y.dat.spool ] || [ -s recorded ]; do sleep 0.05; done; sleep 1; \
         \"$@\"; code=$?; kill $recording; wait $recording; \
         kill $(jobs -p) 2>/dev/null; wait 2>/dev/null; exit $code"
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script, "watch", env!("CARGO_BIN_EXE_schedlab"), "watch"]).args(options);
    let output = command.current_dir(dir.path()).stdin(Stdio::null()).output();
    let output = output.expect("bash starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let recorded = std::fs::read_to_string(dir.path().join("recorded")).expect("it was written");
    if !text(&output.stderr).contains("no event was lost")
        || !recorded.contains("no event was lost")
    {
        return false;
    }
    is_what_was_recorded(dir.path(), &lines(&output), load);
    true
}

/// Figures of windows beside those of the recording `y.dat`; true if the kernel logs all switches.
fn is_what_was_recorded(dir: &Path, windows: &[Value], load: &str) -> bool {
    let mut knows_all = true;
    assert_eq!(windows.len(), 3, "{load}");
    let all = |rows: &Value, figure: &dyn Fn(&Value) -> f64| -> f64 {
        rows.as_array().expect("rows").iter().map(figure).sum()
    };
    let total = |rows: &Value, key: &str| all(rows, &|row| row[key].as_f64().expect("a figure"));
    // Of the first one nobody knows since when tasks waited that were woken before.
    for window in &windows[1..] {
        let ask = |words: &[&str]| of_trace("y.dat", dir, words, window);
        let (latency, cpus) = (ask(&["trace", "latency"]), ask(&["trace", "cpus"]));
        let why = ask(&["why"]);
        // Where the kernel leaves switches out, the two may take different tasks for those that ran.
        let bound = all(&cpus["cpus"], &|row| {
            let bound = row["busy_ns_bound"].as_str().and_then(|it| it.strip_prefix("within "));
            bound.map_or(0.0, |it| it.parse().expect("nanoseconds"))
        });
        let busy = [&window["cpus"], &cpus["cpus"]].map(|rows| total(rows, "busy_ns"));
        let apart = (busy[0] - busy[1]).abs();
        assert!(apart <= bound.max(0.01 * busy[1]), "{busy:?} within {bound}: {load}");
        // A switch that it left out before the watch began may make a task wait in one of them alone.
        let (is_complete, part) = if bound > 0.0 { (false, 0.05) } else { (true, 0.01) };
        knows_all &= is_complete;
        let of_waits = ["wakeup", "run_delay"].into_iter().flat_map(|kind| {
            ["count", "latency_ns_sum"].map(|key| {
                let of = |waits: &Value| waits[kind][key].as_f64().expect("a figure");
                (key, of(&window["waits"]), of(&latency["total"]))
            })
        });
        let waited = [window, &why].map(|told| told["waited_ns"].as_f64().expect("a figure"));
        let switches = [&window["cpus"], &cpus["cpus"]].map(|rows| total(rows, "switches"));
        let more = [("waited", waited[0], waited[1]), ("count", switches[0], switches[1])];
        for (what, live, beside) in more.into_iter().chain(of_waits) {
            assert!(live > 0.0, "{what}: {load}");
            let apart = (live - beside).abs() / live.max(beside);
            let is_told = is_complete || what == "count";
            // At the edges of a window an event may lie in the one before.
            let is_edge = what == "count" && (live - beside).abs() <= 2.0;
            // Of an emulator's CPU the machine may take time between one instance's event and the other's.
            let part = if what == "count" { part } else { 50.0 * part };
            assert!(
                !is_told || is_edge || apart < part,
                "{what}: {live}, recorded {beside}; {load}"
            );
        }
    }
    knows_all
}

/// Kernels of distributions log all switches: counts are the same. Alone on the machine sums were within 0.4 %.
#[test]
fn windows_in_a_guest_are_what_a_recording_beside_says() {
    use crate::guest::{BEGIN, END, Guest, TWO};
    let Some(guest) = Guest::of("debian-6.1", "windows in a guest") else { return };
    let loads = ["hackbench --groups 1 --fds 2 --datasize 100000", "schbench"];
    let mut init = BEGIN.to_owned();
    for load in loads {
        let _ = write!(
            init,
            "schedlab load {load} --duration 60s > /dev/null 2>&1 & load=$!\nsleep 1\n\
             schedlab record --ring 64MiB -o y.dat > y.txt 2>&1 & record=$!\nsleep 2\n\
             schedlab watch --time 1200ms --interval 400ms --json --ring 64MiB --keep x.dat > w.txt 2> x.txt\n\
             sleep 1; kill $record; wait $record; kill $load; wait $load\n\
             for file in w.txt x.txt y.txt y.dat; do echo @@; gzip -c $file | base64; done; echo @@\n"
        );
    }
    init += END;
    let Some(told) = guest.boot(&init, &TWO) else { return };
    let parts: Vec<&str> = told.split("@@\n").collect();
    for (load, parts) in loads.iter().zip(parts[1..].chunks(5)) {
        let [windows, watched, recorded] = [0, 1, 2].map(|at| text(&guest.unpacked(parts[at])));
        std::fs::write(guest.dir().join("y.dat"), guest.unpacked(parts[3])).unwrap();
        let is_whole = [&watched, &recorded].iter().all(|told| told.contains("no event was lost"));
        assert!(is_whole, "{watched}{recorded}");
        let windows: Vec<Value> =
            windows.lines().map(|line| plain(serde_json::from_str(line).expect("JSON"))).collect();
        assert!(is_what_was_recorded(guest.dir(), &windows, load), "{load}: switches are missing");
    }
}

#[test]
fn a_condition_that_held_is_exit_code_3_and_names_the_window() {
    if !may_watch() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let with = |conditions: &[&str]| {
        let mut options = vec!["--time", "400ms", "--interval", "200ms"];
        conditions.iter().for_each(|condition| options.extend(["--fail-if", condition]));
        watch(dir.path(), &options)
    };
    let held = with(&["run_delay_p99 > 100h", "switches > 3"]);
    assert_eq!(held.status.code(), Some(3), "{}", text(&held.stderr));
    assert_eq!(
        text(&held.stderr).matches(" held in 2 of 2 windows").count(),
        1,
        "{}",
        text(&held.stderr)
    );
    assert_eq!(with(&["comm=nobody-has-this and switches > 0"]).status.code(), Some(0));
    assert_eq!(with(&["comm=sleep and wakeups > 1"]).status.code(), Some(3));
    let text = text(&with(&[]).stdout);
    assert!(text.lines().all(|line| !line.trim().is_empty()), "{text}");
    assert!(
        text.contains("CPUs ") && text.contains("waited ") && text.contains("worst "),
        "{text}"
    );
}

#[test]
fn what_cannot_be_meant_is_wrong_usage_and_says_what_to_write() {
    for (options, said) in [
        (&["--fail-if", "nothing_p99 > 5ms"][..], "there are "),
        (&["--fail-if", "comm=x"], "METRIC > VALUE"),
        (&["--fail-if", "run_delay_p99 > much"], "'much'"),
        (&["--interval", "1ms"], "at least 10"),
        (&["--time", "100ms"], "--time is shorter"),
    ] {
        let output = schedlab().arg("watch").args(options).output();
        let output = output.expect("the built command starts");
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(text(&output.stderr).contains(said), "{options:?}: {}", text(&output.stderr));
    }
}

/// Watches until the test is over.
pub(crate) struct Service(std::process::Child);

impl Service {
    pub(crate) fn start(dir: &Path, options: &[&str]) -> (Self, impl std::io::BufRead + use<>) {
        let mut command = schedlab();
        command.arg("watch").args(options).current_dir(dir).stderr(Stdio::piped());
        let mut child = command.stdout(Stdio::null()).spawn().expect("the built command starts");
        let said = std::io::BufReader::new(child.stderr.take().expect("a pipe"));
        (Self(child), said)
    }

    /// As systemd ends it.
    pub(crate) fn end(mut self) {
        let pid = self.0.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().expect("kill starts");
        assert!(self.0.wait().expect("it ends").success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

/// What a server answers to these bytes.
pub(crate) fn answered(address: &str, request: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_are_served_to_get_alone_while_others_say_nothing() {
    use std::io::BufRead as _;
    if !may_watch() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let options = ["--listen", "0", "--interval", "100ms", "--quiet"];
    let (service, mut said) = Service::start(dir.path(), &options);
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let (_, url) = line.trim().split_once("http://").expect("it says where");
    let address = url.trim_end_matches("/metrics");
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    let silent: Vec<_> = (0..4).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    let get = |host: &str, path: &str| {
        answered(address, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
    };
    assert!(answered(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(get("localhost", "/").starts_with("HTTP/1.1 404 "));
    assert!(get("evil.example", "/metrics").starts_with("HTTP/1.1 403 "));
    let count = |text: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix("schedlab_windows_total "));
        line.and_then(|count| count.parse().ok()).unwrap_or(0)
    };
    let mut text = String::new();
    for _ in 0..600 {
        text = get(address, "/metrics");
        if count(&text) > 1 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    let accept = "Accept: application/openmetrics-text;version=1.0.0\r\n";
    let open = answered(address, &format!("GET /metrics HTTP/1.1\r\n{accept}\r\n"));
    assert!(open.contains("openmetrics-text") && open.trim_end().ends_with("# EOF"), "{open}");
    for name in [
        "schedlab_run_delay_seconds_bucket{",
        "le=\"1.023e-06\"",
        "schedlab_wakeup_latency_seconds_count{group=\"",
        "schedlab_cpu_seconds_total{group=\"",
        "schedlab_machine_cpu_seconds_total{cpu=\"0\",mode=\"busy\"}",
    ] {
        assert!(text.contains(name), "{name}: {text}");
    }
    let body = text.split_once("\r\n\r\n").expect("a body").1;
    lint(body);
    drop(silent);
    service.end();
}

/// Prometheus' own check of metrics.
fn lint(text: &str) {
    use std::io::Write as _;
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.stdout(Stdio::piped()).spawn() else {
        return missing!("promtool (Debian package prometheus): the metrics were not linted");
    };
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        self::text(&output.stdout),
        self::text(&output.stderr)
    );
}

#[test]
fn a_bad_window_leaves_its_trace_with_the_wait_that_was_meant() {
    if !may_watch() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let options = ["--time", "2s", "--interval", "200ms", "--quiet", "--last", "1s"];
    let when = ["--snapshot-if", "comm=sleep and wakeups > 1", "--snapshots-per-minute", "2"];
    let output = watch(dir.path(), &[&options[..], &when, &["--snapshots", "1"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut left: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    left.sort();
    // Two were written, and the newest one stays.
    assert_eq!(left, ["watch-000002.dat"], "{}", text(&output.stderr));
    let why = schedlab().args(["why", &left[0]]).current_dir(dir.path()).output().unwrap();
    assert!(text(&why.stdout).contains("sleep"), "{}", text(&why.stdout));
}

/// The view on a terminal of its own, driven by keys.
pub(crate) struct Screen {
    socket: std::path::PathBuf,
    /// The process of the view, once it was started.
    view: Option<String>,
}

/// Whether a process is a view.
fn is_view(pid: &str) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    text(&line).contains("watch")
}

impl Screen {
    fn tmux(&self, words: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(words);
        command.output().expect("tmux starts")
    }

    fn open(dir: &Path, size: (u32, u32)) -> Option<Self> {
        let line = format!("{} watch --interval 200ms", env!("CARGO_BIN_EXE_schedlab"));
        Self::of(dir, size, &line)
    }

    /// A terminal that runs this line of a shell.
    pub(crate) fn of(dir: &Path, size: (u32, u32), line: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            missing!("tmux (Debian package tmux): the view was not driven");
            return None;
        }
        let mut screen = Self { socket: dir.join("tmux"), view: None };
        let (columns, lines) = (size.0.to_string(), size.1.to_string());
        let here = dir.to_str().expect("a path");
        let words = [
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &lines,
            "-c",
            here,
            line,
        ];
        let output = screen.tmux(&words);
        assert!(output.status.success(), "{}", text(&output.stderr));
        screen.view = Some(screen.number("#{pane_pid}")).filter(|pid| !pid.is_empty());
        Some(screen)
    }

    /// A process of this terminal, as tmux calls it.
    fn number(&self, what: &str) -> String {
        let output = self.tmux(&["display-message", "-p", what]);
        text(&output.stdout).trim().to_owned()
    }

    pub(crate) fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// What is shown, once it has this.
    pub(crate) fn shows(&self, wanted: &str) -> String {
        let mut shown = String::new();
        for _ in 0..600 {
            shown = text(&self.tmux(&["capture-pane", "-p"]).stdout);
            if shown.contains(wanted) {
                return shown;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("'{wanted}' is not shown:\n{shown}")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
        let Some(view) = &self.view else { return };
        // It ends with its terminal. If it does not, it ends with the test.
        for _ in 0..100 {
            if !is_view(view) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let _ = Command::new("kill").args(["-9", view]).status();
    }
}

#[test]
fn the_view_fits_small_and_large_terminals_and_does_what_keys_ask() {
    if !may_watch() {
        return;
    }
    for size in [(80, 24), (200, 50)] {
        let dir = tempfile::tempdir().unwrap();
        let Some(screen) = Screen::open(dir.path(), size) else { return };
        let shown = screen.shows("COMMAND");
        for word in ["CPUs", "% busy", "WAITEDv", "THROTTLED", "SWI", "h help"] {
            assert!(shown.contains(word), "{word} at {size:?}:\n{shown}");
        }
        screen.keys(&["b"]);
        screen.shows("PROCESS");
        screen.keys(&["g"]);
        screen.shows("GROUP");
        screen.keys(&["c", "P"]);
        screen.shows("CPUv");
        screen.keys(&["/"]);
        screen.keys(&["-l", "schedlab"]);
        screen.keys(&["Enter"]);
        screen.shows("filter: schedlab");
        screen.keys(&["Enter"]);
        screen.shows("Its longest waits");
        screen.keys(&["Escape"]);
        screen.shows("COMMAND");
        screen.keys(&["Space"]);
        screen.shows("PAUSED");
        screen.keys(&["h"]);
        screen.shows("reverse the order");
        screen.keys(&["Escape"]);
        screen.keys(&["w"]);
        screen.shows("$ schedlab why ./watch-000001.dat");
        assert!(dir.path().join("watch-000001.dat").exists());
        screen.keys(&["q"]);
        screen.shows("COMMAND");
        screen.keys(&["q"]);
        for _ in 0..600 {
            if !screen.tmux(&["has-session"]).status.success() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert!(!screen.tmux(&["has-session"]).status.success(), "q ends it");
    }
}

#[test]
fn a_view_ends_with_its_terminal() {
    if !may_watch() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(screen) = Screen::open(dir.path(), (80, 24)) else { return };
    screen.shows("COMMAND");
    let [server, view] = ["#{pid}", "#{pane_pid}"].map(|what| screen.number(what));
    assert!(is_view(&view), "{view}");
    assert!(Command::new("kill").args(["-9", &server]).status().unwrap().success());
    let instance = format!("/sys/kernel/tracing/instances/schedlab-{view}");
    for _ in 0..600 {
        if !is_view(&view) {
            assert!(!Path::new(&instance).exists(), "{instance} is left");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("{view} lives on");
}
