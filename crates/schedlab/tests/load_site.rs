//! What `schedlab load` makes for a run, control groups and a network, is what the tasks find, and it
//! is gone afterwards: also after `kill -9`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn load(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.arg("load").args(words.split_whitespace());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn missing(what: &str) {
    let _ = writeln!(std::io::stderr(), "MISSING: {what}");
}

/// The folder in which the program makes its groups, where it may.
fn groups_above() -> Option<PathBuf> {
    let above = schedlab_sys::cgroup::here("cpu")?.group();
    let probe = above.join(format!("schedlab-probe-{}", std::process::id()));
    std::fs::create_dir(&probe).ok()?;
    std::fs::remove_dir(&probe).ok()?;
    Some(above)
}

/// Waits until `found` says so; whether it did.
fn within(time: Duration, mut found: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if found() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn workers_and_messengers_have_groups_of_their_own_which_go_with_a_killed_run() {
    let Some(above) = groups_above() else {
        return missing("the right to make control groups: no weights were tried");
    };
    let line = "schbench -m 1 -t 2 -r 60 --weight worker=200,message=50 --nice worker=5";
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
    let settled = within(Duration::from_secs(60), || count(&worker) == 2 && count(&message) == 1);
    let weights: Vec<Option<String>> = [&worker, &message]
        .iter()
        .map(|group| {
            let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
            read("cpu.shares").or_else(|| read("cpu.weight")).map(|text| text.trim().to_owned())
        })
        .collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(settled, "the tasks did not come into their groups");
    let words: Vec<&str> = weights.iter().map(|w| w.as_deref().unwrap_or("none")).collect();
    assert!(matches!(words[..], ["2048", "512"] | ["200", "50"]), "{words:?}");
    let gone = within(Duration::from_secs(30), || !worker.exists() && !message.exists());
    assert!(gone, "groups were left behind a killed run");
}

#[test]
fn over_a_link_the_network_is_the_bound_and_its_namespace_goes() {
    let output = load("udp --rate 10Mbit --duration 2s --json").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(1) && said.contains("can't send over a link") {
        return missing(&format!("a network namespace: {said}"));
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("over a link of 10Mbit"), "{said}");
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // 10 Mbit are 1.25 MB a second, headers included; the bucket and the sender's buffer come on top,
    // once. The loopback takes a hundred times that, with the CPU all its own.
    let of = |name: &str| value[name][0].as_f64().unwrap();
    let (bytes, time) = (of("bytes"), of("time_s"));
    assert!(bytes > 10_000.0 && bytes < 1_250_000.0 * time + 400_000.0, "{bytes} in {time} s");
    let busy = of("cpu_user_s") + of("cpu_system_s");
    assert!(busy < time / 2.0, "the sender computed for {busy} s of {time} s");
    let list = Command::new("ip").args(["netns", "list"]).output().unwrap();
    let left = String::from_utf8_lossy(&list.stdout).into_owned();
    let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    for left in left.lines().map(name).filter(|name| name.starts_with("sl")) {
        let process = left[2..].split('-').next().unwrap_or_default();
        let process = u32::from_str_radix(process, 16).unwrap_or(0);
        let owner = format!("/proc/{process}");
        assert!(std::path::Path::new(&owner).exists(), "{left} was left behind");
    }
}

#[test]
fn a_wrong_weight_or_rate_is_wrong_usage() {
    for (line, part) in [
        ("schbench --weight 0", "between 1 and 10000"),
        ("schbench --weight cook=5", "no role 'cook'"),
        ("udp --rate fast", "not a rate"),
        ("udp --rate 1bit", "not a rate"),
    ] {
        let output = load(line).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(part), "{line}: {said}");
    }
}
