//! `schedlab slow` as it is built: exit codes, refusals, nodes, and above all that nothing is left.

mod budgets;
mod clocks;
mod cluster;
mod kills;
mod nodes;
mod runs;
mod safety;
mod slices;
mod targets;
mod task;
mod unified;

use crate::patience::eventually;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_schedlab");

fn slow(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    // Tests slow the same CPU at the same time, which a person does not.
    let at = match arguments.first() {
        Some(
            &("set" | "fail" | "recover" | "status" | "evaluate" | "end" | "cut" | "heal" | "link"
            | "machine"),
        ) => arguments.len(),
        Some(&"attach") => 1,
        _ => 0,
    };
    command.arg("slow").args(&arguments[..at]);
    if at < arguments.len() || arguments.is_empty() {
        command.arg("--share");
    }
    command.args(&arguments[at..]).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    slow(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The last CPU that is online, as text.
fn last_cpu() -> String {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    online.trim().rsplit([',', '-']).next().unwrap().to_owned()
}

/// Whether real-time burners and control groups can be had; says aloud when not.
fn has_rights() -> bool {
    let probe = run(&[
        "--cpu",
        &format!("{}=90%", last_cpu()),
        "--no-measure",
        "--method",
        "hogs",
        "--",
        "true",
    ]);
    let groups = Path::new("/sys/fs/cgroup").metadata().is_ok_and(|m| !m.permissions().readonly());
    if probe.status.success() && groups {
        crate::machine_lock::take();
        return true;
    }
    missing!("rights to real-time burners and control groups: {}", stderr(&probe));
    false
}

#[test]
fn wrong_requests_are_refused_before_anything_is_changed() {
    for (arguments, code, why) in [
        (vec!["--cpu", "0=0%"], 2, "more than 0"),
        (vec!["--cpu", "0=101%"], 2, "full speed"),
        (vec!["--cpu", "65000=50%"], 2, "unknown CPU 65000"),
        (vec!["--cpu", "0=50%", "--cpu", "0=40%"], 2, "two speeds"),
        (vec!["--cpu", "0=3%", "--method", "hogs"], 2, "10%"),
        (vec!["--cpu", "0=50%", "--method", "warp"], 2, "unknown method"),
        (vec!["--cpu", "0=50%", "--period", "1s"], 2, "period"),
        (vec!["--cpu", "0=50%", "--keep"], 2, "--keep"),
        (vec!["/no/such/nodes.toml"], 1, "/no/such/nodes.toml"),
        (vec!["/no/such/command"], 1, "a command goes after --"),
        (vec!["--cpu", "0=50%", "sleep", "1"], 2, "put -- before the command"),
        (vec!["--cpu", "0=50%", "ls"], 2, "put -- before the command"),
        (vec!["--cpu", "0=50%", "ls", "-l"], 2, "slow [OPTIONS] -- CMD"),
        (vec!["--cpu", "0=99999999MHz"], 2, "MHz"),
        // What went names what stands in its place.
        (vec!["like:pi4.toml", "--", "true"], 2, "use the ratio"),
        (vec!["--cpu", "0=800MHz@pi4.toml", "--", "true"], 2, "use the ratio"),
        (vec!["nodes.toml", "--on", "sim:cpus=4"], 2, "`schedlab run FILE`"),
        (vec!["nodes.toml", "--trace", "all.dat"], 2, "schedlab record -o FILE"),
        (vec!["machine", "pi4"], 2, "the ratio of a program's times"),
        (vec![], 2, "--cpu"),
    ] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn the_list_of_methods_says_what_was_detected() {
    let output = run(&["--method", "help"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    for name in ["hogs", "stop", "weight", "quota", "freq", "gov", "deadline", "uclamp"] {
        assert!(text.lines().any(|line| line.split(' ').next() == Some(name)), "{name}: {text}");
    }
    // Stopping needs no right; clocks need a driver, and where there is none each says so.
    let lines: Vec<&str> = text.lines().collect();
    let after = |name: &str| {
        let at = lines.iter().position(|line| line.starts_with(&format!("{name} "))).unwrap();
        lines.get(at + 1).copied().unwrap_or_default()
    };
    assert!(!after("stop").contains("not here"), "{text}");
    let driver = Path::new("/sys/devices/system/cpu/cpufreq/policy0/scaling_driver").exists();
    for name in ["freq", "gov"] {
        assert!(
            driver || after(name).contains("not here") && after(name).contains("cpufreq"),
            "{text}"
        );
    }
}

#[test]
fn the_exit_code_of_the_command_passes_through() {
    if !has_rights() {
        return;
    }
    let cpu = format!("{}=90%", last_cpu());
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        let output = run(&["--no-measure", "--cpu", &cpu, "--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(code), "{script}: {}", stderr(&output));
    }
    let output = run(&["--no-measure", "--cpu", &cpu, "--", "/no/such/command"]);
    assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
}

#[test]
fn nodes_run_their_commands_on_their_cpus_only() {
    if !has_rights() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("nodes.toml"), dir.path().join("out"));
    let cpu = last_cpu();
    let text = format!(
        "[[node]]\nname = \"small\"\ncpus = \"{cpu}\"\nspeed = \"80%\"\n\
         commands = [\"grep Cpus_allowed_list /proc/self/status > {}\"]\n\
         script = [{{ at = \"0s\", speed = \"90%\" }}]\n",
        out.display()
    );
    std::fs::write(&file, text).unwrap();
    let output = run(&[file.to_str().unwrap(), "--no-measure"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let allowed = std::fs::read_to_string(&out).unwrap();
    assert_eq!(allowed.split_whitespace().last(), Some(cpu.as_str()));
}

#[test]
fn a_running_session_tells_its_state_and_takes_orders() {
    if !has_rights() {
        return;
    }
    let cpu = format!("{}=90%", last_cpu());
    let mut session = slow(&["--no-measure", "--cpu", &cpu, "--", "sleep", "600"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = session.id().to_string();
    let ask = |arguments: &[&str]| {
        let mut all = arguments.to_vec();
        if arguments[0] != "status" {
            all.extend(["--session", &pid]);
        }
        run(&all)
    };
    until(|| node(&session)["speeds"][last_cpu()] == "90%");
    // Nobody but its user gives it orders.
    let orders = format!("/run/schedlab/slow-{pid}.orders");
    let mode = |path: &str| std::fs::metadata(path).unwrap().permissions().mode() & 0o077;
    assert_eq!(mode(&orders), 0);
    assert_eq!(mode("/run/schedlab"), 0);
    assert!(ask(&["set", "all=95%"]).status.success());
    until(|| node(&session)["speeds"][last_cpu()] == "95%");
    let refused = ask(&["set", "all=5%"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert_eq!(ask(&["set", "nobody=50%"]).status.code(), Some(2));
    assert!(ask(&["fail", "all"]).status.success());
    until(|| node(&session)["failed"] == true);
    assert!(ask(&["recover", "all"]).status.success());
    // A signal to the session alone is passed on to the command, and all is undone.
    signal(session.id(), "INT");
    assert_eq!(session.wait().unwrap().code(), Some(130));
}

#[test]
fn a_signal_while_speeds_are_measured_ends_it_before_the_command() {
    if !has_rights() {
        return;
    }
    // Thirty budgets of a second: by itself this measurement takes half a minute.
    let cpu = format!("{}=50%", last_cpu());
    let method = ["--method", "quota", "--quota-period", "1s", "--probe", "--cpu", &cpu];
    let mut command = slow(&method);
    let child = command.args(["--", "echo", "ran"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let session = child.spawn().unwrap();
    until(|| node(&session).is_object());
    let pid = session.id();
    signal(pid, "TERM");
    let output = session.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted before anything ran"), "{}", stderr(&output));
    assert!(output.stdout.is_empty() && !stderr(&output).contains("granted"));
    until(|| left(pid).is_empty());
}

#[test]
fn a_time_limit_ends_a_forgotten_session() {
    if !has_rights() {
        return;
    }
    let cpu = format!("{}=90%", last_cpu());
    let output =
        run(&["--no-measure", "--cpu", &cpu, "--time-limit", "100ms", "--", "sleep", "600"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("time limit"), "{}", stderr(&output));
}

/// What a running session says of its first node; null when it does not answer, which is no answer yet.
fn node(session: &Child) -> serde_json::Value {
    let output = run(&["status", "--json"]);
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let sessions = all["sessions"].as_array().cloned().unwrap_or_default();
    let mine = sessions.into_iter().find(|one| one["pid"] == session.id());
    mine.map(|one| one["nodes"][0].clone()).unwrap_or_default()
}

/// The guardian of a session.
fn guardian(session: u32) -> Option<u32> {
    let journal = format!("/{session}-");
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("__guard") && line.contains(&journal)
    })
}

/// Puts back what dead sessions left, as the next start does.
fn doctor_restores() -> bool {
    Command::new(PROGRAM).args(["doctor", "--restore"]).output().unwrap().status.success()
}

/// Longer than anything takes on a machine that stalls, and shorter than a CI waits.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for what may take its time, and fails if it never comes.
fn until(mut holds: impl FnMut() -> bool) {
    eventually(|| if holds() { Ok(()) } else { Err("it never came".to_owned()) });
}

fn signal(pid: u32, name: &str) {
    assert!(
        Command::new("kill")
            .args([&format!("-{name}"), &pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

/// Processes that carry the mark in their environment, with their state. Dead ones have none.
pub(crate) fn marked(mark: &str) -> Vec<(i32, String)> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    })
    .map(|pid| (pid, std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()))
    .collect()
}

/// Control groups and journals that a session of this number left.
pub(crate) fn left(pid: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![PathBuf::from("/sys/fs/cgroup"), PathBuf::from("/run/schedlab")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let journal =
                name.starts_with(&format!("{pid}-")) || name.starts_with(&format!("slow-{pid}."));
            if name.starts_with(&format!("schedlab-{pid}-")) || journal {
                found.push(entry.path());
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(entry.path());
            }
        }
    }
    found
}

/// What a session says of its speeds on stderr.
fn told(arguments: &[&str]) -> serde_json::Value {
    let output = run(arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stderr(&output);
    let line = text.lines().find(|line| line.starts_with('{')).unwrap();
    serde_json::from_str(line).unwrap()
}

#[test]
fn a_speed_that_is_not_reached_is_a_warning_with_its_cause() {
    if !has_rights() {
        return;
    }
    // Another session slows the same CPU further: what was asked of this one is wrong by far.
    let (other, mine) = (format!("{}=30%", last_cpu()), format!("{}=90%", last_cpu()));
    let mut session = slow(&["--no-measure", "--cpu", &other, "--", "sleep", "600"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until(|| node(&session).is_object());
    // A machine that takes the CPU away for the whole of a measurement takes it from those hogs as well:
    // then it is measured again.
    let off_in = |said: &serde_json::Value| {
        let warnings = said["warnings"].as_array().unwrap();
        let is_off = |code: &str| ["speed-off", "speed-crowded"].contains(&code);
        warnings.iter().find(|warning| warning["code"].as_str().is_some_and(is_off)).cloned()
    };
    let mut said = serde_json::Value::Null;
    until(|| {
        said = told(&["--cpu", &mine, "--json", "--probe", "--", "true"]);
        said["measured"][0]["granted"].as_f64().is_some_and(|granted| granted < 0.88)
    });
    signal(session.id(), "INT");
    session.wait().unwrap();
    let off = off_in(&said).unwrap_or_else(|| panic!("{said}"));
    assert!(off["what"].as_str().unwrap().contains("set to 90%"), "{off}");
    assert!(!off["remedy"].as_str().unwrap().is_empty(), "{off}");
    let woke = &said["wakeups"][0];
    assert!(woke["before"]["wakeups"].as_u64().unwrap() > 0, "{woke}");
    assert!(woke["under"]["latency_ns_p99"].as_f64() >= woke["under"]["latency_ns_p50"].as_f64());
    // A tenth of 2 ms.
    assert_eq!(woke["added_ns_max"], 200_000);
}

#[test]
fn with_keep_the_command_lives_on_at_full_speed() {
    if !has_rights() {
        return;
    }
    let mark = format!("SCHEDLAB_SLOW_TEST=keep-{}", std::process::id());
    let (key, value) = mark.split_once('=').unwrap();
    let cpu = format!("{}=90%", last_cpu());
    let mut session = slow(&["--keep", "--no-measure", "--cpu", &cpu, "--", "sleep", "600"])
        .env(key, value)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until(|| marked(&mark).iter().any(|(_, command)| command.starts_with("sleep")));
    session.kill().unwrap();
    session.wait().unwrap();
    until(|| marked(&mark).len() == 1 && left(session.id()).is_empty());
    let (pid, command) = marked(&mark).pop().unwrap();
    assert!(command.starts_with("sleep"), "{command}");
    signal(pid.cast_unsigned(), "KILL");
}

#[test]
fn what_a_launcher_leaves_is_named_when_it_ends_and_goes_on_with_keep() {
    if !has_rights() {
        return;
    }
    let cpu = format!("{}=90%", last_cpu());
    for keep in [false, true] {
        let mark = format!("SCHEDLAB_SLOW_TEST=launcher-{keep}-{}", std::process::id());
        let (key, value) = mark.split_once('=').unwrap();
        let options = if keep { &["--keep"][..] } else { &[] };
        // By then the child has its own name.
        let script = "sleep 600 > /dev/null 2>&1 & sleep 0.5; exit 3";
        let all = [options, &["--no-measure", "--cpu", &cpu, "--", "sh", "-c", script]].concat();
        let output = slow(&all).env(key, value).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        let said = stderr(&output);
        assert_eq!(said.contains("left processes, which end now: sleep ("), !keep, "{said}");
        until(|| marked(&mark).len() == usize::from(keep));
        for (pid, _) in marked(&mark) {
            signal(pid.cast_unsigned(), "KILL");
        }
    }
}

#[test]
fn an_attached_process_goes_back_to_where_it_was() {
    if !has_rights() {
        return;
    }
    let mut victim = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = victim.id().to_string();
    let allowed = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    };
    let groups = || std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let before = (allowed(), groups());
    let cpu = format!("{}=90%", last_cpu());
    let arguments = ["attach", "--no-measure", "--cpu", &cpu, "--pid", &pid];
    let mut session = slow(&arguments).stderr(Stdio::null()).spawn().unwrap();
    until(|| allowed() == last_cpu() && groups().contains("schedlab-"));
    session.kill().unwrap();
    session.wait().unwrap();
    until(|| (allowed(), groups()) == before && left(session.id()).is_empty());
    assert!(victim.try_wait().unwrap().is_none(), "it was attached, not started: it lives on");
    victim.kill().unwrap();
    victim.wait().unwrap();
}

#[test]
fn an_attached_control_group_is_slowed_and_goes_back() {
    let home = Path::new("/sys/fs/cgroup/freezer");
    let group = home.join(format!("slow-test-{}", std::process::id()));
    if !has_rights() || std::fs::create_dir(&group).is_err() {
        missing!("a freezer hierarchy of version 1 that can be written; --cgroup is not tested");
        return;
    }
    let mut victim = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = victim.id().to_string();
    std::fs::write(group.join("cgroup.procs"), &pid).unwrap();
    let groups = || std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let cpu = format!("{}=90%", last_cpu());
    let path = group.to_str().unwrap();
    let arguments = ["attach", "--no-measure", "--cpu", &cpu, "--cgroup", path];
    let mut session = slow(&arguments).stderr(Stdio::null()).spawn().unwrap();
    until(|| groups().contains(&format!("schedlab-{}-", session.id())));
    signal(session.id(), "INT");
    assert_eq!(session.wait().unwrap().code(), Some(130));
    until(|| !groups().contains("schedlab-") && left(session.id()).is_empty());
    assert!(victim.try_wait().unwrap().is_none(), "it was attached, not started: it lives on");
    victim.kill().unwrap();
    victim.wait().unwrap();
    until(|| std::fs::remove_dir(&group).is_ok());
}
