//! Virtual nodes: networks of their own, scripts, noise, and that a machine slowed as a whole goes on.

use super::{
    Path, Stdio, has_rights, last_cpu, left, marked, node, run, signal, slow, stderr, until,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A file of one node on the last CPU, with a network.
fn file(dir: &Path, net: &str, commands: &str) -> String {
    let (path, cpu) = (dir.join("nodes.toml"), last_cpu());
    let text = format!(
        "[[node]]\nname = \"far\"\ncpus = \"{cpu}\"\nspeed = \"90%\"\ncommands = [{commands}]\n[node.net]\n{net}\n"
    );
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Whether networks with a rate can be had; says aloud when not. Any other failure is one.
pub(super) fn has_networks() -> bool {
    if !has_rights() {
        return false;
    }
    let dir = tempfile::tempdir().unwrap();
    let probe = run(&[&file(dir.path(), "rate = \"1Gbit\"", "[\"true\"]"), "--no-measure"]);
    let said = stderr(&probe);
    let missing = ["missing program", "needs root", "CONFIG_NET_SCH"];
    if missing.iter().any(|why| said.contains(why)) {
        missing!("networks of nodes are not tested: {said}");
        return false;
    }
    assert!(probe.status.success(), "{said}");
    true
}

/// Namespaces and devices that a session of this number left.
fn networks_left(pid: u32) -> Vec<String> {
    let names = ["/run/netns", "/sys/class/net"].into_iter().flat_map(|dir| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
    });
    names.filter(|name| name.starts_with(&format!("sl{pid:x}-"))).collect()
}

/// Whoever connects; a failure when nobody does.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let mut came = None;
    until(|| {
        came = listener.accept().ok();
        came.is_some()
    });
    let (stream, _) = came.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream
}

