//! What `slow attach` is given: units, containers, names; and attaching and process trees without root.

use super::task::{Group, Killed};
use super::unified::{alone, group};
use super::{
    PROGRAM, Path, Stdio, has_rights, last_cpu, left, node, run, signal, slow, stderr, until,
};
use std::process::Command;

#[test]
fn what_is_not_there_is_refused_with_how_to_find_it() {
    for (arguments, why) in [
        (vec!["unit:no-such-unit"], "systemctl status no-such-unit"),
        (vec!["container:0000dead"], "docker ps"),
        (vec!["no-such-process-name"], "no process has the name 'no-such-process-name'"),
        (vec!["pod:web"], "unknown kind 'pod:'"),
        (vec!["99999999"], "process 99999999 does not exist"),
        (vec![], "use unit:NAME"),
    ] {
        let cpu = format!("{}=90%", last_cpu());
        let output = run(&[&["attach", "--cpu", &cpu], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{arguments:?}: {}", stderr(&output));
    }
    let us = std::process::id().to_string();
    for (arguments, why) in [
        (vec!["attach", "40%", "50%", us.as_str()], "two speeds"),
        (vec!["attach", "40%", "--cpu", "0=50%", us.as_str()], "leave out --cpu"),
        (vec!["attach", us.as_str()], "missing CPU"),
    ] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn a_unit_a_container_and_a_name_are_taken_in() {
    if !has_rights() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let id = format!("{:064x}", std::process::id());
    let unit = format!("slow-test-{}", std::process::id());
    let program = dir.path().join(&unit);
    std::fs::copy("/bin/sleep", &program).unwrap();
    let group = |below: &str| {
        let homes = ["systemd", "freezer", ""].map(|home| Path::new("/sys/fs/cgroup").join(home));
        homes.iter().find_map(|home| {
            let dir = home.join(below);
            std::fs::create_dir(&dir).ok().filter(|()| dir.join("cgroup.procs").exists())?;
            Some(Group::at(dir))
        })
    };
    let of_unit = group(&format!("{unit}.service"));
    let of_container = group(&format!("docker-{id}.scope"));
    let (Some(of_unit), Some(of_container)) = (of_unit, of_container) else {
        missing!("a control group that can be made; no unit is attached");
        return;
    };
    let target = |kind: &str, name: &str| format!("{kind}:{name}");
    for (target, home) in [
        (target("unit", &unit), Some(&of_unit)),
        (target("container", &id[..60]), Some(&of_container)),
        (unit.clone(), None),
    ] {
        let mut victim = Killed(Command::new(&program).arg("600").spawn().unwrap());
        let pid = victim.0.id().to_string();
        if let Some(home) = home {
            home.take("cgroup.procs", &pid);
        }
        let cpu = format!("{}=90%", last_cpu());
        let arguments = ["attach", "--no-measure", "--cpu", &cpu, &target];
        let mut session = slow(&arguments).stderr(Stdio::null()).spawn().unwrap();
        until(|| {
            let processes = node(&session)["processes"].as_array().cloned().unwrap_or_default();
            processes.iter().any(|one| one.as_u64() == Some(u64::from(victim.0.id())))
        });
        signal(session.id(), "INT");
        assert_eq!(session.wait().unwrap().code(), Some(130), "{target}");
        until(|| left(session.id()).is_empty());
        assert!(victim.0.try_wait().unwrap().is_none(), "{target}: it lives on");
    }
}

/// Closes the standard input of what waits for its end.
fn release(victim: &mut Killed) {
    drop(victim.0.stdin.take());
    victim.0.wait().unwrap();
}

/// A shell with a child, both of which end with its standard input.
fn waits() -> Killed {
    let mut shell = Command::new("sh");
    // A shell gives its children in the background another standard input.
    shell.args(["-c", "exec 3<&0; (read line <&3) & wait"]);
    Killed(shell.stdin(Stdio::piped()).spawn().unwrap())
}

#[test]
fn a_session_that_attaches_ends_when_all_that_it_took_in_has_ended() {
    if !has_rights() {
        return;
    }
    let (mut first, mut second) = (waits(), waits());
    let [a, b] = [&first, &second].map(|victim| victim.0.id().to_string());
    let cpu = format!("{}=90%", last_cpu());
    let arguments = ["attach", "--no-measure", "--cpu", &cpu, "--pid", &a, "--pid", &b];
    let session = slow(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    let pid = session.id();
    let holds = |victim: &Killed| {
        let processes = node(&session)["processes"].as_array().cloned().unwrap_or_default();
        processes.iter().any(|one| one.as_u64() == Some(u64::from(victim.0.id())))
    };
    until(|| holds(&first) && holds(&second));
    release(&mut first);
    // One is left: the session goes on, and says who is in it.
    until(|| !holds(&first) && holds(&second));
    release(&mut second);
    let output = session.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("all that was attached has ended"), "{}", stderr(&output));
    until(|| left(pid).is_empty());
}

/// A shell command line that becomes a user without rights, who is in `group` where there is one.
fn nobody(program: &Path, group: Option<&Path>, arguments: &[&str]) -> Command {
    let enter = group.map(|group| format!("echo $$ > {}/cgroup.procs; ", group.display()));
    let script = format!(
        "{}exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps -all \
         --bounding-set -all \"$0\" \"$@\"",
        enter.unwrap_or_default()
    );
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg(program).arg("slow").args(arguments);
    command.current_dir("/").env_remove("XDG_RUNTIME_DIR").stdin(Stdio::null());
    command
}

/// A copy of the program where everybody may read; `None`, said aloud, without the means to become another user.
fn for_nobody() -> Option<(tempfile::TempDir, std::path::PathBuf)> {
    if !has_rights() || Command::new("setpriv").arg("--version").output().is_err() {
        missing!("root and setpriv; a user without rights is not tested");
        return None;
    }
    let dir = tempfile::Builder::new().prefix("slow-nobody").tempdir_in("/tmp").unwrap();
    let program = dir.path().join("schedlab");
    std::fs::copy(PROGRAM, &program).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), mode).unwrap();
    Some((dir, program))
}

fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().to_owned());
    rest.and_then(|rest| rest.chars().next()).unwrap_or('-')
}

