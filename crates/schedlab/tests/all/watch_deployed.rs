//! `schedlab watch` as a service: the files of `examples/watch` are valid and give the rights that it needs, and a
//! Prometheus reads what it serves.

use crate::machines::cluster::ports;
use crate::machines::{Processes, has, wait_for};
use crate::watch::{Service, answered, may_watch};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_schedlab");

fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/watch").join(file)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The service file without what continues lines.
fn service() -> String {
    std::fs::read_to_string(example("schedlab-watch.service")).unwrap().replace("\\\n", "")
}

/// The values of a key of the service.
fn of_service(key: &str) -> String {
    let text = service();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("{key}: {text}")).to_owned()
}

/// The DaemonSet, as python3-yaml reads it.
fn daemonset() -> Option<Value> {
    let script = "import json,sys,yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
    let mut command = Command::new("python3");
    let output = command.args(["-c", script]).arg(example("daemonset.yaml")).output();
    let Ok(output) = output else {
        missing!("python3: the DaemonSet was not read");
        return None;
    };
    if text(&output.stderr).contains("No module named 'yaml'") {
        missing!("python3-yaml: the DaemonSet was not read");
        return None;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().map(|one| one.as_str().expect("a text")).collect()
}

/// What is wrong with options of `watch` that a file has; the program gets no further than to check them.
fn options_pass(words: &[&str]) {
    assert_eq!(words[0], "watch");
    let mut command = Command::new(PROGRAM);
    let output = command.args(words).args(["--interval", "1ms"]).output().unwrap();
    assert!(text(&output.stderr).contains("use at least 10"), "{}", text(&output.stderr));
}

/// Watches with these capabilities alone, where only some folders can be written to.
fn watches_with(capabilities: &[String], writable: &[&str]) {
    if !may_watch() || !has("setpriv", "the rights of a service") {
        return;
    }
    let bounding: String =
        capabilities.iter().map(|name| format!(",+{}", name.to_lowercase())).collect();
    let mounts: String = writable
        .iter()
        .map(|dir| format!("mkdir -p {dir} && mount -t tmpfs -o mode=755 none {dir} || exit 9\n"))
        .collect();
    let script = format!(
        "{mounts}mount -o remount,bind,ro / || exit 9
         cd / && exec setpriv --bounding-set=-all{bounding} --inh-caps=-all --no-new-privs \
         {PROGRAM} watch --via ftrace --time 400ms --interval 200ms --json --by group"
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c", &script]).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    if said.contains("unshare failed") || output.status.code() == Some(9) {
        return missing!("a mount namespace: the rights of a service: {said}");
    }
    assert!(output.status.success(), "{said}");
    let windows = text(&output.stdout);
    assert_eq!(windows.lines().count(), 2, "{windows} {said}");
    assert!(windows.contains("\"group\":\"/"), "groups are seen: {windows}");
}

#[test]
fn the_unit_passes_systemd_and_has_the_rights_that_watching_takes() {
    let start = of_service("ExecStart");
    let quoted = start.replace("'run_delay_p99 > 50ms'", "run_delay_p99>50ms");
    let words: Vec<&str> = quoted.split_whitespace().skip(1).collect();
    options_pass(&words);
    let capabilities = of_service("CapabilityBoundingSet");
    let capabilities: Vec<String> =
        capabilities.split(' ').map(|name| name.trim_start_matches("CAP_").to_owned()).collect();
    // It would take CAP_SYSLOG out of the set again.
    let takes_it_out = service().lines().any(|line| line == "ProtectKernelLogs=yes");
    assert!(!takes_it_out && capabilities.contains(&"SYSLOG".into()));
    assert_eq!(of_service("RuntimeDirectory"), "schedlab");
    watches_with(&capabilities, &["/run/schedlab"]);
    if !has("systemd-analyze", "the unit is not verified") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let unit = dir.path().join("schedlab-watch.service");
    let text_of = service().replace("/usr/local/bin/schedlab", PROGRAM);
    std::fs::write(&unit, text_of).unwrap();
    let output = Command::new("systemd-analyze").arg("verify").arg(&unit).output().unwrap();
    let said = text(&output.stderr);
    // Units of the machine that the test knows nothing of have faults of their own.
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("schedlab")).collect();
    assert!(ours.is_empty(), "{ours:?}");
    let broken = service().replace("Restart=on-failure", "Restart=whenever");
    std::fs::write(&unit, broken.replace("/usr/local/bin/schedlab", PROGRAM)).unwrap();
    let output = Command::new("systemd-analyze").arg("verify").arg(&unit).output().unwrap();
    assert!(text(&output.stderr).contains("whenever"), "a fault is seen: {}", text(&output.stderr));
}

