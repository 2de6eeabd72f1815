//! A cluster in a box: links between pairs of nodes, events and their marks, and what a node sees of itself.

use super::nodes::has_networks;
use super::{PROGRAM, Path, Stdio, has_rights, last_cpu, left, run, slow, stderr, until};
use std::net::UdpSocket;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Two nodes with networks, on CPUs of their own.
fn pair(dir: &Path, rest: &str) -> Option<String> {
    if !has_networks() {
        return None;
    }
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    if online.trim() == "0" {
        missing!("a second CPU; two nodes are not tested");
        return None;
    }
    let one = |name: &str, cpu: &str| {
        format!(
            "[[node]]\nname = \"{name}\"\ncpus = \"{cpu}\"\nspeed = \"90%\"\n\
             commands = [\"sleep 600\"]\n[node.net]\n"
        )
    };
    let text = format!("{}{}{rest}", one("a", "0"), one("b", &last_cpu()));
    let path = dir.join("nodes.toml");
    std::fs::write(&path, text).unwrap();
    Some(path.to_str().unwrap().to_owned())
}

/// All that a session tells of itself.
fn status(session: &Child) -> serde_json::Value {
    let output = run(&["status", "--json"]);
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let sessions = all["sessions"].as_array().cloned().unwrap_or_default();
    sessions.into_iter().find(|one| one["pid"] == session.id()).unwrap_or_default()
}

/// A socket in the network of the session's node `index`, at its address.
fn socket(session: &Child, index: usize) -> UdpSocket {
    let address = status(session)["nodes"][index]["address"].as_str().unwrap().to_owned();
    let path = format!("/run/netns/sl{:x}-{index}", session.id());
    let bind = || UdpSocket::bind((address.as_str(), 0));
    let socket = schedlab_sys::netns::inside(Path::new(&path), bind).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    socket
}

/// Rules of routing for these addresses.
fn rules(session: &Child) -> usize {
    let address = |index: usize| status(session)["nodes"][index]["address"].clone();
    let (a, b) = (address(0), address(1));
    let all = Command::new("ip").args(["rule", "show"]).output().unwrap().stdout;
    let all = String::from_utf8_lossy(&all).into_owned();
    let of = |line: &&str| {
        [&a, &b].iter().all(|address| line.contains(address.as_str().unwrap_or("nobody")))
    };
    all.lines().filter(of).count()
}

#[test]
fn a_pair_is_cut_healed_and_shaped_while_both_nodes_run() {
    let dir = tempfile::tempdir().unwrap();
    let Some(path) = pair(dir.path(), "") else { return };
    let events = dir.path().join("events");
    let arguments = [&path, "--no-measure", "--events", events.to_str().unwrap()];
    let mut session = slow(&arguments).stderr(Stdio::null()).spawn().unwrap();
    until(|| status(&session)["nodes"][1]["processes"].as_array().is_some_and(|p| !p.is_empty()));
    let order = |words: &[&str]| {
        let id = session.id().to_string();
        run(&[words, &["--session", &id]].concat())
    };
    let done = |words: &[&str]| {
        let output = order(words);
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    };
    let (from, to) = (socket(&session, 0), socket(&session, 1));
    let there = to.local_addr().unwrap();
    let mut number = 0u64;
    let mut passes = || {
        number += 1;
        from.send_to(&number.to_le_bytes(), there).unwrap();
        let mut got = [0; 8];
        // An older one that comes late is not this one.
        to.recv(&mut got).is_ok() && u64::from_le_bytes(got) == number
    };
    until(&mut passes);
    done(&["cut", "b", "a"]);
    assert_eq!(status(&session)["cut"], serde_json::json!([["a", "b"]]));
    assert_eq!(rules(&session), 2);
    // Nothing comes, and the sender is not told.
    assert!((0..3).all(|_| !passes()));
    done(&["cut", "a", "b"]);
    done(&["heal", "a", "b"]);
    until(&mut passes);
    assert_eq!(rules(&session), 0);
    for (words, why) in [
        (["cut", "a", "nobody"], "unknown node nobody"),
        (["heal", "a", "a"], "two different nodes"),
    ] {
        let refused = order(&words);
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
    }
    shape(&order, &from, &to);
    // Killed while the pair is cut: the rules go as well.
    done(&["cut", "a", "b"]);
    let addresses = (from.local_addr().unwrap().ip(), there.ip());
    session.kill().unwrap();
    session.wait().unwrap();
    until(|| {
        let all = Command::new("ip").args(["rule", "show"]).output().unwrap().stdout;
        let all = String::from_utf8_lossy(&all).into_owned();
        !all.contains(&addresses.0.to_string()) && left(session.id()).is_empty()
    });
    let said = std::fs::read_to_string(&events).unwrap();
    let said: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(said[0]["what"], "cut a b");
    assert_eq!(said[2]["what"], "heal a b");
    assert!(said[0]["time_ns"].as_u64() < said[2]["time_ns"].as_u64(), "{said:?}");
}

