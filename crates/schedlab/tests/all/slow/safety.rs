//! What a session tells and survives: tasks that escape it, orders that fail, guardians that die, users without
//! rights, one CPU for everybody, and burners of `SCHED_DEADLINE`.

use super::{
    PATIENCE, PROGRAM, Path, Stdio, guardian, has_rights, last_cpu, left, marked, node, run,
    signal, slow, stderr, until,
};
use schedlab_model::{CpuSet, Pid};
use schedlab_sys::sched::{self, Policy};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Starts a session; the lines of its stderr come as they are written.
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
pub(super) fn session(command: &mut Command) -> (Child, Receiver<String>) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let (lines, read) = (BufReader::new(child.stderr.take().unwrap()).lines(), channel());
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| read.0.send(line)));
    (child, read.1)
}

/// Waits for a line with these words.
fn says(lines: &Receiver<String>, words: &str) -> String {
    std::iter::from_fn(|| lines.recv_timeout(PATIENCE).ok())
        .find(|line| line.contains(words))
        .unwrap_or_else(|| panic!("it never said '{words}'"))
}

pub(super) fn end(mut session: Child) {
    signal(session.id(), "INT");
    session.wait().unwrap();
    until(|| left(session.id()).is_empty());
}

#[test]
fn a_command_that_makes_itself_real_time_is_told() {
    if !has_rights() {
        return;
    }
    let cpu = format!("{}=90%", last_cpu());
    let script = "sleep 0.2; exec chrt -f 10 sleep 600";
    let arguments = ["--no-measure", "--method", "hogs", "--cpu", &cpu, "--", "sh", "-c", script];
    let (session, lines) = session(&mut slow(&arguments));
    let said = says(&lines, "real-time of a priority");
    // It is `chrt` for the moment between becoming real-time and becoming `sleep`.
    let name = ["sleep (thread ", "chrt (thread "].into_iter().any(|name| said.contains(name));
    assert!(name && said.contains("full speed"), "{said}");
    end(session);
    assert!(!lines.iter().any(|line| line.contains("real-time of")), "it is told once");
}

#[test]
fn an_order_that_fails_is_told_to_both_sides_and_changes_nothing() {
    let home = Path::new("/sys/fs/cgroup/cpu");
    let parent = home.join(format!("slow-test-{}", std::process::id()));
    if !has_rights() || std::fs::create_dir(&parent).is_err() {
        missing!("the CPU controller of version 1; no order fails in this test");
        return;
    }
    // No group may have more than the one above it: 80 % below 50 % is refused by the kernel alone.
    std::fs::write(parent.join("cpu.cfs_quota_us"), "50000").unwrap();
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec {PROGRAM} slow --share --no-measure --method quota --cpu {}=30% -- sleep 600",
        parent.display(),
        last_cpu()
    );
    let (session, lines) = session(Command::new("sh").args(["-c", &script]));
    let id = session.id().to_string();
    let status = || String::from_utf8(run(&["status"]).stdout).unwrap();
    until(|| status().contains(&format!("session {id},")));
    let refused = run(&["set", "all=80%", "--session", &id]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("cpu.cfs_quota_us"), "{}", stderr(&refused));
    says(&lines, "an order for node all failed");
    // A session that is held up does not answer: one that is asked again does.
    until(|| {
        // Warnings name other sessions, too, but not at the start of a line.
        let text = format!("\n{}", status());
        let mine = text.split("\nsession ").find(|part| part.starts_with(&format!("{id},")));
        mine.is_some_and(|mine| mine.contains("=30%") && mine.contains("mind: an order"))
    });
    end(session);
    until(|| std::fs::remove_dir(&parent).is_ok());
}

#[test]
fn a_guardian_that_dies_is_replaced_and_the_next_one_does_its_duty() {
    if !has_rights() {
        return;
    }
    let cpu = format!("{}=50%", last_cpu());
    let arguments = ["--no-measure", "--method", "stop", "--cpu", &cpu, "--", "sleep", "600"];
    let (mut session, lines) = session(&mut slow(&arguments));
    // In force: a guardian that dies before is a start that failed.
    until(|| node(&session)["processes"].as_array().is_some_and(|all| !all.is_empty()));
    let first = guardian(session.id()).unwrap();
    signal(first, "KILL");
    says(&lines, "the guardian process died and was replaced");
    until(|| guardian(session.id()).is_some_and(|next| next != first));
    session.kill().unwrap();
    session.wait().unwrap();
    until(|| left(session.id()).is_empty());
}

#[test]
fn a_guardian_is_replaced_at_once_so_that_a_kill_soon_after_leaves_nothing() {
    if !has_rights() {
        return;
    }
    let cpu = format!("{}=50%", last_cpu());
    for method in ["hogs", "quota"] {
        let arguments = ["--no-measure", "--method", method, "--cpu", &cpu, "--", "sleep", "600"];
        let (mut session, _lines) = session(&mut slow(&arguments));
        until(|| node(&session)["processes"].as_array().is_some_and(|all| !all.is_empty()));
        let first = guardian(session.id()).unwrap();
        signal(first, "KILL");
        // Nobody asks the session for anything meanwhile, which would wake it.
        until(|| guardian(session.id()).is_some_and(|next| next != first));
        session.kill().unwrap();
        session.wait().unwrap();
        until(|| left(session.id()).is_empty());
    }
}

