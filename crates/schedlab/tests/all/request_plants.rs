//! Requests of programs of Debian's packages as they are, with a delay planted in some: its cause is the largest part of
//! the slowest percent. `SCHEDLAB_REQUEST_PLANTS=all` plants each of them, `SCHEDLAB_REQUEST_ROUNDS=20` so often, and
//! `SCHEDLAB_REQUEST_TABLE=FILE` keeps how often it was found.

use crate::cpu_group::Group;
use crate::machines::{run, schedlab};
use crate::vm_fake::stderr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PLANTS: &str = include_str!("../planted/requests.sh");

/// A program, what must be installed for it, and its requests.
struct Program(&'static str, &'static [&'static str], &'static str);

const SQLITE: Program = Program("sqlite", &["/usr/bin/sqlite3"], "libsqlite3.so.0:sqlite3_step");
const PYTHON: Program =
    Program("python", &["/usr/bin/python3"], "/usr/bin/python3:gc__start..gc__done");
const NGINX: Program = Program(
    "nginx",
    &["/usr/sbin/nginx", "/usr/bin/curl"],
    "/usr/sbin/nginx:ngx_http_process_request($arg1)..ngx_http_free_request($arg1)",
);
const POSTGRES: Program = Program(
    "postgres",
    &["/usr/lib/postgresql", "/usr/bin/psql"],
    "PG/postgres:query__start..query__done",
);

/// A delay, and the parts that it makes.
struct Delay(&'static str, &'static [&'static str]);

const SLEEP: Delay = Delay("sleep", &["interrupt", "blocked"]);
const LOCK: Delay = Delay("lock", &["waker_ran", "waker_runnable"]);
const HOG: Delay = Delay("hog", &["runnable"]);
const QUOTA: Delay = Delay("quota", &["throttled"]);

/// Nobody waits for a lock in sqlite3 (it sleeps and tries again) and in nginx (it has none).
const ALL: [(Program, Delay); 14] = [
    (SQLITE, SLEEP),
    (SQLITE, HOG),
    (SQLITE, QUOTA),
    (PYTHON, SLEEP),
    (PYTHON, LOCK),
    (PYTHON, HOG),
    (PYTHON, QUOTA),
    (NGINX, SLEEP),
    (NGINX, HOG),
    (NGINX, QUOTA),
    (POSTGRES, SLEEP),
    (POSTGRES, LOCK),
    (POSTGRES, HOG),
    (POSTGRES, QUOTA),
];

/// What takes no long time.
const FEW: &str = "python_sleep,sqlite_sleep";

/// The folder of PostgreSQL's programs, which has its version in it.
fn postgres() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    versions.map(|version| version.path().join("bin")).max()
}

/// The parts of the mean of the slowest percent, the largest first, after one recording.
fn parts(name: &str, request: &str) -> Vec<(String, f64)> {
    let dir = tempfile::tempdir().unwrap();
    let group = Group::new("requests").expect("a control group");
    let script = dir.path().join("requests.sh");
    fs::write(&script, PLANTS).unwrap();
    let bash = |step: &str| {
        let mut bash = Command::new("bash");
        bash.arg(&script).args([step, name]).current_dir(dir.path()).env("GROUP", &group.0);
        bash.stdin(Stdio::null()).output().expect("bash starts")
    };
    let set_up = bash("set_up");
    assert!(set_up.status.success(), "{name}: {}", stderr(&set_up));
    let schedlab = |arguments: &[&str]| {
        let mut command = schedlab(dir.path(), arguments);
        command.env("GROUP", &group.0).output().expect("the built command starts")
    };
    let asked = format!("r={request}");
    let run = ["bash", script.to_str().unwrap(), "run", name];
    let recorded =
        schedlab(&[&["record", "-o", "x.dat", "--request", &asked, "--"], &run[..]].concat());
    bash("clear_up");
    assert!(recorded.status.success(), "{name}: {}", stderr(&recorded));
    let why = schedlab(&["trace", "why", "x.dat", "--mark", "r", "--json"]);
    let why: serde_json::Value = serde_json::from_slice(&why.stdout)
        .unwrap_or_else(|_| panic!("{name}: {}{}", stderr(&recorded), stderr(&why)));
    let mean = &why["slowest"];
    let part = |part: &serde_json::Value| {
        (part["part"].as_str().unwrap().to_owned(), part["time_ns"].as_f64().unwrap())
    };
    let mut parts: Vec<_> = mean["parts"].as_array().expect("parts").iter().map(part).collect();
    let sum: f64 = parts.iter().map(|(_, time)| time).sum();
    let length = mean["length_ns"].as_f64().unwrap();
    assert!((sum - length).abs() <= 1.0, "{name}: parts of {sum} ns of {length}");
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts
}

/// Whether the planted parts are together longer than each other one.
fn is_found(parts: &[(String, f64)], planted: &[&str]) -> bool {
    let (planted, others): (Vec<_>, Vec<_>) =
        parts.iter().partition(|(name, _)| planted.contains(&name.as_str()));
    let sum: f64 = planted.iter().map(|(_, time)| time).sum();
    others.iter().all(|(_, time)| *time < sum)
}

#[test]
fn the_cause_of_a_planted_delay_is_the_largest_part_of_the_slowest_requests() {
    super::machine_lock::take();
    if !super::why_live::is_root() || Group::new("requests").is_none() {
        missing!("root and control groups; not checked: delays planted in requests of programs");
        return;
    }
    let names = std::env::var("SCHEDLAB_REQUEST_PLANTS").unwrap_or_else(|_| FEW.to_owned());
    let rounds = std::env::var("SCHEDLAB_REQUEST_ROUNDS").ok().and_then(|n| n.parse().ok());
    let mut table = String::new();
    for (Program(program, needed, request), Delay(delay, planted)) in &ALL {
        let name = format!("{program}_{delay}");
        if names != "all" && !names.split(',').any(|one| one == name) {
            continue;
        }
        if let Some(missing) = needed.iter().find(|file| !Path::new(file).exists()) {
            missing!("{missing}; not checked: {name}");
            continue;
        }
        let request = match postgres() {
            Some(folder) => request.replace("PG", folder.to_str().expect("a path of letters")),
            None => (*request).to_owned(),
        };
        // Beside the load of other tests a delay may be theirs: three tries, unless it is counted how often it is found.
        let mut told = Vec::new();
        let mut found = 0;
        for _ in 0..rounds.unwrap_or(3) {
            let parts = parts(&name, &request);
            found += u32::from(is_found(&parts, planted));
            told.push(parts);
            if rounds.is_none() && found > 0 {
                break;
            }
        }
        assert!(rounds.is_some() || found > 0, "{name}: {told:?}");
        let wrong = told.iter().filter(|parts| !is_found(parts, planted)).map(|parts| &parts[0].0);
        let _ = writeln!(table, "{name},{found},{},{:?}", told.len(), wrong.collect::<Vec<_>>());
        if let Some(file) = std::env::var_os("SCHEDLAB_REQUEST_TABLE") {
            fs::write(file, &table).expect("the table is written");
        }
    }
}

#[test]
fn a_task_that_was_moved_to_an_empty_group_and_is_gone_was_stopped_by_its_quota() {
    super::machine_lock::take();
    if !super::why_live::is_root() || Group::new("moved").is_none() {
        missing!("root and control groups; not checked: a task that is moved and ends");
        return;
    }
    // Some kernels log no switch away from idle on some CPUs.
    let last = std::thread::available_parallelism().map_or(0, |count| count.get() - 1);
    for cpu in [0, last] {
        let group = Group::new("moved").expect("a control group");
        let dir = tempfile::tempdir().unwrap();
        group.write([("cpu.cfs_quota_us", "20000"), ("cpu.max", "20000 100000")]);
        let load = format!(
            "taskset -c {cpu} perl -e '$n++ while $n < 15_000_000' & sleep 0.1; \
             echo $! > $GROUP/cgroup.procs; wait"
        );
        fs::write(dir.path().join("moved.sh"), load).unwrap();
        let mut record = schedlab(dir.path(), &["record", "-o", "x.dat", "--", "bash", "moved.sh"]);
        let recorded = record.env("GROUP", &group.0).output().unwrap();
        assert!(recorded.status.success(), "{}", stderr(&recorded));
        let why = run(dir.path(), &["why", "x.dat", "--comm", "perl", "--json"]);
        let why: serde_json::Value = serde_json::from_slice(&why.stdout).unwrap();
        let name = group.0.file_name().unwrap().to_str().unwrap();
        assert!(why["tasks"][0]["group"].as_str().unwrap().ends_with(name), "{}", why["tasks"]);
        let causes = why["by_cause"].as_array().unwrap();
        let stopped = causes.iter().find(|one| one["cause"] == "throttled");
        let time = stopped.and_then(|one| one["time_ns"].as_u64());
        assert!(time > Some(50_000_000), "CPU {cpu}: {causes:?}, {}", why["groups"]);
    }
}