/// A rate for the pair, which nothing is faster than.
fn shape(order: &dyn Fn(&[&str]) -> std::process::Output, from: &UdpSocket, to: &UdpSocket) {
    let shaped = order(&["link", "a", "b", "--rate", "64kbit"]);
    if !shaped.status.success() {
        assert!(stderr(&shaped).contains("CONFIG_NET_SCH"), "{}", stderr(&shaped));
        missing!("htb; no pair is shaped");
        return;
    }
    let began = Instant::now();
    for _ in 0..30 {
        from.send_to(&[0; 1_000], to.local_addr().unwrap()).unwrap();
    }
    let mut got = 0;
    until(|| {
        got += usize::from(to.recv(&mut [0; 1_000]).is_ok_and(|length| length == 1_000));
        got == 30
    });
    // 30 kB at 8 kB a second, less the 16 KiB that pass at once.
    assert!(began.elapsed() > Duration::from_secs(1), "{:?}", began.elapsed());
    let delayed = order(&["link", "a", "b", "--delay", "5ms", "--loss", "1%"]);
    if !delayed.status.success() {
        assert!(stderr(&delayed).contains("CONFIG_NET_SCH_NETEM"), "{}", stderr(&delayed));
        missing!("netem; only its refusal is tested for a pair");
    }
}

#[test]
fn events_happen_in_their_order_and_are_marks_of_a_recording() {
    if !has_rights() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (path, trace) = (dir.path().join("nodes.toml"), dir.path().join("a.dat"));
    let text = format!(
        "[[node]]\nname = \"n\"\ncpus = \"{}\"\nspeed = \"90%\"\ncommands = [\"sleep 6\"]\n\
         [[event]]\nat = \"200ms\"\nrecover = \"n\"\n[[event]]\nat = \"0s\"\nnode = \"n\"\nspeed = \"80%\"\n\
         [[event]]\nat = \"100ms\"\nfail = \"n\"\n",
        last_cpu()
    );
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["record", "-o"]).arg(&trace).arg("--").args([PROGRAM, "slow", "--share"]);
    let output = command.arg(&path).arg("--no-measure").output().unwrap();
    if !output.status.success() && stderr(&output).contains("doctor") {
        missing!("the right to record: {}", stderr(&output));
        return;
    }
    assert!(output.status.success(), "{}", stderr(&output));
    let list = Command::new("trace-cmd").args(["report", "-i"]).arg(&trace).output();
    let Ok(list) = list else {
        missing!("trace-cmd; the marks are not read back");
        return;
    };
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let at = |what: &str| list.find(what).unwrap_or_else(|| panic!("no '{what}' in the trace"));
    assert!(at("speed n 80%") < at("fail n") && at("fail n") < at("recover n"));
    let beside: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().flatten().map(|f| f.file_name()).collect();
    assert_eq!(beside.len(), 2, "no file of marks is left: {beside:?}");
}

#[test]
fn commands_of_a_node_see_their_node() {
    if !has_rights() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("nodes.toml"), dir.path().join("out"));
    let cpu = last_cpu();
    let look = "grep ^processor /proc/cpuinfo; cat /sys/devices/system/cpu/online; nproc";
    for (shown, expected) in [("", true), ("shown = false\n", false)] {
        let text = format!(
            "[[node]]\nname = \"n\"\ncpus = \"{cpu}\"\nspeed = \"90%\"\n{shown}\
             commands = [\"({look}) > {}\"]\n",
            out.display()
        );
        std::fs::write(&path, text).unwrap();
        let output = run(&[path.to_str().unwrap(), "--no-measure"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let saw = std::fs::read_to_string(&out).unwrap();
        let node = format!("processor\t: {cpu}\n{cpu}\n1\n");
        let all = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let one = all.lines().filter(|line| line.starts_with("processor")).count() == 1;
        assert_eq!(saw == node, expected || one, "{saw}");
    }
    let output = run(&[
        "--cpu",
        &format!("{cpu}=90%"),
        "--no-measure",
        "--show-node",
        "--",
        "sh",
        "-c",
        look,
    ]);
    assert_eq!(
        String::from_utf8(output.stdout.clone()).unwrap(),
        format!("processor\t: {cpu}\n{cpu}\n1\n")
    );
}

#[test]
fn memory_bandwidth_is_limited_or_refused_by_what_is_missing() {
    if !has_rights() {
        return;
    }
    let cpu = format!("{}=90%", last_cpu());
    let output = run(&["--cpu", &cpu, "--memory", "50%", "--no-measure", "--", "true"]);
    if output.status.success() {
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let missing = ["CONFIG_X86_CPU_RESCTRL", "lacks Memory Bandwidth Allocation"];
    assert!(missing.iter().any(|why| stderr(&output).contains(why)), "{}", stderr(&output));
    missing!("resctrl with MBA; only its refusal is tested");
}
