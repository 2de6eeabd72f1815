//! A trace on the standard output, and recordings and windows of another host: an sshd of the test's own.

use crate::machines::cluster::{Hosts, children};
use crate::machines::{has, run, schedlab, wait_for};
use crate::watch::{Screen, may_watch};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_schedlab");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How many events a trace has.
fn events(dir: &Path, file: &str) -> u64 {
    let told = run(dir, &["trace", "info", file, "--json"]);
    assert!(told.status.success(), "{}", text(&told.stderr));
    let info: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    info["events"].as_object().expect("kinds").values().filter_map(|count| count.as_u64()).sum()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut all: Vec<_> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    all.sort();
    all
}

#[test]
fn a_trace_goes_to_the_standard_output_alone_and_never_to_a_terminal() {
    if !may_watch() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let mut command =
        schedlab(here, &["record", "-o", "-", "--", "sh", "-c", "echo hello; exit 7"]);
    let done = command.env("TMPDIR", here).output().unwrap();
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(7), "{said}");
    assert!(said.contains("hello") && said.contains("the standard output: "), "{said}");
    assert!(
        !text(&done.stdout).contains("hello\n"),
        "what a command prints is no part of the trace"
    );
    assert_eq!(names(here), Vec::<String>::new(), "nothing else is left");
    std::fs::write(here.join("x.dat"), &done.stdout).unwrap();
    assert!(events(here, "x.dat") > 0);
    for (options, why) in
        [(&["--json"][..], "--json"), (&["--snapshot", "5ms", "--max", "1"], "--max")]
    {
        let refused = run(here, &[&["record", "-o", "-"], options].concat());
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
    }
    if !has("script", "a terminal as the standard output") {
        return;
    }
    let line = format!("{PROGRAM} record -o - --time 1s");
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null());
    let refused = command.output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stdout));
    assert!(text(&refused.stdout).contains("is a terminal"), "{}", text(&refused.stdout));
}

/// A host `a`, and how it is reached.
struct Host {
    hosts: Hosts,
}

impl Host {
    fn new() -> Option<Self> {
        let hosts = may_watch().then(|| Hosts::start("recordings of other hosts"))??;
        std::fs::create_dir(hosts.here.path().join("mine")).unwrap();
        Some(Self { hosts })
    }

    /// Where the command runs, and what it writes.
    fn mine(&self) -> PathBuf {
        self.hosts.here.path().join("mine")
    }

    fn tmp(&self) -> PathBuf {
        self.hosts.here.path().join("a.tmp")
    }