#[test]
fn a_burner_or_noise_that_is_killed_ends_the_session_with_an_error() {
    if !has_rights() {
        return;
    }
    let (cpu, noise) = (format!("{}=50%", last_cpu()), format!("{}:20:1ms", last_cpu()));
    for (method, what, name) in [
        ("weight", "\"burn\"", "the burner of CPU"),
        ("hogs", "\"noise\"", "the noise on CPUs"),
        ("hogs", "\"hogs\"", "the hogs' process"),
    ] {
        let mark = format!("SCHEDLAB_SLOW_TEST=aide-{}", std::process::id());
        let (key, value) = mark.split_once('=').unwrap();
        let arguments = [
            "--no-measure",
            "--method",
            method,
            "--cpu",
            &cpu,
            "--noise",
            &noise,
            "--",
            "sleep",
            "600",
        ];
        let (mut session, lines) = session(slow(&arguments).env(key, value));
        until(|| marked(&mark).iter().any(|(_, command)| command.starts_with("sleep")));
        let aide = marked(&mark).into_iter().find(|(_, command)| command.contains(what)).unwrap();
        signal(aide.0.cast_unsigned(), "KILL");
        assert!(says(&lines, "died").contains(name));
        assert_eq!(session.wait().unwrap().code(), Some(1));
        until(|| left(session.id()).is_empty() && marked(&mark).is_empty());
    }
}

#[test]
fn what_is_left_when_the_guardian_dies_too_is_put_back_by_the_next_start() {
    if !has_rights() || !Path::new("/sys/fs/cgroup/freezer").exists() {
        missing!("control groups of version 1; nothing is left behind in this test");
        return;
    }
    let mark = format!("SCHEDLAB_SLOW_TEST=both-{}", std::process::id());
    let (key, value) = mark.split_once('=').unwrap();
    let cpu = format!("{}=50%", last_cpu());
    let arguments = ["--no-measure", "--method", "quota", "--cpu", &cpu, "--", "sleep", "600"];
    let (mut session, _lines) = session(slow(&arguments).env(key, value));
    until(|| marked(&mark).iter().any(|(_, command)| command.starts_with("sleep")));
    // It stands still, so that it cannot replace its guardian.
    signal(session.id(), "STOP");
    signal(guardian(session.id()).unwrap(), "KILL");
    session.kill().unwrap();
    session.wait().unwrap();
    until(|| marked(&mark).is_empty());
    let next = run(&["--no-measure", "--method", "stop", "--cpu", &cpu, "--", "true"]);
    assert!(next.status.success(), "{}", stderr(&next));
    // Another test's session may have been the next one, and be about it just now.
    until(|| left(session.id()).is_empty());
}

#[test]
fn what_stopping_grants_is_measured_and_the_command_runs_then() {
    // The probe is stopped and continued like any other process; were it never continued, it would
    // run for ever.
    let (cpu, limit) = (format!("{}=25%", last_cpu()), PATIENCE);
    let mut child = slow(&["--method", "stop", "--cpu", &cpu, "--", "true"]);
    let mut child = child.stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it was still measuring after {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("asked 25%, granted"), "{}", stderr(&output));
}

#[test]
fn without_rights_a_refusal_says_what_is_missing_and_stopping_works() {
    if !has_rights() || Command::new("setpriv").arg("--version").output().is_err() {
        missing!("root and setpriv; a user without rights is not tested");
        return;
    }
    // A copy where everybody may read.
    let dir = tempfile::Builder::new().prefix("slow-nobody").tempdir_in("/tmp").unwrap();
    let program = dir.path().join("schedlab");
    std::fs::copy(PROGRAM, &program).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), mode).unwrap();
    let nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--inh-caps",
            "-all",
        ]);
        command
            .arg("--bounding-set")
            .args(["-all", "timeout", "120"])
            .arg(&program)
            // Another test may slow the CPU as the same user.
            .args(["slow", "--share"])
            .args(arguments);
        command
            .current_dir("/")
            .env_remove("XDG_RUNTIME_DIR")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let cpu = format!("{}=50%", last_cpu());
    for (method, why) in
        [("hogs", "CAP_SYS_NICE"), ("weight", "root"), ("quota", "root"), ("deadline", "root")]
    {
        let output = nobody(&["--cpu", &cpu, "--method", method, "--", "echo", "ran"]);
        assert_eq!(output.status.code(), Some(1), "{method}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{method}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{method}: nothing was started");
    }
    // With measuring: the probe is stopped and continued by a limiter that has to look for it in /proc.
    for (speed, options) in [(&cpu, &["--no-measure"][..]), (&format!("{}=25%", last_cpu()), &[])] {
        let arguments = [options, &["--cpu", speed, "--", "echo", "ran"]].concat();
        let output = nobody(&arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).contains("method stop"), "{}", stderr(&output));
        assert_eq!(output.stdout, b"ran\n");
    }
}