#[test]
fn a_node_sends_no_faster_than_its_link() {
    if !has_networks() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // It waits for the answer: what is under way when the session ends is lost with its network.
    let send = format!(
        "[\"bash\", \"-c\", \"exec 3<>/dev/tcp/$SCHEDLAB_HOST/{port}; head -c 500000 /dev/zero >&3; read -t 60 <&3; \
         echo $SCHEDLAB_ADDRESS\"]"
    );
    let path = file(dir.path(), "rate = \"2Mbit\"", &send);
    // From before it starts: this test may be held up while the node sends.
    let began = Instant::now();
    let session = slow(&[&path, "--no-measure"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = session.id();
    let mut stream = accept(&listener);
    let (from, mut got) = (stream.peer_addr().unwrap(), vec![1; 500_000]);
    stream.read_exact(&mut got).unwrap();
    let took = began.elapsed().as_secs_f64();
    stream.write_all(b"done\n").unwrap();
    assert!(got.iter().all(|byte| *byte == 0));
    // At 2 Mbit/s this takes 2 s, less what the bucket of 16 KiB lets through at once; without a rate the
    // whole session takes a tenth of it. A busy machine can make it longer and never shorter.
    assert!(took > 1.7, "{took} s is faster than the link");
    let output = session.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let told = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(told.trim(), from.ip().to_string(), "the address that it was told is its own");
    assert!(stderr(&output).contains("node far: 2 Mbit/s, at 198."), "{}", stderr(&output));
    until(|| networks_left(pid).is_empty() && left(pid).is_empty());
}

#[test]
fn nodes_reach_each_other_and_a_killed_session_leaves_no_network() {
    if !has_networks() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    if online.trim() == "0" {
        missing!("a second CPU; two nodes are not tested");
        return;
    }
    let path = dir.path().join("nodes.toml");
    let text = format!(
        "[[node]]\nname = \"left-one\"\ncpus = \"0\"\nspeed = \"90%\"\ncommands = [[\"bash\", \"-c\", \
         \"until echo hello > /dev/tcp/$SCHEDLAB_ADDRESS_RIGHT/7007; do sleep 0.05; done; sleep 600\"]]\n[node.net]\n\
         [[node]]\nname = \"right\"\ncpus = \"{}\"\nspeed = \"90%\"\ncommands = [\"sleep 600\"]\n[node.net]\nrate = \"10Mbit\"\n",
        last_cpu()
    );
    std::fs::write(&path, text).unwrap();
    let arguments = [path.to_str().unwrap(), "--no-measure"];
    let mut session = slow(&arguments).stderr(Stdio::null()).spawn().unwrap();
    let pid = session.id();
    let inside = format!("/run/netns/sl{pid:x}-1");
    until(|| networks_left(pid).len() >= 4 && Path::new(&inside).exists());
    let listener =
        schedlab_sys::netns::inside(Path::new(&inside), || TcpListener::bind("0.0.0.0:7007"));
    let mut stream = accept(&listener.unwrap());
    let mut got = String::new();
    stream.read_to_string(&mut got).unwrap();
    assert_eq!(got, "hello\n");
    session.kill().unwrap();
    session.wait().unwrap();
    until(|| networks_left(pid).is_empty() && left(pid).is_empty());
}

#[test]
fn a_delay_is_had_or_refused_by_the_name_of_what_is_missing() {
    if !has_networks() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "delay = \"5ms\"\nloss = \"1%\"", "[\"true\"]");
    let session = slow(&[&path, "--no-measure"]).stderr(Stdio::piped()).spawn().unwrap();
    let pid = session.id();
    let output = session.wait_with_output().unwrap();
    let said = stderr(&output);
    if !output.status.success() {
        assert_eq!(output.status.code(), Some(1));
        assert!(said.contains("node far") && said.contains("CONFIG_NET_SCH_NETEM"), "{said}");
        // It is known before anything is changed: a dry run is refused for the same reason.
        let dry = run(&[&path, "--dry-run"]);
        assert_eq!(dry.status.code(), Some(1));
        assert!(stderr(&dry).contains("CONFIG_NET_SCH_NETEM"), "{}", stderr(&dry));
        missing!("netem; only its refusal is tested");
    } else {
        assert!(said.contains("1% lost"), "{said}");
    }
    until(|| networks_left(pid).is_empty() && left(pid).is_empty());
}

/// A script's last step stays, so that whoever looks late sees it as well.
#[test]
fn speeds_follow_their_script_and_a_failed_node_stands_still_until_it_recovers() {
    if !has_rights() {
        return;
    }
    let (dir, cpu) = (tempfile::tempdir().unwrap(), last_cpu());
    let (path, log) = (dir.path().join("nodes.toml"), dir.path().join("log"));
    let written = || std::fs::metadata(&log).map_or(0, |log| log.len());
    let command = format!("while :; do echo >> {}; sleep 0.01; done", log.display());
    let steps = [
        "{ at = \"100ms\", speed = \"70%\" }, { at = \"200ms\", speed = \"80%\" }, { at = \"300ms\", fail = true }",
        "{ at = \"400ms\", recover = true }, { at = \"500ms\", speed = \"75%\" }",
    ];
    for (script, speed, fails) in
        [(steps[0].to_owned(), "80%", true), (steps.join(", "), "75%", false)]
    {
        let text = format!(
            "[[node]]\nname = \"n\"\ncpus = \"{cpu}\"\nspeed = \"90%\"\ncommands = [[\"sh\", \"-c\", \"{command}\"]]\nscript = [{script}]\n"
        );
        std::fs::write(&path, text).unwrap();
        let arguments = [path.to_str().unwrap(), "--no-measure"];
        let mut session = slow(&arguments).stderr(Stdio::null()).spawn().unwrap();
        until(|| node(&session)["speeds"][cpu.as_str()] == speed);
        until(|| node(&session)["failed"] == fails);
        // It writes, or no more.
        until(|| {
            let before = written();
            std::thread::sleep(Duration::from_millis(300));
            (written() == before) == fails
        });
        signal(session.id(), "INT");
        assert_eq!(session.wait().unwrap().code(), Some(130));
        until(|| left(session.id()).is_empty());
    }
}

#[test]
fn noise_computes_on_its_cpu_and_goes_with_the_session() {
    if !has_rights() {
        return;
    }
    let mark = format!("SCHEDLAB_SLOW_TEST=noise-{}", std::process::id());
    let (key, value) = mark.split_once('=').unwrap();
    let (cpu, noise) = (last_cpu(), format!("{}:200:1ms", last_cpu()));
    let arguments =
        ["--no-measure", "--cpu", &format!("{cpu}=90%"), "--noise", &noise, "--", "sleep", "600"];
    let mut session = slow(&arguments).env(key, value).stderr(Stdio::null()).spawn().unwrap();
    let maker = || {
        let all = marked(&mark);
        all.into_iter().find(|(_, command)| command.contains("\"noise\"")).map(|(pid, _)| pid)
    };
    until(|| {
        let used =
            maker().and_then(|pid| schedlab_sys::process::cpu_time(schedlab_model::Pid(pid)));
        used.is_some_and(|used| used >= schedlab_model::Nanos::from_millis(50))
    });
    let threads = std::fs::read_dir(format!("/proc/{}/task", maker().unwrap())).unwrap();
    let bound = threads.flatten().filter(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        status.contains(&format!("Cpus_allowed_list:\t{cpu}\n"))
    });
    assert_eq!(bound.count(), 1, "one thread makes noise, on its CPU");
    signal(session.id(), "INT");
    session.wait().unwrap();
    until(|| marked(&mark).is_empty() && left(session.id()).is_empty());
}

#[test]
fn a_machine_slowed_as_a_whole_still_answers() {
    if !has_rights() {
        return;
    }
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let all = format!("{}=10%", online.trim());
    let arguments = ["--no-measure", "--method", "hogs", "--cpu", &all, "--", "sleep", "600"];
    let mut session = slow(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    until(|| node(&session)["processes"].as_array().is_some_and(|all| !all.is_empty()));
    signal(session.id(), "INT");
    let mut said = String::new();
    session.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(session.wait().unwrap().code(), Some(130));
    assert!(said.contains("leave a CPU at full speed"), "{said}");
    until(|| left(session.id()).is_empty());
}