    fn command(&self, words: &[&str]) -> Command {
        let there = ["--ssh", "a", "--ssh-command", &self.hosts.ssh];
        schedlab(&self.mine(), &[&words[..1], &there, &words[1..]].concat())
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Begins a recording there that ends with the test, whatever it finds.
    fn begin(&mut self, file: &str) {
        let mut command = self.command(&["record", "-o", file]);
        let going = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        self.hosts.processes.0.insert("record", going);
    }

    /// That recording, to be waited for.
    fn going(&mut self) -> Child {
        self.hosts.processes.0.remove("record").expect("it was begun")
    }

    /// The process that records there, once it does.
    fn recorder(&self) -> String {
        wait_for("a recording there", || {
            let pid = names(&self.tmp())
                .into_iter()
                .find_map(|name| std::fs::read_to_string(self.tmp().join(name).join("pid")).ok())?;
            let pid = pid.trim().to_owned();
            let threads = names(Path::new(&format!("/proc/{pid}/task")));
            (threads.len() > 1).then_some(pid)
        })
    }

    fn is_left_clean(&self, recorder: &str) {
        self.hosts.wait_until_empty("a");
        let instance = format!("/sys/kernel/tracing/instances/schedlab-{recorder}");
        wait_for("no instance", || (!Path::new(&instance).exists()).then_some(()));
    }
}

#[test]
fn a_recording_of_another_host_comes_here_and_leaves_nothing_there() {
    let Some(mut host) = Host::new() else { return };
    let done = host.run(&["record", "-o", "x.dat", "--time", "300ms"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("x.dat: "), "{}", text(&done.stderr));
    assert!(events(&host.mine(), "x.dat") > 0);
    let done = host.run(&["record", "-oy.dat", "--", "sh", "-c", "exit 7"]);
    assert_eq!(done.status.code(), Some(7), "{}", text(&done.stderr));
    assert_eq!(names(&host.mine()), ["x.dat", "y.dat"]);
    host.is_left_clean("none");
    // Ctrl-C ends the recording there, and its trace comes.
    host.begin("z.dat");
    let recorder = host.recorder();
    let going = host.going();
    Command::new("kill").args(["-INT", &going.id().to_string()]).status().unwrap();
    let done = going.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(events(&host.mine(), "z.dat") > 0);
    host.is_left_clean(&recorder);
    let refused = host.run(&["record", "--json"]);
    assert_eq!(refused.status.code(), Some(2));
    let refused = run(&host.mine(), &["record", "--ssh", "-oProxyCommand=touch planted"]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(names(&host.mine()), ["x.dat", "y.dat", "z.dat"]);
}

#[test]
fn a_broken_connection_and_a_killed_command_leave_nothing() {
    let Some(mut host) = Host::new() else { return };
    host.begin("x.dat");
    let recorder = host.recorder();
    host.hosts.processes.end("record");
    host.is_left_clean(&recorder);
    host.begin("x.dat");
    let recorder = host.recorder();
    // Both connections: the sessions end, and with them what holds their streams.
    let sessions = children(host.hosts.processes.0["a"].id());
    host.hosts.processes.end("a");
    for session in sessions {
        Command::new("kill").args(["-9", &session.to_string()]).status().unwrap();
    }
    let done = host.going().wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("the connection broke"), "{}", text(&done.stderr));
    assert_eq!(names(&host.mine()), Vec::<String>::new());
    host.is_left_clean(&recorder);
}

#[test]
fn windows_of_another_host_have_their_exit_code_and_their_traces() {
    let Some(host) = Host::new() else { return };
    // The same version is there, so nothing is copied.
    let bin = host.hosts.here.path().join("a.bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(PROGRAM, bin.join("schedlab")).unwrap();
    let window = ["--interval", "200ms", "--time", "600ms", "--json"];
    let files = ["--keep", "all.dat", "--snapshot-if", "switches > 0", "--output", "bad.dat"];
    let held = ["--fail-if", "switches > 0"];
    std::fs::write(host.mine().join("bad-000004.dat"), "x").unwrap();
    let done = host.run(&[&["watch"], &window[..], &files, &held].concat());
    assert_eq!(done.status.code(), Some(3), "{}", text(&done.stderr));
    assert_eq!(text(&done.stdout).lines().count(), 3, "{}", text(&done.stdout));
    let all = names(&host.mine());
    assert!(
        all.len() >= 3 && all[..3] == ["all.dat", "bad-000004.dat", "bad-000005.dat"],
        "{all:?}"
    );
    assert!(events(&host.mine(), "all.dat") >= events(&host.mine(), "bad-000005.dat"));
    let refused = host.run(&["watch", "--listen", "9464"]);
    assert_eq!(refused.status.code(), Some(2));
    host.is_left_clean("none");
}

#[test]
fn the_view_of_another_host_fits_this_terminal_and_leaves_nothing() {
    let Some(host) = Host::new() else { return };
    let line =
        format!("{PROGRAM} watch --ssh a --ssh-command '{}' --interval 200ms", host.hosts.ssh);
    let Some(screen) = Screen::of(&host.mine(), (80, 24), &line) else { return };
    screen.shows("h help");
    screen.keys(&["t"]);
    screen.shows("watch-000001.dat: ");
    screen.keys(&["q"]);
    wait_for("the trace", || host.mine().join("watch-000001.dat").exists().then_some(()));
    host.is_left_clean("none");
}

#[test]
fn a_container_without_tracefs_is_told_the_flags_and_mounts_that_it_needs() {
    let unchecked = "what a container is told";
    if !may_watch() || !has("unshare", unchecked) || !has("setpriv", unchecked) {
        return;
    }
    let script = format!(
        "umount -l /sys/kernel/debug 2>/dev/null; umount -l /sys/kernel/tracing
         exec setpriv --bounding-set=-all --inh-caps=-all {PROGRAM} watch --time 1s"
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c", &script]);
    let done = command.env("KUBERNETES_SERVICE_HOST", "10.0.0.1").output().unwrap();
    let said = text(&done.stderr);
    if said.contains("unshare failed") || said.contains("must be superuser") {
        return missing!("a mount namespace: {unchecked}: {said}");
    }
    for word in
        ["-v /sys/kernel/tracing:", "--pid=host", "PERFMON", "hostPID: true", "daemonset.yaml"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
}