/// One CPU for the slowed command, its hog at the slowest, and somebody who has to get on there.
#[test]
fn on_one_cpu_others_get_on_beside_the_slowest_hog() {
    if !has_rights() {
        return;
    }
    let cpu = last_cpu();
    let slowest = format!("{cpu}=10%");
    let script = "while :; do :; done";
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu, PROGRAM, "slow", "--share", "--no-measure", "--method", "hogs"]);
    command.args(["--cpu", &slowest, "--time-limit", "10min", "--", "sh", "-c", script]);
    let mut session = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(|| left(session.id()).len() > 1);
    // A shell that forks and waits, as somebody does who looks for the session to end it.
    let rounds = "i=0; while [ $i -lt 20 ]; do sleep 0.001; i=$((i+1)); done; echo done";
    let shell = Command::new("taskset").args(["-c", &cpu, "sh", "-c", rounds]).output().unwrap();
    assert_eq!(shell.stdout, b"done\n");
    assert!(session.try_wait().unwrap().is_none(), "the session was in force all the time");
    signal(session.id(), "INT");
    session.wait().unwrap();
    until(|| left(session.id()).is_empty());
}

/// Starts a session with a deadline burner at 50 %, changes its speed three times, and kills it; looks at the
/// burner's runtime each time. What the session said, when it ended by itself.
fn changes_of_a_deadline_burner(cpu: &str, mark: &str) -> Result<(), String> {
    let half = format!("{cpu}=50%");
    let (key, value) = mark.split_once('=').unwrap();
    let arguments = ["--no-measure", "--method", "deadline", "--cpu", &half, "--", "sleep", "600"];
    let mut session = slow(&arguments).env(key, value).stderr(Stdio::piped()).spawn().unwrap();
    let runtime = || {
        let all = marked(mark);
        let (pid, _) = all.iter().find(|(_, command)| command.contains("\"deadline\""))?;
        schedlab_sys::process::threads(Pid(*pid)).into_iter().find_map(|thread| {
            match sched::get(thread).ok()?.policy {
                Policy::Deadline { runtime, period, .. } => {
                    let bound: CpuSet = sched::affinity(thread).ok()?;
                    Some((bound.to_string(), runtime.0 * 100 / period.0))
                }
                _ => None,
            }
        })
    };
    let id = session.id().to_string();
    let mut all_came = true;
    for (speed, part) in [(None, 50), (Some("75%"), 25), (Some("100%"), 0), (Some("30%"), 70)] {
        let order = speed.map(|speed| run(&["set", &format!("all={speed}"), "--session", &id]));
        let wanted = (part > 0).then(|| (cpu.to_owned(), part));
        let taken = order.is_none_or(|order| order.status.success());
        let mut ended = false;
        until(|| {
            ended = session.try_wait().unwrap().is_some();
            ended || (taken && runtime() == wanted)
        });
        if ended {
            all_came = false;
            break;
        }
    }
    let _ = session.kill();
    session.wait().unwrap();
    until(|| left(session.id()).is_empty() && marked(mark).is_empty());
    if all_came {
        return Ok(());
    }
    let mut said = String::new();
    session.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    Err(said)
}

#[test]
fn deadline_burners_have_their_runtime_and_leave_no_trace() {
    let cpu = last_cpu();
    let half = format!("{cpu}=50%");
    let had = || run(&["--no-measure", "--method", "deadline", "--cpu", &half, "--", "true"]);
    let mut probe = had();
    // Another test's cpuset that spans CPUs is gone in a moment.
    for _ in 0..20 {
        if probe.status.success() || !stderr(&probe).contains("root domain") {
            break;
        }
        std::thread::sleep(Duration::from_millis(250));
        probe = had();
    }
    if !probe.status.success() {
        missing!("deadline burners: {}", stderr(&probe));
        return;
    }
    let balance = || std::fs::read_to_string("/sys/fs/cgroup/cpuset/cpuset.sched_load_balance");
    let before = balance().ok();
    // A cpuset of somebody else that spans CPUs, as other tests make them, ends a session when it comes
    // before a new speed: then it is told why, and all begins again.
    let whole = (0..20).any(|turn| {
        let mark = format!("SCHEDLAB_SLOW_TEST=deadline-{}-{turn}", std::process::id());
        let ended = changes_of_a_deadline_burner(&cpu, &mark);
        if let Err(why) = &ended {
            let refused = ["the kernel refuses a deadline burner", "making a deadline burner"];
            assert!(refused.iter().any(|words| why.contains(words)), "{why}");
            eprintln!("once more: {why}");
            std::thread::sleep(Duration::from_millis(500));
        }
        ended.is_ok()
    });
    assert!(whole, "another cpuset spanned the CPUs each time");
    until(|| balance().ok() == before);
    // Whoever could not have it is told why, before anything is changed.
    for (arguments, code, why) in
        [(["--cpu", "0=5%"], 2, "90%"), (["--cpu", "65000=50%"], 2, "unknown CPU")]
    {
        let refused = run(&[&["--method", "deadline"], &arguments[..]].concat());
        assert_eq!(refused.status.code(), Some(code));
        assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
    }
}