#[test]
fn the_daemonset_is_valid_and_has_the_rights_that_watching_takes() {
    let Some(all) = daemonset() else { return };
    assert_eq!(
        (all["apiVersion"].as_str(), all["kind"].as_str()),
        (Some("apps/v1"), Some("DaemonSet"))
    );
    let (spec, pod) = (&all["spec"], &all["spec"]["template"]["spec"]);
    assert_eq!(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]);
    assert_eq!(pod["hostPID"], true);
    let container = &pod["containers"][0];
    options_pass(&strings(&container["args"]));
    let rights = &container["securityContext"];
    assert_eq!(
        (&rights["runAsUser"], &rights["privileged"]),
        (&Value::from(0), &Value::from(false))
    );
    for profile in ["seccompProfile", "appArmorProfile"] {
        assert_eq!(rights[profile]["type"], "Unconfined", "{profile}");
    }
    let volumes: Vec<&Value> = pod["volumes"].as_array().unwrap().iter().collect();
    let mut writable = Vec::new();
    for mount in container["volumeMounts"].as_array().unwrap() {
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]);
        let volume = volume.unwrap_or_else(|| panic!("no volume for {mount}"));
        match volume["hostPath"]["path"].as_str() {
            Some(path) => assert_eq!(Some(path), mount["mountPath"].as_str()),
            None => writable.push(mount["mountPath"].as_str().unwrap()),
        }
    }
    assert_eq!(rights["readOnlyRootFilesystem"], true);
    let added = strings(&rights["capabilities"]["add"]);
    watches_with(&added.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(), &writable);
}

/// The answer to a question of Prometheus' HTTP API.
fn asked(address: &str, path: &str) -> Option<Value> {
    let answer = answered(address, &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n"));
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}

fn encoded(query: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    query.bytes().map(byte).collect()
}

#[test]
fn prometheus_scrapes_the_metrics_and_the_dashboards_queries_have_answers() {
    use std::io::BufRead as _;
    if !may_watch() || !has("prometheus", "the queries of the dashboard") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let options = ["--listen", "0", "--interval", "200ms", "--quiet"];
    let (service, mut said) = Service::start(dir.path(), &options);
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let target = line.trim().split_once("http://").unwrap().1.trim_end_matches("/metrics");
    let config = dir.path().join("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: schedlab\n    static_configs:\n      \
         - targets: ['{target}']\n"
    );
    std::fs::write(&config, text).unwrap();
    let [port] = ports();
    let address = format!("127.0.0.1:{port}");
    let mut processes = Processes::default();
    let mut command = Command::new("prometheus");
    let flag = |name: &str, value: &dyn std::fmt::Display| format!("--{name}={value}");
    command.current_dir(dir.path()).args([
        flag("config.file", &config.display()),
        flag("storage.tsdb.path", &dir.path().join("data").display()),
        flag("web.listen-address", &address),
    ]);
    processes.start("prometheus", &mut command);
    let query = |query: &str| {
        std::net::TcpStream::connect(&address).ok()?;
        asked(&address, &format!("/api/v1/query?query={}", encoded(query)))
    };
    // Rates take two scrapes.
    wait_for("two scrapes", || {
        let prometheus = processes.0.get_mut("prometheus").expect("it was started");
        assert!(prometheus.try_wait().unwrap().is_none(), "prometheus ended, at {address}");
        let found = query("count_over_time(schedlab_windows_total[5m]) > 2")?;
        (!found["data"]["result"].as_array()?.is_empty()).then_some(())
    });
    let up = query("up").unwrap();
    assert_eq!(up["data"]["result"][0]["value"][1], "1", "{up}");
    let dashboard = std::fs::read_to_string(example("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let variables =
        [("$__rate_interval", "1m"), ("$__range", "1m"), ("$instance", ".*"), ("$group", ".*")];
    let mut count = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let asked = target["expr"].as_str().unwrap();
            let asked = variables
                .iter()
                .fold(asked.to_owned(), |text, (name, value)| text.replace(name, value));
            assert!(!asked.contains('$'), "{asked}");
            let answer = query(&asked).unwrap();
            assert_eq!(answer["status"], "success", "{asked}: {answer}");
            let is_empty = answer["data"]["result"].as_array().unwrap().is_empty();
            // Only these may have nothing to show: no group is throttled.
            assert!(!is_empty || asked.ends_with("> 0"), "{asked}: {answer}");
            count += 1;
        }
    }
    assert!(count >= 10, "{count} queries");
    for (label, metric) in
        [("instance", "schedlab_windows_total"), ("group", "schedlab_cpu_seconds_total")]
    {
        let path = format!("/api/v1/label/{label}/values?match[]={metric}");
        let values = asked(&address, &path).unwrap();
        assert!(!values["data"].as_array().unwrap().is_empty(), "{path}: {values}");
    }
    service.end();
}
