//! Whose tasks are slowed and where: commands on the CPUs named, processes that are taken in and go back to where
//! they were, and signals that are the command's.

use super::{
    PROGRAM, Path, PathBuf, Stdio, has_rights, last_cpu, left, node, run, signal, slow, stderr,
    until,
};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;

#[test]
fn a_command_runs_on_the_slowed_cpus_unless_it_is_asked_not_to() {
    if !has_rights() {
        return;
    }
    let cpu = format!("{}=90%", last_cpu());
    let show = "grep Cpus_allowed_list /proc/self/status";
    let allowed = |options: &[&str]| {
        let arguments =
            [options, &["--no-measure", "--cpu", &cpu, "--", "sh", "-c", show]].concat();
        let output = run(&arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (text.split_whitespace().last().unwrap().to_owned(), stderr(&output))
    };
    assert_eq!(allowed(&[]).0, last_cpu());
    let (all, said) = allowed(&["--unbound"]);
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    if online.trim() == "0" {
        missing!("a second CPU; no command leaves the slowed one");
        return;
    }
    assert!(all != last_cpu() && said.contains("may leave the slowed CPUs"), "{all} {said}");
}

/// A control group of this test's own in a hierarchy, removed when it is dropped.
pub(super) struct Group(PathBuf);

impl Group {
    pub(super) fn new(controller: &str, name: &str) -> Option<Self> {
        // Tests run side by side, and each has a group of its own.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let dir = Path::new("/sys/fs/cgroup").join(controller);
        let dir = dir.join(format!("slow-test-{name}-{process}-{count}"));
        std::fs::create_dir(&dir).ok()?;
        if controller == "cpuset" {
            for file in ["cpuset.mems", "cpuset.cpus"] {
                let all = std::fs::read_to_string(dir.with_file_name(file)).ok()?;
                std::fs::write(dir.join(file), all.trim()).ok()?;
            }
        }
        Some(Self(dir))
    }

    /// One that was made already.
    pub(super) const fn at(dir: PathBuf) -> Self {
        Self(dir)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn take(&self, list: &str, task: &str) {
        std::fs::write(self.0.join(list), task).unwrap();
    }

    /// A shell command that starts inside.
    fn start(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        let script = format!("echo $$ > {}/cgroup.procs; exec {line}", self.0.display());
        command.args(["-c", &script]).stdin(Stdio::null());
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        until(|| std::fs::remove_dir(&self.0).is_ok());
    }
}

/// Processes of a test that end with it.
pub(super) struct Killed(pub(super) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn each_task_returns_to_the_groups_that_it_came_from() {
    let groups = ["freezer", "cpu", "cpuset"].map(|name| Group::new(name, "home"));
    let [Some(freezer), Some(cpu), Some(cpuset)] = &groups else {
        missing!("hierarchies of version 1 that can be written; no return is tested");
        return;
    };
    if !has_rights() {
        return;
    }
    let mut victim = Killed(
        Command::new("sh")
            .args(["-c", "sleep 600 & echo; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    BufReader::new(victim.0.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let shell = victim.0.id().to_string();
    let children =
        || schedlab_sys::process::family(schedlab_model::Pid(victim.0.id().cast_signed()));
    until(|| children().len() == 2);
    let child = children()[1].to_string();
    // The shell alone has groups of its own; its child is elsewhere.
    [freezer, cpu, cpuset].iter().for_each(|group| group.take("cgroup.procs", &shell));
    let of = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let before = (of(&shell), of(&child));
    assert_ne!(before.0, before.1);
    let speed = format!("{}=50%", last_cpu());
    for (method, end) in [("quota", "INT"), ("quota", "KILL"), ("stop", "INT"), ("hogs", "KILL")] {
        let arguments =
            ["attach", "--no-measure", "--method", method, "--cpu", &speed, "--pid", &shell];
        let mut session = slow(&arguments).stderr(Stdio::null()).spawn().unwrap();
        let inside = |pid: &str| of(pid).contains(&format!("schedlab-{}-", session.id()));
        until(|| inside(&shell) && inside(&child) && node(&session).is_object());
        signal(session.id(), end);
        session.wait().unwrap();
        until(|| left(session.id()).is_empty() && (of(&shell), of(&child)) == before);
    }
    signal(child.parse().unwrap(), "KILL");
}

#[test]
fn children_that_are_forked_while_their_parent_is_taken_in_come_too() {
    if !has_rights() || !Path::new("/sys/fs/cgroup/freezer").exists() {
        missing!("a freezer of version 1; no fork races with attaching in this test");
        return;
    }
    // It forks as fast as it can, and its children live on.
    let script = "i=0; while [ $i -lt 150 ]; do sleep 600 & i=$((i+1)); done; echo; wait";
    let mut victim = Command::new("setsid");
    victim.args(["sh", "-c", script]).stdout(Stdio::piped());
    let mut victim = Killed(victim.spawn().unwrap());
    let pid = victim.0.id();
    let arguments = ["attach", "--no-measure", "--cpu", &format!("{}=90%", last_cpu()), "--pid"];
    let mut session = slow(&arguments).arg(pid.to_string()).stderr(Stdio::null()).spawn().unwrap();
    BufReader::new(victim.0.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let family = schedlab_sys::process::family(schedlab_model::Pid(pid.cast_signed()));
    assert_eq!(family.len(), 151);
    let inside = |pid: &schedlab_model::Pid| {
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        groups.lines().any(|line| {
            line.contains(":freezer:") && line.contains(&format!("schedlab-{}-", session.id()))
        })
    };
    until(|| node(&session).is_object() && family.iter().any(inside));
    let outside: Vec<_> = family.iter().filter(|pid| !inside(pid)).collect();
    signal(session.id(), "INT");
    session.wait().unwrap();
    for &pid in &family {
        let _ = schedlab_sys::process::kill(pid, 9);
    }
    assert!(outside.is_empty(), "{} of 151 stayed outside", outside.len());
    until(|| left(session.id()).is_empty());
}

#[test]
fn schedlab_does_not_take_itself_in_and_restore_thaws_what_froze_itself() {
    if !has_rights() {
        return;
    }
    let cpu = format!("{}=90%", last_cpu());
    let above = std::process::id().to_string();
    for pid in ["1", &above] {
        let refused = run(&["attach", "--no-measure", "--cpu", &cpu, "--pid", pid]);
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("schedlab is a child of"), "{}", stderr(&refused));
    }
    let Some(group) = Group::new("freezer", "self") else {
        missing!("a freezer of version 1; nothing freezes itself in this test");
        return;
    };
    let line = format!(
        "{PROGRAM} slow attach --share --no-measure --cpu {cpu} --cgroup {}",
        group.0.display()
    );
    let refused = group.start(&line).output().unwrap();
    let said = stderr(&refused);
    assert!(refused.status.code() == Some(2) && said.contains("schedlab is in"), "{said}");
    // As an older program left it: a session inside of the group that it has frozen.
    let mut session = slow(&["--no-measure", "--cpu", &cpu, "--", "sleep", "600"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until(|| node(&session)["processes"].as_array().is_some_and(|all| !all.is_empty()));
    let id = session.id();
    let zone = format!("/sys/fs/cgroup/freezer/schedlab-{id}-all");
    std::fs::write(format!("{zone}/cgroup.procs"), id.to_string()).unwrap();
    let order = ["slow", "fail", "all", "--session", &id.to_string()];
    let asks = Command::new(PROGRAM).args(order).stderr(Stdio::null()).spawn();
    let _asks = Killed(asks.unwrap());
    let state = || std::fs::read_to_string(format!("{zone}/freezer.state")).unwrap_or_default();
    // Another test's session puts back what it finds, too, so whether it was this call that did is open.
    until(|| {
        let restored = Command::new(PROGRAM).args(["doctor", "--restore"]).output().unwrap();
        let said = String::from_utf8_lossy(&restored.stdout).into_owned();
        let answered = node(&session)["failed"] == true;
        assert!(restored.status.success(), "{said}");
        answered && state().trim() == "THAWED"
    });
    std::fs::write("/sys/fs/cgroup/freezer/cgroup.procs", id.to_string()).unwrap();
    signal(id, "INT");
    session.wait().unwrap();
    until(|| left(id).is_empty());
}

/// A command line on a terminal of its own: what is written to it is typed.
fn on_a_terminal(line: &str) -> Option<Child> {
    let mut script = Command::new("script");
    // The shell is replaced: one that waits gets each Ctrl-C too, and some shells (dash) then die of it at the end.
    let line = format!("exec {line}");
    script.args(["-qefc", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let child = script.spawn().ok();
    if child.is_none() {
        missing!("script of bsdutils; nothing is typed in this test");
    }
    child
}

/// A prompt that goes on after Ctrl-C, says what it reads, and ends on `quit` with exit code 7.
// Ctrl-C would also throw away what was said just before, but for noflsh.
const PROMPT: &str = "stty noflsh; trap 'echo caught' INT; trap 'echo asked; exit 9' TERM; echo listening; \
    while :; do if read -r line; then echo \"read $line\"; [ \"$line\" = quit ] && exit 7; fi; done";

#[test]
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
fn a_prompt_goes_on_after_ctrl_c_and_its_exit_code_is_passed_on() {
    if !has_rights() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let prompt = dir.path().join("prompt.sh");
    std::fs::write(&prompt, PROMPT).unwrap();
    let cpu = format!("{}=90%", last_cpu());
    let line =
        format!("{PROGRAM} slow --share --no-measure --cpu {cpu} -- sh {}", prompt.display());
    let Some(mut terminal) = on_a_terminal(&line) else { return };
    let mut typed = terminal.stdin.take().unwrap();
    let lines = BufReader::new(terminal.stdout.take().unwrap()).lines();
    let (send, read) = channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| send.send(line)));
    let says = |words: &str| {
        let line = std::iter::from_fn(|| read.recv_timeout(super::PATIENCE).ok())
            .find(|line| line.contains(words));
        assert!(line.is_some(), "it never said '{words}'");
    };
    says("listening");
    // More often than this program bears signals from elsewhere.
    for _ in 0..5 {
        typed.write_all(b"\x03").unwrap();
        says("caught");
    }
    // Longer than commands were once given to end.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    typed.write_all(b"still\n").unwrap();
    says("read still");
    typed.write_all(b"quit\n").unwrap();
    says("read quit");
    assert_eq!(terminal.wait().unwrap().code(), Some(7));
}

#[test]
fn signals_to_schedlab_reach_the_command_and_decide_the_exit_code() {
    if !has_rights() {
        return;
    }
    let cpu = format!("{}=90%", last_cpu());
    let start = |script: &str| {
        let arguments = ["--no-measure", "--cpu", &cpu, "--", "sh", "-c", script];
        let mut session = slow(&arguments);
        let mut session = session.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(session.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        (session, lines)
    };
    let waits = "trap 'echo caught' INT; trap 'echo asked; exit 9' TERM; echo ready; \
                 while :; do sleep 0.05; done";
    let (mut session, mut lines) = start(waits);
    for _ in 0..2 {
        signal(session.id(), "INT");
        assert_eq!(lines.next().unwrap().unwrap(), "caught");
    }
    signal(session.id(), "TERM");
    assert_eq!(lines.next().unwrap().unwrap(), "asked");
    assert_eq!(session.wait().unwrap().code(), Some(9), "the command's own");
    let (mut session, _lines) = start("echo ready; exec sleep 600");
    signal(session.id(), "TERM");
    assert_eq!(session.wait().unwrap().code(), Some(143), "as the command was ended");
    let (mut session, _lines) = start("trap '' TERM; echo ready; while :; do sleep 0.1; done");
    signal(session.id(), "TERM");
    assert_eq!(session.wait().unwrap().code(), Some(143), "by the guard, after some patience");
    until(|| left(session.id()).is_empty());
}

/// The state letter of a process.
fn state(pid: i32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('-')
}

#[test]
fn ctrl_z_stops_burners_too_and_the_job_goes_on_later() {
    if !has_rights() {
        return;
    }
    let mark = format!("SCHEDLAB_SLOW_TEST=suspend-{}", std::process::id());
    let (key, value) = mark.split_once('=').unwrap();
    for method in ["hogs", "weight"] {
        let cpu = format!("{}=50%", last_cpu());
        let arguments = ["--no-measure", "--method", method, "--cpu", &cpu, "--", "sleep", "600"];
        // A group of its own below this test: SIGTSTP stops nobody in a group that no shell watches.
        let mut session = slow(&arguments);
        session.env(key, value).stderr(Stdio::null()).process_group(0);
        let mut session = session.spawn().unwrap();
        until(|| node(&session)["processes"].as_array().is_some_and(|all| !all.is_empty()));
        // Listed at each look: a process that has ended meanwhile is in no state at all.
        let all_are = |stopped: bool| {
            let all = super::marked(&mark).into_iter();
            let all = all.filter(|(_, command)| !command.contains("__guard"));
            let states: Vec<bool> = all.map(|(pid, _)| state(pid) == 'T').collect();
            // schedlab, a burner and the command
            states.len() >= 3 && states.iter().all(|&one| one == stopped)
        };
        until(|| all_are(false));
        signal(session.id(), "TSTP");
        until(|| all_are(true));
        signal(session.id(), "CONT");
        until(|| all_are(false));
        signal(session.id(), "INT");
        assert_eq!(session.wait().unwrap().code(), Some(130));
        until(|| left(session.id()).is_empty() && super::marked(&mark).is_empty());
    }
}

#[test]
fn where_no_further_process_may_be_started_it_says_so_and_leaves_nothing() {
    let Some(group) = Group::new("pids", "few") else {
        missing!("the pids controller of version 1; no process is refused in this test");
        return;
    };
    if !has_rights() {
        return;
    }
    let cpu = format!("{}=90%", last_cpu());
    let mut ended = Vec::new();
    for method in ["hogs", "weight", "stop"] {
        for most in 1..8 {
            std::fs::write(group.0.join("pids.max"), most.to_string()).unwrap();
            let line = format!("{PROGRAM} slow --share --method {method} --cpu {cpu} -- true");
            let output = group.start(&line).output().unwrap();
            let (code, said) = (output.status.code(), stderr(&output));
            assert!(!said.contains("panicked"), "{method}, {most} processes: {said}");
            assert!(code == Some(0) || said.contains("starting"), "{method}, {most}: {said}");
            ended.push(code);
        }
    }
    assert!(ended.contains(&Some(1)), "a process was refused: {ended:?}");
}

#[test]
fn where_no_further_thread_may_be_started_commands_do_without_or_say_so() {
    let Some(group) = Group::new("pids", "threads") else {
        missing!("the pids controller of version 1; no thread is refused in this test");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let (dat, target) = (corpus.join("lost.dat"), folder.path().join("x.txt"));
    let sim = folder.path().join("x.toml");
    let text = "machine = \"sim\"\nrepeats = 3\n[workload]\nname = \"hackbench\"\noptions = { loops = 5 }\n";
    std::fs::write(&sim, text).unwrap();
    let lines = [
        format!("trace convert {} {}", dat.display(), target.display()),
        format!("trace compare {} {}", dat.display(), dat.display()),
        "load jobs --nodes 4 --time 20us".to_owned(),
        "load hackbench -g 1 -f 1 -l 5 --beside 'cpu --tasks 1'".to_owned(),
        "jobs run --nodes 4 --time 20us --workers 3 --executor channel".to_owned(),
        "jobs run --nodes 4 --time 20us --workers 3 --executor schedlab".to_owned(),
        "knobs run nice=5 -- true".to_owned(),
        format!("run {} -o {}", sim.display(), folder.path().display()),
    ];
    for line in lines {
        let mut refused = 0;
        for most in 1..6 {
            std::fs::write(group.0.join("pids.max"), most.to_string()).unwrap();
            let _ = std::fs::remove_dir_all(folder.path().join("x"));
            let inside = group.start(&format!("{PROGRAM} {line}"));
            let mut command = Command::new("timeout");
            command.args(["-s", "KILL", "60"]).arg(inside.get_program()).args(inside.get_args());
            let output = command.stdin(Stdio::null()).output().unwrap();
            let (code, said) = (output.status.code(), stderr(&output));
            assert!(!said.contains("panicked"), "{line}, {most} threads: {said}");
            // A limit that is met has a word for it: EAGAIN's, or our own.
            let told =
                said.contains("thread") || said.contains("start") || said.contains("temporarily");
            assert!(
                code == Some(0) || matches!(code, Some(1 | 2)) && told,
                "{line}, {most}: {code:?} {said}"
            );
            refused += u32::from(code != Some(0));
        }
        let spared = line.starts_with("trace compare");
        assert!(refused > 0 || spared, "{line}: nothing was refused");
    }
}

#[test]
fn in_a_cpu_group_without_real_time_speeds_are_measured_and_doctor_says_where_hogs_go() {
    let Some(group) = Group::new("cpu", "fair") else {
        missing!("the CPU controller of version 1; groups without real-time are not tested");
        return;
    };
    let runtime = std::fs::read_to_string(group.0.join("cpu.rt_runtime_us"));
    if !has_rights() || runtime.is_ok_and(|runtime| runtime.trim() != "0") {
        return;
    }
    let line = format!("{PROGRAM} slow --share --json --cpu {}=50% -- true", last_cpu());
    let said = stderr(&group.start(&line).output().unwrap());
    let told = said.lines().find_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    assert_eq!(told.unwrap()["measured"].as_array().unwrap().len(), 1, "{said}");
    if !Path::new("/proc/sys/kernel/sched_rt_runtime_us").exists()
        || !group.0.join("cpu.rt_runtime_us").exists()
    {
        missing!("CONFIG_RT_GROUP_SCHED; what doctor says of it is not tested");
        return;
    }
    let output = group.start(&format!("{PROGRAM} doctor")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("works in the root CPU group"), "{text}");
    // Under version 2 a probe meets such a group with hogs, too.
    let cpu: u16 = last_cpu().parse().unwrap();
    let probe = serde_json::json!({"probe": {"cpu": cpu, "probe": {
        "groups": [group.0], "time": 1_000_000, "align": 0, "realtime": true
    }}});
    let output = Command::new(PROGRAM).args(["__slow", &probe.to_string()]).output().unwrap();
    let reading: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reading["realtime"], false, "{reading}");
    assert!(reading["rounds"].as_u64().unwrap() > 0, "{reading}");
}

#[test]
fn children_that_ended_count_for_a_limit_on_all_together() {
    if !has_rights() {
        return;
    }
    // Each child lives for a moment; alone none of them ever uses a fiftieth of the life of the node.
    let script = "while :; do sh -c 'i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done'; done";
    let speed = format!("{}=2%", last_cpu());
    let arguments =
        ["--no-measure", "--method", "stop-group", "--cpu", &speed, "--", "sh", "-c", script];
    let mut session = slow(&arguments).stderr(Stdio::null()).spawn().unwrap();
    // By then the living ones are far below that.
    until(|| node(&session).is_object());
    std::thread::sleep(std::time::Duration::from_secs(3));
    until(|| {
        let node = node(&session);
        let all = node["processes"].as_array().cloned().unwrap_or_default();
        let pids = all.iter().filter_map(|pid| i32::try_from(pid.as_i64()?).ok());
        pids.map(state).any(|state| state == 'T')
    });
    signal(session.id(), "TERM");
    session.wait().unwrap();
    until(|| left(session.id()).is_empty());
}

#[test]
fn a_second_session_on_a_cpu_is_refused_or_said() {
    if !has_rights() {
        return;
    }
    let cpu = format!("{}=90%", last_cpu());
    let arguments = ["--no-measure", "--cpu", &cpu, "--", "sleep", "600"];
    let mut session = slow(&arguments).stderr(Stdio::null()).spawn().unwrap();
    until(|| node(&session).is_object());
    let mut second = Command::new(PROGRAM);
    let second = second.args(["slow", "--no-measure", "--cpu", &cpu, "--", "echo", "ran"]);
    let refused = second.output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("already slows") && refused.stdout.is_empty());
    let shared = run(&["--no-measure", "--cpu", &cpu, "--", "true"]);
    assert!(shared.status.success() && stderr(&shared).contains("the slower holds"));
    signal(session.id(), "INT");
    session.wait().unwrap();
    until(|| left(session.id()).is_empty());
}

#[test]
fn the_period_follows_the_work_unless_one_is_named() {
    if !has_rights() {
        return;
    }
    for (percent, options, period, why) in [
        // Other tests may wake tasks there: then it is not the longest period.
        (80, &["--method", "hogs"][..], 20_000_000, "since tasks of node all "),
        (80, &["--method", "hogs", "--period", "2ms"], 0, ""),
        // Other tests leave it a fifth of the CPU.
        (15, &["--method", "quota", "--filler", "off"], 20_000_000, "since tasks of node all "),
    ] {
        let cpu = format!("{}={percent}%", last_cpu());
        let arguments = [options, &["--no-measure", "--cpu", &cpu, "--"]].concat();
        let burn = ["sh", "-c", "while :; do :; done"];
        let mut session =
            slow(&[&arguments[..], &burn].concat()).stderr(Stdio::piped()).spawn().unwrap();
        if period == 0 {
            until(|| node(&session).is_object());
            assert!(node(&session)["period"].is_null(), "{}", node(&session));
        } else {
            until(|| node(&session)["period"]["period_ns"].as_u64().is_some_and(|ns| ns >= period));
        }
        signal(session.id(), "TERM");
        let mut said = String::new();
        std::io::Read::read_to_string(&mut session.stderr.take().unwrap(), &mut said).unwrap();
        session.wait().unwrap();
        assert_eq!(said.contains("node all: period "), period > 0, "{said}");
        assert!(said.contains(why) && !said.contains("used only"), "{said}");
        until(|| left(session.id()).is_empty());
    }
}

#[test]
fn a_filler_stops_at_full_speed() {
    if !has_rights() {
        return;
    }
    let (cpu, mark) =
        (format!("{}=100%", last_cpu()), format!("SLOW_FILLER={}", std::process::id()));
    let (key, value) = mark.split_once('=').unwrap();
    let arguments = ["--no-measure", "--method", "quota", "--filler", "on", "--cpu", &cpu, "--"];
    let mut session =
        slow(&[&arguments[..], &["sleep", "600"]].concat()).env(key, value).spawn().unwrap();
    let is_stopped = || {
        let all = super::marked(&mark);
        let (pid, _) = all.iter().find(|(_, command)| command.contains("\"fill\""))?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(stat.rsplit(") ").next()?.starts_with('T'))
    };
    until(|| is_stopped() == Some(true));
    let id = session.id().to_string();
    for (speed, stopped) in [("50%", false), ("100%", true)] {
        let set = run(&["set", &format!("all={speed}"), "--session", &id]);
        assert!(set.status.success(), "{}", stderr(&set));
        until(|| is_stopped() == Some(stopped));
    }
    signal(session.id(), "KILL");
    session.wait().unwrap();
    until(|| left(session.id()).is_empty() && super::marked(&mark).is_empty());
}

#[test]
fn a_speed_alone_places_the_command_and_end_ends_the_session() {
    if !has_rights() {
        return;
    }
    for (speed, why) in [("0%", "more than 0"), ("99999%", "at most"), ("50%", "missing command")] {
        let arguments = if speed == "50%" { vec![speed] } else { vec![speed, "--", "true"] };
        let refused = run(&arguments);
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
    }
    // Other tests slow the last CPU for a while: then there may be no free one.
    let mut session = None;
    until(|| {
        let mut started = slow(&["90%", "--no-measure", "--", "sleep", "600"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until(|| started.try_wait().unwrap().is_some() || node(&started).is_object());
        let runs = started.try_wait().unwrap().is_none();
        session = runs.then_some(started);
        runs
    });
    let mut session = session.unwrap();
    let node = node(&session);
    let speeds = node["speeds"].as_object().unwrap();
    assert!(speeds.len() == 1 && speeds.values().all(|speed| speed == "90%"), "{node}");
    let id = session.id().to_string();
    assert!(run(&["end", "--session", &id]).status.success());
    assert_eq!(session.wait().unwrap().code(), Some(143));
    until(|| left(session.id()).is_empty());
}

#[test]
fn work_of_more_than_one_cpu_is_spread_evenly_over_several() {
    if !has_rights() {
        return;
    }
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    if online.trim() == "0" {
        missing!("a second CPU; 150 % is not tried");
        return;
    }
    // Other tests slow CPUs meanwhile. Where their sessions are not seen, all CPUs are free.
    let unseen = "mount -t tmpfs tmpfs /run && exec \"$0\" \"$@\"";
    let alone = |program: &str, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "sh", "-c", unseen, program]).args(arguments);
        command.stdin(Stdio::null()).output()
    };
    if !alone("true", &[]).is_ok_and(|output| output.status.success()) {
        missing!("a mount namespace; 150 % is not tried");
        return;
    }
    let show = "grep Cpus_allowed_list /proc/self/status";
    let arguments = ["slow", "150%", "--no-measure", "--", "sh", "-c", show];
    let output = alone(PROGRAM, &arguments).unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("each at 75%"), "{}", stderr(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let cpus = printed.split_whitespace().last().unwrap();
    let cpus: schedlab_model::CpuSet = cpus.parse().unwrap();
    assert_eq!(cpus.len(), 2, "{printed}");
}
