//! What `schedlab load` makes for a run, control groups and a network, is what the tasks find, and it
//! is gone afterwards: also after `kill -9`.

use crate::patience::eventually;
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn load(words: &str) -> Command {
    crate::machine_lock::share();
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.arg("load").args(words.split_whitespace());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn missing(what: &str) {
    missing!("{what}");
}

/// The folder in which the program makes its groups, where it may.
fn groups_above() -> Option<PathBuf> {
    let above = schedlab_sys::cgroup::here("cpu")?.group();
    let probe = above.join(format!("schedlab-probe-{}", std::process::id()));
    std::fs::create_dir(&probe).ok()?;
    std::fs::remove_dir(&probe).ok()?;
    Some(above)
}

#[test]
fn workers_and_messengers_have_groups_of_their_own_which_go_with_a_killed_run() {
    let Some(above) = groups_above() else {
        return missing("the right to make control groups: no weights were tried");
    };
    let line = "schbench -m 1 -t 2 -r 300 --weight worker=200,message=50 --nice worker=5";
    let mut child = load(line).spawn().unwrap();
    let own = format!("schedlab-{}", child.id());
    let (worker, message) =
        (above.join(format!("{own}-worker")), above.join(format!("{own}-message")));
    let count = |group: &PathBuf| {
        ["cgroup.threads", "tasks"]
            .iter()
            .find_map(|name| std::fs::read_to_string(group.join(name)).ok())
            .map_or(0, |text| text.lines().count())
    };
    eventually(|| match (count(&worker), count(&message)) {
        (2, 1) => Ok(()),
        counts => Err(format!("tasks in the groups of workers and messengers: {counts:?}")),
    });
    let weights: Vec<Option<String>> = [&worker, &message]
        .iter()
        .map(|group| {
            let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
            read("cpu.shares").or_else(|| read("cpu.weight")).map(|text| text.trim().to_owned())
        })
        .collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let words: Vec<&str> = weights.iter().map(|w| w.as_deref().unwrap_or("none")).collect();
    assert!(matches!(words[..], ["2048", "512"] | ["200", "50"]), "{words:?}");
    eventually(|| match worker.exists() || message.exists() {
        false => Ok(()),
        true => Err("groups were left behind a killed run".to_owned()),
    });
}

/// The guardian of a process.
fn guardian(of: u32) -> Option<u32> {
    let journal = format!("/{of}-");
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("__guard") && line.contains(&journal)
    })
}

#[test]
fn a_guardian_that_was_killed_has_a_successor_who_cleans_up() {
    let Some(above) = groups_above() else {
        return missing("the right to make control groups: no guardian was killed");
    };
    let mut child = load("schbench -m 1 -t 2 -r 300 --weight worker=200").spawn().unwrap();
    let worker = above.join(format!("schedlab-{}-worker", child.id()));
    eventually(|| if worker.exists() { Ok(()) } else { Err("no group".to_owned()) });
    let first = guardian(child.id()).unwrap();
    schedlab_sys::process::kill(schedlab_model::Pid(first.cast_signed()), 9).unwrap();
    eventually(|| match guardian(child.id()).filter(|next| *next != first) {
        Some(_) => Ok(()),
        None => Err("the guardian has no successor".to_owned()),
    });
    child.kill().unwrap();
    child.wait().unwrap();
    eventually(|| match worker.exists() {
        false => Ok(()),
        true => Err("a group was left behind by the successor".to_owned()),
    });
}

#[test]
fn over_a_link_the_network_is_the_bound_and_its_namespace_goes() {
    eventually(|| {
        let output = load("udp --rate 10Mbit --duration 2s --json").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() == Some(1) && said.contains("cannot send over a link") {
            missing(&format!("a network namespace: {said}"));
            return Ok(());
        }
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("over a link of 10Mbit"), "{said}");
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        // 10 Mbit are 1.25 MB a second, headers included; the bucket and the sender's buffer come on top,
        // once. The loopback takes a hundred times that, with the CPU all its own.
        let of = |name: &str| value[name][0].as_f64().unwrap();
        let (bytes, time) = (of("bytes"), of("time_s"));
        assert!(bytes < 1_250_000.0 * time + 400_000.0, "{bytes} in {time} s");
        // What a hypervisor takes from a CPU is counted as the use of whoever had it.
        let busy = of("cpu_user_s") + of("cpu_system_s");
        let sent = bytes > 10_000.0 && busy < time / 2.0;
        if sent { Ok(()) } else { Err(format!("{bytes} bytes, {busy} s of {time} s")) }
    });
    // Another's link may be on its way out just now.
    eventually(|| match orphans() {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?} were left behind")),
    });
}

/// Network namespaces whose process is gone: its number in hexadecimal is part of their names.
fn orphans() -> Vec<String> {
    let list = Command::new("ip").args(["netns", "list"]).output();
    let list = list.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let orphan = |name: &String| {
        let process = name.strip_prefix("sl").and_then(|rest| rest.split('-').next());
        let process = process.and_then(|hex| u32::from_str_radix(hex, 16).ok());
        process.is_some_and(|process| !PathBuf::from(format!("/proc/{process}")).exists())
    };
    list.unwrap_or_default().lines().map(name).filter(orphan).collect()
}

#[test]
fn a_wrong_weight_or_rate_is_wrong_usage() {
    for (line, part) in [
        ("schbench --weight 0", "use 1 to 10000"),
        ("schbench --weight cook=5", "unknown role 'cook'"),
        ("udp --rate fast", "invalid rate"),
        ("udp --rate 1bit", "invalid rate"),
    ] {
        let output = load(line).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(part), "{line}: {said}");
    }
}