#[test]
fn without_root_ones_own_process_can_be_attached_and_another_users_is_refused() {
    let Some((_dir, program)) = for_nobody() else { return };
    let mut burn = Command::new("setpriv");
    burn.args(["--reuid", "65534", "--clear-groups", "sh", "-c", "while :; do :; done"]);
    let victim = Killed(burn.spawn().unwrap());
    let pid = victim.0.id();
    let cpu = format!("{}=3%", last_cpu());
    let arguments = ["attach", "--no-measure", "--cpu", &cpu, "--share", "--time-limit", "5min"];
    let mine = pid.to_string();
    let mut command = nobody(&program, None, &[&arguments[..], &[mine.as_str()]].concat());
    let session = Killed(command.stderr(Stdio::null()).spawn().unwrap());
    until(|| state(pid) == 'T');
    let session_pid = session.0.id();
    drop(session);
    until(|| state(pid) == 'R' && left(session_pid).is_empty());
    // Where it is not moved into a group either, the session ends with it.
    let mut command = nobody(&program, None, &[&arguments[..], &[mine.as_str()]].concat());
    let session = command.stderr(Stdio::piped()).spawn().unwrap();
    until(|| state(pid) == 'T');
    drop(victim);
    let output = session.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("all that was attached has ended"), "{}", stderr(&output));
    let other = Killed(Command::new("sleep").arg("600").spawn().unwrap());
    let other = other.0.id().to_string();
    let arguments = [&arguments[..], &[other.as_str()]].concat();
    let refused = nobody(&program, None, &arguments).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("belongs to another user"), "{}", stderr(&refused));
}

#[test]
fn sessions_of_different_users_see_each_other() {
    let Some((_dir, program)) = for_nobody() else { return };
    let cpu = format!("{}=50%", last_cpu());
    let words = ["--no-measure", "--method", "stop", "--cpu", &cpu, "--", "sleep", "600"];
    let mut command = nobody(&program, None, &[&["--share"][..], &words].concat());
    let theirs = Killed(command.stderr(Stdio::null()).spawn().unwrap());
    let ours = Killed(slow(&words).stderr(Stdio::null()).spawn().unwrap());
    let said = |mut command: Command| String::from_utf8(command.output().unwrap().stdout).unwrap();
    let session = |of: &Killed| format!("\nsession {} of user ", of.0.id());
    until(|| format!("\n{}", said(slow(&["status"]))).contains(&session(&theirs)));
    let status = || said(nobody(&program, None, &["status"]));
    until(|| format!("\n{}", status()).contains(&(session(&ours) + "root: CPUs ")));
    let alone = ["--no-measure", "--method", "stop", "--cpu", &cpu, "--", "true"];
    let refused = nobody(&program, None, &alone).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("already slows CPU"), "{}", stderr(&refused));
}

#[test]
fn a_group_of_version_2_that_was_given_to_a_user_holds_and_freezes_a_tree() {
    let Some(group) = group() else { return };
    let Some((_dir, program)) = for_nobody() else { return };
    // As systemd does with Delegate=yes.
    for name in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
        std::os::unix::fs::chown(group.path().join(name), Some(65_534), Some(65_534)).unwrap();
    }
    let name = group.path().file_name().unwrap().to_owned();
    let inside = Path::new("/sys/fs/cgroup").join(&name);
    let cpu = format!("{}=3%", last_cpu());
    let tree = "while :; do :; done & while :; do :; done";
    let arguments = ["--no-measure", "--share", "--cpu", &cpu, "--", "sh", "-c", tree];
    let command = nobody(&program, Some(&inside), &arguments);
    let mut command = alone(&command);
    let said = tempfile::NamedTempFile::new().unwrap();
    let session =
        command.current_dir("/").env_remove("XDG_RUNTIME_DIR").stderr(said.reopen().unwrap());
    let mut session = Killed(session.spawn().unwrap());
    let below = || {
        let entries = std::fs::read_dir(group.path()).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).find(|path| path.is_dir())
    };
    let read = |file: &str| {
        let text = below().map(|dir| std::fs::read_to_string(dir.join(file)));
        text.and_then(Result::ok).unwrap_or_default()
    };
    // Both loops are in the group, it stands still and goes on, and nobody was sent a signal.
    crate::patience::eventually(|| match read("cgroup.procs").lines().count() {
        0 | 1 => Err(std::fs::read_to_string(said.path()).unwrap_or_default()),
        _ => Ok(()),
    });
    until(|| read("cgroup.freeze").trim() == "1");
    let pids: Vec<u32> = read("cgroup.procs").lines().filter_map(|p| p.parse().ok()).collect();
    assert!(pids.iter().all(|pid| state(*pid) != 'T'), "{pids:?}");
    until(|| read("cgroup.freeze").trim() == "0");
    let name = below().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    let schedlab: u32 = name.split('-').nth(1).unwrap().parse().unwrap();
    signal(schedlab, "KILL");
    session.0.wait().unwrap();
    until(|| below().is_none() && pids.iter().all(|pid| state(*pid) == '-'));
}
